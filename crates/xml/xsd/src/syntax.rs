//! The schema for schemas: the attributes and children of each element of a schema document.
//!
//! Owns the tables and the check of a document against them (the `s4s-*` complaints). It builds no components. Code that runs later may
//! rely on the structure of the document, but not on its references.

mod table;
mod values;

use std::collections::HashSet;

use xml::{Document, Kind, NodeId};

use crate::names::XSD_NAMESPACE;
use table::{Rule, Slot};
pub(crate) use values::{collapse, is_qname};

/// An error at a node of the checked document.
pub(crate) struct Fault {
    pub(crate) node: NodeId,
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

/// Returns all structural errors of the schema document whose `schema` element is `root`.
pub(crate) fn check(document: &Document, root: NodeId) -> Vec<Fault> {
    let mut walk = Walk { document, faults: Vec::new(), ids: HashSet::new() };
    walk.element(root, "", "schema");
    walk.faults
}

struct Walk<'d> {
    document: &'d Document,
    faults: Vec<Fault>,
    ids: HashSet<&'d str>,
}

/// Maximum number of errors, enough to find the mistake. It also bounds the cost of a hostile document.
const FAULTS_MAX: usize = 100;

impl<'d> Walk<'d> {
    fn fault(&mut self, node: NodeId, code: &'static str, message: String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(Fault { node, code, message });
        }
    }

    /// Recursion is bounded by the parser's limit on depth.
    fn element(&mut self, node: NodeId, parent: &str, tag: &str) {
        let Some(rule) = table::find(parent, tag) else {
            let message = format!("<{tag}> is not allowed in <{parent}>");
            self.fault(node, "s4s-elt-invalid-content", message);
            return;
        };
        self.attributes(node, rule);
        if matches!(tag, "appinfo" | "documentation") {
            return;
        }
        let mut tags = Vec::new();
        for child in self.document.children(node) {
            match self.document.kind(child) {
                Kind::Element => tags.push((child, self.tag(child))),
                Kind::Text if !self.document.value(child).trim().is_empty() => {
                    let message = format!("there is text in <{tag}>");
                    self.fault(child, "s4s-elt-character", message);
                }
                Kind::Text
                | Kind::Comment
                | Kind::Instruction
                | Kind::Document
                | Kind::Attribute => {}
            }
        }
        self.content(node, tag, rule, &tags);
        for (child, child_tag) in tags {
            if let Some(child_tag) = child_tag.filter(|name| table::is_known(name)) {
                self.element(child, tag, child_tag);
            }
        }
    }

    /// Returns the local name of an element of the schema namespace.
    fn tag(&self, node: NodeId) -> Option<&'d str> {
        let name = self.document.name(node);
        (name.namespace.uri == XSD_NAMESPACE).then_some(name.local)
    }

    fn attributes(&mut self, node: NodeId, rule: &Rule) {
        let document = self.document;
        for attribute in document.attributes(node) {
            let name = document.name(attribute);
            let value = document.value(attribute);
            match name.namespace.uri {
                "" => self.attribute(attribute, rule, name.local, value),
                XSD_NAMESPACE => {
                    let message = format!("{} may not be in the schema namespace", name.local);
                    self.fault(attribute, "s4s-att-not-allowed", message);
                }
                xml::XML_NAMESPACE if name.local == "lang" && !values::is_language(value) => {
                    let message = format!("{value:?} is not a language");
                    self.fault(attribute, "s4s-att-invalid-value", message);
                }
                // Harmless: other attributes are not in the namespace of `xml`.
                _ => {}
            }
        }
        for required in rule.attributes.iter().filter(|a| a.required) {
            if document.attribute(node, "", required.name).is_none() {
                let message = format!("<{}> needs the attribute {}", rule.tag, required.name);
                self.fault(node, "s4s-att-must-appear", message);
            }
        }
    }

    fn attribute(&mut self, node: NodeId, rule: &Rule, name: &str, value: &'d str) {
        let Some(allowed) = rule.attributes.iter().find(|a| a.name == name) else {
            let message = format!("<{}> has no attribute {name} here", rule.tag);
            self.fault(node, "s4s-att-not-allowed", message);
            return;
        };
        if !values::is_valid(allowed.value, value) {
            let message = format!("{value:?} is not a value of {name}");
            self.fault(node, "s4s-att-invalid-value", message);
        }
        if name == "id" && !self.ids.insert(value.trim()) {
            self.fault(node, "s4s-att-invalid-value", format!("the id {value:?} is taken"));
        }
    }

    fn content(
        &mut self,
        node: NodeId,
        tag: &str,
        rule: &Rule,
        tags: &[(NodeId, Option<&'d str>)],
    ) {
        let mut furthest = 0;
        for slots in rule.content {
            match accepts(slots, tags) {
                Ok(()) => return,
                Err(at) => furthest = furthest.max(at),
            }
        }
        match tags.get(furthest) {
            Some(&(child, Some(found))) => {
                let message = format!("<{found}> is not allowed here in <{tag}>");
                self.fault(child, "s4s-elt-invalid-content.1", message);
            }
            Some(&(child, None)) => {
                let message = format!("<{tag}> has a child of another namespace");
                self.fault(child, "s4s-elt-invalid-content.1", message);
            }
            None => {
                let message = format!("the content of <{tag}> is not complete");
                self.fault(node, "s4s-elt-must-match.2", message);
            }
        }
    }
}

/// Checks that the children fill the slots. The error is the number of children that do. Greedy matching is correct, because no tag is in
/// two consecutive slots, except `annotation` in `schema`, where both slots take any number of children.
fn accepts(slots: &[Slot], tags: &[(NodeId, Option<&str>)]) -> Result<(), usize> {
    let mut at = 0;
    for slot in slots {
        let mut taken = 0;
        while taken < slot.max
            && tags.get(at).and_then(|&(_, tag)| tag).is_some_and(|tag| slot.tags.contains(&tag))
        {
            at += 1;
            taken += 1;
        }
        if taken < slot.min {
            return Err(at);
        }
    }
    if at == tags.len() { Ok(()) } else { Err(at) }
}
