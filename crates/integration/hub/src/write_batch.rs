//! Batches of writes about a worker's subscriptions. While one batch is written, the next is collected.
//!
//! An event that has ended counts towards `delivery.concurrency` until its end is written. So a crash repeats at most
//! `delivery.concurrency` events of a subscription.

use std::collections::BTreeMap;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use kit::clock::{self, Instant};
use store::{Answer, Change, Error, Guard, Store};

use crate::positions::Group;
use crate::subscription::Id;

/// The unwritten changes of a worker.
#[derive(Default)]
pub(crate) struct UnwrittenChanges {
    /// Groups with a changed position.
    open: BTreeMap<Group, GroupWrites>,
    writing: Option<WriteBatch>,
    /// The time of the next attempt, if the store has failed.
    retry_at: Option<Instant>,
}

/// The unwritten changes of a group.
#[derive(Default)]
struct GroupWrites {
    /// Changes that are written together with the positions.
    more: Vec<Change>,
    /// Events that ended since the positions were written.
    ended: Vec<End>,
}

/// The end of an event of the subscription with this id. `from` is where the subscription began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) id: Id,
    pub(crate) from: u64,
}

struct WriteBatch {
    open: BTreeMap<Group, GroupWrites>,
    answer: Answer<Vec<u64>>,
}

/// The maximum number of changes in one batch.
const CHANGES_MAX: usize = 900;
/// The size of the positions in a batch after which no further group is added.
const BYTES_MAX: usize = 4 << 20;

/// The pause after a failed batch.
const PAUSE: Duration = Duration::from_millis(500);

impl GroupWrites {
    /// Takes out the changes that do not fit into one batch, or returns `None` if all fit. Additions, such as dead events, are written
    /// before the positions, and removals may be written after them. So a crash between two batches loses nothing.
    fn beyond(&mut self, room: usize) -> Option<GroupWrites> {
        if self.more.len() < room {
            return None;
        }
        self.more.sort_by_key(|change| change.value.is_none());
        let more = self.more.split_off(room.saturating_sub(1));
        let mut later = GroupWrites { more, ended: Vec::new() };
        if later.writes() {
            later.ended = std::mem::take(&mut self.ended);
        }
        Some(later)
    }

    /// True if there are additions beside the positions.
    fn writes(&self) -> bool {
        self.more.iter().any(|change| change.value.is_some())
    }
}

impl UnwrittenChanges {
    /// Notes that the positions of a group must be written.
    pub(crate) fn note(&mut self, group: Group) {
        self.open.entry(group).or_default();
    }

    /// Notes a change that is written together with the group's positions.
    pub(crate) fn note_with(&mut self, group: Group, change: Change) {
        self.open.entry(group).or_default().more.push(change);
    }

    /// Notes that an event has ended.
    pub(crate) fn note_end(&mut self, group: Group, end: End) {
        self.open.entry(group).or_default().ended.push(end);
    }

    /// True if changes of a partition are unwritten.
    pub(crate) fn has(&self, partition: usize) -> bool {
        let writing = self.writing.iter().flat_map(|writing| writing.open.keys());
        writing.chain(self.open.keys()).any(|group| group.partition() == partition)
    }

