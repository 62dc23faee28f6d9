//! One request on one stream: the sending of the request, and the head of the reply.

use std::future::poll_fn;
use std::task::{Context, Poll};

use fault::{Fault, Kind};
use http2::{Block, RequestLine, StreamFailure};
use kit::clock::{self, Instant};
use message::{Body, Headers, Protocol, ReplyHead, RequestHead};
use policy::Interim;

use super::shared::{Stream, StreamPermit};
use super::upload::Upload;
use crate::call::{CallSettings, Failure, LEAVE_WAIT, ReplyTimeouts, Starvation};

/// A request being sent, until its reply begins.
pub(crate) struct Call<'a> {
    pub(super) stream: Stream,
    upload: Upload,
    starvation: Starvation<'a>,
    wait: ReplyTimeouts<'a>,
    /// True while the target does not accept data that is ready to be sent.
    is_stuck: bool,
    url: &'a str,
    /// Passes interim replies on to the client.
    interim: Option<&'a Interim>,
}

/// A reply that has begun.
pub(crate) struct StartedReply {
    pub(super) stream: Stream,
    pub(super) upload: Upload,
    pub(crate) head: ReplyHead,
}

/// The maximum number of header lines of a reply, the same as for HTTP/1.
const LINES_MAX: usize = 512;

impl<'a> Call<'a> {
    /// Opens a stream. Fails if the connection accepts no more streams.
    pub(crate) fn new(
        permit: StreamPermit,
        head: &RequestHead,
        is_https: bool,
        authority: &[u8],
        body: Body,
        CallSettings { wait, url, interim, client_wait }: CallSettings<'a>,
    ) -> Result<Call<'a>, Failure> {
        let expects_continue = body.expects_continue();
        let opened = {
            let method = head.method();
            let asking = RequestLine { method, is_https, target: head.target(), authority };
            open(&permit, &asking, &head.headers, &body)
        };
        let upload = Upload::new(body, expects_continue);
        let Some(number) = opened else {
            let why = format!("{url}: the target accepts no more streams on this connection");
            let unsent = upload.into_body();
            return Err(Failure { unsent, ..Failure::refused(why) });
        };
        permit.shared.wake_task();
        let stream = Stream::new(permit, number);
        let starvation = Starvation::none(client_wait);
        Ok(Call { stream, upload, starvation, wait, is_stuck: false, url, interim })
    }

    /// Sends the request and waits for the reply to begin, for at most `wait.response` from `began` on.
    pub(crate) async fn begin(mut self, began: Instant) -> Result<StartedReply, Failure> {
        if self.upload.is_held() {
            self.wait.set_within(began, LEAVE_WAIT)
        } else {
            self.wait.set(began)
        }
        match poll_fn(|cx| self.poll_reply(cx)).await {
            Ok(head) => Ok(StartedReply { stream: self.stream, upload: self.upload, head }),
            Err(failure) => Err(Failure { unsent: self.upload.into_body(), ..failure }),
        }
    }

    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Result<ReplyHead, Failure>> {
        loop {
            self.poll_upload(cx)?;
            let held = self.upload.is_held();
            let read = self.poll_head(cx);
            if read.is_ready() {
                return read;
            }
            if held && !self.upload.is_held() {
                continue;
            }
            // A pause of the client does not count here; the reading of its body has a deadline for it.
            if self.wait.poll(cx, self.upload.is_starved()).is_pending() {
                return Poll::Pending;
            }
            if !held || self.wait.is_late() {
                return Poll::Ready(Err(self.late()));
            }
            self.release_body();
        }
    }

    fn late(&self) -> Failure {
        self.stream.shared().suspect();
        self.failure(Kind::UpstreamTimeout, &self.wait.why_late(self.is_stuck))
    }

    /// Begins to send a body that waited for the target's 100, because the 100 has arrived or took too long.
    fn release_body(&mut self) {
        if self.upload.is_held() {
            self.upload.release();
            self.wait.set(clock::now());
        }
    }

    /// Sends more of the request. The time limit for the reply starts anew with every piece, so that the time of a slow client does not
    /// count against the target.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        if self.upload.is_done() {
            return Ok(());
        }
        let before = self.upload.sent_bytes();
        if let Poll::Ready(Err(fault)) = self.upload.poll(cx, &self.stream) {
            return Err(Failure::unsent(fault));
        }
        let is_starved = self.upload.is_starved();
        self.starvation.note(is_starved);
        let is_stuck = !self.upload.is_done() && !self.upload.is_held() && !is_starved;
        let was_stuck = std::mem::replace(&mut self.is_stuck, is_stuck);
        if self.upload.sent_bytes() != before || is_stuck != was_stuck {
            self.wait.set_while(clock::now(), is_stuck);
        }
        Ok(())
    }

    /// Ready with the final head. The heads of interim replies are passed on to the client.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ReplyHead, Failure>> {
        loop {
            let number = self.stream.number;
            let polled = self.stream.shared().session().poll_reply(cx, number);
            let (status, block) = match polled {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(gone)) => return Poll::Ready(Err(self.gone(gone))),
                Poll::Ready(Ok((head, block))) => (head.status, block),
            };
            let lines = block.lines.len();
            if lines > LINES_MAX {
                let why = format!("{lines} header lines");
                return Poll::Ready(Err(self.failure(Kind::UpstreamMalformed, &why)));
            }
            let head = reply_head(status, block);
            match status {
                // A 100 only concerns the connection to the target. The client gets its own when its body is read.
                100 => self.release_body(),
                ..200 => self.interim.into_iter().for_each(|interim| interim.pass(&head)),
                _ => return Poll::Ready(Ok(head)),
            }
        }
    }

    fn gone(&self, gone: StreamFailure) -> Failure {
        match gone {
            StreamFailure::Refused => {
                Failure::refused(format!("{}: the stream was refused", self.url))
            }
            // A reused connection may have ended before the request arrived.
            StreamFailure::Lost => Failure {
                fault: lost(&self.stream, self.url),
                no_bytes_received: self.stream.number > 1,
                unsent: None,
                refused: false,
            },
            StreamFailure::Reset(_) | StreamFailure::Malformed(_) => {
                Failure::unsent(broken(gone, self.url))
            }
        }
    }

    fn failure(&self, kind: Kind, why: &str) -> Failure {
        Failure::unsent(Fault::new(kind, format!("{}: {why}", self.url)))
    }
}

