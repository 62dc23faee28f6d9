//! Converts values in PostgreSQL's binary format to JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio_postgres::types::{FromSql, Kind, Type};

use crate::binary::Reader;
use crate::{numeric, times};

/// The bytes of one value, with its type.
pub(crate) struct Cell<'a> {
    pub(crate) kind: Type,
    raw: Option<&'a [u8]>,
}

/// The reason why a value cannot be converted to JSON.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConversionFailure {
    /// Its type has no representation in JSON.
    Type,
    /// The bytes are not valid for their type.
    Malformed,
}

/// Maximum nesting of arrays, the same as in PostgreSQL.
const DIMENSIONS_MAX: usize = 6;

impl<'a> FromSql<'a> for Cell<'a> {
    fn from_sql(
        kind: &Type,
        raw: &'a [u8],
    ) -> Result<Cell<'a>, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Cell { kind: kind.clone(), raw: Some(raw) })
    }

    fn from_sql_null(kind: &Type) -> Result<Cell<'a>, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Cell { kind: kind.clone(), raw: None })
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl Cell<'_> {
    /// Appends the value as JSON.
    pub(crate) fn push(&self, out: &mut String) -> Result<(), ConversionFailure> {
        match self.raw {
            Some(raw) => push(out, &self.kind, raw),
            None => {
                out.push_str("null");
                Ok(())
            }
        }
    }
}

fn push(out: &mut String, kind: &Type, raw: &[u8]) -> Result<(), ConversionFailure> {
    if let Kind::Domain(below) = kind.kind() {
        return push(out, below, raw);
    }
    if let Kind::Enum(_) = kind.kind() {
        return push_text(out, raw);
    }
    if let Kind::Array(item) = kind.kind() {
        return push_array(out, item, raw).ok_or(ConversionFailure::Malformed)?;
    }
    push_simple(out, kind, raw)
}

fn push_simple(out: &mut String, kind: &Type, raw: &[u8]) -> Result<(), ConversionFailure> {
    let mut reader = Reader(raw);
    let done = match *kind {
        Type::BOOL => reader.u8().map(|yes| out.push_str(if yes == 0 { "false" } else { "true" })),
        Type::INT2 => reader.i16().map(|number| out.push_str(&number.to_string())),
        Type::INT4 => reader.i32().map(|number| out.push_str(&number.to_string())),
        Type::INT8 => reader.i64().map(|number| out.push_str(&number.to_string())),
        Type::OID => reader.u32().map(|number| out.push_str(&number.to_string())),
        Type::FLOAT4 => reader.u32().map(|bits| push_float(out, f32::from_bits(bits))),
        Type::FLOAT8 => reader.u64().map(|bits| push_float(out, f64::from_bits(bits))),
        Type::NUMERIC => numeric::push(out, raw),
        Type::JSON => return push_raw(out, raw),
        Type::JSONB => {
            return push_raw(out, raw.strip_prefix(&[1]).ok_or(ConversionFailure::Malformed)?);
        }
        Type::BYTEA => {
            push_string(out, &STANDARD.encode(raw));
            Some(())
        }
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN | Type::XML => {
            return push_text(out, raw);
        }
        Type::VOID => {
            out.push_str("null");
            Some(())
        }
        Type::UUID => uuid(raw).map(|text| push_string(out, &text)),
        Type::DATE => reader.i32().map(|days| push_string(out, &times::date(days))),
        Type::TIME => reader.i64().map(|us| push_string(out, &times::time(us))),
        Type::TIMETZ => reader.i64().and_then(|us| {
            let west = reader.i32()?;
            push_string(out, &(times::time(us) + &times::zone(west)));
            Some(())
        }),
        Type::TIMESTAMP => reader.i64().map(|us| push_string(out, &times::stamp(us, ""))),
        Type::TIMESTAMPTZ => reader.i64().map(|us| push_string(out, &times::stamp(us, "Z"))),
        Type::INTERVAL => {
            let mut parts = || Some((reader.i64()?, reader.i32()?, reader.i32()?));
            parts().map(|(us, days, months)| {
                push_string(out, &times::interval(us, days, months));
            })
        }
        _ if kind.name() == "citext" => return push_text(out, raw),
        _ => return Err(ConversionFailure::Type),
    };
    done.ok_or(ConversionFailure::Malformed)
}

fn push_string(out: &mut String, text: &str) {
    json::push_string(out, text);
}

fn push_text(out: &mut String, raw: &[u8]) -> Result<(), ConversionFailure> {
    push_string(out, std::str::from_utf8(raw).map_err(|_| ConversionFailure::Malformed)?);
    Ok(())
}

/// Appends JSON unchanged.
fn push_raw(out: &mut String, raw: &[u8]) -> Result<(), ConversionFailure> {
    out.push_str(std::str::from_utf8(raw).map_err(|_| ConversionFailure::Malformed)?);
    Ok(())
}

