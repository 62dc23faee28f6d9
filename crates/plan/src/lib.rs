//! The plan: the whole configuration, checked, resolved and immutable.
//!
//! Owns the data of the hot path: listeners, upstreams, and the route table with its pure `find`. It holds no configuration
//! text and does no input or output. A plan is made by `compile`, shared by all workers, and dropped when the last exchange
//! that began with it is answered; a long reply keeps only its route.
#![forbid(unsafe_code)]

mod access_fields;
mod admin;
mod carried_state;
mod catalog;
mod description;
mod destination;
mod forward;
mod listener;
mod matcher;
pub mod path;
mod path_regex;
mod pattern;
mod prefixes;
mod prepared;
mod respond;
mod route;
mod schedule;
pub mod set_targets;
pub mod shared_configuration;
mod streams;
mod table;
mod upstream_handle;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use access_fields::{
    AccessField, AccessFields, AccessSource, AccessValue, LineNames, LoggedHeader,
};
pub use admin::{
    Admin, AdminProof, AdminTls, AdminUser, AuditReceiver, AuditSink, Follow, Role, StatusListener,
};
pub use carried_state::CarriedState;
pub use catalog::{
    API_KEY_ISSUER, API_KEYS, CATALOG_ISSUER, CatalogAlgorithm, CatalogRole, CatalogSettings,
    CatalogUser, HostRule, WrittenKey,
};
pub use description::{Part, PublishedDescription, PublishedDocument};
pub use destination::Destination;
pub use forward::{Forward, PathPiece, PathSent};
pub use kit::memory::Limit as MemoryLimit;
pub use listener::{
    EmptySegments, EscapedSlash, Limits, Listener, PathParameters, PathRules, Timeouts,
};
pub use matcher::{Arrival, HostPattern, Matcher, PathWant, ValueCondition};
pub use path_regex::{PathRegex, RegexError, ValueRegex};
pub use pattern::{Pattern, PatternError, Segment};
pub use prepared::PreparedAnswerer;
pub use respond::{FilledReply, FixedReply, NoDestination, triggered};
pub use route::{Errors, Operation, Preflights, Route, Share, Split};
pub use schedule::{Beginning, ClockReading, Due, Schedule, ScheduleControl, Timing};
pub use streams::{IDLE_MAX, OnReload, Streams};
pub use table::{Conflict, Refusal, RouteMatch, Table};
pub use upstream_handle::UpstreamHandle;

/// The upstream types of the hot path, re-exported so that the cold path needs only `plan`.
pub mod upstreams {
    pub use upstream::{
        Additions, AllowedHost, AllowedUrl, Balance, Breaker, Dns, Endpoints, Failures, HashKey,
        Health, HostSent, Knowledge, Member, Mirror, Outlier, Protocol, Retry, Servers,
        ServiceName, Sticky, StickySecret, Suspend, TargetSettings, Targets, Timeouts, Upstream,
        UpstreamSettings,
    };

    /// The place in the configuration of the certificate that the gateway shows an upstream.
    pub fn certificate_place(upstream: &str) -> String {
        format!("upstreams.{upstream}.tls")
    }
}

/// Hubs, re-exported so that the cold path that shows them needs only `plan`.
pub mod hubs {
    pub use hub::{ActionError, Hub, Page};
}

/// The same of queues.
pub mod queues {
    pub use ::queues::{ActionError, Queue};
}

pub use export;
pub use policy::{
    Background, Escape, Fetch, IdentityScheme, PLACEHOLDERS, Policy, REVOKED_MAX, Resident,
    RevokedTokens, Slots, TOKEN_ID_BYTES_MAX, Template, UNKNOWN_OPERATION, UpstreamAddition,
};
pub use store::{LazyStore, SYNC_BOUNDS, StoreLocation, nodes};
pub use telemetry;
use telemetry::CertificateExpiry;

