//! The counts of a limit, for all workers: a bounded table of keys.
//!
//! The table is divided into shards, each with a lock that is held for the arithmetic of one request. All windows of a key must accept a
//! request before any is charged, and the slot must not change its owner in between. A lock-free table would be enough for one number per
//! key. With several numbers, it would charge requests that another window refuses.
//!
//! With a hundred thousand clients, the entry of a request is not in the CPU caches. Therefore the data of a request is kept together: a
//! shard is one contiguous allocation, and a slot has only as many numbers as the limit needs.

mod slots;

use std::sync::{Mutex, PoisonError};

use kit::clock::{self, Instant, nanos};

use crate::hash::{Hash, Key};

use super::window::{Algorithm, Window, WindowNumbers, WindowState};
use slots::Slots;

pub(crate) use slots::SlotEntry;

/// The maximum number of windows of one limit: for example a second, a minute, a day, and one more.
pub const WINDOWS_MAX: usize = 4;

/// The number of shards, enough that workers rarely contend for the same lock.
const SHARDS: usize = 64;

/// The counts of all keys of a limit.
pub struct KeyCounts {
    epoch: Instant,
    /// The secret key of the hash. It is kept with the counts, which are stored by that hash.
    hash: Key,
    algorithm: Algorithm,
    shards: Box<[Shard]>,
}

/// Aligned to a cache line, so that workers do not contend for the cache line of another shard.
#[repr(align(64))]
struct Shard(Mutex<Slots>);

/// The verdict on a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CountVerdict {
    /// If the request is refused, the time until it could pass, in nanoseconds.
    pub(crate) wait: Option<u64>,
    /// The state of each window.
    pub(crate) standings: [WindowState; WINDOWS_MAX],
}

impl KeyCounts {
    /// Creates a table for about `keys_max` keys with `windows` windows each.
    pub fn new(keys_max: usize, windows: usize) -> KeyCounts {
        KeyCounts::counting(keys_max, windows, Algorithm::Gcra)
    }

    /// Creates a table that counts by the given algorithm.
    pub fn counting(keys_max: usize, windows: usize, algorithm: Algorithm) -> KeyCounts {
        KeyCounts::hashed(keys_max, windows, algorithm, Key::random(), false)
    }

    /// Creates a table whose counts are shared with other nodes. Nodes that know the same text compute the same hashes.
    pub fn known_by(
        keys_max: usize,
        windows: usize,
        algorithm: Algorithm,
        text: &str,
    ) -> KeyCounts {
        KeyCounts::hashed(keys_max, windows, algorithm, Key::of(text), true)
    }

    fn hashed(
        keys_max: usize,
        windows: usize,
        algorithm: Algorithm,
        hash: Key,
        is_shared: bool,
    ) -> KeyCounts {
        let numbers = windows.clamp(1, WINDOWS_MAX) * algorithm.numbers();
        let slots = 2 * keys_max / SHARDS;
        let shard =
            |_| Shard(Mutex::new(Slots::new(slots, numbers, is_shared, algorithm.is_on_clock())));
        let shards = (0..SHARDS).map(shard).collect();
        KeyCounts { epoch: clock::now(), hash, algorithm, shards }
    }

    pub(crate) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Starts the hash for the number of a key.
    pub(crate) fn hash(&self) -> Hash {
        self.hash.start()
    }

    /// Charges one request to a key if every window allows it; otherwise charges nothing.
    pub(crate) fn take(&self, key: u64, tier: u32, windows: &[Window]) -> CountVerdict {
        self.take_at(key, tier, windows, self.now())
    }

    /// Like `take`, but lets a request pass only if at most `slack` requests of the key are unreported afterwards. If the request would
    /// pass but there would be more, charges nothing and returns `None`: the store must be asked.
    pub(crate) fn take_without_asking(
        &self,
        key: u64,
        tier: u32,
        windows: &[Window],
        slack: u32,
    ) -> Option<CountVerdict> {
        let now = self.now();
        self.with_entry(key, tier, now, |entry| {
            let allowed = entry.unreported < slack;
            let before = *entry;
            let taken = entry.take(windows, now);
            if taken.wait.is_some() || allowed {
                Some(taken)
            } else {
                *entry = before;
                None
            }
        })
    }

