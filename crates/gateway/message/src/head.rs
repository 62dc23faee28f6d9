//! The heads of requests and replies.

use std::borrow::Cow;
use std::num::NonZeroU16;

use http1::{Line, Span};

use crate::{Headers, media_type};

/// The protocol of a received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Http10,
    Http11,
    Http2,
}

impl Protocol {
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http10 => "HTTP/1.0",
            Protocol::Http11 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2",
        }
    }
}

/// Method, target and header lines. The target is in origin form (`/path?query`) or `*`.
#[derive(Debug, Clone)]
pub struct RequestHead {
    pub headers: Headers,
    pub protocol: Protocol,
    method: Span,
    target: Span,
    path_len: u32,
}

impl RequestHead {
    /// Makes a head whose method and target are spans of the bytes in `headers`.
    pub fn parsed(headers: Headers, protocol: Protocol, method: Span, target: Span) -> RequestHead {
        let path_len = path_len(headers.text(target));
        RequestHead { headers, protocol, method, target, path_len }
    }

    /// Makes a head from parts, as HTTP/2 supplies them.
    pub fn new(protocol: Protocol, method: &[u8], target: &[u8]) -> RequestHead {
        let mut headers = Headers::new();
        let method = headers.append(&[method]);
        let target = headers.append(&[target]);
        RequestHead::parsed(headers, protocol, method, target)
    }

    pub fn method(&self) -> &[u8] {
        self.headers.text(self.method)
    }

    /// Replaces the method.
    pub fn set_method(&mut self, method: &[u8]) {
        self.method = self.headers.append(&[method]);
    }

    /// Returns path and query. They are as received until a step or the route replaces them.
    pub fn target(&self) -> &[u8] {
        self.headers.text(self.target)
    }

    /// Returns the target without its query.
    pub fn path(&self) -> &[u8] {
        let end = self.target.start.saturating_add(self.path_len);
        self.headers.text(Span { start: self.target.start, end })
    }

    /// Returns the query without its question mark, or `None` if there is none.
    pub fn query(&self) -> Option<&[u8]> {
        let start = self.target.start.saturating_add(self.path_len).saturating_add(1);
        (start <= self.target.end).then(|| self.headers.text(Span { start, end: self.target.end }))
    }

    /// Returns host and port as the client sent them, or an empty text.
    pub fn host(&self) -> &[u8] {
        self.headers.get("host").unwrap_or(b"")
    }

    /// Returns the host without port and final dot, in lower case, as used for routing. Copies only if necessary.
    pub fn host_name(&self) -> Cow<'_, [u8]> {
        host_name(self.host())
    }

    /// Replaces the target by the concatenation of the parts.
    pub fn set_target(&mut self, parts: &[&[u8]]) {
        self.target = self.headers.append(parts);
        self.path_len = path_len(self.target());
    }

    /// Replaces the path by `path` and keeps the query.
    pub fn set_path(&mut self, path: &[u8]) {
        let query = self.query().map(<[u8]>::to_vec);
        match query {
            Some(query) => self.set_target(&[path, b"?", &query]),
            None => self.set_target(&[path]),
        }
    }

    /// Returns true if sending the request twice has the same effect as sending it once (RFC 9110, 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        matches!(self.method(), b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PUT" | b"DELETE")
    }

    /// Writes the request line and the header lines, without the empty line. The body is `body_len` bytes long, or chunked if `None`; see
    /// [`Headers::write_framed`]. A method that normally has a body is sent with `Content-Length: 0` if there is none (RFC 9110, 8.6),
    /// because some servers would answer 411.
    pub fn write_to(&self, body_len: Option<u64>, out: &mut Vec<u8>) {
        out.extend_from_slice(self.method());
        out.push(b' ');
        out.extend_from_slice(self.target());
        out.extend_from_slice(b" HTTP/1.1\r\n");
        self.headers.write_framed(body_len, out);
        let expects_body = matches!(self.method(), b"POST" | b"PUT" | b"PATCH");
        if body_len == Some(0) && expects_body && !self.headers.contains("content-length") {
            http1::content_length(0, out);
        }
    }
}

/// Returns a host without its port and final dot, in lower case. Copies only if necessary.
pub fn host_name(host: &[u8]) -> Cow<'_, [u8]> {
    let bracketed = host.iter().position(|b| *b == b']').map_or(0, |at| at + 1);
    let colon = host.iter().skip(bracketed).position(|b| *b == b':').map(|at| at + bracketed);
    let name = host.get(..colon.unwrap_or(host.len())).unwrap_or(host);
    let name = name.strip_suffix(b".").unwrap_or(name);
    if name.iter().any(u8::is_ascii_uppercase) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    }
}

