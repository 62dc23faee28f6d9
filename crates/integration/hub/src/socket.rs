//! Serves a topic over a WebSocket: each event is a message from the hub to the client.
//!
//! The tunnel to the client uses the socket as a byte stream, as if it were a connection to an upstream.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fault::{Fault, Kind};
use kit::{Alarm, Wire, clock};
use message::{Body, Reply, RequestHead, Tunnel};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use websocket::{CloseCode, Header, Opcode, Part, Sender};

use crate::event::Event;
use crate::reader::{NotRead, PendingRead, Reader};

/// The content of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// The event as JSON, as in a long poll.
    Json,
    /// Only the body of the event.
    Body,
}

/// The hub's end of a WebSocket.
struct EventSocket {
    format: Format,
    reading: ReadState,
    /// Events that were read and are not in `out` yet.
    ahead: VecDeque<Rc<Event>>,
    /// Frames for the client. The first `sent` bytes have been delivered.
    out: Vec<u8>,
    sent: usize,
    client: websocket::Reader,
    /// The size of the Ping frames that are answered in `out`.
    answers: usize,
    /// True if the last frame in `out` is a Close frame.
    is_closed: bool,
    /// The time of the next ping.
    ping: Alarm,
    /// The task that waits for frames.
    waiting: Option<Waker>,
}

enum ReadState {
    /// No read is in progress. The reader is `None` after a failed read.
    Idle(Option<Reader>),
    /// A read is in progress.
    Reading(PendingRead),
}

/// The interval between pings. They detect clients that have disconnected.
const PING: Duration = Duration::from_secs(30);

/// No further events are added to `out` above this size, and a waiting socket keeps at most this capacity.
const PIECE_BYTES: usize = 16 * 1024;

/// The limit on unsent answers to pings. Above it, the connection is closed.
const ANSWERS_BYTES_MAX: usize = 64 * 1024;

/// The constant from which the answer to a handshake is computed (RFC 6455, 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Answers the opening handshake (RFC 6455, 4.2). After it, the reader's events are sent as messages.
pub(crate) fn answer(
    head: &RequestHead,
    has_body: bool,
    reader: Reader,
    format: Format,
) -> Result<Reply, Fault> {
    if head.headers.get("sec-websocket-version") != Some(b"13") {
        let fault = Fault::new(Kind::UpgradeRequired, "unsupported WebSocket version");
        return Err(fault.with_header("Sec-WebSocket-Version", "13"));
    }
    if has_body {
        let what = "A WebSocket handshake must not have a body.";
        return Err(Fault::with_detail(Kind::Malformed, what, what));
    }
    let key = head.headers.get("sec-websocket-key").map_or(&b""[..], <[u8]>::trim_ascii);
    if STANDARD.decode(key).map(|key| key.len()) != Ok(16) {
        let what = "`Sec-WebSocket-Key` must be 16 bytes in base64.";
        return Err(Fault::with_detail(Kind::HubRequestInvalid, what, what));
    }
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &[key, GUID].concat());
    let mut reply = Reply::new(101, Body::Empty);
    let headers = &mut reply.head.headers;
    headers.add_known("Connection", b"Upgrade");
    headers.add_known("Upgrade", b"websocket");
    headers.add_known("Sec-WebSocket-Accept", STANDARD.encode(digest).as_bytes());
    let socket = EventSocket {
        format,
        reading: ReadState::Idle(Some(reader)),
        ahead: VecDeque::new(),
        out: Vec::new(),
        sent: 0,
        client: websocket::Reader::new(Sender::Client),
        answers: 0,
        is_closed: false,
        ping: Alarm::default(),
        waiting: None,
    };
    let wire = Wire::Wrapped(Box::new(socket));
    reply.tunnel = Some(Box::new(Tunnel { wire, first_bytes: Vec::new(), guards: None }));
    Ok(reply)
}

