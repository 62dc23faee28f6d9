//! JSONPath (RFC 9535): text to a [`Query`] once, a query to nodes of a [`JsonText`] for each message.
//!
//! Owns the grammar, the types of expressions, regular expressions as RFC 9485 has them, and the order of results.
//! A query recurses by its own nesting, never by the depth of a text.

mod check;
mod compare;
mod eval;
mod filter;
mod iregexp;
mod parse;
mod strings;

use std::sync::Arc;

use crate::tape::{JsonNode, JsonText};
use crate::value::JsonNodes;
use crate::{Budget, Error, FailureKind};
use iregexp::Regex;

/// A compiled query.
#[derive(Debug, Clone)]
pub struct Query {
    path: Arc<Path>,
}

/// The segments of a query.
#[derive(Debug, Clone, Default)]
struct Path {
    segments: Vec<Segment>,
    /// It finds one value at the most.
    singular: bool,
}

#[derive(Debug, Clone)]
struct Segment {
    /// `..`: of the node and all below it.
    descends: bool,
    selectors: Vec<Selector>,
}

#[derive(Debug, Clone)]
enum Selector {
    Name(Box<str>),
    Wildcard,
    Index(i64),
    Slice { start: Option<i64>, end: Option<i64>, step: i64 },
    Filter(Logical),
}

#[derive(Debug, Clone)]
enum Logical {
    Any(Vec<Logical>),
    All(Vec<Logical>),
    Not(Box<Logical>),
    Compare(Comparison, Comparable, Comparable),
    Exists(Inner),
    Match { text: Comparable, pattern: Pattern, whole: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// A query inside a filter.
#[derive(Debug, Clone)]
struct Inner {
    /// `$`, else `@`.
    from_root: bool,
    path: Path,
}

/// An expression with one value or nothing (`comparable` in RFC 9535).
#[derive(Debug, Clone)]
enum Comparable {
    Null,
    Boolean(bool),
    Number(Box<str>),
    Text(Box<str>),
    /// A singular query.
    Query(Inner),
    Length(Box<Comparable>),
    Count(Inner),
    Value(Inner),
}

#[derive(Debug, Clone)]
enum Pattern {
    Known(Regex),
    /// Its text comes from the message.
    Found(Comparable),
}

impl Query {
    /// Compiles a whole query: `$` and segments.
    pub fn compile(text: &str) -> Result<Query, Error> {
        Ok(Query { path: Arc::new(parse::whole(text)?) })
    }

    /// Compiles the segments at a byte of a text, and says where they end.
    pub(crate) fn compile_segments(text: &str, from: usize) -> Result<(Query, usize), Error> {
        let (path, end) = parse::segments(text, from)?;
        Ok((Query { path: Arc::new(path) }, end))
    }

    /// A chain of member names.
    pub(crate) fn of_names<'n>(names: impl Iterator<Item = &'n str>) -> Query {
        let segment =
            |name: &str| Segment { descends: false, selectors: vec![Selector::Name(name.into())] };
        let segments = names.map(segment).collect();
        Query { path: Arc::new(Path { segments, singular: true }) }
    }

    /// It finds one value at the most.
    pub fn is_singular(&self) -> bool {
        self.path.singular
    }

    /// The nodes that it finds below a node, which is its `$`.
    pub fn nodes(
        &self,
        text: &JsonText,
        root: JsonNode,
        budget: &mut Budget,
    ) -> Result<Vec<JsonNode>, FailureKind> {
        eval::Run::new(text, root, budget).path(&self.path, root)
    }

    /// The values that it finds below a node.
    pub(crate) fn value(
        &self,
        text: &Arc<JsonText>,
        root: JsonNode,
        budget: &mut Budget,
    ) -> Result<JsonNodes, FailureKind> {
        let nodes = self.nodes(text, root, budget)?.into();
        Ok(JsonNodes { text: text.clone(), nodes, singular: self.is_singular() })
    }
}
