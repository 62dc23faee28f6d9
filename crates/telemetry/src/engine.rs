//! Metrics of the engine that transforms messages on a machine of its own. It counts itself; here is who asks it.

use std::fmt;
use std::sync::OnceLock;

/// What the engine has done and holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineReading {
    pub threads: u64,
    pub pending: u64,
    pub heap_used_bytes: u64,
    pub heap_max_bytes: u64,
    pub done: u64,
    pub failed: u64,
    /// Of both, those that a worker ran itself.
    pub on_workers: u64,
    /// Turned away, since too many waited.
    pub refused: u64,
    /// Stopped after their deadline.
    pub stopped: u64,
    /// At work, in microseconds.
    pub busy_micros: u64,
}

/// Asks the engine, where there is one.
#[derive(Default)]
pub(crate) struct EngineMetrics(OnceLock<Ask>);

/// Gives a reading without waiting for anybody.
pub type Ask = Box<dyn Fn() -> EngineReading + Send + Sync>;

impl EngineMetrics {
    /// From now on it is asked; there is one in a process.
    pub(crate) fn set(&self, ask: Ask) {
        // It is the same engine at the second time.
        let _known = self.0.set(ask);
    }

    pub(crate) fn read(&self) -> Option<EngineReading> {
        self.0.get().map(|ask| ask())
    }
}

impl fmt::Debug for EngineMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().fmt(f)
    }
}
