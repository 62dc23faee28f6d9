//! Compiles `hmac`.

use ::policies::credentials::{HashedSecret, Holder};
use ::policies::hmac::{self, HmacSettings, Signatures};
use config::{At, Hmac, HmacAlgorithm, Report};

use super::api_key::holder;
use super::jwt::realm;
use super::{Access, Facts, PolicyKind, PolicyPlace};
use crate::listeners::bytes;
use crate::names;
use crate::policy::RouteScope;

impl PolicyKind for Hmac {
    fn build(
        &self,
        _written: PolicyPlace,
        _place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        build(self, report)
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        let lines = ["authorization", "proxy-authorization"];
        Facts {
            access: Access::Identifies,
            removes: if self.forward { Vec::new() } else { lines.to_vec() },
            ..Facts::NONE
        }
    }
}

fn build(keys: &Hmac, report: &mut Report) -> plan::Policy {
    let bytes_max = keys.body.then(|| bytes(keys.body_bytes_max));
    hmac::policy(signatures(keys, report), bytes_max)
}

pub(super) fn signatures(keys: &Hmac, report: &mut Report) -> Signatures {
    if keys.algorithms.value.is_empty() {
        let what = "no algorithm is allowed, so every request would be refused";
        report.error(keys.algorithms.at, what, "write `[hmac-sha256]`, or remove the key");
    }
    let signed = keys.headers.iter().filter_map(|name| match name.value.as_str() {
        special @ ("request-line" | "@request-target") => Some(special.to_owned()),
        text => {
            let name = names::header(text, name.at, report)?;
            Some(name.to_ascii_lowercase())
        }
    });
    let signed = signed.collect();
    let algorithm = |algorithm: &HmacAlgorithm| match algorithm {
        HmacAlgorithm::Sha1 => hmac::HmacAlgorithm::Sha1,
        HmacAlgorithm::Sha224 => hmac::HmacAlgorithm::Sha224,
        HmacAlgorithm::Sha256 => hmac::HmacAlgorithm::Sha256,
        HmacAlgorithm::Sha384 => hmac::HmacAlgorithm::Sha384,
        HmacAlgorithm::Sha512 => hmac::HmacAlgorithm::Sha512,
    };
    Signatures::new(HmacSettings {
        users: users(keys, report),
        algorithms: keys.algorithms.value.iter().map(algorithm).collect(),
        clock_skew: keys.clock_skew.0,
        signed,
        realm: realm(&keys.realm, report),
        forward: keys.forward,
    })
}

/// Returns the holders with their secrets, which must be in plain text, not hashed.
fn users(keys: &Hmac, report: &mut Report) -> Vec<(Holder, Vec<u8>)> {
    let read = keys.users.value.read(report);
    if read.is_empty() && keys.users.intact && !report.has_errors() {
        let what = "there are no secrets, so every request would be refused";
        report.warn(keys.users.at, what, "write `{ NAME: SECRET }`, or `{ file: PATH }`");
    }
    let mut complain = |name: &str, why: &str, at: At| {
        let what = format!("the secret of `{name}` {why}");
        report.error(at, what, "write the secret itself, or `${file:PATH}`");
    };
    let mut users = Vec::with_capacity(read.len());
    for one in read {
        let (at, secret) = (one.at, one.value.secret.0.clone());
        match HashedSecret::read(&secret) {
            Ok(hashed @ HashedSecret::Sha256(_)) if !secret.starts_with("sha256:") => {
                users.push((holder(one.value, hashed), secret.into_bytes()));
            }
            Ok(_) => complain(&one.value.name, "is a hash, which cannot verify signatures", at),
            // A text that begins like a hash is taken for one.
            Err(why) => complain(&one.value.name, &format!("cannot be used: {why}"), at),
        }
    }
    users
}
