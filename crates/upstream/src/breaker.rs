//! The circuit breaker: bounds the load on an upstream, over all workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fault::{Fault, Kind};

use crate::settings::Breaker;

/// The three limits with their current counts.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) requests: Limit,
    /// Connections in use. None if the limit of requests is not larger: a request uses one connection at a time.
    pub(crate) connections: Option<Limit>,
    pub(crate) pending: Arc<Limit>,
}

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
        }
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
        Err(Fault::new(Kind::BreakerOpen, format!("{} {} in hand", self.max, self.what)))
    }

    pub(crate) fn leave(&self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// Enters, and leaves when the place is dropped.
    pub(crate) fn take(self: &Arc<Limit>) -> Result<Permit, Fault> {
        self.enter().map(|()| Permit(self.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
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
