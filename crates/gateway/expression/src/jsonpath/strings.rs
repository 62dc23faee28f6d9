//! String literals of queries, in either kind of quotes.

use crate::Error;
use crate::jsonpath::cursor::Cursor;

/// Reads a string including its quotes.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<String, Error> {
    let quote = if cursor.eat("'") { '\'' } else { '"' };
    if quote == '"' && !cursor.eat("\"") {
        return cursor.refuse("expected a string");
    }
    let mut out = String::new();
    loop {
        let Some(c) = cursor.rest().chars().next() else {
            return cursor.refuse("unterminated string");
        };
        match c {
            '\\' => out.push(escape(cursor, quote)?),
            c if c == quote => {
                cursor.at += 1;
                return Ok(out);
            }
            c if u32::from(c) < 0x20 => {
                return cursor.refuse("a control character must be escaped in a string");
            }
            c => {
                cursor.at += c.len_utf8();
                out.push(c);
            }
        }
    }
}

fn escape(cursor: &mut Cursor<'_>, quote: char) -> Result<char, Error> {
    let mut rest = cursor.rest().chars().skip(1);
    let c = match rest.next() {
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('/') => '/',
        Some('\\') => '\\',
        Some(c) if c == quote => quote,
        Some('u') => return unicode(cursor),
        Some(_) | None => return cursor.refuse("unknown escape"),
    };
    cursor.at += 2;
    Ok(c)
}

/// Reads `\uXXXX`, or a surrogate pair of two of them.
fn unicode(cursor: &mut Cursor<'_>) -> Result<char, Error> {
    let Some(high) = hex(cursor.rest()) else {
        return cursor.refuse("expected four hex digits after `\\u`");
    };
    if !(0xD800..0xE000).contains(&high) {
        cursor.at += 6;
        return Ok(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    let low = cursor.rest().get(6..).and_then(hex).filter(|low| (0xDC00..0xE000).contains(low));
    let code =
        low.filter(|_| high < 0xDC00).map(|low| 0x10000 + ((high & 0x3FF) << 10) + (low & 0x3FF));
    match code.and_then(char::from_u32) {
        Some(c) => {
            cursor.at += 12;
            Ok(c)
        }
        None => cursor.refuse("unpaired surrogate"),
    }
}

/// Returns the code unit of the `\uXXXX` escape at the beginning of a text, or `None` if there is none.
fn hex(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let all = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    // Harmless: four hex digits are always a number.
    all.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}
