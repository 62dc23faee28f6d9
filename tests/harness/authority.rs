//! Certificates for one test, and the TLS settings of both sides.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};

/// A certificate authority.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM texts.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The authority that a TLS client trusts, and its own certificate.
pub(crate) struct Trust {
    authority: String,
    identity: Option<Identity>,
    versions: &'static [&'static SupportedProtocolVersion],
    alpn: Vec<Vec<u8>>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Authority { issuer: CertifiedIssuer::self_signed(params, key).unwrap() }
    }

    /// Returns the authority's own certificate.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Issues a certificate for a host name or an IP address.
    pub(crate) fn issue(&self, host: &str) -> Identity {
        self.issue_as(host, |_| ())
    }

    /// Issues a certificate that is valid between these times, in seconds since the Unix epoch.
    pub(crate) fn issue_for(&self, host: &str, from: u64, to: u64) -> Identity {
        self.issue_as(host, |params| {
            let epoch = rcgen::date_time_ymd(1970, 1, 1);
            let at = |seconds| epoch + Duration::from_secs(seconds);
            (params.not_before, params.not_after) = (at(from), at(to));
        })
    }

    /// Issues a certificate with changed parameters.
    pub(crate) fn issue_as(&self, host: &str, change: impl Fn(&mut CertificateParams)) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, host);
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// Returns a client that trusts this authority.
    pub(crate) fn trust(&self) -> Trust {
        Trust {
            authority: self.pem(),
            identity: None,
            versions: rustls::ALL_VERSIONS,
            alpn: Vec::new(),
        }
    }

    /// Returns the settings of a server for `host`. With `clients`, it requires client certificates of that authority.
    pub(crate) fn server(&self, host: &str, clients: Option<&Authority>) -> Arc<ServerConfig> {
        self.issue(host).server(clients)
    }
}

impl Identity {
    /// Returns the settings of a server with this certificate. With `clients`, it requires client certificates of that authority.
    pub(crate) fn server(&self, clients: Option<&Authority>) -> Arc<ServerConfig> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let roots = Arc::new(roots(&clients.pem()));
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        Arc::new(builder.with_single_cert(self.chain(), self.private_key()).unwrap())
    }

    fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()]
    }

    fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }
}

impl Trust {
    /// Presents a certificate when the server requests one.
    pub(crate) fn showing(self, identity: Identity) -> Trust {
        Trust { identity: Some(identity), ..self }
    }

    pub(crate) fn speaking(self, versions: &'static [&'static SupportedProtocolVersion]) -> Trust {
        Trust { versions, ..self }
    }

    pub(crate) fn offering(self, alpn: &[&str]) -> Trust {
        Trust { alpn: alpn.iter().map(|name| name.as_bytes().to_vec()).collect(), ..self }
    }

    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(self.versions)
            .unwrap()
            .with_root_certificates(roots(&self.authority));
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                builder.with_client_auth_cert(identity.chain(), identity.private_key()).unwrap()
            }
        };
        config.alpn_protocols = self.alpn.clone();
        Arc::new(config)
    }
}

fn roots(pem: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    roots
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
