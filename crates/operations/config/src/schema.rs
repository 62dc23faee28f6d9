//! The parts of the JSON Schema of the configuration.
//!
//! Owns how sections become `$defs`. The values of each key are described by the `Decode::schema` of its type.

use serde_json::{Map, Number, Value as Json, json};

/// Collects the sections seen so far, so that each is written once.
#[derive(Default)]
pub struct SchemaBuilder {
    sections: Map<String, Json>,
}

/// The keys of one section while they are collected.
pub struct SectionSchema<'b> {
    pub(crate) builder: &'b mut SchemaBuilder,
    properties: Map<String, Json>,
    required: Vec<&'static str>,
    /// Rules for keys that have two names.
    named: Vec<Json>,
}

impl SchemaBuilder {
    /// Returns the schema (draft 2020-12) of a file with this section as its root.
    pub(crate) fn document(self, title: &str, root: &Json) -> Json {
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": title,
            "$ref": root.get("$ref"),
            "$defs": self.sections,
        })
    }

    /// Returns a reference to a section, which is written once.
    pub fn section(
        &mut self,
        name: &str,
        doc: &str,
        keys: impl FnOnce(&mut SectionSchema<'_>),
    ) -> Json {
        if !self.sections.contains_key(name) {
            // Reserves the name, so that a section that contains itself does not recurse forever.
            self.sections.insert(name.to_owned(), Json::Null);
            let mut section = SectionSchema {
                builder: self,
                properties: Map::new(),
                required: Vec::new(),
                named: Vec::new(),
            };
            keys(&mut section);
            let SectionSchema { properties, required, named, .. } = section;
            let mut schema = json!({
                "type": "object",
                "description": words(doc),
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            });
            if let Some(schema) = schema.as_object_mut().filter(|_| !named.is_empty()) {
                schema.insert("allOf".to_owned(), named.into());
            }
            self.sections.insert(name.to_owned(), schema);
        }
        json!({ "$ref": format!("#/$defs/{name}") })
    }
}

impl SectionSchema<'_> {
    /// Adds a key of the section. Without a default it is required.
    pub(crate) fn add(
        &mut self,
        key: &'static str,
        doc: &str,
        mut schema: Json,
        default: Option<Json>,
    ) {
        let is_required = default.is_none();
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("description".to_owned(), words(doc).into());
            if let Some(default) = default.filter(|default| !default.is_null()) {
                schema.insert("default".to_owned(), default);
            }
        }
        if is_required {
            self.required.push(key);
        }
        self.properties.insert(key.to_owned(), schema);
    }

    /// Adds another name of a key that was added before. The schema marks the other name as deprecated.
    pub fn other_name(&mut self, key: &'static str, other: &'static str) {
        // Harmless: a key is added before its other name.
        let mut schema = self.properties.get(key).cloned().unwrap_or_default();
        if let Some(schema) = schema.as_object_mut() {
            schema.insert("description".to_owned(), format!("Another name of `{key}`.").into());
            schema.insert("deprecated".to_owned(), true.into());
        }
        self.properties.insert(other.to_owned(), schema);
        let needed = self.required.iter().position(|name| *name == key);
        let held = match needed.map(|at| self.required.remove(at)) {
            Some(_) => json!({ "oneOf": [{ "required": [key] }, { "required": [other] }] }),
            None => json!({ "not": { "required": [key, other] } }),
        };
        self.named.push(held);
    }
}

/// Returns a doc comment as one paragraph.
fn words(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the schema of one of a few words. Words that look like numbers may also be written as numbers.
pub fn one_of(words: &[&str]) -> Json {
    // Harmless: a word that is not a number is only written as text.
    let number = |word: &&str| word.parse().ok().and_then(Number::from_f64).map(Json::Number);
    // Harmless: a word that is not a number is only written as text.
    let numbers = words.iter().filter_map(number);
    json!({ "enum": words.iter().map(|word| Json::from(*word)).chain(numbers).collect::<Vec<_>>() })
}

/// Returns the schema of a map with exactly one of these keys.
pub(crate) fn one_key_of(keys: impl IntoIterator<Item = (&'static str, Json)>) -> Json {
    let one_key = |(name, keys): (&str, Json)| {
        json!({
            "type": "object",
            "properties": { name: keys },
            "required": [name],
            "additionalProperties": false,
        })
    };
    json!({ "anyOf": keys.into_iter().map(one_key).collect::<Vec<_>>() })
}

/// Returns the schema of a text that matches a pattern or has references.
pub(crate) fn text_like(pattern: &str) -> Json {
    json!({ "type": "string", "pattern": format!("{pattern}|\\$\\{{") })
}

/// Returns the schema of a number or a boolean, or of a text with references.
pub(crate) fn bare(kind: &str) -> Json {
    // `pattern` applies to strings only, so the bounds of the number can be in the same schema.
    json!({ "type": [kind, "string"], "pattern": "\\$\\{" })
}

/// Marks the schema of a secret value with `x-secret`.
pub(crate) fn marked(mut schema: serde_json::Value) -> serde_json::Value {
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("writeOnly".to_owned(), true.into());
        schema.insert("x-secret".to_owned(), true.into());
    }
    schema
}
