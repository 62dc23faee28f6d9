//! HTTP/1.1 messages as bytes: a codec that does no input or output.
//!
//! Owns the grammar and framing of RFC 9112: where a head ends, which bytes may stand in it, how
//! long its body is and how a chunked body is cut. Hands out offsets into the caller's bytes and
//! never a copy of them. It never reads a socket, keeps no connection, knows no route and decides
//! no reply; what it cannot decide alone is listed below for the loop that drives it.
//!
//! Requests are read to the letter, because two readers that disagree about one byte are how
//! requests are smuggled. Responses come from servers somebody chose: their framing is as strict,
//! harmless sloppiness (no reason phrase, padded lengths) passes.
//!
//! # What the connection loop must do
//!
//! - An [`Error`] ends the connection: answer [`Error::status`] with `Connection: close`, never
//!   look at the bytes behind it, shut the write side, read on for a moment (bounded) so that the
//!   answer is not lost to a reset, close.
//! - `Ok(None)` is no promise that more will come. A head and a pause in a body need a deadline;
//!   a client that sends an empty line and waits is idle.
//! - A body may turn out malformed after its head was passed on. The exchange must then be cut:
//!   reset the upstream side (never finish its chunked body), answer 400 if nothing was answered.
//! - A request body that will not be read to its end makes the connection unusable: close it.
//! - `100 (Continue)` is owed only where [`RequestHead::expect_continue`] says so, and not once
//!   body bytes have come.
//! - What follows a 101, or a 2xx to CONNECT, is a tunnel; [`Framing::None`] says only that it is
//!   no body.
//! - A response of [`Framing::UntilClose`] ends for a 1.1 client by chunks, for a 1.0 client by
//!   close.
//! - Every token is a method here. What to say to TRACE, to CONNECT and to a method that is not
//!   [registered](is_registered_method) is the caller's to decide.
//! - Connection, and what it names, are for the next peer only: they are read here and must be
//!   dropped by whoever passes a message on. So must Transfer-Encoding, for the framing is new.

#![forbid(unsafe_code)]

mod chunk;
mod decoder;
mod error;
mod fields;
mod forwarding;
mod length;
mod lines;
mod method;
mod partial;
mod reason;
mod request;
mod response;
mod rules;
mod target;
mod token;

pub use chunk::{CHUNK_LINE_BYTES_MAX, EXTENSION_BYTES_MAX, LAST_CHUNK, chunk_header, last_chunk};
pub use decoder::{Decoder, TRAILER_BYTES_MAX, check_trailers};
pub use error::Error;
pub use forwarding::is_forwarding;
pub use length::{content_length, parse_content_length};
pub use lines::parse_lines;
pub use method::{is_refused_method, is_registered_method};
pub use partial::Partial;
pub use reason::standard_reason;
pub use request::{METHOD_BYTES_MAX, RequestHead, parse_request};
pub use response::{Asked, ResponseHead, parse_response};
pub use rules::{Checked, Parts, check_request};
pub use target::{Form, is_host, is_target};
pub use token::{is_alias, is_header_value, is_token, list_has};

/// The largest body length taken: what a signed 64-bit count can hold, so that no reader behind
/// us can see a negative number.
pub const BODY_BYTES_MAX: u64 = i64::MAX as u64;

/// What one head may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// All bytes of a head, from the start line to its blank line.
    pub head_bytes_max: usize,
    /// The request target alone. The head's bound holds as well.
    pub target_bytes_max: usize,
    /// Header lines.
    pub headers_max: usize,
}

/// A half-open range into the bytes a head was parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// One header line, by offsets into the bytes it was parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The whole line, its CRLF included: lines follow each other without a gap.
    pub line: Span,
    /// The name, a token.
    pub name: Span,
    /// The value without the white space around it.
    pub value: Span,
}

/// The two versions that are spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: closes unless told otherwise, knows no chunks and no 100.
    Http10,
    /// HTTP/1.1
    Http11,
}

/// How long a body is, decided by RFC 9112 section 6.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// Exactly this many bytes.
    Length(u64),
    /// Chunks, and perhaps trailers.
    Chunked,
    /// Everything until the peer closes; responses only.
    UntilClose,
}

impl Default for Limits {
    /// Generous beside what clients send: browsers stay below 8 KiB of target and 16 KiB of head,
    /// tokens and cookies of large organisations reach 32 KiB.
    fn default() -> Self {
        Self { head_bytes_max: 64 << 10, target_bytes_max: 16 << 10, headers_max: 128 }
    }
}

impl Span {
    /// From offsets. Heads are far below 4 GiB; what is not becomes a span that holds nothing.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        match (u32::try_from(start), u32::try_from(end)) {
            (Ok(start), Ok(end)) => Self { start, end },
            _ => Self::default(),
        }
    }

    /// The bytes this span names; empty where it lies outside.
    #[inline]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// How many bytes it names.
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// Whether it names none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}
