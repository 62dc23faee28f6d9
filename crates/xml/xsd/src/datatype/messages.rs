//! The messages about invalid texts.

use super::error::Violation;
use super::facets::Facets;
use super::fail::{Fail, quote};
use super::kind::FacetKind;

impl Fail {
    /// Returns the error for a text of a type with these facets.
    pub(crate) fn violation(self, text: &str, facets: &Facets) -> Violation {
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
                (kind.violation(), format!("{text} is refused by {}", facet_text(kind, facets)))
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

/// Returns the name of a facet with its value, for messages. For a facet of an item or member, the value is not known here and left out.
fn facet_text(kind: FacetKind, facets: &Facets) -> String {
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
