//! Quotas of open streams: so many messages and bytes in windows of time, by whoever has the stream. Over all workers.
//!
//! A window begins with the first message in it and ends when its time is over; then all of the quota is there again. This is unlike
//! `rate_limit`, where used requests come back evenly: who waits for the next window has to know when that is.
//!
//! A message passes if it fits in all windows of its client's tier. Only where several gateways count together they tell each other
//! what has passed, see [`shared`].

pub mod shared;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kit::clock::{self, Instant};

use policy::Exchange;
pub use policy::Quota;

use shared::SharedQuotas;

use crate::hash::{Hash, Key};
use crate::permits::Permits;
use crate::tiers::Tiers;

/// The quotas of a client, all of which hold. None: no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tier {
    windows: Box<[Quota]>,
}

/// The quotas of one client.
#[derive(Debug, Clone)]
pub(crate) enum ClientTier {
    /// Those that the policy has for its plan, or for clients without one.
    Numbered(usize),
    /// Those of its subscription's plan.
    Subscribed { plan: Arc<str>, tier: Arc<Tier> },
}

/// The reference system's code for too many connections.
pub(crate) const CONNECTIONS_CODE: u32 = 900_808;

/// Windows that one message may be counted in.
pub const WINDOWS_MAX: usize = 4;

/// The quotas and permits that clients of streams use. They are the previous plan's if nothing changed.
pub struct ClientUse {
    pub quotas: Arc<Quotas>,
    pub permits: Arc<Permits>,
    /// The gateways that count together, if several do.
    pub shared: Option<Arc<SharedQuotas>>,
}

/// The windows of all clients of a policy.
#[derive(Debug)]
pub struct Quotas {
    hash: Key,
    /// Other gateways are told of what passes.
    is_shared: bool,
    shards: Box<[Mutex<Shard>]>,
}

#[derive(Debug, Default)]
struct Shard {
    /// By the client, and the number of the quota among those of its tier.
    windows: HashMap<(u64, usize), UsedWindow, BuildHasherDefault<ClientHash>>,
    /// Those of which others are to be told.
    untold: Vec<(u64, usize)>,
}

/// A window of a client.
#[derive(Debug, Clone, Copy)]
struct UsedWindow {
    ends: Instant,
    per: Duration,
    messages: u64,
    bytes: u64,
    /// The part of these that no other gateway was told of.
    untold: UnreportedUse,
}

/// Messages and bytes that others are told of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct UnreportedUse {
    messages: u64,
    bytes: u64,
}

/// The hash of a client's number, which is one already, by a key that nobody else has: see [`struct@Hash`].
#[derive(Debug, Default)]
struct ClientHash(u64);

