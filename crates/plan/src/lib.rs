//! The plan: everything an operator said, checked, resolved and immutable.
//!
//! Owns what the hot path reads: listeners, upstreams, and the route table with its pure `find`. It holds no
//! configuration text and does no I/O; a plan is made by `compile`, shared by all workers, and dropped when the last
//! exchange that took a route from it ends.
#![forbid(unsafe_code)]

mod listener;
pub mod path;
mod pattern;
mod route;
mod table;

use std::sync::Arc;
use std::time::Duration;

pub use listener::{Limits, Listener, Timeouts};
pub use pattern::{Pattern, PatternError, Segment};
pub use route::{Destination, FixedReply, Forward, PathSent, Piece, Route};
pub use table::{Conflict, Found, HostPattern, Matcher, Refusal, Table, Want, host_name};

/// What the hot path needs of an upstream, re-exported so that the cold path names `plan` only.
pub mod upstreams {
    pub use upstream::{
        Balance, Breaker, HashKey, Health, HostSent, Outlier, Retry, RetryOn, Settings,
        TargetSettings, Timeouts, Upstream,
    };
}

pub use policy::Policy;
pub use telemetry;

/// One compiled configuration.
pub struct Plan {
    /// Grows by one with each plan that goes into service.
    pub generation: u64,
    pub listeners: Vec<Arc<Listener>>,
    pub upstreams: Vec<Arc<upstream::Upstream>>,
    pub table: Table,
    pub workers: usize,
    /// How long a shutdown or a removed listener waits for exchanges to end.
    pub drain: Duration,
    /// Where the admin API listens, where it does.
    pub admin: Option<std::net::SocketAddr>,
    pub access_log: Option<AccessLogSettings>,
}

/// What an operator said about the access log. Whoever serves the plan opens it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLogSettings {
    pub format: telemetry::access::Format,
    pub sink: telemetry::access::Sink,
}
