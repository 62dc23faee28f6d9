//! Arguments of a prepared statement of MySQL, in its binary format.

use mysql_common::constants::ColumnType;

use crate::Argument;

/// A value with its type. Numbers keep their digits: those that do not fit into 64 bits or are not whole are sent as decimals, and those
/// with an exponent as text.
#[derive(Debug, PartialEq)]
enum Encoded<'a> {
    Null,
    Whole(i64),
    Large(u64),
    Decimal(&'a str),
    Text(Vec<u8>),
    Bytes(&'a [u8]),
}

/// The command that executes a prepared statement.
const EXECUTE: u8 = 0x17;

/// The flag of an unsigned type.
const UNSIGNED: u8 = 0x80;

/// Returns the packet that executes a statement with these arguments.
pub(super) fn execution(statement: u32, arguments: &[&Argument]) -> Vec<u8> {
    let mut out = vec![EXECUTE];
    out.extend_from_slice(&statement.to_le_bytes());
    // No cursor, and one execution.
    out.extend_from_slice(&[0, 1, 0, 0, 0]);
    if arguments.is_empty() {
        return out;
    }
    let values: Vec<Encoded<'_>> = arguments.iter().map(|argument| Encoded::of(argument)).collect();
    out.extend(values.chunks(8).map(|values| {
        let bits = values.iter().enumerate();
        bits.fold(0, |bits, (at, value)| bits | u8::from(*value == Encoded::Null) << at)
    }));
    // The types follow.
    out.push(1);
    for value in &values {
        let (kind, flags) = value.kind();
        out.extend_from_slice(&[kind as u8, flags]);
    }
    values.iter().for_each(|value| value.push(&mut out));
    out
}

impl Encoded<'_> {
    fn of(argument: &Argument) -> Encoded<'_> {
        match argument {
            Argument::Null => Encoded::Null,
            Argument::Boolean(yes) => Encoded::Whole(i64::from(*yes)),
            Argument::Number(text) => number(text),
            Argument::Text(text) => Encoded::Text(text.as_bytes().to_vec()),
            Argument::Bytes(bytes) => Encoded::Bytes(bytes),
            Argument::Json(raw) => match &**raw {
                "null" => Encoded::Null,
                "true" => Encoded::Whole(1),
                "false" => Encoded::Whole(0),
                raw => match raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')) {
                    Some(text) => Encoded::Text(json::unescaped(text).into_bytes()),
                    None if raw.starts_with(['[', '{']) => Encoded::Text(raw.as_bytes().to_vec()),
                    None => number(raw),
                },
            },
        }
    }

    fn kind(&self) -> (ColumnType, u8) {
        match self {
            Encoded::Null => (ColumnType::MYSQL_TYPE_NULL, 0),
            Encoded::Whole(_) => (ColumnType::MYSQL_TYPE_LONGLONG, 0),
            Encoded::Large(_) => (ColumnType::MYSQL_TYPE_LONGLONG, UNSIGNED),
            Encoded::Decimal(_) => (ColumnType::MYSQL_TYPE_NEWDECIMAL, 0),
            Encoded::Text(_) => (ColumnType::MYSQL_TYPE_VAR_STRING, 0),
            // Unlike text, bytes are not interpreted in the connection's character set.
            Encoded::Bytes(_) => (ColumnType::MYSQL_TYPE_BLOB, 0),
        }
    }

    fn push(&self, out: &mut Vec<u8>) {
        match self {
            Encoded::Null => {}
            Encoded::Whole(number) => out.extend_from_slice(&number.to_le_bytes()),
            Encoded::Large(number) => out.extend_from_slice(&number.to_le_bytes()),
            Encoded::Decimal(text) => push_bytes(out, text.as_bytes()),
            Encoded::Text(bytes) => push_bytes(out, bytes),
            Encoded::Bytes(bytes) => push_bytes(out, bytes),
        }
    }
}

fn number(text: &str) -> Encoded<'_> {
    match (text.parse(), text.parse()) {
        (Ok(whole), _) => Encoded::Whole(whole),
        (Err(_), Ok(large)) => Encoded::Large(large),
        (Err(_), Err(_))
            if text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'.')) =>
        {
            Encoded::Decimal(text)
        }
        (Err(_), Err(_)) => Encoded::Text(text.as_bytes().to_vec()),
    }
}

/// Appends the length of bytes, and the bytes.
fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = bytes.len().to_le_bytes();
    let (mark, count) = match bytes.len() {
        0..=250 => (None, 1),
        251..=0xFFFF => (Some(0xFC), 2),
        0x1_0000..=0xFF_FFFF => (Some(0xFD), 3),
        _ => (Some(0xFE), 8),
    };
    out.extend(mark);
    // Harmless: the omitted bytes of the length are zero.
    out.extend(length.iter().take(count));
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_lose_nothing() {
        let json = |raw: &str| Argument::Json(raw.into());
        let text = |text: &str| Encoded::Text(text.as_bytes().to_vec());
        for (argument, value) in [
            (Argument::Null, Encoded::Null),
            (json("null"), Encoded::Null),
            (Argument::Boolean(true), Encoded::Whole(1)),
            (json("12"), Encoded::Whole(12)),
            (json("18446744073709551615"), Encoded::Large(u64::MAX)),
            (json("18446744073709551616"), Encoded::Decimal("18446744073709551616")),
            (Argument::Number("0.10".into()), Encoded::Decimal("0.10")),
            (Argument::Number("NaN".into()), text("NaN")),
            (json("1e3"), text("1e3")),
            (json(r#""a\nb""#), text("a\nb")),
            (json("[1]"), text("[1]")),
            (Argument::Text("' or 1=1 --".into()), text("' or 1=1 --")),
            (Argument::Bytes((&b"\xff"[..]).into()), Encoded::Bytes(b"\xff")),
        ] {
            assert_eq!(Encoded::of(&argument), value, "{argument:?}");
        }
    }

    #[test]
    fn an_execution_names_nulls_types_and_values() {
        let arguments = [
            Argument::Number("-2".into()),
            Argument::Null,
            Argument::Text("ab".into()),
            Argument::Number(u64::MAX.to_string().into()),
        ];
        let packet = execution(7, &arguments.each_ref());
        let mut wanted = vec![EXECUTE, 7, 0, 0, 0, 0, 1, 0, 0, 0, 0b10, 1];
        wanted.extend([8, 0, 6, 0, 253, 0, 8, UNSIGNED]);
        wanted.extend((-2_i64).to_le_bytes());
        wanted.extend([2, b'a', b'b']);
        wanted.extend([0xFF; 8]);
        assert_eq!(packet, wanted);
        assert_eq!(execution(7, &[]).len(), 10);
    }
}
