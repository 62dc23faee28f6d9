//! A connection of the gateway's own, to a service that is no upstream: a store that counts are kept in.

use std::io;
use std::path::PathBuf;

use tokio::net::{TcpStream, UnixStream};

/// Where a service listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Place {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// An open connection. Unlike a wire it may move between threads.
pub enum Link {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What one read takes at the most.
const READ_BYTES: usize = 16 * 1024;

impl Link {
    /// Connects; the caller sets the deadline.
    pub async fn connect(place: &Place) -> io::Result<Link> {
        Ok(match place {
            Place::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Link::Tcp(stream)
            }
            Place::Unix(path) => Link::Unix(UnixStream::connect(path).await?),
        })
    }

    /// Sends all of it.
    pub async fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = match self {
                Link::Tcp(stream) => {
                    stream.writable().await?;
                    stream.try_write(bytes)
                }
                Link::Unix(stream) => {
                    stream.writable().await?;
                    stream.try_write(bytes)
                }
            };
            match written {
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Appends what has come; an end is an error.
    pub async fn read(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let mut piece = vec![0; READ_BYTES];
        loop {
            let read = match self {
                Link::Tcp(stream) => {
                    stream.readable().await?;
                    stream.try_read(&mut piece)
                }
                Link::Unix(stream) => {
                    stream.readable().await?;
                    stream.try_read(&mut piece)
                }
            };
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => {
                    out.extend_from_slice(piece.get(..length).unwrap_or_default());
                    return Ok(());
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
    }
}
