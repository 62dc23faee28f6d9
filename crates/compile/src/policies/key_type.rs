//! `key_type`.

use ::policies::key_type::{self, Sandbox};
use config::{KeyType, Report};

use crate::policy::RouteScope;
use crate::{names, paths};

pub(crate) fn build(
    keys: &KeyType,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> plan::Policy {
    let sandbox = keys.sandbox.as_ref().and_then(|name| {
        let known = place.builder.upstream_names();
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
