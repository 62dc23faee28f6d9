//! The counts of plans for all workers: windows that begin with the first request of a key, and bursts.
//!
//! A request is charged to several keys at once, or to none: the shards of all of them are locked, in order of their index, for the few
//! additions of the decision.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kit::clock::{self, Instant, nanos};
use policy::Quota;

use super::plan::{Burst, PlanLimits, WINDOWS_MAX};
use crate::full_map::make_room;
use crate::hash::{Hash, HashedKey, Key};

/// The counts of all keys.
pub struct PlanCounts {
    epoch: Instant,
    hash: Key,
    shards: Box<[Mutex<Shard>]>,
}

type Shard = HashMap<u64, KeyUse, BuildHasherDefault<HashedKey>>;

/// What a key has used.
#[derive(Debug, Default)]
struct KeyUse {
    /// One window for each quota of the plan by which the key was last charged.
    windows: Box<[UsedWindow]>,
    /// The time up to which the requests so far would extend if they had arrived evenly (GCRA).
    burst: u64,
}

/// One window of a key. Times are nanoseconds since the counts began.
#[derive(Debug, Clone, Copy, Default)]
struct UsedWindow {
    ends: u64,
    requests: u64,
    bytes: u64,
}

/// One plan that a request is charged to.
pub(crate) struct Charge<'p> {
    pub(crate) key: u64,
    pub(crate) limits: &'p PlanLimits,
    /// The refusal's code, for a window and for a burst.
    pub(crate) codes: (u32, u32),
}

/// The reason why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OverPlan {
    pub(crate) code: u32,
    /// Nanoseconds until the request would pass.
    pub(crate) wait: u64,
}

/// A request that passed.
pub(crate) struct Passed {
    /// Whether this is the first request beyond a window of a plan that does not refuse requests.
    pub(crate) first_over: bool,
}

/// The number of shards, enough that workers rarely contend for the same lock.
const SHARDS: usize = 64;

/// The maximum number of keys in one shard, which makes a million in total. A full shard drops the keys whose windows are over, or else the
/// eighth of keys that end first.
const SHARD_KEYS_MAX: usize = 16 * 1024;

/// The maximum number of plans that one request is charged to: those of the API or resource, the subscription and the application.
const CHARGES_MAX: usize = 3;

/// All charges of one request, in the order in which they refuse.
pub(crate) type Charges<'p> = [Option<Charge<'p>>; CHARGES_MAX];

impl Default for PlanCounts {
    fn default() -> PlanCounts {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        PlanCounts { epoch: clock::now(), hash: Key::random(), shards }
    }
}

impl PlanCounts {
    pub(crate) fn hash(&self) -> Hash {
        self.hash.start()
    }

    fn now(&self) -> u64 {
        nanos(clock::now().duration_since(self.epoch))
    }

    /// Charges a request to all of these, or to none if one of them refuses.
    pub(crate) fn take(&self, charges: &Charges<'_>) -> Result<Passed, OverPlan> {
        // Harmless: without a limit there is nothing to count.
        if charges.iter().flatten().all(|charge| charge.limits.is_unlimited()) {
            return Ok(Passed { first_over: false });
        }
        self.take_at(charges, self.now())
    }

    fn take_at(&self, charges: &Charges<'_>, now: u64) -> Result<Passed, OverPlan> {
        let mut guards = self.lock(charges);
        let unused = KeyUse::default();
        // Harmless: a level without a plan charges nothing.
        for charge in charges.iter().flatten() {
            let used = guards.shard(charge.key).and_then(|shard| shard.get(&charge.key));
            let used = used.unwrap_or(&unused);
            if let Some(wait) = used.wait(charge.limits, now) {
                return Err(OverPlan { code: charge.codes.0, wait });
            }
            if let Some(wait) = used.burst_wait(charge.limits, now) {
                return Err(OverPlan { code: charge.codes.1, wait });
            }
        }
        let mut first_over = false;
        // Harmless: a level without a plan charges nothing.
        for charge in charges.iter().flatten().filter(|charge| !charge.limits.is_unlimited()) {
            let Some(shard) = guards.shard(charge.key) else { continue };
            if shard.len() >= SHARD_KEYS_MAX && !shard.contains_key(&charge.key) {
                make_room(shard, SHARD_KEYS_MAX, now, KeyUse::ends);
            }
            first_over |= shard.entry(charge.key).or_default().charge(charge.limits, now);
        }
        Ok(Passed { first_over })
    }

