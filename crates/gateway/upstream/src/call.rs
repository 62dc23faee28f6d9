//! One request on one connection: the sending of the request, and the head of the reply.

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;
use fault::{Fault, Kind};
use http1::{Decoder, MethodKind, ResponseHead};
use std::time::Duration;

use kit::SharedAlarm;
use kit::clock::{self, Instant};
use kit::scratch::{self, LARGE_BYTES, SCRATCH_BYTES, Scratch};
use message::{Body, CopyError, Outgoing, ReplyHead, RequestHead};
use policy::{Interim, OpenWait, WaitTime};

use crate::connect::Connection;

/// A request being sent, until its reply begins.
pub(crate) struct Call<'a> {
    pub(crate) connection: Connection,
    upload: Outgoing,
    /// Set when the target accepts no more of the request. Its reply may still arrive.
    upload_broken: Option<io::Error>,
    asked: MethodKind,
    upgrade_asked: bool,
    /// The beginning of a reply's head that has arrived in parts.
    partial: Vec<u8>,
    starvation: Starvation<'a>,
    /// True once sending has begun, so that a part of the request may have been sent.
    polled: bool,
    /// True while the target does not accept data that is ready to be sent.
    is_stuck: bool,
    wait: ReplyTimeouts<'a>,
    url: &'a str,
    /// Passes interim replies on to the client.
    interim: Option<&'a Interim>,
    /// The number of interim replies so far.
    interim_count: usize,
}

/// What a call needs besides a connection and its request.
#[derive(Clone, Copy)]
pub(crate) struct CallSettings<'a> {
    pub(crate) wait: ReplyTimeouts<'a>,
    /// The target's URL, for messages.
    pub(crate) url: &'a str,
    /// Passes interim replies on to the client.
    pub(crate) interim: Option<&'a Interim>,
    /// Adds up the times in which the call waits for its client's body.
    pub(crate) client_wait: &'a WaitTime,
}

/// The time limits for the reply's head, and the alarm for them.
#[derive(Clone, Copy)]
pub(crate) struct ReplyTimeouts<'a> {
    pub(crate) alarm: &'a SharedAlarm,
    pub(crate) response: Duration,
    /// The limit while the target does not accept data that is ready to be sent.
    pub(crate) write: Duration,
    /// The deadline of the whole call.
    pub(crate) deadline: Option<Instant>,
}

/// A reply that has begun.
pub(crate) struct StartedReply {
    pub(crate) connection: Connection,
    /// The rest of the request, if the reply came before its end.
    pub(crate) upload: Option<Outgoing>,
    /// True if the target took everything sent so far, so that the connection can be reused.
    pub(crate) intact: bool,
    pub(crate) head: ReplyHead,
    pub(crate) parsed: ResponseHead,
    pub(crate) decoder: Decoder,
    /// The part of the body that came with the head.
    pub(crate) ahead: Bytes,
    /// The bytes after a complete reply, or the first bytes of an upgraded connection.
    pub(crate) rest: Vec<u8>,
}

/// The reason why there is no reply.
pub(crate) struct Failure {
    pub(crate) fault: Fault,
    /// True if the target closed or reset without a byte of a reply: a pooled connection may have been stale.
    pub(crate) no_bytes_received: bool,
    /// The request's body, if no byte of it was pulled.
    pub(crate) unsent: Option<Body>,
    /// True if the target stated that it has not started to process the request.
    pub(crate) refused: bool,
}

/// Limits for a target's head. Servers send larger heads than clients: cookies, policies, links.
const LIMITS: http1::Limits =
    http1::Limits { head_bytes_max: 256 * 1024, target_bytes_max: 0, headers_max: 512 };

/// The maximum number of interim replies before the final one. A target that sends more is faulty.
const INTERIM_MAX: usize = 16;

/// The time to wait for a target's 100. A target without support for `Expect` never sends one (RFC 9110, 10.1.1).
pub(crate) const LEAVE_WAIT: Duration = Duration::from_secs(1);

