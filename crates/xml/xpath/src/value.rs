//! Values: the four types of XPath and result tree fragments, with their conversions.

use std::borrow::Cow;
use std::rc::Rc;

use crate::{DocumentSet, Node, text_number};

/// The result of an expression. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Distinct nodes in document order.
    Nodes(Rc<[Node]>),
    /// True or false.
    Boolean(bool),
    /// A double.
    Number(f64),
    /// A string.
    Text(Rc<str>),
    /// A result tree fragment (XSLT 1.0, 11.1): the root of a document that the caller has added to the set of documents. Where a node-set
    /// is needed, it counts as the set of that root.
    Tree(Node),
}

impl Value {
    /// A node-set from nodes in any order.
    pub fn nodes(mut nodes: Vec<Node>) -> Value {
        sort(&mut nodes);
        Value::Nodes(nodes.into())
    }

    /// A node-set of one node.
    pub fn node(node: Node) -> Value {
        Value::Nodes(Rc::new([node]))
    }

    /// A string.
    pub fn text(text: impl Into<Rc<str>>) -> Value {
        Value::Text(text.into())
    }

    /// Returns the nodes of a node-set or of a result tree fragment, or `None`.
    pub fn as_nodes(&self) -> Option<&[Node]> {
        match self {
            Value::Nodes(nodes) => Some(nodes),
            Value::Tree(root) => Some(std::slice::from_ref(root)),
            Value::Boolean(_) | Value::Number(_) | Value::Text(_) => None,
        }
    }

    /// Converts as `boolean()` does.
    pub fn to_boolean(&self) -> bool {
        match self {
            Value::Nodes(nodes) => !nodes.is_empty(),
            Value::Boolean(value) => *value,
            Value::Number(value) => number_boolean(*value),
            Value::Text(text) => !text.is_empty(),
            Value::Tree(_) => true,
        }
    }

    /// Converts as `number()` does.
    pub fn to_number(&self, documents: &DocumentSet) -> f64 {
        match self {
            Value::Boolean(value) => f64::from(u8::from(*value)),
            Value::Number(value) => *value,
            Value::Nodes(_) | Value::Text(_) | Value::Tree(_) => {
                text_number(&self.to_text(documents))
            }
        }
    }

    /// Converts as `string()` does.
    pub fn to_text<'a>(&'a self, documents: &'a DocumentSet) -> Cow<'a, str> {
        match self {
            Value::Nodes(nodes) => {
                nodes.first().map_or(Cow::Borrowed(""), |&node| documents.string_value(node))
            }
            Value::Boolean(value) => Cow::Borrowed(boolean_text(*value)),
            Value::Number(value) => documents.number_text(*value),
            Value::Text(text) => Cow::Borrowed(text),
            Value::Tree(root) => documents.string_value(*root),
        }
    }
}

/// Sorts nodes into document order and removes duplicates.
pub(crate) fn sort(nodes: &mut Vec<Node>) {
    if nodes.is_sorted_by(|a, b| a < b) {
        return;
    }
    nodes.sort_unstable();
    nodes.dedup();
}

pub(crate) fn number_boolean(value: f64) -> bool {
    value != 0.0 && !value.is_nan()
}

pub(crate) fn boolean_text(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}
