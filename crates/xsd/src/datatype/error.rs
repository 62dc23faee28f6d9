//! What is wrong with a derivation or with a value, by the name of the rule it breaks.

use std::fmt;

/// A rule of Part 2 that a derivation breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FacetError {
    /// Which of the facets handed in, by index, where one is to blame.
    pub facet: Option<usize>,
    /// The rule's name, as `enumeration-valid-restriction` or `cos-applicable-facets`.
    pub code: &'static str,
    pub message: String,
}

/// A rule that a value breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule's name, as `cvc-datatype-valid.1.2.1` or `cvc-pattern-valid`.
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
