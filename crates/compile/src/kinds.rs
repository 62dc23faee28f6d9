//! What each kind of policy does that others have to know: one table, with a whole row for each kind.
//!
//! Nothing else here looks at which policy it has before it: orders that make no sense, what a cache cannot know, the form of
//! faults and the upstreams that are used are all worked out of these rows.

use config::{LimitBy, MessageSide, Policy, Route, Spanned, UpstreamErrors};
use policies::expression::Expression;

use crate::policies::{headers, interceptor, soap, transform, xpath_route};
use crate::templates;

/// A row of the table: what one policy does, by its keys.
pub(crate) struct Facts<'p> {
    /// Whom it lets pass.
    pub(crate) access: Access,
    /// It needs to know who asks.
    pub(crate) asks_identity: bool,
    pub(crate) counts: Counts,
    /// It finds out which operation a request calls.
    pub(crate) tells_operations: bool,
    /// It tells the upstream who was found to ask, or writes into replies for whom they are.
    pub(crate) replies_differ: bool,
    /// Header lines of requests that it writes for each client.
    pub(crate) writes: Written<'p>,
    /// Header lines that it takes out of requests or gives another name: credentials, and what the operator says.
    pub(crate) removes: Vec<&'p str>,
    /// Query parameters in which it looks for credentials.
    pub(crate) secrets: Vec<&'p str>,
    /// The upstreams it may send something to.
    pub(crate) upstreams: Named<'p>,
    /// Whether it may send one request elsewhere than another for the same.
    pub(crate) diverts: Diverts,
    /// What it does with XML, if that is what it is about.
    pub(crate) xml: Option<Xml<'p>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// It lets everybody pass.
    Open,
    /// It finds out who asks, and turns away who shows no good credential.
    Identifies,
    /// It turns requests away by who asks or for what.
    Guards,
    /// It turns addresses away, which no page has to be able to read.
    FiltersAddresses,
    /// It answers browsers that ask whether they may ask.
    AnswersPreflights,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    Nothing,
    Requests,
    /// Requests of each operation, which somebody above has to find out.
    Operations,
}

pub(crate) enum Written<'p> {
    These(Vec<&'p str>),
    /// Whatever a service says.
    Any,
}

pub(crate) enum Named<'p> {
    These(Vec<&'p str>),
    /// A service may name any.
    Any,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Diverts {
    Never,
    /// By who asks.
    ByCaller,
    /// By what a service says.
    ByService,
    /// By what stands in the body.
    ByMessage,
}

#[derive(Clone, Copy)]
pub(crate) struct Xml<'p> {
    /// It tells the client what is wrong.
    pub(crate) verbose: bool,
    /// The sides it holds to a schema.
    pub(crate) validates: &'p [MessageSide],
    /// It looks into replies.
    pub(crate) reads_replies: bool,
    /// It makes faults of replies other than 200.
    pub(crate) makes_faults: bool,
}

