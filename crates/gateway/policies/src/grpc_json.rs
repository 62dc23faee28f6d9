//! `grpc_json`: presents a gRPC service as a JSON API, translated by its descriptors.
//!
//! Owns the choice of the method, the frames around messages, and how a status of gRPC becomes one of HTTP. The translation of messages is
//! in [`protobuf`]. A request enters with JSON and leaves as a call. The reply of a method that streams is translated as it passes; any
//! other reply is gathered. Requests that are gRPC already, and replies that are not, pass unchanged.

mod frames;
mod message_json;
mod reply;
mod request;
mod status;
mod stream;

use std::sync::Arc;

use policy::{Policy, Slots, Step};
use protobuf::{Binding, Match, Transcoder};

pub use stream::StreamForm;

/// Settings of the policy.
pub struct GrpcJsonSettings {
    pub transcoder: Arc<Transcoder>,
    /// The prefix of every path, without a trailing slash.
    pub prefix: Box<str>,
    /// The index of each binding's method in the route's list of operations.
    pub counted: Box<[u32]>,
    pub stream: StreamForm,
    /// The maximum size of a request's body, of a reply's body, and of one message of a stream.
    pub body_bytes_max: usize,
}

/// The maximum output size, as a multiple of `body_bytes_max`. JSON repeats names of fields that a message has as numbers, and a number of
/// two digits may become one of ten bytes.
pub const GROWTH_MAX: usize = 8;

/// Returns the policy.
pub fn policy(settings: GrpcJsonSettings, slots: &mut Slots) -> Policy {
    let service = Arc::new(settings);
    // The slot with the method that a request calls.
    let called = slots.assign::<Match>();
    Policy {
        name: "grpc_json",
        request: Some(Step::Buffered(Box::new(request::Translate {
            service: service.clone(),
            called,
        }))),
        response: Some(Step::Buffered(Box::new(reply::Translate { service, called }))),
    }
}

impl GrpcJsonSettings {
    fn binding(&self, called: &Match) -> Option<&Binding> {
        self.transcoder.binding(called)
    }
}
