//! `key_type`: tokens for a sandbox go to the sandbox.

use crate::decode::keys;
use crate::values::Spanned;

keys! {
    /// Tells tokens for production and for the sandbox apart, as Choreo Connect does by their claim `keytype`, and sends the
    /// latter to an upstream of their own.
    pub struct KeyType {
        /// The claim that says `SANDBOX`; whoever has no such claim is for production.
        claim: String = "keytype".to_owned(),
        /// Whether those for production may pass, to the route's own upstream.
        production: bool = true,
        /// The upstream for those of the sandbox. Without it they are refused.
        sandbox: Option<Spanned<String>>,
        /// What paths at the sandbox begin with in place of `base_path`, if they differ.
        sandbox_path: Option<String>,
        /// What paths of the API begin with.
        base_path: String = String::new(),
    }
}
