//! Changes of other gateways. Each change of the catalog lists its rows in a ring of its writer, so that other gateways read only these
//! rows.
//!
//! A reader that may have missed a change reads all rows. This happens after more changes of one writer than its ring holds. It also
//! happens while a change is missing that its writer has not reported as failed, until that change can no longer be written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kit::clock::Instant;
use serde::{Deserialize, Serialize};
use store::Row;

use crate::ids;

/// The prefix of the keys of rings.
pub(crate) const PREFIX: &str = "news/";

/// The number of changes in the ring of one writer. Readers check four times a second.
const RING: u64 = 256;

/// The number of seconds after which a change is removed. By then readers have seen it, or will read all rows.
const KEPT: u64 = 3600;

/// The limit of failed changes that were not reported yet.
const FAILED_MAX: usize = 1024;

/// The limit of rows in one entry. After a larger change, readers read all rows.
const NAMED_MAX: usize = 2000;

/// How long readers wait for a missing change. A write of it has ended by then, since the store waits at most 30 seconds for an answer.
const LATE_MAX: Duration = Duration::from_secs(60);

/// The number of writers above which those without entries are forgotten. Each start of a gateway is a new writer.
const WRITERS_MAX: usize = 1000;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The number of the change, from 1 for each writer.
    number: u64,
    /// Seconds since the Unix epoch.
    time: u64,
    /// The keys of the rows, without those of names. None if there are too many.
    rows: Option<Vec<String>>,
    /// The numbers of changes that were never written.
    failed: Vec<u64>,
}

/// The changes of this gateway.
pub(crate) struct Writer {
    id: String,
    last: AtomicU64,
    failed: Mutex<Vec<u64>>,
}

/// A change that is being written.
pub(crate) struct Pending {
    pub(crate) key: String,
    pub(crate) value: Vec<u8>,
    number: u64,
    /// The failed changes that this one reports.
    failed: Vec<u64>,
}

/// The changes of other gateways that this one has seen.
#[derive(Default)]
pub(crate) struct Reader(HashMap<String, RingProgress>);

#[derive(Default)]
struct RingProgress {
    last: u64,
    /// Earlier numbers that were neither seen nor reported, with the times at which they were first missing.
    missing: BTreeMap<u64, Instant>,
}

/// The result of a check of all rings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ForeignChanges {
    /// Keys of rows.
    Rows(BTreeSet<String>),
    /// Some changes are unknown, so all rows have to be read.
    Everything,
}

impl Writer {
    pub(crate) fn new() -> Writer {
        Writer { id: ids::uuid(), last: AtomicU64::new(0), failed: Mutex::default() }
    }

    /// The entry for a change that is about to be written.
    pub(crate) fn begin(&self, rows: Vec<String>) -> Pending {
        let number = self.last.fetch_add(1, Ordering::AcqRel) + 1;
        let failed = std::mem::take(&mut *self.lock());
        let entry = Entry {
            number,
            time: kit::clock::wall().as_secs(),
            rows: (rows.len() <= NAMED_MAX).then_some(rows),
            failed: failed.clone(),
        };
        let key = format!("{PREFIX}{}/{:03}", self.id, number % RING);
        // Harmless: an entry can always be serialised.
        let value = serde_json::to_vec(&entry).unwrap_or_default();
        Pending { key, value, number, failed }
    }

