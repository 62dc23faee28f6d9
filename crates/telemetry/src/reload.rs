//! Metrics of the configuration: which one serves, and how the attempts to change it went.

use crate::count::Shared;
use std::sync::{Arc, Mutex, PoisonError};

/// Written by `control` only.
#[derive(Debug, Default)]
pub struct ReloadMetrics {
    succeeded: Shared,
    failed: Shared,
    generation: Shared,
    succeeded_unix_millis: Shared,
    hash: Mutex<Arc<str>>,
    certificates: Mutex<Arc<[CertificateExpiry]>>,
    /// Shared with every plan that is in memory.
    plans: Arc<()>,
}

/// Counts the plan that holds it as one that is in memory.
#[derive(Debug)]
pub struct PlanAlive {
    _counted: Arc<()>,
}

/// When a certificate that the gateway shows to others expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateExpiry {
    /// Where the configuration names it: `listen.NAME.tls`, `listen.NAME.tls.sni.HOST` or `upstreams.NAME.tls`.
    pub place: Box<str>,
    /// In seconds since the Unix epoch.
    pub not_after: i64,
}

/// A reading of [`ReloadMetrics`].
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
    /// A plan came into effect. `hash` names the content it was made from.
    pub fn succeeded(&self, generation: u64, hash: &str) {
        self.succeeded.add(1);
        self.generation.set(generation);
        let millis = kit::clock::wall().as_millis();
        self.succeeded_unix_millis.set(u64::try_from(millis).unwrap_or(u64::MAX));
        *self.hash.lock().unwrap_or_else(PoisonError::into_inner) = hash.into();
    }

    /// These are the certificates of the plan that came into effect.
    pub fn certificates(&self, certificates: Vec<CertificateExpiry>) {
        *self.certificates.lock().unwrap_or_else(PoisonError::into_inner) = certificates.into();
    }

    /// For a plan to hold as long as it is in memory.
    pub fn plan_alive(&self) -> PlanAlive {
        PlanAlive { _counted: self.plans.clone() }
    }

    /// A configuration was refused; the last good plan still serves.
    pub fn failed(&self) {
        self.failed.add(1);
    }

    pub(crate) fn read(&self) -> Reloads {
        Reloads {
            succeeded: self.succeeded.get(),
            failed: self.failed.get(),
            generation: self.generation.get(),
            succeeded_unix_millis: self.succeeded_unix_millis.get(),
            plans: u64::try_from(Arc::strong_count(&self.plans) - 1).unwrap_or_default(),
            hash: self.hash.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            certificates: self.certificates.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
