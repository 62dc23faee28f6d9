//! Packets of MySQL's protocol over a stream: their frames, and the limit on what is received.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;

use bytes::BytesMut;
use kit::dial::Stream;
use tokio::io::{AsyncRead as _, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf};

/// A stream of packets.
pub(super) struct Wire {
    stream: Box<dyn Stream>,
    /// Received bytes that have not been read yet.
    input: BytesMut,
    /// The number that the next frame must have. Frames of both sides are counted together.
    sequence: u8,
    /// How many bytes may still be received.
    left: u64,
}

/// The reason why a packet could not be received or sent.
#[derive(Debug)]
pub(super) enum WireError {
    Lost(io::Error),
    /// More bytes than are allowed.
    TooMuch,
    /// The server violates the protocol; the text completes "the server sends".
    Malformed(&'static str),
}

/// A frame of this length is continued by the next one.
const FRAME_BYTES_MAX: usize = 0xFF_FFFF;

/// The length of the header of a frame.
const HEADER_BYTES: usize = 4;

/// The memory reserved for each read. It does not depend on the announced length, because a server may announce more than it sends.
const READ_BYTES: usize = 16 * 1024;

impl Wire {
    pub(super) fn new(stream: Box<dyn Stream>, bytes_max: u64) -> Wire {
        Wire { stream, input: BytesMut::new(), sequence: 0, left: bytes_max }
    }

    /// Sets the number of bytes that may be received from now on.
    pub(super) fn allow(&mut self, bytes_max: u64) {
        self.left = bytes_max;
    }

    /// Takes the stream, so that it can be wrapped in TLS. Fails if bytes have already arrived, because they were not protected.
    pub(super) fn into_stream(self) -> Result<(Box<dyn Stream>, WireState), WireError> {
        if !self.input.is_empty() {
            return Err(WireError::Malformed("bytes before TLS begins"));
        }
        Ok((self.stream, WireState { sequence: self.sequence, left: self.left }))
    }

    /// Returns false if the connection has ended, or if the server has sent something that nobody asked for.
    pub(super) async fn is_quiet(&mut self) -> bool {
        let mut piece = [0; 1];
        let mut piece = ReadBuf::new(&mut piece);
        let is_silent = poll_fn(|cx| {
            Poll::Ready(Pin::new(&mut self.stream).poll_read(cx, &mut piece).is_pending())
        });
        self.input.is_empty() && is_silent.await
    }

    /// Sends a packet that begins a new exchange.
    pub(super) async fn command(&mut self, payload: &[u8]) -> Result<(), WireError> {
        self.sequence = 0;
        self.send(payload).await
    }

    /// Sends a packet within an exchange.
    pub(super) async fn send(&mut self, payload: &[u8]) -> Result<(), WireError> {
        let mut rest = payload;
        loop {
            let (frame, left) = rest.split_at_checked(FRAME_BYTES_MAX).unwrap_or((rest, &[]));
            let [first, second, third, ..] = frame.len().to_le_bytes();
            let mut bytes = Vec::with_capacity(HEADER_BYTES + frame.len());
            bytes.extend_from_slice(&[first, second, third, self.sequence]);
            bytes.extend_from_slice(frame);
            self.sequence = self.sequence.wrapping_add(1);
            self.stream.write_all(&bytes).await.map_err(WireError::Lost)?;
            rest = left;
            // A full frame means that another frame follows, which may be empty.
            if frame.len() < FRAME_BYTES_MAX {
                return self.stream.flush().await.map_err(WireError::Lost);
            }
        }
    }

    /// Receives a packet.
    pub(super) async fn receive(&mut self) -> Result<BytesMut, WireError> {
        let mut packet = self.frame().await?;
        let mut is_whole = packet.len() < FRAME_BYTES_MAX;
        while !is_whole {
            let next = self.frame().await?;
            is_whole = next.len() < FRAME_BYTES_MAX;
            packet.extend_from_slice(&next);
        }
        Ok(packet)
    }

    async fn frame(&mut self) -> Result<BytesMut, WireError> {
        let header = self.read(HEADER_BYTES).await?;
        let Some([first, second, third, sequence]) = header.first_chunk().copied() else {
            return Err(WireError::Malformed("a header that is too short"));
        };
        if sequence != self.sequence {
            return Err(WireError::Malformed("a packet out of order"));
        }
        self.sequence = sequence.wrapping_add(1);
        let length = u32::from_le_bytes([first, second, third, 0]);
        self.left = self.left.checked_sub(u64::from(length) + 4).ok_or(WireError::TooMuch)?;
        self.read(usize::try_from(length).unwrap_or(usize::MAX)).await
    }

    async fn read(&mut self, count: usize) -> Result<BytesMut, WireError> {
        while self.input.len() < count {
            self.input.reserve(READ_BYTES);
            let read = self.stream.read_buf(&mut self.input).await.map_err(WireError::Lost)?;
            if read == 0 {
                return Err(WireError::Lost(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(self.input.split_to(count))
    }
}

/// What remains of a wire whose stream was taken.
pub(super) struct WireState {
    sequence: u8,
    left: u64,
}

impl WireState {
    pub(super) fn over(self, stream: Box<dyn Stream>) -> Wire {
        let WireState { sequence, left } = self;
        Wire { stream, input: BytesMut::new(), sequence, left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets with lengths around that of a full frame arrive whole.
    #[tokio::test]
    async fn long_packets_are_sent_in_frames() {
        for length in [0, 1, FRAME_BYTES_MAX - 1, FRAME_BYTES_MAX, FRAME_BYTES_MAX + 1] {
            let (near, far) = tokio::io::duplex(100_000);
            let packet = vec![7; length];
            let mut sender = Wire::new(Box::new(near), u64::MAX);
            let mut receiver = Wire::new(Box::new(far), u64::MAX);
            let (sent, received) = tokio::join!(sender.command(&packet), receiver.receive());
            sent.unwrap();
            assert_eq!(received.unwrap().len(), length);
            assert_eq!(sender.sequence, receiver.sequence);
        }
    }

    #[tokio::test]
    async fn what_is_announced_is_refused_before_it_arrives() {
        for (bytes, why) in [
            (&[10, 0, 0, 0][..], "TooMuch"),
            (&[1, 0, 0, 1, 9], "Malformed(\"a packet out of order\")"),
            (&[5, 0, 0, 0, 1], "Lost(Kind(UnexpectedEof))"),
            (&[5, 0], "Lost(Kind(UnexpectedEof))"),
        ] {
            let (near, mut far) = tokio::io::duplex(100);
            far.write_all(bytes).await.unwrap();
            drop(far);
            let received = Wire::new(Box::new(near), 12).receive().await;
            assert_eq!(format!("{:?}", received.unwrap_err()), why);
        }
    }
}
