//! The catalog's interface, defined by `interface.yaml`: its OpenAPI document, and the validation of requests.

use std::path::Path;

use axum::http::Method;
use mediation::json_schema::{Document, Schema, Schemas};
use serde_json::{Map, Value, json};

use crate::answers::without_version;
use crate::http::{CatalogRequest, Refusal};
use crate::objects::{set, text, texts};

const TEXT: &str = include_str!("interface.yaml");

/// The address of the document, to which its schemas refer.
const ADDRESS: &str = "tidegate:catalog";

/// The place of parameters' schemas in the document for validation. In the document for clients they are in each
/// operation.
const PARAMETERS: &str = "x-parameters";

/// The members of an operation that can have a body.
const BODIES: [(&str, &str); 3] = [
    ("body", "application/json"),
    ("form", "application/x-www-form-urlencoded"),
    ("parts", "multipart/form-data"),
];

/// The interface.
pub(crate) struct Interface {
    document: Value,
    places: Vec<PathItem>,
}

/// A path with its operations.
struct PathItem {
    /// Its segments, without the version of the interface.
    segments: Vec<Segment>,
    operations: Vec<(Method, Operation)>,
}

struct Operation {
    body: Option<Schema>,
    query: Vec<Parameter>,
}

/// A parameter of a query.
struct Parameter {
    name: String,
    kind: ParameterKind,
    schema: Schema,
}

/// The type of a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ParameterKind {
    Text,
    /// A JSON value: a number, or true or false.
    Json,
}

enum Segment {
    Word(String),
    /// An id of the catalog.
    Id,
    /// One of these words.
    One(Vec<String>),
    /// Any name.
    Name,
}

impl Interface {
    pub(crate) fn read() -> Result<Interface, String> {
        let written = config::document(TEXT, Path::new("interface.yaml"))?;
        let document = document(&written);
        let members = |value: &'static str| written.get(value).and_then(Value::as_object);
        let (paths, parameters) = (members("paths"), members("parameters"));
        let mut checked = document.clone();
        set(&mut checked, PARAMETERS, json!(parameters));
        let schemas = Schemas::new([(ADDRESS.to_owned(), checked)], false)?;
        let mut places = Vec::new();
        // Harmless: a test checks that the interface is complete.
        for (path, operations) in paths.into_iter().flatten() {
            let mut made = Vec::new();
            // Harmless: `interface.yaml` is part of the program, and each of its paths is an object.
            for (method, operation) in operations.as_object().into_iter().flatten() {
                let name = text(operation, "body").trim_end_matches('?');
                let body = (!name.is_empty())
                    .then(|| schemas.at(&format!("{ADDRESS}#/components/schemas/{name}")));
                let query = texts(operation.get("query")).into_iter();
                let query = query.map(|name| Parameter::read(&name, parameters, &schemas));
                let operation =
                    Operation { body: body.transpose()?, query: query.collect::<Result<_, _>>()? };
                let method = method.to_uppercase().parse::<Method>();
                made.push((method.map_err(|error| error.to_string())?, operation));
            }
            let segment = |part: &&str| segment(part, parameters);
            let parts = without_version_of(path);
            places
                .push(PathItem { segments: parts.iter().map(segment).collect(), operations: made });
        }
        Ok(Interface { document, places })
    }

    /// The OpenAPI document.
    pub(crate) fn document(&self) -> &Value {
        &self.document
    }

    /// The schema of a request's body.
    pub(crate) fn schema(&self, method: &Method, path: &str) -> Option<&Schema> {
        self.operation(method, path)?.body.as_ref()
    }

    /// Refuses a query with an invalid or repeated parameter. Unknown parameters are ignored.
    pub(crate) fn check_query(&self, asked: &CatalogRequest) -> Result<(), Refusal> {
        let Some(operation) = self.operation(&asked.method, &asked.path) else { return Ok(()) };
        for parameter in &operation.query {
            let name = &parameter.name;
            let mut values = asked.query.iter().filter(|(known, _)| known == name);
            let Some((_, value)) = values.next() else { continue };
            if values.next().is_some() {
                return Err(Refusal::bad(format!(
                    "The query parameter {name} is given more than once"
                )));
            }
            parameter.check(value)?;
        }
        Ok(())
    }

