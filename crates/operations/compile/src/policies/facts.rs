//! The facts about a policy that the rest of the compiler needs.
//!
//! The rest of the compiler does not distinguish kinds of policy. It derives everything from these facts: wrong orders, what a cache cannot
//! see, the form of faults, and the upstreams in use.

use config::MessageSide;

/// The facts of one policy, derived from its keys.
#[cfg_attr(test, derive(Debug))]
pub(crate) struct Facts<'p> {
    /// How the policy decides which requests pass.
    pub(crate) access: Access,
    /// Whether preflights reach the route by the method that they ask about, instead of `OPTIONS`.
    pub(crate) attracts_preflights: bool,
    /// Whether the policy answers every request, so that the route needs no destination.
    pub(crate) answers: bool,
    /// Whether the policy needs the client identity.
    pub(crate) asks_identity: bool,
    pub(crate) counts: CountedRequests,
    /// Whether the policy determines the operation that a request calls.
    pub(crate) tells_operations: bool,
    /// Whether the policy passes the client identity to the upstream or writes it into replies, so that replies may differ between clients.
    pub(crate) replies_differ: bool,
    /// Request header lines that the policy writes, with values that depend on the client.
    pub(crate) writes: WrittenLines<'p>,
    /// Request header lines that the policy removes or renames: credentials, and those that the operator names.
    pub(crate) removes: Vec<&'p str>,
    /// Query parameters from which the policy reads credentials.
    pub(crate) secrets: Vec<&'p str>,
    /// The upstreams that the policy may send requests to.
    pub(crate) upstreams: NamedUpstreams<'p>,
    /// On what basis the policy may send equal requests to different destinations.
    pub(crate) diverts: Diverts,
    /// Facts about XML, or `None` if the policy does not process XML.
    pub(crate) xml: Option<Xml<'p>>,
}

impl Facts<'_> {
    /// The facts of a policy that does not affect any other.
    pub(crate) const NONE: Self = Facts {
        access: Access::Open,
        attracts_preflights: false,
        answers: false,
        asks_identity: false,
        counts: CountedRequests::Nothing,
        tells_operations: false,
        replies_differ: false,
        writes: WrittenLines::These(Vec::new()),
        removes: Vec::new(),
        secrets: Vec::new(),
        upstreams: NamedUpstreams::These(Vec::new()),
        diverts: Diverts::Never,
        xml: None,
    };
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) enum Access {
    /// Lets every request pass.
    Open,
    /// Authenticates the client, and refuses requests without a valid credential.
    Identifies,
    /// Refuses requests because of their client or their content.
    Guards,
    /// Refuses client addresses or programs. Pages in browsers need not be able to read these refusals.
    FiltersAddresses,
    /// Answers CORS preflight requests of browsers.
    AnswersPreflights,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) enum CountedRequests {
    Nothing,
    Requests,
    /// Counts requests by operation, which a policy above must determine.
    Operations,
}

#[cfg_attr(test, derive(Debug))]
pub(crate) enum WrittenLines<'p> {
    These(Vec<&'p str>),
    /// Any header line, since a service may name it.
    Any,
}

#[cfg_attr(test, derive(Debug))]
pub(crate) enum NamedUpstreams<'p> {
    These(Vec<&'p str>),
    /// Any upstream, since a service may name it.
    Any,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) enum Diverts {
    Never,
    /// By the client.
    ByCaller,
    /// By the answer of a service.
    ByService,
    /// By the content of the body.
    ByMessage,
}

#[derive(Clone, Copy)]
#[cfg_attr(test, derive(Debug))]
pub(crate) struct Xml<'p> {
    /// Whether the policy reports the reason of a fault to the client.
    pub(crate) verbose: bool,
    /// The sides that the policy validates against a schema.
    pub(crate) validates: &'p [MessageSide],
    /// Whether the policy reads the bodies of requests.
    pub(crate) reads_requests: bool,
    /// Whether the policy reads the bodies of replies.
    pub(crate) reads_replies: bool,
    /// Whether the policy turns replies with a status other than 200 into faults.
    pub(crate) makes_faults: bool,
}
