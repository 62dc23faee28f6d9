//! A request that a client sends, and its form on the wire.

use std::borrow::Cow;

use message::{Protocol, RequestHead};

use super::message::head;

/// A request to send.
pub(super) struct SentRequest {
    pub(super) method: String,
    /// Path and query, alone or in a URL.
    pub(super) target: String,
    pub(super) lines: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl SentRequest {
    /// The host, if the target is a URL, and the path with the query.
    pub(super) fn origin(&self) -> (Option<&str>, Cow<'_, str>) {
        origin(&self.target)
    }

    /// Its head, without the headers that frame its body.
    pub(super) fn head(&self) -> RequestHead {
        let (host, target) = self.origin();
        let method = self.method.as_bytes();
        let mut head = RequestHead::new(Protocol::Http11, method, target.as_bytes());
        if let Some(host) = host.filter(|_| !self.has("host")) {
            head.headers.add_known("Host", host.as_bytes());
        }
        for (name, value) in &self.lines {
            // Harmless: an invalid header name matches no route, and the request is refused.
            let _ = head.headers.add(name, value.as_bytes());
        }
        head
    }

    fn has(&self, name: &str) -> bool {
        self.lines.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// The request as sent over the wire.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let host = self.origin().0.unwrap_or("localhost");
        let host = (!self.has("host")).then_some(("Host", host));
        let lines = self.lines.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let length = (!self.body.is_empty() || !matches!(&*self.method, "GET" | "HEAD"))
            .then_some(self.body.len());
        let start = format!("{} {} HTTP/1.1", self.method, self.target);
        let mut bytes = head(&start, host.into_iter().chain(lines), length).into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// True for a request line that a client can send.
pub(super) fn is_sendable(method: &str, target: &str) -> bool {
    let (host, path) = origin(target);
    let is_host = host.is_none_or(|host| http1::is_host(host.as_bytes()));
    let method = method.as_bytes();
    is_host && http1::is_token(method) && http1::is_target(method, path.as_bytes())
}

/// The host of a target in absolute form, as for a proxy (RFC 9112, 3.2.2), and the path with the query of any target.
pub(super) fn origin(target: &str) -> (Option<&str>, Cow<'_, str>) {
    let Some((scheme, rest)) = target.split_once("://") else { return (None, target.into()) };
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return (None, target.into());
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    if path.starts_with('/') {
        (Some(host), path.into())
    } else {
        (Some(host), format!("/{path}").into())
    }
}
