//! What policies leave for those below them: a list in the wrong order is a complaint, not a surprise.

use config::{
    At, Cache, DefinitionAt, Headers, HeadersEdit, LimitBy, Map, MessageSide, Policy, Report,
    Route, Spanned,
};
use policies::expression::Expression;

use crate::policies::transform;
use crate::{templates, told};

/// Policies that find out who asks.
pub(crate) const IDENTIFY: &[&str] = &["jwt", "api_key", "basic", "mutual_tls"];

/// Policies that turn requests away by who asks or for what.
const GUARD: &[&str] = &["jwt", "api_key", "basic", "mutual_tls", "authorize", "ip_filter"];

/// Policies whose faults a page of another origin has to be able to read, so `cors` stands above them.
const MAY_STAND_ABOVE_CORS: &[&str] = &["cors", "ip_filter"];

/// Looks at the order of a route's policies. On one that is `open` by intent, nobody is meant to be found out.
pub(crate) fn check(route: &Route, open: bool, report: &mut Report) {
    let policies = &route.policies;
    let parameters = templates::parameters(&route.matches.value);
    for (at, policy) in policies.iter().enumerate() {
        let (above, below) = policies.split_at(at);
        let find = |names: &[&str], among: &[Spanned<Policy>]| {
            among.iter().map(|p| p.value.name()).find(|name| names.contains(name))
        };
        if wants_identity(&policy.value, &parameters) && find(IDENTIFY, above).is_none() {
            match find(IDENTIFY, below) {
                Some(identify) => {
                    let what = format!(
                        "`{}` {} subject, which `{identify}` below it finds out",
                        policy.value.name(),
                        if counts(&policy.value) { "counts by" } else { "asks for the" }
                    );
                    report.error(policy.at, what, format!("move it below `{identify}`"));
                }
                None if open => {}
                None => {
                    let what = match counts(&policy.value) {
                        true => "no policy finds out who asks, so this counts by client",
                        false => "no policy finds out who asks, so nobody is the subject",
                    };
                    let help = format!("add one of {} above it", IDENTIFY.join(", "));
                    report.warn(policy.at, what, help);
                }
            }
        }
        if wants_operation(&policy.value) && !above.iter().any(|p| tells_operations(&p.value)) {
            let what =
                format!("`{}` counts by operation, and none is known there", policy.value.name());
            let help =
                "move it below a `soap` with a `schema` that validates requests, or a `soap_rest`";
            report.error(policy.at, what, help);
        }
        if let Policy::Cache(keys) = &policy.value {
            check_cache(keys, policy.at, route, at, report);
        }
        let hidden = above.iter().find(|p| !MAY_STAND_ABOVE_CORS.contains(&p.value.name()));
        if let (Policy::Cors(_), Some(hidden)) = (&policy.value, hidden) {
            let what = format!(
                "pages cannot read the replies of `{}`, which stands above `cors`",
                hidden.value.name()
            );
            report.warn(policy.at, what, "make `cors` the first policy");
        }
    }
}

/// Looks at what stands below a cache, which is this policy of the route.
fn check_cache(keys: &Cache, place: At, route: &Route, at: usize, report: &mut Report) {
    let parameters = templates::parameters(&route.matches.value);
    let find = |is: &dyn Fn(&Policy) -> bool| {
        let mut below = route.policies.iter().skip(at + 1).map(|policy| &policy.value);
        below.find(|policy| is(policy)).map(Policy::name)
    };
    if let Some(skipped) = find(&|policy| GUARD.contains(&policy.name())) {
        let what =
            format!("`cache` stands above `{skipped}`, which is not asked about what is kept");
        report.warn(place, what, format!("move it below `{skipped}`"));
    }
    if find(&|policy| matches!(policy, Policy::KeyType(keys) if keys.sandbox.is_some())).is_some() {
        let what = "`cache` stands above `key_type`, so the sandbox's callers would get what production replied";
        report.error(place, what, "move it below `key_type`");
    }
    let may_tell = told::teller(route, at + 1).filter(|_| keys.ttl.is_some());
    if let Some(name) = find(&|policy| makes_replies_differ(policy, &parameters)) {
        let what = format!(
            "`cache` stands above `{name}`, so one client would get what another was replied"
        );
        report.error(place, what, format!("move it below `{name}`"));
    } else if let Some(name) = may_tell.map(Policy::name) {
        let what = format!(
            "`ttl` does not hold: `{name}` below `cache` may tell the upstream who asks, and a reply that says nothing may be for one client"
        );
        let help = format!(
            "let the service say `Cache-Control`, or move `cache` below `{name}`, where `Vary` is heeded"
        );
        report.warn(place, what, help);
    }
    if responds_to_each(route, &parameters) {
        let what = "`cache` would keep what `respond` says to one client";
        report.error(place, what, "remove it: nobody is asked for such a reply");
    }
}

