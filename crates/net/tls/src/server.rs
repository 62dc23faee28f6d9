//! TLS to clients: certificates by server name, versions, ALPN, client certificates.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;

use crate::pem::{certificates, fingerprint, key, roots};
use crate::{Certificate, Error};

/// A certificate chain and its key, as PEM text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Pair {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    Tls12,
    Tls13,
}

/// The TLS settings of a listener.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ServerSpec {
    /// The certificate for clients that send no server name, or one that is not listed.
    pub default: Pair,
    /// Certificates by server name. `*.example.com` covers one label.
    pub names: Vec<(String, Pair)>,
    pub versions: Vec<Version>,
    /// The authorities of client certificates. If set, a client must present a certificate, unless `client_optional` is set.
    pub client_ca: Option<Vec<u8>>,
    /// Whether clients without a certificate are served, too.
    pub client_optional: bool,
    /// Whether HTTP/2 is offered by ALPN.
    pub http2: bool,
}

/// The expiry of a listener's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expiry {
    /// The host of the certificate, or `None` for the default one.
    pub host: Option<String>,
    /// The expiry, in seconds since the Unix epoch.
    pub not_after: i64,
}

/// TLS settings that are ready for accepting. They are equal if they were made from equal specs.
#[derive(Clone)]
pub struct Server {
    config: Arc<ServerConfig>,
    expiries: Arc<[Expiry]>,
    fingerprint: u64,
}

impl Server {
    /// Parses and checks a spec.
    pub fn new(spec: &ServerSpec) -> Result<Server, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let versions: Vec<_> = spec.versions.iter().map(|v| supported(*v)).collect();
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|_| Error::Versions)?;
        let builder = match &spec.client_ca {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                builder.with_client_cert_verifier(client_verifier(pem, spec.client_optional)?)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(Certificates::new(spec)?));
        let http2: &[&[u8]] = if spec.http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
        config.alpn_protocols = http2.iter().map(|p| p.to_vec()).collect();
        let expiries = expiries(spec)?.into();
        Ok(Server { config: Arc::new(config), expiries, fingerprint: fingerprint(spec) })
    }

    /// Returns the expiry of each certificate, the default one first.
    pub fn expiries(&self) -> &[Expiry] {
        &self.expiries
    }

    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }
}

impl PartialEq for Server {
    fn eq(&self, other: &Server) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tls::Server({:016x})", self.fingerprint)
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tls::Pair")
    }
}

fn expiries(spec: &ServerSpec) -> Result<Vec<Expiry>, Error> {
    let named = spec.names.iter().map(|(name, pair)| (Some(name.clone()), pair));
    let all = std::iter::once((None, &spec.default)).chain(named);
    all.map(|(host, pair)| {
        let certificate = Certificate::of_pem(&pair.certificate)?;
        Ok(Expiry { host, not_after: certificate.not_after })
    })
    .collect()
}

fn supported(version: Version) -> &'static rustls::SupportedProtocolVersion {
    match version {
        Version::Tls12 => &rustls::version::TLS12,
        Version::Tls13 => &rustls::version::TLS13,
    }
}

fn client_verifier(
    pem: &[u8],
    optional: bool,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(pem)?), provider);
    let builder = if optional { builder.allow_unauthenticated() } else { builder };
    builder.build().map_err(|e| Error::Authority(e.to_string()))
}

/// Certificates by server name.
struct Certificates {
    default: Arc<CertifiedKey>,
    exact: HashMap<String, Arc<CertifiedKey>>,
    /// The certificates for wildcards, by the part after `*.`.
    wildcard: HashMap<String, Arc<CertifiedKey>>,
}

impl Certificates {
    fn new(spec: &ServerSpec) -> Result<Certificates, Error> {
        let (mut exact, mut wildcard) = (HashMap::new(), HashMap::new());
        for (name, pair) in &spec.names {
            let name = name.to_ascii_lowercase();
            let certified = certified(pair)?;
            match name.strip_prefix("*.") {
                Some(parent) => wildcard.insert(parent.to_owned(), certified),
                None => exact.insert(name, certified),
            };
        }
        Ok(Certificates { default: certified(&spec.default)?, exact, wildcard })
    }

    fn named(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        self.exact.get(name).or_else(|| self.wildcard.get(name.split_once('.')?.1))
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| self.named(&name.to_ascii_lowercase()));
        Some(named.unwrap_or(&self.default).clone())
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificates({} names)", self.exact.len() + self.wildcard.len())
    }
}

fn certified(pair: &Pair) -> Result<Arc<CertifiedKey>, Error> {
    let chain = certificates(&pair.certificate)?;
    let key = key(&pair.key)?;
    CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
        .map(Arc::new)
        .map_err(|e| Error::Mismatch(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str) -> Pair {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        Pair {
            certificate: made.cert.pem().into_bytes(),
            key: made.signing_key.serialize_pem().into_bytes(),
        }
    }

    fn spec() -> ServerSpec {
        ServerSpec {
            default: pair("default.test"),
            names: vec![
                ("a.test".to_owned(), pair("a.test")),
                ("*.w.test".to_owned(), pair("*.w.test")),
            ],
            versions: vec![Version::Tls12, Version::Tls13],
            client_ca: None,
            client_optional: false,
            http2: true,
        }
    }

    #[test]
    fn the_server_name_selects_the_certificate() {
        let certificates = Certificates::new(&spec()).unwrap();
        for (name, found) in
            [("a.test", true), ("x.w.test", true), ("x.y.w.test", false), ("b.test", false)]
        {
            assert_eq!(certificates.named(name).is_some(), found, "{name}");
        }
    }

    #[test]
    fn equal_text_makes_equal_servers() {
        let spec = spec();
        assert_eq!(Server::new(&spec).unwrap(), Server::new(&spec).unwrap());
        let other = ServerSpec { http2: false, ..spec.clone() };
        assert_ne!(Server::new(&spec).unwrap(), Server::new(&other).unwrap());
    }

    #[test]
    fn errors_name_the_faulty_setting() {
        let good = spec();
        let swapped =
            Pair { certificate: good.default.certificate.clone(), key: pair("x.test").key };
        let cases = [
            (ServerSpec { default: swapped, ..good.clone() }, "certificate and key do not match"),
            (ServerSpec { versions: vec![], ..good.clone() }, "no TLS version is allowed"),
            (ServerSpec { client_ca: Some(b"x".to_vec()), ..good.clone() }, "no usable authority"),
            (
                ServerSpec {
                    default: Pair { certificate: vec![], ..good.default.clone() },
                    ..good
                },
                "no usable certificate: no CERTIFICATE block",
            ),
        ];
        for (spec, text) in cases {
            let error = Server::new(&spec).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
