//! Compiles `canary`.

use ::policies::canary::{self, CanarySettings, Ramp};
use config::{At, Canary, LimitBy, Report};

use super::rate_limit::by;
use super::{Diverts, Facts, NamedUpstreams, PolicyKind, PolicyPlace, counts_identity, or_nothing};
use crate::names;
use crate::policy::RouteScope;

impl PolicyKind for Canary {
    fn build(
        &self,
        written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        or_nothing(build(self, written.at, place, report))
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        let by = self.by.as_ref().is_some_and(|by| counts_identity(&by.value));
        Facts {
            asks_identity: by || self.groups.is_some(),
            upstreams: NamedUpstreams::These(vec![&self.upstream.value]),
            diverts: Diverts::ByCaller,
            ..Facts::NONE
        }
    }
}

fn build(
    keys: &Canary,
    at: At,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<plan::Policy> {
    let (upstream, groups) = (&keys.upstream, keys.groups.as_ref().map(|groups| &groups.value));
    let known = place.builder.upstream_names();
    if !known.contains(&upstream.value) {
        let meant = report.suggest(&upstream.value, known.iter().map(String::as_str));
        let what = names::unknown("upstream", &upstream.value, meant);
        report.error(upstream.at, what, "name one of the `upstreams`");
        return None;
    }
    if keys.percent.of_million() == 0 && keys.header.is_none() && groups.is_none() {
        let what = "no request goes to the upstream of this `canary`";
        report.error(
            at,
            what,
            "write `percent: 10`, `header: x-canary`, or `groups: { allow: [beta] }`",
        );
    }
    if let Some(wanted) = &keys.by
        && matches!(wanted.value, LimitBy::Route | LimitBy::Operation)
    {
        let what = "all requests have the same key, so all would go to the same upstream";
        report.error(
            wanted.at,
            what,
            "write `client`, `subject`, `header:NAME` or `cel:EXPRESSION`",
        );
    }
    let header = match &keys.header {
        Some(name) => Some(names::header(&name.value, name.at, report)?),
        None => None,
    };
    Some(canary::policy(CanarySettings {
        diversion: place.diversion(&upstream.value),
        share: keys.percent.of_million(),
        ramp: keys.ramp.as_ref().and_then(|ramp| self::ramp(&ramp.value, report)),
        by: keys.by.as_ref().map(|key| by(key, report)),
        header,
        // Harmless: without a list, no group is allowed.
        allow: groups.and_then(|g| Some(g.allow.as_ref()?.value.clone())).unwrap_or_default(),
        deny: groups.map_or_else(Vec::new, |groups| groups.deny.clone()),
    }))
}

fn ramp(keys: &config::Ramp, report: &mut Report) -> Option<Ramp> {
    let start = mediation::date_time::read(&keys.start.value);
    if start.is_none() {
        let what = format!("`{}` is not a time", keys.start.value.escape_debug());
        report.error(
            keys.start.at,
            what,
            "write it with a time zone, such as `2026-03-01T08:00:00Z`",
        );
    }
    Some(Ramp { start: start?, over: keys.over.0 })
}
