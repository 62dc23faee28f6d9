//! Parts of a document that the configuration made of it leaves out, or does otherwise.

use crate::Outcome;
use crate::documents::JsonLocation;

/// The result for one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub spot: JsonLocation,
    pub outcome: Outcome,
    /// The part, by its name.
    pub what: String,
    /// The difference.
    pub note: String,
    /// Both as one sentence.
    pub text: String,
}

impl Note {
    /// A note about one part. `prefix` is put before it in the sentence.
    pub(crate) fn new(
        outcome: Outcome,
        spot: &JsonLocation,
        (prefix, what): (&str, &str),
        note: String,
    ) -> Note {
        let text = format!("{prefix}{what} {note}");
        Note { spot: spot.clone(), outcome, what: what.to_owned(), note, text }
    }
}
