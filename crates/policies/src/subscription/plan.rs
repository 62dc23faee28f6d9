//! Plans and their limits, which can change while requests pass.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use policy::Quota;

/// Windows that one plan may have of requests.
pub const WINDOWS_MAX: usize = 4;

/// What a plan allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanLimits {
    /// Requests, and bytes of their bodies and replies. All of them hold; none: no limit.
    pub requests: Box<[Quota]>,
    /// The rate of requests. None: no limit.
    pub burst: Option<Burst>,
    /// False: what is over the windows passes all the same, and is counted.
    pub stops: bool,
    /// Events and messages of streams. None: the plan says nothing of them.
    pub events: Option<Arc<[Quota]>>,
}

/// Requests that may come at once, and the time in which as many may come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    pub requests: u32,
    pub per: Duration,
}

/// A plan by its name. What it allows may change.
#[derive(Debug)]
pub struct NamedPlan {
    pub name: Arc<str>,
    limits: ArcSwap<PlanLimits>,
}

impl PlanLimits {
    /// No limit at all.
    pub fn unlimited() -> PlanLimits {
        let events = Some(Arc::from([]));
        PlanLimits { requests: Box::default(), burst: None, stops: true, events }
    }

    /// True if bodies have to be measured.
    pub(crate) fn counts_bytes(&self) -> bool {
        self.requests.iter().any(|window| window.bytes.is_some())
    }
}

impl NamedPlan {
    pub fn new(name: &str, limits: PlanLimits) -> NamedPlan {
        NamedPlan { name: name.into(), limits: ArcSwap::from_pointee(limits) }
    }

    /// What it allows now.
    pub fn limits(&self) -> Guard<Arc<PlanLimits>> {
        self.limits.load()
    }

    /// Allows something else from now on. What was used stays used.
    pub fn change(&self, limits: PlanLimits) {
        self.limits.store(Arc::new(limits));
    }
}
