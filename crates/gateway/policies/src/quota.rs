//! Quotas of open streams: a maximum number of messages and bytes per window of time and client, over all workers.
//!
//! A window begins with its first message and ends when its time is over. Then the full quota is available again. This differs from
//! `rate_limit`, which refills evenly: a stream that waits for the next window must know when it begins.
//!
//! A message passes if it fits in all windows of its client's tier. If several gateways share counts, they report to each other what has
//! passed, see [`shared`].

pub mod shared;

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kit::clock::{self, Instant};

use policy::Exchange;
pub use policy::Quota;

use shared::SharedQuotas;

use crate::full_map::make_room;
use crate::hash::{Hash, HashedKey, Key};
use crate::permits::Permits;
use crate::tiers::Tiers;

/// A set of quotas that all apply to the same client. Without quotas, there is no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tier {
    windows: Box<[Quota]>,
}

/// The tier that applies to one client.
#[derive(Debug, Clone)]
pub(crate) enum ClientTier {
    /// The index of the policy's quotas for the client's plan, or for clients without a plan.
    Numbered(usize),
    /// The quotas of the plan of the client's subscription.
    Subscribed { plan: Arc<str>, tier: Arc<Tier> },
}

/// The code of WSO2's API Manager for too many connections.
pub(crate) const CONNECTIONS_CODE: u32 = 900_808;

/// The maximum number of windows in which one message is counted.
pub const WINDOWS_MAX: usize = 4;

/// The quotas and permits in use by clients of streams. They are taken over from the previous plan if nothing changed.
pub struct ClientUse {
    pub quotas: Arc<Quotas>,
    pub permits: Arc<Permits>,
    /// The counts shared with other gateways, if any.
    pub shared: Option<Arc<SharedQuotas>>,
}

/// The windows of all clients of a policy.
#[derive(Debug)]
pub struct Quotas {
    hash: Key,
    /// Whether counts are reported to other gateways.
    is_shared: bool,
    shards: Box<[Mutex<Shard>]>,
}

#[derive(Debug, Default)]
struct Shard {
    /// The windows by client, and by index of the quota in its tier.
    windows: HashMap<(u64, usize), UsedWindow, BuildHasherDefault<HashedKey>>,
    /// The windows with counts to report to other gateways.
    unreported: Vec<(u64, usize)>,
}

/// A window of a client.
#[derive(Debug, Clone, Copy)]
struct UsedWindow {
    ends: Instant,
    per: Duration,
    messages: u64,
    bytes: u64,
    /// The part of these counts that is not reported yet.
    unreported: UnreportedUse,
}

/// Messages and bytes to report to other gateways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct UnreportedUse {
    messages: u64,
    bytes: u64,
}

/// The number of shards, enough that workers rarely contend for the same lock.
const SHARDS: usize = 64;

/// The maximum number of windows in one shard, which makes a hundred thousand in total. Beyond it, expired windows are dropped, or else
/// those that end first.
const SHARD_WINDOWS_MAX: usize = 1600;

/// The maximum number of windows in one shard with counts to report. More are not reported.
const SHARD_UNREPORTED_MAX: usize = 2 * SHARD_WINDOWS_MAX;

impl Default for Quotas {
    fn default() -> Quotas {
        Quotas::hashed(Key::random(), false)
    }
}

impl Tier {
    /// Creates a tier with at most [`WINDOWS_MAX`] windows. More are dropped.
    pub fn new(mut windows: Vec<Quota>) -> Tier {
        // Harmless: a configuration with more windows is refused.
        windows.truncate(WINDOWS_MAX);
        Tier { windows: windows.into() }
    }

    /// Returns the maximum size of a message that fits in all windows when they are empty.
    pub(crate) fn bytes_max(&self) -> Option<u64> {
        // Harmless: a window that does not count bytes does not limit them.
        self.windows.iter().filter_map(|quota| quota.bytes).min()
    }

