//! The counts of a limit, for all workers: a bounded table of keys.
//!
//! A key's bucket has a lock of its own, held for the arithmetic of one request. All windows of a key have to agree
//! before any is charged, and an entry must not change its owner meanwhile; with one number per key a lock-free table
//! would do, with several it would charge requests that another window refuses. Two workers meet only in one bucket at one moment.

use std::sync::{Mutex, PoisonError};

use kit::clock::{self, Instant};

use crate::hash::{Hash, Key};

use super::window::{Standing, Window, nanoseconds};

/// Windows of one limit: a second, a minute, a day, and one to spare.
pub const WINDOWS_MAX: usize = 4;

/// Entries of one bucket. At this many, a table half full overflows a bucket once in ten thousand.
const BUCKET_ENTRIES_MAX: usize = 16;

/// Keys with what they owe.
pub struct Counts {
    epoch: Instant,
    /// Kept with what it was used for.
    hash: Key,
    buckets: Box<[Mutex<Vec<Entry>>]>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) key: u64,
    pub(crate) paid_at: [u64; WINDOWS_MAX],
    /// The plan whose windows these are, as the policy numbers them.
    pub(crate) tier: usize,
    /// Requests that other nodes do not know of yet.
    pub(crate) untold: u32,
    /// A request was refused: others' requests may have made the wait longer.
    pub(crate) refused: bool,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// How long it has to wait, in nanoseconds, if it may not pass now.
    pub(crate) wait: Option<u64>,
    /// One for each window.
    pub(crate) standings: [Standing; WINDOWS_MAX],
}

impl Counts {
    /// A table with room for about so many keys.
    pub fn new(keys_max: usize) -> Counts {
        Counts::hashed(keys_max, Key::random())
    }

    /// A table whose keys other nodes hash in the same way, if they know the same text.
    pub fn known_by(keys_max: usize, text: &str) -> Counts {
        Counts::hashed(keys_max, Key::of(text))
    }

    fn hashed(keys_max: usize, hash: Key) -> Counts {
        let buckets = (2 * keys_max / BUCKET_ENTRIES_MAX).next_power_of_two();
        let buckets = (0..buckets).map(|_| Mutex::default()).collect();
        Counts { epoch: clock::now(), hash, buckets }
    }

    /// For the number of a key.
    pub(crate) fn hash(&self) -> Hash {
        self.hash.start()
    }

    /// Charges one request to a key if every window allows it, and else charges nothing.
    pub(crate) fn take(&self, key: u64, tier: usize, windows: &[Window]) -> Taken {
        self.take_at(key, tier, windows, self.now())
    }

    pub(crate) fn now(&self) -> u64 {
        nanoseconds(clock::now().duration_since(self.epoch))
    }

    fn take_at(&self, key: u64, tier: usize, windows: &[Window], now: u64) -> Taken {
        self.with_bucket(key, |bucket| {
            let known = bucket.iter_mut().find(|entry| entry.key == key);
            let mut fresh =
                Entry { key, paid_at: [0; WINDOWS_MAX], tier, untold: 0, refused: false };
            let is_new = known.is_none();
            let entry = known.unwrap_or(&mut fresh);
            let taken = entry.take(windows, now);
            if is_new {
                insert(bucket, fresh, now);
            }
            taken
        })
    }

    /// Every entry that has something to tell, bucket by bucket.
    pub(crate) fn each_untold(&self, mut tell: impl FnMut(&mut Entry)) {
        for bucket in &self.buckets {
            let mut bucket = bucket.lock().unwrap_or_else(PoisonError::into_inner);
            bucket.iter_mut().filter(|entry| entry.untold > 0 || entry.refused).for_each(&mut tell);
        }
    }

    /// Changes the entry of a key, if it is still there.
    pub(crate) fn change(&self, key: u64, change: impl FnOnce(&mut Entry)) {
        self.with_bucket(key, |bucket| {
            if let Some(entry) = bucket.iter_mut().find(|entry| entry.key == key) {
                change(entry);
            }
        });
    }

