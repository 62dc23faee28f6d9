//! Compiles `issuers`: their keys from files, or a connection to the URL where they are published.

use std::sync::Arc;
use std::time::Duration;

use config::{Config, Decode as _, FilePath, Report, Secret, Spanned, TimeClaim, WebUrl};
use jose::KeySet;
use plan::Fetch;
use plan::telemetry::Telemetry;
use plan::upstreams::{Timeouts, UpstreamSettings};
use policies::jwt::{
    Introspection, Issuer, IssuerClient, Keys, KnownKeys, Location, PublishedKeys,
};

use crate::policy_builder::PolicyBuilder;
use crate::{files, upstream_settings};

/// The idle timeout of connections to an issuer. Requests to it are rare.
const IDLE: std::time::Duration = std::time::Duration::from_secs(30);

/// Compiles all issuers. Issuers with faults get complaints.
pub(crate) fn compile(
    config: &Config,
    builder: &mut PolicyBuilder<'_>,
    telemetry: &Telemetry,
    report: &mut Report,
) {
    for name in config.issuers.names() {
        // An issuer that could not be read was already reported. Its name is added so that it is not reported as unknown, too.
        builder.tokens.issuers.insert(name.to_owned(), None);
    }
    for (name, issuer) in config.issuers.iter() {
        let made = self::issuer(&name.value, issuer, config, builder, telemetry, report);
        builder.tokens.issuers.insert(name.value.clone(), made);
    }
}

fn issuer(
    name: &str,
    written: &Spanned<config::Issuer>,
    config: &Config,
    builder: &mut PolicyBuilder<'_>,
    telemetry: &Telemetry,
    report: &mut Report,
) -> Option<Arc<Issuer>> {
    let keys = &written.value;
    let own = crate::catalog::keys(name, config, builder);
    if own.is_none() && !is_whole(written, report) {
        return None;
    }
    let read: Option<Vec<String>> = keys.keys.0.iter().map(|file| key_text(file, report)).collect();
    let read = read?;
    let algorithms = algorithms(keys, report);
    warn_of_ignored_times(keys, report);
    let fixed = fixed(keys, &read, report)?;
    let location = location(keys, report);
    let published = match &location {
        Some((url, location)) => {
            let settings = upstream_settings(url, keys, report)?;
            Some(published(name, keys, settings, location, builder, telemetry))
        }
        None => None,
    };
    let introspection = match &keys.introspection {
        Some(asked) => Some((asked, upstream_settings(&asked.value.url.value, keys, report)?)),
        None => None,
    };
    let secret = keys.introspection.as_ref().and_then(|asked| asked.value.client_secret.as_ref());
    let key = format!(
        "issuer {name} {} {read:?} {:?} {:?} {:?} {:?}",
        keys.encode(),
        keys.secret.as_ref().map(|secret| &secret.value.0),
        secret.map(|secret| &secret.0),
        published.as_ref().map(Arc::as_ptr),
        introspection.as_ref().map(|(_, settings)| settings),
    );
    let introspection = introspection.map(|(asked, settings)| {
        introspecting(&asked.value, builder.own_fetch(settings), keys.timeout.0)
    });
    Some(builder.reuse_or_build(&key, || {
        Arc::new(Issuer {
            issuer: text(&keys.issuer),
            issuer_claim: text(&keys.issuer_claim),
            keys: match (own, fixed, published) {
                (Some(own), ..) => Keys::Own(own),
                (None, Some(fixed), _) => Keys::Fixed(fixed),
                (None, None, Some(published)) => Keys::Published(published),
                (None, None, None) => Keys::Nowhere,
            },
            introspection,
            audiences: keys.audiences.0.clone(),
            algorithms,
            client: client(keys),
            types: keys.types.0.iter().map(|kind| jose::kind(kind)).collect(),
            leeway: keys.leeway,
            expiry_required: keys.expiry_required,
            beginning_required: keys.beginning_required,
            expiry_ignored: ignores(keys, TimeClaim::Exp),
            beginning_ignored: ignores(keys, TimeClaim::Nbf),
            subject_claim: keys.subject_claim.clone(),
            scope_claims: keys.scope_claims.as_slice().into(),
            consumer_claim: keys.consumer_claim.clone(),
            application_claim: text(&keys.application),
            tier_claim: keys.tier_claim.clone(),
        })
    }))
}

fn text(written: &Option<Spanned<String>>) -> Option<String> {
    written.as_ref().map(|text| text.value.clone())
}

fn warn_of_ignored_times(keys: &config::Issuer, report: &mut Report) {
    if let Some(first) = keys.times_ignored.first() {
        let what = "tokens are accepted after they expire and before they become valid";
        report.warn(first.at, what, "remove `times_ignored` once all clients renew their tokens");
    }
}

