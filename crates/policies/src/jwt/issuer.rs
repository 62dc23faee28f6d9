//! Issuers of tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;

use jose::{KeySet, Members, Token};
use serde_json::Value;

use super::introspect::Introspection;
use super::published::PublishedKeys;
use super::refusal::Refusal;

/// An issuer of tokens, and the way to read its tokens.
#[derive(Debug)]
pub struct Issuer {
    /// The value of `iss`. Without it only introspection finds the issuer's tokens.
    pub issuer: Option<String>,
    pub keys: Keys,
    pub introspection: Option<Introspection>,
    /// One of these has to be named by `aud`; any may where there are none.
    pub audiences: Vec<String>,
    /// The types that a token may have, as [`jose::kind`] has it; anything where there are none.
    pub types: Vec<String>,
    /// The algorithms that a token may have; any of its keys' where there are none.
    pub algorithms: Vec<jose::Algorithm>,
    /// The one client that all its tokens are of.
    pub client: Option<IssuerClient>,
    pub leeway: Duration,
    pub expiry_required: bool,
    pub subject_claim: String,
    pub scope_claims: Vec<String>,
    pub consumer_claim: String,
    /// The claim that leads to an application, by its consumer key. None: the issuer's tokens lead to none.
    pub application_claim: Option<String>,
    pub tier_claim: Option<String>,
}

/// What is known of the only client of an issuer.
#[derive(Debug)]
pub struct IssuerClient {
    pub subject: String,
    pub groups: Vec<String>,
    pub attributes: Vec<(String, String)>,
}

impl Issuer {
    /// True if its tokens may have this algorithm.
    pub(crate) fn takes_algorithm(&self, algorithm: jose::Algorithm) -> bool {
        self.algorithms.is_empty() || self.algorithms.contains(&algorithm)
    }

    /// True if a token is of a kind that shows who asks (RFC 8725, 3.11). If its header leaves that open, its claims may tell:
    /// `at_hash` and `c_hash` are in ID tokens alone, and `events` in security events, of which the order to log out is one.
    pub(crate) fn takes(&self, token: &Token<'_>, claims: &Members<'_>) -> bool {
        let says = |name: &str, what: &str| claims.get(name).and_then(Value::as_str) == Some(what);
        let is_id = || {
            claims.get("at_hash").or_else(|| claims.get("c_hash")).is_some()
                // Keycloak and Cognito.
                || says("typ", "ID")
                || says("token_use", "id")
        };
        let kind = match token.kind.as_deref() {
            Some(kind) => kind,
            None if is_id() => "id_token",
            None if claims.get("events").is_some_and(Value::is_object) => "secevent+jwt",
            None => "jwt",
        };
        self.types.is_empty() || self.types.iter().any(|known| known == kind)
    }
}

/// The source of an issuer's keys.
#[derive(Debug)]
pub enum Keys {
    /// It has none, and is asked about each token.
    Nowhere,
    /// In files.
    Fixed(KeySet),
    /// The address at which it publishes them.
    Published(Arc<PublishedKeys>),
    /// This process's own, which change while they are used.
    Own(Arc<OwnIssuerKeys>),
}

/// Keys of an issuer in this process.
#[derive(Debug, Default)]
pub struct OwnIssuerKeys {
    keys: ArcSwap<KeySet>,
    /// Grows with each change.
    generation: AtomicU64,
}

impl OwnIssuerKeys {
    /// These are the keys from now on.
    pub fn set(&self, keys: KeySet) {
        self.keys.store(Arc::new(keys));
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Checks a token's signature without anything else.
    pub fn is_ours(&self, token: &Token<'_>) -> bool {
        self.keys.load().verify(token).is_ok()
    }

    fn verify(&self, token: &Token<'_>) -> Result<u64, Refusal> {
        // Before the keys: with newer ones it is verified again.
        let generation = self.generation.load(Ordering::Acquire);
        Ok(self.keys.load().verify(token).map(|()| generation)?)
    }
}

impl Keys {
    /// Verifies with the keys that are there, and gives their generation.
    pub(crate) fn verify(&self, token: &Token<'_>) -> Result<u64, Refusal> {
        match self {
            Keys::Nowhere => Err(Refusal::KeyUnknown),
            Keys::Fixed(keys) => Ok(keys.verify(token).map(|()| 0)?),
            Keys::Own(own) => own.verify(token),
            Keys::Published(published) => {
                let verified = published.known().verify_or_ask(token);
                if verified == Err(Refusal::Token(jose::Error::Signature)) {
                    published.suspect();
                }
                verified
            }
        }
    }

    /// A number that changes with the keys.
    pub(crate) fn generation(&self) -> u64 {
        match self {
            Keys::Nowhere | Keys::Fixed(_) => 0,
            Keys::Own(own) => own.generation.load(Ordering::Acquire),
            Keys::Published(published) => published.generation(),
        }
    }

    pub(crate) fn published(&self) -> Option<&PublishedKeys> {
        match self {
            Keys::Nowhere | Keys::Fixed(_) | Keys::Own(_) => None,
            Keys::Published(published) => Some(published),
        }
    }
}
