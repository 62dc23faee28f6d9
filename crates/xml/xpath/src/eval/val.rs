//! Values during an evaluation, borrowed from the expression or the documents wherever possible.

use std::borrow::Cow;
use std::rc::Rc;

use crate::value::{boolean_text, number_boolean};
use crate::{DocumentSet, Node, Value, text_number};

/// A [`Value`] that may borrow.
#[derive(Debug)]
pub(crate) enum Val<'v> {
    Nodes(Vec<Node>),
    Shared(Rc<[Node]>),
    Boolean(bool),
    Number(f64),
    Text(Str<'v>),
    Tree(Node),
}

/// A string that may borrow or be shared.
#[derive(Debug)]
pub(crate) enum Str<'v> {
    Borrowed(&'v str),
    Owned(String),
    Shared(Rc<str>),
}

impl<'v> Val<'v> {
    pub(crate) fn into_value(self) -> Value {
        match self {
            Val::Nodes(nodes) => Value::Nodes(nodes.into()),
            Val::Shared(nodes) => Value::Nodes(nodes),
            Val::Boolean(value) => Value::Boolean(value),
            Val::Number(value) => Value::Number(value),
            Val::Text(Str::Shared(text)) => Value::Text(text),
            Val::Text(text) => Value::Text(text.as_str().into()),
            Val::Tree(root) => Value::Tree(root),
        }
    }

    pub(crate) fn from(value: Value) -> Val<'v> {
        match value {
            Value::Nodes(nodes) => Val::Shared(nodes),
            Value::Boolean(value) => Val::Boolean(value),
            Value::Number(value) => Val::Number(value),
            Value::Text(text) => Val::Text(Str::Shared(text)),
            Value::Tree(root) => Val::Tree(root),
        }
    }

    pub(crate) fn as_nodes(&self) -> Option<&[Node]> {
        match self {
            Val::Nodes(nodes) => Some(nodes),
            Val::Shared(nodes) => Some(nodes),
            Val::Tree(root) => Some(std::slice::from_ref(root)),
            Val::Boolean(_) | Val::Number(_) | Val::Text(_) => None,
        }
    }

    pub(crate) fn first(&self) -> Option<Node> {
        self.as_nodes()?.first().copied()
    }

    pub(crate) fn to_boolean(&self) -> bool {
        match self {
            Val::Nodes(nodes) => !nodes.is_empty(),
            Val::Shared(nodes) => !nodes.is_empty(),
            Val::Boolean(value) => *value,
            Val::Number(value) => number_boolean(*value),
            Val::Text(text) => !text.as_str().is_empty(),
            Val::Tree(_) => true,
        }
    }

    pub(crate) fn to_number(&self, documents: &DocumentSet) -> f64 {
        match self {
            Val::Boolean(value) => f64::from(u8::from(*value)),
            Val::Number(value) => *value,
            Val::Text(text) => text_number(text.as_str()),
            Val::Nodes(_) | Val::Shared(_) | Val::Tree(_) => {
                self.first().map_or(f64::NAN, |node| text_number(&documents.string_value(node)))
            }
        }
    }

    pub(crate) fn to_text<'t>(&'t self, documents: &'t DocumentSet) -> Cow<'t, str> {
        match self {
            Val::Boolean(value) => Cow::Borrowed(boolean_text(*value)),
            Val::Number(value) => documents.number_text(*value),
            Val::Text(text) => Cow::Borrowed(text.as_str()),
            Val::Nodes(_) | Val::Shared(_) | Val::Tree(_) => {
                self.first().map_or(Cow::Borrowed(""), |node| documents.string_value(node))
            }
        }
    }
}

impl Str<'_> {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Str::Borrowed(text) => text,
            Str::Owned(text) => text,
            Str::Shared(text) => text,
        }
    }

    pub(crate) fn into_string(self) -> String {
        match self {
            Str::Borrowed(text) => text.to_owned(),
            Str::Owned(text) => text,
            Str::Shared(text) => (*text).to_owned(),
        }
    }
}

impl<'v> From<Cow<'v, str>> for Str<'v> {
    fn from(text: Cow<'v, str>) -> Str<'v> {
        match text {
            Cow::Borrowed(text) => Str::Borrowed(text),
            Cow::Owned(text) => Str::Owned(text),
        }
    }
}