    fn with_bucket<R>(&self, key: u64, change: impl FnOnce(&mut Vec<Entry>) -> R) -> R
    where
        R: Default,
    {
        // The number of buckets is a power of two, and the key a hash.
        let last = u64::try_from(self.buckets.len().saturating_sub(1)).unwrap_or(u64::MAX);
        let at = usize::try_from(key & last).unwrap_or_default();
        let Some(bucket) = self.buckets.get(at) else { return R::default() };
        change(&mut bucket.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Entry {
    fn take(&mut self, windows: &[Window], now: u64) -> Taken {
        let mut next = self.paid_at;
        let mut wait = None;
        for ((window, paid_at), next) in windows.iter().zip(&self.paid_at).zip(&mut next) {
            match window.take(*paid_at, now) {
                Ok(paid_at) => *next = paid_at,
                Err(longer) => wait = wait.max(Some(longer)),
            }
        }
        self.refused = wait.is_some();
        if wait.is_none() {
            self.paid_at = next;
            self.untold = self.untold.saturating_add(1);
        }
        let mut standings = [Standing::default(); WINDOWS_MAX];
        for ((window, paid_at), standing) in windows.iter().zip(self.paid_at).zip(&mut standings) {
            *standing = window.standing(paid_at, now);
        }
        Taken { wait, standings }
    }

    /// When nothing is owed any more, and the entry says nothing.
    fn ends_at(&self) -> u64 {
        self.paid_at.iter().copied().max().unwrap_or_default()
    }
}

impl Default for Taken {
    fn default() -> Taken {
        Taken { wait: None, standings: [Standing::default(); WINDOWS_MAX] }
    }
}

/// Where a bucket is full, the entry goes that owes nothing, or else the least. Made-up keys come and go; whoever is near
/// its limit stays.
fn insert(bucket: &mut Vec<Entry>, entry: Entry, now: u64) {
    let is_full = bucket.len() >= BUCKET_ENTRIES_MAX;
    let least = bucket.iter_mut().min_by_key(|known| known.ends_at());
    match least {
        Some(least) if is_full || least.ends_at() <= now => *least = entry,
        Some(_) | None => bucket.push(entry),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    fn window(requests: u32, per: u64) -> Window {
        let per = Duration::from_secs(per);
        Window { name: "a".into(), requests, per, burst: requests }
    }

    #[test]
    fn threads_together_pass_exactly_the_burst() {
        let counts = Counts::new(1000);
        let windows = [window(1000, 3600), window(1500, 3600)];
        let passed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let taken = counts.take_at(7, 0, &windows, 1);
                        passed.fetch_add(usize::from(taken.wait.is_none()), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(passed.load(Ordering::Relaxed), 1000);
    }

    #[test]
    fn a_request_that_one_window_refuses_costs_the_others_nothing() {
        let counts = Counts::new(1000);
        let windows = [window(2, 1), window(5, 3600)];
        let pass = |now| counts.take_at(1, 0, &windows, now).wait.is_none();
        let second = 1_000_000_000;
        assert_eq!((0..50).filter(|_| pass(1)).count(), 2);
        assert_eq!((0..50).filter(|_| pass(2 * second)).count(), 2);
        assert_eq!((0..50).filter(|_| pass(4 * second)).count(), 1);
        let taken = counts.take_at(1, 0, &windows, 5 * second);
        assert!(taken.wait.unwrap() > 600 * second, "{taken:?}");
    }

    #[test]
    fn the_table_is_bounded_and_whoever_owes_most_stays() {
        let counts = Counts::new(1000);
        let windows = [window(10, 3600)];
        for _ in 0..10 {
            let _taken = counts.take_at(0, 0, &windows, 1);
        }
        for key in 1..200_000_u64 {
            assert_eq!(counts.take_at(key, 0, &windows, 2).wait, None, "nobody else is locked out");
        }
        let held: usize = counts.buckets.iter().map(|b| b.lock().unwrap().len()).sum();
        assert_eq!(held, counts.buckets.len() * BUCKET_ENTRIES_MAX);
        assert!(counts.take_at(0, 0, &windows, 3).wait.is_some(), "made-up keys washed it out");
    }

    #[test]
    fn room_comes_back_when_debts_are_paid() {
        let counts = Counts::new(1000);
        let windows = [window(1, 1)];
        for round in 0..100_u64 {
            let now = 1 + round * 2_000_000_000;
            (0..100).for_each(|key| {
                assert_eq!(counts.take_at(key << 40 | 3, 0, &windows, now).wait, None)
            });
        }
        let held: usize = counts.buckets.iter().map(|b| b.lock().unwrap().len()).sum();
        assert_eq!(held, BUCKET_ENTRIES_MAX);
    }
}
