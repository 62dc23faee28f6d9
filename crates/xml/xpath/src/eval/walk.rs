//! The thirteen axes: iterates over the nodes on an axis of a node, in axis order.

use xml::{Document, Kind, NameId, NodeId};

use crate::syntax::{Axis, Test};
use crate::{DocumentSet, NameTest, Node};

/// Iterator over an axis.
pub(super) struct Walk<'w> {
    document: &'w Document,
    origin: Node,
    state: State,
    looked: u32,
}

enum State {
    One(Option<Node>),
    Up(Option<NodeId>),
    /// The ancestors of a namespace node, from its element on.
    UpFrom,
    Forward(Option<NodeId>),
    Back(Option<NodeId>),
    /// All nodes of a range of ids except attributes.
    Range {
        next: u32,
        end: u32,
    },
    /// Descending ids, without attributes and without ancestors of the origin.
    Before {
        above: u32,
    },
    Attributes {
        next: u32,
    },
    /// The ranks of the remaining namespaces.
    Namespaces(Box<std::vec::IntoIter<u32>>),
}

impl<'w> Walk<'w> {
    pub(super) fn new(documents: &'w DocumentSet, axis: Axis, origin: Node) -> Walk<'w> {
        let document = documents.of(origin);
        let id = origin.id;
        // Attribute and namespace nodes have a parent, but are neither children nor siblings.
        let aside = origin.is_namespace() || document.kind(id) == Kind::Attribute;
        let state = match axis {
            Axis::SelfNode => State::One(Some(origin)),
            Axis::Parent => State::One(documents.parent(origin)),
            Axis::Ancestor => State::Up(documents.parent(origin).map(|parent| parent.id)),
            Axis::AncestorOrSelf if origin.is_namespace() => State::UpFrom,
            Axis::AncestorOrSelf => State::Up(Some(id)),
            Axis::Following if origin.is_namespace() => {
                State::Range { next: id.0 + 1, end: document.len() }
            }
            Axis::Following => State::Range { next: document.end(id).0, end: document.len() },
            Axis::Preceding => State::Before { above: id.0 },
            Axis::DescendantOrSelf if aside => State::One(Some(origin)),
            Axis::Attribute | Axis::Child | Axis::Descendant | Axis::Namespace if aside => {
                State::One(None)
            }
            Axis::FollowingSibling | Axis::PrecedingSibling if aside => State::One(None),
            Axis::Child => State::Forward(document.first_child(id)),
            Axis::Descendant => State::Range { next: id.0 + 1, end: document.end(id).0 },
            Axis::DescendantOrSelf => State::Range { next: id.0, end: document.end(id).0 },
            Axis::FollowingSibling => State::Forward(document.next_sibling(id)),
            Axis::PrecedingSibling => State::Back(document.previous_sibling(id)),
            Axis::Attribute if document.kind(id) == Kind::Element => {
                State::Attributes { next: id.0 + 1 }
            }
            Axis::Namespace if document.kind(id) == Kind::Element => {
                State::Namespaces(Box::new(document.namespace_ranks(id).into_iter()))
            }
            Axis::Attribute | Axis::Namespace => State::One(None),
        };
        // All namespaces are found here, even if only the first is needed.
        let looked = if matches!(state, State::Namespaces(_)) {
            u32::try_from(document.declarations_above(id)).unwrap_or(u32::MAX)
        } else {
            0
        };
        Walk { document, origin, state, looked }
    }

    /// Returns the children from the last to the first.
    pub(super) fn children_back(documents: &'w DocumentSet, origin: Node) -> Walk<'w> {
        let document = documents.of(origin);
        let last = if origin.is_namespace() || document.kind(origin.id) == Kind::Attribute {
            None
        } else {
            document.last_child(origin.id)
        };
        Walk { document, origin, state: State::Back(last), looked: 0 }
    }
}

impl Walk<'_> {
    /// Returns the next node that passes a node test.
    pub(super) fn seek(&mut self, matcher: &mut Matcher<'_>) -> Option<Node> {
        let document = self.document;
        // Fast path: searching for elements by name is most of the work.
        match (&mut self.state, matcher.test) {
            (State::Range { next, end }, Test::Name(test)) => {
                let first = *next;
                let found = (first..*end).map(NodeId).find(|&id| {
                    document.kind(id) == Kind::Element && matcher.accepts_name(document, test, id)
                });
                *next = found.map_or(*end, |id| id.0 + 1);
                self.looked += next.saturating_sub(first);
                found.map(|id| self.origin.with(id))
            }
            (State::Forward(next), Test::Name(test)) => loop {
                let id = (*next)?;
                *next = document.next_sibling(id);
                self.looked += 1;
                if document.kind(id) == Kind::Element && matcher.accepts_name(document, test, id) {
                    return Some(self.origin.with(id));
                }
            },
            _ => loop {
                let node = self.next()?;
                self.looked += 1;
                if matcher.accepts(document, node) {
                    return Some(node);
                }
            },
        }
    }

    /// Returns the number of nodes that [`Walk::seek`] has visited since the last call. Each costs a step.
    #[inline]
    pub(super) fn spent(&mut self) -> u64 {
        u64::from(std::mem::take(&mut self.looked))
    }
}

impl Iterator for Walk<'_> {
    type Item = Node;

