//! Replies: where the head and the body of an HTTP/1.1 reply end, in bytes that come in pieces of any size.
//!
//! Owns the limits on what a server may send. It keeps nothing of a body, and passes the pieces to the caller.

use memchr::{memchr, memmem};

use super::outcome::ErrorKind;

/// Maximum size of a head, several times what gateways accept by default.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Maximum size of a body. The documents' largest reply has about 300 kB.
pub(super) const BODY_BYTES_MAX: u64 = 64 << 20;
/// Maximum length of a chunk's line: a size of 16 hexadecimal digits, and extensions.
const CHUNK_LINE_BYTES_MAX: usize = 1024;

/// Reads the replies of one connection.
#[derive(Default)]
pub(super) struct Reader {
    /// The beginning of an incomplete head or chunk line.
    held: Vec<u8>,
    state: State,
    head: Head,
    body_bytes: u64,
    /// Number of bytes of the reply, as received.
    pub(super) received_bytes: u64,
}

/// The relevant content of a reply's head.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) is_gzip: bool,
    pub(super) closes: bool,
    /// Whether all expected header fields were present.
    pub(super) has_expected: bool,
}

/// What the reader needs to know of the request.
pub(super) struct Inquiry<'w> {
    /// Header fields that are expected.
    pub(super) headers: &'w [(String, String)],
    /// Whether the request is `HEAD`, whose reply has no body.
    pub(super) is_head: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Body(u64),
    ChunkLine,
    Chunk(u64),
    /// The line end after a chunk.
    ChunkEnd,
    Trailers,
    UntilClose,
}

/// The progress of reading a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The reply is complete.
    Whole(Head),
    /// The reply is incomplete.
    Partial,
}

impl Reader {
    /// Discards a reply that was not read to its end.
    pub(super) fn reset(&mut self) {
        self.held.clear();
        (self.state, self.body_bytes, self.received_bytes) = (State::Head, 0, 0);
    }

    /// Returns true while the body of a reply is read.
    pub(super) fn has_head(&self) -> bool {
        self.state != State::Head
    }

    /// Returns the head of the reply, after it has been received.
    pub(super) fn head(&self) -> Head {
        self.head
    }

    /// Handles the end of the connection. Returns the head if the end of the connection completes the reply.
    pub(super) fn close(&mut self) -> Option<Head> {
        (self.state == State::UntilClose).then_some(self.head)
    }

