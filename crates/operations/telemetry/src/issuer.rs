//! Metrics of one issuer's keys: whether they can be read, and the time of the last success.

use crate::count::SharedCounter;

/// The counts of one issuer. The reader of the keys writes them.
#[derive(Debug, Default)]
pub struct IssuerMetrics {
    keys: SharedCounter,
    succeeded: SharedCounter,
    failed: SharedCounter,
    succeeded_unix_seconds: SharedCounter,
}

/// The values of [`IssuerMetrics`] at a scrape.
#[derive(Debug, Default)]
pub(crate) struct IssuerSum {
    pub(crate) name: Box<str>,
    pub(crate) keys: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) succeeded_unix_seconds: u64,
}

impl IssuerMetrics {
    /// Counts a successful read; this many keys are in use now.
    pub fn read(&self, keys: usize) {
        self.keys.set(u64::try_from(keys).unwrap_or(u64::MAX));
        self.succeeded.add(1);
        self.succeeded_unix_seconds.set(kit::clock::wall().as_secs());
    }

    /// Counts a failed read; the last good keys stay in use.
    pub fn failed(&self) {
        self.failed.add(1);
    }

    pub(crate) fn sum(&self, name: Box<str>) -> Option<IssuerSum> {
        let sum = IssuerSum {
            name,
            keys: self.keys.get(),
            succeeded: self.succeeded.get(),
            failed: self.failed.get(),
            succeeded_unix_seconds: self.succeeded_unix_seconds.get(),
        };
        (sum.succeeded + sum.failed > 0).then_some(sum)
    }
}
