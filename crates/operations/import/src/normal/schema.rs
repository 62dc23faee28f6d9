//! Schemas: each that is needed becomes one of the `$defs`, in JSON Schema 2020-12.

use serde_json::{Map, Value as Json, json};

use super::{Definition, HOPS_MAX, Reader, SchemaUse, Version};
use crate::json_location::JsonLocation;
use crate::uri::escaped_name;
use crate::{pattern, upgrade};

/// The kind of value of a keyword with schemas.
enum KeywordValue {
    Schema,
    Schemas,
    /// Schemas under names that the author chose.
    NamedSchemas,
    /// A list of schemas, or one.
    Items,
    /// A value that is not a schema.
    Value,
    /// Nothing that has an effect.
    Nothing,
}

fn below(keyword: &str) -> KeywordValue {
    match keyword {
        "additionalProperties"
        | "unevaluatedProperties"
        | "unevaluatedItems"
        | "contains"
        | "propertyNames"
        | "not"
        | "if"
        | "then"
        | "else" => KeywordValue::Schema,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => KeywordValue::Schemas,
        "properties" | "patternProperties" | "dependentSchemas" => KeywordValue::NamedSchemas,
        "items" => KeywordValue::Items,
        "type" | "enum" | "const" | "required" | "minimum" | "maximum" | "exclusiveMinimum"
        | "exclusiveMaximum" | "multipleOf" | "minLength" | "maxLength" | "pattern" | "format"
        | "minItems" | "maxItems" | "uniqueItems" | "minContains" | "maxContains"
        | "minProperties" | "maxProperties" | "dependentRequired" | "readOnly" | "writeOnly"
        | "nullable" | "x-nullable" => KeywordValue::Value,
        _ => KeywordValue::Nothing,
    }
}

/// The pointers to the direct subschemas of a schema.
pub(crate) fn subschemas(schema: &Json) -> Vec<String> {
    let mut pointers = Vec::new();
    // Harmless: `true` and `false` have no schemas within.
    for (keyword, member) in schema.as_object().into_iter().flatten() {
        match (below(keyword), member) {
            (KeywordValue::Schema | KeywordValue::Items, Json::Object(_)) => {
                pointers.push(format!("/{keyword}"))
            }
            (KeywordValue::Schemas, Json::Array(items)) => {
                pointers.extend((0..items.len()).map(|index| format!("/{keyword}/{index}")));
            }
            (KeywordValue::NamedSchemas, Json::Object(named)) => {
                let names = named.keys().map(|name| format!("/{keyword}/{}", escaped_name(name)));
                pointers.extend(names);
            }
            // Harmless: no other keyword has schemas.
            _ => {}
        }
    }
    pointers
}

/// True for a schema that has other keywords with an effect besides its reference. Keywords that only describe do not count.
fn says_more(schema: &Json) -> bool {
    // Harmless: `true` and `false` have no members.
    let members = schema.as_object().into_iter().flatten();
    members.map(|(name, _)| name.as_str()).any(|name| {
        let describes = matches!(name, "readOnly" | "writeOnly");
        name == "discriminator" || !describes && !matches!(below(name), KeywordValue::Nothing)
    })
}

