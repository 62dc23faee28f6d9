//! Header lines: converts httparse's result to offsets, and checks the line ends.
//!
//! httparse finds names and values fast and refuses invalid ones, but accepts a bare LF as the end of a line. This module refuses that by
//! checking the bytes after each value.

use std::mem::MaybeUninit;

use httparse::Header;

use crate::{Error, Limits, Line, Span};

/// The number of header slots on the stack, which is the default of [`Limits::headers_max`].
const SLOTS: usize = 128;

/// The storage for one header, in the form that httparse needs.
pub(crate) type Slot<'b> = MaybeUninit<Header<'b>>;

/// Parses a block of header lines that has no blank line at its end, such as trailers.
pub fn parse_lines(bytes: &[u8], limits: &Limits, lines: &mut Vec<Line>) -> Result<(), Error> {
    lines.clear();
    if bytes.len() > limits.head_bytes_max {
        return Err(Error::HeadTooLarge);
    }
    // httparse needs a blank line at the end. Such blocks are rare, so a copy is acceptable and avoids a second parser.
    let mut block = Vec::with_capacity(bytes.len() + 2);
    block.extend_from_slice(bytes);
    block.extend_from_slice(b"\r\n");
    let mut headers = vec![httparse::EMPTY_HEADER; limits.headers_max];
    match httparse::parse_headers(&block, &mut headers).map_err(header_error)? {
        httparse::Status::Complete((end, headers)) if end == block.len() => {
            collect(&block, headers, 0, lines)?;
            Ok(())
        }
        // The block has a blank line inside, or its last line is incomplete.
        httparse::Status::Complete(_) | httparse::Status::Partial => Err(Error::LineEnd),
    }
}

/// Fills `lines` from parsed headers, the first of which starts at `start`. Checks that each line and the head itself end in CR
/// LF. Returns the end of the head.
#[inline]
pub(crate) fn collect(
    bytes: &[u8],
    headers: &[Header<'_>],
    start: usize,
    lines: &mut Vec<Line>,
) -> Result<usize, Error> {
    let mut at = start;
    lines.reserve(headers.len());
    for header in headers {
        let name = offset(bytes, header.name.as_bytes());
        let value = offset(bytes, header.value);
        let value_end = value + header.value.len();
        let end = line_end(bytes, value_end).ok_or(Error::LineEnd)?;
        lines.push(Line {
            line: Span::new(at, end),
            name: Span::new(name, name + header.name.len()),
            value: Span::new(value, value_end),
        });
        at = end;
    }
    line_end(bytes, at).ok_or(Error::LineEnd)
}

/// Parses with slots on the stack. If a head has more lines, parses again with as many slots as the limit allows.
#[inline]
pub(crate) fn with_slots<'b, T>(
    limits: &Limits,
    mut parse: impl FnMut(&mut [Slot<'b>]) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut near = [const { Slot::uninit() }; SLOTS];
    let few = limits.headers_max.min(SLOTS);
    // Harmless: `few` is at most the number of slots, so the range is valid.
    let parsed = parse(near.get_mut(..few).unwrap_or_default());
    if matches!(parsed, Err(Error::TooManyHeaders)) && few < limits.headers_max {
        let mut far = Vec::new();
        far.resize_with(limits.headers_max, Slot::uninit);
        return parse(&mut far);
    }
    parsed
}

/// Returns the end of the line whose content ends at `at`. Returns `None` unless exactly CR LF follows, after optional white space.
#[inline]
pub(crate) fn line_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = bytes.get(at..)?;
    if let [b'\r', b'\n', ..] = rest {
        return Some(at + 2);
    }
    let blank = rest.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count();
    rest.get(blank..)?.starts_with(b"\r\n").then_some(at + blank + 2)
}

/// Returns the offset of `part`, which is a slice of `bytes`.
#[inline]
pub(crate) fn offset(bytes: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr())
}

/// Translates an error in the header lines.
pub(crate) fn header_error(error: httparse::Error) -> Error {
    match error {
        httparse::Error::HeaderName => Error::HeaderName,
        httparse::Error::HeaderValue => Error::HeaderValue,
        httparse::Error::TooManyHeaders => Error::TooManyHeaders,
        httparse::Error::NewLine
        | httparse::Error::Status
        | httparse::Error::Token
        | httparse::Error::Version => Error::LineEnd,
    }
}
