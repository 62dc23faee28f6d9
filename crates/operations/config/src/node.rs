//! The untyped tree of a file: maps, lists and scalars, each with its place.

use crate::sources::{At, quote};

/// One value of the file.
#[derive(Clone, Debug)]
pub struct Node {
    /// The place at which the value starts.
    pub at: At,
    /// The place at which the value's key starts; for an item of a list, that of the item.
    pub owner: At,
    /// The value.
    pub value: Value,
}

/// The kind and content of a value.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// A value whose references could not be replaced. This was already reported.
    Unreadable,
    /// A text. Its meaning depends on the type it is decoded into.
    Scalar(Scalar),
    /// A list: `[a, b]` or lines with dashes.
    List(Vec<Node>),
    /// A map: `{ a: b }` or lines with colons. Keys are unique.
    Map(Vec<MapEntry>),
}

/// The text of a value.
#[derive(Clone, Debug)]
pub struct Scalar {
    /// The text after substitution.
    pub text: String,
    /// True if it was written in quotes or as a block, so it is a text and never a number. False for a value with references: YAML requires
    /// the quotes of `"${PORT}"` in some places.
    pub quoted: bool,
}

/// One key of a map and its value.
#[derive(Clone, Debug)]
pub struct MapEntry {
    /// The key's text.
    pub key: String,
    /// The place at which the key starts.
    pub key_at: At,
    /// The value.
    pub node: Node,
}

impl Node {
    /// Returns the name of this value in a complaint.
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Null | Value::Unreadable => "nothing".to_owned(),
            Value::Scalar(scalar) if scalar.quoted => format!("the text {}", quote(&scalar.text)),
            Value::Scalar(scalar) => quote(&scalar.text),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }

    /// Returns the text of a scalar.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(scalar) => Some(&scalar.text),
            Value::Null | Value::Unreadable | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// Returns the text of an unquoted scalar, which may be a number or a boolean.
    pub(crate) fn bare_text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(scalar) if !scalar.quoted => Some(&scalar.text),
            Value::Scalar(_) | Value::Null | Value::Unreadable | Value::List(_) | Value::Map(_) => {
                None
            }
        }
    }

    /// Returns the value of a key of a map.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|e| &e.node),
            Value::Null | Value::Unreadable | Value::Scalar(_) | Value::List(_) => None,
        }
    }
}
