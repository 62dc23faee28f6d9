//! Compiles the quotas of streams, for `sse` and `websocket`.

use std::sync::Arc;

use config::{EventWindow, Policy, Report, Spanned};
use policies::key::KeySource;
use policies::quota::shared::SharedQuotas;
use policies::quota::{ClientUse, Quota, Quotas, Tier};
use policies::tiers::Tiers;

use super::stores::store;
use crate::plans::{Plans, Streams, Window};
use crate::policy::RouteScope;

pub(crate) fn window(written: &Spanned<EventWindow>) -> Spanned<Window> {
    let EventWindow { events, bytes, per } = &written.value;
    let events = events.map(|events| u64::from(events.get()));
    let value = Window { events, bytes: bytes.map(|bytes| bytes.0), per: *per };
    Spanned { value, at: written.at, intact: written.intact }
}

/// Returns the default key of counts. With plans, it is the subscription; otherwise, it is the subject.
pub(super) fn own_key(plans: bool) -> KeySource {
    if plans { KeySource::Subscription } else { KeySource::Subject }
}

/// Returns the quotas of each plan, in the form that the policies use.
pub(super) fn tiers(plans: &Plans) -> Tiers<Tier> {
    let named = plans.named.iter().map(|(name, streams)| (name.clone(), tier(streams)));
    Tiers::new(tier(&plans.otherwise), named.collect())
}

fn tier(streams: &Streams) -> Tier {
    let quota =
        |window: &Window| Quota { messages: window.events, bytes: window.bytes, per: window.per.0 };
    Tier::new(streams.windows.iter().map(quota).collect())
}

/// Returns the scope of a count: the route, or the API if its subscriptions are counted over all of its routes.
fn whose(keys: &serde_json::Value, place: &RouteScope<'_, '_>) -> String {
    let by_plan = keys.get("plans").and_then(serde_json::Value::as_bool) == Some(true);
    let is_own = keys.get("by").is_none_or(serde_json::Value::is_null);
    let api = place.of.policies.iter().find_map(|policy| {
        let Policy::SubscriptionCheck(check) = policy.value.applied() else { return None };
        check.api.as_ref()
    });
    match api.filter(|_| by_plan && is_own) {
        Some(api) => format!("of the API {}", api.value),
        None => place.route.to_owned(),
    }
}

/// Returns the counts of clients, taken over from the previous plan if the policy's keys and plans are unchanged, and the shared store of
/// counts.
pub(super) fn kept(
    policy: &str,
    keys: &serde_json::Value,
    plans: &Plans,
    shared: Option<&Spanned<String>>,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> ClientUse {
    let of = format!("{policy} {} {keys}", whose(keys, place));
    let permits = place.builder.reuse_or_build(&format!("permits {of}"), Arc::default);
    let of = format!("quotas {of} {plans:?}");
    let Some(name) = shared else {
        return ClientUse {
            quotas: place.builder.reuse_or_build(&of, Arc::default),
            permits,
            shared: None,
        };
    };
    let Some(store) = store(name, place.config, report) else {
        return ClientUse { quotas: Arc::default(), permits, shared: None };
    };
    let metrics = place.builder.telemetry.store(&name.value);
    let shared = place.builder.reuse_or_build(&format!("{of} {store:?}"), || {
        // Gateways with the same configuration derive the same names for clients. Without the configuration, the names cannot be computed.
        let quotas = Arc::new(Quotas::known_by(&format!("{of} {:?}", store.password)));
        Arc::new(SharedQuotas::new(store, quotas, metrics))
    });
    place.builder.work(shared.clone());
    ClientUse { quotas: shared.quotas(), permits, shared: Some(shared) }
}
