//! `upstreams.NAME.basic`: the credentials that the gateway presents to a service.

use crate::decode::keys;
use crate::values::{Secret, Spanned};

keys! {
    /// Name and password of the gateway at the service. Each request gets them as `Authorization: Basic` (RFC 7617).
    pub struct UpstreamBasic {
        /// The name, without a colon.
        username: Spanned<String>,
        /// Its password.
        password: Spanned<Secret>,
    }
}
