//! Arguments of SQL statements: converts values of flows to the types of the database.

use std::error::Error;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{BufMut as _, Bytes, BytesMut};
use json::{Kind, TapeEntry};
use rusqlite::types::Value as SqliteValue;
use tokio_postgres::types::{Format, IsNull, Kind as TypeKind, ToSql, Type};

/// A value for a placeholder.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    Null,
    Boolean(bool),
    /// A number, in its original notation.
    Number(Box<str>),
    Text(Box<str>),
    /// The text of a JSON value.
    Json(Box<str>),
    Bytes(Bytes),
}

/// An argument in the text format of PostgreSQL; `None` is null. The server parses the text as the type of the placeholder. Numbers and
/// times therefore keep their digits, and the server refuses text that is not valid for the type.
#[derive(Debug)]
pub(crate) struct TextArgument(Option<String>);

/// Maximum nesting of arrays, the same as in PostgreSQL.
const DIMENSIONS_MAX: usize = 6;

/// Maximum number of values in one JSON array.
const ENTRIES_MAX: usize = 100_000;

/// Maximum number of digits that SQLite preserves in a floating-point number.
const REAL_DIGITS_MAX: usize = 15;

impl Argument {
    /// Converts the argument to the type of a placeholder. The error is shown after `the argument $1:`.
    pub(crate) fn encoded(&self, kind: &Type) -> Result<TextArgument, String> {
        let text = match (base(kind), self) {
            (_, Argument::Null) => None,
            (_, Argument::Json(raw)) if **raw == *"null" => None,
            (kind, _) if *kind == Type::BYTEA => {
                Some(format!("\\x{}", kit::hex::encoded(&self.decoded()?)))
            }
            (kind, Argument::Json(raw)) if *kind == Type::JSON || *kind == Type::JSONB => {
                Some(raw.to_string())
            }
            (kind, Argument::Json(raw)) => match (kind.kind(), raw.starts_with('[')) {
                (TypeKind::Array(_), true) => Some(array(raw)?),
                _ => self.scalar()?,
            },
            _ => self.scalar()?,
        };
        Ok(TextArgument(text))
    }

    /// Returns the argument as text, or `None` for null.
    fn scalar(&self) -> Result<Option<String>, String> {
        Ok(match self {
            Argument::Null => None,
            Argument::Boolean(yes) => Some(yes.to_string()),
            Argument::Number(text) | Argument::Text(text) => Some(text.to_string()),
            Argument::Json(raw) if **raw == *"null" => None,
            Argument::Json(raw) => Some(match string_of(raw) {
                Some(text) => json::unescaped(text),
                None => raw.to_string(),
            }),
            Argument::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Some(text.to_owned()),
                Err(_) => return Err("the value is binary, but the type is not".to_owned()),
            },
        })
    }

    /// Returns the argument as bytes. Text must be base64, the encoding of bytes in returned rows.
    fn decoded(&self) -> Result<Bytes, String> {
        if let Argument::Bytes(bytes) = self {
            return Ok(bytes.clone());
        }
        // Harmless: null was handled earlier.
        let text = self.scalar()?.unwrap_or_default();
        let decoded = STANDARD.decode(text.trim());
        decoded
            .map(Bytes::from)
            .map_err(|_| "the type is binary, but the value is not base64".to_owned())
    }

    pub(crate) fn sqlite(&self) -> SqliteValue {
        match self {
            Argument::Null => SqliteValue::Null,
            Argument::Boolean(yes) => SqliteValue::Integer(i64::from(*yes)),
            Argument::Number(text) => number(text),
            Argument::Text(text) => SqliteValue::Text(text.to_string()),
            Argument::Json(raw) => match &**raw {
                "null" => SqliteValue::Null,
                "true" => SqliteValue::Integer(1),
                "false" => SqliteValue::Integer(0),
                raw if raw.starts_with(['[', '{']) => SqliteValue::Text(raw.to_owned()),
                raw => match string_of(raw) {
                    Some(text) => SqliteValue::Text(json::unescaped(text)),
                    None => number(raw),
                },
            },
            Argument::Bytes(bytes) => SqliteValue::Blob(bytes.to_vec()),
        }
    }

    /// Appends the argument as JSON.
    pub(crate) fn push_json(&self, out: &mut String) {
        match self {
            Argument::Null => out.push_str("null"),
            Argument::Boolean(yes) => out.push_str(if *yes { "true" } else { "false" }),
            Argument::Number(text) if json::Tape::read(text, &ONE).is_ok() => out.push_str(text),
            Argument::Number(text) | Argument::Text(text) => json::push_string(out, text),
            Argument::Json(raw) => out.push_str(raw),
            Argument::Bytes(bytes) => json::push_string(out, &STANDARD.encode(bytes)),
        }
    }
}

/// Limits for a single scalar.
const ONE: json::Limits = json::Limits { depth_max: 1, entries_max: 1 };

/// Returns the base type of a domain.
fn base(kind: &Type) -> &Type {
    if let TypeKind::Domain(below) = kind.kind() {
        return base(below);
    }
    kind
}

/// Returns the text between the quotes of a JSON string, still escaped.
fn string_of(raw: &str) -> Option<&str> {
    raw.strip_prefix('"')?.strip_suffix('"')
}

