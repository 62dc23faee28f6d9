//! The operations of a document.

use serde_json::Value as Json;

use crate::documents::Documents;
use crate::json_location::JsonLocation;

/// Members of a path that are operations.
pub(crate) const METHODS: [&str; 9] =
    ["get", "head", "post", "put", "patch", "delete", "options", "trace", "query"];

/// The operations that a document describes.
#[derive(Debug)]
pub struct Model {
    pub title: String,
    pub version: String,
    pub paths: Vec<Path>,
}

#[derive(Debug)]
pub struct Path {
    /// The path as in the document: `/pets/{id}`.
    pub template: String,
    pub location: JsonLocation,
    pub operations: Vec<Operation>,
}

#[derive(Debug)]
pub struct Operation {
    /// The method in upper case.
    pub method: String,
    pub location: JsonLocation,
    pub parameters: Vec<Parameter>,
    pub body: Option<Body>,
    pub replies: Vec<Reply>,
}

#[derive(Debug)]
pub struct Parameter {
    pub name: String,
    /// `path`, `query`, `header` or `cookie`.
    pub place: String,
    pub required: bool,
    pub style: Option<String>,
    pub explode: Option<bool>,
    pub schema: Option<JsonLocation>,
    /// True if its value is JSON.
    pub json: bool,
    /// True if it may be empty, whatever its schema allows.
    pub may_be_empty: bool,
}

#[derive(Debug)]
pub struct Body {
    pub required: bool,
    pub content: Vec<Content>,
}

#[derive(Debug)]
pub struct Content {
    /// In lower case, without parameters. It may be a range such as `text/*`.
    pub media_type: String,
    pub schema: Option<JsonLocation>,
    /// The encoding of a form's members, if the document specifies it.
    pub encoding: Vec<FieldEncoding>,
}

/// The encoding of a member of a form.
#[derive(Debug)]
pub struct FieldEncoding {
    pub name: String,
    pub style: Option<String>,
    pub explode: Option<bool>,
    /// True if its value is JSON.
    pub json: bool,
}

#[derive(Debug)]
pub struct Reply {
    /// `200`, `2XX` or `default`.
    pub status: String,
    pub content: Vec<Content>,
    pub headers: Vec<Parameter>,
}

impl Model {
    /// Reads the operations, or returns all errors.
    pub fn read(documents: &Documents) -> Result<Model, Vec<String>> {
        let root = documents.root();
        let info = |name: &str| documents.document().pointer(&format!("/info/{name}")).map(text);
        let mut model = Model {
            // Harmless: the title is only passed on to interceptors, and a missing one is passed on as an empty text.
            title: info("title").unwrap_or_default(),
            // Harmless: the version is only passed on, like the title.
            version: info("version").unwrap_or_default(),
            paths: Vec::new(),
        };
        let mut faults = Vec::new();
        let paths = root.child("paths");
        for template in names(documents, &paths) {
            model.paths.push(path(documents, &paths, &template, &mut faults));
        }
        if faults.is_empty() { Ok(model) } else { Err(faults) }
    }
}

fn path(
    documents: &Documents,
    paths: &JsonLocation,
    template: &str,
    faults: &mut Vec<String>,
) -> Path {
    let location = paths.child(template);
    let shared = parameters(documents, &location);
    let mut operations = Vec::new();
    for name in
        names(documents, &location).into_iter().filter(|name| METHODS.contains(&name.as_str()))
    {
        match operation(documents, &location.child(&name), &name, &shared) {
            Ok(operation) => operations.push(operation),
            Err(fault) => faults.push(fault),
        }
    }
    Path { template: template.to_owned(), location, operations }
}

fn operation(
    documents: &Documents,
    location: &JsonLocation,
    name: &str,
    shared: &[JsonLocation],
) -> Result<Operation, String> {
    let mut parameters_of: Vec<Parameter> = Vec::new();
    // Parameters of the operation replace the path's with the same name and place.
    for at in parameters(documents, location).iter().chain(shared) {
        let read = parameter(documents, at, None)?;
        let same = |known: &Parameter| known.name == read.name && known.place == read.place;
        if !parameters_of.iter().any(same) {
            parameters_of.push(read);
        }
    }
    let body = location.child("requestBody");
    let body = if documents.at(&body).is_some() {
        Some(Body {
            required: flag(documents, &body, "required")?.unwrap_or(false),
            content: content(documents, &body),
        })
    } else {
        None
    };
    let responses = location.child("responses");
    let mut replies = Vec::new();
    for status in names(documents, &responses) {
        let at = responses.child(&status);
        replies.push(Reply {
            status,
            content: content(documents, &at),
            headers: headers(documents, &at)?,
        });
    }
    Ok(Operation {
        method: name.to_ascii_uppercase(),
        location: location.clone(),
        parameters: parameters_of,
        body,
        replies,
    })
}

