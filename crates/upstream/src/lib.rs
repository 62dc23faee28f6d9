//! The way to the services behind: which target, over which connection, until when, and what to do when it fails.
//!
//! Owns the per-worker connection pools, balancing, health, outlier ejection, breaker limits, timeouts and retries, and
//! the HTTP/1 client under them; and what belongs to one hop of a head ([`forward`]). A request enters by [`Upstream::send`] and leaves as a reply whose body is pulled from
//! the target's connection. It never decides what a client reads: every failure is a `Fault`.
#![forbid(unsafe_code)]

mod balance;
mod breaker;
mod call;
mod connect;
pub mod forward;
mod health;
mod mirror;
mod pool;
mod reply;
mod send;
mod settings;
mod target;

pub use health::maintain;
pub use mirror::Mirror;
pub use pool::sweep;
pub use settings::{
    Balance, Breaker, HashKey, Health, HostSent, Outlier, Retry, RetryOn, Settings, TargetSettings,
    Timeouts,
};
pub use target::Target;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use telemetry::UpstreamMetrics;

/// One upstream: its settings and the state all workers share.
pub struct Upstream {
    settings: Settings,
    targets: Vec<Arc<Target>>,
    limits: breaker::Limits,
    metrics: Arc<UpstreamMetrics>,
    /// Tells this upstream from every other one of the process, so that each worker finds its pool for it.
    serial: u64,
}

impl Upstream {
    /// Makes the shared state. Nothing is connected or looked up yet: see [`maintain`].
    pub fn new(settings: Settings, metrics: Arc<UpstreamMetrics>) -> Arc<Upstream> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let checked = settings.health.is_some();
        let target = |target| Arc::new(Target::new(target, &metrics, checked));
        let targets = settings.targets.iter().map(target).collect();
        Arc::new(Upstream {
            targets,
            limits: breaker::Limits::new(&settings.breaker),
            metrics,
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            settings,
        })
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Targets in the order they are configured, with their live state.
    pub fn targets(&self) -> &[Arc<Target>] {
        &self.targets
    }
}
