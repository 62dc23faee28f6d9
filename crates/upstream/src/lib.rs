//! The way to upstreams: which target, over which connection, until when, and what to do after a failure.
//!
//! Owns the per-worker connection pools, balancing, sticky cookies, health, outlier ejection, suspension, breaker limits, timeouts
//! and retries, the clients of HTTP/1 and HTTP/2 below them, and the hop-by-hop part of a head ([`forward`]). A request enters by [`Upstream::send`] and leaves as a
//! reply whose body is pulled from the target's connection. It never decides what the client gets for a failure: every failure
//! is a `Fault`.
#![forbid(unsafe_code)]

mod address_rule;
mod addresses;
mod balance;
mod breaker;
mod call;
mod called_url;
mod connect;
mod endpoints;
pub mod forward;
mod h2;
mod health;
mod mirror;
mod pool;
mod replay_buffer;
mod reply;
mod send;
mod settings;
mod sticky;
mod suspension;
mod target;

pub use address_rule::AddressRule;
pub use called_url::{CalledUrl, UrlError};
pub use endpoints::{AllowedHost, AllowedUrl, Endpoint, Endpoints};
pub use health::maintain;
pub use mirror::Mirror;
pub use pool::sweep;
pub use settings::{
    Balance, Breaker, Failures, HashKey, Health, HostSent, Outlier, Protocol, Retry, Sticky,
    Suspend, TargetSettings, Timeouts, UpstreamSettings,
};
pub use target::Target;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use telemetry::UpstreamMetrics;

/// One upstream: its settings and the state all workers share.
pub struct Upstream {
    settings: UpstreamSettings,
    targets: Vec<Arc<Target>>,
    /// The cookie that keeps clients at their targets, if configured.
    pins: Option<sticky::Pins>,
    limits: breaker::Limits,
    metrics: Arc<UpstreamMetrics>,
    /// TLS settings for connections that may speak HTTP/2; none if none may.
    tls_http2: Option<Arc<rustls::ClientConfig>>,
    /// The serial number of this upstream in the process, by which each worker finds its pool.
    serial: u64,
}

impl Upstream {
    /// Makes the shared state. Nothing is connected or resolved yet: see [`maintain`].
    pub fn new(settings: UpstreamSettings, metrics: Arc<UpstreamMetrics>) -> Arc<Upstream> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let checked = settings.health.is_some();
        let by_clients = settings.addresses.is_some();
        let target = |target| Arc::new(Target::new(target, &metrics, checked, by_clients));
        let targets = settings.targets.iter().map(target).collect();
        Arc::new(Upstream {
            targets,
            pins: settings.sticky.as_ref().map(sticky::Pins::new),
            limits: breaker::Limits::new(&settings.breaker),
            tls_http2: match settings.protocol {
                Protocol::Http1 => None,
                Protocol::Http2 => Some(settings.tls.offering(&["h2"])),
                Protocol::Auto => Some(settings.tls.offering(&["h2", "http/1.1"])),
            },
            metrics,
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            settings,
        })
    }

    pub fn settings(&self) -> &UpstreamSettings {
        &self.settings
    }

    /// True if a target's name no longer has an address.
    fn has_lost(&self, target: usize, address: Option<&SocketAddr>) -> bool {
        match (address, self.targets.get(target)) {
            (Some(address), Some(target)) => !target.known.keep(*address),
            (None, _) | (_, None) => false,
        }
    }

    /// Targets in their configured order, with their live state.
    pub fn targets(&self) -> &[Arc<Target>] {
        &self.targets
    }
}
