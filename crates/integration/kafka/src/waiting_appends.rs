//! The appends of a topic that wait until they are sent as one batch.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use store::Error;
use tokio::sync::oneshot;

use crate::Message;
use crate::batch::Producer;

/// A waiting append.
pub(crate) struct Append {
    pub(crate) messages: Vec<Message>,
    pub(crate) bytes: usize,
    pub(crate) done: oneshot::Sender<Result<RangeInclusive<u64>, Error>>,
    /// Reserves `bytes` until the append is answered.
    pub(crate) _place: ByteReservation,
}

/// The appends of a topic.
#[derive(Default)]
pub(crate) struct Appends {
    pub(crate) waiting: RefCell<VecDeque<Append>>,
    pub(crate) is_sending: Cell<bool>,
    /// The producer id and the sequence number of the topic's next batch, by which a broker detects duplicates.
    pub(crate) producer: Cell<Option<Producer>>,
}

/// The reserved bytes of an append.
#[derive(Default)]
pub(crate) struct ByteReservation {
    pub(crate) bytes: usize,
    pub(crate) of: Arc<AtomicUsize>,
}

impl Appends {
    /// Takes the next batch. It contains at least one append, whatever its size.
    pub(crate) fn next_batch(&self, bytes_max: usize) -> Vec<Append> {
        let mut waiting = self.waiting.borrow_mut();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(append) = waiting.pop_front() {
            bytes += append.bytes;
            if !batch.is_empty() && bytes > bytes_max {
                waiting.push_front(append);
                break;
            }
            batch.push(append);
        }
        batch
    }

    pub(crate) fn put_back(&self, batch: Vec<Append>) {
        let mut waiting = self.waiting.borrow_mut();
        batch.into_iter().rev().for_each(|append| waiting.push_front(append));
    }
}

impl Drop for ByteReservation {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(bytes: usize) -> Append {
        let (done, _) = oneshot::channel();
        Append { messages: Vec::new(), bytes, done, _place: ByteReservation::default() }
    }

    #[test]
    fn a_batch_takes_its_first_append_whatever_its_size_and_then_what_fits() {
        let appends = Appends::default();
        appends.waiting.borrow_mut().extend([5000, 10, 400, 600, 10].map(waiting));
        let sizes = |batch: Vec<Append>| batch.iter().map(|a| a.bytes).collect::<Vec<_>>();
        assert_eq!(sizes(appends.next_batch(1000)), [5000]);
        let batch = appends.next_batch(1000);
        assert_eq!(sizes(batch), [10, 400]);
        let batch = appends.next_batch(1000);
        appends.put_back(batch);
        assert_eq!(sizes(appends.next_batch(0)), [600]);
        assert_eq!(sizes(appends.next_batch(0)), [10]);
        assert!(appends.next_batch(0).is_empty());
    }
}
