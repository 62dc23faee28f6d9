//! The check of an API's definition, and its defaults.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use plan::{CatalogSettings, HostRule};
use serde_json::{Map, Value, json};

use crate::api_kind::{is_of_wsdl, is_stream};
use crate::endpoints::{self, SIDES, parts};
use crate::objects::{context, items, texts};
use crate::unsupported;

/// The longest name.
const NAME_CHARS_MAX: usize = 150;

/// The longest path of an API, including the version.
const CONTEXT_CHARS_MAX: usize = 200;

/// The limit of operations in one API.
const OPERATIONS_MAX: usize = 2000;

/// The supported types of APIs.
pub(crate) const KINDS: [&str; 6] = ["HTTP", "SOAP", "SOAPTOREST", "SSE", "WS", "WEBSUB"];

/// The methods of operations.
pub(crate) const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];

/// The topic of a WEBSUB API without topics, as in WSO2 API Manager.
const TOPIC: &str = "_default";

/// The gateway's settings that affect APIs.
pub(crate) struct Site<'s> {
    /// Names of plans.
    pub(crate) plans: HashSet<&'s str>,
    /// Hosts that endpoints may have. All are allowed if absent.
    pub(crate) endpoints: Option<&'s [HostRule]>,
    /// The listener of APIs. All are used if absent.
    pub(crate) gateway: Option<&'s str>,
    /// The issuers whose tokens identify applications.
    pub(crate) issuers: Vec<&'s str>,
    /// The issuer of API keys.
    pub(crate) key_issuer: Option<&'s str>,
    /// Private networks whose callbacks may be called.
    pub(crate) callbacks: Vec<String>,
}

