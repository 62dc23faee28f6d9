//! Tables: values of each built-in type, equality and order of values, and allowed facets.

mod derivation;
mod lexical;
mod values;

use std::sync::Arc;

use super::{Builtin, EmptyScope, FacetKind, RawFacet, SimpleType};

/// Makes a restriction of a type by facets written `kind=value`, or returns the rules it breaks.
fn restrict(base: &Arc<SimpleType>, facets: &[&str]) -> Result<Arc<SimpleType>, Vec<&'static str>> {
    let raw: Vec<RawFacet<'_>> = facets
        .iter()
        .map(|facet| {
            let (kind, value) = facet.split_once('=').unwrap();
            let fixed = kind.ends_with('!');
            let kind = FacetKind::from_name(kind.trim_end_matches('!')).unwrap();
            RawFacet { kind, value, fixed, names: &EmptyScope }
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

/// Returns the rule that a text breaks, if any.
fn check(simple: &SimpleType, text: &str) -> &'static str {
    let checked = simple.check(text, &EmptyScope).map_or_else(|violation| violation.code, |()| "");
    let valued = simple.validate(text, &EmptyScope).map_or_else(|violation| violation.code, |_| "");
    assert_eq!(checked, valued, "check and validate differ on {text:?}");
    checked
}
