//! The fields of a certificate for display to operators.

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;

use crate::Certificate;
use crate::pem::certificates;

/// The fields of a certificate for display to operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateDetails {
    /// The subject, approximately in the form of RFC 4514.
    pub subject: String,
    /// The hosts and addresses.
    pub names: Vec<String>,
    pub issuer: String,
    /// The serial number, in hexadecimal.
    pub serial: String,
    /// The beginning of the validity, in seconds since the Unix epoch.
    pub not_before: i64,
    /// The end of the validity, in seconds since the Unix epoch.
    pub not_after: i64,
}

impl CertificateDetails {
    /// Returns the details of the first certificate in a PEM text.
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
