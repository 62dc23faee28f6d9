//! An exchange that is a call of gRPC: its dialect, its deadline, and how it ended.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use fault::{Fault, Kind};
use grpc::{Dialect, Outcome};
use kit::clock::{self, Instant};
use message::Headers;
use telemetry::OpenStream;

/// A call of gRPC.
#[derive(Debug)]
pub struct GrpcCall {
    /// The dialect of the client.
    pub dialect: Dialect,
    /// When the client gives the call up (`grpc-timeout`). None: it waits for any time.
    pub deadline: Option<Instant>,
    /// The end of the call, which is known once the reply has passed.
    pub end: Rc<GrpcEnd>,
    /// It is counted as open once its route is known.
    pub open: Option<OpenStream>,
}

/// The end of a call.
#[derive(Debug, Default)]
pub struct GrpcEnd {
    pub outcome: Cell<Option<Outcome>>,
    /// The fault that is to end the reply's body, if somebody cuts the call.
    pub cut: RefCell<Option<Fault>>,
    /// The fault that ended the reply's body. The client got its status in the trailers.
    pub fault: RefCell<Option<Fault>>,
}

impl GrpcCall {
    /// True once the deadline has passed.
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| clock::now() >= deadline)
    }

    /// Writes the time that is left of its deadline, for the next service. A call of which none is left is not worth a request.
    pub fn send_on(&self, headers: &mut Headers) -> Result<(), Fault> {
        let Some(deadline) = self.deadline else { return Ok(()) };
        let left = deadline.saturating_duration_since(clock::now());
        if left.is_zero() {
            let cause = "its `grpc-timeout` is over, and it was not sent on";
            return Err(Fault::new(Kind::DeadlineExceeded, cause));
        }
        headers.remove("grpc-timeout");
        headers.add_known("grpc-timeout", grpc::write_timeout(left).as_bytes());
        Ok(())
    }
}
