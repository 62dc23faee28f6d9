//! The tree a file is read into before it has any types: maps, lists and scalars, each with its place.

use crate::report::{At, quote};

/// One value of the file.
#[derive(Clone, Debug)]
pub struct Node {
    /// The place at which the value starts.
    pub at: At,
    /// The place at which the key that names the value starts; a value in a list is its own owner.
    pub owner: At,
    /// The value itself.
    pub value: Value,
}

/// A value of a place.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// A value that could not be substituted. It was complained about, and is not again.
    Unreadable,
    /// Text; what it means depends on the type it is read into.
    Scalar(Scalar),
    /// `[a, b]` or lines with dashes.
    List(Vec<Node>),
    /// `{ a: b }` or lines with colons. No key occurs twice.
    Map(Vec<MapEntry>),
}

/// The text of a value.
#[derive(Clone, Debug)]
pub struct Scalar {
    /// After substitution.
    pub text: String,
    /// Written in quotes or as a block: it means text and never a number. A value that was substituted
    /// is not quoted, since `"${PORT}"` has to be in some places.
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
    /// The name of this value in a complaint.
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Null | Value::Unreadable => "nothing".to_owned(),
            Value::Scalar(scalar) if scalar.quoted => format!("the text {}", quote(&scalar.text)),
            Value::Scalar(scalar) => quote(&scalar.text),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }

    /// The text of a scalar.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(scalar) => Some(&scalar.text),
            Value::Null | Value::Unreadable | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The text of a scalar that may mean a number or a switch.
    pub(crate) fn bare_text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(scalar) if !scalar.quoted => Some(&scalar.text),
            Value::Scalar(_) | Value::Null | Value::Unreadable | Value::List(_) | Value::Map(_) => {
                None
            }
        }
    }

    /// The value of a key of a map.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|e| &e.node),
            Value::Null | Value::Unreadable | Value::Scalar(_) | Value::List(_) => None,
        }
    }
}
