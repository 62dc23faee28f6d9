//! A reply to an HTTP/2 client, sent as fast as its source and the client allow.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use fault::{Fault, Kind};
use http2::Code;
use kit::clock::{self, Instant};
use kit::{Alarm, scratch};
use message::{Body, Fill, Reply, ReplyHead, Trailers};
use pipeline::Account;

use super::stream::Stream;
use crate::date;
use crate::stream_lifetime::StreamLifetime;
use crate::write_progress::WriteProgress;

/// Sends a reply to its end. If the body fails or the client does not take it, the stream is reset.
pub(super) async fn send(
    stream: &Stream,
    mut reply: Reply,
    account: &mut Account,
    is_head: bool,
    timeout: Duration,
    stay: Option<Rc<StreamLifetime>>,
) {
    // HTTP/2 has no 101, and the client did not ask for one.
    let status = if reply.head.status < 200 { 502 } else { reply.head.status };
    if status == 204 {
        reply.head.headers.remove("content-length");
    }
    let bodiless = is_head || matches!(status, 204 | 304);
    let announced = reply.head.headers.contains("content-length");
    let length = reply.body.remaining().filter(|n| !announced && (!bodiless || *n > 0));
    // A gRPC reply without a body has no `content-length`: servers send none, and some clients reject it.
    let is_call = account.ex.grpc.is_some();
    let length = length.filter(|n| status != 204 && !(is_call && *n == 0));
    let mut body = if bodiless { Body::Empty } else { reply.body };
    let is_end = body.is_empty();
    send_head(stream, status, &reply.head, length, is_end);
    if is_end {
        return;
    }
    if let Body::Whole(bytes, _) = &mut body {
        // Usually the windows have room for all of it.
        let sent = stream.with(|session, number| session.send_data(number, bytes, true));
        account.reply_bytes = sent as u64;
        drop(bytes.split_to(sent.min(bytes.len())));
        if bytes.is_empty() {
            return;
        }
    }
    let mut sending = BodySender::new(body, timeout, stay);
    let sent = poll_fn(|cx| sending.poll(cx, stream, account)).await;
    account.reply_bytes += sending.sent;
    if let Err((fault, code)) = sent {
        account.note_late_fault(fault);
        stream.reset(code);
    }
}

pub(super) fn send_head(
    stream: &Stream,
    status: u16,
    head: &ReplyHead,
    length: Option<u64>,
    is_end: bool,
) {
    let mut digits = itoa::Buffer::new();
    let length = length.map(|n| (&b"content-length"[..], digits.format(n).as_bytes()));
    date::with(|date| {
        let has_date = head.headers.contains("date");
        let date = (!has_date).then_some((&b"date"[..], date.as_bytes()));
        let lines = head.headers.iter().chain(length).chain(date);
        stream.with(|session, number| session.send_head(number, status, lines, is_end));
    });
}

struct BodySender {
    body: Body,
    /// The piece from the body that the client has not taken yet.
    piece: Bytes,
    ended: bool,
    trailers: Trailers,
    sent: u64,
    timeout: Duration,
    /// The deadline by which the client has to take more data.
    alarm: Alarm,
    write_progress: WriteProgress,
    /// The start of the current wait, and true if it is for the client, not for the source.
    waiting: Option<(Instant, bool)>,
    /// The lifetime of an event stream or of a gRPC call.
    stay: Option<Rc<StreamLifetime>>,
}

type SendError = (Fault, Code);

impl BodySender {
    fn new(body: Body, timeout: Duration, stay: Option<Rc<StreamLifetime>>) -> BodySender {
        let (body, piece, ended) = match body {
            Body::Whole(bytes, _) => (Body::Empty, bytes, true),
            body @ (Body::Empty | Body::Stream(_)) => (body, Bytes::new(), false),
        };
        let (trailers, alarm) = (Trailers::new(), Alarm::default());
        let (sent, waiting, write_progress) = (0, None, WriteProgress::default());
        BodySender {
            body,
            piece,
            ended,
            trailers,
            sent,
            timeout,
            alarm,
            write_progress,
            waiting,
            stay,
        }
    }

