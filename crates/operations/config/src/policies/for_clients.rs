//! `for`: applies a policy to some clients only.

use serde_json::{Value as Json, json};

use super::Policy;
use crate::decode::{Decode, Decoder, keys};
use crate::node::Node;
use crate::schema::SchemaBuilder;
use crate::values::Spanned;

keys! {
    /// Applies a policy to some clients only, such as a separate limit. It must stand below the policy that authenticates clients.
    pub struct ForClients {
        /// Clients by subject. Without `subjects` and `groups`, the policy applies to all clients except those in `except`.
        subjects: Vec<String> = Vec::new(),
        /// Clients by group: those in one of these groups.
        groups: Vec<String> = Vec::new(),
        /// Clients that the policy does not apply to, even if they are listed above.
        except: ClientList,
        /// The policy, such as `{ rate_limit: { requests: 10, per: 1m, by: subject } }`.
        policy: InnerPolicy,
    }
}

keys! {
    /// Clients by name.
    pub struct ClientList {
        /// Their subjects.
        subjects: Vec<String> = Vec::new(),
        /// Groups that they are in.
        groups: Vec<String> = Vec::new(),
    }
}

/// A policy within another.
#[derive(Clone, Debug, PartialEq)]
pub struct InnerPolicy(pub Box<Spanned<Policy>>);

/// Kinds that cannot be applied to single clients: they authenticate clients, answer every request, or affect other policies.
const NOT_INSIDE: [&str; 13] = [
    "api_key",
    "authenticate",
    "basic",
    "cache",
    "cors",
    "for",
    "hmac",
    "jwks",
    "jwt",
    "mock",
    "mutual_tls",
    "redirect",
    "use",
];

impl Decode for InnerPolicy {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let inner = Spanned::<Policy>::decode(node, decoder)?;
        let name = inner.value.name();
        if NOT_INSIDE.contains(&name) {
            let what = format!("`for` cannot be used with `{name}`");
            decoder.error(node.at, what, "write it outside of `for`");
            return None;
        }
        Some(Self(Box::new(inner)))
    }

    fn encode(&self) -> Json {
        self.0.value.encode()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        json!({ "type": "object", "minProperties": 1, "maxProperties": 1 })
    }
}
