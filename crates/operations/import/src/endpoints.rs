//! Turns endpoints into upstreams: those of `x-wso2-production-endpoints` and related extensions, or else those of `servers`.

use config::Upstream;
use serde_json::{Map, Value as Json, json};

use crate::Outcome;
use crate::extensions::{self, Levels};
use crate::json_location::JsonLocation;
use crate::model::truth;
use crate::note::ImportNote;

/// A service, as a document describes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Endpoint {
    /// The value for `upstreams.NAME`.
    pub(crate) upstream: Json,
    /// The common path of its URLs, without a slash at the end.
    pub(crate) base_path: String,
    /// Settings that have no effect here.
    pub(crate) ignored: Vec<ImportNote>,
}

/// Collects notes about the settings of one endpoint that have no effect or a different effect.
struct Ignored<'s> {
    location: &'s JsonLocation,
    notes: Vec<ImportNote>,
}

impl Ignored<'_> {
    fn push(&mut self, outcome: Outcome, what: &str, note: String) {
        self.notes.push(ImportNote::new(outcome, self.location, "", what, note));
    }
}

/// The part of a `securityConfig` to use, if it has one for each side.
#[derive(Debug, Clone, Copy)]
enum Side {
    Production,
    Sandbox,
}

/// The endpoints of an operation.
pub(crate) struct Places {
    /// The production endpoint, or the only one.
    pub(crate) endpoint: Endpoint,
    /// True if `endpoint` is for production.
    pub(crate) production: bool,
    /// The sandbox endpoint.
    pub(crate) sandbox: Option<Endpoint>,
}

/// The endpoints of an operation: those of `x-wso2-production-endpoints` and `x-wso2-sandbox-endpoints`, or else of `servers`.
pub(crate) fn of_operation(levels: &Levels<'_>) -> Result<Places, String> {
    let named = |name: &str, side: Side| match levels.nearest_at(name) {
        Some((location, value)) => match referred(value, levels) {
            Ok(value) => read_at(&location, value, side).map(Some),
            Err(fault) => Err(format!("{location}: {fault}")),
        },
        None => Ok(None),
    };
    let production = named("production-endpoints", Side::Production)?;
    let sandbox = named("sandbox-endpoints", Side::Sandbox)?;
    Ok(match (production, sandbox) {
        (Some(endpoint), sandbox) => Places { endpoint, production: true, sandbox },
        (None, Some(endpoint)) => {
            Places { endpoint: endpoint.clone(), production: false, sandbox: Some(endpoint) }
        }
        (None, None) => Places { endpoint: of_servers(levels)?, production: true, sandbox: None },
    })
}

/// `x-wso2-endpoints`, as a list of maps with one key, or as one map.
pub(crate) fn named(levels: &Levels<'_>) -> Result<Vec<(String, Endpoint)>, String> {
    let Some((location, value)) = levels.of_api_at("endpoints") else { return Ok(Vec::new()) };
    let maps: Vec<&Map<String, Json>> = match value {
        Json::Array(items) => {
            let map = |item: &'_ Json| format!("{location}: {item} must be a map");
            let maps = items.iter().map(|item| item.as_object().ok_or_else(|| map(item)));
            maps.collect::<Result<_, _>>()?
        }
        Json::Object(map) => vec![map],
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {
            return Err(format!("{location} is neither a list nor a map"));
        }
    };
    let entries = maps.into_iter().flat_map(|map| map.iter());
    let read = |(name, value): (&String, &Json)| {
        Ok((name.clone(), read_at(&location.child(name), value, Side::Production)?))
    };
    entries.map(read).collect()
}

/// Resolves a text such as `#/x-wso2-endpoints/NAME` to that named endpoint.
fn referred<'a>(value: &'a Json, levels: &Levels<'a>) -> Result<&'a Json, String> {
    let text = value.as_str().or_else(|| value.get("$ref").and_then(Json::as_str));
    let Some(text) = text else { return Ok(value) };
    let name = text.rsplit('/').next().unwrap_or_default();
    let known = match levels.of_api("endpoints") {
        Some(Json::Array(items)) => items.iter().find_map(|item| item.get(name)),
        Some(map) => map.get(name),
        None => None,
    };
    known.ok_or_else(|| format!("`{text}` is none of the `x-wso2-endpoints`"))
}

fn of_servers(levels: &Levels<'_>) -> Result<Endpoint, String> {
    let servers = levels.member_at("servers");
    let server = servers.as_ref().and_then(|(_, servers)| servers.get(0));
    let url = server.and_then(|server| server.get("url")).and_then(Json::as_str);
    let url = url.map_or(Ok(String::new()), |url| filled(url, server))?;
    if url.contains("://") {
        let location =
            servers.map_or_else(|| levels.root.clone(), |(location, _)| location.child("0"));
        read_at(&location, &json!({ "urls": [url] }), Side::Production)
    } else {
        Err("the document does not say where its service runs; write `upstream: NAME`".to_owned())
    }
}

