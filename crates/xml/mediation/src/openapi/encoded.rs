//! Percent-encoded texts of requests: unescapes them, and splits them into pairs of names and values.

use std::borrow::Cow;

use kit::percent;

/// Unescapes a text. Bytes that are not UTF-8 become the replacement character, so the result equals no name or path of a document.
pub(super) fn decoded(bytes: &[u8], plus_is_blank: bool) -> Cow<'_, str> {
    match percent::decoded(bytes, plus_is_blank) {
        // Harmless: values with a replacement character are refused.
        Cow::Borrowed(plain) => String::from_utf8_lossy(plain),
        // Harmless: values with a replacement character are refused.
        Cow::Owned(made) => Cow::Owned(String::from_utf8_lossy(&made).into_owned()),
    }
}

/// Returns the pairs of a query or a form, with decoded names and raw values.
pub(super) fn pairs(encoded: &[u8]) -> impl Iterator<Item = (Cow<'_, str>, &[u8])> {
    percent::raw_pairs(encoded).map(|(name, value)| (decoded(name, true), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_escapes_are_decoded_strictly() {
        for (text, plus, read) in [
            ("a%20b+c", true, "a b c"),
            ("a%20b+c", false, "a b+c"),
            ("%C3%A4%2f", false, "\u{e4}/"),
            ("%4", false, "%4"),
            ("%+1%zz", false, "%+1%zz"),
            ("%ff", false, "\u{fffd}"),
        ] {
            assert_eq!(decoded(text.as_bytes(), plus), read, "{text}");
        }
    }
}
