//! `ip_filter`: which addresses may ask.

use crate::decode::keys;
use crate::values::{Network, Spanned};

keys! {
    /// Allows or denies client addresses; 403 to those not allowed. The client is the peer, or the one a trusted proxy names.
    pub struct IpRules {
        /// Networks that are allowed; if empty, all that are not denied.
        allow: Vec<Spanned<Network>> = Vec::new(),
        /// Networks that are denied; this wins over `allow`.
        deny: Vec<Spanned<Network>> = Vec::new(),
    }
}
