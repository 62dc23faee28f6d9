//! `api_key`: authenticates clients by a secret key.

use crate::decode::keys;
use crate::values::{Credentials, OneOrMore, Size, Spanned};

keys! {
    /// Requires one of the keys.
    pub struct ApiKey {
        /// The header with the key, such as `x-api-key`; or several names for it.
        header: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// The query parameter with the key, or several names for it. Queries end up in logs and histories; a header does not.
        query: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// The field of a form, or the member of a JSON object, with the key in the body; or several names for it. Headers and the
        /// query are searched first.
        body: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// The largest body that is searched for a key; 413 above.
        // A form with a key is small, and its sender is not authenticated yet.
        body_bytes_max: Size = Size(64 * 1024),
        /// The keys by subject: `{ file: keys.yaml }`, or `{ SUBJECT: KEY }`. A key may be written as `sha256:HEX`.
        keys: Spanned<Credentials>,
        /// Whether the upstream sees the key.
        // A service that does not need the key could only leak it.
        forward: bool = false,
    }
}