impl<'s> Site<'s> {
    pub(crate) fn of(settings: &'s CatalogSettings) -> Site<'s> {
        Site {
            plans: settings.plans.keys().map(String::as_str).collect(),
            endpoints: settings.endpoints.as_deref(),
            gateway: settings.gateway.as_deref(),
            issuers: settings.issuers.iter().map(String::as_str).collect(),
            key_issuer: Some(plan::API_KEY_ISSUER),
            callbacks: settings.callbacks.iter().map(ToString::to_string).collect(),
        }
    }

    /// A gateway without a catalog, with the predefined plans.
    pub(crate) fn offline(issuers: Vec<&'s str>) -> Site<'s> {
        Site {
            plans: config::ready_plans(config::At::NOWHERE).map(|(name, _)| name).collect(),
            endpoints: None,
            gateway: None,
            issuers,
            key_issuer: None,
            callbacks: Vec::new(),
        }
    }
}

/// Fills in the defaults of WSO2 API Manager, and returns all errors, including unsupported parts.
pub(crate) fn check(dto: &mut Value, site: &Site<'_>) -> Vec<String> {
    let mut wrong = check_all(dto, site);
    wrong.extend(unsupported::list(dto).iter().map(ToString::to_string));
    wrong
}

/// Fills in the defaults, and returns all errors except unsupported parts.
pub(crate) fn check_all(dto: &mut Value, site: &Site<'_>) -> Vec<String> {
    let mut wrong = check_names(dto);
    let Some(members) = dto.as_object_mut() else { return wrong };
    // WSO2 API Manager writes null for absent members.
    members.retain(|_, value| !value.is_null());
    let kind = members.entry("type").or_insert_with(|| json!("HTTP"));
    // Harmless: a value that is not text is not a known type.
    let kind = kind.as_str().unwrap_or_default().to_owned();
    if !KINDS.contains(&kind.as_str()) {
        wrong.push(format!("type must be one of {}", KINDS.join(", ")));
    }
    check_plans(members, &kind, site, &mut wrong);
    check_operations(members, &kind, site, &mut wrong);
    wrong.extend(check_endpoints(members.get("endpointConfig"), &kind, site));
    wrong
}

fn check_names(dto: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let text = |key: &str| crate::objects::text(dto, key);
    let version = text("version");
    if !is_name(text("name")) {
        wrong.push(format!(
            "name must have 1 to {NAME_CHARS_MAX} characters, and none of ~!@#;:%^*()+={{}}|\\<>\"',&$/[]"
        ));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if version.is_empty()
        || version.len() > 30
        || !version.chars().all(is_plain)
        || version.starts_with('.')
    {
        wrong.push(
            "version must have 1 to 30 letters, digits, dots, dashes and underscores, and must not begin with a dot".to_owned(),
        );
    }
    let whole = context(dto);
    let is_path = whole.split('/').skip(1).all(|part| {
        !part.is_empty()
            && part.chars().all(|c| is_plain(c) || c == '~')
            && !part.trim_matches('.').is_empty()
    });
    if text("context").is_empty() || !is_path || whole.len() > CONTEXT_CHARS_MAX {
        wrong.push(format!(
            "context must be a path of letters, digits, dots, dashes, underscores and tildes, with up to {CONTEXT_CHARS_MAX} characters including the version; no part may be empty or consist only of dots"
        ));
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

/// The default plan of clients for a type of API.
pub(crate) fn default_plan(kind: &str) -> &'static str {
    match kind {
        "SSE" | "WS" => "AsyncUnlimited",
        "WEBSUB" => "AsyncWHUnlimited",
        _ => "Unlimited",
    }
}

fn check_plans(
    members: &mut Map<String, Value>,
    kind: &str,
    site: &Site<'_>,
    wrong: &mut Vec<String>,
) {
    let default = default_plan(kind);
    let policies = members.entry("policies").or_insert_with(|| json!([default]));
    if policies.is_null() || policies.as_array().is_some_and(Vec::is_empty) {
        *policies = json!([default]);
    }
    let Some(names) = policies.as_array() else {
        return wrong.push("policies must be a list".to_owned());
    };
    for name in names {
        if !name.as_str().is_some_and(|name| site.plans.contains(name)) {
            wrong.push(format!("the policy {name} does not exist"));
        }
    }
    let own = members.get("apiThrottlingPolicy").and_then(Value::as_str);
    if let Some(own) = own.filter(|own| !own.is_empty() && !site.plans.contains(*own)) {
        wrong.push(format!("the policy {own} does not exist"));
    }
}

fn check_operations(
    members: &mut Map<String, Value>,
    kind: &str,
    site: &Site<'_>,
    wrong: &mut Vec<String>,
) {
    if items(members.get("operations")).is_empty() && kind == "SOAPTOREST" {
        wrong.push(
            "an API of this type takes its operations from its WSDL: use import-wsdl".to_owned(),
        );
        return;
    }
    if items(members.get("operations")).is_empty() {
        let (target, verbs): (&str, &[&str]) = match kind {
            "SSE" => ("/*", &["SUBSCRIBE"]),
            "WS" => ("/*", &["SUBSCRIBE", "PUBLISH"]),
            "WEBSUB" => (TOPIC, &["SUBSCRIBE"]),
            _ => ("/*", &["GET", "POST", "PUT", "DELETE", "PATCH"]),
        };
        let all: Vec<Value> = verbs.iter().map(|verb| operation(target, verb)).collect();
        members.insert("operations".to_owned(), json!(all));
        return;
    }
    let operations = items(members.get("operations"));
    if operations.len() > OPERATIONS_MAX {
        wrong.push(format!("there are more than {OPERATIONS_MAX} operations"));
    }
    let mut seen = HashSet::new();
    for operation in operations {
        let text = |key: &str| crate::objects::text(operation, key);
        let (target, verb) = (text("target"), text("verb"));
        if let Err(why) = check_target(target, kind) {
            wrong.push(format!("the target {target:?} {why}"));
        }
        let verbs: &[&str] = match kind {
            "SSE" => &["SUBSCRIBE"],
            "WS" | "WEBSUB" => &["SUBSCRIBE", "PUBLISH"],
            "SOAPTOREST" => &["POST"],
            _ => &METHODS,
        };
        if !verbs.contains(&verb) {
            wrong.push(format!("the verb {verb:?} is unknown"));
        }
        if !seen.insert((target, verb)) {
            wrong.push(format!("the operation {verb} {target:?} is listed twice"));
        }
        let plan = text("throttlingPolicy");
        if !plan.is_empty() && !site.plans.contains(plan) {
            wrong.push(format!("the policy {plan:?} does not exist"));
        }
    }
    wrong.extend(check_scopes(kind, operations));
}

/// Requires the same scopes for all operations of a SOAP service, since the operation is known only after the policies of its route, and
/// for all operations of a hub's topic, since a topic has one list of scopes.
fn check_scopes(kind: &str, operations: &[Value]) -> Option<String> {
    let scopes = |operation: &Value| {
        let mut scopes = texts(operation.get("scopes"));
        scopes.sort();
        scopes
    };
    let place = |operation: &Value| match kind {
        "WEBSUB" => topic(crate::objects::text(operation, "target")).to_owned(),
        _ => String::new(),
    };
    let mut known: HashMap<String, Vec<String>> = HashMap::new();
    let mut differs = |operation: &Value| {
        let first = known.entry(place(operation)).or_insert_with(|| scopes(operation));
        *first != scopes(operation)
    };
    let differ = (kind == "WEBSUB" || is_of_wsdl(kind)) && operations.iter().any(&mut differs);
    let whose = if kind == "WEBSUB" { "of a topic" } else { "of a SOAP API" };
    differ.then(|| format!("the operations {whose} all need the same scopes"))
}

fn check_target(target: &str, kind: &str) -> Result<(), &'static str> {
    if target.chars().any(char::is_control) {
        return Err("has control characters");
    }
    match kind {
        "WEBSUB" if topic(target).is_empty() => Err("is not the name of a topic"),
        "WEBSUB" => Ok(()),
        "SOAP" if target != "/*" => Err("must be /* for a SOAP service"),
        _ if !target.starts_with('/') => Err("does not begin with /"),
        _ if target
            .split('/')
            .any(|part| part.matches('{').count() != part.matches('}').count()) =>
        {
            Err("has an unbalanced brace")
        }
        "SSE" | "WS" if target.contains(['?', '#', '%', ' ']) => {
            Err("has a query, a fragment or invalid characters")
        }
        _ => Ok(()),
    }
}

/// The topic for a target: the target without its slash.
pub(crate) fn topic(target: &str) -> &str {
    target.strip_prefix('/').unwrap_or(target)
}

/// An operation with the defaults of WSO2 API Manager.
pub(crate) fn operation(target: &str, verb: &str) -> Value {
    json!({
        "id": "",
        "target": target,
        "verb": verb,
        "authType": "Application & Application User",
        "throttlingPolicy": "Unlimited",
        "scopes": [],
    })
}

fn check_endpoints(config: Option<&Value>, kind: &str, site: &Site<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    for side in SIDES {
        let token_url = endpoints::token_url(config, side).map(str::to_owned);
        for url in side.urls(config).into_iter().chain(token_url) {
            if let Err(why) = check_url(&url, site) {
                wrong.push(format!("the endpoint {url:?} {why}"));
            }
        }
        if endpoints::paths_differ(config, &[side]) {
            wrong.push(format!("the endpoints for {} must all have the same path", side.name));
        }
    }
    // An API of this type has one route, and so one path at its endpoints.
    if (is_stream(kind) || is_of_wsdl(kind)) && endpoints::paths_differ(config, &SIDES) {
        wrong.push("the endpoints of an API of this type must all have the same path".to_owned());
    }
    wrong
}

fn check_url(url: &str, site: &Site<'_>) -> Result<(), &'static str> {
    let (scheme, authority, path) = parts(url).ok_or("is not a URL")?;
    if !["http", "https", "ws", "wss"].contains(&scheme) {
        return Err("is not an http, https, ws or wss URL");
    }
    if authority.contains('@') {
        return Err("has a user name or password");
    }
    let is_plain = |c: char| c.is_ascii_graphic() && !"\"<>\\^`{}|?#".contains(c);
    if !url.chars().all(is_plain) || path.contains("..") {
        return Err("has invalid characters, a query or dot segments");
    }
    let host = host_of(authority);
    let Some(allow) = site.endpoints else { return Ok(()) };
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
