//! Compiles `basic`.

use ::policies::basic::{self, Users};
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
            removes: if self.forward { Vec::new() } else { vec!["authorization"] },
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
    Users::new(users, realm, keys.forward)
}
