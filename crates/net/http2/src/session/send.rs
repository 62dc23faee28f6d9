//! Sends on streams, and reads their bodies.

use std::task::{Context, Poll};

use super::{BodyPiece, Session, Side, empty};
use crate::error::Code;
use crate::frame::{self, flag, kind};
use crate::hpack;

impl Session {
    /// Records that the client waits for a 100 before it sends its body. The 100 is sent when the body is first read, unless the body or
    /// the reply has begun.
    pub fn defer_continue(&mut self, number: u32) {
        if let Some(stream) = self.find(number) {
            stream.owes_continue = true;
        }
    }

    /// Returns true if the client still waits for the 100 of [`Session::defer_continue`].
    pub fn owes_continue(&mut self, number: u32) -> bool {
        self.find(number).is_some_and(|stream| {
            stream.owes_continue && stream.is_receiving && stream.body.is_empty()
        })
    }

    /// Appends the received bytes of the body. If there are none, the task is woken when that changes.
    pub fn poll_body(&mut self, cx: &mut Context<'_>, number: u32, out: &mut Vec<u8>) -> BodyPiece {
        let begun = out.len();
        let Some(stream) = self.streams.get_mut(number) else {
            self.rest_of(number, out);
            return if out.len() > begun { BodyPiece::More } else { BodyPiece::Gone };
        };
        if stream.body.is_empty() && stream.is_receiving {
            stream.wants_body = true;
            stream.wait(cx.waker());
            if stream.owes_continue {
                self.send_head(number, 100, std::iter::empty(), false);
            }
            return BodyPiece::None;
        }
        stream.owes_continue = false;
        let len = stream.body.len();
        out.extend_from_slice(&stream.body);
        empty(&mut stream.body);
        let piece = if stream.is_receiving {
            BodyPiece::More
        } else {
            BodyPiece::End(std::mem::take(&mut stream.trailers))
        };
        self.consumed(number, u32::try_from(len).unwrap_or(u32::MAX));
        piece
    }

    /// Returns the whole body, if it has already arrived and has no trailers.
    pub fn whole_body(&mut self, number: u32) -> Option<Vec<u8>> {
        let stream = self.find(number).filter(|s| !s.is_receiving && s.trailers.is_empty())?;
        let body = std::mem::take(&mut stream.body);
        if self.side == Side::Server {
            self.give_back(u32::try_from(body.len()).unwrap_or(u32::MAX));
        }
        Some(body)
    }

    /// Returns the number of bytes of the body that remain to be read, if known.
    pub fn remaining(&self, number: u32) -> Option<u64> {
        let stream = self.streams.get(number)?;
        let here = stream.body.len() as u64;
        if stream.is_receiving {
            stream.announced.map(|left| left + here)
        } else {
            stream.trailers.is_empty().then_some(here)
        }
    }

    /// Ready with the number of bytes that may be sent now, or with `None` if the stream has ended.
    pub fn poll_room(&mut self, cx: &mut Context<'_>, number: u32) -> Poll<Option<usize>> {
        let (room, space) = (self.room, self.space());
        let Some(stream) = self.find(number).filter(|stream| stream.is_sending) else {
            return Poll::Ready(None);
        };
        match usize::try_from(stream.room.min(room)).map(|room| room.min(space)) {
            Ok(room) if room > 0 => Poll::Ready(Some(room)),
            _ => {
                stream.wants_room = true;
                stream.wait(cx.waker());
                Poll::Pending
            }
        }
    }

