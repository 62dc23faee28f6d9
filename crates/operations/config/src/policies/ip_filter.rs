//! `ip_filter`: allows or refuses client addresses.

use crate::decode::keys;
use crate::values::{Between, Network, Spanned};

keys! {
    /// Allows or denies client addresses. Refused clients get 403, or another `status`. The client is the peer, or the address that a
    /// trusted proxy names.
    pub struct IpRules {
        /// Networks that are allowed; if empty, all that are not denied.
        allow: Vec<Spanned<Network>> = Vec::new(),
        /// Networks that are denied. This takes precedence over `allow`.
        deny: Vec<Spanned<Network>> = Vec::new(),
        /// The status of a refused request.
        status: Between<400, 599> = const { Between::new(403) },
        /// The text for refused clients, instead of a general one.
        message: Option<String>,
    }
}
