//! PEM parsing.

use std::fmt;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// An error in certificates, keys or TLS settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The text contains no certificate, or one that cannot be parsed.
    Certificate(String),
    /// The text contains no private key, or one that cannot be parsed.
    Key(String),
    /// Key and certificate do not belong together, or the type of the key is not supported.
    Mismatch(String),
    /// The authorities cannot be used.
    Authority(String),
    /// No protocol version is enabled.
    Versions,
    /// A server name that is neither a DNS name nor an address.
    Name(String),
}

/// The beginning of the complaint about a certificate and a key that do not belong together.
pub const PAIR_MISMATCH: &str = "certificate and key do not match";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Certificate(why) => write!(f, "no usable certificate: {why}"),
            Error::Key(why) => write!(f, "no usable private key: {why}"),
            Error::Mismatch(why) => write!(f, "{PAIR_MISMATCH}: {why}"),
            Error::Authority(why) => write!(f, "no usable authority certificate: {why}"),
            Error::Versions => write!(f, "no TLS version is allowed"),
            Error::Name(name) => write!(f, "`{name}` is neither a DNS name nor an address"),
        }
    }
}

impl std::error::Error for Error {}

pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if chain.is_empty() => Err(Error::Certificate("no CERTIFICATE block".to_owned())),
        Ok(chain) => Ok(chain),
        Err(e) => Err(Error::Certificate(e.to_string())),
    }
}

pub(crate) fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|e| Error::Key(e.to_string()))
}

pub(crate) fn roots(pem: &[u8]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem).map_err(|e| Error::Authority(e.to_string()))? {
        roots.add(certificate).map_err(|e| Error::Authority(e.to_string()))?;
    }
    Ok(roots)
}

/// Returns a hash of settings, to detect changes without keeping the secrets.
pub(crate) fn fingerprint(parts: &impl std::hash::Hash) -> u64 {
    use std::hash::Hasher;
    let mut hasher = std::hash::DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}
