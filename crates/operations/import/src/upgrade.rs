//! Converts OpenAPI 3.0's dialect of JSON Schema to 2020-12.

use serde_json::{Map, Value as Json, json};

/// Converts a schema to 2020-12. A schema in that dialect is not changed.
pub(crate) fn upgraded(mut members: Map<String, Json>) -> Json {
    bounds(&mut members, "exclusiveMinimum", "minimum");
    bounds(&mut members, "exclusiveMaximum", "maximum");
    integers(&mut members);
    nullable(members)
}

/// `exclusiveMinimum: true` makes `minimum` exclusive; in 2020-12, `exclusiveMinimum` is the bound itself.
fn bounds(members: &mut serde_json::Map<String, Json>, exclusive: &str, plain: &str) {
    match members.get(exclusive) {
        Some(Json::Bool(true)) => match members.remove(plain) {
            Some(bound) => drop(members.insert(exclusive.to_owned(), bound)),
            None => drop(members.remove(exclusive)),
        },
        Some(Json::Bool(false)) => drop(members.remove(exclusive)),
        // Harmless: a number is the notation of later versions.
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

/// `nullable` adds null to the types that the schema allows. If other keywords forbid null, it becomes an alternative
/// to them.
fn nullable(mut members: Map<String, Json>) -> Json {
    let said = ["nullable", "x-nullable"].map(|name| members.remove(name));
    if !said.contains(&Some(Json::Bool(true))) {
        return Json::Object(members);
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
    let others = ["allOf", "anyOf", "oneOf", "not", "const", "if", "$ref"];
    if others.iter().any(|name| members.contains_key(*name)) {
        let flags = ["readOnly", "writeOnly"].map(|name| (name, members.get(name).cloned()));
        let mut either = json!({ "anyOf": [{ "type": "null" }, members] });
        for (name, flag) in flags {
            if let (Some(flag), Some(either)) = (flag, either.as_object_mut()) {
                either.insert(name.to_owned(), flag);
            }
        }
        either
    } else {
        Json::Object(members)
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
                json!({ "type": ["string", "null"], "enum": ["a", null] }),
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
                json!({ "nullable": true, "allOf": [{ "$ref": "#/$defs/0" }] }),
                json!({ "anyOf": [{ "type": "null" }, { "allOf": [{ "$ref": "#/$defs/0" }] }] }),
            ),
            (json!({ "nullable": false, "type": "object" }), json!({ "type": "object" })),
        ];
        for (old, new) in cases {
            let Json::Object(old) = old else { continue };
            assert_eq!(upgraded(old), new);
        }
    }
}
