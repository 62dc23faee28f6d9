//! Compiles `key_type`.

use ::policies::key_type::{self, Sandbox};
use config::{KeyType, Report};

use super::{Diverts, Facts, NamedUpstreams, PolicyKind, PolicyPlace, texts};
use crate::policy::RouteScope;
use crate::{names, paths};

impl PolicyKind for KeyType {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        let sandbox = self.sandbox.as_ref().and_then(|name| {
            let known = place.builder.upstream_names();
            if !known.contains(&name.value) {
                let meant = report.suggest(&name.value, known.iter().map(String::as_str));
                let what = names::unknown("upstream", &name.value, meant);
                report.error(name.at, what, "name one of the `upstreams`");
                return None;
            }
            let base = || paths::as_matched(&self.base_path);
            let path = self.sandbox_path.as_ref().map(|path| (base(), path.clone()));
            Some(Sandbox { diversion: place.diversion(&name.value), path })
        });
        key_type::policy(self.claim.clone(), self.production, sandbox)
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts {
            asks_identity: true,
            upstreams: NamedUpstreams::These(texts(&self.sandbox)),
            diverts: match self.sandbox {
                Some(_) => Diverts::ByCaller,
                None => Diverts::Never,
            },
            ..Facts::NONE
        }
    }
}
