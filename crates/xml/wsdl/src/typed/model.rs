//! Tables of a typed API: messages, elements and types, for both directions.
//!
//! The tables are immutable. Indexes refer to the lists of one [`Api`](super::typed_api::Api).

use std::sync::Arc;

use xsd::datatype::SimpleType;

/// A message: its headers and the content of its body.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) headers: Vec<Root>,
    /// `None` for an empty body.
    pub(crate) body: Option<Root>,
    /// The parts of an rpc message, whose wrapper no schema declares.
    pub(crate) rpc: Vec<RpcPart>,
    pub(crate) is_rpc: bool,
}

/// A part of an rpc message: its name and its type.
#[derive(Debug)]
pub(crate) struct RpcPart {
    pub(crate) local: Box<str>,
    pub(crate) type_name: (Box<str>, Box<str>),
}

/// An element of the envelope, with the namespace declarations it carries.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) element: usize,
    /// ` xmlns:n0="..."` for every namespace that may occur below.
    pub(crate) declarations: Box<str>,
}

#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) uri: Box<str>,
    pub(crate) local: Box<str>,
    /// `<n0:local`, an unfinished start tag.
    pub(crate) open: Box<str>,
    /// `</n0:local>`
    pub(crate) close: Box<str>,
    pub(crate) type_at: usize,
    pub(crate) nillable: bool,
    pub(crate) given: Option<ValueConstraint>,
}

/// A default or fixed value.
#[derive(Debug)]
pub(crate) struct ValueConstraint {
    pub(crate) fixed: bool,
    pub(crate) text: Box<str>,
}

#[derive(Debug)]
pub(crate) struct Type {
    /// Name of a global type.
    pub(crate) name: Option<(Box<str>, Box<str>)>,
    /// Title of the type in documentation.
    pub(crate) title: Box<str>,
    /// ` xmlns:t="..." xsi:type="t:Name"`
    pub(crate) instance: Box<str>,
    pub(crate) is_abstract: bool,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) any_attribute: bool,
    pub(crate) content: Content,
    /// The types that may be used in place of this one.
    pub(crate) replacements: Vec<Replacement>,
    /// Whether the type may be used in place of another, so that `$type` is allowed.
    pub(crate) replaces: bool,
}

#[derive(Debug)]
pub(crate) struct Replacement {
    /// The value of `$type`.
    pub(crate) label: Box<str>,
    pub(crate) type_at: usize,
}

#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) uri: Box<str>,
    pub(crate) local: Box<str>,
    /// `@local`, or `@{uri}local` if an earlier attribute has that key.
    pub(crate) key: Box<str>,
    /// ` n0:local="`
    pub(crate) open: Box<str>,
    pub(crate) required: bool,
    pub(crate) scalar: Scalar,
    pub(crate) given: Option<ValueConstraint>,
}

#[derive(Debug)]
pub(crate) enum Content {
    /// A simple type: a plain JSON value.
    Text(Scalar),
    /// Simple content: the member `value` beside the attributes.
    Value(Scalar),
    Empty,
    Children(Children),
}

/// JSON representation of a simple type.
#[derive(Debug, Clone)]
pub(crate) struct Scalar {
    pub(crate) simple: Arc<SimpleType>,
    pub(crate) kind: ScalarKind,
}

#[derive(Debug, Clone)]
pub(crate) enum ScalarKind {
    Boolean,
    /// `decimal` or a type derived from it; `whole` if it is `integer` or derived from that.
    Number {
        whole: bool,
    },
    /// `float` or `double`, some of whose values are not JSON numbers.
    Float,
    Text,
    /// A qualified name, as `{uri}local`.
    Name,
    List(Box<Scalar>),
    /// The first member type that accepts the text.
    Union(Vec<Scalar>),
    /// Any text.
    Free,
}

