//! Identity constraints (Part 1, 3.11): `unique`, `key` and `keyref`, their restricted XPath, and the tables of a run.
//!
//! Owns the grammar of selectors and fields, the streaming search for the nodes they select, and the comparison of key
//! sequences. It never reads a schema document and never decides which type a node has: the validator tells it what it
//! meets.

mod matcher;
mod path;
mod table;
mod tables;
#[cfg(test)]
mod tests;

pub use path::Path;
pub use tables::Tables;

use crate::datatype::Value;

/// A compiled identity constraint.
#[derive(Debug)]
pub struct Constraint {
    pub kind: ConstraintKind,
    /// The namespace of its name.
    pub uri: Box<str>,
    pub local: Box<str>,
    pub selector: Path,
    pub fields: Box<[Path]>,
}

/// What a constraint demands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConstraintKind {
    Unique,
    Key,
    /// The name of the `key` or `unique` it refers to.
    KeyRef {
        uri: Box<str>,
        local: Box<str>,
    },
}

/// A step is a key sequence looked up and kept in one more table, some 300 ns. Seven thousand entries within 64 elements that
/// each have a table of them come to 441,000.
pub(crate) const STEPS_MAX: u64 = 500_000;

/// Why a path is refused: rule `c-selector-xpath` or `c-fields-xpaths`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathError {
    pub code: &'static str,
    /// In bytes of the path.
    pub offset: usize,
    pub message: String,
}

/// Budgets of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentityLimits {
    /// Key sequences kept at one time, over all tables.
    pub identity_entries_max: usize,
    /// What constraints of elements within one another may cost beyond those of one.
    pub identity_steps_max: u64,
}

/// The content of an element that a field may select.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A value of a simple type.
    Value(Value),
    /// It is of a simple type, but there is no value to compare: it is nil, or not valid.
    Absent,
    /// It is not of a simple type.
    Complex,
}

impl Default for IdentityLimits {
    fn default() -> IdentityLimits {
        // About 100 bytes each: a document cannot take more than some 100 MB this way.
        IdentityLimits { identity_entries_max: 1_000_000, identity_steps_max: STEPS_MAX }
    }
}
