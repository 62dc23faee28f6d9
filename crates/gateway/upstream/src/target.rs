//! One target of an upstream and its state. All workers share it, so everything that changes is atomic.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use kit::clock::{self, Instant};
use telemetry::{TargetHealth, TargetMetrics, UpstreamMetrics};

use crate::addresses::Addresses;
use crate::settings::{Outlier, Suspend, TargetSettings, UpstreamSettings};
use crate::sticky::Pins;
use crate::suspension::Suspension;

/// One place where an upstream runs.
pub struct Target {
    settings: TargetSettings,
    url: Arc<str>,
    authority: Box<str>,
    /// The only address, if the target is one of a name's addresses or is configured by address.
    literal: Option<SocketAddr>,
    /// The address, if the target is one of several addresses of a name.
    address: Option<SocketAddr>,
    /// The value of the cookie that keeps clients here, if the upstream has one.
    pin: Option<Box<str>>,
    pub(crate) known: Addresses,
    /// True once the upstream's set no longer contains it: it gets no new requests, and its connections are not kept.
    has_left: AtomicBool,
    /// Active requests, for `least_requests`.
    active: AtomicU32,
    /// End of its ejection, in milliseconds since the Unix epoch; 0 if it is not ejected.
    ejected_until: AtomicU64,
    ejections: AtomicU32,
    faults_in_a_row: AtomicU32,
    suspension: Suspension,
    /// Until this time, in milliseconds since the Unix epoch, other targets are preferred because a connection failed; 0 if
    /// the last connection succeeded.
    unreachable_until: AtomicU64,
    /// True if it has health checks.
    checked: bool,
    /// The latest health result. It is inherited from the previous plan until the first check.
    passes_checks: AtomicBool,
    /// The weight that an operator has set until the upstream changes; [`NOT_SET`] if none.
    weight_set: AtomicU32,
    /// True while an operator prevents new requests to it.
    drained: AtomicBool,
    /// The last reason why it was not healthy.
    reason: ArcSwapOption<String>,
    metrics: Arc<TargetMetrics>,
}

/// The value of `weight_set` if no weight was set.
const NOT_SET: u32 = u32::MAX;

/// How long other targets are preferred after a failed connection. It is short, so that a recovered target is soon used again,
/// and long enough that few requests wait for it, even if connecting takes the whole timeout.
const UNREACHABLE_MS: u64 = 1000;

/// The name in metrics of all targets whose URLs come with messages: callbacks and the endpoints of flows.
const DYNAMIC: &str = "(dynamic)";

/// Each further ejection of a target lasts longer, up to this multiple of the configured time.
const EJECTION_FACTOR_MAX: u32 = 10;

impl Target {
    /// A target of an upstream with these settings. `address` is set if it is one of several addresses of a name.
    pub(crate) fn new(
        settings: &TargetSettings,
        address: Option<SocketAddr>,
        of: &UpstreamSettings,
        metrics: &UpstreamMetrics,
        pins: Option<&Pins>,
    ) -> Target {
        let url = match address {
            Some(address) => {
                TargetSettings { host: address.ip().to_string(), ..settings.clone() }.url()
            }
            None => settings.url(),
        };
        // Names that come with messages are not labels, since their number is unlimited.
        let metrics = metrics.target(if of.addresses.is_some() { DYNAMIC } else { &url });
        // Without health checks, its replies decide its health, and it gets requests even while they fail.
        let checked = of.health.is_some();
        let own = settings.host.parse().map(|ip| SocketAddr::new(ip, settings.port));
        // Harmless: anything but an address is a name, which is resolved.
        let literal = address.or(own.ok());
        Target {
            authority: settings.authority().into(),
            literal,
            address,
            pin: pins.map(|pins| pins.pin(&url)),
            has_left: AtomicBool::new(false),
            checked,
            passes_checks: AtomicBool::new(!checked || metrics.health() != TargetHealth::Unhealthy),
            metrics,
            url: url.into(),
            known: literal.map_or_else(Addresses::default, Addresses::literal),
            active: AtomicU32::new(0),
            ejected_until: AtomicU64::new(0),
            ejections: AtomicU32::new(0),
            faults_in_a_row: AtomicU32::new(0),
            suspension: Suspension::default(),
            unreachable_until: AtomicU64::new(0),
            weight_set: AtomicU32::new(NOT_SET),
            drained: AtomicBool::new(false),
            reason: ArcSwapOption::empty(),
            settings: settings.clone(),
        }
    }

