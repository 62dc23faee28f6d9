//! gRPC calls: how they are recognised, how faults are reported to their clients, and how they end.
//!
//! A gRPC client ignores the HTTP status and the body of an error. A fault before the reply becomes a trailers-only reply, whose head has
//! the status. A fault in the reply's body is reported in the trailers.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use fault::{Fault, Kind};
use grpc::{Dialect, Outcome, Status};
use kit::clock::Instant;
use message::{Body, Fill, Reply, RequestHead, Source, Trailers};
use plan::Route;
use policy::{Exchange, GrpcCall, GrpcEnd};
use telemetry::{OpenStream, StreamKind};

/// Records the call, if the request is one.
pub(crate) fn arrive(ex: &mut Exchange, head: &RequestHead) -> Result<(), Fault> {
    if head.method() != b"POST" {
        return Ok(());
    }
    let Some(mut call) = of_type(head.headers.get("content-type")) else { return Ok(()) };
    let mut timeouts = head.headers.get_all("grpc-timeout");
    let read = match (timeouts.next(), timeouts.next()) {
        (None, _) => Ok(None),
        (Some(timeout), None) => grpc::read_timeout(timeout).map(Some),
        (Some(_), Some(_)) => Err(grpc::InvalidTimeout),
    };
    // Harmless: an error is refused below.
    if let Ok(Some(time)) = read {
        call.deadline = ex.started.checked_add(time);
    }
    ex.grpc = Some(Box::new(call));
    let refused = |_| {
        let detail = "`grpc-timeout` must be one to eight digits and a unit.";
        Fault::with_detail(Kind::RequestInvalid, "the `grpc-timeout` is not valid", detail)
    };
    read.map(|_| ()).map_err(refused)
}

/// Returns a call in the dialect of a content type, or `None` if the type is not one of gRPC.
pub(crate) fn of_type(content_type: Option<&[u8]>) -> Option<GrpcCall> {
    let (dialect, _) = content_type.and_then(Dialect::of)?;
    Some(GrpcCall { dialect, deadline: None, end: Rc::default(), open: None })
}

/// The lifetime of a gRPC call, which the caller of `serve` manages.
pub trait CallLifetime {
    /// Becomes ready, with the reason, when the call on this route has to be cut.
    fn poll_over(&self, route: &Arc<Route>, call: CallStart, cx: &mut Context<'_>) -> Poll<Fault>;
}

/// The properties of a call that limit its duration.
#[derive(Debug, Clone, Copy)]
pub struct CallStart {
    pub started: Instant,
    /// When the client's credential expires, in seconds since the Unix epoch, if it does.
    pub expires: Option<u64>,
}

impl CallStart {
    pub fn of(ex: &Exchange) -> CallStart {
        let expires = ex.identity.as_ref().and_then(|identity| identity.expires);
        CallStart { started: ex.started, expires }
    }
}

/// Waits for the answer to an exchange on this route. If a gRPC call has to be cut before its reply begins, returns that fault. The future
/// is passed pinned, since it would otherwise be copied for every exchange.
pub(crate) fn unless_over<T>(
    mut answering: Pin<&mut impl Future<Output = Result<T, Fault>>>,
    route: &Arc<Route>,
    call: Option<CallStart>,
    lifetime: &dyn CallLifetime,
) -> impl Future<Output = Result<T, Fault>> {
    poll_fn(move |cx| {
        let polled = answering.as_mut().poll(cx);
        match call {
            Some(call) if polled.is_pending() => lifetime.poll_over(route, call, cx).map(Err),
            _ => polled,
        }
    })
}

/// Counts the call as open on this route.
pub(crate) fn count(ex: &mut Exchange, route: &Route) {
    let worker = ex.caller.worker;
    if let Some(call) = &mut ex.grpc {
        call.open = Some(OpenStream::begin(&route.metrics, worker, StreamKind::Grpc));
    }
}

/// The reply for a fault: a head without a body, which clients read as trailers.
pub(crate) fn reply(call: &GrpcCall, fault: &Fault) -> Reply {
    let status = status(fault);
    call.end.outcome.set(Some(Outcome::Status(status)));
    let mut reply = Reply::new(200, Body::Empty);
    let lines = &mut reply.head.headers;
    lines.add_known("Content-Type", call.dialect.of_empty_reply().as_bytes());
    lines.add_known("grpc-status", status.code().as_bytes());
    lines.add_known("grpc-message", grpc::encode_message(text(fault)).as_bytes());
    reply
}

/// Turns an upstream's timeout into `DeadlineExceeded` if the client's deadline has passed, because the client chose that deadline. Returns
/// any other fault unchanged.
pub(crate) fn blamed(deadline: Option<Instant>, fault: Fault) -> Fault {
    let late = matches!(fault.kind, Kind::UpstreamTimeout | Kind::ConnectTimeout);
    if late && deadline.is_some_and(|deadline| kit::clock::now() >= deadline) {
        Fault { kind: Kind::DeadlineExceeded, ..fault }
    } else {
        fault
    }
}

fn status(fault: &Fault) -> Status {
    let own = fault.more.as_ref().and_then(|more| more.status);
    match own.filter(|own| *own != fault.kind.status()) {
        Some(own) => Status::of_http(own),
        None => fault.kind.grpc(),
    }
}

fn text(fault: &Fault) -> &str {
    fault.detail.as_deref().unwrap_or(fault.kind.title())
}

/// Watches the end of a reply: records its status, and reports a fault of its body to the client.
pub(crate) fn watch(ex: &Exchange, reply: &mut Reply) {
    let Some(call) = &ex.grpc else { return };
    let head = &mut reply.head;
    if let Some(value) = head.headers.get("grpc-status") {
        return call.end.outcome.set(Some(Outcome::of(value)));
    }
    let is_call = head.headers.get("content-type").is_some_and(|of| Dialect::of(of).is_some());
    if !is_call || reply.body.is_empty() {
        return;
    }
    // If the body ends early, with trailers, it does not have this length.
    head.headers.remove("content-length");
    let (end, deadline) = (call.end.clone(), call.deadline);
    let inner = std::mem::take(&mut reply.body);
    reply.body = Body::Stream(Box::new(WatchedBody { inner, end, deadline, told: None }));
}

/// The body of the reply to a call, which records the outcome and turns a fault into trailers.
struct WatchedBody {
    inner: Body,
    end: Rc<GrpcEnd>,
    deadline: Option<Instant>,
    /// The trailers that report a fault of the body.
    told: Option<Trailers>,
}

impl WatchedBody {
    fn tell(&mut self, fault: Fault) {
        let status = status(&fault);
        let (code, text) = (status.code(), grpc::encode_message(text(&fault)));
        self.told = Some(format!("grpc-status: {code}\r\ngrpc-message: {text}\r\n").into_bytes());
        self.end.outcome.set(Some(Outcome::Status(status)));
        *self.end.fault.borrow_mut() = Some(fault);
        self.inner = Body::Empty;
    }
}

impl Source for WatchedBody {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        if let Some(fault) = self.end.cut.take() {
            self.tell(fault);
            return Poll::Ready(Ok(Fill::End));
        }
        match ready!(self.inner.poll_fill(cx, out)) {
            Ok(fill) => Poll::Ready(Ok(fill)),
            // The client is gone, so nothing can be reported.
            Err(fault) if fault.kind == Kind::ClientGone => Poll::Ready(Err(fault)),
            Err(fault) => {
                self.tell(blamed(self.deadline, fault));
                Poll::Ready(Ok(Fill::End))
            }
        }
    }

