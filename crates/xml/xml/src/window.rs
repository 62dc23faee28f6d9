//! A window: the piece of text that the tokenizer is reading.

use crate::chars::char_at;
use crate::stop::{Scan, Stop};

/// The text that the tokenizer is reading.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window<'w> {
    pub(crate) text: &'w str,
    /// Whether this is the end of the text.
    pub(crate) last: bool,
    /// For the text of an entity: the window with the reference, and the offset of the reference there.
    pub(crate) origin: Option<(&'w str, usize)>,
}

impl<'w> Window<'w> {
    #[inline]
    pub(crate) fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    #[inline]
    pub(crate) fn get(&self, from: usize, to: usize) -> &'w str {
        self.text.get(from..to).unwrap_or_default()
    }

    /// Returns the document's own window, and the offset of `at` in it. Within an entity, this is the offset of the reference to it.
    pub(crate) fn place(&self, at: usize) -> (&'w str, usize) {
        self.origin.unwrap_or((self.text, at))
    }

    /// Returns whether `expected` is at `at`. Returns [`Stop::More`] if the window ends inside it.
    pub(crate) fn starts(&self, at: usize, expected: &str, what: &'static str) -> Scan<bool> {
        let rest = self.text.as_bytes().get(at..).unwrap_or_default();
        let expected = expected.as_bytes();
        let found = rest.starts_with(expected);
        if !found && expected.starts_with(rest) { Err(Stop::More(what)) } else { Ok(found) }
    }

    /// Returns the window cut at `to` and marked as not the last.
    #[cold]
    pub(crate) fn cut(&self, to: usize) -> Window<'w> {
        let to = self.text.floor_char_boundary(to);
        Window { text: self.get(0, to), last: false, origin: self.origin }
    }

    /// Returns the character at `at`, for an error message.
    #[cold]
    pub(crate) fn found(&self, at: usize) -> String {
        match char_at(self.text, at) {
            Some(c) if c.is_control() || c == '`' => format!("U+{:04X}", u32::from(c)),
            Some(c) => format!("`{c}`"),
            None => "the end".to_owned(),
        }
    }
}
