//! Faults: failures of an exchange, as values.
//!
//! Owns the kinds of fault and the one table that gives each its status in HTTP and in gRPC, its log level, its label and its code. It does
//! not know how a fault is written to a client: that is the task of `pipeline`. The client's text (`Kind::title`) and the log's
//! (`Fault::cause`) are separate, so that nothing internal leaks.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt;

use grpc::Status;

/// A fault. Its cause goes to the log and never to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub kind: Kind,
    /// For the operator: what happened, with addresses and causes.
    pub cause: Box<str>,
    /// For the client: one safe sentence, if the kind's title does not say enough.
    pub detail: Option<Box<str>>,
    /// Details that only few faults have.
    pub more: Option<Box<FaultExtras>>,
}

/// Details for the client that only few faults have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultExtras {
    /// The code of Choreo Connect's error bodies, if it differs from the kind's.
    pub code: Option<u32>,
    /// Header lines of the reply: `WWW-Authenticate`, `Retry-After`. Names and values need no escaping.
    pub headers: Vec<(Cow<'static, str>, Box<str>)>,
    /// The status of the reply, if it is not the kind's.
    pub status: Option<u16>,
    /// The side that sent the value that a step could not use, if it determines the side of the fault in place of the kind.
    pub side: Option<Side>,
    /// One sentence for each mistake in the message, with its place.
    pub errors: Vec<Box<str>>,
    /// Details of a step over XML messages.
    pub processing: Option<ProcessingFault>,
    /// The code of WS-Security that a SOAP fault carries, such as `FailedAuthentication`.
    pub soap_code: Option<&'static str>,
}

/// A fault of a step that validates, transforms or routes XML messages, as SOAP faults describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessingFault {
    /// The step, as Kong's SOAP/XML plugins name it.
    pub step: &'static str,
    /// The mistake, in the words of Kong's SOAP/XML plugins.
    pub text: Box<str>,
    /// The same text without the address, if `text` names an address that the client did not send. It is used in all layouts except
    /// Kong's.
    pub plain: Option<Box<str>>,
    /// True if the fault is the receiver's, not the sender's.
    pub server: bool,
    /// The status of the reply that could not be processed.
    pub backend_status: Option<u16>,
    /// True if the client may read the text.
    pub verbose: bool,
}

/// The side that has to change something so that the next request succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Client,
    Gateway,
    Upstream,
}

/// The level of a fault in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $name:ident => $status:literal, $side:ident, $level:ident, $grpc:ident, $label:literal, $title:literal $(, synapse $code:literal)?;)*) => {
        /// Every kind of fault. A new one does not compile until its row in the table is filled in.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind { $($(#[doc = $doc])* $name),* }

        impl Kind {
            /// All kinds, in the order of their index.
            pub const ALL: &'static [Kind] = &[$(Kind::$name),*];

            /// The labels of all kinds, by index: the values of the metric label `reason`.
            pub const LABELS: &'static [&'static str] = &[$($label),*];

            /// The HTTP status a client gets.
            pub const fn status(self) -> u16 { match self { $(Kind::$name => $status),* } }

            pub const fn side(self) -> Side { match self { $(Kind::$name => Side::$side),* } }

            pub const fn level(self) -> Level { match self { $(Kind::$name => Level::$level),* } }

            /// The gRPC status of a call that ends with this fault.
            pub const fn grpc(self) -> Status { match self { $(Kind::$name => Status::$grpc),* } }

            /// The value of the metric label and of the log field `fault`; never changes.
            pub const fn label(self) -> &'static str { match self { $(Kind::$name => $label),* } }

            /// The description for operators: the doc comment of the kind's row.
            pub const fn meaning(self) -> &'static str {
                match self { $(Kind::$name => concat!($($doc),*)),* }
            }

            /// The text for the client. It is true for every fault of this kind, and discloses nothing internal.
            pub const fn title(self) -> &'static str { match self { $(Kind::$name => $title),* } }

            /// The error code of Synapse, for the `$error.code` of a flow. Only faults of calls to an upstream and the timeouts of flows
            /// have one.
            pub const fn synapse_code(self) -> Option<u32> {
                match self { $(Kind::$name => kinds!(@code $($code)?)),* }
            }
        }
    };
    (@code) => { None };
    (@code $code:literal) => { Some($code) };
}

