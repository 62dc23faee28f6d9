//! Expressions and templates of flows, as texts with their places. `compile` parses them.

use serde_json::{Value as Json, json};

use crate::decode::{Decode, Decoder, words};
use crate::node::{Node, Value};
use crate::schema::SchemaBuilder;
use crate::values::{JsonText, Spanned};

/// An expression: a text, or a map that names its language.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpressionText {
    /// The language.
    pub language: ExpressionLanguage,
    /// The text.
    pub text: Spanned<String>,
    /// Whether it is a fault if nothing is found.
    pub required: bool,
}

/// The language of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpressionLanguage {
    /// Text that begins with `$`, `/` or a function and `(` is an expression. Any other text is a literal.
    Marked,
    /// XPath 1.0.
    XPath,
    /// A JSONPath query over the body.
    Json,
    /// CEL.
    Cel,
    /// The text itself.
    Text,
}

/// A value to set: an expression, and perhaps its type.
#[derive(Clone, Debug, PartialEq)]
pub struct SetValue {
    /// The new value.
    pub value: ExpressionText,
    /// The type to convert to; not converted if absent.
    pub kind: Option<ValueType>,
}

/// A condition: the truth of an expression, or whether its text matches.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The value that is tested.
    pub value: ExpressionText,
    /// A regular expression to search in its text.
    pub matches: Option<Spanned<String>>,
}

words! {
    /// The type of a variable.
    pub enum ValueType {
        /// Text.
        Text = "text",
        /// A number.
        Number = "number",
        /// True or false.
        Boolean = "boolean",
        /// An XML document.
        Xml = "xml",
        /// A JSON value.
        Json = "json",
    }
}

/// A template that produces JSON: a text, or a value with placeholders in its strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonTemplate(pub String);

const LANGUAGES: [(&str, ExpressionLanguage); 5] = [
    ("value", ExpressionLanguage::Marked),
    ("xpath", ExpressionLanguage::XPath),
    ("json", ExpressionLanguage::Json),
    ("cel", ExpressionLanguage::Cel),
    ("text", ExpressionLanguage::Text),
];

const HELP: &str = "write a text such as `$body/m:id`, or one of `{ value: }`, `{ xpath: }`, `{ json: }`, `{ cel: }` and `{ text: }`";

impl ExpressionText {
    /// Reads an expression. `others` are keys that are allowed next to it.
    fn decode_beside(node: &Node, others: &[&str], decoder: &mut Decoder<'_>) -> Option<Self> {
        let Value::Map(_) = &node.value else {
            let text = Spanned::<String>::decode(node, decoder)?;
            return Some(Self { language: ExpressionLanguage::Marked, text, required: false });
        };
        let own = LANGUAGES.iter().map(|(key, _)| *key).chain(["required"]);
        let known: Vec<&str> = own.chain(others.iter().copied()).collect();
        decoder.section(node, &known, &[])?;
        let required = match node.get("required") {
            Some(required) => bool::decode(required, decoder)?,
            None => false,
        };
        // Harmless: languages that are not written are skipped on purpose.
        let mut written =
            LANGUAGES.iter().filter_map(|(key, language)| Some((node.get(key)?, *language)));
        let Some((inner, language)) = written.next() else {
            decoder.error(node.at, "an expression needs a text", HELP);
            return None;
        };
        if let Some((second, _)) = written.next() {
            decoder.error(second.owner, "an expression can have only one language", HELP);
            return None;
        }
        // `value` accepts any form of an expression, so that `required` can be added to each.
        let inner = match language {
            ExpressionLanguage::Marked => Self::decode(inner, decoder)?,
            ExpressionLanguage::XPath
            | ExpressionLanguage::Json
            | ExpressionLanguage::Cel
            | ExpressionLanguage::Text => {
                Self { language, text: Spanned::decode(inner, decoder)?, required: false }
            }
        };
        Some(Self { required: required || inner.required, ..inner })
    }

    fn entries(&self) -> serde_json::Map<String, Json> {
        let key = LANGUAGES.iter().find(|(_, language)| *language == self.language);
        let mut map = serde_json::Map::new();
        if let Some((key, _)) = key {
            map.insert((*key).to_owned(), self.text.value.as_str().into());
        }
        if self.required {
            map.insert("required".to_owned(), true.into());
        }
        map
    }

    fn schema_beside(others: serde_json::Map<String, Json>, schema: &mut SchemaBuilder) -> Json {
        let text = String::schema(schema);
        let own = LANGUAGES.iter().map(|(key, _)| ((*key).to_owned(), text.clone()));
        let mut properties: serde_json::Map<String, Json> = own.collect();
        properties.insert("value".to_owned(), Json::Object(Default::default()));
        properties.insert("required".to_owned(), bool::schema(schema));
        properties.extend(others);
        let map =
            json!({ "type": "object", "properties": properties, "additionalProperties": false });
        json!({ "anyOf": [text, map] })
    }
}

impl Decode for ExpressionText {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        Self::decode_beside(node, &[], decoder)
    }

    fn encode(&self) -> Json {
        if self.language == ExpressionLanguage::Marked && !self.required {
            self.text.value.as_str().into()
        } else {
            Json::Object(self.entries())
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        Self::schema_beside(Default::default(), schema)
    }
}

impl Decode for SetValue {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let value = ExpressionText::decode_beside(node, &["type"], decoder)?;
        let kind = node.get("type").and_then(|kind| ValueType::decode(kind, decoder));
        Some(Self { value, kind })
    }

    fn encode(&self) -> Json {
        let Some(kind) = self.kind else { return self.value.encode() };
        let mut map = self.value.entries();
        map.insert("type".to_owned(), kind.encode());
        Json::Object(map)
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        let kind = ValueType::schema(schema);
        ExpressionText::schema_beside([("type".to_owned(), kind)].into_iter().collect(), schema)
    }
}

impl Decode for Condition {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let value = ExpressionText::decode_beside(node, &["matches"], decoder)?;
        let matches = node.get("matches").and_then(|matches| Spanned::decode(matches, decoder));
        Some(Self { value, matches })
    }

    fn encode(&self) -> Json {
        let Some(matches) = &self.matches else { return self.value.encode() };
        let mut map = self.value.entries();
        map.insert("matches".to_owned(), matches.encode());
        Json::Object(map)
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        let matches = String::schema(schema);
        ExpressionText::schema_beside(
            [("matches".to_owned(), matches)].into_iter().collect(),
            schema,
        )
    }
}

impl Decode for JsonTemplate {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        match &node.value {
            Value::Map(_) | Value::List(_) => {
                JsonText::decode(node, decoder).map(|text| Self(text.0))
            }
            Value::Null | Value::Unreadable | Value::Scalar(_) => {
                String::decode(node, decoder).map(Self)
            }
        }
    }

    fn encode(&self) -> Json {
        self.0.as_str().into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        Json::Object(Default::default())
    }
}
