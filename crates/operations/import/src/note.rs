//! Notes about parts of a document that the generated configuration leaves out or handles differently.

use crate::Outcome;
use crate::json_location::JsonLocation;

/// What became of one part of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportNote {
    pub location: JsonLocation,
    pub outcome: Outcome,
    /// The part, by its name.
    pub what: String,
    /// The difference.
    pub note: String,
    /// The part and the difference as one sentence.
    pub text: String,
}

impl ImportNote {
    /// Makes a note about one part. In `text`, `prefix` stands before the name of the part.
    pub(crate) fn new(
        outcome: Outcome,
        location: &JsonLocation,
        prefix: &str,
        what: &str,
        note: String,
    ) -> ImportNote {
        let text = format!("{prefix}{what} {note}");
        ImportNote { location: location.clone(), outcome, what: what.to_owned(), note, text }
    }
}
