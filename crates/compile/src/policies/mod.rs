//! Keys of policies to policies, a file for each kind; and the facts of each kind that others have to know: one table, with a
//! whole row for each kind.

pub(crate) mod api_key;
pub(crate) mod authenticate;
pub(crate) mod authorize;
pub(crate) mod basic;
pub(crate) mod cache;
pub(crate) mod compress;
pub(crate) mod concurrency;
pub(crate) mod cors;
mod facts;
pub(crate) mod forward_auth;
pub(crate) mod grpc_web;
pub(crate) mod headers;
pub(crate) mod interceptor;
pub(crate) mod ip_filter;
pub(crate) mod jwt;
pub(crate) mod key_type;
pub(crate) mod mutual_tls;
pub(crate) mod openapi;
pub(crate) mod quotas;
pub(crate) mod rate_limit;
pub(crate) mod redirect;
pub(crate) mod remote_definition;
pub(crate) mod soap;
pub(crate) mod soap_rest;
pub(crate) mod sse;
mod stores;
pub(crate) mod subscription;
pub(crate) mod transform;
pub(crate) mod websocket;
pub(crate) mod xpath_route;
pub(crate) mod xslt;

use ::policies::expression::Expression;
use config::{LimitBy, MessageSide, Policy, Report, Route, Spanned, UpstreamErrors};

pub(crate) use facts::{
    Access, CountedRequests, Diverts, Facts, NamedUpstreams, WrittenLines, Xml,
};

use crate::policy::RouteScope;
use crate::templates;

