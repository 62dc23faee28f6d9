//! The values of texts in requests, by the types that their schemas allow.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::model::Types;
use crate::json_schema::Document;

/// The value of a text, like a JSON value, but numbers are kept as text so that no digit is lost.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ParameterValue {
    Text(String),
    /// JSON text, as written.
    Written(String),
    List(Vec<ParameterValue>),
    Object(BTreeMap<String, ParameterValue>),
}

impl ParameterValue {
    pub(super) fn text(text: impl Into<String>) -> ParameterValue {
        ParameterValue::Text(text.into())
    }

    /// Converts the value to a document for a schema.
    pub(super) fn document(self) -> Document<'static> {
        // Nothing reads the text of a string again, so it needs no quotes.
        if let ParameterValue::Text(text) = self {
            return Document::string(text.into());
        }
        let mut text = String::new();
        self.write(&mut text);
        Document::written(text)
    }

    /// Appends the value as JSON.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            ParameterValue::Text(text) => out.push_str(&Json::from(text.as_str()).to_string()),
            ParameterValue::Written(text) => out.push_str(text),
            ParameterValue::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    item.write(out);
                }
                out.push(']');
            }
            ParameterValue::Object(members) => {
                out.push('{');
                for (at, (name, member)) in members.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    ParameterValue::text(name).write(out);
                    out.push(':');
                    member.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// Converts a text to a value of one of these types.
pub(super) fn typed(text: &str, types: Types) -> ParameterValue {
    match text {
        "true" | "false" if types.boolean => ParameterValue::Written(text.to_owned()),
        "null" | "" if types.null => ParameterValue::Written("null".to_owned()),
        _ if types.number && is_number(text) => ParameterValue::Written(text.to_owned()),
        _ => ParameterValue::text(text),
    }
}

/// Returns true if the text is a number in JSON's syntax. `0x1`, `1_000`, ` 1` and `1 ` are not.
fn is_number(text: &str) -> bool {
    let ends = text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && text.ends_with(|c: char| c.is_ascii_digit());
    ends && serde_json::from_str::<serde_json::Number>(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_is_converted_only_to_an_allowed_type() {
        let all = Types { number: true, boolean: true, null: true, anything: false };
        for (text, meaning) in [
            ("1", json!(1)),
            ("-1.5e3", json!(-1500.0)),
            ("01", json!("01")),
            ("+1", json!("+1")),
            ("0x1", json!("0x1")),
            ("NaN", json!("NaN")),
            ("1 ", json!("1 ")),
            ("1\n", json!("1\n")),
            ("true", json!(true)),
            ("True", json!("True")),
            ("", json!(null)),
        ] {
            let read = |types| {
                let mut json = String::new();
                typed(text, types).write(&mut json);
                serde_json::from_str::<Json>(&json).unwrap()
            };
            assert_eq!(read(all), meaning, "{text}");
            assert_eq!(read(Types::default()), json!(text));
        }
    }
}
