//! A compiled schema, for the validator.
//!
//! Owns the tables built from finished components, arranged for one pass over a document. Immutable and shareable between
//! threads.

use std::sync::Arc;

use crate::arena::Id;
use crate::automaton::Automaton;
use crate::complaint::Complaint;
use crate::datatype::{Builtin, SimpleType, Value, Variety};
use crate::documents::SchemaDocument;
use crate::model::{Components, Content, Element, Type, TypeKind, ValueConstraint, Wildcard};
use crate::names::{NsId, Sym};
use crate::scope::Scope;

/// A schema that satisfies all rules.
#[derive(Debug)]
pub struct Schema {
    pub(crate) components: Components,
    pub(crate) types: Vec<TypeTable>,
    /// Properties needed at start tags, indexed by the element's number.
    pub(crate) heads: Vec<Head>,
    /// Default and fixed values of elements, indexed by the element's number.
    pub(crate) values: Vec<Option<DefaultValue>>,
    pub(crate) globals: Vec<Option<Id<Element>>>,
    pub(crate) noted: Vec<Complaint>,
}

/// Properties of an element's declaration that the validator needs at each start tag.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) type_id: Id<Type>,
    pub(crate) is_abstract: bool,
    /// Whether neither the element nor its type is abstract, and there are no identity constraints.
    pub(crate) is_plain: bool,
    /// Whether the element has a default or fixed value.
    pub(crate) is_given: bool,
}

/// How the content of an element is handled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) kind: Kind,
    /// Whether its text is collected until the element ends.
    pub(crate) collects: bool,
    /// Whether its text is validated against a simple type.
    pub(crate) typed: bool,
    /// Whether the element is valid if its content is, so that no other check is needed at its end.
    pub(crate) plain: bool,
}

/// Properties of a type for the validator.
#[derive(Debug)]
pub(crate) struct TypeTable {
    pub(crate) kind: Kind,
    pub(crate) manner: Manner,
    pub(crate) automaton: Automaton,
    pub(crate) text: Option<Text>,
    /// Sorted by name.
    pub(crate) attributes: Box<[AttributeTable]>,
    pub(crate) wildcard: Option<Wildcard>,
    /// Whether some attribute is required or has a default, so that missing attributes have to be handled.
    pub(crate) misses: bool,
    /// A bit for each such attribute among the first 64.
    pub(crate) awaited: u64,
    pub(crate) is_abstract: bool,
    /// Number of words of memory that a run of the automaton needs.
    pub(crate) words: u32,
}

/// Kind of an element's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A simple type: no attributes either.
    Simple,
    SimpleContent,
    Empty,
    ElementOnly,
    Mixed,
}

/// A simple type with the properties of its values.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) simple: Arc<SimpleType>,
    pub(crate) identifiers: bool,
    /// Whether its values are QNames or notations, which depend on prefixes.
    pub(crate) prefixed: bool,
}

#[derive(Debug)]
pub(crate) struct AttributeTable {
    pub(crate) name: Sym,
    pub(crate) required: bool,
    pub(crate) text: Text,
    pub(crate) given: Option<DefaultValue>,
}

/// A default or fixed value.
#[derive(Debug, Clone)]
pub(crate) struct DefaultValue {
    pub(crate) fixed: bool,
    pub(crate) text: Arc<str>,
    pub(crate) value: Option<Value>,
}

impl AttributeTable {
    /// Returns whether the absence of the attribute has to be handled.
    fn is_awaited(&self) -> bool {
        self.required || self.given.is_some()
    }
}

impl Manner {
    fn new(kind: Kind, text: Option<&Text>) -> Manner {
        Manner {
            kind,
            collects: text.is_some(),
            typed: text.is_some(),
            plain: text.is_none_or(|text| !text.identifiers && !text.prefixed),
        }
    }
}

impl Text {
    pub(crate) fn new(simple: &Arc<SimpleType>) -> Text {
        Text {
            identifiers: simple.has_identifiers(),
            prefixed: is_prefixed(simple),
            simple: Arc::clone(simple),
        }
    }
}

/// The limits on the depth of simple types and on the members of unions bound the recursion.
fn is_prefixed(simple: &SimpleType) -> bool {
    match simple.variety() {
        Variety::Ur => false,
        Variety::Atomic(primitive) => matches!(primitive, Builtin::QName | Builtin::Notation),
        Variety::List(item) => is_prefixed(item),
        Variety::Union(members) => members.iter().any(|member| is_prefixed(member)),
    }
}

