//! Request heads.

use httparse::Status;

use crate::lines::{Slot, collect, header_error, line_end, offset, with_slots};
use crate::rules::{HeadCheck, Parts, check_request, within_limits};
use crate::target::TargetForm;
use crate::token::is_token;
use crate::{Error, Framing, Limits, Line, Span, Version};

/// A request head. Its spans point into the bytes it was parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// The offset of the body: the length of the head with the blank line at its end, and with an empty line that may precede it.
    pub head_len: usize,
    /// The method, as sent: methods are case-sensitive.
    pub method: Span,
    /// The target, as sent.
    pub target: Span,
    /// The form of the target.
    pub form: TargetForm,
    /// The path and query of the target. A target in origin form has nothing else. Empty for `*`, for CONNECT, and for an absolute target
    /// that ends with its authority, which means `/`.
    pub path: Span,
    /// The version.
    pub version: Version,
    /// The length of the body. Never [`Framing::UntilClose`].
    pub framing: Framing,
    /// Whether the client accepts another exchange on this connection.
    pub keep_alive: bool,
    /// Whether an upgrade is requested: by `Connection: upgrade` and an Upgrade header, in HTTP/1.1.
    pub upgrade: bool,
    /// Whether the client waits for a 100 before it sends its body.
    pub expect_continue: bool,
    /// `host[:port]`: the Host header. The authority of the target takes its place if an absolute target differs from it, and in HTTP/1.0
    /// if there is no Host.
    pub host: Option<Span>,
}

/// Parses a request head. Returns `None` if more bytes are needed. `lines` is cleared and filled.
///
/// The result for a prefix is either `None` or the result for the whole, so it does not matter how the bytes arrive.
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
    // White space after the version is refused by httparse, which expects a line end there.
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

/// Returns the number of bytes before the request line. Servers should ignore one empty line, which old clients send after a body (RFC
/// 9112, 2.2). No client sends more.
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

/// Returns the reason why the head cannot become valid, or `None` if it is only incomplete. The limits are checked first, so that a head
/// that exceeds one gets the same result however much of it was read.
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

/// Returns the bytes before the first white space or control character, and the rest.
fn word(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|&byte| byte <= b' ' || byte == 0x7f).unwrap_or(bytes.len());
    bytes.split_at_checked(end).unwrap_or((bytes, b""))
}

/// Returns the error for the bytes in place of a version, or `None` if more bytes are needed. An unsupported version, such as `HTTP/1.2`,
/// is distinguished from text that is not a version, such as `HTTP/01.1` and `http/1.1`. This requires the byte after the version.
fn version_error(bytes: &[u8]) -> Option<Error> {
    const FORM: &[u8] = b"HTTP/0.0";
    let fits = |(byte, form): (&u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        _ => byte == form,
    };
    // Harmless: a shorter text may still become a version, so only the bytes that have arrived are compared.
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
