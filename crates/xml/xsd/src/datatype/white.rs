//! The whiteSpace facet (Part 2, 4.3.6).

use std::borrow::Cow;

use super::text::is_space;

/// The whiteSpace facet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WhiteSpace {
    Preserve,
    Replace,
    Collapse,
}

impl WhiteSpace {
    /// Replaces or collapses the white space in a text. The result is borrowed unless inner white space changes.
    pub fn normalize(self, text: &str) -> Cow<'_, str> {
        match self {
            WhiteSpace::Preserve => Cow::Borrowed(text),
            WhiteSpace::Replace => {
                if text.bytes().any(|b| is_space(b) && b != b' ') {
                    Cow::Owned(text.replace(['\t', '\n', '\r'], " "))
                } else {
                    Cow::Borrowed(text)
                }
            }
            WhiteSpace::Collapse => collapse(text),
        }
    }

    /// Parses the facet's `value` attribute.
    pub(crate) fn from_name(name: &str) -> Option<WhiteSpace> {
        match name {
            "preserve" => Some(WhiteSpace::Preserve),
            "replace" => Some(WhiteSpace::Replace),
            "collapse" => Some(WhiteSpace::Collapse),
            _ => None,
        }
    }
}

fn collapse(text: &str) -> Cow<'_, str> {
    // Fast path: most texts contain no white space.
    if !text.bytes().any(|b| b <= b' ') {
        return Cow::Borrowed(text);
    }
    let text = trim(text);
    let mut before = b'x';
    let sound = text.bytes().all(|b| {
        let odd = is_space(b) && (b != b' ' || before == b' ');
        before = b;
        !odd
    });
    if sound { Cow::Borrowed(text) } else { Cow::Owned(words(text).collect::<Vec<_>>().join(" ")) }
}

/// Removes the white space at both ends.
pub(crate) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r'])
}

/// Splits a text at white space.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\t', '\n', '\r']).filter(|word| !word.is_empty())
}
