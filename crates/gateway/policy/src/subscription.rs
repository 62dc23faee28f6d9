//! The subscription of a request, recorded by the policy that found it, for policies that limit by it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The key under which the application of a credential is found: a digest, so that a look-up compares no text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ApplicationKey(pub [u8; 16]);

/// A maximum number of messages, of bytes, or both, per time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    pub messages: Option<u64>,
    pub bytes: Option<u64>,
    pub per: Duration,
}

/// The subscription of a request's client.
#[derive(Debug, Clone)]
pub struct Subscribed {
    /// The key of the subscription's counts, the same on every gateway.
    pub digest: u64,
    /// The name of its plan.
    pub plan: Arc<str>,
    /// The quotas on events and messages, all of which apply, or `None` if the plan has none.
    pub events: Option<Arc<[Quota]>>,
}

impl fmt::Debug for ApplicationKey {
    /// Omits the digest, which identifies an application.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApplicationKey")
    }
}
