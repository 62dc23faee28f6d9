//! The facets of a simple type, for documentation and for samples.

use super::SimpleType;
use crate::datatype::Value;
use crate::regex;

/// The facets of a type, as far as other schema languages can express them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facets {
    pub length: Option<u64>,
    pub min_length: Option<u64>,
    pub max_length: Option<u64>,
    /// The bound as written, and whether it is inclusive.
    pub min: Option<(String, bool)>,
    pub max: Option<(String, bool)>,
    /// Regular expressions of XML Schema, one for each derivation step, all of which have to match.
    pub patterns: Vec<String>,
    /// The allowed values, sorted by text. Names, dates, times, durations, binaries and infinite numbers are omitted.
    pub enumeration: Option<Vec<String>>,
}

/// Returns the facets of a type.
pub fn facets(simple: &SimpleType) -> Facets {
    let facets = simple.facets();
    let bound = |bound: &crate::datatype::Bound| (bound.literal.to_string(), bound.inclusive);
    Facets {
        length: facets.length,
        min_length: facets.min_length,
        max_length: facets.max_length,
        min: facets.min.as_ref().map(bound),
        max: facets.max.as_ref().map(bound),
        patterns: facets.patterns.iter().map(|pattern| pattern.source()).collect(),
        enumeration: facets.enumeration.as_ref().map(|values| {
            // Harmless: if no value has such a text, the list is empty.
            let mut texts: Vec<String> = values.values().filter_map(text).collect();
            texts.sort_unstable();
            texts
        }),
    }
}

/// Returns a text that an expression matches, with repetitions as close to `times` as allowed.
pub fn sample(pattern: &str, times: u32) -> Option<String> {
    regex::sample(pattern, times)
}

/// Returns the text of a value, or `None` if it depends on the context or the value does not keep it.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text { text, .. } => Some(text.to_string()),
        Value::Boolean(value) => Some(value.to_string()),
        Value::Decimal(value) => Some(value.to_string()),
        Value::Float(bits) => finite(f64::from(f32::from_bits(*bits))),
        Value::Double(bits) => finite(f64::from_bits(*bits)),
        Value::List(items) => {
            let items: Option<Vec<String>> = items.iter().map(text).collect();
            Some(items?.join(" "))
        }
        Value::Duration(_) | Value::DateTime(_) | Value::Bytes { .. } | Value::Name { .. } => None,
    }
}

fn finite(value: f64) -> Option<String> {
    value.is_finite().then(|| value.to_string())
}
