//! `mutual_tls`: who asks is shown by a client certificate.

use crate::decode::keys;
use crate::values::Spanned;

keys! {
    /// Takes only requests of clients with a certificate that their listener (`tls.client_ca`) or a trusted proxy checked. What is
    /// allowed is one list: a certificate on any of the three is taken, and any certificate where all are empty.
    pub struct MutualTls {
        /// Common names of subjects.
        subjects: Vec<String> = Vec::new(),
        /// Alternative names: DNS names, addresses, URIs.
        names: Vec<String> = Vec::new(),
        /// SHA-256 fingerprints of certificates, in hex, with or without colons.
        fingerprints: Vec<Spanned<String>> = Vec::new(),
        /// The header in which one of the listener's `trusted_proxies` passes on the certificate (PEM, percent-encoded, or base64
        /// of its DER). It is removed from every request.
        header: Option<Spanned<String>>,
        /// Whether requests without a certificate may pass, with nobody as their subject.
        optional: bool = false,
    }
}
