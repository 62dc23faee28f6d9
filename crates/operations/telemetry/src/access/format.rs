//! Writes values as bytes of a line. It is written by hand because it runs for each exchange: no allocation, no `fmt` except
//! for addresses, and one pass over each text.

use super::field::{Field, Value};
use super::{AccessEntry, ExtraValue};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// The longest text in a line. A request target may have a megabyte, which is too long for a log.
pub(super) const TEXT_BYTES_MAX: usize = 4096;

/// The end of a truncated text.
const CUT: &[u8] = b"...";

const HEX: [u8; 16] = *b"0123456789abcdef";

/// One JSON object. Absent fields are left out.
pub(super) fn json(entry: &AccessEntry<'_>, line: &mut Vec<u8>) {
    let start = line.len();
    for field in Field::ALL {
        let value = field.value(entry);
        if !matches!(value, Value::Absent) {
            line.extend_from_slice(field.json_key().as_bytes());
            json_value(value, line);
        }
    }
    for (name, value) in entry.extra {
        line.extend_from_slice(b",\"");
        json_text(name.as_bytes(), line);
        line.extend_from_slice(b"\":");
        match value {
            ExtraValue::Text(text) => json_value(Value::Hostile(text), line),
            ExtraValue::Number(number) => json_value(Value::Number(*number), line),
            ExtraValue::Boolean(truth) => line.extend_from_slice(truth.to_string().as_bytes()),
        }
    }
    // Every key begins with a comma. The comma of the first key becomes the bracket. There is always a first key, since the time is
    // never absent.
    if let Some(first) = line.get_mut(start) {
        *first = b'{';
    }
    line.push(b'}');
}

fn json_value(value: Value<'_>, line: &mut Vec<u8>) {
    match value {
        Value::Absent => line.extend_from_slice(b"null"),
        Value::Number(number) => push_number(number, line),
        Value::Milliseconds(duration) => push_milliseconds(duration, line),
        Value::Hostile(text) => {
            line.push(b'"');
            json_text(text, line);
            line.push(b'"');
        }
        Value::Plain(_)
        | Value::Time(_)
        | Value::Address(_)
        | Value::TraceId(_)
        | Value::SpanId(_) => {
            line.push(b'"');
            ours(value, line);
            line.push(b'"');
        }
    }
}

/// A value in a template's line; `-` if it is absent.
pub(super) fn plain(value: Value<'_>, line: &mut Vec<u8>) {
    match value {
        Value::Absent => line.push(b'-'),
        Value::Hostile(text) => plain_text(text, line),
        Value::Number(number) => push_number(number, line),
        Value::Milliseconds(duration) => push_milliseconds(duration, line),
        Value::Plain(_)
        | Value::Time(_)
        | Value::Address(_)
        | Value::TraceId(_)
        | Value::SpanId(_) => ours(value, line),
    }
}

/// Text from the program, which needs no escaping.
fn ours(value: Value<'_>, line: &mut Vec<u8>) {
    match value {
        Value::Plain(text) => line.extend_from_slice(text.as_bytes()),
        Value::Time(time) => push_time(time, line),
        Value::TraceId(id) => line.extend_from_slice(id.as_str().as_bytes()),
        Value::SpanId(id) => line.extend_from_slice(id.as_str().as_bytes()),
        Value::Address(IpAddr::V4(address)) => push_v4(address, line),
        // Writing to a vector cannot fail.
        Value::Address(IpAddr::V6(address)) => drop(write!(line, "{address}")),
        Value::Absent | Value::Hostile(_) | Value::Number(_) | Value::Milliseconds(_) => {}
    }
}

/// Text inside a JSON string. Valid UTF-8 is kept, except characters with a meaning for JSON or terminals: control
/// characters, line separators and marks of text direction. Invalid UTF-8 is written as `\xNN`.
fn json_text(text: &[u8], line: &mut Vec<u8>) {
    let (text, cut) = bounded(text);
    if json::is_plain(text) {
        line.extend_from_slice(text);
    } else {
        json_escaped(text, line);
    }
    if cut {
        line.extend_from_slice(CUT);
    }
}

