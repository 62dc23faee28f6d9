//! Compact reasons why a text is invalid. A union tries its members and discards their errors, so these are cheap.

use super::Builtin;
use super::kind::FacetKind;

/// The rule that a text violates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fail {
    /// The text is not in the lexical space of this type.
    Lexical(Builtin),
    /// An item of a list is not in the lexical space of this type.
    Item(Builtin),
    /// No member of a union accepts the text.
    Union,
    /// A facet refuses the text.
    Facet(FacetKind),
    Prefix,
    Notation,
    Entity,
    TooCostly,
}

/// Maximum length of a value in a message. Longer values are cut.
const QUOTED_CHARS_MAX: usize = 80;

impl Fail {
    /// Converts the reason to that of a list item.
    pub(crate) fn of_item(self) -> Fail {
        match self {
            Fail::Lexical(builtin) => Fail::Item(builtin),
            Fail::Item(_)
            | Fail::Union
            | Fail::Facet(_)
            | Fail::Prefix
            | Fail::Notation
            | Fail::Entity
            | Fail::TooCostly => self,
        }
    }
}

/// Quotes a text, and cuts it if it is long.
pub(crate) fn quote(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        None => format!("'{text}'"),
        Some((cut, _)) => format!("'{}…'", text.get(..cut).unwrap_or_default()),
    }
}
