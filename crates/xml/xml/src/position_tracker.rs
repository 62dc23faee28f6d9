//! Converts offsets to lines and columns.
//!
//! Keeps the line count at the last position that was requested. Lines are counted only on request.

use std::cell::Cell;

use crate::Position;

/// The encoding of the source, which determines how many bytes a character takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Utf8,
    Utf16,
    One,
}

/// A position in the current window whose line has been counted.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// Offset in the window, in bytes.
    at: usize,
    position: Position,
    /// Whether the previous character is a carriage return, so that a line feed here is part of the same line end.
    after_return: bool,
}

/// Counts lines and columns on request.
#[derive(Debug, Clone)]
pub(crate) struct Tracker {
    /// The position at the start of the window.
    base: Mark,
    /// The last position requested. The next one is usually after it.
    last: Cell<Mark>,
    pub(crate) width: Width,
}

impl Tracker {
    pub(crate) fn new() -> Tracker {
        let position = Position { line: 1, column: 1, offset: 0 };
        let base = Mark { at: 0, position, after_return: false };
        Tracker { base, last: Cell::new(base), width: Width::Utf8 }
    }

    /// Skips the byte order mark, which precedes the first character of the source.
    pub(crate) fn skip_mark(&mut self, bytes: u64) {
        self.base.position.offset += bytes;
        self.last.set(self.base);
    }

    /// Drops the first `len` bytes of the window.
    pub(crate) fn advance(&mut self, window: &str, len: usize) {
        let mark = self.mark(window, len);
        self.base = Mark { at: 0, ..mark };
        self.last.set(self.base);
    }

    /// Returns the position of `at`.
    pub(crate) fn position(&self, window: &str, at: usize) -> Position {
        self.mark(window, at).position
    }

    /// Returns the number of source bytes before `at`.
    pub(crate) fn offset(&self, window: &str, at: usize) -> u64 {
        match self.width {
            Width::Utf8 => self.base.position.offset + at as u64,
            Width::Utf16 | Width::One => self.position(window, at).offset,
        }
    }

    /// Like `offset`, if the source is UTF-8.
    #[inline(always)]
    pub(crate) fn utf8_offset(&self, at: usize) -> u64 {
        self.base.position.offset + at as u64
    }

    fn mark(&self, window: &str, at: usize) -> Mark {
        let last = self.last.get();
        let from = if last.at <= at { last } else { self.base };
        let mark = from.move_to(window, at, self.width);
        self.last.set(mark);
        mark
    }
}

impl Mark {
    fn move_to(self, window: &str, at: usize, width: Width) -> Mark {
        let passed = window.get(self.at..at).unwrap_or_default();
        let bytes = passed.as_bytes();
        let characters = |bytes: &[u8]| bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
        let (mut lines, mut line_start) = (0u64, None);
        let mut after_return = self.after_return;
        let mut next = 0;
        while let Some(found) =
            bytes.get(next..).and_then(|rest| memchr::memchr2(b'\n', b'\r', rest))
        {
            let end = next + found;
            let line_feed = bytes.get(end) == Some(&b'\n');
            let same_end = line_feed && found == 0 && after_return;
            lines += u64::from(!same_end);
            after_return = !line_feed;
            next = end + 1;
            line_start = Some(next);
        }
        after_return = after_return && next == bytes.len();
        let columns = characters(bytes.get(line_start.unwrap_or(0)..).unwrap_or_default());
        let column = match line_start {
            Some(_) => 1,
            None => self.position.column,
        };
        let source_bytes = match width {
            Width::Utf8 => bytes.len(),
            Width::Utf16 => passed.encode_utf16().count() * 2,
            Width::One => characters(bytes),
        };
        let add =
            |count: u32, more: u64| count.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        Mark {
            at,
            position: Position {
                line: add(self.position.line, lines),
                column: add(column, columns as u64),
                offset: self.position.offset + source_bytes as u64,
            },
            after_return,
        }
    }
}
