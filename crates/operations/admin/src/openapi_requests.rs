//! The part of the API's description about operations with parameters or a JSON object: the configuration, its history, targets,
//! traces, refusals and the log.

use serde_json::{Value, json};

use crate::openapi_parts::{add_response, change, if_match, problem, read};

/// An operation with a JSON object in the request.
fn with_object(id: &str, summary: &str, properties: &Value) -> Value {
    let schema =
        json!({ "type": "object", "additionalProperties": false, "properties": properties });
    json!({
        "operationId": id,
        "summary": summary,
        "requestBody": { "required": true, "content": { "application/json": { "schema": schema } } },
        "responses": {
            "200": { "description": "Done", "content": { "application/json": {} } },
            "400": problem("The body is not UTF-8 text"),
            "403": { "$ref": "#/components/responses/Forbidden" },
            "422": problem("The body has an unknown member, or a value that cannot be used"),
        },
    })
}

pub(crate) fn set_target() -> Value {
    let properties = json!({
        "weight": { "type": "integer", "minimum": 0, "maximum": 65535, "description": "Its weight; 0 for no requests" },
        "drain": { "type": "boolean", "description": "Whether to stop new requests to it" },
    });
    let mut operation = with_object(
        "setTarget",
        "Set the weight of a target, or drain it, until its upstream changes",
        &properties,
    );
    let parameters = ["name", "id"].map(|name| {
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
    });
    if let Some(operation) = operation.as_object_mut() {
        operation.insert("parameters".to_owned(), json!(parameters));
    }
    if let Some(Value::Object(schema)) =
        operation.pointer_mut("/requestBody/content/application~1json/schema")
    {
        schema.insert("minProperties".to_owned(), 1.into());
    }
    add_response(&mut operation, "404", "There is no such upstream or target");
    add_response(
        &mut operation,
        "503",
        "The change is in effect, but could not be stored, so a restart loses it",
    );
    operation
}

pub(crate) fn ask_trace() -> Value {
    let text = json!({ "type": ["string", "null"] });
    let properties = json!({
        "route": text, "flow": text, "request_id": text,
        "path": { "type": ["string", "null"], "description": "The path of the request; with `/**` at its end, all paths below it too" },
        "count": { "type": "integer", "minimum": 1, "maximum": 100, "description": "How many messages; 1 if absent" },
    });
    let mut operation = with_object(
        "askTrace",
        "Request traces of the next messages that fulfil all conditions given",
        &properties,
    );
    if let Some(body) = operation.get_mut("requestBody").and_then(Value::as_object_mut) {
        body.insert("required".to_owned(), false.into());
    }
    operation
}

pub(crate) fn set_log() -> Value {
    let properties = json!({
        "level": { "enum": ["error", "warn", "info", "debug", "trace", "off", null] },
        "for": { "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$", "description": "Such as `10m`, the default; at most a day" },
    });
    let mut operation =
        with_object("setLog", "Set the level of the program's log for a while", &properties);
    add_response(&mut operation, "409", "The level cannot be changed");
    operation
}

pub(crate) fn refusals() -> Value {
    let mut operation = read(
        "refusals",
        "The last refused requests, newest first, each with policy and cause",
        "application/json",
    );
    if let Some(operation) = operation.as_object_mut() {
        let limit = json!({
            "name": "limit", "in": "query", "schema": { "type": "integer", "minimum": 0 },
            "description": "How many; 100 if absent, at most 1,000",
        });
        operation.insert("parameters".to_owned(), json!([limit]));
    }
    add_response(&mut operation, "400", "`limit` is not a whole number");
    operation
}

pub(crate) fn get_config() -> Value {
    let mut operation = read(
        "getConfig",
        "The configuration as written; its secrets are masked",
        "application/yaml",
    );
    if let Some(operation) = operation.as_object_mut() {
        operation.insert("parameters".to_owned(), json!([in_query("secrets")]));
        let content = json!({ "application/yaml": {}, "application/zip": {} });
        let success = json!({ "description": "The configuration; with `Accept: application/zip` an archive of its files", "content": content });
        operation.insert(
            "responses".to_owned(),
            json!({
                "200": success,
                "400": problem("`secrets` is neither `true` nor `false`"),
                "403": { "$ref": "#/components/responses/Forbidden" },
            }),
        );
    }
    operation
}

fn in_query(name: &str) -> Value {
    match name {
        "secrets" => json!({
            "name": "secrets", "in": "query", "schema": { "enum": ["true", "false"] },
            "description": "`true` shows secrets; that needs the role `write` and is recorded in the audit log",
        }),
        name => json!({
            "name": name, "in": "query", "schema": { "type": "integer", "minimum": 0 },
            "description": "The generation to compare with; the one in service if absent",
        }),
    }
}

fn generation() -> Value {
    json!({ "name": "generation", "in": "path", "required": true, "schema": { "type": "integer", "minimum": 0 } })
}

pub(crate) fn past(id: &str, summary: &str, kind: &str, query: &[&str]) -> Value {
    let parameters = std::iter::once(generation()).chain(query.iter().map(|name| in_query(name)));
    json!({
        "operationId": id,
        "summary": summary,
        "parameters": parameters.collect::<Vec<_>>(),
        "responses": {
            "200": { "description": summary, "content": { kind: {} } },
            "400": problem("A parameter has an invalid value"),
            "403": { "$ref": "#/components/responses/Forbidden" },
            "404": problem("The history has no such configuration"),
        },
    })
}

pub(crate) fn roll_back() -> Value {
    let mut operation =
        change("rollBack", "Put an earlier configuration into service again, as a new generation");
    if let Some(operation) = operation.as_object_mut() {
        operation.remove("requestBody");
        operation.insert("parameters".to_owned(), json!([generation(), if_match()]));
    }
    add_response(&mut operation, "400", "`If-Match` cannot be read");
    add_response(&mut operation, "404", "The history has no such configuration");
    operation
}
