//! The description of this API. It is written by hand, because its texts are for people. A test compares it with the actual
//! paths.

use axum::http::Method;
use control::Role;
use serde_json::{Value, json};

use crate::access;
use crate::openapi_live::live_paths;
use crate::openapi_messages::{hub_paths, queue_paths};
use crate::openapi_parts::{add_response, by_name, change, problem, read, with_configuration};
use crate::openapi_requests::{
    ask_trace, get_config, past, refusals, roll_back, set_log, set_target,
};

/// The OpenAPI document.
pub(crate) fn document() -> Value {
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Health, metrics and the configuration of one gateway. For operators only: where `admin.users` are configured, each operation needs the role in its `x-role`.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": {
            "/healthz": { "get": read("health", "Liveness", "application/json") },
            "/readyz": { "get": ready() },
            "/metrics": { "get": read("metrics", "All metrics, as OpenMetrics if `Accept` asks for it", "text/plain") },
            "/bundles": { "get": read("bundles", "The bundles with their files", "application/json") },
            "/bundles/{name}": { "put": put_bundle(), "delete": delete_bundle() },
            "/plan": { "get": read("plan", "The configuration in service, defaults included", "application/json") },
            "/routes": { "get": read("routes", "The routes", "application/json") },
            "/upstreams": { "get": read("upstreams", "The upstreams with the live state of their targets", "application/json") },
            "/upstreams/{name}": { "get": by_name("upstream", "One upstream with the live state of its targets", "200", &["name"], "There is no such upstream") },
            "/upstreams/{name}/targets/{id}": { "patch": set_target() },
            "/flows": { "get": read("flows", "The flows with their numbers of runs and faults", "application/json") },
            "/flows/{name}": { "get": by_name("flow", "One flow with the runs, times and faults of its steps", "200", &["name"], "There is no such flow") },
            "/refusals": { "get": refusals() },
            "/certificates": { "get": read("certificates", "The gateway's certificates, with their expiry times", "application/json") },
            "/log": {
                "get": read("log", "The level of the program's log that was set, and its end", "application/json"),
                "put": set_log(),
            },
            "/revoked": { "get": read("revoked", "The revoked tokens", "application/json"), "post": revoke() },
            "/revoked/{jti}": { "delete": take_back() },
            "/trace": {
                "get": read("trace", "The pending request for traces, and the last traces; bodies need the role `write`", "application/json"),
                "post": ask_trace(),
            },
            "/.well-known/jwks.json": { "get": read("ownKeys", "The public keys of the tokens that the gateway signs", "application/jwk-set+json") },
            "/openapi.json": { "get": read("openapi", "This document", "application/json") },
            "/schema.json": { "get": read("schema", "The schema of the configuration, for editors", "application/schema+json") },
        },
        "components": {
            "schemas": schemas(),
            "responses": responses(),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    });
    let paths = document.get_mut("paths").and_then(Value::as_object_mut);
    let more = [configuration_paths(), live_paths(), hub_paths(), queue_paths()];
    // Harmless: each of them is a JSON object.
    let more = more.into_iter().filter_map(|more| more.as_object().cloned()).flatten();
    if let Some(paths) = paths {
        paths.extend(more);
        for (path, operations) in paths {
            // Harmless: a path is a map of operations.
            for (method, operation) in operations.as_object_mut().into_iter().flatten() {
                tell_body(operation);
                tell_access(path, method, operation);
            }
        }
    }
    document
}

/// Adds the refusals of a body to an operation that takes one.
fn tell_body(operation: &mut Value) {
    if operation.get("requestBody").is_some() {
        add_response(operation, "408", "The body did not arrive in time");
        add_response(operation, "413", "The body is too large");
    }
}

/// Adds the role that an operation needs, and the reply to a request without a credential.
fn tell_access(path: &str, method: &str, operation: &mut Value) {
    // Harmless: the document has only methods of HTTP.
    let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).unwrap_or_default();
    let role = access::needed(&method, path, None);
    let name = role.map_or("none", Role::name);
    if let Some(operation) = operation.as_object_mut() {
        operation.insert("x-role".to_owned(), name.into());
        if role.is_some() {
            operation.insert("security".to_owned(), json!([{ "token": [] }, {}]));
        }
        let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
        if let Some(responses) = responses.filter(|_| role.is_some()) {
            let refused = json!({ "$ref": "#/components/responses/Unauthorized" });
            responses.insert("401".to_owned(), refused);
        }
    }
}

/// The paths of the configuration and its history.
fn configuration_paths() -> Value {
    json!({
        "/config": {
            "get": get_config(),
            "put": change("putConfig", "Bring a configuration into service"),
        },
        "/config/check": {
            "post": trial("checkConfig", "Check a configuration without a change", "Checked"),
        },
        "/config/diff": {
            "post": trial("compareConfig", "Compare a configuration with the one in service", "Compared"),
        },
        "/config/history": { "get": read("history", "The configurations that were in service, newest first", "application/json") },
        "/config/history/{generation}": {
            "get": past("past", "An earlier configuration; its secrets are masked", "application/yaml", &["secrets"]),
        },
        "/config/history/{generation}/diff": {
            "get": past("pastDifferences", "The differences from it to another one, or to the one in service", "application/json", &["to"]),
        },
        "/config/history/{generation}/rollback": { "post": roll_back() },
    })
}

fn bundle_name() -> Value {
    let schema = json!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" });
    json!({ "name": "name", "in": "path", "required": true, "schema": schema })
}

