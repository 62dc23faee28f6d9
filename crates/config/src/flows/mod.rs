//! `flows.NAME`: what happens to a message between services, step by step.

mod branches;
mod expression;
mod named_step;
mod step_values;
mod steps;

use std::time::Duration;

use serde_json::{Value as Json, json};

pub use branches::{
    ForeachStep, Gather, GatherComplete, GatherInto, Partial, ScatterStep, SplitStep,
};
pub use expression::{
    Condition, ExpressionLanguage, ExpressionText, JsonTemplate, SetValue, ValueType,
};
pub use named_step::NamedStep;
pub use step_values::{QueryTemplate, StatusClass, StatusTemplate};
pub use steps::{
    CacheStep, Call, CallHeaders, CallStep, ConvertStep, ConvertTo, DropStep, EmptyArrays,
    EnrichAction, EnrichSource, EnrichStep, EnvelopeUse, FaultCode, FaultStep, FilterStep,
    HeaderStep, LogLevel, LogStep, PayloadStep, RespondStep, ScriptStep, SoapHeaderStep, SqlStep,
    Steps, StoreStep, SwitchCase, SwitchStep, ValidateStep, WireTapStep, XsltStep,
};

use crate::decode::{Decode, Decoder, did_you_mean, keys, list, words};
use crate::node::{MapEntry, Node, Value};
use crate::policies::RateLimit;
use crate::report::quote;
use crate::schema::SchemaBuilder;
use crate::values::{Map, Size, Spanned, Timeout};

/// The longest that the steps of a flow may take, where it says nothing else.
// Longer than the 30 s that a gather waits, so that its partial answer comes out.
pub const FLOW_TIMEOUT: Duration = Duration::from_secs(60);

/// Names of values that every message has, as in `$body`. No variable may have one of them.
pub const RESERVED_NAMES: [&str; 14] = [
    "body",
    "envelope",
    "header",
    "headers",
    "path",
    "query",
    "method",
    "status",
    "request",
    "error",
    "gather",
    "infoset",
    "infoset_body",
    "infoset_payload",
];

/// A flow: its steps alone, or with its other keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow(pub FlowKeys);

keys! {
    /// The steps that a message goes through. A flow that ends without `respond` answers with the message it has.
    pub struct FlowKeys {
        /// Prefixes of its expressions, with their namespaces. `soap` and `soap12` are those of the envelopes.
        namespaces: Map<Spanned<String>> = Map::default(),
        /// The longest that its steps may take, 1 minute if absent; those of `catch` have as long once more. One that is written also holds where another flow runs the steps by `sequence`.
        timeout: Option<Timeout>,
        /// Bounds of the flow.
        limits: FlowLimits,
        /// What happens to JSON in which an object has a member twice: `refuse` answers 400, or 502 for a reply; with `last` the last one
        /// counts. Flows that it runs by `sequence` follow it.
        // Two readers may take different ones, so that a step checks what a service does not get.
        duplicate_members: DuplicateMembers = DuplicateMembers::Refuse,
        /// The steps.
        steps: Steps,
        /// Steps for a fault that no step caught, with `$error`.
        catch: Option<Steps>,
    }
}

words! {
    /// What happens to JSON in which an object has a member twice.
    pub enum DuplicateMembers {
        /// It is malformed.
        Refuse = "refuse",
        /// The last one counts.
        Last = "last",
    }
}

keys! {
    /// Bounds of a flow.
    pub struct FlowLimits {
        /// The largest body: 413 above for a request, 502 for a reply, 500 for what a step makes.
        // As large as documents of services get; a tree of one takes some ten times as much.
        body_bytes_max: Size = Size(16 * 1024 * 1024),
    }
}

/// The key of a step's name, beside the step.
const NAME: &str = "name";
const NAME_DOC: &str = "The name by which metrics, traces, the log and `explain` show the step.";

