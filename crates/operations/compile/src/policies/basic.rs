//! Compiles `basic`.

use ::policies::basic::{self, BasicSettings, Users};
use ::policies::credentials::Holder;
use config::{Basic, Report};

use super::api_key::holders;
use super::jwt::realm;
use super::{Access, Facts, PolicyKind, PolicyPlace};
use crate::policy::RouteScope;

impl PolicyKind for Basic {
    fn build(
        &self,
        _written: PolicyPlace,
        _place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        basic::policy(users(self, report))
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts {
            access: Access::Identifies,
            removes: if self.forward { Vec::new() } else { lines(self) },
            ..Facts::NONE
        }
    }
}

pub(super) fn users(keys: &Basic, report: &mut Report) -> Users {
    let realm = realm(&keys.realm, report);
    let users = holders(&keys.users, report);
    for (Holder { name, .. }, at) in &users {
        if name.contains(':') {
            let what = format!("`{name}` is not a valid name: it has a colon");
            report.error(*at, what, "write a name without a colon");
        }
    }
    let users = users.into_iter().map(|(user, _)| user).collect();
    let Basic { forward, proxy_authorization, .. } = *keys;
    Users::new(users, BasicSettings { realm, forward, proxy_authorization })
}

/// The headers that may have the credentials.
pub(super) fn lines(keys: &Basic) -> Vec<&'static str> {
    let proxy = keys.proxy_authorization.then_some("proxy-authorization");
    std::iter::once("authorization").chain(proxy).collect()
}
