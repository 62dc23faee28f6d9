//! `sse`.

use std::sync::Arc;

use config::{At, Decode as _, LimitBy, Report, Spanned, Sse};
use policies::concurrency::Permits;
use policies::rate_limit::{Counts, Window};
use policies::sse::{self, Settings};

use super::rate_limit::by;
use crate::policy::RouteScope;

/// Keys that are counted separately, as in `rate_limit`.
const KEYS_MAX: usize = 100_000;

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
    let of = format!("{} {}", place.route, keys.encode());
    let permits =
        place.builder.kept_or(&format!("sse streams {of}"), || Arc::new(Permits::default()));
    let counts =
        place.builder.kept_or(&format!("sse events {of}"), || Arc::new(Counts::new(KEYS_MAX, 1)));
    let metrics = place.builder.telemetry.route(place.route);
    sse::policy(settings, counts, permits, metrics, place.slots)
}

fn events(keys: &Sse, intact: bool, report: &mut Report) -> Option<Window> {
    match (&keys.events, &keys.per) {
        (Some(events), Some(per)) => {
            let requests = events.value.get();
            Some(Window::new("events", requests, per.value.0, requests))
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