/// Converts a number if this keeps all digits. Otherwise returns its text, which SQLite converts if the column has a numeric type.
fn number(text: &str) -> SqliteValue {
    // Harmless: a number that is not an `i64` is handled below.
    if let Ok(whole) = text.parse() {
        return SqliteValue::Integer(whole);
    }
    let digits = text.bytes().take_while(|b| !matches!(b, b'e' | b'E')).filter(u8::is_ascii_digit);
    let fits = digits.count() <= REAL_DIGITS_MAX;
    match text.parse::<f64>() {
        Ok(real) if real.is_finite() && fits => SqliteValue::Real(real),
        Ok(_) | Err(_) => SqliteValue::Text(text.to_owned()),
    }
}

/// Converts a JSON array to an array literal of PostgreSQL.
fn array(raw: &str) -> Result<String, String> {
    let limits = json::Limits { depth_max: 512, entries_max: ENTRIES_MAX };
    let tape = json::Tape::read(raw, &limits)
        .map_err(|_| format!("the array has over {ENTRIES_MAX} values"))?;
    let mut out = String::new();
    push_array(raw, tape.entries(), 0, 0, &mut out)?;
    Ok(out)
}

fn push_array(
    raw: &str,
    entries: &[TapeEntry],
    at: usize,
    depth: usize,
    out: &mut String,
) -> Result<(), String> {
    if depth == DIMENSIONS_MAX {
        return Err(format!("the array has over {DIMENSIONS_MAX} levels"));
    }
    let end = entries.get(at).map_or(0, |entry| index(entry.next));
    let mut item = at + 1;
    out.push('{');
    while let Some(entry) = entries.get(item).filter(|_| item < end) {
        if item > at + 1 {
            out.push(',');
        }
        let text = raw.get(index(entry.from)..index(entry.to)).unwrap_or_default();
        match entry.kind {
            Kind::Null => out.push_str("NULL"),
            Kind::False | Kind::True | Kind::Number => out.push_str(text),
            Kind::Plain => push_quoted(text, out),
            Kind::Escaped => push_quoted(&json::unescaped(text), out),
            Kind::Object => push_quoted(text, out),
            Kind::Array => push_array(raw, entries, item, depth + 1, out)?,
        }
        item = index(entry.next);
    }
    out.push('}');
    Ok(())
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn push_quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

impl ToSql for TextArgument {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Some(text) = &self.0 else { return Ok(IsNull::Yes) };
        out.put_slice(text.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.to_sql(kind, out)
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_encoded_as_text_for_their_types() {
        let json = |raw: &str| Argument::Json(raw.into());
        for (argument, kind, text) in [
            (Argument::Null, Type::INT4, None),
            (Argument::Number("0.10".into()), Type::NUMERIC, Some("0.10")),
            (Argument::Text("'; drop table a --".into()), Type::TEXT, Some("'; drop table a --")),
            (json(r#""a\nb""#), Type::TEXT, Some("a\nb")),
            (json("null"), Type::TEXT, None),
            (json("null"), Type::JSONB, None),
            (json(r#""a""#), Type::JSONB, Some(r#""a""#)),
            (json("[1]"), Type::JSONB, Some("[1]")),
            (json("[1,2]"), Type::INT4_ARRAY, Some("{1,2}")),
            (json("[]"), Type::INT4_ARRAY, Some("{}")),
            (
                json(r#"["a\"b","NULL",null,[true],{"c":1}]"#),
                Type::TEXT_ARRAY,
                Some(r#"{"a\"b","NULL",NULL,{true},"{\"c\":1}"}"#),
            ),
            (Argument::Text("{1}".into()), Type::INT4_ARRAY, Some("{1}")),
            (Argument::Text("AP8=".into()), Type::BYTEA, Some("\\x00ff")),
            (Argument::Bytes(Bytes::from_static(b"\x01\xa0")), Type::BYTEA, Some("\\x01a0")),
            (Argument::Boolean(true), Type::BOOL, Some("true")),
        ] {
            assert_eq!(argument.encoded(&kind).unwrap().0.as_deref(), text, "{argument:?} {kind}");
        }
        assert!(Argument::Text("%".into()).encoded(&Type::BYTEA).is_err());
        assert!(Argument::Bytes(Bytes::from_static(b"\xff")).encoded(&Type::TEXT).is_err());
        let deep = "[".repeat(7) + &"]".repeat(7);
        assert!(json(&deep).encoded(&Type::INT4_ARRAY).is_err());
    }

    #[test]
    fn sqlite_numbers_keep_their_digits() {
        for (text, value) in [
            ("12", SqliteValue::Integer(12)),
            ("-0.5", SqliteValue::Real(-0.5)),
            ("9223372036854775808", SqliteValue::Text("9223372036854775808".to_owned())),
            ("0.12345678901234567", SqliteValue::Text("0.12345678901234567".to_owned())),
            ("1e999", SqliteValue::Text("1e999".to_owned())),
            ("NaN", SqliteValue::Text("NaN".to_owned())),
        ] {
            assert_eq!(Argument::Number(text.into()).sqlite(), value, "{text}");
            assert_eq!(Argument::Json(text.into()).sqlite(), value, "{text}");
        }
    }
}
