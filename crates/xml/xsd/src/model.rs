//! The components of a schema (Part 1, section 3), with references by arena index.
//!
//! Owns their properties, and queries that need no other component. The rules are in other modules.

use std::collections::HashMap;
use std::sync::Arc;

use crate::arena::{Arena, Id};
use crate::datatype::{Builtin, SimpleType};
use crate::identity::Constraint;
pub(crate) use crate::location::ComponentLocation;
use crate::names::{Names, NsId, Sym};
pub(crate) use crate::wildcard::{Namespaces, Process, Wildcard};

/// A set of derivation methods, as in `final` and `block`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DerivationSet(pub(crate) u8);

impl DerivationSet {
    pub(crate) const NONE: DerivationSet = DerivationSet(0);
    pub(crate) const EXTENSION: DerivationSet = DerivationSet(1);
    pub(crate) const RESTRICTION: DerivationSet = DerivationSet(2);
    pub(crate) const SUBSTITUTION: DerivationSet = DerivationSet(4);
    pub(crate) const LIST: DerivationSet = DerivationSet(8);
    pub(crate) const UNION: DerivationSet = DerivationSet(16);

    pub(crate) fn has(self, way: DerivationSet) -> bool {
        self.0 & way.0 != 0
    }

    pub(crate) fn with(self, other: DerivationSet) -> DerivationSet {
        DerivationSet(self.0 | other.0)
    }

    pub(crate) fn only(self, other: DerivationSet) -> DerivationSet {
        DerivationSet(self.0 & other.0)
    }
}

#[derive(Debug)]
pub(crate) struct Type {
    pub(crate) name: Option<Sym>,
    pub(crate) place: ComponentLocation,
    /// The base type; `anyType` is its own.
    pub(crate) base: Id<Type>,
    pub(crate) finals: DerivationSet,
    pub(crate) kind: TypeKind,
}

#[derive(Debug)]
pub(crate) enum TypeKind {
    Simple(Simple),
    Complex(Box<Complex>),
}

#[derive(Debug)]
pub(crate) struct Simple {
    /// `anySimpleType` until the type is compiled.
    pub(crate) value: Arc<SimpleType>,
    pub(crate) source: SimpleSource,
}

/// Definition of a simple type.
#[derive(Debug, Clone)]
pub(crate) enum SimpleSource {
    BuiltIn,
    /// The facets are in the element `at`.
    Restriction {
        base: Id<Type>,
        at: ComponentLocation,
    },
    List {
        item: Id<Type>,
    },
    Union {
        members: Vec<Id<Type>>,
    },
}

#[derive(Debug)]
pub(crate) struct Complex {
    pub(crate) way: Derivation,
    pub(crate) is_abstract: bool,
    pub(crate) block: DerivationSet,
    pub(crate) content: Content,
    pub(crate) uses: Vec<AttributeUse>,
    pub(crate) wildcard: Option<Wildcard>,
    pub(crate) source: ComplexSource,
}

/// Derivation method of a complex type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Derivation {
    Restriction,
    Extension,
}