// The Synapse codes in use: 101503 connection failed, 101504 timed out, 101505 closed, 101506 protocol violation, 101508 connecting timed
// out, 101510 the response could not be processed, 303000 no endpoint of a group is ready, 303001 an endpoint is not ready.
kinds! {
    /// The bytes are not HTTP, or HTTP that two parsers could read differently; or a WebSocket handshake has a body.
    Malformed => 400, Client, Info, Internal, "malformed", "The request is not well-formed HTTP.";
    /// A version of HTTP that the gateway does not support.
    VersionUnsupported => 505, Client, Info, Unimplemented, "version_unsupported", "This HTTP version is not supported.";
    /// A method that is neither registered (IANA) nor named by the route, or a transfer coding that is not implemented; CONNECT of HTTP/2
    /// for a protocol other than `websocket`; a WebSocket for an upstream with `protocol: http2`.
    NotImplemented => 501, Client, Info, Unimplemented, "not_implemented", "This is not implemented here.";
    /// CONNECT or TRACE.
    MethodRefused => 405, Client, Info, Unimplemented, "method_refused", "This method is not served here.";
    /// An `Expect` other than `100-continue`.
    ExpectationFailed => 417, Client, Info, FailedPrecondition, "expectation_failed", "The expectation cannot be met.";
    /// An upgrade to a WebSocket version other than 13.
    UpgradeRequired => 426, Client, Info, Unimplemented, "upgrade_required", "Another version of the protocol is required.";
    /// The head exceeds the listener's `head_bytes_max` or `headers_max`.
    HeadTooLarge => 431, Client, Info, ResourceExhausted, "head_too_large", "The request's header fields are too large.";
    /// The request target exceeds the listener's `target_bytes_max`.
    TargetTooLong => 414, Client, Info, ResourceExhausted, "target_too_long", "The request target is too long.";
    /// The body exceeds a `body_bytes_max` of the route or a policy.
    BodyTooLarge => 413, Client, Info, ResourceExhausted, "body_too_large", "The request body is too large.";
    /// The client took too long to send the head, paused for too long within the body, sent the body more slowly than `body_rate_min`, or
    /// took longer for it than `timeout.body_total`.
    RequestTimeout => 408, Client, Info, DeadlineExceeded, "request_timeout", "The request took too long to arrive.";
    /// The client closed the connection before it received the reply. No client sees this fault.
    ClientGone => 499, Client, Debug, Cancelled, "client_gone", "The client closed the connection.";
    /// No route matches.
    NoRoute => 404, Client, Info, Unimplemented, "no_route", "No route matches this request.";
    /// A route matches, but its API or hub does not have the path.
    PathUnknown => 404, Client, Info, Unimplemented, "path_unknown", "Nothing exists at this path.";
    /// The hub of the route, or its policy `websocket`, has no such topic.
    TopicUnknown => 404, Client, Info, Unimplemented, "topic_unknown", "There is no such topic.";
    /// The path climbs above its root, or hides dots.
    PathEscapes => 400, Client, Info, InvalidArgument, "path_escapes", "The path is not allowed.";
    /// The path has `%2F`, `%5C`, `;` or an empty segment, and the listener's `paths` refuse that.
    PathAmbiguous => 400, Client, Info, InvalidArgument, "path_ambiguous", "The path is not allowed.";
    /// A credential that is not valid.
    Unauthenticated => 401, Client, Info, Unauthenticated, "unauthenticated", "Valid credentials are required.";
    /// No token, key, password or certificate.
    CredentialMissing => 401, Client, Info, Unauthenticated, "credential_missing", "Credentials are required.";
    /// A credential that has expired.
    CredentialExpired => 401, Client, Info, Unauthenticated, "credential_expired", "The credentials have expired.";
    /// The token does not have the scope that the route requires.
    ScopeMissing => 403, Client, Info, PermissionDenied, "scope_missing", "The credentials do not allow this.";
    /// The token has no subscription to the API.
    SubscriptionMissing => 403, Client, Info, PermissionDenied, "subscription_missing", "There is no subscription to this API.";
    /// The application's subscription to the API is blocked.
    SubscriptionBlocked => 401, Client, Info, Unauthenticated, "subscription_blocked", "The subscription to this API is blocked.";
    /// The client identity is known but not allowed: a rule of `authorize`, or a claim that `jwt` requires.
    Forbidden => 403, Client, Info, PermissionDenied, "forbidden", "This is not allowed with these credentials.";
    /// The request exceeds a `rate_limit`, a `throttle` or a quota, or the client exceeds its `concurrency`.
    RateLimited => 429, Client, Info, ResourceExhausted, "rate_limited", "Too many requests.";
    /// The request does not match the OpenAPI document, WSDL, schema or SOAP envelope it is validated against, or a policy
    /// over XML or `transform` gets a body that is not well-formed.
    RequestInvalid => 400, Client, Info, InvalidArgument, "request_invalid", "The request does not match the API's definition.";
    /// A parameter of a request to a hub is missing or invalid: of a subscriber, a publisher or a reader.
    HubRequestInvalid => 400, Client, Info, InvalidArgument, "hub_request_invalid", "The request to the hub is not valid.";
    /// A content type or coding that the API of the route does not accept.
    MediaTypeUnsupported => 415, Client, Info, InvalidArgument, "media_type_unsupported", "The content type is not supported.";
    /// A route, or the API of the route, has the path but not the method.
    MethodNotAllowed => 405, Client, Info, Unimplemented, "method_not_allowed", "This method is not allowed here.";
    /// `ip_filter` does not allow the address, or `user_agent` does not allow the program.
    Refused => 403, Client, Info, PermissionDenied, "refused", "The request is refused.";
    /// Every target of the upstream is unhealthy, ejected, suspended or drained, or fewer are available than `available_min_percent`. Or
    /// DNS says that the service is not available.
    NoTarget => 503, Upstream, Warn, Unavailable, "no_target", "No healthy upstream is available.", synapse 303_000;
    /// The only target of the upstream is suspended.
    // Synapse distinguishes a single endpoint that is not ready from a group in which no endpoint is ready.
    TargetSuspended => 503, Upstream, Warn, Unavailable, "target_suspended", "The upstream is suspended.", synapse 303_001;
    /// No look-up of the upstream's targets in DNS has succeeded yet, or the first one has not ended.
    Unresolved => 503, Upstream, Warn, Unavailable, "unresolved", "The upstream's targets are not known: its name cannot be resolved.", synapse 101_503;
    /// The upstream is at a limit of its `breaker`, or 512 endpoints of flows are in use at once.
    BreakerOpen => 503, Upstream, Warn, Unavailable, "breaker_open", "The upstream is at its limit.", synapse 303_001;
    /// There is no access token for the upstream: its `oauth` token endpoint cannot be reached or does not return one.
    TokenUnavailable => 503, Upstream, Warn, Unavailable, "token_unavailable", "The upstream cannot be called at the moment.", synapse 101_503;
    /// The connection to the upstream could not be established.
    ConnectFailure => 502, Upstream, Warn, Unavailable, "connect_failure", "The upstream cannot be reached.", synapse 101_503;
    /// Connecting to the upstream took longer than `timeout.connect`.
    ConnectTimeout => 504, Upstream, Warn, DeadlineExceeded, "connect_timeout", "The upstream cannot be reached in time.", synapse 101_508;
    /// TLS to the upstream failed: name, certificate or protocol.
    UpstreamTls => 502, Upstream, Warn, Unavailable, "upstream_tls", "The upstream cannot be reached securely.", synapse 101_503;
    /// The upstream closed the connection before its reply was complete.
    UpstreamReset => 502, Upstream, Warn, Unavailable, "upstream_reset", "The upstream closed the connection before it replied.", synapse 101_505;
    /// The upstream's reply is not well-formed HTTP, or does not match what was requested.
    UpstreamMalformed => 502, Upstream, Warn, Unavailable, "upstream_malformed", "The upstream's reply is invalid.", synapse 101_506;
    /// The upstream's reply does not match the OpenAPI document, WSDL or schema it is validated against, or is JSON that
    /// `transform` cannot read.
    ReplyInvalid => 502, Upstream, Warn, Unavailable, "reply_invalid", "The upstream's reply does not match the API's definition.";
    /// An interceptor could not be reached, timed out, answered with a status other than 200 and 204 or with too many bytes, or named an
    /// unknown endpoint.
    InterceptorFailed => 500, Upstream, Warn, Internal, "interceptor_failed", "The request could not be processed.";
    /// The answer of an interceptor cannot be read.
    InterceptorInvalid => 500, Upstream, Warn, Internal, "interceptor_invalid", "The request could not be processed.";
    /// A policy needs a service to decide, such as an issuer of tokens, and cannot reach it.
    PolicyUnavailable => 503, Gateway, Warn, Unavailable, "policy_unavailable", "The request cannot be checked at the moment.";
    /// The route or operation is at its `concurrency`, too many passwords are being checked, or too many messages of a `script` take long.
    Busy => 503, Gateway, Info, Unavailable, "busy", "Too many requests are in progress.";
    /// The upstream's reply is larger than a policy may buffer.
    ReplyTooLarge => 502, Upstream, Warn, Unavailable, "reply_too_large", "The upstream's reply is too large.", synapse 101_510;
    /// The upstream's reply is an event stream, and a policy needs to buffer the whole reply.
    ReplyStreams => 502, Upstream, Warn, Unavailable, "reply_streams", "The upstream's reply is a stream, which this route cannot process.", synapse 101_510;
    /// The deadline that the client set for the call (`grpc-timeout`) has passed.
    DeadlineExceeded => 504, Client, Info, DeadlineExceeded, "deadline_exceeded", "The deadline of the call has passed.";
    /// The upstream's reply did not begin or continue within `timeout.response`, or the call took longer than `timeout.total`.
    UpstreamTimeout => 504, Upstream, Warn, DeadlineExceeded, "upstream_timeout", "The upstream did not reply in time.", synapse 101_504;
    /// A policy over XML could not do its work: a definition that does not compile, a stylesheet that fails.
    ProcessingFailed => 500, Gateway, Warn, Internal, "processing_failed", "The message could not be processed.";
    /// The process has reached `limits.memory`, and this message needs memory to be read or written. Messages that are only forwarded are
    /// still served.
    MemoryFull => 503, Gateway, Warn, Unavailable, "memory_full", "The gateway is short of memory at the moment.";
    /// More than `saxon.pending` messages wait for Saxon.
    EngineBusy => 503, Gateway, Warn, Unavailable, "engine_busy", "Too many messages wait to be processed.";
    /// Saxon took longer than `saxon.timeout`.
    EngineTimeout => 500, Gateway, Warn, Internal, "engine_timeout", "The message took too long to process.";
    /// The gateway closed a stream that did not end within the `streams.drain` of its route or within `shutdown.drain`, or on which no data
    /// passed for too long.
    StreamCut => 503, Gateway, Info, Unavailable, "stream_cut", "The stream was closed.";
    /// The request returned to the gateway that had forwarded it, as its `Via` shows.
    // The status is not 502: the gateway's earlier passes of the same request would treat 502 as an upstream failure and retry.
    Loop => 508, Gateway, Warn, Internal, "loop", "The request came back to the gateway that had forwarded it.";
    /// A step `split` or `foreach` finds more than its `max` parts.
    TooManyParts => 413, Client, Info, ResourceExhausted, "too_many_parts", "The message has too many parts.";
    /// A flow requires a value that the message does not have.
    Missing => 400, Client, Info, InvalidArgument, "missing", "The request lacks a required value.";
    /// A step `fault` of a flow with `code: client`.
    FlowRefused => 400, Client, Info, InvalidArgument, "flow_refused", "The request cannot be processed.";
    /// A step `fault` of a flow.
    FlowFault => 500, Gateway, Info, Internal, "flow_fault", "The message could not be processed.";
    /// A value cannot be written at its place in a template: a control character in a header, a character that XML forbids. The status is
    /// 400 if the value came with the request, and 502 if it came with a reply.
    Template => 500, Gateway, Warn, Internal, "template", "The message could not be processed.";
    /// A step of a flow failed: an expression, a conversion, or more output than the flow's `body_bytes_max`. The status is 400 if an
    /// expression cannot use a value of the request, and 502 if it cannot use one of a reply.
    FlowFailed => 500, Gateway, Warn, Internal, "flow_failed", "The message could not be processed.";
    /// The flow's `timeout` has passed.
    FlowTimeout => 504, Gateway, Warn, DeadlineExceeded, "flow_timeout", "The message took too long to process.", synapse 101_504;
    /// A `gather` did not get the results it needs within its `timeout`.
    GatherTimeout => 504, Gateway, Warn, DeadlineExceeded, "gather_timeout", "Not all services replied in time.", synapse 101_504;
    /// The upstream replied with a status that the step's `fault_on` names.
    UpstreamStatus => 502, Upstream, Warn, Unavailable, "upstream_status", "The upstream refused the request.";
    /// A flow would call a URL that `endpoints.allow` does not list, or that is not valid.
    EndpointRefused => 502, Gateway, Warn, PermissionDenied, "endpoint_refused", "The service cannot be called.";
    /// The database of a step `sql` cannot be reached, refuses the gateway, or ended the connection.
    DatabaseAway => 503, Upstream, Warn, Unavailable, "database_away", "The message cannot be processed at the moment.";
    /// All `connections` of a database are in use, and none became free in time.
    DatabaseBusy => 503, Upstream, Warn, Unavailable, "database_busy", "The message cannot be processed at the moment.";
    /// A statement took longer than the `timeout` of its step or database, and was cancelled.
    DatabaseTimeout => 504, Upstream, Warn, DeadlineExceeded, "database_timeout", "The message took too long to process.";
    /// A database refuses a statement or its arguments, or the answer is over `rows_max` or the flow's `body_bytes_max`.
    StatementFailed => 500, Gateway, Warn, Internal, "statement_failed", "The message could not be processed.";
    /// The store, which keeps events and messages, cannot be reached, fails, or is overloaded.
    StoreAway => 503, Gateway, Warn, Unavailable, "store_away", "This cannot be stored at the moment.";
    /// The store has no room for more events or messages.
    StoreFull => 507, Gateway, Warn, ResourceExhausted, "store_full", "There is not enough space to store this.";
    /// A defect of the gateway: a panic, or an impossible state.
    Internal => 500, Gateway, Error, Internal, "internal", "The gateway failed to process the request.";
}

