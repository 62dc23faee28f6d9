//! `cache`: replies that are given again without asking the upstream.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::values::{Between, Size, Spanned};

keys! {
    /// Keeps replies in memory and gives them again for as long as they say they are fresh (RFC 9111, a shared cache).
    pub struct Cache {
        /// All replies of this cache together.
        // A noticeable cache on the smallest machine that runs a gateway.
        bytes_max: Size = Size(64 << 20),
        /// The largest reply that is kept.
        // Larger ones are rare, and would push many others out.
        entry_bytes_max: Size = Size(1 << 20),
        /// How many replies are kept.
        // Where they are tiny, the books would outgrow them.
        entries_max: Between<1, 10_000_000> = const { Between::new(100_000) },
        /// How long a reply is fresh that says nothing about it; without it, such a reply is not kept. It holds for the
        /// statuses of `statuses`.
        // The service knows best; a guess would be wrong for somebody.
        ttl: Option<Duration>,
        /// The statuses that `ttl` holds for.
        // What succeeds, and permanent redirects. A client can bring about errors (405, 414, 501), which would then be given to others.
        statuses: Spanned<Vec<Between<200, 599>>> = Spanned::unwritten(TTL_STATUSES.to_vec()),
        /// What becomes of requests with a `Cookie`: `bypass` neither answers them from the cache nor keeps their replies, `ignore`
        /// treats them like all others.
        // A reply to a cookie is somebody's own unless the operator knows better.
        cookies: CacheCookies = CacheCookies::Bypass,
        /// How long beyond that a reply may be given while the upstream fails, unless it forbids it.
        // Off, since an old answer may be worse than none.
        stale_if_error: Duration = Duration::ZERO,
        /// How long a request may wait for the reply to another one for the same, instead of asking as well; `0s` turns waiting off.
        // Longer than nearly every reply takes, and well below the time after which clients give up.
        wait: Duration = Duration::from_secs(5),
    }
}

/// Statuses of success whose replies may be kept unasked (RFC 9110, 15.1), and permanent redirects. 206 is never kept.
const TTL_STATUSES: [Between<200, 599>; 5] =
    [Between::new(200), Between::new(203), Between::new(204), Between::new(301), Between::new(308)];

words! {
    /// What a cache does with requests that carry a cookie.
    pub enum CacheCookies {
        /// Past the cache.
        Bypass = "bypass",
        /// As if there were none.
        Ignore = "ignore",
    }
}
