//! The syntax tree of compiled expressions.

use std::sync::Arc;

use super::Core;
use crate::NameTest;
use crate::regex::Regex;

/// An expression. A chain of one operator is a list, so that only parentheses, predicates and calls add depth.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Number(f64),
    Text(Box<str>),
    Boolean(bool),
    Variable {
        number: u32,
        offset: u32,
    },
    /// `or`
    Any(Box<[Op]>),
    /// `and`
    All(Box<[Op]>),
    Compare(Comparison, Box<[Op; 2]>),
    Arithmetic(Box<Op>, Box<[(Arithmetic, Op)]>),
    Negate(Box<Op>),
    Union(Box<[Op]>, u32),
    Path(Box<Path>),
    Core {
        function: Core,
        arguments: Box<[Op]>,
        offset: u32,
    },
    Host {
        number: u32,
        arguments: Box<[Op]>,
        offset: u32,
    },
    /// A call of an unknown function, which is an error only if it is evaluated.
    Unknown {
        name: Box<str>,
        offset: u32,
    },
    /// `if (..) then .. else ..` of XPath 2.0.
    If(Box<[Op; 3]>),
    Current,
    /// A literal regular expression, as an argument of a function.
    Pattern(Arc<Regex>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// A location path: its start and its steps.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) start: Start,
    pub(crate) steps: Box<[Step]>,
    /// Whether walking the steps depth first from one node yields distinct nodes in document order.
    pub(crate) ordered: bool,
    pub(crate) offset: u32,
}

#[derive(Debug, Clone)]
pub(crate) enum Start {
    Root,
    Focus,
    /// Any expression that yields nodes, with predicates on the whole set.
    Op(Op, Box<[Predicate]>),
}

#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) axis: Axis,
    pub(crate) test: Test,
    pub(crate) predicates: Box<[Predicate]>,
    /// Whether no predicate uses position or size.
    pub(crate) plain: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    Ancestor,
    AncestorOrSelf,
    Attribute,
    Child,
    Descendant,
    DescendantOrSelf,
    Following,
    FollowingSibling,
    Namespace,
    Parent,
    Preceding,
    PrecedingSibling,
    SelfNode,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Test {
    /// `node()`
    Node,
    Text,
    Comment,
    Instruction(Option<Box<str>>),
    /// A name test for the axis's principal node kind.
    Name(NameTest),
}

#[derive(Debug, Clone)]
pub(crate) enum Predicate {
    /// A constant position, from 1.
    Position(u32),
    /// `last()`
    Last,
    /// An expression that is never a number, and uses neither position nor size.
    Test(Op),
    /// An expression that may be a number, or uses position or size.
    Positional(Op),
}

/// The start of a pattern.
#[derive(Debug, Clone)]
pub(crate) enum PatternStart {
    /// The steps may match anywhere.
    Anywhere,
    /// The pattern begins with `/` or `//`, or is only `/`.
    Root,
    Id(Box<str>),
    Key {
        number: u32,
        value: Box<str>,
    },
}

/// A step of a pattern, and how it is joined to the one before it.
#[derive(Debug, Clone)]
pub(crate) struct PatternStep {
    pub(crate) step: Step,
    /// Whether the step is joined by `//` to the step before, so that any ancestor may match instead of only the parent.
    pub(crate) anywhere: bool,
}

/// One alternative of a pattern.
#[derive(Debug, Clone)]
pub struct Alternative {
    /// The default priority (XSLT 1.0, 5.5).
    pub priority: f64,
    /// The nodes that the last step can match, for dispatch.
    pub shape: Shape,
    /// Whether every node of this shape matches, so that nothing else needs to be tested.
    pub settled: bool,
    pub(crate) start: PatternStart,
    /// Steps from the last to the first.
    pub(crate) steps: Box<[PatternStep]>,
}

