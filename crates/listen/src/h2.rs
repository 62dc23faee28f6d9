//! HTTP/2: hyper's connection, our requests and replies. Each stream is an exchange of its own.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use fault::{Fault, Kind};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kit::scratch;
use kit::{Alarm, SharedAlarm, Wire, clock};
use message::{Body, Fill, Protocol, Reply, Request, RequestHead, Source, Trailers};
use pipeline::Account;
use plan::Listener;
use policy::Exchange;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::accept::Connection;
use crate::date;
use crate::streams::{Stream, Streams};

/// What a client that knows beforehand begins with (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Receive windows. Large enough that an upload does not wait for the round trip, small enough that a thousand stalled
/// streams do not fill the memory.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// What is buffered of a reply that the client does not take.
const SEND_BUFFER_BYTES_MAX: usize = 256 * 1024;

/// Streams a client may have reset without our having noticed. A client that goes beyond attacks (CVE-2023-44487).
const RESETS_PENDING_MAX: usize = 64;

pub(crate) fn is_preface(bytes: &[u8]) -> bool {
    bytes.starts_with(PREFACE)
}

/// What there is so far may become the preface.
pub(crate) fn may_be_preface(bytes: &[u8]) -> bool {
    bytes.iter().zip(PREFACE).all(|(a, b)| a == b) && !bytes.is_empty()
}

/// Serves a connection to its end.
pub(crate) async fn serve(wire: Wire, connection: Connection) {
    let listener = connection.place.door.listener();
    let streams = Streams::new(listener.timeout.body);
    let connection = Rc::new(connection);
    let service = service_fn({
        let (connection, listener, streams) =
            (connection.clone(), listener.clone(), streams.clone());
        // Boxed, and so are the account and the trailers below: on its way into a task hyper moves what it is given several
        // times, and a tenth of the CPU time of a request was that.
        move |request| {
            Box::pin(exchange(connection.clone(), listener.clone(), streams.begin(), request))
        }
    });
    let builder = builder(&listener, streams.clone());
    let mut http2 = pin!(builder.serve_connection(TokioIo::new(wire), service));
    let mut idle = Alarm::default();
    let mut leaving = false;
    let ended = poll_fn(|cx| {
        loop {
            if let Poll::Ready(ended) = http2.as_mut().poll(cx) {
                return Poll::Ready(ended);
            }
            let rung = poll_idle(cx, &mut idle, &streams, &listener).is_ready();
            if leaving {
                // A client that does not take the end of its last reply does not hold the connection.
                return if rung { Poll::Ready(Ok(())) } else { Poll::Pending };
            }
            if !rung && !connection.place.is_closing(cx.waker()) {
                return Poll::Pending;
            }
            leaving = true;
            idle.clear();
            http2.as_mut().graceful_shutdown();
        }
    });
    if let Err(e) = ended.await {
        tracing::debug!(listener = listener.name, "HTTP/2 connection: {e}");
    }
}