    fn operation(&self, method: &Method, path: &str) -> Option<&Operation> {
        let place = self.place(path)?;
        let found = place.operations.iter().find(|(known, _)| known == method);
        found.map(|(_, operation)| operation)
    }

    /// The methods that a resource allows instead of this one. None if it allows this one, or does not exist.
    pub(crate) fn other_methods(&self, method: &Method, path: &str) -> Option<String> {
        let place = self.place(path)?;
        if place.operations.iter().any(|(known, _)| known == method) {
            return None;
        }
        let names: Vec<&str> = place.operations.iter().map(|(known, _)| known.as_str()).collect();
        Some(names.join(", "))
    }

    fn place(&self, path: &str) -> Option<&PathItem> {
        let parts = without_version_of(path);
        self.places.iter().find(|place| {
            place.segments.len() == parts.len()
                && place.segments.iter().zip(&parts).all(|(segment, part)| segment.fits(part))
        })
    }
}

impl Parameter {
    fn read(
        written: &str,
        parameters: Option<&Map<String, Value>>,
        schemas: &Schemas,
    ) -> Result<Parameter, String> {
        let name = written.trim_end_matches('!');
        let described = parameters.and_then(|parameters| parameters.get(name));
        let described = described.ok_or_else(|| format!("the parameter {name} is missing"))?;
        let kind = match text(described, "type") {
            "integer" | "boolean" => ParameterKind::Json,
            _ => ParameterKind::Text,
        };
        let schema = schemas.at(&format!("{ADDRESS}#/{PARAMETERS}/{name}"))?;
        Ok(Parameter { name: name.to_owned(), kind, schema })
    }

    fn check(&self, value: &str) -> Result<(), Refusal> {
        let wrong =
            |why: &str| Refusal::bad(format!("The query parameter {} is wrong: {why}", self.name));
        let json = match self.kind {
            ParameterKind::Text => json!(value).to_string(),
            ParameterKind::Json => value.to_owned(),
        };
        let document = Document::read(json.as_bytes()).map_err(|why| wrong(&why.to_string()))?;
        if self.schema.allows(&document) {
            return Ok(());
        }
        Err(wrong(&self.schema.refusal(&document, true, 1).join("; ")))
    }
}

impl Segment {
    fn fits(&self, part: &str) -> bool {
        match self {
            Segment::Word(word) => word == part,
            // Other names at this place are resources of WSO2 API Manager, such as `apis/validate-openapi`.
            Segment::Id => {
                let is_digit = |c: char| c.is_ascii_hexdigit() || c == '-';
                part.len() == 36 && part.chars().all(is_digit)
            }
            Segment::One(words) => words.iter().any(|word| word == part),
            Segment::Name => true,
        }
    }
}

fn segment(part: &str, parameters: Option<&Map<String, Value>>) -> Segment {
    let Some(name) = part.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
        return Segment::Word(part.to_owned());
    };
    let schema = parameters.and_then(|parameters| parameters.get(name));
    match texts(schema.and_then(|schema| schema.get("enum"))) {
        words if words.is_empty() => {
            let is_id = schema.is_some_and(|schema| schema.get("$ref").is_some());
            if is_id { Segment::Id } else { Segment::Name }
        }
        words => Segment::One(words),
    }
}

/// The segments of a path, without the version of the interface.
fn without_version_of(path: &str) -> Vec<&str> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match parts.as_slice() {
        ["api", "am", portal, rest @ ..] => {
            // An older name of the same interface.
            let portal = if *portal == "store" { "devportal" } else { *portal };
            [&["api", "am", portal][..], without_version(rest)].concat()
        }
        // The registration accepts any version.
        ["client-registration", _, rest @ ..] => [&["client-registration"][..], rest].concat(),
        _ => parts,
    }
}

/// The OpenAPI document for the interface's definition.
fn document(written: &Value) -> Value {
    let members = |name: &str| written.get(name).and_then(Value::as_object);
    let mut paths = Map::new();
    // Harmless: a test checks that the interface is complete.
    for (path, operations) in members("paths").into_iter().flatten() {
        // Harmless: each path of the interface is an object.
        let operations = operations.as_object().into_iter().flatten();
        let made = operations
            .map(|(method, written)| (method.clone(), operation(path, written, &members)));
        paths.insert(path.clone(), Value::Object(made.collect()));
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Catalog", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "password": { "type": "http", "scheme": "basic" },
            },
            "schemas": members("schemas"),
        },
    })
}

