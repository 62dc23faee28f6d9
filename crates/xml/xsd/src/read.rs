//! Reads components from schema documents.
//!
//! Owns the registration of global names, redefinition, and the resolution of references. A global
//! component gets its index before its content is read, so references are indexes from the start, and reading does not recurse across
//! references. The rules for finished components are in `rules`.

mod attribute;
mod complex;
mod element;
mod global;
mod particle;
mod simple;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use xml::NodeId;

use crate::arena::Id;
use crate::complaint::{Complaint, Report};
use crate::documents::{Documents, SchemaDocument};
use crate::limits::Limits;
use crate::model::{
    ANY_TYPE, AttributeGroup, ComponentLocation, Components, Element, Group, Type, ValueConstraint,
};
use crate::names::{NsId, Sym};
use crate::syntax;

/// A schema under construction.
pub(crate) struct Builder<'d> {
    pub(crate) documents: Rc<[SchemaDocument<'d>]>,
    pub(crate) components: Components,
    pub(crate) limits: Limits,
    pub(crate) report: Report,
    /// Complaints about rules that libxml2 does not check.
    pub(crate) noted: Report,
    /// What the name of a redefining component refers to inside that component.
    redefined: HashMap<(NodeIn, Space), Redefinition>,
    /// Key references, resolved once all names are known.
    pub(crate) keyrefs: Vec<KeyRef>,
    /// Redefined groups that do not refer to their original, so that they have to restrict it.
    pub(crate) redefined_groups: Vec<(Option<Id<Group>>, Id<Group>)>,
    /// Whether the limit on components is exceeded, which is reported once.
    over: bool,
}

/// A key reference: the name it refers to, its number of fields, and its place.
pub(crate) struct KeyRef {
    pub(crate) refer: Sym,
    pub(crate) fields: usize,
    pub(crate) place: ComponentLocation,
}

/// A node of one of the documents.
pub(crate) type NodeIn = (usize, NodeId);

/// The symbol spaces that can be redefined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    Type,
    Group,
    AttributeGroup,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Redefinition {
    Type(Sym, Id<Type>),
    Group(Sym, Id<Group>),
    AttributeGroup(Sym, Id<AttributeGroup>),
}

/// What references inside a component depend on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Inside {
    /// Inside a redefinition, what the name of the redefining component refers to.
    pub(crate) redefined: Option<Redefinition>,
}

