//! Compiles `ws_security`.

use std::collections::HashMap;
use std::sync::Arc;

use ::policies::credentials::Holder;
use ::policies::users::Users;
use ::policies::ws_security::{
    self as security, Nonces, TimestampUse, TokenUsers, WsSecuritySettings,
};
use config::{Credentials, PasswordForm, Report, Spanned, TimestampCheck, WsSecurity};

use super::api_key::holders;
use super::{Access, Facts, PolicyKind, PolicyPlace, Xml};
use crate::listeners::bytes;
use crate::policy::RouteScope;

impl PolicyKind for WsSecurity {
    fn build(
        &self,
        written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        let timestamp = match self.timestamp.value {
            TimestampCheck::Off => TimestampUse::Off,
            TimestampCheck::Optional => TimestampUse::Optional,
            TimestampCheck::Required => TimestampUse::Required,
        };
        if self.users.is_none() && timestamp != TimestampUse::Required {
            let what = "`ws_security` must require a user or a timestamp";
            report.error(
                written.at,
                what,
                "add `users: { NAME: PASSWORD }`, or `timestamp: required`",
            );
        }
        // All routes share one list, because a message may be replayed on another route.
        let nonces =
            place.builder.reuse_or_build("ws_security nonces", || Arc::new(Nonces::default()));
        security::policy(WsSecuritySettings {
            users: self.users.as_ref().map(|users| token_users(self, users, report)),
            timestamp,
            age_max: self.max_age.0,
            clock_skew: self.clock_skew,
            forward: self.forward,
            bytes_max: bytes(self.body_bytes_max),
            nonces,
        })
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts {
            access: if self.users.is_some() { Access::Identifies } else { Access::Guards },
            xml: Some(Xml {
                verbose: false,
                validates: &[],
                reads_requests: true,
                reads_replies: false,
                makes_faults: false,
            }),
            ..Facts::NONE
        }
    }
}

fn token_users(
    keys: &WsSecurity,
    written: &Spanned<Credentials>,
    report: &mut Report,
) -> TokenUsers {
    let forms = &keys.passwords;
    if forms.value.is_empty() && forms.intact {
        report.error(
            forms.at,
            "no password form is accepted",
            "write `[digest]`, `[text]` or both",
        );
    }
    let takes = |form| forms.value.contains(&form);
    if keys.nonce_required.value && !takes(PasswordForm::Text) {
        let what = "digests always need a nonce";
        report.warn(keys.nonce_required.at, what, "remove `nonce_required`");
    }
    let mut passwords = HashMap::new();
    if takes(PasswordForm::Digest) {
        for Spanned { value, at, .. } in written.value.read(report) {
            let is_hash = ["$", "{SHA}", "sha256:", "sha1:"];
            if is_hash.iter().any(|mark| value.secret.0.starts_with(mark)) {
                let what = format!(
                    "the password of `{}` is a hash, which cannot verify digests",
                    value.name
                );
                report.error(at, what, "write the password itself, or `passwords: [text]`");
            }
            passwords.insert(value.name, value.secret.0);
        }
    }
    // A file of users is read again here. The report drops complaints that it already has.
    let holders: Vec<Holder> = holders(written, report).into_iter().map(|(user, _)| user).collect();
    TokenUsers {
        users: Users::new(holders, plan::IdentityScheme::WsSecurity),
        passwords,
        takes_texts: takes(PasswordForm::Text),
        nonce_required: keys.nonce_required.value,
    }
}
