//! The circuit breaker: how much an upstream may have in hand, over all workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use fault::{Fault, Kind};

use crate::settings::Breaker;

/// The three limits, with what is taken of each.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) requests: Arc<Limit>,
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
            connections: Limit::new("connections", breaker.connections),
            pending: Limit::new("pending connections", breaker.pending),
        }
    }
}

impl Limit {
    fn new(what: &'static str, max: u32) -> Arc<Limit> {
        Arc::new(Limit { what, max, taken: AtomicU32::new(0) })
    }

    /// Takes a place, or says which limit is reached.
    pub(crate) fn take(self: &Arc<Limit>) -> Result<Place, Fault> {
        let before = self.taken.fetch_add(1, Ordering::Relaxed);
        // The place is made first, so that a refusal gives back what it took.
        let place = Place(self.clone());
        match before < self.max {
            true => Ok(place),
            false => Err(Fault::new(Kind::BreakerOpen, format!("{} {} in hand", self.max, self.what))),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back() {
        let limit = Limit::new("requests", 2);
        let first = limit.take().unwrap();
        let second = limit.take().unwrap();
        assert_eq!(limit.take().unwrap_err().kind, Kind::BreakerOpen);
        drop(first);
        let third = limit.take().unwrap();
        drop((second, third));
        assert_eq!(limit.taken.load(Ordering::Relaxed), 0);
    }
}
