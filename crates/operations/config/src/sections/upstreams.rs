//! `upstreams.NAME`: one service that requests are sent to.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::decode::{Decode, Decoder, keys, words};
use crate::node::{Node, Value};
use crate::schema::SchemaBuilder;
use crate::sections::{
    UpstreamBasic, UpstreamOauth, UpstreamTls, UpstreamWsAddressing, UpstreamWsSecurity,
};
use crate::values::{
    Between, CookieName, CookiePath, Factor, HashBy, NameServer, Percent, RetryOn, Secret, Size,
    Spanned, StatusRange, TargetAddress, Timeout,
};

keys! {
    /// One service that requests are sent to.
    pub struct Upstream {
        /// Targets of the service: URLs like `http://10.0.0.1:8080`, or `{ url: ..., weight: 2 }`; or one like
        /// `srv+http://_orders._tcp.example.com`, whose SRV records in DNS define hosts, ports, priorities and weights.
        targets: Spanned<Vec<Target>>,
        /// How the addresses of a target's name are used: `together` makes one target, whose connections use them in turn; `each` makes
        /// each address a separate target.
        // A name usually stands for one service.
        addresses: Spanned<UpstreamAddresses> = Spanned::unwritten(UpstreamAddresses::Together),
        /// The HTTP version to targets: `http1`, `http2` (by ALPN with TLS, by prior knowledge without), or `auto`, which is HTTP/2 if a
        /// target chooses it by ALPN.
        // Every service supports HTTP/1.
        protocol: UpstreamProtocol = UpstreamProtocol::Http1,
        /// The rule by which a target is chosen: `round_robin`, `least_requests`, `failover`, `hash`, or
        /// `{ hash: { by: "header:x-user" } }`.
        balance: Balance = Balance::RoundRobin,
        /// The least share of the targets' weight that must be available: below it all requests get 503, as with Kong's `threshold`.
        // Only the operator knows whether the remaining targets can serve all requests.
        available_min_percent: Between<0, 100> = const { Between::new(0) },
        /// A cookie that keeps each client at its target. If absent, `balance` alone decides.
        sticky: Option<Sticky>,
        /// How long the service may take.
        timeout: UpstreamTimeout,
        /// Which failed requests are retried.
        retry: Retry,
        /// Suspends a target for a growing time when requests to it fail. If absent, targets are not suspended.
        suspend: Option<Suspend>,
        /// Active health checks of each target; no checks if absent.
        health: Option<Health>,
        /// Passive health checks: ejects a target for a while if its replies are faults. If absent, targets are not ejected.
        outlier: Option<Outlier>,
        /// Bounds on concurrent requests and connections; 503 above.
        breaker: Breaker,
        /// How many connections are kept for the next request.
        pool: Pool,
        /// How names of targets are resolved.
        dns: Dns,
        /// How to verify `https` targets, and the certificate to present to them.
        tls: UpstreamTls,
        /// An access token for each request to the service (OAuth 2.0 client credentials).
        oauth: Option<Spanned<UpstreamOauth>>,
        /// The user as which the gateway asks the service (HTTP Basic).
        basic: Option<Spanned<UpstreamBasic>>,
        /// A WS-Security header for SOAP messages to the service: UsernameToken and Timestamp.
        ws_security: Option<Spanned<UpstreamWsSecurity>>,
        /// A WS-Addressing header for SOAP messages to the service.
        ws_addressing: Option<Spanned<UpstreamWsAddressing>>,
    }
}

words! {
    /// The HTTP version to targets.
    pub enum UpstreamProtocol {
        /// HTTP/1.1.
        Http1 = "http1",
        /// HTTP/2: chosen by ALPN with TLS, by prior knowledge (h2c) without.
        Http2 = "http2",
        /// HTTP/2 if the target chooses it by ALPN, else HTTP/1.1. Without TLS and for upgrades, always HTTP/1.1.
        Auto = "auto",
    }
}

words! {
    /// How the addresses of a target's name are used.
    pub enum UpstreamAddresses {
        /// One target, whose connections use them in turn.
        Together = "together",
        /// Each address is a separate target.
        Each = "each",
    }
}

/// One target of an upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The address of the target.
    pub url: Spanned<TargetAddress>,
    /// Its share of requests, relative to the others' weights.
    pub weight: Weight,
}

/// A weight, bounded so that the sum of all weights cannot overflow.
type Weight = Between<0, 65_535>;

keys! {
    /// A target with its weight.
    pub(crate) struct WeightedTarget {
        /// The address of the target: `http://HOST:PORT` or `https://HOST:PORT`.
        url: Spanned<TargetAddress>,
        /// Its share of requests, relative to the others' weights; with 0, it gets no new requests.
        weight: Weight = const { Between::new(1) },
    }
}

