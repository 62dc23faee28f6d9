//! The header lines by which the policies of a route tell the upstream of each client. A cache above cannot know their value.

use ::policies::cache::HiddenLines;
use config::{Policy, Route};

use crate::policies::{self, WrittenLines};

/// Lines that the gateway itself writes for each client. Scheme and host, which it writes too, are part of a cache's key.
const OWN: [&str; 3] = ["x-forwarded-for", "via", "x-request-id"];

/// Lines of which the cache at this place among the route's policies does not know what the upstream sees. What is the same for all
/// clients is none of them.
pub(crate) fn unseen(route: &Route, at: usize) -> HiddenLines {
    let rows = policies::of(route);
    let mut names = OWN.to_vec();
    names.extend(rows.iter().flat_map(|row| &row.removes));
    for row in rows.iter().skip(at) {
        match &row.writes {
            WrittenLines::These(written) => names.extend(written),
            WrittenLines::Any => return HiddenLines::Any,
        }
    }
    HiddenLines::These(names.into_iter().map(str::to_owned).collect())
}

/// The first policy below this place that tells the upstream who asks, or may.
pub(crate) fn teller(route: &Route, at: usize) -> Option<&Policy> {
    let rows = policies::of(route);
    // Harmless: there is a row for each policy.
    let mut below = route.policies.iter().zip(&rows).skip(at);
    let found = below.find(|(_, row)| match &row.writes {
        WrittenLines::These(names) => !names.is_empty(),
        WrittenLines::Any => true,
    });
    found.map(|(policy, _)| &policy.value)
}
