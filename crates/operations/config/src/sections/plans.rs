//! `plans`: named limits, such as Gold and Silver, and `stores`: servers through which gateways share counts.

use std::time::Duration;

use crate::decode::keys;
use crate::policies::Requests;
use crate::sections::UpstreamTls;
use crate::sources::At;
use crate::values::{Between, Secret, Size, Spanned, Timeout};

keys! {
    /// The limits of clients on this plan: on requests for a `rate_limit`, on events for `sse`, `websocket` and a hub's `limits`, each with
    /// `plans: true`, and on all of these for subscriptions. The plans of WSO2's API Manager are predefined.
    pub struct LimitPlan {
        /// How many requests pass in the time of `per`.
        requests: Option<Spanned<Requests>>,
        /// How many events of streams, messages of WebSockets or deliveries of hubs pass in the time of `per`.
        events: Option<Spanned<Requests>>,
        /// How many bytes of events pass in the time of `per`. For a subscription without `events`, how many bytes of the bodies of
        /// requests and replies; requests pass while any bytes are left.
        bytes: Option<Spanned<Size>>,
        /// The time, such as `1s` or `1m`.
        per: Option<Spanned<Timeout>>,
        /// How many requests may arrive at once; `requests` if absent.
        burst: Option<Spanned<Requests>>,
        /// How many requests of a subscription may arrive at once, such as `{ requests: 10, per: 1s }`; 429 above.
        burst_rate: Option<Spanned<PlanBurst>>,
        /// Whether requests of a subscription beyond the plan are refused. If not, they pass and are counted; `burst_rate` still applies.
        stop_on_quota: bool = true,
        /// More windows, all of which apply.
        windows: Vec<Spanned<PlanWindow>> = Vec::new(),
        /// How many subscriptions to a hub a client may have; 429 above.
        subscriptions: Option<Spanned<Requests>>,
        /// Whether there is no limit.
        unlimited: bool = false,
    }
}

keys! {
    /// A maximum rate of requests.
    pub struct PlanBurst {
        /// How many requests pass at once.
        requests: Requests,
        /// The time in which the limit refills.
        per: Timeout = Timeout(Duration::from_secs(1)),
    }
}

keys! {
    /// A maximum number of requests, events or bytes of events per time.
    pub struct PlanWindow {
        /// How many requests pass in the time of `per`.
        requests: Option<Requests>,
        /// How many events pass in the time of `per`.
        events: Option<Requests>,
        /// How many bytes of events pass in the time of `per`.
        bytes: Option<Size>,
        /// The time, such as `1s` or `1m`.
        per: Spanned<Timeout>,
        /// How many requests may arrive at once; `requests` if absent.
        burst: Option<Requests>,
    }
}

/// A predefined plan: a number of requests per minute, events per day, or deliveries to webhooks per month.
struct Ready {
    name: &'static str,
    requests: Option<Requests>,
    events: Option<(Requests, u64)>,
    subscriptions: Option<Requests>,
}

const DAY: u64 = 86_400;

const fn by_minute(name: &'static str, requests: u32) -> Ready {
    Ready { requests: Some(Between::new(requests)), ..unlimited(name) }
}

const fn by_day(name: &'static str, events: u32) -> Ready {
    Ready { events: Some((Between::new(events), DAY)), ..unlimited(name) }
}

const fn by_month(name: &'static str, events: u32, subscriptions: u32) -> Ready {
    let subscriptions = Some(Between::new(subscriptions));
    Ready { events: Some((Between::new(events), 30 * DAY)), subscriptions, ..unlimited(name) }
}

const fn unlimited(name: &'static str) -> Ready {
    Ready { name, requests: None, events: None, subscriptions: None }
}

/// The names and limits are those of WSO2's API Manager: of subscriptions, APIs and applications, and of streams.
const READY: [Ready; 21] = [
    by_minute("Gold", 5_000),
    by_minute("Silver", 2_000),
    by_minute("Bronze", 1_000),
    unlimited("Unlimited"),
    by_minute("DefaultSubscriptionless", 10_000),
    by_minute("50KPerMin", 50_000),
    by_minute("20KPerMin", 20_000),
    by_minute("10KPerMin", 10_000),
    by_minute("50PerMin", 50),
    by_minute("20PerMin", 20),
    by_minute("10PerMin", 10),
    by_day("AsyncGold", 50_000),
    by_day("AsyncSilver", 25_000),
    by_day("AsyncBronze", 5_000),
    unlimited("AsyncUnlimited"),
    by_day("AsyncDefaultSubscriptionless", 10_000),
    // The former name of this plan.
    by_day("AsyncSubscriptionless", 10_000),
    by_month("AsyncWHGold", 10_000, 1_000),
    by_month("AsyncWHSilver", 5_000, 500),
    by_month("AsyncWHBronze", 1_000, 500),
    unlimited("AsyncWHUnlimited"),
];

/// Returns the predefined plans. Complaints about them point at `at`.
pub fn ready_plans(at: At) -> impl Iterator<Item = (&'static str, Spanned<LimitPlan>)> {
    READY.iter().map(move |ready| {
        let here = |value| Spanned { value, at, intact: true };
        let seconds = ready.events.map(|(_, per)| per).or(ready.requests.map(|_| 60));
        let plan = LimitPlan {
            requests: ready.requests.map(|requests| Spanned { value: requests, at, intact: true }),
            events: ready.events.map(|(events, _)| Spanned { value: events, at, intact: true }),
            bytes: None,
            per: seconds.map(|per| here(Timeout(Duration::from_secs(per)))),
            burst: None,
            burst_rate: None,
            stop_on_quota: true,
            windows: Vec::new(),
            subscriptions: ready.subscriptions.map(|max| Spanned { value: max, at, intact: true }),
            unlimited: ready.events.is_none() && ready.requests.is_none(),
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
        /// How to verify a `rediss` server, and the certificate to present to it.
        tls: UpstreamTls,
        /// How often counts are sent to the server.
        // Other gateways can exceed a limit only slightly in this time, and ten round trips per second are a small load.
        interval: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_millis(100))),
        /// How long the server may take to answer; after that it counts as down. Requests do not wait for a server that is down.
        // A reachable server answers within a millisecond. Together with the interval of pings, an outage is detected within a second.
        timeout: Timeout = Timeout(Duration::from_millis(250)),
    }
}
