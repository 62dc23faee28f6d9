//! State of a hub that outlives a change of its settings: the way from requests to the workers that deliver.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::lease_clock::LeaseClock;
use crate::subscription::{Id, Subscription};

/// The lasting part of a hub. `compile` makes one for each name and keeps it over reloads.
pub struct HubState {
    mailboxes: Box<[Mailbox]>,
    /// Tells hubs apart on a worker.
    pub(crate) serial: u64,
    /// Subscriptions that were asked for and are on their way to their worker, by their subjects.
    reserved: Mutex<SubscriptionCounts>,
    /// How many all nodes had, and when that was counted.
    counted: Mutex<Option<(kit::clock::Instant, usize)>>,
    pub(crate) lease_clock: LeaseClock,
}

/// How many there are, in all and by their subjects.
#[derive(Debug, Default)]
struct SubscriptionCounts {
    all: usize,
    of_subjects: HashMap<Box<str>, usize>,
}

/// Why there is no place for a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Hub,
    Subject,
}

struct Mailbox {
    sender: mpsc::Sender<Note>,
    /// Here while no worker reads it.
    receiver: Mutex<Option<mpsc::Receiver<Note>>>,
    /// Subscriptions that the worker has.
    held: Mutex<SubscriptionCounts>,
}

/// News for the worker of a subscription.
#[derive(Debug)]
pub(crate) enum Note {
    /// It was written.
    Written { id: Id, version: u64, subscription: Box<Subscription>, is_new: bool },
    /// It was removed, in this version.
    Removed(Id, u64),
    /// An operator has removed it, of which its subscriber is to be told.
    Denied(Id, Box<Subscription>),
}

impl Note {
    pub(crate) fn id(&self) -> Id {
        match self {
            Note::Written { id, .. } | Note::Removed(id, _) | Note::Denied(id, _) => *id,
        }
    }
}

/// How long a count of all nodes' subscriptions is worth something, and how far below the most it has to be for that.
const COUNTED_MAX: Duration = Duration::from_secs(2);
const FAR: usize = 5000;

/// Notes that wait for a worker. A worker reads them between any two of its steps.
const NOTES_MAX: usize = 4096;

