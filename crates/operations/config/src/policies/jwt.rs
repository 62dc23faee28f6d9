//! `jwt`: authenticates clients by a signed token. `backend_jwt`: passes the client identity to the upstream in a token signed by the
//! gateway. `jwks`: publishes the keys of the latter.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::decode::{Decode, Decoder, keys};
use crate::node::{Node, Value};
use crate::schema::SchemaBuilder;
use crate::values::{CookieName, FilePath, Map, OneOrMore, Spanned, Timeout};

keys! {
    /// Requires a token that one of the issuers has signed.
    pub struct Jwt {
        /// The accepted issuers: names of `issuers`.
        issuers: Spanned<Vec<Spanned<String>>>,
        /// Audiences: `aud` must contain one of them, in addition to the requirement of the issuer.
        audiences: OneOrMore<String> = OneOrMore(Vec::new()),
        /// Scopes that the token needs: one of them with `{ any: [..] }`, or each of them with `{ all: [..] }`.
        scopes: Scopes,
        /// Claims that the token needs: the exact value, a list of accepted values, or `{ present: true }`.
        claims: Map<ClaimWanted> = Map::default(),
        /// The header with the token; in `authorization` it comes after `Bearer`.
        header: Spanned<String> = Spanned::unwritten("authorization".to_owned()),
        /// The query parameter that may carry the token instead.
        query: Option<Spanned<String>>,
        /// The cookie that may carry the token instead.
        cookie: Option<CookieName>,
        /// The longest time until the expiry of a token. A token that expires later, or never, is refused.
        lifetime_max: Option<Timeout>,
        /// Whether the token is forwarded to the upstream.
        // A service that does not need the token could only leak it.
        forward: bool = false,
        /// Whether requests without a token are allowed, without a subject. A bad token is still refused.
        optional: bool = false,
        /// Headers for the upstream by name, each with the claim for its value, such as `x-user: sub` or `x-city: address.city`. Headers of
        /// these names that the client has sent are removed.
        claims_to_headers: Map<Spanned<String>> = Map::default(),
        /// The claim with the groups of the subject, such as `groups` or `realm_access.roles`: a list, or a text with commas. `authorize`
        /// and rules in CEL use them, and `claims_to_headers` can pass them on as `groups`.
        groups: Option<Spanned<String>>,
        /// Requires this API in the token's `subscribedAPIs` claim, and takes the plan from there.
        subscription: Option<Subscription>,
        /// The realm in `WWW-Authenticate`.
        realm: Spanned<String> = Spanned::unwritten("tidegate".to_owned()),
    }
}

keys! {
    /// Scopes that a token needs.
    pub struct Scopes {
        /// One of these.
        any: Vec<String> = Vec::new(),
        /// Each of these.
        all: Vec<String> = Vec::new(),
    }
}

keys! {
    /// The API in terms of `subscribedAPIs`. An absent key matches anything.
    pub struct Subscription {
        /// Its name.
        name: Option<String>,
        /// Its context, such as `/orders/1.0`.
        context: Option<String>,
        /// Its version.
        version: Option<String>,
    }
}

keys! {
    /// Sends the client identity to the upstream, in a token that the gateway signs.
    pub struct BackendJwt {
        /// The header with the token. A value that the client has sent is removed.
        header: Spanned<String> = Spanned::unwritten("X-JWT-Assertion".to_owned()),
        /// The claim `iss`.
        issuer: String = "tidegate".to_owned(),
        /// The claim `aud`.
        audiences: OneOrMore<String> = OneOrMore(Vec::new()),
        /// How long a token is valid. A new one is issued well before it expires.
        // The default of Choreo Connect.
        ttl: Timeout = Timeout(Duration::from_secs(3600)),
        /// Files with private keys (PKCS#8 PEM: RSA, P-256, P-384 or Ed25519). The first signs. All are published, so that a new key is
        /// known before it signs, and an old one while its tokens are valid.
        keys: OneOrMore<Spanned<FilePath>>,
        /// Claims to copy from the client's token.
        copy: Vec<String> = Vec::new(),
        /// Claims to add, by name.
        claims: Map<String> = Map::default(),
    }
}

keys! {
    /// Answers with the public keys of every `backend_jwt`.
    pub struct Jwks {
        /// How long clients may cache the keys.
        // A new key should be published for this long before it signs.
        max_age: Duration = Duration::from_secs(300),
    }
}

/// The requirement on a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimWanted {
    /// The claim exists, with any value.
    Present,
    /// One of these.
    OneOf(Vec<String>),
}

impl Decode for ClaimWanted {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let Value::Map(_) = &node.value else {
            return OneOrMore::decode(node, decoder).map(|values| Self::OneOf(values.0));
        };
        decoder.section(node, &["present"], &[])?;
        match node.get("present").and_then(Node::bare_text) {
            Some("true") => Some(Self::Present),
            _ => {
                let help = "write the exact value, a list of values, or `{ present: true }`";
                decoder.expected(node, "the value of a claim", help);
                None
            }
        }
    }

    fn encode(&self) -> Json {
        match self {
            Self::Present => json!({ "present": true }),
            Self::OneOf(values) => OneOrMore(values.clone()).encode(),
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [OneOrMore::<String>::schema(schema), { "type": "object" }] })
    }
}
