//! The rules for a request's head that HTTP/1 and HTTP/2 share, and the faults of heads that break them.

use fault::{Fault, Kind};
use http1::{TargetForm, Version};
use message::{Headers, Protocol, RequestHead};
use plan::Listener;

/// The limits of a head at this listener.
pub(crate) fn limits(listener: &Listener) -> http1::Limits {
    let limits = &listener.limits;
    http1::Limits {
        head_bytes_max: limits.head_bytes_max,
        target_bytes_max: limits.target_bytes_max,
        headers_max: limits.headers_max,
    }
}

/// Refuses methods that a gateway must not serve.
pub(crate) fn refused_method(method: &[u8]) -> Result<(), Fault> {
    if http1::is_refused_method(method) {
        // Harmless: a method is a token.
        Err(Fault::new(Kind::MethodRefused, String::from_utf8_lossy(method)))
    } else {
        Ok(())
    }
}

/// The fault for bytes that are not a valid request.
pub(crate) fn refusal(error: &http1::Error) -> Fault {
    let kind = match error.status() {
        414 => Kind::TargetTooLong,
        417 => Kind::ExpectationFailed,
        431 => Kind::HeadTooLarge,
        501 => Kind::NotImplemented,
        505 => Kind::VersionUnsupported,
        _ => Kind::Malformed,
    };
    let detail = error.to_string();
    Fault::with_detail(kind, detail.as_str(), &detail)
}

/// True if the first line names HTTP, even if it is invalid.
pub(crate) fn names_http(input: &[u8]) -> bool {
    let line = input.split(|b| *b == b'\n').next().unwrap_or_default();
    line.windows(5).any(|part| part.eq_ignore_ascii_case(b"HTTP/"))
}

/// Converts the head to origin form. The authority of an absolute target becomes the host (RFC 9112, 3.2.2), even if an HTTP/1.0 client
/// sent no `Host`.
pub(crate) fn request_head(
    parsed: &http1::RequestHead,
    headers: Headers,
    host: &[u8],
) -> RequestHead {
    let protocol = match parsed.version {
        Version::Http10 => Protocol::Http10,
        Version::Http11 => Protocol::Http11,
    };
    let target = if parsed.form == TargetForm::Absolute { parsed.path } else { parsed.target };
    let mut head = RequestHead::parsed(headers, protocol, parsed.method, target);
    if parsed.form == TargetForm::Absolute && head.path().is_empty() {
        head.set_path(b"/");
    }
    if parsed.form == TargetForm::Absolute && head.headers.get("host") != Some(host) {
        head.headers.remove("host");
        head.headers.add_known("Host", host);
    }
    head
}