/// The places of the parameters of a path or an operation.
fn parameters(documents: &Documents, location: &JsonLocation) -> Vec<JsonLocation> {
    let list = location.child("parameters");
    let count = documents.at(&list).and_then(Json::as_array).map_or(0, Vec::len);
    (0..count).map(|at| list.child(&at.to_string())).collect()
}

/// Reads a parameter, or a header of a reply. `name` is the key of a header; a parameter has its name as a member.
fn parameter(
    documents: &Documents,
    at: &JsonLocation,
    name: Option<&str>,
) -> Result<Parameter, String> {
    let value = documents.at(at).unwrap_or(&Json::Null);
    let word = |name: &str| value.get(name).and_then(Json::as_str).map(str::to_owned);
    let missing = |what: &str| format!("{at}: a parameter without `{what}`");
    let (name, place) = match name {
        Some(name) => (name.to_owned(), "header".to_owned()),
        None => {
            (word("name").ok_or_else(|| missing("name"))?, word("in").ok_or_else(|| missing("in"))?)
        }
    };
    if !matches!(place.as_str(), "path" | "query" | "header" | "cookie") {
        return Err(format!("{at}: a parameter cannot be in `{place}`"));
    }
    let (schema, json) = match documents.schema(at, "schema") {
        Some(schema) => (Some(schema), false),
        None => match content(documents, at).into_iter().next() {
            Some(content) => (content.schema, is_json(&content.media_type)),
            None => (None, false),
        },
    };
    Ok(Parameter {
        required: flag(documents, at, "required")?.unwrap_or(false) || place == "path",
        may_be_empty: flag(documents, at, "allowEmptyValue")?.unwrap_or(false),
        style: word("style"),
        explode: flag(documents, at, "explode")?,
        name,
        place,
        schema,
        json,
    })
}

fn headers(documents: &Documents, reply: &JsonLocation) -> Result<Vec<Parameter>, String> {
    let headers = reply.child("headers");
    let names = names(documents, &headers).into_iter();
    let names = names.filter(|name| !name.eq_ignore_ascii_case("content-type"));
    names.map(|name| parameter(documents, &headers.child(&name), Some(&name))).collect()
}

fn content(documents: &Documents, of: &JsonLocation) -> Vec<Content> {
    let content = of.child("content");
    let names = names(documents, &content).into_iter();
    let read = names.map(|name| {
        let at = content.child(&name);
        // Harmless: the media type is a part of a valid text, so no character is replaced.
        let plain = String::from_utf8_lossy(message::media_type(name.as_bytes()));
        Content {
            media_type: plain.to_ascii_lowercase(),
            schema: documents.schema(&at, "schema"),
            encoding: encoding(documents, &at),
        }
    });
    read.collect()
}

fn encoding(documents: &Documents, content: &JsonLocation) -> Vec<FieldEncoding> {
    let encoding = documents.at(&content.child("encoding")).and_then(Json::as_object);
    // Harmless: without `encoding`, the defaults apply to all members.
    let read = encoding.into_iter().flatten().map(|(name, said)| {
        let kind = said.get("contentType").and_then(Json::as_str);
        FieldEncoding {
            name: name.clone(),
            style: said.get("style").and_then(Json::as_str).map(str::to_owned),
            explode: said.get("explode").and_then(Json::as_bool),
            json: kind.is_some_and(is_json),
        }
    });
    read.collect()
}

fn is_json(media_type: &str) -> bool {
    message::is_json(message::media_type(media_type.as_bytes()))
}

fn names(documents: &Documents, location: &JsonLocation) -> Vec<String> {
    let members = documents.at(location).and_then(Json::as_object);
    members.map_or_else(Vec::new, |members| members.keys().cloned().collect())
}

/// The value of a boolean member, or `None` if the member is absent.
fn flag(
    documents: &Documents,
    location: &JsonLocation,
    name: &str,
) -> Result<Option<bool>, String> {
    let Some(value) = documents.at(location).and_then(|value| value.get(name)) else {
        return Ok(None);
    };
    let read = value.as_bool().map(Some);
    read.ok_or_else(|| format!("{location}: `{name}` must be true or false, and is {value}"))
}

/// A scalar as text: versions are often written as numbers.
pub(crate) fn text(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A truth value, which may be written as text.
pub(crate) fn truth(value: &Json) -> Option<bool> {
    // Harmless: the callers refuse or report other values.
    value.as_bool().or_else(|| value.as_str().and_then(|text| text.parse().ok()))
}
