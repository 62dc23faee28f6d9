//! The description of this API. It is written by hand, because its texts are for people; a test compares it with the actual
//! paths.

use axum::http::Method;
use control::Role;
use serde_json::{Value, json};

use crate::access;

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
            "/": { "get": read("page", "An overview of the configuration in service", "text/html") },
            "/healthz": { "get": read("health", "Liveness", "application/json") },
            "/readyz": { "get": ready() },
            "/metrics": { "get": read("metrics", "All metrics, as OpenMetrics if `Accept` asks for it", "text/plain") },
            "/config": {
                "get": read("getConfig", "The configuration as it was written", "application/yaml"),
                "put": change("putConfig", "Bring a configuration into service", "Changed"),
            },
            "/config/check": {
                "post": change("checkConfig", "Check a configuration without a change", "Checked"),
            },
            "/config/diff": {
                "post": change("compareConfig", "Compare a configuration with the one in service", "Compared"),
            },
            "/bundles": { "get": read("bundles", "The bundles with their files", "application/json") },
            "/bundles/{name}": { "put": put_bundle(), "delete": delete_bundle() },
            "/plan": { "get": read("plan", "The configuration in service, defaults included", "application/json") },
            "/routes": { "get": read("routes", "The routes", "application/json") },
            "/upstreams": { "get": read("upstreams", "The upstreams with the live state of their targets", "application/json") },
            "/revoked": { "get": read("revoked", "The revoked tokens", "application/json"), "post": revoke() },
            "/revoked/{jti}": { "delete": take_back() },
            "/trace": {
                "get": read("trace", "The last trace of a message through a flow", "application/json"),
                "post": read("askTrace", "Request a trace of the next message that runs through a flow", "application/json"),
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
    let more = [hub_paths(), queue_paths()];
    // Harmless: both are maps.
    let more = more.into_iter().filter_map(|more| more.as_object().cloned()).flatten();
    if let Some(paths) = paths {
        paths.extend(more);
        for (path, operations) in paths {
            for (method, operation) in operations.as_object_mut().into_iter().flatten() {
                tell_access(path, method, operation);
            }
        }
    }
    document
}

