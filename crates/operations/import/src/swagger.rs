//! Converts Swagger 2 to OpenAPI 3.1: parameters in bodies and forms become request bodies, types become schemas, hosts become
//! servers. In the document, only schemas still have references.

use serde_json::{Map, Value as Json, json};

/// Members of a path that are operations.
const METHODS: [&str; 7] = ["get", "head", "post", "put", "patch", "delete", "options"];

/// The schema for a download, which has no constraints.
pub(crate) fn file() -> Json {
    json!({ "type": "file" })
}

/// Rewrites a document. Returns the schemas of its forms, by the names under which they belong to its `$defs`.
pub(crate) fn convert(members: &mut Map<String, Json>) -> Vec<(String, Json)> {
    let old = Json::Object(members.clone());
    members.remove("swagger");
    members.insert("openapi".to_owned(), json!("3.1.0"));
    members.insert("servers".to_owned(), servers(&old));
    if let Some(schemes) = old.get("securityDefinitions") {
        members.insert("components".to_owned(), json!({ "securitySchemes": security(schemes) }));
    }
    let mut reading = SwaggerReader { root: &old, forms: Vec::new() };
    if let Some(Json::Object(paths)) = members.get_mut("paths") {
        // Harmless: a value that is not a map is refused when the model is read.
        paths.values_mut().filter_map(Json::as_object_mut).for_each(|item| reading.path(item));
    }
    reading.forms
}

struct SwaggerReader<'a> {
    root: &'a Json,
    forms: Vec<(String, Json)>,
}

impl SwaggerReader<'_> {
    fn path(&mut self, item: &mut Map<String, Json>) {
        let shared = list(item.remove("parameters"));
        for method in METHODS {
            if let Some(Json::Object(operation)) = item.get_mut(method) {
                self.operation(operation, &shared);
            }
        }
    }

    fn operation(&mut self, operation: &mut Map<String, Json>, shared: &[Json]) {
        let mut parameters = list(operation.remove("parameters"));
        let own = parameters.len();
        for parameter in shared {
            let same = |known: &Json| {
                known.get("name") == parameter.get("name") && known.get("in") == parameter.get("in")
            };
            if !parameters.get(..own).unwrap_or_default().iter().any(same) {
                parameters.push(parameter.clone());
            }
        }
        let is_in = |place: &'static str| {
            move |parameter: &&Json| parameter.get("in").and_then(Json::as_str) == Some(place)
        };
        let consumes = self.types(operation, "consumes", "application/json");
        let body = parameters.iter().find(is_in("body")).map(|body| {
            let content = consumes.iter().map(|kind| {
                (kind.clone(), json!({ "schema": body.get("schema").unwrap_or(&json!({})) }))
            });
            let required = body.get("required").cloned().unwrap_or(Json::Bool(false));
            json!({ "required": required, "content": content.collect::<Map<_, _>>() })
        });
        let form: Vec<&Json> = parameters.iter().filter(is_in("formData")).collect();
        let body = body.or_else(|| (!form.is_empty()).then(|| self.form(operation, &form)));
        let plain = parameters.iter().filter(|p| !is_in("body")(p) && !is_in("formData")(p));
        let plain: Vec<Json> = plain.map(parameter).collect();
        if let Some(body) = body {
            operation.insert("requestBody".to_owned(), body);
        }
        operation.insert("parameters".to_owned(), Json::Array(plain));
        self.replies(operation);
    }

    fn replies(&self, operation: &mut Map<String, Json>) {
        let produces = self.types(operation, "produces", "application/json");
        let downloads = self.types(operation, "produces", "*/*");
        let Some(Json::Object(replies)) = operation.get_mut("responses") else { return };
        // Harmless: a value that is not a map is refused earlier.
        for members in replies.values_mut().filter_map(Json::as_object_mut) {
            match members.remove("schema") {
                Some(schema) if schema == file() => {
                    let content = downloads.iter().map(|kind| (kind.clone(), json!({})));
                    members.insert("content".to_owned(), Json::Object(content.collect()));
                }
                Some(schema) => {
                    let content = produces.iter().map(|k| (k.clone(), json!({ "schema": schema })));
                    members.insert("content".to_owned(), Json::Object(content.collect()));
                }
                None => {}
            }
        }
    }

    fn form(&mut self, operation: &Map<String, Json>, form: &[&Json]) -> Json {
        let named =
            |parameter: &Json| parameter.get("name").and_then(Json::as_str).map(str::to_owned);
        // Harmless: a parameter without a name was refused before.
        let properties = form.iter().filter_map(|p| Some((named(p)?, schema(p))));
        let is_required = |p: &&&Json| p.get("required") == Some(&Json::Bool(true));
        // Harmless: a parameter without a name was refused before.
        let required: Vec<String> =
            form.iter().filter(is_required).filter_map(|p| named(p)).collect();
        let is_required = !required.is_empty();
        let schema = json!({
            "type": "object",
            "properties": properties.collect::<Map<_, _>>(),
            "required": required,
        });
        // Harmless: only a list has a style.
        let encoding = form.iter().filter_map(|p| {
            let (style, explode) = format(p)?;
            Some((named(p)?, json!({ "style": style, "explode": explode })))
        });
        let encoding: Map<String, Json> = encoding.collect();
        let name = format!("form{}", self.forms.len());
        let reference = json!({ "$ref": format!("#/$defs/{name}") });
        self.forms.push((name, schema));
        let content = json!({ "schema": reference, "encoding": encoding });
        let kinds = self.types(operation, "consumes", "application/x-www-form-urlencoded");
        let content = kinds.into_iter().map(|kind| (kind, content.clone()));
        json!({ "required": is_required, "content": content.collect::<Map<_, _>>() })
    }

    /// The content types of an operation, or of the document if it has none.
    fn types(&self, operation: &Map<String, Json>, name: &str, default: &str) -> Vec<String> {
        let list = operation.get(name).or_else(|| self.root.get(name)).and_then(Json::as_array);
        // Harmless: a type that is not text counts as absent, and the default holds.
        let types: Vec<String> =
            list.into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect();
        if types.is_empty() { vec![default.to_owned()] } else { types }
    }
}

