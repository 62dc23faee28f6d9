//! What a definition of the reference may say and this gateway does not do. It is refused, never left out silently.

use std::fmt;

use serde_json::Value;

use crate::definition::{is_stream, kind};
use crate::objects::{items, text, texts};

/// A part of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// The keys that lead to it.
    pub at: Vec<String>,
    pub why: &'static str,
    /// True if requests would pass without it that the reference refuses.
    pub guards: bool,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at.join("."), self.why)
    }
}

/// The schemes of `securityScheme` that are known here.
const SCHEMES: [&str; 3] = ["oauth2", "api_key", "oauth_basic_auth_api_key_mandatory"];

/// The types of `endpointConfig` that are known here.
const ENDPOINTS: [&str; 4] = ["", "http", "address", "load_balance"];

const POLICIES: &str = "policies of the mediation are not implemented here";

/// All such parts.
pub(crate) fn list(dto: &Value) -> Vec<Unsupported> {
    let mut all = Vec::new();
    let mut add = |at: &[&str], why: &'static str, guards: bool| {
        all.push(Unsupported { at: at.iter().map(|key| (*key).to_owned()).collect(), why, guards });
    };
    let schemes = texts(dto.get("securityScheme"));
    if schemes.iter().any(|scheme| !SCHEMES.contains(&scheme.as_str())) {
        add(&["securityScheme"], "only oauth2 and api_key are implemented here", true);
    }
    for (key, fine, why, guards) in [
        ("visibility", "PUBLIC", "only APIs that everybody sees are implemented here", false),
        (
            "accessControl",
            "NONE",
            "only APIs that every publisher sees are implemented here",
            false,
        ),
        ("gatewayVendor", "wso2", "gateways of other vendors are not implemented here", false),
    ] {
        if !["", fine].contains(&text(dto, key)) {
            add(&[key], why, guards);
        }
    }
    for (key, why) in [
        ("isDefaultVersion", "an API answers with its version alone here"),
        ("responseCachingEnabled", "the caching of replies is not implemented here"),
    ] {
        if dto.get(key).and_then(Value::as_bool) == Some(true) {
            add(&[key], why, false);
        }
    }
    if texts(dto.get("audiences")).iter().any(|audience| audience != "all") {
        add(&["audiences"], "audiences are not implemented here", true);
    }
    if dto.get("maxTps").is_some_and(says_something) {
        add(
            &["maxTps"],
            "limits of the backend are not implemented here; `apiThrottlingPolicy` limits",
            true,
        );
    }
    if dto.get("apiPolicies").is_some_and(says_something) {
        add(&["apiPolicies"], POLICIES, true);
    }
    if !items(dto.get("mediationPolicies")).is_empty() {
        add(&["mediationPolicies"], POLICIES, true);
    }
    all.extend(of_endpoints(dto));
    all.extend(of_operations(dto));
    all
}

fn of_endpoints(dto: &Value) -> Vec<Unsupported> {
    let mut all = Vec::new();
    let Some(config) = dto.get("endpointConfig") else { return all };
    let mut add = |key: &str, why| {
        all.push(Unsupported {
            at: vec!["endpointConfig".to_owned(), key.to_owned()],
            why,
            guards: false,
        });
    };
    if !ENDPOINTS.contains(&text(config, "endpoint_type")) {
        add("endpoint_type", "only http, address and load_balance are implemented here");
    }
    for key in ["production_failovers", "sandbox_failovers"] {
        if !items(config.get(key)).is_empty() {
            add(
                key,
                "failover endpoints are not implemented here; `load_balance` tries the others too",
            );
        }
    }
    let security = config.get("endpoint_security").and_then(Value::as_object);
    let mut kinds = security.into_iter().flat_map(|security| security.values());
    if kinds.any(|kind| kind.get("enabled").and_then(Value::as_bool) == Some(true)) {
        add("endpoint_security", "credentials for the backend are not implemented here");
    }
    all
}

fn of_operations(dto: &Value) -> Vec<Unsupported> {
    let kind = kind(dto);
    let is_one_route = is_stream(kind) || kind == "SOAP";
    let mut all = Vec::new();
    for (at, operation) in items(dto.get("operations")).iter().enumerate() {
        let mut add = |key: &str, why| {
            let at = vec!["operations".to_owned(), at.to_string(), key.to_owned()];
            all.push(Unsupported { at, why, guards: true });
        };
        if operation.get("operationPolicies").is_some_and(says_something) {
            add("operationPolicies", POLICIES);
        }
        if is_one_route && text(operation, "authType") == "None" {
            add("authType", "operations of this type all need a credential here");
        }
        let plan = text(operation, "throttlingPolicy");
        if is_one_route && kind != "SSE" && !["", "Unlimited", "AsyncUnlimited"].contains(&plan) {
            add("throttlingPolicy", "an API of this type has one plan, `apiThrottlingPolicy`");
        }
    }
    all
}

/// True if a value, or one within it, is neither absent nor empty.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => items.iter().any(says_something),
        Value::Object(members) => members.values().any(says_something),
        Value::Bool(true) | Value::Number(_) | Value::String(_) => true,
    }
}
