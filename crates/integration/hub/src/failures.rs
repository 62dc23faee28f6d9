//! The causes of failed attempts for events that are not delivered yet. An operator sees them if the event becomes
//! dead.
//!
//! They are only in memory. Storing each failed attempt would cost more than the attempt.

use std::collections::HashMap;

use crate::subscription::{Failure, Id};

/// The number of events whose failures are recorded on a worker. Above it, only the last failure of an event is
/// known.
const EVENTS_MAX: usize = 4096;

/// The number of failures recorded for one event: the newest.
const OF_EVENT_MAX: usize = 16;

/// The maximum length of a cause in bytes.
const CAUSE_BYTES_MAX: usize = 256;

/// The failures of a worker's events.
#[derive(Default)]
pub(crate) struct Failures(HashMap<(Id, u64), Vec<Failure>>);

impl Failures {
    /// Records a failed attempt.
    pub(crate) fn note(&mut self, id: Id, event: u64, failure: Failure) {
        if self.0.len() >= EVENTS_MAX && !self.0.contains_key(&(id, event)) {
            return;
        }
        let failures = self.0.entry((id, event)).or_default();
        if failures.len() >= OF_EVENT_MAX {
            failures.remove(0);
        }
        failures.push(failure);
    }

    /// Removes an event and returns its failures.
    pub(crate) fn take(&mut self, id: Id, event: u64) -> Vec<Failure> {
        if self.0.is_empty() {
            Vec::new()
        } else {
            // Harmless: an event that never failed has no failures.
            self.0.remove(&(id, event)).unwrap_or_default()
        }
    }

    /// Removes the failures of some of a subscription's events.
    pub(crate) fn forget(&mut self, id: Id, events: impl Iterator<Item = u64>) {
        for event in events {
            self.0.remove(&(id, event));
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Failure {
    /// Makes a failure from the text of its cause, which begins with the kind of fault or with `status`.
    pub(crate) fn new(at: u64, why: &str) -> Failure {
        let (fault, _) = why.split_once([':', ' ']).unwrap_or((why, ""));
        let mut end = why.len().min(CAUSE_BYTES_MAX);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        let cause = why.get(..end).unwrap_or_default().to_owned();
        Failure { at, fault: fault.to_owned(), cause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callback::Callback;

    #[test]
    fn the_newest_failures_of_some_events_are_known() {
        let id = Id::of("", "t", &Callback::parse("http://a/").unwrap());
        let mut failures = Failures::default();
        for at in 0..40 {
            failures.note(id, 1, Failure::new(at, "status 503"));
        }
        (0..2 * EVENTS_MAX as u64).for_each(|event| {
            failures.note(id, event, Failure::new(0, "connect_failure: http://a: refused"));
        });
        assert_eq!(failures.0.len(), EVENTS_MAX);
        let of_first = failures.take(id, 1);
        assert_eq!((of_first.len(), &*of_first[0].fault), (OF_EVENT_MAX, "status"));
        assert_eq!(of_first[OF_EVENT_MAX - 1].fault, "connect_failure");
        assert!(failures.take(id, 1).is_empty());
        failures.forget(id, 0..2 * EVENTS_MAX as u64);
        assert!(failures.0.is_empty());
        assert_eq!(Failure::new(0, &"\u{e9}".repeat(300)).cause.len(), CAUSE_BYTES_MAX);
    }
}
