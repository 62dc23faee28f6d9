//! `cors`: controls which pages of other origins may call.

use std::time::Duration;

use crate::decode::keys;
use crate::values::{OneOrMore, Spanned};

keys! {
    /// Allows pages of other origins to call the route from a browser: answers preflights, and adds the CORS headers to replies.
    pub struct Cors {
        /// Origins such as `https://app.example.com`, patterns such as `https://*.example.com`, or `*` for all.
        origins: Spanned<OneOrMore<Spanned<String>>>,
        /// Methods that pages may use.
        // The methods that browsers usually send.
        methods: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// Request headers that pages may set. If absent or `*`, those that they ask for.
        headers: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// Reply headers that pages may read, in addition to those that CORS always allows.
        expose: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// Whether pages may send cookies and other credentials. This requires listed origins.
        credentials: Spanned<bool> = Spanned::unwritten(false),
        /// Whether `credentials` may be combined with `origins: ["*"]`, as in Kong. Any website could then act on behalf of its visitors.
        // This must not happen by accident.
        any_with_credentials: bool = false,
        /// How long a browser may cache the answer to a preflight.
        // Without it, browsers cache for 5 s, which means a preflight for nearly every call; Chromium caches at most two hours. Ten minutes
        // are enough, and changes take effect soon.
        max_age: Duration = Duration::from_secs(600),
    }
}
