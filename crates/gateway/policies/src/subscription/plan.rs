//! Plans and their limits, which can change at run time.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use policy::Quota;

/// The maximum number of request windows of one plan.
pub const WINDOWS_MAX: usize = 4;

/// The limits of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanLimits {
    /// The quotas on requests and on bytes of their bodies and replies, all of which apply. If empty, there is no limit.
    pub requests: Box<[Quota]>,
    /// The limit on the rate of requests, if any.
    pub burst: Option<Burst>,
    /// Whether requests beyond the windows are refused. If false, they pass and are counted.
    pub stops: bool,
    /// The quotas on events and messages of streams, or `None` if the plan has none.
    pub events: Option<Arc<[Quota]>>,
}

/// The number of requests that may arrive at once, and the time in which as many may arrive again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    pub requests: u32,
    pub per: Duration,
}

/// A named plan, whose limits may change.
#[derive(Debug)]
pub struct NamedPlan {
    pub name: Arc<str>,
    limits: ArcSwap<PlanLimits>,
}

impl PlanLimits {
    /// Returns limits that allow everything.
    pub fn unlimited() -> PlanLimits {
        let events = Some(Arc::from([]));
        PlanLimits { requests: Box::default(), burst: None, stops: true, events }
    }

    /// Returns true if bodies must be measured.
    pub(crate) fn counts_bytes(&self) -> bool {
        self.requests.iter().any(|window| window.bytes.is_some())
    }
}

impl NamedPlan {
    pub fn new(name: &str, limits: PlanLimits) -> NamedPlan {
        NamedPlan { name: name.into(), limits: ArcSwap::from_pointee(limits) }
    }

    /// Returns the current limits.
    pub fn limits(&self) -> Guard<Arc<PlanLimits>> {
        self.limits.load()
    }

    /// Replaces the limits. Counts are kept.
    pub fn change(&self, limits: PlanLimits) {
        self.limits.store(Arc::new(limits));
    }
}
