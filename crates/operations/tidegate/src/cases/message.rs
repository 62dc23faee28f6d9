//! HTTP/1.1 messages over an in-process wire, parsed by the gateway's own codec.

use std::fmt::Write as _;

use ::message::{Headers, ReplyHead, RequestHead};
use bytes::Bytes;
use http1::{Decoder, Framing, Limits, Line, MethodKind, Span, parse_request, parse_response};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A message that arrived over a wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// The method of a request; empty for a reply.
    pub(super) method: String,
    /// The target of a request; empty for a reply.
    pub(super) target: String,
    /// The status of a reply; 0 for a request.
    pub(super) status: u16,
    /// Names in lower case, in the order written.
    lines: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// The kind of message to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageKind {
    Request,
    /// `to_head`: the reply to a HEAD request, which has no body.
    Reply {
        to_head: bool,
    },
}

/// One end of a wire, with the bytes that have arrived and are unread.
pub(super) struct WireReader<R> {
    wire: R,
    buffer: Vec<u8>,
}

/// A parsed head and the framing of its body.
struct Head {
    message: Message,
    head_len: usize,
    framing: Framing,
}

/// The maximum size of a body, which a test holds in memory: four times the limit of a flow's body.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

impl Message {
    /// A message in a queue.
    pub(super) fn of_request(head: &RequestHead, body: Bytes) -> Message {
        // Harmless: both are ASCII.
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (method, target) = (text(head.method()), text(head.target()));
        Message { method, target, status: 0, lines: lines(&head.headers), body: body.into() }
    }

    /// A reply that was not sent over a wire.
    pub(super) fn of_reply(head: &ReplyHead, body: Bytes) -> Message {
        let (method, target) = (String::new(), String::new());
        let (status, lines) = (head.status, lines(&head.headers));
        Message { method, target, status, lines, body: body.into() }
    }

    /// Returns the combined value of the headers with this name, or `None` if there are none.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        let lines = self.lines.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let values: Vec<&str> = lines.map(|(_, value)| value.as_str()).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// Its lines, in the order written.
    pub(super) fn lines(&self) -> &[(String, String)] {
        &self.lines
    }

    /// The target without its query.
    pub(super) fn path(&self) -> &str {
        self.target.split_once('?').map_or(&self.target, |(path, _)| path)
    }
}

impl<R: AsyncRead + Unpin> WireReader<R> {
    pub(super) fn new(wire: R) -> WireReader<R> {
        WireReader { wire, buffer: Vec::new() }
    }

    /// Returns the next message, or `None` if the peer closes the wire first. Interim replies are skipped.
    pub(super) async fn next(&mut self, side: MessageKind) -> Result<Option<Message>, String> {
        loop {
            let Some(head) = self.head(side).await? else { return Ok(None) };
            let message = self.body(head).await?;
            if !(100..200).contains(&message.status) {
                return Ok(Some(message));
            }
        }
    }

    async fn head(&mut self, side: MessageKind) -> Result<Option<Head>, String> {
        loop {
            let parsed = parse(&self.buffer, side);
            if let Some(head) = parsed.map_err(|error| error.to_string())? {
                return Ok(Some(head));
            }
            if self.read().await? == 0 {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err("the connection ended inside a head".to_owned())
                };
            }
        }
    }

    async fn body(
        &mut self,
        Head { mut message, head_len, framing }: Head,
    ) -> Result<Message, String> {
        self.buffer.drain(..head_len);
        let mut decoder = Decoder::new(framing);
        loop {
            let taken = decoder.decode(&self.buffer, &mut message.body);
            self.buffer.drain(..taken.map_err(|error| error.to_string())?);
            if decoder.is_done() {
                return Ok(message);
            }
            if message.body.len() > BODY_BYTES_MAX {
                return Err(format!("a body of more than {BODY_BYTES_MAX} bytes"));
            }
            if self.read().await? == 0 {
                let ended = decoder.end_of_input();
                return ended.map(|()| message).map_err(|_| "an incomplete body".to_owned());
            }
        }
    }

    async fn read(&mut self) -> Result<usize, String> {
        self.wire.read_buf(&mut self.buffer).await.map_err(|error| error.to_string())
    }
}

fn lines(headers: &Headers) -> Vec<(String, String)> {
    // Harmless: they are compared with texts, and shown.
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    headers.iter().map(|(name, value)| (text(name).to_lowercase(), text(value))).collect()
}

fn parse(bytes: &[u8], side: MessageKind) -> Result<Option<Head>, http1::Error> {
    let (mut lines, limits) = (Vec::new(), limits());
    // Harmless: they are compared with texts, and shown.
    let text = |span: Span| String::from_utf8_lossy(span.of(bytes)).into_owned();
    let mut message = Message {
        method: String::new(),
        target: String::new(),
        status: 0,
        lines: Vec::new(),
        body: Vec::new(),
    };
    let (head_len, framing) = match side {
        MessageKind::Request => {
            let Some(head) = parse_request(bytes, &limits, &mut lines)? else { return Ok(None) };
            (message.method, message.target) = (text(head.method), text(head.target));
            (head.head_len, head.framing)
        }
        MessageKind::Reply { to_head } => {
            let asked = MethodKind { head: to_head, connect: false };
            let Some(head) = parse_response(bytes, &limits, asked, &mut lines)? else {
                return Ok(None);
            };
            message.status = head.status;
            (head.head_len, head.framing)
        }
    };
    let named = |line: &Line| (text(line.name).to_lowercase(), text(line.value));
    message.lines = lines.iter().map(named).collect();
    Ok(Some(Head { message, head_len, framing }))
}

/// These limits only bound memory, since the gateway's own limits are under test.
fn limits() -> Limits {
    Limits { head_bytes_max: 1024 * 1024, target_bytes_max: 1024 * 1024, headers_max: 10_000 }
}

/// Formats a head from a start line, header lines and the length of the body.
pub(super) fn head<'l>(
    start: &str,
    lines: impl Iterator<Item = (&'l str, &'l str)>,
    length: Option<usize>,
) -> String {
    let mut head = format!("{start}\r\n");
    for (name, value) in lines {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    if let Some(length) = length {
        let _ = write!(head, "Content-Length: {length}\r\n");
    }
    head.push_str("\r\n");
    head
}
