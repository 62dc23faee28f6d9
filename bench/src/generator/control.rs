//! The handle of a running load: its progress, and how to stop it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::recorder::Recorder;

/// The handle of a running load. Clones refer to the same load.
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    is_stopped: AtomicBool,
    samples: AtomicU64,
    errors: AtomicU64,
    start: OnceLock<(Instant, Duration)>,
}

impl Control {
    /// Ends the load soon. What has been measured by then is its outcome.
    pub fn stop(&self) {
        self.0.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Returns true if the load has to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped.load(Ordering::Relaxed)
    }

    /// Returns the number of samples so far, including those of the warm-up.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.0.samples.load(Ordering::Relaxed)
    }

    /// Returns the number of samples so far that were errors.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.0.errors.load(Ordering::Relaxed)
    }

    /// Adds what has been recorded since the last call.
    pub(super) fn count_of(&self, recorder: &mut Recorder) {
        let (samples, errors) = recorder.take_counts();
        self.count(samples, errors);
    }

    pub(super) fn count(&self, samples: u64, errors: u64) {
        self.0.samples.fetch_add(samples, Ordering::Relaxed);
        self.0.errors.fetch_add(errors, Ordering::Relaxed);
    }

    /// Returns the start of the load. The first call sets it.
    pub(super) fn start(&self) -> Instant {
        self.begin().0
    }

    /// Returns the start of the load as the time since 1970.
    pub(super) fn started(&self) -> Duration {
        self.begin().1
    }

    #[allow(clippy::disallowed_methods, reason = "results contain the time of their measurement")]
    fn begin(&self) -> (Instant, Duration) {
        let wall = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        *self.0.start.get_or_init(|| (Instant::now(), wall()))
    }
}
