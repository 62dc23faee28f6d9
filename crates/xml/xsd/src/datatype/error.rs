//! Errors of a derivation or a value, by the name of the violated rule.

use std::fmt;

/// A rule of Part 2 that a derivation violates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FacetError {
    /// Index of the facet that causes the error, if there is one.
    pub facet: Option<usize>,
    /// Name of the rule, such as `enumeration-valid-restriction` or `cos-applicable-facets`.
    pub code: &'static str,
    pub message: String,
}

/// A rule that a value violates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Name of the rule, such as `cvc-datatype-valid.1.2.1` or `cvc-pattern-valid`.
    pub code: &'static str,
    pub message: String,
}

impl fmt::Display for FacetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for FacetError {}
impl std::error::Error for Violation {}
