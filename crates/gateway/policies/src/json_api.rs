//! What policies share that offer a service of another protocol as a JSON API.

use fault::{Fault, Kind};
use message::Headers;

/// Refuses a body that is not JSON. A body without a content type is treated as JSON.
pub(crate) fn require_json(headers: &Headers, body: &[u8]) -> Result<(), Fault> {
    let unsupported = |what: &str| {
        let detail = "Send JSON, as `application/json`, without a content coding.";
        Fault::with_detail(Kind::MediaTypeUnsupported, what, detail)
    };
    if body.is_empty() {
        return Ok(());
    }
    if headers.get("content-encoding").is_some_and(|value| !value.eq_ignore_ascii_case(b"identity"))
    {
        return Err(unsupported("the body is encoded"));
    }
    let Some(value) = headers.get("content-type") else { return Ok(()) };
    if message::is_json(message::media_type(value)) {
        Ok(())
    } else {
        Err(unsupported("the content type is not JSON"))
    }
}

/// Returns the fault for a body that the operation does not take.
#[cold]
pub(crate) fn no_body() -> Fault {
    let text = "/: the operation takes parameters and no body";
    Fault::new(Kind::RequestInvalid, text).with_errors(vec![text.into()])
}

/// Returns the fault for a path that no operation has.
#[cold]
pub(crate) fn no_such_path() -> Fault {
    let cause = "no operation has this path";
    Fault::with_detail(Kind::PathUnknown, cause, "There is no such operation.")
}

/// Returns the fault for a path whose operations have other methods.
#[cold]
pub(crate) fn not_allowed(methods: &str) -> Fault {
    Fault::new(Kind::MethodNotAllowed, format!("the operation takes {methods}"))
        .with_header("Allow", methods)
}
