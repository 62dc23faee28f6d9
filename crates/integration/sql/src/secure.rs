//! TLS for connections to PostgreSQL, with the gateway's own TLS client.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use kit::dial::Stream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// The gateway's TLS client, behind the interface of the PostgreSQL library.
pub(crate) struct Secure {
    pub(crate) tls: Option<tls::Client>,
    pub(crate) host: String,
}

/// A stream over TLS.
pub(crate) struct PostgresTls(Box<dyn Stream>);

impl<S: Stream + 'static> TlsConnect<S> for Secure {
    type Stream = PostgresTls;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<PostgresTls>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let Some(tls) = self.tls else { return Err(io::ErrorKind::Unsupported.into()) };
            let stream = tls.connect(&self.host, stream).await?;
            Ok(PostgresTls(Box::new(stream)))
        })
    }
}

impl TlsStream for PostgresTls {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for PostgresTls {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for PostgresTls {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}
