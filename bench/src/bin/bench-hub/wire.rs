//! A client's connection: requests as bytes, replies with their bodies.

use std::io;
use std::net::SocketAddr;

use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) struct Wire {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Wire {
    pub(crate) async fn connect(address: SocketAddr) -> io::Result<Wire> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Wire { stream, received: Vec::new() })
    }

    pub(crate) async fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.stream.write_all(request).await
    }

    /// The next reply with a length: its status and its body.
    pub(crate) async fn reply(&mut self) -> io::Result<(u16, Vec<u8>)> {
        let mut body = Vec::new();
        let status = self.reply_into(&mut body).await?;
        Ok((status, body))
    }

    /// The same, with the body behind what the caller has. What was received stays in the memory that it came into, for fresh memory
    /// for each reply costs this side more than the reading.
    pub(crate) async fn reply_into(&mut self, bodies: &mut Vec<u8>) -> io::Result<u16> {
        let end = loop {
            if let Some(at) = memmem::find(&self.received, b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await?;
        };
        let head = self.received.get(..end).unwrap_or_default();
        let (status, length) = (status(head), length(head));
        while self.received.len() < end + length {
            self.more().await?;
        }
        bodies.extend_from_slice(self.received.get(end..end + length).unwrap_or_default());
        self.received.drain(..end + length);
        Ok(status)
    }

    pub(crate) async fn ask(&mut self, request: &[u8]) -> io::Result<(u16, Vec<u8>)> {
        self.send(request).await?;
        self.reply().await
    }

    /// Bytes as they come, without those that were read before.
    pub(crate) async fn piece(&mut self) -> io::Result<Vec<u8>> {
        if self.received.is_empty() {
            self.more().await?;
        }
        Ok(std::mem::take(&mut self.received))
    }

    async fn more(&mut self) -> io::Result<()> {
        self.received.reserve(256 << 10);
        match self.stream.read_buf(&mut self.received).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// The bytes of a head at the front that is complete, and of its body.
pub(crate) fn sizes(bytes: &[u8]) -> Option<(usize, usize)> {
    let end = memmem::find(bytes, b"\r\n\r\n")? + 4;
    Some((end, length(bytes.get(..end).unwrap_or_default())))
}

fn status(head: &[u8]) -> u16 {
    let digits = head.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

fn length(head: &[u8]) -> usize {
    let value = field(head, b"content-length").and_then(|value| std::str::from_utf8(value).ok());
    value.and_then(|value| value.parse().ok()).unwrap_or_default()
}

/// The value of a field in a head.
pub(crate) fn field<'h>(head: &'h [u8], name: &[u8]) -> Option<&'h [u8]> {
    head.split(|byte| *byte == b'\n').find_map(|line| {
        let (start, rest) = line.split_at_checked(name.len())?;
        let value = rest.strip_prefix(b":")?;
        start.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
    })
}
