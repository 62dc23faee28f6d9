//! Metrics of one schedule: its runs.

use crate::count::SharedCounter;

/// The counts of one schedule. The worker that runs it writes them.
#[derive(Debug, Default)]
pub struct ScheduleMetrics {
    succeeded: SharedCounter,
    failed: SharedCounter,
    skipped: SharedCounter,
    last_unix_seconds: SharedCounter,
}

/// The values of [`ScheduleMetrics`] at a scrape.
#[derive(Debug, Default)]
pub(crate) struct ScheduleSum {
    pub(crate) name: Box<str>,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
    pub(crate) last_unix_seconds: u64,
}

impl ScheduleMetrics {
    /// Counts a run that has ended.
    pub fn ran(&self, has_failed: bool) {
        if has_failed {
            self.failed.add(1)
        } else {
            self.succeeded.add(1)
        }
        self.last_unix_seconds.set(kit::clock::wall().as_secs());
    }

    /// Counts times at which it was due while a run was in progress.
    pub fn skipped(&self, times: u64) {
        self.skipped.add(times);
    }

    pub(crate) fn sum(&self, name: Box<str>) -> ScheduleSum {
        ScheduleSum {
            name,
            succeeded: self.succeeded.get(),
            failed: self.failed.get(),
            skipped: self.skipped.get(),
            last_unix_seconds: self.last_unix_seconds.get(),
        }
    }
}
