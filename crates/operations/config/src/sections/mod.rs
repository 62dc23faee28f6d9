//! The sections of the configuration, one file each. A field is a key. Its default stands next to it, with the reason in a comment.

mod admin;
mod apis;
mod applications;
mod cases;
mod catalog;
mod control;
mod databases;
mod endpoints;
mod hubs;
mod issuers;
mod listen;
mod log_to;
mod plans;
mod queues;
mod routes;
mod saxon;
mod schedules;
mod store;
mod telemetry;
mod traces;
mod upstream_basic;
mod upstream_oauth;
mod upstream_soap;
mod upstream_tls;
mod upstreams;

use std::time::Duration;

pub use admin::{Admin, AdminRole, AdminTls, AdminUser, Status, StatusTls};
pub use apis::{Api, ApiSubscription, Validate};
pub use applications::{
    Application, ApplicationKeys, ApplicationSubscription, KeyUse, SubscriptionState,
};
pub use cases::{Case, CaseAnswer, CaseCall, CaseExpect, CaseMessage, CaseReply, CaseRequest};
pub use catalog::{
    Catalog, CatalogAlgorithm, CatalogCallbacks, CatalogEndpoints, CatalogListen, CatalogRole,
    CatalogToken, CatalogUser,
};
pub use control::SharedControl;
pub use databases::Database;
pub use endpoints::{EndpointAllow, EndpointTimeout, Endpoints};
pub use hubs::{
    Hub, HubAlgorithm, HubCallbacks, HubDelivery, HubKafka, HubLeases, HubLimitBy, HubLimits,
    HubLog, HubRetention, HubSasl, HubSaslMechanism,
};
pub use issuers::{Introspection, Issuer, TimeClaim};
pub use listen::{
    Certificate, ClientAuth, ClientAuthMode, EmptySegments, EscapedSlash, Listener, ListenerLimits,
    ListenerPaths, ListenerTimeout, ListenerTls, PathParameters,
};
pub use log_to::{LogAddress, LogReceiver, LogTo};
pub use plans::{LimitPlan, LimitStore, PlanBurst, PlanWindow, ready_plans};
pub use queues::{Queue, QueueExhausted, QueueOrder, QueueRetry};
pub use routes::{
    Errors, Match, Respond, Route, RouteHost, RouteLimits, RouteMirror, RoutePath, RouteServices,
    RouteShare, RouteStreams, RouteUpstream, StreamsOnReload,
};
pub use saxon::Saxon;
pub use schedules::{Schedule, ScheduleMessage};
pub use store::Store;
pub use telemetry::{AccessLog, AuditLog, LogFormat, Telemetry};
pub use traces::{TracePropagation, Traces};
pub use upstream_basic::UpstreamBasic;
pub use upstream_oauth::{TokenAuthentication, UpstreamOauth};
pub use upstream_soap::{UpstreamWsAddressing, UpstreamWsSecurity, WsAddressingVersion};
pub use upstream_tls::UpstreamTls;
pub use upstreams::{
    Balance, Breaker, Dns, Health, Outlier, OutlierUntil, Pool, Retry, Sticky, Suspend, Target,
    UnhealthyAfter, UnhealthyAfterEach, Upstream, UpstreamAddresses, UpstreamProtocol,
    UpstreamTimeout,
};

use crate::decode::keys;
use crate::flows::Flow;
use crate::policies::Policy;
use crate::values::{Between, FilePath, Map, MemoryLimit, Percent, Spanned, Timeout};

