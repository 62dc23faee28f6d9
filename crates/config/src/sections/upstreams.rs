//! `upstreams.NAME`: one service that requests are sent to.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::decode::{Decode, Decoder, keys, words};
use crate::node::{Node, Value};
use crate::schema::SchemaBuilder;
use crate::sections::{UpstreamOauth, UpstreamWsAddressing, UpstreamWsSecurity};
use crate::values::{
    Between, CookieName, Factor, FilePath, HashBy, NameServer, Percent, RetryOn, Secret, Size,
    Spanned, StatusRange, TargetAddress, Timeout,
};

keys! {
    /// One service that requests are sent to.
    pub struct Upstream {
        /// Targets of the service: URLs like `http://10.0.0.1:8080`, or `{ url: ..., weight: 2 }`; or one like
        /// `srv+http://_orders._tcp.example.com`, whose records of SRV in DNS say hosts, ports, priorities and weights.
        targets: Spanned<Vec<Target>>,
        /// What the addresses of a target's name are: `together` one target, whose connections take them in turn, or `each` a target of
        /// its own.
        // One name is one service, for most.
        addresses: Spanned<UpstreamAddresses> = Spanned::unwritten(UpstreamAddresses::Together),
        /// The HTTP version towards targets: `http1`, `http2` (by ALPN with TLS, by prior knowledge without), or `auto`, which
        /// is HTTP/2 where a target chooses it by ALPN.
        // Every service speaks HTTP/1.
        protocol: UpstreamProtocol = UpstreamProtocol::Http1,
        /// The rule by which a target is chosen: `round_robin`, `least_requests`, `failover`, `hash`, or
        /// `{ hash: { by: "header:x-user" } }`.
        balance: Balance = Balance::RoundRobin,
        /// A cookie that keeps each client at its target. Without it `balance` alone chooses.
        sticky: Option<Sticky>,
        /// How long the service may take.
        timeout: UpstreamTimeout,
        /// Which failed requests are retried.
        retry: Retry,
        /// Suspends a target for a growing time when requests to it fail. Without it no target is suspended.
        suspend: Option<Suspend>,
        /// Active health checks of each target. Without it no target is taken out by a check.
        health: Option<Health>,
        /// Passive health checks: ejects a target for a while if its replies are faults. Without it no target is ejected.
        outlier: Option<Outlier>,
        /// How much may be active at once; 503 above.
        breaker: Breaker,
        /// How many connections are kept for the next request.
        pool: Pool,
        /// How names of targets are resolved.
        dns: Dns,
        /// How to verify `https` targets, and the certificate to show to them.
        tls: UpstreamTls,
        /// An access token that each request to the service carries (OAuth 2.0 client credentials).
        oauth: Option<Spanned<UpstreamOauth>>,
        /// A WS-Security header for SOAP messages to the service: UsernameToken and Timestamp.
        ws_security: Option<Spanned<UpstreamWsSecurity>>,
        /// A WS-Addressing header for SOAP messages to the service.
        ws_addressing: Option<Spanned<UpstreamWsAddressing>>,
    }
}

words! {
    /// The HTTP version towards targets.
    pub enum UpstreamProtocol {
        /// HTTP/1.1.
        Http1 = "http1",
        /// HTTP/2: chosen by ALPN with TLS, by prior knowledge (h2c) without.
        Http2 = "http2",
        /// HTTP/2 if the target chooses it by ALPN, else HTTP/1.1; without TLS and for upgrades always HTTP/1.1.
        Auto = "auto",
    }
}

words! {
    /// What the addresses of a target's name are.
    pub enum UpstreamAddresses {
        /// One target, whose connections take them in turn.
        Together = "together",
        /// Each a target of its own.
        Each = "each",
    }
}

/// One place where an upstream runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The address of the target.
    pub url: Spanned<TargetAddress>,
    /// Its share of requests, relative to the others' weights.
    pub weight: Weight,
}

/// At most what keeps the sum of all weights a small number.
type Weight = Between<0, 65_535>;

keys! {
    /// A target with its weight.
    pub(crate) struct WeightedTarget {
        /// The address of the target: `http://HOST:PORT` or `https://HOST:PORT`.
        url: Spanned<TargetAddress>,
        /// Its share of requests, relative to the others' weights; 0 takes no new ones.
        weight: Weight = const { Between::new(1) },
    }
}

/// The rule by which a target is chosen.
#[derive(Clone, Debug, PartialEq)]
pub enum Balance {
    /// One after the other, by weight.
    RoundRobin,
    /// The one with the fewest requests under way.
    LeastRequests,
    /// The first that is available, in the order written.
    Failover,
    /// The same target for the same key, as far as targets stay. The first key that a request has counts.
    Hash(Vec<HashBy>),
}

keys! {
    /// The map form of `balance`.
    pub(crate) struct HashBalance {
        /// A consistent hash.
        hash: HashKeys,
    }
}

