//! The client side of a session: opens streams, and receives the replies on them.
//!
//! A stream is kept until its caller closes it, so that a complete reply can be read at any pace. If the stream ends earlier, the reason
//! ([`StreamFailure`]) is kept until the caller closes it.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use super::reply::PendingReply;
use super::stream::Stream;
use super::{Config, PrefaceState, Session, ShutdownState, Side};
use crate::block::{Block, Head};
use crate::error::Code;
use crate::frame;
use crate::hpack;

/// Receive windows. The window of a stream bounds the memory of a reader that has stopped. The window of the connection is returned as soon
/// as bytes arrive, so that a stream that is not read does not block the others.
pub(super) const STREAM_WINDOW: u32 = 64 * 1024;
pub(super) const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// The overhead that is added to the size of each line.
const LINE_BYTES: usize = 32;

/// Once a stream of this number or above has been opened, no more are opened. The connection is thus replaced long before the numbers run
/// out (5.1.1).
const NUMBER_MAX: u32 = 0x7fff_0000;

/// The first line of a request, in parts.
#[derive(Debug, Clone, Copy)]
pub struct RequestLine<'a> {
    pub method: &'a [u8],
    pub is_https: bool,
    pub target: &'a [u8],
    pub authority: &'a [u8],
}

/// The reason why a stream ended before its reply did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamFailure {
    /// The server has not processed the request, so it may be sent again.
    Refused,
    /// The server has reset the stream.
    Reset(Code),
    /// The server's frames on the stream violated the protocol.
    Malformed(&'static str),
    /// The connection has ended.
    Lost,
}

/// A stream that has ended, with the unread part of its reply.
pub(super) struct EndedStream {
    number: u32,
    why: StreamFailure,
    heads: VecDeque<(Head, Block)>,
    body: Vec<u8>,
}

impl Session {
    /// Creates the client side of a connection. The first output is the preface and the settings of this side.
    pub fn client(config: Config) -> Session {
        let mut session = Session::with_side(config, Side::Client, CONNECTION_WINDOW);
        session.preface_state = PrefaceState::Preface;
        session.out.extend_from_slice(super::PREFACE);
        session.write_settings();
        session
    }

    /// Returns the number of streams that may be open, including those that wait to be closed.
    pub fn streams_max(&self) -> usize {
        if self.is_leaving() || self.last_opened >= NUMBER_MAX {
            0
        } else {
            let most = self.config.streams_max.min(self.streams_allowed);
            usize::try_from(most).unwrap_or(usize::MAX)
        }
    }

    /// Returns true if the server's settings allow no streams.
    pub fn is_shut(&self) -> bool {
        self.streams_allowed == 0
    }

