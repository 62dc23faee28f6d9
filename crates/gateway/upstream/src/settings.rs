//! The settings of an upstream, made by `compile`. Upstreams with equal settings may share one [`crate::Upstream`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dns::Servers;
use fault::Kind;
use grpc::Status;
use message::ReplyHead;
use policy::UpstreamAddition;

use crate::AddressRule;

/// The configuration of an upstream, with defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct UpstreamSettings {
    pub name: String,
    /// The permitted addresses, if clients choose the targets. All are permitted if absent.
    pub addresses: Option<Arc<AddressRule>>,
    pub targets: Targets,
    pub protocol: Protocol,
    pub balance: Balance,
    /// The least share of the targets' weight that must be available, or else no request is sent.
    pub available_min_percent: u32,
    pub timeout: Timeouts,
    pub retry: Retry,
    /// A cookie that keeps a client at its target, if configured.
    pub sticky: Option<Sticky>,
    /// Suspension of failing targets, if configured.
    pub suspend: Option<Suspend>,
    /// Active health checks, if configured.
    pub health: Option<Health>,
    /// Ejection of failing targets, if configured.
    pub outlier: Option<Outlier>,
    pub breaker: Breaker,
    /// The maximum number of idle connections that are kept per worker and target.
    pub idle_max: usize,
    pub dns: Dns,
    /// Whether requests are written at once. Otherwise all ready tasks run first, so that their requests are written together. This gains
    /// nothing if one task makes all calls.
    pub writes_at_once: bool,
    /// TLS settings for `https` targets.
    pub tls: tls::Client,
    /// The gateway's own headers in every request.
    pub additions: Additions,
}

/// The gateway's own headers of requests, in the order in which they are made. Two values are equal if they have the same objects.
#[derive(Clone, Default)]
pub struct Additions(pub Vec<Arc<dyn UpstreamAddition>>);

impl PartialEq for Additions {
    fn eq(&self, other: &Additions) -> bool {
        // Harmless: the lengths are compared first.
        let mut pairs = self.0.iter().zip(&other.0);
        self.0.len() == other.0.len()
            && pairs.all(|(one, two)| std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(two)))
    }
}

impl fmt::Debug for Additions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(Arc::as_ptr)).finish()
    }
}

/// The source of the targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Targets {
    /// Each is one target with all addresses of its name.
    Fixed(Vec<TargetSettings>),
    /// Each address of these names is a target.
    EachAddress(Vec<TargetSettings>),
    /// The SRV records of a service define the targets.
    Service(ServiceName),
}

/// The name of a service in DNS (RFC 2782).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceName {
    pub https: bool,
    /// Such as `_orders._tcp.example.com`.
    pub name: String,
    /// Whether each address of a host is a target, instead of each host.
    pub each_address: bool,
    /// If set, only hosts within this domain are accepted, since anybody who can forge DNS answers can get certificates for names of their
    /// own.
    pub hosts_in: Option<String>,
}

/// How names are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dns {
    /// The longest time between two look-ups of a name.
    pub refresh: Duration,
    /// The servers to ask instead of the system's resolver. SRV records always need servers; if this is empty, those of the system
    /// are used.
    pub servers: Servers,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetSettings {
    pub https: bool,
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    pub port: u16,
    /// Share of the traffic, relative to the others. At least 1.
    pub weight: u32,
}

impl Targets {
    /// The names as configured, for operators.
    pub fn shown(&self) -> Vec<String> {
        match self {
            Targets::Fixed(targets) => targets.iter().map(TargetSettings::url).collect(),
            Targets::EachAddress(targets) => {
                targets.iter().map(|target| format!("each address of {}", target.url())).collect()
            }
            Targets::Service(service) if service.each_address => {
                vec![format!("each address of {}", service.url())]
            }
            Targets::Service(service) => vec![service.url()],
        }
    }
}

impl ServiceName {
    /// `srv+http://NAME`.
    pub fn url(&self) -> String {
        format!("srv+{}://{}", if self.https { "https" } else { "http" }, self.name)
    }
}

impl Dns {
    /// No periodic look-ups: only the system's resolver is asked, for each new connection.
    pub fn never() -> Dns {
        Dns { refresh: Duration::MAX, servers: Servers::default() }
    }
}

impl TargetSettings {
    /// `http://host:port`, for logs and metrics; without the port if it is the scheme's default.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.https { "https" } else { "http" }, self.authority())
    }

    /// `host:port`; without the port if it is the scheme's default.
    pub fn authority(&self) -> String {
        match (self.https, self.port) {
            (false, 80) | (true, 443) => self.bracketed_host(),
            _ => self.host_and_port(),
        }
    }

    /// `host:port`, always with the port.
    pub fn host_and_port(&self) -> String {
        format!("{}:{}", self.bracketed_host(), self.port)
    }

    fn bracketed_host(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

/// The version of HTTP for requests to the targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    /// With TLS chosen by ALPN, without TLS by prior knowledge.
    Http2,
    /// With TLS the target chooses by ALPN. HTTP/1 is used without TLS, and for upgrades.
    Auto,
}

