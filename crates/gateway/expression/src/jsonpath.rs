//! JSONPath (RFC 9535): compiles a text to a [`Query`] once, and evaluates the query on a [`JsonText`] for each message.
//!
//! Owns the grammar, the types of expressions, regular expressions (RFC 9485), and the order of results. Recursion follows the nesting of
//! the query, never the depth of the JSON text.

mod check;
mod compare;
mod cursor;
mod eval;
mod filter;
mod iregexp;
mod operand;
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
    /// Whether the query selects at most one value.
    singular: bool,
}

#[derive(Debug, Clone)]
struct Segment {
    /// Whether the segment is `..`, which applies to the node and all its descendants.
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

/// A query within a filter.
#[derive(Debug, Clone)]
struct Inner {
    /// Whether the query begins with `$` instead of `@`.
    from_root: bool,
    path: Path,
}

/// An expression with at most one value (`comparable` in RFC 9535).
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
    /// The text of the pattern comes from the message.
    Found(Comparable),
}

impl Query {
    /// Compiles a whole query: `$` followed by segments.
    pub fn compile(text: &str) -> Result<Query, Error> {
        Ok(Query { path: Arc::new(parse::whole(text)?) })
    }

    /// Compiles the segments at a byte offset of a text. Returns them with the offset after them.
    pub(crate) fn compile_segments(text: &str, from: usize) -> Result<(Query, usize), Error> {
        let (path, end) = parse::segments(text, from)?;
        Ok((Query { path: Arc::new(path) }, end))
    }

    /// Returns the query for a chain of member names.
    pub(crate) fn of_names<'n>(names: impl Iterator<Item = &'n str>) -> Query {
        let segment =
            |name: &str| Segment { descends: false, selectors: vec![Selector::Name(name.into())] };
        let segments = names.map(segment).collect();
        Query { path: Arc::new(Path { segments, singular: true }) }
    }

    /// Returns true if the query selects at most one value.
    pub fn is_singular(&self) -> bool {
        self.path.singular
    }

    /// Returns the nodes that the query selects. `root` is its `$`.
    pub fn nodes(
        &self,
        text: &JsonText,
        root: JsonNode,
        budget: &mut Budget,
    ) -> Result<Vec<JsonNode>, FailureKind> {
        eval::Run::new(text, root, budget).path(&self.path, root)
    }

    /// Returns the values that the query selects. `root` is its `$`.
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
