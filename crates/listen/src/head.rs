//! Rules for a request's head on every wire, and the answer to one that breaks them.

use fault::{Fault, Kind};
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

/// Methods that are not a gateway's to serve.
pub(crate) fn refused_method(method: &[u8]) -> Result<(), Fault> {
    match http1::is_refused_method(method) {
        true => Err(Fault::new(Kind::MethodRefused, String::from_utf8_lossy(method))),
        false => Ok(()),
    }
}

/// The fault of bytes that are no request.
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
