//! The circuit breaker: limits the load on an upstream over all workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fault::{Fault, Kind};

use crate::settings::Breaker;

/// The limits with their current counts.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) requests: Limit,
    /// Connections in use. `None` if the limit is not below that of requests: it cannot be exceeded, since a request uses one connection at
    /// a time.
    pub(crate) connections: Option<Limit>,
    pub(crate) pending: Arc<Limit>,
    retries: Arc<AtomicU32>,
}

/// A retry in progress, which counts until this is dropped.
#[derive(Debug)]
pub(crate) struct ActiveRetry(Arc<AtomicU32>);

/// The number of retries that a budget always allows. With few requests, a share of them would be zero.
const RETRIES_MIN: u32 = 3;

#[derive(Debug)]
pub(crate) struct Limit {
    what: &'static str,
    max: u32,
    taken: AtomicU32,
}

/// A place under a limit, given back on drop.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Limit>);

impl Limits {
    pub(crate) fn new(breaker: &Breaker) -> Limits {
        Limits {
            requests: Limit::new("requests", breaker.requests),
            connections: (breaker.connections < breaker.requests)
                .then(|| Limit::new("connections", breaker.connections)),
            pending: Arc::new(Limit::new("pending connections", breaker.pending)),
            retries: Arc::default(),
        }
    }

    /// Counts a retry. At most `millionths` of the active requests may be retries, but [`RETRIES_MIN`] retries are always allowed. Returns
    /// `None` if there are already as many.
    pub(crate) fn retry(&self, millionths: u32) -> Option<ActiveRetry> {
        let active = u64::from(self.requests.taken.load(Ordering::Relaxed));
        let share = active * u64::from(millionths) / 1_000_000;
        let most = u32::try_from(share).unwrap_or(u32::MAX).max(RETRIES_MIN);
        let retry = ActiveRetry(self.retries.clone());
        // If there are too many, the count is corrected on drop.
        (self.retries.fetch_add(1, Ordering::Relaxed) < most).then_some(retry)
    }
}

impl Limit {
    fn new(what: &'static str, max: u32) -> Limit {
        Limit { what, max, taken: AtomicU32::new(0) }
    }

    /// Counts one more, or returns a fault that names the reached limit. Each success needs a `leave`.
    pub(crate) fn enter(&self) -> Result<(), Fault> {
        if self.taken.fetch_add(1, Ordering::Relaxed) < self.max {
            return Ok(());
        }
        self.leave();
        Err(Fault::new(
            Kind::BreakerOpen,
            format!("the limit of {} {} is reached", self.max, self.what),
        ))
    }

    pub(crate) fn leave(&self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// Enters. The count is reduced when the result is dropped.
    pub(crate) fn take(self: &Arc<Limit>) -> Result<Permit, Fault> {
        self.enter().map(|()| Permit(self.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Drop for ActiveRetry {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_share_of_the_active_requests() {
        let limits = Limits::new(&Breaker { connections: 100, requests: 100, pending: 100 });
        let few: Vec<_> = (0..9).filter_map(|_| limits.retry(200_000)).collect();
        assert_eq!(few.len(), 3);
        drop(few);
        (0..50).for_each(|_| limits.requests.enter().unwrap());
        let some: Vec<_> = (0..50).filter_map(|_| limits.retry(200_000)).collect();
        assert_eq!(some.len(), 10);
        drop(some);
        assert_eq!(limits.retries.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_dropped_permit_frees_its_place() {
        let limit = Arc::new(Limit::new("requests", 2));
        let first = limit.take().unwrap();
        let second = limit.take().unwrap();
        assert_eq!(limit.take().unwrap_err().kind, Kind::BreakerOpen);
        drop(first);
        let third = limit.take().unwrap();
        drop((second, third));
        assert_eq!(limit.taken.load(Ordering::Relaxed), 0);
    }
}
