//! The keys of the step `call`.

use serde_json::{Value as Json, json};

use super::{ExpressionText, QueryTemplate, StatusClass};
use crate::decode::{Decode, Decoder, keys};
use crate::node::{Node, Value};
use crate::schema::SchemaBuilder;
use crate::values::{Map, Spanned, Timeout};

keys! {
    /// Sends the message to an upstream. The reply becomes the message, whatever its status, unless `into` stores it in a variable.
    pub struct CallStep {
        /// One of the `upstreams`.
        upstream: Option<Spanned<String>>,
        /// A template of the URL, in place of `upstream`, for an address that is known only at run time. `endpoints` lists the addresses
        /// that may be called.
        url: Option<Spanned<String>>,
        /// The method, which may be a template; the request's if absent or empty.
        method: Option<Spanned<String>>,
        /// A template of the path; as the route forwards it if absent. If it is a single placeholder, its value is the whole path including
        /// the query.
        path: Option<Spanned<String>>,
        /// The query: a template, or templates by the names of parameters; the request's if absent.
        query: Option<QueryTemplate>,
        /// Changes to the headers of this call only.
        headers: CallHeaders,
        /// The body to send; that of the message if absent.
        body: Option<ExpressionText>,
        /// The timeout of the whole call. The timeouts of the upstream also apply.
        timeout: Option<Spanned<Timeout>>,
        /// A variable that stores the reply, as `$NAME.status`, `$NAME.headers.X` and `$NAME.body`. The message is not changed.
        into: Option<Spanned<String>>,
        /// Statuses that are faults, such as `[5xx, 404]`.
        // The meaning of a status depends on the flow, so none is a fault by default.
        fault_on: Vec<StatusClass> = Vec::new(),
    }
}

keys! {
    /// Changes to the headers of one call.
    pub struct CallHeaders {
        /// Headers to replace, or to add if they are missing. The values are templates.
        set: Map<Spanned<String>> = Map::default(),
        /// Headers to omit.
        remove: Vec<Spanned<String>> = Vec::new(),
    }
}

/// The `call` step: the name of an upstream, or its keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Call(pub CallStep);

impl Decode for Call {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(_) => {
                let upstream = Spanned::decode(node, decoder)?;
                Some(Self(CallStep {
                    upstream: Some(upstream),
                    url: None,
                    method: None,
                    path: None,
                    query: None,
                    headers: CallHeaders { set: Map::default(), remove: Vec::new() },
                    body: None,
                    timeout: None,
                    into: None,
                    fault_on: Vec::new(),
                }))
            }
            Value::Null | Value::Unreadable | Value::List(_) | Value::Map(_) => {
                CallStep::decode(node, decoder).map(Self)
            }
        }
    }

    fn encode(&self) -> Json {
        self.0.encode()
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [String::schema(schema), CallStep::schema(schema)] })
    }
}
