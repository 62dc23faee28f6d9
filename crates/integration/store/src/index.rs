//! The index of a log's records.
//!
//! All logs share segments, so a log's records lie between those of others. An entry is the location of one record. The next
//! entry is that of the first record that starts at least [`WINDOW`] bytes after it. So a record is found by reading one window,
//! and the memory for a log depends on its size and not on the number of its records.

use std::collections::VecDeque;
use std::time::Duration;

use crate::{Error, Keep, Span};

/// The bytes of a segment that one entry covers. They are read at once to find a record.
pub(crate) const WINDOW: u64 = 32 << 10;

/// The number of a segment within this process. It is never reused.
pub(crate) type Slot = u32;

/// The location of one record, from which the records in its window are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) position: u64,
    /// Milliseconds since the Unix epoch.
    pub(crate) time: u64,
    /// The bytes of the log's records before this one, counted from the oldest record that this index has ever had.
    pub(crate) before: u64,
    pub(crate) slot: Slot,
    pub(crate) offset: u64,
}

/// The index of one log.
#[derive(Debug, Default)]
pub(crate) struct LogIndex {
    entries: VecDeque<IndexEntry>,
    /// The lowest position that is kept; at least 1.
    oldest: u64,
    /// The highest position that is durable.
    newest: u64,
    newest_time: u64,
    /// The bytes of all records, including trimmed ones, counted from the oldest record that this index has ever had.
    total: u64,
    /// The bytes of the trimmed records.
    trimmed: u64,
}

/// One record as the index sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordLocation {
    pub(crate) position: u64,
    pub(crate) time: u64,
    pub(crate) len: u64,
    pub(crate) slot: Slot,
    pub(crate) offset: u64,
}

/// The bounds that a record must meet to be kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetentionFloor {
    position: u64,
    time: u64,
    before: u64,
}

impl RetentionFloor {
    pub(crate) fn keeps(&self, position: u64, time: u64, before: u64) -> bool {
        position >= self.position && time >= self.time && before >= self.before
    }
}

impl LogIndex {
    pub(crate) fn new(oldest: u64) -> LogIndex {
        LogIndex { oldest, newest: oldest.saturating_sub(1), ..LogIndex::default() }
    }

    /// Adds a durable record. Returns false and ignores the record if it was trimmed, or if a failed write has left it with a position that
    /// is used twice.
    pub(crate) fn add(&mut self, place: RecordLocation) -> bool {
        if place.position <= self.newest {
            return false;
        }
        let covered = self.entries.back().is_some_and(|last| {
            last.slot == place.slot && place.offset < last.offset.saturating_add(WINDOW)
        });
        if !covered {
            self.entries.push_back(IndexEntry {
                position: place.position,
                time: place.time,
                before: self.total,
                slot: place.slot,
                offset: place.offset,
            });
        }
        self.total += place.len;
        self.newest = place.position;
        self.newest_time = self.newest_time.max(place.time);
        true
    }

    pub(crate) fn newest_time(&self) -> u64 {
        self.newest_time
    }

    pub(crate) fn span(&self) -> Span {
        Span { oldest: self.oldest, newest: self.newest, bytes: self.total - self.trimmed }
    }

    /// Returns the entries for a read after a position, for at most `bytes` of records. If there is more than one entry, returns at least
    /// two, since the first window may contain no readable record.
    pub(crate) fn plan(
        &self,
        after: u64,
        bytes: u64,
        entries: usize,
    ) -> Result<Vec<IndexEntry>, Error> {
        if after != 0 && after.saturating_add(1) < self.oldest {
            return Err(Error::Trimmed { oldest: self.oldest });
        }
        let from = after.saturating_add(1).max(self.oldest);
        if from > self.newest {
            return Ok(Vec::new());
        }
        let start = self.entries.partition_point(|entry| entry.position <= from).saturating_sub(1);
        let first = self.entries.get(start).map_or(0, |entry| entry.before);
        // Harmless: the next read continues after the records of these entries.
        let planned = self.entries.range(start..).take(entries).enumerate();
        let planned =
            planned.take_while(|(index, entry)| *index < 2 || entry.before - first <= bytes);
        Ok(planned.map(|(_, entry)| *entry).collect())
    }

    /// Returns the bounds of the records to keep, and the entry whose window may contain the oldest of them. Records before `since` are too
    /// old. Returns `None` if all records are kept.
    pub(crate) fn kept(
        &self,
        keep: Keep,
        since: Duration,
    ) -> Option<(RetentionFloor, Option<IndexEntry>)> {
        let kept = RetentionFloor {
            position: keep.after.unwrap_or(0).saturating_add(1).max(self.oldest),
            time: kit::clock::millis(since),
            before: self.total.saturating_sub(keep.bytes.unwrap_or(u64::MAX)),
        };
        let front = self.entries.front()?;
        let all =
            kept.position <= self.oldest && kept.time <= front.time && kept.before <= self.trimmed;
        if all || self.oldest > self.newest {
            return None;
        }
        let end = self
            .entries
            .partition_point(|entry| !kept.keeps(entry.position, entry.time, entry.before));
        Some((kept, end.checked_sub(1).and_then(|index| self.entries.get(index)).copied()))
    }

    /// Returns the entries in some segments.
    pub(crate) fn entries_in(&self, slots: &[Slot]) -> Vec<IndexEntry> {
        self.entries.iter().filter(|entry| slots.contains(&entry.slot)).copied().collect()
    }

    /// Returns the position of the first entry after a position, and the bytes of records before it. If there is no such entry, returns
    /// those of the end of the log.
    pub(crate) fn entry_after(&self, position: u64) -> (u64, u64) {
        let index = self.entries.partition_point(|entry| entry.position <= position);
        self.entries.get(index).map_or((self.newest + 1, self.total), |e| (e.position, e.before))
    }

    /// Removes all records below the position `oldest`. `before` is the number of bytes of the log's records below it.
    pub(crate) fn trim(&mut self, oldest: u64, before: u64) {
        let oldest = oldest.min(self.newest + 1);
        if oldest <= self.oldest {
            return;
        }
        self.oldest = oldest;
        self.trimmed = before.clamp(self.trimmed, self.total);
        while self.entries.get(1).is_some_and(|next| next.position <= oldest) {
            self.entries.pop_front();
        }
        if self.oldest > self.newest {
            self.entries.clear();
        }
    }

    /// Replaces the entries in some segments. The new entries are for the same records, without trimmed ones.
    pub(crate) fn replace(&mut self, slots: &[Slot], places: Vec<IndexEntry>) {
        let from = self.entries.iter().position(|entry| slots.contains(&entry.slot));
        let Some(from) = from else { return };
        let mut rest = self.entries.split_off(from);
        let next = rest.iter().position(|entry| !slots.contains(&entry.slot));
        let rest = next.map_or_else(VecDeque::new, |next| rest.split_off(next));
        self.entries.extend(places.into_iter().filter(|_| self.oldest <= self.newest));
        self.entries.extend(rest);
        while self.entries.get(1).is_some_and(|next| next.position <= self.oldest) {
            self.entries.pop_front();
        }
    }
}