impl Kind {
    /// Returns the position in [`Kind::ALL`] and [`Kind::LABELS`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns true if no further request can be read from the connection after a request with this fault.
    pub const fn ends_connection(self) -> bool {
        matches!(
            self,
            Kind::Malformed
                | Kind::VersionUnsupported
                | Kind::NotImplemented
                | Kind::MethodRefused
                | Kind::ExpectationFailed
                | Kind::HeadTooLarge
                | Kind::TargetTooLong
                | Kind::BodyTooLarge
                | Kind::RequestTimeout
                | Kind::ClientGone
                | Kind::Internal
        )
    }
}

impl Fault {
    /// Creates a fault whose cause goes only to the log.
    pub fn new(kind: Kind, cause: impl Into<Box<str>>) -> Fault {
        Fault { kind, cause: cause.into(), detail: None, more: None }
    }

    /// Creates a fault with one safe sentence for the client.
    pub fn with_detail(kind: Kind, cause: impl Into<Box<str>>, detail: &str) -> Fault {
        Fault { kind, cause: cause.into(), detail: Some(detail.into()), more: None }
    }

    /// Adds a header line to the reply.
    pub fn with_header(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Box<str>>,
    ) -> Fault {
        self.more.get_or_insert_default().headers.push((name.into(), value.into()));
        self
    }