/// Builds one policy. Its faults go to the report, and then no plan is built.
pub(crate) fn build(
    policy: &Spanned<Policy>,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> plan::Policy {
    match &policy.value {
        Policy::Headers(keys) => headers::build(keys, place, report),
        Policy::ApiKey(keys) => whole(api_key::build(keys, policy.at, report)),
        Policy::Authenticate(keys) => whole(authenticate::build(keys, place, report)),
        Policy::Authorize(keys) => whole(authorize::build(keys, policy.at, policy.intact, report)),
        Policy::BackendJwt(keys) => whole(jwt::backend(keys, place, report)),
        Policy::Basic(keys) => basic::build(keys, report),
        Policy::Jwks(keys) => jwt::jwks(keys, place),
        Policy::Jwt(keys) => jwt::build(keys, place, report),
        Policy::KeyType(keys) => key_type::build(keys, place, report),
        Policy::MutualTls(keys) => mutual_tls::build(keys, policy.at, place, report),
        Policy::RateLimit(keys) => rate_limit::build(keys, policy.at, policy.intact, place, report),
        Policy::Concurrency(keys) => concurrency::build(keys, place, report),
        Policy::Cors(keys) => cors::build(keys, place, report),
        Policy::Cache(keys) => cache::build(keys, place, report),
        Policy::Compress(keys) => compress::build(keys, place, report),
        Policy::ForwardAuth(keys) => {
            whole(forward_auth::build(keys, policy.at, policy.intact, place, report))
        }
        Policy::GrpcWeb(_) => grpc_web::build(policy.at, policy.intact, place, report),
        Policy::IpRules(keys) => ip_filter::build(keys, policy.at, policy.intact, report),
        Policy::Interceptor(keys) => {
            interceptor::build(keys, policy.at, policy.intact, place, report)
        }
        // Sets were put in their places before; one that could not be was complained about.
        Policy::NamedSet(_) => whole(None),
        Policy::OpenApi(keys) => openapi::build(keys, place, report),
        Policy::Redirect(keys) => whole(redirect::build(keys, place, report)),
        Policy::Soap(keys) => soap::build(keys, place, report),
        Policy::SoapRest(keys) => whole(soap_rest::build(keys, place, report)),
        Policy::Sse(keys) => sse::build(keys, policy.at, policy.intact, place, report),
        Policy::SubscriptionCheck(keys) => subscription::build(keys, policy.at, place, report),
        Policy::Transform(keys) => transform::build(keys, place, report),
        Policy::WebSocket(keys) => websocket::build(keys, policy.at, policy.intact, place, report),
        Policy::XpathRoute(keys) => xpath_route::build(keys, place, report),
        Policy::Xslt(keys) => xslt::build(keys, place, report),
    }
}

/// A policy that could not be built was complained about, and nothing is served in its place.
fn whole(policy: Option<plan::Policy>) -> plan::Policy {
    policy.unwrap_or(plan::Policy { name: "nothing", request: None, response: None })
}

/// The table. A kind's row is whole, so that whoever adds a kind or a column decides about each.
pub(crate) fn facts<'p>(policy: &'p Policy, parameters: &[String]) -> Facts<'p> {
    match policy {
        Policy::ApiKey(keys) => api_key_row(keys),
        Policy::Authenticate(keys) => authenticate::row(keys),
        Policy::Authorize(keys) => authorize_row(keys),
        Policy::BackendJwt(keys) => backend_jwt_row(keys),
        Policy::Basic(keys) => basic_row(keys),
        Policy::Cache(_)
        | Policy::Compress(_)
        | Policy::GrpcWeb(_)
        | Policy::Jwks(_)
        | Policy::NamedSet(_)
        | Policy::OpenApi(_) => nothing(),
        Policy::Concurrency(keys) => concurrency_row(keys),
        Policy::Cors(_) => cors_row(),
        Policy::ForwardAuth(keys) => forward_auth::row(keys),
        Policy::Headers(keys) => headers_row(keys, parameters),
        Policy::Interceptor(keys) => interceptor_row(keys),
        Policy::IpRules(_) => ip_filter_row(),
        Policy::Jwt(keys) => jwt_row(keys),
        Policy::KeyType(keys) => key_type_row(keys),
        Policy::MutualTls(keys) => mutual_tls_row(keys),
        Policy::RateLimit(keys) => rate_limit_row(keys),
        Policy::Redirect(keys) => redirect_row(keys, parameters),
        Policy::Soap(keys) => soap_row(keys),
        Policy::SoapRest(_) => soap_rest_row(),
        Policy::Sse(keys) => sse_row(keys),
        Policy::SubscriptionCheck(keys) => subscription::row(keys),
        Policy::Transform(keys) => transform_row(keys, parameters),
        Policy::WebSocket(keys) => websocket_row(keys),
        Policy::XpathRoute(keys) => xpath_route_row(keys),
        Policy::Xslt(keys) => xslt_row(keys),
    }
}

/// The rows of a route's policies, in their order.
pub(crate) fn of(route: &Route) -> Vec<Facts<'_>> {
    rows(&route.policies, route)
}

/// The rows of the policies above one, in their order.
pub(crate) fn above<'r>(place: &RouteScope<'r, '_>) -> Vec<Facts<'r>> {
    rows(place.of.policies.get(..place.at).unwrap_or_default(), place.of)
}

fn rows<'r>(policies: &'r [Spanned<Policy>], route: &Route) -> Vec<Facts<'r>> {
    let parameters = templates::parameters(&route.matches.value);
    policies.iter().map(|policy| facts(&policy.value, &parameters)).collect()
}

fn api_key_row(keys: &config::ApiKey) -> Facts<'_> {
    Facts {
        access: Access::Identifies,
        answers: false,
        asks_identity: false,
        counts: CountedRequests::Nothing,
        tells_operations: false,
        replies_differ: false,
        writes: WrittenLines::These(Vec::new()),
        removes: if keys.forward { Vec::new() } else { texts(&keys.header.0) },
        secrets: texts(&keys.query.0),
        upstreams: NamedUpstreams::These(Vec::new()),
        diverts: Diverts::Never,
        xml: None,
    }
}