    /// Processes bytes, and passes the pieces of the body to `piece`. Bytes after a complete reply are an error, because requests are not
    /// pipelined.
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        wanted: &Inquiry<'_>,
        mut piece: impl FnMut(Head, &[u8]),
    ) -> Result<Progress, ErrorKind> {
        self.received_bytes += bytes.len() as u64;
        loop {
            match self.state {
                State::Head => {
                    let Some(rest) = self.take_head(bytes, wanted)? else {
                        return Ok(Progress::Partial);
                    };
                    bytes = rest;
                    if self.state == State::Body(0) {
                        return self.end(bytes);
                    }
                }
                State::Body(left) | State::Chunk(left) => {
                    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    let (body, rest) = bytes.split_at_checked(taken).unwrap_or((bytes, &[]));
                    if !body.is_empty() {
                        piece(self.head, body);
                    }
                    let left = left - body.len() as u64;
                    bytes = rest;
                    match (self.state, left) {
                        (State::Body(_), 0) => return self.end(bytes),
                        (State::Body(_), _) => self.state = State::Body(left),
                        (_, 0) => self.state = State::ChunkEnd,
                        _ => self.state = State::Chunk(left),
                    }
                }
                State::ChunkLine | State::ChunkEnd | State::Trailers => {
                    let Some(rest) = self.take_line(bytes)? else { return Ok(Progress::Partial) };
                    bytes = rest;
                    if self.state == State::Body(0) {
                        return self.end(bytes);
                    }
                }
                State::UntilClose => {
                    self.count_body(bytes.len() as u64)?;
                    piece(self.head, bytes);
                    return Ok(Progress::Partial);
                }
            }
            if bytes.is_empty() {
                return Ok(Progress::Partial);
            }
        }
    }

    fn end(&mut self, rest: &[u8]) -> Result<Progress, ErrorKind> {
        if !rest.is_empty() {
            return Err(ErrorKind::Protocol);
        }
        self.state = State::Head;
        self.body_bytes = 0;
        Ok(Progress::Whole(self.head))
    }

    fn count_body(&mut self, bytes: u64) -> Result<(), ErrorKind> {
        self.body_bytes = self.body_bytes.saturating_add(bytes);
        if self.body_bytes > BODY_BYTES_MAX { Err(ErrorKind::Protocol) } else { Ok(()) }
    }

    /// Parses a head and returns the bytes after it, or `None` if the head is incomplete. Heads of interim replies (1xx) are skipped.
    fn take_head<'b>(
        &mut self,
        mut bytes: &'b [u8],
        wanted: &Inquiry<'_>,
    ) -> Result<Option<&'b [u8]>, ErrorKind> {
        loop {
            let (head, rest) = if self.held.is_empty() {
                match split_head(bytes) {
                    Some((head, rest)) => (parse(head, wanted), rest),
                    None => return self.hold(bytes),
                }
            } else {
                let before = self.held.len();
                self.hold(bytes)?;
                let Some((head, rest)) = split_head(&self.held) else { return Ok(None) };
                let (end, head) = (self.held.len() - rest.len(), parse(head, wanted));
                self.held.clear();
                (head, bytes.get(end.saturating_sub(before)..).unwrap_or_default())
            };
            let (head, length) = head.ok_or(ErrorKind::Protocol)?;
            bytes = rest;
            if (100..200).contains(&head.status) && head.status != 101 {
                continue;
            }
            self.head = head;
            self.state = match length {
                Length::Bytes(bytes) => {
                    self.count_body(bytes)?;
                    State::Body(bytes)
                }
                Length::Chunks => State::ChunkLine,
                Length::UntilClose => State::UntilClose,
            };
            return Ok(Some(bytes));
        }
    }

    /// Keeps the beginning of a head.
    fn hold<'b>(&mut self, bytes: &[u8]) -> Result<Option<&'b [u8]>, ErrorKind> {
        if self.held.len() + bytes.len() > HEAD_BYTES_MAX + CHUNK_LINE_BYTES_MAX
            && split_head(bytes).is_none()
        {
            return Err(ErrorKind::Protocol);
        }
        self.held.extend_from_slice(bytes);
        Ok(None)
    }

    /// Parses a line of a chunked body and returns the bytes after it, or `None` if the line is incomplete.
    fn take_line<'b>(&mut self, bytes: &'b [u8]) -> Result<Option<&'b [u8]>, ErrorKind> {
        let Some(end) = memchr(b'\n', bytes) else {
            if self.held.len() + bytes.len() > CHUNK_LINE_BYTES_MAX {
                return Err(ErrorKind::Protocol);
            }
            self.held.extend_from_slice(bytes);
            return Ok(None);
        };
        let (line, rest) = bytes.split_at_checked(end + 1).unwrap_or((bytes, &[]));
        if self.held.len() + line.len() > CHUNK_LINE_BYTES_MAX {
            return Err(ErrorKind::Protocol);
        }
        self.state = if self.held.is_empty() {
            after_line(self.state, line)?
        } else {
            self.held.extend_from_slice(line);
            let state = after_line(self.state, &self.held)?;
            self.held.clear();
            state
        };
        if let State::Chunk(bytes) = self.state {
            self.count_body(bytes)?;
        }
        Ok(Some(rest))
    }
}

