//! Simple types: reading their definitions, and building them in the order of derivation.

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use xml::NodeId;

use super::{Builder, Inside};
use crate::arena::Id;
use crate::datatype::{FacetKind, RawFacet, SimpleType, Variety};
use crate::documents::SchemaDocument;
use crate::model::{
    ANY_SIMPLE_TYPE, ANY_TYPE, ComponentLocation, DerivationSet, SimpleSource, Type, TypeKind,
};
use crate::scope::Scope;

impl<'d> Builder<'d> {
    pub(super) fn read_simple(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        id: Id<Type>,
        inside: Inside,
    ) {
        let allowed =
            DerivationSet::RESTRICTION.with(DerivationSet::LIST).with(DerivationSet::UNION);
        let finals = doc.ways(node, "final", doc.final_default, allowed);
        self.components.types[id].finals = finals;
        let Some(child) = doc.child(node, &["restriction", "list", "union"]) else { return };
        let source = match doc.tag(child) {
            "restriction" => {
                let named = doc.attribute(child, "base");
                let base = self
                    .one_type(doc, child, named, inside, "src-simple-type.2")
                    .unwrap_or(ANY_TYPE);
                self.components.types[id].base = base;
                SimpleSource::Restriction { base, at: doc.place(child) }
            }
            "list" => {
                let named = doc.attribute(child, "itemType");
                let item = self.one_type(doc, child, named, inside, "src-simple-type.3.1");
                SimpleSource::List { item: item.unwrap_or(ANY_TYPE) }
            }
            _ => SimpleSource::Union { members: self.members(doc, child, inside) },
        };
        if let TypeKind::Simple(simple) = &mut self.components.types[id].kind {
            simple.source = source;
        }
    }

    /// Returns either the named type or the one inside.
    fn one_type(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        named: Option<&str>,
        inside: Inside,
        clause: &'static str,
    ) -> Option<Id<Type>> {
        match (named, doc.child(node, &["simpleType"])) {
            (Some(text), None) => self.type_named(doc, node, text, inside),
            (None, Some(child)) => Some(self.anonymous_type(doc, child, inside)),
            (Some(_), Some(_)) | (None, None) => {
                let message = "either name a type or define one inside".to_owned();
                self.complain(clause, doc.place(node), message);
                None
            }
        }
    }

    fn members(&mut self, doc: &SchemaDocument<'_>, node: NodeId, inside: Inside) -> Vec<Id<Type>> {
        let named = doc.attribute(node, "memberTypes").unwrap_or("");
        let mut members: Vec<Id<Type>> = named
            .split_ascii_whitespace()
            // Harmless: an unknown type is reported by the call.
            .filter_map(|text| self.type_named(doc, node, text, inside))
            .collect();
        let children: Vec<NodeId> = doc.children(node).collect();
        for child in children.into_iter().filter(|&child| doc.tag(child) == "simpleType") {
            members.push(self.anonymous_type(doc, child, inside));
        }
        if members.is_empty() && named.is_empty() {
            let message = "a union must have at least one member".to_owned();
            self.complain("src-union-memberTypes-or-simpleTypes", doc.place(node), message);
        }
        members
    }

    /// Builds all simple types, each after the types it is made from. Returns false if there is a cycle.
    pub(super) fn simple_types(&mut self) -> bool {
        let mut done: HashSet<Id<Type>> = HashSet::new();
        let mut under_way: HashSet<Id<Type>> = HashSet::new();
        let mut sound = true;
        for start in self.components.types.ids() {
            let mut open = vec![start];
            while let Some(&id) = open.last() {
                if done.contains(&id) || self.components.simple(id).is_none() {
                    open.pop();
                    continue;
                }
                let first_visit = under_way.insert(id);
                let needs = self.sources(id);
                let missing: Vec<Id<Type>> =
                    needs.into_iter().filter(|need| !done.contains(need)).collect();
                let circle = missing.iter().any(|need| under_way.contains(need));
                if circle {
                    sound = false;
                    let text = self.components.type_text(id);
                    let place = self.components.types[id].place;
                    let message = format!("{text} is made from itself");
                    self.complain("st-props-correct.2", place, message);
                } else if first_visit && !missing.is_empty() {
                    open.extend(missing);
                    continue;
                } else {
                    self.make_simple(id);
                }
                done.insert(id);
                open.pop();
            }
        }
        sound
    }

    /// Returns the simple types from which a simple type is made.
    fn sources(&self, id: Id<Type>) -> Vec<Id<Type>> {
        let TypeKind::Simple(simple) = &self.components.types[id].kind else { return Vec::new() };
        let all = match &simple.source {
            SimpleSource::BuiltIn => Vec::new(),
            SimpleSource::Restriction { base, .. } => vec![*base],
            SimpleSource::List { item } => vec![*item],
            SimpleSource::Union { members } => members.clone(),
        };
        all.into_iter().filter(|&id| self.components.simple(id).is_some()).collect()
    }