impl<'d> Builder<'d> {
    pub(crate) fn new(
        documents: Documents<'d>,
        components: Components,
        limits: &Limits,
    ) -> Builder<'d> {
        let Documents { list, report, .. } = documents;
        Builder {
            documents: list.into(),
            components,
            limits: limits.clone(),
            report,
            noted: Report::new(limits.complaints_max),
            redefined: HashMap::new(),
            keyrefs: Vec::new(),
            redefined_groups: Vec::new(),
            over: false,
        }
    }

    /// Reads all components. Returns false if references are invalid or chains are not finite, so that later steps are impossible.
    pub(crate) fn read(&mut self) -> bool {
        self.globals();
        self.contents();
        let valid = self.simple_types() && self.groups() && self.element_types();
        if valid {
            self.complex_types();
        }
        valid
    }

    pub(crate) fn complain(
        &mut self,
        code: &'static str,
        place: ComponentLocation,
        message: String,
    ) {
        let complaint = self.complaint(code, place, message);
        self.report.push(complaint);
    }

    /// Reports a violation of a rule that libxml2 does not check.
    pub(crate) fn complain_unless_libxml(
        &mut self,
        code: &'static str,
        place: ComponentLocation,
        message: String,
    ) {
        let complaint = self.complaint(code, place, message);
        if self.limits.as_libxml { self.noted.push(complaint) } else { self.report.push(complaint) }
    }

    fn complaint(
        &self,
        code: &'static str,
        place: ComponentLocation,
        message: String,
    ) -> Complaint {
        let documents = Rc::clone(&self.documents);
        let (location, at) = match documents.get(place.document) {
            Some(document) => {
                (Arc::clone(&document.location), document.tree().position(place.node))
            }
            None => (Arc::from(""), xml::Position::default()),
        };
        Complaint { code, location, at, message }
    }

    /// Returns whether the budget allows another component.
    pub(crate) fn has_room(&mut self, place: ComponentLocation) -> bool {
        let all = &self.components;
        let count =
            all.types.len() + all.elements.len() + all.attributes.len() + all.particles.len();
        let room = count < self.limits.components_max;
        if !room && !self.over {
            self.over = true;
            let message = format!("over {} components", self.limits.components_max);
            self.complain("limit", place, message);
        }
        room
    }

    /// Resolves a QName in a document. Reports errors itself.
    pub(crate) fn qname(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        text: &str,
    ) -> Option<Sym> {
        let text = syntax::collapse(text);
        if !syntax::is_qname(text) {
            // The check of the syntax has reported this already.
            return None;
        }
        let (prefix, local) = text.split_once(':').unwrap_or(("", text));
        let namespace = match doc.tree().lookup_prefix(node, prefix) {
            Some(uri) => self.components.names.namespace(uri),
            None if prefix.is_empty() => NsId::ABSENT,
            None => {
                let message = format!("the prefix {prefix:?} is not declared");
                self.complain("src-resolve", doc.place(node), message);
                return None;
            }
        };
        // Part 1, 4.2.1: names in no namespace take that of the including document.
        let namespace =
            if namespace == NsId::ABSENT && doc.chameleon { doc.target } else { namespace };
        let visible = namespace == doc.target
            || matches!(namespace, NsId::XSD | NsId::XSI)
            || doc.imports.contains(&namespace);
        if !visible {
            let uri = self.components.names.uri(namespace);
            let message = format!("{text}: the namespace {uri:?} is not imported");
            self.complain("src-resolve.4", doc.place(node), message);
            return None;
        }
        Some(self.components.names.intern(namespace, local))
    }

    fn missing<T>(&mut self, place: ComponentLocation, what: &str, name: Sym) -> Option<T> {
        let message = format!("there is no {what} {}", self.components.names.text(name));
        self.complain("src-resolve", place, message);
        None
    }

    pub(crate) fn type_named(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        text: &str,
        inside: Inside,
    ) -> Option<Id<Type>> {
        let name = self.qname(doc, node, text)?;
        if let Some(Redefinition::Type(own, original)) = inside.redefined
            && own == name
        {
            return Some(original);
        }
        match self.components.globals.types.get(&name) {
            Some(&id) => Some(id),
            None => self.missing(doc.place(node), "type", name),
        }
    }

    pub(crate) fn element_named(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        text: &str,
    ) -> Option<Id<Element>> {
        let name = self.qname(doc, node, text)?;
        match self.components.globals.elements.get(&name) {
            Some(&id) => Some(id),
            None => self.missing(doc.place(node), "element", name),
        }
    }

    /// Reads a default or fixed value from the attributes of a node.
    pub(crate) fn value_constraint(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
    ) -> Option<ValueConstraint> {
        let value = |name| doc.tree().attribute(node, "", name);
        let (fixed, text) = match (value("default"), value("fixed")) {
            (Some(_), Some(_)) => {
                let code = match doc.tag(node) {
                    "element" => "src-element.1",
                    _ => "src-attribute.1",
                };
                let message = "default and fixed exclude one another".to_owned();
                self.complain(code, doc.place(node), message);
                return None;
            }
            (Some(text), None) => (false, text),
            (None, Some(text)) => (true, text),
            (None, None) => return None,
        };
        Some(ValueConstraint { fixed, text: text.into(), place: doc.place(node) })
    }

    /// Returns redefined attribute groups with their originals.
    pub(crate) fn redefined_attributes(&self) -> Vec<(Id<AttributeGroup>, Id<AttributeGroup>)> {
        // Harmless: other redefinitions are not of attribute groups.
        let pairs = self.redefined.values().filter_map(|redefined| match *redefined {
            Redefinition::AttributeGroup(name, original) => {
                let now = self.components.globals.attribute_groups.get(&name)?;
                Some((*now, original))
            }
            Redefinition::Type(..) | Redefinition::Group(..) => None,
        });
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_unstable_by_key(|(id, _)| id.number());
        pairs
    }

    /// Returns `anyType` in place of a missing type, so that reading can continue.
    pub(crate) fn or_any(found: Option<Id<Type>>) -> Id<Type> {
        found.unwrap_or(ANY_TYPE)
    }
}

impl SchemaDocument<'_> {
    pub(crate) fn place(&self, node: NodeId) -> ComponentLocation {
        ComponentLocation { document: self.index, node }
    }
}
