//! Positions in texts that people write, such as configurations.

use std::fmt;

/// A position in a text, displayed as `LINE:COLUMN`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPosition {
    /// The byte offset.
    pub offset: usize,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
}

impl TextPosition {
    /// Returns the position of a byte in a text.
    pub fn of(text: &str, offset: usize) -> TextPosition {
        let mut end = offset.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = text.get(..end).unwrap_or_default();
        let line = before.rsplit_once('\n').map_or(before, |(_, line)| line);
        TextPosition {
            offset,
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: line.chars().count() + 1,
        }
    }
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}