/// A server's URL with the defaults of its variables.
fn filled(url: &str, server: Option<&Json>) -> Result<String, String> {
    let variables = server.and_then(|s| s.get("variables")).and_then(Json::as_object);
    let Some(variables) = variables else { return Ok(url.to_owned()) };
    variables.iter().try_fold(url.to_owned(), |url, (name, variable)| {
        let default = variable.get("default").map(crate::model::text);
        let default =
            default.ok_or_else(|| format!("the variable `{name}` of a server has no `default`"))?;
        Ok(url.replace(&format!("{{{name}}}"), &default))
    })
}

/// An endpoint as an upstream. The error has the place of the mistake.
fn read_at(location: &JsonLocation, value: &Json, side: Side) -> Result<Endpoint, String> {
    let endpoint = read(location, value, side).map_err(|fault| format!("{location}: {fault}"))?;
    let faults = extensions::faults::<Upstream>(&endpoint.upstream, location);
    if faults.is_empty() { Ok(endpoint) } else { Err(faults.join("; ")) }
}

fn read(location: &JsonLocation, value: &Json, side: Side) -> Result<Endpoint, String> {
    let urls: Vec<&str> = match value.get("urls") {
        Some(Json::Array(urls)) => {
            let text = |url: &'_ Json| format!("{url} in `urls` must be a text");
            let urls = urls.iter().map(|url| url.as_str().ok_or_else(|| text(url)));
            urls.collect::<Result<_, _>>()?
        }
        Some(_) => return Err("`urls` must be a list".to_owned()),
        None => Vec::new(),
    };
    let split: Vec<(String, String)> = urls.iter().map(|url| split(url)).collect();
    let base_path = match split.first() {
        Some((_, base)) => base.clone(),
        None => return Err("an endpoint without `urls`".to_owned()),
    };
    if let Some((other, _)) = split.iter().find(|(_, base)| *base != base_path) {
        return Err(format!("the URLs of an endpoint share one path, and `{other}` has another"));
    }
    let targets: Vec<String> = split.into_iter().map(|(target, _)| target).collect();
    let advanced = value.get("advanceEndpointConfig");
    let mut upstream = Map::new();
    upstream.insert("targets".to_owned(), json!(targets));
    match value.get("type").and_then(Json::as_str).unwrap_or("load_balance") {
        "load_balance" | "loadbalance" | "http" => {}
        "failover" => drop(upstream.insert("balance".to_owned(), json!("failover"))),
        other => return Err(format!("an endpoint of the type `{other}` is not known")),
    }
    if targets.len() > 1 {
        upstream.insert("health".to_owned(), json!({}));
    }
    let mut ignored = Ignored { location, notes: Vec::new() };
    if let Some(advanced) = advanced {
        upstream.extend(settings(advanced, &mut ignored));
    }
    if targets.len() > 1 && !upstream.contains_key("retry") {
        // A retry after a failed connection is safe, since the target has not received the request.
        let retry = json!({ "attempts": (targets.len() - 1).min(10), "when": ["connect_failure"] });
        upstream.insert("retry".to_owned(), retry);
    }
    if let Some(config) = value.get("securityConfig") {
        upstream.extend(credentials(config, side, &mut ignored)?);
    }
    Ok(Endpoint { upstream: Json::Object(upstream), base_path, ignored: ignored.notes })
}

