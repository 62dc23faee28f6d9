//! Requests that go below another path than the one they were sent to.

use message::RequestHead;
use policy::Exchange;

/// The request's target with another path in the place of its base. What follows is as it was sent, where what was sent
/// begins with the base as well.
pub(crate) fn target(ex: &Exchange, head: &RequestHead, base: &str, other: &str) -> Box<[u8]> {
    let sent = ex.notes.as_ref().and_then(|notes| notes.path_sent.as_deref());
    let rest = sent.and_then(|sent| sent.strip_prefix(base.as_bytes()));
    let rest = rest.or_else(|| head.path().strip_prefix(base.as_bytes()));
    let (other, rest) = (other.as_bytes(), rest.unwrap_or(head.path()));
    match head.query() {
        Some(query) => [other, rest, b"?", query].concat().into(),
        None => [other, rest].concat().into(),
    }
}
