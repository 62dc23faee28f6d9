//! The values of expressions, and their conversions.
//!
//! | value            | as text                 | as boolean         | as number    | in JSON            | in XML     |
//! |------------------|-------------------------|--------------------|--------------|--------------------|------------|
//! | nothing          | empty                   | false              | NaN          | `""`               | empty      |
//! | null             | `null`                  | false              | NaN          | `null`             | text       |
//! | boolean          | `true`, `false`         | itself             | 1, 0         | `true`, `false`    | text       |
//! | number           | its digits              | not 0, not NaN     | itself       | its digits         | text       |
//! | text             | itself                  | not empty          | as in XPath  | a string           | text       |
//! | bytes            | if they are UTF-8       | not empty          | of the text  | a string           | text       |
//! | nodes            | string-value of first   | if there are any   | of the text  | a string           | markup     |
//! | JSON: string     | without escapes         | not empty          | as in XPath  | as written         | text       |
//! | JSON: number     | its digits              | not 0              | itself       | as written         | text       |
//! | JSON: `true` ..  | as written              | `true`             | 1, 0; NaN    | as written         | text       |
//! | JSON: object, array | as written           | not empty          | NaN          | as written         | text       |
//! | JSON: result of a query that may select many | of the first | if there are any | of the first | an array of all | text |
//!
//! Texts are converted to numbers as by XPath's `number()`. Attribute and text nodes are written into XML as text.

use std::borrow::Cow;
use std::sync::Arc;

use json::Kind;
use xml::{Document, NodeId};

use crate::markup::push;
use crate::tape::{JsonNode, JsonText};
use crate::{Budget, FailureKind, markup, number};

/// The value of an expression. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub enum Value {
    /// The expression found nothing.
    #[default]
    Nothing,
    /// A JSON null that was computed.
    Null,
    /// True or false.
    Boolean(bool),
    /// A number that was computed or parsed from a text.
    Number(Number),
    /// Text.
    Text(Arc<str>),
    /// A body that has not been parsed.
    Bytes(Arc<[u8]>),
    /// XML nodes in document order.
    Nodes(Nodes),
    /// Values of a JSON text.
    Json(JsonNodes),
}

/// A number with its digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number(Arc<str>);

/// Nodes of one or several documents.
#[derive(Debug, Clone)]
pub struct Nodes {
    groups: Arc<[NodeGroup]>,
}

/// Nodes of one document.
#[derive(Debug, Clone)]
pub struct NodeGroup {
    /// The document.
    pub document: Arc<Document>,
    /// The nodes, in document order.
    pub ids: Vec<NodeId>,
}

/// Values of one JSON text.
#[derive(Debug, Clone)]
pub struct JsonNodes {
    /// The text.
    pub text: Arc<JsonText>,
    /// The values, in the order in which the query selected them.
    pub nodes: Arc<[JsonNode]>,
    /// Whether the query selects at most one value, so that this is a value and not a list.
    pub singular: bool,
}

impl Number {
    /// Creates a number from a computed double.
    pub fn of(value: f64) -> Number {
        Number(xpath::number_text(value).as_ref().into())
    }

    /// Parses a JSON number and keeps every digit.
    pub fn parse(text: &str) -> Option<Number> {
        number::is_number(text).then(|| Number(text.into()))
    }

    /// Returns the number as written.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Returns the nearest double.
    pub fn value(&self) -> f64 {
        match &*self.0 {
            "Infinity" => f64::INFINITY,
            "-Infinity" => f64::NEG_INFINITY,
            text => number::value(text),
        }
    }
}

impl Nodes {
    /// Creates a list from nodes grouped by document. Drops empty groups.
    pub fn new(groups: Vec<NodeGroup>) -> Nodes {
        Nodes { groups: groups.into_iter().filter(|group| !group.ids.is_empty()).collect() }
    }

    /// Creates a list of one node.
    pub fn one(document: Arc<Document>, id: NodeId) -> Nodes {
        Nodes::new(vec![NodeGroup { document, ids: vec![id] }])
    }

