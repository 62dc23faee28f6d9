//! Reads the headers that frame a message or control the connection, in one pass over the lines.

use crate::length::parse_content_length;
use crate::target::is_host;
use crate::token::{is_alias, is_token, list_has, members};
use crate::{Error, Framing, Line, Span, Version};

/// The framing and connection headers of one head.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fields {
    pub(crate) host: Option<Span>,
    pub(crate) expect_continue: bool,
    length: Option<u64>,
    coding: Option<Coding>,
    content_type: bool,
    close: bool,
    keep_alive: bool,
    upgrade_option: bool,
    upgrade_field: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Chunked,
    /// Well-formed, with `chunked` last, but not supported, such as `gzip, chunked`.
    Foreign,
}

impl Fields {
    /// Reads a line of a request.
    #[inline]
    pub(crate) fn note_request(&mut self, bytes: &[u8], line: &Line) -> Result<(), Error> {
        let (name, value) = (line.name.of(bytes), line.value.of(bytes));
        match name.len() {
            4 if is(name, b"host") => self.note_host(line.value, value),
            6 if is(name, b"expect") => self.note_expectation(value),
            12 if is(name, b"content-type") => self.note_content_type(),
            14 if is(name, b"content-length") => {
                // Surrounding white space and leading zeros are allowed or widely tolerated, but implementations interpret them
                // differently. Current clients do not send them.
                let zeros = value.len() > 1 && value.first() == Some(&b'0');
                if zeros || !is_plain(bytes, line) {
                    return Err(Error::ContentLength);
                }
                self.note_length(value)
            }
            17 if is(name, b"transfer-encoding") => {
                if is_plain(bytes, line) {
                    self.note_coding(value)
                } else {
                    Err(Error::TransferEncoding)
                }
            }
            14 if is_alias(name, b"content-length") => Err(Error::FramingAlias),
            17 if is_alias(name, b"transfer-encoding") => Err(Error::FramingAlias),
            _ => self.note_connection(name, value),
        }
    }

    /// Reads a line of a response.
    #[inline]
    pub(crate) fn note_response(&mut self, bytes: &[u8], line: &Line) -> Result<(), Error> {
        let (name, value) = (line.name.of(bytes), line.value.of(bytes));
        match name.len() {
            14 if is(name, b"content-length") => self.note_length(value),
            17 if is(name, b"transfer-encoding") => self.note_coding(value),
            _ => self.note_connection(name, value),
        }
    }

    /// Returns the framing that the headers declare (RFC 9112, 6.3, rules 3 to 6), or `None` if they declare none.
    pub(crate) fn framing(&self, version: Version) -> Result<Option<Framing>, Error> {
        match (self.coding, self.length) {
            (Some(_), Some(_)) => Err(Error::LengthAndCoding),
            (Some(_), None) if version == Version::Http10 => Err(Error::TransferEncodingVersion),
            (Some(Coding::Foreign), None) => Err(Error::TransferCoding),
            (Some(Coding::Chunked), None) => Ok(Some(Framing::Chunked)),
            (None, Some(0)) => Ok(Some(Framing::None)),
            (None, Some(length)) => Ok(Some(Framing::Length(length))),
            (None, None) => Ok(None),
        }
    }

    /// Returns true if the connection may carry another message (RFC 9112, 9.3).
    pub(crate) fn keeps_alive(&self, version: Version) -> bool {
        match version {
            Version::Http11 => !self.close,
            Version::Http10 => self.keep_alive && !self.close,
        }
    }

    /// Returns true if an upgrade is requested. A 1.0 message cannot request one (RFC 9110, 7.8).
    pub(crate) fn upgrades(&self, version: Version) -> bool {
        version == Version::Http11 && self.upgrade_option && self.upgrade_field
    }

    fn note_connection(&mut self, name: &[u8], value: &[u8]) -> Result<(), Error> {
        match name.len() {
            7 if is(name, b"upgrade") => self.upgrade_field = true,
            10 if is(name, b"connection") => {
                self.close |= list_has(value, "close");
                self.keep_alive |= list_has(value, "keep-alive");
                self.upgrade_option |= list_has(value, "upgrade");
            }
            // Harmless: other headers do not affect the framing.
            _ => {}
        }
        Ok(())
    }

    fn note_host(&mut self, span: Span, value: &[u8]) -> Result<(), Error> {
        if self.host.replace(span).is_some() {
            return Err(Error::HostRepeated);
        }
        if is_host(value) { Ok(()) } else { Err(Error::Host) }
    }

    fn note_expectation(&mut self, value: &[u8]) -> Result<(), Error> {
        self.expect_continue = true;
        if is(value, b"100-continue") { Ok(()) } else { Err(Error::Expectation) }
    }

    /// Refuses a second `Content-Type`: a body could be validated as one type and interpreted as the other.
    fn note_content_type(&mut self) -> Result<(), Error> {
        let seen = std::mem::replace(&mut self.content_type, true);
        if seen { Err(Error::ContentTypeRepeated) } else { Ok(()) }
    }

    fn note_length(&mut self, value: &[u8]) -> Result<(), Error> {
        let length = parse_content_length(value).ok_or(Error::ContentLength)?;
        match self.length.replace(length) {
            Some(_) => Err(Error::ContentLengthRepeated),
            None => Ok(()),
        }
    }

    fn note_coding(&mut self, value: &[u8]) -> Result<(), Error> {
        let coding = coding(value).ok_or(Error::TransferEncoding)?;
        match self.coding.replace(coding) {
            Some(_) => Err(Error::TransferEncodingRepeated),
            None => Ok(()),
        }
    }
}

/// Parses a value of Transfer-Encoding: `chunked` alone, or after registered codings. Returns `None` for any other value, since the end of
/// the body is then unknown.
fn coding(value: &[u8]) -> Option<Coding> {
    if is(value, b"chunked") {
        return Some(Coding::Chunked);
    }
    let (mut foreign, mut chunked) = (0, false);
    for member in members(value) {
        let known = [&b"gzip"[..], b"x-gzip", b"deflate", b"compress", b"x-compress"];
        if chunked || !is_token(member) {
            return None;
        }
        chunked = is(member, b"chunked");
        foreign += usize::from(!chunked);
        if !chunked && !known.iter().any(|coding| is(member, coding)) {
            return None;
        }
    }
    (chunked && foreign > 0).then_some(Coding::Foreign)
}

/// Returns true if at most one space precedes the value, and the line end follows it immediately.
fn is_plain(bytes: &[u8], line: &Line) -> bool {
    let before = Span { start: line.name.end, end: line.value.start };
    let after = Span { start: line.value.end, end: line.line.end };
    matches!(before.of(bytes), b":" | b": ") && after.len() == 2
}

#[inline]
fn is(bytes: &[u8], lower: &[u8]) -> bool {
    bytes.eq_ignore_ascii_case(lower)
}
