//! One target of an upstream, and what is known about it. Shared by all workers, so everything that changes is atomic.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use kit::clock;
use telemetry::{TargetMetrics, UpstreamMetrics};

use crate::settings::{Outlier, TargetSettings};

/// A place requests can be sent to.
pub struct Target {
    settings: TargetSettings,
    url: Arc<str>,
    authority: Box<str>,
    /// Where the name leads; filled by look-ups at its own pace, never by a request.
    addresses: ArcSwap<Vec<SocketAddr>>,
    next_address: AtomicU32,
    /// Requests in flight, for `least_requests`.
    active: AtomicU32,
    /// Milliseconds since the Unix epoch until which it is ejected; 0 if it is not.
    ejected_until: AtomicU64,
    ejections: AtomicU32,
    faults_in_a_row: AtomicU32,
    /// What the health checks of this upstream say, and before their first word those of the one before it.
    healthy: AtomicBool,
    metrics: Arc<TargetMetrics>,
}

/// A repeated offender is ejected for longer each time, up to this multiple of the configured time.
const EJECTION_FACTOR_MAX: u32 = 10;

impl Target {
    /// `checked`: health checks tell of it. Without them it is believed to be well.
    pub(crate) fn new(
        settings: &TargetSettings,
        metrics: &UpstreamMetrics,
        checked: bool,
    ) -> Target {
        let url = settings.url();
        let metrics = metrics.target(&url);
        let literal = settings.host.parse().map(|ip| vec![SocketAddr::new(ip, settings.port)]);
        Target {
            authority: settings.authority().into(),
            healthy: AtomicBool::new(!checked || metrics.is_healthy()),
            metrics,
            url: url.into(),
            addresses: ArcSwap::from_pointee(literal.unwrap_or_default()),
            next_address: AtomicU32::new(0),
            active: AtomicU32::new(0),
            ejected_until: AtomicU64::new(0),
            ejections: AtomicU32::new(0),
            faults_in_a_row: AtomicU32::new(0),
            settings: settings.clone(),
        }
    }

    pub fn settings(&self) -> &TargetSettings {
        &self.settings
    }

    /// `http://host:port`.
    pub fn url(&self) -> &Arc<str> {
        &self.url
    }

    /// `host:port` as a `Host` header names it.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Addresses its name led to at the last look-up.
    pub fn addresses(&self) -> Arc<Vec<SocketAddr>> {
        self.addresses.load_full()
    }

    /// What the health checks say; healthy until they say otherwise.
    pub fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }

    /// The upstream of this serial serves from now on: it is what the metrics tell of under this name.
    pub(crate) fn claim(&self, serial: u64) {
        self.metrics.claim(serial);
        self.metrics.set_healthy(self.is_healthy());
    }

    /// Whether another upstream has taken the place of that one, which exchanges that began before may still hold.
    pub(crate) fn is_replaced(&self, serial: u64) -> bool {
        !self.metrics.is_claimed_by(serial)
    }

    /// Kept out of the rotation for failing too often.
    pub fn is_ejected(&self) -> bool {
        match self.ejected_until.load(Ordering::Relaxed) {
            0 => false,
            until if wall_ms() < until => true,
            until => {
                let ended = self.ejected_until.compare_exchange(
                    until,
                    0,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                );
                if ended.is_ok() {
                    self.metrics.readmit();
                }
                false
            }
        }
    }

    /// Requests in flight over all workers.
    pub fn active(&self) -> u32 {
        self.active.load(Ordering::Relaxed)
    }

    pub(crate) fn is_available(&self) -> bool {
        self.is_healthy() && !self.is_ejected()
    }

    pub(crate) fn set_healthy(&self, healthy: bool) {
        self.healthy.store(healthy, Ordering::Relaxed);
        self.metrics.set_healthy(healthy);
    }

    pub(crate) fn set_addresses(&self, addresses: Vec<SocketAddr>) {
        if **self.addresses.load() != addresses {
            self.addresses.store(Arc::new(addresses));
        }
    }

    /// The next address to connect to: each in turn, so that all of a name's addresses share the load.
    pub(crate) fn next_address(&self) -> Option<SocketAddr> {
        let addresses = self.addresses.load();
        let turn = self.next_address.fetch_add(1, Ordering::Relaxed) as usize;
        addresses.get(turn.checked_rem(addresses.len())?).copied()
    }

    /// Marks a request as in flight until the mark is dropped.
    pub(crate) fn begin(self: &Arc<Target>) -> InFlight {
        self.active.fetch_add(1, Ordering::Relaxed);
        InFlight(self.clone())
    }

    pub(crate) fn succeeded(&self) {
        // Almost always zero already; a plain load keeps the cache line shared between workers.
        if self.faults_in_a_row.load(Ordering::Relaxed) != 0 {
            self.faults_in_a_row.store(0, Ordering::Relaxed);
        }
    }

    /// Counts a fault; true if that is one too many and the target should be ejected.
    pub(crate) fn failed(&self, outlier: &Outlier) -> bool {
        self.faults_in_a_row.fetch_add(1, Ordering::Relaxed) + 1 >= outlier.consecutive_faults
    }

    pub(crate) fn eject(&self, time: Duration) {
        let ejections = self.ejections.fetch_add(1, Ordering::Relaxed) + 1;
        let time = time.saturating_mul(ejections.min(EJECTION_FACTOR_MAX));
        let until = wall_ms() + u64::try_from(time.as_millis()).unwrap_or(u64::MAX / 2);
        self.faults_in_a_row.store(0, Ordering::Relaxed);
        if self.ejected_until.swap(until, Ordering::Relaxed) == 0 {
            self.metrics.eject();
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if *self.ejected_until.get_mut() != 0 {
            self.metrics.readmit();
        }
    }
}

/// A request in flight to a target.
pub(crate) struct InFlight(Arc<Target>);

impl InFlight {
    pub(crate) fn url(&self) -> &str {
        &self.0.url
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::Relaxed);
    }
}

fn wall_ms() -> u64 {
    u64::try_from(clock::wall().as_millis()).unwrap_or(u64::MAX)
}
