//! `tls` of upstreams and of other services that the gateway calls.

use crate::decode::keys;
use crate::values::{FilePath, Spanned};

keys! {
    /// TLS to `https` targets.
    pub struct UpstreamTls {
        /// A PEM file with the trusted certificate authorities, instead of the system's.
        ca: Option<Spanned<FilePath>>,
        /// A PEM file with the certificate to present to the target.
        certificate: Option<Spanned<FilePath>>,
        /// A PEM file with that certificate's private key.
        key: Option<Spanned<FilePath>>,
        /// Whether the target's certificate must be valid.
        verify: Spanned<bool> = Spanned::unwritten(true),
        /// The name that the target's certificate must contain, if it is not the target's host.
        server_name: Option<Spanned<String>>,
    }
}
