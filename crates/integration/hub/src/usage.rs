//! The requests to callbacks that are in progress, and the subscriptions that wait until one of them ends.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::subscription::Id;

/// Requests in progress: of a worker, of a subject, or to a server.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    under_way: Cell<usize>,
    /// Requests in progress to servers that may not answer.
    doubtful: Cell<usize>,
    /// Subscriptions that wait for a permit.
    waiting: RefCell<VecDeque<Id>>,
}

impl Usage {
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.get()
    }

    pub(crate) fn doubtful(&self) -> usize {
        self.doubtful.get()
    }

    /// Queues a subscription that waits for a permit.
    pub(crate) fn wait(&self, id: Id) {
        self.waiting.borrow_mut().push_back(id);
    }

    /// Clears the queue of waiting subscriptions.
    pub(crate) fn clear_waiting(&self) {
        self.waiting.borrow_mut().clear();
    }

    /// Moves the first two waiting subscriptions to the end of `ready`, since one may no longer need a permit. If no request is in
    /// progress, no end of a request would move the others, so all are moved.
    pub(crate) fn next(&self, ready: &mut VecDeque<Id>) {
        let mut waiting = self.waiting.borrow_mut();
        let count = match self.under_way.get() {
            0 => waiting.len(),
            _ => waiting.len().min(2),
        };
        ready.extend(waiting.drain(..count));
    }

    pub(crate) fn add(&self, is_doubtful: bool) {
        self.under_way.set(self.under_way.get() + 1);
        self.doubtful.set(self.doubtful.get() + usize::from(is_doubtful));
    }

    pub(crate) fn remove(&self, is_doubtful: bool) {
        self.under_way.set(self.under_way.get().saturating_sub(1));
        self.doubtful.set(self.doubtful.get().saturating_sub(usize::from(is_doubtful)));
    }
}
