//! `discriminator`: a property whose value names the schema that an object has to match.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value as Json, json};

use super::{HOPS_MAX, Reader, SchemaUse, Version};
use crate::json_location::JsonLocation;

/// The name and the place of each schema that inherits another by `allOf`, by the place of the inherited schema.
pub(super) type Children = HashMap<JsonLocation, Vec<(String, JsonLocation)>>;

/// A choice: the names that lead to each schema.
type Branches = BTreeMap<JsonLocation, Vec<String>>;

impl Reader<'_> {
    /// Replaces the alternatives of a schema with a choice by name. Alternatives that are not references have no name and stay.
    pub(super) fn discriminate(
        &mut self,
        made: &mut Map<String, Json>,
        written: &Map<String, Json>,
        said: &Json,
        at: &JsonLocation,
    ) -> Option<()> {
        let property = property(said);
        let Some(property) = property else {
            self.fault(format!("{at}: a discriminator without `propertyName`"));
            return None;
        };
        let Some(keyword) = ["oneOf", "anyOf"].into_iter().find(|name| written.contains_key(*name))
        else {
            return Some(());
        };
        let list = at.child(keyword);
        let items = written.get(keyword).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        let mut branches = Branches::new();
        let mut unnamed = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let place = list.child(&index.to_string());
            match item.get("$ref").and_then(Json::as_str) {
                Some(reference) => {
                    let target = self.follow(place)?;
                    branches.entry(target).or_default().push(last_name(reference));
                }
                None => unnamed.extend(made.get(keyword).and_then(|all| all.get(index)).cloned()),
            }
        }
        for (name, target) in self.mapped(said, at)? {
            if let Some(names) = branches.get_mut(&target) {
                names.push(name);
            }
        }
        let choice = self.choice(property, branches, true)?;
        made.remove(keyword);
        let choice = if unnamed.is_empty() {
            choice
        } else {
            unnamed.push(choice);
            json!({ "anyOf": unnamed })
        };
        add_to_all(made, [choice]);
        Some(())
    }

    /// Converts the schema at a place. If a discriminator selects among its subtypes, an object has to match the subtype that it names.
    pub(super) fn dispatched(&mut self, value: &Json, at: &JsonLocation) -> Option<Json> {
        let alternatives = ["oneOf", "anyOf"].iter().any(|name| value.get(*name).is_some());
        let property = value.get("discriminator").filter(|_| !alternatives).and_then(property);
        let (Some(property), Some(said)) = (property, value.get("discriminator")) else {
            return self.schema(value, at, SchemaUse::Whole);
        };
        let mut branches = Branches::new();
        for (name, child) in self.descendants(at) {
            branches.entry(child).or_default().push(name);
        }
        for (name, target) in self.mapped(said, at)?.into_iter().filter(|(_, target)| target != at)
        {
            branches.entry(target).or_default().push(name);
        }
        if branches.is_empty() {
            return self.schema(value, at, SchemaUse::Whole);
        }
        let own = self.schema_there(at, SchemaUse::Inherited)?;
        let choice = self.choice(property, branches, false)?;
        Some(json!({ "allOf": [own, choice] }))
    }

    /// Makes a choice among schemas by the value of the property. If `closed` is true, the property is required and must have one of the
    /// names.
    fn choice(&mut self, property: &str, branches: Branches, closed: bool) -> Option<Json> {
        let mut names: Vec<String> =
            branches.values().flat_map(|names| names.iter().cloned()).collect();
        names.sort();
        names.dedup();
        let mut chosen = Vec::new();
        for (target, names) in branches {
            let schema = self.schema_there(&target, SchemaUse::Inherited)?;
            chosen.push(json!({
                "if": {
                    "type": "object",
                    "properties": { property: { "enum": names } },
                    "required": [property],
                },
                "then": schema,
            }));
        }
        let mut choice = Map::new();
        if closed {
            choice.insert("type".to_owned(), json!("object"));
            choice.insert("required".to_owned(), json!([property]));
            choice.insert("properties".to_owned(), json!({ property: { "enum": names } }));
        }
        choice.insert("allOf".to_owned(), Json::Array(chosen));
        Some(Json::Object(choice))
    }

    /// The names of a `mapping`, each with the place of its schema.
    fn mapped(&mut self, said: &Json, at: &JsonLocation) -> Option<Vec<(String, JsonLocation)>> {
        // Harmless: a discriminator may have no mapping.
        let mapping = said.get("mapping").and_then(Json::as_object).into_iter().flatten();
        let mut found = Vec::new();
        for (name, reference) in mapping {
            let Some(reference) = reference.as_str() else {
                self.fault(format!("{at}: `{name}` of the mapping must be a text"));
                return None;
            };
            // A value of the mapping is either the name of a schema or a reference.
            let named = self.schemas_place().child(reference);
            let target = if self.files.at(&named).is_some() {
                named
            } else {
                match self.files.resolve(at, reference) {
                    Ok(target) => target,
                    Err(fault) => {
                        self.fault(fault);
                        return None;
                    }
                }
            };
            found.push((name.clone(), self.follow(target)?));
        }
        Some(found)
    }

    /// The place of the schemas that have names.
    fn schemas_place(&self) -> JsonLocation {
        match self.version {
            Version::Swagger => self.root.child("definitions"),
            Version::V30 | Version::V31 => self.root.child("components").child("schemas"),
        }
    }

    /// The named schemas that inherit this schema, directly or through others.
    fn descendants(&mut self, of: &JsonLocation) -> Vec<(String, JsonLocation)> {
        if self.children.is_none() {
            let children = self.read_children();
            self.children = Some(children);
        }
        let children = self.children.as_ref();
        // Harmless: a schema may have no children.
        let below = |at: &JsonLocation| children.and_then(|all| all.get(at)).into_iter().flatten();
        let mut found: Vec<(String, JsonLocation)> = below(of).cloned().collect();
        let mut next = 0;
        while let Some((_, at)) = found.get(next).cloned() {
            for child in below(&at) {
                if child.1 != *of && !found.contains(child) {
                    found.push(child.clone());
                }
            }
            next += 1;
        }
        found
    }

    fn read_children(&mut self) -> Children {
        let schemas = self.schemas_place();
        let names = self.files.at(&schemas).and_then(Json::as_object);
        let names = names.map_or_else(Vec::new, |names| names.keys().cloned().collect());
        let mut children = Children::new();
        for name in names {
            let at = schemas.child(&name);
            let parts = at.child("allOf");
            let count = self.files.at(&parts).and_then(Json::as_array).map_or(0, Vec::len);
            for index in 0..count {
                let Some(parent) = self.quietly(parts.child(&index.to_string())) else { continue };
                children.entry(parent).or_default().push((name.clone(), at.clone()));
            }
        }
        children
    }

    /// Follows the references at a place without reporting faults, since the schema may not be needed. Returns `None` if there is no
    /// reference, or if one cannot be resolved.
    fn quietly(&mut self, at: JsonLocation) -> Option<JsonLocation> {
        let mut at = at;
        let mut hops = 0;
        while let Some(reference) = self.files.reference(&at).filter(|_| hops < HOPS_MAX) {
            // Harmless: where this schema is needed, its references are followed again and the fault is reported.
            at = self.files.resolve(&at, &reference).ok()?;
            hops += 1;
        }
        (hops > 0).then_some(at)
    }
}

/// The name of the property. In Swagger 2, the value of `discriminator` is the name itself.
fn property(said: &Json) -> Option<&str> {
    said.as_str().or_else(|| said.get("propertyName")?.as_str())
}

/// The name of a schema by a reference to it: `Cat` for `#/components/schemas/Cat`, `cat` for `cat.json`.
fn last_name(reference: &str) -> String {
    let name = reference.rsplit('/').next().unwrap_or_default();
    let file = name.split('#').next().filter(|name| !name.is_empty());
    let name = if reference.contains("#/") { name } else { file.unwrap_or(name) };
    let name = if reference.contains("#/") { name } else { name.split('.').next().unwrap_or(name) };
    name.replace("~1", "/").replace("~0", "~")
}

/// Adds schemas that a value has to match as well.
fn add_to_all(made: &mut Map<String, Json>, more: impl IntoIterator<Item = Json>) {
    let all = made.entry("allOf").or_insert_with(|| json!([]));
    if let Json::Array(all) = all {
        all.extend(more);
    }
}
