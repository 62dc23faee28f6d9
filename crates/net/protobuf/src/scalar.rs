//! Scalar values: from a text, to the wire, and to JSON.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};

use crate::schema::{FieldKind, Schema};
use crate::wire::{self, Raw, WireError, WireType};

/// Both alphabets are accepted, with padding or without.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(DecodePaddingMode::Indifferent);
const ANY_STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const ANY_URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// The largest number up to which every integer is a double.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A value in the form in which it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scalar<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(Cow<'a, [u8]>),
}

/// The form of a value in JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JsonScalar<'a> {
    /// A number or a truth value, as its text.
    Literal(&'a str),
    String(Cow<'a, str>),
}

impl Scalar<'_> {
    pub(crate) fn is_default(&self) -> bool {
        match self {
            Scalar::Varint(number) | Scalar::Fixed64(number) => *number == 0,
            Scalar::Fixed32(number) => *number == 0,
            Scalar::Bytes(bytes) => bytes.is_empty(),
        }
    }

    pub(crate) fn wire_type(&self) -> WireType {
        match self {
            Scalar::Varint(_) => WireType::Varint,
            Scalar::Fixed64(_) => WireType::Fixed64,
            Scalar::Fixed32(_) => WireType::Fixed32,
            Scalar::Bytes(_) => WireType::Bytes,
        }
    }

    /// Appends the value without a tag.
    pub(crate) fn push(&self, out: &mut Vec<u8>) {
        match self {
            Scalar::Varint(number) => wire::push_varint(*number, out),
            Scalar::Fixed64(number) => out.extend_from_slice(&number.to_le_bytes()),
            Scalar::Fixed32(number) => out.extend_from_slice(&number.to_le_bytes()),
            Scalar::Bytes(bytes) => {
                wire::push_varint(u64::try_from(bytes.len()).unwrap_or(u64::MAX), out);
                out.extend_from_slice(bytes);
            }
        }
    }
}

/// Reads a value of a scalar kind. The error says what was expected.
pub(crate) fn read<'a>(
    schema: &Schema,
    kind: FieldKind,
    value: JsonScalar<'a>,
) -> Result<Scalar<'a>, &'static str> {
    match kind {
        FieldKind::String => match value {
            JsonScalar::String(text) => Ok(Scalar::Bytes(bytes_of(text))),
            JsonScalar::Literal(_) => Err("it is not a string"),
        },
        FieldKind::Bytes => match value {
            JsonScalar::String(text) => decoded(&text).map(|bytes| Scalar::Bytes(bytes.into())),
            JsonScalar::Literal(_) => Err("it is not Base64 in a string"),
        },
        FieldKind::Bool => match value {
            JsonScalar::Literal("true") => Ok(Scalar::Varint(1)),
            JsonScalar::Literal("false") => Ok(Scalar::Varint(0)),
            JsonScalar::Literal(_) | JsonScalar::String(_) => Err("it is neither true nor false"),
        },
        FieldKind::Enum(index) => {
            let number = match &value {
                JsonScalar::String(name) => {
                    let known = schema.enums.get(index).and_then(|one| one.by_name.get(&**name));
                    i64::from(*known.ok_or("it is not a name of the enum")?)
                }
                JsonScalar::Literal(text) => i64::from(int32(text)?),
            };
            Ok(Scalar::Varint(number.cast_unsigned()))
        }
        FieldKind::Message(_) | FieldKind::Group(_) => Err("it is not a scalar"),
        number => {
            let text = match &value {
                JsonScalar::String(text) => text,
                JsonScalar::Literal("true" | "false") => return Err(NOT_A_NUMBER),
                JsonScalar::Literal(text) => *text,
            };
            self::number(number, text)
        }
    }
}

const NOT_A_NUMBER: &str = "it is not a number";
const NO_INTEGER: &str = "it is not an integer in the range of its type";

