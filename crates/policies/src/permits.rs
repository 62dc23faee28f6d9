//! Permits by key: so many at once, over all workers, and who waits for one.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::hash::Key;

/// The permits of one limit. A shard's lock is held for one step in its map.
pub struct Permits {
    pub(crate) hash: Key,
    shards: Box<[Mutex<Shard>]>,
}

/// Exchanges under way by key. A key without any is not here, so there are never more than exchanges.
type Shard = HashMap<u64, PermitQueue>;

#[derive(Default)]
struct PermitQueue {
    count: u32,
    /// First come, first woken.
    waiting: VecDeque<(u64, Waker)>,
}

/// The right to be one of so many; given back on drop.
pub(crate) struct Permit {
    permits: Arc<Permits>,
    key: u64,
}

/// Workers rarely meet in one of so many.
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

    /// A place of the key, of which there are so many.
    pub(crate) fn take(self: &Arc<Permits>, key: u64, max: u32) -> Option<Permit> {
        let mut shard = self.shard(key)?;
        let taken = shard.entry(key).or_default();
        let free = taken.count < max;
        taken.count += u32::from(free);
        free.then(|| Permit { permits: self.clone(), key })
    }

    /// Places of the key that are taken.
    pub(crate) fn taken(&self, key: u64) -> u32 {
        self.shard(key).and_then(|shard| shard.get(&key).map(|taken| taken.count)).unwrap_or(0)
    }

    /// Takes a place, or is woken when one may be free.
    pub(crate) fn poll_take(
        self: &Arc<Permits>,
        cx: &Context<'_>,
        key: u64,
        max: u32,
        id: u64,
    ) -> Poll<Permit> {
        let Some(mut shard) = self.shard(key) else { return Poll::Pending };
        let taken = shard.entry(key).or_default();
        if taken.count < max {
            taken.count += 1;
            return Poll::Ready(Permit { permits: self.clone(), key });
        }
        taken.waiting.retain(|(known, _)| *known != id);
        taken.waiting.push_back((id, cx.waker().clone()));
        Poll::Pending
    }

    /// Keys with a permit or somebody who waits.
    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap().len()).sum()
    }

    fn give_back(&self, key: u64, count: u32) {
        let Some(mut shard) = self.shard(key) else { return };
        let Some(taken) = shard.get_mut(&key) else { return };
        taken.count = taken.count.saturating_sub(count);
        if let Some((_, next)) = taken.waiting.pop_front() {
            next.wake();
        }
        if taken.count == 0 && taken.waiting.is_empty() {
            shard.remove(&key);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.give_back(self.key, 1);
    }
}

/// Somebody who waits; its turn passes on if it goes.
pub(crate) struct PermitWaiter<'p> {
    pub(crate) permits: &'p Permits,
    pub(crate) key: u64,
    pub(crate) id: u64,
}

impl Drop for PermitWaiter<'_> {
    fn drop(&mut self) {
        let Some(mut shard) = self.permits.shard(self.key) else { return };
        let Some(taken) = shard.get_mut(&self.key) else { return };
        let before = taken.waiting.len();
        taken.waiting.retain(|(id, _)| *id != self.id);
        let was_woken = taken.waiting.len() == before;
        drop(shard);
        if was_woken {
            self.permits.give_back(self.key, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_come_back_and_nothing_is_left_of_a_key() {
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