impl<'a> ReplyTimeouts<'a> {
    /// The same limit for everything.
    pub(crate) fn within(alarm: &'a SharedAlarm, limit: Duration) -> ReplyTimeouts<'a> {
        ReplyTimeouts { alarm, response: limit, write: limit, deadline: None }
    }

    pub(crate) fn set(&self, now: Instant) {
        self.set_within(now, self.response);
    }

    /// Starts the wait for the target to accept more of the request, or for its reply.
    pub(crate) fn set_while(&self, now: Instant, is_stuck: bool) {
        let limit = if is_stuck { self.write } else { self.response };
        self.alarm.borrow_mut().set_by(now, limit, self.deadline);
    }

    /// The reason why the wait has ended.
    pub(crate) fn why_late(&self, is_stuck: bool) -> String {
        match (self.is_late(), is_stuck) {
            (true, _) => "no reply within the time limit of the call".to_owned(),
            (false, true) => {
                format!("the target accepted no more of the request within {:?}", self.write)
            }
            (false, false) => format!("no reply within {:?}", self.response),
        }
    }

    pub(crate) fn set_within(&self, now: Instant, wait: Duration) {
        self.alarm.borrow_mut().set_by(now, wait.min(self.response), self.deadline);
    }

    /// Ready once the time has passed. While the call waits for its client, only the total deadline of the call applies.
    pub(crate) fn poll(&self, cx: &mut Context<'_>, starved: bool) -> Poll<()> {
        if starved {
            let Some(deadline) = self.deadline else { return Poll::Pending };
            self.alarm.borrow_mut().set_by(deadline, Duration::ZERO, None);
        }
        self.alarm.borrow_mut().poll(cx)
    }

    pub(crate) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| clock::now() >= deadline)
    }
}

/// The waits of a call for more of its client's body.
pub(crate) struct Starvation<'a> {
    sum: &'a WaitTime,
    open: Option<OpenWait<'a>>,
}

