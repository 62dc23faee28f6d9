//! Types of steps' keys: a query, a status, and classes of statuses.

use kit::digits;
use serde_json::{Value as Json, json};

use crate::decode::{Decode, Decoder};
use crate::node::{Node, Value};
use crate::schema::SchemaBuilder;
use crate::sources::quote;
use crate::values::{Between, Map, Spanned};

/// A query: one template, or one for each parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryTemplate {
    /// A template of the whole query, without `?`.
    Whole(Spanned<String>),
    /// Templates of values, by parameter name.
    Parameters(Map<Spanned<String>>),
}

/// A status such as `404`, a class such as `5xx`, or a range such as `400-403`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusClass {
    /// The first status in the class.
    pub first: u16,
    /// The last status in the class.
    pub last: u16,
}

/// A status, or a template of one.
#[derive(Clone, Debug, PartialEq)]
pub enum StatusTemplate {
    /// The status itself.
    Status(Between<200, 599>),
    /// A template with placeholders.
    Template(Spanned<String>),
}

impl Decode for QueryTemplate {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        match &node.value {
            Value::Map(_) => Map::decode(node, decoder).map(Self::Parameters),
            Value::Null | Value::Unreadable | Value::Scalar(_) | Value::List(_) => {
                Spanned::decode(node, decoder).map(Self::Whole)
            }
        }
    }

    fn encode(&self) -> Json {
        match self {
            Self::Whole(text) => text.encode(),
            Self::Parameters(parameters) => parameters.encode(),
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [String::schema(schema), Map::<String>::schema(schema)] })
    }
}

impl StatusClass {
    /// Returns true if the class contains a status.
    pub fn holds(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }
}

impl Decode for StatusClass {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help =
            "write a status such as `404`, a class such as `5xx`, or a range such as `400-403`";
        decoder.parse(node, "a status", help, |text| {
            // Harmless: text that is neither is refused below.
            let one = digits::whole::<u16>(text).filter(|status| (100..=599).contains(status));
            // Harmless: text that is neither is refused below.
            let class = text.strip_suffix("xx").and_then(digits::whole::<u16>);
            let class = class.filter(|digit| (1..=5).contains(digit)).map(|digit| digit * 100);
            match (one, class, range(text)) {
                (Some(status), ..) => Ok(Self { first: status, last: status }),
                (None, Some(first), _) => Ok(Self { first, last: first + 99 }),
                (None, None, Some(range)) => Ok(range),
                (None, None, None) => Err(format!("{} is not a status", quote(text))),
            }
        })
    }

    fn encode(&self) -> Json {
        match (self.first, self.last) {
            (first, last) if first == last => first.into(),
            (first, last) if first % 100 == 0 && last == first + 99 => {
                format!("{}xx", first / 100).into()
            }
            (first, last) => format!("{first}-{last}").into(),
        }
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        json!({ "type": ["string", "integer"] })
    }
}

/// Reads a range of statuses, such as `400-403`.
fn range(text: &str) -> Option<StatusClass> {
    let status = |text: &str| {
        // Harmless: text that is not a status is refused by the caller.
        let status = digits::whole::<u16>(text).filter(|_| text.len() == 3);
        status.filter(|status| (100..=599).contains(status))
    };
    let (first, last) = text.split_once('-')?;
    let (first, last) = (status(first.trim())?, status(last.trim())?);
    (first < last).then_some(StatusClass { first, last })
}

impl Decode for StatusTemplate {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        if node.text().is_some_and(|text| text.contains("{{")) {
            Spanned::decode(node, decoder).map(Self::Template)
        } else {
            Between::decode(node, decoder).map(Self::Status)
        }
    }

    fn encode(&self) -> Json {
        match self {
            Self::Status(status) => status.encode(),
            Self::Template(text) => text.encode(),
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        let template = json!({ "type": "string", "pattern": "\\{\\{" });
        json!({ "anyOf": [Between::<200, 599>::schema(schema), template] })
    }
}
