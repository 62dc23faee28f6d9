//! What policies leave for one another and for the pipeline. Named fields, no map; what is one policy's alone is in its
//! [`Slot`](crate::Slot).

use std::cell::Cell;
use std::rc::Rc;

use message::Headers;
use telemetry::SoapFault;

/// Where policies send a request: the diversion, and the path and query.
pub type Way = (Option<usize>, Option<Box<[u8]>>);

/// Notes of one exchange.
#[derive(Debug, Default)]
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
    /// The request is a HEAD: its reply has no body, whatever its head says.
    pub asked_head: bool,
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
}

/// What is called is none of the operations of the route's description.
pub const UNKNOWN_OPERATION: u32 = u32::MAX;

/// What the client asked, and the only way on which it may be replaced: there the reply came from that is asked about.
#[derive(Debug)]
pub struct Conditions {
    pub way: Way,
    pub lines: Headers,
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
        let media = message::media_type(content_type.unwrap_or_default());
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