impl<'a> Starvation<'a> {
    pub(crate) fn none(sum: &'a WaitTime) -> Starvation<'a> {
        Starvation { sum, open: None }
    }

    /// Records whether there is nothing to send at present.
    pub(crate) fn note(&mut self, is_starved: bool) {
        if is_starved {
            self.open.get_or_insert_with(|| self.sum.begin());
        } else {
            self.open = None
        }
    }
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        connection: Connection,
        head: &RequestHead,
        host: Option<&str>,
        body: Body,
        CallSettings { wait, url, interim, client_wait }: CallSettings<'a>,
    ) -> Call<'a> {
        // Read only once: a body that is still arriving may know its length later.
        let body_len = body.remaining();
        let asked =
            MethodKind { head: head.method() == b"HEAD", connect: head.method() == b"CONNECT" };
        let expects_continue = body.expects_continue();
        let written = written(head, host, body_len, expects_continue);
        let mut upload = Outgoing::new(written, body, body_len.is_none());
        if expects_continue {
            upload.hold_body();
        }
        Call {
            connection,
            upload,
            upload_broken: None,
            asked,
            upgrade_asked: head.headers.contains("upgrade"),
            partial: Vec::new(),
            starvation: Starvation::none(client_wait),
            polled: false,
            is_stuck: false,
            wait,
            url,
            interim,
            interim_count: 0,
        }
    }

    /// Sends the request and waits for the reply to begin, for at most `wait.response` from `began` on.
    #[expect(
        clippy::manual_async_fn,
        reason = "an `async fn` moves its arguments once more than a block"
    )]
    pub(crate) fn begin(
        mut self,
        began: Instant,
    ) -> impl Future<Output = Result<Box<StartedReply>, Failure>> {
        async move {
            if self.upload.is_held() {
                self.wait.set_within(began, LEAVE_WAIT)
            } else {
                self.wait.set(began)
            }
            let (head, parsed, input) = match poll_fn(|cx| self.poll_reply(cx)).await {
                Ok(read) => read,
                Err(failure) => {
                    let unsent = self.upload.is_held().then(|| self.upload.into_body());
                    return Err(Failure { unsent, ..failure });
                }
            };
            let (decoder, ahead, rest) = self.split(&parsed, input)?;
            // A body that still waits for a 100 is not sent any more, so the connection cannot be reused.
            let intact = self.upload_broken.is_none() && !self.upload.is_held();
            let upload = (intact && !self.upload.is_done()).then_some(self.upload);
            let connection = self.connection;
            Ok(Box::new(StartedReply {
                connection,
                upload,
                intact,
                head,
                parsed,
                decoder,
                ahead,
                rest,
            }))
        }
    }

    /// Splits what came with the head into the beginning of the body and the bytes after the body. Also returns the decoder for the rest of
    /// the body.
    fn split(
        &self,
        parsed: &ResponseHead,
        mut input: Scratch,
    ) -> Result<(Decoder, Bytes, Vec<u8>), Failure> {
        if parsed.upgrade && !self.upgrade_asked {
            return Err(self.failure(
                Kind::UpstreamMalformed,
                "101 without a requested upgrade",
                false,
            ));
        }
        let rest = input.get(parsed.head_len..).unwrap_or_default();
        let mut decoder = Decoder::new(parsed.framing);
        // Harmless: a length above the address space has not arrived completely.
        let whole = decoder.remaining().and_then(|n| usize::try_from(n).ok());
        let whole = whole.filter(|n| (LARGE_BYTES..=rest.len()).contains(n) && !parsed.upgrade);
        match whole {
            Some(len) => {
                decoder.advance(len);
                let behind = rest.get(len..).unwrap_or_default().to_vec();
                Ok((decoder, input.part(parsed.head_len..parsed.head_len + len), behind))
            }
            None => {
                let mut ahead = Vec::new();
                let taken = if parsed.upgrade {
                    0
                } else {
                    decoder.decode(rest, &mut ahead).map_err(|e| self.malformed(&e))?
                };
                Ok((decoder, ahead.into(), rest.get(taken..).unwrap_or_default().to_vec()))
            }
        }
    }

    fn poll_reply(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(ReplyHead, ResponseHead, Scratch), Failure>> {
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
            let starved = self.upload_broken.is_none() && self.upload.is_starved();
            if self.wait.poll(cx, starved).is_pending() {
                return Poll::Pending;
            }
            if !held || self.wait.is_late() {
                return Poll::Ready(Err(self.late()));
            }
            self.release_body();
        }
    }

    fn late(&self) -> Failure {
        self.failure(Kind::UpstreamTimeout, &self.wait.why_late(self.is_stuck), false)
    }

    /// Begins to send a body that waited for the target's 100, because the 100 has arrived or took too long.
    fn release_body(&mut self) {
        if self.upload.is_held() {
            self.upload.release();
            self.wait.set(clock::now());
        }
    }

    /// Sends more of the request. The time limit for the reply starts anew with every piece except the one that is sent immediately, so
    /// that the time of a slow client does not count against the target.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Result<(), Failure> {
        if self.upload.is_done() || self.upload_broken.is_some() {
            return Ok(());
        }
        let before = self.upload.payload_bytes();
        let at_once = !std::mem::replace(&mut self.polled, true);
        match self.upload.poll(cx, &mut self.connection.wire) {
            Poll::Ready(Err(CopyError::Source(fault))) => {
                return Err(Failure::unsent(fault));
            }
            Poll::Ready(Err(CopyError::Peer(e))) => self.upload_broken = Some(e),
            Poll::Ready(Ok(())) | Poll::Pending => {}
        }
        let is_starved = self.upload.is_starved();
        self.starvation.note(is_starved);
        let sends =
            !self.upload.is_done() && self.upload_broken.is_none() && !self.upload.is_held();
        let is_stuck = sends && !is_starved;
        let was_stuck = std::mem::replace(&mut self.is_stuck, is_stuck);
        let moved = self.upload.payload_bytes() != before && !at_once;
        if moved || is_stuck != was_stuck {
            self.wait.set_while(clock::now(), is_stuck);
        }
        Ok(())
    }

    /// Reads until a final head is complete. It stays in the scratch buffer, in front of the bytes after it.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(ReplyHead, ResponseHead, Scratch), Failure>> {
        let mut input = scratch::lend();
        input.append(&mut self.partial);
        loop {
            if let Some((parsed, head)) = self.parse(&input)? {
                let Some(head) = head else {
                    cut(&mut input, parsed.head_len);
                    self.interim_count += 1;
                    if self.interim_count > INTERIM_MAX {
                        let malformed = Kind::UpstreamMalformed;
                        return Poll::Ready(Err(self.failure(
                            malformed,
                            "too many 1xx replies",
                            false,
                        )));
                    }
                    if parsed.status == 100 {
                        self.release_body();
                    }
                    continue;
                };
                return Poll::Ready(Ok((head, parsed, input)));
            }
            match self.connection.wire.poll_read_into(cx, &mut input, SCRATCH_BYTES) {
                Poll::Pending => {
                    self.partial = input.to_vec();
                    return Poll::Pending;
                }
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(self.closed(None, input.is_empty()))),
                Poll::Ready(Err(e)) => {
                    return Poll::Ready(Err(self.closed(Some(e), input.is_empty())));
                }
                Poll::Ready(Ok(_)) => {}
            }
        }
    }

    /// The head at the front of the input, if it is complete. The head of an interim reply is passed on to the client, and `None` is
    /// returned in its place.
    fn parse(
        &mut self,
        input: &[u8],
    ) -> Result<Option<(ResponseHead, Option<ReplyHead>)>, Failure> {
        if input.is_empty() {
            return Ok(None);
        }
        message::with_lines(|lines| {
            let parsed = http1::parse_response(input, &LIMITS, self.asked, lines)
                .map_err(|e| self.no_reply(input, &e))?;
            let Some(parsed) = parsed else { return Ok(None) };
            let bytes = input.get(..parsed.head_len).unwrap_or(input);
            let copied = || ReplyHead::copied(bytes, lines, parsed.status, parsed.reason);
            if !is_interim(&parsed) {
                return Ok(Some((parsed, Some(copied()))));
            }
            // A 100 only concerns the connection to the target. The client gets its own when its body is read.
            if let Some(interim) = self.interim.filter(|_| parsed.status != 100) {
                interim.pass(&copied());
            }
            Ok(Some((parsed, None)))
        })
    }

    fn closed(&mut self, error: Option<io::Error>, no_bytes_received: bool) -> Failure {
        let why = match self.upload_broken.take().or(error) {
            Some(e) => format!("closed before its reply: {e}"),
            None => "closed before its reply".to_owned(),
        };
        self.failure(Kind::UpstreamReset, &why, no_bytes_received)
    }

    /// Returns the failure for a reply that is not HTTP/1. It may be HTTP/2, which gRPC services require.
    fn no_reply(&self, input: &[u8], error: &http1::Error) -> Failure {
        if speaks_http2(input) {
            self.failure(Kind::UpstreamMalformed, SPEAKS_HTTP2, false)
        } else {
            self.malformed(error)
        }
    }

    fn malformed(&self, error: &http1::Error) -> Failure {
        self.failure(Kind::UpstreamMalformed, &error.to_string(), false)
    }

    fn failure(&self, kind: Kind, why: &str, no_bytes_received: bool) -> Failure {
        Failure {
            fault: Fault::new(kind, format!("{}: {why}", self.url)),
            no_bytes_received,
            unsent: None,
            refused: false,
        }
    }
}

