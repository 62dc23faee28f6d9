//! Replies to calls of gRPC that have to leave. A call goes on, since nobody knows whether its end is near; what has not ended when its
//! drain is over ends with a status.

use std::rc::Rc;
use std::task::{Context, Poll};

use fault::Fault;
use message::{Body, Fill, Reply, Source, Trailers};
use pipeline::Account;
use policy::GrpcEnd;
use telemetry::StreamKind;

use crate::accept::Connection;
use crate::stream_lifetime::StreamLifetime;

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
    connection: &Connection,
) -> Option<Rc<StreamLifetime>> {
    let call = account.ex.grpc.as_ref()?;
    let body = std::mem::take(&mut reply.body);
    let stay = Rc::new(StreamLifetime::begin(account, connection, StreamKind::Grpc));
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
