//! `cache`: replies that are given again without asking the upstream.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::values::{Between, Size, Spanned};

keys! {
    /// Caches replies in memory and serves them while they are fresh (RFC 9111, a shared cache).
    pub struct Cache {
        /// The size of all cached replies together; above it the least recently used are dropped.
        // A noticeable cache on the smallest machine that runs a gateway.
        bytes_max: Size = Size(64 << 20),
        /// The largest reply that is cached.
        // Larger ones are rare, and would push many others out.
        entry_bytes_max: Size = Size(1 << 20),
        /// How many replies are cached.
        // Where they are tiny, the books would outgrow them.
        entries_max: Between<1, 10_000_000> = const { Between::new(100_000) },
        /// How long a reply is fresh that says nothing about it; without it, such a reply is not cached. It applies to `statuses`.
        // The service knows best; a guess would be wrong for somebody.
        ttl: Option<Duration>,
        /// The statuses that `ttl` applies to.
        // What succeeds, and permanent redirects. A client can bring about errors (405, 414, 501), which would then be given to others.
        statuses: Spanned<Vec<Between<200, 599>>> = Spanned::unwritten(TTL_STATUSES.to_vec()),
        /// How to treat requests with a `Cookie`: with `bypass` they are not answered from the cache and their replies are not cached,
        /// `ignore` treats them like all others.
        // A reply to a cookie is somebody's own unless the operator knows better.
        cookies: CacheCookies = CacheCookies::Bypass,
        /// How long a stale reply may be served while the upstream fails, unless the reply forbids it.
        // Off, since an old answer may be worse than none.
        stale_if_error: Duration = Duration::ZERO,
        /// How long a request may wait for the reply to another request for the same URL, instead of going to the upstream too; `0s` turns
        /// waiting off.
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
