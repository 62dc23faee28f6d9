//! Who asks, as the policies that authenticate found it.

use std::fmt;
use std::sync::OnceLock;

use serde_json::{Map, Value};

/// The claims of a token. Most routes never look at them, and a worker keeps thousands, so they are kept as the text they came
/// as; the tree is made for whoever looks first.
#[derive(Clone)]
pub struct Claims {
    text: Box<[u8]>,
    members: OnceLock<Box<Map<String, Value>>>,
}

/// Who sent the request. Made once for a credential and shared by all exchanges that carry it.
#[derive(Debug, Clone, PartialEq)]
// In this order: the digest stands beside the count of those who share this, which every exchange touches anyway.
#[repr(C)]
pub struct Identity {
    /// Scheme and name as a digest, the same on every gateway: to count by without reading the name, which of a hundred
    /// thousand callers is in no cache.
    pub digest: [u8; 16],
    /// The name limits and the access log go by.
    pub subject: Box<str>,
    /// How it was shown.
    pub scheme: Scheme,
    /// What the token says, where there is one.
    pub claims: Option<Box<Claims>>,
    /// The plan it is on (`Gold`, `Silver`...), where its credential or its subscription names one.
    pub tier: Option<Box<str>>,
}

/// How a client shows who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    Jwt,
    ApiKey,
    Basic,
    /// A client certificate.
    MutualTls,
}

impl Claims {
    /// Of a text that was read before, and is a JSON object.
    pub fn of_text(text: &[u8]) -> Claims {
        Claims { text: text.into(), members: OnceLock::new() }
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.members().get(name)
    }

    /// All of them, by name.
    pub fn members(&self) -> &Map<String, Value> {
        let read = || Box::new(serde_json::from_slice(&self.text).unwrap_or_default());
        self.members.get_or_init(read)
    }
}

impl From<Map<String, Value>> for Claims {
    fn from(members: Map<String, Value>) -> Claims {
        Claims { text: Box::default(), members: Box::new(members).into() }
    }
}

impl PartialEq for Claims {
    fn eq(&self, other: &Claims) -> bool {
        self.members() == other.members()
    }
}

impl fmt::Debug for Claims {
    /// They are nobody's business in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claims").finish_non_exhaustive()
    }
}

impl Scheme {
    /// The word for it, in logs and expressions.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Jwt => "jwt",
            Scheme::ApiKey => "api_key",
            Scheme::Basic => "basic",
            Scheme::MutualTls => "mutual_tls",
        }
    }
}
