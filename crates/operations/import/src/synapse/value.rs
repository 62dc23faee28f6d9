//! Values as flows write them, and the notation of names and texts in them.

use expression::{Language, is_expression};
use serde_json::{Value as Json, json};

use super::xpath_text::XPathType;

/// A value as a flow writes it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    /// This text.
    Literal(String),
    /// XPath, JSONPath or a name.
    Path(String, XPathType),
    Cel(String),
}

impl Value {
    /// The notation for a key that takes an expression.
    pub(super) fn expression(&self) -> Json {
        match self {
            Value::Literal(text)
                if is_expression(text) || expression::seems_expression(text).is_some() =>
            {
                json!({ "text": text })
            }
            Value::Path(text, _) if is_expression(text) => json!(text),
            Value::Literal(text) => json!(text),
            Value::Path(text, _) => json!({ "xpath": text }),
            Value::Cel(text) => json!({ "cel": text }),
        }
    }

    /// The value as text: Synapse joins the texts of all nodes, and uses the markup of elements without text.
    pub(super) fn as_text(&self) -> Value {
        match self {
            Value::Path(text, XPathType::Elements | XPathType::Nodes | XPathType::Texts) => {
                Value::Path(format!("texts({text})"), XPathType::Other)
            }
            // A double as Java writes it.
            Value::Path(text, XPathType::Number) => {
                let tail = format!("substring('.0', 1 + 9 * ({text} != floor({text})))");
                Value::Path(format!("concat({text}, {tail})"), XPathType::Other)
            }
            Value::Literal(_) | Value::Path(_, XPathType::Other) | Value::Cel(_) => self.clone(),
        }
    }

    /// The value as the source or target of a step. A literal is not a node, so it has none.
    pub(super) fn path(&self) -> Option<&str> {
        match self {
            Value::Path(text, _) => Some(text),
            Value::Literal(_) | Value::Cel(_) => None,
        }
    }

    pub(super) fn language(text: &str) -> Language {
        if is_expression(text) { Language::Marked } else { Language::XPath }
    }
}

/// Escapes a text for a template: a placeholder writes each `{{` of it.
pub(super) fn escaped(text: &str) -> String {
    text.replace("{{", "{{ '{{' }}")
}

/// A text as a literal of XPath, or `None` if it has both kinds of quotes.
pub(super) fn quoted(text: &str) -> Option<String> {
    let quote = ['\'', '"'].into_iter().find(|quote| !text.contains(*quote))?;
    Some(format!("{quote}{text}{quote}"))
}

/// A header of the message.
pub(super) fn header(name: &str) -> Result<String, String> {
    member("headers", name)
}

/// A member of a group of names.
pub(super) fn member(group: &str, name: &str) -> Result<String, String> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if plain && !name.is_empty() {
        Ok(format!("${group}.{name}"))
    } else if !name.contains(['\'', '"', '{', '}']) {
        Ok(format!("${group}['{name}']"))
    } else {
        Err(format!("`{name}` is not a name that can be written in an expression"))
    }
}
