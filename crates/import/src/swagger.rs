//! Converts Swagger 2 to OpenAPI 3.1: parameters in bodies and forms become request bodies, types become schemas, hosts become
//! servers. Definitions stay where they are, so that references stay valid.

use serde_json::{Map, Value as Json, json};

use crate::documents::Documents;

/// Members of a parameter that are not part of its schema.
const OF_PARAMETER: [&str; 7] =
    ["name", "in", "description", "required", "collectionFormat", "allowEmptyValue", "schema"];

const METHODS: [&str; 7] = ["get", "head", "post", "put", "patch", "delete", "options"];

/// Rewrites the root document, if it is Swagger 2.
pub(crate) fn convert(documents: &mut Documents) -> Result<(), String> {
    let known = documents.clone();
    let root = known.root();
    let Some(old) = known.at(&root) else { return Ok(()) };
    if old.get("swagger").map(crate::model::text).as_deref() != Some("2.0") {
        return Ok(());
    }
    let mut new = old.clone();
    let Some(members) = new.as_object_mut() else { return Ok(()) };
    members.remove("swagger");
    members.insert("openapi".to_owned(), json!("3.1.0"));
    members.insert("servers".to_owned(), servers(old));
    if let Some(schemes) = old.get("securityDefinitions") {
        members.insert("components".to_owned(), json!({ "securitySchemes": security(schemes) }));
    }
    let reading = SwaggerReader { documents: &known, root: old };
    if let Some(Json::Object(paths)) = members.get_mut("paths") {
        for path in paths.values_mut() {
            if let Some(item) = path.as_object_mut() {
                reading.path(item)?;
            }
        }
    }
    if let Some(document) = documents.root_mut() {
        *document = new;
    }
    Ok(())
}

struct SwaggerReader<'a> {
    documents: &'a Documents,
    root: &'a Json,
}

impl SwaggerReader<'_> {
    fn path(&self, item: &mut Map<String, Json>) -> Result<(), String> {
        let shared = self.resolved(item.remove("parameters"))?;
        for method in METHODS {
            if let Some(Json::Object(operation)) = item.get_mut(method) {
                self.operation(operation, &shared)?;
            }
        }
        Ok(())
    }

    fn operation(&self, operation: &mut Map<String, Json>, shared: &[Json]) -> Result<(), String> {
        let mut parameters = self.resolved(operation.remove("parameters"))?;
        let own = parameters.len();
        for parameter in shared {
            let same = |known: &Json| {
                known.get("name") == parameter.get("name") && known.get("in") == parameter.get("in")
            };
            if !parameters.iter().take(own).any(same) {
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
        let produces = self.types(operation, "produces", "application/json");
        if let Some(body) = body {
            operation.insert("requestBody".to_owned(), body);
        }
        operation.insert("parameters".to_owned(), Json::Array(plain));
        self.replies(operation, &produces)
    }

    fn replies(
        &self,
        operation: &mut Map<String, Json>,
        produces: &[String],
    ) -> Result<(), String> {
        let Some(Json::Object(replies)) = operation.get_mut("responses") else { return Ok(()) };
        for reply in replies.values_mut() {
            let mut read = self.resolve(reply)?;
            let Some(members) = read.as_object_mut() else { continue };
            if let Some(schema) = members.remove("schema") {
                let content = produces.iter().map(|k| (k.clone(), json!({ "schema": schema })));
                members.insert("content".to_owned(), Json::Object(content.collect()));
            }
            if let Some(Json::Object(headers)) = members.get_mut("headers") {
                for header in headers.values_mut() {
                    *header = json!({ "schema": schema(header) });
                }
            }
            *reply = read;
        }
        Ok(())
    }

    fn form(&self, operation: &Map<String, Json>, form: &[&Json]) -> Json {
        let name =
            |parameter: &Json| parameter.get("name").and_then(Json::as_str).map(str::to_owned);
        let properties = form.iter().filter_map(|p| Some((name(p)?, schema(p))));
        let required = form
            .iter()
            .filter(|p| p.get("required") == Some(&Json::Bool(true)))
            .filter_map(|p| name(p));
        let schema = json!({
            "type": "object",
            "properties": properties.collect::<Map<_, _>>(),
            "required": required.collect::<Vec<_>>(),
        });
        let encoding = form.iter().filter_map(|p| {
            let (style, explode) = format(p)?;
            Some((name(p)?, json!({ "style": style, "explode": explode })))
        });
        let content = json!({ "schema": schema, "encoding": encoding.collect::<Map<_, _>>() });
        let kinds = self.types(operation, "consumes", "application/x-www-form-urlencoded");
        let content = kinds.into_iter().map(|kind| (kind, content.clone()));
        json!({ "required": true, "content": content.collect::<Map<_, _>>() })
    }

    /// The content types of an operation, or of the document if it has none.
    fn types(&self, operation: &Map<String, Json>, name: &str, default: &str) -> Vec<String> {
        let list = operation.get(name).or_else(|| self.root.get(name)).and_then(Json::as_array);
        let types: Vec<String> =
            list.into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect();
        if types.is_empty() { vec![default.to_owned()] } else { types }
    }

    fn resolved(&self, parameters: Option<Json>) -> Result<Vec<Json>, String> {
        let Some(Json::Array(parameters)) = parameters else { return Ok(Vec::new()) };
        parameters.iter().map(|parameter| self.resolve(parameter)).collect()
    }

    fn resolve(&self, value: &Json) -> Result<Json, String> {
        let Some(reference) = value.get("$ref").and_then(Json::as_str) else {
            return Ok(value.clone());
        };
        let root = self.documents.root();
        let target = self.documents.target(root.uri(), reference);
        target.cloned().ok_or_else(|| format!("`{reference}` does not exist"))
    }
}

/// A parameter that is not a body: its type becomes its schema.
fn parameter(old: &Json) -> Json {
    let mut new = Map::new();
    for name in ["name", "in", "required"] {
        if let Some(value) = old.get(name) {
            new.insert(name.to_owned(), value.clone());
        }
    }
    if let Some(empty) = old.get("allowEmptyValue") {
        new.insert("allowEmptyValue".to_owned(), empty.clone());
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

/// The style of a list, and true if it explodes; `csv` is the default.
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

fn schema(parameter: &Json) -> Json {
    let members = parameter.as_object().into_iter().flatten();
    let members = members.filter(|(name, _)| !OF_PARAMETER.contains(&name.as_str()));
    let mut schema: Map<String, Json> =
        members.map(|(name, value)| (name.clone(), value.clone())).collect();
    if schema.get("type").and_then(Json::as_str) == Some("file") {
        schema.remove("type");
    }
    Json::Object(schema)
}

fn servers(root: &Json) -> Json {
    let text = |name: &str| root.get(name).and_then(Json::as_str).unwrap_or_default();
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
