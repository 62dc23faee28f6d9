//! One call of an interceptor: sent, awaited within its deadline, read within its bound.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use fault::{Fault, Kind};
use kit::clock;
use message::{Body, Protocol, Reply, Request, RequestHead};
use policy::{Caller, Exchange, RequestId};

use super::Service;

/// What an answer may say beside its body: headers and trailers of another message, of ordinary size.
const REST_BYTES_MAX: usize = 256 * 1024;

/// The head of every call of one side, but for its id.
pub(super) fn head(path: &[u8]) -> RequestHead {
    let mut head = RequestHead::new(Protocol::Http11, b"POST", path);
    head.headers.add_known("Content-Type", b"application/json");
    head.headers.add_known("Accept", b"application/json");
    head
}

/// The answer's body, or nothing where the service wants no change.
pub(super) async fn call(
    service: &Service,
    ex: &Exchange,
    call: &RequestHead,
    told: Vec<u8>,
) -> Result<Option<Bytes>, Fault> {
    // The exchange waits for nothing else meanwhile, so its alarm is free.
    let alarm = &ex.alarm;
    alarm.borrow_mut().set(clock::now(), service.timeout);
    let mut asking = pin!(ask(service, &ex.caller, &ex.id, call, told));
    let answered = poll_fn(|cx| match asking.as_mut().poll(cx) {
        Poll::Ready(answered) => Poll::Ready(Some(answered)),
        Poll::Pending => alarm.borrow_mut().poll(cx).map(|()| None),
    });
    let answered = answered.await;
    alarm.borrow_mut().clear();
    answered.unwrap_or_else(|| Err(late(service.timeout)))
}

async fn ask(
    service: &Service,
    caller: &Rc<Caller>,
    id: &RequestId,
    call: &RequestHead,
    told: Vec<u8>,
) -> Result<Option<Bytes>, Fault> {
    let mut head = call.clone();
    head.headers.add_known("X-Request-Id", id.as_bytes());
    let request = Request { head, body: Body::whole(told.into()) };
    let reply = service.fetch.fetch(caller, request).await.map_err(failed)?;
    let Reply { head, body, .. } = reply;
    // Base64 takes four bytes for three.
    let bytes_max = service.body_bytes_max.saturating_mul(4) / 3 + REST_BYTES_MAX;
    let bytes = body.gather(bytes_max, Kind::ReplyTooLarge).await.map_err(failed)?;
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

/// Whatever went wrong with the call is the interceptor's failure, not the upstream's.
pub(super) fn failed(fault: Fault) -> Fault {
    let late = matches!(fault.kind, Kind::UpstreamTimeout | Kind::ConnectTimeout);
    let detail = match fault.kind == Kind::ReplyTooLarge {
        true => "The interceptor service answered with too much",
        false if late => "The interceptor service took too long",
        false => "The interceptor service could not be asked",
    };
    Fault::with_detail(Kind::InterceptorFailed, format!("interceptor: {fault}"), detail)
}

fn late(timeout: Duration) -> Fault {
    Fault::with_detail(
        Kind::InterceptorFailed,
        format!("the interceptor did not answer within {timeout:?}"),
        "The interceptor service took too long",
    )
}
