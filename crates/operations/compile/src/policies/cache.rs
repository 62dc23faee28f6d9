//! Compiles `cache`.

use std::sync::Arc;
use std::time::Duration;

use config::{At, Cache, CacheControl, CacheCookies, CacheHeaders, Decode as _, Policy, Report};
use policies::cache::{self, CacheSettings, Store};

use super::{PolicyKind, PolicyPlace};
use crate::listeners::{bytes, count};
use crate::policy::RouteScope;
use crate::{client_lines, destinations, flows};

impl PolicyKind for Cache {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        let at = place.of.policies.get(place.at).map_or(At::NOWHERE, |policy| policy.at);
        complain_of_no_ttl(self, at, report);
        let entry_bytes_max = bytes(self.entry_bytes_max);
        let below = place.at + 1;
        let unknown_headers = client_lines::lines_unknown_to_cache(place.of, below);
        let key = format!(
            "cache {} {} {} {} {unknown_headers:?}",
            place.route,
            self.encode(),
            destinations::fingerprint(place.of),
            makers(place, below)
        );
        let store = place.builder.reuse_or_build(&key, || {
            let entries_max = count(self.entries_max.get());
            Arc::new(Store::new(bytes(self.bytes_max), entry_bytes_max, entries_max))
        });
        let mut above = place.of.policies.get(..place.at).unwrap_or_default().iter();
        let settings = CacheSettings {
            entry_bytes_max,
            // A reply without its own freshness is not shared if the upstream may have received the client identity.
            ttl: self
                .ttl
                .filter(|_| client_lines::first_identity_writer(place.of, below).is_none()),
            ttl_statuses: ttl_statuses(self, report),
            types: self.types.0.iter().map(|kind| kind.to_ascii_lowercase()).collect(),
            query: self.query.as_ref().map(|names| names.as_slice().into()),
            ignores_directives: self.cache_control == CacheControl::Ignore,
            kong_header: self.headers == CacheHeaders::Kong,
            ignores_cookies: self.cookies == CacheCookies::Ignore,
            stale_if_error: self.stale_if_error,
            wait: if above.any(|policy| matches!(policy.value, Policy::Cache(_))) {
                Duration::ZERO
            } else {
                self.wait
            },
            unknown_headers,
            // When a request reaches the cache, only the policies above it can have diverted it.
            diversions: place.diversions.as_slice().into(),
        };
        cache::policy(settings, store, place.slots)
    }
}

/// Returns a text of the policies below a cache and of the flows that the route runs. When they change, the replies cached so far are
/// dropped, because the same requests would now get other replies.
fn makers(place: &RouteScope<'_, '_>, below: usize) -> String {
    let policies = place.of.policies.get(below..).unwrap_or_default();
    let policies = policies.iter().map(|policy| policy.value.encode());
    let flows = place.of.flow.iter().flat_map(|flow| flows::run_by(place.config, &flow.value));
    let flows = flows.map(config::FlowKeys::encode);
    serde_json::Value::Array(policies.chain(flows).collect()).to_string()
}

/// Complains if replies have no lifetime at all: their headers are ignored and no `ttl` is configured.
fn complain_of_no_ttl(keys: &Cache, at: At, report: &mut Report) {
    if keys.cache_control == CacheControl::Ignore && keys.ttl.is_none() {
        let what = "`cache_control: ignore` needs `ttl`";
        report.error(at, what, "add `ttl: 10s`, or remove `cache_control`");
    }
}

fn ttl_statuses(keys: &Cache, report: &mut Report) -> Box<[u16]> {
    let written = &keys.statuses;
    if written.at != At::NOWHERE && written.intact && keys.ttl.is_none() {
        let what = "`statuses` needs `ttl`";
        report.error(written.at, what, "add `ttl: 10s`, or remove `statuses`");
    }
    let statuses: Box<[u16]> = written.value.iter().map(|status| status.get_u16()).collect();
    if let Some(status) = statuses.iter().find(|status| !cache::STORABLE_STATUSES.contains(status))
    {
        let known: Vec<String> = cache::STORABLE_STATUSES.iter().map(u16::to_string).collect();
        let what = format!("a reply with the status {status} is never cached");
        report.error(written.at, what, format!("write some of {}", known.join(", ")));
    }
    statuses
}
