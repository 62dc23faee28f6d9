//! Introspects tokens at their issuer (RFC 7662).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fault::Kind;
use jose::Object;
use kit::clock::{self, Instant};
use message::{Body, Protocol, Request, RequestHead};
use policy::{Exchange, Fetch};
use serde_json::Value;

use super::refusal::Refusal;

/// The maximum size of a response. A larger one is a failure.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The maximum length of an opaque token, in bytes.
const TOKEN_BYTES_MAX: usize = 4096;

/// The connection to the introspection endpoint of an issuer.
pub struct Introspection {
    fetch: Arc<dyn Fetch>,
    path: String,
    /// The value of `Authorization`.
    credentials: Option<String>,
    timeout: Duration,
    cache: Duration,
}

impl Introspection {
    /// Creates a connection. `client` is the gateway's client id and secret.
    pub fn new(
        fetch: Arc<dyn Fetch>,
        path: String,
        client: Option<(&str, &str)>,
        timeout: Duration,
        cache: Duration,
    ) -> Introspection {
        let credentials = client.map(|(id, secret)| client_credentials(id, secret));
        Introspection { fetch, path, credentials, timeout, cache }
    }

    /// Introspects a token. Returns the claims of an active token, and when to introspect it again.
    pub(crate) async fn ask(
        &self,
        ex: &Exchange,
        token: &[u8],
    ) -> Result<(Object, Option<Instant>), Refusal> {
        let claims = self.fetch(ex, token).await.map_err(Refusal::Unavailable)?;
        if claims.get("active") != Some(&Value::Bool(true)) {
            return Err(Refusal::Inactive);
        }
        Ok((claims, clock::now().checked_add(self.cache)))
    }

    async fn fetch(&self, ex: &Exchange, token: &[u8]) -> Result<Object, Box<str>> {
        let mut head = RequestHead::new(Protocol::Http11, b"POST", self.path.as_bytes());
        head.headers.add_known("Accept", b"application/json");
        head.headers.add_known("Content-Type", b"application/x-www-form-urlencoded");
        if let Some(credentials) = &self.credentials {
            head.headers.add_known("Authorization", credentials.as_bytes());
        }
        let token = std::str::from_utf8(token).map_err(|_| "the token is not text")?;
        let body = format!("token={}&token_type_hint=access_token", form(token));
        let request = Request { head, body: Body::whole(body.into()) };
        let call = ex.additional_call(clock::now().checked_add(self.timeout));
        let reply = self.fetch.fetch(call, request).await.map_err(|fault| fault.cause)?;
        if reply.head.status != 200 {
            return Err(format!("it answered {}", reply.head.status).into());
        }
        let body = reply.body.gather(ANSWER_BYTES_MAX, Kind::ReplyTooLarge).await;
        let body = body.map_err(|fault| fault.cause)?;
        jose::object(&body).ok_or_else(|| "its answer is not a JSON object".into())
    }
}

/// Returns true if a text can be an opaque token.
pub(crate) fn is_token(text: &[u8]) -> bool {
    text.len() <= TOKEN_BYTES_MAX && is_bearer(text)
}

/// Returns true if a text has the form of a bearer token (RFC 6750, 2.1).
pub(crate) fn is_bearer(text: &[u8]) -> bool {
    let good = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
    !text.is_empty() && text.iter().all(good)
}

/// Returns the value of `Authorization` for a client at an OAuth endpoint (RFC 6749, 2.3.1). Both parts are first form-encoded.
pub(crate) fn client_credentials(id: &str, secret: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{}:{}", form(id), form(secret))))
}

/// Percent-encodes everything except unreserved characters.
pub(crate) fn form(text: &str) -> String {
    kit::percent::encoded(text.as_bytes(), b"")
}

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection").field("path", &self.path).finish_non_exhaustive()
    }
}