/// The fault of a single stream that ended too early.
pub(super) fn broken(gone: StreamFailure, url: &str) -> Fault {
    let (kind, why) = match gone {
        StreamFailure::Refused => (Kind::UpstreamReset, "the stream was refused".to_owned()),
        StreamFailure::Reset(code) => {
            (Kind::UpstreamReset, format!("the stream was reset (code {})", code.0))
        }
        StreamFailure::Malformed(why) => (Kind::UpstreamMalformed, why.to_owned()),
        StreamFailure::Lost => (Kind::UpstreamReset, "the connection has ended".to_owned()),
    };
    Fault::new(kind, format!("{url}: {why}"))
}

/// The fault of a stream whose connection has ended.
pub(super) fn lost(stream: &Stream, url: &str) -> Fault {
    match stream.lost() {
        Some((kind, why)) => Fault::new(kind, &*why),
        None => broken(StreamFailure::Lost, url),
    }
}

fn open(
    permit: &StreamPermit,
    asking: &RequestLine<'_>,
    headers: &Headers,
    body: &Body,
) -> Option<u32> {
    let length = body.remaining();
    let said = headers.contains("content-length");
    let length = length.filter(|length| said || *length > 0);
    let mut digits = itoa::Buffer::new();
    let length = length.map(|n| (&b"content-length"[..], digits.format(n).as_bytes()));
    let expect = body.expects_continue().then_some((&b"expect"[..], &b"100-continue"[..]));
    let lines = headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(b"content-length"));
    let mut session = permit.shared.session();
    session.open_stream(asking, lines.chain(length).chain(expect), body.is_empty())
}

fn reply_head(status: u16, block: Block) -> ReplyHead {
    let mut head = ReplyHead::new(status);
    head.headers = Headers::of(block.bytes, block.lines);
    head.protocol = Protocol::Http2;
    head
}
