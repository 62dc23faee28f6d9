//! What policies leave for those below them: a list in the wrong order is a complaint, not a surprise.

use config::{LimitBy, Policy, Report, Spanned};
use policies::expression::Expression;

/// Policies that find out who asks.
const IDENTIFY: &[&str] = &["jwt", "api_key", "basic", "mutual_tls"];

/// Policies whose faults a page of another origin has to be able to read, so `cors` stands above them.
const MAY_STAND_ABOVE_CORS: &[&str] = &["cors", "ip_filter"];

/// Looks at the order of a route's policies.
pub(crate) fn check(policies: &[Spanned<Policy>], report: &mut Report) {
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

fn counts(policy: &Policy) -> bool {
    matches!(policy, Policy::RateLimit(_) | Policy::Concurrency(_))
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all others ask nobody")]
fn wants_identity(policy: &Policy) -> bool {
    match policy {
        Policy::RateLimit(keys) => match &keys.by {
            Some(by) => by.value == LimitBy::Subject || keys.plans,
            None => keys.plans,
        },
        Policy::Concurrency(keys) => keys.by.value == LimitBy::Subject,
        Policy::BackendJwt(_) => true,
        Policy::Authorize(keys) => {
            Expression::compile(&keys.rule.value).is_ok_and(|rule| rule.wants_identity())
        }
        _ => false,
    }
}