fn ignores(keys: &config::Issuer, claim: TimeClaim) -> bool {
    keys.times_ignored.iter().any(|ignored| ignored.value == claim)
}

/// Compiles the introspection of opaque tokens.
fn introspecting(
    asked: &config::Introspection,
    fetch: Arc<dyn Fetch>,
    timeout: Duration,
) -> Introspection {
    let secret = asked.client_secret.as_ref().map_or("", |secret| &secret.0);
    let client = (!asked.client_id.is_empty()).then_some((asked.client_id.as_str(), secret));
    Introspection::new(fetch, asked.url.value.path.clone(), client, timeout, asked.cache)
}

/// Returns the keys given in the configuration, if any. The outer `None` means that they cannot be used.
fn fixed(keys: &config::Issuer, read: &[String], report: &mut Report) -> Option<Option<KeySet>> {
    match (&keys.secret, read.is_empty()) {
        (Some(secret), _) => shared_secret(secret, &keys.secret_short, report).map(Some),
        (None, true) => Some(None),
        (None, false) => key_set(&keys.keys.0, read, report).map(Some),
    }
}

/// Returns the client that all tokens of the issuer represent, if `subject` names one.
fn client(keys: &config::Issuer) -> Option<IssuerClient> {
    let attributes = keys.attributes.iter();
    let attributes = attributes.map(|(name, text)| (name.value.clone(), text.clone()));
    Some(IssuerClient {
        subject: keys.subject.clone()?,
        groups: keys.groups.clone(),
        attributes: attributes.collect(),
    })
}

/// Returns true if an issuer has exactly one source of keys and a name by which tokens can refer to it, or no source of keys but
/// introspection. Complains otherwise.
fn is_whole(written: &Spanned<config::Issuer>, report: &mut Report) -> bool {
    let config::Issuer {
        issuer, issuer_claim, jwks, keys, secret, discovery, introspection, ..
    } = &written.value;
    let places = [jwks.is_some(), !keys.0.is_empty(), secret.is_some(), discovery.value];
    let count = places.iter().filter(|there| **there).count();
    if count > 1 {
        let what = "an issuer can have only one source of keys";
        report.error(written.at, what, "keep one of `jwks`, `keys`, `secret` and `discovery`");
        return false;
    }
    if count == 0 && introspection.is_none() {
        if written.intact {
            let help = "add `jwks: \"https://...\"`, `keys: [FILE.pem]`, `discovery: true` or `introspection`";
            report.error(written.at, "the issuer has no keys", help);
        }
        return false;
    }
    if let Some(claim) = issuer_claim.as_ref().filter(|_| discovery.value) {
        let what = "with `discovery`, tokens must name their issuer in `iss`";
        report.error(claim.at, what, "remove `issuer_claim`, or write `jwks`");
        return false;
    }
    if count > 0 && issuer.is_none() {
        if written.intact {
            let help = "add `issuer: \"https://...\"`, the `iss` of its tokens";
            report.error(written.at, "the issuer has no name", help);
        }
        return false;
    }
    true
}

/// Returns the key that is made from the secret shared with the issuer.
fn shared_secret(
    secret: &Spanned<Secret>,
    short: &Spanned<bool>,
    report: &mut Report,
) -> Option<KeySet> {
    let made = KeySet::of_secret(&secret.value.0);
    let is_short = short.value && made.as_ref().is_err_and(|why| *why == jose::KeyError::Weak);
    let made = if is_short { KeySet::of_short_secret(&secret.value.0) } else { made };
    if is_short && made.is_ok() {
        let what = "anyone who has a token of this issuer can guess its secret";
        report.warn(short.at, what, "use a secret of 32 bytes or more, and remove `secret_short`");
    }
    let complain = |why: jose::KeyError| {
        let what = format!("the secret of the issuer cannot be used: {why}");
        report.error(
            secret.at,
            what,
            "write a secret of 32 bytes or more, as it is or as `base64:TEXT`",
        );
    };
    made.map_err(complain).ok()
}

/// Returns the algorithms that tokens of the issuer may use.
fn algorithms(keys: &config::Issuer, report: &mut Report) -> Vec<jose::Algorithm> {
    let read = keys.algorithms.0.iter().filter_map(|name| {
        let known = jose::Algorithm::named(&name.value);
        if known.is_none() {
            let what = format!("the algorithm `{}` is not known", name.value.escape_debug());
            report.error(
                name.at,
                what,
                "write one such as `HS256`, `RS256`, `ES256`, `PS256` or `EdDSA`",
            );
        }
        known
    });
    read.collect()
}

/// Reads the text of a file with keys.
fn key_text(file: &Spanned<FilePath>, report: &mut Report) -> Option<String> {
    let bytes = files::read(file, report)?;
    let text = String::from_utf8(bytes);
    text.map_err(|_| complain(file, "it is not text", report)).ok()
}

