//! Metrics of Saxon, which transforms messages in a JVM. The engine counts itself; this module reads its counts.

use std::fmt;
use std::sync::OnceLock;

/// The engine's counts and sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineReading {
    pub threads: u64,
    pub pending: u64,
    pub heap_used_bytes: u64,
    pub heap_max_bytes: u64,
    pub done: u64,
    pub failed: u64,
    /// The part of `done` and `failed` that workers ran themselves.
    pub on_workers: u64,
    /// Messages refused because too many waited.
    pub refused: u64,
    /// Messages stopped after their deadline.
    pub stopped: u64,
    /// Working time, in microseconds.
    pub busy_micros: u64,
}

/// Reads the engine's counts, if there is an engine.
#[derive(Default)]
pub(crate) struct EngineMetrics(OnceLock<ReadEngine>);

/// Returns a reading without waiting.
pub type ReadEngine = Box<dyn Fn() -> EngineReading + Send + Sync>;

impl EngineMetrics {
    /// Sets the engine to read; a process has only one.
    pub(crate) fn set(&self, ask: ReadEngine) {
        // Harmless: a second call is for the same engine.
        let _ = self.0.set(ask);
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