/// Content of an element with child elements.
#[derive(Debug, Default)]
pub(crate) struct Children {
    /// Whether text is allowed between the elements.
    pub(crate) mixed: bool,
    /// Whether content that is only text is written as a string.
    pub(crate) shorthand: bool,
    /// Members in the order of the schema.
    pub(crate) members: Vec<Member>,
    /// Sorted keys with the indexes of their members.
    pub(crate) keys: Vec<(Box<str>, usize)>,
    /// Allowed elements, in the order of the schema.
    pub(crate) leaves: Vec<Leaf>,
    /// Indexes of the leaves, sorted by local name.
    pub(crate) names: Vec<usize>,
    /// The member for elements that are not a leaf.
    pub(crate) wild: Option<usize>,
    pub(crate) model: Slot,
}

/// A member of the JSON object for an element.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) key: Box<str>,
    /// `"key":`
    pub(crate) quoted: Box<str>,
    pub(crate) of: MemberOf,
    /// Whether the member is an array.
    pub(crate) many: bool,
    pub(crate) min: u64,
    /// `None` if unbounded.
    pub(crate) max: Option<u64>,
}

#[derive(Debug)]
pub(crate) enum MemberOf {
    /// The index of the element.
    Element(usize),
    /// Elements of a wildcard, as XML.
    Any { example: WildExample },
    /// Elements whose order matters, as objects with one member each.
    Items { order: Order },
}

/// What a wildcard accepts, for samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WildExample {
    /// A declared element, by its index among the examples.
    Declared(usize),
    /// An undeclared element in this namespace.
    In(Box<str>),
}

/// An element allowed in the content.
#[derive(Debug)]
pub(crate) struct Leaf {
    pub(crate) element: usize,
    pub(crate) member: usize,
    /// The element's key, if it is one of several elements in an array.
    pub(crate) key: Box<str>,
}

/// Tree of the content model over members.
#[derive(Debug)]
pub(crate) enum Slot {
    /// A member by its index.
    Member(usize),
    Sequence {
        slots: Vec<Slot>,
        optional: bool,
    },
    Choice {
        slots: Vec<Slot>,
        optional: bool,
    },
}

impl Default for Slot {
    fn default() -> Slot {
        Slot::Sequence { slots: Vec::new(), optional: false }
    }
}

/// Allowed order of items, for samples.
#[derive(Debug)]
pub(crate) enum Order {
    /// One element, by its index.
    Leaf {
        element: usize,
        min: u64,
    },
    Any {
        example: WildExample,
        min: u64,
    },
    Sequence {
        inner: Vec<Order>,
        min: u64,
    },
    Choice {
        inner: Vec<Order>,
        min: u64,
    },
}

/// The instance namespace.
pub(crate) const XSI: &str = "http://www.w3.org/2001/XMLSchema-instance";

impl Slot {
    /// Returns whether any member of the slot is present.
    pub(crate) fn is_met(&self, there: &dyn Fn(usize) -> bool) -> bool {
        match self {
            Slot::Member(member) => there(*member),
            Slot::Sequence { slots, .. } | Slot::Choice { slots, .. } => {
                slots.iter().any(|slot| slot.is_met(there))
            }
        }
    }

    /// Returns whether all members of the slot may be absent.
    pub(crate) fn is_emptiable(&self, members: &[Member]) -> bool {
        match self {
            Slot::Member(member) => members.get(*member).is_none_or(|member| member.min == 0),
            Slot::Sequence { slots, optional } => {
                *optional || slots.iter().all(|slot| slot.is_emptiable(members))
            }
            Slot::Choice { slots, optional } => {
                *optional || slots.is_empty() || slots.iter().any(|slot| slot.is_emptiable(members))
            }
        }
    }

    /// Collects the keys of the slot's members, for a message.
    pub(crate) fn keys<'m>(&self, members: &'m [Member], found: &mut Vec<&'m str>) {
        match self {
            Slot::Member(member) => found.extend(members.get(*member).map(|member| &*member.key)),
            Slot::Sequence { slots, .. } | Slot::Choice { slots, .. } => {
                slots.iter().for_each(|slot| slot.keys(members, found));
            }
        }
    }
}

impl Children {
    /// Returns the member with a key. The search starts at `near`.
    #[inline]
    pub(crate) fn member(&self, key: &str, near: usize) -> Option<usize> {
        if self.members.get(near).is_some_and(|member| *member.key == *key) {
            return Some(near);
        }
        let found = self.keys.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        self.keys.get(found).map(|(_, member)| *member)
    }
}
