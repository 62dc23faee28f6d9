//! The jobs of a worker that are in progress, and its connections to callbacks.
//!
//! Owns the limit on jobs in progress. The agenda decides when a job starts, and `outcomes` handles its result.

use std::rc::Rc;
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use kit::LocalBoxFuture;

use crate::callbacks::{Callbacks, Origin};
use crate::compact::CompactSubscription;
use crate::jobs::JobOutcome;
use crate::places::{PLACES_MAX, RequestCounters, RequestPermit};
use crate::subscription::Id;

/// The maximum number of jobs in progress on a worker: [`PLACES_MAX`] requests to callbacks, and 256 reads and writes of the store. The
/// latter are added so that leases end and events are read even while no callback answers.
const UNDER_WAY_MAX: usize = PLACES_MAX + 256;

/// The jobs in progress of a worker, and its callbacks.
pub(crate) struct Sending {
    callbacks: Rc<Callbacks>,
    under_way: FuturesUnordered<LocalBoxFuture<'static, JobOutcome>>,
}

/// The result of asking for a permit.
pub(crate) enum Permit {
    Granted(RequestPermit),
    /// No permit is free. The subscription waits, and becomes ready again once a permit is returned.
    Waits,
    /// The callback's URL cannot be used.
    Unusable,
}

impl Sending {
    pub(crate) fn new(callbacks: Callbacks) -> Sending {
        Sending { callbacks: Rc::new(callbacks), under_way: FuturesUnordered::new() }
    }

    pub(crate) fn start(&self, job: LocalBoxFuture<'static, JobOutcome>) {
        self.under_way.push(job);
    }

    /// Ready with the result of the next job that ends. Pending if no job is in progress.
    pub(crate) fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<JobOutcome> {
        match self.under_way.poll_next_unpin(cx) {
            Poll::Ready(Some(ended)) => Poll::Ready(ended),
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.under_way.len() < UNDER_WAY_MAX
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Takes a permit for a request to a subscription's callback. If none is free, the subscription waits for one.
    pub(crate) fn permit_or_wait(&self, id: Id, subscription: &CompactSubscription) -> Permit {
        let Some(origin) = self.callbacks.origin(&subscription.callback) else {
            return Permit::Unusable;
        };
        self.counters(origin, subscription).begin_or_wait(id).map_or(Permit::Waits, Permit::Granted)
    }

    /// Takes a permit for a request to a subscription's callback. Returns `None` if none is free.
    pub(crate) fn permit(&self, subscription: &CompactSubscription) -> Option<RequestPermit> {
        let origin = self.callbacks.origin(&subscription.callback)?;
        self.counters(origin, subscription).begin()
    }

    fn counters(&self, origin: Rc<Origin>, subscription: &CompactSubscription) -> RequestCounters {
        let (all, subject) = (self.callbacks.all.clone(), subscription.common.usage.clone());
        RequestCounters { all, subject, origin }
    }

    /// Drops all jobs, and all subscriptions that wait for a permit.
    pub(crate) fn clear(&mut self) {
        self.under_way.clear();
        self.callbacks.clear_waiting();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::time::Duration;

    use super::*;
    use crate::jobs;

    /// Sets its value to true when it is dropped.
    struct Flag(Rc<Cell<bool>>);

    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }

    fn sending() -> Sending {
        Sending::new(Callbacks::for_tests())
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_are_limited_and_end_in_any_order() {
        let mut sending = sending();
        assert!(sending.is_idle());
        for number in 0..UNDER_WAY_MAX {
            assert!(sending.has_room(), "{number}");
            sending.start(Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(if number == 7 { 1 } else { 60 })).await;
                jobs::nothing().await
            }));
        }
        assert!(!sending.has_room());
        let began = kit::clock::now();
        poll_fn(|cx| sending.poll_ended(cx)).await;
        assert_eq!(began.elapsed(), Duration::from_secs(1));
        assert!(sending.has_room() && !sending.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn jobs_of_another_owner_are_dropped() {
        let mut sending = sending();
        let dropped = Rc::new(Cell::new(false));
        let flag = Flag(dropped.clone());
        sending.start(Box::pin(async move {
            let _held = &flag;
            std::future::pending::<()>().await;
            jobs::nothing().await
        }));
        assert!(poll_fn(|cx| Poll::Ready(sending.poll_ended(cx))).await.is_pending());
        sending.clear();
        assert!(dropped.get() && sending.is_idle());
    }
}
