//! The tables of a typed API: operations, elements and types as both directions look at them.
//!
//! Immutable, to be shared between threads. Indexes lead into the lists of one [`Api`].

use std::sync::Arc;

use xsd::Schema;
use xsd::datatype::SimpleType;

use crate::Soap;

/// Operations of a description with everything that translates their messages.
#[derive(Debug)]
pub struct Api {
    pub(crate) schema: Arc<Schema>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) elements: Vec<Element>,
    pub(crate) types: Vec<Type>,
    /// Elements that wildcards take, for samples.
    pub(crate) examples: Vec<Root>,
    /// Operations that cannot be offered, and why.
    pub(crate) left_out: Vec<(String, String)>,
    /// Where the service runs, as the description says.
    pub(crate) address: Option<Box<str>>,
    pub(crate) version: Soap,
    pub(crate) title: Box<str>,
}

/// One operation.
#[derive(Debug)]
pub struct Operation {
    pub(crate) name: Box<str>,
    pub(crate) action: Option<Box<str>>,
    pub(crate) input: Message,
    /// None of a one-way operation.
    pub(crate) output: Option<Message>,
    /// Elements that a fault's detail may hold.
    pub(crate) faults: Vec<usize>,
}

/// One message: its headers and what its body holds.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) headers: Vec<Root>,
    /// None for an empty body.
    pub(crate) body: Option<Root>,
    /// The body is the wrapper of an rpc message, which no schema declares.
    pub(crate) rpc: Vec<RpcPart>,
    pub(crate) is_rpc: bool,
}

/// A part of an rpc message: its name and its type.
#[derive(Debug)]
pub(crate) struct RpcPart {
    pub(crate) local: Box<str>,
    pub(crate) type_name: (Box<str>, Box<str>),
}

/// An element that stands in the envelope, with the namespaces that are declared at it.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) element: usize,
    /// ` xmlns:n0="..."` for all that can stand below.
    pub(crate) declarations: Box<str>,
}

#[derive(Debug)]
pub(crate) struct Element {
    pub(crate) uri: Box<str>,
    pub(crate) local: Box<str>,
    /// `<n0:local`, without its end.
    pub(crate) open: Box<str>,
    /// `</n0:local>`
    pub(crate) close: Box<str>,
    pub(crate) type_at: usize,
    pub(crate) nillable: bool,
    pub(crate) given: Option<Given>,
}

/// A default or fixed value.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) fixed: bool,
    pub(crate) text: Box<str>,
}

#[derive(Debug)]
pub(crate) struct Type {
    /// Of a global type.
    pub(crate) name: Option<(Box<str>, Box<str>)>,
    /// What it is called in a document.
    pub(crate) title: Box<str>,
    /// ` xmlns:t="..." xsi:type="t:Name"`
    pub(crate) instance: Box<str>,
    pub(crate) is_abstract: bool,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) any_attribute: bool,
    pub(crate) content: Content,
    /// Types that may stand in its place.
    pub(crate) replacements: Vec<Replacement>,
    /// It may stand in another's place, so that `$type` may be said of it.
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
    /// `@local`
    pub(crate) key: Box<str>,
    /// ` n0:local="`
    pub(crate) open: Box<str>,
    pub(crate) required: bool,
    pub(crate) scalar: Scalar,
    pub(crate) given: Option<Given>,
}

#[derive(Debug)]
pub(crate) enum Content {
    /// A simple type: a value of JSON by itself.
    Text(Scalar),
    /// Simple content: the member `value` beside the attributes.
    Value(Scalar),
    Empty,
    Children(Children),
}

/// How the texts of a simple type are written in JSON.
#[derive(Debug, Clone)]
pub(crate) struct Scalar {
    pub(crate) simple: Arc<SimpleType>,
    pub(crate) kind: ScalarKind,
}

