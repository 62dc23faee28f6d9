//! A stream that became a tunnel (RFC 9113, 8.5): bytes both ways, and each side ends by itself.

use std::task::{Context, Poll};

use super::{Session, empty};
use crate::error::Code;
use crate::frame::{self, flag, kind};

impl Session {
    /// Takes as many bytes as there are and fit. Ready with 0 bytes when the client has ended its side, and with none when the stream is
    /// gone. The client's window opens by what was taken.
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
        // Harmless: there is room for that many.
        for (to, from) in into.iter_mut().zip(stream.body.drain(..len)) {
            *to = from;
        }
        if stream.body.is_empty() {
            empty(&mut stream.body);
        }
        self.consumed(number, u32::try_from(len).unwrap_or(u32::MAX));
        Poll::Ready(Some(len))
    }

    /// Ends our side; the client may go on.
    pub fn end_tunnel_side(&mut self, number: u32) {
        let Some(stream) = self.streams.get_mut(number).filter(|stream| stream.is_sending) else {
            return;
        };
        stream.is_sending = false;
        frame::begin(&mut self.out, 0, kind::DATA, flag::END_STREAM, number);
    }

    /// Ends what is left of a tunnel. Sides that have both ended leave nothing; anything else is a reset, as a connection in between
    /// would be (RFC 8441, 5).
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
