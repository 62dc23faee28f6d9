//! `readOnly` and `writeOnly`: properties that must not be in a request, or in a reply.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json, json};

use crate::documents::Documents;
use crate::json_location::JsonLocation;
use crate::normal::{self, HOPS_MAX};

/// The message that a schema is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SchemaSide {
    Request,
    Response,
}

/// Properties that a schema requires, but that are excused on this side.
type ExcusedProperties = BTreeMap<JsonLocation, BTreeSet<String>>;

impl Documents {
    /// The URI of the document, and its schemas for the messages of one side: properties of the other side are neither required nor
    /// allowed.
    pub fn of_side(&self, side: SchemaSide) -> (String, Json) {
        let flag = match side {
            SchemaSide::Request => "readOnly",
            SchemaSide::Response => "writeOnly",
        };
        let root = self.root();
        let location = root.child("$defs");
        // Harmless: a document without schemas needs no change.
        let mut schemas = self.at(&location).cloned().unwrap_or_default();
        let mut excused = ExcusedProperties::new();
        // Harmless: without schemas there is nothing to change.
        let named = schemas.as_object_mut().into_iter().flatten();
        let mut named: Vec<(JsonLocation, &mut Json)> =
            named.map(|(name, schema)| (location.child(name), schema)).collect();
        for (location, schema) in &named {
            self.excuse(location, schema, flag, &mut excused);
        }
        for (location, schema) in &mut named {
            self.without(location, schema, flag, &excused);
        }
        (root.uri().to_owned(), json!({ "$defs": schemas }))
    }

    /// A composed schema requires all that its parts require. So a property of the other side is excused in all parts.
    fn excuse(
        &self,
        location: &JsonLocation,
        value: &Json,
        flag: &str,
        excused: &mut ExcusedProperties,
    ) {
        if is_of_several(value) {
            let mut parts = BTreeSet::new();
            self.add_parts(location.clone(), &mut parts);
            let gone: BTreeSet<String> =
                parts.iter().flat_map(|part| self.flagged(part, flag)).collect();
            for part in parts.into_iter().filter(|_| !gone.is_empty()) {
                excused.entry(part).or_default().extend(gone.iter().cloned());
            }
        }
        for pointer in normal::subschemas(value) {
            if let Some(inner) = value.pointer(&pointer) {
                self.excuse(&location.below(&pointer), inner, flag, excused);
            }
        }
    }

    /// A schema and all its parts, each once.
    fn add_parts(&self, location: JsonLocation, parts: &mut BTreeSet<JsonLocation>) {
        let Some(value) = self.at(&location) else { return };
        if !parts.insert(location.clone()) {
            return;
        }
        let count = value.get("allOf").and_then(Json::as_array).map_or(0, Vec::len);
        let all = location.child("allOf");
        (0..count).for_each(|at| self.add_parts(all.child(&at.to_string()), parts));
        if let Some(target) = self.referred(&location) {
            self.add_parts(target, parts);
        }
    }

    fn flagged(&self, location: &JsonLocation, flag: &str) -> Vec<String> {
        let properties = self.at(&location.child("properties")).and_then(Json::as_object);
        // Harmless: a schema may have no properties.
        let properties = properties.into_iter().flatten();
        let flagged = properties.filter(|(_, property)| self.has_flag(property, flag));
        flagged.map(|(name, _)| name.clone()).collect()
    }

    fn without(
        &self,
        location: &JsonLocation,
        value: &mut Json,
        flag: &str,
        excused: &ExcusedProperties,
    ) {
        if let Json::Object(members) = value {
            self.drop_properties(location, members, flag, excused);
        }
        for pointer in normal::subschemas(value) {
            if let Some(inner) = value.pointer_mut(&pointer) {
                self.without(&location.below(&pointer), inner, flag, excused);
            }
        }
    }

    fn drop_properties(
        &self,
        location: &JsonLocation,
        members: &mut Map<String, Json>,
        flag: &str,
        excused: &ExcusedProperties,
    ) {
        // Harmless: a schema may excuse nothing.
        let mut gone = excused.get(location).cloned().unwrap_or_default();
        if let Some(Json::Object(properties)) = members.get_mut("properties") {
            for (name, property) in properties.iter_mut() {
                if self.has_flag(property, flag) {
                    *property = Json::Bool(false);
                    gone.insert(name.clone());
                }
            }
        }
        if let Some(Json::Array(required)) = members.get_mut("required") {
            required.retain(|name| !name.as_str().is_some_and(|name| gone.contains(name)));
        }
    }

    /// True for a property that has the flag, or whose schema has it.
    fn has_flag(&self, property: &Json, flag: &str) -> bool {
        let mut property = Some(property);
        // No chain of references in a document is longer than this.
        for _ in 0..HOPS_MAX {
            let Some(value) = property else { return false };
            if value.get(flag) == Some(&Json::Bool(true)) {
                return true;
            }
            let reference = value.get("$ref").and_then(Json::as_str);
            let pointer = reference.and_then(|reference| reference.strip_prefix('#'));
            property = pointer.and_then(|pointer| self.document().pointer(pointer));
        }
        false
    }
}

fn is_of_several(value: &Json) -> bool {
    let has = |name: &str| value.get(name).is_some();
    has("allOf") || has("$ref") && (has("required") || has("properties"))
}
