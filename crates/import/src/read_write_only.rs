//! `readOnly` and `writeOnly`: properties that must not be in a request, or in a reply.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json};

use crate::documents::{Documents, JsonLocation};

/// The message that a schema is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SchemaSide {
    Request,
    Response,
}

/// Properties that a schema requires, but that are excused on this side.
type ExcusedProperties = BTreeMap<JsonLocation, BTreeSet<String>>;

impl Documents {
    /// The documents for the messages of one side: properties of the other side are neither required nor allowed.
    pub fn of_side(&self, side: SchemaSide) -> Vec<(String, Json)> {
        let flag = match side {
            SchemaSide::Request => "readOnly",
            SchemaSide::Response => "writeOnly",
        };
        let mut excused = ExcusedProperties::new();
        for (uri, document) in self.files() {
            self.excuse(&JsonLocation::of_file(uri), document, flag, &mut excused);
        }
        let files = self.files().map(|(uri, document)| {
            let mut document = document.clone();
            self.without(&JsonLocation::of_file(uri), &mut document, flag, &excused);
            (uri.to_owned(), document)
        });
        files.collect()
    }

    /// A composed schema requires all that its parts require. So a property of the other side is excused in all parts.
    fn excuse(
        &self,
        spot: &JsonLocation,
        value: &Json,
        flag: &str,
        excused: &mut ExcusedProperties,
    ) {
        if is_of_several(value) {
            let mut parts = Vec::new();
            self.add_parts(spot.clone(), &mut parts);
            let gone: BTreeSet<String> =
                parts.iter().flat_map(|part| self.flagged(part, flag)).collect();
            for part in parts.into_iter().filter(|_| !gone.is_empty()) {
                excused.entry(part).or_default().extend(gone.iter().cloned());
            }
        }
        match value {
            Json::Object(members) => members
                .iter()
                .filter(|(name, _)| is_schema(name))
                .for_each(|(name, member)| self.excuse(&spot.child(name), member, flag, excused)),
            Json::Array(items) => items.iter().enumerate().for_each(|(at, item)| {
                self.excuse(&spot.child(&at.to_string()), item, flag, excused);
            }),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
        }
    }

    /// A schema and all its parts, each once.
    fn add_parts(&self, spot: JsonLocation, parts: &mut Vec<JsonLocation>) {
        let Some(value) = self.at(&spot).filter(|_| !parts.contains(&spot)) else { return };
        parts.push(spot.clone());
        let count = value.get("allOf").and_then(Json::as_array).map_or(0, Vec::len);
        let all = spot.child("allOf");
        (0..count).for_each(|at| self.add_parts(all.child(&at.to_string()), parts));
        if let Ok(target) = self.follow(spot) {
            self.add_parts(target, parts);
        }
    }

    fn flagged(&self, spot: &JsonLocation, flag: &str) -> Vec<String> {
        let properties = self.at(&spot.child("properties")).and_then(Json::as_object);
        let properties = properties.into_iter().flatten();
        let flagged = properties.filter(|(_, property)| self.has_flag(spot.uri(), property, flag));
        flagged.map(|(name, _)| name.clone()).collect()
    }

    fn without(
        &self,
        spot: &JsonLocation,
        value: &mut Json,
        flag: &str,
        excused: &ExcusedProperties,
    ) {
        match value {
            Json::Object(members) => {
                self.drop_properties(spot, members, flag, excused);
                members.iter_mut().filter(|(name, _)| is_schema(name)).for_each(
                    |(name, member)| {
                        self.without(&spot.child(name), member, flag, excused);
                    },
                );
            }
            Json::Array(items) => items.iter_mut().enumerate().for_each(|(at, item)| {
                self.without(&spot.child(&at.to_string()), item, flag, excused);
            }),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
        }
    }

    fn drop_properties(
        &self,
        spot: &JsonLocation,
        members: &mut Map<String, Json>,
        flag: &str,
        excused: &ExcusedProperties,
    ) {
        let mut gone = excused.get(spot).cloned().unwrap_or_default();
        if let Some(Json::Object(properties)) = members.get_mut("properties") {
            for (name, property) in properties.iter_mut() {
                if self.has_flag(spot.uri(), property, flag) {
                    *property = Json::Bool(false);
                    gone.insert(name.clone());
                }
            }
        }
        if let Some(Json::Array(required)) = members.get_mut("required") {
            required.retain(|name| !name.as_str().is_some_and(|name| gone.contains(name)));
        }
    }

    fn has_flag(&self, uri: &str, property: &Json, flag: &str) -> bool {
        let flagged = |value: &Json| value.get(flag) == Some(&Json::Bool(true));
        let reference = property.get("$ref").and_then(Json::as_str);
        let target = reference.and_then(|reference| self.target(uri, reference));
        flagged(property) || target.is_some_and(flagged)
    }
}

/// False for examples, which may contain anything.
fn is_schema(member: &str) -> bool {
    !matches!(member, "example" | "examples" | "default" | "enum" | "const")
}

fn is_of_several(value: &Json) -> bool {
    let has = |name: &str| value.get(name).is_some();
    has("allOf") || has("$ref") && (has("required") || has("properties"))
}
