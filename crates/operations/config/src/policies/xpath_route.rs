//! `xpath_route`: chooses the upstream by the content of the message.

use crate::decode::keys;
use crate::values::{Map, Size, Spanned, WebUrl};

keys! {
    /// Sends a request to another upstream, by the content of its message. The first matching case decides. If none matches, the request
    /// goes to the route's own upstream.
    pub struct XpathRoute {
        /// Prefixes of the expressions with their namespaces. `soap` and `soap12` are those of the envelopes.
        namespaces: Map<Spanned<String>> = Map::default(),
        /// Cases, such as `{ xpath: "//t:Add/t:intA", equals: "5", upstream: other }`.
        cases: Spanned<Vec<Spanned<XpathCase>>>,
        /// Whether errors are reported to the client.
        verbose: bool = false,
        /// The largest message; 413 above.
        // As for `soap`. The tree of a message takes about ten times as much memory.
        body_bytes_max: Size = Size(10 * 1024 * 1024),
    }
}

keys! {
    /// A value, and the destination of messages with it.
    pub struct XpathCase {
        /// An XPath 1.0 expression. If it selects several nodes, the first counts.
        xpath: Spanned<String>,
        /// The value that it must have.
        equals: String,
        /// One of the `upstreams`.
        upstream: Option<Spanned<String>>,
        /// Or a URL such as `http://10.0.0.3:8080/ws`: its path and query replace the request's. If its host is the name of one of the
        /// `upstreams`, that upstream is used.
        url: Option<Spanned<WebUrl>>,
    }
}
