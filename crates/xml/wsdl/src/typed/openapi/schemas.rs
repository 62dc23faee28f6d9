//! Types as JSON Schema (2020-12).
//!
//! Every type with members is a component, so that types may contain themselves.

use std::collections::HashSet;

use serde_json::{Map, Value as Json, json};
use xsd::datatype::{Builtin, SimpleType};
use xsd::walk::facets;

use super::Titles;
use crate::typed::model::{
    Children, Content, Member, MemberOf, Scalar, ScalarKind, Slot, Type, ValueConstraint,
};
use crate::typed::typed_api::Api;

/// Schemas under construction.
pub(super) struct Schemas<'a> {
    api: &'a Api,
    titles: Titles,
    /// Types of elements that may be nil, and types of bodies with headers. Both include the types that may replace them.
    nillable: HashSet<usize>,
    with_headers: HashSet<usize>,
    /// Types that have a name but no schema yet.
    open: Vec<usize>,
    made: Map<String, Json>,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(api: &'a Api) -> Schemas<'a> {
        let titles = Titles::default();
        let nillable = api.elements.iter().filter(|element| element.nillable);
        let nillable = replacing(api, nillable.map(|element| element.type_at));
        let messages = api.operations.iter().flat_map(|operation| {
            std::iter::once(&operation.input).chain(operation.output.as_ref())
        });
        let bodies = messages.filter(|message| !message.headers.is_empty());
        // Harmless: a message without a body has no type.
        let bodies = bodies.filter_map(|message| message.body.as_ref());
        // Harmless: each body has an element.
        let bodies = bodies.filter_map(|root| Some(api.elements.get(root.element)?.type_at));
        let with_headers = replacing(api, bodies);
        let (open, made) = (Vec::new(), Map::new());
        let mut schemas = Schemas { api, titles, nillable, with_headers, open, made };
        schemas.titles.taken.insert("Problem".to_owned(), 1);
        schemas
    }

    /// Returns all requested schemas and those that they refer to.
    pub(super) fn finish(mut self) -> Map<String, Json> {
        while let Some(at) = self.open.pop() {
            let (Some(of), Some(title)) =
                (self.api.types.get(at), self.titles.of.get(&at).cloned())
            else {
                continue;
            };
            let schema = self.object(at, of);
            self.made.insert(title, schema);
        }
        self.made.sort_keys();
        self.made
    }

    /// True if an element's value is a string, a number or a boolean.
    pub(super) fn is_text(&self, element: usize) -> bool {
        let of =
            self.api.elements.get(element).and_then(|element| self.api.types.get(element.type_at));
        of.is_some_and(|of| matches!(of.content, Content::Text(_)))
    }

    pub(super) fn local(&self, element: usize) -> Option<String> {
        self.api.elements.get(element).map(|element| element.local.to_string())
    }

    /// Returns the schema of an element's value.
    pub(super) fn element(&mut self, at: usize) -> Json {
        let Some(element) = self.api.elements.get(at) else { return json!({}) };
        let mut schema = self.type_of(element.type_at);
        if let Some(given) = &element.given
            && let Some(keys) = schema.as_object_mut()
            && !keys.contains_key("$ref")
        {
            let what = if given.fixed { "Always" } else { "If empty" };
            keys.insert("description".to_owned(), format!("{what}: {}", given.text).into());
            let content = self.api.types.get(element.type_at).map(|of| &of.content);
            if let Some(Content::Text(scalar)) = content {
                fixed(scalar, given, keys);
            }
        }
        if element.nillable { json!({ "anyOf": [schema, { "type": "null" }] }) } else { schema }
    }

    fn type_of(&mut self, at: usize) -> Json {
        let Some(of) = self.api.types.get(at) else { return json!({}) };
        // `anyType` allows any content, and all types derive from it.
        let anything = matches!(&of.content, Content::Children(children) if children.shorthand && children.wild.is_some());
        if anything {
            return json!({
                "type": ["string", "object"],
                "description": "Anything: a text, or an object with `$items`.",
            });
        }
        let own = match &of.content {
            Content::Text(scalar) => scalar_schema(scalar),
            Content::Value(_) | Content::Empty | Content::Children(_) => self.reference(at),
        };
        let replacements: Vec<(Box<str>, usize)> = match &of.content {
            Content::Text(_) => Vec::new(),
            Content::Value(_) | Content::Empty | Content::Children(_) => {
                of.replacements.iter().map(|one| (one.label.clone(), one.type_at)).collect()
            }
        };
        let mut any: Vec<Json> = if of.is_abstract { Vec::new() } else { vec![own] };
        for (label, type_at) in replacements {
            if self.api.types.get(type_at).is_none_or(|one| one.is_abstract) {
                continue;
            }
            let derived = match self.api.types.get(type_at).map(|one| &one.content) {
                Some(Content::Text(scalar)) => json!({
                    "type": "object", "properties": { "value": scalar_schema(scalar) }, "required": ["value"],
                }),
                _ => self.reference(type_at),
            };
            let named = json!({
                "type": "object",
                "properties": { "$type": { "const": &*label } },
                "required": ["$type"],
            });
            any.push(json!({ "allOf": [derived, named] }));
        }
        match any.len() {
            1 => any.pop().unwrap_or(Json::Null),
            _ => json!({ "anyOf": any }),
        }
    }

    fn reference(&mut self, at: usize) -> Json {
        let title = match self.titles.of.get(&at) {
            Some(title) => title.clone(),
            None => {
                let title = self.api.types.get(at).map(|of| component(&of.title));
                // Harmless: each type is in the table.
                let title = title.unwrap_or_default();
                let times = self.titles.taken.entry(title.clone()).or_default();
                *times += 1;
                let title = if *times == 1 { title } else { format!("{title}_{times}") };
                self.titles.of.insert(at, title.clone());
                self.open.push(at);
                title
            }
        };
        json!({ "$ref": format!("#/components/schemas/{title}") })
    }

    fn object(&mut self, at: usize, of: &'a Type) -> Json {
        let mut properties = Map::new();
        let mut required: Vec<Json> = Vec::new();
        let mut rules: Vec<Json> = Vec::new();
        if of.replaces || !of.replacements.is_empty() {
            let what = "The type that is meant, where it is a derived one.";
            properties.insert("$type".to_owned(), json!({ "type": "string", "description": what }));
        }
        for attribute in &of.attributes {
            let mut schema = scalar_schema(&attribute.scalar);
            if let (Some(given), Some(keys)) = (&attribute.given, schema.as_object_mut()) {
                fixed(&attribute.scalar, given, keys);
            }
            properties.insert(attribute.key.to_string(), schema);
            if attribute.required {
                required.push((*attribute.key).into());
            }
        }
        match &of.content {
            Content::Text(scalar) | Content::Value(scalar) => {
                properties.insert("value".to_owned(), scalar_schema(scalar));
                required.push("value".into());
            }
            Content::Empty => {}
            Content::Children(children) => {
                for (index, member) in children.members.iter().enumerate() {
                    let schema = self.member(children, index, member);
                    properties.insert(member.key.to_string(), schema);
                }
                needs(children, &children.model, &mut required, &mut rules);
            }
        }
        if self.with_headers.contains(&at) {
            properties.insert("$headers".to_owned(), json!({ "type": "object" }));
        }
        if self.nillable.contains(&at) {
            properties.insert("$nil".to_owned(), json!({ "type": "boolean" }));
        }
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), Json::Object(properties));
        if !required.is_empty() {
            schema.insert("required".to_owned(), required.into());
        }
        if of.any_attribute {
            schema.insert("patternProperties".to_owned(), json!({ "^@": {} }));
        }
        schema.insert("additionalProperties".to_owned(), false.into());
        if !rules.is_empty() {
            schema.insert("allOf".to_owned(), rules.into());
        }
        let object = Json::Object(schema);
        // Content that is only text is a string, and so is a value without attributes.
        match &of.content {
            Content::Children(children) if children.shorthand => {
                json!({ "anyOf": [{ "type": "string" }, object] })
            }
            Content::Value(scalar) if !of.attributes.iter().any(|one| one.required) => {
                json!({ "anyOf": [object, scalar_schema(scalar)] })
            }
            Content::Text(_) | Content::Value(_) | Content::Empty | Content::Children(_) => object,
        }
    }

    fn member(&mut self, children: &'a Children, index: usize, member: &Member) -> Json {
        let one = match &member.of {
            MemberOf::Element(element) => self.element(*element),
            MemberOf::Any { .. } => {
                json!({ "type": "string", "description": "An element as XML." })
            }
            MemberOf::Items { .. } => {
                let leaves = children.leaves.iter().filter(|leaf| leaf.member == index);
                let mut any: Vec<Json> = leaves
                    .map(|leaf| {
                        let schema = self.element(leaf.element);
                        json!({
                            "type": "object",
                            "properties": { &*leaf.key: schema },
                            "required": [&*leaf.key],
                            "additionalProperties": false,
                        })
                    })
                    .collect();
                if children.wild == Some(index) {
                    any.push(json!({
                        "type": "object",
                        "properties": { "$any": { "type": "string", "description": "An element as XML." } },
                        "required": ["$any"],
                        "additionalProperties": false,
                    }));
                }
                if children.mixed {
                    any.push(json!({ "type": "string" }));
                }
                if any.is_empty() { json!(false) } else { json!({ "anyOf": any }) }
            }
        };
        if !member.many {
            return one;
        }
        let mut array = Map::new();
        array.insert("type".to_owned(), "array".into());
        array.insert("items".to_owned(), one);
        if member.min > 1 {
            array.insert("minItems".to_owned(), member.min.into());
        }
        if let Some(max) = member.max {
            array.insert("maxItems".to_owned(), max.into());
        }
        Json::Object(array)
    }
}

