//! Metrics of one queue: its messages and their processing.

use crate::count::SharedCounter;

/// Counts of one queue. Several workers may write them.
#[derive(Debug, Default)]
pub struct QueueMetrics {
    stored: SharedCounter,
    runs: [SharedCounter; QueueRun::ALL.len()],
    depth: SharedCounter,
    age_seconds: SharedCounter,
}

/// The outcome of an attempt to process a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueRun {
    /// It is processed.
    Success,
    /// It is tried again.
    Failure,
    /// It failed for the last time.
    Dead,
}

impl QueueRun {
    /// All of them, in the order of their numbers.
    pub const ALL: [QueueRun; 3] = [QueueRun::Success, QueueRun::Failure, QueueRun::Dead];

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            QueueRun::Success => "success",
            QueueRun::Failure => "failure",
            QueueRun::Dead => "dead",
        }
    }
}

/// The values of [`QueueMetrics`] at a scrape.
#[derive(Debug)]
pub(crate) struct QueueSum {
    pub(crate) name: Box<str>,
    pub(crate) stored: u64,
    pub(crate) runs: [(&'static str, u64); QueueRun::ALL.len()],
    pub(crate) depth: u64,
    pub(crate) age: u64,
}

impl QueueMetrics {
    /// Counts a message that was stored.
    pub fn stored(&self) {
        self.stored.add(1);
    }

    /// Counts a try to process one.
    pub fn ran(&self, run: QueueRun) {
        if let Some(count) = self.runs.get(run as usize) {
            count.add(1);
        }
    }

    /// Sets how many messages wait or are being processed, and the age of the oldest in seconds.
    pub fn set(&self, depth: u64, age: u64) {
        self.depth.set(depth);
        self.age_seconds.set(age);
    }

    pub(crate) fn sum(&self, name: Box<str>) -> Option<QueueSum> {
        let count = |run: QueueRun| {
            let count = self.runs.get(run as usize);
            (run.label(), count.map_or(0, SharedCounter::get))
        };
        (&*name != crate::OTHER).then(|| QueueSum {
            name,
            stored: self.stored.get(),
            runs: QueueRun::ALL.map(count),
            depth: self.depth.get(),
            age: self.age_seconds.get(),
        })
    }
}