fn authorize_row(keys: &config::Authorize) -> Facts<'_> {
    Facts {
        access: Access::Guards,
        answers: false,
        asks_identity: keys.groups.is_some()
            || keys.rule.as_ref().is_some_and(|rule| asks_identity(&rule.value)),
        counts: CountedRequests::Nothing,
        tells_operations: false,
        replies_differ: false,
        writes: WrittenLines::These(Vec::new()),
        removes: Vec::new(),
        secrets: Vec::new(),
        upstreams: NamedUpstreams::These(Vec::new()),
        diverts: Diverts::Never,
        xml: None,
    }
}

fn backend_jwt_row(keys: &config::BackendJwt) -> Facts<'_> {
    Facts {
        access: Access::Open,
        answers: false,
        asks_identity: true,
        counts: CountedRequests::Nothing,
        tells_operations: false,
        replies_differ: true,
        writes: WrittenLines::These(vec![&keys.header.value]),
        removes: Vec::new(),
        secrets: Vec::new(),
        upstreams: NamedUpstreams::These(Vec::new()),
        diverts: Diverts::Never,
        xml: None,
    }
}

fn basic_row(keys: &config::Basic) -> Facts<'_> {
    Facts {
        access: Access::Identifies,
        answers: false,
        asks_identity: false,
        counts: CountedRequests::Nothing,
        tells_operations: false,
        replies_differ: false,
        writes: WrittenLines::These(Vec::new()),
        removes: if keys.forward { Vec::new() } else { vec!["authorization"] },
        secrets: Vec::new(),
        upstreams: NamedUpstreams::These(Vec::new()),
        diverts: Diverts::Never,
        xml: None,
    }
}

pub(crate) fn nothing<'p>() -> Facts<'p> {
    Facts {
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
    }
}

fn concurrency_row(keys: &config::Concurrency) -> Facts<'_> {
    Facts {
        access: Access::Open,
        answers: false,
        asks_identity: counts_identity(&keys.by.value),
        counts: counts(Some(&keys.by.value)),
        tells_operations: false,
        replies_differ: false,
        writes: WrittenLines::These(Vec::new()),
        removes: Vec::new(),
        secrets: Vec::new(),
        upstreams: NamedUpstreams::These(Vec::new()),
        diverts: Diverts::Never,
        xml: None,
    }
}

fn cors_row<'p>() -> Facts<'p> {
    Facts {
        access: Access::AnswersPreflights,
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
    }
}

fn headers_row<'p>(keys: &'p config::Headers, parameters: &[String]) -> Facts<'p> {
    Facts {
        access: Access::Open,
        answers: false,
        asks_identity: headers::asks_identity(&keys.request, parameters),
        counts: CountedRequests::Nothing,
        tells_operations: false,
        replies_differ: headers::replies_differ(keys, parameters),
        writes: WrittenLines::These(headers::telling(&keys.request, parameters)),
        removes: headers::removed(&keys.request),
        secrets: Vec::new(),
        upstreams: NamedUpstreams::These(Vec::new()),
        diverts: Diverts::Never,
        xml: None,
    }
}

fn interceptor_row(keys: &config::Interceptor) -> Facts<'_> {
    Facts {
        access: Access::Open,
        answers: false,
        asks_identity: false,
        counts: CountedRequests::Nothing,
        tells_operations: false,
        replies_differ: false,
        writes: match keys.request {
            Some(_) => WrittenLines::Any,
            None => WrittenLines::These(Vec::new()),
        },
        removes: Vec::new(),
        secrets: Vec::new(),
        upstreams: interceptor::named(keys),
        diverts: match keys.request {
            Some(_) => Diverts::ByService,
            None => Diverts::Never,
        },
        xml: None,
    }
}

fn ip_filter_row<'p>() -> Facts<'p> {
    Facts {
        access: Access::FiltersAddresses,
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
    }
}