/// Returns the types together with the types that may replace them.
fn replacing(api: &Api, types: impl Iterator<Item = usize>) -> HashSet<usize> {
    let mut all: HashSet<usize> = HashSet::new();
    for at in types {
        all.insert(at);
        let replacements = api.types.get(at).map_or(&[][..], |of| &of.replacements);
        all.extend(replacements.iter().map(|one| one.type_at));
    }
    all
}

/// Collects the requirements: required members, and one member of each choice.
fn needs(children: &Children, slot: &Slot, required: &mut Vec<Json>, rules: &mut Vec<Json>) {
    match slot {
        Slot::Member(member) => {
            if let Some(member) = children.members.get(*member).filter(|member| member.min > 0) {
                required.push((*member.key).into());
            }
        }
        Slot::Sequence { optional: true, .. } => {}
        Slot::Sequence { slots, .. } => {
            slots.iter().for_each(|slot| needs(children, slot, required, rules));
        }
        Slot::Choice { slots, .. } => {
            let there = |slot: &Slot| {
                let mut keys = Vec::new();
                slot.keys(&children.members, &mut keys);
                let one: Vec<Json> =
                    keys.into_iter().map(|key| json!({ "required": [key] })).collect();
                json!({ "anyOf": one })
            };
            let mut branches: Vec<Json> =
                slots.iter().filter(|slot| slot.is_met(&|_| true)).map(&there).collect();
            if slot.is_emptiable(&children.members) && !branches.is_empty() {
                branches.push(json!({ "not": there(slot) }));
            }
            if !branches.is_empty() {
                rules.push(json!({ "oneOf": branches }));
            }
        }
    }
}

