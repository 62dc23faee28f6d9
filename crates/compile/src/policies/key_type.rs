//! `key_type`.

use ::policies::key_type::{self, Sandbox};
use config::{Config, KeyType, Policy, Report};

use crate::policy::Place;
use crate::{names, paths};

pub(crate) fn build(
    keys: &KeyType,
    place: &mut Place<'_, '_>,
    report: &mut Report,
) -> plan::Policy {
    let sandbox = keys.sandbox.as_ref().and_then(|name| {
        let known = place.making.upstream_names();
        if !known.contains(&name.value) {
            let meant = report.suggest(&name.value, known.iter().map(String::as_str));
            let what = names::unknown("upstream", &name.value, meant);
            report.error(name.at, what, "name one of the `upstreams`");
            return None;
        }
        let base = || paths::as_matched(&keys.base_path);
        let path = keys.sandbox_path.as_ref().map(|path| (base(), path.clone()));
        Some(Sandbox { diversion: place.diversion(&name.value), path })
    });
    key_type::policy(keys.claim.clone(), keys.production, sandbox)
}

/// The sandboxes of all routes.
#[allow(clippy::wildcard_enum_match_arm, reason = "all others send nothing elsewhere")]
pub(crate) fn named(config: &Config) -> impl Iterator<Item = &str> {
    let policies = config.routes.iter().flat_map(|(_, route)| &route.value.policies);
    policies.filter_map(|policy| match &policy.value {
        Policy::KeyType(keys) => keys.sandbox.as_ref().map(|name| name.value.as_str()),
        _ => None,
    })
}