/// The cause if a target answers with HTTP/2.
const SPEAKS_HTTP2: &str = "it answers with HTTP/2, but the request used HTTP/1.1: set `protocol: http2` for gRPC and other services that only support HTTP/2";

/// True if the bytes begin like an HTTP/2 server's: with a SETTINGS frame of the whole connection (RFC 9113, 3.4), or with a
/// GOAWAY.
fn speaks_http2(input: &[u8]) -> bool {
    const SETTINGS: u8 = 4;
    const GOAWAY: u8 = 7;
    let Some([long, _, _, kind, flags, stream @ ..]) = input.first_chunk::<9>() else {
        return false;
    };
    *long == 0 && matches!(*kind, SETTINGS | GOAWAY) && *flags == 0 && stream == &[0; 4]
}

fn cut(input: &mut Vec<u8>, len: usize) {
    let len = len.min(input.len());
    input.drain(..len);
}

fn is_interim(parsed: &ResponseHead) -> bool {
    parsed.status < 200 && !parsed.upgrade
}

/// Writes the head with the host, the header that frames the body, and `Expect` if the body waits for a 100.
fn written(
    head: &RequestHead,
    host: Option<&str>,
    body_len: Option<u64>,
    expects_continue: bool,
) -> Scratch {
    let mut out = scratch::lend();
    head.write_to(body_len, &mut out);
    if expects_continue {
        out.extend_from_slice(b"Expect: 100-continue\r\n");
    }
    if let Some(host) = host {
        out.extend_from_slice(b"Host: ");
        out.extend_from_slice(host.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out
}