/// Replaces characters that a component's name may not have (OpenAPI 3.1, 4.8.7).
fn component(title: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let title: String = title.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    if title.is_empty() { "Type".to_owned() } else { title }
}

pub(super) fn scalar_schema(scalar: &Scalar) -> Json {
    let mut schema = match &scalar.kind {
        ScalarKind::Boolean => json!({ "type": "boolean" }),
        ScalarKind::Number { whole: true } => json!({ "type": "integer" }),
        ScalarKind::Number { whole: false } => json!({ "type": "number" }),
        ScalarKind::Float => {
            return json!({ "anyOf": [{ "type": "number" }, { "enum": ["INF", "-INF", "NaN"] }] });
        }
        ScalarKind::Text => json!({ "type": "string" }),
        ScalarKind::Name => {
            json!({ "type": "string", "description": "A name as `{namespace}local`." })
        }
        ScalarKind::List(item) => json!({ "type": "array", "items": scalar_schema(item) }),
        ScalarKind::Union(members) => {
            let any: Vec<Json> = members.iter().map(scalar_schema).collect();
            json!({ "anyOf": any })
        }
        ScalarKind::Free => json!({ "type": ["string", "number", "boolean"] }),
    };
    if let Some(keys) = schema.as_object_mut() {
        limits(scalar, keys);
    }
    schema
}

/// Adds a fixed value, if all its lexical forms are the same in JSON.
fn fixed(scalar: &Scalar, given: &ValueConstraint, keys: &mut Map<String, Json>) {
    let text = given.text.trim();
    let value = match scalar.kind {
        _ if !given.fixed => None,
        ScalarKind::Text if scalar.simple.builtin() == Builtin::String => {
            Some((*given.text).into())
        }
        ScalarKind::Boolean => Some(matches!(text, "true" | "1").into()),
        ScalarKind::Number { .. } => {
            // Harmless: the document omits a value that JSON cannot represent; the schema still validates messages.
            serde_json::from_str::<serde_json::Number>(text).ok().map(Json::Number)
        }
        ScalarKind::Text
        | ScalarKind::Float
        | ScalarKind::Name
        | ScalarKind::List(_)
        | ScalarKind::Union(_)
        | ScalarKind::Free => None,
    };
    keys.extend(value.map(|value| ("const".to_owned(), value)));
}

