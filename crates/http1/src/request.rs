//! Request heads.

use httparse::Status;

use crate::lines::{Slot, collect, header_error, line_end, offset, with_slots};
use crate::rules::{HeadCheck, Parts, check_request, within_limits};
use crate::target::TargetForm;
use crate::token::is_token;
use crate::{Error, Framing, Limits, Line, Span, Version};

/// The longest registered method has 17 bytes. A longer word than this is not a method.
pub const METHOD_BYTES_MAX: usize = 32;

/// A request head. Its spans point into the bytes it was parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// Offset of the body: the length of the head, with its blank line and an empty line before it.
    pub head_len: usize,
    /// The method, as sent: methods are case-sensitive.
    pub method: Span,
    /// The target, as sent.
    pub target: Span,
    /// The form of the target.
    pub form: TargetForm,
    /// Path and query of the target: all of the origin form. Empty in `*`, of CONNECT, and if an absolute target ends with its
    /// authority (which means `/`).
    pub path: Span,
    /// The version.
    pub version: Version,
    /// The length of the body. Never [`Framing::UntilClose`].
    pub framing: Framing,
    /// True if the client will accept another exchange on this connection.
    pub keep_alive: bool,
    /// True if it requests an upgrade: `Connection: upgrade` and an Upgrade header, in HTTP/1.1.
    pub upgrade: bool,
    /// True if the client waits for a 100 before it sends its body.
    pub expect_continue: bool,
    /// `host[:port]`: the Host header, or in HTTP/1.0 without one the authority of the target.
    pub host: Option<Span>,
}

/// Parses a request head. None: more bytes are needed. `lines` is cleared and filled.
///
/// The answer to a prefix is None or the answer to the whole, so it does not matter how the bytes arrive.
pub fn parse_request(
    bytes: &[u8],
    limits: &Limits,
    lines: &mut Vec<Line>,
) -> Result<Option<RequestHead>, Error> {
    with_slots(limits, |slots| parse_into(bytes, limits, slots, lines))
}

#[inline]
fn parse_into<'b>(
    bytes: &'b [u8],
    limits: &Limits,
    slots: &mut [Slot<'b>],
    lines: &mut Vec<Line>,
) -> Result<Option<RequestHead>, Error> {
    lines.clear();
    let Some(skipped) = skip_empty_line(bytes)? else { return Ok(None) };
    let window = bytes.get(skipped..).unwrap_or_default();
    let window = window.get(..limits.head_bytes_max).unwrap_or(window);
    let mut found = httparse::Request::new(&mut []);
    let parsed = found.parse_with_uninit_headers(window, slots);
    let (Ok(Status::Complete(len)), Some(method), Some(target), Some(version)) =
        (parsed, found.method, found.path, found.version)
    else {
        return incomplete(parsed.err(), window, limits);
    };
    let (method, target) = (method.as_bytes(), target.as_bytes());
    let version = if version == 0 { Version::Http10 } else { Version::Http11 };
    within_limits(method.len(), target.len(), limits)?;
    // Method, space, target, space, version.
    let line = skipped + method.len() + 1 + target.len() + 1 + "HTTP/1.1".len();
    // White space after the version never gets here: httparse expects a line end there.
    let start = line_end(bytes, line).ok_or(Error::LineEnd)?;
    let end = collect(bytes, found.headers, start, lines)?;
    debug_assert_eq!(end, skipped + len);
    let target_start = offset(bytes, target);
    let parts = Parts {
        bytes,
        method: Span::new(skipped, skipped + method.len()),
        target: Span::new(target_start, target_start + target.len()),
        authority: None,
        version,
        lines,
    };
    let HeadCheck { form, path, framing, keep_alive, upgrade, expect_continue, host } =
        check_request(&parts, limits)?;
    Ok(Some(RequestHead {
        head_len: end,
        method: parts.method,
        target: parts.target,
        form,
        path,
        version,
        framing,
        keep_alive,
        upgrade,
        expect_continue: expect_continue && framing != Framing::None,
        host,
    }))
}

/// The number of bytes before the request line. RFC 9112 section 2.2 has servers ignore one empty line, which old clients send
/// after a body; no client sends more of them.
fn skip_empty_line(bytes: &[u8]) -> Result<Option<usize>, Error> {
    match bytes {
        [b'\r', b'\n', rest @ ..] => match rest.first() {
            None => Ok(None),
            Some(b'\r' | b'\n') => Err(Error::EmptyLines),
            Some(_) => Ok(Some(2)),
        },
        [] | [b'\r'] => Ok(None),
        [b'\r' | b'\n', ..] => Err(Error::EmptyLines),
        _ => Ok(Some(0)),
    }
}

/// The reason why there is no head yet, or never will be. The limits are checked first, so that a head that exceeds one gets
/// the same answer however much of it was read.
#[cold]
fn incomplete(
    error: Option<httparse::Error>,
    window: &[u8],
    limits: &Limits,
) -> Result<Option<RequestHead>, Error> {
    let (method, rest) = word(window);
    let spaced = is_token(method) && rest.starts_with(b" ");
    if !rest.is_empty() && !spaced {
        return Err(Error::Method);
    }
    let (target, version) = word(rest.get(1..).unwrap_or_default());
    within_limits(method.len(), target.len(), limits)?;
    let error = match error {
        Some(httparse::Error::Version) => version_error(version.get(1..).unwrap_or_default()),
        Some(httparse::Error::Token) if rest.is_empty() => Some(Error::Method),
        Some(httparse::Error::Token) => Some(Error::Target),
        Some(other) => Some(header_error(other)),
        None => None,
    };
    match error {
        Some(error) => Err(error),
        None if window.len() >= limits.head_bytes_max => Err(Error::HeadTooLarge),
        None => Ok(None),
    }
}

/// The bytes before the first white space or control character, and the rest.
fn word(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|&byte| byte <= b' ' || byte == 0x7f).unwrap_or(bytes.len());
    bytes.split_at_checked(end).unwrap_or((bytes, b""))
}

/// The error for the bytes in place of a version. A version that exists, or may one day, is told from anything else once the
/// next byte is there: `HTTP/1.2` is a version, `HTTP/01.1` and `http/1.1` are not. None: that byte has not come.
fn version_error(bytes: &[u8]) -> Option<Error> {
    const FORM: &[u8] = b"HTTP/0.0";
    let fits = |(byte, form): (&u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        _ => byte == form,
    };
    // Harmless: of what is shorter, all that is there has to fit.
    if bytes.iter().zip(FORM).all(fits) {
        match bytes.get(FORM.len()) {
            None => None,
            Some(b'\r' | b'\n') => Some(Error::Version),
            Some(_) => Some(Error::RequestLine),
        }
    } else {
        Some(Error::RequestLine)
    }
}
