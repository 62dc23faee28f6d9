//! Filters: logical expressions, comparisons, functions.

use crate::jsonpath::check::{self, Part};
use crate::jsonpath::cursor::Cursor;
use crate::jsonpath::{Comparable, Comparison, Inner, Logical, strings};
use crate::{Error, ErrorKind};

/// Parses `a || b`.
pub(super) fn logical(cursor: &mut Cursor<'_>) -> Result<Logical, Error> {
    let mut any = vec![all(cursor)?];
    while sign(cursor, "||") {
        any.push(all(cursor)?);
    }
    Ok(match any.pop() {
        Some(only) if any.is_empty() => only,
        last => Logical::Any(any.into_iter().chain(last).collect()),
    })
}

/// Parses `a && b`.
fn all(cursor: &mut Cursor<'_>) -> Result<Logical, Error> {
    let mut all = vec![basic(cursor)?];
    while sign(cursor, "&&") {
        all.push(basic(cursor)?);
    }
    Ok(match all.pop() {
        Some(only) if all.is_empty() => only,
        last => Logical::All(all.into_iter().chain(last).collect()),
    })
}

/// Skips an operator with the blanks around it.
fn sign(cursor: &mut Cursor<'_>, sign: &str) -> bool {
    let before = cursor.at;
    cursor.blanks();
    let found = cursor.eat(sign);
    if found {
        cursor.blanks()
    } else {
        cursor.at = before
    }
    found
}

fn basic(cursor: &mut Cursor<'_>) -> Result<Logical, Error> {
    if cursor.eat("!") {
        cursor.blanks();
        let inner = match cursor.peek() {
            Some(b'(') => parenthesis(cursor)?,
            Some(_) | None => {
                let from = cursor.at;
                let part = part(cursor)?;
                check::test(cursor, from, part)?
            }
        };
        return Ok(Logical::Not(Box::new(inner)));
    }
    if cursor.peek() == Some(b'(') {
        return parenthesis(cursor);
    }
    let from = cursor.at;
    let left = part(cursor)?;
    let Some(comparison) = comparison(cursor) else {
        return check::test(cursor, from, left);
    };
    let left = check::comparable(cursor, from, left)?;
    let from = cursor.at;
    let right = part(cursor)?;
    Ok(Logical::Compare(comparison, left, check::comparable(cursor, from, right)?))
}

fn parenthesis(cursor: &mut Cursor<'_>) -> Result<Logical, Error> {
    cursor.at += 1;
    cursor.blanks();
    let inner = cursor.nested(logical)?;
    cursor.blanks();
    if cursor.eat(")") { Ok(inner) } else { cursor.refuse("expected `)`") }
}

fn comparison(cursor: &mut Cursor<'_>) -> Option<Comparison> {
    const SIGNS: [(&str, Comparison); 6] = [
        ("==", Comparison::Equal),
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::LessEqual),
        (">=", Comparison::GreaterEqual),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
    ];
    SIGNS.iter().find(|(text, _)| sign(cursor, text)).map(|(_, comparison)| *comparison)
}

/// Parses a literal, a query or a function, of any type.
pub(super) fn part(cursor: &mut Cursor<'_>) -> Result<Part, Error> {
    match cursor.peek() {
        Some(b'@' | b'$') => {
            let from_root = cursor.peek() == Some(b'$');
            cursor.at += 1;
            let path = cursor.nested(Cursor::path)?;
            Ok(Part::Query(Inner { from_root, path }))
        }
        Some(b'\'' | b'"') => Ok(Part::Value(Comparable::Text(strings::read(cursor)?.into()))),
        Some(b'-' | b'0'..=b'9') => number(cursor),
        Some(b'a'..=b'z') => word(cursor),
        Some(_) | None => cursor.refuse("expected a query, a literal, a function, `!` or `(`"),
    }
}

fn number(cursor: &mut Cursor<'_>) -> Result<Part, Error> {
    let rest = cursor.rest();
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
    let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let text = rest.get(..len).unwrap_or_default();
    if !crate::number::is_number(text) {
        return cursor.refuse("a number must be written as in JSON");
    }
    cursor.at += len;
    Ok(Part::Value(Comparable::Number(text.into())))
}

/// Parses a named literal, or a function with its arguments.
fn word(cursor: &mut Cursor<'_>) -> Result<Part, Error> {
    let (from, rest) = (cursor.at, cursor.rest());
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let len = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
    let name = rest.get(..len).unwrap_or_default();
    cursor.at += len;
    if !cursor.eat("(") {
        return match name {
            "true" => Ok(Part::Value(Comparable::Boolean(true))),
            "false" => Ok(Part::Value(Comparable::Boolean(false))),
            "null" => Ok(Part::Value(Comparable::Null)),
            _ => {
                let what = format!("`{name}` is not a literal; write strings in quotes");
                cursor.refuse_at(from, ErrorKind::syntax(what))
            }
        };
    }
    let arguments = cursor.nested(arguments)?;
    check::call(cursor, from, name, arguments)
}

/// Parses arguments. Returns each with the offset at which it begins.
fn arguments(cursor: &mut Cursor<'_>) -> Result<Vec<(usize, Part)>, Error> {
    let mut arguments = Vec::new();
    cursor.blanks();
    if cursor.eat(")") {
        return Ok(arguments);
    }
    loop {
        let from = cursor.at;
        arguments.push((from, argument(cursor)?));
        cursor.blanks();
        if cursor.eat(")") {
            return Ok(arguments);
        }
        if !cursor.eat(",") {
            return cursor.refuse("expected `,` or `)`");
        }
        cursor.blanks();
    }
}

/// Parses an argument. No function takes a logical expression, which is parsed only to be refused with a clear error.
fn argument(cursor: &mut Cursor<'_>) -> Result<Part, Error> {
    let from = cursor.at;
    if !matches!(cursor.peek(), Some(b'!' | b'(')) {
        let found = part(cursor)?;
        let end = cursor.at;
        cursor.blanks();
        if matches!(cursor.peek(), Some(b',' | b')')) {
            cursor.at = end;
            return Ok(found);
        }
    }
    cursor.at = from;
    Ok(Part::Truth(logical(cursor)?))
}
