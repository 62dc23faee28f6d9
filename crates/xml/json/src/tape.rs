//! A tape that owns its memory, which the thread reuses.

use std::cell::RefCell;

use kit::pack::{self, SpareVectors};

use crate::{JsonError, Kind, Limits, TapeEntry};

thread_local! {
    static TAPES: SpareVectors<TapeEntry> = const { RefCell::new(Vec::new()) };
}

/// The values of one text in order. The first entry is the whole text.
#[derive(Debug, PartialEq, Eq)]
pub struct Tape {
    entries: Vec<TapeEntry>,
    /// Nesting depth of objects and arrays.
    depth: usize,
}

impl Tape {
    /// Parses a text.
    pub fn read(text: &str, limits: &Limits) -> Result<Tape, JsonError> {
        let mut tape = Tape { entries: pack::take(&TAPES), depth: 0 };
        tape.depth = crate::parse(text, limits, &mut tape.entries)?;
        Ok(tape)
    }

    /// Returns the tape of a string given unescaped and without quotes.
    pub fn of_string(text: &str) -> Tape {
        let mut entries = pack::take(&TAPES);
        let to = u32::try_from(text.len()).unwrap_or(u32::MAX);
        entries.push(TapeEntry { kind: Kind::Plain, from: 0, to, next: 1, count: 0 });
        Tape { entries, depth: 0 }
    }

    #[inline]
    pub fn entries(&self) -> &[TapeEntry] {
        &self.entries
    }

    /// Returns true if the text is within these limits.
    pub fn is_within(&self, limits: &Limits) -> bool {
        self.depth <= limits.depth_max && self.entries.len() <= limits.entries_max
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        pack::give(&TAPES, std::mem::take(&mut self.entries));
    }
}
