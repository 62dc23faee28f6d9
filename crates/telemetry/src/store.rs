//! Metrics of one store that gateways count through: whether it answers.

use crate::count::Shared;

/// Written by whoever tells the store of counts.
#[derive(Debug, Default)]
pub struct StoreMetrics {
    answers: Shared,
    succeeded: Shared,
    failed: Shared,
}

/// A reading of [`StoreMetrics`].
#[derive(Debug, Default)]
pub(crate) struct StoreSum {
    pub(crate) name: Box<str>,
    pub(crate) answers: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
}

impl StoreMetrics {
    /// A call was answered.
    pub fn answered(&self) {
        self.answers.set(1);
        self.succeeded.add(1);
    }

    /// A call was not; the store counts as away until the next that is.
    pub fn failed(&self) {
        self.answers.set(0);
        self.failed.add(1);
    }

    /// Nothing before the first call: until then nobody knows.
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
