//! The value of an operand of a comparison.

use std::borrow::Cow;

use json::Kind;

use crate::tape::{JsonNode, JsonText};

/// The value of a comparable.
#[derive(Debug, Clone)]
pub(super) enum Operand<'o> {
    Nothing,
    Null,
    Boolean(bool),
    Number(Cow<'o, str>),
    Text(Cow<'o, str>),
    /// An object or array in the message.
    Node(JsonNode),
}

/// Converts a value of the text to an operand, which borrows from the text.
pub(super) fn operand(text: &JsonText, node: JsonNode) -> Operand<'_> {
    match text.kind(node) {
        Kind::Null => Operand::Null,
        Kind::False => Operand::Boolean(false),
        Kind::True => Operand::Boolean(true),
        Kind::Number => Operand::Number(Cow::Borrowed(text.raw(node))),
        Kind::Plain | Kind::Escaped => Operand::Text(text.string(node)),
        Kind::Object | Kind::Array => Operand::Node(node),
    }
}