impl EventSocket {
    /// Refills `out` once all of it is sent. Ready if there is something to send, or the socket is closed.
    fn poll_frames(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.sent == self.out.len() && !self.is_closed {
            self.out.clear();
            (self.sent, self.answers) = (0, 0);
            if self.ahead.is_empty() && self.poll_ahead(cx).is_pending() {
                if !self.ping.is_set() {
                    self.ping.set(clock::now(), PING);
                }
                if self.ping.poll(cx).is_pending() {
                    self.waiting = Some(cx.waker().clone());
                    // Releases the memory that a large event needed.
                    self.out.shrink_to(PIECE_BYTES);
                    return Poll::Pending;
                }
                self.ping.clear();
                websocket::control(Opcode::Ping, b"", None, &mut self.out);
            }
            while self.out.len() < PIECE_BYTES
                && let Some(event) = self.ahead.pop_front()
            {
                self.write(&event);
                self.ping.clear();
            }
        }
        Poll::Ready(())
    }

    fn write(&mut self, event: &Rc<Event>) {
        let mut json = Vec::new();
        let (opcode, bytes) = match self.format {
            Format::Json => {
                event.add_json(&mut json);
                (Opcode::Text, &*json)
            }
            Format::Body if event.is_text() => (Opcode::Text, &*event.body),
            Format::Body => (Opcode::Binary, &*event.body),
        };
        let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        Header { is_last: true, opcode, mask: None, len }.write(&mut self.out);
        self.out.extend_from_slice(bytes);
    }

    /// Ready once `ahead` has events, or the socket has to close.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.reading {
                ReadState::Idle(reader) => {
                    let Some(reader) = reader.take() else { return Poll::Pending };
                    self.reading = ReadState::Reading(reader.wait());
                }
                ReadState::Reading(waiting) => {
                    let Poll::Ready((reader, read)) = Pin::new(waiting).poll(cx) else {
                        return Poll::Pending;
                    };
                    match read {
                        Ok(events) => {
                            self.reading = ReadState::Idle(Some(reader));
                            self.ahead.extend(events);
                        }
                        Err(not_read) => {
                            self.reading = ReadState::Idle(None);
                            let (code, why) = match not_read {
                                NotRead::Gone { .. } => {
                                    (CloseCode::POLICY_VIOLATION, "the next event has expired")
                                }
                                NotRead::Store(_) => {
                                    (CloseCode::INTERNAL_ERROR, "events cannot be read")
                                }
                            };
                            self.close(code, why);
                        }
                    }
                    return Poll::Ready(());
                }
            }
        }
    }

    fn close(&mut self, code: CloseCode, why: &str) {
        if !std::mem::replace(&mut self.is_closed, true) {
            websocket::close(code, why, None, &mut self.out);
        }
    }

    /// Handles bytes from the client. Ping and Close frames are answered. Other frames have no effect.
    fn take(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            match self.client.next(&mut bytes) {
                Ok(None) => break,
                Ok(Some(Part::Payload(_))) => {}
                Ok(Some(Part::Control(control))) => match control.opcode {
                    Opcode::Ping => {
                        websocket::control(Opcode::Pong, &control.payload, None, &mut self.out);
                        self.answers += control.raw.len();
                    }
                    Opcode::Close => {
                        let code = match websocket::code_of(&control.payload) {
                            Ok(Some(code)) => code,
                            Ok(None) | Err(_) => CloseCode::NORMAL,
                        };
                        self.close(code, "");
                    }
                    Opcode::Pong | Opcode::Continuation | Opcode::Text | Opcode::Binary => {}
                },
                Err(malformed) => {
                    self.close(malformed.code, malformed.what);
                    break;
                }
            }
        }
        if self.answers > ANSWERS_BYTES_MAX {
            return Err(io::Error::other("the client does not read the answers to its pings"));
        }
        if let Some(waiting) = self.waiting.take() {
            waiting.wake();
        }
        Ok(())
    }
}

impl AsyncRead for EventSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        std::task::ready!(this.poll_frames(cx));
        let unsent = this.out.get(this.sent..).unwrap_or_default();
        let taken = unsent.len().min(buffer.remaining());
        buffer.put_slice(unsent.get(..taken).unwrap_or_default());
        this.sent += taken;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for EventSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().take(bytes)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // The client closed the connection without a Close frame. Nothing more is sent.
        this.is_closed = true;
        if let Some(waiting) = this.waiting.take() {
            waiting.wake();
        }
        Poll::Ready(Ok(()))
    }
}
