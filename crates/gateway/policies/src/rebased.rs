//! Replaces the base path of requests.

use message::RequestHead;
use policy::Exchange;

/// Returns the request's target with its base path replaced. The rest is kept as received, if the path as received also begins with the
/// base.
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
