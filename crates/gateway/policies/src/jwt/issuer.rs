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

/// An issuer of tokens, and the rules for its tokens.
#[derive(Debug)]
pub struct Issuer {
    /// The value of `iss`. Without it, the issuer's tokens are recognized only by introspection.
    pub issuer: Option<String>,
    /// The claim, or else the member of the header, that has this value in place of `iss`.
    pub issuer_claim: Option<String>,
    pub keys: Keys,
    pub introspection: Option<Introspection>,
    /// `aud` must contain one of these. If empty, any audience is accepted.
    pub audiences: Vec<String>,
    /// The accepted types of tokens, in the form of [`jose::kind`]. If empty, any type is accepted.
    pub types: Vec<String>,
    /// The accepted algorithms. If empty, all algorithms of the issuer's keys are accepted.
    pub algorithms: Vec<jose::Algorithm>,
    /// The client that all its tokens represent, if there is only one.
    pub client: Option<IssuerClient>,
    pub leeway: Duration,
    pub expiry_required: bool,
    pub beginning_required: bool,
    /// Whether tokens are accepted whatever their `exp`.
    pub expiry_ignored: bool,
    /// Whether tokens are accepted whatever their `nbf`.
    pub beginning_ignored: bool,
    pub subject_claim: String,
    /// The paths of claims that may contain the scopes. The first that the token has is used.
    pub scope_claims: Arc<[String]>,
    pub consumer_claim: String,
    /// The claim with the consumer key of an application, or `None` if tokens do not identify applications.
    pub application_claim: Option<String>,
    pub tier_claim: Option<String>,
}

/// The identity of an issuer's only client.
#[derive(Debug)]
pub struct IssuerClient {
    pub subject: String,
    pub groups: Vec<String>,
    pub attributes: Vec<(String, String)>,
}

impl Issuer {
    /// Returns true if the token names this issuer.
    pub(crate) fn is_named(&self, token: &Token<'_>, claims: &Members<'_>) -> bool {
        let Some(issuer) = self.issuer.as_deref() else { return false };
        let claim = self.issuer_claim.as_deref().unwrap_or("iss");
        match claims.get(claim) {
            Some(value) => value.as_str() == Some(issuer),
            None => {
                self.issuer_claim.is_some() && token.header_text(claim).as_deref() == Some(issuer)
            }
        }
    }

    /// Returns true if tokens may use this algorithm.
    pub(crate) fn takes_algorithm(&self, algorithm: jose::Algorithm) -> bool {
        self.algorithms.is_empty() || self.algorithms.contains(&algorithm)
    }

    /// Returns true if a token is of a kind that authenticates a client (RFC 8725, 3.11). If its header does not state the kind, claims may
    /// indicate it: `at_hash` and `c_hash` occur only in ID tokens, and `events` only in security event tokens, such as logout tokens.
    pub(crate) fn takes(&self, token: &Token<'_>, claims: &Members<'_>) -> bool {
        let says = |name: &str, what: &str| claims.get(name).and_then(Value::as_str) == Some(what);
        let is_id = || {
            claims.get("at_hash").or_else(|| claims.get("c_hash")).is_some()
                // The claims that Keycloak and Cognito use.
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
    /// No keys. Each token is introspected.
    Nowhere,
    /// Keys from files.
    Fixed(KeySet),
    /// Keys that the issuer publishes at a URL.
    Published(Arc<PublishedKeys>),
    /// Keys of this process, which can change while in use.
    Own(Arc<OwnIssuerKeys>),
}

/// The keys of an issuer in this process.
#[derive(Debug, Default)]
pub struct OwnIssuerKeys {
    keys: ArcSwap<KeySet>,
    /// Grows with each change.
    generation: AtomicU64,
}

impl OwnIssuerKeys {
    /// Replaces the keys.
    pub fn set(&self, keys: KeySet) {
        self.keys.store(Arc::new(keys));
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Returns true if the token's signature is valid. Nothing else is checked.
    pub fn is_ours(&self, token: &Token<'_>) -> bool {
        self.keys.load().verify(token).is_ok()
    }

    fn verify(&self, token: &Token<'_>) -> Result<u64, Refusal> {
        // The generation is loaded before the keys. If the keys change in between, the token is only verified once more.
        let generation = self.generation.load(Ordering::Acquire);
        Ok(self.keys.load().verify(token).map(|()| generation)?)
    }
}

impl Keys {
    /// Verifies a token with the known keys, and returns their generation.
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

    /// Returns a number that changes with the keys.
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
