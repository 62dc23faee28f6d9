//! `cors`: controls which pages of other origins may call.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::decode::{Decode, Decoder, keys, words};
use crate::node::{Node, Value};
use crate::schema::SchemaBuilder;
use crate::values::{Between, OneOrMore, Spanned};

keys! {
    /// Allows pages of other origins to call the route from a browser: answers preflights, and adds the CORS headers to replies.
    pub struct Cors {
        /// Origins such as `https://app.example.com`, patterns such as `https://*.example.com`, `{ regex: "https://[a-z]+\\.example\\.com" }`
        /// for the whole origin, or `*` for all.
        origins: Spanned<OneOrMore<Spanned<OriginMatch>>>,
        /// Methods that pages may use; GET, HEAD, POST, PUT, PATCH and DELETE if absent.
        // The methods that browsers usually send.
        methods: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// Request headers that pages may set. If absent or `*`, those that they ask for.
        headers: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// Reply headers that pages may read, in addition to those that CORS always allows.
        expose: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// Whether pages may send cookies and other credentials. This requires listed origins.
        credentials: Spanned<bool> = Spanned::unwritten(false),
        /// Whether `credentials` may be combined with `origins: ["*"]`, as in Kong. Any website could then act on behalf of its visitors.
        // This must not happen by accident.
        any_with_credentials: bool = false,
        /// How long a browser may cache the answer to a preflight.
        // Without it, browsers cache for 5 s, which means a preflight for nearly every call; Chromium caches at most two hours. Ten minutes
        // are enough, and changes take effect soon.
        max_age: Duration = Duration::from_secs(600),
        /// What becomes of preflights: with `answer`, the gateway answers them, also if the route does not take `OPTIONS`. With `as_options`,
        /// it answers only those that the route takes as `OPTIONS` requests. With `forward`, the upstream gets them like other `OPTIONS`
        /// requests, and its CORS headers are in the reply.
        // A list of methods rarely names OPTIONS, and pages could not use such a route.
        preflights: CorsPreflights = CorsPreflights::Answer,
        /// The status of the gateway's answer to a preflight.
        // The answer has no body. Browsers take every status of success.
        preflight_status: Between<200, 299> = const { Between::new(204) },
    }
}

words! {
    /// What becomes of preflights.
    pub enum CorsPreflights {
        /// The gateway answers those that ask about a request for the route.
        Answer = "answer",
        /// The gateway answers those that match the route.
        AsOptions = "as_options",
        /// The upstream gets those that match the route.
        Forward = "forward",
    }
}

/// An origin that may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginMatch {
    /// An origin, a pattern of origins, or `*`.
    Text(String),
    /// A regular expression that the whole origin has to match.
    Regex(String),
}

impl Decode for OriginMatch {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        if !matches!(node.value, Value::Map(_)) {
            return String::decode(node, decoder).map(Self::Text);
        }
        decoder.section(node, &["regex"], &[])?;
        let Some(regex) = node.get("regex") else {
            decoder.expected(
                node,
                "`regex`",
                "write `{ regex: \"https://[a-z]+\\\\.example\\\\.com\" }`",
            );
            return None;
        };
        String::decode(regex, decoder).map(Self::Regex)
    }

    fn encode(&self) -> Json {
        match self {
            Self::Text(text) => text.as_str().into(),
            Self::Regex(regex) => json!({ "regex": regex }),
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [String::schema(schema), {
            "type": "object",
            "properties": { "regex": String::schema(schema) },
            "required": ["regex"],
            "additionalProperties": false,
        }] })
    }
}
