//! `applications.NAME`: clients with their keys, and their subscriptions to APIs.

use serde_json::Value as Json;

use crate::decode::{Decode, Decoder, keys, words};
use crate::node::{Node, Value};
use crate::schema::SchemaBuilder;
use crate::values::{Map, OneOrMore, Secret, Spanned};

keys! {
    /// An application: a client of APIs with `subscription`, identified by the consumer keys in its tokens.
    pub struct Application {
        /// The plan of all requests of the application together, such as `50PerMin`; no limit if absent.
        plan: Option<Spanned<String>>,
        /// The consumer keys of the application. A token has one in the claim that its issuer's `application` names.
        keys: OneOrMore<Spanned<ApplicationKeys>> = OneOrMore(Vec::new()),
        /// The APIs to which it has subscribed, each with the plan: `{ petstore: Gold }`, or
        /// `{ petstore: { plan: Gold, state: BLOCKED } }`.
        subscriptions: Map<Spanned<ApplicationSubscription>> = Map::default(),
    }
}

keys! {
    /// A key of an application.
    pub struct ApplicationKeys {
        /// The consumer key, which tokens have in `azp` or `client_id`.
        consumer_key: Spanned<String>,
        /// The secret with which the application requests tokens from a catalog.
        consumer_secret: Option<Secret>,
        /// Whether the key is for production or for the sandbox.
        kind as "type": KeyUse = KeyUse::Production,
    }
}

words! {
    /// The environment of a key.
    pub enum KeyUse {
        /// Production.
        Production = "PRODUCTION",
        /// Sandbox.
        Sandbox = "SANDBOX",
    }
}

words! {
    /// Whether requests of a subscription pass.
    pub enum SubscriptionState {
        /// They pass.
        Unblocked = "UNBLOCKED",
        /// They are refused with 401.
        Blocked = "BLOCKED",
        /// Requests with a production key are refused.
        ProductionBlocked = "PROD_ONLY_BLOCKED",
    }
}

/// A subscription: the name of its plan, or the plan and the state.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplicationSubscription {
    pub plan: Spanned<String>,
    pub state: SubscriptionState,
}

keys! {
    /// A subscription with its state.
    pub(crate) struct SubscriptionKeys {
        /// The plan, one of those that the API offers.
        plan: Spanned<String>,
        /// Whether its requests pass.
        state: SubscriptionState = SubscriptionState::Unblocked,
    }
}

impl Decode for ApplicationSubscription {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        match &node.value {
            Value::Map(_) => {
                let SubscriptionKeys { plan, state } = SubscriptionKeys::decode(node, decoder)?;
                Some(Self { plan, state })
            }
            Value::Null | Value::Unreadable | Value::Scalar(_) | Value::List(_) => {
                let plan = Spanned::decode(node, decoder)?;
                Some(Self { plan, state: SubscriptionState::Unblocked })
            }
        }
    }

    fn encode(&self) -> Json {
        let Self { plan, state } = self.clone();
        match state {
            SubscriptionState::Unblocked => plan.encode(),
            SubscriptionState::Blocked | SubscriptionState::ProductionBlocked => {
                SubscriptionKeys { plan, state }.encode()
            }
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        let keys = SubscriptionKeys::schema(schema);
        serde_json::json!({ "anyOf": [{ "type": "string" }, keys] })
    }
}
