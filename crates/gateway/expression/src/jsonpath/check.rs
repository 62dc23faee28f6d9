//! The type rules (RFC 9535, 2.4.3) for comparisons, tests, and arguments of functions.

use crate::jsonpath::cursor::Cursor;
use crate::jsonpath::iregexp::Regex;
use crate::jsonpath::{Comparable, Inner, Logical, Pattern};
use crate::{Error, ErrorKind};

/// A part of a filter, by type.
pub(super) enum Part {
    /// `ValueType`
    Value(Comparable),
    /// `NodesType`, or a value if the query is singular.
    Query(Inner),
    /// `LogicalType`
    Truth(Logical),
}

/// Accepts a part that has one value: an operand of a comparison, or an argument of a function.
pub(super) fn comparable(
    cursor: &Cursor<'_>,
    from: usize,
    part: Part,
) -> Result<Comparable, Error> {
    match part {
        Part::Value(value) => Ok(value),
        Part::Query(query) if query.path.singular => Ok(Comparable::Query(query)),
        Part::Query(_) => wrong(
            cursor,
            from,
            "a query that may find several values is not a value; use `value(...)` if it finds one, or `count(...)` for their number",
        ),
        Part::Truth(_) => {
            wrong(cursor, from, "a boolean is not a value; write it as a separate test")
        }
    }
}

/// Accepts a part that may be a test on its own.
pub(super) fn test(cursor: &Cursor<'_>, from: usize, part: Part) -> Result<Logical, Error> {
    match part {
        Part::Query(query) => Ok(Logical::Exists(query)),
        Part::Truth(truth) => Ok(truth),
        Part::Value(_) => wrong(cursor, from, "a value is neither true nor false; compare it"),
    }
}

/// Checks a function call with its arguments.
pub(super) fn call(
    cursor: &Cursor<'_>,
    from: usize,
    name: &str,
    arguments: Vec<(usize, Part)>,
) -> Result<Part, Error> {
    let mut arguments = arguments.into_iter();
    let given = arguments.len();
    match (name, arguments.next(), arguments.next(), given) {
        ("length", Some((at, value)), None, 1) => {
            let value = comparable(cursor, at, value)?;
            Ok(Part::Value(Comparable::Length(Box::new(value))))
        }
        ("count", Some((at, nodes)), None, 1) => {
            Ok(Part::Value(Comparable::Count(query(cursor, at, nodes)?)))
        }
        ("value", Some((at, nodes)), None, 1) => {
            Ok(Part::Value(Comparable::Value(query(cursor, at, nodes)?)))
        }
        ("match" | "search", Some((at, text)), Some((pattern_at, pattern)), 2) => {
            let text = comparable(cursor, at, text)?;
            let whole = name == "match";
            let pattern = comparable(cursor, pattern_at, pattern)?;
            let pattern = known(cursor, pattern_at, pattern, whole)?;
            Ok(Part::Truth(Logical::Match { text, pattern, whole }))
        }
        ("length" | "count" | "value" | "match" | "search", ..) => {
            let what = format!("`{name}()` does not take {given} arguments");
            cursor.refuse_at(from, ErrorKind::Function(what.into()))
        }
        _ => {
            let what = format!(
                "there is no function `{name}()`; there are length, count, match, search and value"
            );
            cursor.refuse_at(from, ErrorKind::Function(what.into()))
        }
    }
}

fn query(cursor: &Cursor<'_>, from: usize, part: Part) -> Result<Inner, Error> {
    match part {
        Part::Query(query) => Ok(query),
        Part::Value(_) | Part::Truth(_) => wrong(cursor, from, "expected a query"),
    }
}

/// Compiles a pattern that is a literal in the query. An invalid pattern is refused, although RFC 9535 would let it match nothing, because
/// it is certainly a mistake.
fn known(
    cursor: &Cursor<'_>,
    from: usize,
    pattern: Comparable,
    whole: bool,
) -> Result<Pattern, Error> {
    let Comparable::Text(text) = &pattern else { return Ok(Pattern::Found(pattern)) };
    match Regex::compile(text, whole) {
        Some(regex) => Ok(Pattern::Known(regex)),
        None => {
            let what = format!("`{text}` is not a regular expression of RFC 9485");
            cursor.refuse_at(from, ErrorKind::Regex(what.into()))
        }
    }
}

fn wrong<T>(cursor: &Cursor<'_>, from: usize, what: &str) -> Result<T, Error> {
    cursor.refuse_at(from, ErrorKind::Type(what.into()))
}
