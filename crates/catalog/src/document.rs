//! The OpenAPI document of an API, and the operations that such a document describes.

use serde_json::{Map, Value, json};

use crate::definition::{METHODS, endpoints};
use crate::objects::{items, texts};

/// The OpenAPI document of an API, imported or made of the operations, with the extensions that the gateway reads.
pub(crate) fn openapi(dto: &Value, imported: Option<&Value>) -> Value {
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