    fn make_simple(&mut self, id: Id<Type>) {
        let TypeKind::Simple(simple) = &self.components.types[id].kind else { return };
        let place = self.components.types[id].place;
        let made = match simple.source.clone() {
            SimpleSource::BuiltIn => return,
            SimpleSource::Restriction { base, at } => self.make_restriction(base, at),
            SimpleSource::List { item } => self.make_list(item, place),
            SimpleSource::Union { members } => self.make_union(&members, place),
        };
        if let (Some(made), TypeKind::Simple(simple)) = (made, &mut self.components.types[id].kind)
        {
            simple.value = made;
        }
    }

    /// Returns a simple type to derive from, unless its `final` forbids the derivation.
    fn material(
        &mut self,
        id: Id<Type>,
        way: DerivationSet,
        place: ComponentLocation,
        code: &'static str,
    ) -> Option<Arc<SimpleType>> {
        if id == ANY_TYPE {
            // Either an error has been reported already, or the schema derives from the ur-type.
            if self.report.is_empty() {
                self.complain(
                    "cos-st-restricts.1.1",
                    place,
                    "anyType is not a simple type".to_owned(),
                );
            }
            return None;
        }
        let Some(simple) = self.components.simple(id).cloned() else {
            let message = format!("{} is not a simple type", self.components.type_text(id));
            self.complain("cos-st-restricts.1.1", place, message);
            return None;
        };
        if self.components.types[id].finals.has(way) {
            let message = format!("{} is final for this derivation", self.components.type_text(id));
            self.complain(code, place, message);
        }
        Some(simple)
    }

    fn make_restriction(
        &mut self,
        base: Id<Type>,
        at: ComponentLocation,
    ) -> Option<Arc<SimpleType>> {
        let simple = self.material(base, DerivationSet::RESTRICTION, at, "st-props-correct.3")?;
        if base == ANY_SIMPLE_TYPE {
            let message = "only the built-in types may restrict anySimpleType".to_owned();
            self.complain("cos-st-restricts.1.1", at, message);
            return None;
        }
        self.restrict(&simple, at)
    }

    /// Restricts a simple type by the facets in an element.
    pub(super) fn restrict(
        &mut self,
        base: &Arc<SimpleType>,
        at: ComponentLocation,
    ) -> Option<Arc<SimpleType>> {
        let documents = Rc::clone(&self.documents);
        let doc = documents.get(at.document)?;
        let nodes: Vec<(NodeId, FacetKind)> = doc
            .children(at.node)
            // Harmless: other children are not facets.
            .filter_map(|node| Some((node, FacetKind::from_name(doc.tag(node))?)))
            .collect();
        let scopes: Vec<Scope<'_>> = nodes
            .iter()
            .map(|&(node, _)| Scope {
                document: Some(doc),
                node,
                components: Some(&self.components),
            })
            .collect();
        let facets: Vec<RawFacet<'_>> = nodes
            .iter()
            // Harmless: each facet has a scope.
            .zip(&scopes)
            .map(|(&(node, kind), scope)| RawFacet {
                kind,
                // Harmless: a facet without a value has been reported already.
                value: doc.tree().attribute(node, "", "value").unwrap_or_default(),
                fixed: doc.flag(node, "fixed"),
                names: scope,
            })
            .collect();
        match SimpleType::restrict(base, &facets) {
            Ok(made) => Some(Arc::new(made)),
            Err(errors) => {
                for error in errors {
                    let node = error.facet.and_then(|index| nodes.get(index));
                    let node = node.map_or(at.node, |&(node, _)| node);
                    self.complain(error.code, doc.place(node), error.message);
                }
                None
            }
        }
    }

    pub(super) fn has_facets(&self, at: ComponentLocation) -> bool {
        let doc = self.documents.get(at.document);
        doc.is_some_and(|doc| {
            doc.children(at.node).any(|node| FacetKind::from_name(doc.tag(node)).is_some())
        })
    }

    fn make_list(&mut self, item: Id<Type>, place: ComponentLocation) -> Option<Arc<SimpleType>> {
        let simple = self.material(item, DerivationSet::LIST, place, "cos-st-restricts.2.3.1.1")?;
        if matches!(simple.variety(), Variety::Ur) {
            let message =
                "the item type of a list must be atomic, or a union of atomic types".to_owned();
            self.complain("cos-list-of-atomic", place, message);
            return None;
        }
        match SimpleType::list(&simple) {
            Ok(made) => Some(Arc::new(made)),
            Err(error) => {
                self.complain(error.code, place, error.message);
                None
            }
        }
    }

    fn make_union(
        &mut self,
        members: &[Id<Type>],
        place: ComponentLocation,
    ) -> Option<Arc<SimpleType>> {
        let mut simples = Vec::with_capacity(members.len());
        for &member in members {
            simples.push(self.material(
                member,
                DerivationSet::UNION,
                place,
                "cos-st-restricts.3.3.1.1",
            )?);
        }
        match SimpleType::union(&simples) {
            Ok(made) => Some(Arc::new(made)),
            Err(error) => {
                self.complain(error.code, place, error.message);
                None
            }
        }
    }
}
