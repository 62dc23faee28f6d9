//! `redirect`: answers with a redirect.
//!
//! Owns the `Location` line. Input of a client may affect the path there, but never the host: scheme and host come from the configuration,
//! and a path on the same host begins with a single slash.

use fault::{Fault, Kind};
use message::{Body, Reply, RequestHead};
use policy::{Escape, Exchange, Flow, OnHead, Onward, Policy, Step, Template};

/// Settings of the policy.
#[derive(Debug)]
pub struct RedirectSettings {
    pub status: u16,
    /// The target. `compile` ensures that scheme and host contain no placeholder other than those of the request's own host.
    pub to: Template,
    /// Whether the target is a path on the same host.
    pub same_host: bool,
    pub keep_path: bool,
    pub keep_query: bool,
}

/// Returns the policy.
pub fn policy(settings: RedirectSettings) -> Policy {
    Policy { name: "redirect", request: Some(Step::Head(Box::new(settings))), response: None }
}

impl OnHead<RequestHead> for RedirectSettings {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let mut reply = Reply::new(self.status, Body::Empty);
        reply.head.headers.add("Location", &self.location(ex, head)).map_err(|_| {
            Fault::new(Kind::ProcessingFailed, "redirect: the location is not a valid header value")
        })?;
        Ok(Onward::Turn(reply))
    }
}

impl RedirectSettings {
    fn location(&self, ex: &Exchange, head: &RequestHead) -> Vec<u8> {
        let mut to = self.to.fill(ex, Some(head), Escape::Plain);
        if self.keep_path {
            let sent = ex.notes.as_ref().and_then(|notes| notes.path_sent.as_deref());
            let path = sent.unwrap_or(head.path());
            if to.ends_with(b"/") && path.starts_with(b"/") {
                to.pop();
            }
            to.extend_from_slice(path);
        }
        if let Some(query) = head.query().filter(|_| self.keep_query) {
            to.push(if to.contains(&b'?') { b'&' } else { b'?' });
            to.extend_from_slice(query);
        }
        let to = encoded(&to);
        if !self.same_host {
            return to;
        }
        // After two slashes, a browser would expect a host.
        let slashes = to.iter().take_while(|byte| **byte == b'/').count();
        [b"/", to.get(slashes..).unwrap_or_default()].concat()
    }
}

/// Percent-encodes bytes that are not allowed in a URI (RFC 3986, 2), including line ends, and `\`, which browsers treat as `/`.
fn encoded(uri: &[u8]) -> Vec<u8> {
    kit::percent::encoded(uri, kit::percent::OF_URI).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_a_uri_must_not_contain_are_encoded() {
        assert_eq!(encoded(b"/\\evil.test/\r\n a?b=%20#c"), b"/%5Cevil.test/%0D%0A%20a?b=%20#c");
    }
}