fn operation<'w>(
    path: &str,
    written: &Value,
    members: &impl Fn(&str) -> Option<&'w Map<String, Value>>,
) -> Value {
    let schema = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let parameter = |name: &str, place: &str, required: bool| {
        let schema = members("parameters").and_then(|all| all.get(name));
        json!({ "name": name, "in": place, "required": required, "schema": schema })
    };
    // Harmless: a parameter ends with a brace.
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let mut parameters: Vec<Value> = names.map(|name| parameter(name, "path", true)).collect();
    for name in texts(written.get("query")) {
        let known = name.trim_end_matches('!');
        parameters.push(parameter(known, "query", known != name));
    }
    let mut made = json!({
        "summary": text(written, "does"),
        "responses": responses(path, written, &schema),
    });
    if !parameters.is_empty() {
        set(&mut made, "parameters", json!(parameters));
    }
    for (key, media) in BODIES {
        let name = text(written, key);
        if !name.is_empty() {
            let known = name.trim_end_matches('?');
            let content = json!({ media: { "schema": schema(known) } });
            set(&mut made, "requestBody", json!({ "required": known == name, "content": content }));
        }
    }
    let scope = text(written, "scope");
    if !scope.is_empty() {
        set(&mut made, "security", json!([{ "token": [] }]));
        set(&mut made, "x-scope", json!(scope));
    }
    if written.get("user").is_some() {
        set(&mut made, "security", json!([{ "password": [] }]));
    }
    made
}

fn responses(path: &str, written: &Value, schema: &impl Fn(&str) -> Value) -> Value {
    let status = written.get("status").and_then(Value::as_u64).unwrap_or(200);
    let mut done = json!({ "description": "Done" });
    match text(written, "answers") {
        "" => {}
        name => {
            let media = if name == "Wsdl" { "text/xml" } else { "application/json" };
            set(&mut done, "content", json!({ media: { "schema": schema(name) } }));
        }
    }
    let error = if path.starts_with("/oauth2/") {
        json!({ "anyOf": [schema("OAuthError"), schema("Error")] })
    } else {
        schema("Error")
    };
    json!({
        status.to_string(): done,
        "default": { "description": "Refused", "content": { "application/json": { "schema": error } } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::items;

    const ID: &str = "01234567-89ab-4cde-af01-23456789abcd";

    #[test]
    fn every_referenced_schema_and_parameter_exists() {
        let interface = Interface::read().unwrap();
        let document = interface.document();
        assert_eq!(document["paths"].as_object().map(Map::len), Some(54));
        let schemas = &document["components"]["schemas"];
        let whole = document.to_string();
        for rest in whole.split("#/components/schemas/").skip(1) {
            let name = rest.split('"').next().unwrap();
            assert!(schemas[name].is_object(), "{name}");
        }
        for (path, operations) in document["paths"].as_object().unwrap() {
            for (method, operation) in operations.as_object().unwrap() {
                for parameter in items(operation.get("parameters")) {
                    assert!(parameter["schema"].is_object(), "{method} {path}: {parameter}");
                }
                assert_ne!(text(operation, "summary"), "", "{method} {path}");
            }
        }
    }

    #[test]
    fn resources_are_found_in_every_version_and_unsupported_ones_are_not() {
        let interface = Interface::read().unwrap();
        let allow = |method: Method, path: &str| interface.other_methods(&method, path);
        for path in
            ["/api/am/publisher/v4/apis", "/api/am/publisher/v1/apis", "/api/am/publisher/apis"]
        {
            assert_eq!(allow(Method::DELETE, path).as_deref(), Some("GET, POST"), "{path}");
            assert_eq!(allow(Method::GET, path), None);
        }
        let one = format!("/api/am/publisher/v4/apis/{ID}");
        assert_eq!(allow(Method::PATCH, &one).as_deref(), Some("GET, PUT, DELETE"));
        for path in
            ["/api/am/publisher/v4/apis/validate-openapi", "/api/am/publisher/v4/api-products"]
        {
            assert_eq!(allow(Method::POST, path), None, "{path}");
        }
        assert!(interface.schema(&Method::PUT, &one).is_some());
        assert!(interface.schema(&Method::GET, &one).is_none());
    }
}
