//! `plans`: named limits, such as Gold and Silver, and `stores`: where gateways count together.

use std::time::Duration;

use crate::decode::keys;
use crate::policies::{LimitWindow, Requests};
use crate::sections::UpstreamTls;
use crate::values::{Secret, Spanned, Timeout};

keys! {
    /// The limits of callers on this plan, where a `rate_limit` asks for `plans`.
    pub struct LimitPlan {
        /// As many requests pass in the time of `per`.
        requests: Option<Spanned<Requests>>,
        /// The time, such as `1s` or `1m`.
        per: Option<Spanned<Timeout>>,
        /// As many may come at once; `requests` if absent.
        burst: Option<Spanned<Requests>>,
        /// More windows, all of which have to hold.
        windows: Vec<Spanned<LimitWindow>> = Vec::new(),
        /// There is no limit.
        unlimited: bool = false,
    }
}

keys! {
    /// A place where several gateways count together.
    pub struct LimitStore {
        /// A Redis or Valkey server: `redis://HOST:PORT`, `redis://HOST:PORT/DATABASE`, `rediss://` for TLS, or `unix:///PATH`.
        redis: Spanned<String>,
        /// The server's password, where it asks for one.
        password: Option<Secret>,
        /// How a `rediss` server is checked and shown who we are.
        tls: UpstreamTls,
        /// How often counts are told to the others.
        // What the others may let through too much in that time is small, and ten round trips a second are nothing to a server.
        interval: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_millis(100))),
        /// How long the server may take to answer. Requests wait for it until it is found to be away.
        // A server in reach answers within a millisecond; with the pause between two questions, one that is gone is seen
        // within a second.
        timeout: Timeout = Timeout(Duration::from_millis(250)),
    }
}