#[derive(Debug, Clone)]
pub(crate) enum ScalarKind {
    Boolean,
    /// Of `decimal` or what derives from it; whether it is `integer` or what derives from that.
    Number {
        whole: bool,
    },
    /// Of `float` or `double`, which have values that are no numbers of JSON.
    Float,
    Text,
    /// A qualified name, as `{uri}local`.
    Name,
    List(Box<Scalar>),
    /// As the first member that takes the text.
    Union(Vec<Scalar>),
    /// Any text.
    Free,
}

/// What stands in an element that has elements.
#[derive(Debug, Default)]
pub(crate) struct Children {
    /// There may be text between the elements.
    pub(crate) mixed: bool,
    /// A text alone is written as a string.
    pub(crate) shorthand: bool,
    /// In the order of the schema.
    pub(crate) members: Vec<Member>,
    /// Keys with the members they mean, sorted.
    pub(crate) keys: Vec<(Box<str>, usize)>,
    /// Elements that may stand here, in the order of the schema.
    pub(crate) leaves: Vec<Leaf>,
    /// The leaves, sorted by local name.
    pub(crate) names: Vec<usize>,
    /// The member that takes what no leaf is.
    pub(crate) wild: Option<usize>,
    pub(crate) model: Slot,
}

/// A member of the object an element becomes.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) key: Box<str>,
    /// `"key":`
    pub(crate) quoted: Box<str>,
    pub(crate) of: MemberOf,
    /// It is an array.
    pub(crate) many: bool,
    pub(crate) min: u64,
    /// None: as often as you like.
    pub(crate) max: Option<u64>,
}

#[derive(Debug)]
pub(crate) enum MemberOf {
    /// The index of the element.
    Element(usize),
    /// Elements of a wildcard, as XML. The index of an example, where it has to be a declared one.
    Any { example: Option<usize> },
    /// Elements whose order means something: objects of one member each.
    Items { order: Order },
}

/// An element that may stand here.
#[derive(Debug)]
pub(crate) struct Leaf {
    pub(crate) element: usize,
    pub(crate) member: usize,
    /// Its key where it is one of several in an array.
    pub(crate) key: Box<str>,
}

/// Which members belong together.
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

/// How items may follow one another, for samples.
#[derive(Debug)]
pub(crate) enum Order {
    /// By the local name and namespace of the element.
    Leaf {
        element: usize,
        min: u64,
    },
    Any {
        example: Option<usize>,
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

impl Api {
    /// The operations that are offered.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Operations that cannot be offered, and why.
    pub fn left_out(&self) -> impl Iterator<Item = (&str, &str)> {
        self.left_out.iter().map(|(name, why)| (name.as_str(), why.as_str()))
    }

    /// Where the service runs, as the description says.
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// The version of SOAP its port speaks.
    pub fn version(&self) -> Soap {
        self.version
    }

    /// The name of the service.
    pub fn title(&self) -> &str {
        &self.title
    }
}

impl Operation {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its requests name as their action.
    pub fn action(&self) -> Option<&str> {
        self.action.as_deref()
    }

    /// It has no reply.
    pub fn is_one_way(&self) -> bool {
        self.output.is_none()
    }
}

impl Slot {
    /// Whether some member of it is there.
    pub(crate) fn is_met(&self, there: &dyn Fn(usize) -> bool) -> bool {
        match self {
            Slot::Member(member) => there(*member),
            Slot::Sequence { slots, .. } | Slot::Choice { slots, .. } => {
                slots.iter().any(|slot| slot.is_met(there))
            }
        }
    }

    /// Whether nothing of it has to be there.
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

    /// The keys of the members in it, for a message.
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
    /// The member of a key; `near` is where it is looked for first.
    #[inline]
    pub(crate) fn member(&self, key: &str, near: usize) -> Option<usize> {
        if self.members.get(near).is_some_and(|member| *member.key == *key) {
            return Some(near);
        }
        let found = self.keys.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        self.keys.get(found).map(|(_, member)| *member)
    }
}
