//! Read-only views of a compiled schema for other crates: elements, types, content and attributes.
//!
//! Views do not validate. Following a reference needs no search; only [`TypeView::replacements`] searches all global types.

mod facets;

use std::sync::Arc;

pub use facets::{Facets, facets, sample};

use crate::arena::Id;
use crate::datatype::SimpleType;
use crate::model::{
    ANY_TYPE, Content, DerivationSet, Element, Max, ModelKind, Particle, Process, Term, Type,
    TypeKind, ValueConstraint,
};
use crate::names::{NsId, Sym};
use crate::schema::Schema;
use crate::wildcard::Namespaces;

/// View of an element declaration.
#[derive(Debug, Clone, Copy)]
pub struct ElementView<'s> {
    schema: &'s Schema,
    id: Id<Element>,
}

/// View of a type definition.
#[derive(Debug, Clone, Copy)]
pub struct TypeView<'s> {
    schema: &'s Schema,
    id: Id<Type>,
}

/// View of a particle: a term with its occurrence.
#[derive(Debug, Clone, Copy)]
pub struct ParticleView<'s> {
    schema: &'s Schema,
    id: Id<Particle>,
}

/// An attribute of a type.
#[derive(Debug, Clone, Copy)]
pub struct AttributeView<'s> {
    pub uri: &'s str,
    pub local: &'s str,
    pub required: bool,
    pub simple: &'s Arc<SimpleType>,
    pub given: Option<GivenView<'s>>,
}

/// A default or fixed value as written.
#[derive(Debug, Clone, Copy)]
pub struct GivenView<'s> {
    pub fixed: bool,
    pub text: &'s str,
}

/// Content of a type.
#[derive(Debug, Clone, Copy)]
pub enum ContentView<'s> {
    /// Text, without attributes.
    Simple(&'s Arc<SimpleType>),
    /// Text with attributes.
    SimpleContent(&'s Arc<SimpleType>),
    /// Attributes only.
    Empty,
    /// Elements, with text between them if mixed, and attributes.
    Children { mixed: bool, particle: ParticleView<'s> },
}

/// Term of a particle.
#[derive(Debug)]
pub enum TermView<'s> {
    Element(ElementView<'s>),
    /// Any element in some namespaces; `strict`: it must be declared.
    Wildcard {
        strict: bool,
    },
    Sequence(Vec<ParticleView<'s>>),
    Choice(Vec<ParticleView<'s>>),
    All(Vec<ParticleView<'s>>),
}

impl Schema {
    /// Returns the global element with a name.
    pub fn element(&self, uri: &str, local: &str) -> Option<ElementView<'_>> {
        let names = &self.components.names;
        let id = self.global(names.find(names.find_namespace(uri), local))?;
        Some(ElementView { schema: self, id })
    }

    /// Returns the global type with a name, including built-in types.
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

    /// Returns its number among the elements of the schema.
    pub fn number(self) -> u32 {
        self.id.number()
    }

    /// Returns namespace and local name.
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

    /// Returns the elements that may be substituted for this one, except itself.
    pub fn substitutes(self) -> impl Iterator<Item = ElementView<'s>> {
        let known = self.schema.components.substitutes.get(&self.id);
        let schema = self.schema;
        // Harmless: an element without substitutes has none to list.
        known.into_iter().flatten().map(move |&id| ElementView { schema, id })
    }
}

impl<'s> TypeView<'s> {
    fn component(self) -> &'s Type {
        &self.schema.components.types[self.id]
    }

    /// Returns its number among the types of the schema.
    pub fn number(self) -> u32 {
        self.id.number()
    }

    /// Returns namespace and local name of a global type.
    pub fn name(self) -> Option<(&'s str, &'s str)> {
        self.component().name.map(|name| self.schema.name(name))
    }

    /// Returns whether it is `anyType`.
    pub fn is_any(self) -> bool {
        self.id == ANY_TYPE
    }

    pub fn is_abstract(self) -> bool {
        self.schema.components.complex(self.id).is_some_and(|complex| complex.is_abstract)
    }

    /// Returns whether it is a type of XML Schema itself.
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

    /// Returns the attributes, including inherited ones, in the order written.
    pub fn attributes(self) -> Vec<AttributeView<'s>> {
        let all = &self.schema.components;
        let uses = all.complex(self.id).map_or(&[][..], |complex| complex.uses.as_slice());
        let view = |usage: &'s crate::model::AttributeUse| {
            let decl = &all.attributes[usage.decl];
            let (uri, local) = self.schema.name(usage.name);
            let constraint = usage.constraint.as_ref().or(decl.constraint.as_ref());
            let simple =
                all.simple(decl.type_id).or_else(|| all.simple(crate::model::ANY_SIMPLE_TYPE))?;
            let given = constraint.map(given);
            Some(AttributeView { uri, local, required: usage.required, simple, given })
        };
        // Harmless: each attribute has a simple type.
        uses.iter().filter_map(view).collect()
    }

    /// Returns whether it has an attribute wildcard.
    pub fn any_attribute(self) -> bool {
        let complex = self.schema.components.complex(self.id);
        complex.is_some_and(|complex| complex.wildcard.is_some())
    }

    /// Returns the global types that may replace this one by `xsi:type`, except itself, in the order of their numbers.
    pub fn replacements(self) -> Vec<TypeView<'s>> {
        let all = &self.schema.components;
        let mut found: Vec<Id<Type>> = all
            .globals
            .types
            .values()
            .copied()
            .filter(|&id| id != self.id && all.can_replace(id, self.id, DerivationSet::NONE))
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

    /// Returns the maximum number of occurrences, or `None` if unbounded.
    pub fn max(self) -> Option<u64> {
        match self.component().max {
            Max::Times(times) => Some(times),
            Max::Unbounded => None,
        }
    }

    /// Returns whether it is a wildcard that matches elements of a namespace.
    pub fn allows(self, uri: &str) -> bool {
        let all = &self.schema.components;
        match self.component().term {
            Term::Wildcard(id) => {
                all.wildcards[id].namespaces.allows(all.names.find_namespace(uri))
            }
            Term::Element(_) | Term::Model(_) | Term::Group(_) => false,
        }
    }

    /// Returns the first of the namespaces that a wildcard lists, or `None` if it lists none.
    pub fn listed_namespace(self) -> Option<&'s str> {
        let all = &self.schema.components;
        let Term::Wildcard(id) = self.component().term else { return None };
        match &all.wildcards[id].namespaces {
            Namespaces::Of(list) => list.first().map(|namespace| all.names.uri(*namespace)),
            Namespaces::Any | Namespaces::Not(_) => None,
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
