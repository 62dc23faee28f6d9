//! One difference between a message and the one that a case expects, and how it is shown.

/// One difference, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    /// The part that differs, and the place in it.
    pub(super) at: String,
    pub(super) expected: String,
    pub(super) actual: String,
}

/// The number of characters of a value that are shown.
const SHOWN_CHARS_MAX: usize = 400;

impl Difference {
    pub(super) fn new(at: &str, expected: &str, came: &str) -> Difference {
        Difference { at: at.to_owned(), expected: shown(expected), actual: shown(came) }
    }

    /// The lines of its description.
    pub(super) fn lines(&self) -> [String; 3] {
        [
            format!("{} differs", self.at),
            format!("  expected: {}", self.expected),
            format!("  actual:   {}", self.actual),
        ]
    }
}

/// The beginning of a text.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => {
            let (begin, rest) = text.split_at_checked(end).unwrap_or((text, ""));
            format!("{begin} ({} more bytes)", rest.len())
        }
    }
}