    fn remaining(&self) -> Option<u64> {
        None
    }

    fn trailers(&mut self) -> Trailers {
        if let Some(told) = self.told.take() {
            return told;
        }
        let trailers = self.inner.trailers();
        if let Some(outcome) = Outcome::in_trailers(&trailers) {
            self.end.outcome.set(Some(outcome));
        }
        trailers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::clock;
    use message::Protocol;
    use policy::{Caller, Scheme};
    use std::time::Duration;

    fn exchange() -> Exchange {
        let peer = "192.0.2.1:1".parse().unwrap();
        Exchange::new(Caller::new(peer, peer, Scheme::Http, 0).into(), Default::default())
    }

    fn arrived(lines: &[(&str, &str)]) -> (Exchange, Result<(), Fault>) {
        let mut head = RequestHead::new(Protocol::Http2, b"POST", b"/a.B/C");
        for (name, value) in lines {
            head.headers.add(name, value.as_bytes()).unwrap();
        }
        let mut ex = exchange();
        let arrived = arrive(&mut ex, &head);
        (ex, arrived)
    }

    #[test]
    fn the_deadline_is_read_from_grpc_timeout() {
        let (ex, arrived_well) =
            arrived(&[("content-type", "application/grpc+proto"), ("grpc-timeout", "250m")]);
        assert!(arrived_well.is_ok());
        let call = ex.grpc.as_ref().unwrap();
        assert_eq!(call.deadline, ex.started.checked_add(Duration::from_millis(250)));
        let (ex, _) = arrived(&[("content-type", "application/json"), ("grpc-timeout", "x")]);
        assert!(ex.grpc.is_none());
        for lines in [&["1"][..], &["x"], &["1S", "2S"], &[""]] {
            let mut all = vec![("content-type", "application/grpc")];
            all.extend(lines.iter().map(|line| ("grpc-timeout", *line)));
            let (ex, refused) = arrived(&all);
            assert_eq!(refused.unwrap_err().kind, Kind::RequestInvalid, "{lines:?}");
            assert!(ex.grpc.is_some(), "the fault is reported as that of a call");
        }
    }

    #[test]
    fn only_a_passed_deadline_replaces_an_upstream_timeout() {
        let fault = || Fault::new(Kind::UpstreamTimeout, "x");
        let now = clock::now();
        assert_eq!(blamed(None, fault()).kind, Kind::UpstreamTimeout);
        assert_eq!(blamed(Some(now), fault()).kind, Kind::DeadlineExceeded);
        let later = now.checked_add(Duration::from_secs(60));
        assert_eq!(blamed(later, fault()).kind, Kind::UpstreamTimeout);
        let reset = Fault::new(Kind::UpstreamReset, "x");
        assert_eq!(blamed(Some(now), reset).kind, Kind::UpstreamReset);
    }
}
