//! `key_type`: sends requests with sandbox tokens to the sandbox.

use crate::decode::keys;
use crate::values::Spanned;

keys! {
    /// Sends requests with sandbox tokens to a separate upstream. Sandbox tokens are recognized by their claim `keytype`, as in Choreo
    /// Connect.
    pub struct KeyType {
        /// The claim with the value `SANDBOX`. A token without it is for production.
        claim: String = "keytype".to_owned(),
        /// Whether production tokens are allowed. They go to the route's own upstream.
        production: bool = true,
        /// The upstream for sandbox tokens. If absent, they are refused.
        sandbox: Option<Spanned<String>>,
        /// The prefix of paths at the sandbox, if it differs from `base_path`.
        sandbox_path: Option<String>,
        /// The prefix of the API's paths.
        base_path: String = String::new(),
    }
}