keys! {
    /// The key of the hash.
    pub(crate) struct HashKeys {
        /// `client`, `consumer` (the subject), `path`, `header:NAME`, `cookie:NAME`, `query:NAME`, or `capture:NAME` for a parameter
        /// of the route's path.
        by: HashBy = HashBy::Client,
        /// The same for requests without that; without it they take targets in turn.
        otherwise as "else": Option<HashBy>,
    }
}

keys! {
    /// How long a service may take.
    pub struct UpstreamTimeout {
        /// To connect, TLS included.
        // A service in reach answers in milliseconds; the second covers one lost SYN.
        connect: Timeout = Timeout(Duration::from_secs(1)),
        /// The wait for the reply's headers, 504 after; then the longest pause within its body. It is not a limit on the whole reply, and an
        /// event stream may be silent for any time.
        // What nginx, Kong and HAProxy users are used to.
        response: Timeout = Timeout(Duration::from_secs(60)),
        /// The longest pause in which the target takes nothing more of the request; 504 after. As `response` if absent.
        write: Option<Timeout>,
        /// The limit on a whole call: retries and the reply's body included, event streams too; 504 after, or the reply breaks off. No
        /// limit if absent.
        total: Option<Timeout>,
        /// How long an unused connection is kept.
        // What nginx does, and shorter than what most servers do, so that we close first.
        idle: Timeout = Timeout(Duration::from_secs(60)),
    }
}

keys! {
    /// Which failed requests are retried.
    pub struct Retry {
        /// How many retries after the first attempt; none if absent. If no connection can be made, every other target is tried as well,
        /// unless this is 0.
        // Repeating is only safe where the operator says so. A pooled connection that proves stale is
        // replaced once regardless.
        attempts: Option<Spanned<Between<0, 10>>>,
        /// The failures that are retried: `connect_failure`, `reset`, `timeout`, or a status from 500. Of calls of gRPC that end without
        /// a message also `cancelled`, `deadline_exceeded`, `internal`, `resource_exhausted` and `unavailable`.
        // No byte of the request left the gateway then.
        when or "on": Vec<RetryOn> = vec![RetryOn::ConnectFailure],
        /// The largest request body that is buffered for a retry; larger ones have one attempt.
        body_bytes_max: Size = Size(64 * 1024),
        /// The pause before the first retry, such as `25ms`; it doubles with each further one, and up to half of it is left out at random.
        /// No pause if absent. A connection that cannot be made is tried at another target without a pause.
        pause: Option<Spanned<Timeout>>,
        /// The longest pause.
        // Ten times the pause that most other proxies have by default.
        pause_max: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_millis(250))),
        /// How long one attempt may take, from connecting to the reply's headers; then it counts as `timeout`. No limit of its own if
        /// absent.
        try_timeout: Option<Spanned<Timeout>>,
        /// The largest share of the active requests that may be retries at once, such as `20%`; three may be in any case. No limit if
        /// absent.
        budget: Option<Percent>,
    }
}

keys! {
    /// A cookie that keeps each client at its target, as long as that is ready.
    pub struct Sticky {
        /// The name of the cookie that the gateway sets. The service must not use one of the same name.
        cookie: CookieName,
        /// Makes the cookie's values impossible to guess a target's address from. The same for all gateways of the service.
        secret: Option<Spanned<Secret>>,
    }
}

keys! {
    /// Suspends a target for a growing time when requests to it fail.
    pub struct Suspend {
        /// The failures that count: `timeout`, `connect_failure`, `reset`, a status from 500, or a status of gRPC as in `retry`.
        // A status may be about one request; a target that does not reply is of no use to any.
        on: Spanned<Vec<RetryOn>> = Spanned::unwritten(vec![
            RetryOn::Timeout,
            RetryOn::ConnectFailure,
            RetryOn::Reset,
        ]),
        /// How many such failures in a row suspend a target.
        after: Between<1, 1_000> = const { Between::new(1) },
        /// For how long a target is suspended the first time.
        // A restart of a service is over in seconds.
        initial: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_secs(1))),
        /// The factor of the time when the next request after a suspension fails too.
        factor: Factor = Factor::TWO,
        /// The longest suspension.
        // Nobody wants to wait longer for a service that is back.
        max: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_secs(60))),
    }
}

keys! {
    /// Active health checks of each target.
    pub struct Health {
        /// The path to GET. Without it, it is enough that a connection can be made.
        path: Option<Spanned<String>>,
        /// The service to ask for by the health protocol of gRPC, in place of a path; the whole server if the name is empty. Needs
        /// `protocol: http2`.
        grpc: Option<Spanned<String>>,
        /// The time between two checks.
        interval: Timeout = Timeout(Duration::from_secs(10)),
        /// How long an answer may take.
        timeout: Timeout = Timeout(Duration::from_secs(1)),
        /// How many failed checks in a row take a target out.
        // One may be a lost packet.
        unhealthy_after: Between<1, 100> = const { Between::new(2) },
        /// How many good checks in a row bring it back.
        healthy_after: Between<1, 100> = const { Between::new(2) },
        /// The statuses of a good check.
        // A redirect to a login page is a sign of life.
        statuses: Vec<StatusRange> = vec![StatusRange { first: 200, last: 399 }],
    }
}

