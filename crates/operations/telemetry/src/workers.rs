//! The workers and the memory of the process, for operators.

use kit::memory;

use crate::Telemetry;
use crate::process::Process;
use crate::snapshot;

/// The state of one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerReading {
    pub requests: u64,
    pub panics: u64,
    pub connections_open: i64,
    /// The memory that its thread has allocated, minus what it has freed.
    pub memory_bytes: i64,
}

impl Telemetry {
    /// All workers, in the order of their numbers.
    pub fn worker_readings(&self) -> Vec<WorkerReading> {
        let listeners = self.listeners.all();
        let reading = |index| {
            let open = listeners.iter().map(|(_, listener)| snapshot::open_on(listener, index));
            WorkerReading {
                requests: self.worker(index).requests.get(),
                panics: self.worker(index).panics.get(),
                connections_open: open.sum(),
                memory_bytes: i64::try_from(memory::of_worker(index)).unwrap_or(i64::MAX),
            }
        };
        (0..self.workers()).map(reading).collect()
    }

    /// The resident memory of the process, if the system reports it.
    pub fn resident_bytes(&self) -> Option<u64> {
        Process::read().resident_bytes
    }
}
