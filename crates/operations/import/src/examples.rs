//! The examples of an OpenAPI document's replies.
//!
//! Owns the search for examples: beside a schema, in its members, and in files that the document refers to. A schema without
//! examples gives none.

use std::path::Path;

use serde_json::{Map, Value as Json};

use crate::files::{self, Files};
use crate::json_location::JsonLocation;
use crate::normal::HOPS_MAX;

/// The examples of one reply in one media type.
#[derive(Debug, Clone, PartialEq)]
pub struct ExampleReply {
    /// The path as in the document, such as `/pets/{id}`.
    pub path: String,
    /// The method in upper case.
    pub method: String,
    /// `200`, `2XX` or `default`.
    pub status: String,
    /// The media type, or `None` for a reply without content.
    pub media_type: Option<String>,
    /// In the order of the document.
    pub examples: Vec<Json>,
}

/// The maximum depth of an example that is composed from the examples of members.
const DEPTH_MAX: usize = 12;

/// The maximum number of schemas that are visited for all examples of a document. Later schemas give no examples.
const VALUES_MAX: usize = 20_000;

/// The examples of all replies, those of an operation in the order of the document. `looks_for` is called with every file that is needed.
pub fn examples(
    path: &Path,
    mut looks_for: impl FnMut(&Path),
) -> Result<Vec<ExampleReply>, String> {
    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
    let mut looking = |path: &Path| looks_for(path);
    let mut files = Files::new(&mut looking);
    let root = files.root_of(&files::normal(&path))?;
    let mut reader = Reader { files, values: 0, replies: Vec::new() };
    reader.paths(&root.child("paths"))?;
    Ok(reader.replies)
}

struct Reader<'l> {
    files: Files<'l>,
    values: usize,
    replies: Vec<ExampleReply>,
}

impl Reader<'_> {
    /// Follows the references at a place. Returns the place where they end, and its value; a missing value is null.
    fn follow(&mut self, at: JsonLocation) -> Result<(JsonLocation, Json), String> {
        let mut at = at;
        for _ in 0..HOPS_MAX {
            let Some(reference) = self.files.reference(&at) else {
                let value = self.files.at(&at).cloned().unwrap_or(Json::Null);
                return Ok((at, value));
            };
            at = self.files.resolve(&at, &reference)?;
        }
        Err(format!("the references at {at} go in circles"))
    }

    fn paths(&mut self, at: &JsonLocation) -> Result<(), String> {
        for path in members(&self.follow(at.clone())?.1) {
            let (item_at, item) = self.follow(at.child(&path))?;
            for method in members(&item) {
                if crate::model::METHODS.contains(&method.as_str()) {
                    let (operation, _) = self.follow(item_at.child(&method))?;
                    self.operation(&path, &method.to_ascii_uppercase(), &operation)?;
                }
            }
        }
        Ok(())
    }

    fn operation(&mut self, path: &str, method: &str, at: &JsonLocation) -> Result<(), String> {
        let responses = at.child("responses");
        for status in members(&self.follow(responses.clone())?.1) {
            let (reply_at, reply) = self.follow(responses.child(&status))?;
            let reply_of = |media_type: Option<String>, examples: Vec<Json>| {
                let (path, method) = (path.to_owned(), method.to_owned());
                ExampleReply { path, method, status: status.clone(), media_type, examples }
            };
            // Swagger 2 has the values themselves, by media type.
            if let Some(Json::Object(examples)) = reply.get("examples") {
                let one = |(media_type, value): (&String, &Json)| {
                    reply_of(Some(media_type.clone()), vec![value.clone()])
                };
                self.replies.extend(examples.iter().map(one));
                continue;
            }
            let Some(content) = reply.get("content").filter(|content| content.is_object()) else {
                self.replies.push(reply_of(None, Vec::new()));
                continue;
            };
            for media_type in members(content) {
                let at = reply_at.child("content").child(&media_type);
                let examples = self.of_content(&at)?;
                self.replies.push(reply_of(Some(media_type), examples));
            }
        }
        Ok(())
    }

    fn of_content(&mut self, at: &JsonLocation) -> Result<Vec<Json>, String> {
        let (at, content) = self.follow(at.clone())?;
        if let Some(example) = content.get("example") {
            return Ok(vec![example.clone()]);
        }
        let named = content.get("examples").map_or_else(Vec::new, members);
        let mut examples = Vec::new();
        for name in named {
            let (_, example) = self.follow(at.child("examples").child(&name))?;
            examples.extend(example.get("value").cloned());
        }
        if examples.is_empty() {
            examples.extend(self.of_schema(at.child("schema"), 0)?);
        }
        Ok(examples)
    }

    /// The example of a schema, or one that is composed from the examples of its members.
    fn of_schema(&mut self, at: JsonLocation, depth: usize) -> Result<Option<Json>, String> {
        self.values += 1;
        if depth > DEPTH_MAX || self.values > VALUES_MAX {
            return Ok(None);
        }
        let (at, schema) = self.follow(at)?;
        let first = |name: &str| schema.get(name).and_then(Json::as_array)?.first().cloned();
        let own = schema.get("example").or_else(|| schema.get("const")).cloned();
        let own = own.or_else(|| first("examples")).or_else(|| schema.get("default").cloned());
        if let Some(own) = own.or_else(|| first("enum")) {
            return Ok(Some(own));
        }
        let mut object = Map::new();
        let parts = schema.get("allOf").and_then(Json::as_array).map_or(0, Vec::len);
        for part in 0..parts {
            let part = at.child("allOf").child(&part.to_string());
            if let Some(Json::Object(more)) = self.of_schema(part, depth + 1)? {
                object.extend(more);
            }
        }
        for name in schema.get("properties").map_or_else(Vec::new, members) {
            let member = at.child("properties").child(&name);
            if let Some(value) = self.of_schema(member, depth + 1)? {
                object.insert(name, value);
            }
        }
        if !object.is_empty() {
            return Ok(Some(Json::Object(object)));
        }
        if schema.get("items").is_some() {
            let item = self.of_schema(at.child("items"), depth + 1)?;
            return Ok(item.map(|item| Json::Array(vec![item])));
        }
        Ok(None)
    }
}

fn members(value: &Json) -> Vec<String> {
    value.as_object().map_or_else(Vec::new, |members| members.keys().cloned().collect())
}