impl Derivation {
    pub(crate) fn as_ways(self) -> DerivationSet {
        match self {
            Derivation::Restriction => DerivationSet::RESTRICTION,
            Derivation::Extension => DerivationSet::EXTENSION,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    Empty,
    Simple(Id<Type>),
    Children { mixed: bool, particle: Id<Particle> },
}

/// Definition of a complex type as read, before its base type is known.
#[derive(Debug, Default)]
pub(crate) struct ComplexSource {
    /// Whether the type has `simpleContent`.
    pub(crate) simple: bool,
    pub(crate) mixed: bool,
    pub(crate) particle: Option<Id<Particle>>,
    pub(crate) attributes: AttributeSource,
    /// The anonymous simple type in a restriction of simple content.
    pub(crate) inner: Option<Id<Type>>,
    /// The `restriction` or `extension` element. In a restriction of simple content, it contains the facets.
    pub(crate) facets: Option<ComponentLocation>,
}

/// Attributes as listed in a complex type or attribute group.
#[derive(Debug, Default, Clone)]
pub(crate) struct AttributeSource {
    pub(crate) uses: Vec<AttributeUse>,
    /// Names that a restriction prohibits.
    pub(crate) prohibited: Vec<Sym>,
    pub(crate) groups: Vec<(Id<AttributeGroup>, ComponentLocation)>,
    pub(crate) wildcard: Option<Wildcard>,
}

#[derive(Debug)]
pub(crate) struct AttributeGroup {
    pub(crate) place: ComponentLocation,
    pub(crate) source: AttributeSource,
    /// Uses including those of referenced groups.
    pub(crate) uses: Vec<AttributeUse>,
    pub(crate) wildcard: Option<Wildcard>,
}

#[derive(Debug)]
pub(crate) struct AttributeDecl {
    pub(crate) name: Sym,
    pub(crate) place: ComponentLocation,
    pub(crate) type_id: Id<Type>,
    pub(crate) constraint: Option<ValueConstraint>,
}

#[derive(Debug, Clone)]
pub(crate) struct AttributeUse {
    pub(crate) name: Sym,
    pub(crate) place: ComponentLocation,
    pub(crate) decl: Id<AttributeDecl>,
    pub(crate) required: bool,
    /// The use's own constraint, which takes precedence over the declaration's.
    pub(crate) constraint: Option<ValueConstraint>,
}

/// A default or fixed value as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueConstraint {
    pub(crate) fixed: bool,
    pub(crate) text: Arc<str>,
    /// Where the value is written, which determines the namespaces in scope.
    pub(crate) place: ComponentLocation,
}

#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) name: Sym,
    pub(crate) place: ComponentLocation,
    pub(crate) global: bool,
    /// The type that the declaration names or defines, or `None`.
    pub(crate) declared_type: Option<Id<Type>>,
    /// The declared type, else that of the nearest head of a substitution group that has one, else `anyType`.
    pub(crate) type_id: Id<Type>,
    pub(crate) nillable: bool,
    pub(crate) is_abstract: bool,
    pub(crate) constraint: Option<ValueConstraint>,
    pub(crate) head: Option<Id<Element>>,
    pub(crate) block: DerivationSet,
    pub(crate) finals: DerivationSet,
    pub(crate) constraints: Vec<Arc<Constraint>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Particle {
    pub(crate) place: ComponentLocation,
    pub(crate) min: u64,
    pub(crate) max: Max,
    pub(crate) term: Term,
}

/// `maxOccurs`, in its natural order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Max {
    Times(u64),
    Unbounded,
}

impl Max {
    pub(crate) fn times(self, other: Max) -> Max {
        match (self, other) {
            (Max::Times(0), _) | (_, Max::Times(0)) => Max::Times(0),
            (Max::Times(a), Max::Times(b)) => Max::Times(a.saturating_mul(b)),
            (Max::Unbounded, Max::Times(_) | Max::Unbounded) | (Max::Times(_), Max::Unbounded) => {
                Max::Unbounded
            }
        }
    }

