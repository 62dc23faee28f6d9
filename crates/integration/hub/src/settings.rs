//! What a hub does, as it was configured.

use std::fmt;
use std::time::Duration;

use delivery::Retries;
use upstream::AddressRule;

use crate::signature::Algorithm;

/// The settings of a hub, made by `compile`.
#[derive(Clone, PartialEq)]
pub struct HubSettings {
    pub name: Box<str>,
    pub topics: Box<[Box<str>]>,
    /// Scopes by topic, of which a client needs one to subscribe to it, to read it, and to publish without a signature.
    pub scopes: Box<[TopicScopes]>,
    /// The hub's URL as its clients see it; what they ask if absent.
    pub url: Option<Box<str>>,
    /// The secret that publishers sign with; anybody who gets through the route may publish if absent.
    pub secret: Option<Box<str>>,
    /// The header of a publisher's signature, in lower case.
    pub signature: Box<str>,
    pub algorithm: Algorithm,
    /// The paths below the hub's own at which events are published, with their slashes.
    pub publish: Box<[Box<str>]>,
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

/// A topic with scopes.
pub type TopicScopes = (Box<str>, Box<[Box<str>]>);

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

/// What subscribers on a plan may have, and those on none.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    pub by: LimitedBy,
    /// For subscribers on no plan.
    pub otherwise: Tier,
    /// By the names of plans.
    pub plans: Vec<(Box<str>, Tier)>,
}

/// The limits of one plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tier {
    /// All of them hold.
    pub windows: Vec<Window>,
    /// Subscriptions of one subject.
    pub subscriptions: Option<usize>,
}

/// At most so many deliveries, and bytes of them, in so long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Window {
    pub events: Option<u64>,
    pub bytes: Option<u64>,
    pub per: Duration,
}

impl Limits {
    pub(crate) fn of(&self, plan: Option<&str>) -> &Tier {
        let named = plan.and_then(|plan| self.plans.iter().find(|(name, _)| **name == *plan));
        named.map_or(&self.otherwise, |(_, tier)| tier)
    }
}

/// Whose deliveries are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedBy {
    /// Those of all subscriptions of a subject.
    Subject,
    /// Those of a subscription.
    Subscription,
}

impl fmt::Debug for HubSettings {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("name", &self.name).finish_non_exhaustive()
    }
}