    /// Charges bytes of a request that has passed.
    pub(crate) fn charge_bytes(&self, keys: &[u64], bytes: u64) {
        let now = self.now();
        for key in keys {
            let Some(shard) = self.shards.get(shard_of(*key)) else { continue };
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(used) = shard.get_mut(key) else { continue };
            // Bytes after a window's end belong to no window, since the next one begins with a request.
            for window in used.windows.iter_mut().filter(|window| window.ends > now) {
                window.bytes = window.bytes.saturating_add(bytes);
            }
        }
    }

    /// Locks the shards of all charges, in order of their index, so that workers cannot deadlock.
    fn lock(&self, charges: &Charges<'_>) -> Guards<'_> {
        let mut at = [usize::MAX; CHARGES_MAX];
        // Harmless: there is one item for each charge.
        for (at, charge) in at.iter_mut().zip(charges) {
            let counted = charge.as_ref().filter(|charge| !charge.limits.is_unlimited());
            *at = counted.map_or(usize::MAX, |charge| shard_of(charge.key));
        }
        at.sort_unstable();
        let mut before = usize::MAX;
        let mut guards = [const { None }; CHARGES_MAX];
        // Harmless: a level without a plan charges nothing.
        for (guard, at) in guards.iter_mut().zip(at) {
            if at == before {
                continue;
            }
            before = at;
            *guard = self
                .shards
                .get(at)
                .map(|shard| (at, shard.lock().unwrap_or_else(PoisonError::into_inner)));
        }
        Guards(guards)
    }
}

/// Locked shards, with their indices.
struct Guards<'c>([Option<(usize, MutexGuard<'c, Shard>)>; CHARGES_MAX]);

impl Guards<'_> {
    fn shard(&mut self, key: u64) -> Option<&mut Shard> {
        // Harmless: an item without a lock has no shard.
        let found = self.0.iter_mut().flatten().find(|(at, _)| *at == shard_of(key));
        found.map(|(_, shard)| &mut **shard)
    }
}

fn shard_of(key: u64) -> usize {
    // The shard is chosen by bits that the map within the shard does not use first. Harmless: 32 bits fit in a `usize`.
    usize::try_from(key >> 32).unwrap_or_default() % SHARDS
}

impl PlanLimits {
    fn is_unlimited(&self) -> bool {
        self.requests.is_empty() && self.burst.is_none()
    }
}

impl KeyUse {
    fn ends(&self) -> u64 {
        self.windows.iter().map(|window| window.ends).fold(self.burst, u64::max)
    }

    /// Returns the window at this index, or `None` if it is over or has not begun.
    fn open(&self, at: usize, now: u64) -> Option<UsedWindow> {
        self.windows.get(at).filter(|used| used.ends > now).copied()
    }

    /// Returns the time until the windows let a request pass, or `None` if they let it pass now.
    fn wait(&self, limits: &PlanLimits, now: u64) -> Option<u64> {
        if !limits.stops {
            return None;
        }
        let windows = limits.requests.iter().enumerate();
        // Harmless: a window with a remaining quota needs no wait.
        let waits = windows.filter_map(|(at, quota)| match self.open(at, now) {
            Some(used) => used.is_full(quota).then(|| used.ends - now),
            // A window that is not open has its full quota, which may be zero.
            None => UsedWindow::default().is_full(quota).then(|| nanos(quota.per)),
        });
        waits.max()
    }

    fn burst_wait(&self, limits: &PlanLimits, now: u64) -> Option<u64> {
        let burst = limits.burst?;
        let next = self.burst_after(&burst, now);
        let latest = now.saturating_add(nanos(burst.per));
        (next > latest).then(|| next - latest)
    }

    fn burst_after(&self, burst: &Burst, now: u64) -> u64 {
        let each = nanos(burst.per) / u64::from(burst.requests.max(1));
        self.burst.max(now).saturating_add(each)
    }

    /// Charges one request. Returns true if it is the first beyond a window.
    fn charge(&mut self, limits: &PlanLimits, now: u64) -> bool {
        if let Some(burst) = limits.burst {
            self.burst = self.burst_after(&burst, now);
        }
        let count = limits.requests.len().min(WINDOWS_MAX);
        if self.windows.len() != count {
            let mut windows = std::mem::take(&mut self.windows).into_vec();
            windows.resize(count, UsedWindow::default());
            self.windows = windows.into();
        }
        let mut first_over = false;
        // Harmless: the lines above ensure one window for each quota.
        for (quota, used) in limits.requests.iter().zip(&mut self.windows) {
            if used.ends <= now {
                let ends = now.saturating_add(nanos(quota.per));
                *used = UsedWindow { ends, ..UsedWindow::default() };
            }
            first_over |= quota.messages == Some(used.requests);
            used.requests = used.requests.saturating_add(1);
        }
        first_over
    }
}

