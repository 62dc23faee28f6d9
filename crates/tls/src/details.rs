//! What operators want to know of a certificate.

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::Certificate;
use crate::pem::certificates;

/// The fields of a certificate that operators look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateDetails {
    /// As RFC 4514 writes it, about.
    pub subject: String,
    /// Hosts and addresses.
    pub names: Vec<String>,
    pub issuer: String,
    /// Hexadecimal.
    pub serial: String,
    /// Seconds since the Unix epoch.
    pub not_before: i64,
    /// The same.
    pub not_after: i64,
}

impl CertificateDetails {
    /// Of the first certificate of a PEM text.
    pub fn of_pem(pem: &[u8]) -> Option<CertificateDetails> {
        let chain = certificates(pem).ok()?;
        let der = chain.first()?;
        let Certificate { names, not_before, not_after, .. } = Certificate::read(der)?;
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        Some(CertificateDetails {
            subject: certificate.subject().to_string(),
            names,
            issuer: certificate.issuer().to_string(),
            serial: certificate.raw_serial_as_string().replace(':', ""),
            not_before,
            not_after,
        })
    }
}
