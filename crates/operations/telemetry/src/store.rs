//! Metrics of a store through which gateways share counts: whether it answers.

use crate::count::SharedCounter;

/// The counts of one store. The code that reports to the store writes them.
#[derive(Debug, Default)]
pub struct StoreMetrics {
    answers: SharedCounter,
    succeeded: SharedCounter,
    failed: SharedCounter,
}

/// The values of [`StoreMetrics`] at a scrape.
#[derive(Debug, Default)]
pub(crate) struct StoreSum {
    pub(crate) name: Box<str>,
    pub(crate) answers: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
}

impl StoreMetrics {
    /// Counts an answered call.
    pub fn answered(&self) {
        self.answers.set(1);
        self.succeeded.add(1);
    }

    /// Counts an unanswered call. The store counts as down until it answers again.
    pub fn failed(&self) {
        self.answers.set(0);
        self.failed.add(1);
    }

    /// Returns the counts, or `None` before the first call, when the state is unknown.
    pub(crate) fn sum(&self, name: Box<str>) -> Option<StoreSum> {
        let sum = StoreSum {
            name,
            answers: self.answers.get(),
            succeeded: self.succeeded.get(),
            failed: self.failed.get(),
        };
        (sum.succeeded + sum.failed > 0).then_some(sum)
    }
}
