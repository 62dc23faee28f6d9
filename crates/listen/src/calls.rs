//! Calls of gRPC that have to leave, with a reply that has begun or before that. A call goes on, since nobody knows whether its end is
//! near; what has not ended when its drain is over ends with a status.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use fault::Fault;
use kit::clock::Instant;
use message::{Body, Fill, Reply, Source, Trailers};
use pipeline::Account;
use plan::Route;
use policy::GrpcEnd;

use crate::accept::Connection;
use crate::stream_lifetime::StreamLifetime;

/// The lifetime of an exchange that may be a call. It begins when a call has to wait for its reply.
pub(crate) struct CallLifetime<'c> {
    connection: &'c Connection,
    begun: OnceCell<Rc<StreamLifetime>>,
}

impl CallLifetime<'_> {
    pub(crate) fn new(connection: &Connection) -> CallLifetime<'_> {
        CallLifetime { connection, begun: OnceCell::new() }
    }

    fn of(&self, route: &Arc<Route>, started: Instant) -> &Rc<StreamLifetime> {
        self.begun.get_or_init(|| Rc::new(StreamLifetime::of_call(route, started, self.connection)))
    }
}

impl pipeline::CallLifetime for CallLifetime<'_> {
    fn poll_over(&self, route: &Arc<Route>, started: Instant, cx: &mut Context<'_>) -> Poll<Fault> {
        let stay = self.of(route, started);
        stay.poll_over(cx).map(|()| stay.cut())
    }
}

/// The body of a reply to a call.
struct CallBody {
    body: Body,
    stay: Rc<StreamLifetime>,
    end: Rc<GrpcEnd>,
}

/// Makes a call end by a status where it would be cut, and gives what its reply asks. Other replies without an announced end stay as they
/// are.
pub(crate) fn end_by_status(
    reply: &mut Reply,
    account: &Account,
    lifetime: &CallLifetime<'_>,
) -> Option<Rc<StreamLifetime>> {
    let (call, route) = (account.ex.grpc.as_ref()?, account.route()?);
    let body = std::mem::take(&mut reply.body);
    let stay = lifetime.of(route, account.ex.started).clone();
    let call_body = CallBody { body, stay: stay.clone(), end: call.end.clone() };
    reply.body = Body::Stream(Box::new(call_body));
    Some(stay)
}

impl Source for CallBody {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        if self.stay.poll_over(cx).is_ready() {
            self.end.cut.replace(Some(self.stay.cut()));
        }
        self.body.poll_fill(cx, out)
    }

    fn remaining(&self) -> Option<u64> {
        None
    }

    fn trailers(&mut self) -> Trailers {
        self.body.trailers()
    }
}
