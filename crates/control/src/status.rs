//! How the configuration is doing, for those who look from outside.

use config::Report;
use std::sync::Arc;
use std::time::Duration;

/// What serves, since when, and what was refused last.
#[derive(Debug, Clone)]
pub struct Status {
    /// The number of the plan that serves; the first is 1.
    pub generation: u64,
    /// A short name of the content it was made from.
    pub hash: String,
    /// When it came into service, since the Unix epoch.
    pub since: Duration,
    /// What its operator should know all the same.
    pub warnings: Report,
    /// The last attempt to change it, if that was refused.
    pub last_failed: Option<Arc<Failed>>,
}

/// An attempt that was refused.
#[derive(Debug)]
pub struct Failed {
    /// When, since the Unix epoch.
    pub at: Duration,
    /// Every complaint, as it is in the log.
    pub why: String,
}