    pub fn settings(&self) -> &TargetSettings {
        &self.settings
    }

    /// `http://host:port`; without the port if it is the scheme's default.
    pub fn url(&self) -> &Arc<str> {
        &self.url
    }

    /// `host:port` as in a `Host` header.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Its only address, if it is never looked up.
    pub(crate) fn literal(&self) -> Option<SocketAddr> {
        self.literal
    }

    /// Its address, if it is one of a name's addresses.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    pub(crate) fn pin(&self) -> Option<&str> {
        self.pin.as_deref()
    }

    pub(crate) fn leave(&self) {
        self.has_left.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }

    /// True for an address that its name no longer has.
    pub(crate) fn has_lost(&self, address: Option<&SocketAddr>) -> bool {
        address.is_some_and(|address| !self.known.keep(*address))
    }

    /// The addresses of the last look-up.
    pub fn addresses(&self) -> Arc<Vec<SocketAddr>> {
        self.known.latest.load_full()
    }

    /// Its health according to its health checks or, without them, its replies.
    pub fn health(&self) -> TargetHealth {
        self.metrics.health()
    }

    /// False while its health checks fail. Then it gets no requests.
    pub(crate) fn passes_checks(&self) -> bool {
        self.passes_checks.load(Ordering::Relaxed)
    }

    /// The upstream with this serial number goes into service: the metrics under this name now show it.
    pub(crate) fn claim(&self, serial: u64) {
        self.metrics.claim(serial);
        // A state from health checks has no meaning without them, and a state from replies has none with them.
        let foreign = if self.checked { TargetHealth::Failing } else { TargetHealth::Unhealthy };
        if self.health() == foreign {
            self.metrics.set_health(TargetHealth::Unknown);
        }
    }

    /// True if another upstream has replaced the one with this serial number, which older exchanges may still use.
    pub(crate) fn is_replaced(&self, serial: u64) -> bool {
        !self.metrics.is_claimed_by(serial)
    }

    /// True while it is ejected for failing too often.
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

    /// The reason why it is not healthy, ejected or suspended, if known.
    pub fn reason(&self) -> Option<Arc<String>> {
        let is_ill = matches!(self.health(), TargetHealth::Failing | TargetHealth::Unhealthy);
        let is_out = self.is_ejected() || self.suspended_until().is_some();
        self.reason.load_full().filter(|_| is_ill || is_out)
    }

    /// Records the reason why it is not healthy.
    pub(crate) fn explain(&self, why: String) {
        self.reason.store(Some(Arc::new(why)));
    }

    /// The end of its suspension, as time since the Unix epoch, while it is suspended.
    pub fn suspended_until(&self) -> Option<Duration> {
        self.suspension.until(wall_ms).map(Duration::from_millis)
    }

    /// Active requests over all workers.
    pub fn active(&self) -> u32 {
        self.active.load(Ordering::Relaxed)
    }

    pub(crate) fn is_available(&self) -> bool {
        self.passes_checks()
            && !self.is_ejected()
            && self.suspended_until().is_none()
            && !self.is_drained()
            && self.weight_set() != Some(0)
    }

    /// A short name, the same wherever a target has this URL: its hash (FNV-1a) as 8 hexadecimal digits.
    pub fn id(&self) -> String {
        let add = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        format!("{:08x}", self.url.as_bytes().iter().fold(0x811c_9dc5, add))
    }

    /// The weight that an operator has set.
    pub fn weight_set(&self) -> Option<u32> {
        Some(self.weight_set.load(Ordering::Relaxed)).filter(|weight| *weight != NOT_SET)
    }

    /// True while an operator prevents new requests to it.
    pub fn is_drained(&self) -> bool {
        self.drained.load(Ordering::Relaxed)
    }

    /// Sets its weight, or whether it gets new requests, until its upstream changes. `None` leaves a setting
    /// unchanged.
    pub fn set(&self, weight: Option<u16>, drained: Option<bool>) {
        if let Some(weight) = weight {
            self.weight_set.store(u32::from(weight), Ordering::Relaxed);
        }
        if let Some(drained) = drained {
            self.drained.store(drained, Ordering::Relaxed);
        }
    }

    /// Sets the result of a health check.
    pub(crate) fn set_healthy(&self, healthy: bool) {
        self.passes_checks.store(healthy, Ordering::Relaxed);
        self.know(if healthy { TargetHealth::Healthy } else { TargetHealth::Unhealthy });
    }

    /// Records the health. It is almost always unchanged, and a plain load keeps the cache line shared between workers.
    fn know(&self, health: TargetHealth) {
        if self.health() != health {
            self.metrics.set_health(health);
        }
    }

    /// Records a failed connection: other targets are preferred for a moment.
    pub(crate) fn set_unreachable(&self) {
        self.unreachable_until.store(wall_ms() + UNREACHABLE_MS, Ordering::Relaxed);
    }

    /// True if other targets are preferred.
    pub(crate) fn is_unreachable(&self) -> bool {
        let until = self.unreachable_until.load(Ordering::Relaxed);
        until != 0 && wall_ms() < until
    }

    /// Records that a request tries it again at this time. Until the result is known, other requests still prefer other
    /// targets.
    pub(crate) fn extend_unreachable(&self) {
        if self.unreachable_until.load(Ordering::Relaxed) != 0 {
            self.set_unreachable();
        }
    }

    /// Counts a request as active until the result is dropped.
    pub(crate) fn begin(self: &Arc<Target>) -> InFlight {
        self.active.fetch_add(1, Ordering::Relaxed);
        InFlight(self.clone())
    }

    pub(crate) fn succeeded(&self) {
        // The count is almost always zero already; a plain load keeps the cache line shared between workers.
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

    /// Records that its last exchange failed, and the reason if the previous ones succeeded. If it has health checks,
    /// only they count.
    pub(crate) fn record_failing(&self, why: impl FnOnce() -> String) {
        if !self.checked && self.health() != TargetHealth::Failing {
            self.explain(why());
            self.metrics.set_health(TargetHealth::Failing);
        }
    }

    /// Counts a fault; true if the target has reached the limit and should be ejected.
    pub(crate) fn failed(&self, outlier: &Outlier) -> bool {
        self.faults_in_a_row.fetch_add(1, Ordering::Relaxed) + 1 >= outlier.consecutive_faults
    }

    /// Counts a failure that the rule lists, for a request sent at `began`. Returns the length of the suspension, if this
    /// suspends the target.
    pub(crate) fn record_listed_failure(&self, rule: &Suspend, began: Instant) -> Option<Duration> {
        let now = wall_ms();
        let length = self.suspension.failed(rule, now.saturating_sub(age_ms(began)), now)?;
        let end = clock::wall().saturating_add(length);
        self.metrics.suspend(end);
        Some(length)
    }

    /// Records a successful reply to a request sent at `began`. True if the target had been suspended.
    pub(crate) fn record_listed_success(&self, began: Instant) -> bool {
        self.suspension.succeeded(|| wall_ms().saturating_sub(age_ms(began)))
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
        if self.suspended_until().is_some() {
            // The metrics outlive the target: another upstream of this name may use them, and its target is not suspended.
            self.metrics.resume();
        }
    }
}

/// An active request to a target.
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

fn age_ms(began: Instant) -> u64 {
    clock::millis(clock::now().duration_since(began))
}

fn wall_ms() -> u64 {
    clock::millis(clock::wall())
}

#[cfg(test)]
mod tests;
