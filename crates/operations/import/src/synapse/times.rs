//! Time limits of flows. A sequence of Synapse takes as long as its calls; a flow has its own limit.

use serde_json::{Map, Value as Json, json};

use super::endpoints::duration;
use super::output::Output;

/// The default time limit of a flow and of a call, in milliseconds.
const USUAL: u64 = 60_000;

/// The time of a flow in addition to that of its calls, so that the call's limit is reached first.
const MORE: u64 = 10_000;

/// The limit of nested flows. Recursive flows are never made.
const DEPTH_MAX: usize = 64;

impl Output {
    /// Raises the time limit of each flow above the sum of its calls' limits, if one of them is at least the default limit of a flow.
    pub(super) fn set_timeouts(&mut self) {
        let sections = [&self.routes, &self.queues, &self.schedules];
        let ends = sections.into_iter().flat_map(Map::values);
        // Harmless: a route without a flow has no steps.
        let ends = ends.filter_map(|keys| keys.get("flow")?.as_str().map(str::to_owned));
        for name in ends.collect::<Vec<_>>() {
            let Some(flow) = self.flows.get(&name) else { continue };
            let (all, longest) = self.times(flow, 0);
            if longest < USUAL || all <= USUAL {
                continue;
            }
            let timeout = json!(duration(all.saturating_add(MORE)));
            match self.flows.get_mut(&name) {
                Some(Json::Object(keys)) => drop(keys.insert("timeout".to_owned(), timeout)),
                Some(flow) => {
                    let steps = flow.take();
                    *flow = json!({ "timeout": timeout, "steps": steps });
                }
                None => {}
            }
        }
    }

    /// The milliseconds that all calls of some steps may take, and the longest limit that is set for one of them.
    fn times(&self, steps: &Json, depth: usize) -> (u64, u64) {
        if depth > DEPTH_MAX {
            return (0, 0);
        }
        let inner = |(all, longest): (u64, u64), value: &Json| {
            let (more, of_one) = self.times(value, depth + 1);
            (all.saturating_add(more), longest.max(of_one))
        };
        match steps {
            Json::Array(items) => items.iter().fold((0, 0), inner),
            Json::Object(keys) => keys.iter().fold((0, 0), |sum, (key, value)| {
                let named = value.as_str().or_else(|| value.get("upstream")?.as_str());
                match (key.as_str(), named) {
                    ("call", Some(upstream)) => {
                        let given = self.given(upstream);
                        let of_one = given.unwrap_or(USUAL);
                        (sum.0.saturating_add(of_one), sum.1.max(given.unwrap_or(0)))
                    }
                    ("sequence", Some(flow)) => match self.flows.get(flow) {
                        Some(flow) => inner(sum, flow),
                        None => sum,
                    },
                    _ => inner(sum, value),
                }
            }),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => (0, 0),
        }
    }

    /// The time that an upstream gives its replies.
    fn given(&self, upstream: &str) -> Option<u64> {
        let text = self.upstreams.get(upstream)?.get("timeout")?.get("response")?.as_str()?;
        match text.strip_suffix("ms") {
            // Harmless: the converter writes all times in this form. A limit in another form would count as not set.
            Some(millis) => millis.parse().ok(),
            // Harmless: as above, for whole seconds.
            None => text.strip_suffix('s')?.parse::<u64>().ok()?.checked_mul(1000),
        }
    }
}
