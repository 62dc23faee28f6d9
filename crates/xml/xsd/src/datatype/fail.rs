//! Compact reasons why a text is invalid. A union tries its members and discards their errors, so these are cheap.

use super::error::Violation;
use super::kind::FacetKind;
use super::{Builtin, SimpleType};

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

    pub(crate) fn violation(self, text: &str, of: &SimpleType) -> Violation {
        let text = quote(text);
        let (code, message) = match self {
            Fail::Lexical(builtin) => (
                "cvc-datatype-valid.1.2.1",
                format!("{text} is not a value of the type {}", builtin.name()),
            ),
            Fail::Item(builtin) => (
                "cvc-datatype-valid.1.2.2",
                format!("{text} has an item that is not a value of the type {}", builtin.name()),
            ),
            Fail::Union => (
                "cvc-datatype-valid.1.2.3",
                format!("{text} is not a value of any of the union's types"),
            ),
            Fail::Facet(kind) => {
                (kind.violation(), format!("{text} is refused by {}", facet_text(kind, of)))
            }
            Fail::Prefix => (
                "cvc-datatype-valid.1.2.1",
                format!("{text} has a prefix that is not declared here"),
            ),
            Fail::Notation => {
                ("cvc-datatype-valid.1.2.1", format!("{text} is not a declared notation"))
            }
            Fail::Entity => {
                ("cvc-simple-type.2", format!("{text} is not a declared unparsed entity"))
            }
            Fail::TooCostly => (
                "limit.regex_steps_max",
                format!("{text} costs more to match with a pattern than is spent on one document"),
            ),
        };
        Violation { code, message }
    }
}

/// Quotes a text, and cuts it if it is long.
pub(crate) fn quote(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        None => format!("'{text}'"),
        Some((cut, _)) => format!("'{}…'", text.get(..cut).unwrap_or_default()),
    }
}

/// Returns the name of a facet with its value, for messages. For a facet of an item or member, the value is not known here and left out.
fn facet_text(kind: FacetKind, of: &SimpleType) -> String {
    let facets = of.facets();
    let value = match kind {
        FacetKind::Pattern => facets.patterns.last().map(|pattern| quote(&pattern.source())),
        FacetKind::Length
        | FacetKind::MinLength
        | FacetKind::MaxLength
        | FacetKind::TotalDigits
        | FacetKind::FractionDigits
        | FacetKind::MinInclusive
        | FacetKind::MinExclusive
        | FacetKind::MaxInclusive
        | FacetKind::MaxExclusive
        | FacetKind::Enumeration
        | FacetKind::WhiteSpace => facets.literal(kind),
    };
    match value {
        Some(value) => format!("{} {value}", kind.name()),
        None => kind.name().to_owned(),
    }
}
