//! Metrics of the configuration: the one in service, and the results of attempts to change it.

use crate::count::SharedCounter;
use std::sync::{Arc, Mutex, PoisonError};

/// The counts of reloads, and the state of the plan in service. Only `control` writes them.
#[derive(Debug, Default)]
pub struct ReloadMetrics {
    succeeded: SharedCounter,
    failed: SharedCounter,
    generation: SharedCounter,
    succeeded_unix_millis: SharedCounter,
    hash: Mutex<Arc<str>>,
    certificates: Mutex<Arc<[CertificateExpiry]>>,
    /// Held by every plan in memory.
    plans: Arc<()>,
}

/// A plan holds this while it is in memory, so that it is counted.
#[derive(Debug)]
pub struct PlanAlive {
    _counted: Arc<()>,
}

/// The expiry of one of the gateway's own certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateExpiry {
    /// Its place in the configuration: `listen.NAME.tls`, `listen.NAME.tls.sni.HOST` or `upstreams.NAME.tls`.
    pub place: Box<str>,
    /// Seconds since the Unix epoch.
    pub not_after: i64,
}

/// The values of [`ReloadMetrics`] at a scrape.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reloads {
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) generation: u64,
    pub(crate) succeeded_unix_millis: u64,
    pub(crate) plans: u64,
    pub(crate) hash: Arc<str>,
    pub(crate) certificates: Arc<[CertificateExpiry]>,
}

impl ReloadMetrics {
    /// Counts a plan that went into service. `hash` identifies its content.
    pub fn succeeded(&self, generation: u64, hash: &str) {
        self.succeeded.add(1);
        self.generation.set(generation);
        self.succeeded_unix_millis.set(kit::clock::millis(kit::clock::wall()));
        *self.hash.lock().unwrap_or_else(PoisonError::into_inner) = hash.into();
    }

    /// Sets the certificates of the plan that went into service.
    pub fn certificates(&self, certificates: Vec<CertificateExpiry>) {
        *self.certificates.lock().unwrap_or_else(PoisonError::into_inner) = certificates.into();
    }

    /// Returns what a plan holds while it is in memory.
    pub fn plan_alive(&self) -> PlanAlive {
        PlanAlive { _counted: self.plans.clone() }
    }

    /// Counts a refused configuration. The previous plan stays in service.
    pub fn failed(&self) {
        self.failed.add(1);
    }

    pub(crate) fn read(&self) -> Reloads {
        Reloads {
            succeeded: self.succeeded.get(),
            failed: self.failed.get(),
            generation: self.generation.get(),
            succeeded_unix_millis: self.succeeded_unix_millis.get(),
            // Harmless: one reference is `self.plans` itself, so the subtraction cannot underflow.
            plans: u64::try_from(Arc::strong_count(&self.plans) - 1).unwrap_or_default(),
            hash: self.hash.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            certificates: self.certificates.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