/// The rule by which a target is chosen.
#[derive(Clone, Debug, PartialEq)]
pub enum Balance {
    /// One after the other, by weight.
    RoundRobin,
    /// The one with the fewest active requests.
    LeastRequests,
    /// The first that is available, in the order written.
    Failover,
    /// The same target for the same key, as long as the targets do not change.
    Hash(BalanceKeys),
}

/// The keys of a consistent hash.
#[derive(Clone, Debug, PartialEq)]
pub struct BalanceKeys {
    /// The first key that a request has counts.
    pub by: Vec<HashBy>,
    /// The path of the cookie that clients get if they lack the one that is hashed.
    pub cookie_path: Option<CookiePath>,
}

keys! {
    /// The map form of `balance`.
    pub(crate) struct HashBalance {
        /// A consistent hash of a key.
        hash: HashKeys,
    }
}

keys! {
    /// The key of the hash.
    pub(crate) struct HashKeys {
        /// `client`, `consumer` (the subject), `path`, `header:NAME`, `cookie:NAME`, `query:NAME`, or `capture:NAME` for a parameter
        /// of the route's path.
        by: HashBy = HashBy::Client,
        /// The key for requests without `by`. If absent, they use targets in turn.
        otherwise as "else": Option<HashBy>,
        /// The path of a cookie that clients get if they lack the one of `cookie:NAME`: a random value, by which their later requests go to
        /// the same target. No cookie is set if absent.
        // Only the operator knows whether the service sets the cookie itself.
        cookie_path: Option<CookiePath>,
    }
}

keys! {
    /// How long a service may take.
    pub struct UpstreamTimeout {
        /// The timeout to connect, including TLS.
        // A reachable service answers in milliseconds; a second covers one lost SYN.
        connect: Timeout = Timeout(Duration::from_secs(1)),
        /// The wait for the reply's headers, 504 after; then the longest pause within its body. It does not limit the whole reply, and does
        /// not apply to pauses of event streams.
        // The value that users of nginx, Kong and HAProxy expect.
        response: Timeout = Timeout(Duration::from_secs(60)),
        /// The longest pause in which the target accepts no more of the request; 504 after. The same as `response` if absent.
        write: Option<Timeout>,
        /// The limit on a whole call, including retries and the reply's body, even of event streams; 504 after, or the reply is cut off. No
        /// limit if absent.
        total: Option<Timeout>,
        /// How long an unused connection is kept.
        // The default of nginx, and shorter than that of most servers, so that the gateway closes first.
        idle: Timeout = Timeout(Duration::from_secs(60)),
    }
}

keys! {
    /// Which failed requests are retried.
    pub struct Retry {
        /// How many retries after the first attempt; none if absent. If no connection can be made and `when` has `connect_failure`, every
        /// other target is tried as well, unless this is 0.
        // Only the operator knows whether a repetition is safe. A stale pooled connection is replaced once regardless.
        attempts: Option<Spanned<Between<0, 10>>>,
        /// The failures that are retried: `connect_failure`, `reset`, `timeout`, or a status from 500. For gRPC calls that end without a
        /// message, also `cancelled`, `deadline_exceeded`, `internal`, `resource_exhausted` and `unavailable`.
        // If no connection was made, no byte of the request has left the gateway.
        when or "on": Vec<RetryOn> = vec![RetryOn::ConnectFailure],
        /// The largest request body that is buffered for a retry; larger ones have one attempt.
        body_bytes_max: Size = Size(64 * 1024),
        /// Whether a request with a method that is not idempotent (RFC 9110, 9.2.2), such as POST, is also retried after a target may have
        /// received it. If no connection could be made, it is retried in either case.
        // Who configures retries declares that the service may get a request twice.
        non_idempotent: bool = true,
        /// The pause before the first retry, such as `25ms`. It doubles with each further retry, and is reduced by up to half at random. No
        /// pause if absent. After a failed connection, another target is tried without a pause.
        pause: Option<Spanned<Timeout>>,
        /// The longest pause.
        // Ten times the default pause of most other proxies.
        pause_max: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_millis(250))),
        /// How long one attempt may take, from connecting to the reply's headers. After that it counts as `timeout`. No separate limit if
        /// absent.
        try_timeout: Option<Spanned<Timeout>>,
        /// The largest share of the active requests that may be retries, such as `20%`; at least three may be. No limit if absent.
        budget: Option<Percent>,
    }
}

keys! {
    /// A cookie that keeps each client at its target, as long as the target is available.
    pub struct Sticky {
        /// The name of the cookie that the gateway sets. The service must not use a cookie of the same name.
        cookie: CookieName,
        /// A secret that prevents clients from deriving a target's address from the cookie. It must be the same for all gateways of the
        /// service.
        secret: Option<Spanned<Secret>>,
    }
}

