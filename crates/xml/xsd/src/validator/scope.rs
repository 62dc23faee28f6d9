//! A common interface to start tags of a parser and elements of a tree, with the namespaces in scope of their values.

use std::collections::HashSet;

use kit::turns;
use xml::{Document, Here, Kind, NodeId, Position, QName, Start};

use super::run::Run;
use super::{LazyPosition, ParseStop};
use crate::datatype::{self, Steps};
use crate::names::XSI_NAMESPACE;
use crate::schema::Schema;

/// A start tag from either source.
pub(super) trait Tag: LazyPosition {
    fn name(&self) -> QName<'_>;
    fn has_attributes(&self) -> bool;
    /// Returns whether some attribute may have a namespace.
    fn has_qualified(&self) -> bool;
    /// Visits every attribute, in order, until the visitor stops.
    fn each(
        &self,
        visit: impl FnMut(QName<'_>, &str) -> Result<(), ParseStop>,
    ) -> Result<(), ParseStop>;
    fn resolve(&self, prefix: &str) -> Option<&str>;
    /// Returns all prefixes in scope. Needed for text, which is complete only when the element ends.
    fn snapshot(&self) -> Vec<(Box<str>, Box<str>)>;
}

/// A start tag of a parser.
pub(super) struct Event<'a> {
    pub(super) start: &'a Start<'a>,
    pub(super) here: Here<'a>,
}

/// An element of a tree.
pub(crate) struct Node<'a> {
    pub(super) document: &'a Document,
    pub(super) node: NodeId,
}

impl LazyPosition for Event<'_> {
    fn position(&self) -> Position {
        self.here.position()
    }
}

impl Tag for Event<'_> {
    #[inline]
    fn name(&self) -> QName<'_> {
        self.start.name
    }

    #[inline]
    fn has_attributes(&self) -> bool {
        !self.start.attributes.is_empty()
    }

    #[inline]
    fn has_qualified(&self) -> bool {
        self.start.attributes.has_qualified()
    }

    #[inline]
    fn each(
        &self,
        mut visit: impl FnMut(QName<'_>, &str) -> Result<(), ParseStop>,
    ) -> Result<(), ParseStop> {
        for given in self.start.attributes.iter() {
            visit(given.name, given.value)?;
        }
        Ok(())
    }

    fn resolve(&self, prefix: &str) -> Option<&str> {
        match self.start.scope.lookup(prefix) {
            Some(namespace) => Some(namespace.uri),
            None => prefix.is_empty().then_some(""),
        }
    }

    fn snapshot(&self) -> Vec<(Box<str>, Box<str>)> {
        let all = self.start.scope.all();
        all.map(|(prefix, namespace)| (prefix.into(), namespace.uri.into())).collect()
    }
}

impl Tag for Node<'_> {
    fn name(&self) -> QName<'_> {
        self.document.name(self.node)
    }

    fn has_attributes(&self) -> bool {
        self.document.attributes(self.node).next().is_some()
    }

    fn has_qualified(&self) -> bool {
        self.has_attributes()
    }

    fn each(
        &self,
        mut visit: impl FnMut(QName<'_>, &str) -> Result<(), ParseStop>,
    ) -> Result<(), ParseStop> {
        let document = self.document;
        document
            .attributes(self.node)
            .try_for_each(|given| visit(document.name(given), document.value(given)))
    }

    fn resolve(&self, prefix: &str) -> Option<&str> {
        match self.document.lookup_prefix(self.node, prefix) {
            Some(uri) => Some(uri),
            None => prefix.is_empty().then_some(""),
        }
    }

    fn snapshot(&self) -> Vec<(Box<str>, Box<str>)> {
        let all = self.document.namespaces(self.node);
        all.into_iter().map(|(prefix, uri)| (prefix.into(), uri.into())).collect()
    }
}

