//! Counts the requests that wait for the same thing, within a bound.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A place among the waiting requests, which is freed when dropped.
pub(crate) struct WaiterPlace<'a>(&'a AtomicUsize);

impl WaiterPlace<'_> {
    /// Takes a place, unless `max` requests are already waiting.
    pub(crate) fn among(count: &AtomicUsize, max: usize) -> Option<WaiterPlace<'_>> {
        let place = WaiterPlace(count);
        (count.fetch_add(1, Ordering::AcqRel) < max).then_some(place)
    }
}

impl Drop for WaiterPlace<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