    /// Writes the head of a final or interim reply. Connection headers of HTTP/1 are omitted (RFC 9113, 8.2.2).
    pub fn send_head<'h>(
        &mut self,
        number: u32,
        status: u16,
        lines: impl Iterator<Item = (&'h [u8], &'h [u8])>,
        is_end: bool,
    ) {
        let Some(stream) = self.find(number) else { return };
        stream.owes_continue &= (101..=199).contains(&status);
        let begun = self.begin_lines();
        hpack::status(&mut self.out, status);
        for (name, value) in lines.filter(|(name, _)| !is_of_connection(name)) {
            hpack::write(&mut self.out, name, value);
        }
        self.end_lines(begun, number, is_end);
    }

    /// Writes as many of the bytes as the peer's windows and the output allow, and returns their number. If `is_last` is set and all bytes
    /// were written, ends the stream.
    pub fn send_data(&mut self, number: u32, mut bytes: &[u8], is_last: bool) -> usize {
        let (whole, room, space) = (bytes.len(), self.room, self.space());
        let stream = self.streams.get_mut(number).filter(|stream| stream.is_sending);
        let Some(stream) = stream else { return 0 };
        let room = usize::try_from(stream.room.min(room)).unwrap_or(0).min(space);
        bytes = bytes.get(..room).unwrap_or(bytes);
        let is_end = is_last && bytes.len() == whole;
        let sent = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        stream.room -= sent;
        self.room -= sent;
        self.frames_without_progress = 0;
        self.out.reserve(bytes.len() + 2 * frame::HEAD_BYTES);
        let sent = bytes.len();
        while let Some((now, rest)) = bytes.split_at_checked(frame::PAYLOAD_BYTES_MAX) {
            let is_end = is_end && rest.is_empty();
            self.frame_of_data(number, now, is_end);
            bytes = rest;
        }
        if !bytes.is_empty() || (is_end && sent == 0) {
            self.frame_of_data(number, bytes, is_end);
        }
        if is_end {
            self.finish(number);
        }
        sent
    }

    fn frame_of_data(&mut self, number: u32, bytes: &[u8], is_end: bool) {
        let flags = if is_end { flag::END_STREAM } else { 0 };
        frame::begin(&mut self.out, bytes.len(), kind::DATA, flags, number);
        self.out.extend_from_slice(bytes);
    }

    /// Ends a message with trailers.
    pub fn send_trailers<'h>(
        &mut self,
        number: u32,
        lines: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    ) {
        if !self.streams.get(number).is_some_and(|stream| stream.is_sending) {
            return;
        }
        let begun = self.begin_lines();
        for (name, value) in lines.filter(|(name, _)| !is_of_connection(name)) {
            hpack::write(&mut self.out, name, value);
        }
        self.end_lines(begun, number, true);
    }

    /// Leaves room for the head of a frame of header lines. Returns its offset, for [`Session::end_lines`].
    pub(super) fn begin_lines(&mut self) -> usize {
        let begun = self.out.len();
        // This is enough for most heads. Lines are appended one by one, and each growth of the output would copy it.
        self.out.reserve(1024);
        self.out.extend_from_slice(&[0; frame::HEAD_BYTES]);
        if !std::mem::replace(&mut self.table_size_sent, true) {
            hpack::forget(&mut self.out);
        }
        begun
    }

    /// Ends the header lines written since [`Session::begin_lines`]: fills in the head of their frame.
    pub(super) fn end_lines(&mut self, begun: usize, number: u32, is_end: bool) {
        let flags = flag::END_HEADERS | if is_end { flag::END_STREAM } else { 0 };
        let len = self.out.len().saturating_sub(begun + frame::HEAD_BYTES);
        match self.out.get_mut(begun..).and_then(<[u8]>::first_chunk_mut) {
            Some(head) if len <= frame::PAYLOAD_BYTES_MAX => {
                *head = frame::head(len, kind::HEADERS, flags, number);
            }
            _ => self.cut_lines(begun, number, is_end),
        }
        if is_end {
            self.finish(number);
        }
    }

    /// Splits lines that are too long for one frame.
    fn cut_lines(&mut self, begun: usize, number: u32, is_end: bool) {
        let lines = self.out.split_off(begun.min(self.out.len()));
        let lines = lines.get(frame::HEAD_BYTES..).unwrap_or_default();
        let pieces = lines.len().div_ceil(frame::PAYLOAD_BYTES_MAX);
        for (n, piece) in lines.chunks(frame::PAYLOAD_BYTES_MAX).enumerate() {
            let kind = if n == 0 { kind::HEADERS } else { kind::CONTINUATION };
            let last = if n + 1 == pieces { flag::END_HEADERS } else { 0 };
            let end = if is_end && n == 0 { flag::END_STREAM } else { 0 };
            frame::begin(&mut self.out, piece.len(), kind, last | end, number);
            self.out.extend_from_slice(piece);
        }
    }

    /// Finishes this side of a stream. A client that still sends is told to stop (8.1).
    fn finish(&mut self, number: u32) {
        if self.side == Side::Client {
            return self.finish_request(number);
        }
        self.resets = self.resets.saturating_sub(1);
        let Some(stream) = self.streams.remove(number) else { return };
        self.discard(&stream);
        if stream.is_receiving {
            frame::reset(&mut self.out, number, Code::NO_ERROR);
            self.streams.note_reset(number);
        }
    }

    /// Ends a stream at once, and wakes its task.
    pub fn reset(&mut self, number: u32, code: Code) {
        frame::reset(&mut self.out, number, code);
        self.streams.note_reset(number);
        if let Some(stream) = self.streams.remove(number) {
            self.discard(&stream);
            stream.wake();
        }
    }
}

pub(super) fn is_of_connection(name: &[u8]) -> bool {
    let is = |of: &[u8]| name.eq_ignore_ascii_case(of);
    match name.len() {
        7 => is(b"upgrade"),
        10 => is(b"connection") || is(b"keep-alive"),
        16 => is(b"proxy-connection"),
        17 => is(b"transfer-encoding"),
        _ => false,
    }
}