    /// Returns whether one more request of a key would pass, and how the key stands. Charges nothing.
    pub(crate) fn look(&self, key: u64, tier: u32, windows: &[Window]) -> CountVerdict {
        let now = self.now();
        self.with_shard(key, |slots| {
            let known = slots.find(key).map(|at| slots.read(at));
            let entry = known.unwrap_or_else(|| SlotEntry::new(key, tier));
            let mut next = entry;
            CountVerdict { standings: entry.standings(windows, now), ..next.take(windows, now) }
        })
    }

    /// Charges a cost to a key, even if it exceeds the limit. If a window has nothing left and the cost is not `owed`, charges nothing.
    pub(crate) fn spend(
        &self,
        key: u64,
        tier: u32,
        windows: &[Window],
        cost: u32,
        owed: bool,
    ) -> CountVerdict {
        let now = self.now();
        self.with_entry(key, tier, now, |entry| {
            let mut next = *entry;
            let wait = next.take(windows, now).wait.filter(|_| !owed);
            if wait.is_none() {
                for (at, window) in windows.iter().enumerate() {
                    let numbers = window.add(entry.numbers_of(at, window), cost, now);
                    entry.set_numbers_of(at, window, numbers);
                }
                entry.unreported = entry.unreported.saturating_add(cost);
            }
            entry.refused = wait.is_some();
            CountVerdict { wait, standings: entry.standings(windows, now) }
        })
    }

    pub(crate) fn now(&self) -> u64 {
        if self.algorithm.is_on_clock() {
            return nanos(clock::wall());
        }
        nanos(clock::now().duration_since(self.epoch))
    }

    fn take_at(&self, key: u64, tier: u32, windows: &[Window], now: u64) -> CountVerdict {
        self.with_entry(key, tier, now, |entry| entry.take(windows, now))
    }

    /// Changes the entry of a key, which is created if necessary.
    pub(crate) fn with_entry<R: Default>(
        &self,
        key: u64,
        tier: u32,
        now: u64,
        change: impl FnOnce(&mut SlotEntry) -> R,
    ) -> R {
        self.with_shard(key, |slots| match slots.find(key) {
            Some(at) => {
                let mut entry = slots.read(at);
                let changed = change(&mut entry);
                slots.write(at, &entry);
                changed
            }
            None => {
                let mut entry = SlotEntry::new(key, tier);
                let changed = change(&mut entry);
                slots.insert(&entry, now);
                changed
            }
        })
    }

    /// Calls `tell` for every entry with unreported counts or a refused request, shard by shard.
    pub(crate) fn each_unreported(&self, mut tell: impl FnMut(&mut SlotEntry)) {
        for shard in &self.shards {
            let mut slots = shard.0.lock().unwrap_or_else(PoisonError::into_inner);
            for at in 0..slots.len() {
                let mut entry = slots.read(at);
                if entry.unreported > 0 || entry.refused {
                    tell(&mut entry);
                    slots.write(at, &entry);
                }
            }
        }
    }

    /// Changes the entry of a key, if it still exists.
    pub(crate) fn change(&self, key: u64, change: impl FnOnce(&mut SlotEntry)) {
        self.with_shard(key, |slots| {
            if let Some(at) = slots.find(key) {
                let mut entry = slots.read(at);
                change(&mut entry);
                slots.write(at, &entry);
            }
        });
    }

