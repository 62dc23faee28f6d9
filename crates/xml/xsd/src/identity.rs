//! Identity constraints (Part 1, 3.11): `unique`, `key` and `keyref`, their restricted XPath, and their tables during a run.
//!
//! Owns the grammar of selectors and fields, the streaming search for selected nodes, and the comparison of key sequences. It does not read
//! schema documents and does not determine the type of a node: the validator reports nodes and values.

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
    /// Namespace of its name.
    pub uri: Box<str>,
    pub local: Box<str>,
    pub selector: Path,
    pub fields: Box<[Path]>,
}

/// Kind of a constraint.
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

/// Default limit on steps. A step looks up and stores a key sequence in one more table, which takes some 300 ns. Seven thousand entries
/// within 64 nested elements that each have a table take 441,000 steps.
pub(crate) const STEPS_MAX: u64 = 500_000;

/// The reason why a path is refused: rule `c-selector-xpath` or `c-fields-xpaths`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathError {
    pub code: &'static str,
    /// Byte offset in the path.
    pub offset: usize,
    pub message: String,
}

/// Limits of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentityLimits {
    /// Maximum number of key sequences kept at a time, in all tables together.
    pub identity_entries_max: usize,
    /// Maximum number of steps for nested elements with constraints, beyond the cost of a single one.
    pub identity_steps_max: u64,
}

/// The content of an element that a field may select.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A value of a simple type.
    Value(Value),
    /// The element has a simple type but no value to compare: it is nil, or invalid.
    Absent,
    /// The element does not have a simple type.
    Complex,
}

impl Default for IdentityLimits {
    fn default() -> IdentityLimits {
        // Each entry takes about 100 bytes, so a document can occupy at most some 100 MB this way.
        IdentityLimits { identity_entries_max: 1_000_000, identity_steps_max: STEPS_MAX }
    }
}