/// Feeds an element and its subtree to a run.
pub(super) fn walk(
    schema: &Schema,
    run: &mut Run,
    document: &Document,
    element: NodeId,
) -> Result<(), ParseStop> {
    run.start(schema, &Node { document, node: element })?;
    let mut at = document.first_child(element);
    let mut parent = element;
    // Follows the links of the tree, so that depth needs no stack.
    loop {
        turns::count_part();
        match at {
            Some(node) => match document.kind(node) {
                Kind::Element => {
                    run.start(schema, &Node { document, node })?;
                    parent = node;
                    at = document.first_child(node);
                    continue;
                }
                Kind::Text => {
                    run.text(schema, document.value(node), &Node { document, node })?;
                    at = document.next_sibling(node);
                }
                Kind::Comment | Kind::Instruction | Kind::Document | Kind::Attribute => {
                    at = document.next_sibling(node);
                }
            },
            None => {
                let spot = Node { document, node: parent };
                run.end(schema, document.name(parent), &spot)?;
                if parent == element {
                    return Ok(());
                }
                at = document.next_sibling(parent);
                let Some(outer) = document.parent(parent) else { return Ok(()) };
                parent = outer;
            }
        }
    }
}

/// The context of values in a document: namespaces in scope, and declarations of the schema and the document.
pub(super) struct Names<'a, R> {
    pub(super) prefixes: R,
    pub(super) schema: &'a Schema,
    pub(super) entities: &'a HashSet<Box<str>>,
    pub(super) spot: &'a dyn LazyPosition,
    pub(super) steps: &'a Steps,
}

/// Look-up of prefixes.
pub(super) trait Prefixes {
    fn resolve(&self, prefix: &str) -> Option<&str>;
}

impl<T: Tag> Prefixes for &T {
    fn resolve(&self, prefix: &str) -> Option<&str> {
        Tag::resolve(*self, prefix)
    }
}

impl Prefixes for &[(Box<str>, Box<str>)] {
    fn resolve(&self, prefix: &str) -> Option<&str> {
        let found = self.iter().rev().find(|(known, _)| **known == *prefix);
        match found {
            Some((_, uri)) => Some(uri),
            None => prefix.is_empty().then_some(""),
        }
    }
}

impl<R: Prefixes> datatype::NameScope for Names<'_, R> {
    fn resolve(&self, prefix: &str) -> Option<&str> {
        self.prefixes.resolve(prefix)
    }

    fn notation(&self, uri: &str, local: &str) -> bool {
        let names = &self.schema.components.names;
        let sym = names.find(names.find_namespace(uri), local);
        self.schema.components.globals.notations.contains_key(&sym)
    }

    fn entity(&self, name: &str) -> bool {
        self.entities.contains(name) || self.spot.entity(name)
    }

    fn pattern_budget(&self) -> Option<&Steps> {
        Some(self.steps)
    }
}

/// The location hints in a document: the values of `xsi:schemaLocation` and `xsi:noNamespaceSchemaLocation`, as pairs of namespace and
/// location.
#[derive(Debug, Default)]
pub struct Hints {
    pub found: Vec<(String, String)>,
    /// The position of the first hint that comes after an element of its namespace, which is an error (Part 1, 4.3.2). Repeating an earlier
    /// hint is allowed.
    pub late: Option<Position>,
    met: HashSet<String>,
}

/// Maximum number of namespaces that are recorded, and of hints. Documents have only a few.
const MET_MAX: usize = 1024;

impl Hints {
    fn hint(&mut self, namespace: &str, location: &str, here: Here<'_>) {
        let hint = (namespace.to_owned(), location.to_owned());
        if self.found.contains(&hint) || self.found.len() >= MET_MAX {
            return;
        }
        if self.late.is_none() && self.met.contains(namespace) {
            self.late = Some(here.position());
        }
        self.found.push(hint);
    }
}

impl xml::Sink for Hints {
    type Error = xml::Error;

    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), xml::Error> {
        for given in start.attributes.iter().filter(|a| a.name.namespace.uri == XSI_NAMESPACE) {
            match given.name.local {
                "schemaLocation" => {
                    let words: Vec<&str> = given.value.split_ascii_whitespace().collect();
                    for pair in words.chunks_exact(2) {
                        if let [namespace, location] = pair {
                            self.hint(namespace, location, here);
                        }
                    }
                }
                "noNamespaceSchemaLocation" => self.hint("", given.value.trim(), here),
                // Harmless: other attributes are not hints.
                _ => {}
            }
        }
        if !self.met.contains(start.name.namespace.uri) && self.met.len() < MET_MAX {
            self.met.insert(start.name.namespace.uri.to_owned());
        }
        Ok(())
    }

    fn text(&mut self, _text: &str, _cdata: bool, _here: Here<'_>) -> Result<(), xml::Error> {
        Ok(())
    }

    fn end(&mut self, _name: QName<'_>, _here: Here<'_>) -> Result<(), xml::Error> {
        Ok(())
    }
}