keys! {
    /// Suspends a target for a growing time when requests to it fail.
    pub struct Suspend {
        /// The failures that count: `timeout`, `connect_failure`, `reset`, a status from 500, or a status of gRPC as in `retry`.
        // A status may concern a single request; a target that does not reply is useless for all.
        on: Spanned<Vec<RetryOn>> = Spanned::unwritten(vec![
            RetryOn::Timeout,
            RetryOn::ConnectFailure,
            RetryOn::Reset,
        ]),
        /// How many such failures in a row suspend a target.
        after: Between<1, 1_000> = const { Between::new(1) },
        /// For how long a target is suspended the first time.
        // A restart of a service takes seconds.
        initial: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_secs(1))),
        /// The factor by which the time grows if the next request after a suspension fails, too.
        factor: Factor = Factor::TWO,
        /// The longest suspension.
        // A service that is available again should not wait longer for requests.
        max: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_secs(60))),
    }
}

keys! {
    /// Active health checks of each target.
    pub struct Health {
        /// The path to GET. If absent, a successful connection is enough.
        path: Option<Spanned<String>>,
        /// The service to check by the gRPC health checking protocol, instead of a path; the whole server if the name is empty. Needs
        /// `protocol: http2`.
        grpc: Option<Spanned<String>>,
        /// The time between two checks.
        interval: Timeout = Timeout(Duration::from_secs(10)),
        /// How long an answer may take.
        timeout: Timeout = Timeout(Duration::from_secs(1)),
        /// How many failed checks in a row make a target unhealthy: a number for failures of all kinds together, or
        /// `{ connection: 2, timeout: 1, status: 3 }` to count each kind on its own.
        // A single failure may be a lost packet.
        unhealthy_after: Spanned<UnhealthyAfter> =
            Spanned::unwritten(UnhealthyAfter::Any(const { Between::new(2) })),
        /// How many successful checks in a row make it healthy again.
        healthy_after: Between<1, 100> = const { Between::new(2) },
        /// The statuses of a successful check.
        // A redirect to a login page is a sign of life.
        statuses: Vec<StatusRange> = vec![StatusRange { first: 200, last: 399 }],
        /// The statuses of a failed check. A status that is in neither list changes nothing. If absent, each status that is not in
        /// `statuses` is a failure.
        unhealthy_statuses: Option<Spanned<Vec<StatusRange>>>,
    }
}

/// How many failed checks make a target unhealthy.
#[derive(Clone, Debug, PartialEq)]
pub enum UnhealthyAfter {
    /// Failures of all kinds, in a row.
    Any(Between<1, 100>),
    /// Failures of each kind on their own, since the last successful check.
    Each(UnhealthyAfterEach),
}

keys! {
    /// How many failed checks of each kind make a target unhealthy, counted since the last successful one. With 0, failures of that
    /// kind never do.
    pub struct UnhealthyAfterEach {
        /// Connections that are refused, break, or fail in TLS.
        connection: Between<0, 255> = const { Between::new(0) },
        /// Checks without an answer within `timeout`.
        timeout: Between<0, 255> = const { Between::new(0) },
        /// Answers that say that the target is not well: by their status, or because they are invalid.
        status: Between<0, 255> = const { Between::new(0) },
    }
}

keys! {
    /// Passive health checks: ejects a target for a while if its replies are faults.
    pub struct Outlier {
        /// How many faults in a row: connections that fail, resets, timeouts and `statuses`. `after` is the same.
        consecutive_faults or "after": Between<1, 1_000> = const { Between::new(5) },
        /// The statuses that are faults.
        // They mean that the service has failed, whatever the request was.
        statuses: Vec<StatusRange> = vec![StatusRange { first: 500, last: 599 }],
        /// How an ejection ends: after a `time`, or only by a `probe` of the upstream's `health`.
        // This needs no health checks.
        until: Spanned<OutlierUntil> = Spanned::unwritten(OutlierUntil::Time),
        /// For how long a target is ejected the first time. The time grows with each ejection, up to ten times as long.
        eject: Timeout = Timeout(Duration::from_secs(30)),
        /// The largest share of the targets that may be ejected at once, in percent.
        // Beyond half, the remaining targets would fail under the load.
        max_ejected_percent: Between<0, 100> = const { Between::new(50) },
    }
}

words! {
    /// How an ejection ends.
    pub enum OutlierUntil {
        /// By time.
        Time = "time",
        /// By good health checks.
        Probe = "probe",
    }
}

keys! {
    /// Bounds on concurrent requests and connections to one upstream, over all workers; 503 above.
    // A default bound must never cause a 503 while the service is healthy. These bounds only keep the machine from running out of ports.
    pub struct Breaker {
        /// The maximum number of connections in use.
        connections: Between<1, 1_000_000> = const { Between::new(65_536) },
        /// The maximum number of active requests.
        requests: Between<1, 1_000_000> = const { Between::new(65_536) },
        /// The maximum number of requests that wait for a connection.
        pending: Between<1, 1_000_000> = const { Between::new(65_536) },
    }
}