impl Hasher for ClientHash {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = self.0.wrapping_add(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Workers rarely meet in one of so many.
const SHARDS: usize = 64;

/// Windows in one shard. Above that those that are over go, or else those that end first. A hundred thousand windows in all.
const SHARD_WINDOWS_MAX: usize = 1600;

/// Windows of one shard that others are to be told of. More of them are not told.
const SHARD_UNTOLD_MAX: usize = 2 * SHARD_WINDOWS_MAX;

impl Default for Quotas {
    fn default() -> Quotas {
        Quotas::hashed(Key::random(), false)
    }
}

impl Tier {
    /// At most [`WINDOWS_MAX`]; the rest would not be counted.
    pub fn new(mut windows: Vec<Quota>) -> Tier {
        // Harmless: a configuration with more of them is refused.
        windows.truncate(WINDOWS_MAX);
        Tier { windows: windows.into() }
    }

    /// The most bytes that fit in an empty window of each.
    pub(crate) fn bytes_max(&self) -> Option<u64> {
        // Harmless: a window that counts no bytes has no bound for them.
        self.windows.iter().filter_map(|quota| quota.bytes).min()
    }

    fn numbered(&self) -> impl Iterator<Item = (usize, &Quota)> {
        self.windows.iter().enumerate()
    }
}

impl ClientTier {
    /// The quotas of the client. If its subscription's plan says nothing of events, the policy has them.
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
    /// Those that other gateways are told of. They number clients in the same way, if they know the same text.
    pub fn known_by(text: &str) -> Quotas {
        Quotas::hashed(Key::of(text), true)
    }

    fn hashed(hash: Key, is_shared: bool) -> Quotas {
        Quotas { hash, is_shared, shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    /// For the number of a client on a tier. Whoever changes its plan begins anew.
    pub(crate) fn hash(&self, tier: &ClientTier) -> Hash {
        let mut hash = self.hash.start();
        match tier {
            ClientTier::Numbered(number) => hash.write(&number.to_le_bytes()),
            ClientTier::Subscribed { plan, .. } => hash.write(plan.as_bytes()),
        }
        hash
    }

    /// Charges a message of so many bytes, and gives the number of messages that are left; or charges nothing, and gives the time until
    /// it would fit.
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
        // The usual tier has one window, and that is open: it is looked up once.
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
            // One that is not open yet begins with the message, if that passes.
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

    /// Charges bytes of a message that passes already.
    pub(crate) fn charge(&self, client: u64, tier: &Tier, bytes: u64) {
        let Some(mut shard) = self.shard(client) else { return };
        for (number, _) in tier.numbered() {
            if let Some(used) = shard.windows.get_mut(&(client, number)) {
                *used = used.with(0, bytes);
                self.note(&mut shard, client, number, UnreportedUse { messages: 0, bytes });
            }
        }
    }

    /// The time until the next message may pass, if none is left.
    pub(crate) fn wait(&self, client: u64, tier: &Tier) -> Option<Duration> {
        let now = clock::now();
        let shard = self.shard(client)?;
        // Harmless: a window in which something is left needs no wait.
        let waits = tier.numbered().filter_map(|(number, quota)| {
            let used = shard.windows.get(&(client, number))?;
            let left = used.ends.checked_duration_since(now).filter(|left| !left.is_zero())?;
            (used.left(quota) == 0).then_some(left)
        });
        waits.max()
    }

    /// Others are to be told of this.
    fn note(&self, shard: &mut Shard, client: u64, number: usize, more: UnreportedUse) {
        if !self.is_shared {
            return;
        }
        let Shard { windows, untold } = shard;
        let Some(used) = windows.get_mut(&(client, number)) else { return };
        if used.untold == UnreportedUse::default() && untold.len() < SHARD_UNTOLD_MAX {
            untold.push((client, number));
        }
        used.untold.messages = used.untold.messages.saturating_add(more.messages);
        used.untold.bytes = used.untold.bytes.saturating_add(more.bytes);
    }

    fn shard(&self, client: u64) -> Option<MutexGuard<'_, Shard>> {
        // By bits that neither choose a place in a shard nor tell the clients there apart.
        let at = usize::try_from((client >> 32) % 64).unwrap_or_default();
        self.shards.get(at).map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shard {
    /// The window that is open now.
    fn window(
        &mut self,
        client: u64,
        number: usize,
        per: Duration,
        now: Instant,
    ) -> &mut UsedWindow {
        let key = (client, number);
        if self.windows.len() >= SHARD_WINDOWS_MAX && !self.windows.contains_key(&key) {
            self.make_room(now);
        }
        let used = self.windows.entry(key).or_insert_with(|| UsedWindow::new(per, now));
        if used.ends <= now {
            *used = UsedWindow::new(per, now);
        }
        used
    }

    fn make_room(&mut self, now: Instant) {
        self.windows.retain(|_, used| used.ends > now);
        if self.windows.len() < SHARD_WINDOWS_MAX {
            return;
        }
        // An eighth at once, so that a crowd of new clients does not look at all of them each time.
        let mut ends: Vec<Instant> = self.windows.values().map(|used| used.ends).collect();
        let (_, first, _) = ends.select_nth_unstable(SHARD_WINDOWS_MAX / 8);
        let first = *first;
        self.windows.retain(|_, used| used.ends > first);
    }
}

impl UsedWindow {
    fn new(per: Duration, now: Instant) -> UsedWindow {
        let ends = now.checked_add(per).unwrap_or(now);
        UsedWindow { ends, per, messages: 0, bytes: 0, untold: UnreportedUse::default() }
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

    /// Messages that are left, of which there are none without a byte.
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
        assert!(quotas.take(1, &tier, 11, clock::now()).is_err(), "it is charged nothing");
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
    async fn clients_are_bounded_and_the_oldest_windows_go() {
        let (quotas, tier) = (Quotas::known_by("us"), tier());
        // As a hash numbers them.
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
        assert!(shards().all(|shard| shard.untold.len() <= SHARD_UNTOLD_MAX));
        assert_eq!(
            quotas.take(client(199_999), &tier, 1, clock::now()),
            Ok(1),
            "the newest is there"
        );
    }
}
