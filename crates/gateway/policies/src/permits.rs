//! Counts permits per key over all workers, and queues requests that wait for one.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::hash::Key;

/// The permits of one limit. The lock of a shard is held only for one map operation.
pub struct Permits {
    pub(crate) hash: Key,
    shards: Box<[Mutex<Shard>]>,
}

/// The open exchanges by key. A key without exchanges is removed, so there are never more keys than exchanges.
type Shard = HashMap<u64, PermitQueue>;

#[derive(Default)]
struct PermitQueue {
    /// The number of permits in use, including those handed over to a waiter but not yet taken.
    count: u32,
    /// The queue of waiters, first come, first served. While there are waiters, a new request gets no permit.
    waiting: VecDeque<(u64, Waker)>,
    /// Waiters that were given a permit and have not taken it yet.
    served: Vec<u64>,
}

/// A permit, which is returned when dropped.
pub(crate) struct Permit {
    permits: Arc<Permits>,
    key: u64,
}

/// The number of shards, enough that workers rarely contend for the same lock.
const SHARDS: usize = 64;

impl Default for Permits {
    fn default() -> Permits {
        Permits { hash: Key::random(), shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl Permits {
    fn shard(&self, key: u64) -> Option<MutexGuard<'_, Shard>> {
        let at = usize::try_from(key % 64).unwrap_or_default();
        self.shards.get(at).map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes one of the `max` permits of the key. Returns `None` if all of them are in use.
    pub(crate) fn take(self: &Arc<Permits>, key: u64, max: u32) -> Option<Permit> {
        let mut shard = self.shard(key)?;
        let taken = shard.entry(key).or_default();
        let free = taken.count < max;
        taken.count += u32::from(free);
        free.then(|| Permit { permits: self.clone(), key })
    }

    /// Returns the number of permits in use for the key.
    pub(crate) fn taken(&self, key: u64) -> u32 {
        self.shard(key).and_then(|shard| shard.get(&key).map(|taken| taken.count)).unwrap_or(0)
    }

    /// Takes a permit, or registers the task to be woken when it gets one.
    pub(crate) fn poll_take(
        self: &Arc<Permits>,
        cx: &Context<'_>,
        key: u64,
        max: u32,
        id: u64,
    ) -> Poll<Permit> {
        let Some(mut shard) = self.shard(key) else { return Poll::Pending };
        let taken = shard.entry(key).or_default();
        if taken.was_served(id) {
            return Poll::Ready(Permit { permits: self.clone(), key });
        }
        if taken.count < max {
            taken.count += 1;
            return Poll::Ready(Permit { permits: self.clone(), key });
        }
        let waker = cx.waker().clone();
        match taken.waiting.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) => *known = waker,
            None => taken.waiting.push_back((id, waker)),
        }
        Poll::Pending
    }

    /// Returns the number of keys with permits or waiters.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap().len()).sum()
    }

    /// Hands a permit to the waiter that has waited longest, or frees it.
    fn give_back(&self, key: u64) {
        let Some(mut shard) = self.shard(key) else { return };
        let Some(taken) = shard.get_mut(&key) else { return };
        if let Some((id, next)) = taken.waiting.pop_front() {
            taken.served.push(id);
            next.wake();
            return;
        }
        taken.count = taken.count.saturating_sub(1);
        if taken.count == 0 {
            shard.remove(&key);
        }
    }
}

impl PermitQueue {
    fn was_served(&mut self, id: u64) -> bool {
        let at = self.served.iter().position(|known| *known == id);
        at.map(|at| self.served.swap_remove(at)).is_some()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.give_back(self.key);
    }
}

/// A waiter. If it is dropped, its turn passes to the next waiter.
pub(crate) struct PermitWaiter<'p> {
    pub(crate) permits: &'p Permits,
    pub(crate) key: u64,
    pub(crate) id: u64,
}

impl Drop for PermitWaiter<'_> {
    fn drop(&mut self) {
        let Some(mut shard) = self.permits.shard(self.key) else { return };
        let Some(taken) = shard.get_mut(&self.key) else { return };
        taken.waiting.retain(|(id, _)| *id != self.id);
        // The waiter may be dropped before it has taken its permit.
        let was_served = taken.was_served(self.id);
        if taken.count == 0 && taken.waiting.is_empty() {
            shard.remove(&self.key);
        }
        drop(shard);
        if was_served {
            self.permits.give_back(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new request does not take a permit that others wait for.
    #[test]
    fn a_permit_goes_to_whoever_has_waited_longest() {
        let permits = Arc::new(Permits::default());
        let cx = Context::from_waker(Waker::noop());
        let held = permits.take(1, 1).unwrap();
        let waiters = [7, 8, 9].map(|id| PermitWaiter { permits: &permits, key: 1, id });
        let poll = |id| permits.poll_take(&cx, 1, 1, id);
        assert!([7, 8, 9].into_iter().all(|id| poll(id).is_pending()));
        // A spurious poll does not cost a waiter its turn.
        assert!(poll(7).is_pending());
        drop(held);
        assert!(permits.take(1, 1).is_none(), "it is handed over");
        assert!(poll(8).is_pending() && poll(9).is_pending());
        let Poll::Ready(first) = poll(7) else { panic!("it was first") };
        drop(first);
        // The next waiter is dropped before it takes its permit.
        let [first, second, third] = waiters;
        drop((first, second));
        assert!(poll(9).is_ready());
        drop(third);
        assert_eq!(permits.keys(), 0);
    }

    #[test]
    fn permits_are_returned_and_unused_keys_are_removed() {
        let permits = Arc::new(Permits::default());
        let first = permits.take(1, 2);
        let second = permits.take(1, 2);
        assert!(first.is_some() && second.is_some());
        assert!(permits.take(1, 2).is_none());
        assert!(permits.take(2, 2).is_some(), "another key");
        drop(first);
        assert!(permits.take(1, 2).is_some());
        drop(second);
        assert_eq!(permits.keys(), 0);
    }
}
