//! `mutual_tls`: authenticates clients by a certificate.

use crate::decode::keys;
use crate::values::Spanned;

keys! {
    /// Requires a client certificate that the listener (`tls.client_ca`) or a trusted proxy verified. `subjects`, `names` and
    /// `fingerprints` are one allow list: a certificate in any of the three is allowed. If all are empty, every certificate is.
    pub struct MutualTls {
        /// Common names of subjects.
        subjects: Vec<String> = Vec::new(),
        /// Alternative names: DNS names, addresses, URIs.
        names: Vec<String> = Vec::new(),
        /// SHA-256 fingerprints of certificates, in hex, with or without colons.
        fingerprints: Vec<Spanned<String>> = Vec::new(),
        /// The header in which one of the listener's `trusted_proxies` forwards the certificate (PEM, percent-encoded, or base64 of its
        /// DER). It is removed from every request.
        header: Option<Spanned<String>>,
        /// Whether requests without a certificate are allowed, without a subject.
        optional: bool = false,
    }
}