/// Adds who may do this, and what others get.
fn tell_access(path: &str, method: &str, operation: &mut Value) {
    // Harmless: the methods of the document are those of HTTP.
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

/// The paths of hubs.
fn hub_paths() -> Value {
    json!({
        "/hubs": { "get": hub("hubs", "The hubs with their numbers of subscriptions and dead events, and the gateways that share their deliveries", "200", &[]) },
        "/hubs/{name}": { "get": hub("hub", "One hub", "200", &["name"]) },
        "/hubs/{name}/subscriptions": {
            "get": hub("subscriptions", "Its subscriptions, a page at a time", "200", &["name", "after"]),
        },
        "/hubs/{name}/subscriptions/{id}": {
            "delete": hub("removeSubscription", "Remove a subscription without verification", "204", &["name", "id"]),
        },
        "/hubs/{name}/dead": {
            "get": hub("dead", "The events that could not be delivered, a page at a time", "200", &["name", "after"]),
            "delete": hub("removeAllDead", "Delete all events that could not be delivered, and say how many (`removed`)", "200", &["name"]),
        },
        "/hubs/{name}/dead/retry": {
            "post": hub("retryAllDead", "Deliver all such events again, with all their attempts, and say how many (`retried`, `left`)", "200", &["name"]),
        },
        "/hubs/{name}/pause": {
            "post": hub("pauseHub", "Begin no delivery until they are resumed", "204", &["name"]),
        },
        "/hubs/{name}/resume": {
            "post": hub("resumeHub", "Resume the deliveries", "204", &["name"]),
        },
        "/hubs/{name}/dead/{id}": {
            "get": hub("deadEvent", "Such an event: head, body, times and the fault of each attempt", "200", &["name", "id"]),
            "delete": hub("removeDead", "Delete an event that could not be delivered", "204", &["name", "id"]),
        },
        "/hubs/{name}/dead/{id}/retry": {
            "post": hub("retryDead", "Deliver such an event again, with all its attempts", "202", &["name", "id"]),
        },
    })
}

/// The paths of queues and schedules.
fn queue_paths() -> Value {
    json!({
        "/queues": { "get": hub("queues", "The queues with their depth, numbers of dead messages and the gateway that processes each", "200", &[]) },
        "/queues/{name}": { "get": hub("queue", "One queue", "200", &["name"]) },
        "/queues/{name}/messages": {
            "get": hub("queuedMessages", "The messages that are not processed yet, a page at a time", "200", &["name", "after"]),
        },
        "/queues/{name}/pause": {
            "post": hub("pauseQueue", "Begin no more messages of the queue, on any gateway, until it is resumed", "204", &["name"]),
        },
        "/queues/{name}/resume": {
            "post": hub("resumeQueue", "Process the messages of the queue again", "204", &["name"]),
        },
        "/queues/{name}/dead": {
            "get": hub("deadMessages", "The messages that could not be processed, a page at a time", "200", &["name", "after"]),
            "delete": hub("removeMessages", "Delete all messages that could not be processed, and say how many (`removed`)", "200", &["name"]),
        },
        "/queues/{name}/dead/retry": {
            "post": hub("retryMessages", "Append all such messages to the queue again, in their order and with all their attempts, and say how many (`retried`, `left`)", "200", &["name"]),
        },
        "/queues/{name}/dead/{id}": {
            "get": hub("deadMessage", "Such a message with its head, the beginning of its body, its times and the fault of each attempt; secrets are masked", "200", &["name", "id"]),
            "delete": hub("removeMessage", "Delete a message that could not be processed", "204", &["name", "id"]),
        },
        "/queues/{name}/dead/{id}/retry": {
            "post": hub("retryMessage", "Append such a message to its queue again, with all its attempts", "202", &["name", "id"]),
        },
        "/schedules": { "get": hub("schedules", "The schedules with their times, and whether they are paused or running", "200", &[]) },
        "/schedules/{name}/run": {
            "post": hub("runSchedule", "Run the schedule now, also if it is paused; 409 while a run is under way", "202", &["name"]),
        },
        "/schedules/{name}/pause": {
            "post": hub("pauseSchedule", "Skip the times of the schedule, on all gateways, until it is resumed", "204", &["name"]),
        },
        "/schedules/{name}/resume": {
            "post": hub("resumeSchedule", "Run the schedule at its times again", "204", &["name"]),
        },
    })
}

fn read(id: &str, summary: &str, kind: &str) -> Value {
    json!({
        "operationId": id,
        "summary": summary,
        "responses": {
            "200": { "description": summary, "content": { kind: {} } },
            "403": { "$ref": "#/components/responses/Forbidden" },
        },
    })
}

fn put_bundle() -> Value {
    json!({
        "operationId": "putBundle",
        "summary": "Deploy a bundle, or replace the one of that name, atomically",
        "parameters": [{ "name": "name", "in": "path", "required": true, "schema": { "type": "string" } }],
        "requestBody": {
            "required": true,
            "description": "A ZIP archive of configuration files and what they name, or a Composite Application archive of Synapse",
            "content": { "application/zip": {}, "application/gzip": {} },
        },
        "responses": {
            "200": changed(),
            "403": { "$ref": "#/components/responses/Forbidden" },
            "408": problem("The body did not come in time"),
            "409": problem("There is no folder for bundles, it cannot be written, or the configuration cannot be brought into service"),
            "413": problem("The body is too large"),
            "422": problem("The archive is invalid, or the configuration cannot be used; `complaints` says where and why"),
        },
    })
}

/// An operation on hubs or queues. Its parameter `after` stands in the query, the others in the path.
fn hub(id: &str, summary: &str, success: &str, parameters: &[&str]) -> Value {
    let parameters = parameters.iter().map(|name| match *name {
        "after" => json!({
            "name": "after", "in": "query", "schema": { "type": "string" },
            "description": "`next` of the page before",
        }),
        name => json!({
            "name": name, "in": "path", "required": true, "schema": { "type": "string" },
        }),
    });
    let content = match success {
        "200" => json!({ "description": summary, "content": { "application/json": {} } }),
        _ => json!({ "description": summary }),
    };
    json!({
        "operationId": id,
        "summary": summary,
        "parameters": parameters.collect::<Vec<_>>(),
        "responses": {
            success: content,
            "403": { "$ref": "#/components/responses/Forbidden" },
            "404": problem("There is no such hub, queue, schedule, subscription, event or message"),
            "503": problem("The store is not available or overloaded"),
        },
    })
}

fn delete_bundle() -> Value {
    json!({
        "operationId": "deleteBundle",
        "summary": "Remove a bundle",
        "parameters": [{ "name": "name", "in": "path", "required": true, "schema": { "type": "string" } }],
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
            "until": { "type": "integer", "minimum": 0, "description": "The end of the revocation, in seconds since 1970; in a year if absent" },
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
            "413": problem("The body is too large"),
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

fn change(id: &str, summary: &str, result: &str) -> Value {
    json!({
        "operationId": id,
        "summary": summary,
        "requestBody": {
            "required": true,
            "content": { "application/yaml": { "schema": { "type": "string" } } },
        },
        "responses": {
            "200": {
                "description": "Done",
                "content": { "application/json": { "schema": { "$ref": format!("#/components/schemas/{result}") } } },
            },
            "400": problem("The body is not UTF-8 text"),
            "403": { "$ref": "#/components/responses/Forbidden" },
            "409": problem("The file cannot be written, or the configuration cannot be brought into service"),
            "413": problem("The body is too large"),
            "422": problem("The configuration cannot be used; `complaints` says where and why"),
        },
    })
}

fn problem(description: &str) -> Value {
    json!({
        "description": description,
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    })
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
        "description": "How many more complaints there are than those listed, where there are more",
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
                    "description": "Why it could not be written to its file, although it is in service: a restart loses it",
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