/// Returns the state after a line of a chunked body. `Body(0)` means that the reply is complete.
fn after_line(state: State, line: &[u8]) -> Result<State, ErrorKind> {
    let line = line.strip_suffix(b"\r\n").ok_or(ErrorKind::Protocol)?;
    match state {
        State::ChunkEnd if line.is_empty() => Ok(State::ChunkLine),
        State::Trailers if line.is_empty() => Ok(State::Body(0)),
        State::Trailers => Ok(State::Trailers),
        State::ChunkLine => {
            let digits = line.split(|byte| matches!(byte, b';' | b' ')).next().unwrap_or_default();
            match chunk_size(digits).ok_or(ErrorKind::Protocol)? {
                0 => Ok(State::Trailers),
                bytes => Ok(State::Chunk(bytes)),
            }
        }
        State::Head | State::Body(_) | State::Chunk(_) | State::ChunkEnd | State::UntilClose => {
            Err(ErrorKind::Protocol)
        }
    }
}

fn chunk_size(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0, |size: u64, &byte| {
        let digit = char::from(byte).to_digit(16)?;
        size.checked_mul(16)?.checked_add(digit.into())
    })
}

/// Returns the head with its empty line, and the rest.
fn split_head(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memmem::find(bytes, b"\r\n\r\n")?;
    if end > HEAD_BYTES_MAX {
        return None;
    }
    bytes.split_at_checked(end + 4)
}

enum Length {
    Bytes(u64),
    Chunks,
    UntilClose,
}

/// Parses a head. Returns `None` if it is not the head of an HTTP/1 reply.
fn parse(head: &[u8], wanted: &Inquiry<'_>) -> Option<(Head, Length)> {
    let minor = match head.get(..9)? {
        b"HTTP/1.1 " => 1,
        b"HTTP/1.0 " => 0,
        _ => return None,
    };
    let status = digits(head.get(9..12)?)?;
    let status = u16::try_from(status).ok().filter(|status| *status >= 100)?;
    let (mut length, mut is_chunked) = (None, false);
    let (mut is_gzip, mut closes, mut found) = (false, minor == 0, 0);
    let mut rest = head.get(memchr(b'\n', head)? + 1..)?;
    while let Some(end) = memchr(b'\n', rest) {
        let (line, after) = rest.split_at_checked(end + 1)?;
        rest = after;
        // The first letter rules out nearly all other headers.
        match line.first()? {
            b'c' | b'C' => {
                if let Some(value) = value_of(line, b"content-length") {
                    let value = digits(value)?;
                    if length.is_some_and(|length| length != value) {
                        return None;
                    }
                    length = Some(value);
                } else if let Some(value) = value_of(line, b"content-encoding") {
                    is_gzip = value.eq_ignore_ascii_case(b"gzip");
                } else if let Some(value) = value_of(line, b"connection") {
                    closes = value.eq_ignore_ascii_case(b"close")
                        || (closes && !value.eq_ignore_ascii_case(b"keep-alive"));
                }
            }
            b't' | b'T' => {
                if let Some(value) = value_of(line, b"transfer-encoding") {
                    if !value.eq_ignore_ascii_case(b"chunked") {
                        return None;
                    }
                    is_chunked = true;
                }
            }
            _ => {}
        }
        found += wanted
            .headers
            .iter()
            .filter(|(name, expected)| value_of(line, name.as_bytes()) == Some(expected.as_bytes()))
            .count();
    }
    let has_no_body = wanted.is_head || matches!(status, 100..=199 | 204 | 304);
    let length = match (has_no_body, is_chunked, length) {
        (true, _, _) => Length::Bytes(0),
        (_, true, _) => Length::Chunks,
        (_, _, Some(bytes)) => Length::Bytes(bytes),
        (_, _, None) => Length::UntilClose,
    };
    let closes = closes || matches!(length, Length::UntilClose);
    let has_expected = found >= wanted.headers.len();
    Some((Head { status, is_gzip, closes, has_expected }, length))
}

fn digits(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() || bytes.len() > 18 {
        return None;
    }
    bytes.iter().try_fold(0, |number: u64, byte| {
        byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0'))
    })
}

fn value_of<'l>(line: &'l [u8], name: &[u8]) -> Option<&'l [u8]> {
    let (start, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    start.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

#[cfg(test)]
mod tests;
