//! `cache`: replies that are given again without asking the upstream.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::values::{Between, OneOrMore, Size, Spanned};

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
        /// The content types of replies that are cached, without parameters; `text/*` works. All of them if absent.
        types: OneOrMore<String> = OneOrMore(Vec::new()),
        /// The query parameters that tell replies apart; all of them if absent. With `[]` the query makes no difference.
        query: Option<Vec<String>>,
        /// What `Cache-Control`, `Expires` and `Pragma` say, of requests and of replies: `obey` it, or `ignore` it and keep each reply for
        /// `ttl`. What sets a cookie, or was asked for with a credential, is not shared either way.
        // The service knows what may be shared.
        cache_control: CacheControl = CacheControl::Obey,
        /// How replies tell of the cache: `status` by `Cache-Status` (RFC 9211), `kong` by `X-Cache-Status` with `Hit`, `Miss`, `Refresh`
        /// or `Bypass`.
        headers: CacheHeaders = CacheHeaders::Status,
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
    /// What a cache makes of cache directives.
    pub enum CacheControl {
        /// As RFC 9111 says.
        Obey = "obey",
        /// As if there were none.
        Ignore = "ignore",
    }
}

words! {
    /// The headers with which replies tell of a cache.
    pub enum CacheHeaders {
        /// `Cache-Status`.
        Status = "status",
        /// `X-Cache-Status`.
        Kong = "kong",
    }
}

words! {
    /// What a cache does with requests that carry a cookie.
    pub enum CacheCookies {
        /// Past the cache.
        Bypass = "bypass",
        /// As if there were none.
        Ignore = "ignore",
    }
}