fn limits(scalar: &Scalar, keys: &mut Map<String, Json>) {
    let facets = facets(&scalar.simple);
    let lengths = match scalar.kind {
        ScalarKind::Text => is_counted(&scalar.simple).then_some(("minLength", "maxLength")),
        ScalarKind::List(_) => Some(("minItems", "maxItems")),
        ScalarKind::Boolean
        | ScalarKind::Number { .. }
        | ScalarKind::Float
        | ScalarKind::Name
        | ScalarKind::Union(_)
        | ScalarKind::Free => None,
    };
    if let Some((min, max)) = lengths {
        for (key, value) in
            [(min, facets.length.or(facets.min_length)), (max, facets.length.or(facets.max_length))]
        {
            keys.extend(value.map(|value| (key.to_owned(), value.into())));
        }
    }
    if let ScalarKind::Number { .. } = scalar.kind {
        let names = [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")];
        // Harmless: both arrays have two items.
        for ((inclusive, exclusive), bound) in names.into_iter().zip([&facets.min, &facets.max]) {
            let Some((literal, is_in)) = bound else { continue };
            let key = if *is_in { inclusive } else { exclusive };
            // Harmless: the document omits a bound that JSON cannot represent; the schema still validates messages.
            if let Ok(number) = serde_json::from_str::<serde_json::Number>(literal) {
                keys.insert(key.to_owned(), number.into());
            }
        }
        let formats = [(Builtin::Int, "int32"), (Builtin::Long, "int64")];
        let format = formats.iter().find(|(of, _)| *of == scalar.simple.builtin());
        keys.extend(format.map(|(_, format)| ("format".to_owned(), (*format).into())));
    }
    if let (ScalarKind::Text, Some(values)) = (&scalar.kind, &facets.enumeration)
        && !values.is_empty()
    {
        keys.insert("enum".to_owned(), values.clone().into());
    }
    if let ScalarKind::Text = scalar.kind {
        let patterns: Option<Vec<String>> =
            facets.patterns.iter().map(|one| pattern(one)).collect();
        // Harmless: the document omits a pattern that JSON Schema cannot express; the schema still validates messages.
        match patterns.unwrap_or_default().as_slice() {
            [] => {}
            [one] => drop(keys.insert("pattern".to_owned(), one.as_str().into())),
            all => {
                let all: Vec<Json> = all.iter().map(|one| json!({ "pattern": one })).collect();
                keys.insert("allOf".to_owned(), all.into());
            }
        }
    }
    if let (ScalarKind::Text, Some(what)) = (&scalar.kind, words(scalar.simple.builtin())) {
        keys.insert("description".to_owned(), what.into());
    }
}

/// Converts a regular expression of XML Schema to one of JSON Schema, if both mean the same.
fn pattern(written: &str) -> Option<String> {
    // ` | ` joins several patterns of one restriction. The others have a different meaning in JSON Schema, or none.
    const OTHERS: [&str; 9] = [" | ", "\\i", "\\c", "\\I", "\\C", "-[", "\\p{Is", "\\P{Is", "$"];
    let is_anchor =
        |at: usize| at == 0 || !written.get(..at).is_some_and(|before| before.ends_with('['));
    let has_anchor = written.match_indices('^').any(|(at, _)| is_anchor(at));
    let is_same = !has_anchor && !OTHERS.iter().any(|other| written.contains(other));
    is_same.then(|| format!("^(?:{written})$"))
}

/// Returns whether the length facets of a type count characters of its text.
fn is_counted(simple: &SimpleType) -> bool {
    !matches!(simple.builtin(), Builtin::HexBinary | Builtin::Base64Binary)
}

/// Describes the texts of a built-in type, if it has a well-known format.
#[allow(clippy::wildcard_enum_match_arm, reason = "all others are texts like any")]
fn words(builtin: Builtin) -> Option<&'static str> {
    Some(match builtin {
        Builtin::DateTime => "A date and time: 2026-01-31T12:00:00Z",
        Builtin::Date => "A date: 2026-01-31",
        Builtin::Time => "A time of day: 12:00:00",
        Builtin::Duration => "A duration: P1DT12H",
        Builtin::Base64Binary => "Bytes in base64",
        Builtin::HexBinary => "Bytes in hex digits",
        Builtin::AnyUri => "A URI",
        _ => return None,
    })
}
