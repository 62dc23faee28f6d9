//! The clock. Monotonic time comes from tokio, so that a paused test clock affects everything.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use tokio::time::Instant;

/// Returns the monotonic time, for durations and deadlines.
pub fn now() -> Instant {
    Instant::now()
}

/// Returns the time since the Unix epoch, for logs and tokens, or 0 if the clock is before 1970.
#[allow(
    clippy::disallowed_methods,
    reason = "all other code reads the clock through this function"
)]
pub fn wall() -> Duration {
    #[cfg(any(test, feature = "fake"))]
    if let Some(now) = crate::fake::wall_now() {
        return now;
    }
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

/// Returns a time in whole milliseconds.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a time in whole microseconds.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns a time in nanoseconds, of which 64 bits hold 584 years. `Duration::as_nanos` would compute with 128 bits.
pub fn nanos(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos().into())
}
