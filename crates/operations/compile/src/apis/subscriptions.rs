//! Turns `apis.NAME.subscription` into a policy of the API's routes, placed below the policies that authenticate clients.

use config::{
    Api, ApiSubscription, At, Issuer, Jwt, Map, Policy, Report, Spanned, SubscriptionCheck,
};
use import::GeneratedRoute;
use serde_json::json;

use super::authenticates;

/// Returns the subscription check for an API's routes, or `None` if the API does not have the key `subscription`.
pub(super) fn check(name: &str, base: &str, api: &Api) -> Option<Spanned<SubscriptionCheck>> {
    let need = api.subscription.as_ref()?;
    let value = SubscriptionCheck {
        api: Some(Spanned { value: name.to_owned(), at: need.at, intact: true }),
        required: need.value == ApiSubscription::Required,
        plans: api.plans.clone(),
        api_plan: None,
        resource_plan: None,
        context: (!base.is_empty()).then(|| base.to_owned()),
        version: None,
    };
    Some(Spanned { value, at: need.at, intact: need.intact })
}

/// Inserts the check into a route's policies, below those that authenticate clients. If there are none and a subscription is required, a
/// `jwt` is inserted above the check. The API's own policies begin at index `own_at`.
pub(super) fn add(
    check: &Spanned<SubscriptionCheck>,
    made: &GeneratedRoute,
    policies: &mut Vec<Spanned<Policy>>,
    own_at: usize,
    issuers: &Map<Spanned<Issuer>>,
) {
    let mut keys = check.value.clone();
    if let Some(tier) = &made.tier {
        let name = Spanned { value: tier.name.clone(), at: check.at, intact: true };
        if tier.of_api { keys.api_plan = Some(name) } else { keys.resource_plan = Some(name) }
    }
    let last = policies.iter().rposition(|policy| authenticates(&policy.value));
    let at = match last {
        Some(last) => last + 1,
        None => {
            // Without an authentication policy, one is added: in WSO2's API Manager, too, every API with subscriptions authenticates its
            // clients.
            let own_at = own_at.min(policies.len());
            let jwt = token_of_any(issuers, made, check).filter(|_| keys.required);
            let found = usize::from(jwt.is_some());
            policies.splice(own_at..own_at, jwt);
            own_at + found
        }
    };
    let policy = Policy::SubscriptionCheck(keys);
    policies.insert(at, Spanned { value: policy, at: check.at, intact: check.intact });
}

/// Returns a `jwt` policy that accepts tokens of any configured issuer, or `None` if there are no issuers.
fn token_of_any(
    issuers: &Map<Spanned<Issuer>>,
    made: &GeneratedRoute,
    check: &Spanned<SubscriptionCheck>,
) -> Option<Spanned<Policy>> {
    let names: Vec<&str> = issuers.names().collect();
    if names.is_empty() {
        return None;
    }
    let keys = json!({ "issuers": names, "scopes": { "any": made.scopes } });
    let jwt = config::decode::<Jwt>(&keys, At::NOWHERE, &mut Report::default())?;
    Some(Spanned { value: Policy::Jwt(jwt), at: check.at, intact: true })
}
