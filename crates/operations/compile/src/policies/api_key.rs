//! Compiles `api_key`, and the secrets of subjects, which it shares with `basic`.

use ::policies::api_key::{self, Keys, KeysError};
use ::policies::credentials::HashedSecret;
use ::policies::credentials::Holder;
use config::{ApiKey, At, Credentials, Report, Spanned};

use super::jwt::parameter;
use super::{Access, Facts, PolicyKind, PolicyPlace, or_nothing, texts};
use crate::listeners::bytes;
use crate::names;
use crate::policy::RouteScope;

impl PolicyKind for ApiKey {
    fn build(
        &self,
        written: PolicyPlace,
        _place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        or_nothing(build(self, written.at, report))
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts {
            access: Access::Identifies,
            removes: if self.forward { Vec::new() } else { texts(&self.header.0) },
            secrets: texts(&self.query.0),
            ..Facts::NONE
        }
    }
}

fn build(keys: &ApiKey, at: At, report: &mut Report) -> Option<plan::Policy> {
    let names: Vec<String> =
        keys.body.0.iter().filter_map(|name| parameter(name, report)).collect();
    let built = self::keys(keys, at, report)?;
    Some(if names.is_empty() {
        api_key::policy(built)
    } else {
        api_key::policy_with_bodies(built, names, bytes(keys.body_bytes_max))
    })
}

pub(super) fn keys(keys: &ApiKey, at: At, report: &mut Report) -> Option<Keys> {
    if keys.header.0.is_empty() && keys.query.0.is_empty() && keys.body.0.is_empty() {
        let what = "the place of the key is missing";
        report.error(at, what, "add `header: x-api-key`, or `query: NAME`");
    }
    let headers = keys.header.0.iter();
    let headers = headers.filter_map(|name| names::header(&name.value, name.at, report)).collect();
    let queries = keys.query.0.iter().filter_map(|name| parameter(name, report)).collect();
    let (holders, places): (Vec<Holder>, Vec<At>) = holders(&keys.keys, report).into_iter().unzip();
    let subjects: Vec<String> = holders.iter().map(|holder| holder.name.clone()).collect();
    let built = Keys::new(headers, queries, keys.forward, holders);
    let place = |index: usize| places.get(index).copied().unwrap_or(keys.keys.at);
    let subject = |index: usize| subjects.get(index).map_or("", String::as_str);
    match built {
        Ok(built) => Some(built),
        Err(KeysError::Shared(first, second)) => {
            let what = format!("`{}` and `{}` have the same key", subject(first), subject(second));
            report.error(place(second), what, "give each a key of its own");
            None
        }
        Err(KeysError::Slow(index)) => {
            let what = format!("the key of `{}` is a password hash", subject(index));
            report.error(place(index), what, "write the key itself, or `sha256:HEX`");
            None
        }
    }
}

/// Returns the holders of secrets, each with its place in the configuration.
pub(super) fn holders(written: &Spanned<Credentials>, report: &mut Report) -> Vec<(Holder, At)> {
    let read = written.value.read(report);
    if read.is_empty() && written.intact && !report.has_errors() {
        let what = "there are no secrets, so every request would be refused";
        report.warn(written.at, what, "write `{ SUBJECT: SECRET }`, or `{ file: PATH }`");
    }
    read.into_iter()
        .filter_map(|Spanned { value, at, .. }| match HashedSecret::read(&value.secret.0) {
            Ok(secret) => Some((holder(value, secret), at)),
            Err(why) => {
                let what = format!("the secret of `{}` cannot be used: {why}", value.name);
                report.error(at, what, "write the secret itself, or a supported hash");
                None
            }
        })
        .collect()
}

/// Returns the holder of a secret.
pub(super) fn holder(written: config::Credential, secret: HashedSecret) -> Holder {
    let config::Credential { name, subject, tier, application, .. } = written;
    let (groups, attributes) = (written.groups, written.attributes);
    let application = application.map(|name| name.value);
    Holder { name, subject, secret, tier, application, groups, attributes }
}