    /// Opens a stream with the head of a request. Returns `None` if no more streams are allowed. Connection headers of HTTP/1 and `Host`
    /// are omitted.
    pub fn open_stream<'h>(
        &mut self,
        asking: &RequestLine<'_>,
        lines: impl Iterator<Item = (&'h [u8], &'h [u8])>,
        is_end: bool,
    ) -> Option<u32> {
        if self.streams.len() >= self.streams_max() {
            return None;
        }
        let number = self.last_opened + if self.last_opened == 0 { 1 } else { 2 };
        self.last_opened = number;
        let mut stream = Stream::new(number, true, None, self.room_first, STREAM_WINDOW);
        stream.reply = Some(Box::new(PendingReply {
            is_bodiless: asking.method == b"HEAD",
            heads: VecDeque::new(),
            interim: 0,
            has_begun: false,
            bytes_left: self.config.head_bytes_max,
        }));
        self.streams.push(stream);
        self.frames_without_progress = 0;
        let begun = self.begin_lines();
        hpack::request(&mut self.out, asking);
        let others = lines.filter(|(name, _)| !super::send::is_of_connection(name));
        for (name, value) in others.filter(|(name, _)| !name.eq_ignore_ascii_case(b"host")) {
            hpack::write(&mut self.out, name, value);
        }
        self.end_lines(begun, number, is_end);
        Some(number)
    }

    /// Returns the next head of a stream's reply, interim ones first. If none has arrived, the task is woken when that changes.
    pub fn poll_reply(
        &mut self,
        cx: &mut Context<'_>,
        number: u32,
    ) -> Poll<Result<(Head, Block), StreamFailure>> {
        let Some(stream) = self.streams.get_mut(number) else {
            let lost = self.lost.iter_mut().find(|lost| lost.number == number);
            let head = lost.and_then(|lost| lost.heads.pop_front());
            return Poll::Ready(head.ok_or_else(|| self.failure(number)));
        };
        match stream.reply.as_mut().and_then(|reply| reply.heads.pop_front()) {
            Some(head) => Poll::Ready(Ok(head)),
            None => {
                stream.wants_body = true;
                stream.wait(cx.waker());
                Poll::Pending
            }
        }
    }

    /// Returns the reason why a stream has ended. The caller must not have closed it.
    pub fn failure(&self, number: u32) -> StreamFailure {
        let known = self.lost.iter().find(|lost| lost.number == number);
        known.map_or(StreamFailure::Lost, |lost| lost.why)
    }

    /// Appends the received bytes of a stream that has ended.
    pub(super) fn rest_of(&mut self, number: u32, out: &mut Vec<u8>) {
        if let Some(lost) = self.lost.iter_mut().find(|lost| lost.number == number) {
            out.append(&mut lost.body);
        }
    }

    /// Returns true if the server still accepts the stream's request.
    pub fn is_sending(&self, number: u32) -> bool {
        self.streams.get(number).is_some_and(|stream| stream.is_sending)
    }

    /// Closes a stream. Unless both sides have finished, it is reset.
    pub fn close(&mut self, number: u32) {
        if let Some(stream) = self.streams.get(number) {
            if stream.is_complete() {
                drop(self.streams.remove(number))
            } else {
                self.reset(number, Code::CANCEL)
            }
        }
        self.lost.retain(|lost| lost.number != number);
    }

    /// Records that this side of a stream is finished.
    pub(super) fn finish_request(&mut self, number: u32) {
        if let Some(stream) = self.streams.get_mut(number) {
            stream.is_sending = false;
        }
    }

    /// Ends a stream and keeps the reason.
    pub(super) fn lose(&mut self, number: u32, why: StreamFailure) {
        if let Some(mut stream) = self.streams.remove(number) {
            // Harmless: a stream without a pending reply has no heads.
            let heads = stream.reply.take().map(|reply| reply.heads).unwrap_or_default();
            let body = std::mem::take(&mut stream.body);
            self.lost.push(EndedStream { number, why, heads, body });
            stream.wake();
        }
    }

    /// Ends all streams. Complete replies are kept until they are read.
    pub(super) fn lose_all(&mut self) {
        self.leaving = ShutdownState::Refusing;
        for number in self.streams.numbers_above(0) {
            if self.streams.get(number).is_some_and(|stream| stream.is_receiving) {
                self.lose(number, StreamFailure::Lost)
            } else {
                self.reset_by_server(number, Code::NO_ERROR)
            }
        }
    }

    /// Returns the bound on the next head of a stream, or `None` if no head is expected but trailers.
    pub(super) fn expects_head(&self, number: u32) -> Option<usize> {
        let reply = self.streams.get(number)?.reply.as_ref()?;
        (!reply.has_begun).then_some(reply.bytes_left)
    }

    /// Handles the head of a reply.
    pub(super) fn reply(
        &mut self,
        number: u32,
        is_end: bool,
        head: Result<Head, &'static str>,
        block: &mut Block,
    ) {
        let Some(stream) = self.streams.get_mut(number) else { return };
        let Some(reply) = &mut stream.reply else { return };
        let checked = head.and_then(|head| reply.check(&head, is_end).map(|()| head));
        let head = match checked {
            Ok(head) => head,
            Err(why) => return self.refuse_reply(number, Code::PROTOCOL_ERROR, why),
        };
        let size = block.bytes.len() + LINE_BYTES * block.lines.len();
        reply.bytes_left = reply.bytes_left.saturating_sub(size);
        reply.heads.push_back((head, std::mem::take(block)));
        if head.status < 200 {
            reply.interim += 1
        } else {
            reply.has_begun = true;
            stream.announced = reply.length(&head);
            stream.is_receiving = !is_end;
            self.frames_without_progress = 0;
        }
        stream.wake_reader();
    }

    /// Resets a stream because of an error of the server.
    pub(super) fn refuse_reply(&mut self, number: u32, code: Code, why: &'static str) {
        frame::reset(&mut self.out, number, code);
        self.streams.note_reset(number);
        self.lose(number, StreamFailure::Malformed(why));
    }

    /// Handles a reset by the server. A complete reply is kept: the reset then only means that the server does not need the rest of the
    /// request (8.1).
    pub(super) fn reset_by_server(&mut self, number: u32, code: Code) {
        let Some(stream) = self.streams.get_mut(number) else { return };
        if !stream.is_receiving {
            stream.wake();
            self.finish_request(number);
        } else if code == Code::REFUSED_STREAM {
            self.lose(number, StreamFailure::Refused);
        } else {
            self.lose(number, StreamFailure::Reset(code));
        }
    }

    /// Handles a GOAWAY: the server accepts no more streams, and has not processed those above `last` (6.8).
    pub(super) fn goaway_by_server(&mut self, last: u32) {
        self.leaving = ShutdownState::Refusing;
        for number in self.streams.numbers_above(last) {
            self.lose(number, StreamFailure::Refused);
        }
    }

    /// Announces the end of the connection. No streams may be open.
    pub fn send_goaway(&mut self) {
        if self.leaving == ShutdownState::No {
            self.leaving = ShutdownState::Refusing;
            frame::goaway(&mut self.out, 0, Code::NO_ERROR, "");
        }
    }

    /// Returns the settings of a client that does not accept server push.
    pub(super) fn client_settings(&self) -> [(u16, u32); 3] {
        const ENABLE_PUSH: u16 = 0x2;
        const INITIAL_WINDOW_SIZE: u16 = 0x4;
        const MAX_HEADER_LIST_SIZE: u16 = 0x6;
        let head = u32::try_from(self.config.head_bytes_max).unwrap_or(u32::MAX);
        [(ENABLE_PUSH, 0), (INITIAL_WINDOW_SIZE, STREAM_WINDOW), (MAX_HEADER_LIST_SIZE, head)]
    }
}

impl Stream {
    /// Returns true if both sides have finished.
    pub(super) fn is_complete(&self) -> bool {
        !self.is_sending && !self.is_receiving
    }
}