/// The table. A kind's row is whole, so that whoever adds a kind or a column decides about each.
pub(crate) fn facts<'p>(policy: &'p Policy, parameters: &[String]) -> Facts<'p> {
    match policy {
        Policy::ApiKey(keys) => Facts {
            access: Access::Identifies,
            asks_identity: false,
            counts: Counts::Nothing,
            tells_operations: false,
            replies_differ: false,
            writes: Written::These(Vec::new()),
            removes: match keys.forward {
                true => Vec::new(),
                false => texts(&keys.header.0),
            },
            secrets: texts(&keys.query.0),
            upstreams: Named::These(Vec::new()),
            diverts: Diverts::Never,
            xml: None,
        },
        Policy::Authorize(keys) => Facts {
            access: Access::Guards,
            asks_identity: asks_identity(&keys.rule.value),
            counts: Counts::Nothing,
            tells_operations: false,
            replies_differ: false,
            writes: Written::These(Vec::new()),
            removes: Vec::new(),
            secrets: Vec::new(),
            upstreams: Named::These(Vec::new()),
            diverts: Diverts::Never,
            xml: None,
        },
        Policy::BackendJwt(keys) => Facts {
            access: Access::Open,
            asks_identity: true,
            counts: Counts::Nothing,
            tells_operations: false,
            replies_differ: true,
            writes: Written::These(vec![&keys.header.value]),
            removes: Vec::new(),
            secrets: Vec::new(),
            upstreams: Named::These(Vec::new()),
            diverts: Diverts::Never,
            xml: None,
        },
        Policy::Basic(keys) => Facts {
            access: Access::Identifies,
            asks_identity: false,
            counts: Counts::Nothing,
            tells_operations: false,
            replies_differ: false,
            writes: Written::These(Vec::new()),
            removes: match keys.forward {
                true => Vec::new(),
                false => vec!["authorization"],
            },
            secrets: Vec::new(),
            upstreams: Named::These(Vec::new()),
            diverts: Diverts::Never,
            xml: None,
        },
        Policy::Cache(_)
        | Policy::Compress(_)
        | Policy::Jwks(_)
        | Policy::NamedSet(_)
        | Policy::OpenApi(_) => Facts {
            access: Access::Open,
            asks_identity: false,
            counts: Counts::Nothing,
            tells_operations: false,
            replies_differ: false,
            writes: Written::These(Vec::new()),
            removes: Vec::new(),
            secrets: Vec::new(),
            upstreams: Named::These(Vec::new()),
            diverts: Diverts::Never,
            xml: None,
        },
        Policy::Concurrency(keys) => Facts {
            access: Access::Open,
            asks_identity: counts_identity(&keys.by.value),
            counts: counts(Some(&keys.by.value)),
            tells_operations: false,
            replies_differ: false,
            writes: Written::These(Vec::new()),
            removes: Vec::new(),
            secrets: Vec::new(),
            upstreams: Named::These(Vec::new()),
            diverts: Diverts::Never,
            xml: None,
        },
        Policy::Cors(_) => Facts {
            access: Access::AnswersPreflights,
            asks_identity: false,
            counts: Counts::Nothing,
            tells_operations: false,
            replies_differ: false,
            writes: Written::These(Vec::new()),
            removes: Vec::new(),
            secrets: Vec::new(),
            upstreams: Named::These(Vec::new()),
            diverts: Diverts::Never,
            xml: None,
        },
        Policy::Headers(keys) => Facts {
            access: Access::Open,
            asks_identity: headers::asks_identity(&keys.request, parameters),
            counts: Counts::Nothing,
            tells_operations: false,
            replies_differ: headers::replies_differ(keys, parameters),
            writes: Written::These(headers::telling(&keys.request, parameters)),
            removes: headers::removed(&keys.request),
            secrets: Vec::new(),
            upstreams: Named::These(Vec::new()),
            diverts: Diverts::Never,
            xml: None,
        },
        Policy::Interceptor(keys) => Facts {
            access: Access::Open,
            asks_identity: false,
            counts: Counts::Nothing,
            tells_operations: false,
            replies_differ: false,
            writes: match keys.request {
                Some(_) => Written::Any,
                None => Written::These(Vec::new()),
            },
            removes: Vec::new(),
            secrets: Vec::new(),
            upstreams: interceptor::named(keys),
            diverts: match keys.request {
                Some(_) => Diverts::ByService,
                None => Diverts::Never,
            },
            xml: None,
        },
        Policy::IpRules(_) => Facts {
            access: Access::FiltersAddresses,
            asks_identity: false,
            counts: Counts::Nothing,
            tells_operations: false,
            replies_differ: false,
            writes: Written::These(Vec::new()),
            removes: Vec::new(),
            secrets: Vec::new(),
            upstreams: Named::These(Vec::new()),
            diverts: Diverts::Never,
            xml: None,
        },
        Policy::Jwt(keys) => Facts {
            access: Access::Identifies,
            asks_identity: false,
            counts: Counts::Nothing,
            tells_operations: false,
            replies_differ: !keys.claims_to_headers.is_empty(),
            writes: Written::These(keys.claims_to_headers.names().collect()),
            removes: match keys.forward {
                true => Vec::new(),
                false => vec![&keys.header.value],
            },
            secrets: texts(&keys.query),
            upstreams: Named::These(Vec::new()),
            diverts: Diverts::Never,
            xml: None,
        },
        Policy::KeyType(keys) => Facts {
            access: Access::Open,
            asks_identity: true,
            counts: Counts::Nothing,
            tells_operations: false,
            replies_differ: false,
            writes: Written::These(Vec::new()),
            removes: Vec::new(),
            secrets: Vec::new(),
            upstreams: Named::These(texts(&keys.sandbox)),
            diverts: match keys.sandbox {
                Some(_) => Diverts::ByCaller,
                None => Diverts::Never,
            },
            xml: None,
        },
        Policy::MutualTls(keys) => Facts {
            access: Access::Identifies,
            asks_identity: false,
            counts: Counts::Nothing,
            tells_operations: false,
            replies_differ: false,
            writes: Written::These(Vec::new()),
            removes: texts(&keys.header),
            secrets: Vec::new(),
            upstreams: Named::These(Vec::new()),
            diverts: Diverts::Never,
            xml: None,
        },
        Policy::RateLimit(keys) => Facts {
            access: Access::Open,
            asks_identity: keys.plans
                || keys.by.as_ref().is_some_and(|by| counts_identity(&by.value)),
            counts: counts(keys.by.as_ref().map(|by| &by.value)),
            tells_operations: false,
            replies_differ: false,
            writes: Written::These(Vec::new()),
            removes: Vec::new(),
            secrets: Vec::new(),
            upstreams: Named::These(Vec::new()),
            diverts: Diverts::Never,
            xml: None,
        },
        Policy::Soap(keys) => Facts {
            access: Access::Open,
            asks_identity: false,
            counts: Counts::Nothing,
            tells_operations: soap::tells_operations(keys),
            replies_differ: false,
            writes: Written::These(Vec::new()),
            removes: Vec::new(),
            secrets: Vec::new(),
            upstreams: Named::These(Vec::new()),
            diverts: Diverts::Never,
            xml: Some(Xml {
                verbose: keys.verbose,
                validates: &keys.validate.value,
                reads_replies: soap::reads_replies(keys),
                makes_faults: keys.upstream_errors == UpstreamErrors::Fault,
            }),
        },
        Policy::SoapRest(_) => Facts {
            access: Access::Open,
            asks_identity: false,
            counts: Counts::Nothing,
            tells_operations: true,
            replies_differ: false,
            writes: Written::These(Vec::new()),
            removes: Vec::new(),
            secrets: Vec::new(),
            upstreams: Named::These(Vec::new()),
            diverts: Diverts::Never,
            xml: None,
        },
        Policy::Transform(keys) => Facts {
            access: Access::Open,
            asks_identity: transform::texts(keys)
                .any(|text| templates::asks_identity(text, parameters)),
            counts: Counts::Nothing,
            tells_operations: false,
            replies_differ: transform::texts(keys)
                .any(|text| templates::tells_who_asks(text, parameters)),
            writes: Written::These(Vec::new()),
            removes: Vec::new(),
            secrets: Vec::new(),
            upstreams: Named::These(Vec::new()),
            diverts: Diverts::Never,
            xml: None,
        },
        Policy::XpathRoute(keys) => Facts {
            access: Access::Open,
            asks_identity: false,
            counts: Counts::Nothing,
            tells_operations: false,
            replies_differ: false,
            writes: Written::These(Vec::new()),
            removes: Vec::new(),
            secrets: Vec::new(),
            upstreams: Named::These(xpath_route::named(keys)),
            diverts: Diverts::ByMessage,
            xml: Some(Xml {
                verbose: keys.verbose,
                validates: &[],
                reads_replies: false,
                makes_faults: false,
            }),
        },
        Policy::Xslt(keys) => Facts {
            access: Access::Open,
            asks_identity: false,
            counts: Counts::Nothing,
            tells_operations: false,
            replies_differ: false,
            writes: Written::These(Vec::new()),
            removes: Vec::new(),
            secrets: Vec::new(),
            upstreams: Named::These(Vec::new()),
            diverts: Diverts::Never,
            xml: Some(Xml {
                verbose: keys.verbose,
                validates: &[],
                reads_replies: keys.side.value == MessageSide::Response,
                makes_faults: false,
            }),
        },
    }
}

/// The rows of a route's policies, in their order.
pub(crate) fn of<'r>(route: &'r Route) -> Vec<Facts<'r>> {
    let parameters = templates::parameters(&route.matches.value);
    route.policies.iter().map(|policy| facts(&policy.value, &parameters)).collect()
}

fn texts<'p>(written: impl IntoIterator<Item = &'p Spanned<String>>) -> Vec<&'p str> {
    written.into_iter().map(|text| text.value.as_str()).collect()
}

fn counts(by: Option<&LimitBy>) -> Counts {
    match by {
        Some(LimitBy::Operation) => Counts::Operations,
        Some(_) | None => Counts::Requests,
    }
}

fn counts_identity(by: &LimitBy) -> bool {
    match by {
        LimitBy::Subject => true,
        LimitBy::Expression(text) => asks_identity(text),
        LimitBy::Client | LimitBy::Header(_) | LimitBy::Route | LimitBy::Operation => false,
    }
}

fn asks_identity(expression: &str) -> bool {
    Expression::compile(expression).is_ok_and(|expression| expression.wants_identity())
}
