//! Statistics of the embedded store.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets of sync times: from a controller with a battery to a failing disk.
pub const SYNC_BOUNDS: [Duration; 13] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(1000),
    Duration::from_millis(5000),
];

/// Counters that only increase.
#[derive(Debug, Default)]
pub(crate) struct Measures {
    appended: AtomicU64,
    appended_bytes: AtomicU64,
    commits: AtomicU64,
    damaged: AtomicU64,
    syncs: [AtomicU64; SYNC_BOUNDS.len() + 1],
    sync_nanos: AtomicU64,
}

/// The values of [`Measures`] at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MeasuredValues {
    /// Records that were appended.
    pub appended: u64,
    /// Bytes that were written to segments.
    pub appended_bytes: u64,
    /// Transactions of tables.
    pub commits: u64,
    /// Places with wrong data, found at the start or by a reader.
    pub damaged: u64,
    /// Writes whose sync was awaited, by [`SYNC_BOUNDS`]. The last bucket has the longer ones.
    pub syncs: [u64; SYNC_BOUNDS.len() + 1],
    /// The sum of the durations of these syncs.
    pub sync_time: Duration,
}

impl Measures {
    /// Counts a batch of records.
    pub(crate) fn appended(&self, records: u64, bytes: u64) {
        self.appended.fetch_add(records, Ordering::Relaxed);
        self.appended_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a write and sync of a segment.
    pub(crate) fn synced(&self, took: Duration) {
        let bucket = SYNC_BOUNDS.iter().take_while(|bound| took > **bound).count();
        if let Some(bucket) = self.syncs.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sync_nanos.fetch_add(kit::clock::nanos(took), Ordering::Relaxed);
    }

    /// Counts a transaction of tables, which syncs as well.
    pub(crate) fn committed(&self, took: Duration) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.synced(took);
    }

    /// Counts damage, found by a reader or at the start.
    pub(crate) fn damaged(&self, places: usize) {
        self.damaged.fetch_add(places as u64, Ordering::Relaxed);
    }

    /// Returns the current values.
    pub(crate) fn measured(&self) -> MeasuredValues {
        let mut syncs = [0; SYNC_BOUNDS.len() + 1];
        // Harmless: both have the same number of buckets.
        for (to, from) in syncs.iter_mut().zip(&self.syncs) {
            *to = from.load(Ordering::Relaxed);
        }
        MeasuredValues {
            appended: self.appended.load(Ordering::Relaxed),
            appended_bytes: self.appended_bytes.load(Ordering::Relaxed),
            commits: self.commits.load(Ordering::Relaxed),
            damaged: self.damaged.load(Ordering::Relaxed),
            syncs,
            sync_time: Duration::from_nanos(self.sync_nanos.load(Ordering::Relaxed)),
        }
    }
}
