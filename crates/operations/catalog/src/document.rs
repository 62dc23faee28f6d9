//! The OpenAPI document of an API, and the operations in such a document.

use serde_json::{Map, Value, json};

use crate::definition::METHODS;
use crate::endpoints::{self, SIDES};
use crate::mediation;
use crate::objects::{items, texts};

/// The public OpenAPI document of an API: the imported one, or one made from the operations.
pub(crate) fn openapi(dto: &Value, imported: Option<&Value>) -> Value {
    made(dto, imported, false)
}

/// The document for the gateway, with the credentials for the endpoints and the policies of operations.
pub(crate) fn served(dto: &Value, imported: Option<&Value>) -> Value {
    made(dto, imported, true)
}

/// True for members that the gateway interprets. They are taken from the definition, which was checked, and never
/// from a document.
fn is_read(name: &str) -> bool {
    const PREFIXES: [&str; 4] = ["x-wso2-", "x-tidegate-", "x-auth-type", "x-mediation-"];
    const WORDS: [&str; 3] = ["x-scopes", "x-throttling-tier", "x-amzn-resource-name"];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || WORDS.contains(&name)
}

fn made(dto: &Value, imported: Option<&Value>, is_served: bool) -> Value {
    let text = |key: &str| crate::objects::text(dto, key);
    let skeleton = || json!({ "openapi": "3.0.1", "info": {}, "paths": {} });
    let mut document = imported.cloned().unwrap_or_else(skeleton);
    // Harmless: a document without paths has none to keep.
    let known = document.get("paths").cloned().unwrap_or_default();
    let Some(root) = document.as_object_mut() else { return skeleton() };
    root.insert("info".to_owned(), json!({ "title": text("name"), "version": text("version") }));
    root.remove("servers");
    root.remove("security");
    root.retain(|name, _| !is_read(name));
    root.insert("paths".to_owned(), paths(dto, &known, is_served));
    let config = dto.get("endpointConfig");
    for side in SIDES {
        if let Some(endpoints) = endpoints::extension(config, side, is_served) {
            root.insert(format!("x-wso2-{}-endpoints", side.name), endpoints);
        }
    }
    let own = dto.get("apiThrottlingPolicy").and_then(Value::as_str);
    if let Some(own) = own.filter(|own| !own.is_empty()) {
        root.insert("x-wso2-throttling-tier".to_owned(), json!(own));
    }
    if let Some(cors) = dto.get("corsConfiguration").filter(|cors| cors.is_object()) {
        root.insert("x-wso2-cors".to_owned(), cors.clone());
    }
    document
}

/// The paths of the API's operations, with the descriptions of the imported document.
fn paths(dto: &Value, known: &Value, is_served: bool) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in items(dto.get("operations")) {
        let text = |key: &str| crate::objects::text(operation, key);
        let (target, verb) = (text("target"), text("verb").to_lowercase());
        let of_path = known.get(target);
        let skeleton = || json!({ "responses": { "200": { "description": "OK" } } });
        let mut made = of_path.and_then(|path| path.get(&verb)).cloned().unwrap_or_else(skeleton);
        if let Some(made) = made.as_object_mut() {
            made.remove("security");
            made.remove("servers");
            made.retain(|name, _| !is_read(name));
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
            let policies =
                mediation::policies(dto.get("apiPolicies"), operation.get("operationPolicies"));
            if is_served && !policies.is_empty() {
                made.insert("x-tidegate-policies".to_owned(), json!(policies));
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

/// The operations that an OpenAPI document describes, in the format of WSO2 API Manager.
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
