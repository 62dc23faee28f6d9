//! `ip_filter`: which addresses may ask.

use crate::decode::keys;
use crate::values::{Between, Network, Spanned};

keys! {
    /// Allows or denies client addresses; 403, or another `status`, to those not allowed. The client is the peer, or the one a trusted proxy names.
    pub struct IpRules {
        /// Networks that are allowed; if empty, all that are not denied.
        allow: Vec<Spanned<Network>> = Vec::new(),
        /// Networks that are denied; this wins over `allow`.
        deny: Vec<Spanned<Network>> = Vec::new(),
        /// The status of a refused request.
        status: Between<400, 599> = const { Between::new(403) },
        /// The text that a refused client reads, instead of a general one.
        message: Option<String>,
    }
}
