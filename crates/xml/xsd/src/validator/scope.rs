//! A common interface to start tags of a parser and elements of a tree, with the namespaces in scope of their values.

use std::collections::{HashMap, HashSet};

use xml::{Document, Here, NodeId, Position, QName, Start, XML_NAMESPACE};

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
    /// The namespaces in scope of the node.
    pub(super) bindings: &'a Bindings<'a>,
}

/// The namespaces in scope while a tree is walked. Searching the ancestors for each prefix would cost as much as there are declarations.
#[derive(Default)]
pub(super) struct Bindings<'a>(HashMap<&'a str, Vec<&'a str>>);

impl<'a> Bindings<'a> {
    /// Returns the namespaces in scope of the parent of an element.
    pub(super) fn above(document: &'a Document, element: NodeId) -> Bindings<'a> {
        let ancestors = std::iter::successors(document.parent(element), |at| document.parent(*at));
        let ancestors: Vec<NodeId> = ancestors.collect();
        let mut bindings = Bindings::default();
        ancestors.iter().rev().for_each(|ancestor| bindings.enter(document, *ancestor));
        bindings
    }

    pub(super) fn enter(&mut self, document: &'a Document, element: NodeId) {
        for (prefix, uri) in document.declared(element) {
            self.0.entry(prefix).or_default().push(uri);
        }
    }

    pub(super) fn leave(&mut self, document: &'a Document, element: NodeId) {
        for (prefix, _) in document.declared(element) {
            // Harmless: what goes is the declaration of this element.
            let _ = self.0.get_mut(prefix).and_then(Vec::pop);
        }
    }

    /// Returns the namespace of a prefix, or `None` if it is not declared.
    pub(super) fn lookup(&self, prefix: &str) -> Option<&'a str> {
        match (prefix, self.0.get(prefix).and_then(|all| all.last())) {
            ("xml", _) => Some(XML_NAMESPACE),
            ("", None) => Some(""),
            (_, found) => found.copied(),
        }
    }
}

impl LazyPosition for Event<'_> {
    fn position(&self) -> Position {
        self.here.position()
    }

    fn resolve(&self, prefix: &str) -> Option<&str> {
        self.here.resolve(prefix)
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
}

/// The context of values in a document: namespaces in scope, and declarations of the schema and the document.
pub(super) struct Names<'a> {
    pub(super) schema: &'a Schema,
    pub(super) entities: &'a HashSet<Box<str>>,
    pub(super) spot: &'a dyn LazyPosition,
    pub(super) steps: &'a Steps,
}

impl datatype::NameScope for Names<'_> {
    fn resolve(&self, prefix: &str) -> Option<&str> {
        self.spot.resolve(prefix)
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