    #[inline]
    fn next(&mut self) -> Option<Node> {
        let document = self.document;
        let id = match &mut self.state {
            State::One(node) => return node.take(),
            State::Namespaces(ranks) => {
                let origin = self.origin;
                return ranks.next().map(|rank| Node::namespace(origin.doc, origin.id, rank));
            }
            State::UpFrom => {
                self.state = State::Up(Some(self.origin.id));
                return Some(self.origin);
            }
            State::Up(next) => {
                let id = (*next)?;
                *next = document.parent(id);
                id
            }
            State::Forward(next) => {
                let id = (*next)?;
                *next = document.next_sibling(id);
                id
            }
            State::Back(next) => {
                let id = (*next)?;
                *next = document.previous_sibling(id);
                id
            }
            State::Range { next, end } => loop {
                if *next >= *end {
                    return None;
                }
                let id = NodeId(*next);
                *next += 1;
                if document.kind(id) != Kind::Attribute {
                    break id;
                }
                self.looked += 1;
            },
            State::Before { above } => loop {
                let id = NodeId(above.checked_sub(1)?);
                *above = id.0;
                if document.kind(id) != Kind::Attribute && document.end(id).0 <= self.origin.id.0 {
                    break id;
                }
                self.looked += 1;
            },
            State::Attributes { next } => {
                let id = NodeId(*next);
                *next += 1;
                if id.0 >= document.len() || document.kind(id) != Kind::Attribute {
                    return None;
                }
                id
            }
        };
        Some(self.origin.with(id))
    }
}

/// A name id that does not occur, because no document has as many names.
const NO_NAME: NameId = NameId(u32::MAX);

/// Applies a node test, and caches the last names tested.
pub(super) struct Matcher<'e> {
    test: &'e Test,
    principal: Kind,
    /// Whether the axis is the namespace axis.
    prefixes: bool,
    accepted: NameId,
    refused: NameId,
}

impl<'e> Matcher<'e> {
    /// Creates a matcher for one document. Name ids have no meaning in another one.
    pub(super) fn new(axis: Axis, test: &'e Test) -> Matcher<'e> {
        let principal = if axis == Axis::Attribute { Kind::Attribute } else { Kind::Element };
        Matcher {
            test,
            principal,
            prefixes: axis == Axis::Namespace,
            accepted: NO_NAME,
            refused: NO_NAME,
        }
    }

    #[inline]
    pub(super) fn accepts(&mut self, document: &Document, node: Node) -> bool {
        if node.is_namespace() {
            return self.accepts_namespace(document, node);
        }
        let kind = document.kind(node.id);
        match self.test {
            Test::Node => true,
            Test::Name(test) => {
                kind == self.principal && self.accepts_name(document, test, node.id)
            }
            Test::Text => kind == Kind::Text,
            Test::Comment => kind == Kind::Comment,
            Test::Instruction(None) => kind == Kind::Instruction,
            Test::Instruction(Some(target)) => {
                kind == Kind::Instruction && document.name(node.id).local == &**target
            }
        }
    }

    #[inline]
    fn accepts_name(&mut self, document: &Document, test: &NameTest, id: NodeId) -> bool {
        let name = document.name_id(id);
        if name == self.accepted {
            return true;
        }
        name != self.refused && self.accepts_new(document, test, name)
    }

    /// Tests a name that is not cached. In a run of equal names, this is done once.
    fn accepts_new(&mut self, document: &Document, test: &NameTest, name: NameId) -> bool {
        let accepted = *test == NameTest::Any || test.accepts(document.name_of(name));
        if accepted {
            self.accepted = name
        } else {
            self.refused = name
        }
        accepted
    }

    /// Tests a namespace node. On the namespace axis a name test tests the prefix; on any other axis it matches no namespace node.
    fn accepts_namespace(&self, document: &Document, node: Node) -> bool {
        match self.test {
            Test::Node => true,
            Test::Text | Test::Comment | Test::Instruction(_) => false,
            Test::Name(_) if !self.prefixes => false,
            Test::Name(NameTest::Any) => true,
            Test::Name(NameTest::Namespace(_)) => false,
            Test::Name(NameTest::Name(name)) => {
                let found = node.rank().and_then(|rank| document.namespace_at(rank));
                name.uri.is_empty() && found.is_some_and(|(prefix, _)| *prefix == *name.local)
            }
        }
    }
}
