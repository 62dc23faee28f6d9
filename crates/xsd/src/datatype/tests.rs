//! Tables: what is a value of each built-in type, which values are equal or in order, what facets may be.

mod derivation;
mod lexical;
mod values;

use std::sync::Arc;

use super::{Builtin, FacetKind, NoNames, RawFacet, SimpleType};

/// A restriction of a type by facets written `kind=value`, or the rules it breaks.
fn restrict(base: &Arc<SimpleType>, facets: &[&str]) -> Result<Arc<SimpleType>, Vec<&'static str>> {
    let raw: Vec<RawFacet<'_>> = facets
        .iter()
        .map(|facet| {
            let (kind, value) = facet.split_once('=').unwrap();
            let fixed = kind.ends_with('!');
            let kind = FacetKind::from_name(kind.trim_end_matches('!')).unwrap();
            RawFacet { kind, value, fixed, names: &NoNames }
        })
        .collect();
    match SimpleType::restrict(base, &raw) {
        Ok(simple) => Ok(Arc::new(simple)),
        Err(errors) => Err(errors.into_iter().map(|error| error.code).collect()),
    }
}

fn of(builtin: Builtin, facets: &[&str]) -> Arc<SimpleType> {
    restrict(&builtin.simple(), facets).unwrap()
}

/// The rule that a text breaks, or nothing.
fn check(simple: &SimpleType, text: &str) -> &'static str {
    let checked = simple.check(text, &NoNames).map_or_else(|violation| violation.code, |()| "");
    let valued = simple.validate(text, &NoNames).map_or_else(|violation| violation.code, |_| "");
    assert_eq!(checked, valued, "check and validate differ on {text:?}");
    checked
}
