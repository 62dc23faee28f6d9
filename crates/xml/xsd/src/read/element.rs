//! Reads element declarations and their identity constraints.

use std::sync::Arc;

use xml::NodeId;

use super::global::{empty_complex, empty_element, empty_simple};
use super::{Builder, Inside, KeyRef};
use crate::arena::Id;
use crate::documents::SchemaDocument;
use crate::identity::{Constraint, ConstraintKind, Path};
use crate::model::{DerivationSet, Element, Type};
use crate::names::NsId;
use crate::scope::Scope;

impl<'d> Builder<'d> {
    /// Fills in a declaration from its element.
    pub(super) fn read_element(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        id: Id<Element>,
        inside: Inside,
    ) {
        let constraint = self.value_constraint(doc, node);
        let declared_type = self.type_of(doc, node, inside, "src-element.3");
        let head = match doc.attribute(node, "substitutionGroup") {
            Some(text) if self.components.elements[id].global => {
                self.element_named(doc, node, text)
            }
            Some(_) | None => None,
        };
        let constraints = self.read_constraints(doc, node);
        let all = DerivationSet::EXTENSION.with(DerivationSet::RESTRICTION);
        let element = &mut self.components.elements[id];
        element.nillable = doc.flag(node, "nillable");
        element.is_abstract = doc.flag(node, "abstract");
        element.constraint = constraint;
        element.declared_type = declared_type;
        element.head = head;
        element.constraints = constraints;
        element.block =
            doc.ways(node, "block", doc.block_default, all.with(DerivationSet::SUBSTITUTION));
        element.finals = if element.global {
            doc.ways(node, "final", doc.final_default, all)
        } else {
            DerivationSet::NONE
        };
    }

    /// Returns the type named by `type`, or the anonymous type inside, or `None` without either. `clause` is the rule that forbids both.
    pub(super) fn type_of(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        inside: Inside,
        clause: &'static str,
    ) -> Option<Id<Type>> {
        let anonymous = doc.child(node, &["simpleType", "complexType"]);
        match (doc.attribute(node, "type"), anonymous) {
            (Some(_), Some(_)) => {
                let message = "a type is named and another is defined inside".to_owned();
                self.complain(clause, doc.place(node), message);
                None
            }
            (Some(text), None) => Some(Self::or_any(self.type_named(doc, node, text, inside))),
            (None, Some(child)) => Some(self.anonymous_type(doc, child, inside)),
            (None, None) => None,
        }
    }

    /// Reads a type without a name.
    pub(super) fn anonymous_type(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        inside: Inside,
    ) -> Id<Type> {
        let place = doc.place(node);
        if !self.has_room(place) {
            return crate::model::ANY_TYPE;
        }
        if doc.tag(node) == "simpleType" {
            let id = self.components.types.push(empty_simple(None, place));
            self.read_simple(doc, node, id, inside);
            return id;
        }
        let id = self.components.types.push(empty_complex(None, place));
        self.read_complex(doc, node, id, inside);
        id
    }

    /// Reads a declaration inside a model group.
    pub(super) fn local_element(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        inside: Inside,
    ) -> Option<Id<Element>> {
        let place = doc.place(node);
        match (doc.attribute(node, "name"), doc.attribute(node, "ref")) {
            (Some(name), None) => {
                let qualified = match doc.attribute(node, "form") {
                    Some(form) => form == "qualified",
                    None => doc.elements_qualified,
                };
                let namespace = if qualified { doc.target } else { NsId::ABSENT };
                let name = self.components.names.intern(namespace, name);
                let id = self.components.elements.push(empty_element(name, place, false));
                self.read_element(doc, node, id, inside);
                Some(id)
            }
            (None, Some(text)) => {
                let surplus = ["type", "nillable", "default", "fixed", "form", "block"]
                    .into_iter()
                    .find(|name| doc.attribute(node, name).is_some());
                if let Some(name) = surplus {
                    let message = format!("a reference must not have {name}");
                    self.complain("src-element.2.2", place, message);
                }
                if doc.children(node).any(|child| doc.tag(child) != "annotation") {
                    let message =
                        "a reference must not contain anything except an annotation".to_owned();
                    self.complain("src-element.2.2", place, message);
                }
                self.element_named(doc, node, text)
            }
            (Some(_), Some(_)) | (None, None) => {
                let message = "an element must have either a name or a ref here".to_owned();
                self.complain("src-element.2.1", place, message);
                None
            }
        }
    }

    fn read_constraints(&mut self, doc: &SchemaDocument<'_>, node: NodeId) -> Vec<Arc<Constraint>> {
        let children: Vec<NodeId> = doc.children(node).collect();
        let mut constraints = Vec::new();
        for child in children {
            if matches!(doc.tag(child), "unique" | "key" | "keyref") {
                constraints.extend(self.read_constraint(doc, child));
            }
        }
        constraints
    }

    fn read_constraint(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
    ) -> Option<Arc<Constraint>> {
        let place = doc.place(node);
        let local = doc.attribute(node, "name")?;
        let name = self.components.names.intern(doc.target, local);
        let selector = doc.child(node, &["selector"])?;
        let mut fields = Vec::new();
        for field in doc.children(node).filter(|&child| doc.tag(child) == "field") {
            fields.push(self.read_path(doc, field, Path::field)?);
        }
        let selector = self.read_path(doc, selector, Path::selector)?;
        let kind = match doc.tag(node) {
            "unique" => ConstraintKind::Unique,
            "key" => ConstraintKind::Key,
            _ => {
                let text = doc.attribute(node, "refer")?;
                let refer = self.qname(doc, node, text)?;
                self.keyrefs.push(KeyRef { refer, fields: fields.len(), place });
                let names = &self.components.names;
                ConstraintKind::KeyRef {
                    uri: names.uri(names.namespace_of(refer)).into(),
                    local: names.local(refer).into(),
                }
            }
        };
        let uri = self.components.names.uri(doc.target).into();
        let constraint = Arc::new(Constraint {
            kind,
            uri,
            local: local.into(),
            selector,
            fields: fields.into(),
        });
        if self.components.globals.constraints.insert(name, Arc::clone(&constraint)).is_some() {
            let text = self.components.names.text(name);
            let message = format!("there are two identity constraints with the name {text}");
            self.complain("sch-props-correct.2", place, message);
        }
        Some(constraint)
    }

    fn read_path(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        parse: fn(
            &str,
            &dyn crate::datatype::NameScope,
        ) -> Result<Path, crate::identity::PathError>,
    ) -> Option<Path> {
        let scope = Scope { document: Some(doc), node, components: None };
        match parse(doc.attribute(node, "xpath")?, &scope) {
            Ok(path) => Some(path),
            Err(error) => {
                self.complain(error.code, doc.place(node), error.message);
                None
            }
        }
    }
}