/// The kinds of nodes that a pattern's last step can match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// `/`
    Root,
    /// An element by name.
    Element(NameTest),
    /// An attribute by name; `@node()` is `@*`.
    Attribute(NameTest),
    /// `text()`
    Text,
    /// `comment()`
    Comment,
    /// `processing-instruction()`, with the target if the pattern specifies one.
    Instruction(Option<Box<str>>),
    /// `node()`: elements, text, comments and instructions.
    Child,
    /// `id(..)` or `key(..)`: any kind of node.
    Any,
}

impl Op {
    /// Returns the text of a literal string.
    pub(crate) fn literal(&self) -> Option<&str> {
        if let Op::Text(text) = self { Some(text) } else { None }
    }

    /// Returns whether the value may depend on the context node. Returns false only if the value certainly depends on variables alone.
    pub(crate) fn looks_at_focus(&self) -> bool {
        let any = |all: &[Op]| all.iter().any(Op::looks_at_focus);
        match self {
            Op::Number(_) | Op::Text(_) | Op::Boolean(_) | Op::Variable { .. } => false,
            Op::Unknown { .. } | Op::Pattern(_) => false,
            Op::Any(all) | Op::All(all) | Op::Union(all, _) => any(all),
            Op::Compare(_, both) => any(&**both),
            Op::Arithmetic(first, rest) => {
                first.looks_at_focus() || rest.iter().any(|(_, op)| op.looks_at_focus())
            }
            Op::Negate(op) => op.looks_at_focus(),
            Op::Path(path) => path.looks_at_focus(),
            Op::Core { function, arguments, .. } => {
                function.looks_at_focus(arguments.len()) || any(arguments)
            }
            Op::If(parts) => any(&**parts),
            Op::Host { .. } | Op::Current => true,
        }
    }
}

impl Path {
    fn looks_at_focus(&self) -> bool {
        let looks = |predicate: &Predicate| match predicate {
            Predicate::Position(_) | Predicate::Last => false,
            Predicate::Test(op) | Predicate::Positional(op) => op.looks_at_focus(),
        };
        let of_start = match &self.start {
            Start::Root | Start::Focus => true,
            Start::Op(op, predicates) => op.looks_at_focus() || predicates.iter().any(looks),
        };
        of_start || self.steps.iter().any(|step| step.predicates.iter().any(looks))
    }
}

impl Axis {
    pub(crate) fn of(name: &str) -> Option<Axis> {
        Some(match name {
            "ancestor" => Axis::Ancestor,
            "ancestor-or-self" => Axis::AncestorOrSelf,
            "attribute" => Axis::Attribute,
            "child" => Axis::Child,
            "descendant" => Axis::Descendant,
            "descendant-or-self" => Axis::DescendantOrSelf,
            "following" => Axis::Following,
            "following-sibling" => Axis::FollowingSibling,
            "namespace" => Axis::Namespace,
            "parent" => Axis::Parent,
            "preceding" => Axis::Preceding,
            "preceding-sibling" => Axis::PrecedingSibling,
            "self" => Axis::SelfNode,
            _ => return None,
        })
    }

    /// Returns the axis that results from `//` before a step with this axis.
    pub(crate) fn widened(self) -> Option<Axis> {
        match self {
            Axis::Child | Axis::Descendant => Some(Axis::Descendant),
            Axis::SelfNode | Axis::DescendantOrSelf => Some(Axis::DescendantOrSelf),
            Axis::Ancestor
            | Axis::AncestorOrSelf
            | Axis::Attribute
            | Axis::Following
            | Axis::FollowingSibling => None,
            Axis::Namespace | Axis::Parent | Axis::Preceding | Axis::PrecedingSibling => None,
        }
    }

    /// Returns true if positions on this axis count in reverse document order.
    pub(crate) fn is_reverse(self) -> bool {
        matches!(
            self,
            Axis::Ancestor | Axis::AncestorOrSelf | Axis::Preceding | Axis::PrecedingSibling
        )
    }
}
