//! `concurrency`: so many exchanges under way at once.

use std::time::Duration;

use super::rate_limit::{LimitBy, Requests};
use crate::decode::keys;
use crate::values::Spanned;

keys! {
    /// Lets so many exchanges be under way at once, from the request to the last byte of its reply; 503 or 429 above.
    pub struct Concurrency {
        /// As many at once.
        requests: Requests,
        /// Who shares a count: `route`, `client`, `subject`, `header:NAME` or `cel:EXPRESSION`.
        // What has to be protected is usually the service, whoever asks.
        by: Spanned<LimitBy> = Spanned::unwritten(LimitBy::Route),
        /// How long a request waits for a place before it is refused.
        // Queues hide that a service is too slow; who wants one says how long.
        wait: Duration = Duration::ZERO,
    }
}