fn builder(listener: &Listener, streams: Streams) -> Builder<Streams> {
    let mut builder = Builder::new(streams);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(listener.limits.streams_max)
        .max_header_list_size(u32::try_from(listener.limits.head_bytes_max).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(RESETS_PENDING_MAX)
        .max_send_buf_size(SEND_BUFFER_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(Some(listener.timeout.idle))
        .keep_alive_timeout(listener.timeout.head);
    builder
}

/// Ready when the connection has had no stream for the idle time.
fn poll_idle(
    cx: &mut Context<'_>,
    idle: &mut Alarm,
    streams: &Streams,
    listener: &Listener,
) -> Poll<()> {
    match (streams.open(), idle.is_set()) {
        (0, true) => {}
        (0, false) => idle.set(clock::now(), listener.timeout.idle),
        (_, true) => idle.clear(),
        (_, false) => {}
    }
    idle.poll(cx)
}

async fn exchange(
    connection: Rc<Connection>,
    listener: Arc<Listener>,
    stream: Stream,
    request: http::Request<Incoming>,
) -> Result<http::Response<ReplyBody>, Infallible> {
    let current = connection.worker.current();
    let ex = Exchange::new(connection.caller.clone(), SharedAlarm::default());
    let mut account = Box::new(Account::open(ex, current.books.clone()));
    let is_head = request.method() == http::Method::HEAD;
    let reply = match request_of(request, &listener) {
        Ok((mut request, counted)) => {
            account.asked_for(&request.head);
            account.count_request_body(counted);
            pipeline::serve(&current.plan, &listener, &mut account, &mut request).await
        }
        Err(fault) => pipeline::refuse(&mut account, fault),
    };
    Ok(response(reply, account, stream, is_head))
}

/// An HTTP/2 request in the form that the rest of the gateway knows.
fn request_of(
    request: http::Request<Incoming>,
    listener: &Listener,
) -> Result<(Request, Rc<Cell<u64>>), Fault> {
    let (parts, incoming) = request.into_parts();
    if matches!(parts.method, http::Method::CONNECT | http::Method::TRACE) {
        return Err(Fault::new(Kind::MethodRefused, parts.method.as_str()));
    }
    let target = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    if target.len() > listener.limits.target_bytes_max {
        return Err(Fault::new(Kind::TargetTooLong, format!("a target of {} bytes", target.len())));
    }
    if parts.headers.len() > listener.limits.headers_max {
        return Err(Fault::new(
            Kind::HeadTooLarge,
            format!("{} header lines", parts.headers.len()),
        ));
    }
    if target.contains('#') || !(target.starts_with('/') || target == "*") {
        return Err(Fault::new(Kind::Malformed, "the target is neither a path nor `*`"));
    }
    let mut head =
        RequestHead::new(Protocol::Http2, parts.method.as_str().as_bytes(), target.as_bytes());
    copy_lines(&mut head, parts.uri.authority().map(http::uri::Authority::as_str), &parts.headers)
        .map_err(|_| Fault::new(Kind::Malformed, "a header line that HTTP/1 cannot carry"))?;
    let counted = Rc::new(Cell::new(0));
    let body = match incoming.is_end_stream() {
        true => Body::Empty,
        false => {
            let remaining = announced(&parts.headers)?;
            let ended = Trailers::new();
            Body::Stream(Box::new(StreamBody {
                incoming,
                remaining,
                trailers: ended,
                counted: counted.clone(),
                alarm: Alarm::default(),
                timeout: listener.timeout.body,
            }))
        }
    };
    Ok((Request { head, body }, counted))
}

/// Copies the header lines; the authority becomes `Host`, and the crumbs of `Cookie` one line (RFC 9113, 8.2.3).
fn copy_lines(
    head: &mut RequestHead,
    authority: Option<&str>,
    headers: &HeaderMap,
) -> Result<(), message::InvalidLine> {
    if let Some(authority) = authority {
        if !http1::is_host(authority.as_bytes()) {
            return Err(message::InvalidLine);
        }
        head.headers.add_known("Host", authority.as_bytes());
    }
    for (name, value) in headers {
        match *name {
            http::header::HOST if authority.is_some() => {}
            http::header::HOST if !http1::is_host(value.as_bytes()) => {
                return Err(message::InvalidLine);
            }
            http::header::COOKIE => {}
            _ => head.headers.add_known(name.as_str(), value.as_bytes()),
        }
    }
    let crumbs: Vec<&[u8]> =
        headers.get_all(http::header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    match crumbs.is_empty() {
        true => Ok(()),
        false => head.headers.add("Cookie", &crumbs.join(&b"; "[..])),
    }
}

/// The length the client announced, if it did.
fn announced(headers: &HeaderMap) -> Result<Option<u64>, Fault> {
    let bad = || Fault::new(Kind::Malformed, "Content-Length is no number");
    let Some(value) = headers.get(http::header::CONTENT_LENGTH) else { return Ok(None) };
    let text = value.to_str().map_err(|_| bad())?;
    if headers.get_all(http::header::CONTENT_LENGTH).iter().count() > 1
        || !text.bytes().all(|b| b.is_ascii_digit())
    {
        return Err(bad());
    }
    text.parse().map(Some).map_err(|_| bad())
}

/// A request's body, from its stream.
struct StreamBody {
    incoming: Incoming,
    remaining: Option<u64>,
    trailers: Trailers,
    counted: Rc<Cell<u64>>,
    alarm: Alarm,
    /// Allowed between two frames.
    timeout: Duration,
}

impl Source for StreamBody {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) else {
            return self.poll_alarm(cx);
        };
        self.alarm.clear();
        let frame = match frame {
            None => return Poll::Ready(Ok(Fill::End)),
            Some(Err(e)) => {
                return Poll::Ready(Err(Fault::new(Kind::ClientGone, format!("the stream: {e}"))));
            }
            Some(Ok(frame)) => frame,
        };
        match frame.into_data() {
            Ok(bytes) => {
                let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                self.counted.set(self.counted.get().saturating_add(len));
                self.remaining = self.remaining.map(|n| n.saturating_sub(len));
                out.extend_from_slice(&bytes);
            }
            Err(frame) => {
                self.trailers = frame.into_trailers().map(|t| lines_of(&t)).unwrap_or_default()
            }
        }
        Poll::Ready(Ok(if self.incoming.is_end_stream() { Fill::End } else { Fill::More }))
    }

    fn remaining(&self) -> Option<u64> {
        self.remaining
    }

    fn trailers(&mut self) -> Trailers {
        std::mem::take(&mut self.trailers)
    }
}

impl StreamBody {
    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Poll<Result<Fill, Fault>> {
        if !self.alarm.is_set() {
            self.alarm.set(clock::now(), self.timeout);
        }
        ready!(self.alarm.poll(cx));
        let why = format!("the request's body paused for {:?}", self.timeout);
        Poll::Ready(Err(Fault::new(Kind::RequestTimeout, why)))
    }
}

fn lines_of(headers: &HeaderMap) -> Trailers {
    headers.iter().fold(Trailers::new(), |mut lines, (name, value)| {
        lines.extend_from_slice(name.as_str().as_bytes());
        lines.extend_from_slice(b": ");
        lines.extend_from_slice(value.as_bytes());
        lines.extend_from_slice(b"\r\n");
        lines
    })
}

/// A reply in hyper's form. The account goes with the body, so that the record is written at its end.
fn response(
    reply: Reply,
    account: Box<Account>,
    stream: Stream,
    is_head: bool,
) -> http::Response<ReplyBody> {
    let status =
        http::StatusCode::from_u16(reply.head.status).unwrap_or(http::StatusCode::BAD_GATEWAY);
    // A 101 means nothing in HTTP/2, and was never asked for.
    let status = if status.is_informational() { http::StatusCode::BAD_GATEWAY } else { status };
    let bodiless = is_head || matches!(reply.head.status, 204 | 304);
    let announced = reply.head.headers.contains("content-length");
    let length = reply.body.remaining().filter(|n| !announced && (!bodiless || *n > 0));
    let body = if bodiless { Body::Empty } else { reply.body };
    let mut response = http::Response::new(ReplyBody {
        body,
        ended: false,
        trailers: None,
        account,
        stream,
        waiting: None,
    });
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.reserve(reply.head.headers.len() + 2);
    for (name, value) in reply.head.headers.iter() {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            headers.append(name, value);
        }
    }
    if !headers.contains_key(http::header::DATE)
        && let Ok(date) = date::with(HeaderValue::from_str)
    {
        headers.insert(http::header::DATE, date);
    }
    if let Some(length) = length.filter(|_| status != http::StatusCode::NO_CONTENT) {
        headers.insert(http::header::CONTENT_LENGTH, length.into());
    }
    response
}

