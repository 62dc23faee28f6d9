//! The keys of steps that choose other steps, split one message into several, or join several into one.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{Condition, ExpressionText, Steps};
use crate::decode::{Decode, Decoder, keys, words};
use crate::node::{Node, Value};
use crate::schema::SchemaBuilder;
use crate::sources::quote;
use crate::values::{Between, OneOrMore, Spanned, Timeout};

keys! {
    /// Runs one of two lists of steps, by a condition.
    pub struct FilterStep {
        /// The condition.
        when: Condition,
        /// Steps if it holds.
        then: Steps = OneOrMore(Vec::new()),
        /// Steps if it does not.
        otherwise as "else": Steps = OneOrMore(Vec::new()),
    }
}

keys! {
    /// Runs the steps of the first matching case.
    pub struct SwitchStep {
        /// The value that is compared, as text.
        on: ExpressionText,
        /// The cases.
        cases: Vec<SwitchCase>,
        /// Steps if no case matches.
        default: Steps = OneOrMore(Vec::new()),
    }
}

impl SwitchStep {
    /// The lists of steps inside it.
    pub(super) fn lists(&self) -> Vec<&Steps> {
        self.cases.iter().map(|case| &case.steps).chain([&self.default]).collect()
    }
}

keys! {
    /// A case of a `switch`.
    pub struct SwitchCase {
        /// The text that the value must equal.
        equals: Option<Spanned<String>>,
        /// A regular expression to search in it.
        matches: Option<Spanned<String>>,
        /// The steps.
        steps: Steps,
    }
}

keys! {
    /// Runs steps for each part of the message, and replaces each part by the result.
    pub struct ForeachStep {
        /// The parts.
        over: ExpressionText,
        /// The steps.
        steps: Steps,
        /// The number of messages processed concurrently.
        // One after the other, in the order of the list.
        parallel: Spanned<Between<1, 1_000>> = Spanned::unwritten(const { Between::new(1) }),
        /// The maximum number of parts. A message with more causes the fault `too_many_parts`, 413.
        // A small request can have very many parts, each of which may cause a call.
        max: Between<1, 1_000_000> = const { Between::new(10_000) },
    }
}

keys! {
    /// Runs steps for each part of the message as a separate message, and gathers the results.
    pub struct SplitStep {
        /// The parts.
        over: ExpressionText,
        /// The steps.
        steps: Steps,
        /// The number of messages processed concurrently.
        // Enough to overlap calls, and few enough not to overload the called service.
        parallel: Spanned<Between<1, 1_000>> = Spanned::unwritten(const { Between::new(8) }),
        /// The maximum number of parts. A message with more causes the fault `too_many_parts`, 413.
        // As for `foreach`.
        max: Between<1, 1_000_000> = const { Between::new(10_000) },
        /// The way in which the results become one message.
        gather: Gather,
    }
}

keys! {
    /// Runs branches concurrently, each with a copy of the message, and gathers the results.
    pub struct ScatterStep {
        /// The branches, each a step or a list of steps.
        branches: Vec<Steps>,
        /// The way in which the results become one message.
        gather: Gather,
    }
}

keys! {
    /// The way in which the results of branches become one message.
    pub struct Gather {
        /// The part to take from each result; the whole body if absent.
        take: Option<ExpressionText>,
        /// The element around the parts, such as `<All/>`, or `{ json: [] }`. If absent, JSON parts are put into an array, and XML parts
        /// into the markup around the first part.
        into: Option<GatherInto>,
        /// The number of results that are enough: `all`, or a number.
        complete: Spanned<GatherComplete> = Spanned::unwritten(GatherComplete::All),
        /// The longest time to wait.
        // As long as a typical client waits.
        timeout: Spanned<Timeout> = Spanned::unwritten(Timeout(Duration::from_secs(30))),
        /// What happens when some results are missing.
        partial: Partial = Partial::Fault,
        /// The status and the headers of the message that is made: `new`, or those of the first result.
        // Several results have no common head.
        head: GatherHead = GatherHead::New,
    }
}

/// The wrapper around gathered parts.
#[derive(Clone, Debug, PartialEq)]
pub enum GatherInto {
    /// An element, as markup.
    Xml(Spanned<String>),
    /// An array.
    Json,
}

/// The number of results that a gather waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatherComplete {
    /// As many as there are branches.
    All,
    /// This many.
    Number(u32),
}

words! {
    /// What happens when some results are missing.
    pub enum Partial {
        /// A fault.
        Fault = "fault",
        /// The available results are used.
        Keep = "keep",
    }
}

words! {
    /// The status and the headers of what a gather makes.
    pub enum GatherHead {
        /// 200, and a content type.
        New = "new",
        /// Those of the first result that is there, in the order of the branches.
        First = "first",
    }
}

impl Decode for GatherInto {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write an element such as `<All/>`, or `{ json: [] }`";
        match &node.value {
            Value::Map(_) => {
                decoder.section(node, &["json"], &[])?;
                match node.get("json").map(|json| &json.value) {
                    Some(Value::List(items)) if items.is_empty() => Some(Self::Json),
                    _ => {
                        decoder.expected(node, "an empty array of JSON", help);
                        None
                    }
                }
            }
            Value::Null | Value::Unreadable | Value::Scalar(_) | Value::List(_) => {
                Spanned::decode(node, decoder).map(Self::Xml)
            }
        }
    }

    fn encode(&self) -> Json {
        match self {
            Self::Xml(element) => element.encode(),
            Self::Json => json!({ "json": [] }),
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        let array = json!({
            "type": "object",
            "properties": { "json": { "type": "array", "maxItems": 0 } },
            "required": ["json"],
            "additionalProperties": false,
        });
        json!({ "anyOf": [String::schema(schema), array] })
    }
}

impl Decode for GatherComplete {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        decoder.parse(node, "a number of results", "write `all`, or a number", |text| {
            match (text, kit::digits::whole::<u32>(text)) {
                ("all", _) => Ok(Self::All),
                (_, Some(number)) if number > 0 => Ok(Self::Number(number)),
                _ => Err(format!("{} is not a number of results", quote(text))),
            }
        })
    }

    fn encode(&self) -> Json {
        match self {
            Self::All => "all".into(),
            Self::Number(number) => (*number).into(),
        }
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [{ "const": "all" }, { "type": "integer", "minimum": 1 }] })
    }
}
