//! Finds the header lines through which a route's policies describe the client to the upstream. A cache above those policies cannot know
//! the values of these lines.

use ::policies::cache::UnknownHeaders;
use config::{Policy, Route};

use crate::policies::{self, WrittenLines};

/// Per-client header lines that the gateway itself writes. It also writes scheme and host, but those are part of the cache key.
const OWN: [&str; 3] = ["x-forwarded-for", "via", "x-request-id"];

/// Returns the header lines whose values at the upstream are unknown to a cache. `next` is the index of the first policy below the cache.
/// Lines with the same value for all clients are not included.
pub(crate) fn lines_unknown_to_cache(route: &Route, next: usize) -> UnknownHeaders {
    let rows = policies::of(route);
    let mut names = OWN.to_vec();
    names.extend(rows.iter().flat_map(|row| &row.removes));
    for row in rows.iter().skip(next) {
        match &row.writes {
            WrittenLines::These(written) => names.extend(written),
            WrittenLines::Any => return UnknownHeaders::Any,
        }
    }
    UnknownHeaders::These(names.into_iter().map(str::to_owned).collect())
}

/// Returns the first policy from index `next` on that passes the client identity to the upstream, or may do so.
pub(crate) fn first_identity_writer(route: &Route, next: usize) -> Option<&Policy> {
    let rows = policies::of(route);
    // Harmless: `policies::of` returns one row for each policy, so `zip` drops none.
    let mut below = route.policies.iter().zip(&rows).skip(next);
    let found = below.find(|(_, row)| match &row.writes {
        WrittenLines::These(names) => !names.is_empty(),
        WrittenLines::Any => true,
    });
    found.map(|(policy, _)| &policy.value)
}
