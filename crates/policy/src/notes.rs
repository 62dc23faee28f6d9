//! Notes that policies leave for one another and for the pipeline. They are named fields, not a map; state of a single policy
//! is in its [`Slot`](crate::Slot).

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use fault::Fault;
use message::Headers;
use telemetry::trace::PolicyTrace;
use telemetry::{SoapFault, StreamEnd};

use crate::{Answerer, Relay};

/// An upstream and a target that policies chose instead of the route's own: the diversion, and the path with the query.
pub type RouteOverride = (Option<usize>, Option<Box<[u8]>>);

/// Notes of one exchange.
#[derive(Default)]
pub struct Notes {
    /// The index in the route's `diversions` of the destination for this exchange, in place of the route's own. A policy or the
    /// route's split sets it.
    pub divert: Option<usize>,
    /// The path as it was sent and is forwarded, if it has escapes that the head's path, which was matched, has not.
    pub path_sent: Option<Box<[u8]>>,
    /// The path and query for the upstream, whatever the route says about paths.
    pub target: Option<Box<[u8]>>,
    /// A service chose `target` for this one request, so that the next like it may get another.
    pub rewritten: bool,
    /// The request is a HEAD: its reply has no body, whatever its head says.
    pub asked_head: bool,
    /// The conditional headers of the client, where a cache revalidates its own reply with others.
    pub conditions: Option<Box<Conditions>>,
    /// The message format of the client, on routes with policies over XML messages.
    pub message_format: Option<MessageFormat>,
    /// The envelope below was made from the client's message, and says nothing about the client's format.
    pub translated: bool,
    /// The content coding that a policy over XML removed from the reply. The topmost of them applies it again.
    pub coding: Option<&'static str>,
    /// The index of the request's operation among the route's operations, or [`UNKNOWN_OPERATION`]; none if no policy looked.
    pub operation: Option<u32>,
    /// The code of the SOAP fault in the upstream's reply. It is known once the reply has passed.
    pub soap_fault: Option<Rc<Cell<Option<SoapFault>>>>,
    /// A policy's notes about the open stream, for the access log.
    pub stream: Option<Rc<StreamNotes>>,
    /// The token that showed who asks, where an interceptor is told it though the upstream does not see it.
    pub token: Option<Box<[u8]>>,
    /// What a token lacks, where a policy below is to refuse other things first.
    pub scope_fault: Option<Box<Fault>>,
    /// Answers in place of the upstream, which gets the request as that would.
    pub instead: Option<Arc<dyn Answerer>>,
    /// Looks into the tunnel that the reply opens.
    pub relay: Option<Box<dyn Relay>>,
    /// The policy that refused the request.
    pub refused_by: Option<&'static str>,
    /// What the policies do, if an operator asked.
    pub policies: Option<Box<PolicyTrace>>,
    /// What policies may have taken out of the request, where one below validates it as it came.
    pub cut: Option<Box<CutCredentials>>,
}

/// Credentials as they came, which policies may have taken out of a request since.
#[derive(Debug, Default)]
pub struct CutCredentials {
    /// Header lines.
    pub lines: Headers,
    /// Parameters of the query, each with its value as it came.
    pub pairs: Vec<(String, Vec<u8>)>,
}

/// A policy's notes about an open stream.
#[derive(Debug, Default)]
pub struct StreamNotes {
    /// Events that passed.
    pub events: Cell<u64>,
    /// Set once a policy ended the stream.
    pub end: Cell<Option<StreamEnd>>,
}

/// The request calls none of the operations of the route's description.
pub const UNKNOWN_OPERATION: u32 = u32::MAX;

/// The conditional headers of the client, and the upstream they were replaced for. A cache may replace them for that upstream only.
#[derive(Debug)]
pub struct Conditions {
    pub route_override: RouteOverride,
    pub lines: Headers,
}

/// The message format of a client of a route with policies over XML messages. It is answered in the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageFormat {
    Soap11,
    Soap12,
    Json,
}

impl Notes {
    pub fn route_override(&self) -> RouteOverride {
        (self.divert, self.target.clone())
    }

    /// True if a policy has since chosen another way for this request alone. A path that comes from the configuration is the
    /// same for all requests.
    pub fn went_elsewhere(&self, (divert, target): &RouteOverride) -> bool {
        self.divert != *divert || self.rewritten && self.target != *target
    }
}

impl MessageFormat {
    /// By a request's `Content-Type`. A missing or unknown one is SOAP 1.1.
    pub fn of(content_type: Option<&[u8]>) -> MessageFormat {
        // Harmless: a missing type is that of SOAP 1.1.
        let media = message::media_type(content_type.unwrap_or_default());
        if media.eq_ignore_ascii_case(b"application/soap+xml") {
            MessageFormat::Soap12
        } else if media.eq_ignore_ascii_case(b"application/json")
            || media.eq_ignore_ascii_case(b"application/vnd.api+json")
        {
            MessageFormat::Json
        } else {
            MessageFormat::Soap11
        }
    }
}
