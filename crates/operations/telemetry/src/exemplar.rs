//! Examples for the buckets of a histogram: a sampled trace whose duration is in the bucket. Only sampled exchanges access
//! them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::histogram::{WAIT_MICROS, wait_bucket};
use crate::span::SpanIds;

/// An example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exemplar {
    pub(crate) span: SpanIds,
    pub(crate) duration: Duration,
    /// Since the Unix epoch.
    pub(crate) time: Duration,
}

/// The newest example of each bucket.
pub(crate) type BucketExemplars = [Option<Exemplar>; WAIT_MICROS.len() + 1];

/// The examples of one worker for one route. Only a scrape competes for the lock.
#[derive(Debug, Default)]
pub(crate) struct Exemplars(Mutex<BucketExemplars>);

impl Exemplars {
    pub(crate) fn keep(&self, span: SpanIds, duration: Duration) {
        let example = Exemplar { span, duration, time: kit::clock::wall() };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = kept.get_mut(wait_bucket(duration)) {
            *bucket = Some(example);
        }
    }

    /// Merges these with those of other workers. The newest one is kept.
    pub(crate) fn add_to(&self, newest: &mut BucketExemplars) {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Harmless: both have the same buckets.
        for (newest, kept) in newest.iter_mut().zip(&*kept) {
            let time = |one: &Option<Exemplar>| one.map(|one| one.time);
            if time(kept) > time(newest) {
                *newest = *kept;
            }
        }
    }
}
