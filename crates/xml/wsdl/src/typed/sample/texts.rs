//! Finds texts that a simple type accepts.

use xsd::datatype::{Builtin, EmptyScope, NameScope, Steps, Variety};
use xsd::walk::{Facets, facets, sample};

use super::Sampler;
use crate::typed::model::{Scalar, ScalarKind};
use crate::typed::read::{Prefixes, push_value};

/// Candidate texts for common types. The first one that a type accepts becomes its sample.
const TEXTS: &[&str] = &[
    "a < b & \"c\"",
    "text",
    "a",
    "A",
    "2026-01-31T12:00:00Z",
    "2026-01-31",
    "12:00:00",
    "P1D",
    "2026",
    "2026-01",
    "--01-31",
    "---31",
    "--01",
    "AQID",
    "0102",
    "http://example.org/a",
    "en",
    "1",
    "10",
    "00000000-0000-0000-0000-000000000000",
    "",
];

/// Candidate numbers. The first ones have more digits than a double holds.
const NUMBERS: &[&str] =
    &["12345678901234567890.125", "12345678901234567890", "70", "7", "0.5", "1", "0", "-1", "100"];

/// Repetition counts tried for repeatable parts of a regular expression.
const TIMES: &[u32] = &[0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 32, 64];

/// Maximum length of texts that are tried.
const LENGTH_MAX: u64 = 4096;

struct Prefix;

impl NameScope for Prefix {
    fn resolve(&self, prefix: &str) -> Option<&str> {
        match prefix {
            "q" => Some("urn:sample"),
            other => EmptyScope.resolve(other).map(|_| ""),
        }
    }
}

impl Sampler<'_> {
    /// Returns a JSON value for a simple type.
    pub(super) fn text(&self, scalar: &Scalar, fixed: Option<&str>) -> Result<String, String> {
        let mut out = String::new();
        let resolve = |prefix: &str| Prefix.resolve(prefix).map(|_| "urn:sample");
        let text = match fixed {
            Some(fixed) => Some(fixed.to_owned()),
            None if scalar.simple.builtin() == Builtin::Id => {
                self.ids.set(self.ids.get() + 1);
                Some(format!("id{}", self.ids.get())).filter(|id| takes(scalar, id))
            }
            None if scalar.simple.has_identifiers() => match self.ids.get() {
                0 => return Err("there is no ID to refer to".to_owned()),
                _ => Some("id1".to_owned()).filter(|id| takes(scalar, id)),
            },
            None => candidate(scalar),
        };
        match text {
            Some(text) => {
                let names = Prefixes { resolve: &resolve, steps: &Steps::default() };
                push_value(&mut out, scalar, &text, &names);
                Ok(out)
            }
            None => Err(format!("no sample of {:?} was found", scalar.simple.builtin())),
        }
    }
}

fn takes(scalar: &Scalar, text: &str) -> bool {
    scalar.simple.check(text, &Prefix).is_ok()
}

fn candidate(scalar: &Scalar) -> Option<String> {
    let own = match scalar.simple.variety() {
        Variety::List(_) => match &scalar.kind {
            ScalarKind::List(item) => listed(scalar, item),
            ScalarKind::Boolean
            | ScalarKind::Number { .. }
            | ScalarKind::Float
            | ScalarKind::Text
            | ScalarKind::Name
            | ScalarKind::Union(_)
            | ScalarKind::Free => None,
        },
        Variety::Union(_) => match &scalar.kind {
            ScalarKind::Union(members) => {
                // Harmless: a member type without a sample is skipped.
                members.iter().filter_map(candidate).find(|text| takes(scalar, text))
            }
            ScalarKind::Boolean
            | ScalarKind::Number { .. }
            | ScalarKind::Float
            | ScalarKind::Text
            | ScalarKind::Name
            | ScalarKind::List(_)
            | ScalarKind::Free => None,
        },
        Variety::Ur | Variety::Atomic(_) => None,
    };
    own.or_else(|| {
        let facets = facets(&scalar.simple);
        let mut all = made(scalar, &facets);
        all.extend(TEXTS.iter().map(|text| (*text).to_owned()));
        all.into_iter().find(|text| takes(scalar, text))
    })
}

/// Returns a list with two items, or with as many as required.
fn listed(scalar: &Scalar, item: &Scalar) -> Option<String> {
    let one = candidate(item).filter(|one| !one.contains(char::is_whitespace));
    let one = one.or_else(|| takes(item, "a").then(|| "a".to_owned()))?;
    let facets = facets(&scalar.simple);
    let lengths = [Some(2), facets.length, facets.min_length, Some(1), Some(0)];
    // Harmless: only lengths that are specified are tried.
    let lengths = lengths.into_iter().flatten().filter(|length| *length <= LENGTH_MAX);
    let repeated = |length| (0..length).map(|_| one.as_str()).collect::<Vec<_>>().join(" ");
    lengths.map(repeated).find(|text| takes(scalar, text))
}

/// Returns candidate texts derived from the facets.
fn made(scalar: &Scalar, facets: &Facets) -> Vec<String> {
    // Harmless: without an enumeration there are no listed texts.
    let mut all: Vec<String> = facets.enumeration.iter().flatten().cloned().collect();
    match scalar.kind {
        ScalarKind::Name => all.push("q:name".to_owned()),
        ScalarKind::Boolean => all.push("true".to_owned()),
        ScalarKind::Number { .. } | ScalarKind::Float => {
            all.extend(NUMBERS.iter().map(|number| (*number).to_owned()));
            for (bound, _) in facets.min.iter().chain(&facets.max) {
                all.push(bound.clone());
                // Harmless: other bounds are tried unchanged.
                if let Ok(number) = bound.parse::<i64>() {
                    all.push(number.saturating_add(1).to_string());
                    all.push(number.saturating_sub(1).to_string());
                }
            }
        }
        ScalarKind::Text | ScalarKind::List(_) | ScalarKind::Union(_) | ScalarKind::Free => {
            all.extend(facets.min.iter().chain(&facets.max).map(|(bound, _)| bound.clone()));
        }
    }
    for pattern in &facets.patterns {
        let parts = std::iter::once(pattern.as_str()).chain(pattern.split(" | "));
        // Harmless: patterns without a sample are skipped.
        all.extend(parts.flat_map(|part| TIMES.iter().filter_map(|times| sample(part, *times))));
    }
    // Harmless: only lengths that are specified are tried.
    let lengths = [facets.length, facets.min_length, facets.max_length].into_iter().flatten();
    for length in lengths.filter(|length| (1..=LENGTH_MAX).contains(length)) {
        let length = usize::try_from(length).unwrap_or(1);
        let is_hex = scalar.simple.builtin() == Builtin::HexBinary;
        let units: &[&str] = if is_hex { &["00"] } else { &["a", "A", "1"] };
        all.extend(units.iter().map(|unit| unit.repeat(length)));
        // Three bytes take four characters of base64.
        let tail = ["", "AA==", "AAA="].get(length % 3).copied().unwrap_or("");
        all.push("AAAA".repeat(length / 3) + tail);
    }
    all
}