/// A whole number. Some documents write it as a text.
pub(crate) fn whole(value: &Json) -> Option<u64> {
    // Harmless: the callers report an invalid number.
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// The maximum that an upstream allows for `retry.attempts`.
const ATTEMPTS_MAX: u64 = 10;

/// The keys of `advanceEndpointConfig` that have an effect, and of the maps in it.
const KNOWN: [(&str, &[&str]); 3] = [
    ("", &["timeoutInMillis", "retryConfig", "circuitBreakers"]),
    ("retryConfig", &["count", "statusCodes"]),
    ("circuitBreakers", &["maxConnections", "maxRequests", "maxPendingRequests"]),
];

/// `advanceEndpointConfig`.
fn settings(advanced: &Json, ignored: &mut Ignored<'_>) -> Map<String, Json> {
    let mut settings = Map::new();
    let mut others = Vec::new();
    let mut number = |of: &Json, name: &str| {
        let written = of.get(name).filter(|value| !value.is_null())?;
        let read = whole(written);
        if read.is_none() {
            let note = format!("is {written}, which is not a number");
            ignored.push(Outcome::Refused, &format!("`{name}` of an endpoint"), note);
        }
        read
    };
    if let Some(millis) = number(advanced, "timeoutInMillis") {
        settings.insert("timeout".to_owned(), json!({ "response": format!("{millis}ms") }));
    }
    if let Some(retry) = advanced.get("retryConfig") {
        let count = number(retry, "count").unwrap_or(0);
        if count > ATTEMPTS_MAX {
            let note = format!("is {count}; at most {ATTEMPTS_MAX} attempts are made");
            others.push(("`retryConfig.count`", note));
        }
        let count = count.min(ATTEMPTS_MAX);
        let mut on = vec![json!("connect_failure")];
        let statuses = match retry.get("statusCodes") {
            None | Some(Json::Null) => &[],
            Some(Json::Array(statuses)) => statuses.as_slice(),
            Some(one) => std::slice::from_ref(one),
        };
        let mut refused: Vec<String> = Vec::new();
        for status in statuses {
            match whole(status).filter(|status| (500..600).contains(status)) {
                Some(status) => on.push(json!(status)),
                None => refused.push(status.to_string()),
            }
        }
        if !refused.is_empty() {
            let note = format!(
                "names {}; only replies of 500 to 599 are asked for again",
                refused.join(", ")
            );
            others.push(("`retryConfig.statusCodes`", note));
        }
        settings.insert("retry".to_owned(), json!({ "attempts": count, "when": on }));
    }
    if let Some(breakers) = advanced.get("circuitBreakers") {
        let names = [
            ("maxConnections", "connections"),
            ("maxRequests", "requests"),
            ("maxPendingRequests", "pending"),
        ];
        // Harmless: `number` reports a value that is not a number.
        let written = names
            .into_iter()
            .filter_map(|(theirs, ours)| Some((ours.to_owned(), json!(number(breakers, theirs)?))));
        settings.insert("breaker".to_owned(), Json::Object(written.collect()));
    }
    for (what, note) in others {
        ignored.push(Outcome::Approximated, what, note);
    }
    for (within, known) in KNOWN {
        let keys = if within.is_empty() { Some(advanced) } else { advanced.get(within) };
        for key in keys.and_then(Json::as_object).iter().flat_map(|keys| keys.keys()) {
            if !known.contains(&key.as_str()) {
                let what = format!("`{key}` of an endpoint");
                ignored.push(Outcome::Refused, &what, "has no effect here".to_owned());
            }
        }
    }
    settings
}

/// Converts a `securityConfig` to the upstream's key for the gateway's credentials. The settings are at its top level, or under
/// `production` and `sandbox`.
fn credentials(
    config: &Json,
    side: Side,
    ignored: &mut Ignored<'_>,
) -> Result<Option<(String, Json)>, String> {
    let own = match side {
        Side::Production => "production",
        Side::Sandbox => "sandbox",
    };
    let config = config.get(own).unwrap_or(config);
    let word = |name: &str| config.get(name).and_then(Json::as_str);
    // Harmless: a configuration without a type has no credentials.
    let kind = word("type").unwrap_or("");
    let enabled = config.get("enabled").map_or(Some(true), truth);
    match (enabled, kind.to_ascii_lowercase().as_str()) {
        (Some(false), _) | (_, "" | "none") => Ok(None),
        (_, "basic") => {
            let (Some(name), Some(password)) = (word("username"), word("password")) else {
                return Err("`securityConfig` needs the texts `username` and `password`".to_owned());
            };
            let basic = json!({ "username": name, "password": password });
            Ok(Some(("basic".to_owned(), basic)))
        }
        (_, "oauth") if word("tokenUrl").is_some() => {
            Ok(Some(("oauth".to_owned(), oauth(config)?)))
        }
        _ => {
            let what = format!("`securityConfig` of the type `{kind}`");
            ignored.push(Outcome::Refused, &what, "has no effect here".to_owned());
            Ok(None)
        }
    }
}

/// Converts the client credentials that WSO2 API Manager's API Manager writes to the key `oauth` of an upstream.
fn oauth(config: &Json) -> Result<Json, String> {
    let word = |name: &str| config.get(name).and_then(Json::as_str);
    if !matches!(word("grantType"), None | Some("CLIENT_CREDENTIALS")) {
        return Err("`grantType` of `securityConfig` has to be CLIENT_CREDENTIALS".to_owned());
    }
    let (Some(url), Some(id), Some(secret)) =
        (word("tokenUrl"), word("clientId"), word("clientSecret"))
    else {
        return Err(
            "`securityConfig` needs the texts `tokenUrl`, `clientId` and `clientSecret`".to_owned()
        );
    };
    let mut oauth = json!({ "token_url": url, "client_id": id, "client_secret": secret });
    if let Some(keys) = oauth.as_object_mut() {
        let scopes = config.get("scopes").and_then(Json::as_array).filter(|all| !all.is_empty());
        keys.extend(scopes.map(|scopes| ("scopes".to_owned(), json!(scopes))));
        let more = config.get("customParameters").and_then(Json::as_object);
        let more = more.filter(|parameters| !parameters.is_empty());
        keys.extend(more.map(|parameters| ("parameters".to_owned(), json!(parameters))));
    }
    Ok(oauth)
}

/// Splits a URL into a target and the path after it.
fn split(url: &str) -> (String, String) {
    let after = url.find("://").map_or(0, |at| at + 3);
    let path = url.get(after..).and_then(|rest| rest.find('/')).map_or(url.len(), |at| after + at);
    let (target, path) = url.split_at(path);
    (target.to_owned(), path.trim_end_matches('/').to_owned())
}