/// Makes the list of steps: the enum, and reading, writing and schema by name.
macro_rules! steps {
    ($( $(#[doc = $doc:literal])* $kind:ident($keys:ty) = $name:literal, )*) => {
        /// One step: a map with one key, the step's name.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "a configuration has few, and keeps them in lists of their own")]
        pub enum Step {
            $( $(#[doc = $doc])* $kind($keys), )*
        }

        impl Step {
            /// The names, as they are written.
            pub const NAMES: &[&str] = &[$($name),*];

            /// The name it is written under.
            pub fn name(&self) -> &'static str {
                match self {
                    $( Self::$kind(_) => $name, )*
                }
            }

            fn decode_named(entry: &MapEntry, decoder: &mut Decoder<'_>) -> Option<Self> {
                match entry.key.as_str() {
                    $( $name => <$keys>::decode(&entry.node, decoder).map(Self::$kind), )*
                    _ => unknown(entry, decoder),
                }
            }

            fn encode_keys(&self) -> Json {
                match self {
                    $( Self::$kind(keys) => keys.encode(), )*
                }
            }

            fn schemas(schema: &mut SchemaBuilder) -> Json {
                let doc = "One step of a flow: exactly one of these keys, and perhaps `name`.";
                schema.section("Step", doc, |section| {
                    section.key::<Option<String>>(NAME, NAME_DOC, Some(None));
                    $( section.key::<Option<$keys>>($name, concat!($($doc),*), Some(None)); )*
                })
            }
        }
    };
}

steps! {
    /// Sends the message to an upstream.
    Call(Call) = "call",
    /// Ends the flow with a reply.
    Respond(RespondStep) = "respond",
    /// Ends the flow with 202 and no body.
    Drop(DropStep) = "drop",
    /// Ends the flow with a fault.
    Fault(FaultStep) = "fault",
    /// Sets variables, in the order written.
    Set(Map<SetValue>) = "set",
    /// Changes headers of the message.
    Header(HeaderStep) = "header",
    /// Changes the header of a SOAP message.
    SoapHeader(SoapHeaderStep) = "soap_header",
    /// Makes the message's body anew.
    Payload(PayloadStep) = "payload",
    /// Changes parts of the message.
    Enrich(EnrichStep) = "enrich",
    /// Transforms the message with a stylesheet.
    Xslt(XsltStep) = "xslt",
    /// Checks the message against a schema.
    Validate(ValidateStep) = "validate",
    /// Makes the message another format.
    Convert(ConvertStep) = "convert",
    /// Runs a program over the message.
    Script(ScriptStep) = "script",
    /// Does one or the other.
    Filter(FilterStep) = "filter",
    /// Does what the first fitting case says.
    Switch(SwitchStep) = "switch",
    /// Runs steps for each part of the message, in its place.
    Foreach(ForeachStep) = "foreach",
    /// Runs steps for each part of the message, and gathers the results.
    Split(SplitStep) = "split",
    /// Runs branches at once, and gathers the results.
    Scatter(ScatterStep) = "scatter",
    /// Runs the steps of another flow.
    Sequence(Spanned<String>) = "sequence",
    /// Writes a line to the log.
    Log(LogStep) = "log",
    /// Gives again what steps made before.
    Cache(CacheStep) = "cache",
    /// Limits the rate of messages, as the policy `rate_limit` does; a message above the limit gets 429. Without `by` all messages share one count.
    Throttle(RateLimit) = "throttle",
    /// Puts the message into a queue. Ends the flow with 202 once it is durable, unless `end: false`.
    Store(StoreStep) = "store",
    /// Runs steps beside the flow, with a copy of the message and without an answer.
    WireTap(WireTapStep) = "wire_tap",
    /// Asks a database.
    Sql(SqlStep) = "sql",
}

impl Step {
    /// The lists of steps inside it, in the order written.
    pub fn inner(&self) -> Vec<&Steps> {
        match self {
            Self::Call(_)
            | Self::Respond(_)
            | Self::Drop(_)
            | Self::Fault(_)
            | Self::Set(_)
            | Self::Header(_)
            | Self::SoapHeader(_)
            | Self::Payload(_)
            | Self::Enrich(_)
            | Self::Xslt(_)
            | Self::Convert(_)
            | Self::Script(_)
            | Self::Sequence(_)
            | Self::Log(_)
            | Self::Throttle(_)
            | Self::Store(_)
            | Self::Sql(_) => Vec::new(),
            Self::Validate(keys) => keys.otherwise.iter().collect(),
            Self::Filter(keys) => vec![&keys.then, &keys.otherwise],
            Self::Switch(keys) => {
                keys.cases.iter().map(|case| &case.steps).chain([&keys.default]).collect()
            }
            Self::Foreach(keys) => vec![&keys.steps],
            Self::Split(keys) => vec![&keys.steps],
            Self::Scatter(keys) => keys.branches.iter().collect(),
            Self::Cache(keys) => vec![&keys.steps],
            Self::WireTap(keys) => vec![&keys.steps],
        }
    }
}

fn unknown(entry: &MapEntry, decoder: &mut Decoder<'_>) -> Option<Step> {
    let meant = decoder.suggest(&entry.key, Step::NAMES.iter().copied());
    decoder.error(
        entry.key_at,
        format!("unknown step {}{}", quote(&entry.key), did_you_mean(meant)),
        format!("the steps are {}", list(Step::NAMES, "and")),
    );
    None
}

impl Decode for Flow {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let Value::List(_) = &node.value else {
            return FlowKeys::decode(node, decoder).map(Self);
        };
        let steps = Steps::decode(node, decoder)?;
        let keys = FlowKeys {
            namespaces: Map::default(),
            timeout: None,
            limits: FlowLimits::absent()?,
            duplicate_members: DuplicateMembers::Refuse,
            steps,
            catch: None,
        };
        Some(Self(keys))
    }

    fn encode(&self) -> Json {
        self.0.encode()
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [Vec::<NamedStep>::schema(schema), FlowKeys::schema(schema)] })
    }
}
