//! The state of a hub that is kept when its settings change: the channels from requests to the workers that deliver, the counts of
//! subscriptions, and the lease clock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kit::clock::{self, Instant};
use tokio::sync::mpsc;

use crate::lease_clock::LeaseClock;
use crate::subscription::{Id, Subscription};

/// The part of a hub that is kept across reloads. `compile` makes one for each hub and each store of its events.
pub struct HubState {
    mailboxes: Box<[Mailbox]>,
    /// Tells hubs apart on a worker.
    pub(crate) serial: u64,
    /// Places reserved for subscriptions that their workers do not have yet, by subject.
    reserved: Mutex<SubscriptionCounts>,
    /// Subscriptions that are not confirmed yet.
    pending: Mutex<PendingSubscriptions>,
    /// The number of subscriptions on all nodes, and the time of the count.
    counted: Mutex<Option<(Instant, usize)>>,
    pub(crate) lease_clock: LeaseClock,
}

/// Numbers of subscriptions: in total and by subject.
#[derive(Debug, Default)]
struct SubscriptionCounts {
    all: usize,
    of_subjects: HashMap<Box<str>, usize>,
}

/// Subscriptions that wait to be confirmed. They count towards the hub's limit only when their own asker subscribes again. Otherwise
/// callbacks that never answer would take the places of those that work.
#[derive(Debug, Default)]
struct PendingSubscriptions {
    /// The asker, and the time of the request.
    by_id: HashMap<Id, (Box<str>, Instant)>,
    of_askers: HashMap<Box<str>, usize>,
    /// The time when old entries were last removed.
    swept: Option<Instant>,
}

/// The reason for refusing a new subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Hub,
    Subject,
    /// The asker has too many unconfirmed subscriptions.
    Pending,
}

/// A reserved place for a subscription, held until its worker has the subscription.
pub(crate) struct Reservation {
    of: Arc<HubState>,
    subject: Box<str>,
}

struct Mailbox {
    sender: mpsc::Sender<SubscriptionUpdate>,
    /// Present while no task of the worker reads from it.
    receiver: Mutex<Option<mpsc::Receiver<SubscriptionUpdate>>>,
    /// The numbers of confirmed subscriptions that the worker has.
    held: Mutex<SubscriptionCounts>,
}

/// An update for the worker of a subscription.
pub(crate) enum SubscriptionUpdate {
    /// The subscription was written.
    Written {
        id: Id,
        version: u64,
        subscription: Box<Subscription>,
        is_new: bool,
        /// Its reserved place, if it has one.
        reservation: Option<Reservation>,
    },
    /// The subscription was removed; the version is that of the removal.
    Removed(Id, u64),
    /// An operator has removed it. Its subscriber is to be informed.
    Denied(Id, Box<Subscription>),
}

impl SubscriptionUpdate {
    pub(crate) fn id(&self) -> Id {
        match self {
            SubscriptionUpdate::Written { id, .. }
            | SubscriptionUpdate::Removed(id, _)
            | SubscriptionUpdate::Denied(id, _) => *id,
        }
    }
}

/// How long a count of all nodes' subscriptions is used.
const COUNTED_MAX: Duration = Duration::from_secs(2);
/// A count is used only while it is more than this number below the limit.
const FAR: usize = 5000;

/// The maximum time for which a subscription counts as pending. If another node asks the callback, this node does not learn the result. By
/// the end of this time, that node has asked.
const PENDING_MAX: Duration = Duration::from_secs(10 * 60);

/// The shortest interval at which old entries are removed.
const SWEEP: Duration = Duration::from_secs(1);

/// The number of updates that can wait for a worker. A worker takes them before it handles the results of its jobs.
const UPDATES_MAX: usize = 4096;

impl HubState {
    pub fn new(workers: usize) -> HubState {
        let mailbox = |_| {
            let (sender, receiver) = mpsc::channel(UPDATES_MAX);
            Mailbox { sender, receiver: Mutex::new(Some(receiver)), held: Mutex::default() }
        };
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        HubState {
            mailboxes: (0..workers.max(1)).map(mailbox).collect(),
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            reserved: Mutex::default(),
            pending: Mutex::default(),
            counted: Mutex::new(None),
            lease_clock: LeaseClock::new(),
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.mailboxes.len()
    }

    /// The number of confirmed subscriptions that this node's workers have. Reserved places are not included.
    pub(crate) fn count(&self) -> usize {
        self.mailboxes.iter().map(|mailbox| locked(&mailbox.held).all).sum()
    }

    fn of_subject(&self, subject: &str) -> usize {
        self.mailboxes.iter().map(|mailbox| locked(&mailbox.held).of_subject(subject)).sum()
    }

    /// Reserves a place for a new subscription, if there are fewer than `max`, and the subject has fewer than
    /// `of_subject`.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        subject: &str,
        max: usize,
        of_subject: usize,
    ) -> Result<Reservation, Full> {
        let mut reserved = locked(&self.reserved);
        if self.count() + reserved.all >= max {
            return Err(Full::Hub);
        }
        if self.of_subject(subject) + reserved.of_subject(subject) >= of_subject {
            return Err(Full::Subject);
        }
        reserved.add(subject);
        Ok(self.reservation(subject))
    }

