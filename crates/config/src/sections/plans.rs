//! `plans`: named limits, such as Gold and Silver, and `stores`: where gateways count together.

use std::time::Duration;

use crate::decode::keys;
use crate::policies::Requests;
use crate::report::At;
use crate::sections::UpstreamTls;
use crate::values::{Between, Secret, Size, Spanned, Timeout};

keys! {
    /// The limits of clients on this plan: of requests for a `rate_limit`, of events for `sse`, `websocket` and a hub's `limits`, each with
    /// `plans: true`.
    pub struct LimitPlan {
        /// How many requests pass in the time of `per`.
        requests: Option<Spanned<Requests>>,
        /// How many events of streams, messages of WebSockets or deliveries of hubs pass in the time of `per`.
        events: Option<Spanned<Requests>>,
        /// How many bytes of events pass in the time of `per`.
        bytes: Option<Spanned<Size>>,
        /// The time, such as `1s` or `1m`.
        per: Option<Spanned<Timeout>>,
        /// How many requests may come at once; `requests` if absent.
        burst: Option<Spanned<Requests>>,
        /// More windows, all of which have to hold.
        windows: Vec<Spanned<PlanWindow>> = Vec::new(),
        /// How many subscriptions to a hub a client may have; 429 above.
        subscriptions: Option<Spanned<Requests>>,
        /// Whether there is no limit.
        unlimited: bool = false,
    }
}

keys! {
    /// At most this many requests, events or bytes of events in this time.
    pub struct PlanWindow {
        /// How many requests pass in the time of `per`.
        requests: Option<Requests>,
        /// How many events pass in the time of `per`.
        events: Option<Requests>,
        /// How many bytes of events pass in the time of `per`.
        bytes: Option<Size>,
        /// The time, such as `1s` or `1m`.
        per: Spanned<Timeout>,
        /// How many requests may come at once; `requests` if absent.
        burst: Option<Requests>,
    }
}

/// A plan for streams that is there without being written: so many events in a day, or for webhooks in a month.
struct Ready {
    name: &'static str,
    events: Option<(Requests, u64)>,
    subscriptions: Option<Requests>,
}

const DAY: u64 = 86_400;

const fn by_day(name: &'static str, events: u32) -> Ready {
    Ready { name, events: Some((Between::new(events), DAY)), subscriptions: None }
}

const fn by_month(name: &'static str, events: u32, subscriptions: u32) -> Ready {
    let subscriptions = Some(Between::new(subscriptions));
    Ready { name, events: Some((Between::new(events), 30 * DAY)), subscriptions }
}

const fn unlimited(name: &'static str) -> Ready {
    Ready { name, events: None, subscriptions: None }
}

/// The names and limits are those of WSO2's API Manager.
const READY: [Ready; 9] = [
    by_day("AsyncGold", 50_000),
    by_day("AsyncSilver", 25_000),
    by_day("AsyncBronze", 5_000),
    unlimited("AsyncUnlimited"),
    by_day("AsyncSubscriptionless", 10_000),
    by_month("AsyncWHGold", 10_000, 1_000),
    by_month("AsyncWHSilver", 5_000, 500),
    by_month("AsyncWHBronze", 1_000, 500),
    unlimited("AsyncWHUnlimited"),
];

/// The plans for streams that are there without being written, at the place where somebody names one.
pub fn ready_plans(at: At) -> impl Iterator<Item = (&'static str, Spanned<LimitPlan>)> {
    READY.iter().map(move |ready| {
        let here = |value| Spanned { value, at, intact: true };
        let plan = LimitPlan {
            requests: None,
            events: ready.events.map(|(events, _)| Spanned { value: events, at, intact: true }),
            bytes: None,
            per: ready.events.map(|(_, per)| here(Timeout(Duration::from_secs(per)))),
            burst: None,
            windows: Vec::new(),
            subscriptions: ready.subscriptions.map(|max| Spanned { value: max, at, intact: true }),
            unlimited: ready.events.is_none(),
        };
        (ready.name, Spanned { value: plan, at, intact: true })
    })
}

keys! {
    /// A server through which several gateways share counts.
    pub struct LimitStore {
        /// A Redis or Valkey server: `redis://HOST:PORT`, `redis://HOST:PORT/DATABASE`, `rediss://` for TLS, or `unix:///PATH`.
        redis: Spanned<String>,
        /// The server's password, if it needs one.
        password: Option<Secret>,
        /// How to verify a `rediss` server, and the certificate to show to it.
        tls: UpstreamTls,
        /// How often counts are sent to the server.
        // What the others may let through too much in that time is small, and ten round trips a second are nothing to a server.
        interval: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_millis(100))),
        /// How long the server may take to answer; after that it counts as down. Requests do not wait for a server that is down.
        // A server in reach answers within a millisecond; with the pause between two questions, one that is gone is seen
        // within a second.
        timeout: Timeout = Timeout(Duration::from_millis(250)),
    }
}
