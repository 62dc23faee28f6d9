//! The subscription by which a request came: noted by the policy that found it, for those that limit by it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What leads from a credential to its application: a digest, so that a look-up reads no text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ApplicationKey(pub [u8; 16]);

/// At most so many messages, and bytes of them, in so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    pub messages: Option<u64>,
    pub bytes: Option<u64>,
    pub per: Duration,
}

/// The subscription of a request's client.
#[derive(Debug, Clone)]
pub struct Subscribed {
    /// By which what is used of the subscription is counted, on every gateway the same.
    pub digest: u64,
    /// The name of its plan.
    pub plan: Arc<str>,
    /// The quotas of events and messages, all of which hold. None: the plan says nothing of them.
    pub events: Option<Arc<[Quota]>>,
}

impl fmt::Debug for ApplicationKey {
    /// Without the digest, which leads to an application.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApplicationKey")
    }
}