    fn reservation(self: &Arc<Self>, subject: &str) -> Reservation {
        Reservation { of: self.clone(), subject: subject.into() }
    }

    /// Reserves a place among the subscriptions of all nodes, if the last count is so far below `max` that they cannot have
    /// reached it since.
    pub(crate) fn reserve_far_below(
        self: &Arc<Self>,
        subject: &str,
        max: usize,
    ) -> Option<Reservation> {
        let mut counted = locked(&self.counted);
        let fresh = counted.as_mut().filter(|(at, _)| at.elapsed() < COUNTED_MAX);
        let (_, count) = fresh.filter(|(_, count)| count.saturating_add(FAR) < max)?;
        *count += 1;
        locked(&self.reserved).add(subject);
        Some(self.reservation(subject))
    }

    /// Reserves a place, given the number of confirmed subscriptions in the store, which are those of all nodes. Returns `None` if there is
    /// no place.
    pub(crate) fn reserve_beside(
        self: &Arc<Self>,
        subject: &str,
        count: usize,
        max: usize,
    ) -> Option<Reservation> {
        *locked(&self.counted) = Some((clock::now(), count));
        let mut reserved = locked(&self.reserved);
        if count.saturating_add(reserved.all) >= max {
            return None;
        }
        reserved.add(subject);
        Some(self.reservation(subject))
    }

    /// The number of a subject's subscriptions that are being stored.
    pub(crate) fn reserved_of(&self, subject: &str) -> usize {
        locked(&self.reserved).of_subject(subject)
    }

    /// Records that a subscription waits to be confirmed. Fails if the asker has `most` such subscriptions, or if all askers together have
    /// `max`.
    pub(crate) fn ask(&self, id: Id, asker: &str, most: usize, max: usize) -> Result<(), Full> {
        let mut pending = locked(&self.pending);
        if pending.by_id.contains_key(&id) {
            return Ok(());
        }
        if pending.of(asker) >= most || pending.by_id.len() >= max {
            pending.forget_old();
        }
        if pending.of(asker) >= most {
            return Err(Full::Pending);
        }
        if pending.by_id.len() >= max {
            return Err(Full::Hub);
        }
        pending.by_id.insert(id, (asker.into(), clock::now()));
        *pending.of_askers.entry(asker.into()).or_default() += 1;
        Ok(())
    }

    /// Records that a subscription no longer waits to be confirmed.
    pub(crate) fn answered(&self, id: Id) {
        locked(&self.pending).remove(id);
    }

    /// The number of an asker's subscriptions that wait to be confirmed.
    pub(crate) fn pending_of(&self, asker: &str) -> usize {
        locked(&self.pending).of(asker)
    }

    /// The ids of an asker's subscriptions that wait to be confirmed, as far as this node knows.
    pub(crate) fn pending_ids(&self, asker: &str) -> Vec<Id> {
        let pending = locked(&self.pending);
        let own = pending.by_id.iter().filter(|(_, (of, _))| **of == *asker);
        own.map(|(id, _)| *id).collect()
    }

    /// Sends an update to the worker of a subscription. Returns false if the worker's queue is full.
    pub(crate) fn tell(&self, id: Id, update: SubscriptionUpdate) -> bool {
        let mailbox = self.mailboxes.get(id.worker(self.workers()));
        mailbox.is_some_and(|mailbox| mailbox.sender.try_send(update).is_ok())
    }