fn jwt_row(keys: &config::Jwt) -> Facts<'_> {
    Facts {
        access: Access::Identifies,
        answers: false,
        asks_identity: false,
        counts: CountedRequests::Nothing,
        tells_operations: false,
        replies_differ: !keys.claims_to_headers.is_empty(),
        writes: WrittenLines::These(keys.claims_to_headers.names().collect()),
        removes: if keys.forward { Vec::new() } else { vec![&keys.header.value] },
        secrets: texts(&keys.query),
        upstreams: NamedUpstreams::These(Vec::new()),
        diverts: Diverts::Never,
        xml: None,
    }
}

fn key_type_row(keys: &config::KeyType) -> Facts<'_> {
    Facts {
        access: Access::Open,
        answers: false,
        asks_identity: true,
        counts: CountedRequests::Nothing,
        tells_operations: false,
        replies_differ: false,
        writes: WrittenLines::These(Vec::new()),
        removes: Vec::new(),
        secrets: Vec::new(),
        upstreams: NamedUpstreams::These(texts(&keys.sandbox)),
        diverts: match keys.sandbox {
            Some(_) => Diverts::ByCaller,
            None => Diverts::Never,
        },
        xml: None,
    }
}

fn mutual_tls_row(keys: &config::MutualTls) -> Facts<'_> {
    Facts {
        access: Access::Identifies,
        answers: false,
        asks_identity: false,
        counts: CountedRequests::Nothing,
        tells_operations: false,
        replies_differ: false,
        writes: WrittenLines::These(Vec::new()),
        removes: texts(&keys.header),
        secrets: Vec::new(),
        upstreams: NamedUpstreams::These(Vec::new()),
        diverts: Diverts::Never,
        xml: None,
    }
}

fn rate_limit_row(keys: &config::RateLimit) -> Facts<'_> {
    Facts {
        access: Access::Open,
        answers: false,
        asks_identity: keys.plans || keys.by.as_ref().is_some_and(|by| counts_identity(&by.value)),
        counts: counts(keys.by.as_ref().map(|by| &by.value)),
        tells_operations: false,
        replies_differ: false,
        writes: WrittenLines::These(Vec::new()),
        removes: Vec::new(),
        secrets: Vec::new(),
        upstreams: NamedUpstreams::These(Vec::new()),
        diverts: Diverts::Never,
        xml: None,
    }
}

fn redirect_row<'p>(keys: &'p config::Redirect, parameters: &[String]) -> Facts<'p> {
    Facts {
        access: Access::Open,
        answers: true,
        asks_identity: templates::asks_identity(&keys.to.value, parameters),
        counts: CountedRequests::Nothing,
        tells_operations: false,
        replies_differ: templates::tells_who_asks(&keys.to.value, parameters),
        writes: WrittenLines::These(Vec::new()),
        removes: Vec::new(),
        secrets: Vec::new(),
        upstreams: NamedUpstreams::These(Vec::new()),
        diverts: Diverts::Never,
        xml: None,
    }
}

fn soap_row(keys: &config::Soap) -> Facts<'_> {
    Facts {
        access: Access::Open,
        answers: false,
        asks_identity: false,
        counts: CountedRequests::Nothing,
        tells_operations: soap::tells_operations(keys),
        replies_differ: false,
        writes: WrittenLines::These(Vec::new()),
        removes: Vec::new(),
        secrets: Vec::new(),
        upstreams: NamedUpstreams::These(Vec::new()),
        diverts: Diverts::Never,
        xml: Some(Xml {
            verbose: keys.verbose,
            validates: &keys.validate.value,
            reads_requests: keys.validate.value.contains(&MessageSide::Request),
            reads_replies: soap::reads_replies(keys),
            makes_faults: keys.upstream_errors == UpstreamErrors::Fault,
        }),
    }
}

fn soap_rest_row<'p>() -> Facts<'p> {
    Facts {
        access: Access::Open,
        answers: false,
        asks_identity: false,
        counts: CountedRequests::Nothing,
        tells_operations: true,
        replies_differ: false,
        writes: WrittenLines::These(Vec::new()),
        removes: Vec::new(),
        secrets: Vec::new(),
        upstreams: NamedUpstreams::These(Vec::new()),
        diverts: Diverts::Never,
        xml: None,
    }
}

