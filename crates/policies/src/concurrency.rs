//! `concurrency`: so many exchanges under way at once, by whoever asks.
//!
//! Owns the places, over all workers, and who waits for one. A place is given back when the exchange ends, however it
//! ends: it lives in the exchange's slot and goes with them.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fault::{Fault, Kind};
use kit::{SharedAlarm, clock};
use message::RequestHead;
use policy::{Decision, Exchange, Flow, OnCall, OnHead, Onward, Policy, Slot, Slots, Step};

use crate::hash::Key;
use crate::key::KeySource;

/// Settings of the policy.
#[derive(Debug)]
pub struct ConcurrencySettings {
    pub requests: u32,
    pub by: KeySource,
    /// The time for which a request may wait for a place.
    pub wait: Duration,
}

/// The places of one limit. A shard's lock is held for one step in its map.
pub struct Permits {
    hash: Key,
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

struct Limit {
    settings: ConcurrencySettings,
    permits: Arc<Permits>,
    /// The slot in which an exchange has its place.
    slot: Slot<Permit>,
}

/// Workers rarely meet in one of so many.
const SHARDS: usize = 64;

/// When to come again, in seconds: exchanges under way usually end within one.
const RETRY_AFTER: &str = "1";

/// The policy. The places are the plan's before where nothing changed.
pub fn policy(settings: ConcurrencySettings, permits: Arc<Permits>, slots: &mut Slots) -> Policy {
    let waits = !settings.wait.is_zero();
    let limit = Limit { settings, permits, slot: slots.assign() };
    let request: Step<RequestHead> = match waits {
        true => Step::Call(Box::new(limit)),
        false => Step::Head(Box::new(limit)),
    };
    Policy { name: "concurrency", request: Some(request), response: None }
}

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

    /// Takes a place, or is woken when one may be free.
    fn poll_take(
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
struct PermitWaiter<'p> {
    permits: &'p Permits,
    key: u64,
    id: u64,
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

impl Limit {
    fn key(&self, ex: &Exchange, head: &RequestHead) -> u64 {
        self.settings.by.hash(self.permits.hash, ex, head)
    }

    /// The refusal. One who shares a place with everybody is told that the service is busy, anybody else that it asks too much.
    fn refusal(&self) -> Fault {
        let kind = match self.settings.by {
            KeySource::Everybody | KeySource::Operation => Kind::Busy,
            KeySource::Client
            | KeySource::Subject
            | KeySource::Header(_)
            | KeySource::Expression(_) => Kind::RateLimited,
        };
        let cause = format!("{} under way", self.settings.requests);
        Fault::new(kind, cause).with_header("Retry-After", RETRY_AFTER)
    }
}

impl OnHead<RequestHead> for Limit {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let permit = self.permits.take(self.key(ex, head), self.settings.requests);
        self.slot.put(ex, permit.ok_or_else(|| self.refusal())?);
        Ok(Onward::Next)
    }
}

impl OnCall<RequestHead> for Limit {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        let key = self.key(ex, head);
        if let Some(permit) = self.permits.take(key, self.settings.requests) {
            self.slot.put(ex, permit);
            return Decision::Ready(Ok(Onward::Next));
        }
        Decision::Waits(Box::pin(async move {
            let permit = self.wait(key, ex.alarm.clone()).await?;
            self.slot.put(ex, permit);
            Ok(Onward::Next)
        }))
    }
}

impl Limit {
    async fn wait(&self, key: u64, alarm: SharedAlarm) -> Result<Permit, Fault> {
        let id = fastrand::u64(..);
        let waiting = PermitWaiter { permits: &self.permits, key, id };
        alarm.borrow_mut().set(clock::now(), self.settings.wait);
        let taken =
            poll_fn(|cx| match self.permits.poll_take(cx, key, self.settings.requests, id) {
                Poll::Ready(permit) => Poll::Ready(Ok(permit)),
                Poll::Pending => alarm.borrow_mut().poll(cx).map(|()| Err(self.refusal())),
            })
            .await;
        alarm.borrow_mut().clear();
        drop(waiting);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(permits: &Permits) -> usize {
        permits.shards.iter().map(|shard| shard.lock().unwrap().len()).sum()
    }

    #[test]
    fn places_come_back_and_nothing_is_left_of_a_key() {
        let permits = Arc::new(Permits::default());
        let first = permits.take(1, 2);
        let second = permits.take(1, 2);
        assert!(first.is_some() && second.is_some());
        assert!(permits.take(1, 2).is_none());
        assert!(permits.take(2, 2).is_some(), "another key");
        drop(first);
        assert!(permits.take(1, 2).is_some());
        drop(second);
        assert_eq!(left(&permits), 0);
    }

    fn waiting_limit() -> (Arc<Permits>, Limit) {
        let permits = Arc::new(Permits::default());
        let wait = Duration::from_secs(1);
        let settings = ConcurrencySettings { requests: 1, by: KeySource::Everybody, wait };
        (permits.clone(), Limit { settings, permits, slot: Slots::default().assign() })
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_gets_the_place_or_is_refused_in_time() {
        let (permits, limit) = waiting_limit();
        let held = permits.take(1, 1);
        let start = clock::now();
        let refused = limit.wait(1, SharedAlarm::default()).await;
        assert!(refused.is_err_and(|fault| fault.kind == Kind::Busy));
        assert_eq!(start.elapsed().as_secs(), 1);
        let (taken, ()) = tokio::join!(limit.wait(1, SharedAlarm::default()), async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            drop(held);
        });
        assert!(taken.is_ok());
        assert!(start.elapsed() < Duration::from_millis(1100));
        drop(taken);
        assert_eq!(left(&permits), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_turn_of_one_that_goes_passes_on() {
        let (permits, limit) = waiting_limit();
        let held = permits.take(1, 1);
        let mut gone = Box::pin(limit.wait(1, SharedAlarm::default()));
        let mut next = Box::pin(limit.wait(1, SharedAlarm::default()));
        poll_fn(|cx| {
            assert!(gone.as_mut().poll(cx).is_pending() && next.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(held);
        drop(gone);
        assert!(next.await.is_ok());
        assert_eq!(left(&permits), 0);
    }
}
