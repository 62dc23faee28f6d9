//! Metrics of upstreams: the pools of the workers, and the targets, which all workers share.

use crate::count::{Counter, Gauge, SharedCounter};
use crate::shards::Shards;
use kit::clock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// The number of targets of one upstream that are rendered.
pub const TARGETS_MAX: usize = 1_000;

/// The metrics of one upstream.
#[derive(Debug)]
pub struct UpstreamMetrics {
    pools: Shards<PoolMetrics>,
    /// Weak, so that the metrics of removed targets disappear.
    targets: Mutex<BTreeMap<Box<str>, Weak<TargetMetrics>>>,
    look_ups_failed: SharedCounter,
    targets_left_out: SharedCounter,
}

/// The pool of one worker. Only that worker writes it.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct PoolMetrics {
    /// Connections that exist, in use or idle.
    pub connections_open: Gauge,
    /// Idle connections in the pool.
    pub connections_idle: Gauge,
    pub connections_created: Counter,
    /// Connections that could not be made: refused, timed out, or TLS failed.
    pub connections_failed: Counter,
    /// Requests that are being sent, or whose reply is incomplete.
    pub requests_active: Gauge,
    /// Requests that wait for a connection, as the breaker counts them.
    pub requests_pending: Gauge,
    pub retries: Counter,
    /// Requests refused because the breaker was at its limit.
    pub breaker_refused: Counter,
}

/// One target, shared by all workers. Changes are rare, so several threads may write it.
#[derive(Debug, Default)]
pub struct TargetMetrics {
    /// A [`TargetHealth`], as its number.
    health: SharedCounter,
    /// The number of ejections in force. After a reload, the old and the new target may both be ejected for a while.
    ejected: SharedCounter,
    ejections: SharedCounter,
    /// The end of its suspension, in milliseconds since the Unix epoch; 0 if there was none.
    suspended_until: SharedCounter,
    suspensions: SharedCounter,
    /// The serial number of the upstream that reports this target's health.
    teller: SharedCounter,
}

/// The known health of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetHealth {
    /// No request and no check has reached it yet.
    Unknown,
    /// Its last health checks or, without them, its last reply succeeded.
    Healthy,
    /// It has no health checks, and its last exchange failed. It still gets requests.
    Failing,
    /// Its health checks fail, and it gets no requests.
    Unhealthy,
}

impl TargetHealth {
    /// All states, in the order of their numbers.
    pub const ALL: [TargetHealth; 4] = [
        TargetHealth::Unknown,
        TargetHealth::Healthy,
        TargetHealth::Failing,
        TargetHealth::Unhealthy,
    ];

    /// The name in metrics and in the admin API.
    pub const fn name(self) -> &'static str {
        match self {
            TargetHealth::Unknown => "unknown",
            TargetHealth::Healthy => "healthy",
            TargetHealth::Failing => "failing",
            TargetHealth::Unhealthy => "unhealthy",
        }
    }

    /// Returns whether the target is healthy, or `None` if that is unknown.
    pub const fn is_healthy(self) -> Option<bool> {
        match self {
            TargetHealth::Unknown => None,
            TargetHealth::Healthy => Some(true),
            TargetHealth::Failing | TargetHealth::Unhealthy => Some(false),
        }
    }

    const fn number(self) -> u64 {
        match self {
            TargetHealth::Unknown => 0,
            TargetHealth::Healthy => 1,
            TargetHealth::Failing => 2,
            TargetHealth::Unhealthy => 3,
        }
    }
}

impl UpstreamMetrics {
    pub(crate) fn new(workers: usize) -> Self {
        UpstreamMetrics {
            pools: Shards::new(workers),
            targets: Mutex::default(),
            look_ups_failed: SharedCounter::default(),
            targets_left_out: SharedCounter::default(),
        }
    }

    /// Metrics for the gateway's own requests. They are not part of scrapes.
    pub fn unlisted() -> Arc<UpstreamMetrics> {
        Arc::new(UpstreamMetrics::new(0))
    }

    /// The pool metrics of a worker. Only that worker may write them.
    pub fn pool(&self, worker: usize) -> &PoolMetrics {
        self.pools.of(worker)
    }

    /// The metrics of a target. The same name gives the same metrics as long as somebody holds them.
    pub fn target(&self, name: &str) -> Arc<TargetMetrics> {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(target) = targets.get(name).and_then(Weak::upgrade) {
            return target;
        }
        targets.retain(|_, target| target.strong_count() > 0);
        let target = Arc::new(TargetMetrics::default());
        if targets.len() < TARGETS_MAX {
            targets.insert(name.into(), Arc::downgrade(&target));
        }
        target
    }

