//! Compiles `subscription`.

use ::policies::jwt::ApiReference;
use ::policies::subscription::{self, ApiNumber, ListedApi, OwnPlan, SubscriptionSettings};
use config::{Policy, Report, SubscriptionCheck};

use super::{Access, Facts, PolicyKind, PolicyPlace};
use crate::facts::IDENTIFY;
use crate::policy::RouteScope;

/// The plans of requests without a subscription, if an API offers one of them.
const SUBSCRIPTIONLESS: [&str; 2] = ["DefaultSubscriptionless", "AsyncDefaultSubscriptionless"];

impl PolicyKind for SubscriptionCheck {
    fn build(
        &self,
        written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        if self.required && !super::above(place).iter().any(|row| row.access == Access::Identifies)
        {
            let what = "no policy identifies the client, so every request would be refused";
            let help = format!("add one of {IDENTIFY} above it");
            report.error(written.at, what, help);
        }
        if let (Some(_), Some(resource)) = (&self.api_plan, &self.resource_plan) {
            let what = "`api_plan` replaces `resource_plan`";
            report.error(resource.at, what, "keep one of the two");
        }
        let shared = &place.builder.subscriptions;
        let offered: Vec<_> =
            self.plans.iter().filter_map(|name| shared.plan(name, report)).collect();
        let subscriptionless =
            offered.iter().find(|plan| SUBSCRIPTIONLESS.contains(&&*plan.name)).cloned();
        let api = self.api.as_ref().map_or(place.route, |api| &api.value);
        let of_api = self.api_plan.as_ref().and_then(|name| shared.plan(name, report));
        let of_resource = self.resource_plan.as_ref().and_then(|name| shared.plan(name, report));
        let own = match of_api {
            Some(plan) => Some(OwnPlan { plan, resource: None }),
            None => of_resource.map(|plan| OwnPlan { plan, resource: Some(place.route.into()) }),
        };
        let settings = SubscriptionSettings {
            api: ApiNumber::of(api),
            claim: ListedApi {
                by_context: self.context.as_ref().map(|context| ApiReference {
                    context: Some(context.clone()),
                    ..ApiReference::default()
                }),
                by_name: ApiReference {
                    name: Some(api.to_owned()),
                    context: None,
                    version: self.version.clone(),
                },
            },
            required: self.required,
            plans: if self.plans.is_empty() { shared.plans().cloned().collect() } else { offered },
            subscriptionless: subscriptionless.filter(|_| !self.required),
            own,
            records_subscription: records_subscription(place),
        };
        subscription::policy(settings, shared.maps(), shared.counts(), place.slots)
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts { access: Access::Guards, asks_identity: self.required, ..Facts::NONE }
    }
}

/// Returns true if a policy below limits clients by plan, or if the route ends in a hub, which may do so.
fn records_subscription(place: &RouteScope<'_, '_>) -> bool {
    let below = place.of.policies.iter().skip(place.at);
    let by_plan = below.map(|policy| policy.value.applied()).any(|policy| {
        matches!(policy, Policy::RateLimit(keys) if keys.plans)
            || matches!(policy, Policy::Sse(keys) if keys.plans)
            || matches!(policy, Policy::WebSocket(keys) if keys.plans)
    });
    by_plan || place.of.hub.is_some()
}

/// Returns true if there is a `subscription` below the policy. Scopes of tokens are then checked after the subscription.
pub(super) fn is_below(place: &RouteScope<'_, '_>) -> bool {
    let mut below = place.of.policies.iter().skip(place.at);
    below.any(|policy| matches!(policy.value.applied(), Policy::SubscriptionCheck(_)))
}
