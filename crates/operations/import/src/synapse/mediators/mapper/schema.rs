//! The schemas of a data mapper, as its engine reads them for XML.
//!
//! Owns what is taken of a schema. A part that the engine is not known to read alike in all versions is refused with its place.

use serde_json::{Map, Value as Json, json};

/// What a hyphen in a name of XML is in a name of JavaScript.
pub(super) const HYPHEN: &str = "_EnC0DeCHaRHyPh3n_";

/// Maximum depth of a schema.
const DEPTH_MAX: usize = 64;

/// Keys of a schema that have no effect on the engine, and those that it reads.
const KEYS: [&str; 13] = [
    "id",
    "$id",
    "$schema",
    "title",
    "description",
    "required",
    "additionalProperties",
    "type",
    "properties",
    "attributes",
    "items",
    "value",
    "namespaces",
];

/// A schema with its key among the artifacts.
pub(super) struct Schema<'k> {
    key: &'k str,
    read: Json,
    /// The name of the root element.
    pub(super) title: String,
}

impl<'k> Schema<'k> {
    pub(super) fn read(key: &'k str, text: &str) -> Result<Schema<'k>, String> {
        let read: Json =
            serde_json::from_str(text).map_err(|why| format!("`{key}` is not JSON: {why}"))?;
        let title = read.get("title").and_then(Json::as_str);
        let title = title.ok_or_else(|| format!("the schema `{key}` has no title"))?.to_owned();
        Ok(Schema { key, read, title })
    }

    /// Returns the title as a part of the input variable's name, and as a part of the function's name, which is without a prefix.
    pub(super) fn names(&self) -> Result<(String, String), String> {
        let title = self.title.replace('-', HYPHEN);
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        let local = title.rsplit(':').next().unwrap_or(&title);
        if local.is_empty() || !title.chars().all(is_part) {
            return Err(format!(
                "the title `{}` of the schema `{}` cannot be a part of a name",
                self.title, self.key
            ));
        }
        Ok((title.replace(':', "_"), local.to_owned()))
    }

    /// Returns an error if the schema is not one of an element that can be the message.
    pub(super) fn check_root(&self) -> Result<(), String> {
        if self.title.rsplit(':').next() == Some("Envelope") {
            return Err(self.at("/title", "a mapping of the whole envelope has no counterpart"));
        }
        match self.read.get("type").and_then(Json::as_str) {
            Some("object") => Ok(()),
            _ => Err(self.at("/type", "the root element must be an `object`")),
        }
    }

    /// Returns the namespaces by prefix.
    pub(super) fn namespaces(&self) -> Result<Vec<(String, String)>, String> {
        let mut found: Vec<(String, String)> = Vec::new();
        let Some(written) = self.read.get("namespaces") else { return Ok(found) };
        let wrong =
            || self.at("/namespaces", "it must be a list of objects with `prefix` and `url`");
        for one in written.as_array().ok_or_else(wrong)? {
            let text = |name: &str| one.get(name).and_then(Json::as_str).ok_or_else(wrong);
            let (prefix, uri) = (text("prefix")?, text("url")?);
            if found.iter().any(|(known, of)| known == prefix || of == uri) {
                let what = format!("`{prefix}` is one of several for a prefix or a namespace");
                return Err(self.at("/namespaces", &what));
            }
            found.push((prefix.to_owned(), uri.to_owned()));
        }
        Ok(found)
    }

    /// Returns the elements in the root as `read.js` takes them.
    pub(super) fn elements(&self) -> Result<Json, String> {
        let root = self.read.as_object().ok_or_else(|| self.at("/", "it must be an object"))?;
        self.check_keys(root, "")?;
        match root.get("properties") {
            Some(_) => self.children(root, "", 0),
            None => Err(self.at("/", "it has no `properties`")),
        }
    }

    /// The children and the attributes of an element. Both are found by the same names.
    fn children(&self, of: &Map<String, Json>, at: &str, depth: usize) -> Result<Json, String> {
        if depth > DEPTH_MAX {
            return Err(self.at(at, "it is too deep"));
        }
        let mut found = Map::new();
        // Attributes in the root have no type for the engine.
        let kinds: &[&str] =
            if at.is_empty() { &["properties"] } else { &["properties", "attributes"] };
        for kind in kinds {
            let Some(members) = of.get(*kind) else { continue };
            let at = format!("{at}/{kind}");
            let members =
                members.as_object().ok_or_else(|| self.at(&at, "it must be an object"))?;
            for (name, member) in members {
                let at = format!("{at}/{name}");
                if name.contains([',', '=']) {
                    return Err(self.at(&at, "elements by their `xsi:type` have no counterpart"));
                }
                if *name == self.title || name == "__proto__" {
                    return Err(self.at(&at, "an element in the root cannot have this name"));
                }
                let member =
                    member.as_object().ok_or_else(|| self.at(&at, "it must be an object"))?;
                found.insert(name.clone(), self.element(member, &at, depth)?);
            }
        }
        Ok(Json::Object(found))
    }

    fn element(&self, of: &Map<String, Json>, at: &str, depth: usize) -> Result<Json, String> {
        self.check_keys(of, at)?;
        let is_list = of.get("type").and_then(Json::as_str) == Some("array");
        let item = match (is_list, of.get("items")) {
            (false, _) => of,
            (true, Some(Json::Array(items))) if items.len() == 1 => items
                .first()
                .and_then(Json::as_object)
                .ok_or_else(|| self.at(at, "`items` has no object"))?,
            (true, Some(Json::Object(item))) => item,
            (true, _) => return Err(self.at(at, "`items` is not the schema of one item")),
        };
        self.check_keys(item, at)?;
        let kind = item.get("type").and_then(Json::as_str).unwrap_or("");
        let mut made = Map::from_iter([("type".to_owned(), json!(kind))]);
        let is_text = |kind: &str| matches!(kind, "string" | "number" | "integer" | "boolean");
        let has_elements = item.contains_key("properties");
        match kind {
            "object" => {}
            "null" if !is_list && !has_elements => {}
            _ if is_text(kind) && !has_elements => {}
            _ if is_text(kind) || kind == "null" => {
                return Err(self.at(at, "the type of a text does not go with elements in it"));
            }
            _ => return Err(self.at(at, &format!("the type `{kind}` has no counterpart"))),
        }
        if let Some(value) = item.get("value") {
            let text = value.get("type").and_then(Json::as_str);
            let text = text.filter(|_| kind == "object").ok_or_else(|| {
                self.at(&format!("{at}/value"), "it must be the type of an object's text")
            })?;
            if !is_text(text) {
                let what = format!("the type `{text}` is not one of a text");
                return Err(self.at(&format!("{at}/value"), &what));
            }
            made.insert("text".to_owned(), json!(text));
        }
        if is_list {
            made.insert("isList".to_owned(), json!(true));
        }
        made.insert("children".to_owned(), self.children(item, at, depth + 1)?);
        Ok(Json::Object(made))
    }

    fn check_keys(&self, of: &Map<String, Json>, at: &str) -> Result<(), String> {
        match of.keys().find(|key| !KEYS.contains(&key.as_str())) {
            Some(key) => {
                let what = "the engine is not known to read this key";
                Err(self.at(&format!("{at}/{key}"), what))
            }
            None => Ok(()),
        }
    }

    fn at(&self, pointer: &str, what: &str) -> String {
        format!("the schema `{}`, {pointer}: {what}", self.key)
    }
}
