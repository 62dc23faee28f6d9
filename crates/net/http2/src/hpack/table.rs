//! The dynamic table of a connection (RFC 7541, 2.3.2 and 4).

use std::collections::VecDeque;

use super::fixed::FIXED;
use crate::{Code, Error};

/// The maximum size of the table. A session never announces a different size.
const SIZE_MAX: usize = 4096;

/// The overhead that is added to the size of each entry.
const ENTRY_BYTES: usize = 32;

const NO_ENTRY: Error = Error::new(Code::COMPRESSION_ERROR, "an index without an entry");

pub(super) struct Table {
    /// The entries, newest first.
    entries: VecDeque<TableEntry>,
    size: usize,
    size_max: usize,
}

struct TableEntry {
    text: Box<[u8]>,
    name_len: usize,
}

impl Default for Table {
    fn default() -> Table {
        Table { entries: VecDeque::new(), size: 0, size_max: SIZE_MAX }
    }
}

impl Table {
    /// Returns name and value by index. The static table comes first.
    pub(super) fn get(&self, index: usize) -> Result<(&[u8], &[u8]), Error> {
        let index = index.checked_sub(1).ok_or(NO_ENTRY)?;
        if let Some((name, value)) = FIXED.get(index) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let entry = self.entries.get(index - FIXED.len()).ok_or(NO_ENTRY)?;
        entry.text.split_at_checked(entry.name_len).ok_or(NO_ENTRY)
    }

    /// Adds an entry. `text` is the name followed by the value.
    pub(super) fn insert(&mut self, text: &[u8], name_len: usize) {
        let size = text.len() + ENTRY_BYTES;
        self.shrink_to(self.size_max.saturating_sub(size));
        // An entry larger than the whole table empties it, and is not an error.
        if size <= self.size_max {
            self.size += size;
            self.entries.push_front(TableEntry { text: text.into(), name_len });
        }
    }

    pub(super) fn resize(&mut self, size_max: usize) -> Result<(), Error> {
        if size_max > SIZE_MAX {
            return Err(Error::new(Code::COMPRESSION_ERROR, "a table size above the limit"));
        }
        self.size_max = size_max;
        self.shrink_to(size_max);
        Ok(())
    }

    fn shrink_to(&mut self, size_max: usize) {
        while self.size > size_max
            && let Some(oldest) = self.entries.pop_back()
        {
            self.size -= oldest.text.len() + ENTRY_BYTES;
        }
    }
}
