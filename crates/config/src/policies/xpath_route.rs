//! `xpath_route`: where a message goes by what stands in it.

use crate::decode::keys;
use crate::values::{Map, Size, Spanned, WebUrl};

keys! {
    /// Sends a request to another upstream, by the content of its message. The first case that fits decides; if none fits, the request goes
    /// to the route's own upstream.
    pub struct XpathRoute {
        /// Prefixes of the expressions with their namespaces. `soap` and `soap12` are those of the envelopes.
        namespaces: Map<Spanned<String>> = Map::default(),
        /// Cases, such as `{ xpath: "//t:Add/t:intA", equals: "5", upstream: other }`.
        cases: Spanned<Vec<Spanned<XpathCase>>>,
        /// Whether the client is told what is wrong.
        verbose: bool = false,
        /// The largest message; 413 above.
        // As for `soap`; a tree of it takes some ten times as much.
        body_bytes_max: Size = Size(10 * 1024 * 1024),
    }
}

keys! {
    /// A value, and where messages with it go.
    pub struct XpathCase {
        /// An XPath 1.0 expression; of several nodes the first counts.
        xpath: Spanned<String>,
        /// The text its value has to be.
        equals: String,
        /// One of the `upstreams`.
        upstream: Option<Spanned<String>>,
        /// Or a URL such as `http://10.0.0.3:8080/ws`: its path and query replace the request's. If its host is the name of one of the
        /// `upstreams`, that upstream is used.
        url: Option<Spanned<WebUrl>>,
    }
}
