//! Parts of a definition that this gateway does not support. They are refused, never ignored.

use std::fmt;

use serde_json::Value;

use crate::api_kind::{is_of_wsdl, is_stream, kind};
use crate::endpoints::{self, SIDES};
use crate::mediation;
use crate::objects::{items, text, texts};

/// An unsupported part of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// The keys that lead to it.
    pub at: Vec<String>,
    pub why: &'static str,
    /// True if ignoring it would allow requests that WSO2 API Manager refuses.
    pub guards: bool,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at.join("."), self.why)
    }
}

/// The supported values of `securityScheme`.
const SCHEMES: [&str; 3] = ["oauth2", "api_key", "oauth_basic_auth_api_key_mandatory"];

/// The supported types of `endpointConfig`.
const ENDPOINTS: [&str; 5] = ["", "http", "address", "load_balance", "failover"];

const POLICIES: &str = "mediation policies are only supported for HTTP and SOAP";

/// All unsupported parts.
pub(crate) fn list(dto: &Value) -> Vec<Unsupported> {
    let mut all = Vec::new();
    let mut add = |at: &[&str], why: &'static str, guards: bool| {
        all.push(Unsupported { at: at.iter().map(|key| (*key).to_owned()).collect(), why, guards });
    };
    let schemes = texts(dto.get("securityScheme"));
    if schemes.iter().any(|scheme| !SCHEMES.contains(&scheme.as_str())) {
        add(&["securityScheme"], "only oauth2 and api_key are supported", true);
    }
    for (key, fine, why, guards) in [
        ("visibility", "PUBLIC", "only APIs that are visible to everybody are supported", false),
        (
            "accessControl",
            "NONE",
            "only APIs that are visible to all publishers are supported",
            false,
        ),
        ("gatewayVendor", "wso2", "gateways of other vendors are not supported", false),
    ] {
        if !["", fine].contains(&text(dto, key)) {
            add(&[key], why, guards);
        }
    }
    for (key, why) in [
        ("isDefaultVersion", "an API without its version in the path is not supported"),
        ("responseCachingEnabled", "response caching is not supported"),
    ] {
        if dto.get(key).and_then(Value::as_bool) == Some(true) {
            add(&[key], why, false);
        }
    }
    if texts(dto.get("audiences")).iter().any(|audience| audience != "all") {
        add(&["audiences"], "audiences are not supported", true);
    }
    if dto.get("maxTps").is_some_and(says_something) {
        add(&["maxTps"], "backend limits are not supported; use `apiThrottlingPolicy`", true);
    }
    if !items(dto.get("mediationPolicies")).is_empty() {
        add(&["mediationPolicies"], POLICIES, true);
    }
    all.extend(of_endpoints(dto));
    all.extend(of_policies(dto, dto.get("apiPolicies"), &["apiPolicies"]));
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
        add("endpoint_type", "only http, address, load_balance and failover are supported");
    }
    let is_failover = endpoints::is_failover(Some(config));
    for side in SIDES {
        if !is_failover && endpoints::has_others(Some(config), side) {
            add(side.others, "failover endpoints need the endpoint_type failover");
        }
    }
    let refused = endpoints::refused(Some(config)).into_iter();
    all.extend(refused.map(|(at, why)| Unsupported { at, why, guards: false }));
    all
}

/// Unsupported mediation policies. In WSO2 API Manager, streams have none.
fn of_policies(dto: &Value, written: Option<&Value>, at: &[&str]) -> Vec<Unsupported> {
    let place = |more: Vec<String>| at.iter().map(|key| (*key).to_owned()).chain(more).collect();
    if is_stream(kind(dto)) {
        let says = written.is_some_and(says_something);
        let refused = Unsupported { at: place(Vec::new()), why: POLICIES, guards: true };
        return says.then_some(refused).into_iter().collect();
    }
    let refused = mediation::refused(written).into_iter();
    refused.map(|one| Unsupported { at: place(one.at), why: one.why, guards: true }).collect()
}

fn of_operations(dto: &Value) -> Vec<Unsupported> {
    let kind = kind(dto);
    let is_one_route = is_stream(kind) || is_of_wsdl(kind);
    let mut all = Vec::new();
    let operations = items(dto.get("operations"));
    let own = |one: &Value| one.get("operationPolicies").filter(|own| says_something(own)).cloned();
    let first = operations.first().and_then(own);
    for (at, operation) in operations.iter().enumerate() {
        let number = at.to_string();
        let place = ["operations", &number, "operationPolicies"];
        let policies = own(operation);
        all.extend(of_policies(dto, policies.as_ref(), &place));
        let mut add = |key: &str, why| {
            let at = vec!["operations".to_owned(), number.clone(), key.to_owned()];
            all.push(Unsupported { at, why, guards: true });
        };
        if is_of_wsdl(kind) && policies != first {
            add(
                "operationPolicies",
                "the operations of a SOAP API must all have the same policies",
            );
        }
        if is_one_route && text(operation, "authType") == "None" {
            add("authType", "operations of this type must all require a credential");
        }
        let plan = text(operation, "throttlingPolicy");
        if is_one_route && kind != "SSE" && !["", "Unlimited", "AsyncUnlimited"].contains(&plan) {
            add("throttlingPolicy", "an API of this type has one plan, `apiThrottlingPolicy`");
        }
    }
    all
}

/// True unless a value is null, false, or a list or object of only such values.
fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => items.iter().any(says_something),
        Value::Object(members) => members.values().any(says_something),
        Value::Bool(true) | Value::Number(_) | Value::String(_) => true,
    }
}