fn key_set(list: &[Spanned<FilePath>], texts: &[String], report: &mut Report) -> Option<KeySet> {
    let mut all = KeySet::default();
    let mut whole = true;
    // Harmless: `texts` has one text for each file in `list`.
    for (file, text) in list.iter().zip(texts) {
        let read = if text.trim_start().starts_with('{') {
            match KeySet::of_issuer(text.as_bytes()) {
                None => Err("it is neither a JWK nor a JWK set".to_owned()),
                Some((keys, left)) => {
                    for (id, why) in left {
                        let key = match id {
                            Some(id) => format!("the key `{}`", id.escape_debug()),
                            None => "the key without a `kid`".to_owned(),
                        };
                        let what = format!("{key} is ignored: {why}");
                        report.warn(file.at, what, "fix it, or remove it from the file");
                    }
                    if let Some(id) = keys.duplicate_id() {
                        let id = id.escape_debug();
                        let what = format!("several keys have the `kid` `{id}`, so each is tried");
                        report.warn(file.at, what, "give each key a `kid` of its own");
                    }
                    if keys.is_empty() {
                        Err("it has no key that verifies tokens".to_owned())
                    } else {
                        Ok(keys)
                    }
                }
            }
        } else {
            KeySet::from_pem(text).map_err(|why| why.to_string())
        };
        match read {
            Ok(keys) => all.extend(keys),
            Err(why) => {
                complain(file, &why, report);
                whole = false;
            }
        }
    }
    if let (Some((algorithm, count)), Some(file)) = (all.untried(), list.first()) {
        let what = format!(
            "{count} keys for {}: only {} are tried for tokens without a `kid`",
            algorithm.name(),
            jose::TRIED_MAX
        );
        report.warn(file.at, what, "remove old keys, or let the issuer name keys by `kid`");
    }
    whole.then_some(all)
}

fn complain(file: &Spanned<FilePath>, why: &str, report: &mut Report) {
    let what = format!("no usable keys in `{}`: {why}", file.value.as_path().display());
    let help =
        "name a PEM file with public keys or certificates, or a JSON file with a JWK or a JWK set";
    report.error(file.at, what, help);
}

/// Returns the URL where an issuer publishes its keys, or the URL of the issuer if discovery finds them, and what to fetch there.
fn location(keys: &config::Issuer, report: &mut Report) -> Option<(WebUrl, Location)> {
    if let Some(jwks) = &keys.jwks {
        return Some((jwks.value.clone(), Location::Keys(jwks.value.path.clone())));
    }
    let issuer = keys.issuer.as_ref().filter(|_| keys.discovery.value)?;
    let url = match WebUrl::parse(&issuer.value) {
        Ok(url) => url,
        Err(why) => {
            report.error(
                issuer.at,
                why,
                "write the issuer's URL, or use `jwks` in place of `discovery`",
            );
            return None;
        }
    };
    let target = &url.target;
    let mut origins = vec![target.to_string()];
    if target.port == if target.tls { 443 } else { 80 } {
        origins.extend(target.to_string().rsplit_once(':').map(|(front, _)| front.to_owned()));
    }
    let path = format!("{}/.well-known/openid-configuration", url.path.trim_end_matches('/'));
    let location = Location::Discovery { path, issuer: issuer.value.clone(), origins };
    Some((url, location))
}

fn upstream_settings(
    url: &WebUrl,
    keys: &config::Issuer,
    report: &mut Report,
) -> Option<UpstreamSettings> {
    let timeout = Timeouts {
        connect: keys.timeout.0,
        response: keys.timeout.0,
        write: None,
        total: None,
        idle: IDLE,
    };
    upstream_settings::to_url(&url.target, timeout, &keys.tls, report)
}

fn published(
    name: &str,
    keys: &config::Issuer,
    settings: UpstreamSettings,
    location: &Location,
    builder: &mut PolicyBuilder<'_>,
    telemetry: &Telemetry,
) -> Arc<PublishedKeys> {
    let key = format!("published keys {name} {location:?} {:?} {settings:?}", keys.refresh.0);
    // The fetched keys can be kept as long as the issuer and the place of its keys are the same.
    let UpstreamSettings { targets, tls, .. } = &settings;
    let issuer = keys.issuer.as_ref().map(|issuer| &issuer.value);
    let known = format!("known keys {name} {issuer:?} {location:?} {targets:?} {tls:?}");
    let known = builder.reuse_or_build(&known, || Arc::new(KnownKeys::default()));
    let fetch = builder.own_fetch(settings);
    let published = builder.reuse_or_build(&key, || {
        let (refresh, timeout) = (keys.refresh.0, keys.timeout.0);
        let (location, metrics) = (location.clone(), telemetry.issuer(name));
        Arc::new(PublishedKeys::new(name, fetch, location, refresh, timeout, metrics, known))
    });
    builder.work(published.clone());
    published
}
