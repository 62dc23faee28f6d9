//! `basic`.

use ::policies::basic::{self, Users};
use config::{Basic, Report};

use super::api_key::holders;
use super::jwt::realm;

pub(crate) fn build(keys: &Basic, report: &mut Report) -> plan::Policy {
    let realm = realm(&keys.realm, report);
    let users = holders(&keys.users, report);
    for ((name, ..), at) in &users {
        if name.contains(':') {
            let what = format!("`{name}` cannot be a name: a colon ends it");
            report.error(*at, what, "write a name without a colon");
        }
    }
    let users = users.into_iter().map(|(user, _)| user).collect();
    basic::policy(Users::new(users, realm, keys.forward))
}