fn sse_row(keys: &config::Sse) -> Facts<'_> {
    Facts {
        access: Access::Open,
        answers: false,
        asks_identity: keys.plans || keys.by.as_ref().is_some_and(|by| counts_identity(&by.value)),
        counts: counts(keys.by.as_ref().map(|by| &by.value)),
        tells_operations: false,
        replies_differ: false,
        writes: WrittenLines::These(Vec::new()),
        removes: Vec::new(),
        secrets: Vec::new(),
        upstreams: NamedUpstreams::These(Vec::new()),
        diverts: Diverts::Never,
        xml: None,
    }
}

fn transform_row<'p>(keys: &'p config::Transform, parameters: &[String]) -> Facts<'p> {
    Facts {
        access: Access::Open,
        answers: false,
        asks_identity: transform::texts(keys)
            .any(|text| templates::asks_identity(text, parameters)),
        counts: CountedRequests::Nothing,
        tells_operations: false,
        replies_differ: transform::texts(keys)
            .any(|text| templates::tells_who_asks(text, parameters)),
        writes: WrittenLines::These(Vec::new()),
        removes: Vec::new(),
        secrets: Vec::new(),
        upstreams: NamedUpstreams::These(Vec::new()),
        diverts: Diverts::Never,
        xml: None,
    }
}

fn websocket_row(keys: &config::WebSocket) -> Facts<'_> {
    let topics = keys.topics.iter().flat_map(|topics| topics.value.iter());
    let asks_scopes = topics
        .map(|(_, topic)| topic)
        .any(|topic| !topic.publish.0.is_empty() || !topic.subscribe.0.is_empty());
    Facts {
        access: if asks_scopes { Access::Guards } else { Access::Open },
        answers: false,
        asks_identity: asks_scopes
            || keys.plans
            || keys.by.as_ref().is_some_and(|by| counts_identity(&by.value)),
        counts: counts(keys.by.as_ref().map(|by| &by.value)),
        tells_operations: false,
        replies_differ: false,
        writes: WrittenLines::These(Vec::new()),
        removes: Vec::new(),
        secrets: Vec::new(),
        upstreams: NamedUpstreams::These(Vec::new()),
        diverts: Diverts::Never,
        xml: None,
    }
}

fn xpath_route_row(keys: &config::XpathRoute) -> Facts<'_> {
    Facts {
        access: Access::Open,
        answers: false,
        asks_identity: false,
        counts: CountedRequests::Nothing,
        tells_operations: false,
        replies_differ: false,
        writes: WrittenLines::These(Vec::new()),
        removes: Vec::new(),
        secrets: Vec::new(),
        upstreams: NamedUpstreams::These(xpath_route::named(keys)),
        diverts: Diverts::ByMessage,
        xml: Some(Xml {
            verbose: keys.verbose,
            validates: &[],
            reads_requests: true,
            reads_replies: false,
            makes_faults: false,
        }),
    }
}

fn xslt_row(keys: &config::Xslt) -> Facts<'_> {
    Facts {
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
        xml: Some(Xml {
            verbose: keys.verbose,
            validates: &[],
            reads_requests: keys.side.value == MessageSide::Request,
            reads_replies: keys.side.value == MessageSide::Response,
            makes_faults: false,
        }),
    }
}

fn texts<'p>(written: impl IntoIterator<Item = &'p Spanned<String>>) -> Vec<&'p str> {
    written.into_iter().map(|text| text.value.as_str()).collect()
}

fn counts(by: Option<&LimitBy>) -> CountedRequests {
    match by {
        Some(LimitBy::Operation) => CountedRequests::Operations,
        Some(_) | None => CountedRequests::Requests,
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
