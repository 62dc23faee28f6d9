//! Compiles `authenticate`: several kinds of credential in one policy.

use std::collections::HashSet;

use ::policies::authenticate;
use ::policies::credential_check::CredentialCheck;
use config::{Authenticate, CredentialKind, Report, WithoutCredential};

use super::{
    Access, Facts, PolicyKind, PolicyPlace, WrittenLines, api_key, basic, hmac, jwt, mutual_tls,
    or_nothing,
};
use crate::policy::RouteScope;

impl PolicyKind for Authenticate {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        or_nothing(build(self, place, report))
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        let rows = self.any.value.iter().map(|kind| match &kind.value {
            CredentialKind::Jwt(keys) => keys.facts(&[]),
            CredentialKind::ApiKey(keys) => keys.facts(&[]),
            CredentialKind::Basic(keys) => keys.facts(&[]),
            CredentialKind::Hmac(keys) => keys.facts(&[]),
            CredentialKind::MutualTls(keys) => keys.facts(&[]),
        });
        let start = Facts { access: Access::Identifies, ..Facts::NONE };
        rows.fold(start, |mut all, row| {
            all.replies_differ |= row.replies_differ;
            all.removes.extend(row.removes);
            all.secrets.extend(row.secrets);
            if let (WrittenLines::These(all), WrittenLines::These(more)) =
                (&mut all.writes, row.writes)
            {
                all.extend(more);
            }
            all
        })
    }
}

fn build(
    keys: &Authenticate,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<plan::Policy> {
    if keys.any.value.is_empty() && keys.any.intact {
        let help = "write `any: [{ jwt: { issuers: [main] } }, { api_key: { .. } }]`";
        report.error(
            keys.any.at,
            "no kind of credential is listed, so every request would be refused",
            help,
        );
    }
    complain_of_hidden(keys, report);
    let mut kinds = Vec::with_capacity(keys.any.value.len());
    for kind in &keys.any.value {
        let optional = match &kind.value {
            CredentialKind::Jwt(keys) => keys.optional,
            CredentialKind::MutualTls(keys) => keys.optional,
            CredentialKind::ApiKey(_) | CredentialKind::Basic(_) | CredentialKind::Hmac(_) => false,
        };
        if optional && keys.otherwise == WithoutCredential::Refuse {
            let what = "`optional` has no effect here: `authenticate` refuses requests without a credential";
            report.error(kind.at, what, "add `otherwise: anonymous` next to `any`");
        }
        let built = match &kind.value {
            CredentialKind::Jwt(keys) => {
                Some(::policies::jwt::credential(jwt::verifier(keys, place, report)))
            }
            CredentialKind::ApiKey(keys) => {
                if let Some(name) = keys.body.0.first() {
                    let what = "`authenticate` reads only the head of a request, but this key is in the body";
                    report.error(name.at, what, "use `header` or `query`, or a separate `api_key`");
                }
                api_key::keys(keys, kind.at, report).map(boxed)
            }
            CredentialKind::Basic(keys) => Some(boxed(basic::users(keys, report))),
            CredentialKind::Hmac(keys) => {
                if keys.body {
                    let what = "`authenticate` reads only the head of a request, but `body` needs the whole body";
                    report.error(kind.at, what, "remove `body`, or use a separate `hmac`");
                }
                Some(boxed(hmac::signatures(keys, report)))
            }
            CredentialKind::MutualTls(keys) => {
                let trusted = mutual_tls::trusted(keys, kind.at, place, report);
                Some(::policies::mutual_tls::credential(trusted))
            }
        };
        kinds.extend(built);
    }
    let anonymous = keys.otherwise == WithoutCredential::Anonymous;
    Some(authenticate::policy(kinds, anonymous))
}

fn boxed(check: impl CredentialCheck + 'static) -> Box<dyn CredentialCheck> {
    Box::new(check)
}

/// Complains about a kind of credential that is never checked, because an earlier kind reads its credentials from the same places.
fn complain_of_hidden(keys: &Authenticate, report: &mut Report) {
    let mut taken: HashSet<(String, &str)> = HashSet::new();
    for kind in &keys.any.value {
        let places = places(&kind.value);
        if !places.is_empty() && places.iter().all(|place| taken.contains(place)) {
            let what = format!(
                "this `{}` is never used: an earlier one finds its credential in the same place",
                kind.value.name()
            );
            let help = "combine the two, such as by several `issuers` of one `jwt`, or give it another `header`";
            report.error(kind.at, what, help);
        }
        taken.extend(places);
    }
}

/// Returns the places where a kind of credential is read from. For the header `authorization`, each scheme counts as a separate place.
fn places(kind: &CredentialKind) -> Vec<(String, &str)> {
    let named = |name: &config::Spanned<String>, place| (name.value.to_ascii_lowercase(), place);
    match kind {
        CredentialKind::Jwt(keys) => {
            let header = if keys.header.value.eq_ignore_ascii_case("authorization") {
                named(&keys.header, "bearer")
            } else {
                named(&keys.header, "header")
            };
            let query = keys.query.iter().map(|name| (name.value.clone(), "query"));
            let cookie = keys.cookie.iter().map(|name| (name.0.clone(), "cookie"));
            std::iter::once(header).chain(query).chain(cookie).collect()
        }
        CredentialKind::ApiKey(keys) => {
            let queries = keys.query.0.iter().map(|name| (name.value.clone(), "query"));
            keys.header.0.iter().map(|name| named(name, "header")).chain(queries).collect()
        }
        CredentialKind::Basic(keys) => {
            let lines = basic::lines(keys).into_iter();
            lines.map(|line| (line.to_owned(), "basic")).collect()
        }
        CredentialKind::Hmac(_) => vec![("authorization".to_owned(), "hmac")],
        CredentialKind::MutualTls(keys) => {
            let header = keys.header.iter().map(|name| named(name, "header"));
            std::iter::once((String::new(), "certificate")).chain(header).collect()
        }
    }
}