/// Appends the shortest digits that identify the number. A number that JSON cannot represent becomes a string.
fn push_float<F: Copy + Into<f64> + std::fmt::Display>(out: &mut String, number: F) {
    let wide: f64 = number.into();
    match wide {
        wide if wide.is_nan() => out.push_str("\"NaN\""),
        f64::INFINITY => out.push_str("\"Infinity\""),
        f64::NEG_INFINITY => out.push_str("\"-Infinity\""),
        _ => out.push_str(&number.to_string()),
    }
}

fn uuid(raw: &[u8]) -> Option<String> {
    let raw: &[u8; 16] = raw.try_into().ok()?;
    let mut text = String::with_capacity(36);
    for (at, byte) in raw.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        kit::hex::push(&mut text, &[*byte]);
    }
    Some(text)
}

/// Appends an array. The outer `None` means that the bytes are malformed.
fn push_array(out: &mut String, item: &Type, raw: &[u8]) -> Option<Result<(), ConversionFailure>> {
    let mut reader = Reader(raw);
    let dimensions = usize::try_from(reader.i32()?).ok()?;
    if dimensions > DIMENSIONS_MAX {
        return None;
    }
    let (_has_null, _item) = (reader.i32()?, reader.u32()?);
    let mut lengths = Vec::new();
    for _ in 0..dimensions {
        // The server sends an empty array without dimensions, so a length of 0 is malformed. Otherwise a few bytes could announce many
        // empty arrays.
        match usize::try_from(reader.i32()?).ok()? {
            0 => return None,
            length => lengths.push(length),
        }
        let _lower = reader.i32()?;
    }
    if lengths.is_empty() {
        out.push_str("[]");
        return Some(Ok(()));
    }
    push_items(out, item, &lengths, &mut reader)
}

fn push_items(
    out: &mut String,
    item: &Type,
    lengths: &[usize],
    reader: &mut Reader<'_>,
) -> Option<Result<(), ConversionFailure>> {
    let (length, below) = lengths.split_first()?;
    out.push('[');
    for number in 0..*length {
        if number > 0 {
            out.push(',');
        }
        if !below.is_empty() {
            if let Err(unfit) = push_items(out, item, below, reader)? {
                return Some(Err(unfit));
            }
            continue;
        }
        match reader.i32()? {
            -1 => out.push_str("null"),
            bytes => {
                let raw = reader.take(usize::try_from(bytes).ok()?)?;
                if let Err(unfit) = push(out, item, raw) {
                    return Some(Err(unfit));
                }
            }
        }
    }
    out.push(']');
    Some(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(kind: &Type, raw: &[u8]) -> Result<String, ConversionFailure> {
        let mut out = String::new();
        push(&mut out, kind, raw).map(|()| out)
    }

    #[test]
    fn values_are_json() {
        let tenth = 0.1_f32.to_be_bytes();
        for (kind, raw, text) in [
            (Type::BOOL, &[1][..], "true"),
            (Type::INT8, &[0xFF; 8], "-1"),
            (Type::FLOAT4, &tenth, "0.1"),
            (Type::FLOAT8, &f64::NAN.to_be_bytes(), "\"NaN\""),
            (Type::TEXT, b"a\"b", r#""a\"b""#),
            (Type::JSONB, b"\x01{\"a\": 1.10}", r#"{"a": 1.10}"#),
            (Type::BYTEA, &[0, 255], "\"AP8=\""),
            (Type::UUID, &[0x12; 16], "\"12121212-1212-1212-1212-121212121212\""),
            (Type::DATE, &[0; 4], "\"2000-01-01\""),
            (Type::INT2_ARRAY, &[0; 12], "[]"),
        ] {
            assert_eq!(said(&kind, raw).as_deref(), Ok(text), "{kind}");
        }
        assert_eq!(said(&Type::POINT, &[0; 16]), Err(ConversionFailure::Type));
    }

    #[test]
    fn arrays_keep_their_shape_and_are_read_within_their_bytes() {
        let mut raw = Vec::new();
        for number in [2_i32, 1, 21, 2, 1, 2, 1, 2] {
            raw.extend_from_slice(&number.to_be_bytes());
        }
        raw.extend_from_slice(&7_i16.to_be_bytes());
        for _ in 0..3 {
            raw.extend_from_slice(&(-1_i32).to_be_bytes());
        }
        assert_eq!(said(&Type::INT2_ARRAY, &raw).as_deref(), Ok("[[7,null],[null,null]]"));
        for end in 0..raw.len() {
            assert_eq!(said(&Type::INT2_ARRAY, &raw[..end]), Err(ConversionFailure::Malformed));
        }
        let many = [0x7F; 20];
        assert_eq!(said(&Type::INT2_ARRAY, &many), Err(ConversionFailure::Malformed));
    }
}
