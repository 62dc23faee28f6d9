//! What policies leave for those below them: a list in the wrong order is a complaint, not a surprise.

use config::{DefinitionAt, HeadersEdit, LimitBy, MessageSide, Policy, Report, Spanned};
use policies::expression::Expression;

use crate::templates;

/// Policies that find out who asks.
pub(crate) const IDENTIFY: &[&str] = &["jwt", "api_key", "basic", "mutual_tls"];

/// Policies that turn requests away by who asks or for what.
const GUARD: &[&str] = &["jwt", "api_key", "basic", "mutual_tls", "authorize", "ip_filter"];

/// Policies whose faults a page of another origin has to be able to read, so `cors` stands above them.
const MAY_STAND_ABOVE_CORS: &[&str] = &["cors", "ip_filter"];

/// Looks at the order of a route's policies. On one that is `open` by intent, nobody is meant to be found out.
pub(crate) fn check(policies: &[Spanned<Policy>], open: bool, report: &mut Report) {
    for (at, policy) in policies.iter().enumerate() {
        let (above, below) = policies.split_at(at);
        let find = |names: &[&str], among: &[Spanned<Policy>]| {
            among.iter().map(|p| p.value.name()).find(|name| names.contains(name))
        };
        if wants_identity(&policy.value) && find(IDENTIFY, above).is_none() {
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
        if let (Policy::Cache(_), Some(skipped)) = (&policy.value, find(GUARD, below)) {
            let what =
                format!("`cache` stands above `{skipped}`, which is not asked about what is kept");
            report.warn(policy.at, what, format!("move it below `{skipped}`"));
        }
        if let Policy::Cache(_) = policy.value
            && below
                .iter()
                .any(|p| matches!(&p.value, Policy::KeyType(keys) if keys.sandbox.is_some()))
        {
            let what = "`cache` stands above `key_type`, so the sandbox's callers would get what production replied";
            report.error(policy.at, what, "move it below `key_type`");
        }
        let teller = below.iter().find(|p| tells_who_asks(&p.value));
        if let (Policy::Cache(_), Some(teller)) = (&policy.value, teller) {
            let what = format!(
                "`cache` stands above `{}`, so one client would get what another was replied",
                teller.value.name()
            );
            report.error(policy.at, what, format!("move it below `{}`", teller.value.name()));
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

/// Writes lines into the request that differ from client to client.
fn tells_who_asks(policy: &Policy) -> bool {
    let Policy::Headers(keys) = policy else { return matches!(policy, Policy::BackendJwt(_)) };
    let HeadersEdit { set, add, .. } = &keys.request;
    set.iter().chain(add.iter()).any(|(_, value)| templates::asks_identity(&value.value))
}

fn counts(policy: &Policy) -> bool {
    matches!(policy, Policy::RateLimit(_) | Policy::Concurrency(_))
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all others ask nobody")]
fn wants_identity(policy: &Policy) -> bool {
    match policy {
        Policy::RateLimit(keys) => {
            keys.plans || keys.by.as_ref().is_some_and(|by| counts_identity(&by.value))
        }
        Policy::Concurrency(keys) => counts_identity(&keys.by.value),
        Policy::BackendJwt(_) | Policy::KeyType(_) => true,
        Policy::Headers(keys) => {
            let HeadersEdit { set, add, .. } = &keys.request;
            set.iter().chain(add.iter()).any(|(_, value)| templates::asks_identity(&value.value))
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
