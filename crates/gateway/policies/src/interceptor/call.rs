//! Makes one call to an interceptor, within its timeout and its size limit.

use bytes::Bytes;
use fault::{Fault, Kind};
use kit::clock;
use message::{Body, Protocol, Reply, Request, RequestHead};
use policy::Exchange;

use super::Service;

/// The number of bytes that an answer may have in addition to its body, for headers and trailers.
const REST_BYTES_MAX: usize = 256 * 1024;

/// Returns the head that all calls of one side share.
pub(super) fn head(path: &[u8]) -> RequestHead {
    let mut head = RequestHead::new(Protocol::Http11, b"POST", path);
    head.headers.add_known("Content-Type", b"application/json");
    head.headers.add_known("Accept", b"application/json");
    head
}

/// Returns the answer's body, or `None` if the service wants no change.
pub(super) async fn call(
    service: &Service,
    ex: &Exchange,
    call: &RequestHead,
    told: Vec<u8>,
) -> Result<Option<Bytes>, Fault> {
    let request = Request { head: call.clone(), body: Body::whole(told.into()) };
    let call = ex.additional_call(clock::now().checked_add(service.timeout));
    let reply = service.fetch.fetch(call, request).await.map_err(failed)?;
    let Reply { head, body, .. } = reply;
    // Base64 encodes three bytes as four.
    let bytes_max = service.body_bytes_max.saturating_mul(4) / 3 + REST_BYTES_MAX;
    let waiting = matches!(body, Body::Stream(_)).then(|| ex.totals.upstream_wait.begin());
    let bytes = body.gather(bytes_max, Kind::ReplyTooLarge).await.map_err(failed)?;
    drop(waiting);
    match head.status {
        200 => Ok(Some(bytes)),
        204 => Ok(None),
        status => Err(Fault::with_detail(
            Kind::InterceptorFailed,
            format!("the interceptor answered with status {status}"),
            "The interceptor service refused the call",
        )),
    }
}

/// Converts any fault of the call into a failure of the interceptor, as opposed to the upstream.
pub(super) fn failed(fault: Fault) -> Fault {
    let late = matches!(fault.kind, Kind::UpstreamTimeout | Kind::ConnectTimeout);
    let detail = if fault.kind == Kind::ReplyTooLarge {
        "The answer of the interceptor service is too large"
    } else if late {
        "The interceptor service took too long"
    } else {
        "The interceptor service could not be called"
    };
    Fault::with_detail(Kind::InterceptorFailed, format!("interceptor: {fault}"), detail)
}
