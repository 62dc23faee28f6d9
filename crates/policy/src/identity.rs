//! Who asks, as the policies that authenticate found it.

use std::sync::Arc;

/// The claims of a token, by name.
pub type Claims = serde_json::Map<String, serde_json::Value>;

/// Who sent the request. Made once for a credential and shared by all exchanges that carry it.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    /// The name limits and the access log go by.
    pub subject: Box<str>,
    /// Scheme and name as a digest, the same on every gateway: to count by without reading the name, which of a hundred
    /// thousand callers is in no cache.
    pub digest: [u8; 16],
    /// How it was shown.
    pub scheme: Scheme,
    /// What the token says, where there is one.
    pub claims: Option<Arc<Claims>>,
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