keys! {
    /// The configuration of one gateway.
    pub struct Config {
        /// The sockets that clients connect to, by name, such as `public: { address: "0.0.0.0:8080" }`.
        // If empty, `compile` complains, so that the rest is checked first.
        listen: Map<Listener> = Map::default(),
        /// The admin API's socket, for operators: metrics, health, the running configuration. Without it there is none.
        admin: Option<Admin>,
        /// A socket for probes and scrapers: `/healthz`, `/readyz` and `/metrics` alone. Without it there is none.
        status: Option<Status>,
        /// How many workers serve traffic, each on a separate thread; one per core if absent.
        workers: Option<Spanned<Between<1, 256>>>,
        /// Limits of the whole process.
        limits: ProcessLimits,
        /// How the gateway stops.
        shutdown: Shutdown,
        /// How a new process replaces this one.
        upgrade: Upgrade,
        /// The old form of `shutdown: { delay }`.
        drain: Option<Spanned<Drain>>,
        /// The services that requests are sent to, by name.
        upstreams: Map<Upstream> = Map::default(),
        /// The issuers of tokens, by name.
        issuers: Map<Spanned<Issuer>> = Map::default(),
        /// The routes, by name. The most specific match wins, not the first.
        routes: Map<Spanned<Route>> = Map::default(),
        /// Message flows by name: steps between clients and services, for `flow` of a route.
        flows: Map<Spanned<Flow>> = Map::default(),
        /// Databases by name, for `sql` in flows.
        databases: Map<Database> = Map::default(),
        /// The addresses that flows may call by `call: { url }`.
        endpoints: Option<Spanned<Endpoints>>,
        /// Hubs by name: topics with publishers, subscribers and readers, for `hub` of a route.
        hubs: Map<Spanned<Hub>> = Map::default(),
        /// Queues by name: messages that flows put there by the step `store`, each with the flow that processes them.
        queues: Map<Spanned<Queue>> = Map::default(),
        /// Flows that run on a schedule, by name.
        schedules: Map<Spanned<Schedule>> = Map::default(),
        /// Test cases by name: requests with the expected results, for `tidegate test`. A gateway in service ignores them.
        cases: Map<Spanned<Case>> = Map::default(),
        /// Limits by name, such as Gold and Silver, for policies and hubs with `plans: true`.
        plans: Map<Spanned<LimitPlan>> = Map::default(),
        /// Applications by name: clients with their keys and subscriptions, for APIs with `subscription`.
        applications: Map<Spanned<Application>> = Map::default(),
        /// APIs, applications, subscriptions and tokens that are managed over REST.
        catalog: Option<Spanned<Catalog>>,
        /// Servers through which several gateways share counts, by name, for `rate_limit: { shared: NAME }`.
        stores: Map<LimitStore> = Map::default(),
        /// The store of durable data: events of hubs, messages of queues. The folder `var/tidegate` if absent.
        store: Option<Spanned<Store>>,
        /// One configuration for several gateways.
        control: Option<SharedControl>,
        /// Lists of policies by name, for `- use: NAME` in a list of policies.
        policy_sets: Map<Vec<Spanned<Policy>>> = Map::default(),
        /// Defaults of every route and API without `defaults: false`.
        defaults: Defaults,
        /// APIs by name: routes generated from OpenAPI documents.
        apis: Map<Spanned<Api>> = Map::default(),
        /// Bundles: folders of configuration and its files, each deployed as one change.
        bundles: Option<Bundles>,
        /// The JVM for XSLT 2.0 and 3.0.
        saxon: Saxon,
        /// Metrics, logs and traces of traffic and of operators' actions.
        telemetry: Telemetry,
    }
}

keys! {
    /// Defaults of every route and API without `defaults: false`.
    pub struct Defaults {
        /// Policies that run above those of the route.
        policies: Vec<Spanned<Policy>> = Vec::new(),
    }
}

keys! {
    /// Bundles: folders of configuration and its files, each deployed as one change.
    pub struct Bundles {
        /// The folder that contains a folder for each bundle. The admin API creates it for the first bundle.
        folder: Spanned<FilePath>,
    }
}

keys! {
    /// Limits of the whole process.
    pub struct ProcessLimits {
        /// How much memory may be used for messages that are read, produced or kept in memory: bodies, trees of XML and JSON, results. A
        /// size, or a share of the memory of the machine or of the cgroup, whichever is smaller. A message beyond that gets 503.
        // The rest is for connections, the configuration, the JVM and the kernel's buffers.
        memory: MemoryLimit = const { MemoryLimit::Share(Percent::of(60)) },
    }
}

keys! {
    /// The old form of `shutdown: { delay }`.
    pub struct Drain {
        /// As in `shutdown`.
        delay: Duration = Duration::from_secs(5),
    }
}

keys! {
    /// How a new process replaces this one, on SIGUSR2.
    pub struct Upgrade {
        /// How long the new process may take until it serves. After that it is stopped, and the old one continues.
        timeout: Timeout = Timeout(Duration::from_secs(30)),
        /// How long open streams may remain with the old process.
        drain: Duration = Duration::from_secs(60 * 60),
    }
}

keys! {
    /// How the gateway stops.
    pub struct Shutdown {
        /// How long listeners stay open once `/readyz` returns 503, after SIGTERM and SIGQUIT.
        // Kubernetes notifies its proxies and the process at the same time, and the proxies react within seconds.
        delay: Spanned<Duration> = Spanned::unwritten(Duration::from_secs(5)),
        /// How long active requests may take to end once the listeners are closed.
        // The default grace period of Kubernetes.
        drain: Duration = Duration::from_secs(30),
    }
}
