//! A non-blocking connection to the target, in plain text or with TLS.

use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use super::load::{Target, TlsTarget};
use super::outcome::ErrorKind;

/// How connections to the target are opened.
pub(super) struct Dialer {
    address: SocketAddr,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// A connection, with the bytes that the kernel has not accepted yet.
pub(super) struct Wire {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    unsent: Vec<u8>,
}

/// The result of reading.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// All available bytes have been read.
    Drained,
    /// The server will send nothing more.
    Closed,
}

impl Dialer {
    /// # Errors
    ///
    /// If the target's name or its certificate authorities are invalid.
    pub(super) fn new(target: &Target) -> Result<Dialer, String> {
        let tls = target.tls.as_ref().map(configure).transpose()?;
        Ok(Dialer { address: target.address, tls })
    }

    /// Begins to open a connection.
    pub(super) fn dial(&self, registry: &Registry, token: Token) -> Result<Wire, ErrorKind> {
        let mut stream = TcpStream::connect(self.address).map_err(|_| ErrorKind::Connect)?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut stream, token, interest).map_err(|_| ErrorKind::Connect)?;
        let tls = self.tls.as_ref().map(|(config, name)| {
            let mut tls = ClientConnection::new(Arc::clone(config), name.clone())?;
            // A request is written before the handshake is complete. The size of requests is limited.
            tls.set_buffer_limit(None);
            Ok::<_, rustls::Error>(Box::new(tls))
        });
        let tls = tls.transpose().map_err(|_| ErrorKind::Tls)?;
        Ok(Wire { stream, tls, unsent: Vec::new() })
    }
}

impl Wire {
    /// Returns true once the connection is open, or an error if it was refused.
    pub(super) fn is_connected(&mut self) -> Result<bool, ErrorKind> {
        if !matches!(self.stream.take_error(), Ok(None)) {
            return Err(ErrorKind::Connect);
        }
        match self.stream.peer_addr() {
            Ok(_) => {
                self.stream.set_nodelay(true).map_err(|_| ErrorKind::Connect)?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(_) => Err(ErrorKind::Connect),
        }
    }

    /// Returns the number of bytes that wait for the kernel to accept them, without those inside TLS.
    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent.len()
    }

    /// Returns true until the TLS handshake is complete.
    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Sends bytes, and keeps those that the kernel does not accept.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), ErrorKind> {
        if let Some(tls) = &mut self.tls {
            tls.writer().write_all(bytes).map_err(|_| ErrorKind::Tls)?;
            return self.flush();
        }
        let mut sent = 0;
        if self.unsent.is_empty() {
            sent = match self.stream.write(bytes) {
                Err(error) if is_later(&error) => 0,
                sent => sent.map_err(|_| ErrorKind::Closed)?,
            };
        }
        self.unsent.extend_from_slice(bytes.get(sent..).unwrap_or_default());
        Ok(())
    }

    /// Sends the bytes that were kept.
    pub(super) fn flush(&mut self) -> Result<(), ErrorKind> {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                match tls.write_tls(&mut self.stream) {
                    Ok(_) => {}
                    Err(error) if is_later(&error) => return Ok(()),
                    Err(_) => return Err(ErrorKind::Closed),
                }
            }
            return Ok(());
        }
        let mut sent = 0;
        while let Some(rest) = self.unsent.get(sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(count) => sent += count,
                Err(error) if is_later(&error) => break,
                Err(_) => return Err(ErrorKind::Closed),
            }
        }
        self.unsent.drain(..sent);
        Ok(())
    }

    /// Reads all available bytes and passes them to `take`, in pieces of at most the size of `scratch`. `is_ending` means that epoll has
    /// reported the end of the stream and will not report it again.
    pub(super) fn read(
        &mut self,
        is_ending: bool,
        scratch: &mut [u8],
        mut take: impl FnMut(&[u8]) -> Result<(), ErrorKind>,
    ) -> Result<Arrival, ErrorKind> {
        if self.tls.is_some() {
            return self.read_tls(scratch, take);
        }
        loop {
            let count = match self.stream.read(scratch) {
                Ok(0) => return Ok(Arrival::Closed),
                Ok(count) => count,
                Err(error) if is_later(&error) => return Ok(Arrival::Drained),
                Err(_) => return Err(ErrorKind::Closed),
            };
            take(scratch.get(..count).unwrap_or_default())?;
            // A read that does not fill the buffer has emptied the socket, and epoll reports further bytes. Another read would only cost a
            // system call.
            if count < scratch.len() && !is_ending {
                return Ok(Arrival::Drained);
            }
        }
    }

    fn read_tls(
        &mut self,
        scratch: &mut [u8],
        mut take: impl FnMut(&[u8]) -> Result<(), ErrorKind>,
    ) -> Result<Arrival, ErrorKind> {
        let Some(tls) = &mut self.tls else { return Ok(Arrival::Closed) };
        let mut arrival = None;
        while arrival.is_none() {
            match tls.read_tls(&mut self.stream) {
                Ok(0) => arrival = Some(Arrival::Closed),
                Ok(_) => {}
                Err(error) if is_later(&error) => arrival = Some(Arrival::Drained),
                Err(_) => return Err(ErrorKind::Closed),
            }
            tls.process_new_packets().map_err(|_| ErrorKind::Tls)?;
            loop {
                match tls.reader().read(scratch) {
                    Ok(0) => {
                        arrival = Some(Arrival::Closed);
                        break;
                    }
                    Ok(count) => take(scratch.get(..count).unwrap_or_default())?,
                    Err(error) if is_later(&error) => break,
                    // The server closed the connection without a TLS alert. Whether the reply is complete decides if this is an error.
                    Err(_) => {
                        arrival = Some(Arrival::Closed);
                        break;
                    }
                }
            }
        }
        self.flush()?;
        Ok(arrival.unwrap_or(Arrival::Drained))
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn configure(tls: &TlsTarget) -> Result<(Arc<ClientConfig>, ServerName<'static>), String> {
    let name = ServerName::try_from(tls.name.clone());
    let name = name.map_err(|_| format!("`{}` must be a host name or an IP address", tls.name))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let mut config = match &tls.authorities {
        Some(pem) => builder.with_root_certificates(roots(pem)?).with_no_client_auth(),
        None => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate::of(&provider)))
            .with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((Arc::new(config), name))
}

fn roots(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| format!("`authorities`: {error}"))?;
        roots.add(certificate).map_err(|error| format!("`authorities`: {error}"))?;
    }
    if roots.is_empty() {
        Err("`authorities` must have a certificate".to_owned())
    } else {
        Ok(roots)
    }
}

/// Accepts every certificate, as the documents' load tools do, because gateways under test have self-signed certificates.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl AnyCertificate {
    fn of(provider: &CryptoProvider) -> AnyCertificate {
        AnyCertificate(provider.signature_verification_algorithms)
    }
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
