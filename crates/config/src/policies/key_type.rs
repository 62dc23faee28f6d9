//! `key_type`: tokens for a sandbox go to the sandbox.

use crate::decode::keys;
use crate::values::Spanned;

keys! {
    /// Sends requests with sandbox tokens to an upstream of their own. Sandbox tokens are known by their claim `keytype`, as in Choreo
    /// Connect.
    pub struct KeyType {
        /// The claim that says `SANDBOX`; a token without it is for production.
        claim: String = "keytype".to_owned(),
        /// Whether production tokens are allowed; they go to the route's own upstream.
        production: bool = true,
        /// The upstream for sandbox tokens. Without it they are refused.
        sandbox: Option<Spanned<String>>,
        /// The prefix of paths at the sandbox, in place of `base_path`, if it differs.
        sandbox_path: Option<String>,
        /// The prefix of the API's paths.
        base_path: String = String::new(),
    }
}
