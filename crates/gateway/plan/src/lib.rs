//! The plan: the whole configuration, checked, resolved and immutable.
//!
//! Owns the data of the hot path: listeners, upstreams, and the route table with its pure `find`. It holds no configuration text and
//! performs no I/O on the hot path. `compile` makes a plan, all workers share it, and it is dropped when the last exchange that began with
//! it is answered. A long reply keeps only its route alive.
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
mod quick_test;
mod respond;
mod route;
mod schedule;
pub mod set_targets;
pub mod shared_configuration;
mod streams;
mod table;
mod upstream_handle;
mod value_regex;

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
pub use matcher::{Arrival, HostPattern, Matcher, PathCondition, Refusal, ValueCondition};
pub use path_regex::{PathRegex, RegexError};
pub use pattern::{Pattern, PatternError, Segment};
pub use prepared::PreparedAnswerer;
pub use respond::{FilledReply, FixedReply, NoDestination, triggered};
pub use route::{Errors, Operation, Preflights, Route, Share, Split};
pub use schedule::{Beginning, ClockReading, Due, Schedule, ScheduleControl, Timing};
pub use streams::{IDLE_MAX, OnReload, Streams};
pub use table::{Conflict, RouteMatch, Table};
pub use upstream_handle::UpstreamHandle;
pub use value_regex::ValueRegex;

/// The upstream types of the hot path, re-exported so that the cold path needs only `plan`.
pub mod upstreams {
    pub use upstream::{
        Additions, AllowedHost, AllowedUrl, Balance, Breaker, Dns, Endpoints, Failures, HashKey,
        Health, HostSent, Knowledge, Member, Mirror, Outlier, Protocol, Retry, Servers,
        ServiceName, Sticky, StickySecret, Suspend, TargetSettings, Targets, Timeouts,
        UnhealthyAfter, Upstream, UpstreamSettings,
    };

    /// Returns the place in the configuration of the certificate that the gateway presents to an upstream.
    pub fn certificate_place(upstream: &str) -> String {
        format!("upstreams.{upstream}.tls")
    }
}

/// Hub types, re-exported so that the admin API needs only `plan`.
pub mod hubs {
    pub use hub::{ActionError, Hub, Page};
}

/// Queue types, re-exported so that the admin API needs only `plan`.
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
    /// The serial number, which grows by one with each plan that goes into service.
    pub generation: u64,
    pub listeners: Vec<Arc<Listener>>,
    pub upstreams: Vec<Arc<upstream::Upstream>>,
    pub table: Table,
    /// The generation in which each route last changed, by route name, for routes whose streams a reload may end.
    pub unchanged_since: HashMap<Box<str>, u64>,
    /// The flows, by name, for operators.
    pub flows: Vec<FlowOutline>,
    /// The certificates that the gateway presents to clients, upstreams and operators.
    pub shown_certificates: Vec<ShownCertificate>,
    /// Flows that run on a schedule.
    pub schedules: Vec<Arc<Schedule>>,
    /// Hubs. Deliveries to their subscribers run on every worker.
    pub hubs: Vec<Arc<hub::Hub>>,
    /// Queues. Each is processed by one worker.
    pub queues: Vec<Arc<::queues::Queue>>,
    /// Background work of policies.
    pub background: Vec<Arc<dyn Background>>,
    /// State of policies. The next plan takes over each value whose configuration is unchanged.
    pub kept: CarriedState,
    /// Revoked tokens. All plans share one list.
    pub revoked: Arc<RevokedTokens>,
    /// The public keys of the tokens that policies sign, as a JWK set.
    pub own_keys: Arc<str>,
    /// The store for durable data. The gateway that serves the plan opens it.
    pub store: Option<Arc<LazyStore>>,
    /// The catalog, if there is one.
    pub catalog: Option<Arc<CatalogSettings>>,
    pub workers: usize,
    /// The bound on the memory that messages use.
    pub memory: MemoryLimit,
    /// The time that open exchanges get to end at a shutdown, or when their listener is removed.
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
    /// Which exchanges are traced, and where spans are sent.
    pub traces: Option<TraceExport>,
    /// Counts the plans that are still in memory.
    pub alive: telemetry::PlanAlive,
}

impl Plan {
    /// Returns true if this plan keeps the open streams of a route, which may belong to an older plan.
    pub fn keeps_streams_of(&self, route: &Route) -> bool {
        match route.streams.reload {
            OnReload::Keep => true,
            OnReload::Close { since } => self.unchanged_since.get(&*route.name) == Some(&since),
        }
    }

    /// Returns the expiry of each certificate that the gateway presents to clients and upstreams.
    pub fn certificates(&self) -> Vec<CertificateExpiry> {
        let listeners = self.listeners.iter().flat_map(|listener| {
            let shown = listener.tls.iter().flat_map(tls::Server::expiries);
            shown.map(|shown| {
                let place = Listener::certificate_place(&listener.name, shown.host.as_deref());
                CertificateExpiry { place: place.into(), not_after: shown.not_after }
            })
        });
        // Harmless: an upstream without a certificate has no expiry.
        let upstreams = self.upstreams.iter().filter_map(|upstream| {
            let place = upstreams::certificate_place(&upstream.settings().name).into();
            Some(CertificateExpiry { place, not_after: upstream.settings().tls.not_after()? })
        });
        listeners.chain(upstreams).collect()
    }

    /// Returns the work that runs on every worker.
    pub fn residents(&self) -> impl Iterator<Item = Arc<dyn Resident>> {
        let hubs = self.hubs.iter().map(|hub| hub.clone() as Arc<dyn Resident>);
        hubs.chain(self.queues.iter().map(|queue| queue.clone() as Arc<dyn Resident>))
    }

    /// Returns the certificates that have expired at `now` (since the Unix epoch) or soon will, each with its place and the concern about
    /// it.
    pub fn expiring(&self, now: Duration) -> Vec<(Box<str>, tls::CertificateProblem)> {
        let ends = self.certificates().into_iter();
        // Harmless: only certificates that expire soon are wanted.
        ends.filter_map(|end| {
            Some((end.place, tls::CertificateProblem::of_end(end.not_after, now)?))
        })
        .collect()
    }
}

/// A flow, for display to operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowOutline {
    pub name: String,
    /// The labels of its steps, where nested steps follow the step that contains them.
    pub steps: Vec<String>,
}

/// A certificate that the gateway presents to peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownCertificate {
    /// `listener`, `upstream`, `admin`, `status` or `catalog`.
    pub kind: &'static str,
    /// The name of the listener or the upstream. For a certificate of one host, `LISTENER HOST`.
    pub name: String,
    pub file: PathBuf,
    pub details: tls::CertificateDetails,
}

/// The settings of the access log. The gateway that serves the plan opens it.
#[derive(Debug, Clone, PartialEq)]
pub struct AccessLogSettings {
    /// Fields in addition to the default ones.
    pub fields: Arc<AccessFields>,
    pub format: telemetry::access::Format,
    pub sink: LogSink,
}

/// The settings for an upgrade, in which a new process takes the place of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upgrade {
    /// How long the new process may take until it serves.
    pub timeout: Duration,
    /// How long open streams may then remain with the old process.
    pub drain: Duration,
}

/// Which exchanges are traced, and where spans are sent.
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