keys! {
    /// How many connections are kept for the next request; `timeout` determines how long.
    pub struct Pool {
        /// How many idle connections each worker keeps to one target.
        // As many as one worker can use. Closing and reconnecting costs far more than the 1 KiB of an idle connection.
        idle_max: Between<0, 65_536> = const { Between::new(1024) },
    }
}

keys! {
    /// How names of targets are resolved.
    pub struct Dns {
        /// The longest time between two look-ups of a name. If the answer has a shorter TTL, the name is looked up again after that, but
        /// not within a second.
        // The TTL of most service discovery.
        refresh: Timeout = Timeout(Duration::from_secs(5)),
        /// Name servers to query in place of the system's resolver, one after the other: at most three, as `10.0.0.2` or `127.0.0.1:5353`.
        /// Names are then fully qualified. If absent, SRV records are queried at the servers of `/etc/resolv.conf`.
        servers: Option<Spanned<Vec<NameServer>>>,
    }
}

impl Decode for Target {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let WeightedTarget { url, weight } = match &node.value {
            Value::Map(_) => WeightedTarget::decode(node, decoder)?,
            Value::Null | Value::Unreadable | Value::Scalar(_) | Value::List(_) => {
                let url = Spanned::decode(node, decoder)?;
                WeightedTarget { url, weight: const { Between::new(1) } }
            }
        };
        Some(Self { url, weight })
    }

    fn encode(&self) -> Json {
        WeightedTarget { url: self.url.clone(), weight: self.weight }.encode()
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [TargetAddress::schema(schema), WeightedTarget::schema(schema)] })
    }
}

impl Decode for UnhealthyAfter {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let Value::Map(_) = &node.value else {
            return Some(Self::Any(Between::decode(node, decoder)?));
        };
        let each = UnhealthyAfterEach::decode(node, decoder)?;
        if [each.connection, each.timeout, each.status].iter().all(|count| count.get() == 0) {
            let what = "no failure would make a target unhealthy";
            decoder.error(
                node.at,
                what,
                "write one of `connection`, `timeout` and `status` above 0",
            );
            return None;
        }
        Some(Self::Each(each))
    }

    fn encode(&self) -> Json {
        match self {
            Self::Any(count) => count.encode(),
            Self::Each(each) => each.encode(),
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [Between::<1, 100>::schema(schema), UnhealthyAfterEach::schema(schema)] })
    }
}

impl Balance {
    const WORDS: &[&str] = &["round_robin", "least_requests", "failover", "hash"];
}

impl Decode for Balance {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        if let Value::Map(_) = &node.value {
            let HashKeys { by, otherwise, cookie_path } = HashBalance::decode(node, decoder)?.hash;
            if let (HashBy::Capture(_), Some(HashBy::Capture(_))) = (&by, &otherwise) {
                let what = "`hash` can use only one path parameter";
                decoder.error(node.at, what, "use one, and something else in `else`");
                return None;
            }
            let by: Vec<HashBy> = std::iter::once(by).chain(otherwise).collect();
            if cookie_path.is_some() && !by.iter().any(|by| matches!(by, HashBy::Cookie(_))) {
                let what = "`cookie_path` needs a cookie that is hashed";
                decoder.error(node.at, what, "write `by: \"cookie:NAME\"`, or remove the key");
                return None;
            }
            if cookie_path.is_some() && matches!(*by, [HashBy::Cookie(_), _]) {
                let what = "`else` is never used: with `cookie_path`, each client gets the cookie";
                decoder.error(node.at, what, "remove `else`, or `cookie_path`");
                return None;
            }
            return Some(Self::Hash(BalanceKeys { by, cookie_path }));
        }
        match decoder.word(node, Self::WORDS)? {
            "round_robin" => Some(Self::RoundRobin),
            "least_requests" => Some(Self::LeastRequests),
            "failover" => Some(Self::Failover),
            _ => Some(Self::Hash(BalanceKeys { by: vec![HashBy::Client], cookie_path: None })),
        }
    }

    fn encode(&self) -> Json {
        match self {
            Self::RoundRobin => "round_robin".into(),
            Self::LeastRequests => "least_requests".into(),
            Self::Failover => "failover".into(),
            Self::Hash(BalanceKeys { by, cookie_path }) => {
                let otherwise = by.get(1).cloned();
                let by = by.first().cloned().unwrap_or(HashBy::Client);
                let hash = HashKeys { by, otherwise, cookie_path: cookie_path.clone() };
                HashBalance { hash }.encode()
            }
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [{ "enum": Self::WORDS }, HashBalance::schema(schema)] })
    }
}