fn number(kind: FieldKind, text: &str) -> Result<Scalar<'static>, &'static str> {
    Ok(match kind {
        FieldKind::Double => Scalar::Fixed64(double(text)?.to_bits()),
        FieldKind::Float => Scalar::Fixed32(float(text)?.to_bits()),
        FieldKind::Int32 => Scalar::Varint(i64::from(int32(text)?).cast_unsigned()),
        FieldKind::Int64 => Scalar::Varint(int64(text)?.cast_unsigned()),
        FieldKind::Uint32 => Scalar::Varint(uint32(text)?.into()),
        FieldKind::Uint64 => Scalar::Varint(uint64(text)?),
        FieldKind::Sint32 => {
            let number = int32(text)?;
            Scalar::Varint(((number << 1) ^ (number >> 31)).cast_unsigned().into())
        }
        FieldKind::Sint64 => {
            let number = int64(text)?;
            Scalar::Varint(((number << 1) ^ (number >> 63)).cast_unsigned())
        }
        FieldKind::Fixed32 => Scalar::Fixed32(uint32(text)?),
        FieldKind::Fixed64 => Scalar::Fixed64(uint64(text)?),
        FieldKind::Sfixed32 => Scalar::Fixed32(int32(text)?.cast_unsigned()),
        FieldKind::Sfixed64 => Scalar::Fixed64(int64(text)?.cast_unsigned()),
        FieldKind::Bool
        | FieldKind::String
        | FieldKind::Bytes
        | FieldKind::Enum(_)
        | FieldKind::Message(_)
        | FieldKind::Group(_) => return Err(NOT_A_NUMBER),
    })
}

fn bytes_of(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

fn decoded(text: &str) -> Result<Vec<u8>, &'static str> {
    let engine = if text.contains(['-', '_']) { &ANY_URL_SAFE } else { &ANY_STANDARD };
    engine.decode(text).map_err(|_| "it is not Base64")
}

/// Returns the integer that a number with a fraction or an exponent is, such as `1.0` or `1e3`.
fn integral(text: &str) -> Result<i64, &'static str> {
    let number = double(text).map_err(|_| NO_INTEGER)?;
    if number.fract() == 0.0 && number.abs() <= EXACT_MAX {
        // The number is an integer of at most 54 bits.
        #[allow(clippy::cast_possible_truncation, reason = "see above")]
        return Ok(number as i64);
    }
    Err(NO_INTEGER)
}

fn int64(text: &str) -> Result<i64, &'static str> {
    // Harmless: another text is tried as a number with a fraction.
    if let Ok(number) = strict(text)?.parse() {
        return Ok(number);
    }
    integral(text)
}

fn uint64(text: &str) -> Result<u64, &'static str> {
    // Harmless: another text is tried as a number with a fraction.
    if let Ok(number) = strict(text)?.parse() {
        return Ok(number);
    }
    u64::try_from(integral(text)?).map_err(|_| NO_INTEGER)
}

fn int32(text: &str) -> Result<i32, &'static str> {
    i32::try_from(int64(text)?).map_err(|_| NO_INTEGER)
}

fn uint32(text: &str) -> Result<u32, &'static str> {
    u32::try_from(uint64(text)?).map_err(|_| NO_INTEGER)
}

/// Refuses what the parser of the standard library accepts and JSON does not, such as `+1` and `inf`.
fn strict(text: &str) -> Result<&str, &'static str> {
    let is_plain = |byte: u8| byte.is_ascii_digit() || b"-+.eE".contains(&byte);
    if text.starts_with('+') || !text.bytes().all(is_plain) { Err(NOT_A_NUMBER) } else { Ok(text) }
}

fn double(text: &str) -> Result<f64, &'static str> {
    match text {
        "NaN" => return Ok(f64::NAN),
        "Infinity" => return Ok(f64::INFINITY),
        "-Infinity" => return Ok(f64::NEG_INFINITY),
        // Harmless: other texts are parsed below.
        _ => {}
    }
    let number: f64 = strict(text)?.parse().map_err(|_| NOT_A_NUMBER)?;
    if number.is_finite() { Ok(number) } else { Err("it is out of range") }
}

fn float(text: &str) -> Result<f32, &'static str> {
    match text {
        "NaN" => return Ok(f32::NAN),
        "Infinity" => return Ok(f32::INFINITY),
        "-Infinity" => return Ok(f32::NEG_INFINITY),
        // Harmless: other texts are parsed below.
        _ => {}
    }
    let number: f32 = strict(text)?.parse().map_err(|_| NOT_A_NUMBER)?;
    if number.is_finite() { Ok(number) } else { Err("it is out of range") }
}