/// One compiled configuration.
pub struct Plan {
    /// The serial number: it grows by one with each plan that goes into service.
    pub generation: u64,
    pub listeners: Vec<Arc<Listener>>,
    pub upstreams: Vec<Arc<upstream::Upstream>>,
    pub table: Table,
    /// The generation since which a route is as it is, by its name, for those whose streams a reload may end.
    pub unchanged_since: HashMap<Box<str>, u64>,
    /// The flows, by name, for operators.
    pub flows: Vec<FlowOutline>,
    /// The certificates that are shown to clients, upstreams and operators.
    pub shown_certificates: Vec<ShownCertificate>,
    /// Flows that run at times.
    pub schedules: Vec<Arc<Schedule>>,
    /// Hubs. The deliveries to their subscribers live on every worker.
    pub hubs: Vec<Arc<hub::Hub>>,
    /// Queues. One worker processes each.
    pub queues: Vec<Arc<::queues::Queue>>,
    /// Work beside the requests.
    pub background: Vec<Arc<dyn Background>>,
    /// State of policies that the next plan takes over if its configuration is unchanged.
    pub kept: CarriedState,
    /// Revoked tokens. All plans share one list.
    pub revoked: Arc<RevokedTokens>,
    /// The public keys of the tokens that policies sign, as a JWK set.
    pub own_keys: Arc<str>,
    /// The store for data that must not be lost. Whoever serves the plan opens it.
    pub store: Option<Arc<LazyStore>>,
    /// The catalog, if there is one.
    pub catalog: Option<Arc<CatalogSettings>>,
    pub workers: usize,
    /// The bound on the memory that messages take.
    pub memory: MemoryLimit,
    /// The time that a shutdown or a removed listener gives exchanges to end.
    pub drain: Duration,
    pub upgrade: Upgrade,
    /// The time that listeners stay open after the gateway reports that it is not ready.
    pub drain_delay: Duration,
    /// The admin API, if it is on.
    pub admin: Option<Admin>,
    /// The socket for probes and scrapers, if there is one.
    pub status: Option<StatusListener>,
    pub audit_log: AuditSink,
    /// How the gateways of a store share one configuration, if they do.
    pub follow: Option<Follow>,
    pub access_log: Option<AccessLogSettings>,
    /// What is traced, and where spans go.
    pub traces: Option<TraceExport>,
    /// Counts the plans in memory.
    pub alive: telemetry::PlanAlive,
}

impl Plan {
    /// True if the open streams of a route, which may be one of an older plan, go on with this one.
    pub fn keeps_streams_of(&self, route: &Route) -> bool {
        match route.streams.reload {
            OnReload::Keep => true,
            OnReload::Close { since } => self.unchanged_since.get(&*route.name) == Some(&since),
        }
    }

    /// When the certificates that the gateway shows to clients and upstreams expire.
    pub fn certificates(&self) -> Vec<CertificateExpiry> {
        let listeners = self.listeners.iter().flat_map(|listener| {
            let shown = listener.tls.iter().flat_map(tls::Server::expiries);
            shown.map(|shown| {
                let place = Listener::certificate_place(&listener.name, shown.host.as_deref());
                CertificateExpiry { place: place.into(), not_after: shown.not_after }
            })
        });
        // Harmless: an upstream without a certificate has none that ends.
        let upstreams = self.upstreams.iter().filter_map(|upstream| {
            let place = upstreams::certificate_place(&upstream.settings().name).into();
            Some(CertificateExpiry { place, not_after: upstream.settings().tls.not_after()? })
        });
        listeners.chain(upstreams).collect()
    }

    /// The work that lives on every worker.
    pub fn residents(&self) -> impl Iterator<Item = Arc<dyn Resident>> {
        let hubs = self.hubs.iter().map(|hub| hub.clone() as Arc<dyn Resident>);
        hubs.chain(self.queues.iter().map(|queue| queue.clone() as Arc<dyn Resident>))
    }

    /// The certificates that have expired at `now` (since the Unix epoch) or soon will: their places, and the concern about
    /// each.
    pub fn expiring(&self, now: Duration) -> Vec<(Box<str>, tls::Concern)> {
        let ends = self.certificates().into_iter();
        // Harmless: only those that end soon are asked for.
        ends.filter_map(|end| Some((end.place, tls::Concern::of_end(end.not_after, now)?)))
            .collect()
    }
}

/// A flow as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowOutline {
    pub name: String,
    /// The labels of its steps, those inside others behind them.
    pub steps: Vec<String>,
}

/// A certificate that the gateway shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownCertificate {
    /// `listener`, `upstream`, `admin` or `status`.
    pub kind: &'static str,
    /// The name of the listener or the upstream; for a host of a listener `NAME HOST`.
    pub name: String,
    pub file: PathBuf,
    pub details: tls::CertificateDetails,
}

/// The settings of the access log. Whoever serves the plan opens it.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessLogSettings {
    /// Fields beside the usual ones.
    pub fields: Arc<AccessFields>,
    pub format: telemetry::access::Format,
    pub sink: LogSink,
}

/// How another program takes this one's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upgrade {
    /// How long the new one may take until it serves.
    pub timeout: Duration,
    /// How long streams stay with the old one then.
    pub drain: Duration,
}

/// What is traced, and where spans go.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceExport {
    pub settings: Arc<telemetry::span::TraceSettings>,
    pub collector: export::SpanCollector,
}

/// The destination of lines of a log.
#[derive(Debug, Clone, PartialEq)]
pub enum LogSink {
    /// A file, or an output of the program.
    Local(telemetry::access::Sink),
    Receiver(Box<export::LineReceiver>),
}
