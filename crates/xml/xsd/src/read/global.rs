//! Global components: registers their names, applies redefinitions, and reads their contents.

use std::collections::HashSet;
use std::rc::Rc;

use xml::NodeId;

use super::{Builder, Inside, Redefinition, Space};
use crate::datatype::Builtin;
use crate::documents::SchemaDocument;
use crate::model::{
    ANY_TYPE, AttributeDecl, AttributeGroup, AttributeSource, Complex, ComplexSource,
    ComponentLocation, Content, Derivation, DerivationSet, Element, Group, Model, ModelKind,
    Simple, SimpleSource, Type, TypeKind,
};
use crate::names::{NsId, Sym};

impl<'d> Builder<'d> {
    /// Registers every global component. A redefinition replaces the component that it redefines.
    pub(super) fn globals(&mut self) {
        let documents = Rc::clone(&self.documents);
        for doc in documents.iter().filter(|doc| doc.tag(doc.root) == "schema") {
            for node in doc.children(doc.root) {
                self.global(doc, node, false);
            }
        }
        for index in inner_first(&documents) {
            let Some(doc) = documents.get(index) else { continue };
            for &(redefine, target) in &doc.redefines {
                if closure(&documents, target).contains(&index) {
                    let message =
                        "the redefined document includes or redefines this one".to_owned();
                    self.complain("src-redefine.1", doc.place(redefine), message);
                    continue;
                }
                for node in doc.children(redefine) {
                    self.redefinition(&documents, doc, node, target);
                }
            }
        }
    }

    fn name_of(&mut self, doc: &SchemaDocument<'_>, node: NodeId) -> Option<Sym> {
        let local = doc.attribute(node, "name")?;
        Some(self.components.names.intern(doc.target, local))
    }

    fn global(&mut self, doc: &SchemaDocument<'_>, node: NodeId, replace: bool) {
        let Some(name) = self.name_of(doc, node) else { return };
        let place = doc.place(node);
        if !self.has_room(place) {
            return;
        }
        let globals = &self.components.globals;
        let taken = match doc.tag(node) {
            "simpleType" | "complexType" => {
                // A schema for the namespace of XML Schema repeats the built-in types.
                let builtin = doc.target == NsId::XSD && globals.types.contains_key(&name);
                if builtin {
                    return;
                }
                globals.types.contains_key(&name)
            }
            "element" => globals.elements.contains_key(&name),
            "attribute" => globals.attributes.contains_key(&name),
            "group" => globals.groups.contains_key(&name),
            "attributeGroup" => globals.attribute_groups.contains_key(&name),
            "notation" => globals.notations.contains_key(&name),
            _ => return,
        };
        if taken && !replace {
            let text = self.components.names.text(name);
            let message = format!("the name {text} is declared twice: {}", doc.tag(node));
            self.complain("sch-props-correct.2", place, message);
            return;
        }
        self.stub(doc, node, name, place);
    }

    fn stub(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        name: Sym,
        place: ComponentLocation,
    ) {
        let all = &mut self.components;
        match doc.tag(node) {
            "simpleType" => {
                let id = all.types.push(empty_simple(Some(name), place));
                all.globals.types.insert(name, id);
            }
            "complexType" => {
                let id = all.types.push(empty_complex(Some(name), place));
                all.globals.types.insert(name, id);
            }
            "element" => {
                let id = all.elements.push(empty_element(name, place, true));
                all.globals.elements.insert(name, id);
            }
            "attribute" => {
                let type_id = all.builtin(Builtin::AnySimpleType);
                let decl = AttributeDecl { name, place, type_id, constraint: None };
                let id = all.attributes.push(decl);
                all.globals.attributes.insert(name, id);
            }
            "group" => {
                let kind = ModelKind::Sequence;
                let model = all.models.push(Model { kind, particles: Vec::new() });
                let id = all.groups.push(Group { place, model });
                all.globals.groups.insert(name, id);
            }
            "attributeGroup" => {
                let id = all.attribute_groups.push(AttributeGroup {
                    place,
                    source: AttributeSource::default(),
                    uses: Vec::new(),
                    wildcard: None,
                });
                all.globals.attribute_groups.insert(name, id);
            }
            "notation" => {
                all.globals.notations.insert(name, place);
                let identified = ["public", "system"];
                if identified.iter().all(|id| doc.attribute(node, id).is_none()) {
                    let message = "a notation must have a public or a system identifier".to_owned();
                    self.complain("n-props-correct", place, message);
                }
            }
            // Harmless: any other child has been reported already.
            _ => {}
        }
    }

