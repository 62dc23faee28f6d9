//! The check of an API's definition, and the bundle of configuration that the gateway gets of it.

use std::net::IpAddr;

use plan::CatalogSettings;
use serde_json::{Map, Value, json};

use crate::objects::{ApiState, context, items, set, texts};

/// The longest name, version and context.
const NAME_CHARS_MAX: usize = 150;
const CONTEXT_CHARS_MAX: usize = 200;

/// Operations of one API.
const OPERATIONS_MAX: usize = 2000;

/// The types that are served.
pub(crate) const KINDS: [&str; 4] = ["HTTP", "SOAP", "SSE", "WS"];

/// The methods of operations.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];

/// Fills in the defaults of the reference, and lists all errors.
pub(crate) fn check(dto: &mut Value, settings: &CatalogSettings) -> Vec<String> {
    let mut wrong = Vec::new();
    let text = |key: &str| crate::objects::text(dto, key).to_owned();
    let (name, version) = (text("name"), text("version"));
    if !is_name(&name) {
        wrong.push(format!(
            "name has 1 to {NAME_CHARS_MAX} characters and none of ~!@#;:%^*()+={{}}|\\<>\"',&$/[]"
        ));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if version.is_empty()
        || version.len() > 30
        || !version.chars().all(is_plain)
        || version.starts_with('.')
    {
        wrong.push("version has 1 to 30 letters, digits, dots, dashes and underscores".to_owned());
    }
    let whole = context(dto);
    let is_path = whole.split('/').skip(1).all(|part| {
        !part.is_empty()
            && part.chars().all(|c| is_plain(c) || c == '~')
            && !part.trim_matches('.').is_empty()
    });
    if text("context").is_empty() || !is_path || whole.len() > CONTEXT_CHARS_MAX {
        wrong.push("context is a path of letters, digits, dots, dashes and underscores".to_owned());
    }
    let Some(members) = dto.as_object_mut() else { return wrong };
    let kind = members.entry("type").or_insert_with(|| json!("HTTP"));
    if !kind.as_str().is_some_and(|kind| KINDS.contains(&kind)) {
        wrong.push(format!("type has to be one of {}", KINDS.join(", ")));
    }
    let is_stream = kind.as_str().is_some_and(|kind| kind == "SSE" || kind == "WS");
    let default = if is_stream { "AsyncUnlimited" } else { "Unlimited" };
    let policies = members.entry("policies").or_insert_with(|| json!([default]));
    // Harmless: what is not a list is replaced below.
    let names = policies.as_array().cloned().unwrap_or_default();
    if names.is_empty() {
        *policies = json!([default]);
    }
    for name in names {
        if !name.as_str().is_some_and(|name| settings.plans.contains_key(name)) {
            wrong.push(format!("the policy {name} does not exist"));
        }
    }
    let own = members.get("apiThrottlingPolicy").and_then(Value::as_str);
    if let Some(own) = own.filter(|own| !settings.plans.contains_key(*own)) {
        wrong.push(format!("the policy {own} does not exist"));
    }
    check_operations(members, is_stream, settings, &mut wrong);
    for key in ["production_endpoints", "sandbox_endpoints"] {
        for url in endpoints(members.get("endpointConfig"), key) {
            if let Err(why) = check_url(&url, settings) {
                wrong.push(format!("the endpoint {url:?} {why}"));
            }
        }
    }
    wrong
}

fn is_name(name: &str) -> bool {
    let is_bad = |c: char| c.is_control() || "~!@#;:%^*()+={}|\\<>\"',&$/[]".contains(c);
    !name.trim().is_empty()
        && name.trim() == name
        && name.chars().count() <= NAME_CHARS_MAX
        && !name.chars().any(is_bad)
}

fn check_operations(
    members: &mut Map<String, Value>,
    is_stream: bool,
    settings: &CatalogSettings,
    wrong: &mut Vec<String>,
) {
    let operations = items(members.get("operations"));
    if operations.is_empty() {
        let verbs: &[&str] =
            if is_stream { &["SUBSCRIBE"] } else { &["GET", "POST", "PUT", "DELETE", "PATCH"] };
        let operation = |verb: &&str| json!({ "id": "", "target": "/*", "verb": verb, "authType": "Application & Application User", "throttlingPolicy": "Unlimited", "scopes": [] });
        let all: Vec<Value> = verbs.iter().map(operation).collect();
        members.insert("operations".to_owned(), json!(all));
        return;
    }
    if operations.len() > OPERATIONS_MAX {
        wrong.push(format!("there are more than {OPERATIONS_MAX} operations"));
    }
    for operation in operations {
        let text = |key: &str| crate::objects::text(operation, key);
        let (target, verb) = (text("target"), text("verb"));
        if !target.starts_with('/') && !is_stream || target.chars().any(char::is_control) {
            wrong.push(format!("the target {target:?} does not begin with /"));
        }
        let is_verb = if is_stream {
            ["SUBSCRIBE", "PUBLISH"].contains(&verb)
        } else {
            METHODS.contains(&verb)
        };
        if !is_verb {
            wrong.push(format!("the verb {verb:?} is not known"));
        }
        let plan = text("throttlingPolicy");
        if !plan.is_empty() && !settings.plans.contains_key(plan) {
            wrong.push(format!("the policy {plan:?} does not exist"));
        }
    }
}

/// The URLs of an endpoint, which is one object or a list.
fn endpoints(config: Option<&Value>, key: &str) -> Vec<String> {
    let Some(written) = config.and_then(|config| config.get(key)) else { return Vec::new() };
    let url = |one: &Value| one.get("url").and_then(Value::as_str).map(str::to_owned);
    match written.as_array() {
        // Harmless: an endpoint without a URL leads nowhere.
        Some(list) => list.iter().filter_map(url).collect(),
        None => url(written).into_iter().collect(),
    }
}

/// Scheme, host with port, and path of a URL.
fn parts(url: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let at = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    (!authority.is_empty()).then_some((scheme, authority, path))
}

fn check_url(url: &str, settings: &CatalogSettings) -> Result<(), &'static str> {
    let (scheme, authority, path) = parts(url).ok_or("is not a URL")?;
    if !["http", "https", "ws", "wss"].contains(&scheme) {
        return Err("is not an http, https, ws or wss URL");
    }
    if authority.contains('@') {
        return Err("has user information");
    }
    let is_plain = |c: char| c.is_ascii_graphic() && !"\"<>\\^`{}|?#".contains(c);
    if !url.chars().all(is_plain) || path.contains("..") {
        return Err("has characters that cannot be sent, a query or dots");
    }
    let host = host_of(authority);
    let Some(allow) = &settings.endpoints else { return Ok(()) };
    // Harmless: a host that is a name has no address.
    let address: Option<IpAddr> = host.parse().ok();
    let is_allowed = allow.iter().any(|rule| rule.allows(host, address));
    is_allowed.then_some(()).ok_or("is not among `catalog.endpoints.allow`")
}