/// Tells the upstream who was found to ask, or writes into replies for whom they are.
#[allow(clippy::wildcard_enum_match_arm, reason = "all others are the same for all")]
fn makes_replies_differ(policy: &Policy, parameters: &[String]) -> bool {
    match policy {
        Policy::BackendJwt(_) => true,
        Policy::Jwt(keys) => !keys.claims_to_headers.is_empty(),
        // Into a query and bodies, about which no `Vary` can speak.
        Policy::Transform(keys) => {
            transform::texts(keys).any(|text| told::tells_who_asks(text, parameters))
        }
        Policy::Headers(Headers { request, response }) => {
            let HeadersEdit { set, add, .. } = response;
            let mut written = [set, add].into_iter().flat_map(Map::iter);
            wants_subject(request, parameters)
                || written.any(|(_, text)| told::tells_who_asks(&text.value, parameters))
        }
        _ => false,
    }
}

/// The route answers by itself, each client in its own way.
fn responds_to_each(route: &Route, parameters: &[String]) -> bool {
    route.respond.as_ref().is_some_and(|respond| {
        let lines = respond.value.headers.iter().map(|(_, text)| text);
        let mut texts = lines.chain([&respond.value.body]);
        texts.any(|text| told::tells_who_asks(&text.value, parameters))
    })
}

fn wants_subject(HeadersEdit { set, add, .. }: &HeadersEdit, parameters: &[String]) -> bool {
    let mut written = set.iter().chain(add.iter());
    written.any(|(_, text)| templates::asks_identity(&text.value, parameters))
}

fn counts(policy: &Policy) -> bool {
    matches!(policy, Policy::RateLimit(_) | Policy::Concurrency(_))
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all others ask nobody")]
fn wants_identity(policy: &Policy, parameters: &[String]) -> bool {
    match policy {
        Policy::RateLimit(keys) => {
            keys.plans || keys.by.as_ref().is_some_and(|by| counts_identity(&by.value))
        }
        Policy::Concurrency(keys) => counts_identity(&keys.by.value),
        Policy::BackendJwt(_) | Policy::KeyType(_) => true,
        Policy::Headers(keys) => wants_subject(&keys.request, parameters),
        Policy::Transform(keys) => {
            transform::texts(keys).any(|text| templates::asks_identity(text, parameters))
        }
        Policy::Authorize(keys) => asks_identity(&keys.rule.value),
        _ => false,
    }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all others count nothing")]
fn wants_operation(policy: &Policy) -> bool {
    match policy {
        Policy::RateLimit(keys) => {
            keys.by.as_ref().is_some_and(|by| by.value == LimitBy::Operation)
        }
        Policy::Concurrency(keys) => keys.by.value == LimitBy::Operation,
        _ => false,
    }
}

/// Finds out which operation a request calls.
fn tells_operations(policy: &Policy) -> bool {
    let Policy::Soap(keys) = policy else { return matches!(policy, Policy::SoapRest(_)) };
    // Which there are is not known before it was fetched.
    let read = keys.schema.as_ref().is_some_and(|at| matches!(at.value, DefinitionAt::File(_)));
    read && keys.validate.value.contains(&MessageSide::Request)
}

fn counts_identity(by: &LimitBy) -> bool {
    match by {
        LimitBy::Subject => true,
        LimitBy::Expression(text) => asks_identity(text),
        LimitBy::Client | LimitBy::Header(_) | LimitBy::Route | LimitBy::Operation => false,
    }
}

pub(crate) fn asks_identity(expression: &str) -> bool {
    Expression::compile(expression).is_ok_and(|expression| expression.wants_identity())
}