fn put_bundle() -> Value {
    json!({
        "operationId": "putBundle",
        "summary": "Deploy a bundle, or replace the one of that name, atomically",
        "parameters": [bundle_name()],
        "requestBody": {
            "required": true,
            "description": "A ZIP or .tar.gz archive of configuration files and what they name, or a Composite Application archive of Synapse",
            "content": { "application/zip": {}, "application/gzip": {} },
        },
        "responses": {
            "200": changed(),
            "403": { "$ref": "#/components/responses/Forbidden" },
            "409": problem("There is no folder for bundles, it cannot be written, or the configuration cannot be brought into service"),
            "422": problem("The archive is invalid, or the configuration cannot be used; `complaints` says where and why"),
        },
    })
}

fn delete_bundle() -> Value {
    json!({
        "operationId": "deleteBundle",
        "summary": "Remove a bundle",
        "parameters": [bundle_name()],
        "responses": {
            "200": changed(),
            "403": { "$ref": "#/components/responses/Forbidden" },
            "404": problem("There is no such bundle"),
            "409": problem("There is no folder for bundles, it cannot be written, or the configuration cannot be brought into service"),
            "422": problem("The configuration cannot be used without it; `complaints` says where and why"),
        },
    })
}

fn changed() -> Value {
    json!({
        "description": "Done",
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Changed" } } },
    })
}

fn ready() -> Value {
    json!({
        "operationId": "readiness",
        "summary": "Readiness",
        "responses": {
            "200": { "description": "Ready", "content": { "application/json": {} } },
            "503": problem("Not ready; `detail` says why"),
        },
    })
}

fn revoke() -> Value {
    let schema = json!({
        "type": "object",
        "required": ["jti"],
        "additionalProperties": false,
        "properties": {
            "jti": { "type": "string", "minLength": 1, "description": "The `jti` of the token" },
            "until": { "type": "integer", "minimum": 0, "description": "The end of the revocation, in seconds since 1970; one year from now if absent" },
        },
    });
    json!({
        "operationId": "revoke",
        "summary": "Revoke a token",
        "requestBody": { "required": true, "content": { "application/json": { "schema": schema } } },
        "responses": {
            "200": { "description": "Revoked", "content": { "application/json": { "schema": schema } } },
            "400": problem("The body is not UTF-8 text"),
            "403": { "$ref": "#/components/responses/Forbidden" },
            "422": problem("The body has no `jti` or an unknown member, `until` is over, or too many tokens are revoked"),
        },
    })
}

fn take_back() -> Value {
    json!({
        "operationId": "takeBack",
        "summary": "Undo a revocation",
        "parameters": [{ "name": "jti", "in": "path", "required": true, "schema": { "type": "string" } }],
        "responses": {
            "204": { "description": "Undone" },
            "403": { "$ref": "#/components/responses/Forbidden" },
            "404": problem("It is not revoked"),
        },
    })
}

/// An operation that looks at a configuration and changes nothing.
fn trial(id: &str, summary: &str, result: &str) -> Value {
    let mut operation = with_configuration(id, summary, result);
    add_response(&mut operation, "400", "The body is not UTF-8 text");
    add_response(&mut operation, "409", "The files of the configuration cannot be put together");
    operation
}

fn responses() -> Value {
    json!({
        "Forbidden": problem("The operator lacks the role, or the request may come from a web page of another site"),
        "Unauthorized": problem("The request has no token of an operator"),
    })
}

fn left_out() -> Value {
    json!({
        "type": "object",
        "description": "The numbers of complaints that are not listed; absent if all are listed",
        "properties": { "errors": { "type": "integer" }, "warnings": { "type": "integer" } },
    })
}

fn schemas() -> Value {
    let complaints =
        json!({ "type": "array", "items": { "$ref": "#/components/schemas/Complaint" } });
    json!({
        "Complaint": {
            "type": "object",
            "required": ["file", "line", "column", "severity", "message", "help"],
            "properties": {
                "file": { "type": ["string", "null"] },
                "line": { "type": "integer", "minimum": 1 },
                "column": { "type": "integer", "minimum": 1 },
                "severity": { "enum": ["error", "warning"] },
                "message": { "type": "string" },
                "help": { "type": ["string", "null"], "description": "What to write instead" },
            },
        },
        "Changed": {
            "type": "object",
            "required": ["generation", "changed", "unwritten", "warnings"],
            "properties": {
                "generation": { "type": "integer", "description": "The number of the configuration in service" },
                "changed": { "type": "boolean", "description": "False if that configuration was in service already" },
                "unwritten": {
                    "type": ["string", "null"],
                    "description": "Why it could not be written to its file. It is in service, but a restart loses it",
                },
                "warnings": complaints, "left_out": left_out(),
                "notes": {
                    "type": "array",
                    "items": { "type": "string" },
                    "description": "Of an archive of Synapse: the parts that were approximated or refused",
                },
            },
        },
        "Checked": {
            "type": "object",
            "required": ["usable", "complaints"],
            "properties": { "usable": { "const": true }, "complaints": complaints, "left_out": left_out() },
        },
        "Compared": {
            "type": "object",
            "required": ["equal", "differences"],
            "properties": {
                "equal": { "type": "boolean" },
                "differences": { "type": "array", "items": { "$ref": "#/components/schemas/Difference" } },
            },
        },
        "Difference": {
            "type": "object",
            "required": ["path", "change"],
            "properties": {
                "path": { "type": "string", "description": "Such as routes.a.policies[1].jwt.issuers" },
                "change": { "enum": ["added", "removed", "changed", "content"], "description": "`content`: another file of the same name" },
                "old": { "description": "Without secrets, values of headers and bodies" },
                "new": { "description": "As `old`" },
            },
        },
        "Problem": {
            "type": "object",
            "required": ["type", "title", "status", "detail"],
            "properties": {
                "type": { "type": "string" },
                "title": { "type": "string" },
                "status": { "type": "integer" },
                "detail": { "type": "string" },
                "complaints": complaints, "left_out": left_out(),
            },
        },
    })
}