impl HubState {
    pub fn new(workers: usize) -> HubState {
        let mailbox = |_| {
            let (sender, receiver) = mpsc::channel(NOTES_MAX);
            Mailbox { sender, receiver: Mutex::new(Some(receiver)), held: Mutex::default() }
        };
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        HubState {
            mailboxes: (0..workers.max(1)).map(mailbox).collect(),
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            reserved: Mutex::default(),
            counted: Mutex::new(None),
            lease_clock: LeaseClock::new(),
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.mailboxes.len()
    }

    /// Subscriptions that there are.
    pub(crate) fn count(&self) -> usize {
        self.mailboxes.iter().map(|mailbox| locked(&mailbox.held).all).sum()
    }

    fn of_subject(&self, subject: &str) -> usize {
        self.mailboxes.iter().map(|mailbox| locked(&mailbox.held).of_subject(subject)).sum()
    }

    /// Takes a place for a new subscription, if there are fewer than `max`, and fewer than `of_subject` of its subject.
    pub(crate) fn reserve(&self, subject: &str, max: usize, of_subject: usize) -> Result<(), Full> {
        let mut reserved = locked(&self.reserved);
        if self.count() + reserved.all >= max {
            return Err(Full::Hub);
        }
        if self.of_subject(subject) + reserved.of_subject(subject) >= of_subject {
            return Err(Full::Subject);
        }
        reserved.add(subject);
        Ok(())
    }

    /// The same for all nodes of a store, where the last count was so far below that the others cannot have reached it since.
    pub(crate) fn reserve_far_below(&self, subject: &str, max: usize) -> bool {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = counted.as_mut().filter(|(at, _)| at.elapsed() < COUNTED_MAX);
        let known = fresh.filter(|(_, count)| count.saturating_add(FAR) < max);
        let Some((_, count)) = known else { return false };
        *count += 1;
        locked(&self.reserved).add(subject);
        true
    }

    /// The same where there are `count` in the store, of all nodes.
    pub(crate) fn reserve_beside(&self, subject: &str, count: usize, max: usize) -> bool {
        let now = Some((kit::clock::now(), count));
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = now;
        let mut reserved = locked(&self.reserved);
        let fits = count.saturating_add(reserved.all) < max;
        if fits {
            reserved.add(subject);
        }
        fits
    }

    /// Subscriptions of a subject that are on their way to the store.
    pub(crate) fn reserved_of(&self, subject: &str) -> usize {
        locked(&self.reserved).of_subject(subject)
    }

    /// Gives a place back: the subscription has arrived, or there is none.
    pub(crate) fn release(&self, subject: &str) {
        locked(&self.reserved).remove(subject);
    }

    /// Gives the place back that a note of a new subscription has.
    pub(crate) fn arrived(&self, note: &Note) {
        if let Note::Written { is_new: true, subscription, .. } = note {
            self.release(&subscription.subject);
        }
    }

    /// Sends a note to the worker of a subscription. False if it has too many.
    pub(crate) fn tell(&self, id: Id, note: Note) -> bool {
        let mailbox = self.mailboxes.get(id.worker(self.workers()));
        mailbox.is_some_and(|mailbox| mailbox.sender.try_send(note).is_ok())
    }

    /// The notes of a worker, for the one that reads them.
    pub(crate) fn take_notes(&self, worker: usize) -> Option<mpsc::Receiver<Note>> {
        let receiver = &self.mailboxes.get(worker)?.receiver;
        receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Gives the notes back, for the next.
    pub(crate) fn give_notes(&self, worker: usize, notes: mpsc::Receiver<Note>) {
        if let Some(mailbox) = self.mailboxes.get(worker) {
            *mailbox.receiver.lock().unwrap_or_else(PoisonError::into_inner) = Some(notes);
        }
        self.let_all_go(worker);
    }

    /// Notes that a worker has a subscription of this subject.
    pub(crate) fn hold(&self, worker: usize, subject: &str) {
        if let Some(mailbox) = self.mailboxes.get(worker) {
            locked(&mailbox.held).add(subject);
        }
    }

    /// Notes that a worker has none any more.
    pub(crate) fn let_all_go(&self, worker: usize) {
        if let Some(mailbox) = self.mailboxes.get(worker) {
            *locked(&mailbox.held) = SubscriptionCounts::default();
        }
    }

    /// Notes that a worker has one of this subject no more.
    pub(crate) fn let_go(&self, worker: usize, subject: &str) {
        if let Some(mailbox) = self.mailboxes.get(worker) {
            locked(&mailbox.held).remove(subject);
        }
    }
}

impl SubscriptionCounts {
    fn of_subject(&self, subject: &str) -> usize {
        self.of_subjects.get(subject).copied().unwrap_or_default()
    }

    fn add(&mut self, subject: &str) {
        self.all += 1;
        match self.of_subjects.get_mut(subject) {
            Some(count) => *count += 1,
            None => {
                self.of_subjects.insert(subject.into(), 1);
            }
        }
    }

    fn remove(&mut self, subject: &str) {
        self.all = self.all.saturating_sub(1);
        if let Some(count) = self.of_subjects.get_mut(subject) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.of_subjects.remove(subject);
            }
        }
    }
}

fn locked(counts: &Mutex<SubscriptionCounts>) -> MutexGuard<'_, SubscriptionCounts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_up_to_the_most_and_come_back() {
        let core = HubState::new(2);
        core.hold(0, "ann");
        core.hold(1, "bob");
        assert_eq!(core.reserve("ann", 2, 9), Err(Full::Hub));
        assert_eq!(core.reserve("ann", 3, 1), Err(Full::Subject));
        assert_eq!(core.reserve("cid", 3, 1), Ok(()));
        assert_eq!(core.reserve("cid", 3, 9), Err(Full::Hub));
        assert_eq!(core.reserve("cid", 4, 1), Err(Full::Subject), "one is on its way");
        core.release("cid");
        assert_eq!(core.reserve("ann", 3, 2), Ok(()));
        // It arrives.
        core.hold(1, "ann");
        core.release("ann");
        assert_eq!(core.reserve("ann", 3, 9), Err(Full::Hub));
        assert_eq!(core.count(), 3);
        core.let_go(0, "ann");
        assert_eq!(core.reserve("ann", 3, 2), Ok(()));
        assert_eq!(core.reserve("ann", 9, 2), Err(Full::Subject));
    }
}
