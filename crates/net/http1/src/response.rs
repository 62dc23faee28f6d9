//! Response heads.

use httparse::Status;

use crate::fields::Fields;
use crate::lines::{Slot, collect, header_error, line_end, with_slots};
use crate::{Error, Framing, Limits, Line, Span, Version};

/// The request's method, as far as it affects the framing of the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MethodKind {
    /// The request was a HEAD.
    pub head: bool,
    /// The request was a CONNECT.
    pub connect: bool,
}

/// A response head. Its spans point into the bytes it was parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The offset of the body.
    pub head_len: usize,
    /// The status, 100 to 999.
    pub status: u16,
    /// The reason phrase, often empty.
    pub reason: Span,
    /// The version.
    pub version: Version,
    /// The length of the body.
    pub framing: Framing,
    /// Whether the connection can carry another exchange after the body.
    pub keep_alive: bool,
    /// Whether the protocol changes here (status 101).
    pub upgrade: bool,
}

/// Parses a response head. Returns `None` if more bytes are needed. `lines` is cleared and filled. An interim response (1xx) is a head like
/// any other, without a body.
pub fn parse_response(
    bytes: &[u8],
    limits: &Limits,
    asked: MethodKind,
    lines: &mut Vec<Line>,
) -> Result<Option<ResponseHead>, Error> {
    with_slots(limits, |slots| parse_into(bytes, limits, asked, slots, lines))
}

#[inline]
fn parse_into<'b>(
    bytes: &'b [u8],
    limits: &Limits,
    asked: MethodKind,
    slots: &mut [Slot<'b>],
    lines: &mut Vec<Line>,
) -> Result<Option<ResponseHead>, Error> {
    lines.clear();
    // Empty lines before a status line are the rest of a body that was longer than announced.
    if matches!(bytes, [b'\r' | b'\n', ..]) {
        return Err(Error::EmptyLines);
    }
    let window = bytes.get(..limits.head_bytes_max).unwrap_or(bytes);
    let mut found = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default()
        .parse_response_with_uninit_headers(&mut found, window, slots);
    let (Ok(Status::Complete(_)), Some(status), Some(version)) =
        (parsed, found.code, found.version)
    else {
        return incomplete(parsed.err(), window, limits);
    };
    let version = if version == 0 { Version::Http10 } else { Version::Http11 };
    let (reason, start) = reason(bytes)?;
    let head_len = collect(bytes, found.headers, start, lines)?;
    if status < 100 {
        return Err(Error::StatusLine);
    }
    let mut fields = Fields::default();
    for line in lines.iter() {
        fields.note_response(bytes, line)?;
    }
    let framing = framing(status, asked, fields.framing(version)?);
    let keep_alive = fields.keeps_alive(version) && framing != Framing::UntilClose;
    let upgrade = status == 101;
    Ok(Some(ResponseHead { head_len, status, reason, version, framing, keep_alive, upgrade }))
}

/// Returns the framing (RFC 9112, 6.3). Rules 1 and 2 override the headers, and the last rule applies if the headers declare none.
fn framing(status: u16, asked: MethodKind, declared: Option<Framing>) -> Framing {
    let bodiless = matches!(status, 100..=199 | 204 | 304);
    let tunnel = asked.connect && matches!(status, 200..=299);
    if bodiless || tunnel || asked.head {
        Framing::None
    } else {
        declared.unwrap_or(Framing::UntilClose)
    }
}

/// Returns the reason phrase, and the end of the status line.
fn reason(bytes: &[u8]) -> Result<(Span, usize), Error> {
    // Version, space, status; then a space and a reason, or nothing.
    let start = "HTTP/1.1 200".len();
    let rest = bytes.get(start..).unwrap_or_default();
    let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    let text = rest.get(..length).and_then(|line| line.strip_suffix(b"\r")).unwrap_or(b"");
    let end = line_end(bytes, start + text.len()).ok_or(Error::LineEnd)?;
    let space = usize::from(!text.is_empty());
    Ok((Span::new(start + space, start + text.len()), end))
}

#[cold]
fn incomplete(
    error: Option<httparse::Error>,
    window: &[u8],
    limits: &Limits,
) -> Result<Option<ResponseHead>, Error> {
    match error {
        None if window.len() >= limits.head_bytes_max => Err(Error::HeadTooLarge),
        None => Ok(None),
        Some(
            httparse::Error::Version
            | httparse::Error::Status
            | httparse::Error::Token
            | httparse::Error::NewLine,
        ) => Err(Error::StatusLine),
        Some(
            other @ (httparse::Error::HeaderName
            | httparse::Error::HeaderValue
            | httparse::Error::TooManyHeaders),
        ) => Err(header_error(other)),
    }
}
