//! A stream that has become a tunnel (RFC 9113, 8.5): bytes in both directions, each of which ends separately.

use std::task::{Context, Poll};

use super::{Session, empty};
use crate::error::Code;
use crate::frame::{self, flag, kind};

impl Session {
    /// Takes as many bytes as are available and fit. Ready with 0 bytes when the client has ended its side, and with `None` when the stream
    /// has been reset. The bytes taken are returned to the client's window.
    pub fn poll_tunnel(
        &mut self,
        cx: &mut Context<'_>,
        number: u32,
        into: &mut [u8],
    ) -> Poll<Option<usize>> {
        let Some(stream) = self.streams.get_mut(number) else { return Poll::Ready(None) };
        if stream.body.is_empty() && stream.is_receiving {
            stream.wants_body = true;
            stream.wait(cx.waker());
            return Poll::Pending;
        }
        let len = stream.body.len().min(into.len());
        // Harmless: `into` has room for `len` bytes.
        for (to, from) in into.iter_mut().zip(stream.body.drain(..len)) {
            *to = from;
        }
        if stream.body.is_empty() {
            empty(&mut stream.body);
        }
        self.consumed(number, u32::try_from(len).unwrap_or(u32::MAX));
        Poll::Ready(Some(len))
    }

    /// Ends this side. The client may continue to send.
    pub fn end_tunnel_side(&mut self, number: u32) {
        let Some(stream) = self.streams.get_mut(number).filter(|stream| stream.is_sending) else {
            return;
        };
        stream.is_sending = false;
        frame::begin(&mut self.out, 0, kind::DATA, flag::END_STREAM, number);
    }

    /// Ends the rest of a tunnel. If both sides have ended, nothing is sent; otherwise, the stream is reset, which corresponds to a
    /// connection reset (RFC 8441, 5).
    pub fn close_tunnel(&mut self, number: u32) {
        let Some(stream) = self.streams.get(number) else { return };
        if stream.is_sending || stream.is_receiving {
            return self.reset(number, Code::CANCEL);
        }
        self.resets = self.resets.saturating_sub(1);
        if let Some(stream) = self.streams.remove(number) {
            self.give_back(u32::try_from(stream.body.len()).unwrap_or(u32::MAX));
        }
    }
}
