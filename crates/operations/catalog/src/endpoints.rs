//! Endpoints of a definition: their addresses, their order, and the gateway's credentials for them.

use serde_json::{Map, Value, json};

use crate::objects::{items, set, text};

/// The two environments.
pub(crate) const SIDES: [Side; 2] = [PRODUCTION, SANDBOX];

pub(crate) const PRODUCTION: Side =
    Side { key: "production_endpoints", others: "production_failovers", name: "production" };
pub(crate) const SANDBOX: Side =
    Side { key: "sandbox_endpoints", others: "sandbox_failovers", name: "sandbox" };

/// One environment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side {
    /// The member of `endpointConfig` with its endpoints.
    pub(crate) key: &'static str,
    /// The member of `endpointConfig` with its failover endpoints.
    pub(crate) others: &'static str,
    /// Its name, also in `endpoint_security`.
    pub(crate) name: &'static str,
}

/// The secrets in the credentials of an environment. No answer shows them.
const SECRETS: [&str; 2] = ["password", "clientSecret"];

impl Side {
    /// The URLs in the order in which they are tried.
    pub(crate) fn urls(self, config: Option<&Value>) -> Vec<String> {
        let mut urls = urls(config, self.key);
        if is_failover(config) {
            urls.extend(self::urls(config, self.others));
        }
        urls
    }

    /// The gateway's credentials for this environment, if they are enabled.
    fn security(self, config: Option<&Value>) -> Option<&Value> {
        let all = config?.get("endpoint_security")?;
        all.get(self.name).filter(|one| one.get("enabled").and_then(Value::as_bool) == Some(true))
    }

    /// The credentials as keys of an upstream.
    pub(crate) fn credentials(self, config: Option<&Value>) -> Map<String, Value> {
        let mut keys = Map::new();
        let is_refused =
            refused(config).iter().any(|(at, _)| at.iter().any(|key| key == self.name));
        let Some(security) = self.security(config).filter(|_| !is_refused) else { return keys };
        if text(security, "type").eq_ignore_ascii_case("basic") {
            let basic = json!({ "username": text(security, "username"), "password": text(security, "password") });
            keys.insert("basic".to_owned(), basic);
        } else {
            let mut oauth = json!({
                "token_url": text(security, "tokenUrl"),
                "client_id": text(security, "clientId"),
                "client_secret": text(security, "clientSecret"),
            });
            let scopes = crate::objects::texts(security.get("scopes"));
            if !scopes.is_empty() {
                set(&mut oauth, "scopes", json!(scopes));
            }
            if let Some(more) = parameters(security) {
                set(&mut oauth, "parameters", json!(more));
            }
            keys.insert("oauth".to_owned(), oauth);
        }
        keys
    }
}

/// True if the endpoints are tried in their order.
pub(crate) fn is_failover(config: Option<&Value>) -> bool {
    config.is_some_and(|config| text(config, "endpoint_type") == "failover")
}

/// The URLs of an endpoint, which is an object or a list.
fn urls(config: Option<&Value>, key: &str) -> Vec<String> {
    let Some(written) = config.and_then(|config| config.get(key)) else { return Vec::new() };
    let url = |one: &Value| one.get("url").and_then(Value::as_str).map(str::to_owned);
    match written.as_array() {
        // Harmless: an endpoint without a URL is ignored.
        Some(list) => list.iter().filter_map(url).collect(),
        None => url(written).into_iter().collect(),
    }
}

/// Additional parameters of a token request. WSO2 API Manager writes an object, or its JSON as text.
fn parameters(security: &Value) -> Option<Map<String, Value>> {
    let written = security.get("customParameters")?;
    let read = match written.as_str() {
        // Harmless: the check of a definition refuses a text that is not JSON.
        Some(text) => serde_json::from_str(text).ok()?,
        None => written.clone(),
    };
    read.as_object().filter(|all| !all.is_empty()).cloned()
}