fn path_len(target: &[u8]) -> u32 {
    let len = target.iter().position(|b| *b == b'?').unwrap_or(target.len());
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Status, reason and header lines.
#[derive(Debug, Clone)]
pub struct ReplyHead {
    pub status: u16,
    pub headers: Headers,
    /// The protocol that the upstream used.
    pub protocol: Protocol,
    /// The upstream's reason phrase.
    reason: Span,
    /// The status that `reason` was received with, or `None` if the head was not received over HTTP/1. This is a separate field, because an
    /// `Option` of both would be larger.
    reason_of: Option<NonZeroU16>,
}

impl ReplyHead {
    pub fn new(status: u16) -> ReplyHead {
        let (headers, protocol) = (Headers::new(), Protocol::Http11);
        let (reason, reason_of) = (Span { start: 0, end: 0 }, None);
        ReplyHead { status, headers, protocol, reason, reason_of }
    }

    /// Copies a parsed head out of the buffer that it was read into.
    pub fn copied(bytes: &[u8], lines: &[Line], status: u16, reason: Span) -> ReplyHead {
        let protocol =
            if bytes.starts_with(b"HTTP/1.0") { Protocol::Http10 } else { Protocol::Http11 };
        let headers = Headers::copied(bytes, lines);
        ReplyHead { status, headers, protocol, reason, reason_of: NonZeroU16::new(status) }
    }

    /// Returns true for an event stream, which may be endless and may be silent for any length of time.
    pub fn is_event_stream(&self) -> bool {
        const EVENTS: &[u8] = b"text/event-stream";
        let content_type = self.headers.get("content-type").unwrap_or(b"").trim_ascii_start();
        // Fast path: this is checked for every reply, and few content types begin like this.
        let begins = content_type.get(..EVENTS.len());
        begins.is_some_and(|begins| begins.eq_ignore_ascii_case(EVENTS))
            && media_type(content_type).len() == EVENTS.len()
    }

    /// Returns the reason phrase as received, which may be empty. If none belongs to the current status, returns the standard one.
    pub fn reason(&self) -> &[u8] {
        match self.reason_of {
            Some(status) if status.get() == self.status => self.headers.text(self.reason),
            Some(_) | None => http1::standard_reason(self.status).as_bytes(),
        }
    }

    /// Writes the status line and the header lines, without the empty line.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let [hundreds, tens, ones] = digits(self.status);
        out.extend_from_slice(b"HTTP/1.1 ");
        out.extend_from_slice(&[hundreds, tens, ones, b' ']);
        out.extend_from_slice(self.reason());
        out.extend_from_slice(b"\r\n");
        self.headers.write_to(out);
    }
}

fn digits(status: u16) -> [u8; 3] {
    [status / 100 % 10, status / 10 % 10, status % 10]
        .map(|digit| b'0' + u8::try_from(digit).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_splits_into_path_and_query() {
        let cases = [
            ("/a?b=c", "/a", Some("b=c")),
            ("/a", "/a", None),
            ("/a?", "/a", Some("")),
            ("/?a?b", "/", Some("a?b")),
            ("*", "*", None),
        ];
        for (target, path, query) in cases {
            let head = RequestHead::new(Protocol::Http11, b"GET", target.as_bytes());
            assert_eq!(head.path(), path.as_bytes(), "{target}");
            assert_eq!(head.query(), query.map(str::as_bytes), "{target}");
        }
    }

    #[test]
    fn only_one_media_type_is_an_event_stream() {
        for (content_type, is_events) in [
            ("text/event-stream", true),
            (" Text/Event-Stream ; charset=utf-8", true),
            ("text/event-stream;a=b", true),
            ("text/event-streams", false),
            ("text/event-stream b", false),
            ("text/event-strea", false),
            ("text/plain;text/event-stream", false),
            ("", false),
        ] {
            let mut head = ReplyHead::new(200);
            assert!(!head.is_event_stream());
            head.headers.add_known("Content-Type", content_type.as_bytes());
            assert_eq!(head.is_event_stream(), is_events, "{content_type}");
        }
    }

    #[test]
    fn a_new_path_keeps_the_query() {
        let mut head = RequestHead::new(Protocol::Http11, b"GET", b"/a/b?c");
        head.set_path(b"/d");
        assert_eq!((head.target(), head.path()), (&b"/d?c"[..], &b"/d"[..]));
    }

    #[test]
    fn a_new_status_gets_its_own_reason() {
        let mut head = ReplyHead::copied(b"Fine", &[], 200, Span { start: 0, end: 4 });
        assert_eq!(head.reason(), b"Fine");
        head.status = 404;
        assert_eq!(head.reason(), b"Not Found");
    }
}
