//! The client identity that authentication has determined.

use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use crate::ApplicationKey;

/// The claims of a token. They are kept as the received text, since most routes never read them and a worker keeps thousands. The text is
/// parsed at the first access.
#[derive(Clone)]
pub struct Claims {
    text: Box<[u8]>,
    members: OnceLock<Box<Map<String, Value>>>,
    /// The paths of the issuer's claims with scopes.
    scope_claims: Arc<[String]>,
}

/// The client's identity. It is created once for a credential, and shared by all exchanges with that credential.
#[derive(Debug, Clone, PartialEq)]
// The order of fields matters: the digest is next to the reference count, which every exchange accesses anyway.
#[repr(C)]
pub struct Identity {
    /// A digest of scheme and name, the same on every gateway. Limits count by it without reading the name, which is not in the CPU cache
    /// if there are a hundred thousand clients.
    pub digest: [u8; 16],
    /// The name for limits and the access log.
    pub subject: Box<str>,
    /// The scheme by which the client authenticated.
    pub scheme: Scheme,
    /// The claims of the token, if there is one.
    pub claims: Option<Box<Claims>>,
    /// The plan of limits (`Gold`, `Silver`...), if the credential or the subscription names one.
    pub tier: Option<Box<str>>,
    /// The groups of the client.
    pub groups: Box<[Box<str>]>,
    /// Other attributes of the client, by name.
    pub attributes: Box<[(Box<str>, Box<str>)]>,
    /// The key of the application that the credential was issued to, if any.
    pub application: Option<ApplicationKey>,
    /// When the credential expires, in seconds since the Unix epoch, if it does. A stream must not outlive it.
    pub expires: Option<u64>,
}

/// A way to authenticate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    Jwt,
    ApiKey,
    Basic,
    /// A client certificate.
    MutualTls,
    /// A UsernameToken of WS-Security.
    WsSecurity,
    /// A signature made with a shared secret.
    Hmac,
}

impl Claims {
    /// Creates claims from `text`, which must be a valid JSON object. The first of `scope_claims` that is present has the scopes.
    pub fn of_text(text: &[u8], scope_claims: Arc<[String]>) -> Claims {
        Claims { text: text.into(), members: OnceLock::new(), scope_claims }
    }

    /// Like `of_text`, for a JSON object that is parsed already.
    pub fn of_members(members: Map<String, Value>, scope_claims: Arc<[String]>) -> Claims {
        Claims { text: Box::default(), members: Box::new(members).into(), scope_claims }
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.members().get(name)
    }

    /// Returns the claim at a path; see [`claim_at`].
    pub fn at(&self, path: &str) -> Option<&Value> {
        claim_at(self.members(), path)
    }

    /// Returns true if the claims contain a scope.
    pub fn has_scope(&self, scope: &str) -> bool {
        states_scope(self.scope_claims.iter().find_map(|path| self.at(path)), scope)
    }

    /// Returns all claims as a JSON object.
    pub fn json(&self) -> String {
        match std::str::from_utf8(&self.text) {
            Ok(text) if !text.is_empty() => text.to_owned(),
            // Harmless: a map of JSON can always be written.
            Ok(_) | Err(_) => serde_json::to_string(self.members()).unwrap_or_default(),
        }
    }

    /// Returns all claims, by name.
    pub fn members(&self) -> &Map<String, Value> {
        // Harmless: the claims of a verified token are a JSON object.
        let read = || Box::new(serde_json::from_slice(&self.text).unwrap_or_default());
        self.members.get_or_init(read)
    }
}

/// Returns the claim of this name, or else the member at this path, such as `address.city`. Names of claims may themselves contain dots.
pub fn claim_at<'c>(members: &'c Map<String, Value>, path: &str) -> Option<&'c Value> {
    members.get(path).or_else(|| {
        let (first, rest) = path.split_once('.')?;
        claim_at(members.get(first)?.as_object()?, rest)
    })
}

/// Returns true if a claim with scopes, a text or a list, contains this scope.
pub fn states_scope(stated: Option<&Value>, scope: &str) -> bool {
    match stated {
        Some(Value::String(text)) => text.split(' ').any(|stated| stated == scope),
        Some(Value::Array(items)) => items.iter().any(|item| item.as_str() == Some(scope)),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => false,
    }
}

impl Identity {
    /// Returns a hash of the subject, the same on every worker and after every restart.
    pub fn number(&self) -> u64 {
        // Harmless: a digest has 16 bytes.
        let (first, _) = self.digest.split_at_checked(8).unwrap_or_default();
        first.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Returns the attribute of this name.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| **known == *name);
        found.map(|(_, text)| &**text)
    }
}

impl PartialEq for Claims {
    fn eq(&self, other: &Claims) -> bool {
        self.members() == other.members()
    }
}

impl fmt::Debug for Claims {
    /// Omits the claims, which are private and must not appear in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claims").finish_non_exhaustive()
    }
}

impl Scheme {
    /// Returns the scheme's name in logs and expressions.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Jwt => "jwt",
            Scheme::ApiKey => "api_key",
            Scheme::Basic => "basic",
            Scheme::MutualTls => "mutual_tls",
            Scheme::WsSecurity => "ws_security",
            Scheme::Hmac => "hmac",
        }
    }
}
