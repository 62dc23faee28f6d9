//! Percent escapes of URIs and forms (RFC 3986, 2.1).

use std::borrow::Cow;

/// A text with its percent escapes decoded; an invalid escape stays as it is. `+` is a blank in forms and in queries that are
/// read as such. It is itself in paths, and in keys and tokens that a client sends unencoded.
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

/// The byte that two hex digits name, and the rest of the text.
pub fn byte(digits: &[u8]) -> Option<(u8, &[u8])> {
    let ([high, low], rest) = digits.split_first_chunk::<2>()?;
    let value = char::from(*high).to_digit(16)? * 16 + char::from(*low).to_digit(16)?;
    Some((u8::try_from(value).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::decoded;

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
}
