//! An accepted connection, with or without TLS. The TLS handshake runs in the first read, so that the next accept does not wait for it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

use crate::Server;

/// The certificate (DER) that the client has presented. It is set once the handshake is complete.
pub type ClientCertificate = Arc<OnceLock<Vec<u8>>>;

/// The connection of a client.
pub struct Accepted<S> {
    stage: Stage<S>,
    certificate: ClientCertificate,
}

enum Stage<S> {
    Plain(S),
    Handshake(Box<Accept<S>>),
    Secured(Box<TlsStream<S>>),
}

impl<S: AsyncRead + AsyncWrite + Unpin> Accepted<S> {
    /// Wraps the connection of a client, with TLS if `server` is given.
    pub fn new(stream: S, server: Option<&Server>) -> Accepted<S> {
        let stage = match server {
            None => Stage::Plain(stream),
            Some(server) => {
                let acceptor = TlsAcceptor::from(server.config());
                Stage::Handshake(Box::new(acceptor.accept(stream)))
            }
        };
        Accepted { stage, certificate: ClientCertificate::default() }
    }

    /// Returns the client's certificate, which is set after the handshake.
    pub fn certificate(&self) -> &ClientCertificate {
        &self.certificate
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Stage::Handshake(handshake) = &mut self.stage else { return Poll::Ready(Ok(())) };
        let stream = ready!(Pin::new(handshake.as_mut()).poll(cx))?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        if let Some(shown) = shown {
            self.certificate.get_or_init(|| shown.to_vec());
        }
        self.stage = Stage::Secured(Box::new(stream));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Accepted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_handshake(cx))?;
        match &mut self.stage {
            Stage::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Stage::Secured(stream) => Pin::new(stream.as_mut()).poll_read(cx, buf),
            Stage::Handshake(_) => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Accepted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_handshake(cx))?;
        match &mut self.stage {
            Stage::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Stage::Secured(stream) => Pin::new(stream.as_mut()).poll_write(cx, buf),
            Stage::Handshake(_) => Poll::Pending,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stage {
            Stage::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stage::Secured(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
            Stage::Handshake(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stage {
            Stage::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stage::Secured(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
            // Dropping the handshake closes the socket.
            Stage::Handshake(_) => Poll::Ready(Ok(())),
        }
    }
}
