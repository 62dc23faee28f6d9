//! `subscription`.

use ::policies::jwt::Subscription;
use ::policies::subscription::{self, ApiNumber, ListedApi, OwnPlan, SubscriptionSettings};
use config::{At, Policy, Report, SubscriptionCheck};

use super::{Access, Facts};
use crate::policy::RouteScope;

/// The plan of requests without a subscription, where an API offers it.
const SUBSCRIPTIONLESS: [&str; 2] = ["DefaultSubscriptionless", "AsyncDefaultSubscriptionless"];

pub(crate) fn build(
    keys: &SubscriptionCheck,
    at: At,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> plan::Policy {
    if keys.required && !super::above(place).iter().any(|row| row.access == Access::Identifies) {
        let what = "nobody finds the client identity, so every request is refused";
        let help = "add one of jwt, api_key, basic, mutual_tls, authenticate above it";
        report.error(at, what, help);
    }
    if let (Some(_), Some(resource)) = (&keys.api_plan, &keys.resource_plan) {
        let what = "`api_plan` replaces `resource_plan`";
        report.error(resource.at, what, "keep one of the two");
    }
    let shared = &place.builder.subscriptions;
    let offered: Vec<_> = keys.plans.iter().filter_map(|name| shared.plan(name, report)).collect();
    let subscriptionless =
        offered.iter().find(|plan| SUBSCRIPTIONLESS.contains(&&*plan.name)).cloned();
    let api = keys.api.as_ref().map_or(place.route, |api| &api.value);
    let of_api = keys.api_plan.as_ref().and_then(|name| shared.plan(name, report));
    let of_resource = keys.resource_plan.as_ref().and_then(|name| shared.plan(name, report));
    let own = match of_api {
        Some(plan) => Some(OwnPlan { plan, resource: None }),
        None => of_resource.map(|plan| OwnPlan { plan, resource: Some(place.route.into()) }),
    };
    let settings = SubscriptionSettings {
        api: ApiNumber::of(api),
        claim: ListedApi {
            by_context: keys.context.as_ref().map(|context| Subscription {
                context: Some(context.clone()),
                ..Subscription::default()
            }),
            by_name: Subscription {
                name: Some(api.to_owned()),
                context: None,
                version: keys.version.clone(),
            },
        },
        required: keys.required,
        plans: if keys.plans.is_empty() { shared.plans().cloned().collect() } else { offered },
        subscriptionless: subscriptionless.filter(|_| !keys.required),
        own,
        told: is_told(place),
    };
    subscription::policy(settings, shared.maps(), shared.counts(), place.slots)
}

/// True if something below limits by the plan.
fn is_told(place: &RouteScope<'_, '_>) -> bool {
    let below = place.of.policies.iter().skip(place.at);
    let by_plan = below.map(|policy| &policy.value).any(|policy| {
        matches!(policy, Policy::RateLimit(keys) if keys.plans)
            || matches!(policy, Policy::Sse(keys) if keys.plans)
            || matches!(policy, Policy::WebSocket(keys) if keys.plans)
    });
    by_plan || place.of.hub.is_some()
}

/// True if a policy below another refuses clients without a subscription, and after that tokens without a scope.
pub(super) fn is_below(place: &RouteScope<'_, '_>) -> bool {
    let mut below = place.of.policies.iter().skip(place.at);
    below.any(|policy| matches!(policy.value, Policy::SubscriptionCheck(_)))
}

/// The facts of the policy.
pub(crate) fn row(keys: &SubscriptionCheck) -> Facts<'_> {
    Facts { access: Access::Guards, asks_identity: keys.required, ..super::nothing() }
}
