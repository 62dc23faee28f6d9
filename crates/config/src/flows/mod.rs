//! `flows.NAME`: the steps that process a message between services.

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

/// The default timeout of a flow's steps.
// Longer than the default of 30 s of `gather`, so that its partial result is still used.
pub const FLOW_TIMEOUT: Duration = Duration::from_secs(60);

/// Names of values that every message has, as in `$body`. They cannot be names of variables.
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
        /// The timeout of its steps, 1 minute if absent. The steps of `catch` have the same time again. If written, it also applies when
        /// another flow runs the steps by `sequence`.
        timeout: Option<Timeout>,
        /// Bounds of the flow.
        limits: FlowLimits,
        /// What happens to JSON in which an object has a duplicate member: `refuse` answers 400, or 502 for a reply; with `last`, the last
        /// one counts. It also applies to flows that this flow runs by `sequence`.
        // Parsers may use different ones, so a step could check a value that the service does not use.
        duplicate_members: DuplicateMembers = DuplicateMembers::Refuse,
        /// The steps.
        steps: Steps,
        /// Steps for a fault that no step caught, with `$error`.
        catch: Option<Steps>,
    }
}

words! {
    /// What happens to JSON in which an object has a duplicate member.
    pub enum DuplicateMembers {
        /// It is refused as malformed.
        Refuse = "refuse",
        /// The last one counts.
        Last = "last",
    }
}

keys! {
    /// Bounds of a flow.
    pub struct FlowLimits {
        /// The largest body: 413 above for a request, 502 for a reply, 500 for the result of a step.
        // As large as documents of services are. The tree of one takes about ten times as much memory.
        body_bytes_max: Size = Size(16 * 1024 * 1024),
    }
}

/// The key of a step's name, next to the key of the step.
const NAME: &str = "name";
const NAME_DOC: &str = "The name of the step in metrics, traces, the log and `explain`.";

/// Generates the enum of all steps, with parsing, writing and schema by name.
macro_rules! steps {
    ($( $(#[doc = $doc:literal])* $kind:ident($keys:ty) = $name:literal, )*) => {
        /// One step: a map with one key, the step's name.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "a configuration has few, and keeps them in lists of their own")]
        pub enum Step {
            $( $(#[doc = $doc])* $kind($keys), )*
        }

        impl Step {
            /// The names of all steps in the configuration.
            pub const NAMES: &[&str] = &[$($name),*];

            /// Returns the name of the step in the configuration.
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
    /// Builds a new body for the message.
    Payload(PayloadStep) = "payload",
    /// Changes parts of the message.
    Enrich(EnrichStep) = "enrich",
    /// Transforms the message with a stylesheet.
    Xslt(XsltStep) = "xslt",
    /// Validates the message against a schema.
    Validate(ValidateStep) = "validate",
    /// Converts the message to another format.
    Convert(ConvertStep) = "convert",
    /// Runs a program over the message.
    Script(ScriptStep) = "script",
    /// Runs one of two lists of steps, by a condition.
    Filter(FilterStep) = "filter",
    /// Runs the steps of the first matching case.
    Switch(SwitchStep) = "switch",
    /// Runs steps for each part of the message, and replaces the part by the result.
    Foreach(ForeachStep) = "foreach",
    /// Runs steps for each part of the message, and gathers the results.
    Split(SplitStep) = "split",
    /// Runs branches concurrently, and gathers the results.
    Scatter(ScatterStep) = "scatter",
    /// Runs the steps of another flow.
    Sequence(Spanned<String>) = "sequence",
    /// Writes a line to the log.
    Log(LogStep) = "log",
    /// Caches the result of steps.
    Cache(CacheStep) = "cache",
    /// Limits the rate of messages, like the policy `rate_limit`. A message beyond the limit gets 429. Without `by`, all messages share one
    /// count.
    Throttle(RateLimit) = "throttle",
    /// Puts the message into a queue. Ends the flow with 202 once it is durable, unless `end: false`.
    Store(StoreStep) = "store",
    /// Runs steps in parallel to the flow, with a copy of the message. Their reply is discarded.
    WireTap(WireTapStep) = "wire_tap",
    /// Runs a statement in a database.
    Sql(SqlStep) = "sql",
}

impl Step {
    /// Returns the nested lists of steps, in the order written.
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
