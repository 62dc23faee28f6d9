//! `sse`.

use std::sync::Arc;

use config::{At, Decode as _, LimitBy, Report, Spanned, Sse};
use policies::concurrency::Permits;
use policies::quota::{Quota, Quotas};
use policies::sse::{self, Settings};

use super::rate_limit::by;
use crate::policy::RouteScope;

pub(crate) fn build(
    keys: &Sse,
    at: At,
    intact: bool,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> plan::Policy {
    let by = keys.by.clone().unwrap_or_else(|| Spanned::unwritten(LimitBy::Subject));
    let settings = Settings {
        by: self::by(&by, report),
        events: events(keys, intact, report),
        event_bytes_max: usize::try_from(keys.event_bytes_max.0).unwrap_or(usize::MAX),
        idle: keys.idle.map(|idle| idle.0),
        connections: keys.connections.map(|connections| connections.get()),
    };
    if place.of.upstream.is_none() && place.of.flow.is_none() && intact {
        let what = "no event stream can come here: the route has no upstream";
        report.error(at, what, "remove the policy, or add `upstream: NAME`");
    }
    let (quotas, permits) = kept("sse", &keys.encode(), place);
    let metrics = place.builder.telemetry.route(place.route);
    sse::policy(settings, quotas, permits, metrics, place.slots)
}

/// The quotas and places of the plan before if the policy's keys are the same.
pub(super) fn kept(
    policy: &str,
    keys: &serde_json::Value,
    place: &mut RouteScope<'_, '_>,
) -> (Arc<Quotas>, Arc<Permits>) {
    let of = format!("{policy} {} {keys}", place.route);
    let quotas = place.builder.kept_or(&format!("quotas {of}"), Arc::default);
    let permits = place.builder.kept_or(&format!("permits {of}"), Arc::default);
    (quotas, permits)
}

fn events(keys: &Sse, intact: bool, report: &mut Report) -> Option<Quota> {
    match (&keys.events, &keys.per) {
        (Some(events), Some(per)) => {
            let messages = Some(u64::from(events.value.get()));
            Some(Quota { messages, bytes: None, per: per.value.0 })
        }
        (Some(alone), None) if intact => {
            report.error(alone.at, "so many events, but in how long?", "add `per: 1m`");
            None
        }
        (None, Some(alone)) if intact => {
            report.error(alone.at, "a time, but how many events?", "add `events: 600`");
            None
        }
        (Some(_) | None, None) | (None, Some(_)) => None,
    }
}
