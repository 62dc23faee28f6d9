//! Texts of requests: percent escapes, pairs of names and values, and typed values.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kit::percent;
use serde_json::Value as Json;

use super::model::Types;
use crate::json_schema::Document;

/// Unescapes a text. Bytes that are not UTF-8 become the replacement character, so the result equals no name or path of a document.
pub(super) fn decoded(bytes: &[u8], plus_is_blank: bool) -> Cow<'_, str> {
    match percent::decoded(bytes, plus_is_blank) {
        // Harmless: values with a replacement character are refused.
        Cow::Borrowed(plain) => String::from_utf8_lossy(plain),
        // Harmless: values with a replacement character are refused.
        Cow::Owned(made) => Cow::Owned(String::from_utf8_lossy(&made).into_owned()),
    }
}

/// Returns the pairs of a query or a form, with decoded names and raw values.
pub(super) fn pairs(encoded: &[u8]) -> impl Iterator<Item = (Cow<'_, str>, &[u8])> {
    encoded.split(|b| *b == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let at = pair.iter().position(|b| *b == b'=');
        let (name, value) = match at {
            Some(at) => (pair.get(..at), pair.get(at + 1..)),
            None => (Some(pair), None),
        };
        (decoded(name.unwrap_or(pair), true), value.unwrap_or(b""))
    })
}

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
    fn percent_escapes_are_decoded_strictly() {
        for (text, plus, read) in [
            ("a%20b+c", true, "a b c"),
            ("a%20b+c", false, "a b+c"),
            ("%C3%A4%2f", false, "\u{e4}/"),
            ("%4", false, "%4"),
            ("%+1%zz", false, "%+1%zz"),
            ("%ff", false, "\u{fffd}"),
        ] {
            assert_eq!(decoded(text.as_bytes(), plus), read, "{text}");
        }
    }

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
