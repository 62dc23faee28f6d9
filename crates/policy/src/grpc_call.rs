//! An exchange that is a call of gRPC: its dialect, its deadline, and how it ended.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use fault::Fault;
use grpc::{Dialect, Outcome};
use kit::clock::{self, Instant};

/// A call of gRPC.
#[derive(Debug)]
pub struct GrpcCall {
    /// The dialect of the client.
    pub dialect: Dialect,
    /// When the client gives the call up (`grpc-timeout`). None: it waits for any time.
    pub deadline: Option<Instant>,
    /// The end of the call, which is known once the reply has passed.
    pub end: Rc<GrpcEnd>,
}

/// The end of a call.
#[derive(Debug, Default)]
pub struct GrpcEnd {
    pub outcome: Cell<Option<Outcome>>,
    /// The fault that ended the reply's body. The client got its status in the trailers.
    pub fault: RefCell<Option<Fault>>,
}

impl GrpcCall {
    /// True once the deadline has passed.
    pub fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| clock::now() >= deadline)
    }
}