    fn with_shard<R: Default>(&self, key: u64, change: impl FnOnce(&mut Slots) -> R) -> R {
        // The key is a hash. The slots within a shard use other bits of it.
        let at = usize::try_from(key % 64).unwrap_or_default();
        let Some(shard) = self.shards.get(at) else { return R::default() };
        change(&mut shard.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SlotEntry {
    fn take(&mut self, windows: &[Window], now: u64) -> CountVerdict {
        let before = *self;
        let mut wait = None;
        for (at, window) in windows.iter().enumerate() {
            match window.charge(before.numbers_of(at, window), now) {
                Ok(next) => self.set_numbers_of(at, window, next),
                Err(longer) => wait = wait.max(Some(longer)),
            }
        }
        if wait.is_some() {
            *self = before;
        }
        self.refused = wait.is_some();
        self.unreported = self.unreported.saturating_add(u32::from(wait.is_none()));
        CountVerdict { wait, standings: self.standings(windows, now) }
    }

    fn standings(&self, windows: &[Window], now: u64) -> [WindowState; WINDOWS_MAX] {
        let mut standings = [WindowState::default(); WINDOWS_MAX];
        // Harmless: there is one state for each window of a limit.
        for ((at, window), standing) in windows.iter().enumerate().zip(&mut standings) {
            *standing = window.state(self.numbers_of(at, window), now);
        }
        standings
    }

    /// Returns the numbers of the window at this index.
    pub(crate) fn numbers_of(&self, at: usize, window: &Window) -> WindowNumbers {
        let each = window.algorithm.numbers();
        let number = |nth: usize| self.numbers.get(at * each + nth).copied().unwrap_or(0);
        [number(0), if each > 1 { number(1) } else { 0 }]
    }

    pub(crate) fn set_numbers_of(&mut self, at: usize, window: &Window, numbers: WindowNumbers) {
        let each = window.algorithm.numbers();
        // Harmless: a window has as many slots as its algorithm has numbers.
        let places = self.numbers.iter_mut().skip(at * each).take(each).zip(numbers);
        places.for_each(|(place, number)| *place = number);
    }
}

impl CountVerdict {
    /// Builds the verdict from the store's answer: the resulting numbers of each window at `now`.
    pub(crate) fn from_store(
        windows: &[Window],
        passes: bool,
        numbers: &[WindowNumbers],
        now: u64,
    ) -> CountVerdict {
        let mut standings = [WindowState::default(); WINDOWS_MAX];
        let mut wait = 1;
        // Harmless: there is one set of numbers and one state for each window of a limit.
        for ((window, numbers), standing) in windows.iter().zip(numbers).zip(&mut standings) {
            *standing = window.state(*numbers, now);
            wait = wait.max(window.charge(*numbers, now).err().unwrap_or(0));
        }
        CountVerdict { wait: (!passes).then_some(wait), standings }
    }
}

impl Default for CountVerdict {
    fn default() -> CountVerdict {
        CountVerdict { wait: None, standings: [WindowState::default(); WINDOWS_MAX] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    fn window(requests: u32, per: u64) -> Window {
        Window::new("a", requests, Duration::from_secs(per), requests)
    }

    /// Returns a hash for a test key.
    fn key(number: u64) -> u64 {
        let mut hash = Key::of("test").start();
        hash.write(&number.to_le_bytes());
        hash.finish()
    }

    fn held(counts: &KeyCounts) -> usize {
        counts.shards.iter().map(|shard| shard.0.lock().unwrap().len()).sum()
    }

    #[test]
    fn threads_together_pass_exactly_the_burst() {
        let counts = KeyCounts::new(1000, 2);
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
        let counts = KeyCounts::new(1000, 2);
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
    fn the_table_is_bounded_and_keeps_the_largest_debts() {
        let counts = KeyCounts::new(1000, 1);
        let windows = [window(10, 3600)];
        for _ in 0..10 {
            let _ = counts.take_at(key(0), 0, &windows, 1);
        }
        for number in 1..200_000_u64 {
            let taken = counts.take_at(key(number), 0, &windows, 2);
            assert_eq!(taken.wait, None, "nobody else is locked out");
        }
        assert_eq!(held(&counts), 2048);
        assert!(counts.take_at(key(0), 0, &windows, 3).wait.is_some(), "its entry was replaced");
    }

    #[test]
    fn a_table_counts_the_requested_number_of_keys_separately() {
        let counts = KeyCounts::new(10_000, 1);
        let windows = [window(3, 3600)];
        for pass in [true, true, true, false] {
            let passed = |number| counts.take_at(key(number), 0, &windows, 1).wait.is_none();
            let of = (0..10_000).filter(|number| passed(*number) == pass).count();
            assert!(of > 9_990, "{of}");
        }
    }

    #[test]
    fn slots_are_reused_once_debts_are_paid_back() {
        let counts = KeyCounts::new(1000, 1);
        let windows = [window(1, 1)];
        for round in 0..100_u64 {
            let now = 1 + round * 2_000_000_000;
            (0..100).for_each(|number| {
                assert_eq!(counts.take_at(key(round * 100 + number), 0, &windows, now).wait, None);
            });
        }
        assert!(held(&counts) <= SHARDS * 16, "{}", held(&counts));
    }
}
