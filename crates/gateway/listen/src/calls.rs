//! Ends gRPC calls that have to leave (see `stream_lifetime`), before or after their reply has begun. Usually such a call may
//! still complete during its drain time, after which the gateway ends it with a status. A call that is silent for too long, or whose
//! client's credential has expired, gets no drain time.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use fault::Fault;
use message::{Body, Fill, Reply, Source, Trailers};
use pipeline::{Account, CallStart};
use plan::Route;
use policy::GrpcEnd;

use crate::connection::Connection;
use crate::pace::BodyProgress;
use crate::stream_lifetime::StreamLifetime;

/// The lifetime of an exchange that may be a gRPC call. It starts when it is first needed: when a call waits for its reply, or when the
/// reply is a stream.
pub(crate) struct CallLifetime<'c> {
    connection: &'c Connection,
    /// The progress of the request's body, if there is one.
    progress: OnceCell<BodyProgress>,
    begun: OnceCell<Rc<StreamLifetime>>,
}

impl CallLifetime<'_> {
    pub(crate) fn new(connection: &Connection) -> CallLifetime<'_> {
        CallLifetime { connection, progress: OnceCell::new(), begun: OnceCell::new() }
    }

    /// Stores the progress of the request's body, if the body is still arriving.
    pub(crate) fn begin_body(&self, progress: Option<BodyProgress>) {
        if let Some(progress) = progress {
            // Harmless: an exchange has only one body, so this is set only once.
            let _ = self.progress.set(progress);
        }
    }

    pub(crate) fn progress(&self) -> Option<&BodyProgress> {
        self.progress.get()
    }

    fn of(&self, route: &Arc<Route>, call: CallStart) -> &Rc<StreamLifetime> {
        self.begun.get_or_init(|| {
            let progress = self.progress.get().cloned();
            Rc::new(StreamLifetime::of_call(route, call, self.connection, progress))
        })
    }
}

impl pipeline::CallLifetime for CallLifetime<'_> {
    fn poll_over(&self, route: &Arc<Route>, call: CallStart, cx: &mut Context<'_>) -> Poll<Fault> {
        let stay = self.of(route, call);
        stay.poll_over(cx).map(|()| stay.cut())
    }
}

/// The body of a reply to a call.
struct CallBody {
    body: Body,
    stay: Rc<StreamLifetime>,
    end: Rc<GrpcEnd>,
}

/// Makes a call end with a status instead of a reset, and returns its lifetime. Returns `None` for the reply to anything else, which
/// does not change.
pub(crate) fn end_call_with_status(
    reply: &mut Reply,
    account: &Account,
    lifetime: &CallLifetime<'_>,
) -> Option<Rc<StreamLifetime>> {
    let (call, route) = (account.ex.grpc.as_ref()?, account.route()?);
    let body = std::mem::take(&mut reply.body);
    let stay = lifetime.of(route, CallStart::of(&account.ex)).clone();
    let call_body = CallBody { body, stay: stay.clone(), end: call.end.clone() };
    reply.body = Body::Stream(Box::new(call_body));
    Some(stay)
}

impl Source for CallBody {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        if self.stay.poll_over(cx).is_ready() {
            self.end.cut.replace(Some(self.stay.cut()));
        }
        let filled = self.body.poll_fill(cx, out);
        if filled.is_ready() {
            self.stay.moved();
        }
        filled
    }

    fn remaining(&self) -> Option<u64> {
        None
    }

    fn trailers(&mut self) -> Trailers {
        self.body.trailers()
    }
}
