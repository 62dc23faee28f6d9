//! Quotas of open streams: so many messages and bytes in a window of time, by whoever has the stream. Over all workers.
//!
//! A window begins with the first message in it and ends when its time is over; then all of the quota is there again. This is unlike
//! `rate_limit`, where used requests come back evenly: who waits for the next window has to know when that is.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kit::clock::{self, Instant};

use crate::hash::{Hash, Key};

/// A quota of one stream or client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    pub messages: Option<u64>,
    pub bytes: Option<u64>,
    pub per: Duration,
}

/// The windows of all clients of a policy.
#[derive(Debug)]
pub struct Quotas {
    hash: Key,
    shards: Box<[Mutex<Shard>]>,
}

type Shard = HashMap<u64, Used>;

/// The window of a client.
#[derive(Debug, Clone, Copy)]
struct Used {
    began: Instant,
    messages: u64,
    bytes: u64,
}

/// Workers rarely meet in one of so many.
const SHARDS: usize = 64;

/// Clients in one shard. Above that windows that are over go, or else the oldest. A hundred thousand clients in all.
const SHARD_CLIENTS_MAX: usize = 1600;

impl Default for Quotas {
    fn default() -> Quotas {
        Quotas { hash: Key::random(), shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl Quotas {
    /// For the number of a client.
    pub(crate) fn hash(&self) -> Hash {
        self.hash.start()
    }

    /// Charges a message of so many bytes, and gives the number of messages that are left; or charges nothing, and gives the time until
    /// the next window.
    pub(crate) fn take(&self, client: u64, quota: &Quota, bytes: u64) -> Result<u64, Duration> {
        let now = clock::now();
        let Some(mut shard) = self.shard(client) else { return Ok(u64::MAX) };
        if shard.len() >= SHARD_CLIENTS_MAX && !shard.contains_key(&client) {
            make_room(&mut shard, quota.per, now);
        }
        let used = shard.entry(client).or_insert(Used { began: now, messages: 0, bytes: 0 });
        let age = now.duration_since(used.began);
        if age >= quota.per {
            *used = Used { began: now, messages: 0, bytes: 0 };
        }
        let (messages, bytes) = (used.messages + 1, used.bytes.saturating_add(bytes));
        let is_over = quota.messages.is_some_and(|max| messages > max)
            || quota.bytes.is_some_and(|max| bytes > max);
        if is_over {
            return Err(quota.per.saturating_sub(now.duration_since(used.began)));
        }
        (used.messages, used.bytes) = (messages, bytes);
        Ok(quota.messages.map_or(u64::MAX, |max| max - messages))
    }

    /// Charges bytes of a message that passes already.
    pub(crate) fn charge(&self, client: u64, bytes: u64) {
        if let Some(used) = self.shard(client).as_mut().and_then(|shard| shard.get_mut(&client)) {
            used.bytes = used.bytes.saturating_add(bytes);
        }
    }

    /// The time until the next window, if no message is left in this one.
    pub(crate) fn wait(&self, client: u64, quota: &Quota) -> Option<Duration> {
        let shard = self.shard(client)?;
        let used = shard.get(&client)?;
        let left = quota.per.checked_sub(clock::now().duration_since(used.began))?;
        let is_spent = quota.messages.is_some_and(|max| used.messages >= max)
            || quota.bytes.is_some_and(|max| used.bytes >= max);
        (is_spent && !left.is_zero()).then_some(left)
    }

    fn shard(&self, client: u64) -> Option<MutexGuard<'_, Shard>> {
        let at = usize::try_from(client % 64).unwrap_or_default();
        self.shards.get(at).map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn make_room(shard: &mut Shard, per: Duration, now: Instant) {
    shard.retain(|_, used| now.duration_since(used.began) < per);
    if shard.len() < SHARD_CLIENTS_MAX {
        return;
    }
    // An eighth at once, so that a crowd of new clients does not look at all of them each time.
    let mut began: Vec<Instant> = shard.values().map(|used| used.began).collect();
    let (_, oldest, _) = began.select_nth_unstable(SHARD_CLIENTS_MAX / 8);
    let oldest = *oldest;
    shard.retain(|_, used| used.began > oldest);
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: Quota =
        Quota { messages: Some(3), bytes: Some(100), per: Duration::from_secs(10) };

    #[tokio::test(start_paused = true)]
    async fn a_window_has_its_quota_and_the_next_has_it_again() {
        let quotas = Quotas::default();
        for left in [2, 1, 0] {
            assert_eq!(quotas.wait(1, &QUOTA), None);
            assert_eq!(quotas.take(1, &QUOTA, 1), Ok(left));
        }
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(quotas.take(1, &QUOTA, 1), Err(Duration::from_secs(1)));
        assert_eq!(quotas.wait(1, &QUOTA), Some(Duration::from_secs(1)));
        assert_eq!(quotas.take(2, &QUOTA, 1), Ok(2), "another client");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(quotas.wait(1, &QUOTA), None);
        assert_eq!(quotas.take(1, &QUOTA, 1), Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_passes_only_if_its_bytes_fit() {
        let quotas = Quotas::default();
        assert_eq!(quotas.take(1, &QUOTA, 90), Ok(2));
        assert!(quotas.take(1, &QUOTA, 11).is_err(), "it is charged nothing");
        assert_eq!(quotas.take(1, &QUOTA, 10), Ok(1));
        assert_eq!(quotas.wait(1, &QUOTA), Some(QUOTA.per), "no byte is left");
        let again = Quotas::default();
        assert_eq!(again.take(1, &QUOTA, 1), Ok(2));
        again.charge(1, 1000);
        assert!(again.take(1, &QUOTA, 1).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn clients_are_bounded_and_the_oldest_windows_go() {
        let quotas = Quotas::default();
        for client in 0..200_000 {
            if client % 1000 == 0 {
                tokio::time::advance(Duration::from_millis(1)).await;
            }
            assert_eq!(quotas.take(client, &QUOTA, 1), Ok(2));
        }
        let held: usize = quotas.shards.iter().map(|shard| shard.lock().unwrap().len()).sum();
        assert!(held <= SHARDS * SHARD_CLIENTS_MAX && held > 50_000, "{held}");
        assert_eq!(quotas.take(199_999, &QUOTA, 1), Ok(1), "the newest is there");
    }
}
