//! One target of an upstream, and what is known about it. Shared by all workers, so everything that changes is atomic.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use kit::clock;
use telemetry::{TargetHealth, TargetMetrics, UpstreamMetrics};

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
    /// Milliseconds since the Unix epoch until which others are asked first, since it could not be connected to; 0 if it could.
    unreachable_until: AtomicU64,
    /// Health checks tell of it.
    checked: bool,
    /// False while the health checks of this upstream fail, and before their first word while those of the one before it did.
    passes_checks: AtomicBool,
    metrics: Arc<TargetMetrics>,
}

/// How long others are asked first once it could not be connected to. Short, so that it is back soon after it is well; long
/// enough that where connecting takes all of its timeout, hardly a request waits for that.
const UNREACHABLE_MS: u64 = 1000;

/// A repeated offender is ejected for longer each time, up to this multiple of the configured time.
const EJECTION_FACTOR_MAX: u32 = 10;

impl Target {
    /// `checked`: health checks tell of it. Without them its replies do, and it gets requests whatever they say.
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
            checked,
            passes_checks: AtomicBool::new(!checked || metrics.health() != TargetHealth::Unhealthy),
            metrics,
            url: url.into(),
            addresses: ArcSwap::from_pointee(literal.unwrap_or_default()),
            next_address: AtomicU32::new(0),
            active: AtomicU32::new(0),
            ejected_until: AtomicU64::new(0),
            ejections: AtomicU32::new(0),
            faults_in_a_row: AtomicU32::new(0),
            unreachable_until: AtomicU64::new(0),
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

    /// What is known about it, from health checks or, without them, from its replies.
    pub fn health(&self) -> TargetHealth {
        self.metrics.health()
    }

    /// False while its health checks fail; it gets no requests then.
    pub(crate) fn passes_checks(&self) -> bool {
        self.passes_checks.load(Ordering::Relaxed)
    }

    /// The upstream of this serial serves from now on: it is what the metrics tell of under this name.
    pub(crate) fn claim(&self, serial: u64) {
        self.metrics.claim(serial);
        // What checks said of it is nothing to one that has none, and what replies said nothing to one that has.
        let foreign = match self.checked {
            true => TargetHealth::Failing,
            false => TargetHealth::Unhealthy,
        };
        if self.health() == foreign {
            self.metrics.set_health(TargetHealth::Unknown);
        }
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
        self.passes_checks() && !self.is_ejected()
    }

    /// What the health checks say.
    pub(crate) fn set_healthy(&self, healthy: bool) {
        self.passes_checks.store(healthy, Ordering::Relaxed);
        self.know(if healthy { TargetHealth::Healthy } else { TargetHealth::Unhealthy });
    }

    /// Almost always known already; a plain load keeps the cache line shared between workers.
    fn know(&self, health: TargetHealth) {
        if self.health() != health {
            self.metrics.set_health(health);
        }
    }

    /// It could not be connected to: for a moment others are asked first.
    pub(crate) fn set_unreachable(&self) {
        self.unreachable_until.store(wall_ms() + UNREACHABLE_MS, Ordering::Relaxed);
    }

    /// Others are to be asked first.
    pub(crate) fn is_unreachable(&self) -> bool {
        let until = self.unreachable_until.load(Ordering::Relaxed);
        until != 0 && wall_ms() < until
    }

    /// It is asked again after a while of being passed over: by this request, and not by all that come before its outcome.
    pub(crate) fn asked_again(&self) {
        if self.unreachable_until.load(Ordering::Relaxed) != 0 {
            self.set_unreachable();
        }
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
        if self.unreachable_until.load(Ordering::Relaxed) != 0 {
            self.unreachable_until.store(0, Ordering::Relaxed);
        }
        if !self.checked {
            self.know(TargetHealth::Healthy);
        }
    }

    /// Its last exchange failed; where there are health checks, they know better.
    pub(crate) fn is_failing(&self) {
        if !self.checked {
            self.know(TargetHealth::Failing);
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
