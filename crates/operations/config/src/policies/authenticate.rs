//! `authenticate`: authenticates clients by one of several kinds of credential.

use serde_json::{Value as Json, json};

use crate::decode::{Decode, Decoder, keys, list, words};
use crate::node::Node;
use crate::policies::{ApiKey, Basic, Hmac, Jwt, MutualTls, Policy};
use crate::schema::{SchemaBuilder, one_key_of};
use crate::values::Spanned;

keys! {
    /// Requires one of several kinds of credential. The first kind in the list whose credential is in the request decides. If it refuses
    /// the credential, the request is refused.
    pub struct Authenticate {
        /// The kinds, in order: `jwt`, `api_key`, `basic`, `hmac` and `mutual_tls`, each with its own keys, such as
        /// `[{ jwt: { issuers: [main] } }, { api_key: { header: x-api-key, keys: { file: keys.yaml } } }]`.
        any: Spanned<Vec<Spanned<CredentialKind>>>,
        /// What happens to a request with none of the credentials: `refuse` is 401 with the challenge of each kind, `anonymous` lets it
        /// pass without a subject. A wrong credential is refused either way.
        // Anonymous access must be enabled explicitly.
        otherwise: WithoutCredential = WithoutCredential::Refuse,
    }
}

words! {
    /// What happens to a request without a credential.
    pub enum WithoutCredential {
        /// 401, with the challenge of each kind.
        Refuse = "refuse",
        /// It passes without a subject.
        Anonymous = "anonymous",
    }
}

/// A policy that determines the client identity.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a configuration has few of them, in lists")]
pub enum CredentialKind {
    /// A signed token.
    Jwt(Jwt),
    /// A key.
    ApiKey(ApiKey),
    /// A name and a password.
    Basic(Basic),
    /// A signature.
    Hmac(Hmac),
    /// A client certificate.
    MutualTls(MutualTls),
}

impl CredentialKind {
    const NAMES: &[&str] = &["jwt", "api_key", "basic", "hmac", "mutual_tls"];

    /// Returns the policy's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Jwt(_) => "jwt",
            Self::ApiKey(_) => "api_key",
            Self::Basic(_) => "basic",
            Self::Hmac(_) => "hmac",
            Self::MutualTls(_) => "mutual_tls",
        }
    }
}

impl Decode for CredentialKind {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        #[allow(clippy::wildcard_enum_match_arm, reason = "all other policies are refused alike")]
        match Policy::decode(node, decoder)? {
            Policy::Jwt(keys) => Some(Self::Jwt(keys)),
            Policy::ApiKey(keys) => Some(Self::ApiKey(keys)),
            Policy::Basic(keys) => Some(Self::Basic(keys)),
            Policy::Hmac(keys) => Some(Self::Hmac(keys)),
            Policy::MutualTls(keys) => Some(Self::MutualTls(keys)),
            other => {
                let what = format!("`{}` does not authenticate clients", other.name());
                decoder.error(node.at, what, format!("write {}", list(Self::NAMES, "or")));
                None
            }
        }
    }

    fn encode(&self) -> Json {
        let keys = match self {
            Self::Jwt(keys) => keys.encode(),
            Self::ApiKey(keys) => keys.encode(),
            Self::Basic(keys) => keys.encode(),
            Self::Hmac(keys) => keys.encode(),
            Self::MutualTls(keys) => keys.encode(),
        };
        json!({ self.name(): keys })
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        let kinds = [
            ("jwt", Jwt::schema(schema)),
            ("api_key", ApiKey::schema(schema)),
            ("basic", Basic::schema(schema)),
            ("hmac", Hmac::schema(schema)),
            ("mutual_tls", MutualTls::schema(schema)),
        ];
        one_key_of(kinds)
    }
}
