//! Compiles `sse`.

use std::sync::Arc;

use config::{
    At, Decode as _, Headers, OneOrMore, Policy, Report, RouteHost, RouteUpstream, ShareBy,
    SlowClient, Spanned, Sse, SseShare,
};
use plan::Fetch;
use policies::sse::{self, ShareSettings, Shares, SseSettings};

use super::quotas::{self, kept, own_key};
use super::rate_limit::by;
use super::{Diverts, Facts, PolicyKind, PolicyPlace, WrittenLines, counts, counts_identity};
use crate::listeners::count;
use crate::plans;
use crate::policy::RouteScope;
use crate::templates;

impl PolicyKind for Sse {
    fn build(
        &self,
        written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        let by = self.by.as_ref();
        let limits = limits(self, written.at, written.intact).compile(place.config, report);
        let settings = SseSettings {
            by: by.map_or_else(|| own_key(self.plans), |by| self::by(by, report)),
            tiers: quotas::tiers(&limits),
            event_bytes_max: usize::try_from(self.event_bytes_max.value.0).unwrap_or(usize::MAX),
            idle: self.idle.map(|idle| idle.0),
            connections: self.connections.map(|connections| connections.get()),
        };
        if self.event_bytes_max.value.0 == 0 {
            let what = "an event cannot have a size of 0";
            report.error(self.event_bytes_max.at, what, "write the largest size, such as `64KiB`");
        }
        if place.of.upstream.is_none() && place.of.flow.is_none() && written.intact {
            let what = "there can be no event stream here: the route has no upstream";
            report.error(written.at, what, "remove the policy, or add `upstream: NAME`");
        }
        let kept = kept("sse", &self.encode(), &limits, self.shared.as_ref(), place, report);
        let metrics = place.builder.telemetry.route(place.route);
        let share = self.share.as_ref().and_then(|share| shared(self, share, place, report));
        sse::policy(settings, kept, metrics, share, place.slots)
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts {
            asks_identity: self.plans
                || self.by.as_ref().is_some_and(|by| counts_identity(&by.value)),
            counts: counts(self.by.as_ref().map(|by| &by.value)),
            ..Facts::NONE
        }
    }
}

/// Headers that frame a message, control its connection, or determine which stream is shared.
const OF_THE_GATEWAY: [&str; 12] = [
    "accept",
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "last-event-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "proxy-connection",
];

/// Returns the shared streams, taken over from the previous plan if the policy's keys did not change, and the connection to the upstream.
fn shared(
    keys: &Sse,
    share: &Spanned<SseShare>,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<(ShareSettings, Arc<Shares>, Arc<dyn Fetch>)> {
    let SseShare { by: ShareBy::Path, replay, slow, linger, headers } = &share.value;
    for name in &headers.0 {
        if !http1::is_token(name.value.as_bytes()) {
            let what = format!("`{}` is not a header name", name.value.escape_debug());
            report.error(name.at, what, "write a name such as `x-tenant`");
        } else if OF_THE_GATEWAY.iter().any(|own| name.value.eq_ignore_ascii_case(own)) {
            let what = format!("the gateway sets `{}` of a shared stream itself", name.value);
            report.error(name.at, what, "remove it");
        }
    }
    let parameters = templates::parameters(&place.of.matches.value);
    for policy in &place.of.policies {
        let facts = super::facts(&policy.value, &parameters);
        let writes = match &facts.writes {
            WrittenLines::These(names) => !names.is_empty(),
            WrittenLines::Any => true,
        };
        if let Policy::Headers(edits) = &policy.value {
            warn_of_unsent(edits, policy.at, headers, report);
        }
        if writes || facts.replies_differ || facts.diverts != Diverts::Never {
            let what = format!(
                "`{}` changes the request for each client, but `share` uses one request for all",
                policy.value.name()
            );
            report.error(share.at, what, "remove `share`, or that policy");
        }
    }
    let upstream = match place.of.upstream.as_ref().map(|upstream| &upstream.value) {
        Some(RouteUpstream::One(name)) => {
            let at = place.of.upstream.as_ref().map_or(share.at, |upstream| upstream.at);
            Spanned { value: name.clone(), at, intact: true }
        }
        Some(RouteUpstream::Split(_)) | None => {
            let what = "a shared stream needs one upstream";
            report.error(share.at, what, "remove `share`, or name one upstream on the route");
            return None;
        }
    };
    // A missing upstream is reported with the route.
    let fetch = place.builder.upstream_fetch(&upstream, &mut Report::default())?;
    let sharing = ShareSettings {
        replay: count(replay.get()),
        skip_missed: *slow == SlowClient::Skip,
        linger: *linger,
        headers: headers.0.iter().map(|name| name.value.to_ascii_lowercase()).collect(),
        host: match &place.of.host.value {
            RouteHost::Name(name) => Some(name.as_str().into()),
            // The host of the target is sent. With `preserve`, the host of the first client would be sent for all clients.
            RouteHost::Preserve | RouteHost::Target => None,
        },
        event_bytes_max: usize::try_from(keys.event_bytes_max.value.0).unwrap_or(usize::MAX),
    };
    let of = crate::destinations::fingerprint(place.of);
    let to = place.builder.settings_fingerprint(&upstream.value);
    let key = format!("sse shares {} {} {of} {to}", place.route, keys.encode());
    let shares = place.builder.reuse_or_build(&key, Arc::default);
    Some((sharing, shares, fetch))
}

/// Warns of request headers that a policy sets but a shared stream does not send, because they are not listed in its `headers`.
fn warn_of_unsent(edits: &Headers, at: At, sent: &OneOrMore<Spanned<String>>, report: &mut Report) {
    let set = edits.request.set.iter().chain(edits.request.add.iter()).map(|(name, _)| name);
    for name in set {
        if !sent.0.iter().any(|sent| sent.value.eq_ignore_ascii_case(&name.value)) {
            let what = format!("the shared stream is requested without `{}`", name.value);
            report.warn(at, what, "name it in the `headers` of `share` too");
        }
    }
}

fn limits(keys: &Sse, at: At, intact: bool) -> plans::LimitKeys<'_> {
    plans::LimitKeys {
        at,
        intact,
        noun: "events",
        events: keys.events.as_ref(),
        bytes: keys.bytes.as_ref(),
        per: keys.per.as_ref(),
        windows: keys.windows.iter().map(quotas::window).collect(),
        subscriptions: None,
        plans: keys.plans,
        default: keys.default.as_ref(),
    }
}