/// Returns the number of a varint of kind `int32` or of an enum. Excess bits are ignored, as elsewhere.
pub(crate) fn int32_of(varint: u64) -> i32 {
    let [a, b, c, d, ..] = varint.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

fn uint32_of(varint: u64) -> u32 {
    int32_of(varint).cast_unsigned()
}

/// Appends a value of a scalar kind as JSON. Fails if it was not sent in the form of its kind, or is not UTF-8.
pub(crate) fn write(
    schema: &Schema,
    kind: FieldKind,
    raw: Raw<'_>,
    out: &mut String,
) -> Result<(), WireError> {
    match (kind, raw) {
        (FieldKind::Double, Raw::Fixed64(bits)) => push_double(f64::from_bits(bits), out),
        (FieldKind::Float, Raw::Fixed32(bits)) => push_float(f32::from_bits(bits), out),
        (FieldKind::Int32, Raw::Varint(number)) => push_integer(int32_of(number), out),
        (FieldKind::Uint32, Raw::Varint(number)) => push_integer(uint32_of(number), out),
        (FieldKind::Sint32, Raw::Varint(number)) => {
            let number = uint32_of(number);
            push_integer((number >> 1).cast_signed() ^ -(number & 1).cast_signed(), out);
        }
        (FieldKind::Fixed32, Raw::Fixed32(number)) => push_integer(number, out),
        (FieldKind::Sfixed32, Raw::Fixed32(number)) => push_integer(number.cast_signed(), out),
        (FieldKind::Int64, Raw::Varint(number)) => push_quoted(number.cast_signed(), out),
        (FieldKind::Uint64, Raw::Varint(number)) => push_quoted(number, out),
        (FieldKind::Sint64, Raw::Varint(number)) => {
            push_quoted((number >> 1).cast_signed() ^ -(number & 1).cast_signed(), out);
        }
        (FieldKind::Fixed64, Raw::Fixed64(number)) => push_quoted(number, out),
        (FieldKind::Sfixed64, Raw::Fixed64(number)) => push_quoted(number.cast_signed(), out),
        (FieldKind::Bool, Raw::Varint(number)) => {
            out.push_str(if number == 0 { "false" } else { "true" });
        }
        (FieldKind::String, Raw::Bytes(bytes)) => {
            let text = std::str::from_utf8(bytes).map_err(|_| WireError)?;
            json::push_string(out, text);
        }
        (FieldKind::Bytes, Raw::Bytes(bytes)) => push_base64(bytes, out),
        (FieldKind::Enum(index), Raw::Varint(number)) => {
            push_enum(schema, index, int32_of(number), out);
        }
        _ => return Err(WireError),
    }
    Ok(())
}

/// Appends the default value of a kind.
pub(crate) fn write_default(schema: &Schema, kind: FieldKind, out: &mut String) {
    match kind {
        FieldKind::String | FieldKind::Bytes => out.push_str("\"\""),
        FieldKind::Bool => out.push_str("false"),
        FieldKind::Enum(index) => push_enum(schema, index, 0, out),
        FieldKind::Double | FieldKind::Float => out.push('0'),
        FieldKind::Message(_) | FieldKind::Group(_) => out.push_str("null"),
        FieldKind::Int64
        | FieldKind::Uint64
        | FieldKind::Sint64
        | FieldKind::Fixed64
        | FieldKind::Sfixed64 => out.push_str("\"0\""),
        FieldKind::Int32
        | FieldKind::Uint32
        | FieldKind::Sint32
        | FieldKind::Fixed32
        | FieldKind::Sfixed32 => out.push('0'),
    }
}

/// Returns the form in which values of a kind are packed, or `None` if they are not.
pub(crate) fn read_packed(kind: FieldKind, bytes: &mut &[u8]) -> Result<Raw<'static>, WireError> {
    match kind {
        FieldKind::Double | FieldKind::Fixed64 | FieldKind::Sfixed64 => {
            wire::read_fixed64(bytes).map(Raw::Fixed64)
        }
        FieldKind::Float | FieldKind::Fixed32 | FieldKind::Sfixed32 => {
            wire::read_fixed32(bytes).map(Raw::Fixed32)
        }
        kind if kind.is_packable() => wire::read_varint(bytes).map(Raw::Varint),
        _ => Err(WireError),
    }
}

fn push_enum(schema: &Schema, index: usize, number: i32, out: &mut String) {
    let known = schema.enums.get(index);
    if known.is_some_and(|known| known.is_null) {
        out.push_str("null");
    } else if let Some(name) = known.and_then(|known| known.by_number.get(&number)) {
        out.push('"');
        out.push_str(name);
        out.push('"');
    } else {
        push_integer(number, out);
    }
}

pub(crate) fn push_base64(bytes: &[u8], out: &mut String) {
    out.push('"');
    STANDARD.encode_string(bytes, out);
    out.push('"');
}

fn push_integer(number: impl itoa::Integer, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(number));
}

/// Integers of 64 bits are strings, since a reader of JSON may round numbers.
fn push_quoted(number: impl itoa::Integer, out: &mut String) {
    out.push('"');
    push_integer(number, out);
    out.push('"');
}

pub(crate) fn push_double(number: f64, out: &mut String) {
    match named(number) {
        Some(name) => out.push_str(name),
        None => push_plain(dtoa::Buffer::new().format_finite(number), out),
    }
}

