//! The building blocks of the API's description: operations, responses and parameters that several paths share.

use serde_json::{Value, json};

/// An operation that reads.
pub(crate) fn read(id: &str, summary: &str, kind: &str) -> Value {
    json!({
        "operationId": id,
        "summary": summary,
        "responses": {
            "200": { "description": summary, "content": { kind: {} } },
            "403": { "$ref": "#/components/responses/Forbidden" },
        },
    })
}

/// An operation that puts a configuration into service.
pub(crate) fn change(id: &str, summary: &str) -> Value {
    let mut operation = with_configuration(id, summary, "Changed");
    if let Some(operation) = operation.as_object_mut() {
        operation.insert("parameters".to_owned(), json!([if_match()]));
    }
    for (status, what) in [
        ("400", "The body is not UTF-8 text, or `If-Match` cannot be read"),
        ("409", "The file cannot be written, or the configuration cannot be brought into service"),
        ("412", "`If-Match` does not name the configuration in service"),
    ] {
        add_response(&mut operation, status, what);
    }
    operation
}

/// An operation that takes a configuration.
pub(crate) fn with_configuration(id: &str, summary: &str, result: &str) -> Value {
    json!({
        "operationId": id,
        "summary": summary,
        "requestBody": {
            "required": true,
            "content": { "application/yaml": { "schema": { "type": "string" } }, "application/zip": {} },
        },
        "responses": {
            "200": {
                "description": "Done",
                "content": { "application/json": { "schema": { "$ref": format!("#/components/schemas/{result}") } } },
            },
            "403": { "$ref": "#/components/responses/Forbidden" },
            "422": problem("The configuration cannot be used; `complaints` says where and why"),
        },
    })
}

/// An answer that says what is wrong.
pub(crate) fn problem(description: &str) -> Value {
    json!({
        "description": description,
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    })
}

/// An operation on something with a name. Its parameter `after` is in the query, and the others are in the path; `unknown` is the
/// description of the response if there is nothing of their names.
pub(crate) fn by_name(
    id: &str,
    summary: &str,
    success: &str,
    parameters: &[&str],
    unknown: &str,
) -> Value {
    let described = parameters.iter().map(|name| match *name {
        "after" => json!({
            "name": "after", "in": "query", "schema": { "type": "string" },
            "description": "`next` of the previous page",
        }),
        name => json!({
            "name": name, "in": "path", "required": true, "schema": { "type": "string" },
        }),
    });
    let content = match success {
        "200" => json!({ "description": summary, "content": { "application/json": {} } }),
        _ => json!({ "description": summary }),
    };
    let mut operation = json!({
        "operationId": id,
        "summary": summary,
        "parameters": described.collect::<Vec<_>>(),
        "responses": {
            success: content,
            "403": { "$ref": "#/components/responses/Forbidden" },
        },
    });
    if !parameters.is_empty() {
        add_response(&mut operation, "404", unknown);
    }
    if parameters.contains(&"after") {
        add_response(&mut operation, "400", "`after` is not text in UTF-8");
    }
    operation
}

/// Adds a response to an operation.
pub(crate) fn add_response(operation: &mut Value, status: &str, what: &str) {
    let responses = operation.get_mut("responses").and_then(Value::as_object_mut);
    if let Some(responses) = responses {
        responses.insert(status.to_owned(), problem(what));
    }
}

pub(crate) fn if_match() -> Value {
    json!({
        "name": "If-Match", "in": "header", "schema": { "type": "string" },
        "description": "The `ETag` of the configuration to change",
    })
}
