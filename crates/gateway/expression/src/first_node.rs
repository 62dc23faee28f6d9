//! Finds the first node that a plain path selects, while the document is parsed.
//!
//! A plain path has steps down from the root that need only what the parser reports of a node. The whole document is parsed, so that the
//! result, or the error, is the same as with a tree.

use xml::{Here, QName, Sink, Start};
use xpath::{NodeKind, Selection, StreamNode};

use crate::{Budget, FailureKind};

/// A path to search for.
#[derive(Debug)]
pub(crate) struct Search {
    path: Selection,
}

impl Search {
    /// Returns the search, or `None` if the path needs a tree.
    pub(crate) fn of(path: Selection) -> Option<Search> {
        let plain = path.from_root && !path.below.is_empty() && path.attributes.is_empty();
        plain.then_some(Search { path })
    }

    /// Returns the string-value of the first node, or `None` if there is no such node.
    pub(crate) fn first(
        &self,
        bytes: &[u8],
        budget: &mut Budget,
    ) -> Result<Option<String>, FailureKind> {
        budget.text(bytes.len())?;
        let mut reading =
            PathReader { path: &self.path, depth: 0, steps: 0, found: FirstNode::Nothing };
        xml::parse(bytes, &xml::Options::default(), &mut reading)
            .map_err(|error| FailureKind::Malformed(error.to_string().into()))?;
        match reading.found {
            FirstNode::Nothing => Ok(None),
            FirstNode::Part { text, .. } | FirstNode::Whole(text) => Ok(Some(text)),
        }
    }
}

struct PathReader<'s> {
    path: &'s Selection,
    /// Number of open elements.
    depth: usize,
    /// Number of steps of the path that the open elements match, counted from the root.
    steps: usize,
    found: FirstNode,
}

/// What is known about the first node.
enum FirstNode {
    Nothing,
    /// The node is open.
    Part {
        of: NodeKind,
        text: String,
    },
    Whole(String),
}

impl PathReader<'_> {
    /// Handles the start of a node. If the node has a value, it is complete.
    fn node(&mut self, told: &StreamNode<'_>) {
        let depth = self.depth;
        let asked = self.path.below.get(depth).filter(|_| self.steps == depth);
        let fits = asked.is_some_and(|asked| asked.iter().any(|asked| asked.accepts(told)));
        if !matches!(self.found, FirstNode::Nothing) || !fits {
            return;
        }
        if told.kind == NodeKind::Element {
            self.steps += 1;
        }
        if depth + 1 == self.path.below.len() {
            self.found = match told.value {
                Some(value) => FirstNode::Whole(value.to_owned()),
                None => FirstNode::Part { of: told.kind, text: String::new() },
            };
        }
    }

    /// Ends the open node, if it is of that kind.
    fn end_of(&mut self, kind: NodeKind) {
        if let FirstNode::Part { of, text } = &mut self.found
            && *of == kind
        {
            self.found = FirstNode::Whole(std::mem::take(text));
        }
    }
}

impl Sink for PathReader<'_> {
    type Error = xml::Error;

    fn start(&mut self, start: &Start<'_>, _: Here<'_>) -> Result<(), xml::Error> {
        self.end_of(NodeKind::Text);
        let (kind, attributes) = (NodeKind::Element, Some(start.attributes));
        self.node(&StreamNode { kind, name: start.name, value: None, attributes });
        self.depth += 1;
        Ok(())
    }

    fn text(&mut self, text: &str, _: bool, _: Here<'_>) -> Result<(), xml::Error> {
        let kind = NodeKind::Text;
        self.node(&StreamNode { kind, name: QName::NONE, value: None, attributes: None });
        if let FirstNode::Part { text: so_far, .. } = &mut self.found {
            so_far.push_str(text);
        }
        Ok(())
    }

    fn end(&mut self, _: QName<'_>, _: Here<'_>) -> Result<(), xml::Error> {
        self.depth = self.depth.saturating_sub(1);
        self.end_of(NodeKind::Text);
        if self.steps > self.depth {
            self.steps = self.depth;
            self.end_of(NodeKind::Element);
        }
        Ok(())
    }

    fn comment(&mut self, text: &str, _: Here<'_>) -> Result<(), xml::Error> {
        self.end_of(NodeKind::Text);
        let kind = NodeKind::Comment;
        self.node(&StreamNode { kind, name: QName::NONE, value: Some(text), attributes: None });
        Ok(())
    }

    fn instruction(&mut self, target: &str, data: &str, _: Here<'_>) -> Result<(), xml::Error> {
        self.end_of(NodeKind::Text);
        let (kind, name) = (NodeKind::Instruction, QName { local: target, ..QName::NONE });
        self.node(&StreamNode { kind, name, value: Some(data), attributes: None });
        Ok(())
    }
}
