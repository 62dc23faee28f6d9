//! The facts of a policy that the rest of the compiler has to know.
//!
//! Nothing else distinguishes kinds of policy: wrong orders, the blind spots of a cache, the form of faults and the upstreams in use
//! are all computed from these facts.

use config::MessageSide;

/// The facts of one policy, by its keys.
#[cfg_attr(test, derive(Debug))]
pub(crate) struct Facts<'p> {
    /// The requests that it lets pass.
    pub(crate) access: Access,
    /// It answers every request, so that the route needs no destination.
    pub(crate) answers: bool,
    /// It needs to know who asks.
    pub(crate) asks_identity: bool,
    pub(crate) counts: CountedRequests,
    /// It finds out which operation a request calls.
    pub(crate) tells_operations: bool,
    /// It tells the upstream who was found to ask, or writes into replies for whom they are.
    pub(crate) replies_differ: bool,
    /// Header lines of requests that it writes for each client.
    pub(crate) writes: WrittenLines<'p>,
    /// Header lines that it removes from requests or renames: credentials, and those that the operator names.
    pub(crate) removes: Vec<&'p str>,
    /// Query parameters in which it looks for credentials.
    pub(crate) secrets: Vec<&'p str>,
    /// The upstreams it may send something to.
    pub(crate) upstreams: NamedUpstreams<'p>,
    /// It may send two requests for the same to different destinations.
    pub(crate) diverts: Diverts,
    /// Its facts about XML, if it works on XML.
    pub(crate) xml: Option<Xml<'p>>,
}

impl Facts<'_> {
    /// The facts of a policy that concerns nobody else.
    pub(crate) const NONE: Self = Facts {
        access: Access::Open,
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
    /// It lets everybody pass.
    Open,
    /// It finds out who asks, and turns away who shows no good credential.
    Identifies,
    /// It turns requests away by their client or their content.
    Guards,
    /// It turns addresses away, which no page has to be able to read.
    FiltersAddresses,
    /// It answers preflights of browsers.
    AnswersPreflights,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) enum CountedRequests {
    Nothing,
    Requests,
    /// Requests of each operation, which somebody above has to find out.
    Operations,
}

#[cfg_attr(test, derive(Debug))]
pub(crate) enum WrittenLines<'p> {
    These(Vec<&'p str>),
    /// Any one, as a service decides.
    Any,
}

#[cfg_attr(test, derive(Debug))]
pub(crate) enum NamedUpstreams<'p> {
    These(Vec<&'p str>),
    /// A service may name any.
    Any,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(Debug))]
pub(crate) enum Diverts {
    Never,
    /// By who asks.
    ByCaller,
    /// By the answer of a service.
    ByService,
    /// By the content of the body.
    ByMessage,
}

#[derive(Clone, Copy)]
#[cfg_attr(test, derive(Debug))]
pub(crate) struct Xml<'p> {
    /// It tells the client the reason of a fault.
    pub(crate) verbose: bool,
    /// The sides it holds to a schema.
    pub(crate) validates: &'p [MessageSide],
    /// It looks into requests.
    pub(crate) reads_requests: bool,
    /// It looks into replies.
    pub(crate) reads_replies: bool,
    /// It makes faults of replies other than 200.
    pub(crate) makes_faults: bool,
}