    pub(crate) fn plus(self, other: Max) -> Max {
        match (self, other) {
            (Max::Times(a), Max::Times(b)) => Max::Times(a.saturating_add(b)),
            (Max::Unbounded, Max::Times(_) | Max::Unbounded) | (Max::Times(_), Max::Unbounded) => {
                Max::Unbounded
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Term {
    Element(Id<Element>),
    Wildcard(Id<Wildcard>),
    Model(Id<Model>),
    /// A reference to a named group.
    Group(Id<Group>),
}

/// A model group.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) kind: ModelKind,
    pub(crate) particles: Vec<Id<Particle>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelKind {
    Sequence,
    Choice,
    All,
}

/// A named model group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) place: ComponentLocation,
    pub(crate) model: Id<Model>,
}

/// All components of a schema.
#[derive(Debug)]
pub(crate) struct Components {
    pub(crate) names: Names,
    pub(crate) types: Arena<Type>,
    pub(crate) elements: Arena<Element>,
    pub(crate) attributes: Arena<AttributeDecl>,
    pub(crate) groups: Arena<Group>,
    pub(crate) attribute_groups: Arena<AttributeGroup>,
    pub(crate) particles: Arena<Particle>,
    pub(crate) models: Arena<Model>,
    pub(crate) wildcards: Arena<Wildcard>,
    pub(crate) globals: Globals,
    /// The members of each head's substitution group, without the head itself and without members that the head blocks.
    pub(crate) substitutes: HashMap<Id<Element>, Vec<Id<Element>>>,
}

/// Components by name.
#[derive(Debug, Default)]
pub(crate) struct Globals {
    pub(crate) types: HashMap<Sym, Id<Type>>,
    pub(crate) elements: HashMap<Sym, Id<Element>>,
    pub(crate) attributes: HashMap<Sym, Id<AttributeDecl>>,
    pub(crate) groups: HashMap<Sym, Id<Group>>,
    pub(crate) attribute_groups: HashMap<Sym, Id<AttributeGroup>>,
    pub(crate) notations: HashMap<Sym, ComponentLocation>,
    pub(crate) constraints: HashMap<Sym, Arc<Constraint>>,
}

pub(crate) const ANY_TYPE: Id<Type> = Id::new(0);
pub(crate) const ANY_SIMPLE_TYPE: Id<Type> = Id::new(1);

impl Components {
    /// Makes the built-in components: the ur-types and the simple types of Part 2.
    pub(crate) fn new() -> Components {
        let mut all = Components {
            names: Names::new(),
            types: Arena::new(),
            elements: Arena::new(),
            attributes: Arena::new(),
            groups: Arena::new(),
            attribute_groups: Arena::new(),
            particles: Arena::new(),
            models: Arena::new(),
            wildcards: Arena::new(),
            globals: Globals::default(),
            substitutes: HashMap::new(),
        };
        all.any_type();
        for builtin in Builtin::ALL {
            let base = match builtin.base() {
                None => ANY_TYPE,
                Some(base) => all.builtin(base),
            };
            let name = all.names.intern(NsId::XSD, builtin.name());
            let value = builtin.simple();
            let id = all.types.push(Type {
                name: Some(name),
                place: ComponentLocation::BUILT_IN,
                base,
                finals: DerivationSet::NONE,
                kind: TypeKind::Simple(Simple { value, source: SimpleSource::BuiltIn }),
            });
            all.globals.types.insert(name, id);
        }
        all
    }

    /// Adds `anyType`: any attributes, children and text, validated where there are declarations (Part 1, 3.4.7).
    fn any_type(&mut self) {
        let wildcard = Wildcard {
            namespaces: Namespaces::Any,
            process: Process::Lax,
            place: ComponentLocation::BUILT_IN,
        };
        let any = self.wildcards.push(wildcard.clone());
        let particle =
            |min, max, term| Particle { place: ComponentLocation::BUILT_IN, min, max, term };
        let inner = self.particles.push(particle(0, Max::Unbounded, Term::Wildcard(any)));
        let model = self.models.push(Model { kind: ModelKind::Sequence, particles: vec![inner] });
        let outer = self.particles.push(particle(1, Max::Times(1), Term::Model(model)));
        let name = self.names.intern(NsId::XSD, "anyType");
        let id = self.types.push(Type {
            name: Some(name),
            place: ComponentLocation::BUILT_IN,
            base: ANY_TYPE,
            finals: DerivationSet::NONE,
            kind: TypeKind::Complex(Box::new(Complex {
                way: Derivation::Restriction,
                is_abstract: false,
                block: DerivationSet::NONE,
                content: Content::Children { mixed: true, particle: outer },
                uses: Vec::new(),
                wildcard: Some(wildcard),
                source: ComplexSource::default(),
            })),
        });
        self.globals.types.insert(name, id);
    }

    /// Returns the type of a built-in.
    pub(crate) fn builtin(&self, builtin: Builtin) -> Id<Type> {
        let name = self.names.find(NsId::XSD, builtin.name());
        self.globals.types.get(&name).copied().unwrap_or(ANY_SIMPLE_TYPE)
    }

    pub(crate) fn complex(&self, id: Id<Type>) -> Option<&Complex> {
        match &self.types[id].kind {
            TypeKind::Complex(complex) => Some(complex),
            TypeKind::Simple(_) => None,
        }
    }

    pub(crate) fn complex_mut(&mut self, id: Id<Type>) -> Option<&mut Complex> {
        match &mut self.types[id].kind {
            TypeKind::Complex(complex) => Some(complex),
            TypeKind::Simple(_) => None,
        }
    }

    pub(crate) fn simple(&self, id: Id<Type>) -> Option<&Arc<SimpleType>> {
        match &self.types[id].kind {
            TypeKind::Simple(simple) => Some(&simple.value),
            TypeKind::Complex(_) => None,
        }
    }

    /// Returns the simple type of the text that a type allows: the type itself, or its simple content.
    pub(crate) fn text_type(&self, id: Id<Type>) -> Option<&Arc<SimpleType>> {
        match &self.types[id].kind {
            TypeKind::Simple(simple) => Some(&simple.value),
            TypeKind::Complex(complex) => match complex.content {
                Content::Simple(inner) => self.simple(inner),
                Content::Empty | Content::Children { .. } => None,
            },
        }
    }

    /// Returns the model group of a particle's term. Follows references to named groups.
    pub(crate) fn model_of(&self, term: Term) -> Option<Id<Model>> {
        match term {
            Term::Model(model) => Some(model),
            Term::Group(group) => Some(self.groups[group].model),
            Term::Element(_) | Term::Wildcard(_) => None,
        }
    }

    /// Returns the name of a type, for messages.
    pub(crate) fn type_text(&self, id: Id<Type>) -> String {
        match self.types[id].name {
            Some(name) => self.names.text(name),
            None => "an anonymous type".to_owned(),
        }
    }
}