/// A reply's body on its way to the client.
struct ReplyBody {
    body: Body,
    ended: bool,
    trailers: Option<Box<HeaderMap>>,
    account: Box<Account>,
    stream: Stream,
    /// Since when the upstream is waited for.
    waiting: Option<clock::Instant>,
}

impl http_body::Body for ReplyBody {
    type Data = Bytes;
    type Error = Fault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Fault>>> {
        let me = &mut *self;
        me.stream.progress.asked_for_a_piece();
        if let Some(since) = me.waiting.take() {
            me.account.ex.upstream_wait += clock::now().duration_since(since);
        }
        while !me.ended {
            let bytes = match me.poll_bytes(cx) {
                Poll::Ready(Ok(bytes)) => bytes,
                Poll::Ready(Err(fault)) => {
                    me.ended = true;
                    me.account.broke(fault.clone());
                    return Poll::Ready(Some(Err(fault)));
                }
                Poll::Pending => {
                    me.waiting = Some(clock::now());
                    return Poll::Pending;
                }
            };
            if !bytes.is_empty() {
                me.account.reply_bytes += u64::try_from(bytes.len()).unwrap_or_default();
                me.stream.progress.handed_out_a_piece();
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
        }
        Poll::Ready(me.trailers.take().map(|trailers| Ok(Frame::trailers(*trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.trailers.is_none() && (self.ended || self.body.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.remaining().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for ReplyBody {
    /// A client that resets its stream makes hyper drop what is left of the reply.
    fn drop(&mut self) {
        if !self.is_end_stream() && self.account.ex.fault.is_none() {
            self.account.broke(Fault::new(Kind::ClientGone, "the stream ended before its reply"));
        }
    }
}

impl ReplyBody {
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, Fault>> {
        if let Body::Whole(bytes) = &mut self.body {
            let bytes = std::mem::take(bytes);
            self.body = Body::Empty;
            self.ended = true;
            return Poll::Ready(Ok(bytes));
        }
        let mut out = scratch::lend();
        let fill = ready!(self.body.poll_fill(cx, &mut out))?;
        if fill == Fill::End {
            self.ended = true;
            self.trailers = trailers_of(&self.body.trailers()).map(Box::new);
        }
        Poll::Ready(Ok(Bytes::copy_from_slice(&out)))
    }
}

fn trailers_of(lines: &[u8]) -> Option<HeaderMap> {
    if lines.is_empty() {
        return None;
    }
    message::with_lines(|parsed| {
        http1::parse_lines(lines, &http1::Limits::default(), parsed).ok()?;
        let pairs = parsed.iter().filter_map(|line| {
            let name = HeaderName::from_bytes(line.name.of(lines)).ok()?;
            Some((name, HeaderValue::from_bytes(line.value.of(lines)).ok()?))
        });
        Some(pairs.collect())
    })
}

/// A stream whose first bytes were read already.
pub(crate) fn rewound(early: Vec<u8>, wire: Wire) -> Wire {
    Wire::Wrapped(Box::new(Rewound { early, wire }))
}

struct Rewound {
    early: Vec<u8>,
    wire: Wire,
}

impl AsyncRead for Rewound {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.early.is_empty() {
            return Pin::new(&mut self.wire).poll_read(cx, buffer);
        }
        let len = self.early.len().min(buffer.remaining());
        let rest = self.early.split_off(len);
        buffer.put_slice(&self.early);
        self.early = rest;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Rewound {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }
}
