//! The agenda of a worker: the subscriptions that are checked next, and the times of later checks.
//!
//! Owns the order and the times. What a check does is up to the caller.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use kit::clock::Instant;

use crate::subscription::Id;

/// A subscription's entries in the agenda, kept with the subscription.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    is_queued: bool,
    /// The time of the next scheduled check, if there is one.
    timer: Option<Instant>,
}

impl Entry {
    /// Marks the subscription as waiting for a permit. It is queued when a permit is released.
    pub(crate) fn wait(&mut self) {
        self.is_queued = true;
    }

    /// Marks the subscription as taken out of the queue, so that it can be queued again.
    pub(crate) fn taken(&mut self) {
        self.is_queued = false;
    }
}

/// The subscriptions to check, now and later.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    ready: VecDeque<Id>,
    timers: BinaryHeap<Reverse<(Instant, Id)>>,
}

impl Agenda {
    /// Schedules a check as soon as possible. Further calls before the check have no effect.
    pub(crate) fn queue(&mut self, id: Id, entry: &mut Entry) {
        if !std::mem::replace(&mut entry.is_queued, true) {
            self.ready.push_back(id);
        }
    }

    /// Schedules a check at a time, unless an earlier one is scheduled.
    pub(crate) fn bring_forward(&mut self, id: Id, entry: &mut Entry, at: Instant) {
        if entry.timer.is_none_or(|timer| at < timer) {
            self.set(id, entry, at);
        }
    }

    /// Schedules a check at a time. Replaces the time that was scheduled before.
    pub(crate) fn set(&mut self, id: Id, entry: &mut Entry, at: Instant) {
        entry.timer = Some(at);
        self.timers.push(Reverse((at, id)));
    }

    /// The next subscription to check.
    pub(crate) fn next(&mut self) -> Option<Id> {
        self.ready.pop_front()
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The queue itself. Released permits add the subscriptions that waited for one.
    pub(crate) fn ready(&mut self) -> &mut VecDeque<Id> {
        &mut self.ready
    }

    /// The time of the earliest scheduled check.
    pub(crate) fn first(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes a subscription whose time has come, with that time. The check may have been rescheduled since, so pass both to
    /// [`Agenda::queue_due`].
    pub(crate) fn due(&mut self, now: Instant) -> Option<(Id, Instant)> {
        let Reverse((at, id)) =
            self.timers.peek().copied().filter(|Reverse((at, _))| *at <= now)?;
        self.timers.pop();
        Some((id, at))
    }

    /// Queues a subscription whose check was due at a time, unless the check has been rescheduled. After that no check is
    /// scheduled, so [`Agenda::bring_forward`] accepts a time after `at`.
    pub(crate) fn queue_due(&mut self, id: Id, entry: &mut Entry, at: Instant) {
        if entry.timer == Some(at) {
            entry.timer = None;
            self.queue(id, entry);
        }
    }

    /// Reserves memory for the scheduled checks of `more` subscriptions.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.timers.reserve_exact(more);
    }

    pub(crate) fn clear(&mut self) {
        self.ready.clear();
        self.timers.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use kit::clock;

    use super::*;

    fn id(first: u8) -> Id {
        Id::parse(format!("{first:02x}{}", "0".repeat(30)).as_bytes()).unwrap()
    }

    /// Queues all that are due, and returns what is ready.
    fn checked(agenda: &mut Agenda, entries: &mut BTreeMap<Id, Entry>) -> Vec<Id> {
        while let Some((id, at)) = agenda.due(clock::now()) {
            if let Some(entry) = entries.get_mut(&id) {
                agenda.queue_due(id, entry, at);
            }
        }
        let mut all = Vec::new();
        while let Some(id) = agenda.next() {
            entries.entry(id).or_default().taken();
            all.push(id);
        }
        all
    }

    fn after(seconds: u64) -> Instant {
        clock::now() + Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscription_is_queued_once_until_it_is_checked() {
        let (mut agenda, mut entries) = (Agenda::default(), BTreeMap::new());
        for _ in 0..2 {
            for first in [2, 1] {
                agenda.queue(id(first), entries.entry(id(first)).or_default());
            }
        }
        assert_eq!(checked(&mut agenda, &mut entries), [id(2), id(1)], "in the order of queueing");
        assert!(!agenda.has_ready());
        agenda.queue(id(1), entries.entry(id(1)).or_default());
        assert_eq!(checked(&mut agenda, &mut entries), [id(1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_time_counts_and_rings_once() {
        let (mut agenda, mut entries) = (Agenda::default(), BTreeMap::new());
        let entry = entries.entry(id(1)).or_default();
        for seconds in [20, 10, 30] {
            agenda.bring_forward(id(1), entry, after(seconds));
        }
        assert_eq!(agenda.first(), Some(after(10)));
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(checked(&mut agenda, &mut entries).is_empty());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(checked(&mut agenda, &mut entries), [id(1)]);
        // The time that was set first, 20 s, is still in the heap, but is ignored.
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!(checked(&mut agenda, &mut entries).is_empty());
        assert_eq!(agenda.first(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_check_that_was_due_a_later_one_can_be_set() {
        let (mut agenda, mut entries) = (Agenda::default(), BTreeMap::new());
        for pause in [1, 2, 4, 8] {
            agenda.bring_forward(id(1), entries.entry(id(1)).or_default(), after(pause));
            assert_eq!(agenda.first(), Some(after(pause)));
            tokio::time::advance(Duration::from_secs(pause - 1)).await;
            assert!(checked(&mut agenda, &mut entries).is_empty(), "{pause}");
            tokio::time::advance(Duration::from_secs(1)).await;
            assert_eq!(checked(&mut agenda, &mut entries), [id(1)], "{pause}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_later_time_replaces_one_that_was_set_before() {
        let (mut agenda, mut entries) = (Agenda::default(), BTreeMap::new());
        let entry = entries.entry(id(1)).or_default();
        agenda.bring_forward(id(1), entry, after(1));
        agenda.set(id(1), entry, after(5));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(checked(&mut agenda, &mut entries).is_empty());
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(checked(&mut agenda, &mut entries), [id(1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscription_that_waits_for_a_permit_is_not_queued_a_second_time() {
        let (mut agenda, mut entries) = (Agenda::default(), BTreeMap::new());
        let entry: &mut Entry = entries.entry(id(1)).or_default();
        entry.wait();
        agenda.queue(id(1), entry);
        assert!(!agenda.has_ready());
        agenda.ready().push_back(id(1));
        assert_eq!(checked(&mut agenda, &mut entries), [id(1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn removed_subscriptions_are_skipped() {
        let (mut agenda, mut entries) = (Agenda::default(), BTreeMap::new());
        agenda.bring_forward(id(1), &mut Entry::default(), after(1));
        agenda.bring_forward(id(2), entries.entry(id(2)).or_default(), after(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(checked(&mut agenda, &mut entries), [id(2)]);
        agenda.bring_forward(id(2), entries.entry(id(2)).or_default(), after(1));
        agenda.clear();
        assert_eq!(agenda.first(), None);
    }
}
