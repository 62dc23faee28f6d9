//! TLS to upstreams: authorities, a client certificate, and the name to verify.

use std::fmt;
use std::io;
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::pem::{certificates, fingerprint, key, roots};
use crate::{Certificate, Error, Pair};

/// The TLS settings of an upstream.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct ClientSpec {
    /// The authorities as PEM, or `None` for those of the system.
    pub ca: Option<Vec<u8>>,
    /// The gateway's own certificate for the upstream.
    pub pair: Option<Pair>,
    /// Whether the certificate is verified. `false` accepts any certificate.
    pub verify: bool,
    /// The name to request and verify, instead of the target's host.
    pub server_name: Option<String>,
}

/// TLS settings that are ready for connecting. They are equal if they were made from equal specs.
#[derive(Clone)]
pub struct Client {
    config: Arc<ClientConfig>,
    server_name: Option<ServerName<'static>>,
    /// The expiry of the gateway's own certificate, in seconds since the Unix epoch.
    not_after: Option<i64>,
    fingerprint: u64,
}

/// TLS over a blocking socket.
pub type BlockingStream = rustls::StreamOwned<rustls::ClientConnection, TcpStream>;

impl Client {
    /// Parses and checks a spec.
    pub fn new(spec: &ClientSpec) -> Result<Client, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|_| Error::Versions)?;
        let roots = match &spec.ca {
            Some(pem) => Arc::new(roots(pem)?),
            None => system_roots(),
        };
        let builder = if spec.verify {
            builder.with_root_certificates(roots)
        } else {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        };
        let mut config = match &spec.pair {
            None => builder.with_no_client_auth(),
            Some(pair) => builder
                .with_client_auth_cert(certificates(&pair.certificate)?, key(&pair.key)?)
                .map_err(|e| Error::Mismatch(e.to_string()))?,
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let server_name = spec.server_name.as_deref().map(server_name).transpose()?;
        let shown = spec.pair.as_ref().map(|pair| Certificate::of_pem(&pair.certificate));
        Ok(Client {
            config: Arc::new(config),
            server_name,
            not_after: shown.transpose()?.map(|certificate| certificate.not_after),
            fingerprint: fingerprint(spec),
        })
    }

    /// Returns the expiry of the gateway's own certificate, in seconds since the Unix epoch, or `None` if there is no such certificate.
    pub fn not_after(&self) -> Option<i64> {
        self.not_after
    }

    pub fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }

    /// Returns these settings for a service with a protocol other than HTTP, by its ALPN id (IANA registry).
    pub fn with_alpn(mut self, protocol: &str) -> Client {
        Arc::make_mut(&mut self.config).alpn_protocols = vec![protocol.as_bytes().to_vec()];
        self
    }

    /// Returns these settings for connections that offer these protocols by ALPN, instead of HTTP/1.1.
    pub fn offering(&self, protocols: &[&str]) -> Arc<ClientConfig> {
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }

    /// Performs the TLS handshake with a host over an open stream.
    pub async fn connect<S>(&self, host: &str, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let name = self.server_name(host).map_err(io::Error::other)?;
        TlsConnector::from(self.config()).connect(name, stream).await
    }

    /// Like `connect`, over a blocking socket. The handshake is part of the first read or write.
    pub fn wrap(&self, host: &str, socket: TcpStream) -> io::Result<BlockingStream> {
        let name = self.server_name(host).map_err(io::Error::other)?;
        let connection =
            rustls::ClientConnection::new(self.config(), name).map_err(io::Error::other)?;
        Ok(rustls::StreamOwned::new(connection, socket))
    }

    /// Returns the name to request from a target: the configured one, or the target's own host.
    pub fn server_name(&self, host: &str) -> Result<ServerName<'static>, Error> {
        match &self.server_name {
            Some(name) => Ok(name.clone()),
            None => server_name(host),
        }
    }
}

impl PartialEq for Client {
    fn eq(&self, other: &Client) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tls::Client({:016x})", self.fingerprint)
    }
}

fn server_name(host: &str) -> Result<ServerName<'static>, Error> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned()).map_err(|_| Error::Name(host.to_owned()))
}

/// Returns the system's authorities, which are read once. Without any, every certificate is refused, and the connect error states that.
fn system_roots() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    ROOTS
        .get_or_init(|| {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Arc::new(roots)
        })
        .clone()
}

/// Accepts any certificate: for `verify: false`, which an operator has to configure.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
