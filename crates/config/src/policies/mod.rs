//! The kinds of policy, one file each. To add one, write its file and one line in the list below.

mod headers;

use serde_json::{Value as Json, json};

pub use headers::{Headers, HeadersEdit};

use crate::decode::{Decode, Decoder, did_you_mean, list};
use crate::node::{Entry, Node, Value};
use crate::report::quote;
use crate::schema::SchemaBuilder;

/// Makes the list of kinds: the enum, and reading, writing and schema by name.
macro_rules! policies {
    ($( $(#[doc = $doc:literal])* $kind:ident = $name:literal, )*) => {
        /// One item of a route's `policies`: a map with one key, the policy's name.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Policy {
            $( $(#[doc = $doc])* $kind($kind), )*
        }

        impl Policy {
            /// The names, as they are written.
            pub const NAMES: &[&str] = &[$($name),*];

            /// The name it is written under.
            pub fn name(&self) -> &'static str {
                match self {
                    $( Self::$kind(_) => $name, )*
                }
            }

            fn decode_named(entry: &Entry, decoder: &mut Decoder<'_>) -> Option<Self> {
                match entry.key.as_str() {
                    $( $name => $kind::decode(&entry.node, decoder).map(Self::$kind), )*
                    _ => unknown(entry, decoder),
                }
            }

            fn encode_keys(&self) -> Json {
                match self {
                    $( Self::$kind(policy) => policy.encode(), )*
                }
            }

            fn schemas(schema: &mut SchemaBuilder) -> Vec<(&'static str, Json)> {
                vec![$( ($name, $kind::schema(schema)) ),*]
            }
        }
    };
}

policies! {
    /// Changes headers on the way in and out.
    Headers = "headers",
}

impl Decode for Policy {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help =
            "write `- NAME: { ... }`, one item for each policy, keys indented below its name";
        let Value::Map(entries) = &node.value else {
            decoder.expected(node, "a policy", help);
            return None;
        };
        match entries.as_slice() {
            [entry] => Self::decode_named(entry, decoder),
            [] => {
                decoder.error(node.at, "a policy without a name", help);
                None
            }
            [first, second, ..] => {
                let what = format!(
                    "one item of the list names two policies, {} and {}",
                    quote(&first.key),
                    quote(&second.key)
                );
                decoder.error(second.key_at, what, help);
                None
            }
        }
    }

    fn encode(&self) -> Json {
        json!({ self.name(): self.encode_keys() })
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        let one_key = |(name, keys): (&str, Json)| {
            json!({
                "type": "object",
                "properties": { name: keys },
                "required": [name],
                "additionalProperties": false,
            })
        };
        json!({ "anyOf": Self::schemas(schema).into_iter().map(one_key).collect::<Vec<_>>() })
    }
}

fn unknown(entry: &Entry, decoder: &mut Decoder<'_>) -> Option<Policy> {
    let meant = decoder.suggest(&entry.key, Policy::NAMES.iter().copied());
    decoder.error(
        entry.key_at,
        format!("unknown policy {}{}", quote(&entry.key), did_you_mean(meant)),
        format!("the policies are {}", list(Policy::NAMES, "and")),
    );
    None
}