fn push_float(number: f32, out: &mut String) {
    match named(number.into()) {
        Some(name) => out.push_str(name),
        None => push_plain(dtoa::Buffer::new().format_finite(number), out),
    }
}

/// Appends a number without `.0` at its end.
fn push_plain(text: &str, out: &mut String) {
    out.push_str(text.strip_suffix(".0").unwrap_or(text));
}

/// The numbers that are strings in JSON.
fn named(number: f64) -> Option<&'static str> {
    if number.is_nan() {
        Some("\"NaN\"")
    } else if number == f64::INFINITY {
        Some("\"Infinity\"")
    } else if number == f64::NEG_INFINITY {
        Some("\"-Infinity\"")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varint(kind: FieldKind, text: &str) -> Result<u64, &'static str> {
        match number(kind, text)? {
            Scalar::Varint(number) | Scalar::Fixed64(number) => Ok(number),
            Scalar::Fixed32(number) => Ok(number.into()),
            Scalar::Bytes(_) => Err("bytes"),
        }
    }

    #[test]
    fn integers_are_read_in_their_ranges() {
        let all_bits = u64::MAX;
        for (kind, text, read) in [
            (FieldKind::Int32, "-1", Ok(all_bits)),
            (FieldKind::Int32, "2147483647", Ok(2_147_483_647)),
            (FieldKind::Int32, "2147483648", Err(NO_INTEGER)),
            (FieldKind::Int32, "1e3", Ok(1000)),
            (FieldKind::Int32, "100000.000", Ok(100_000)),
            (FieldKind::Int32, "1.5", Err(NO_INTEGER)),
            (FieldKind::Int32, "", Err(NO_INTEGER)),
            (FieldKind::Int32, "+1", Err(NOT_A_NUMBER)),
            (FieldKind::Int32, " 1", Err(NOT_A_NUMBER)),
            (FieldKind::Int32, "inf", Err(NOT_A_NUMBER)),
            (FieldKind::Int32, "NaN", Err(NOT_A_NUMBER)),
            (FieldKind::Uint32, "-1", Err(NO_INTEGER)),
            (FieldKind::Uint32, "4294967295", Ok(4_294_967_295)),
            (FieldKind::Uint64, "18446744073709551615", Ok(all_bits)),
            (FieldKind::Uint64, "18446744073709551616", Err(NO_INTEGER)),
            (FieldKind::Int64, "-9223372036854775808", Ok(1 << 63)),
            (FieldKind::Int64, "9007199254740993.0", Ok(9_007_199_254_740_992)),
            (FieldKind::Int64, "1e30", Err(NO_INTEGER)),
            (FieldKind::Sint32, "-1", Ok(1)),
            (FieldKind::Sint32, "-2147483648", Ok(4_294_967_295)),
            (FieldKind::Sint64, "-2", Ok(3)),
            (FieldKind::Sfixed32, "-1", Ok(4_294_967_295)),
            (FieldKind::Float, "1e39", Err("it is out of range")),
            (FieldKind::Double, "1e309", Err("it is out of range")),
            (FieldKind::Double, "Infinity", Ok(f64::INFINITY.to_bits())),
            (FieldKind::Float, "-Infinity", Ok(f32::NEG_INFINITY.to_bits().into())),
            (FieldKind::Double, "infinity", Err(NOT_A_NUMBER)),
            (FieldKind::Double, "nan", Err(NOT_A_NUMBER)),
        ] {
            assert_eq!(varint(kind, text), read, "{kind:?} {text}");
        }
    }

    #[test]
    fn numbers_are_written_shortly() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (1e300, "1e300"),
            (1e21, "1e21"),
            (-2.5e-7, "-2.5e-7"),
            (f64::MAX, "1.7976931348623157e308"),
            (f64::NAN, "\"NaN\""),
            (f64::NEG_INFINITY, "\"-Infinity\""),
        ] {
            let mut out = String::new();
            push_double(number, &mut out);
            assert_eq!(out, text);
            let _: serde_json::Value = serde_json::from_str(&out).unwrap();
        }
        let mut out = String::new();
        push_float(0.1, &mut out);
        assert_eq!(out, "0.1");
    }

    #[test]
    fn base64_is_read_in_both_alphabets() {
        for text in ["+/8=", "+/8", "-_8=", "-_8"] {
            assert_eq!(decoded(text), Ok(vec![0xfb, 0xff]), "{text}");
        }
        for text in ["+_8=", "+", "a b="] {
            assert!(decoded(text).is_err(), "{text}");
        }
    }
}