fn json_escaped(text: &[u8], line: &mut Vec<u8>) {
    for chunk in text.utf8_chunks() {
        json_valid(chunk.valid(), line);
        for byte in chunk.invalid() {
            line.extend_from_slice(b"\\\\x");
            push_hex(*byte, line);
        }
    }
}

fn json_valid(text: &str, line: &mut Vec<u8>) {
    let mut utf8 = [0; 4];
    for c in text.chars() {
        match c {
            '"' => line.extend_from_slice(b"\\\""),
            '\\' => line.extend_from_slice(b"\\\\"),
            c if c.is_control() || is_invisible(c) => push_unicode(c, line),
            c => line.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes()),
        }
    }
}

/// Characters that change how a viewer shows the text around them: separators, and marks of text direction and joining.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Text in a template's line. Printable ASCII is kept, except the quote and the backslash. Everything else is written
/// as `\xNN`.
fn plain_text(text: &[u8], line: &mut Vec<u8>) {
    if text.is_empty() {
        return line.push(b'-');
    }
    let (text, cut) = bounded(text);
    for &byte in text {
        match byte {
            b'"' | b'\\' | 0..b' ' | 0x7f.. => {
                line.extend_from_slice(b"\\x");
                push_hex(byte, line);
            }
            b' '..=b'~' => line.push(byte),
        }
    }
    if cut {
        line.extend_from_slice(CUT);
    }
}

fn bounded(text: &[u8]) -> (&[u8], bool) {
    text.split_at_checked(TEXT_BYTES_MAX)
        .map_or((text, false), |(kept, rest)| (kept, !rest.is_empty()))
}

fn push_hex(byte: u8, line: &mut Vec<u8>) {
    for nibble in [byte >> 4, byte & 15] {
        line.extend(HEX.get(usize::from(nibble)));
    }
}

/// All escaped characters are in the basic plane, so one escape is enough.
fn push_unicode(c: char, line: &mut Vec<u8>) {
    line.extend_from_slice(b"\\u");
    let [_, _, high, low] = u32::from(c).to_be_bytes();
    push_hex(high, line);
    push_hex(low, line);
}

fn push_number(number: u64, line: &mut Vec<u8>) {
    push_digits(number, 1, line);
}

/// Milliseconds with three decimals, truncated to microseconds.
fn push_milliseconds(duration: Duration, line: &mut Vec<u8>) {
    let micros = duration.as_secs().saturating_mul(1_000_000) + u64::from(duration.subsec_micros());
    push_number(micros / 1_000, line);
    line.push(b'.');
    push_digits(micros % 1_000, 3, line);
}

/// A number with at least `width` digits.
fn push_digits(number: u64, width: usize, line: &mut Vec<u8>) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(number).as_bytes();
    line.resize(line.len() + width.saturating_sub(digits.len()), b'0');
    line.extend_from_slice(digits);
}

fn push_v4(address: Ipv4Addr, line: &mut Vec<u8>) {
    for (index, octet) in address.octets().into_iter().enumerate() {
        if index > 0 {
            line.push(b'.');
        }
        push_number(u64::from(octet), line);
    }
}

/// RFC 3339 in UTC with milliseconds.
fn push_time(since_epoch: Duration, line: &mut Vec<u8>) {
    let seconds = since_epoch.as_secs();
    let days = i64::try_from(seconds / 86_400).unwrap_or(i64::MAX / 2);
    let (year, month, day) = kit::calendar::date_of(days);
    let second = seconds % 86_400;
    let parts = [
        (year.unsigned_abs(), 4, b'-'),
        (month.unsigned_abs(), 2, b'-'),
        (day.unsigned_abs(), 2, b'T'),
        (second / 3_600, 2, b':'),
        (second / 60 % 60, 2, b':'),
        (second % 60, 2, b'.'),
        (u64::from(since_epoch.subsec_millis()), 3, b'Z'),
    ];
    for (number, width, after) in parts {
        push_digits(number, width, line);
        line.push(after);
    }
}
