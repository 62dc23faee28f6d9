//! The number of those who wait for the same thing, within a bound.

use std::sync::atomic::{AtomicUsize, Ordering};

/// A place among those who wait. It is free again when this is dropped.
pub(crate) struct WaiterPlace<'a>(&'a AtomicUsize);

impl WaiterPlace<'_> {
    /// A place, unless `max` wait already.
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