    fn numbered(&self) -> impl Iterator<Item = (usize, &Quota)> {
        self.windows.iter().enumerate()
    }
}

impl ClientTier {
    /// Returns the tier of the client. The quotas on events in the plan of its subscription apply if there are any and the policy has
    /// quotas by plan. Otherwise, the quotas of the policy apply.
    pub(crate) fn of(tiers: &Tiers<Tier>, ex: &Exchange) -> ClientTier {
        let subscribed = ex.subscription.as_ref().filter(|_| tiers.has_plans());
        if let Some(subscribed) = subscribed
            && let Some(events) = &subscribed.events
        {
            let tier = Arc::new(Tier::new(events.to_vec()));
            return ClientTier::Subscribed { plan: subscribed.plan.clone(), tier };
        }
        ClientTier::Numbered(tiers.of(ex).map_or(0, |(index, _)| index))
    }

    pub(crate) fn get<'t>(&'t self, tiers: &'t Tiers<Tier>) -> Option<&'t Tier> {
        match self {
            ClientTier::Numbered(number) => tiers.get(*number),
            ClientTier::Subscribed { tier, .. } => Some(tier),
        }
    }
}

impl Quotas {
    /// Creates quotas that are shared with other gateways. Gateways that know the same text compute the same numbers for clients.
    pub fn known_by(text: &str) -> Quotas {
        Quotas::hashed(Key::of(text), true)
    }

