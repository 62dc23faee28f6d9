//! Compiles `catalog` to its settings and its issuers.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use config::{Catalog, CatalogUser, Config, Issuer, KeyUse, Report, Spanned};
use plan::{API_KEY_ISSUER, API_KEYS, CATALOG_ISSUER, CatalogSettings, HostRule, Plan, WrittenKey};
use policies::credentials::HashedSecret;
use policies::jwt::OwnIssuerKeys;
use serde_json::json;

use crate::names;
use crate::policy_builder::PolicyBuilder;

/// Returns the configuration with the issuers of its catalog added.
pub(crate) fn with_issuers<'c>(config: Cow<'c, Config>, report: &mut Report) -> Cow<'c, Config> {
    let Some(catalog) = &config.catalog else { return config };
    let (at, issuer) = (catalog.value.issuer.at, catalog.value.issuer.value.clone());
    let mut all = Config::clone(&config);
    for (name, issuer) in
        [(CATALOG_ISSUER, issuer.clone()), (API_KEY_ISSUER, format!("{issuer}{API_KEYS}"))]
    {
        let keys = json!({ "issuer": issuer, "application": "azp" });
        let Some(value) = config::decode::<Issuer>(&keys, at, &mut Report::default()) else {
            continue;
        };
        let named = Spanned { value: name.to_owned(), at, intact: true };
        if !all.issuers.add(named, Spanned { value, at, intact: true }) {
            let what = format!("`{name}` is the catalog's own issuer");
            report.error(at, what, "give the other issuer another name");
        }
    }
    Cow::Owned(all)
}

/// Returns the keys of an issuer, or `None` if it is not one of the catalog's.
pub(crate) fn keys(
    name: &str,
    config: &Config,
    builder: &mut PolicyBuilder<'_>,
) -> Option<Arc<OwnIssuerKeys>> {
    config.catalog.as_ref()?;
    let is_own = name == CATALOG_ISSUER || name == API_KEY_ISSUER;
    is_own.then(|| own_keys(builder))
}

/// Returns the keys that the catalog signs with. All plans share them.
fn own_keys(builder: &mut PolicyBuilder<'_>) -> Arc<OwnIssuerKeys> {
    builder.reuse_or_build("keys of the catalog", Arc::default)
}

/// Compiles the settings of the catalog.
pub(crate) fn compile(
    config: &Config,
    previous: Option<&Plan>,
    builder: &mut PolicyBuilder<'_>,
    report: &mut Report,
) -> Option<Arc<CatalogSettings>> {
    let written = config.catalog.as_ref()?;
    let catalog = &written.value;
    if config.store.is_none() {
        let what = "a catalog needs a `store`";
        report.error(written.at, what, "add `store: { path: var/tidegate }`");
    }
    // The catalog keeps its objects in the store.
    builder.store.get_or_default();
    check_listen(catalog, previous, report);
    if catalog.issuer.value.is_empty() {
        let help = "write `issuer: \"https://gateway.example\"`";
        report.error(catalog.issuer.at, "the catalog's tokens have no issuer", help);
    }
    if let Some(listener) = &catalog.gateway
        && !config.listen.has(&listener.value)
    {
        let meant = report.suggest(&listener.value, config.listen.names());
        let what = names::unknown("listener", &listener.value, meant);
        report.error(listener.at, what, "name one of the listeners in `listen`");
    }
    check_lifetimes(catalog, report);
    let users = catalog.users.iter();
    let users = users
        .filter_map(|(name, user)| Some((name.value.clone(), self::user(name, user, report)?)));
    let users = users.collect();
    let issuers = config.issuers.iter();
    let issuers = issuers
        .filter(|(name, issuer)| name.value != API_KEY_ISSUER && issuer.value.application.is_some())
        .map(|(name, _)| name.value.clone())
        .collect();
    let plans = builder.subscriptions.plans();
    let plans = plans.map(|plan| (plan.name.to_string(), plan.clone())).collect();
    Some(Arc::new(CatalogSettings {
        listen: catalog.listen.value.address.value.0,
        tls: catalog.listen.value.tls.as_ref().and_then(|tls| {
            let (certificate, key) = (&tls.value.certificate, &tls.value.key);
            crate::admin::tls_server(certificate, key, None, false, report)
        }),
        users,
        issuer: catalog.issuer.value.clone(),
        lifetime: catalog.token.lifetime.value.0,
        refresh_lifetime: catalog.token.refresh_lifetime.value.0,
        rotate: catalog.token.rotate.value.0,
        algorithm: match catalog.token.algorithm {
            config::CatalogAlgorithm::Rs256 => plan::CatalogAlgorithm::Rs256,
            config::CatalogAlgorithm::Es256 => plan::CatalogAlgorithm::Es256,
        },
        gateway: catalog.gateway.as_ref().map(|listener| listener.value.clone()),
        endpoints: catalog
            .endpoints
            .allow
            .as_ref()
            .map(|allow| allow.iter().filter_map(|rule| host_rule(rule, report)).collect()),
        callbacks: catalog.callbacks.allow.iter().map(|network| network.0).collect(),
        issuers,
        written: written_keys(config, report),
        plans,
        live: builder.subscriptions.maps().live,
        keys: own_keys(builder),
    }))
}

