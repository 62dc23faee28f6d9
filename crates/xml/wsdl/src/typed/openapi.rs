//! The OpenAPI 3.1 document of a typed API, with a JSON Schema for each type.

mod schemas;

use std::collections::HashMap;

use serde_json::{Map, Value as Json, json};

use super::model::Message;
use super::parameter::Parameter;
use super::typed_api::{Api, Operation};
use schemas::Schemas;

/// The paths at which the operations of an API are served.
#[derive(Debug, Clone)]
pub struct Document<'a> {
    /// The URL that precedes every path.
    pub server: &'a str,
    /// The place of each operation, by its index.
    pub places: Vec<OperationPlace>,
}

/// Method and path of an operation.
#[derive(Debug, Clone, Default)]
pub struct OperationPlace {
    pub method: String,
    pub path: String,
    /// The parameters, if the operation is called without a body.
    pub parameters: Option<Vec<OfferedParameter>>,
}

/// A parameter of an operation.
#[derive(Debug, Clone)]
pub struct OfferedParameter {
    pub name: String,
    pub in_path: bool,
    pub parameter: Parameter,
}

impl Api {
    /// Returns the OpenAPI document of the API as it is served.
    pub fn openapi(&self, document: &Document<'_>) -> String {
        let mut schemas = Schemas::new(self);
        let mut paths: Map<String, Json> = Map::new();
        // Harmless: there is one place for each operation.
        for (operation, place) in self.operations.iter().zip(&document.places) {
            let item = paths.entry(place.path.clone()).or_insert_with(|| json!({}));
            if let Some(item) = item.as_object_mut() {
                let described = described(self, operation, place, &mut schemas);
                item.insert(place.method.to_lowercase(), described);
            }
        }
        let mut components = schemas.finish();
        components.insert("Problem".to_owned(), problem());
        let server = if document.server.is_empty() { "/" } else { document.server };
        let all = json!({
            "openapi": "3.1.0",
            "info": { "title": &*self.title, "version": "1.0.0" },
            "servers": [{ "url": server }],
            "paths": paths,
            "components": { "schemas": components },
        });
        all.to_string()
    }
}

fn described(
    api: &Api,
    operation: &Operation,
    place: &OperationPlace,
    schemas: &mut Schemas<'_>,
) -> Json {
    let mut replies = Map::new();
    match &operation.output {
        Some(output) => {
            let schema = body(output, schemas);
            let reply = json!({
                "description": "The reply.",
                "content": { "application/json": { "schema": schema } },
            });
            replies.insert("200".to_owned(), reply);
        }
        None => {
            replies
                .insert("202".to_owned(), json!({ "description": "Accepted; there is no reply." }));
        }
    }
    let problem = json!({
        "description": "What went wrong: the request does not fit, or the service answered with a fault.",
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
    });
    replies.insert("default".to_owned(), problem);
    if let Some(parameters) = &place.parameters {
        let parameters: Vec<Json> = parameters.iter().map(parameter).collect();
        return json!({
            "operationId": &*operation.name,
            "parameters": parameters,
            "responses": replies,
        });
    }
    let schema = body(&operation.input, schemas);
    // A missing body is treated as an object without members.
    let needs_body = api.request(operation, b"", usize::MAX).is_err();
    json!({
        "operationId": &*operation.name,
        "requestBody": {
            "required": needs_body,
            "content": { "application/json": { "schema": schema } },
        },
        "responses": replies,
    })
}

fn parameter(offered: &OfferedParameter) -> Json {
    let OfferedParameter { name, in_path, parameter } = offered;
    let one = schemas::scalar_schema(&parameter.scalar);
    let schema = if parameter.is_many() { json!({ "type": "array", "items": one }) } else { one };
    json!({
        "name": name,
        "in": if *in_path { "path" } else { "query" },
        "required": *in_path || parameter.is_required(),
        "schema": schema,
    })
}

/// Returns the schema of a message's JSON.
fn body(message: &Message, schemas: &mut Schemas<'_>) -> Json {
    let schema = match &message.body {
        Some(root) => schemas.element(root.element),
        None => json!({ "type": "object" }),
    };
    if message.headers.is_empty() {
        return schema;
    }
    let mut headers = Map::new();
    for root in &message.headers {
        if let Some(local) = schemas.local(root.element) {
            let header = schemas.element(root.element);
            headers.insert(local, header);
        }
    }
    let names: Vec<&String> = headers.keys().collect();
    let headers = json!({
        "type": "object",
        "description": "Headers of the SOAP message.",
        "required": names,
        "properties": headers,
        "additionalProperties": false,
    });
    if message.body.as_ref().is_some_and(|root| schemas.is_text(root.element)) {
        // A plain value has no members, so it becomes the member `value`.
        return json!({
            "type": "object",
            "properties": { "value": schema, "$headers": headers },
            "required": ["value", "$headers"],
            "additionalProperties": false,
        });
    }
    json!({ "allOf": [schema, { "properties": { "$headers": headers } }] })
}

fn problem() -> Json {
    json!({
        "type": "object",
        "description": "Problem details (RFC 9457); of a fault of the service with its code and details.",
        "required": ["title", "status"],
        "properties": {
            "type": { "type": "string" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "errors": { "type": "array", "items": { "type": "string" } },
            "code": { "type": "string" },
            "subcodes": { "type": "array", "items": { "type": "string" } },
            "actor": { "type": "string" },
            "details": { "type": ["object", "string"] },
        },
    })
}

/// Unique names of components.
#[derive(Default)]
struct Titles {
    of: HashMap<usize, String>,
    taken: HashMap<String, usize>,
}