keys! {
    /// Passive health checks: ejects a target for a while if its replies are faults.
    pub struct Outlier {
        /// How many faults in a row: connections that fail, resets, timeouts and `statuses`. `after` is the same.
        consecutive_faults or "after": Between<1, 1_000> = const { Between::new(5) },
        /// The statuses that are faults.
        // They say that the service failed, whatever the request was.
        statuses: Vec<StatusRange> = vec![StatusRange { first: 500, last: 599 }],
        /// How an ejection ends: after a `time`, or by a `probe` of the upstream's `health` alone.
        // It needs no health checks.
        until: Spanned<OutlierUntil> = Spanned::unwritten(OutlierUntil::Time),
        /// For how long a target is ejected the first time; each time longer, up to ten times as long.
        eject: Timeout = Timeout(Duration::from_secs(30)),
        /// The largest share of the targets that may be ejected at once, in percent.
        // Past half, what is left would fail under the load of all.
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
    /// How much may be active to one upstream at once, over all workers; 503 above.
    // A default breaker must never be the reason for a 503 before a healthy service: these only stop
    // what would exhaust the machine's ports.
    pub struct Breaker {
        /// Connections in use.
        connections: Between<1, 1_000_000> = const { Between::new(65_536) },
        /// Active requests.
        requests: Between<1, 1_000_000> = const { Between::new(65_536) },
        /// Requests that wait for a connection.
        pending: Between<1, 1_000_000> = const { Between::new(65_536) },
    }
}

keys! {
    /// How many connections are kept for the next request; `timeout` says how long.
    pub struct Pool {
        /// How many idle connections each worker keeps to one target.
        // As many as one worker can have use for; closing and connecting again costs far more than 1 KiB.
        idle_max: Between<0, 65_536> = const { Between::new(1024) },
    }
}

keys! {
    /// How names of targets are resolved.
    pub struct Dns {
        /// The longest time between two look-ups of a name. Where the answer has a shorter TTL, it is looked up again after that, but not
        /// within a second.
        // The TTL of most service discovery.
        refresh: Timeout = Timeout(Duration::from_secs(5)),
        /// Name servers that are asked in place of the system's resolver, one after the other: at most three, as `10.0.0.2` or
        /// `127.0.0.1:5353`. Names are then full ones. If absent, records of SRV are asked for at the servers of `/etc/resolv.conf`.
        servers: Option<Spanned<Vec<NameServer>>>,
    }
}

keys! {
    /// TLS towards `https` targets.
    pub struct UpstreamTls {
        /// A PEM file with the trusted certificate authorities, instead of the system's.
        ca: Option<Spanned<FilePath>>,
        /// A PEM file with the certificate to show to the target.
        certificate: Option<Spanned<FilePath>>,
        /// A PEM file with that certificate's private key.
        key: Option<Spanned<FilePath>>,
        /// Whether the target's certificate has to be valid.
        verify: Spanned<bool> = Spanned::unwritten(true),
        /// The name the target's certificate has to carry, if it is not the target's host.
        server_name: Option<Spanned<String>>,
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

impl Balance {
    const WORDS: &[&str] = &["round_robin", "least_requests", "failover", "hash"];
}

impl Decode for Balance {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        if let Value::Map(_) = &node.value {
            let HashKeys { by, otherwise } = HashBalance::decode(node, decoder)?.hash;
            if let (HashBy::Capture(_), Some(HashBy::Capture(_))) = (&by, &otherwise) {
                let what = "two path parameters cannot be hashed";
                decoder.error(node.at, what, "hash one, and something else in `else`");
                return None;
            }
            return Some(Self::Hash(std::iter::once(by).chain(otherwise).collect()));
        }
        match decoder.word(node, Self::WORDS)? {
            "round_robin" => Some(Self::RoundRobin),
            "least_requests" => Some(Self::LeastRequests),
            "failover" => Some(Self::Failover),
            _ => Some(Self::Hash(vec![HashBy::Client])),
        }
    }

    fn encode(&self) -> Json {
        match self {
            Self::RoundRobin => "round_robin".into(),
            Self::LeastRequests => "least_requests".into(),
            Self::Failover => "failover".into(),
            Self::Hash(keys) => {
                let by = keys.first().cloned().unwrap_or(HashBy::Client);
                let otherwise = keys.get(1).cloned();
                HashBalance { hash: HashKeys { by, otherwise } }.encode()
            }
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [{ "enum": Self::WORDS }, HashBalance::schema(schema)] })
    }
}
