//! `soap_rest`: a SOAP service as an API of JSON, translated by the types of its description.
//!
//! Owns which operation a request means, what its envelope travels as, and what becomes of faults. How values are translated
//! is in `wsdl::typed`, whose tables come made. A request enters with JSON and leaves as an envelope; its reply comes back as
//! JSON or as a problem.

mod reply;
mod request;

use std::sync::Arc;

use bytes::Bytes;
use policy::{Policy, Slots, Step};
use wsdl::typed::Api;

use crate::soap::Codings;

/// What the policy was told, and the tables it works by.
pub struct Settings {
    pub api: Arc<Api>,
    /// What stands in front of every path, without a slash at its end.
    pub prefix: Box<str>,
    /// The operations by their paths behind the prefix, sorted by path and method.
    pub places: Vec<Place>,
    /// The path the upstream is to see.
    pub target: Box<[u8]>,
    /// The path of the document behind the prefix, and the document.
    pub document: Option<(Box<str>, Bytes)>,
    pub faults: Faults,
    pub codings: Codings,
}

/// Where an operation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub path: Box<str>,
    pub method: Box<str>,
    /// Its index in the API.
    pub operation: usize,
    /// Its index among the route's operations.
    pub counted: u32,
    /// The value of `SOAPAction`, or of `Content-Type` in SOAP 1.2.
    pub action: Box<str>,
}

/// What status a fault has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// The code says whose fault it is; else the upstream's status is kept.
    pub by_code: bool,
    /// By the name of an element of the detail, or of a code.
    pub statuses: Vec<(Box<str>, u16)>,
}

/// The policy.
pub fn policy(settings: Settings, slots: &mut Slots) -> Policy {
    let settings = Arc::new(settings);
    // The index of the operation that a request calls.
    let called = slots.assign();
    Policy {
        name: "soap_rest",
        request: Some(Step::Buffered(Box::new(request::Translate {
            settings: settings.clone(),
            called,
        }))),
        response: Some(Step::Buffered(Box::new(reply::Translate { settings, called }))),
    }
}