impl Protocol {
    /// As the configuration names it.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http1 => "http1",
            Protocol::Http2 => "http2",
            Protocol::Auto => "auto",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Balance {
    RoundRobin,
    LeastRequests,
    /// The first available target in the configured order.
    Failover,
    /// The same key selects the same target while the target is healthy. Losing one target moves only its keys. The first key that a
    /// request has is used.
    Hash(Box<[HashKey]>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HashKey {
    Client,
    Subject,
    Path,
    Header(String),
    Cookie {
        name: String,
        /// The path of the cookie that clients without it get, if they do.
        set_path: Option<Box<str>>,
    },
    Query(String),
    /// The value of a path parameter from the route.
    Capture(String),
}

/// The `Host` header for the upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostSent {
    /// The client's.
    Unchanged,
    /// The target's own host and port.
    Target,
    Named(Box<str>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    pub connect: Duration,
    /// The limit until the reply's head arrives, and between two pieces of its body. It is not a total, since streams
    /// may last long.
    pub response: Duration,
    /// The limit for a target that accepts no more of the request. Equal to `response` if absent.
    pub write: Option<Duration>,
    /// The limit from the start of a call to the end of its reply's body, including retries. If `None`, only pauses are limited.
    pub total: Option<Duration>,
    /// How long an unused connection is kept.
    pub idle: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// The maximum number of retries, which are the attempts after the first.
    pub attempts: u32,
    /// Whether all other targets are tried in addition when no connection can be made, since nothing was sent yet.
    pub elsewhere: bool,
    pub on: Failures,
    /// The largest body that is kept for a retry.
    pub body_bytes_max: usize,
    /// Whether a request that is not idempotent is sent again after a target may have received it.
    pub non_idempotent: bool,
    /// The pause before the first retry, if any. It doubles with each further one.
    pub pause: Option<Duration>,
    pub pause_max: Duration,
    /// For one attempt, from connecting to the reply's head.
    pub try_timeout: Option<Duration>,
    /// The largest share of retries among the active requests, in millionths.
    pub budget_millionths: Option<u32>,
}

impl Retry {
    /// No retries, except at other targets when a connection cannot be made.
    pub fn none(on: Failures) -> Retry {
        Retry {
            attempts: 0,
            elsewhere: true,
            on,
            body_bytes_max: 0,
            non_idempotent: true,
            pause: None,
            pause_max: Duration::ZERO,
            try_timeout: None,
            budget_millionths: None,
        }
    }

    /// The pause before a retry, counted from 1. Half of it is random, so that many clients do not retry at once.
    pub(crate) fn pause_before(&self, number: u32) -> Duration {
        let Some(first) = self.pause else { return Duration::ZERO };
        let doubled = first.saturating_mul(1 << number.saturating_sub(1).min(16));
        doubled.min(self.pause_max).mul_f64(1.0 - fastrand::f64() / 2.0)
    }
}

/// Kinds of failure: those after which a request is retried, or those that suspend a target.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Failures {
    /// No connection could be made: refused, timed out, or TLS failed.
    pub connect_failure: bool,
    /// The connection was closed or reset before a reply began, or the reply is invalid.
    pub reset: bool,
    /// Connecting or the reply took too long.
    pub timeout: bool,
    pub statuses: Vec<u16>,
    /// Statuses of gRPC calls that ended without a message.
    pub calls: Vec<Status>,
}

impl Balance {
    /// The path parameter used for hashing, if any.
    pub fn captured(&self) -> Option<&str> {
        let Balance::Hash(keys) = self else { return None };
        keys.iter().find_map(|key| match key {
            HashKey::Capture(name) => Some(name.as_str()),
            HashKey::Client
            | HashKey::Subject
            | HashKey::Path
            | HashKey::Header(_)
            | HashKey::Cookie { .. }
            | HashKey::Query(_) => None,
        })
    }
}

impl Failures {
    /// True if faults of this kind are included.
    pub fn have(&self, kind: Kind) -> bool {
        let connecting =
            matches!(kind, Kind::ConnectFailure | Kind::UpstreamTls | Kind::ConnectTimeout);
        let late = matches!(kind, Kind::ConnectTimeout | Kind::UpstreamTimeout);
        // As in Envoy: violating the protocol counts as closing without a reply.
        let reset = matches!(kind, Kind::UpstreamReset | Kind::UpstreamMalformed);
        (self.connect_failure && connecting) || (self.timeout && late) || (self.reset && reset)
    }
}

impl Failures {
    /// True if a reply with this head is included. A gRPC call that ends in its head has no message.
    pub fn have_reply(&self, head: &ReplyHead) -> bool {
        let is_call = |value: &[u8]| self.calls.iter().any(|of| of.code().as_bytes() == value);
        self.statuses.contains(&head.status)
            || !self.calls.is_empty() && head.headers.get("grpc-status").is_some_and(is_call)
    }
}

/// A cookie that keeps a client at its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sticky {
    /// The name of the cookie.
    pub cookie: String,
    pub secret: StickySecret,
}

/// The secret from which the values of the cookie are derived, so that they cannot be guessed.
#[derive(Clone, PartialEq, Eq)]
pub struct StickySecret(pub String);

impl fmt::Debug for StickySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}

