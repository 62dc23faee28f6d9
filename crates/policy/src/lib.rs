//! The contract between the pipeline and the policies.
//!
//! The shape of a step is its cost: a step cannot touch more than its variant hands it, so nothing waits, copies or
//! buffers by accident. Policies never see sockets, plans or each other.
#![forbid(unsafe_code)]

mod exchange;
mod step;

pub use exchange::{Caller, Exchange, Parameters, REQUEST_ID_BYTES_MAX, RequestId, Scheme};
pub use step::{Flow, Frames, OnCall, OnFrames, OnHead, OnWhole, Onward, Policy, Step};