    /// Sends more, and adds the waiting time to the side that it waits for.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        stream: &Stream,
        account: &mut Account,
    ) -> Poll<Result<(), SendError>> {
        if let Some((since, for_client)) = self.waiting.take() {
            let waited = clock::now().duration_since(since);
            if for_client {
                account.ex.totals.client_wait.add(waited)
            } else {
                account.ex.totals.upstream_wait.add(waited)
            }
        }
        let sent = self.poll_pieces(cx, stream);
        match &self.stay {
            Some(stay) if sent.is_pending() && stay.poll_over(cx).is_ready() => {
                Poll::Ready(Err((stay.cut(), Code::INTERNAL_ERROR)))
            }
            Some(_) | None => sent,
        }
    }

    fn poll_pieces(
        &mut self,
        cx: &mut Context<'_>,
        stream: &Stream,
    ) -> Poll<Result<(), SendError>> {
        while !(self.ended && self.piece.is_empty()) {
            // The body is polled only if there is room for some of its data.
            let Some(_room) = ready!(self.poll_room(cx, stream)?) else {
                return Poll::Ready(Err(gone("reset")));
            };
            if !self.piece.is_empty() {
                let mut piece = std::mem::take(&mut self.piece);
                let sent = self.put(stream, &piece);
                self.piece = piece.split_off(sent.min(piece.len()));
                continue;
            }
            let mut made = scratch::lend();
            let Poll::Ready(fill) = self.body.poll_fill(cx, &mut made) else {
                return self.poll_body(cx, stream);
            };
            let fill = fill.map_err(|fault| (fault, Code::INTERNAL_ERROR))?;
            if fill == Fill::End {
                self.ended = true;
                self.trailers = self.body.trailers();
            }
            let sent = self.put(stream, &made);
            self.piece = made.get(sent..).map_or_else(Bytes::new, Bytes::copy_from_slice);
            if fill == Fill::Later && self.piece.is_empty() {
                return self.poll_body(cx, stream);
            }
        }
        self.finish(stream);
        Poll::Ready(Ok(()))
    }

    /// Waits for more of the body, or for the client to leave.
    fn poll_body(&mut self, cx: &mut Context<'_>, stream: &Stream) -> Poll<Result<(), SendError>> {
        self.waiting = Some((clock::now(), false));
        stream.poll_gone(cx).map(|()| Err(gone("reset")))
    }

    /// Sends as much as there is room for.
    fn put(&mut self, stream: &Stream, bytes: &[u8]) -> usize {
        if bytes.is_empty() {
            return 0;
        }
        let is_last = self.ended && self.trailers.is_empty();
        let sent = stream.with(|session, number| session.send_data(number, bytes, is_last));
        self.sent += sent as u64;
        sent
    }

    /// Ready when there is room, or with `None` when the stream is gone. The deadline moves with every piece that the client takes.
    fn poll_room(
        &mut self,
        cx: &mut Context<'_>,
        stream: &Stream,
    ) -> Poll<Result<Option<usize>, SendError>> {
        let room = stream.shared.session().poll_room(cx, stream.number);
        if let Poll::Ready(room) = room {
            self.alarm.clear();
            return Poll::Ready(Ok(room));
        }
        let now = clock::now();
        self.waiting = Some((now, true));
        if !self.alarm.is_set() {
            self.write_progress = WriteProgress::default();
            self.alarm.set(now, WriteProgress::first_look(self.timeout));
        }
        while self.alarm.poll(cx).is_ready() {
            if !self.goes_on(stream) {
                return Poll::Ready(Err(gone("the client does not read its reply")));
            }
            self.alarm.set(clock::now(), self.timeout);
        }
        Poll::Pending
    }

    /// True if the wait may continue, because the client acknowledges written bytes. Unless this is the first check, that counts only while
    /// the connection has too much unsent data. Otherwise the stream waits for its window, and the acknowledged bytes are those of other
    /// streams.
    fn goes_on(&mut self, stream: &Stream) -> bool {
        let is_first = self.write_progress.is_new();
        let takes = self.write_progress.has_progressed(&stream.shared.wire());
        takes && (is_first || stream.shared.session().is_full())
    }

    /// Ends the stream, unless the last piece has ended it.
    fn finish(&mut self, stream: &Stream) {
        if self.trailers.is_empty() {
            return stream.with(|session, number| {
                if session.is_open(number) {
                    session.send_data(number, &[], true);
                }
            });
        }
        message::with_lines(|lines| {
            // The upstream's trailers were checked as they were read.
            if http1::parse_lines(&self.trailers, &http1::Limits::default(), lines).is_err() {
                return stream.reset(Code::INTERNAL_ERROR);
            }
            let trailers = &self.trailers;
            let pairs = lines.iter().map(|l| (l.name.of(trailers), l.value.of(trailers)));
            stream.with(|session, number| session.send_trailers(number, pairs));
        });
    }
}

fn gone(why: &str) -> SendError {
    let what = format!("writing the reply to the client: {why}");
    (Fault::new(Kind::ClientGone, what), Code::CANCEL)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::task::Waker;

    use http2::{Block, Config, RequestLine, Session};
    use kit::Wire;
    use message::Source;

    use super::super::stream::SharedConnection;
    use super::*;

    /// A stream that was opened by a client.
    fn stream() -> Stream {
        let config = || Config { streams_max: 1, head_bytes_max: 1 << 10 };
        let mut client = Session::client(config());
        let request = RequestLine { method: b"GET", is_https: true, target: b"/", authority: b"a" };
        let number = client.open_stream(&request, [].into_iter(), true).unwrap();
        let (mut server, mut block) = (Session::new(config()), Block::default());
        let mut rest = client.unsent();
        while let Some(read) = server.read(rest, &mut block).unwrap() {
            rest = &rest[read.len..];
        }
        let wire = Wire::Wrapped(Box::new(tokio::io::empty()));
        Stream::new(SharedConnection::new(server, wire), number)
    }

    /// Returns an event at each call, and reports each time that no more bytes follow now.
    struct Events(Rc<Cell<usize>>);

    impl Source for Events {
        fn poll_fill(
            &mut self,
            _: &mut Context<'_>,
            out: &mut Vec<u8>,
        ) -> Poll<Result<Fill, Fault>> {
            self.0.set(self.0.get() + 1);
            out.extend_from_slice(b"data: x\n\n");
            Poll::Ready(Ok(Fill::Later))
        }

        fn remaining(&self) -> Option<u64> {
            None
        }
    }

    #[test]
    fn a_body_without_more_bytes_now_is_not_polled_again_until_it_wakes() {
        let (stream, asked) = (stream(), Rc::<Cell<usize>>::default());
        let body = Body::Stream(Box::new(Events(asked.clone())));
        let mut sender = BodySender::new(body, Duration::from_secs(1), None);
        let mut cx = Context::from_waker(Waker::noop());
        for times in 1..=3 {
            assert!(sender.poll_pieces(&mut cx, &stream).is_pending());
            assert_eq!((asked.get(), sender.sent), (times, times as u64 * 9));
            assert_eq!(sender.waiting.map(|(_, for_client)| for_client), Some(false));
        }
    }
}
