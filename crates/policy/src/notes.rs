//! What one policy leaves for another, or its request step for its response step. Named fields, no map.

use std::any::Any;
use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use message::Headers;
use telemetry::SoapFault;

/// The indices of an operation's path and method in an API document.
pub type OperationAt = (usize, usize);

/// Where policies send a request: the diversion, and the path and query.
pub type Way = (Option<usize>, Option<Box<[u8]>>);

/// Notes of one exchange.
#[derive(Default)]
pub struct Notes {
    /// The index among the route's `diversions` that this exchange goes to instead of the route's own upstream: a policy's word, or
    /// that of the route's split.
    pub divert: Option<usize>,
    /// The path as it was sent and goes on, where it has escapes that the head's, which was matched, has not.
    pub path_sent: Option<Box<[u8]>>,
    /// The path the upstream is to see, query included, whatever the route says about paths.
    pub target: Option<Box<[u8]>>,
    /// That was said of this one request by a service, so that the next like it may go to another.
    pub rewritten: bool,
    /// What the response side of an interceptor needs of the request.
    pub interception: Option<Box<Interception>>,
    /// Which operation of an API document the request is: whose document, and the indices of its path and method.
    pub operations: Vec<(usize, OperationAt)>,
    /// The `Origin` of a request that the route's CORS policy let pass.
    pub origin: Option<Box<[u8]>>,
    /// The request's `Accept-Encoding`, for whoever compresses the reply.
    pub accept_encoding: Option<Box<[u8]>>,
    /// The request is a HEAD: its reply has no body, whatever its head says.
    pub asked_head: bool,
    /// What a cache's request step leaves for its response step.
    pub cached: Option<Box<dyn Any>>,
    /// The conditions of the client, where a cache asks about its own reply instead.
    pub conditions: Option<Box<Conditions>>,
    /// How the client speaks, on routes with policies over XML messages.
    pub speech: Option<Speech>,
    /// The envelope below was made of what the client sent, and does not say how the client speaks.
    pub translated: bool,
    /// The content coding that such a policy took off the reply, to be put on again by the topmost of them.
    pub coding: Option<&'static str>,
    /// The index among the route's operations of the one the request calls, or [`UNKNOWN_OPERATION`]; none where nobody looked.
    pub operation: Option<u32>,
    /// The code of the fault that the upstream answered with, which is known once its reply has passed.
    pub soap_fault: Option<Rc<Cell<Option<SoapFault>>>>,
    /// What must live until the exchange has ended: places in a concurrency limit.
    pub held: Vec<Box<dyn Any>>,
}

/// What is called is none of the operations of the route's description.
pub const UNKNOWN_OPERATION: u32 = u32::MAX;

/// What the client asked, and the only way on which it may be replaced: there the reply came from that is asked about.
#[derive(Debug)]
pub struct Conditions {
    pub way: Way,
    pub lines: Headers,
}

/// A request as an interceptor saw it, for the call that comes with the reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interception {
    pub request_headers: Vec<(Box<str>, Box<str>)>,
    pub request_trailers: Vec<(Box<str>, Box<str>)>,
    pub request_body: Option<Bytes>,
    /// `invocationContext` as it was sent.
    pub invocation: Box<str>,
    /// `interceptorContext` as the request call returned it: names and texts.
    pub context: Vec<(Box<str>, Box<str>)>,
}

/// How the client of a route with policies over XML messages speaks, and so how it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speech {
    Soap11,
    Soap12,
    Json,
}

impl Notes {
    pub fn way(&self) -> Way {
        (self.divert, self.target.clone())
    }

    /// Whether a policy has since chosen another way for this one request. A path that the configuration alone gives is the
    /// same for all.
    pub fn went_elsewhere(&self, (divert, target): &Way) -> bool {
        self.divert != *divert || self.rewritten && self.target != *target
    }
}

impl Speech {
    /// By a request's `Content-Type`; what is missing or unknown is SOAP 1.1.
    pub fn of(content_type: Option<&[u8]>) -> Speech {
        let value = content_type.unwrap_or_default();
        let media = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        if media.eq_ignore_ascii_case(b"application/soap+xml") {
            Speech::Soap12
        } else if media.eq_ignore_ascii_case(b"application/json")
            || media.eq_ignore_ascii_case(b"application/vnd.api+json")
        {
            Speech::Json
        } else {
            Speech::Soap11
        }
    }
}

impl std::fmt::Debug for Notes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notes")
            .field("divert", &self.divert)
            .field("target", &self.target)
            .field("interception", &self.interception)
            .field("held", &self.held.len())
            .finish_non_exhaustive()
    }
}
