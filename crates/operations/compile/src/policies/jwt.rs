//! Compiles `jwt`, `backend_jwt` and `jwks`.

use std::sync::Arc;

use ::policies::jwt::{self, ApiReference, ClaimRequirement, JwtSettings, Verifier, backend};
use config::{
    BackendJwt, ClaimWanted, Decode as _, Errors, FilePath, Jwks, Jwt, Policy, Report, Spanned,
};
use jose::Signer;

use super::{Access, Facts, PolicyKind, PolicyPlace, WrittenLines, or_nothing, texts};
use crate::policy::RouteScope;
use crate::{files, names};

impl PolicyKind for Jwt {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        jwt::policy(verifier(self, place, report))
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts {
            access: Access::Identifies,
            replies_differ: !self.claims_to_headers.is_empty(),
            writes: WrittenLines::These(self.claims_to_headers.names().collect()),
            removes: if self.forward { Vec::new() } else { vec![&self.header.value] },
            secrets: texts(&self.query),
            ..Facts::NONE
        }
    }
}

/// Returns the verifier of a route's tokens. Routes with equal keys share it.
pub(super) fn verifier(
    keys: &Jwt,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Arc<Verifier> {
    if keys.issuers.value.is_empty() && keys.issuers.intact {
        let help = "name at least one of the `issuers`";
        report.error(keys.issuers.at, "no issuer, so every token is refused", help);
    }
    let tokens = &place.builder.tokens;
    let listed = keys.issuers.value.iter();
    let issuers: Vec<_> = listed.filter_map(|name| tokens.issuer(name, report)).collect();
    complain_of_doubles(keys, &issuers, report);
    let revoked = tokens.revoked.clone();
    let keeps_token = interceptors_get_token(place);
    let defers_scopes = super::subscription::is_below(place);
    let settings = JwtSettings { keeps_token, defers_scopes, ..settings(keys, report) };
    let places: Vec<_> = issuers.iter().map(|issuer| Arc::as_ptr(issuer).addr()).collect();
    let key = format!("jwt {} {keeps_token} {defers_scopes} {places:?}", keys.encode());
    place.builder.reuse_or_build(&key, || Arc::new(Verifier::new(settings, issuers, revoked)))
}

/// Returns true if interceptors of the route get the token, as the interceptor contract of Choreo Connect specifies.
fn interceptors_get_token(place: &RouteScope<'_, '_>) -> bool {
    let by_errors = matches!(place.of.errors, Errors::Wso2 | Errors::Apim);
    let gets = |policy: &Spanned<Policy>| matches!(policy.value.applied(), Policy::Interceptor(keys) if keys.token || by_errors);
    place.of.policies.iter().any(gets)
}

/// Complains about two issuers of the same name: a token could only match one of them.
fn complain_of_doubles(keys: &Jwt, issuers: &[Arc<jwt::Issuer>], report: &mut Report) {
    for (at, issuer) in issuers.iter().enumerate() {
        let name = |one: &jwt::Issuer| (one.issuer.clone(), one.issuer_claim.clone());
        let same =
            |other: &&Arc<jwt::Issuer>| other.issuer.is_some() && name(other) == name(issuer);
        let before = issuers.get(..at).unwrap_or_default();
        if before.iter().any(|other| same(&other)) {
            let name = issuer.issuer.as_deref().unwrap_or("");
            let claim = issuer.issuer_claim.as_deref().unwrap_or("iss");
            let what = format!("two of the issuers have the value `{name}` in `{claim}`");
            report.error(keys.issuers.at, what, "keep one of them; it may have several keys");
        }
    }
}

fn settings(keys: &Jwt, report: &mut Report) -> JwtSettings {
    let header = names::header(&keys.header.value, keys.header.at, report);
    JwtSettings {
        audiences: keys.audiences.0.clone(),
        scopes_any: keys.scopes.any.clone(),
        scopes_all: keys.scopes.all.clone(),
        claims: keys
            .claims
            .iter()
            .map(|(name, wanted)| {
                let wanted = match wanted {
                    ClaimWanted::Present => ClaimRequirement::Present,
                    ClaimWanted::OneOf(values) => ClaimRequirement::OneOf(values.clone()),
                };
                (name.value.clone(), wanted)
            })
            .collect(),
        // Harmless: an invalid header name got a complaint earlier.
        header: header.unwrap_or_default(),
        query: keys.query.as_ref().and_then(|name| parameter(name, report)),
        cookie: keys.cookie.as_ref().map(|name| name.0.clone()),
        lifetime_max: keys.lifetime_max.map(|time| time.0),
        forward: keys.forward,
        optional: keys.optional,
        claims_to_headers: keys
            .claims_to_headers
            .iter()
            .filter_map(|(name, claim)| {
                let name = names::changeable_header(&name.value, name.at, report)?;
                Some((name, claim.value.clone()))
            })
            .collect(),
        keeps_token: false,
        defers_scopes: false,
        groups: keys.groups.as_ref().map(|claim| claim.value.clone()),
        subscription: keys.subscription.as_ref().map(|api| ApiReference {
            name: api.name.clone(),
            context: api.context.clone(),
            version: api.version.clone(),
        }),
        realm: realm(&keys.realm, report),
    }
}

/// Returns the name of a query parameter. Only characters that need no escape are accepted, because names are compared without unescaping.
pub(super) fn parameter(name: &Spanned<String>, report: &mut Report) -> Option<String> {
    if !name.value.is_empty() && name.value.bytes().all(kit::percent::is_unreserved) {
        return Some(name.value.clone());
    }
    let what = format!("`{}` is not a valid name of a query parameter", name.value.escape_debug());
    report.error(name.at, what, "write letters, digits, `-`, `.`, `_` and `~`");
    None
}

/// Returns a realm that can be written as a quoted string.
pub(super) fn realm(realm: &Spanned<String>, report: &mut Report) -> String {
    let good = |c: char| c.is_ascii_graphic() && c != '"' && c != '\\' || c == ' ';
    if realm.value.is_empty() || !realm.value.chars().all(good) {
        let what = format!("`{}` is not a valid realm", realm.value.escape_debug());
        report.error(realm.at, what, "write a short ASCII text without quotes");
    }
    realm.value.clone()
}

impl PolicyKind for BackendJwt {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        or_nothing(backend(self, place, report))
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts {
            asks_identity: true,
            replies_differ: true,
            writes: WrittenLines::These(vec![&self.header.value]),
            ..Facts::NONE
        }
    }
}