    /// Registers a child of a `redefine`, which replaces the component with that name in the redefined document.
    fn redefinition(
        &mut self,
        documents: &[SchemaDocument<'d>],
        doc: &SchemaDocument<'_>,
        node: NodeId,
        target: usize,
    ) {
        let Some(name) = self.name_of(doc, node) else { return };
        let globals = &self.components.globals;
        let found = match doc.tag(node) {
            "simpleType" | "complexType" => globals.types.get(&name).map(|&id| {
                (Space::Type, Redefinition::Type(name, id), self.components.types[id].place)
            }),
            "group" => globals.groups.get(&name).map(|&id| {
                (Space::Group, Redefinition::Group(name, id), self.components.groups[id].place)
            }),
            "attributeGroup" => globals.attribute_groups.get(&name).map(|&id| {
                let place = self.components.attribute_groups[id].place;
                (Space::AttributeGroup, Redefinition::AttributeGroup(name, id), place)
            }),
            _ => return,
        };
        let place = doc.place(node);
        let within = closure(documents, target);
        let text = self.components.names.text(name);
        match found {
            Some((space, original, at)) if within.contains(&at.document) => {
                if let Redefinition::Type(_, id) = original {
                    let same = match self.components.types[id].kind {
                        TypeKind::Simple(_) => doc.tag(node) == "simpleType",
                        TypeKind::Complex(_) => doc.tag(node) == "complexType",
                    };
                    if !same {
                        let message =
                            format!("{text} is another kind of type in the redefined document");
                        self.complain("src-redefine.5", place, message);
                        return;
                    }
                }
                self.redefined.insert(((doc.index, node), space), original);
                self.global(doc, node, true);
            }
            Some(_) | None => {
                let message = format!("the redefined document has no {} {text}", doc.tag(node));
                self.complain("src-redefine.5", place, message);
            }
        }
    }

    /// Reads the content of every global component. Replaced components are read too, because their redefinition may refer to them.
    pub(super) fn contents(&mut self) {
        let documents = Rc::clone(&self.documents);
        for id in self.components.types.ids() {
            let place = self.components.types[id].place;
            let Some(doc) = documents.get(place.document) else { continue };
            let inside = self.inside(doc, place.node, Space::Type);
            match self.components.types[id].kind {
                TypeKind::Simple(_) => self.read_simple(doc, place.node, id, inside),
                TypeKind::Complex(_) => self.read_complex(doc, place.node, id, inside),
            }
            self.check_redefined(doc, place.node, id, inside);
        }
        // Only global attributes, because those inside types have been read with them.
        let mut globals: Vec<_> = self.components.globals.attributes.values().copied().collect();
        globals.sort_unstable_by_key(|id| id.number());
        for id in globals {
            let place = self.components.attributes[id].place;
            if let Some(doc) = documents.get(place.document) {
                self.read_global_attribute(doc, place.node, id);
            }
        }
        for id in self.components.groups.ids() {
            let place = self.components.groups[id].place;
            if let Some(doc) = documents.get(place.document) {
                let inside = self.inside(doc, place.node, Space::Group);
                self.read_group(doc, place.node, id, inside);
            }
        }
        for id in self.components.attribute_groups.ids() {
            let place = self.components.attribute_groups[id].place;
            if let Some(doc) = documents.get(place.document) {
                let inside = self.inside(doc, place.node, Space::AttributeGroup);
                let source = self.read_attributes(doc, place.node, inside);
                self.check_redefined_attributes(&source, place, inside);
                self.components.attribute_groups[id].source = source;
            }
        }
        let mut globals: Vec<_> = self.components.globals.elements.values().copied().collect();
        globals.sort_unstable_by_key(|id| id.number());
        for id in globals {
            let place = self.components.elements[id].place;
            if let Some(doc) = documents.get(place.document) {
                self.read_element(doc, place.node, id, Inside::default());
            }
        }
    }

    fn inside(&self, doc: &SchemaDocument<'_>, node: NodeId, space: Space) -> Inside {
        Inside { redefined: self.redefined.get(&((doc.index, node), space)).copied() }
    }

    /// Checks src-redefine.5: a redefined type derives from its original.
    fn check_redefined(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        id: crate::arena::Id<Type>,
        inside: Inside,
    ) {
        let Some(Redefinition::Type(name, original)) = inside.redefined else { return };
        let derives = match &self.components.types[id].kind {
            TypeKind::Simple(simple) => match &simple.source {
                SimpleSource::Restriction { base, .. } => *base == original,
                SimpleSource::BuiltIn | SimpleSource::List { .. } | SimpleSource::Union { .. } => {
                    false
                }
            },
            TypeKind::Complex(_) => self.components.types[id].base == original,
        };
        if !derives {
            let text = self.components.names.text(name);
            let message = format!("the redefinition of {text} does not derive from it");
            self.complain("src-redefine.5", doc.place(node), message);
        }
    }
}

pub(super) fn empty_simple(name: Option<Sym>, place: ComponentLocation) -> Type {
    let value = Builtin::AnySimpleType.simple();
    let kind = TypeKind::Simple(Simple { value, source: SimpleSource::BuiltIn });
    Type { name, place, base: crate::model::ANY_SIMPLE_TYPE, finals: DerivationSet::NONE, kind }
}

pub(super) fn empty_complex(name: Option<Sym>, place: ComponentLocation) -> Type {
    let complex = Complex {
        way: Derivation::Restriction,
        is_abstract: false,
        block: DerivationSet::NONE,
        content: Content::Empty,
        uses: Vec::new(),
        wildcard: None,
        source: ComplexSource::default(),
    };
    let kind = TypeKind::Complex(Box::new(complex));
    Type { name, place, base: ANY_TYPE, finals: DerivationSet::NONE, kind }
}

pub(super) fn empty_element(name: Sym, place: ComponentLocation, global: bool) -> Element {
    Element {
        name,
        place,
        global,
        declared_type: None,
        type_id: ANY_TYPE,
        nillable: false,
        is_abstract: false,
        constraint: None,
        head: None,
        block: DerivationSet::NONE,
        finals: DerivationSet::NONE,
        constraints: Vec::new(),
    }
}

/// Returns a document together with all that it includes or redefines. Cycles are allowed.
fn closure(documents: &[SchemaDocument<'_>], from: usize) -> HashSet<usize> {
    let mut seen = HashSet::from([from]);
    let mut open = vec![from];
    while let Some(index) = open.pop() {
        for &next in documents.get(index).map_or(&[][..], |doc| &doc.includes) {
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    seen
}

/// Returns the documents, each after those that it includes and redefines, so that inner redefinitions come first.
fn inner_first(documents: &[SchemaDocument<'_>]) -> Vec<usize> {
    let mut order = Vec::with_capacity(documents.len());
    let mut seen = vec![false; documents.len()];
    for start in 0..documents.len() {
        let mut open = vec![(start, 0)];
        while let Some((index, next)) = open.pop() {
            if next == 0 && std::mem::replace(seen.get_mut(index).unwrap_or(&mut true), true) {
                continue;
            }
            match documents.get(index).and_then(|doc| doc.includes.get(next)) {
                Some(&inner) => {
                    open.push((index, next + 1));
                    open.push((inner, 0));
                }
                None => order.push(index),
            }
        }
    }
    order
}
