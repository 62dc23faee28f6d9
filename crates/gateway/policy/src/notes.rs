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

/// The upstream and the target that policies chose in place of the route's own.
#[derive(Debug, Clone, Default)]
pub struct RouteOverride {
    pub divert: Option<usize>,
    /// The path with the query.
    pub target: Option<Box<[u8]>>,
}

/// Notes of one exchange.
#[derive(Default)]
pub struct Notes {
    /// The index in the route's `diversions` of the destination for this exchange, in place of the route's own. It is set by a policy or
    /// the route's split.
    pub divert: Option<usize>,
    /// The path as received, if it differs from the head's path and must be forwarded instead. The head has the path that was matched, with
    /// decoded escapes.
    pub path_sent: Option<Box<[u8]>>,
    /// The path and query for the upstream, which override the path settings of the route.
    pub target: Option<Box<[u8]>>,
    /// Whether a service chose `target` for this request alone, so that the next equal request may get another.
    pub rewritten: bool,
    /// Whether the request is a HEAD, whose reply has no body whatever its head announces.
    pub asked_head: bool,
    /// The client's conditional headers, while a cache has replaced them to revalidate its stored reply.
    pub conditions: Option<Box<Conditions>>,
    /// The message format of the client, on routes with policies over XML messages.
    pub message_format: Option<MessageFormat>,
    /// Whether the envelope was made from a client's message in another format, so that it does not indicate the client's format.
    pub translated: bool,
    /// Whether the client gets the reply of a gRPC call as an ordinary one, so that its pauses have the limits of those.
    pub is_translated_call: bool,
    /// The content coding that a policy over XML removed from the reply. The topmost such policy applies it again.
    pub coding: Option<&'static str>,
    /// The index of the request's operation in the route's list, or [`UNKNOWN_OPERATION`]. `None` if no policy has determined it.
    pub operation: Option<u32>,
    /// The code of the SOAP fault in the upstream's reply, which is known once the reply has passed.
    pub soap_fault: Option<Rc<Cell<Option<SoapFault>>>>,
    /// A policy's notes about the open stream, for the access log.
    pub stream: Option<Rc<StreamNotes>>,
    /// The client's token, kept for an interceptor although the upstream does not get it.
    pub token: Option<Box<[u8]>>,
    /// The fault for a missing scope, which a policy below raises after its own checks.
    pub scope_fault: Option<Box<Fault>>,
    /// An answerer that gets the request in place of the upstream, in the form that the upstream would have got.
    pub instead: Option<Arc<dyn Answerer>>,
    /// The relay that inspects the tunnel which the reply opens.
    pub relay: Option<Box<dyn Relay>>,
    /// The policy that refused the request.
    pub refused_by: Option<&'static str>,
    /// The trace of what policies do, if an operator requested one.
    pub policies: Option<Box<PolicyTrace>>,
    /// Credentials that policies may have removed from the request, if a policy below validates the request as received.
    pub removed_credentials: Option<Box<RemovedCredentials>>,
}

/// Credentials as received, which policies may since have removed from the request.
#[derive(Debug, Default)]
pub struct RemovedCredentials {
    /// Header lines.
    pub lines: Headers,
    /// Query parameters, each with its value as received.
    pub pairs: Vec<(String, Vec<u8>)>,
}

/// A policy's notes about an open stream.
#[derive(Debug, Default)]
pub struct StreamNotes {
    /// The number of events or messages that have passed.
    pub events: Cell<u64>,
    /// The reason why a policy ended the stream, if one did.
    pub end: Cell<Option<StreamEnd>>,
}

/// The index for a request that calls none of the operations in the route's description.
pub const UNKNOWN_OPERATION: u32 = u32::MAX;

/// The conditional headers of the client, and the upstream for which they were replaced. A cache may replace them only for that upstream.
#[derive(Debug)]
pub struct Conditions {
    pub route_override: RouteOverride,
    pub lines: Headers,
}

/// The message format of a client of a route with policies over XML messages. Replies have the same format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageFormat {
    Soap11,
    Soap12,
    Json,
}

impl Notes {
    pub fn route_override(&self) -> RouteOverride {
        RouteOverride { divert: self.divert, target: self.target.clone() }
    }

    /// Returns true if a policy has since chosen another upstream or path for this request alone. A path from the configuration does not
    /// count, since it is the same for all requests.
    pub fn went_elsewhere(&self, earlier: &RouteOverride) -> bool {
        self.divert != earlier.divert || self.rewritten && self.target != earlier.target
    }
}

impl MessageFormat {
    /// Returns the SOAP version of a message with attachments: its `type`, or with MTOM its `start-info`, is the content type of that
    /// version.
    pub fn of_attachments(content_type: &[u8]) -> Option<MessageFormat> {
        let names = |name: &[u8]| {
            content_type.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name))
        };
        match (names(b"application/soap+xml"), names(b"text/xml")) {
            (true, _) => Some(MessageFormat::Soap12),
            (false, true) => Some(MessageFormat::Soap11),
            (false, false) => None,
        }
    }

    /// Returns the format for a request's `Content-Type`. A missing or unknown type means SOAP 1.1.
    pub fn of(content_type: Option<&[u8]>) -> MessageFormat {
        // Harmless: a missing type means SOAP 1.1.
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
