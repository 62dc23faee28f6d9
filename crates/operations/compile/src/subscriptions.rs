//! Compiles `applications` and `plans` to a map from credentials to subscriptions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use config::{
    Application, Config, KeyUse, LimitPlan, Policy, Report, Spanned, SubscriptionCheck,
    SubscriptionState, ready_plans,
};
use policies::application_keys::{application_name, consumer_key};
use policies::quota::Quota;
use policies::subscription::{
    self, ApiNumber, Burst, KeyOwner, NamedPlan, PlanLimits, PlanNumber, SubscriberMaps,
    Subscribers, Subscription, WINDOWS_MAX,
};

use crate::names;
use crate::plans;
use crate::policy_builder::PolicyBuilder;
use crate::subscription_state::Subscriptions;

/// The maximum length of a consumer key, in bytes.
const KEY_BYTES_MAX: usize = 1024;

/// Compiles applications, or complains about them. Counts of the previous plan are kept.
pub(crate) fn compile(config: &Config, builder: &mut PolicyBuilder<'_>, report: &mut Report) {
    let mut made = Subscriptions {
        plans: HashMap::new(),
        unreadable: config.plans.names().map(str::to_owned).collect(),
        maps: None,
        counts: builder.reuse_or_build("counts of subscriptions", Arc::default),
    };
    let offers = offers(config);
    let is_used = !offers.is_empty() || !config.applications.is_empty();
    for (name, plan) in config.plans.iter() {
        if is_used {
            check(plan, report);
        }
        made.unreadable.remove(&name.value);
        made.add(&name.value, &plan.value);
    }
    for (name, plan) in ready_plans(config::At::NOWHERE) {
        if !config.plans.has(name) {
            made.add(name, &plan.value);
        }
    }
    let written = Subscribers::default();
    let mut owners = Vec::new();
    let mut seen = HashSet::new();
    for (name, application) in config.applications.iter() {
        let keys = &application.value;
        let plan = keys.plan.as_ref().and_then(|plan| made.numbered(plan, &written, report));
        let subscriptions = made.subscriptions(keys, config, &offers, &written, report);
        let owned = Arc::new(subscription::Application::new(&name.value, plan, subscriptions));
        let owner = |sandbox| KeyOwner { application: owned.clone(), sandbox, is_removed: false };
        owners.push((application_name(&name.value), Some(owner(false))));
        for key in &keys.keys.0 {
            let text = &key.value.consumer_key;
            if text.value.is_empty() || text.value.len() > KEY_BYTES_MAX {
                let what = "a consumer key must be a text of 1 to 1,024 bytes";
                report.error(text.at, what, "write the key that tokens name");
            } else if !seen.insert(text.value.clone()) {
                let what =
                    format!("the consumer key `{}` appears twice", text.value.escape_debug());
                report.error(text.at, what, "give each application its own keys");
            }
            let sandbox = key.value.kind == KeyUse::Sandbox;
            owners.push((consumer_key(&text.value), Some(owner(sandbox))));
        }
    }
    written.change(owners);
    let live = builder.reuse_or_build("subscribers of the catalog", Arc::default);
    made.maps = Some(SubscriberMaps { live, written: Arc::new(written) });
    builder.subscriptions = made;
}

/// Returns the APIs that applications may subscribe to: the subscription checks of routes, by API name.
fn offers(config: &Config) -> HashMap<&str, &SubscriptionCheck> {
    let routes = config.routes.iter();
    let checks = routes.flat_map(|(name, route)| {
        // Harmless: other policies offer no subscriptions.
        route.value.policies.iter().filter_map(|policy| {
            let Policy::SubscriptionCheck(keys) = policy.value.applied() else { return None };
            let api = keys.api.as_ref().map_or(&name.value, |api| &api.value);
            Some((api.as_str(), keys))
        })
    });
    checks.collect()
}

impl Subscriptions {
    fn add(&mut self, name: &str, plan: &LimitPlan) {
        self.plans.insert(name.to_owned(), Arc::new(NamedPlan::new(name, limits(plan))));
    }

    /// Returns the number that the plan of this name has in a map, or complains.
    fn numbered(
        &self,
        name: &Spanned<String>,
        map: &Subscribers,
        report: &mut Report,
    ) -> Option<PlanNumber> {
        let plan = self.plan(name, report)?;
        map.plan_number(&name.value, Some(&plan))
    }