    /// Records that a change was not written.
    pub(crate) fn failed(&self, pending: Pending) {
        let mut failed = self.lock();
        failed.extend(pending.failed);
        failed.push(pending.number);
        // Drops the oldest numbers. Readers then miss these changes, and read all rows.
        let over = failed.len().saturating_sub(FAILED_MAX);
        failed.drain(..over);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if this writer has written the entry with this key.
    pub(crate) fn owns(&self, key: &[u8]) -> bool {
        writer(key).is_some_and(|id| id == self.id)
    }
}

/// The id of the writer in the key of an entry.
fn writer(key: &[u8]) -> Option<&str> {
    // Harmless: a key in another form is not that of an entry.
    let key = std::str::from_utf8(key).ok()?;
    key.strip_prefix(PREFIX)?.split_once('/').map(|(id, _)| id)
}

/// True if a change is so old that its entry is no longer needed.
pub(crate) fn is_over(row: &Row, now: u64) -> bool {
    match serde_json::from_slice::<Entry>(&row.value) {
        Ok(entry) => entry.time.saturating_add(KEPT) <= now,
        // An unreadable entry has no use.
        Err(_) => true,
    }
}

impl Reader {
    /// Reads the rings of all other gateways.
    pub(crate) fn read(&mut self, rows: &[Row], now: Instant) -> ForeignChanges {
        let mut rings: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
        let mut all = BTreeSet::new();
        let mut is_whole = true;
        for row in rows {
            match (writer(&row.key), serde_json::from_slice::<Entry>(&row.value)) {
                (Some(id), Ok(entry)) => rings.entry(id.to_owned()).or_default().push(entry),
                _ => is_whole = false,
            }
        }
        // A writer whose old entries were all removed may go on.
        if self.0.len() > WRITERS_MAX {
            self.0.retain(|id, _| rings.contains_key(id));
        }
        for (id, entries) in rings {
            let seen = self.0.entry(id).or_default();
            match seen.read(&entries, now) {
                Some(rows) => all.extend(rows),
                None => is_whole = false,
            }
        }
        if is_whole { ForeignChanges::Rows(all) } else { ForeignChanges::Everything }
    }
}

impl RingProgress {
    /// The rows of new entries. None if some changes are unknown.
    fn read(&mut self, entries: &[Entry], now: Instant) -> Option<Vec<String>> {
        let newest = entries.iter().map(|entry| entry.number).max()?;
        let before = self.last;
        self.last = newest.max(before);
        // The ring has no room for older ones.
        let first = (before + 1).max((newest + 1).saturating_sub(RING));
        self.missing.extend((first..=newest).map(|number| (number, now)));
        let (mut rows, mut is_whole) = (Vec::new(), first == before + 1);
        for entry in entries {
            if self.missing.remove(&entry.number).is_some() {
                match &entry.rows {
                    Some(named) => rows.extend(named.iter().cloned()),
                    None => is_whole = false,
                }
            }
        }
        for failed in entries.iter().flat_map(|entry| &entry.failed) {
            self.missing.remove(failed);
        }
        if !self.missing.is_empty() {
            // Recent numbers stay, since a change may be written after a later one, and is then read when it arrives.
            self.missing.retain(|number, since| {
                number + RING > newest && now.duration_since(*since) < LATE_MAX
            });
            is_whole = false;
        }
        is_whole.then_some(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pending: &Pending) -> Row {
        Row {
            key: pending.key.clone().into_bytes().into(),
            value: pending.value.clone().into(),
            version: 1,
        }
    }

    fn rows(names: &[&str]) -> ForeignChanges {
        ForeignChanges::Rows(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn read(reader: &mut Reader, rows: &[Row]) -> ForeignChanges {
        reader.read(rows, kit::clock::now())
    }

    fn change(writer: &Writer, name: &str) -> Pending {
        writer.begin(vec![name.to_owned()])
    }

    #[test]
    fn each_change_is_reported_once() {
        let (writer, mut reader) = (Writer::new(), Reader::default());
        let (first, second) = (change(&writer, "a"), change(&writer, "b"));
        assert_eq!(read(&mut reader, &[row(&first)]), rows(&["a"]));
        assert_eq!(read(&mut reader, &[row(&first), row(&second)]), rows(&["b"]));
        assert_eq!(read(&mut reader, &[row(&first), row(&second)]), rows(&[]));
    }

    #[test]
    fn a_missing_change_causes_everything_to_be_read_unless_it_failed() {
        let (writer, mut reader) = (Writer::new(), Reader::default());
        let (first, second) = (change(&writer, "a"), change(&writer, "b"));
        assert_eq!(read(&mut reader, &[row(&second)]), ForeignChanges::Everything);
        assert_eq!(
            read(&mut reader, &[row(&first), row(&second)]),
            rows(&["a"]),
            "it was written late"
        );
        let third = change(&writer, "c");
        writer.failed(third);
        let fourth = change(&writer, "d");
        assert_eq!(read(&mut reader, &[row(&fourth)]), rows(&["d"]));
    }

    #[test]
    fn a_reader_that_missed_too_many_changes_reads_everything() {
        let (writer, mut reader) = (Writer::new(), Reader::default());
        let first = change(&writer, "a");
        assert_eq!(read(&mut reader, &[row(&first)]), rows(&["a"]));
        let ring: Vec<Row> = (0..=RING).map(|_| row(&change(&writer, "b"))).skip(1).collect();
        assert_eq!(read(&mut reader, &ring), ForeignChanges::Everything);
        assert_eq!(read(&mut reader, &ring), rows(&[]));
        let many = writer.begin(vec![String::new(); NAMED_MAX + 1]);
        assert_eq!(read(&mut reader, &[row(&many)]), ForeignChanges::Everything);
    }

    #[test]
    fn changes_whose_entries_were_removed_are_missing_for_a_minute_only() {
        let (writer, mut reader) = (Writer::new(), Reader::default());
        let old: Vec<Row> = (0..10).map(|_| row(&change(&writer, "a"))).collect();
        let begin = kit::clock::now();
        // The entries of the first five were removed before the reader sees the writer.
        let half = old.get(5..).unwrap();
        assert_eq!(reader.read(half, begin), ForeignChanges::Everything);
        assert_eq!(reader.read(half, begin + LATE_MAX / 2), ForeignChanges::Everything);
        let late = old.get(4..).unwrap();
        assert_eq!(reader.read(late, begin + LATE_MAX / 2), ForeignChanges::Everything);
        // The last time: what was written until now is read, and nothing can be written later.
        assert_eq!(reader.read(half, begin + LATE_MAX), ForeignChanges::Everything);
        assert_eq!(reader.read(half, begin + LATE_MAX), rows(&[]));
        let next = change(&writer, "b");
        assert_eq!(reader.read(&[row(&next)], begin + LATE_MAX), rows(&["b"]));
    }

    #[test]
    fn a_writer_goes_on_after_all_its_entries_were_removed() {
        let (writer, mut reader) = (Writer::new(), Reader::default());
        let (first, second) = (change(&writer, "a"), change(&writer, "b"));
        assert_eq!(read(&mut reader, &[row(&first)]), rows(&["a"]));
        assert_eq!(read(&mut reader, &[]), rows(&[]));
        assert_eq!(read(&mut reader, &[row(&second)]), rows(&["b"]));
    }

    #[test]
    fn a_change_that_is_written_after_many_others_is_read() {
        let (writer, mut reader) = (Writer::new(), Reader::default());
        for _ in 0..RING {
            change(&writer, "old");
        }
        let (late, next) = (change(&writer, "late"), change(&writer, "next"));
        assert_eq!(read(&mut reader, &[row(&next)]), ForeignChanges::Everything);
        let begin = kit::clock::now();
        reader.0.values_mut().for_each(|seen| seen.missing.retain(|number, _| *number == RING + 1));
        assert_eq!(reader.read(&[row(&late), row(&next)], begin), rows(&["late"]));
    }
}