    /// Counts look-ups of names that failed.
    pub fn look_ups_failed(&self, count: u64) {
        self.look_ups_failed.add(count);
    }

    /// Records how many targets DNS lists above the limit of an upstream.
    pub fn set_left_out(&self, targets: usize) {
        self.targets_left_out.set(u64::try_from(targets).unwrap_or(u64::MAX));
    }

    pub(crate) fn failed_look_ups(&self) -> u64 {
        self.look_ups_failed.get()
    }

    pub(crate) fn left_out(&self) -> u64 {
        self.targets_left_out.get()
    }

    /// The connections of all workers, including idle ones.
    pub fn connections_open(&self) -> u64 {
        let open: i64 = self.pools().map(|pool| pool.connections_open.get()).sum();
        // Harmless: the sum may be negative for a moment, while a connection changes its worker.
        u64::try_from(open).unwrap_or_default()
    }

    pub(crate) fn pools(&self) -> impl Iterator<Item = &PoolMetrics> {
        self.pools.all()
    }

    pub(crate) fn targets(&self) -> Vec<(Box<str>, Arc<TargetMetrics>)> {
        let targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets
            .iter()
            // Harmless: a removed target has no metrics.
            .filter_map(|(name, target)| Some((name.clone(), target.upgrade()?)))
            .collect()
    }
}

impl TargetMetrics {
    /// Makes the upstream with this serial number report the health. After a reload, this is the newer of two upstreams with
    /// the same name.
    pub fn claim(&self, teller: u64) {
        self.teller.set(teller);
    }

    /// True if no other upstream has claimed it since.
    pub fn is_claimed_by(&self, teller: u64) -> bool {
        self.teller.get() == teller
    }

    pub fn set_health(&self, health: TargetHealth) {
        self.health.set(health.number());
    }

    /// The known health; unknown at first.
    pub fn health(&self) -> TargetHealth {
        let number = self.health.get();
        let known = TargetHealth::ALL.into_iter().find(|health| health.number() == number);
        known.unwrap_or(TargetHealth::Unknown)
    }

    /// Records that the target was ejected because it keeps failing.
    pub fn eject(&self) {
        self.ejected.add(1);
        self.ejections.add(1);
    }

    /// Records that the ejection has ended.
    pub fn readmit(&self) {
        self.ejected.subtract(1);
    }

    /// True if the target is ejected.
    pub fn is_ejected(&self) -> bool {
        self.ejected.get() > 0
    }

    /// Records that the target is suspended until this time since the Unix epoch.
    pub fn suspend(&self, until: Duration) {
        self.suspended_until.set(kit::clock::millis(until));
        self.suspensions.add(1);
    }

    /// Records that the target is not suspended.
    pub fn resume(&self) {
        self.suspended_until.set(0);
    }

    /// True if the target is suspended. A suspension ends at its time, even without a request.
    pub fn is_suspended(&self) -> bool {
        self.suspended_until.get() > clock::millis(clock::wall())
    }

    /// The number of suspensions so far.
    pub fn suspensions(&self) -> u64 {
        self.suspensions.get()
    }

    /// The number of ejections so far.
    pub fn ejections(&self) -> u64 {
        self.ejections.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_leaves_with_its_last_holder_and_the_number_is_bounded() {
        let upstream = UpstreamMetrics::new(1);
        let first = upstream.target("a");
        first.eject();
        assert!(upstream.target("a").is_ejected(), "the same name is the same target");
        drop(first);
        assert_eq!(upstream.targets().len(), 0);

        let held: Vec<_> = (0..TARGETS_MAX + 5).map(|n| upstream.target(&n.to_string())).collect();
        assert_eq!((held.len(), upstream.targets().len()), (TARGETS_MAX + 5, TARGETS_MAX));
    }

    #[test]
    fn readmitting_never_goes_below_zero() {
        let target = TargetMetrics::default();
        target.readmit();
        assert!(!target.is_ejected());
        assert_eq!(target.health(), TargetHealth::Unknown);
        target.eject();
        assert!(target.is_ejected());
    }

    #[test]
    fn a_suspension_is_over_at_its_end() {
        let (target, now) = (TargetMetrics::default(), clock::wall());
        target.suspend(now + Duration::from_secs(3600));
        assert!(target.is_suspended());
        target.suspend(now);
        assert!(!target.is_suspended());
        target.suspend(now + Duration::from_secs(3600));
        target.resume();
        assert_eq!((target.is_suspended(), target.suspensions()), (false, 3));
    }
}
