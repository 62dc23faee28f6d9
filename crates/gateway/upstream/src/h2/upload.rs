//! A request's body, sent as fast as its source produces it and the target accepts it.

use std::task::{Context, Poll};

use bytes::Bytes;
use fault::Fault;
use kit::scratch;
use message::{Body, Fill, Trailers};

use super::shared::Stream;

/// The part of a body that is still to be sent.
pub(crate) struct Upload {
    body: Body,
    /// The piece from the body that the target has not taken yet.
    piece: Bytes,
    ended: bool,
    trailers: Trailers,
    /// True while the body must not be read.
    held: bool,
    /// True if a part of the body was read.
    pulled: bool,
    is_done: bool,
    /// After a pending poll: true if the source is slow, not the target.
    is_starved: bool,
    sent_bytes: u64,
}

impl Upload {
    pub(super) fn new(body: Body, held: bool) -> Upload {
        let is_done = body.is_empty();
        let (body, piece, ended) = match body {
            Body::Whole(bytes, _) => (Body::Empty, bytes, true),
            body @ (Body::Empty | Body::Stream(_)) => (body, Bytes::new(), is_done),
        };
        let (trailers, pulled, is_starved) = (Trailers::new(), false, false);
        Upload { body, piece, ended, trailers, held, pulled, is_done, is_starved, sent_bytes: 0 }
    }

    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    pub(super) fn release(&mut self) {
        self.held = false;
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    pub(super) fn is_starved(&self) -> bool {
        self.is_starved
    }

    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// The body, if it is a stream and none of it was read.
    pub(super) fn into_body(self) -> Option<Body> {
        (!self.pulled && matches!(self.body, Body::Stream(_))).then_some(self.body)
    }

    /// Sends as much as possible. Ready when everything is sent, or when the target accepts no more. A fault is always one of the body's
    /// source.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        stream: &Stream,
    ) -> Poll<Result<(), Fault>> {
        self.is_starved = false;
        if self.is_done {
            return Poll::Ready(Ok(()));
        }
        if self.held {
            return Poll::Pending;
        }
        while !(self.ended && self.piece.is_empty()) {
            // The body is read only if there is room for some of its data.
            match stream.shared().session().poll_room(cx, stream.number) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => {
                    self.is_done = true;
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Some(_room)) => {}
            }
            if !self.piece.is_empty() {
                let mut piece = std::mem::take(&mut self.piece);
                let sent = self.put(stream, &piece);
                self.piece = piece.split_off(sent.min(piece.len()));
                continue;
            }
            let mut made = scratch::lend();
            let Poll::Ready(fill) = self.body.poll_fill(cx, &mut made) else {
                self.is_starved = true;
                return Poll::Pending;
            };
            self.pulled = true;
            if fill? == Fill::End {
                self.ended = true;
                self.trailers = self.body.trailers();
            }
            let sent = self.put(stream, &made);
            self.piece = made.get(sent..).map_or_else(Bytes::new, Bytes::copy_from_slice);
        }
        self.finish(stream);
        Poll::Ready(Ok(()))
    }

    /// Sends as much as there is room for.
    fn put(&mut self, stream: &Stream, bytes: &[u8]) -> usize {
        if bytes.is_empty() {
            return 0;
        }
        let is_last = self.ended && self.trailers.is_empty();
        let sent = stream.with(|session, number| session.send_data(number, bytes, is_last));
        self.sent_bytes += sent as u64;
        sent
    }

    /// Ends our side of the stream, unless the last piece did.
    fn finish(&mut self, stream: &Stream) {
        self.is_done = true;
        let trailers = std::mem::take(&mut self.trailers);
        message::with_lines(|lines| {
            // The trailers were checked when they were read. Invalid trailers are not sent.
            if http1::parse_lines(&trailers, &http1::Limits::default(), lines).is_err() {
                lines.clear();
            }
            stream.with(|session, number| {
                if !lines.is_empty() {
                    let pairs = lines.iter().map(|l| (l.name.of(&trailers), l.value.of(&trailers)));
                    session.send_trailers(number, pairs);
                } else if session.is_sending(number) {
                    session.send_data(number, &[], true);
                }
            });
        });
    }
}
