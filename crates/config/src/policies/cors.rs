//! `cors`: which pages of other origins may call.

use std::time::Duration;

use crate::decode::keys;
use crate::values::{OneOrMore, Spanned};

keys! {
    /// Allows pages of other origins to call the route from a browser: answers preflights, and adds the CORS headers to replies.
    pub struct Cors {
        /// Origins such as `https://app.example.com`, patterns such as `https://*.example.com`, or `*` for all.
        origins: Spanned<OneOrMore<Spanned<String>>>,
        /// Methods pages may use.
        // What a browser sends in ordinary life.
        methods: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// Request headers pages may set; those they ask for if absent, or `*`.
        headers: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// Reply headers that pages may read, beside those that CORS always allows.
        expose: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// Pages may send cookies and other credentials. Needs listed origins.
        credentials: Spanned<bool> = Spanned::unwritten(false),
        /// Whether `credentials` may stand beside `origins: ["*"]`, as in Kong: any page then acts for its visitor.
        // Nobody should get that by a short list.
        any_with_credentials: bool = false,
        /// How long a browser may cache the answer to a preflight.
        // Browsers ask again after 5 s on their own, which is one preflight for nearly every call; Chromium takes two hours at
        // the most. Ten minutes are enough, and a change is not long in coming.
        max_age: Duration = Duration::from_secs(600),
    }
}
