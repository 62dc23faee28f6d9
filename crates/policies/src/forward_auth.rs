//! `forward_auth`: a service says whether a request may pass, as Traefik, nginx and Caddy ask one.
//!
//! Owns what the service is told and what its reply changes. Where it runs, and over how many connections it is asked, is its
//! [`policy::Fetch`]'s business.

use std::sync::Arc;
use std::time::Duration;

use fault::{Fault, Kind};
use kit::clock;
use message::{Body, Headers, Protocol, Reply, Request, RequestHead};
use policy::{Decision, Exchange, Fetch, Flow, OnCall, Onward, Policy, Step};

/// One `forward_auth`, as `compile` settles it.
pub struct ForwardAuthSettings {
    pub fetch: Arc<dyn Fetch>,
    /// Path and query that the service is asked for.
    pub path: String,
    /// The headers that it is sent, in lower case; all where that is absent.
    pub send: Option<Vec<String>>,
    /// The headers that it may set, in lower case.
    pub take: Vec<String>,
    /// For the whole call.
    pub timeout: Duration,
    /// A request about which the service says nothing passes.
    pub passes_on_failure: bool,
    /// The largest reply that is passed to the client.
    pub body_bytes_max: usize,
}

/// The policy for these settings.
pub fn policy(settings: ForwardAuthSettings) -> Policy {
    let step = Step::Call(Box::new(settings));
    Policy { name: "forward_auth", request: Some(step), response: None }
}

/// Bytes of the body of a 2xx, which nobody reads: so many are taken so that the connection may be used again.
const IGNORED_BYTES_MAX: usize = 64 * 1024;

impl OnCall<RequestHead> for ForwardAuthSettings {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        Decision::Waits(Box::pin(self.ask(ex, head)))
    }
}

impl ForwardAuthSettings {
    async fn ask(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let asked = self.asked(ex, head);
        // A client that names one of them says nothing, whatever the service answers.
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

    /// The service's reply with its body in memory.
    async fn answer(&self, ex: &Exchange, head: RequestHead) -> Result<Reply, Fault> {
        let request = Request { head, body: Body::Empty };
        let call = ex.call_beside(clock::now().checked_add(self.timeout));
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
            // Nobody reads it.
            Err(_) if passes => Body::Empty,
            Err(fault) => return Err(fault),
        };
        let mut reply = Reply::new(head.status, body);
        reply.head = head;
        // The body is framed anew.
        for name in ["content-length", "transfer-encoding", "trailer"] {
            reply.head.headers.remove(name);
        }
        Ok(reply)
    }

    /// The request to the service: a GET that tells of the client's.
    fn asked(&self, ex: &Exchange, head: &RequestHead) -> RequestHead {
        let mut asked = RequestHead::new(Protocol::Http11, b"GET", self.path.as_bytes());
        let lines = head.headers.iter().filter(|(name, _)| self.sends(name));
        for (name, value) in lines {
            // Both were read from a head, so that they can be written.
            let _always_ok =
                std::str::from_utf8(name).map(|name| asked.headers.add_known(name, value));
        }
        upstream_lines(&mut asked.headers, ex, head);
        asked
    }

    /// False for lines of the connection and of the body, and for those that are written here.
    fn sends(&self, name: &[u8]) -> bool {
        let own = NOT_SENT.iter().any(|not| http1::is_alias(name, not.as_bytes()));
        let listed = |names: &Vec<String>| {
            names.iter().any(|wanted| http1::is_alias(name, wanted.as_bytes()))
        };
        !own && !http1::is_forwarding(name) && self.send.as_ref().is_none_or(listed)
    }
}

/// Lines that are not the service's to see: of the connection, of a body that it does not get, its own host, and those that ask for a
/// part of the upstream's reply or compare with a version of it. A service that heeds them would answer with 304, 412 or 416, which
/// the client would take for the upstream's.
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

/// Lines that tell the service of the request, in Traefik's words.
fn upstream_lines(lines: &mut Headers, ex: &Exchange, head: &RequestHead) {
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
    // Lines of strangers were dropped when the request arrived.
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
