//! Bodies and replies of the backends: one boxed body type, a bounded function to gather a body, and short constructors.

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;

pub(super) type Body = UnsyncBoxBody<Bytes, hyper::Error>;
pub(super) type Reply = Response<Body>;
pub(super) type WholeReply = Response<Bytes>;

pub(super) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

pub(super) fn reply(status: StatusCode, kind: HeaderValue, bytes: impl Into<Bytes>) -> Reply {
    whole_reply(status, kind, bytes).map(full)
}

/// Returns a reply with the reason why the request was not served.
pub(super) fn refusal(status: StatusCode, why: &str) -> Reply {
    whole_refusal(status, why).map(full)
}

/// Like [`reply`], for answers that are computed at once.
pub(super) fn whole_reply(
    status: StatusCode,
    kind: HeaderValue,
    bytes: impl Into<Bytes>,
) -> WholeReply {
    let mut reply = Response::new(bytes.into());
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, kind);
    reply
}

/// Like [`refusal`], for answers that are computed at once.
pub(super) fn whole_refusal(status: StatusCode, why: &str) -> WholeReply {
    whole_reply(status, TEXT, format!("{why}\n"))
}

/// Returns the whole body, or the reply to send if it is too large or incomplete.
pub(super) async fn gather(mut body: Incoming, bytes_max: usize) -> Result<Bytes, Reply> {
    let mut gathered = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| refusal(StatusCode::BAD_REQUEST, &format!("broken body: {error}")))?;
        let Some(bytes) = frame.data_ref() else { continue };
        if gathered.len() + bytes.len() > bytes_max {
            return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"));
        }
        gathered.extend_from_slice(bytes);
    }
    Ok(gathered.freeze())
}
