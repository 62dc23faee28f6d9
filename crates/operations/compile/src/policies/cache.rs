//! `cache`.

use std::sync::Arc;
use std::time::Duration;

use config::{At, Cache, CacheControl, CacheCookies, CacheHeaders, Decode as _, Policy, Report};
use policies::cache::{self, CacheSettings, Store};

use super::{PolicyKind, Written};
use crate::listeners::{bytes, count};
use crate::policy::RouteScope;
use crate::{client_lines, destinations};

impl PolicyKind for Cache {
    fn build(
        &self,
        _written: Written,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        let at = place.of.policies.get(place.at).map_or(At::NOWHERE, |policy| policy.at);
        complain_of_no_ttl(self, at, report);
        let entry_bytes_max = bytes(self.entry_bytes_max);
        let below = place.at + 1;
        let unseen = client_lines::unseen(place.of, below);
        let key = format!(
            "cache {} {} {} {unseen:?}",
            place.route,
            self.encode(),
            destinations::words(place.of)
        );
        let store = place.builder.kept_or(&key, || {
            let entries_max = count(self.entries_max.get());
            Arc::new(Store::new(bytes(self.bytes_max), entry_bytes_max, entries_max))
        });
        let mut above = place.of.policies.get(..place.at).unwrap_or_default().iter();
        let settings = CacheSettings {
            entry_bytes_max,
            // A reply without its own freshness is not shared if the upstream may have received the client identity.
            ttl: self.ttl.filter(|_| client_lines::teller(place.of, below).is_none()),
            ttl_statuses: ttl_statuses(self, report),
            types: self.types.0.iter().map(|kind| kind.to_ascii_lowercase()).collect(),
            query: self.query.as_ref().map(|names| names.as_slice().into()),
            ignores_directives: self.cache_control == CacheControl::Ignore,
            tells_as_kong: self.headers == CacheHeaders::Kong,
            ignores_cookies: self.cookies == CacheCookies::Ignore,
            stale_if_error: self.stale_if_error,
            wait: if above.any(|policy| matches!(policy.value, Policy::Cache(_))) {
                Duration::ZERO
            } else {
                self.wait
            },
            unseen,
            // When a request reaches the cache, only the policies above it can have diverted it.
            diversions: place.diversions.as_slice().into(),
        };
        cache::policy(settings, store, place.slots)
    }
}

/// Complains if replies have no lifetime at all: their headers are ignored and no `ttl` is configured.
fn complain_of_no_ttl(keys: &Cache, at: At, report: &mut Report) {
    if keys.cache_control == CacheControl::Ignore && keys.ttl.is_none() {
        let what = "`cache_control: ignore` keeps replies for `ttl`, and there is none";
        report.error(at, what, "write `ttl: 10s` beside it, or leave it out");
    }
}

fn ttl_statuses(keys: &Cache, report: &mut Report) -> Box<[u16]> {
    let written = &keys.statuses;
    if written.at != At::NOWHERE && written.intact && keys.ttl.is_none() {
        let what = "`statuses` says which statuses `ttl` holds for, and there is no `ttl`";
        report.error(written.at, what, "write `ttl: 10s` beside it, or leave it out");
    }
    let statuses: Box<[u16]> = written.value.iter().map(|status| status.get_u16()).collect();
    if let Some(status) = statuses.iter().find(|status| !cache::KEPT.contains(status)) {
        let known: Vec<String> = cache::KEPT.iter().map(u16::to_string).collect();
        let what = format!("a reply with the status {status} is never kept");
        report.error(written.at, what, format!("write some of {}", known.join(", ")));
    }
    statuses
}