    fn hashed(hash: Key, is_shared: bool) -> Quotas {
        Quotas { hash, is_shared, shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    /// Starts the hash for the number of a client on a tier. A client that changes its plan starts with new counts.
    pub(crate) fn hash(&self, tier: &ClientTier) -> Hash {
        let mut hash = self.hash.start();
        match tier {
            ClientTier::Numbered(number) => hash.write(&number.to_le_bytes()),
            ClientTier::Subscribed { plan, .. } => hash.write(plan.as_bytes()),
        }
        hash
    }

    /// Charges a message of `bytes` bytes and returns the number of messages that are left. If it does not fit, charges nothing and returns
    /// the time until it would fit.
    pub(crate) fn take(
        &self,
        client: u64,
        tier: &Tier,
        bytes: u64,
        now: Instant,
    ) -> Result<u64, Duration> {
        if tier.windows.is_empty() {
            return Ok(u64::MAX);
        }
        let Some(mut shard) = self.shard(client) else { return Ok(u64::MAX) };
        // The common case is a tier with one window that is already open, which takes one look-up.
        if let [quota] = &*tier.windows
            && let Some(used) = shard.windows.get_mut(&(client, 0)).filter(|used| used.ends > now)
        {
            let with = used.with(1, bytes);
            if !with.is_within(quota) {
                return Err(used.ends.saturating_duration_since(now));
            }
            *used = with;
            self.note(&mut shard, client, 0, UnreportedUse { messages: 1, bytes });
            return Ok(with.left(quota));
        }
        let mut wait = None;
        for (number, quota) in tier.numbered() {
            let open = shard.windows.get(&(client, number)).filter(|used| used.ends > now);
            // A window that is not open yet begins with this message, if the message passes.
            let used = open.copied().unwrap_or_else(|| UsedWindow::new(quota.per, now));
            if !used.with(1, bytes).is_within(quota) {
                wait = wait.max(Some(used.ends.saturating_duration_since(now)));
            }
        }
        if let Some(wait) = wait {
            return Err(wait);
        }
        let mut left = u64::MAX;
        for (number, quota) in tier.numbered() {
            let used = shard.window(client, number, quota.per, now);
            *used = used.with(1, bytes);
            left = left.min(used.left(quota));
            self.note(&mut shard, client, number, UnreportedUse { messages: 1, bytes });
        }
        Ok(left)
    }

    /// Charges bytes of a message that is already being passed.
    pub(crate) fn charge(&self, client: u64, tier: &Tier, bytes: u64) {
        let Some(mut shard) = self.shard(client) else { return };
        for (number, _) in tier.numbered() {
            if let Some(used) = shard.windows.get_mut(&(client, number)) {
                *used = used.with(0, bytes);
                self.note(&mut shard, client, number, UnreportedUse { messages: 0, bytes });
            }
        }
    }

    /// Returns the time until the next message may pass, if the quota is used up.
    pub(crate) fn wait(&self, client: u64, tier: &Tier) -> Option<Duration> {
        let now = clock::now();
        let shard = self.shard(client)?;
        // Harmless: a window with a remaining quota needs no wait.
        let waits = tier.numbered().filter_map(|(number, quota)| {
            let used = shard.windows.get(&(client, number))?;
            let left = used.ends.checked_duration_since(now).filter(|left| !left.is_zero())?;
            (used.left(quota) == 0).then_some(left)
        });
        waits.max()
    }

    /// Records counts to report to other gateways.
    fn note(&self, shard: &mut Shard, client: u64, number: usize, more: UnreportedUse) {
        if !self.is_shared {
            return;
        }
        let Shard { windows, unreported } = shard;
        let Some(used) = windows.get_mut(&(client, number)) else { return };
        if used.unreported == UnreportedUse::default() && unreported.len() < SHARD_UNREPORTED_MAX {
            unreported.push((client, number));
        }
        used.unreported.messages = used.unreported.messages.saturating_add(more.messages);
        used.unreported.bytes = used.unreported.bytes.saturating_add(more.bytes);
    }

    fn shard(&self, client: u64) -> Option<MutexGuard<'_, Shard>> {
        // The shard is chosen by bits of the number that the map within the shard does not use.
        let at = usize::try_from((client >> 32) % 64).unwrap_or_default();
        self.shards.get(at).map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shard {
    /// Returns the open window of a client. Opens one if there is none.
    fn window(
        &mut self,
        client: u64,
        number: usize,
        per: Duration,
        now: Instant,
    ) -> &mut UsedWindow {
        let key = (client, number);
        if self.windows.len() >= SHARD_WINDOWS_MAX && !self.windows.contains_key(&key) {
            make_room(&mut self.windows, SHARD_WINDOWS_MAX, now, |used| used.ends);
        }
        let used = self.windows.entry(key).or_insert_with(|| UsedWindow::new(per, now));
        if used.ends <= now {
            *used = UsedWindow::new(per, now);
        }
        used
    }
}

impl UsedWindow {
    fn new(per: Duration, now: Instant) -> UsedWindow {
        let ends = now.checked_add(per).unwrap_or(now);
        UsedWindow { ends, per, messages: 0, bytes: 0, unreported: UnreportedUse::default() }
    }

    fn with(self, messages: u64, bytes: u64) -> UsedWindow {
        UsedWindow {
            messages: self.messages.saturating_add(messages),
            bytes: self.bytes.saturating_add(bytes),
            ..self
        }
    }

    fn is_within(&self, quota: &Quota) -> bool {
        quota.messages.is_none_or(|max| self.messages <= max)
            && quota.bytes.is_none_or(|max| self.bytes <= max)
    }

    /// Returns the number of messages that are left. If no bytes are left, no messages are.
    fn left(&self, quota: &Quota) -> u64 {
        if quota.bytes.is_some_and(|max| self.bytes >= max) {
            0
        } else {
            quota.messages.map_or(u64::MAX, |max| max.saturating_sub(self.messages))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECONDS: fn(u64) -> Duration = Duration::from_secs;

    fn tier() -> Tier {
        Tier::new(vec![Quota { messages: Some(3), bytes: Some(100), per: SECONDS(10) }])
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_has_its_quota_and_the_next_has_it_again() {
        let (quotas, tier) = (Quotas::default(), tier());
        for left in [2, 1, 0] {
            assert_eq!(quotas.wait(1, &tier), None);
            assert_eq!(quotas.take(1, &tier, 1, clock::now()), Ok(left));
        }
        tokio::time::advance(SECONDS(9)).await;
        assert_eq!(quotas.take(1, &tier, 1, clock::now()), Err(SECONDS(1)));
        assert_eq!(quotas.wait(1, &tier), Some(SECONDS(1)));
        assert_eq!(quotas.take(2, &tier, 1, clock::now()), Ok(2), "another client");
        tokio::time::advance(SECONDS(1)).await;
        assert_eq!(quotas.wait(1, &tier), None);
        assert_eq!(quotas.take(1, &tier, 1, clock::now()), Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_passes_only_if_its_bytes_fit() {
        let (quotas, tier) = (Quotas::default(), tier());
        assert_eq!(quotas.take(1, &tier, 90, clock::now()), Ok(2));
        assert!(
            quotas.take(1, &tier, 11, clock::now()).is_err(),
            "it does not fit, and nothing is charged"
        );
        assert_eq!(quotas.take(1, &tier, 10, clock::now()), Ok(0), "no byte is left");
        assert_eq!(quotas.wait(1, &tier), Some(SECONDS(10)));
        let again = Quotas::default();
        assert_eq!(again.take(1, &tier, 1, clock::now()), Ok(2));
        again.charge(1, &tier, 1000);
        assert!(again.take(1, &tier, 1, clock::now()).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_fits_in_all_windows_or_uses_up_none() {
        let quotas = Quotas::default();
        let tier = Tier::new(vec![
            Quota { messages: Some(4), bytes: None, per: SECONDS(100) },
            Quota { messages: Some(2), bytes: None, per: SECONDS(1) },
            Quota { messages: None, bytes: Some(50), per: SECONDS(10) },
        ]);
        assert_eq!(quotas.take(1, &tier, 10, clock::now()), Ok(1));
        assert_eq!(quotas.take(1, &tier, 10, clock::now()), Ok(0));
        assert_eq!(quotas.take(1, &tier, 10, clock::now()), Err(SECONDS(1)), "two a second");
        tokio::time::advance(SECONDS(1)).await;
        assert_eq!(
            quotas.take(1, &tier, 31, clock::now()),
            Err(SECONDS(9)),
            "50 bytes in ten seconds"
        );
        assert_eq!(quotas.take(1, &tier, 30, clock::now()), Ok(0), "no byte is left");
        tokio::time::advance(SECONDS(9)).await;
        assert_eq!(quotas.take(1, &tier, 0, clock::now()), Ok(0));
        tokio::time::advance(SECONDS(5)).await;
        assert_eq!(quotas.take(1, &tier, 0, clock::now()), Err(SECONDS(85)), "four in all");
        assert_eq!(quotas.wait(1, &tier), Some(SECONDS(85)));
        assert_eq!(
            quotas.take(1, &Tier::default(), 1 << 40, clock::now()),
            Ok(u64::MAX),
            "no limit"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_windows_is_bounded_and_the_oldest_are_dropped() {
        let (quotas, tier) = (Quotas::known_by("us"), tier());
        // Numbers that are spread like hashes.
        let client = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for n in 0..200_000 {
            if n % 1000 == 0 {
                tokio::time::advance(Duration::from_millis(1)).await;
            }
            assert_eq!(quotas.take(client(n), &tier, 1, clock::now()), Ok(2));
        }
        let shards = || quotas.shards.iter().map(|shard| shard.lock().unwrap());
        let held: usize = shards().map(|shard| shard.windows.len()).sum();
        assert!(held <= SHARDS * SHARD_WINDOWS_MAX && held > 50_000, "{held}");
        assert!(shards().all(|shard| shard.unreported.len() <= SHARD_UNREPORTED_MAX));
        assert_eq!(
            quotas.take(client(199_999), &tier, 1, clock::now()),
            Ok(1),
            "the newest is there"
        );
    }
}
