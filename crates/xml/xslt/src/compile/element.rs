//! A view of the stylesheet's elements, used by the compiler.

use std::sync::Arc;

use xml::{Document, Kind, NodeId, QName, XML_NAMESPACE};

use super::XSLT;
use crate::program::SourcePosition;
use crate::run::spaces::{self, is_blank};

/// An element of a stylesheet module. Cheap to copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element<'m> {
    document: Option<&'m Arc<Document>>,
    module: u32,
    node: NodeId,
}

/// A significant child. White space between elements is stripped (XSLT 1.0, 3.4).
pub(super) enum Child<'m> {
    Element(Element<'m>),
    Text(&'m str),
}

impl<'m> Element<'m> {
    pub(super) fn new(
        document: Option<&'m Arc<Document>>,
        module: u32,
        node: NodeId,
    ) -> Element<'m> {
        Element { document, module, node }
    }

    fn document(self) -> Option<&'m Document> {
        self.document.map(|document| &**document)
    }

    pub(super) fn module(self) -> u32 {
        self.module
    }

    pub(super) fn name(self) -> QName<'m> {
        let none = QName { prefix: "", local: "", namespace: xml::Namespace { id: 0, uri: "" } };
        self.document().map_or(none, |document| document.name(self.node))
    }

    /// Returns the local part of the name if the element is in XSLT's namespace.
    pub(super) fn xsl(self) -> Option<&'m str> {
        let name = self.name();
        (name.namespace.uri == XSLT).then_some(name.local)
    }

    /// Returns `xsl:if` and the like, or `prefix:local`, for messages.
    pub(super) fn shown(self) -> String {
        let name = self.name();
        match (self.xsl(), name.prefix) {
            (Some(local), _) => format!("xsl:{local}"),
            (None, "") => name.local.to_owned(),
            (None, prefix) => format!("{prefix}:{}", name.local),
        }
    }

    /// Returns an attribute in no namespace.
    pub(super) fn attribute(self, local: &str) -> Option<&'m str> {
        self.document()?.attribute(self.node, "", local)
    }

    /// Returns an attribute in XSLT's namespace.
    pub(super) fn xsl_attribute(self, local: &str) -> Option<&'m str> {
        self.document()?.attribute(self.node, XSLT, local)
    }

    /// Returns a standard attribute: without a namespace on elements of XSLT, in XSLT's namespace on other elements.
    pub(super) fn standard(self, local: &str) -> Option<&'m str> {
        match self.xsl() {
            Some(_) => self.attribute(local),
            None => self.xsl_attribute(local),
        }
    }

    pub(super) fn attributes(self) -> impl Iterator<Item = (QName<'m>, &'m str)> {
        let document = self.document();
        let nodes =
            document.into_iter().flat_map(move |d| d.attributes(self.node).map(move |n| (d, n)));
        nodes.map(|(document, node)| (document.name(node), document.value(node)))
    }

    pub(super) fn parent(self) -> Option<Element<'m>> {
        let document = self.document()?;
        let parent = document.parent(self.node)?;
        let is_element = document.kind(parent) == Kind::Element;
        is_element.then_some(Element { node: parent, ..self })
    }

    /// Iterates over this element and its ancestors, innermost first.
    pub(super) fn ancestry(self) -> impl Iterator<Item = Element<'m>> {
        std::iter::successors(Some(self), |element| element.parent())
    }

    pub(super) fn place(self) -> SourcePosition {
        let position = self.document().map(|document| document.position(self.node));
        // Harmless: an element without a document has no position.
        let position = position.unwrap_or_default();
        SourcePosition { module: self.module, line: position.line, column: position.column }
    }

    /// Returns the namespace of a prefix in scope.
    pub(super) fn lookup(self, prefix: &str) -> Option<&'m str> {
        match prefix {
            "xml" => Some(XML_NAMESPACE),
            _ => self.document()?.lookup_prefix(self.node, prefix),
        }
    }

    /// Returns all prefixes in scope except `xml`.
    pub(super) fn namespaces(self) -> Vec<(&'m str, &'m str)> {
        let all = self.document().map(|document| document.namespaces(self.node));
        // Harmless: an element without a document has no namespaces.
        all.unwrap_or_default().into_iter().filter(|(prefix, _)| *prefix != "xml").collect()
    }

    /// Returns the prefixes declared on the element itself.
    pub(super) fn declared(self) -> impl Iterator<Item = (&'m str, &'m str)> {
        self.document().into_iter().flat_map(move |document| document.declared(self.node))
    }

    /// Returns whether the element is in forwards-compatible mode: its version is not 1.0 (XSLT 1.0, 2.5).
    pub(super) fn forwards(self) -> bool {
        let version = self.ancestry().find_map(|element| match element.xsl() {
            Some("stylesheet" | "transform") => element.attribute("version"),
            Some(_) => None,
            None => element.xsl_attribute("version"),
        });
        version.is_some_and(|version| version.trim().parse::<f64>() != Ok(1.0))
    }

    fn preserves_space(self) -> bool {
        let preserves = self.ancestry().find_map(|element| {
            spaces::preserves(element.document()?.attribute(
                element.node,
                XML_NAMESPACE,
                "space",
            )?)
        });
        preserves == Some(true)
    }

    /// Returns the significant children.
    pub(super) fn children(self) -> Vec<Child<'m>> {
        let Some(document) = self.document() else { return Vec::new() };
        let keeps = self.xsl() == Some("text");
        let mut children = Vec::new();
        for node in document.children(self.node) {
            match document.kind(node) {
                Kind::Element => children.push(Child::Element(Element { node, ..self })),
                Kind::Text => {
                    let text = document.value(node);
                    if keeps || !is_blank(text) || self.preserves_space() {
                        children.push(Child::Text(text));
                    }
                }
                Kind::Document | Kind::Attribute | Kind::Comment | Kind::Instruction => {}
            }
        }
        children
    }

    /// Returns the element children.
    pub(super) fn elements(self) -> impl Iterator<Item = Element<'m>> {
        // Harmless: other children are not elements.
        self.children().into_iter().filter_map(|child| match child {
            Child::Element(element) => Some(element),
            Child::Text(_) => None,
        })
    }
}
