//! Permits for a worker's requests to callbacks, and how they are shared among subjects and servers.
//!
//! A callback that does not answer keeps its permit until the delivery times out, and one subscriber may have thousands of such callbacks.
//! So a subject may hold at most half as many permits as are free, and a server at most half as many as its subject may still take. This
//! way a permit always remains for the next subject or server. Requests to servers that did not answer the last request, or have not had
//! one, are limited to a part of all permits.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::callbacks::{OF_ORIGIN_MAX, Origin};
use crate::subscription::Id;
use crate::usage::Usage;

/// The limit of a worker's concurrent requests to callbacks.
pub(crate) const PLACES_MAX: usize = 1024;

/// The limit of concurrent requests to servers that may not answer: half of all, so that the other half remains for servers that do.
const DOUBTFUL_MAX: usize = PLACES_MAX / 2;
/// The limit of one subject's requests to such servers. A server that answers no longer counts as doubtful, so this does not limit
/// working callbacks.
const DOUBTFUL_OF_SUBJECT_MAX: usize = 64;

/// The limit of concurrent requests to one server that may not answer.
const OF_DOUBTFUL_ORIGIN_MAX: usize = 8;

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
            full.wait(id);
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
        let free = DOUBTFUL_MAX.saturating_sub(all.doubtful());
        if free == 0 {
            return Some(all);
        }
        if subject.doubtful() >= part(free).min(DOUBTFUL_OF_SUBJECT_MAX) {
            return Some(subject);
        }
        (origin.under_way() >= OF_DOUBTFUL_ORIGIN_MAX).then_some(origin)
    }
}

/// Half of the remaining permits, but at least one. The other half remains for the next subject or server.
fn part(left: usize) -> usize {
    (left / 2).max(1)
}

impl RequestPermit {
    pub(crate) fn origin(&self) -> &Origin {
        &self.counters.origin
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.counters.usages().for_each(|usage| usage.remove(self.is_doubtful));
    }
}
