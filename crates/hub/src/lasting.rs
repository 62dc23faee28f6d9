//! What of a hub goes on while its settings change: the way from requests to the workers that deliver.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::subscription::{Id, Subscription};

/// The lasting part of a hub. `compile` makes one for each name and keeps it over reloads.
pub struct Lasting {
    mailboxes: Box<[Mailbox]>,
    /// Tells hubs apart on a worker.
    pub(crate) serial: u64,
    /// Subscriptions that were asked for and are on their way to their worker.
    reserved: AtomicUsize,
    /// How many all nodes had, and when that was counted.
    counted: Mutex<Option<(kit::clock::Instant, usize)>>,
}

struct Mailbox {
    sender: mpsc::Sender<Note>,
    /// Here while no worker reads it.
    receiver: Mutex<Option<mpsc::Receiver<Note>>>,
    /// Subscriptions that the worker has.
    held: AtomicUsize,
}

/// News for the worker of a subscription.
#[derive(Debug)]
pub(crate) enum Note {
    /// It was written.
    Written { id: Id, version: u64, subscription: Box<Subscription>, is_new: bool },
    /// It was removed, in this version.
    Removed(Id, u64),
}

impl Note {
    pub(crate) fn id(&self) -> Id {
        match self {
            Note::Written { id, .. } | Note::Removed(id, _) => *id,
        }
    }
}

/// How long a count of all nodes' subscriptions is worth something, and how far below the most it has to be for that.
const COUNTED_MAX: Duration = Duration::from_secs(2);
const FAR: usize = 5000;

/// Notes that wait for a worker. A worker reads them between any two of its steps.
const NOTES_MAX: usize = 4096;

impl Lasting {
    pub fn new(workers: usize) -> Lasting {
        let mailbox = |_| {
            let (sender, receiver) = mpsc::channel(NOTES_MAX);
            Mailbox { sender, receiver: Mutex::new(Some(receiver)), held: AtomicUsize::new(0) }
        };
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        Lasting {
            mailboxes: (0..workers.max(1)).map(mailbox).collect(),
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            reserved: AtomicUsize::new(0),
            counted: Mutex::new(None),
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.mailboxes.len()
    }

    /// Subscriptions that there are.
    pub(crate) fn count(&self) -> usize {
        self.mailboxes.iter().map(|mailbox| mailbox.held.load(Ordering::Relaxed)).sum()
    }

    /// Takes a place for a new subscription, if there are fewer than `max`.
    pub(crate) fn reserve(&self, max: usize) -> bool {
        let reserved = self.reserved.fetch_add(1, Ordering::Relaxed);
        let fits = self.count() + reserved < max;
        if !fits {
            self.release();
        }
        fits
    }

    /// The same for all nodes of a store, where the last count was so far below that the others cannot have reached it since.
    pub(crate) fn reserve_far_below(&self, max: usize) -> bool {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = counted.as_mut().filter(|(at, _)| at.elapsed() < COUNTED_MAX);
        let known = fresh.filter(|(_, count)| count.saturating_add(FAR) < max);
        let Some((_, count)) = known else { return false };
        *count += 1;
        self.reserved.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// The same where there are `count` in the store, of all nodes.
    pub(crate) fn reserve_beside(&self, count: usize, max: usize) -> bool {
        let now = Some((kit::clock::now(), count));
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = now;
        let reserved = self.reserved.fetch_add(1, Ordering::Relaxed);
        let fits = count.saturating_add(reserved) < max;
        if !fits {
            self.release();
        }
        fits
    }

    /// Gives a place back: the subscription has arrived, or there is none.
    pub(crate) fn release(&self) {
        self.reserved.fetch_sub(1, Ordering::Relaxed);
    }

    /// Gives the place back that a note of a new subscription has.
    pub(crate) fn arrived(&self, note: &Note) {
        if matches!(note, Note::Written { is_new: true, .. }) {
            self.release();
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
            mailbox.held.store(0, Ordering::Relaxed);
        }
    }

    /// Sets how many subscriptions a worker has.
    pub(crate) fn set_held(&self, worker: usize, count: usize) {
        if let Some(mailbox) = self.mailboxes.get(worker) {
            mailbox.held.store(count, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_taken_up_to_the_most_and_come_back() {
        let core = Lasting::new(2);
        core.set_held(0, 1);
        core.set_held(1, 1);
        assert!(!core.reserve(2));
        assert!(core.reserve(3));
        assert!(!core.reserve(3));
        core.release();
        assert!(core.reserve(3));
        // It arrives.
        core.set_held(1, 2);
        core.release();
        assert!(!core.reserve(3));
        assert_eq!(core.count(), 3);
    }
}
