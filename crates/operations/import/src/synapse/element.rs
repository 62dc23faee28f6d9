//! Elements of artifacts, with their places.

use xml::{Doctype, Document, Form, Kind, Limits, NodeId, Options};

use crate::table::ArtifactPosition;

/// The namespace of artifacts.
pub(super) const SYNAPSE: &str = "http://ws.apache.org/ns/synapse";

/// The maximum depth of elements: the converter recurses into them. Elements that people write stay below 40.
const DEPTH_MAX: u32 = 96;

/// An artifact's file, parsed.
#[derive(Debug)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) document: Document,
    /// The place of all its elements, if the document is a filled template and not a file.
    pub(super) at: Option<ArtifactPosition>,
}

/// An element of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element<'d> {
    file: &'d File,
    node: NodeId,
}

/// How artifacts are parsed.
pub(super) fn options() -> Options {
    let limits = Limits { depth_max: DEPTH_MAX, ..Limits::default() };
    Options { doctype: Doctype::Refuse, limits, ..Options::default() }
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node && std::ptr::eq(self.file, other.file)
    }
}

impl<'d> Element<'d> {
    pub(super) fn root(file: &'d File) -> Option<Element<'d>> {
        file.document.root_element().map(|node| Element { file, node })
    }

    /// The local name.
    pub(super) fn name(&self) -> &'d str {
        self.file.document.name(self.node).local
    }

    pub(super) fn is_synapse(&self) -> bool {
        self.file.document.name(self.node).namespace.uri == SYNAPSE
    }

    /// An attribute without a namespace. One that is empty counts as absent, as it does for Synapse.
    pub(super) fn attribute(&self, name: &str) -> Option<&'d str> {
        let value = self.file.document.attribute(self.node, "", name).map(str::trim);
        value.filter(|value| !value.is_empty())
    }

    /// An attribute without interpretation. It may be empty.
    pub(super) fn raw(&self, name: &str) -> Option<&'d str> {
        self.file.document.attribute(self.node, "", name)
    }

    /// The attributes and their values. A name with a namespace is prefixed with it. Attributes for validators are left
    /// out.
    pub(super) fn attributes(&self) -> Vec<(String, &'d str)> {
        const INSTANCE: &str = "http://www.w3.org/2001/XMLSchema-instance";
        let document = &self.file.document;
        let attributes = document.attributes(self.node).map(|attribute| {
            let name = document.name(attribute);
            let full = match name.namespace.uri {
                "" => name.local.to_owned(),
                uri => format!("{{{uri}}}{}", name.local),
            };
            (name.namespace.uri, full, document.value(attribute))
        });
        let known = attributes.filter(|(uri, ..)| *uri != INSTANCE);
        known.map(|(_, name, value)| (name, value)).collect()
    }

    pub(super) fn is(&self, attribute: &str, value: &str) -> bool {
        self.attribute(attribute).is_some_and(|written| written.eq_ignore_ascii_case(value))
    }

    /// Child elements, of any namespace.
    pub(super) fn children(&self) -> Vec<Element<'d>> {
        let document = &self.file.document;
        let nodes = document.children(self.node).filter(|n| document.kind(*n) == Kind::Element);
        nodes.map(|node| Element { file: self.file, node }).collect()
    }

    /// The first child of this local name.
    pub(super) fn child(&self, name: &str) -> Option<Element<'d>> {
        self.children().into_iter().find(|child| child.name() == name)
    }

    /// The children of this local name.
    pub(super) fn all(&self, name: &str) -> Vec<Element<'d>> {
        self.children().into_iter().filter(|child| child.name() == name).collect()
    }

    /// The element and all below it.
    pub(super) fn descendants(&self) -> Vec<Element<'d>> {
        let document = &self.file.document;
        let below = document.descendants(self.node);
        let elements = below.filter(|n| document.kind(*n) == Kind::Element);
        let elements = elements.map(|node| Element { file: self.file, node });
        std::iter::once(*self).chain(elements).collect()
    }

    pub(super) fn text(&self) -> String {
        self.file.document.string_value(self.node).trim().to_owned()
    }

    /// The text of a child, if it has any.
    pub(super) fn text_of(&self, child: &str) -> Option<String> {
        self.child(child).map(|child| child.text()).filter(|text| !text.is_empty())
    }

    /// The markup of the element, with the namespaces it needs.
    pub(super) fn markup(&self) -> String {
        let kept = [];
        self.file.document.to_text(self.node, &Form::Moved { kept: &kept }).trim().to_owned()
    }

    /// The element as a document, with all namespaces in scope except the artifact's: stylesheets, schemas and descriptions use
    /// prefixes in texts too.
    pub(super) fn document(&self) -> String {
        let document = &self.file.document;
        let scope = document.namespaces(self.node);
        let kept = scope.iter().filter(|(_, uri)| *uri != SYNAPSE).map(|(prefix, _)| *prefix);
        let kept: Vec<&str> = kept.collect();
        document.to_text(self.node, &Form::Moved { kept: &kept }).trim().to_owned()
    }

    /// The inner markup: elements without the namespace of the artifact, or the text without escapes.
    pub(super) fn content(&self) -> String {
        match self.children().as_slice() {
            [] => self.text(),
            children => children.iter().map(Element::markup).collect(),
        }
    }

    /// The namespace of a prefix here.
    pub(super) fn namespace(&self, prefix: &str) -> Option<&'d str> {
        self.file.document.lookup_prefix(self.node, prefix)
    }

    pub(super) fn place(&self) -> ArtifactPosition {
        if let Some(place) = &self.file.at {
            return place.clone();
        }
        let at = self.file.document.position(self.node);
        ArtifactPosition { file: self.file.name.clone(), line: at.line, column: at.column }
    }
}

/// The name of an element in a row: its element name, and the attribute that tells it from others.
pub(super) fn label(element: &Element<'_>) -> String {
    let telling =
        ["name", "key", "id", "source", "xpath", "expression", "messageStore", "target", "level"];
    let told = telling.into_iter().find_map(|attribute| element.attribute(attribute));
    match told {
        Some(told) if told.chars().count() <= 48 => format!("{} {told}", element.name()),
        Some(told) => {
            // Harmless: `...` stands for the rest.
            format!("{} {}...", element.name(), told.chars().take(45).collect::<String>())
        }
        None => element.name().to_owned(),
    }
}
