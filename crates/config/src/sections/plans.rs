//! `plans`: named limits, such as Gold and Silver, and `stores`: where gateways count together.

use std::time::Duration;

use crate::decode::keys;
use crate::policies::{LimitWindow, Requests};
use crate::sections::UpstreamTls;
use crate::values::{Secret, Spanned, Timeout};

keys! {
    /// The limits of clients on this plan, for a `rate_limit` with `plans: true`.
    pub struct LimitPlan {
        /// How many requests pass in the time of `per`.
        requests: Option<Spanned<Requests>>,
        /// The time, such as `1s` or `1m`.
        per: Option<Spanned<Timeout>>,
        /// How many requests may come at once; `requests` if absent.
        burst: Option<Spanned<Requests>>,
        /// More windows, all of which have to hold.
        windows: Vec<Spanned<LimitWindow>> = Vec::new(),
        /// Whether there is no limit.
        unlimited: bool = false,
    }
}

keys! {
    /// A server through which several gateways share counts.
    pub struct LimitStore {
        /// A Redis or Valkey server: `redis://HOST:PORT`, `redis://HOST:PORT/DATABASE`, `rediss://` for TLS, or `unix:///PATH`.
        redis: Spanned<String>,
        /// The server's password, if it needs one.
        password: Option<Secret>,
        /// How to verify a `rediss` server, and the certificate to show to it.
        tls: UpstreamTls,
        /// How often counts are sent to the server.
        // What the others may let through too much in that time is small, and ten round trips a second are nothing to a server.
        interval: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_millis(100))),
        /// How long the server may take to answer; after that it counts as down. Requests do not wait for a server that is down.
        // A server in reach answers within a millisecond; with the pause between two questions, one that is gone is seen
        // within a second.
        timeout: Timeout = Timeout(Duration::from_millis(250)),
    }
}
