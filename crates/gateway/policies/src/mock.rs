//! `mock`: answers with the examples of an OpenAPI document.
//!
//! Owns the choice of the reply: by method and path, by status, and by what the client accepts.

use std::cmp::Reverse;
use std::sync::Arc;

use bytes::Bytes;
use fault::{Fault, Kind};
use mediation::openapi::{OperationMatch, Operations};
use message::{Body, Reply, RequestHead, weighted};
use policy::{Exchange, Flow, OnHead, Onward, Policy, Step};

/// Settings of the policy.
pub struct MockSettings {
    /// The search for methods and paths. It validates nothing.
    pub operations: Arc<Operations>,
    /// The replies of each operation, by the indices of its path and its method. All replies of an operation have the same status, and the
    /// preferred one is first.
    pub replies: Vec<Vec<Vec<MockReply>>>,
    /// Whether a random example is chosen instead of the first.
    pub random: bool,
}

/// A reply in one media type.
pub struct MockReply {
    pub status: u16,
    /// The media type, or `None` for a reply without content.
    pub media_type: Option<Box<str>>,
    pub examples: Vec<Bytes>,
}

/// Returns the policy.
pub fn policy(settings: MockSettings) -> Policy {
    Policy { name: "mock", request: Some(Step::Head(Box::new(settings))), response: None }
}

impl OnHead<RequestHead> for MockSettings {
    fn on_head(&self, _ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        // Harmless: a request may have no query.
        let query = head.query().unwrap_or_default();
        let at = match self.operations.find(head.method(), head.path(), query, None) {
            OperationMatch::Operation(at, ..) => at,
            OperationMatch::OtherMethod(allow) | OperationMatch::Options(allow) => {
                let why = "mock: the document has no such method for this path";
                return Err(Fault::new(Kind::MethodNotAllowed, why).with_header("Allow", allow));
            }
            OperationMatch::Nothing => {
                return Err(Fault::new(Kind::NoRoute, "mock: the document has no such path"));
            }
        };
        let replies = self.replies.get(at.0).and_then(|path| path.get(at.1));
        let reply = replies.and_then(|replies| chosen(replies, head));
        let reply = reply.ok_or_else(|| {
            let why = "mock: the document has no example that the client accepts";
            Fault::new(Kind::NoRoute, why)
        })?;
        Ok(Onward::Turn(self.made(reply)))
    }
}

impl MockSettings {
    fn made(&self, reply: &MockReply) -> Reply {
        let at = if self.random && !reply.examples.is_empty() {
            fastrand::usize(..reply.examples.len())
        } else {
            0
        };
        let body = reply.examples.get(at).cloned().map_or(Body::Empty, Body::whole);
        let mut made = Reply::new(reply.status, body);
        if let Some(kind) = &reply.media_type {
            made.head.headers.add_known("Content-Type", kind.as_bytes());
        }
        made
    }
}

/// Returns the reply that the client prefers by its `Accept` (RFC 9110, 12.5.1): of those with the largest weight, the one whose media
/// range comes first. Without an `Accept` it is the first reply.
fn chosen<'r>(replies: &'r [MockReply], head: &RequestHead) -> Option<&'r MockReply> {
    let mut lines = head.headers.get_all("accept").peekable();
    if lines.peek().is_none() {
        return replies.first();
    }
    // Harmless: an invalid range selects nothing.
    let ranges = lines.flat_map(|line| line.split(|b| *b == b',')).filter_map(weighted);
    let ranges: Vec<(&[u8], u16)> = ranges.collect();
    let preference = |reply: &MockReply| {
        let Some(kind) = &reply.media_type else { return Some((Reverse(1000), 0)) };
        let fits = |range: &[u8]| precision(message::media_type(kind.as_bytes()), range);
        // Harmless: the other ranges do not select this reply.
        let selecting = ranges
            .iter()
            .enumerate()
            .filter_map(|(at, (range, weight))| Some((fits(range)?, Reverse(at), *weight)));
        // The most precise range decides, and the first of several.
        let (_, at, weight) = selecting.max()?;
        (weight > 0).then_some((Reverse(weight), at.0))
    };
    // Harmless: a reply without a preference is not acceptable.
    let acceptable = replies.iter().filter_map(|reply| Some((preference(reply)?, reply)));
    acceptable.min_by_key(|(preference, _)| *preference).map(|(_, reply)| reply)
}

/// Returns how precisely a media range selects a media type, or `None` if it does not.
fn precision(kind: &[u8], range: &[u8]) -> Option<u8> {
    let of_family = |family: &[u8]| {
        kind.split(|byte| *byte == b'/').next().is_some_and(|f| f.eq_ignore_ascii_case(family))
    };
    if range == b"*/*" {
        Some(0)
    } else if let Some(family) = range.strip_suffix(b"/*") {
        of_family(family).then_some(1)
    } else {
        range.eq_ignore_ascii_case(kind).then_some(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::Protocol;

    #[test]
    fn the_client_gets_the_media_type_that_it_prefers() {
        let reply = |kind: &str| MockReply {
            status: 200,
            media_type: Some(kind.into()),
            examples: Vec::new(),
        };
        let replies =
            [reply("application/json; charset=utf-8"), reply("text/html"), reply("text/xml")];
        for (lines, kind) in [
            (&[][..], Some("application/json; charset=utf-8")),
            (&["*/*"], Some("application/json; charset=utf-8")),
            (&["text/xml, Text/HTML"], Some("text/xml")),
            (&["text/xml;q=0.1, text/html"], Some("text/html")),
            (&["text/xml;q=0.1", "text/html;q=0.2"], Some("text/html")),
            (&["text/*"], Some("text/html")),
            (&["text/*, text/html;q=0"], Some("text/xml")),
            (&["*/*;q=0.5, text/xml"], Some("text/xml")),
            (&["*/*, application/json;q=0.9"], Some("text/html")),
            (&["application/*;q=0.000, image/png"], None),
            (&["application/json;q=x"], None),
            (&[""], None),
        ] {
            let mut head = RequestHead::new(Protocol::Http11, b"GET", b"/");
            lines.iter().for_each(|line| head.headers.add_known("Accept", line.as_bytes()));
            let got = chosen(&replies, &head).and_then(|reply| reply.media_type.as_deref());
            assert_eq!(got, kind, "{lines:?}");
        }
    }
}
