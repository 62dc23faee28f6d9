//! A compiled schema as others walk it: elements, types, content and attributes, to make something else of them.
//!
//! Owns read-only views of components. It never validates, and what a view leads to is found without a search.

mod facets;

use std::sync::Arc;

pub use facets::{Facets, facets, sample};

use crate::arena::Id;
use crate::datatype::SimpleType;
use crate::model::{
    ANY_TYPE, Content, Element, Max, ModelKind, Particle, Process, Term, Type, TypeKind,
    ValueConstraint, Ways,
};
use crate::names::{NsId, Sym};
use crate::schema::Schema;

/// A declaration of an element.
#[derive(Debug, Clone, Copy)]
pub struct ElementView<'s> {
    schema: &'s Schema,
    id: Id<Element>,
}

/// A definition of a type.
#[derive(Debug, Clone, Copy)]
pub struct TypeView<'s> {
    schema: &'s Schema,
    id: Id<Type>,
}

/// A particle: how often a term may stand.
#[derive(Debug, Clone, Copy)]
pub struct ParticleView<'s> {
    schema: &'s Schema,
    id: Id<Particle>,
}

/// An attribute that a type has.
#[derive(Debug, Clone, Copy)]
pub struct AttributeView<'s> {
    pub uri: &'s str,
    pub local: &'s str,
    pub required: bool,
    pub simple: &'s Arc<SimpleType>,
    pub given: Option<GivenView<'s>>,
}

/// A default or fixed value, as it is written.
#[derive(Debug, Clone, Copy)]
pub struct GivenView<'s> {
    pub fixed: bool,
    pub text: &'s str,
}

/// What may stand inside an element of a type.
#[derive(Debug, Clone, Copy)]
pub enum ContentView<'s> {
    /// Text, and no attributes.
    Simple(&'s Arc<SimpleType>),
    /// Text, and attributes.
    SimpleContent(&'s Arc<SimpleType>),
    /// Nothing, and attributes.
    Empty,
    /// Elements, with text between them where it is mixed, and attributes.
    Children { mixed: bool, particle: ParticleView<'s> },
}

/// What a particle is of.
#[derive(Debug)]
pub enum TermView<'s> {
    Element(ElementView<'s>),
    /// Any element of some namespaces; whether it has to be declared.
    Wildcard {
        strict: bool,
    },
    Sequence(Vec<ParticleView<'s>>),
    Choice(Vec<ParticleView<'s>>),
    All(Vec<ParticleView<'s>>),
}

impl Schema {
    /// The global element of a name.
    pub fn element(&self, uri: &str, local: &str) -> Option<ElementView<'_>> {
        let names = &self.components.names;
        let id = self.global(names.find(names.find_namespace(uri), local))?;
        Some(ElementView { schema: self, id })
    }

    /// The global type of a name, built-in types included.
    pub fn type_named(&self, uri: &str, local: &str) -> Option<TypeView<'_>> {
        self.type_of_name(uri, local).map(|id| TypeView { schema: self, id })
    }

    fn name(&self, sym: Sym) -> (&str, &str) {
        let names = &self.components.names;
        (names.uri(names.namespace_of(sym)), names.local(sym))
    }
}

fn given(constraint: &ValueConstraint) -> GivenView<'_> {
    GivenView { fixed: constraint.fixed, text: &constraint.text }
}

impl<'s> ElementView<'s> {
    fn component(self) -> &'s Element {
        &self.schema.components.elements[self.id]
    }

    /// Its number among the elements of the schema.
    pub fn number(self) -> u32 {
        self.id.number()
    }

    /// Namespace and local name.
    pub fn name(self) -> (&'s str, &'s str) {
        self.schema.name(self.component().name)
    }

    pub fn type_of(self) -> TypeView<'s> {
        TypeView { schema: self.schema, id: self.component().type_id }
    }

    pub fn nillable(self) -> bool {
        self.component().nillable
    }

    pub fn is_abstract(self) -> bool {
        self.component().is_abstract
    }

    pub fn given(self) -> Option<GivenView<'s>> {
        self.component().constraint.as_ref().map(given)
    }

    /// The elements that may stand in its place, itself left out.
    pub fn substitutes(self) -> impl Iterator<Item = ElementView<'s>> {
        let known = self.schema.components.substitutes.get(&self.id);
        let schema = self.schema;
        known.into_iter().flatten().map(move |&id| ElementView { schema, id })
    }
}

