//! `soap_rest`: a SOAP service as an API of JSON, translated by the types of its description.
//!
//! Owns which operation a request means, and what an exchange notes of it. How messages are translated is
//! [`mediation::soap_json`]'s. A request enters with JSON and leaves as an envelope; its reply comes back as JSON or as a
//! problem.

mod places;
mod reply;
mod request;

use std::sync::Arc;

use bytes::Bytes;
use mediation::soap_json::{Faults, Translation};
use policy::{Policy, Slots, Step};
use wsdl::typed::{Api, Operation};

use crate::reply_coding::Codings;

pub use places::{PathSegment, RequestParameter};

/// Settings of the policy, and the tables it works by.
pub struct SoapRestSettings {
    pub api: Arc<Api>,
    /// The text in front of every path, without a slash at its end.
    pub prefix: Box<str>,
    /// The operations by their paths after the prefix. First come the paths without parameters, sorted by path and method. The others
    /// follow; of those the first that fits counts.
    pub places: Vec<OperationPath>,
    /// The path the upstream is to see.
    pub target: Box<[u8]>,
    /// The path of the document behind the prefix, and the document.
    pub document: Option<(Box<str>, Bytes)>,
    pub faults: Faults,
    pub codings: Codings,
}

/// The place of an operation.
#[derive(Debug, Clone)]
pub struct OperationPath {
    pub path: Box<str>,
    /// The segments of a path with parameters.
    pub segments: Option<Box<[PathSegment]>>,
    /// What makes the request of an operation that is called without a body.
    pub parameters: Option<Box<[RequestParameter]>>,
    pub method: Box<str>,
    /// Its index in the API.
    pub operation: usize,
    /// Its index among the route's operations.
    pub counted: u32,
    /// The value of `SOAPAction`, or of `Content-Type` in SOAP 1.2.
    pub action: Box<str>,
}

/// The policy.
pub fn policy(settings: SoapRestSettings, slots: &mut Slots) -> Policy {
    let SoapRestSettings { api, prefix, places, target, document, faults, codings } = settings;
    let translation = Translation { api, faults, bytes_max: codings.bytes_max };
    let service = Arc::new(Service { translation, prefix, places, target, document, codings });
    // The index of the operation that a request calls.
    let called = slots.assign();
    Policy {
        name: "soap_rest",
        request: Some(Step::Buffered(Box::new(request::Translate {
            service: service.clone(),
            called,
        }))),
        response: Some(Step::Buffered(Box::new(reply::Translate { service, called }))),
    }
}

/// The tables that both sides work by; see [`SoapRestSettings`].
struct Service {
    translation: Translation,
    prefix: Box<str>,
    places: Vec<OperationPath>,
    target: Box<[u8]>,
    document: Option<(Box<str>, Bytes)>,
    codings: Codings,
}

impl Service {
    fn operation(&self, at: usize) -> Option<&Operation> {
        self.translation.api.operations().get(at)
    }
}
