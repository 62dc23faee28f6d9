//! The rules for a request's head that apply to every version. HTTP/1 and HTTP/2 both check method, target and lines here, so that neither
//! is parsed less strictly than the other.

use crate::fields::Fields;
use crate::target::{self, Target, TargetForm};
use crate::{Error, Framing, Limits, Line, Span, Version};

/// The maximum length of a method. The longest registered one has 17 bytes.
pub const METHOD_BYTES_MAX: usize = 32;

/// The parts of a request's head, which are all spans of `bytes`. The bytes of names and values have been checked: a name is a token, and a
/// value has no control characters.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The bytes of all spans.
    pub bytes: &'a [u8],
    /// The method, as sent.
    pub method: Span,
    /// The target, as sent: `:path` in HTTP/2.
    pub target: Span,
    /// `:authority` in HTTP/2, with the default port of its scheme. `None` in HTTP/1, where the authority is part of the target.
    pub authority: Option<(Span, &'static str)>,
    /// The version. The rules of 1.1 apply to HTTP/2.
    pub version: Version,
    /// The header lines, in order.
    pub lines: &'a [Line],
}

/// The result of checking a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadCheck {
    /// The form of the target.
    pub form: TargetForm,
    /// The path and query of the target. A target in origin form has nothing else. Empty for `*`, for CONNECT, and for an absolute target
    /// that ends with its authority, which means `/`.
    pub path: Span,
    /// The length of the body, in terms of HTTP/1. Never [`Framing::UntilClose`].
    pub framing: Framing,
    /// Whether the client accepts another exchange on this connection.
    pub keep_alive: bool,
    /// Whether an upgrade is requested: by `Connection: upgrade` and an Upgrade header, in HTTP/1.1.
    pub upgrade: bool,
    /// Whether the client waits for a 100 before it sends a body.
    pub expect_continue: bool,
    /// `host[:port]`: the Host header. The authority of the target takes its place if an absolute target differs from it, and in HTTP/1.0
    /// if there is no Host.
    pub host: Option<Span>,
}

/// Checks a head: one Host that agrees with the target, one length or one coding, one content type, a target that all servers interpret in
/// the same way, and no expectation other than `100-continue`. It checks all limits except the size of the head.
pub fn check_request(parts: &Parts<'_>, limits: &Limits) -> Result<HeadCheck, Error> {
    let Parts { bytes, method, target, version, lines, .. } = *parts;
    within_limits(method.len(), target.len(), limits)?;
    if lines.len() > limits.headers_max {
        return Err(Error::TooManyHeaders);
    }
    let read = target::read(method.of(bytes), target.of(bytes))?;
    let mut fields = Fields::default();
    for line in lines {
        fields.note_request(bytes, line)?;
    }
    Ok(HeadCheck {
        form: read.form,
        path: within(read.path, target),
        framing: fields.framing(version)?.unwrap_or(Framing::None),
        keep_alive: fields.keeps_alive(version),
        upgrade: fields.upgrades(version),
        expect_continue: fields.expect_continue && version == Version::Http11,
        host: host(parts, &read, &fields)?,
    })
}

pub(crate) fn within_limits(
    method_len: usize,
    target_len: usize,
    limits: &Limits,
) -> Result<(), Error> {
    if method_len > METHOD_BYTES_MAX {
        Err(Error::Method)
    } else if target_len > limits.target_bytes_max {
        Err(Error::TargetTooLong)
    } else {
        Ok(())
    }
}

/// Returns the host of the request. The authority of an absolute target overrides Host (RFC 9112, 3.2.2), and the recipient must replace
/// the header by it. In all other forms, the two must agree, since the gateway and the upstream may use different ones.
fn host(parts: &Parts<'_>, target: &Target, fields: &Fields) -> Result<Option<Span>, Error> {
    let named = target.authority.map(|span| (within(span, parts.target), target.port));
    match (fields.host, named.or(parts.authority)) {
        (None, _) if parts.version == Version::Http11 => Err(Error::HostMissing),
        (Some(host), Some((authority, port)))
            if !target::same_host(host.of(parts.bytes), authority.of(parts.bytes), port) =>
        {
            match target.form {
                TargetForm::Absolute => Ok(Some(authority)),
                TargetForm::Origin | TargetForm::Authority | TargetForm::Asterisk => {
                    Err(Error::HostMismatch)
                }
            }
        }
        (host, authority) => Ok(host.or(authority.map(|(span, _)| span))),
    }
}

/// Converts a span of the target to a span of the head.
fn within(span: Span, target: Span) -> Span {
    let start = target.start as usize;
    Span::new(start + span.start as usize, start + span.end as usize)
}
