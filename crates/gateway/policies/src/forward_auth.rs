//! `forward_auth`: asks a service whether a request may pass, as Traefik, nginx and Caddy do.
//!
//! Owns the request to the service, and the effects of its reply. The connection to the service is a [`policy::Fetch`].

use std::sync::Arc;
use std::time::Duration;

use fault::{Fault, Kind};
use kit::clock;
use message::{Body, Headers, Protocol, Reply, Request, RequestHead};
use policy::{Decision, Exchange, Fetch, Flow, OnCall, Onward, Policy, Step};

/// The settings of one `forward_auth`, made by `compile`.
pub struct ForwardAuthSettings {
    pub fetch: Arc<dyn Fetch>,
    /// The path and query of requests to the service.
    pub path: String,
    /// The headers that are sent to the service, in lower case, or `None` for all.
    pub send: Option<Vec<String>>,
    /// The headers that the service may set, in lower case.
    pub take: Vec<String>,
    /// The timeout of the whole call.
    pub timeout: Duration,
    /// Whether a request passes if the service does not answer.
    pub passes_on_failure: bool,
    /// The maximum size of a reply that is passed to the client.
    pub body_bytes_max: usize,
}

/// Returns the policy for these settings.
pub fn policy(settings: ForwardAuthSettings) -> Policy {
    let step = Step::Call(Box::new(settings));
    Policy { name: "forward_auth", request: Some(step), response: None }
}

/// The body of a 2xx is not used. Up to this many bytes of it are read, so that the connection can be reused.
const IGNORED_BYTES_MAX: usize = 64 * 1024;

impl OnCall<RequestHead> for ForwardAuthSettings {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        Decision::Waits(Box::pin(self.ask(ex, head)))
    }
}

impl ForwardAuthSettings {
    async fn ask(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let asked = self.asked(ex, head);
        // Headers that the service may set are removed from the client's request, so that a client cannot forge them.
        self.take.iter().for_each(|name| head.headers.remove(name));
        match self.answer(ex, asked).await {
            Ok(reply) if (200..300).contains(&reply.head.status) => {
                for name in &self.take {
                    for value in reply.head.headers.get_all(name) {
                        head.headers.add_known(name, value);
                    }
                }
                Ok(Onward::Next)
            }
            Ok(reply) => Ok(Onward::Turn(reply)),
            Err(fault) if self.passes_on_failure => {
                tracing::warn!(
                    request_id = ex.id.as_str(),
                    "forward_auth: {fault}; the request passes, as `on_failure` says"
                );
                Ok(Onward::Next)
            }
            Err(fault) => {
                Err(Fault::new(Kind::PolicyUnavailable, format!("forward_auth: {fault}")))
            }
        }
    }

    /// Returns the service's reply, with its body in memory.
    async fn answer(&self, ex: &Exchange, head: RequestHead) -> Result<Reply, Fault> {
        let request = Request { head, body: Body::Empty };
        let call = ex.additional_call(clock::now().checked_add(self.timeout));
        let Reply { head, body, .. } = self.fetch.fetch(call, request).await?;
        if head.status < 200 {
            let why = format!("the service answered with status {}", head.status);
            return Err(Fault::new(Kind::UpstreamMalformed, why));
        }
        let waiting = matches!(body, Body::Stream(_)).then(|| ex.totals.upstream_wait.begin());
        let passes = head.status < 300;
        let bytes_max = if passes { IGNORED_BYTES_MAX } else { self.body_bytes_max };
        let gathered = body.gather(bytes_max, Kind::ReplyTooLarge).await;
        drop(waiting);
        let body = match gathered {
            Ok(bytes) => Body::whole(bytes),
            // The body would not be used.
            Err(_) if passes => Body::Empty,
            Err(fault) => return Err(fault),
        };
        let mut reply = Reply::new(head.status, body);
        reply.head = head;
        // The body gets new framing headers.
        for name in ["content-length", "transfer-encoding", "trailer"] {
            reply.head.headers.remove(name);
        }
        Ok(reply)
    }

    /// Returns the request to the service: a GET that describes the client's request.
    fn asked(&self, ex: &Exchange, head: &RequestHead) -> RequestHead {
        let mut asked = RequestHead::new(Protocol::Http11, b"GET", self.path.as_bytes());
        let lines = head.headers.iter().filter(|(name, _)| self.sends(name));
        for (name, value) in lines {
            // Harmless: both were parsed from a head, so they are valid.
            let _ = std::str::from_utf8(name).map(|name| asked.headers.add_known(name, value));
        }
        add_forwarded_lines(&mut asked.headers, ex, head);
        asked
    }

    /// Returns true if a header of the client is sent to the service. Headers of the connection and of the body are not sent, and neither
    /// are those that the gateway writes itself.
    fn sends(&self, name: &[u8]) -> bool {
        let own = NOT_SENT.iter().any(|not| http1::is_alias(name, not.as_bytes()));
        let listed = |names: &Vec<String>| {
            names.iter().any(|wanted| http1::is_alias(name, wanted.as_bytes()))
        };
        !own && !http1::is_forwarding(name) && self.send.as_ref().is_none_or(listed)
    }
}

/// Lines that are not sent to the service: those of the connection, those of a body that it does not get, the host and the request id,
/// which the gateway writes itself, and range and conditional headers, which refer to the upstream's reply. A service that obeys range or
/// conditional headers would answer with 304, 412 or 416, which the client would attribute to the upstream.
const NOT_SENT: [&str; 22] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "content-length",
    "content-encoding",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
    "x-request-id",
    "sec-websocket-key",
];

/// Adds the lines that describe the request to the service, with Traefik's names.
fn add_forwarded_lines(lines: &mut Headers, ex: &Exchange, head: &RequestHead) {
    lines.add_known("X-Forwarded-Method", head.method());
    lines.add_known("X-Forwarded-Proto", proto(ex, head));
    if let Some(host) = head.headers.get("x-forwarded-host").or(head.headers.get("host")) {
        lines.add_known("X-Forwarded-Host", host);
    }
    let sent = ex.notes.as_ref().and_then(|notes| notes.path_sent.as_deref());
    let path = sent.unwrap_or(head.path());
    let uri = match head.query() {
        Some(query) => [path, b"?", query].concat(),
        None => path.to_vec(),
    };
    lines.add_known("X-Forwarded-Uri", &uri);
    // Values from untrusted peers were dropped when the request arrived.
    let mut chain: Vec<u8> = Vec::new();
    for line in head.headers.get_all("x-forwarded-for") {
        chain.extend_from_slice(line);
        chain.extend_from_slice(b", ");
    }
    chain.extend_from_slice(ex.caller.peer.ip().to_canonical().to_string().as_bytes());
    lines.add_known("X-Forwarded-For", &chain);
}

fn proto<'h>(ex: &Exchange, head: &'h RequestHead) -> &'h [u8] {
    let own = ex.caller.scheme.name().as_bytes();
    head.headers.get("x-forwarded-proto").unwrap_or(own)
}