fn backend(
    keys: &BackendJwt,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<plan::Policy> {
    let header = names::changeable_header(&keys.header.value, keys.header.at, report);
    let signers: Option<Vec<Arc<Signer>>> =
        keys.keys.0.iter().map(|file| signer(file, place, report)).collect();
    let signers = signers?;
    let first = signers.first().cloned();
    place.builder.tokens.signers.extend(signers);
    let settings = backend::BackendJwtSettings {
        header: header?,
        issuer: keys.issuer.clone(),
        audiences: keys.audiences.0.clone(),
        ttl: keys.ttl.0,
        copy: keys.copy.clone(),
        claims: keys.claims.iter().map(|(n, v)| (n.value.clone(), v.clone())).collect(),
    };
    Some(backend::policy(settings, first?))
}

fn signer(
    file: &Spanned<FilePath>,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<Arc<Signer>> {
    let bytes = files::read(file, report)?;
    let mut complain = |why: &str| {
        let what = format!("cannot sign with `{}`: {why}", file.value.as_path().display());
        report.error(file.at, what, "make one with `openssl genpkey -algorithm ed25519`");
    };
    let text = String::from_utf8(bytes).map_err(|_| complain("it is not a text")).ok()?;
    let made = place
        .builder
        .try_reuse_or_build(&format!("signer {text}"), || Signer::from_pem(&text).map(Arc::new));
    made.map_err(|why| complain(&why.to_string())).ok()
}

impl PolicyKind for Jwks {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        _report: &mut Report,
    ) -> plan::Policy {
        backend::publishing(place.builder.tokens.own_keys.clone(), self.max_age)
    }
}
