//! Frames: a length of four bytes and a message.

use std::io;

use bytes::{Buf as _, BufMut as _, BytesMut};
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The maximum size of a message. The largest message has the records of one read, the first of which may exceed the bound of the read.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// Appends a message as a frame.
pub(super) fn put(message: &impl Message, into: &mut BytesMut) -> io::Result<()> {
    let length = message.encoded_len();
    let known = u32::try_from(length).unwrap_or(u32::MAX);
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::other("a message for another process is too long"));
    }
    into.put_u32(known);
    message.encode(into).map_err(|error| io::Error::other(error.to_string()))
}

/// Reads frames, one after the other.
pub(super) struct FrameReader<R> {
    from: R,
    read: BytesMut,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(super) fn new(from: R) -> FrameReader<R> {
        FrameReader { from, read: BytesMut::new() }
    }

    /// Returns the next message, or `None` at the end. The future may be dropped at any time without losing a message.
    pub(super) async fn next<M: Message + Default>(&mut self) -> io::Result<Option<M>> {
        loop {
            if let Some(length) = self.read.first_chunk::<4>() {
                let length = super::wire::whole(u64::from(u32::from_be_bytes(*length)));
                if length > FRAME_BYTES_MAX {
                    return Err(io::Error::other("a message of another process is too long"));
                }
                if self.read.len() >= length + 4 {
                    self.read.advance(4);
                    let message = self.read.split_to(length).freeze();
                    let decoded = M::decode(message).map(Some);
                    return decoded.map_err(|error| io::Error::other(error.to_string()));
                }
            }
            if self.from.read_buf(&mut self.read).await? == 0 {
                let is_whole = self.read.is_empty();
                return if is_whole { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
    }
}
