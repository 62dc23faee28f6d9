//! The state of the configuration, for observers.

use config::Report;
use std::sync::Arc;
use std::time::Duration;

/// The state of the plan in service, and the last change if it was refused.
#[derive(Debug, Clone)]
pub struct Status {
    /// The generation of the plan in service; the first is 1.
    pub generation: u64,
    /// The hash of its content.
    pub hash: String,
    /// When it went into service, since the Unix epoch.
    pub since: Duration,
    /// Its warnings.
    pub warnings: Report,
    /// The last attempt to change it, if it was refused.
    pub last_failed: Option<Arc<FailedAttempt>>,
}

/// A refused attempt.
#[derive(Debug)]
pub struct FailedAttempt {
    /// The time, since the Unix epoch.
    pub at: Duration,
    /// All complaints, as in the log.
    pub why: String,
}
