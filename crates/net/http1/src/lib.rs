//! A codec for HTTP/1.1 messages, without I/O.
//!
//! Owns the grammar and framing of RFC 9112: where a head ends, which bytes it may contain, how long its body is, and how a chunked body is
//! encoded. It returns offsets into the caller's bytes instead of copies. It reads no sockets, keeps no connections, knows no routes and
//! decides no replies. The duties of the caller are listed below.
//!
//! Requests are parsed strictly, because request smuggling is possible if two parsers disagree about one byte. Responses come from servers
//! that an operator has chosen: their framing is checked as strictly, but harmless deviations (no reason phrase, padded lengths) are
//! accepted.
//!
//! # What the connection loop must do
//!
//! - An [`Error`] ends the connection: answer [`Error::status`] with `Connection: close`, ignore the bytes after the error,
//!   shut the write side, read on for a bounded time so that the answer is not lost to a reset, and close.
//! - `Ok(None)` does not mean that more bytes will come. Set a deadline for each head, and for each pause in a body. A client that has
//!   sent only an empty line counts as idle.
//! - A body may turn out malformed after its head was passed on. Then cut the exchange: reset the upstream side (never finish
//!   its chunked body), and answer 400 if nothing was answered yet.
//! - A request body that will not be read to its end makes the connection unusable: close it.
//! - Send `100 (Continue)` only if [`RequestHead::expect_continue`] says so, and not once body bytes have come.
//! - The bytes after a 101, or after a 2xx to CONNECT, are a tunnel; [`Framing::None`] says only that they are not a body.
//! - Pass a response of [`Framing::UntilClose`] on in chunks to a 1.1 client. To a 1.0 client, mark its end by closing the connection.
//! - Every token is a method here. The caller decides how to answer TRACE, CONNECT and methods that are not
//!   [registered](is_registered_method).
//! - Connection, and the headers it names, are for the next peer only (hop-by-hop). They are read here, and code that passes a
//!   message on must drop them. It must also drop Transfer-Encoding, since the framing is new.

#![forbid(unsafe_code)]

mod chunk;
mod decoder;
mod error;
mod fields;
mod forwarding;
mod kinds;
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
pub use decoder::{Decoder, check_trailers};
pub use error::Error;
pub use forwarding::{is_forwarding, states_origin};
pub use length::{content_length, parse_content_length};
pub use lines::parse_lines;
pub use method::{is_refused_method, is_registered_method};
pub use partial::Partial;
pub use reason::standard_reason;
pub use request::{RequestHead, parse_request};
pub use response::{MethodKind, ResponseHead, parse_response};
pub use rules::{HeadCheck, METHOD_BYTES_MAX, Parts, check_request};
pub use target::{TargetForm, is_host, is_target};
pub use token::{is_alias, is_header_value, is_lower_case_token, is_token, list_has};

/// The largest accepted body length: the maximum of a signed 64-bit integer, so that no upstream can interpret it as a negative number.
pub const BODY_BYTES_MAX: u64 = i64::MAX as u64;

/// The limits of one head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum size of a head, from the start line to its blank line.
    pub head_bytes_max: usize,
    /// The maximum size of the request target alone. The limit of the head applies as well.
    pub target_bytes_max: usize,
    /// The maximum number of header lines.
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
    /// The whole line, including its CR LF. Lines follow each other without a gap.
    pub line: Span,
    /// The name, a token.
    pub name: Span,
    /// The value, without surrounding white space.
    pub value: Span,
}

/// The two versions that are supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0: connections close by default, and there are neither chunks nor 100 replies.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// How the end of a body is found (RFC 9112, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// Exactly this many bytes.
    Length(u64),
    /// Chunks, which trailers may follow.
    Chunked,
    /// Everything until the peer closes the connection. Only responses have this framing.
    UntilClose,
}

impl Limits {
    /// The limits of trailers. Checksums, signatures and status fields need a few hundred bytes.
    pub const TRAILERS: Limits =
        Limits { head_bytes_max: 8 << 10, target_bytes_max: 0, headers_max: 32 };
}

impl Default for Limits {
    /// These limits are generous: browsers stay below 8 KiB of target and 16 KiB of head, and tokens and cookies of large organisations
    /// reach 32 KiB.
    fn default() -> Self {
        Self { head_bytes_max: 64 << 10, target_bytes_max: 16 << 10, headers_max: 128 }
    }
}

impl Span {
    /// Creates a span from offsets. Heads are far below 4 GiB; a larger offset results in an empty span.
    pub(crate) fn new(start: usize, end: usize) -> Self {
        match (u32::try_from(start), u32::try_from(end)) {
            (Ok(start), Ok(end)) => Self { start, end },
            _ => Self::default(),
        }
    }

    /// Returns the bytes of this span, or an empty slice if it is out of range.
    #[inline]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// Returns the number of bytes.
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }

    /// Returns true if the span is empty.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}