    /// Takes the receiver of a worker's updates.
    pub(crate) fn take_updates(&self, worker: usize) -> Option<mpsc::Receiver<SubscriptionUpdate>> {
        let receiver = &self.mailboxes.get(worker)?.receiver;
        receiver.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the receiver, for the next task that reads the updates.
    pub(crate) fn give_updates(&self, worker: usize, updates: mpsc::Receiver<SubscriptionUpdate>) {
        if let Some(mailbox) = self.mailboxes.get(worker) {
            *mailbox.receiver.lock().unwrap_or_else(PoisonError::into_inner) = Some(updates);
        }
        self.let_all_go(worker);
    }

    /// Records that a worker has a subscription of this subject.
    pub(crate) fn hold(&self, worker: usize, subject: &str) {
        if let Some(mailbox) = self.mailboxes.get(worker) {
            locked(&mailbox.held).add(subject);
        }
    }

    /// Records that a worker has no subscriptions any more.
    pub(crate) fn let_all_go(&self, worker: usize) {
        if let Some(mailbox) = self.mailboxes.get(worker) {
            *locked(&mailbox.held) = SubscriptionCounts::default();
        }
    }

    /// Records that a worker has one subscription of this subject less.
    pub(crate) fn let_go(&self, worker: usize, subject: &str) {
        if let Some(mailbox) = self.mailboxes.get(worker) {
            locked(&mailbox.held).remove(subject);
        }
    }
}

impl SubscriptionCounts {
    fn of_subject(&self, subject: &str) -> usize {
        self.of_subjects.get(subject).copied().unwrap_or(0)
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

impl PendingSubscriptions {
    fn of(&self, asker: &str) -> usize {
        self.of_askers.get(asker).copied().unwrap_or(0)
    }

    fn remove(&mut self, id: Id) {
        let Some((asker, _)) = self.by_id.remove(&id) else { return };
        if let Some(count) = self.of_askers.get_mut(&asker) {
            *count -= 1;
            if *count == 0 {
                self.of_askers.remove(&asker);
            }
        }
    }

    fn forget_old(&mut self) {
        if self.swept.is_some_and(|swept| swept.elapsed() < SWEEP) {
            return;
        }
        self.swept = Some(clock::now());
        let old: Vec<Id> = self
            .by_id
            .iter()
            .filter(|(_, (_, at))| at.elapsed() >= PENDING_MAX)
            .map(|(id, _)| *id)
            .collect();
        old.into_iter().for_each(|id| self.remove(id));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        locked(&self.of.reserved).remove(&self.subject);
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callback::Callback;

    #[test]
    fn places_are_reserved_up_to_the_limits_and_released() {
        let state = Arc::new(HubState::new(2));
        state.hold(0, "ann");
        state.hold(1, "bob");
        let full = |subject, max, of_subject| state.reserve(subject, max, of_subject).err();
        assert_eq!(full("ann", 2, 9), Some(Full::Hub));
        assert_eq!(full("ann", 3, 1), Some(Full::Subject));
        let cid = state.reserve("cid", 3, 1).ok();
        assert_eq!(full("cid", 3, 9), Some(Full::Hub));
        assert_eq!(full("cid", 4, 1), Some(Full::Subject), "one place is reserved");
        drop(cid);
        let ann = state.reserve("ann", 3, 2).ok();
        // Its worker has it.
        state.hold(1, "ann");
        drop(ann);
        assert_eq!(full("ann", 3, 9), Some(Full::Hub));
        assert_eq!(state.count(), 3);
        state.let_go(0, "ann");
        let ann = state.reserve("ann", 3, 2).ok();
        assert!(ann.is_some());
        assert_eq!(full("ann", 9, 2), Some(Full::Subject));
    }

    fn id(number: usize) -> Id {
        Id::of("", "t", &Callback::parse(&format!("http://a/{number}")).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn unconfirmed_subscriptions_are_limited_for_each_asker_and_in_total() {
        let state = HubState::new(2);
        assert_eq!(state.ask(id(0), "ann", 2, 4), Ok(()));
        assert_eq!(state.ask(id(0), "ann", 1, 4), Ok(()), "it is pending already");
        assert_eq!(state.ask(id(1), "ann", 2, 4), Ok(()));
        assert_eq!(state.ask(id(2), "ann", 2, 4), Err(Full::Pending));
        assert_eq!((state.ask(id(2), "bob", 2, 4), state.pending_of("ann")), (Ok(()), 2));
        assert_eq!(state.ask(id(3), "cid", 2, 3), Err(Full::Hub));
        state.answered(id(0));
        state.answered(id(0));
        assert_eq!((state.ask(id(3), "ann", 2, 4), state.count()), (Ok(()), 0));
        // Some are never confirmed or refused.
        tokio::time::advance(PENDING_MAX).await;
        assert_eq!((state.ask(id(4), "ann", 2, 4), state.pending_of("ann")), (Ok(()), 1));
        state.answered(id(4));
        assert!(locked(&state.pending).of_askers.is_empty());
    }
}