    /// True if everything is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.writing.is_none()
    }

    /// True while the store fails. Deliveries wait then, since their positions could not be written.
    pub(crate) fn is_stuck(&self) -> bool {
        self.retry_at.is_some()
    }

    /// The time of the next attempt.
    pub(crate) fn wakes(&self) -> Option<Instant> {
        self.retry_at.filter(|_| self.writing.is_none() && !self.open.is_empty())
    }

    /// Starts to write, unless a write is in progress. `row` returns the change of a group's row.
    pub(crate) fn begin(
        &mut self,
        store: &dyn Store,
        guard: Option<&Guard>,
        row: impl Fn(Group) -> Option<Change>,
    ) {
        let must_wait = self.retry_at.is_some_and(|retry_at| clock::now() < retry_at);
        if self.writing.is_some() || self.open.is_empty() || must_wait {
            return;
        }
        let (mut changes, mut bytes) = (Vec::new(), 0);
        let mut open = BTreeMap::new();
        while bytes < BYTES_MAX
            && let Some((group, mut entry)) = self.open.pop_first()
        {
            let room = CHANGES_MAX - changes.len();
            if entry.more.len() >= room && !changes.is_empty() {
                self.open.insert(group, entry);
                break;
            }
            let later = entry.beyond(room);
            let is_placed = later.as_ref().is_none_or(|later| !later.writes());
            let row = row(group).filter(|_| is_placed);
            let value = row.as_ref().and_then(|row| row.value.as_ref());
            bytes += value.map_or(0, |value| value.len());
            changes.extend(entry.more.iter().cloned().chain(row));
            open.insert(group, entry);
            if let Some(later) = later {
                self.open.insert(group, later);
                break;
            }
        }
        if !changes.is_empty() {
            self.writing = Some(WriteBatch { open, answer: store.change(changes, guard) });
        }
    }

    /// Ready when a batch has been written, with the ends in it, or when it has failed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<End>, Error>> {
        let Some(writing) = &mut self.writing else { return Poll::Pending };
        let written = ready!(writing.answer.as_mut().poll(cx));
        // Harmless: the batch is present, as was checked above.
        let open = self.writing.take().map(|writing| writing.open).unwrap_or_default();
        match written {
            Ok(_) => {
                self.retry_at = None;
                Poll::Ready(Ok(open.into_values().flat_map(|entry| entry.ended).collect()))
            }
            Err(error) => {
                for (group, mut entry) in open {
                    let newer = self.open.entry(group).or_default();
                    entry.more.append(&mut newer.more);
                    entry.ended.append(&mut newer.ended);
                    *newer = entry;
                }
                self.retry_at = clock::now().checked_add(PAUSE);
                Poll::Ready(Err(error))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use bytes::Bytes;
    use store::{Expect, Memory, Scan, Tables as _};

    use super::*;
    use crate::callback::Callback;

    fn change(table: &str, key: String, is_put: bool) -> Change {
        let value = is_put.then(|| Bytes::from_static(b"x"));
        Change { table: table.into(), key: key.into_bytes(), value, expect: Expect::Anything }
    }

    /// No batch exceeds the limits of the store, and no end is reported before all changes that belong to it are written.
    #[test]
    fn changes_that_exceed_one_batch_are_written_in_several() {
        let id = Id::of("", "t", &Callback::parse("http://a/").unwrap());
        let group = |topic| Group { topic, first: id.first() };
        for (dead, forgotten) in
            [(0, 0), (1, 1), (899, 0), (900, 0), (2500, 0), (1000, 2500), (0, 950)]
        {
            let store = Memory::new();
            let mut unwritten = UnwrittenChanges::default();
            for topic in 0..3 {
                unwritten.note_end(group(topic), End { id, from: 7 });
                let of = |number| format!("{topic}-{number}");
                (0..dead)
                    .for_each(|n| unwritten.note_with(group(topic), change("dead", of(n), true)));
                (0..forgotten)
                    .for_each(|n| unwritten.note_with(group(topic), change("news", of(n), false)));
            }
            let mut ends = 0;
            let mut cx = Context::from_waker(Waker::noop());
            while !unwritten.is_empty() {
                unwritten.begin(&store, None, |group| {
                    Some(change("cursors", group.topic.to_string(), true))
                });
                let Poll::Ready(written) = unwritten.poll(&mut cx) else {
                    panic!("it is in memory")
                };
                ends += written.unwrap().len();
            }
            assert_eq!(ends, 3, "{dead} {forgotten}");
            let mut count = |table| {
                let scan = Scan { rows_max: 1000, ..Scan::default() };
                let mut found = store.scan(table, scan);
                let Poll::Ready(found) = found.as_mut().poll(&mut cx) else { panic!() };
                let found = found.unwrap();
                (found.rows.len(), found.more)
            };
            assert_eq!(count("cursors"), (3, false));
            assert_eq!(count("dead"), ((3 * dead).min(1000), 3 * dead > 1000));
        }
    }
}
