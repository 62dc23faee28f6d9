//! Places for the requests to callbacks that a worker has under way, and who may have how many of them.
//!
//! A callback that hangs keeps its place for as long as a delivery may take, and one subscriber may name thousands of such callbacks. So
//! nobody gets the last places: a subject may have a third of what the others leave, and a server of callbacks half of what its subject
//! has left. However many there are that take all they may, the next one finds a place. Requests to servers that did not answer the last
//! time, or never did, have a part of the places and no more.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::callbacks::Origin;
use crate::subscription::Id;

/// Requests to callbacks under way on a worker.
pub(crate) const PLACES_MAX: usize = 1024;

/// Of those, the ones to servers that may not answer: half, so that there are always as many for those that do.
const DOUBTFUL_MAX: usize = PLACES_MAX / 2;
/// And of one subject. A server that answers is doubtful no more, so this is not what limits a subject whose callbacks work.
const DOUBTFUL_OF_SUBJECT_MAX: usize = 64;

/// Requests under way to one server of callbacks.
pub(crate) const OF_ORIGIN_MAX: u32 = 128;
/// And to one that may not answer.
const OF_DOUBTFUL_ORIGIN_MAX: usize = 8;

/// Requests under way: of a worker, of a subject, or to a server.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    under_way: Cell<usize>,
    /// Those to servers that may not answer.
    doubtful: Cell<usize>,
    /// Subscriptions that wait until one of them ends.
    waiting: RefCell<VecDeque<Id>>,
}

/// All that a request to a callback counts in.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) all: Rc<Usage>,
    pub(crate) subject: Rc<Usage>,
    pub(crate) origin: Rc<Origin>,
}

/// A request to a callback under way; it is over when this is dropped.
pub(crate) struct UnderWay {
    pub(crate) way: Way,
    is_doubtful: bool,
}

impl Usage {
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.get()
    }

    /// Forgets who waits.
    pub(crate) fn clear_waiting(&self) {
        self.waiting.borrow_mut().clear();
    }

    /// Moves the first of those that wait, two at most, to the end of `ready`. Some may need no place any more, so where nothing is under
    /// way that would move the others, all are moved.
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

impl Way {
    /// A place for one more request, if there is one.
    pub(crate) fn begin(&self) -> Option<UnderWay> {
        match self.full() {
            Some(_) => None,
            None => Some(self.taken()),
        }
    }

    /// The same for a subscription, which otherwise waits until a place is free.
    pub(crate) fn begin_or_wait(&self, id: Id) -> Option<UnderWay> {
        if let Some(full) = self.full() {
            full.waiting.borrow_mut().push_back(id);
            return None;
        }
        Some(self.taken())
    }

    fn taken(&self) -> UnderWay {
        let is_doubtful = !self.origin.works();
        self.usages().for_each(|usage| usage.add(is_doubtful));
        UnderWay { way: self.clone(), is_doubtful }
    }

    /// Has those continue that wait for a place, after one was given back. Two come for each that ended, so that a server that works again
    /// is used in full soon.
    pub(crate) fn next(&self, ready: &mut VecDeque<Id>) {
        self.usages().for_each(|usage| usage.next(ready));
    }

    fn usages(&self) -> impl Iterator<Item = &Usage> {
        [&*self.all, &*self.subject, &self.origin.usage].into_iter()
    }

    /// What has to become less before one more request may begin. Something of it is under way, so whoever waits for it is moved.
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

/// Half of what is left, and one at least: with that much for each that comes, there is always something left for the next.
fn part(left: usize) -> usize {
    (left / 2).max(1)
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.way.usages().for_each(|usage| usage.remove(self.is_doubtful));
    }
}
