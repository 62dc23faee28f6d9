//! `soap_rest`: presents a SOAP service as a JSON API, translated by the types of its description.
//!
//! Owns the choice of the operation, and what an exchange records about it. The translation of messages is in [`mediation::soap_json`]. A
//! request enters with JSON and leaves as an envelope. Its reply is returned as JSON, or as a problem (RFC 9457).

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

/// Settings of the policy, with its translation tables.
pub struct SoapRestSettings {
    pub api: Arc<Api>,
    /// The prefix of every path, without a trailing slash.
    pub prefix: Box<str>,
    /// The operations by their paths after the prefix. Paths without parameters come first, sorted by path and method. Of the others, the
    /// first match counts.
    pub places: Vec<OperationPath>,
    /// The path that is sent to the upstream.
    pub target: Box<[u8]>,
    /// The path of the OpenAPI document after the prefix, and the document.
    pub document: Option<(Box<str>, Bytes)>,
    /// The paths at the upstream for clients' own SOAP messages, if the route takes them.
    pub soap: Option<SoapTargets>,
    pub faults: Faults,
    pub codings: Codings,
}

/// The paths that SOAP messages of each version are sent to.
pub struct SoapTargets {
    pub v11: Box<[u8]>,
    pub v12: Box<[u8]>,
}

/// The path and method of an operation.
#[derive(Debug, Clone)]
pub struct OperationPath {
    pub path: Box<str>,
    /// The segments, for a path with parameters.
    pub segments: Option<Box<[PathSegment]>>,
    /// The parameters that make up the request, for an operation that is called without a body.
    pub parameters: Option<Box<[RequestParameter]>>,
    pub method: Box<str>,
    /// The index of the operation in the API.
    pub operation: usize,
    /// The index of the operation in the route's list.
    pub counted: u32,
    /// The value of `SOAPAction`, or of `Content-Type` in SOAP 1.2.
    pub action: Box<str>,
}

/// Returns the policy.
pub fn policy(settings: SoapRestSettings, slots: &mut Slots) -> Policy {
    let SoapRestSettings { api, prefix, places, target, document, soap, faults, codings } =
        settings;
    let translation = Translation { api, faults, bytes_max: codings.bytes_max };
    let service = Service { translation, prefix, places, target, document, soap, codings };
    let service = Arc::new(service);
    // The slot with the index of the operation that a request calls.
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

/// The tables that both sides use, see [`SoapRestSettings`].
struct Service {
    translation: Translation,
    prefix: Box<str>,
    places: Vec<OperationPath>,
    target: Box<[u8]>,
    document: Option<(Box<str>, Bytes)>,
    soap: Option<SoapTargets>,
    codings: Codings,
}

impl Service {
    fn operation(&self, at: usize) -> Option<&Operation> {
        self.translation.api.operations().get(at)
    }
}
