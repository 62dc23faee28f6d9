//! Permits for a worker's requests to callbacks, and how they are shared among subjects and servers.
//!
//! A callback that does not answer keeps its permit until the delivery times out, and one subscriber may have thousands of such callbacks.
//! So a subject may hold at most half as many permits as are free, and a server at most half as many as its subject may still take. This
//! way a permit always remains for the next subject or server. Requests to servers that did not answer the last request, or have not had
//! one, are limited to a part of all permits.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::callbacks::Origin;
use crate::subscription::Id;

/// The limit of a worker's concurrent requests to callbacks.
pub(crate) const PLACES_MAX: usize = 1024;

/// The limit of concurrent requests to servers that may not answer: half of all, so that the other half remains for servers that do.
const DOUBTFUL_MAX: usize = PLACES_MAX / 2;
/// The limit of one subject's requests to such servers. A server that answers no longer counts as doubtful, so this does not limit
/// working callbacks.
const DOUBTFUL_OF_SUBJECT_MAX: usize = 64;

/// The limit of concurrent requests to one server.
pub(crate) const OF_ORIGIN_MAX: u32 = 128;
/// The limit of concurrent requests to one server that may not answer.
const OF_DOUBTFUL_ORIGIN_MAX: usize = 8;

/// Requests in progress: of a worker, of a subject, or to a server.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    under_way: Cell<usize>,
    /// Requests in progress to servers that may not answer.
    doubtful: Cell<usize>,
    /// Subscriptions that wait for a permit.
    waiting: RefCell<VecDeque<Id>>,
}

/// The counters that a request to a callback counts in.
#[derive(Clone)]
pub(crate) struct RequestCounters {
    pub(crate) all: Rc<Usage>,
    pub(crate) subject: Rc<Usage>,
    pub(crate) origin: Rc<Origin>,
}

/// The permit of a request to a callback, returned when it is dropped.
pub(crate) struct RequestPermit {
    pub(crate) counters: RequestCounters,
    is_doubtful: bool,
}

impl Usage {
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.get()
    }

    /// Clears the queue of waiting subscriptions.
    pub(crate) fn clear_waiting(&self) {
        self.waiting.borrow_mut().clear();
    }

    /// Moves the first two waiting subscriptions to the end of `ready`, since one may no longer need a permit. If no request is in
    /// progress, no end of a request would move the others, so all are moved.
    fn next(&self, ready: &mut VecDeque<Id>) {
        let mut waiting = self.waiting.borrow_mut();
        let count = match self.under_way.get() {
            0 => waiting.len(),
            _ => waiting.len().min(2),
        };
        ready.extend(waiting.drain(..count));
    }

    fn add(&self, is_doubtful: bool) {
        self.under_way.set(self.under_way.get() + 1);
        self.doubtful.set(self.doubtful.get() + usize::from(is_doubtful));
    }

    fn remove(&self, is_doubtful: bool) {
        self.under_way.set(self.under_way.get().saturating_sub(1));
        self.doubtful.set(self.doubtful.get().saturating_sub(usize::from(is_doubtful)));
    }
}

impl RequestCounters {
    /// Takes a permit, if one is free.
    pub(crate) fn begin(&self) -> Option<RequestPermit> {
        match self.full() {
            Some(_) => None,
            None => Some(self.taken()),
        }
    }

    /// Takes a permit for a subscription. If none is free, the subscription waits for one.
    pub(crate) fn begin_or_wait(&self, id: Id) -> Option<RequestPermit> {
        if let Some(full) = self.full() {
            full.waiting.borrow_mut().push_back(id);
            return None;
        }
        Some(self.taken())
    }

    fn taken(&self) -> RequestPermit {
        let is_doubtful = !self.origin.works();
        self.usages().for_each(|usage| usage.add(is_doubtful));
        RequestPermit { counters: self.clone(), is_doubtful }
    }

    /// Continues waiting subscriptions after a permit was returned: two for each permit, so that a server that works again is soon
    /// used to its limit.
    pub(crate) fn next(&self, ready: &mut VecDeque<Id>) {
        self.usages().for_each(|usage| usage.next(ready));
    }

    fn usages(&self) -> impl Iterator<Item = &Usage> {
        [&*self.all, &*self.subject, &self.origin.usage].into_iter()
    }

    /// The counter that prevents another request, or `None` if a permit is free. The counter is above zero, so a request will end and wake
    /// the subscriptions that wait for it.
    fn full(&self) -> Option<&Usage> {
        let (all, subject, origin) = (&*self.all, &*self.subject, &self.origin.usage);
        let free = PLACES_MAX.saturating_sub(all.under_way());
        if free == 0 {
            return Some(all);
        }
        let of_subject = part(free);
        if subject.under_way() >= of_subject {
            return Some(subject);
        }
        let of_origin = part(of_subject - subject.under_way()).min(OF_ORIGIN_MAX as usize);
        if origin.under_way() >= of_origin {
            return Some(origin);
        }
        if self.origin.works() {
            return None;
        }
        let free = DOUBTFUL_MAX.saturating_sub(all.doubtful.get());
        if free == 0 {
            return Some(all);
        }
        if subject.doubtful.get() >= part(free).min(DOUBTFUL_OF_SUBJECT_MAX) {
            return Some(subject);
        }
        (origin.under_way() >= OF_DOUBTFUL_ORIGIN_MAX).then_some(origin)
    }
}

/// Half of the remaining permits, but at least one. The other half remains for the next subject or server.
fn part(left: usize) -> usize {
    (left / 2).max(1)
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.counters.usages().for_each(|usage| usage.remove(self.is_doubtful));
    }
}
