//! The core library (XPath 1.0, section 4): dispatch, node-set functions, boolean and number functions.

use std::ops::ControlFlow;

use super::val::{Str, Val};
use crate::number::round;
use crate::syntax::{Core, Op};
use crate::{Error, Evaluation, Node, NodeKind, text_number};

impl<'a> Evaluation<'a> {
    /// Calls a function of XPath itself. The compiler has checked the number of arguments.
    pub(super) fn core<'v>(
        &mut self,
        function: Core,
        arguments: &'v [Op],
        offset: u32,
    ) -> Result<Val<'v>, Error>
    where
        'a: 'v,
    {
        self.charge(1)?;
        match (function, arguments) {
            (Core::Last, _) => Ok(Val::Number(f64::from(self.focus.size))),
            (Core::Position, _) => Ok(Val::Number(f64::from(self.focus.position))),
            (Core::True, _) => Ok(Val::Boolean(true)),
            (Core::False, _) => Ok(Val::Boolean(false)),
            (Core::Count, [nodes]) => Ok(Val::Number(self.count(nodes)?)),
            (Core::Sum, [nodes]) => Ok(Val::Number(self.sum(nodes)?)),
            (Core::Id, [names]) => Ok(Val::Nodes(self.ids(names)?)),
            (Core::LocalName, [nodes]) => {
                self.named(nodes, |documents, node| documents.name(node).local)
            }
            (Core::NamespaceUri, [nodes]) => {
                self.named(nodes, |documents, node| documents.name(node).namespace.uri)
            }
            (Core::Name, [nodes]) => self.qualified(nodes),
            (Core::Boolean, [value]) => Ok(Val::Boolean(self.boolean(value)?)),
            (Core::Not, [value]) => Ok(Val::Boolean(!self.boolean(value)?)),
            (Core::Lang, [wanted]) => Ok(Val::Boolean(self.lang(wanted)?)),
            (Core::Number, [value]) => Ok(Val::Number(self.number(value)?)),
            (Core::Floor, [value]) => Ok(Val::Number(self.number(value)?.floor())),
            (Core::Ceiling, [value]) => Ok(Val::Number(self.number(value)?.ceil())),
            (Core::Round, [value]) => Ok(Val::Number(round(self.number(value)?))),
            (Core::String, [value]) => Ok(Val::Text(self.text(value)?)),
            (function, arguments) => match self.strings(function, arguments)? {
                Some(value) => Ok(value),
                None => self.more(function, arguments, offset),
            },
        }
    }

    fn count(&mut self, op: &Op) -> Result<f64, Error> {
        if let Op::Path(path) = op {
            let mut count = 0_u32;
            self.path_each(path, &mut |_, _| {
                count = count.saturating_add(1);
                Ok(ControlFlow::Continue(()))
            })?;
            return Ok(f64::from(count));
        }
        let count = self.nodes(op)?.len();
        Ok(u32::try_from(count).map_or(f64::INFINITY, f64::from))
    }

    fn sum(&mut self, op: &Op) -> Result<f64, Error> {
        let mut sum = 0.0;
        for node in self.nodes(op)? {
            sum += text_number(self.string_value(node)?.as_str());
        }
        Ok(sum)
    }

    fn ids(&mut self, op: &Op) -> Result<Vec<Node>, Error> {
        let value = self.value(op)?;
        let mut found = Vec::new();
        match value.as_nodes() {
            Some(nodes) => {
                for &node in nodes {
                    let names = self.string_value(node)?;
                    found.extend(self.elements_by_id(self.focus.node, names.as_str()));
                }
            }
            None => found = self.elements_by_id(self.focus.node, &value.to_text(self.documents)),
        }
        crate::value::sort(&mut found);
        Ok(found)
    }

    /// Returns the elements in the document of `node` whose ids are in a list separated by white space.
    pub(crate) fn elements_by_id(&self, node: Node, ids: &str) -> Vec<Node> {
        let document = self.documents.of(node);
        ids.split([' ', '\t', '\r', '\n'])
            .filter(|id| !id.is_empty())
            // Harmless: an id that no element has selects none (XPath 1.0, 4.1).
            .filter_map(|id| document.element_by_id(id))
            .map(|id| node.with(id))
            .collect()
    }

    fn named<'v>(
        &mut self,
        nodes: &Op,
        part: impl FnOnce(&'a crate::DocumentSet, Node) -> &'a str,
    ) -> Result<Val<'v>, Error>
    where
        'a: 'v,
    {
        let node = self.first(nodes)?;
        Ok(Val::Text(Str::Borrowed(node.map_or("", |node| part(self.documents, node)))))
    }

    fn qualified<'v>(&mut self, nodes: &Op) -> Result<Val<'v>, Error>
    where
        'a: 'v,
    {
        let Some(node) = self.first(nodes)? else { return Ok(Val::Text(Str::Borrowed(""))) };
        let name = self.documents.name(node);
        Ok(Val::Text(match name.prefix {
            "" => Str::Borrowed(name.local),
            prefix => Str::Owned(format!("{prefix}:{}", name.local)),
        }))
    }

    /// Evaluates `lang()`: whether the nearest `xml:lang` is the wanted language or a sublanguage of it.
    fn lang(&mut self, wanted: &Op) -> Result<bool, Error> {
        let wanted = self.text(wanted)?;
        let wanted = wanted.as_str().as_bytes();
        let mut above = Some(self.focus.node);
        while let Some(node) = above {
            self.charge(1)?;
            if self.documents.kind(node) == NodeKind::Element
                && let Some(given) =
                    self.documents.of(node).attribute(node.id, xml::XML_NAMESPACE, "lang")
            {
                let (start, rest) =
                    given.as_bytes().split_at_checked(wanted.len()).unwrap_or((b"", b""));
                let same = given.len() >= wanted.len() && start.eq_ignore_ascii_case(wanted);
                return Ok(same && matches!(rest.first(), None | Some(b'-')));
            }
            above = self.documents.parent(node);
        }
        Ok(false)
    }
}
