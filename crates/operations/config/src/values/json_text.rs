//! JSON values written in YAML.

use serde_json::Value as Json;

use crate::decode::{Decode, Decoder};
use crate::node::{Node, Scalar, Value};
use crate::schema::SchemaBuilder;

/// A value of any kind as JSON text, without white space. A number has the digits as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonText(pub String);

impl Decode for JsonText {
    fn decode(node: &Node, _decoder: &mut Decoder<'_>) -> Option<Self> {
        let mut text = String::new();
        write(node, &mut text)?;
        Some(Self(text))
    }

    fn encode(&self) -> Json {
        // A number that does not fit in a double is shown as a text.
        serde_json::from_str(&self.0).unwrap_or_else(|_| self.0.as_str().into())
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        Json::Object(Default::default())
    }
}

/// Writes a node as JSON. The recursion is bounded by the depth of the file. Returns `None` for a failed substitution, which was already
/// reported.
fn write(node: &Node, out: &mut String) -> Option<()> {
    match &node.value {
        Value::Unreadable => return None,
        Value::Null => out.push_str("null"),
        Value::Scalar(Scalar { text, quoted: false }) if is_bare(text) => out.push_str(text),
        Value::Scalar(scalar) => out.push_str(&quoted(&scalar.text)),
        Value::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, out)?;
            }
            out.push(']');
        }
        Value::Map(entries) => {
            out.push('{');
            for (at, entry) in entries.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                out.push_str(&quoted(&entry.key));
                out.push(':');
                write(&entry.node, out)?;
            }
            out.push('}');
        }
    }
    Some(())
}

/// Returns true for a JSON value without quotes: a boolean or a number.
fn is_bare(text: &str) -> bool {
    let begins = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    matches!(text, "true" | "false") || begins && is_number(text)
}

fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let whole = whole.strip_prefix('-').unwrap_or(whole);
    let exponent = exponent.map(|text| text.strip_prefix(['+', '-']).unwrap_or(text));
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(digits)
}

fn quoted(text: &str) -> String {
    Json::from(text).to_string()
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::report::Report;
    use crate::sources::{Source, Sources};

    #[test]
    fn what_is_written_keeps_its_kind_and_its_digits() {
        let source = Source { name: String::new(), folder: "".into(), text: String::new() };
        let mut report = Report::new(Sources::new(vec![source]));
        for (yaml, json) in [
            ("a: 1.10", r#"{"a":1.10}"#),
            (
                "a: [1e400, -0, 12345678901234567890123]",
                r#"{"a":[1e400,-0,12345678901234567890123]}"#,
            ),
            (
                "a: [01, .5, +1, 1., 0x1F, 1.2.3, '1']",
                r#"{"a":["01",".5","+1","1.","0x1F","1.2.3","1"]}"#,
            ),
            ("a: [true, \"true\", ~, yes]", r#"{"a":[true,"true",null,"yes"]}"#),
            ("a: { b: [], c: {}, 'd\"': \"x\\ny\" }", r#"{"a":{"b":[],"c":{},"d\"":"x\ny"}}"#),
        ] {
            let node = crate::yaml::read(yaml, 0, &mut report).unwrap();
            let mut text = String::new();
            write(&node, &mut text).unwrap();
            assert_eq!(text, json);
        }
        assert!(report.is_empty(), "{report}");
    }
}
