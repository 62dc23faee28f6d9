//! The clock. Monotonic time comes from tokio, so that a paused test clock moves everything together.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use tokio::time::Instant;

/// Monotonic time, for durations and deadlines.
pub fn now() -> Instant {
    Instant::now()
}

/// Time since the Unix epoch, for logs and tokens. A clock before 1970 reads as the epoch.
#[allow(clippy::disallowed_methods, reason = "this is the one place")]
pub fn wall() -> Duration {
    #[cfg(any(test, feature = "fake"))]
    if let Some(told) = crate::fake::told() {
        return told;
    }
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}