fn host_of(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        // Harmless: a split has a first part.
        return rest.split(']').next().unwrap_or_default();
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

/// The name of an API in the gateway's configuration.
pub(crate) fn config_name(dto: &Value) -> String {
    let text = |key: &str| crate::objects::text(dto, key);
    format!("{} {}", text("name"), text("version"))
}

/// The files of an API's bundle: its configuration, and its document where it has one.
pub(crate) fn bundle(
    dto: &Value,
    document: Option<&Value>,
    state: ApiState,
    settings: &CatalogSettings,
) -> Vec<(String, Vec<u8>)> {
    let kind = dto.get("type").and_then(Value::as_str).unwrap_or("HTTP");
    let configuration = |value: Value| ("tidegate.yaml".to_owned(), value.to_string().into_bytes());
    if state == ApiState::Blocked {
        return vec![configuration(blocked(dto, settings))];
    }
    match kind {
        "HTTP" => {
            let document = self::document(dto, document).to_string().into_bytes();
            let files = configuration(api(dto, settings));
            vec![files, ("definition.json".to_owned(), document)]
        }
        kind => vec![configuration(route(dto, kind, settings))],
    }
}

/// The reply of an API that is blocked.
fn blocked(dto: &Value, settings: &CatalogSettings) -> Value {
    let body = json!({
        "code": "700700",
        "message": "API blocked",
        "description": "This API has been blocked temporarily. Please try again later or contact the system administrators.",
    });
    let respond = json!({
        "status": 503,
        "headers": { "content-type": "application/json" },
        "body": body.to_string(),
    });
    let route = json!({ "match": matches(dto, settings), "respond": respond });
    json!({ "routes": { config_name(dto): route } })
}

fn matches(dto: &Value, settings: &CatalogSettings) -> Value {
    let context = context(dto);
    let mut matches = json!({ "path": format!("{context}/**") });
    if let Some(listener) = &settings.gateway {
        set(&mut matches, "listener", json!(listener));
    }
    matches
}

/// The policy that authenticates the client.
fn credentials(dto: &Value, kind: &str, settings: &CatalogSettings) -> Value {
    let schemes = texts(dto.get("securityScheme"));
    let takes = |scheme: &str| schemes.iter().any(|known| known == scheme);
    let mut any = Vec::new();
    if takes("oauth2") || !takes("api_key") {
        let mut jwt = json!({ "issuers": settings.issuers });
        if kind == "WS" || kind == "SSE" {
            set(&mut jwt, "query", json!("access_token"));
        }
        any.push(json!({ "jwt": jwt }));
    }
    if takes("api_key") {
        any.push(json!({ "jwt": { "issuers": [plan::API_KEY_ISSUER], "header": "apikey", "query": "apikey" } }));
    }
    json!({ "authenticate": { "any": any } })
}

/// An API with operations.
fn api(dto: &Value, settings: &CatalogSettings) -> Value {
    let mut api = json!({
        "openapi": "definition.json",
        "base_path": context(dto),
        "subscription": "required",
        "plans": texts(dto.get("policies")),
        "errors": "wso2_apim",
        "policies": [credentials(dto, "HTTP", settings)],
    });
    if let Some(listener) = &settings.gateway {
        set(&mut api, "listener", json!(listener));
    }
    json!({ "apis": { config_name(dto): api } })
}

/// An API whose operations the gateway does not tell apart.
fn route(dto: &Value, kind: &str, settings: &CatalogSettings) -> Value {
    let name = config_name(dto);
    let urls = endpoints(dto.get("endpointConfig"), "production_endpoints");
    let targets: Vec<String> = urls
        .iter()
        // Harmless: the URLs were checked.
        .filter_map(|url| parts(url))
        .map(|(scheme, authority, _)| {
            let scheme = if scheme.ends_with('s') { "https" } else { "http" };
            format!("{scheme}://{authority}")
        })
        .collect();
    let path = urls.first().and_then(|url| parts(url)).map_or("", |(_, _, path)| path);
    let mut check =
        json!({ "api": name, "plans": texts(dto.get("policies")), "context": context(dto) });
    let own = dto.get("apiThrottlingPolicy").and_then(Value::as_str);
    if let Some(own) = own {
        set(&mut check, "api_plan", json!(own));
    }
    let mut policies = vec![credentials(dto, kind, settings), json!({ "subscription": check })];
    let limited = json!({ "plans": true, "default": "AsyncUnlimited" });
    match kind {
        "SSE" => policies.push(json!({ "sse": limited })),
        "WS" => policies.push(json!({ "websocket": limited })),
        // Harmless: other types have no policy of their own.
        _ => {}
    }
    let route = json!({
        "match": matches(dto, settings),
        "rewrite": format!("{}/{{**}}", path.trim_end_matches('/')),
        "upstream": name,
        "host": "target",
        "errors": "wso2_apim",
        "policies": policies,
    });
    json!({ "routes": { name.as_str(): route }, "upstreams": { name.as_str(): { "targets": targets } } })
}

/// The OpenAPI document of an API, imported or made of the operations, with the extensions that the gateway reads.
pub(crate) fn document(dto: &Value, imported: Option<&Value>) -> Value {
    let text = |key: &str| crate::objects::text(dto, key);
    let skeleton = || json!({ "openapi": "3.0.1", "info": {}, "paths": {} });
    let mut document = imported.cloned().unwrap_or_else(skeleton);
    // Harmless: a document without paths has none to keep.
    let known = document.get("paths").cloned().unwrap_or_default();
    let Some(root) = document.as_object_mut() else { return skeleton() };
    root.insert("info".to_owned(), json!({ "title": text("name"), "version": text("version") }));
    root.remove("servers");
    root.remove("security");
    root.retain(|name, _| !name.starts_with("x-wso2-"));
    root.insert("paths".to_owned(), paths(dto, &known));
    for (theirs, ours) in [
        ("production_endpoints", "x-wso2-production-endpoints"),
        ("sandbox_endpoints", "x-wso2-sandbox-endpoints"),
    ] {
        let urls = endpoints(dto.get("endpointConfig"), theirs);
        if !urls.is_empty() {
            let kind = if urls.len() > 1 { "loadbalance" } else { "http" };
            root.insert(ours.to_owned(), json!({ "urls": urls, "type": kind }));
        }
    }
    if let Some(own) = dto.get("apiThrottlingPolicy").and_then(Value::as_str) {
        root.insert("x-wso2-throttling-tier".to_owned(), json!(own));
    }
    if let Some(cors) = dto.get("corsConfiguration").filter(|cors| cors.is_object()) {
        root.insert("x-wso2-cors".to_owned(), cors.clone());
    }
    document
}

/// The paths of the API's operations, with the descriptions of the imported document.
fn paths(dto: &Value, known: &Value) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in items(dto.get("operations")) {
        let text = |key: &str| crate::objects::text(operation, key);
        let (target, verb) = (text("target"), text("verb").to_lowercase());
        let of_path = known.get(target);
        let skeleton = || json!({ "responses": { "200": { "description": "OK" } } });
        let mut made = of_path.and_then(|path| path.get(&verb)).cloned().unwrap_or_else(skeleton);
        if let Some(made) = made.as_object_mut() {
            made.remove("security");
            made.retain(|name, _| !name.starts_with("x-wso2-") && !name.starts_with("x-auth-type"));
            let plan = text("throttlingPolicy");
            if !plan.is_empty() {
                made.insert("x-wso2-throttling-tier".to_owned(), json!(plan));
            }
            if text("authType") == "None" {
                made.insert("x-auth-type".to_owned(), json!("None"));
            }
            let scopes = texts(operation.get("scopes"));
            if !scopes.is_empty() {
                made.insert("x-scopes".to_owned(), json!(scopes));
            }
        }
        let path = paths.entry(target).or_insert_with(|| {
            let shared = of_path.and_then(|path| path.get("parameters"));
            shared.map_or_else(|| json!({}), |shared| json!({ "parameters": shared }))
        });
        if let Some(path) = path.as_object_mut() {
            path.insert(verb, made);
        }
    }
    Value::Object(paths)
}

/// The operations that an OpenAPI document describes, as the reference lists them.
pub(crate) fn operations_of(document: &Value) -> Vec<Value> {
    let paths = document.get("paths").and_then(Value::as_object);
    let mut all = Vec::new();
    for (target, path) in paths.iter().flat_map(|paths| paths.iter()) {
        for (verb, operation) in path.as_object().iter().flat_map(|path| path.iter()) {
            let verb = verb.to_uppercase();
            if !METHODS.contains(&verb.as_str()) {
                continue;
            }
            let text = |name: &str| operation.get(name).and_then(Value::as_str);
            all.push(json!({
                "id": "",
                "target": target,
                "verb": verb,
                "authType": text("x-auth-type").unwrap_or("Application & Application User"),
                "throttlingPolicy": text("x-throttling-tier").or(text("x-wso2-throttling-tier")).unwrap_or("Unlimited"),
                "scopes": texts(operation.get("x-scopes")),
            }));
        }
    }
    all
}
