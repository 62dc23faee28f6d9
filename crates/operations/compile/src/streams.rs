//! Compiles `routes.NAME.streams`: how open streams are treated, and the generation in which a route last changed.

use std::sync::Arc;

use config::{At, Config, Route, StreamsOnReload, Upstream};
use plan::{OnReload, Streams};

use crate::policy_builder::PolicyBuilder;

/// The parts of a route as written. A reload changes the route only if one of them differs.
#[derive(PartialEq)]
struct RouteParts {
    route: Route,
    /// The upstreams that the route may send requests to.
    upstreams: Vec<Option<Upstream>>,
}

/// The parts of a route, with the generation of the first plan that had them.
struct Since {
    written: RouteParts,
    generation: u64,
}

/// Returns the settings for a route's streams. `others` are the upstreams that its policies may send requests to.
pub(crate) fn of(
    name: &str,
    route: &Route,
    others: &[String],
    config: &Config,
    builder: &mut PolicyBuilder<'_>,
) -> Streams {
    let reload = match route.streams.reload {
        StreamsOnReload::Keep => OnReload::Keep,
        StreamsOnReload::Close => {
            let own = route.upstream.iter().flat_map(|to| to.value.names());
            let names = own.chain(others.iter().map(String::as_str));
            let upstreams = names.map(|name| config.upstreams.get(name).cloned()).collect();
            let written = RouteParts { route: route.clone(), upstreams };
            OnReload::Close { since: since(name, written, builder) }
        }
    };
    let age_max = route.streams.max_age.map(|age| age.0);
    let idle = route.streams.idle.map(|idle| idle.0);
    let drain = &route.streams.drain;
    // The default of `drain` does not apply to an upgrade: the streams of the old process are ended only if `drain` is written.
    let upgrade = (drain.at != At::NOWHERE).then_some(drain.value);
    Streams { reload, drain: drain.value, upgrade, age_max, idle }
}

fn since(name: &str, written: RouteParts, builder: &mut PolicyBuilder<'_>) -> u64 {
    let generation = builder.generation;
    let now = Arc::new(Since { written, generation });
    let is_same = |before: &Since| before.written == now.written;
    builder.reuse_if(&format!("streams {name}"), is_same, &now).generation
}
