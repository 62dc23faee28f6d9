//! Records in memory: the newest of a topic, kept for woken readers, and records that were fetched in addition to those requested.

use std::collections::VecDeque;

use store::{ReadQuery, Record};

/// The maximum number of records kept of one topic.
const RECORDS_MAX: usize = 1000;
/// The maximum size of the records kept of one topic.
const BYTES_MAX: usize = 1 << 20;

/// The newest records that the follower has fetched.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    records: VecDeque<Record>,
    bytes: usize,
    reach: Option<FollowerPosition>,
}

/// The position of the follower.
#[derive(Debug, Clone, Copy)]
struct FollowerPosition {
    /// All records after this position, up to `newest`, are kept.
    floor: u64,
    /// The position up to which the follower has fetched.
    newest: u64,
}

impl Tail {
    /// Returns the position after which the follower continues, or `None` before it has begun.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.reach.map(|reach| reach.newest)
    }

    /// Drops all records, and starts after a position. Returns the number of dropped bytes.
    pub(crate) fn begin(&mut self, newest: u64) -> usize {
        self.records.clear();
        self.reach = Some(FollowerPosition { floor: newest, newest });
        std::mem::take(&mut self.bytes)
    }

    /// Drops all records and the position. Returns the number of dropped bytes.
    pub(crate) fn reset(&mut self) -> usize {
        self.records.clear();
        self.reach = None;
        std::mem::take(&mut self.bytes)
    }

    /// Adds the next records, up to a position. Returns the number of bytes before and after.
    pub(crate) fn extend(&mut self, records: Vec<Record>, newest: u64) -> (usize, usize) {
        let before = self.bytes;
        let Some(reach) = &mut self.reach else { return (before, before) };
        for record in records {
            self.bytes += record.bytes.len();
            self.records.push_back(record);
        }
        while self.records.len() > RECORDS_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.records.pop_front() else { break };
            self.bytes -= oldest.bytes.len();
            reach.floor = oldest.position;
        }
        reach.newest = newest.max(reach.newest);
        (before, self.bytes)
    }

    /// Returns the records after a position, and the newest position. Returns `None` if there are none, or if not all of them are kept.
    pub(crate) fn read(&self, read: ReadQuery) -> Option<(Vec<Record>, u64)> {
        let reach = self.reach.filter(|reach| reach.floor <= read.after)?;
        let from = self.records.partition_point(|record| record.position <= read.after);
        let found = bounded(self.records.range(from..).cloned(), read);
        (!found.is_empty()).then_some((found, reach.newest))
    }
}

/// Records fetched in addition to those that a read requested. Brokers return whole batches, and a reader that requests single records
/// should not fetch the batch again each time.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    newest_last: VecDeque<(String, Tail)>,
}

/// The maximum number of topics whose last read is kept.
const WINDOWS_MAX: usize = 32;

impl Windows {
    /// Keeps the records that a read after a position has fetched. `newest` is the log's newest position.
    pub(crate) fn keep(&mut self, topic: &str, after: u64, records: &[Record], newest: u64) {
        let read = ReadQuery { after, records_max: RECORDS_MAX, bytes_max: BYTES_MAX };
        let mut window = Tail::default();
        window.begin(after);
        window.extend(bounded(records.iter().cloned(), read), newest);
        self.newest_last.retain(|(name, _)| name != topic);
        if self.newest_last.len() >= WINDOWS_MAX {
            self.newest_last.pop_front();
        }
        self.newest_last.push_back((topic.to_owned(), window));
    }

    /// Returns the records after a position, and the newest position, if the last read of the topic fetched them.
    pub(crate) fn read(&self, topic: &str, read: ReadQuery) -> Option<(Vec<Record>, u64)> {
        let (_, window) = self.newest_last.iter().find(|(name, _)| name == topic)?;
        window.read(read)
    }
}

/// Limits records to the number and the bytes that a read requested. The first record is returned whatever its size.
pub(crate) fn bounded(records: impl Iterator<Item = Record>, read: ReadQuery) -> Vec<Record> {
    let mut room = read.bytes_max;
    let mut is_first = true;
    let fits = |record: &Record| {
        let fits = record.bytes.len() <= room || std::mem::take(&mut is_first);
        is_first = false;
        room = room.saturating_sub(record.bytes.len());
        fits
    };
    // Harmless: the reader continues after the last record that it got.
    records.take(read.records_max).take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn record(position: u64, len: usize) -> Record {
        Record { position, time: Duration::ZERO, bytes: vec![7; len].into() }
    }

    fn positions(tail: &Tail, after: u64) -> Option<Vec<u64>> {
        let (records, _) = tail.read(ReadQuery::after(after))?;
        Some(records.iter().map(|record| record.position).collect())
    }

    #[test]
    fn what_follows_is_read_and_what_is_missing_is_not() {
        let mut tail = Tail::default();
        assert_eq!(tail.extend(vec![record(1, 1)], 1), (0, 0), "the follower has not begun");
        assert_eq!(positions(&tail, 0), None);
        tail.begin(4);
        assert_eq!(positions(&tail, 4), None, "there are no records yet");
        assert_eq!(tail.extend(vec![record(5, 1), record(7, 1)], 8), (0, 2));
        assert_eq!(tail.newest(), Some(8));
        assert_eq!(positions(&tail, 4), Some(vec![5, 7]));
        assert_eq!(positions(&tail, 5), Some(vec![7]));
        assert_eq!(positions(&tail, 7), None);
        assert_eq!(positions(&tail, 3), None, "4 was before");
        assert_eq!(tail.reset(), 2);
        assert_eq!(positions(&tail, 4), None);
    }

    #[test]
    fn it_holds_no_more_than_its_bounds() {
        let mut tail = Tail::default();
        tail.begin(0);
        let half = BYTES_MAX / 2;
        let (_, bytes) = tail.extend((1..=5).map(|number| record(number, half)).collect(), 5);
        assert_eq!(bytes, 2 * half);
        assert_eq!(positions(&tail, 3), Some(vec![4, 5]));
        assert_eq!(positions(&tail, 2), None);
        tail.extend((6..=2000).map(|number| record(number, 0)).collect(), 2000);
        assert_eq!(positions(&tail, 1000).map(|all| all.len()), Some(1000));
        assert_eq!(positions(&tail, 999), None);
    }

    #[test]
    fn windows_are_of_the_last_reads() {
        let mut windows = Windows::default();
        let all: Vec<Record> = (3..=5).map(|number| record(number, 1)).collect();
        windows.keep("a", 2, &all, 9);
        let one = |after| ReadQuery { after, records_max: 1, bytes_max: 100 };
        let found =
            windows.read("a", one(4)).map(|(records, newest)| (records[0].position, newest));
        assert_eq!(found, Some((5, 9)));
        assert_eq!(windows.read("a", one(5)), None, "the next records were not fetched");
        assert_eq!(windows.read("a", one(1)), None);
        for number in 0..WINDOWS_MAX {
            windows.keep(&number.to_string(), 2, &all, 9);
        }
        assert_eq!(windows.read("a", one(4)), None);
    }

    #[test]
    fn a_read_is_bounded() {
        let all = || (1..=9).map(|number| record(number, 10));
        for (records_max, bytes_max, count) in
            [(5, 1000, 5), (100, 35, 3), (100, 30, 3), (100, 0, 1), (0, 1000, 0)]
        {
            let read = ReadQuery { after: 0, records_max, bytes_max };
            assert_eq!(bounded(all(), read).len(), count, "{read:?}");
        }
    }
}
