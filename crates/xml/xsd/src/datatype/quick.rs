//! Fast path for types without restricting facets: most texts are obviously valid.
//!
//! Accepts a text only if [`super::atom`] would accept it too. Doubtful texts (white space, characters beyond ASCII, long numbers) are left
//! to the full check.

use super::Builtin;
use super::date_time::{DateTime, DateTimeKind};

/// Returns whether a text is obviously in the lexical space of an atomic built-in type.
#[inline]
pub(crate) fn is_plainly(builtin: Builtin, text: &str) -> bool {
    let bytes = text.as_bytes();
    if builtin == Builtin::Boolean {
        return matches!(bytes, b"true" | b"false" | b"1" | b"0");
    }
    if builtin == Builtin::Decimal {
        return is_decimal(bytes);
    }
    if builtin == Builtin::DateTime {
        return is_usual_moment(bytes) || DateTime::is(DateTimeKind::DateTime, text);
    }
    if builtin == Builtin::Date {
        return DateTime::is(DateTimeKind::Date, text);
    }
    if builtin == Builtin::Time {
        return DateTime::is(DateTimeKind::Time, text);
    }
    if matches!(builtin, Builtin::Double | Builtin::Float) {
        return is_float(bytes);
    }
    if builtin == Builtin::AnyUri {
        return is_uri(bytes);
    }
    if builtin == Builtin::NmToken {
        return !bytes.is_empty() && bytes.iter().all(|b| mark(*b) & (NAME | COLON) != 0);
    }
    if matches!(builtin, Builtin::NcName | Builtin::Id | Builtin::IdRef) {
        return bytes.first().is_some_and(|b| mark(*b) & START != 0)
            && bytes.iter().all(|b| mark(*b) & NAME != 0);
    }
    false
}

/// Returns whether a text is `yyyy-mm-ddThh:mm:ss`, optionally with `Z`, and with a day that every month has.
fn is_usual_moment(bytes: &[u8]) -> bool {
    let Some((front, b"" | b"Z")) = bytes.split_first_chunk::<19>() else { return false };
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', n1, n2, b':', s1, s2] =
        front
    else {
        return false;
    };
    let digits = [y1, y2, y3, y4, m1, m2, d1, d2, h1, h2, n1, n2, s1, s2];
    let number = |tens: u8, ones: u8| (tens & 15) * 10 + (ones & 15);
    digits.iter().all(u8::is_ascii_digit)
        && [y1, y2, y3, y4] != *b"0000"
        && matches!(number(m1, m2), 1..=12)
        && matches!(number(d1, d2), 1..=28)
        && number(h1, h2) < 24
        && number(n1, n2) < 60
        && number(s1, s2) < 60
}

/// `[+-]? digits . digits`; the point may be anywhere or missing.
fn is_decimal(bytes: &[u8]) -> bool {
    let digits = match bytes {
        [b'+' | b'-', rest @ ..] => rest,
        _ => bytes,
    };
    let (mut points, mut count) = (0, 0);
    for b in digits {
        if b.is_ascii_digit() {
            count += 1;
        } else if *b == b'.' {
            points += 1;
        } else {
            return false;
        }
    }
    count > 0 && points <= 1
}

/// A decimal with an optional exponent.
fn is_float(bytes: &[u8]) -> bool {
    match bytes.iter().position(|b| matches!(b, b'e' | b'E')) {
        None => is_decimal(bytes),
        Some(at) => {
            let (mantissa, exponent) = bytes.split_at_checked(at).unwrap_or((bytes, b""));
            let digits = match exponent {
                [_, b'+' | b'-', rest @ ..] | [_, rest @ ..] => rest,
                [] => exponent,
            };
            is_decimal(mantissa) && !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
        }
    }
}

/// Returns whether a text is a URI without escapes, white space or fragment. If its first segment has a colon, the scheme must be valid.
fn is_uri(bytes: &[u8]) -> bool {
    if bytes.iter().any(|b| *b <= b' ' || matches!(b, b'%' | b'#')) {
        return false;
    }
    match bytes.iter().position(|b| matches!(b, b':' | b'/' | b'?')) {
        Some(at) if bytes.get(at) == Some(&b':') => {
            let (scheme, rest) = bytes.split_at_checked(at).unwrap_or((bytes, b""));
            scheme.first().is_some_and(u8::is_ascii_alphabetic)
                && scheme.iter().all(u8::is_ascii_alphanumeric)
                && rest.len() > 1
        }
        Some(_) | None => true,
    }
}

/// A letter or `_`.
const START: u8 = 1;
/// A byte that a name without colon may contain.
const NAME: u8 = 2;
const COLON: u8 = 4;

fn mark(b: u8) -> u8 {
    MARKS.get(usize::from(b)).copied().unwrap_or(0)
}

/// Classes of bytes in names; bytes beyond ASCII have none.
const MARKS: [u8; 256] = {
    let mut marks = [0; 256];
    let mut at = 0u8;
    while at < 128 {
        #[allow(clippy::indexing_slicing, reason = "at compile time, and below 128")]
        {
            marks[at as usize] = match at {
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => START | NAME,
                b'0'..=b'9' | b'-' | b'.' => NAME,
                b':' => COLON,
                _ => 0,
            };
        }
        at += 1;
    }
    marks
};
