//! OpenAPI 3.0's dialect of JSON Schema to 2020-12.

use serde_json::{Value as Json, json};

/// Rewrites every schema of a document in place. What is written for 2020-12 already stays as it is.
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
            nullable(members);
        }
        Json::Array(items) => items.iter_mut().for_each(upgrade),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// `exclusiveMinimum: true` makes `minimum` exclusive; now the bound itself stands there.
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
                // A property that is called so.
                json!({ "properties": { "nullable": { "type": "boolean" } } }),
                json!({ "properties": { "nullable": { "type": "boolean" } } }),
            ),
        ];
        for (mut old, new) in cases {
            upgrade(&mut old);
            assert_eq!(old, new);
        }
    }
}