fn check_lifetimes(catalog: &Catalog, report: &mut Report) {
    for time in [&catalog.token.lifetime, &catalog.token.rotate, &catalog.token.refresh_lifetime] {
        if time.value.0 < std::time::Duration::from_secs(1) {
            let what = "the lifetime of tokens and keys must be at least one second";
            report.error(time.at, what, "write `1h`");
        }
    }
}

/// Returns the consumer keys that have a secret: with these, applications can request tokens.
fn written_keys(config: &Config, report: &mut Report) -> HashMap<String, WrittenKey> {
    let keys = config.applications.iter().flat_map(|(_, application)| &application.value.keys.0);
    let mut all = HashMap::new();
    for key in keys {
        let Some(secret) = &key.value.consumer_secret else { continue };
        let read = if secret.0.is_empty() {
            Err("it is empty".to_owned())
        } else {
            HashedSecret::read(&secret.0)
        };
        match read {
            Ok(secret) => {
                let sandbox = key.value.kind == KeyUse::Sandbox;
                all.insert(key.value.consumer_key.value.clone(), WrittenKey { secret, sandbox });
            }
            Err(why) => {
                let what = format!("the consumer secret cannot be used: {why}");
                report.error(key.at, what, "write the secret itself, or a supported hash");
            }
        }
    }
    all
}

fn check_listen(catalog: &Catalog, previous: Option<&Plan>, report: &mut Report) {
    let listen = &catalog.listen.value;
    if listen.tls.is_none() && !listen.address.value.0.ip().is_loopback() {
        let what = "passwords and secrets would cross the network in plain text";
        report.error(listen.address.at, what, "write a loopback address, or `tls`");
    }
    let running = previous.and_then(|plan| plan.catalog.as_ref()).map(|running| running.listen);
    if running.is_some_and(|running| running != listen.address.value.0) {
        let what = "the catalog's address stays until the gateway is restarted";
        report.warn(listen.address.at, what, "restart it, or restore the value in use");
    }
}

fn user(
    name: &Spanned<String>,
    user: &Spanned<CatalogUser>,
    report: &mut Report,
) -> Option<plan::CatalogUser> {
    let keys = &user.value;
    let text = match (&keys.password, &keys.password_sha256) {
        (Some(password), None) => password.0.clone(),
        (None, Some(digest)) => format!("sha256:{}", digest.0),
        (Some(_), Some(_)) | (None, None) => {
            let what =
                format!("`{}` needs exactly one of `password` and `password_sha256`", name.value);
            report.error(user.at, what, "write `password: \"${ADMIN_PASSWORD}\"`");
            return None;
        }
    };
    if text.is_empty() {
        report.error(user.at, "the password must not be empty", "write a password");
        return None;
    }
    let password = HashedSecret::read(&text);
    let password = password.map_err(|why| {
        let what = format!("the password of `{}` cannot be used: {why}", name.value);
        report.error(user.at, what, "write the password itself, or a supported hash");
    });
    let roles = keys.roles.0.iter().map(|role| match role {
        config::CatalogRole::Admin => plan::CatalogRole::Admin,
        config::CatalogRole::Publisher => plan::CatalogRole::Publisher,
        config::CatalogRole::Developer => plan::CatalogRole::Developer,
    });
    // Harmless: an unusable password was already reported.
    Some(plan::CatalogUser { password: password.ok()?, roles: roles.collect() })
}

fn host_rule(rule: &Spanned<String>, report: &mut Report) -> Option<HostRule> {
    let text = rule.value.to_ascii_lowercase();
    // Harmless: text that is not a network may be an address, tried next.
    if let Ok(network) = text.parse() {
        return Some(HostRule::Network(network));
    }
    // Harmless: text that is not an address may be a host name, tried next.
    if let Ok(address) = text.parse::<std::net::IpAddr>() {
        return Some(HostRule::Network(address.into()));
    }
    let is_host = |host: &str| {
        !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
    };
    match text.strip_prefix('*') {
        Some(domain) if domain.starts_with('.') && is_host(domain) => {
            Some(HostRule::Below(domain.to_owned()))
        }
        None if is_host(&text) => Some(HostRule::Host(text)),
        Some(_) | None => {
            let what = format!("`{}` is neither a host nor a network", rule.value.escape_debug());
            report.error(rule.at, what, "write `orders.internal`, `*.internal` or `10.0.0.0/8`");
            None
        }
    }
}
