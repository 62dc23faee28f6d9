//! `concurrency`: limits the number of concurrent exchanges per client or another key.
//!
//! Owns the wait for a permit, and the refusal if there is none. A permit is returned however the exchange ends, because it is in the
//! exchange's slot and is dropped with it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fault::{Fault, Kind};
use kit::{SharedAlarm, clock};
use message::RequestHead;
use policy::{Decision, Exchange, Flow, OnCall, OnHead, Onward, Policy, Slot, Slots, Step};

use crate::key::KeySource;
use crate::permits::{Permit, PermitWaiter, Permits};

/// Settings of the policy.
#[derive(Debug)]
pub struct ConcurrencySettings {
    pub requests: u32,
    pub by: KeySource,
    /// How long a request may wait for a permit.
    pub wait: Duration,
}

struct Limit {
    settings: ConcurrencySettings,
    permits: Arc<Permits>,
    /// The slot that holds the permit of an exchange.
    slot: Slot<Permit>,
}

/// The value of `Retry-After`, in seconds: exchanges usually end within one second.
const RETRY_AFTER: &str = "1";

/// Returns the policy. `permits` are taken over from the previous plan if nothing changed.
pub fn policy(settings: ConcurrencySettings, permits: Arc<Permits>, slots: &mut Slots) -> Policy {
    let waits = !settings.wait.is_zero();
    let limit = Limit { settings, permits, slot: slots.assign() };
    let request: Step<RequestHead> =
        if waits { Step::Call(Box::new(limit)) } else { Step::Head(Box::new(limit)) };
    Policy { name: "concurrency", request: Some(request), response: None }
}

impl Limit {
    fn key(&self, ex: &Exchange, head: &RequestHead) -> u64 {
        self.settings.by.hash(self.permits.hash, ex, head)
    }

    /// Returns the refusal. If all clients share the limit, it states that the service is busy; otherwise, that the client sends too many
    /// requests.
    fn refusal(&self) -> Fault {
        let kind = match self.settings.by {
            KeySource::Everybody | KeySource::Operation => Kind::Busy,
            KeySource::Client
            | KeySource::Subject
            | KeySource::Subscription
            | KeySource::Header(_)
            | KeySource::Expression(_) => Kind::RateLimited,
        };
        let cause = format!("concurrency: {} requests are in progress", self.settings.requests);
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

    fn waiting_limit() -> (Arc<Permits>, Limit) {
        let permits = Arc::new(Permits::default());
        let wait = Duration::from_secs(1);
        let settings = ConcurrencySettings { requests: 1, by: KeySource::Everybody, wait };
        (permits.clone(), Limit { settings, permits, slot: Slots::default().assign() })
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_request_gets_a_permit_or_is_refused_in_time() {
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
        assert_eq!(permits.keys(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_that_is_dropped_passes_its_turn_on() {
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
        assert_eq!(permits.keys(), 0);
    }
}