impl UsedWindow {
    /// Returns true if the quota is used up. A request passes as long as any bytes are left.
    fn is_full(&self, quota: &Quota) -> bool {
        quota.messages.is_some_and(|max| self.requests >= max)
            || quota.bytes.is_some_and(|max| self.bytes >= max)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn limits(requests: u64, per: u64) -> PlanLimits {
        let window = Quota { messages: Some(requests), bytes: None, per: Duration::from_secs(per) };
        PlanLimits { requests: [window].into(), ..PlanLimits::unlimited() }
    }

    fn charge(key: u64, limits: &PlanLimits) -> Option<Charge<'_>> {
        Some(Charge { key, limits, codes: (900_804, 900_807) })
    }

    #[test]
    fn a_window_begins_with_its_first_request() {
        let (counts, plan) = (PlanCounts::default(), limits(2, 60));
        let take = |now: u64| counts.take_at(&[charge(1, &plan), None, None], now * SECOND);
        assert!(take(50).is_ok() && take(100).is_ok());
        assert_eq!(take(101).err(), Some(OverPlan { code: 900_804, wait: 9 * SECOND }));
        assert!(take(110).is_ok(), "the next window");
        assert!(take(169).is_ok());
        assert!(take(169).is_err());
    }

    #[test]
    fn what_one_plan_refuses_counts_in_none() {
        let (counts, api, application) = (PlanCounts::default(), limits(3, 60), limits(1, 60));
        let take =
            |key: u64| counts.take_at(&[charge(1, &api), charge(key, &application), None], 1);
        assert!(take(2).is_ok());
        for _ in 0..10 {
            assert!(take(2).is_err());
        }
        assert!(take(3).is_ok() && take(4).is_ok(), "the API counted none of these");
        assert!(take(5).is_err(), "three in all");
    }

    #[test]
    fn a_burst_refuses_what_comes_at_once() {
        let counts = PlanCounts::default();
        let burst = Some(Burst { requests: 2, per: Duration::from_secs(1) });
        let plan = PlanLimits { burst, ..limits(100, 60) };
        let take = |now: u64| counts.take_at(&[charge(1, &plan), None, None], now);
        assert!(take(1).is_ok() && take(1).is_ok());
        assert_eq!(take(1).err(), Some(OverPlan { code: 900_807, wait: SECOND / 2 }));
        assert!(take(1 + SECOND / 2).is_ok());
    }

    #[test]
    fn bytes_pass_while_anything_is_left_and_a_plan_need_not_refuse_requests() {
        let counts = PlanCounts::default();
        let window = Quota { messages: None, bytes: Some(100), per: Duration::from_secs(60) };
        let plan = PlanLimits { requests: [window].into(), ..PlanLimits::unlimited() };
        assert!(counts.take(&[charge(1, &plan), None, None]).is_ok());
        counts.charge_bytes(&[1], 99);
        assert!(counts.take(&[charge(1, &plan), None, None]).is_ok());
        counts.charge_bytes(&[1], 1000);
        assert!(counts.take(&[charge(1, &plan), None, None]).is_err());
        let passes = PlanLimits { stops: false, ..limits(1, 60) };
        let first_over = |n: usize| {
            let taken = (0..n).map(|_| counts.take(&[charge(2, &passes), None, None]).ok());
            taken.map(|passed| passed.is_some_and(|passed| passed.first_over)).collect::<Vec<_>>()
        };
        assert_eq!(first_over(3), [false, true, false]);
    }

    #[test]
    fn keys_are_bounded() {
        let (counts, plan) = (PlanCounts::default(), limits(10, 60));
        for key in 0..40_000_u64 {
            assert!(counts.take_at(&[charge(key, &plan), None, None], 1 + key).is_ok());
        }
        let held: usize = counts.shards.iter().map(|shard| shard.lock().unwrap().len()).sum();
        assert!(held <= SHARD_KEYS_MAX, "{held}");
    }

    #[test]
    fn threads_together_pass_exactly_what_each_plan_allows() {
        let counts = PlanCounts::default();
        let (api, one) = (limits(1000, 60), limits(300, 60));
        let passed = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (counts, api, one, passed) = (&counts, &api, &one, &passed);
                scope.spawn(move || {
                    for _ in 0..1000 {
                        let charges = [charge(7 << 32, api), charge(thread << 32, one), None];
                        let taken = counts.take_at(&charges, 1).is_ok();
                        passed.fetch_add(usize::from(taken), std::sync::atomic::Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(passed.into_inner(), 1000);
    }
}
