//! The errors in texts of programs, and the outcomes of runs.

use std::fmt;

use kit::TextPosition;

/// The result of running a program: a value, no value, or the text of a failure.
pub(crate) type Outcome = Result<Option<Vec<u8>>, String>;

/// An error in the text of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramError {
    pub at: TextPosition,
    pub what: String,
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TextPosition { line, column, .. } = self.at;
        write!(f, "line {line}, column {column}: {}", self.what)
    }
}

impl ProgramError {
    /// Returns an error without a position.
    pub(crate) fn whole(what: String) -> ProgramError {
        ProgramError { at: TextPosition::of("", 0), what }
    }
}
