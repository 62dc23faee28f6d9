//! `canary`: sends some of the requests to another upstream.

use super::authorize::GroupRules;
use super::rate_limit::LimitBy;
use crate::decode::keys;
use crate::values::{Percent, Spanned, Timeout};

keys! {
    /// Sends some of the requests to another upstream. A header decides first, then groups, then the percentage.
    pub struct Canary {
        /// The upstream for these requests.
        upstream: Spanned<String>,
        /// How many of the requests, in percent; fractions are allowed.
        percent: Percent = Percent::NONE,
        /// Increases the percentage evenly from nothing to `percent`, so that a new version gets more and more requests.
        ramp: Option<Spanned<Ramp>>,
        /// The key by which clients are chosen, so that each client always gets the same upstream: `client`, `subject`, `header:NAME` or
        /// `cel:EXPRESSION`. If absent, requests are chosen at random.
        by: Option<Spanned<LimitBy>>,
        /// A header with which a client may choose: `always` or `never`.
        header: Option<Spanned<String>>,
        /// Clients in a group of `allow` always go there. With `deny`, all clients go there except those in one of its groups.
        groups: Option<Spanned<GroupRules>>,
    }
}

keys! {
    /// A share that grows over time.
    pub struct Ramp {
        /// When it begins to grow, such as `2026-03-01T08:00:00Z`.
        start: Spanned<String>,
        /// How long it grows, such as `1h`.
        over: Timeout,
    }
}
