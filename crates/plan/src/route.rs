//! Routes: what happens to a request once it is known where it goes.

use std::sync::Arc;

use bytes::Bytes;
use message::Headers;
use policy::{Escape, Policy, Template};
use telemetry::{OperationMetrics, RouteMetrics};
use upstream::{HostSent, Upstream};

/// One route. Its policies are a list in the order they were written: down on the request, up on the reply.
pub struct Route {
    pub name: String,
    pub policies: Box<[Policy]>,
    pub destination: Destination,
    /// Other upstreams that a policy may send an exchange to, by index.
    pub diversions: Box<[Arc<Upstream>]>,
    /// How faults are written to the client.
    pub errors: Errors,
    /// Query parameters whose values are credentials: the access log does not tell them.
    pub secrets: Box<[String]>,
    /// A request body over this is 413, from its announced length where it has one.
    pub body_bytes_max: Option<u64>,
    pub metrics: Arc<RouteMetrics>,
    /// The operations of the service that policies tell apart; the last is for what is none of them.
    pub operations: Box<[Operation]>,
}

/// An operation of the service behind a route.
pub struct Operation {
    pub name: Box<str>,
    pub metrics: Arc<OperationMetrics>,
}

/// The name of the policy that answers preflights.
pub const CORS: &str = "cors";

/// The form of error replies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Errors {
    /// RFC 9457.
    #[default]
    Problem,
    /// The JSON bodies and codes of WSO2 Choreo Connect.
    Wso2,
    /// A SOAP fault of the caller's version, or RFC 9457 where the caller speaks JSON.
    Soap { verbose: bool },
    /// The SOAP faults and JSON bodies of Kong's SOAP/XML plugins.
    Kong { verbose: bool },
}

/// Where a route ends.
pub enum Destination {
    Upstream(Forward),
    Respond(FixedReply),
}

/// An upstream and what the request looks like when it gets there.
pub struct Forward {
    pub upstream: Arc<Upstream>,
    pub path: PathSent,
    pub host: HostSent,
}

/// The path the upstream sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathSent {
    AsItCame,
    /// Without these bytes at its front; what is left begins with a slash.
    Without(Box<[u8]>),
    /// Made of pieces; the query is kept.
    Made(Box<[Piece]>),
}

/// A piece of a rewritten path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(Box<[u8]>),
    /// The path parameter at this index.
    Parameter(usize),
    /// What `**` matched, without its leading slash.
    Rest,
}

/// A reply that needs nobody.
pub struct FixedReply {
    pub status: u16,
    pub headers: Headers,
    pub body: Bytes,
    /// What is made for each exchange, where something is.
    pub filled: Option<Box<Filled>>,
}

/// What a fixed reply says of the exchange.
#[derive(Default)]
pub struct Filled {
    /// Lines beside those that are the same for every exchange.
    pub lines: Vec<(String, Template)>,
    /// The body, and the language it is in; the fixed one where there is none.
    pub body: Option<(Template, Escape)>,
}

impl Route {
    /// A browser's question whether it may send a request is answered here.
    pub fn answers_preflights(&self) -> bool {
        self.policies.iter().any(|policy| policy.name == CORS)
    }

    /// The operation of that index, which may be [`policy::UNKNOWN_OPERATION`].
    pub fn operation(&self, index: u32) -> Option<&Operation> {
        let known = usize::try_from(index).ok().and_then(|index| self.operations.get(index));
        known.or(self.operations.last())
    }

    /// The upstream this route ends in, if it ends in one.
    pub fn upstream_name(&self) -> Option<&str> {
        match &self.destination {
            Destination::Upstream(forward) => Some(&forward.upstream.settings().name),
            Destination::Respond(_) => None,
        }
    }
}
