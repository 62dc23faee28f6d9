//! What a hub does, as it was configured.

use std::fmt;
use std::time::Duration;

use upstream::AddressRule;

use crate::retry::Retries;
use crate::signature::Algorithm;

/// The settings of a hub, made by `compile`.
#[derive(Clone, PartialEq)]
pub struct Settings {
    pub name: Box<str>,
    pub topics: Box<[Box<str>]>,
    /// The secret that publishers sign with; anybody who gets through the route may publish if absent.
    pub secret: Option<Box<str>>,
    /// The header of a publisher's signature, in lower case.
    pub signature: Box<str>,
    pub algorithm: Algorithm,
    /// The path below the hub's own at which events are published, with its slash.
    pub publish: Box<str>,
    /// The lease of whoever asks for none.
    pub lease_default: Duration,
    pub lease_max: Duration,
    pub subscriptions_max: usize,
    /// Whether subscribers are asked if they want it.
    pub verify: bool,
    pub delivery: Delivery,
    /// Which callbacks are called.
    pub callbacks: AddressRule,
    pub retention: Retention,
    /// Where events are kept, if it is not the gateway's store: in words, and as a number that changes when anything about it does.
    pub log: Option<(Box<str>, u64)>,
    pub limits: Option<Limits>,
    pub event_bytes_max: usize,
}

/// How events are delivered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delivery {
    /// From the connection to the reply.
    pub timeout: Duration,
    pub retries: Retries,
    /// Whether events that could not be delivered are kept.
    pub dead_letter: bool,
    /// Events under way to one subscription at a time. With one they arrive in order.
    pub concurrency: usize,
}

/// How long events are kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retention {
    pub age: Duration,
    /// Of each topic.
    pub bytes: u64,
}

/// At most so many deliveries in so long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    pub events: u64,
    pub per: Duration,
    pub by: LimitedBy,
}

/// Whose deliveries are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedBy {
    /// Those of all subscriptions of a subject.
    Subject,
    /// Those of a subscription.
    Subscription,
}

impl fmt::Debug for Settings {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("name", &self.name).finish_non_exhaustive()
    }
}
