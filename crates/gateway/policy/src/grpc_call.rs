//! An exchange that is a gRPC call: its dialect, its deadline, and its outcome.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use fault::{Fault, Kind};
use grpc::{Dialect, Outcome};
use kit::clock::{self, Instant};
use message::Headers;
use telemetry::OpenStream;

/// A gRPC call.
#[derive(Debug)]
pub struct GrpcCall {
    /// The dialect that the client uses.
    pub dialect: Dialect,
    /// The deadline that the client set (`grpc-timeout`), if any.
    pub deadline: Option<Instant>,
    /// The end of the call. It is complete once the whole reply has passed.
    pub end: Rc<GrpcEnd>,
    /// Counts the call as open. It is set once the route is known.
    pub open: Option<OpenStream>,
}

/// The end of a call.
#[derive(Debug, Default)]
pub struct GrpcEnd {
    pub outcome: Cell<Option<Outcome>>,
    /// The fault that ends the reply's body at its next poll, if the gateway cuts the call.
    pub cut: RefCell<Option<Fault>>,
    /// The fault that ended the reply's body. The client gets its status in the trailers.
    pub fault: RefCell<Option<Fault>>,
}

impl GrpcCall {
    /// Returns true once the deadline has passed.
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| clock::now() >= deadline)
    }

    /// Writes the remaining time until the deadline, for the next service. Fails if no time is left, so that no request is sent.
    pub fn send_on(&self, headers: &mut Headers) -> Result<(), Fault> {
        let Some(deadline) = self.deadline else { return Ok(()) };
        let left = deadline.saturating_duration_since(clock::now());
        if left.is_zero() {
            let cause = "the `grpc-timeout` has passed, and the request was not forwarded";
            return Err(Fault::new(Kind::DeadlineExceeded, cause));
        }
        headers.remove("grpc-timeout");
        headers.add_known("grpc-timeout", grpc::write_timeout(left).as_bytes());
        Ok(())
    }
}