    /// Returns the nodes grouped by document.
    pub fn groups(&self) -> &[NodeGroup] {
        &self.groups
    }

    /// Returns all nodes in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<Document>, NodeId)> {
        self.groups.iter().flat_map(|group| group.ids.iter().map(|id| (&group.document, *id)))
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.groups.iter().map(|group| group.ids.len()).sum()
    }

    /// Returns true if there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

impl JsonNodes {
    /// Returns the root value of a text.
    pub fn root(text: Arc<JsonText>) -> JsonNodes {
        JsonNodes { text, nodes: Arc::new([JsonText::ROOT]), singular: true }
    }

    /// Returns the first value.
    pub fn first(&self) -> Option<JsonNode> {
        self.nodes.first().copied()
    }

    fn is_true(&self) -> bool {
        let Some(first) = self.first() else { return false };
        !self.singular
            || match self.text.kind(first) {
                Kind::Null | Kind::False => false,
                Kind::True => true,
                Kind::Number => number::value(self.text.raw(first)) != 0.0,
                Kind::Plain | Kind::Escaped => !self.text.string(first).is_empty(),
                Kind::Object | Kind::Array => self.text.count(first) > 0,
            }
    }

    fn number(&self) -> f64 {
        let Some(first) = self.first() else { return f64::NAN };
        match self.text.kind(first) {
            Kind::True => 1.0,
            Kind::False => 0.0,
            Kind::Number => number::value(self.text.raw(first)),
            Kind::Plain | Kind::Escaped => xpath::text_number(&self.text.string(first)),
            Kind::Null | Kind::Object | Kind::Array => f64::NAN,
        }
    }
}

impl Value {
    /// Returns a text value.
    pub fn text_of(text: impl Into<Arc<str>>) -> Value {
        Value::Text(text.into())
    }

    /// Returns true if nothing was found.
    pub fn is_missing(&self) -> bool {
        match self {
            Value::Nothing => true,
            Value::Nodes(nodes) => nodes.is_empty(),
            Value::Json(json) => json.nodes.is_empty(),
            Value::Null
            | Value::Boolean(_)
            | Value::Number(_)
            | Value::Text(_)
            | Value::Bytes(_) => false,
        }
    }

    /// Converts the value to a boolean.
    pub fn boolean(&self) -> bool {
        match self {
            Value::Nothing | Value::Null => false,
            Value::Boolean(yes) => *yes,
            Value::Number(number) => number.value() != 0.0 && !number.value().is_nan(),
            Value::Text(text) => !text.is_empty(),
            Value::Bytes(bytes) => !bytes.is_empty(),
            Value::Nodes(nodes) => !nodes.is_empty(),
            Value::Json(json) => json.is_true(),
        }
    }

    /// Converts the value to a number, or to NaN.
    pub fn number(&self) -> f64 {
        match self {
            Value::Nothing | Value::Null => f64::NAN,
            Value::Boolean(yes) => f64::from(u8::from(*yes)),
            Value::Number(number) => number.value(),
            Value::Json(json) => json.number(),
            Value::Text(_) | Value::Bytes(_) | Value::Nodes(_) => {
                self.text().map_or(f64::NAN, |text| xpath::text_number(&text))
            }
        }
    }

