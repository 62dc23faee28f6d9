//! A view of the elements of WSDL documents, used by the readers.
//!
//! Gives access to attributes and children, and records complaints with their position. It does not decide what is wrong.

use std::sync::Arc;

use xml::{Document, Kind, NodeId};
use xsd::Complaint;

use crate::model::Name;
use crate::{WSDL11, WSDL20};

/// A document with its location.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) location: Arc<str>,
    pub(crate) document: Document,
    /// The target namespace of the names it defines.
    pub(crate) target: Box<str>,
}

/// Complaints, up to a maximum number.
#[derive(Debug)]
pub(crate) struct Report {
    complaints: Vec<Complaint>,
    max: usize,
}

/// One element.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Element<'d> {
    pub(crate) file: &'d File,
    pub(crate) node: NodeId,
}

impl File {
    /// Returns the root element. A parsed document always has one.
    pub(crate) fn root(&self) -> Element<'_> {
        let node = self.document.root_element().unwrap_or(Document::ROOT);
        Element { file: self, node }
    }
}

impl Report {
    pub(crate) fn new(max: usize) -> Report {
        Report { complaints: Vec::new(), max: max.max(1) }
    }

    pub(crate) fn push(&mut self, complaint: Complaint) {
        if self.complaints.len() < self.max {
            self.complaints.push(complaint);
        }
    }

    /// Adds a complaint about an element.
    pub(crate) fn at(&mut self, element: Element<'_>, code: &'static str, message: String) {
        let location = element.file.location.clone();
        let at = element.file.document.position(element.node);
        self.push(Complaint { code, location, at, message });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.complaints.is_empty()
    }

    pub(crate) fn into_complaints(self) -> Vec<Complaint> {
        self.complaints
    }
}

impl<'d> Element<'d> {
    fn tree(self) -> &'d Document {
        &self.file.document
    }

    pub(crate) fn namespace(self) -> &'d str {
        self.tree().name(self.node).namespace.uri
    }

    pub(crate) fn local(self) -> &'d str {
        self.tree().name(self.node).local
    }

    pub(crate) fn is(self, namespace: &str, local: &str) -> bool {
        self.local() == local && self.namespace() == namespace
    }

    /// Returns the child elements.
    pub(crate) fn children(self) -> impl Iterator<Item = Element<'d>> {
        let nodes = self.tree().children(self.node);
        nodes
            .filter(move |node| self.tree().kind(*node) == Kind::Element)
            .map(move |node| Element { file: self.file, node })
    }

    /// Returns the child elements with this name.
    pub(crate) fn all(self, namespace: &str, local: &str) -> impl Iterator<Item = Element<'d>> {
        self.children().filter(move |child| child.is(namespace, local))
    }

    pub(crate) fn first(self, namespace: &str, local: &str) -> Option<Element<'d>> {
        self.all(namespace, local).next()
    }

    /// Returns the value of an attribute without a namespace, trimmed.
    pub(crate) fn attribute(self, local: &str) -> Option<&'d str> {
        self.qualified("", local)
    }

    /// Returns the value of an attribute, trimmed.
    pub(crate) fn qualified(self, namespace: &str, local: &str) -> Option<&'d str> {
        self.tree().attribute(self.node, namespace, local).map(str::trim)
    }

    /// Returns the value of a required attribute.
    pub(crate) fn required(self, local: &str, report: &mut Report) -> Option<&'d str> {
        let value = self.attribute(local).filter(|value| !value.is_empty());
        if value.is_none() {
            let message = format!("<{}> needs the attribute `{local}`", self.local());
            report.at(self, "wsdl-attribute", message);
        }
        value
    }

    /// Returns the name of a definition from a required attribute.
    pub(crate) fn reference(self, local: &str, report: &mut Report) -> Option<Name> {
        let value = self.required(local, report)?;
        self.definition(value, report)
    }

    /// Resolves the name of a definition. An unprefixed name whose default namespace is WSDL's own is taken as a name in the target
    /// namespace, because no definition is in WSDL's own namespace.
    pub(crate) fn definition(self, value: &str, report: &mut Report) -> Option<Name> {
        let name = self.resolve(value, report)?;
        match &*name.namespace {
            WSDL11 | WSDL20 => Some(Name::new(&self.file.target, &name.local)),
            _ => Some(name),
        }
    }

    /// Resolves a prefixed name.
    pub(crate) fn resolve(self, value: &str, report: &mut Report) -> Option<Name> {
        let (prefix, local) = value.split_once(':').unwrap_or(("", value));
        match self.tree().lookup_prefix(self.node, prefix) {
            Some(uri) => Some(Name::new(uri, local)),
            None if prefix.is_empty() => Some(Name::new("", local)),
            None => {
                let message = format!("the prefix of `{value}` is not declared");
                report.at(self, "wsdl-prefix", message);
                None
            }
        }
    }

    /// Returns the name that this element defines: its `name` in the target namespace.
    pub(crate) fn defines(self, report: &mut Report) -> Option<Name> {
        let local = self.required("name", report)?;
        Some(Name::new(&self.file.target, local))
    }
}
