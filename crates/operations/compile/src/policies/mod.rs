//! Compiles the keys of policies to policies, and declares the facts of each kind. There is one file for each kind, and one list of all
//! kinds.

pub(crate) mod api_key;
pub(crate) mod authenticate;
pub(crate) mod authorize;
pub(crate) mod basic;
pub(crate) mod cache;
pub(crate) mod canary;
pub(crate) mod compress;
pub(crate) mod concurrency;
pub(crate) mod correlation;
pub(crate) mod cors;
mod facts;
pub(crate) mod for_clients;
pub(crate) mod forward_auth;
pub(crate) mod grpc_json;
pub(crate) mod grpc_web;
pub(crate) mod headers;
pub(crate) mod hmac;
pub(crate) mod interceptor;
pub(crate) mod ip_filter;
pub(crate) mod json_schema;
pub(crate) mod jwt;
pub(crate) mod key_type;
pub(crate) mod mock;
pub(crate) mod mutual_tls;
pub(crate) mod openapi;
pub(crate) mod openapi_file;
pub(crate) mod quotas;
pub(crate) mod rate_limit;
pub(crate) mod redirect;
pub(crate) mod remote_definition;
pub(crate) mod soap;
pub(crate) mod soap_rest;
pub(crate) mod sse;
mod stores;
pub(crate) mod subscription;
#[cfg(test)]
mod tests;
pub(crate) mod transform;
pub(crate) mod user_agent;
pub(crate) mod websocket;
mod ws_security;
pub(crate) mod xpath_route;
pub(crate) mod xslt;

use ::policies::expression::Expression;
use config::{At, LimitBy, NamedSet, Policy, Report, Route, Spanned};

pub(crate) use facts::{
    Access, CountedRequests, Diverts, Facts, NamedUpstreams, WrittenLines, Xml,
};

use crate::policy::RouteScope;
use crate::templates;

/// A kind of policy, implemented for its keys: how they become a policy, and the facts that the rest of the compiler needs.
pub(crate) trait PolicyKind {
    /// Builds the policy. Faults go to the report, so that no plan is made.
    fn build(
        &self,
        written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy;

    /// Returns the facts of the policy; the default is [`Facts::NONE`]. `parameters` are the parameters of the route's path.
    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts::NONE
    }
}

/// The place of a policy in the configuration.
#[derive(Clone, Copy)]
pub(crate) struct PolicyPlace {
    pub(crate) at: At,
    /// Whether all its keys could be read.
    pub(crate) intact: bool,
}

/// Generates the functions that dispatch on the kind, from one list of kinds.
macro_rules! kinds {
    ($($kind:ident,)*) => {
        fn kind(policy: &Policy) -> &dyn PolicyKind {
            match policy {
                $( Policy::$kind(keys) => keys, )*
            }
        }
    };
}

kinds! {
    ApiKey,
    Authenticate,
    Authorize,
    BackendJwt,
    Basic,
    Cache,
    Canary,
    Compress,
    Concurrency,
    Correlation,
    Cors,
    ForClients,
    ForwardAuth,
    GrpcJson,
    GrpcWeb,
    Headers,
    Hmac,
    Interceptor,
    IpRules,
    JsonSchema,
    Jwks,
    Jwt,
    KeyType,
    Mock,
    MutualTls,
    NamedSet,
    OpenApi,
    RateLimit,
    Redirect,
    Soap,
    SoapRest,
    Sse,
    SubscriptionCheck,
    Transform,
    UserAgent,
    WebSocket,
    WsSecurity,
    XpathRoute,
    Xslt,
}

/// Builds one policy. Faults go to the report, so that no plan is made.
pub(crate) fn build(
    policy: &Spanned<Policy>,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> plan::Policy {
    let written = PolicyPlace { at: policy.at, intact: policy.intact };
    kind(&policy.value).build(written, place, report)
}

/// Returns the facts of a policy on a route whose path has these parameters.
pub(crate) fn facts<'p>(policy: &'p Policy, parameters: &[String]) -> Facts<'p> {
    kind(policy).facts(parameters)
}

impl PolicyKind for NamedSet {
    /// Policy sets were expanded earlier; a set that could not be expanded was already reported.
    fn build(
        &self,
        _written: PolicyPlace,
        _place: &mut RouteScope<'_, '_>,
        _report: &mut Report,
    ) -> plan::Policy {
        or_nothing(None)
    }
}

/// Replaces a policy that could not be built with one that does nothing. It is never served, because the fault was reported.
fn or_nothing(policy: Option<plan::Policy>) -> plan::Policy {
    policy.unwrap_or(plan::Policy { name: "nothing", request: None, response: None })
}

/// Returns the facts of a route's policies, in their order.
pub(crate) fn of(route: &Route) -> Vec<Facts<'_>> {
    rows(&route.policies, route)
}

/// Returns the facts of the policies above this one, in their order.
pub(crate) fn above<'r>(place: &RouteScope<'r, '_>) -> Vec<Facts<'r>> {
    rows(place.of.policies.get(..place.at).unwrap_or_default(), place.of)
}

fn rows<'r>(policies: &'r [Spanned<Policy>], route: &Route) -> Vec<Facts<'r>> {
    let parameters = templates::parameters(&route.matches.value);
    policies.iter().map(|policy| facts(&policy.value, &parameters)).collect()
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
