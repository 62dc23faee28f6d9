//! TLS of the backends: a certificate from files, or a self-signed one generated at start.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ServerConfig, WebPkiClientVerifier};
use tokio_rustls::TlsAcceptor;

/// The certificate that a backend presents.
#[derive(Clone, Debug)]
pub enum Tls {
    /// A certificate for `localhost` and 127.0.0.1, generated at start.
    SelfSigned,
    /// PEM files.
    Files {
        /// The chain, leaf first.
        certificate: PathBuf,
        /// Its private key.
        key: PathBuf,
        /// If given, clients must present a certificate signed by one of these authorities.
        client_ca: Option<PathBuf>,
    },
    /// PEM text from [`Certificate::self_signed`].
    Pem(Certificate),
}

/// A certificate and its key as PEM text.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate. It is self-signed, so it is its own CA.
    pub certificate_pem: String,
    /// The private key (ECDSA P-256).
    pub key_pem: String,
}

impl Certificate {
    /// Generates a certificate for these names and IP addresses.
    ///
    /// # Errors
    ///
    /// If a name is not valid in a certificate.
    pub fn self_signed(names: &[&str]) -> io::Result<Self> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).map_err(io::Error::other)?;
        Ok(Self { certificate_pem: made.cert.pem(), key_pem: made.signing_key.serialize_pem() })
    }
}

impl Tls {
    pub(super) fn acceptor(&self, http2: bool) -> io::Result<TlsAcceptor> {
        let (certificate, client_ca) = self.load()?;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate.certificate_pem.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(io::Error::other)?;
        let key = PrivateKeyDer::from_pem_slice(certificate.key_pem.as_bytes())
            .map_err(io::Error::other)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let tls = match client_ca {
            None => tls.with_no_client_auth(),
            Some(roots) => {
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                tls.with_client_cert_verifier(verifier.build().map_err(io::Error::other)?)
            }
        };
        let mut tls = tls.with_single_cert(chain, key).map_err(io::Error::other)?;
        let protocols: &[&[u8]] = if http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
        tls.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(TlsAcceptor::from(Arc::new(tls)))
    }

    fn load(&self) -> io::Result<(Certificate, Option<RootCertStore>)> {
        match self {
            Self::SelfSigned => Ok((Certificate::self_signed(&["localhost", "127.0.0.1"])?, None)),
            Self::Pem(certificate) => Ok((certificate.clone(), None)),
            Self::Files { certificate, key, client_ca } => {
                let certificate = Certificate {
                    certificate_pem: fs::read_to_string(certificate)?,
                    key_pem: fs::read_to_string(key)?,
                };
                Ok((certificate, client_ca.as_ref().map(roots_in).transpose()?))
            }
        }
    }
}

fn roots_in(file: &PathBuf) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(io::Error::other)? {
        roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
    }
    Ok(roots)
}
