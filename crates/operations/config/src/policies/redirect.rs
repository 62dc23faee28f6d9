//! `redirect`: answers with a redirect.

use crate::decode::keys;
use crate::values::{Between, Spanned};

keys! {
    /// Answers each request with a redirect. A route with it needs no `upstream`.
    pub struct Redirect {
        /// The status: 301, 302, 303, 307 or 308. The last two let the client keep its method and body.
        status: Spanned<Between<300, 399>> = Spanned::unwritten(const { Between::new(302) }),
        /// The target: `https://HOST/PATH`, or a path on the same host. Placeholders are those of `headers` on the request. Before the
        /// path, only `{host}` and `{hostname}` (without the port) are allowed.
        to: Spanned<String>,
        /// Whether the request's path is added.
        keep_path: bool = false,
        /// Whether the request's query is added.
        keep_query: bool = false,
    }
}
