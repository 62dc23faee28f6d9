//! Percent-encoding of URIs and forms (RFC 3986, 2.1).

use std::borrow::Cow;

use crate::hex;

/// What a whole URI may contain besides unreserved characters: the reserved ones (RFC 3986, 2.2), and escapes.
pub const OF_URI: &[u8] = b":/?#[]@!$&'()*+,;=%";

/// Decodes the percent escapes of a text. An invalid escape is kept. With `plus_is_blank`, `+` is decoded to a space, as in forms and in
/// queries that are interpreted as forms. Elsewhere, as in paths and in keys that clients send unencoded, it is a plus sign.
pub fn decoded(text: &[u8], plus_is_blank: bool) -> Cow<'_, [u8]> {
    let plain = |b: &u8| *b != b'%' && !(plus_is_blank && *b == b'+');
    if text.iter().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let (byte, after) = match first {
            b'%' => byte(after).unwrap_or((*first, after)),
            b'+' if plus_is_blank => (b' ', after),
            _ => (*first, after),
        };
        out.push(byte);
        rest = after;
    }
    Cow::Owned(out)
}

/// Returns the parameters of a query or a form. Names are decoded, with `+` as a space, and values are still encoded. A parameter without
/// `=` has an empty value.
pub fn pairs(text: &[u8]) -> impl Iterator<Item = (Cow<'_, [u8]>, &[u8])> {
    raw_pairs(text).map(|(name, value)| (decoded(name, true), value))
}

/// Like [`pairs`], but the names are still encoded too.
pub fn raw_pairs(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|b| *b == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let equals = pair.iter().position(|b| *b == b'=').unwrap_or(pair.len());
        let (name, value) = pair.split_at(equals);
        (name, value.get(1..).unwrap_or_default())
    })
}

/// Returns the decoded values of a parameter of a query or a form, in order.
pub fn values<'t>(text: &'t [u8], name: &'t [u8]) -> impl Iterator<Item = Cow<'t, [u8]>> {
    pairs(text).filter(move |(known, _)| **known == *name).map(|(_, value)| decoded(value, true))
}

/// Returns the byte for the two hex digits at the front, and the rest of the text. Returns `None` if the text does not begin with two hex
/// digits.
pub fn byte(digits: &[u8]) -> Option<(u8, &[u8])> {
    let (pair, rest) = digits.split_first_chunk::<2>()?;
    Some((hex::byte(*pair)?, rest))
}

/// Percent-encodes every byte that is neither unreserved (RFC 3986, 2.3) nor in `also`.
pub fn encoded(text: &[u8], also: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text {
        if is_unreserved(*byte) || byte.is_ascii() && also.contains(byte) {
            out.push(char::from(*byte))
        } else {
            push(&mut out, *byte)
        }
    }
    out
}

/// Returns true for a byte that needs no escape anywhere in a URI (RFC 3986, 2.3).
pub fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Appends the escape of a byte. Its digits are in upper case, as RFC 3986, 2.1, recommends.
pub fn push(out: &mut String, byte: u8) {
    out.push('%');
    out.extend([byte >> 4, byte & 15].map(|half| hex::digit(half, b'A')));
}

#[cfg(test)]
mod tests {
    use super::{decoded, encoded, pairs, values};

    #[test]
    fn escapes_are_decoded_and_nothing_else() {
        for (text, plain, of_form) in [
            ("ab%2B%2fc%3D%3d", "ab+/c==", "ab+/c=="),
            ("ab+/c==", "ab+/c==", "ab /c=="),
            ("%", "%", "%"),
            ("%4", "%4", "%4"),
            ("%4x%+1%41", "%4x%+1A", "%4x% 1A"),
            ("%25%34%31", "%41", "%41"),
            ("", "", ""),
        ] {
            assert_eq!(*decoded(text.as_bytes(), false), *plain.as_bytes(), "{text}");
            assert_eq!(*decoded(text.as_bytes(), true), *of_form.as_bytes(), "{text}");
        }
    }

    #[test]
    fn a_parameter_is_split_at_its_first_equals_sign() {
        let found: Vec<_> = pairs(b"a=1&&b&%61+c=x=y%20").collect();
        let found: Vec<(&[u8], &[u8])> =
            found.iter().map(|(name, value)| (&**name, *value)).collect();
        let expected: [(&[u8], &[u8]); 3] = [(b"a", b"1"), (b"b", b""), (b"a c", b"x=y%20")];
        assert_eq!(found, expected);
        let found: Vec<_> = values(b"a=1&b=2&%61=x+y&a&a=", b"a").collect();
        assert_eq!(found, [&b"1"[..], b"x y", b"", b""]);
    }

    #[test]
    fn bytes_that_are_not_unreserved_are_escaped() {
        for (text, also, escaped) in [
            ("a-b._~9Z", "", "a-b._~9Z"),
            ("http://a/b?c=d&e f", "", "http%3A%2F%2Fa%2Fb%3Fc%3Dd%26e%20f"),
            ("/a b/%41", "/", "/a%20b/%2541"),
            ("\u{e9}\n", "\u{e9}", "%C3%A9%0A"),
        ] {
            assert_eq!(encoded(text.as_bytes(), also.as_bytes()), escaped, "{text}");
            assert_eq!(*decoded(escaped.as_bytes(), false), *text.as_bytes(), "{text}");
        }
    }
}