    /// Sets the code of Choreo Connect's error bodies.
    pub fn with_code(mut self, code: u32) -> Fault {
        self.more.get_or_insert_default().code = Some(code);
        self
    }

    /// Sets the status of the reply, in place of the kind's.
    pub fn with_status(mut self, status: u16) -> Fault {
        self.more.get_or_insert_default().status = Some(status);
        self
    }

    /// Sets the side that sent the value that a step could not use.
    pub fn with_side(mut self, side: Side) -> Fault {
        self.more.get_or_insert_default().side = Some(side);
        self
    }

    /// Returns the side that has to change something.
    pub fn side(&self) -> Side {
        self.more.as_ref().and_then(|more| more.side).unwrap_or(self.kind.side())
    }

    /// Returns the status of the reply.
    pub fn status(&self) -> u16 {
        let more = self.more.as_ref();
        let by_side = |more: &FaultExtras| match more.side? {
            Side::Client => Some(400),
            Side::Upstream => Some(502),
            Side::Gateway => None,
        };
        more.and_then(|more| more.status.or_else(|| by_side(more))).unwrap_or(self.kind.status())
    }

    /// Returns the level at which the fault is logged.
    pub fn level(&self) -> Level {
        match self.more.as_ref().and_then(|more| more.side) {
            Some(Side::Client) => Level::Info,
            Some(Side::Upstream | Side::Gateway) | None => self.kind.level(),
        }
    }

