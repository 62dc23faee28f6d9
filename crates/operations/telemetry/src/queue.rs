//! Metrics of one queue: its messages and their processing.

use crate::count::SharedCounter;

/// Counts of one queue. Several workers may write them.
#[derive(Debug, Default)]
pub struct QueueMetrics {
    stored: SharedCounter,
    runs: [SharedCounter; QueueRun::ALL.len()],
    depth: SharedCounter,
    age_seconds: SharedCounter,
    dead: SharedCounter,
    dead_bytes: SharedCounter,
    dead_age_seconds: SharedCounter,
    dead_removed: SharedCounter,
}

/// The outcome of an attempt to process a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueRun {
    /// It was processed.
    Success,
    /// It will be retried.
    Failure,
    /// It failed for the last time.
    Dead,
}

impl QueueRun {
    /// All outcomes, in the order of their numbers.
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
    pub(crate) dead: u64,
    pub(crate) dead_bytes: u64,
    pub(crate) dead_age: u64,
    pub(crate) dead_removed: u64,
}

impl QueueMetrics {
    /// Counts a message that was stored.
    pub fn stored(&self) {
        self.stored.add(1);
    }

    /// Counts an attempt to process a message.
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

    /// Sets the number of dead messages, their bytes, and the age of the oldest in seconds.
    pub fn set_dead(&self, messages: u64, bytes: u64, age: u64) {
        self.dead.set(messages);
        self.dead_bytes.set(bytes);
        self.dead_age_seconds.set(age);
    }

    /// Counts dead messages that were removed because there were too many or they were too old.
    pub fn dead_removed(&self, messages: u64) {
        self.dead_removed.add(messages);
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
            dead: self.dead.get(),
            dead_bytes: self.dead_bytes.get(),
            dead_age: self.dead_age_seconds.get(),
            dead_removed: self.dead_removed.get(),
        })
    }
}
