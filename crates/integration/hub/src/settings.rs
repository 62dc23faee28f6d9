//! The configured behaviour of a hub.

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
    /// Scopes by topic. A client needs one of them to subscribe and to read. If publishers need not sign, it also needs one to publish.
    pub scopes: Box<[TopicScopes]>,
    /// The hub's URL as its clients see it. If absent, the URL of the request is used.
    pub url: Option<Box<str>>,
    /// The secret with which publishers must sign. If absent, every client that the route and the scopes allow may publish.
    pub secret: Option<Box<str>>,
    /// The header of a publisher's signature, in lower case.
    pub signature: Box<str>,
    pub algorithm: Algorithm,
    /// The paths below the hub's path at which events are published, each with its leading slash.
    pub publish: Box<[Box<str>]>,
    /// The lease of subscribers that do not ask for one.
    pub lease_default: Duration,
    pub lease_max: Duration,
    pub subscriptions_max: usize,
    /// Whether the callback is asked to confirm a subscription.
    pub verify: bool,
    pub delivery: Delivery,
    /// Which callbacks the gateway may call.
    pub callbacks: AddressRule,
    pub retention: Retention,
    /// The store of the events, if it is not the gateway's store: a description, and a number that changes with its settings.
    pub log: Option<(Box<str>, u64)>,
    pub limits: Option<Limits>,
    pub event_bytes_max: usize,
}

/// A topic with scopes.
pub type TopicScopes = (Box<str>, Box<[Box<str>]>);

/// How events are delivered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delivery {
    /// The limit for a request, from connecting to the head of the reply. When an intent is verified, to the end of the reply.
    pub timeout: Duration,
    pub retries: Retries,
    /// Whether events that could not be delivered are kept as dead events.
    pub dead_letter: bool,
    /// Concurrent deliveries to one subscription. With one, events arrive in order.
    pub concurrency: usize,
}

/// How long events are kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retention {
    pub age: Duration,
    /// The limit for each topic.
    pub bytes: u64,
}

/// The limits of subscribers by plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    pub by: LimitedBy,
    /// The limits of subscribers without a plan.
    pub otherwise: Tier,
    /// By the names of plans.
    pub plans: Vec<(Box<str>, Tier)>,
}

/// The limits of one plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tier {
    /// All windows apply.
    pub windows: Vec<Window>,
    /// The limit of subscriptions of one subject.
    pub subscriptions: Option<usize>,
}

/// The limits of deliveries, and of their bytes, in one window.
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

/// The deliveries that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedBy {
    /// The deliveries of all subscriptions of a subject.
    Subject,
    /// The deliveries of one subscription.
    Subscription,
}

impl fmt::Debug for HubSettings {
    /// Omits the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubSettings").field("name", &self.name).finish_non_exhaustive()
    }
}