    /// Sets the step over XML messages that failed.
    pub fn with_processing(mut self, processing: ProcessingFault) -> Fault {
        self.more.get_or_insert_default().processing = Some(processing);
        self
    }

    /// Sets the code of WS-Security that a SOAP fault carries.
    pub fn with_soap_code(mut self, code: &'static str) -> Fault {
        self.more.get_or_insert_default().soap_code = Some(code);
        self
    }

    /// Sets one sentence for each mistake in the message. The client gets them if the policy allows that.
    pub fn with_errors(mut self, errors: Vec<Box<str>>) -> Fault {
        self.more.get_or_insert_default().errors = errors;
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.label(), self.cause)
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_label_and_a_fitting_status() {
        for (i, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(kind.index(), i);
            assert_eq!(Kind::LABELS[i], kind.label());
            assert_eq!(Kind::LABELS.iter().filter(|l| **l == kind.label()).count(), 1);
            match kind.side() {
                Side::Client => assert!((400..500).contains(&kind.status()) || kind.status() > 500),
                Side::Gateway | Side::Upstream => assert!(kind.status() >= 500),
            }
        }
    }

    #[test]
    fn faults_of_calls_have_the_codes_of_synapse() {
        for (kind, code) in [
            (Kind::ConnectFailure, Some(101_503)),
            (Kind::UpstreamTls, Some(101_503)),
            (Kind::UpstreamTimeout, Some(101_504)),
            (Kind::FlowTimeout, Some(101_504)),
            (Kind::GatherTimeout, Some(101_504)),
            (Kind::UpstreamReset, Some(101_505)),
            (Kind::ConnectTimeout, Some(101_508)),
            (Kind::NoTarget, Some(303_000)),
            (Kind::TargetSuspended, Some(303_001)),
            (Kind::ClientGone, None),
            (Kind::Internal, None),
        ] {
            assert_eq!(kind.synapse_code(), code, "{kind:?}");
        }
        let of_others = Kind::ALL.iter().filter(|kind| kind.side() != Side::Upstream);
        let coded: Vec<&Kind> = of_others.filter(|kind| kind.synapse_code().is_some()).collect();
        assert_eq!(coded, [&Kind::FlowTimeout, &Kind::GatherTimeout]);
    }
}
