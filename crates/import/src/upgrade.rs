//! Converts OpenAPI 3.0's dialect of JSON Schema to 2020-12.

use serde_json::{Value as Json, json};

/// Rewrites every schema of a document in place. Schemas that are already 2020-12 stay the same.
pub(crate) fn upgrade(value: &mut Json) {
    match value {
        Json::Object(members) => {
            for (name, member) in members.iter_mut() {
                // Instances, not schemas.
                if !matches!(name.as_str(), "example" | "examples" | "default" | "enum" | "const") {
                    upgrade(member);
                }
            }
            bounds(members, "exclusiveMinimum", "minimum");
            bounds(members, "exclusiveMaximum", "maximum");
            integers(members);
            nullable(members);
        }
        Json::Array(items) => items.iter_mut().for_each(upgrade),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// `exclusiveMinimum: true` makes `minimum` exclusive; in 2020-12 it holds the bound itself.
fn bounds(members: &mut serde_json::Map<String, Json>, exclusive: &str, plain: &str) {
    match members.get(exclusive) {
        Some(Json::Bool(true)) => match members.remove(plain) {
            Some(bound) => drop(members.insert(exclusive.to_owned(), bound)),
            None => drop(members.remove(exclusive)),
        },
        Some(Json::Bool(false)) => drop(members.remove(exclusive)),
        _ => {}
    }
}

/// The range of `int32` and `int64`; in JSON Schema, formats apply to strings only.
fn integers(members: &mut serde_json::Map<String, Json>) {
    let (least, most) = match members.get("format").and_then(Json::as_str) {
        Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
        Some("int64") => (i64::MIN, i64::MAX),
        _ => return,
    };
    let is_number = |name: &Json| matches!(name.as_str(), Some("integer" | "number"));
    let numbers = match members.get("type") {
        Some(Json::Array(types)) => types.iter().any(is_number),
        Some(one) => is_number(one),
        None => false,
    };
    if !numbers {
        return;
    }
    members.entry("minimum").or_insert(json!(least));
    members.entry("maximum").or_insert(json!(most));
}

/// Before 3.1, members beside a `$ref` are ignored (OpenAPI 3.0.3, Reference Object); only a path's `$ref` may have operations
/// beside it.
pub(crate) fn lone_references(value: &mut Json, of_path: bool) {
    match value {
        Json::Object(members) => {
            if !of_path && members.get("$ref").is_some_and(Json::is_string) {
                members.retain(|name, _| name == "$ref" || name.starts_with("x-"));
            }
            for (name, member) in members.iter_mut() {
                match (name.as_str(), &mut *member) {
                    ("example" | "examples" | "default" | "enum" | "const", _) => {}
                    ("paths", Json::Object(paths)) => {
                        paths.values_mut().for_each(|path| lone_references(path, true));
                    }
                    _ => lone_references(member, false),
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| lone_references(item, false)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

fn nullable(members: &mut serde_json::Map<String, Json>) {
    let vendor = members.get("x-nullable") == Some(&Json::Bool(true));
    if members.get("nullable") != Some(&Json::Bool(true)) && !vendor {
        return;
    }
    if let Some(Json::String(one)) = members.get("type") {
        let types = json!([one, "null"]);
        members.insert("type".to_owned(), types);
    }
    if let Some(Json::Array(values)) = members.get_mut("enum")
        && !values.contains(&Json::Null)
    {
        values.push(Json::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_of_3_0_become_those_of_3_1() {
        let cases = [
            (
                json!({ "type": "string", "nullable": true, "enum": ["a"] }),
                json!({ "type": ["string", "null"], "nullable": true, "enum": ["a", null] }),
            ),
            (
                json!({ "minimum": 1, "exclusiveMinimum": true, "maximum": 2, "exclusiveMaximum": false }),
                json!({ "exclusiveMinimum": 1, "maximum": 2 }),
            ),
            (
                json!({ "type": "integer", "format": "int32", "maximum": 5 }),
                json!({ "type": "integer", "format": "int32", "minimum": i32::MIN, "maximum": 5 }),
            ),
            (
                // A property with that name.
                json!({ "properties": { "nullable": { "type": "boolean" } } }),
                json!({ "properties": { "nullable": { "type": "boolean" } } }),
            ),
        ];
        for (mut old, new) in cases {
            upgrade(&mut old);
            assert_eq!(old, new);
        }
    }

    #[test]
    fn nothing_counts_beside_a_reference_but_for_a_paths() {
        let mut old = json!({
            "paths": { "/a": { "$ref": "b", "get": { "schema": { "$ref": "c", "minimum": 1 } } } },
            "properties": { "$ref": { "type": "string" } },
        });
        lone_references(&mut old, false);
        assert_eq!(
            old,
            json!({
                "paths": { "/a": { "$ref": "b", "get": { "schema": { "$ref": "c" } } } },
                "properties": { "$ref": { "type": "string" } },
            })
        );
    }
}
