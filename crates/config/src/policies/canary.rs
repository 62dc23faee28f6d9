//! `canary`: a part of the requests goes to another upstream.

use super::authorize::GroupRules;
use super::rate_limit::LimitBy;
use crate::decode::keys;
use crate::values::{Percent, Spanned};

keys! {
    /// Sends a part of the requests to another upstream. A header decides first, then groups, then the share.
    pub struct Canary {
        /// The upstream for that part.
        upstream: Spanned<String>,
        /// How many of the requests, in percent; fractions are allowed.
        percent: Percent = Percent::NONE,
        /// The key by which a client is chosen and stays chosen: `client`, `subject`, `header:NAME` or `cel:EXPRESSION`. Without it each
        /// request is drawn by chance.
        by: Option<Spanned<LimitBy>>,
        /// A header in which a client may say `always` or `never`.
        header: Option<Spanned<String>>,
        /// Clients in a group of `allow` always go there. With `deny`, everybody goes there but clients in one of its groups.
        groups: Option<Spanned<GroupRules>>,
    }
}