fn list(parameters: Option<Json>) -> Vec<Json> {
    match parameters {
        Some(Json::Array(parameters)) => parameters,
        _ => Vec::new(),
    }
}

/// A parameter that is not a body.
fn parameter(old: &Json) -> Json {
    let mut new = Map::new();
    for name in ["name", "in", "required", "allowEmptyValue"] {
        if let Some(value) = old.get(name) {
            new.insert(name.to_owned(), value.clone());
        }
    }
    let in_query = old.get("in").and_then(Json::as_str) == Some("query");
    let plain = if in_query { "form" } else { "simple" };
    let (style, explode) = format(old).unwrap_or((plain, false));
    let style = if style == "form" && !explode { plain } else { style };
    new.insert("style".to_owned(), json!(style));
    new.insert("explode".to_owned(), json!(explode));
    new.insert("schema".to_owned(), schema(old));
    Json::Object(new)
}

fn schema(parameter: &Json) -> Json {
    parameter.get("schema").cloned().unwrap_or_else(|| json!({}))
}

/// The style of a list, and whether it explodes. `None` if the parameter is not a list. The default format is `csv`.
fn format(parameter: &Json) -> Option<(&'static str, bool)> {
    let is_list = parameter.get("type").and_then(Json::as_str) == Some("array");
    is_list.then(|| match parameter.get("collectionFormat").and_then(Json::as_str) {
        Some("multi") => ("form", true),
        Some("ssv") => ("spaceDelimited", false),
        Some("tsv") => ("tabDelimited", false),
        Some("pipes") => ("pipeDelimited", false),
        _ => ("form", false),
    })
}

fn servers(root: &Json) -> Json {
    let text = |name: &str| root.get(name).and_then(Json::as_str).unwrap_or("");
    let (host, base) = (text("host"), text("basePath").trim_end_matches('/'));
    let schemes = root.get("schemes").and_then(Json::as_array);
    let scheme = schemes.and_then(|s| s.first()).and_then(Json::as_str).unwrap_or("http");
    match host {
        "" => json!([{ "url": if base.is_empty() { "/" } else { base } }]),
        host => json!([{ "url": format!("{scheme}://{host}{base}") }]),
    }
}

/// `basic` becomes `http`; the other schemes are told apart by their type alone.
fn security(schemes: &Json) -> Json {
    // Harmless: without a map no scheme is defined, and each requirement then names an unknown scheme.
    let schemes = schemes.as_object().into_iter().flatten();
    let converted = schemes.map(|(name, scheme)| {
        let converted = match scheme.get("type").and_then(Json::as_str) {
            Some("basic") => json!({ "type": "http", "scheme": "basic" }),
            _ => scheme.clone(),
        };
        (name.clone(), converted)
    });
    Json::Object(converted.collect())
}
