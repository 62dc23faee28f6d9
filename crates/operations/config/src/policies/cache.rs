//! `cache`: serves stored replies without calling the upstream.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::values::{Between, OneOrMore, Size, Spanned};

keys! {
    /// Caches replies in memory and serves them while they are fresh (RFC 9111, a shared cache).
    pub struct Cache {
        /// The maximum size of all cached replies together. Beyond it, the least recently used are dropped.
        // Large enough to be useful, and small enough for the smallest machine that runs a gateway.
        bytes_max: Size = Size(64 << 20),
        /// The largest reply that is cached.
        // Larger replies are rare, and would displace many others.
        entry_bytes_max: Size = Size(1 << 20),
        /// The maximum number of cached replies.
        // If replies are tiny, the bookkeeping would be larger than the replies.
        entries_max: Between<1, 10_000_000> = const { Between::new(100_000) },
        /// How long a reply is fresh that does not state a lifetime. If absent, such a reply is not cached. It applies to `statuses`.
        // Only the service knows; any guess would be wrong for some services.
        ttl: Option<Duration>,
        /// The statuses that `ttl` applies to.
        // Success, and permanent redirects. A client can provoke errors (405, 414, 501), which would then be served to others.
        statuses: Spanned<Vec<Between<200, 599>>> = Spanned::unwritten(TTL_STATUSES.to_vec()),
        /// The content types of replies that are cached, without parameters; `text/*` works. All of them if absent.
        types: OneOrMore<String> = OneOrMore(Vec::new()),
        /// The query parameters that distinguish replies; all if absent. With `[]`, the query is ignored.
        query: Option<Vec<String>>,
        /// Whether `Cache-Control`, `Expires` and `Pragma` of requests and replies apply: `obey` follows them, `ignore` keeps each reply
        /// for `ttl`. A reply that sets a cookie, or to a request with a credential, is not shared in either case.
        // The service knows what may be shared.
        cache_control: CacheControl = CacheControl::Obey,
        /// The header in which replies report the cache's decision: `status` is `Cache-Status` (RFC 9211), `kong` is `X-Cache-Status` with
        /// `Hit`, `Miss`, `Refresh` or `Bypass`.
        headers: CacheHeaders = CacheHeaders::Status,
        /// How requests with a `Cookie` are treated: with `bypass`, they are not answered from the cache and their replies are not cached.
        /// `ignore` treats them like all others.
        // A reply to a request with a cookie may be personal, unless the operator knows better.
        cookies: CacheCookies = CacheCookies::Bypass,
        /// How long a stale reply may be served while the upstream fails, unless the reply forbids it.
        // Off, since an old reply may be worse than none.
        stale_if_error: Duration = Duration::ZERO,
        /// How long a request may wait for the reply to another request for the same URL, instead of going to the upstream as well. `0s`
        /// turns waiting off.
        // Longer than nearly every reply takes, and well below the time after which clients give up.
        wait: Duration = Duration::from_secs(5),
    }
}

/// Statuses of success whose replies are heuristically cacheable (RFC 9110, 15.1), and permanent redirects. A 206 is never cached.
const TTL_STATUSES: [Between<200, 599>; 5] =
    [Between::new(200), Between::new(203), Between::new(204), Between::new(301), Between::new(308)];

words! {
    /// How a cache treats cache directives.
    pub enum CacheControl {
        /// According to RFC 9111.
        Obey = "obey",
        /// They are ignored.
        Ignore = "ignore",
    }
}

words! {
    /// The headers in which replies report the cache's decision.
    pub enum CacheHeaders {
        /// `Cache-Status`.
        Status = "status",
        /// `X-Cache-Status`.
        Kong = "kong",
    }
}

words! {
    /// How a cache treats requests with a cookie, and in the step `cache` also the results for clients with credentials.
    pub enum CacheCookies {
        /// They bypass the cache.
        Bypass = "bypass",
        /// They are treated like all others.
        Ignore = "ignore",
    }
}
