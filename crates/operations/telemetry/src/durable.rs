//! Metrics of the durable store. The store counts itself; this module reads its counts.

use std::fmt;
use std::sync::{PoisonError, RwLock};

/// The store's counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DurableReading {
    pub records: u64,
    pub written_bytes: u64,
    pub commits: u64,
    pub damaged: u64,
    /// Batches by the time until they were durable: bounds in seconds, the last infinite.
    pub syncs: Vec<(f64, u64)>,
    pub sync_seconds: f64,
    /// The readings of a store that several gateways share.
    pub shared: Option<SharedReading>,
}

/// A gateway's part of the work that gateways share through a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharedReading {
    /// True if the database does not answer.
    pub is_away: bool,
    /// The number of gateways that share it, as last seen by this one.
    pub nodes: u64,
    /// The number of partitions that this gateway owns.
    pub partitions: u64,
    /// The number of times that another gateway took over this one's work.
    pub losses: u64,
}

/// Returns a reading without waiting; none while the store is not open.
pub type AskDurable = Box<dyn Fn() -> Option<DurableReading> + Send + Sync>;

/// Reads the counts of the store in the last plan that has one.
#[derive(Default)]
pub(crate) struct DurableMetrics(RwLock<Option<AskDurable>>);

impl DurableMetrics {
    pub(crate) fn set(&self, ask: AskDurable) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(ask);
    }

    pub(crate) fn read(&self) -> Option<DurableReading> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref()?()
    }
}

impl fmt::Debug for DurableMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().fmt(f)
    }
}