impl<'s> TypeView<'s> {
    fn component(self) -> &'s Type {
        &self.schema.components.types[self.id]
    }

    /// Its number among the types of the schema.
    pub fn number(self) -> u32 {
        self.id.number()
    }

    /// Namespace and local name of a global type.
    pub fn name(self) -> Option<(&'s str, &'s str)> {
        self.component().name.map(|name| self.schema.name(name))
    }

    /// It is `anyType`.
    pub fn is_any(self) -> bool {
        self.id == ANY_TYPE
    }

    pub fn is_abstract(self) -> bool {
        self.schema.components.complex(self.id).is_some_and(|complex| complex.is_abstract)
    }

    /// Whether it is a type of XML Schema itself.
    pub fn is_built_in(self) -> bool {
        let names = &self.schema.components.names;
        self.component().name.is_some_and(|name| names.namespace_of(name) == NsId::XSD)
    }

    pub fn content(self) -> ContentView<'s> {
        let all = &self.schema.components;
        match &self.component().kind {
            TypeKind::Simple(simple) => ContentView::Simple(&simple.value),
            TypeKind::Complex(complex) => match complex.content {
                Content::Empty => ContentView::Empty,
                Content::Simple(inner) => match all.simple(inner) {
                    Some(simple) => ContentView::SimpleContent(simple),
                    None => ContentView::Empty,
                },
                Content::Children { mixed, particle } => {
                    let particle = ParticleView { schema: self.schema, id: particle };
                    ContentView::Children { mixed, particle }
                }
            },
        }
    }

    /// The attributes it has, those of types it derives from included, in the order written.
    pub fn attributes(self) -> Vec<AttributeView<'s>> {
        let all = &self.schema.components;
        let uses = all.complex(self.id).map(|complex| complex.uses.as_slice()).unwrap_or_default();
        let view = |usage: &'s crate::model::AttributeUse| {
            let decl = &all.attributes[usage.decl];
            let (uri, local) = self.schema.name(usage.name);
            let constraint = usage.constraint.as_ref().or(decl.constraint.as_ref());
            let simple =
                all.simple(decl.type_id).or_else(|| all.simple(crate::model::ANY_SIMPLE_TYPE))?;
            let given = constraint.map(given);
            Some(AttributeView { uri, local, required: usage.required, simple, given })
        };
        uses.iter().filter_map(view).collect()
    }

    /// Whether it takes attributes that it does not name.
    pub fn any_attribute(self) -> bool {
        let complex = self.schema.components.complex(self.id);
        complex.is_some_and(|complex| complex.wildcard.is_some())
    }

    /// The global types that may stand in its place by `xsi:type`, itself left out, in the order of their numbers.
    pub fn replacements(self) -> Vec<TypeView<'s>> {
        let all = &self.schema.components;
        let mut found: Vec<Id<Type>> = all
            .globals
            .types
            .values()
            .copied()
            .filter(|&id| id != self.id && all.can_replace(id, self.id, Ways::NONE))
            .collect();
        found.sort_unstable_by_key(|id| id.number());
        found.into_iter().map(|id| TypeView { schema: self.schema, id }).collect()
    }
}

impl<'s> ParticleView<'s> {
    fn component(self) -> &'s Particle {
        &self.schema.components.particles[self.id]
    }

    pub fn min(self) -> u64 {
        self.component().min
    }

    /// Nothing: as often as you like.
    pub fn max(self) -> Option<u64> {
        match self.component().max {
            Max::Times(times) => Some(times),
            Max::Unbounded => None,
        }
    }

    /// Whether it is of a wildcard that takes elements of a namespace.
    pub fn allows(self, uri: &str) -> bool {
        let all = &self.schema.components;
        match self.component().term {
            Term::Wildcard(id) => {
                all.wildcards[id].namespaces.allows(all.names.find_namespace(uri))
            }
            Term::Element(_) | Term::Model(_) | Term::Group(_) => false,
        }
    }

    pub fn term(self) -> TermView<'s> {
        let all = &self.schema.components;
        let term = self.component().term;
        match term {
            Term::Element(id) => TermView::Element(ElementView { schema: self.schema, id }),
            Term::Wildcard(id) => {
                TermView::Wildcard { strict: all.wildcards[id].process == Process::Strict }
            }
            Term::Model(_) | Term::Group(_) => {
                let Some(model) = all.model_of(term) else {
                    return TermView::Sequence(Vec::new());
                };
                let model = &all.models[model];
                let of = |id: &Id<Particle>| ParticleView { schema: self.schema, id: *id };
                let particles = model.particles.iter().map(of).collect();
                match model.kind {
                    ModelKind::Sequence => TermView::Sequence(particles),
                    ModelKind::Choice => TermView::Choice(particles),
                    ModelKind::All => TermView::All(particles),
                }
            }
        }
    }
}