impl Schema {
    pub(crate) fn new(
        components: Components,
        automata: Vec<Automaton>,
        documents: &[SchemaDocument<'_>],
        noted: Vec<Complaint>,
    ) -> Schema {
        // Harmless: there is one automaton for each type.
        let ids = components.types.ids().zip(automata);
        let types = ids.map(|(id, automaton)| table(&components, automaton, documents, id));
        let types = types.collect();
        let heads = components.elements.iter().map(|element| Head {
            type_id: element.type_id,
            is_abstract: element.is_abstract,
            is_plain: !element.is_abstract
                && element.constraints.is_empty()
                && components.complex(element.type_id).is_none_or(|complex| !complex.is_abstract),
            is_given: element.constraint.is_some(),
        });
        let heads = heads.collect();
        let values = components
            .elements
            .iter()
            .map(|element| {
                let constraint = element.constraint.as_ref()?;
                Some(given(
                    &components,
                    documents,
                    components.text_type(element.type_id),
                    constraint,
                ))
            })
            .collect();
        let mut globals = vec![None; components.names.len()];
        for (sym, &id) in &components.globals.elements {
            if let Some(place) = globals.get_mut(sym.0 as usize) {
                *place = Some(id);
            }
        }
        Schema { components, types, heads, values, globals, noted }
    }

    #[inline]
    pub(crate) fn type_table(&self, id: Id<Type>) -> Option<&TypeTable> {
        self.types.get(id.index())
    }

    #[inline]
    pub(crate) fn head(&self, id: Id<Element>) -> Option<Head> {
        self.heads.get(id.index()).copied()
    }

    #[inline]
    pub(crate) fn global(&self, sym: Sym) -> Option<Id<Element>> {
        self.globals.get(sym.0 as usize).and_then(|global| *global)
    }

    pub(crate) fn type_of_name(&self, uri: &str, local: &str) -> Option<Id<Type>> {
        let names = &self.components.names;
        let sym = names.find(names.find_namespace(uri), local);
        self.components.globals.types.get(&sym).copied()
    }

    /// Complaints about rules that libxml2 does not check, with [`Limits::as_libxml`](crate::Limits::as_libxml).
    pub fn noted(&self) -> &[Complaint] {
        &self.noted
    }

    /// Returns whether there is a global element with this name.
    pub fn has_element(&self, uri: &str, local: &str) -> bool {
        let names = &self.components.names;
        self.global(names.find(names.find_namespace(uri), local)).is_some()
    }

    /// Returns whether there is a global type with this name, including built-in types.
    pub fn has_type(&self, uri: &str, local: &str) -> bool {
        self.type_of_name(uri, local).is_some()
    }

    /// Returns the global elements as namespace and local name, in no particular order.
    pub fn elements(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = &self.components.names;
        let syms = self.components.globals.elements.keys();
        syms.map(|&sym| (names.uri(names.namespace_of(sym)), names.local(sym)))
    }

    /// Returns the global types of the schema documents as namespace and local name, in no particular order.
    pub fn types(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = &self.components.names;
        let syms = self.components.globals.types.keys();
        syms.filter(|&&sym| names.namespace_of(sym) != NsId::XSD)
            .map(|&sym| (names.uri(names.namespace_of(sym)), names.local(sym)))
    }
}

fn table(
    all: &Components,
    automaton: Automaton,
    documents: &[SchemaDocument<'_>],
    id: Id<Type>,
) -> TypeTable {
    let text = all.text_type(id).map(Text::new);
    let words = u32::try_from(automaton.words()).unwrap_or(u32::MAX);
    let complex = match &all.types[id].kind {
        TypeKind::Complex(complex) => complex,
        TypeKind::Simple(_) => {
            return TypeTable {
                kind: Kind::Simple,
                manner: Manner::new(Kind::Simple, text.as_ref()),
                automaton,
                text,
                attributes: Box::new([]),
                wildcard: None,
                misses: false,
                awaited: 0,
                is_abstract: false,
                words,
            };
        }
    };
    let mut attributes: Vec<AttributeTable> = complex
        .uses
        .iter()
        // Harmless: each attribute has a simple type.
        .filter_map(|usage| {
            let decl = &all.attributes[usage.decl];
            let simple =
                all.simple(decl.type_id).or_else(|| all.simple(crate::model::ANY_SIMPLE_TYPE))?;
            let constraint = usage.constraint.as_ref().or(decl.constraint.as_ref());
            Some(AttributeTable {
                name: usage.name,
                required: usage.required,
                text: Text::new(simple),
                given: constraint.map(|c| given(all, documents, Some(simple), c)),
            })
        })
        .collect();
    attributes.sort_unstable_by_key(|attribute| attribute.name);
    let kind = match complex.content {
        Content::Empty => Kind::Empty,
        Content::Simple(_) => Kind::SimpleContent,
        Content::Children { mixed: true, .. } => Kind::Mixed,
        Content::Children { mixed: false, .. } => Kind::ElementOnly,
    };
    TypeTable {
        kind,
        manner: Manner::new(kind, text.as_ref()),
        automaton,
        text,
        misses: attributes.iter().any(AttributeTable::is_awaited),
        awaited: attributes
            .iter()
            // Harmless: attributes after the first 64 are checked one by one.
            .take(64)
            .rev()
            .fold(0, |awaited, attribute| awaited << 1 | u64::from(attribute.is_awaited())),
        attributes: attributes.into(),
        wildcard: complex.wildcard.clone(),
        is_abstract: complex.is_abstract,
        words,
    }
}

fn given(
    all: &Components,
    documents: &[SchemaDocument<'_>],
    simple: Option<&Arc<SimpleType>>,
    constraint: &ValueConstraint,
) -> DefaultValue {
    let scope = Scope {
        document: documents.get(constraint.place.document),
        node: constraint.place.node,
        components: Some(all),
    };
    DefaultValue {
        fixed: constraint.fixed,
        text: Arc::clone(&constraint.text),
        // Harmless: a default that is invalid for its type has been reported already.
        value: simple.and_then(|simple| simple.validate(&constraint.text, &scope).ok()),
    }
}
