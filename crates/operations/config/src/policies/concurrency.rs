//! `concurrency`: limits the number of concurrent requests.

use std::time::Duration;

use super::rate_limit::{LimitBy, Requests};
use crate::decode::keys;
use crate::values::Spanned;

keys! {
    /// Limits how many requests are active at once, each until the last byte of its reply. Above that 503 if all clients share the count
    /// (`route`, `operation`), otherwise 429.
    pub struct Concurrency {
        /// How many requests may be active at once.
        requests: Requests,
        /// The key that shares a count: `route`, `client`, `subject`, `header:NAME`, `operation` or `cel:EXPRESSION`, as for `rate_limit`.
        // It is usually the service that needs protection, regardless of the client.
        by: Spanned<LimitBy> = Spanned::unwritten(LimitBy::Route),
        /// How long a request may wait for its turn before it is refused.
        // Queues hide that a service is too slow, so waiting must be enabled explicitly.
        wait: Duration = Duration::ZERO,
    }
}
