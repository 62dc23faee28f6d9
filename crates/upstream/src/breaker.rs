//! The circuit breaker: how much an upstream may have in hand, over all workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fault::{Fault, Kind};

use crate::settings::Breaker;

/// The three limits, with what is taken of each.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) requests: Limit,
    pub(crate) connections: Arc<Limit>,
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
pub(crate) struct Place(Arc<Limit>);

impl Limits {
    pub(crate) fn new(breaker: &Breaker) -> Limits {
        Limits {
            requests: Limit::new("requests", breaker.requests),
            connections: Arc::new(Limit::new("connections", breaker.connections)),
            pending: Arc::new(Limit::new("pending connections", breaker.pending)),
        }
    }
}

impl Limit {
    fn new(what: &'static str, max: u32) -> Limit {
        Limit { what, max, taken: AtomicU32::new(0) }
    }

    /// Counts one more, or says which limit is reached. Whoever enters leaves.
    pub(crate) fn enter(&self) -> Result<(), Fault> {
        self.enter_beside(0)
    }

    /// The same where so many places are taken by what does not count.
    fn enter_beside(&self, idle: u32) -> Result<(), Fault> {
        if self.taken.fetch_add(1, Ordering::Relaxed) < self.max.saturating_add(idle) {
            return Ok(());
        }
        self.leave();
        Err(Fault::new(Kind::BreakerOpen, format!("{} {} in hand", self.max, self.what)))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.max
    }

    pub(crate) fn leave(&self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// Enters, and leaves when the place is dropped.
    pub(crate) fn take(self: &Arc<Limit>) -> Result<Place, Fault> {
        self.take_beside(0)
    }

    /// The same where so many places are taken by what does not count.
    pub(crate) fn take_beside(self: &Arc<Limit>, idle: u32) -> Result<Place, Fault> {
        self.enter_beside(idle).map(|()| Place(self.clone()))
    }
}

impl Drop for Place {
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
