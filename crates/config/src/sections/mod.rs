//! The sections of the configuration, one file each. A field is a key; its default stands beside it, with
//! the reason in a comment.

mod apis;
mod issuers;
mod listen;
mod plans;
mod routes;
mod saxon;
mod telemetry;
mod upstreams;

use std::time::Duration;

pub use apis::{Api, Validate};
pub use issuers::{Introspection, Issuer};
pub use listen::{
    Certificate, ClientAuth, ClientAuthMode, EmptySegments, EscapedSlash, Listener, ListenerLimits,
    ListenerPaths, ListenerTimeout, ListenerTls, PathParameters,
};
pub use plans::{LimitPlan, LimitStore};
pub use routes::{Errors, Match, Respond, Route, RouteHost, RouteLimits};
pub use saxon::Saxon;
pub use telemetry::{AccessLog, LogFormat, LogPath, Telemetry};
pub use upstreams::{
    Balance, Breaker, Dns, Health, Outlier, Pool, Retry, Target, Upstream, UpstreamTimeout,
    UpstreamTls,
};

use crate::decode::keys;
use crate::policies::Policy;
use crate::values::{Address, Between, Map, Spanned};

keys! {
    /// The configuration of one gateway.
    pub struct Config {
        /// The sockets clients connect to, by name, such as `public: { address: "0.0.0.0:8080" }`.
        // Empty is a complaint of `compile`, so that the rest is looked at first.
        listen: Map<Listener> = Map::default(),
        /// The socket operators connect to: metrics, health, the running plan. Without it there is none.
        admin: Option<Admin>,
        /// How many workers serve traffic, each on a thread of its own; one for each core if absent.
        workers: Option<Spanned<Between<1, 256>>>,
        /// How the gateway stops.
        shutdown: Shutdown,
        /// How it tells that it will stop, before it does.
        drain: Drain,
        /// The services that requests are sent to, by name.
        upstreams: Map<Upstream> = Map::default(),
        /// Who signs tokens, by name.
        issuers: Map<Spanned<Issuer>> = Map::default(),
        /// What happens to which request, by name. The most specific match wins, not the first.
        routes: Map<Spanned<Route>> = Map::default(),
        /// Limits by name, such as Gold and Silver, for `rate_limit: { plans: true }`.
        plans: Map<Spanned<LimitPlan>> = Map::default(),
        /// Where several gateways count together, by name, for `rate_limit: { shared: NAME }`.
        stores: Map<LimitStore> = Map::default(),
        /// Lists of policies by name, for `- use: NAME` in a list of policies.
        policy_sets: Map<Vec<Spanned<Policy>>> = Map::default(),
        /// What holds on every route and API that does not say otherwise.
        defaults: Defaults,
        /// APIs by name: routes made from OpenAPI documents.
        apis: Map<Spanned<Api>> = Map::default(),
        /// What runs stylesheets of XSLT 2.0 and 3.0.
        saxon: Saxon,
        /// What the gateway says about its traffic.
        telemetry: Telemetry,
    }
}

keys! {
    /// What holds on every route and API that does not say `defaults: false`.
    pub struct Defaults {
        /// Policies that stand above those of the route.
        policies: Vec<Spanned<Policy>> = Vec::new(),
    }
}

keys! {
    /// The socket operators connect to.
    pub struct Admin {
        /// An address and a port, best one only this machine can reach, such as `127.0.0.1:9901`.
        address: Spanned<Address>,
    }
}

keys! {
    /// How the gateway tells that it will stop, before it does.
    pub struct Drain {
        /// How long listeners stay open once `/readyz` says 503, after SIGTERM and SIGQUIT.
        // Kubernetes tells its proxies and the process at the same time, and they hear of it within seconds.
        delay: Duration = Duration::from_secs(5),
    }
}

keys! {
    /// How the gateway stops.
    pub struct Shutdown {
        /// How long exchanges may take to end once the listeners are closed.
        // What Kubernetes grants before it kills.
        drain: Duration = Duration::from_secs(30),
    }
}