/// The unsupported or invalid parts of the endpoints' credentials, with the keys that lead to them.
pub(crate) fn refused(config: Option<&Value>) -> Vec<(Vec<String>, &'static str)> {
    let mut all = Vec::new();
    for side in SIDES {
        let Some(security) = side.security(config) else { continue };
        let mut add = |key: &str, why| {
            let at = ["endpointConfig", "endpoint_security", side.name, key];
            all.push((at.map(str::to_owned).to_vec(), why));
        };
        let missing = "is missing";
        let mut needs = |keys: &[&str]| {
            for key in keys.iter().filter(|key| text(security, key).is_empty()) {
                add(key, missing);
            }
        };
        match text(security, "type").to_ascii_lowercase().as_str() {
            "basic" => needs(&["username", "password"]),
            "oauth" => {
                needs(&["tokenUrl", "clientId", "clientSecret"]);
                if !["", "CLIENT_CREDENTIALS"].contains(&text(security, "grantType")) {
                    add("grantType", "only CLIENT_CREDENTIALS is supported");
                }
                let written = security.get("customParameters").filter(|written| !written.is_null());
                let is_empty = |written: &Value| {
                    matches!(written.as_str(), Some("" | "{}")) || *written == json!({})
                };
                if written.is_some_and(|written| !is_empty(written))
                    && parameters(security).is_none_or(|all| !all.values().all(Value::is_string))
                {
                    add("customParameters", "must be an object with text values");
                }
            }
            _ => add("type", "only BASIC and OAUTH are supported"),
        }
    }
    all
}

/// Removes the secrets from the credentials of a definition, as WSO2 API Manager does in its answers.
pub(crate) fn without_secrets(dto: &mut Value) {
    for_each_secret(dto, |secret, _, _| {
        if secret.as_str().is_some_and(|text| !text.is_empty()) {
            *secret = json!("");
        }
    });
}

/// Keeps the known secrets that a change leaves empty.
pub(crate) fn keep_secrets(dto: &mut Value, known: &Value) {
    for_each_secret(dto, |secret, side, key| {
        let before = known.get("endpointConfig").and_then(|config| config.get("endpoint_security"));
        let before = before.and_then(|security| security.get(side)?.get(key));
        if secret.as_str() == Some("")
            && let Some(before) = before
        {
            *secret = before.clone();
        }
    });
}

fn for_each_secret(dto: &mut Value, mut change: impl FnMut(&mut Value, &str, &str)) {
    let config = dto.get_mut("endpointConfig");
    let Some(security) = config.and_then(|config| config.get_mut("endpoint_security")) else {
        return;
    };
    for side in SIDES {
        for key in SECRETS {
            let secret = security.get_mut(side.name).and_then(|one| one.get_mut(key));
            if let Some(secret) = secret {
                change(secret, side.name, key);
            }
        }
    }
}

/// The endpoints of an environment for an OpenAPI document, with or without the gateway's credentials.
pub(crate) fn extension(config: Option<&Value>, side: Side, shows_all: bool) -> Option<Value> {
    let urls = side.urls(config);
    if urls.is_empty() {
        return None;
    }
    let kind = if is_failover(config) { "failover" } else { "load_balance" };
    let mut made = json!({ "urls": urls, "type": kind });
    let keys = side.credentials(config);
    let security = match (keys.get("basic"), keys.get("oauth")) {
        (Some(basic), _) => Some(
            json!({ "type": "BASIC", "username": basic["username"], "password": basic["password"] }),
        ),
        (None, Some(oauth)) => Some(json!({
            "type": "OAUTH",
            "tokenUrl": oauth["token_url"],
            "clientId": oauth["client_id"],
            "clientSecret": oauth["client_secret"],
            "scopes": oauth.get("scopes").cloned().unwrap_or_else(|| json!([])),
            "customParameters": oauth.get("parameters").cloned().unwrap_or_else(|| json!({})),
        })),
        (None, None) => None,
    };
    if let Some(security) = security.filter(|_| shows_all) {
        set(&mut made, "securityConfig", security);
    }
    Some(made)
}

/// The URL at which the gateway requests tokens for an environment.
pub(crate) fn token_url(config: Option<&Value>, side: Side) -> Option<&str> {
    let security = side.security(config)?;
    let is_oauth = text(security, "type").eq_ignore_ascii_case("oauth");
    is_oauth.then(|| text(security, "tokenUrl")).filter(|url| !url.is_empty())
}

/// Scheme, host with port, and path of a URL.
pub(crate) fn parts(url: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let at = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    (!authority.is_empty()).then_some((scheme, authority, path))
}

/// True if the endpoints of these environments do not all have the same path.
pub(crate) fn paths_differ(config: Option<&Value>, sides: &[Side]) -> bool {
    let urls: Vec<String> = sides.iter().flat_map(|side| side.urls(config)).collect();
    let path =
        |url: &String| parts(url).map_or("", |(_, _, path)| path).trim_end_matches('/').to_owned();
    let first = urls.first().map(path);
    urls.iter().any(|url| Some(path(url)) != first)
}

/// True if an environment has failover endpoints.
pub(crate) fn has_others(config: Option<&Value>, side: Side) -> bool {
    !items(config.and_then(|config| config.get(side.others))).is_empty()
}
