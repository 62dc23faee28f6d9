//! What a worker has still to write down about its subscriptions, in batches: while one is written, the next gathers.
//!
//! Of each subscription it counts the events that have ended and whose end is not written. They take the places of events under way
//! (`delivery.concurrency`) until then, so that no more than those ever come again after a crash.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use kit::clock::{self, Instant};
use store::{Answer, Change, Error, Expect, Guard, Store};

use crate::subscription::{Cursor, Id, stored};

/// The unwritten changes of a worker.
#[derive(Default)]
pub(crate) struct Book {
    /// Subscriptions whose place has changed.
    open: BTreeMap<Id, Entry>,
    writing: Option<Writing>,
    /// Since the store does not take them: when it is tried again.
    again: Option<Instant>,
}

/// What is to be written of a subscription.
#[derive(Default)]
struct Entry {
    /// What is written together with its place.
    more: Vec<Change>,
    /// Events that ended since its place was written.
    ended: usize,
}

struct Writing {
    open: BTreeMap<Id, Entry>,
    answer: Answer<Vec<u64>>,
}

/// Changes of one batch; a subscription has a few.
const CHANGES_MAX: usize = 900;

/// The pause after the store did not take a batch.
const PAUSE: Duration = Duration::from_millis(500);

impl Book {
    /// Notes that the place of a subscription has to be written.
    pub(crate) fn note(&mut self, id: Id) {
        self.open.entry(id).or_default();
    }

    /// The same, with something that is written together with it.
    pub(crate) fn note_with(&mut self, id: Id, change: Change) {
        self.open.entry(id).or_default().more.push(change);
    }

    /// The same, since an event has ended.
    pub(crate) fn note_end(&mut self, id: Id) {
        self.open.entry(id).or_default().ended += 1;
    }

    /// Events of a subscription that have ended, and would come again after a crash now.
    pub(crate) fn unwritten_ends(&self, id: Id) -> usize {
        let writing = self.writing.as_ref().and_then(|writing| writing.open.get(&id));
        writing.into_iter().chain(self.open.get(&id)).map(|entry| entry.ended).sum()
    }

    /// True if something of a subscription is unwritten.
    pub(crate) fn has(&self, id: Id) -> bool {
        let writing = self.writing.as_ref().is_some_and(|writing| writing.open.contains_key(&id));
        writing || self.open.contains_key(&id)
    }

    /// True if everything is written.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.writing.is_none()
    }

    /// True while the store takes nothing. Deliveries wait then: where they stand could not be written.
    pub(crate) fn is_stuck(&self) -> bool {
        self.again.is_some()
    }

    /// When it is worth a look again.
    pub(crate) fn wakes(&self) -> Option<Instant> {
        self.again.filter(|_| self.writing.is_none() && !self.open.is_empty())
    }

    /// Begins to write, unless that is under way. `cursor` gives the place of a subscription that is still there.
    pub(crate) fn begin<'c>(
        &mut self,
        store: &dyn Store,
        guard: Option<&Guard>,
        table: &Arc<str>,
        cursor: impl Fn(Id) -> Option<&'c Cursor>,
    ) {
        let must_wait = self.again.is_some_and(|again| clock::now() < again);
        if self.writing.is_some() || self.open.is_empty() || must_wait {
            return;
        }
        let mut changes = Vec::new();
        let mut open = BTreeMap::new();
        while changes.len() < CHANGES_MAX
            && let Some((id, entry)) = self.open.pop_first()
        {
            changes.extend(entry.more.iter().cloned());
            if let Some(value) = cursor(id).and_then(stored) {
                let (table, key) = (table.clone(), id.key());
                changes.push(Change { table, key, value: Some(value), expect: Expect::Anything });
            }
            open.insert(id, entry);
        }
        if !changes.is_empty() {
            self.writing = Some(Writing { open, answer: store.change(changes, guard) });
        }
    }

    /// Ready once a batch has been written, with the subscriptions of which events had ended; or once it has failed.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<Id>, Error>> {
        let Some(writing) = &mut self.writing else { return Poll::Pending };
        let written = ready!(writing.answer.as_mut().poll(cx));
        let open = self.writing.take().map(|writing| writing.open).unwrap_or_default();
        match written {
            Ok(_) => {
                self.again = None;
                let ended = open.into_iter().filter(|(_, entry)| entry.ended > 0);
                Poll::Ready(Ok(ended.map(|(id, _)| id).collect()))
            }
            Err(error) => {
                for (id, mut entry) in open {
                    let newer = self.open.entry(id).or_default();
                    entry.more.append(&mut newer.more);
                    entry.ended += newer.ended;
                    *newer = entry;
                }
                self.again = clock::now().checked_add(PAUSE);
                Poll::Ready(Err(error))
            }
        }
    }
}
