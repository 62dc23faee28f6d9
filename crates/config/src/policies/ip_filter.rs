//! `ip_filter`: which addresses may ask.

use crate::decode::keys;
use crate::values::{Network, Spanned};

keys! {
    /// Lets only some addresses ask; 403 to others. The client is the peer, or whom a trusted proxy names.
    pub struct IpRules {
        /// Networks that may ask; empty for all that are not denied.
        allow: Vec<Spanned<Network>> = Vec::new(),
        /// Networks that may not, whatever is allowed.
        deny: Vec<Spanned<Network>> = Vec::new(),
    }
}
