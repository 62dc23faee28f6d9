//! Derives from schemas how the text values of parameters and form fields are converted to JSON values.

use import::{Documents, JsonLocation};
use mediation::openapi::{Object, ParameterTypes, Types};
use serde_json::Value as Json;

/// The maximum depth of references followed within schemas to find the types of a text.
const DEPTH_MAX: usize = 8;

/// The maximum nesting of objects: a form has members, and a member may itself have members, written in brackets.
const LEVELS_MAX: usize = 2;

/// Reads the schemas of a document.
pub(super) struct Shapes<'a> {
    pub(super) documents: &'a Documents,
}

impl Shapes<'_> {
    /// Returns the types that a text may have under a schema.
    pub(super) fn shape(
        &self,
        location: &JsonLocation,
        depth: usize,
        level: usize,
    ) -> ParameterTypes {
        let types = self.type_names(location, depth);
        let has = |name: &str| types.iter().any(|known| known == name);
        if has("array") {
            let items = self.items(location, depth);
            ParameterTypes::List(
                // Harmless: items without a schema are texts.
                items.map(|items| self.types(&items, depth + 1)).unwrap_or_default(),
            )
        } else if has("object") && level < LEVELS_MAX {
            ParameterTypes::Object(self.object(location, depth, level))
        } else if has("object") {
            ParameterTypes::Object(Object::default())
        } else {
            ParameterTypes::Plain(self.types(location, depth))
        }
    }

    fn types(&self, location: &JsonLocation, depth: usize) -> Types {
        let types = self.type_names(location, depth);
        let has = |name: &str| types.iter().any(|known| known == name);
        Types {
            number: has("number") || has("integer"),
            boolean: has("boolean"),
            null: has("null"),
            anything: self.documents.at(location).is_some_and(says_nothing),
        }
    }

    /// Returns every `type` that a schema or one of its parts names.
    fn type_names(&self, location: &JsonLocation, depth: usize) -> Vec<String> {
        let mut names = Vec::new();
        let Some(value) = self.documents.at(location).filter(|_| depth < DEPTH_MAX) else {
            return names;
        };
        match value.get("type") {
            Some(Json::String(one)) => names.push(one.clone()),
            Some(Json::Array(several)) => {
                // Harmless: the schema compiler refuses an unknown type name.
                names.extend(several.iter().filter_map(Json::as_str).map(str::to_owned));
            }
            _ if value.get("properties").is_some() => names.push("object".to_owned()),
            _ => {
                // Harmless: the schema compiler refuses an `enum` that is not a list.
                let listed = value.get("enum").and_then(Json::as_array).into_iter().flatten();
                let values = listed.chain(value.get("const"));
                // Harmless: a list or a map is not text.
                names.extend(values.filter_map(scalar).map(str::to_owned));
            }
        }
        for part in self.parts(location) {
            names.extend(self.type_names(&part, depth + 1));
        }
        names
    }

    /// Returns the schemas that `allOf`, `anyOf` and `oneOf` combine.
    fn parts(&self, location: &JsonLocation) -> Vec<JsonLocation> {
        let lists = ["allOf", "anyOf", "oneOf"].map(|name| location.child(name));
        let parts = lists.iter().flat_map(|list| {
            let count = self.documents.at(list).and_then(Json::as_array).map_or(0, Vec::len);
            (0..count).map(|at| list.child(&at.to_string()))
        });
        let parts = parts.map(|part| self.documents.follow(part));
        parts
            .chain(self.documents.referred(location))
            .chain(self.documents.schema(location, "then"))
            .collect()
    }

    /// Returns the schema of an array's items, which may be in one of the combined parts.
    fn items(&self, location: &JsonLocation, depth: usize) -> Option<JsonLocation> {
        if depth >= DEPTH_MAX {
            return None;
        }
        let own = self.documents.schema(location, "items");
        own.or_else(|| self.parts(location).iter().find_map(|part| self.items(part, depth + 1)))
    }

    /// Returns the members of an object in a parameter or a form. `level` is the number of objects that enclose it.
    pub(super) fn object(&self, location: &JsonLocation, depth: usize, level: usize) -> Object {
        let mut object = Object::default();
        if depth >= DEPTH_MAX {
            return object;
        }
        let properties = location.child("properties");
        let names = self.documents.at(&properties).and_then(Json::as_object);
        for name in names.into_iter().flat_map(|members| members.keys()) {
            let at = self.documents.follow(properties.child(name));
            object.members.push((name.as_str().into(), self.shape(&at, depth + 1, level + 1)));
        }
        match self.documents.schema(location, "additionalProperties") {
            Some(others) => match self.shape(&others, depth + 1, level + 1) {
                ParameterTypes::List(types) => {
                    (object.others, object.others_are_lists) = (types, true);
                }
                ParameterTypes::Plain(_) | ParameterTypes::Object(_) => {
                    object.others = self.types(&others, depth + 1);
                }
            },
            // `patternProperties` is not evaluated here.
            None => {
                object.others.anything =
                    self.documents.at(&location.child("patternProperties")).is_none();
            }
        }
        for part in self.parts(location) {
            object.members.extend(self.object(&part, depth + 1, level).members);
        }
        object
    }
}

/// Returns true for a schema that is a boolean or consists of annotations only.
fn says_nothing(schema: &Json) -> bool {
    let words =
        ["title", "description", "default", "example", "examples", "deprecated", "nullable"];
    match schema {
        Json::Bool(_) => true,
        Json::Object(members) => {
            members.keys().all(|name| words.contains(&name.as_str()) || name.starts_with("x-"))
        }
        Json::Null | Json::Number(_) | Json::String(_) | Json::Array(_) => false,
    }
}

/// Returns the type of a scalar value, or `None` for a list or a map.
fn scalar(value: &Json) -> Option<&'static str> {
    match value {
        Json::Null => Some("null"),
        Json::Bool(_) => Some("boolean"),
        Json::Number(_) => Some("number"),
        Json::String(_) | Json::Array(_) | Json::Object(_) => None,
    }
}
