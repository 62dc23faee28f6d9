//! Wakers that note which part of a connection of HTTP/2 can go on.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// The numbers of the parts that were woken: streams, or places for calls.
#[derive(Default)]
pub(crate) struct Ready(Mutex<Vec<u32>>);

struct Woken {
    ready: Arc<Ready>,
    number: u32,
}

impl Ready {
    /// Returns a waker that notes the number.
    pub(crate) fn waker(self: &Arc<Ready>, number: u32) -> Waker {
        Arc::new(Woken { ready: Arc::clone(self), number }).into()
    }

    pub(crate) fn push(&self, number: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(number);
    }

    /// Returns the numbers that were noted since the last call.
    pub(crate) fn take(&self) -> Vec<u32> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.ready.push(self.number);
    }
}
