//! `mock`: answers with the examples of an OpenAPI document.
//!
//! Owns the choice of the reply: by method and path, by status, and by what the client accepts.

use std::sync::Arc;

use bytes::Bytes;
use fault::{Fault, Kind};
use mediation::openapi::{OperationMatch, Operations};
use message::{Body, Reply, RequestHead};
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
        let target = (head.path(), head.query().unwrap_or_default());
        let at = match self.operations.find(head.method(), target, None) {
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

/// Returns the reply that the first matching media range of `Accept` selects, or the first reply if there is no `Accept` (RFC 9110,
/// 12.5.1). Weights are ignored, except that a range with `q=0` selects nothing.
fn chosen<'r>(replies: &'r [MockReply], head: &RequestHead) -> Option<&'r MockReply> {
    let ranges = || head.headers.get_all("accept").flat_map(|line| line.split(|b| *b == b','));
    if ranges().next().is_none() {
        return replies.first();
    }
    let named = |reply: &MockReply, range: &[u8]| {
        let Some(kind) = &reply.media_type else { return true };
        let kind = message::media_type(kind.as_bytes());
        let wanted = message::media_type(range.trim_ascii());
        let family = wanted.strip_suffix(b"/*").filter(|family| *family != b"*");
        let of_family = |family: &[u8]| {
            kind.split(|byte| *byte == b'/').next().is_some_and(|f| f.eq_ignore_ascii_case(family))
        };
        wanted == b"*/*" || family.is_some_and(of_family) || wanted.eq_ignore_ascii_case(kind)
    };
    ranges()
        .filter(|range| !is_refused(range))
        .find_map(|range| replies.iter().find(|r| named(r, range)))
}

/// Returns true for a media range with `q=0`.
fn is_refused(range: &[u8]) -> bool {
    let mut parameters = range.split(|byte| *byte == b';').skip(1).map(<[u8]>::trim_ascii);
    parameters.any(|one| {
        let value = one.strip_prefix(b"q=").or_else(|| one.strip_prefix(b"Q="));
        value.is_some_and(|value| !value.is_empty() && value.iter().all(|b| b"0.".contains(b)))
    })
}
