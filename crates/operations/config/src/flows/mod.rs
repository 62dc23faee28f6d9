//! `flows.NAME`: the steps that process a message between services.

mod bodies;
mod branches;
mod calls;
mod expression;
mod named_step;
mod step_values;
mod steps;

use std::time::Duration;

use serde_json::{Value as Json, json};

pub use bodies::*;
pub use branches::*;
pub use calls::*;
pub use expression::{
    Condition, ExpressionLanguage, ExpressionText, JsonTemplate, SetValue, ValueType,
};
pub use named_step::NamedStep;
pub use step_values::{QueryTemplate, StatusClass, StatusTemplate};
pub use steps::*;

use crate::decode::{Decode, Decoder, keys, words};
use crate::node::{Node, Value};
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
        // Parsers differ in which member they use, so a step could check a value that the service does not use.
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
        // Enough for the documents of most services. The tree of a document takes about ten times as much memory.
        body_bytes_max: Size = Size(16 * 1024 * 1024),
    }
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