/// Suspension of a target that fails: it gets no requests for a while, longer each time until a request succeeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspend {
    /// The failures that count.
    pub on: Failures,
    /// The number of them in a row that suspends a target.
    pub after: u32,
    /// The length of the first suspension.
    pub initial: Duration,
    /// The factor of the length at each further failure, in thousandths. At least 1,000.
    pub factor_permille: u32,
    /// The longest suspension.
    pub max: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Without a path, a TCP connection is enough for a target to be healthy.
    pub path: Option<String>,
    /// The service to ask for by gRPC's health protocol.
    pub grpc: Option<String>,
    pub interval: Duration,
    pub timeout: Duration,
    pub unhealthy_after: UnhealthyAfter,
    pub healthy_after: u32,
    /// Inclusive ranges of statuses that count as healthy.
    pub statuses: Vec<(u16, u16)>,
    /// Those that count as unhealthy; `None` for all others. A status of neither kind changes nothing.
    pub unhealthy_statuses: Option<Vec<(u16, u16)>>,
}

/// The number of failed checks that makes a target unhealthy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnhealthyAfter {
    /// Of all kinds together, in a row.
    Any(u32),
    /// Of each kind since the last good check; with 0, that kind never does.
    Each { connection: u32, timeout: u32, status: u32 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlier {
    /// Faults in a row after which a target is ejected.
    pub consecutive_faults: u32,
    /// Inclusive ranges of statuses that are faults.
    pub statuses: Vec<(u16, u16)>,
    /// Whether only successful health checks end the ejection.
    pub until_probe: bool,
    /// The duration of an ejection; it grows with each further one.
    pub eject: Duration,
    /// The largest share of targets that may be ejected at the same time.
    pub max_ejected_percent: u32,
}

/// Limits over all workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaker {
    pub connections: u32,
    /// The limit of active exchanges.
    pub requests: u32,
    /// The limit of exchanges that wait for a connection to open.
    pub pending: u32,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Settings with this number of targets on loopback, and everything optional disabled.
    pub(crate) fn settings(targets: usize) -> UpstreamSettings {
        let target = |n: usize| TargetSettings {
            https: false,
            host: "127.0.0.1".to_owned(),
            port: 1000 + u16::try_from(n).unwrap(),
            weight: 1,
        };
        UpstreamSettings {
            addresses: None,
            name: "u".to_owned(),
            targets: Targets::Fixed((0..targets).map(target).collect()),
            protocol: Protocol::Http1,
            balance: Balance::RoundRobin,
            available_min_percent: 0,
            timeout: Timeouts {
                connect: Duration::from_secs(1),
                response: Duration::from_secs(5),
                write: None,
                total: None,
                idle: Duration::from_secs(60),
            },
            retry: Retry { body_bytes_max: 65536, ..Retry::none(Failures::default()) },
            sticky: None,
            suspend: None,
            health: None,
            outlier: None,
            breaker: Breaker { connections: 100, requests: 100, pending: 100 },
            idle_max: 100,
            dns: Dns { refresh: Duration::from_secs(5), servers: Servers::default() },
            writes_at_once: false,
            tls: tls::Client::new(&tls::ClientSpec { verify: true, ..Default::default() }).unwrap(),
            additions: Additions::default(),
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let retry = Retry {
            pause: Some(Duration::from_millis(100)),
            pause_max: Duration::from_millis(250),
            ..Retry::none(Failures::default())
        };
        for (number, least, most) in
            [(1, 50, 100), (2, 100, 200), (3, 125, 250), (u32::MAX, 125, 250)]
        {
            let pause = retry.pause_before(number).as_millis();
            assert!((least..=most).contains(&pause), "{number}: {pause}");
        }
        assert_eq!(Retry::none(Failures::default()).pause_before(1), Duration::ZERO);
    }

    #[test]
    fn authorities_omit_the_default_port() {
        let target = |https, host: &str, port| TargetSettings {
            https,
            host: host.to_owned(),
            port,
            weight: 1,
        };
        assert_eq!(target(false, "a", 80).url(), "http://a");
        assert_eq!(target(true, "a", 80).url(), "https://a:80");
        assert_eq!(target(true, "::1", 8443).url(), "https://[::1]:8443");
    }
}