    fn subscriptions(
        &self,
        keys: &Application,
        config: &Config,
        offers: &HashMap<&str, &SubscriptionCheck>,
        map: &Subscribers,
        report: &mut Report,
    ) -> Vec<Subscription> {
        let mut all = Vec::new();
        for (api, written) in keys.subscriptions.iter() {
            let plan = self.numbered(&written.value.plan, map, report);
            match offers.get(api.value.as_str()) {
                Some(offer) => check_offer(offer, &api.value, &written.value.plan, report),
                None => complain_of_unknown(api, config, offers, report),
            }
            let state = match written.value.state {
                SubscriptionState::Unblocked => subscription::SubscriptionState::Unblocked,
                SubscriptionState::Blocked => subscription::SubscriptionState::Blocked,
                SubscriptionState::ProductionBlocked => {
                    subscription::SubscriptionState::ProductionBlocked
                }
            };
            let api = ApiNumber::of(&api.value);
            all.extend(plan.map(|plan| Subscription { api, plan, state }));
        }
        all
    }
}

fn check_offer(offer: &SubscriptionCheck, api: &str, plan: &Spanned<String>, report: &mut Report) {
    if offer.plans.is_empty() || offer.plans.iter().any(|offered| offered.value == plan.value) {
        return;
    }
    let offered: Vec<&str> = offer.plans.iter().map(|plan| plan.value.as_str()).collect();
    let what = format!("the API `{api}` does not offer the plan `{}`", plan.value);
    report.error(plan.at, what, format!("its plans are {}", offered.join(", ")));
}

fn complain_of_unknown(
    api: &Spanned<String>,
    config: &Config,
    offers: &HashMap<&str, &SubscriptionCheck>,
    report: &mut Report,
) {
    if let Some(known) = config.apis.get(&api.value) {
        if known.value.subscription.is_none() {
            let what = format!("the API `{}` does not require a subscription", api.value);
            report.warn(api.at, what, "add `subscription: required` to it");
        }
        return;
    }
    // An API that could not be read was already reported.
    if config.apis.has(&api.value) {
        return;
    }
    let known = config.apis.names().chain(offers.keys().copied());
    let meant = report.suggest(&api.value, known);
    let help = "name one of the `apis` or routes with `subscription`";
    report.error(api.at, names::unknown("API", &api.value, meant), help);
}

/// Complains about keys of a plan that do not apply to subscriptions.
fn check(plan: &Spanned<LimitPlan>, report: &mut Report) {
    plans::check(plan, report);
    if let Some(burst) = &plan.value.burst {
        let what =
            "`burst` has no effect on subscriptions, whose windows begin with the first request";
        report.warn(burst.at, what, "add `burst_rate: { requests: 10, per: 1s }`");
    }
    if quotas(&plan.value).len() > WINDOWS_MAX {
        let what = format!("a plan can have at most {WINDOWS_MAX} windows of requests");
        report.error(plan.at, what, "remove those that others imply");
    }
}

/// Returns the limits of a plan.
fn limits(plan: &LimitPlan) -> PlanLimits {
    let events = plans::bounds_streams(plan) || plan.unlimited;
    let events = events.then(|| {
        let quota = |window: &plans::Window| Quota {
            messages: window.events,
            bytes: window.bytes,
            per: window.per.0,
        };
        plans::windows_of(plan).iter().map(quota).collect()
    });
    PlanLimits {
        requests: quotas(plan).into(),
        burst: plan
            .burst_rate
            .as_ref()
            .map(|burst| Burst { requests: burst.value.requests.get(), per: burst.value.per.0 }),
        stops: plan.stop_on_quota,
        events,
    }
}

/// Returns the windows of a plan that count requests. If a plan has `events`, its `bytes` limit the events and not the requests.
fn quotas(plan: &LimitPlan) -> Vec<Quota> {
    let own = plan.per.as_ref().map(|per| {
        let bytes = plan.bytes.as_ref().map(|bytes| bytes.value.0);
        let requests = plan.requests.as_ref().map(|requests| requests.value.get().into());
        (requests, plan.events.is_some(), bytes, per.value.0)
    });
    let more = plan.windows.iter().map(|window| {
        let config::PlanWindow { requests, events, bytes, per, .. } = &window.value;
        let requests = requests.map(|requests| requests.get().into());
        (requests, events.is_some(), bytes.map(|bytes| bytes.0), per.value.0)
    });
    let all = own.into_iter().chain(more);
    let quota = |(messages, of_events, bytes, per): (Option<u64>, bool, Option<u64>, _)| {
        let bytes = bytes.filter(|_| !of_events);
        (messages.is_some() || bytes.is_some()).then_some(Quota { messages, bytes, per })
    };
    // Harmless: a window without `requests` and `bytes` limits events.
    all.filter_map(quota).collect()
}