    /// Converts the value to text.
    pub fn text(&self) -> Result<Cow<'_, str>, FailureKind> {
        Ok(match self {
            Value::Nothing => Cow::Borrowed(""),
            Value::Null => Cow::Borrowed("null"),
            Value::Boolean(true) => Cow::Borrowed("true"),
            Value::Boolean(false) => Cow::Borrowed("false"),
            Value::Number(number) => Cow::Borrowed(number.text()),
            Value::Text(text) => Cow::Borrowed(text),
            Value::Bytes(bytes) => {
                Cow::Borrowed(std::str::from_utf8(bytes).map_err(|_| FailureKind::NotText)?)
            }
            Value::Nodes(nodes) => match nodes.groups.first() {
                Some(group) => group
                    .ids
                    .first()
                    .map_or(Cow::Borrowed(""), |id| group.document.string_value(*id)),
                None => Cow::Borrowed(""),
            },
            Value::Json(json) => {
                json.first().map_or(Cow::Borrowed(""), |first| json.text.string(first))
            }
        })
    }

    /// Appends the value as JSON.
    pub fn write_json(&self, out: &mut String, budget: &mut Budget) -> Result<(), FailureKind> {
        match self {
            Value::Null | Value::Boolean(_) => push(out, &self.text()?, budget),
            Value::Number(number) => {
                if number::is_number(number.text()) {
                    push(out, number.text(), budget)
                } else {
                    Err(FailureKind::NotJson)
                }
            }
            Value::Nothing | Value::Text(_) | Value::Bytes(_) | Value::Nodes(_) => {
                let text = self.text()?;
                budget.output(text.len() + 2)?;
                let from = out.len();
                json::push_string(out, &text);
                budget.output((out.len() - from).saturating_sub(text.len() + 2))
            }
            Value::Json(json) => match (json.singular, json.first()) {
                (true, Some(node)) => push(out, json.text.raw(node), budget),
                (true, None) => push(out, "\"\"", budget),
                (false, _) => {
                    push(out, "[", budget)?;
                    for (place, node) in json.nodes.iter().enumerate() {
                        push(out, if place == 0 { "" } else { "," }, budget)?;
                        push(out, json.text.raw(*node), budget)?;
                    }
                    push(out, "]", budget)
                }
            },
        }
    }

    /// Appends the value as content of an XML element: nodes as markup that means the same in its new place, everything else as text.
    /// `default_namespace`: whether a default namespace is in scope there.
    pub fn write_xml(
        &self,
        default_namespace: bool,
        out: &mut String,
        budget: &mut Budget,
    ) -> Result<(), FailureKind> {
        let Value::Nodes(nodes) = self else {
            return markup::push_text(out, &self.text()?, budget);
        };
        for group in nodes.groups() {
            let mut plain = markup::Plain::default();
            for id in &group.ids {
                markup::push_node(
                    &group.document,
                    *id,
                    default_namespace,
                    &mut plain,
                    out,
                    budget,
                )?;
            }
        }
        Ok(())
    }

    /// Returns the items of a loop: single nodes, the items of an array, or the values of a query that may select many. Any other value is
    /// its own single item.
    pub fn items(&self) -> Vec<Value> {
        match self {
            Value::Nothing => Vec::new(),
            Value::Nodes(nodes) => nodes
                .iter()
                .map(|(document, id)| Value::Nodes(Nodes::one(document.clone(), id)))
                .collect(),
            Value::Json(json) => json.items(),
            Value::Null
            | Value::Boolean(_)
            | Value::Number(_)
            | Value::Text(_)
            | Value::Bytes(_) => vec![self.clone()],
        }
    }
}

impl JsonNodes {
    fn items(&self) -> Vec<Value> {
        let one = |node: JsonNode| {
            let nodes = Arc::new([node]);
            Value::Json(JsonNodes { text: self.text.clone(), nodes, singular: true })
        };
        match self.first() {
            Some(array) if self.singular && self.text.kind(array) == Kind::Array => {
                self.text.children(array).map(|(_, item)| one(item)).collect()
            }
            _ => self.nodes.iter().map(|node| one(*node)).collect(),
        }
    }
}

/// Parses a JSON text that this crate wrote.
pub(crate) fn made_json(text: String, budget: &Budget) -> Result<JsonNodes, FailureKind> {
    let limits = json::Limits {
        depth_max: budget.limits().depth_max as usize + 1,
        entries_max: 2 * budget.limits().results_max as usize,
    };
    let what = |malformed: json::JsonError| FailureKind::Malformed(malformed.what.into());
    Ok(JsonNodes::root(JsonText::read(text, &limits).map_err(what)?))
}