impl Reader<'_> {
    /// A reference to the `$defs` entry of the schema at a place.
    pub(super) fn schema_there(&mut self, at: &JsonLocation, part: SchemaUse) -> Option<Json> {
        let index = self.definition(at.clone(), part)?;
        Some(json!({ "$ref": format!("#/$defs/{index}") }))
    }

    fn definition(&mut self, mut at: JsonLocation, part: SchemaUse) -> Option<usize> {
        let mut hops = 0;
        while let Some(reference) = self.files.reference(&at)
            && !self.holds_more(&at)
        {
            hops += 1;
            if hops > HOPS_MAX {
                self.fault(format!("the references at {at} go in circles"));
                return None;
            }
            at = self.target(&at, &reference)?;
        }
        let definition: Definition = (at, part);
        if let Some(known) = self.index.get(&definition) {
            return Some(*known);
        }
        let index = self.definitions.len();
        self.index.insert(definition.clone(), index);
        self.definitions.push(definition);
        Some(index)
    }

    fn target(&mut self, at: &JsonLocation, reference: &str) -> Option<JsonLocation> {
        self.files.resolve(at, reference).map_err(|fault| self.fault(fault)).ok()
    }

    /// Before 3.1, members beside a `$ref` are ignored (OpenAPI 3.0.3, Reference Object).
    fn holds_more(&self, at: &JsonLocation) -> bool {
        self.version == Version::V31 && self.files.at(at).is_some_and(says_more)
    }

    /// All schemas that are needed, in the order of their numbers.
    pub(super) fn read_definitions(&mut self) -> Vec<Json> {
        let mut made = Vec::new();
        while let Some((at, part)) = self.definitions.get(made.len()).cloned() {
            let file = self.files.file(at.uri());
            let value = file.as_ref().and_then(|file| file.json.pointer(at.pointer()));
            let schema = value.and_then(|value| match part {
                SchemaUse::Whole => self.dispatched(value, &at),
                SchemaUse::Inherited | SchemaUse::Parameter => self.schema(value, &at, part),
            });
            made.push(schema.unwrap_or(Json::Bool(false)));
        }
        made
    }

    /// A nested schema.
    fn inner(&mut self, value: &Json, at: &JsonLocation) -> Option<Json> {
        if value.get("$ref").is_some_and(Json::is_string) && !self.holds_more(at) {
            self.schema_there(at, SchemaUse::Whole)
        } else {
            self.schema(value, at, SchemaUse::Whole)
        }
    }

    pub(super) fn schema(
        &mut self,
        value: &Json,
        at: &JsonLocation,
        part: SchemaUse,
    ) -> Option<Json> {
        if !self.counts() {
            return None;
        }
        let members = match value {
            Json::Object(members) => members,
            Json::Bool(any) => return Some(Json::Bool(*any)),
            Json::Null | Json::Number(_) | Json::String(_) | Json::Array(_) => {
                self.fault(format!("{at}: a schema must be an object"));
                return None;
            }
        };
        let mut made = Map::new();
        for (name, member) in members {
            let at = at.child(name);
            let (name, read) = match (name.as_str(), below(name)) {
                // A parameter has its own `required`.
                ("required", _) if part == SchemaUse::Parameter => continue,
                ("type", _) if self.version == Version::Swagger && member == "file" => continue,
                ("$ref", _) => (name.as_str(), self.reference(member, &at)),
                ("$dynamicRef", _) => ("$ref", self.dynamic_reference(member, &at)),
                ("pattern", _) => (name.as_str(), Some(portable(member))),
                (name, KeywordValue::Schema) => (name, self.inner(member, &at)),
                ("allOf", KeywordValue::Schemas) => {
                    ("allOf", self.schemas(member, &at, SchemaUse::Inherited))
                }
                (name, KeywordValue::Schemas) => {
                    (name, self.schemas(member, &at, SchemaUse::Whole))
                }
                (name, KeywordValue::NamedSchemas) => (name, self.named_schemas(name, member, &at)),
                ("items", _) if member.is_array() => {
                    ("prefixItems", self.schemas(member, &at, SchemaUse::Whole))
                }
                (name, KeywordValue::Items) => (name, self.inner(member, &at)),
                (name, KeywordValue::Value) => (name, Some(member.clone())),
                (_, KeywordValue::Nothing) => continue,
            };
            made.insert(name.to_owned(), read?);
        }
        if let Some(said) = members.get("discriminator") {
            self.discriminate(&mut made, members, said, at)?;
        }
        Some(upgrade::upgraded(made))
    }

    fn schemas(&mut self, member: &Json, at: &JsonLocation, part: SchemaUse) -> Option<Json> {
        let Json::Array(items) = member else {
            self.fault(format!("{at}: this must be a list of schemas"));
            return None;
        };
        let read = items.iter().enumerate().map(|(index, item)| {
            let at = at.child(&index.to_string());
            // A referenced part is inherited, so its discriminator does not select among its subtypes here.
            let is_reference = item.get("$ref").is_some_and(Json::is_string);
            if part == SchemaUse::Inherited && is_reference && !self.holds_more(&at) {
                self.schema_there(&at, SchemaUse::Inherited)
            } else {
                self.inner(item, &at)
            }
        });
        read.collect::<Option<Vec<Json>>>().map(Json::Array)
    }

    fn named_schemas(&mut self, keyword: &str, member: &Json, at: &JsonLocation) -> Option<Json> {
        let Json::Object(members) = member else {
            self.fault(format!("{at}: this must be a map of schemas"));
            return None;
        };
        let mut made = Map::new();
        for (name, schema) in members {
            let schema = self.inner(schema, &at.child(name))?;
            let name = match keyword {
                "patternProperties" => pattern::portable(name).into_owned(),
                _ => name.clone(),
            };
            made.insert(name, schema);
        }
        Some(Json::Object(made))
    }

    /// Converts the `$ref` of a schema that has other keywords too. `at` is the place of the `$ref`.
    fn reference(&mut self, member: &Json, at: &JsonLocation) -> Option<Json> {
        let Some(reference) = member.as_str() else {
            self.fault(format!("{at}: a reference must be a string"));
            return None;
        };
        let target = self.target(at, reference)?;
        let index = self.definition(target, SchemaUse::Whole)?;
        Some(Json::String(format!("#/$defs/{index}")))
    }

    /// A `$dynamicRef` leads to the only `$dynamicAnchor` of its name. If several have the name, the target would depend on the path of
    /// evaluation, so that is a fault.
    fn dynamic_reference(&mut self, member: &Json, at: &JsonLocation) -> Option<Json> {
        let name = member.as_str().and_then(|reference| reference.split('#').nth(1));
        let target = name.and_then(|name| self.files.dynamic_anchor(name));
        let Some(target) = target else {
            self.fault(format!(
                "{at}: there is not exactly one `$dynamicAnchor` that {member} can mean"
            ));
            return None;
        };
        let index = self.definition(target, SchemaUse::Whole)?;
        Some(Json::String(format!("#/$defs/{index}")))
    }
}

fn portable(pattern: &Json) -> Json {
    match pattern.as_str() {
        Some(text) => Json::String(pattern::portable(text).into_owned()),
        None => pattern.clone(),
    }
}
