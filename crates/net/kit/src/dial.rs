//! Opens connections: to targets of upstreams as wires, and to other services, such as a store of counts, as links.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::Wire;

/// The address of a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ServiceAddress {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// A byte stream in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// An open connection. Unlike a wire, it can be moved between threads.
pub struct Link(Box<dyn Stream>);

/// The maximum number of bytes per read.
const READ_BYTES: usize = 16 * 1024;

/// Connects to an address, or in tests to its fake. The caller must enforce a deadline.
pub async fn to(address: SocketAddr) -> io::Result<Wire> {
    #[cfg(any(test, feature = "fake"))]
    if let Some(dialled) = crate::fake::dialled(address) {
        return dialled;
    }
    crate::stand_in::refuse_others()?;
    TcpStream::connect(address).await.map(Wire::Plain)
}

/// Connects to a TCP port. The caller must enforce a deadline.
pub async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    crate::stand_in::refuse_others()?;
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    crate::wire::keep_alive(&stream)?;
    Ok(stream)
}

/// Connects to a Unix socket.
pub async fn unix(path: &Path) -> io::Result<UnixStream> {
    crate::stand_in::refuse_others()?;
    UnixStream::connect(path).await
}

impl Link {
    /// Creates a link over a stream, plain or wrapped in TLS.
    pub fn over(stream: impl Stream + 'static) -> Link {
        Link(Box::new(stream))
    }

    /// Sends all bytes.
    pub async fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|cx| Pin::new(&mut *self.0).poll_write(cx, bytes)).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = bytes.get(written..).unwrap_or_default();
        }
        poll_fn(|cx| Pin::new(&mut *self.0).poll_flush(cx)).await
    }

    /// Reads once, and appends the bytes. The end of the stream is an error.
    pub async fn read(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let mut piece = vec![0; READ_BYTES];
        let mut piece = ReadBuf::new(&mut piece);
        poll_fn(|cx| Pin::new(&mut *self.0).poll_read(cx, &mut piece)).await?;
        if piece.filled().is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.extend_from_slice(piece.filled());
        Ok(())
    }
}
