//! Headers about the hops between client and upstream, on every request and reply, whether or not the reply comes from an upstream.

use message::{Protocol, Reply, RequestHead, WholeLine};
use policy::Exchange;

/// Restores the client's conditional headers if a policy below the cache chose another upstream. The headers with which a cache revalidates
/// a stored reply must go only to the upstream that the reply came from.
pub(crate) fn conditions(ex: &mut Exchange, head: &mut RequestHead) {
    let Some(notes) = &mut ex.notes else { return };
    let Some(theirs) = notes.conditions.take() else { return };
    if notes.went_elsewhere(&theirs.route_override) {
        head.headers.remove("if-none-match");
        head.headers.remove("if-modified-since");
        head.headers.add_all(&theirs.lines);
    }
}

/// Decrements the `Max-Forwards` of an `OPTIONS` request. True if it is 0 already, so that the request must not be forwarded (RFC 9110,
/// 7.6.2).
pub(crate) fn ends_here(head: &mut RequestHead) -> bool {
    if head.method() != b"OPTIONS" {
        return false;
    }
    let left = head.headers.get("max-forwards").and_then(kit::digits::saturating);
    let Some(left) = left else { return false };
    if let Some(left) = left.checked_sub(1) {
        head.headers.remove("max-forwards");
        head.headers.add_known("Max-Forwards", left.to_string().as_bytes());
        return false;
    }
    true
}

/// Adds the request id and this gateway's `Via` to a reply.
pub(crate) fn finish_reply(ex: &Exchange, reply: &mut Reply) {
    let via = via(reply.head.protocol);
    let lines = &mut reply.head.headers;
    if lines.contains("x-request-id") {
        lines.remove("x-request-id");
    }
    lines.add_known("X-Request-Id", ex.id.as_bytes());
    lines.add_line(via);
}

/// This gateway's name in the `Via` of replies, after the version of the received message (RFC 9110, 7.6.3).
fn via(received: Protocol) -> &'static WholeLine {
    match received {
        Protocol::Http10 => const { &WholeLine::fixed("Via: 1.0 tidegate\r\n") },
        Protocol::Http11 => const { &WholeLine::fixed("Via: 1.1 tidegate\r\n") },
        Protocol::Http2 => const { &WholeLine::fixed("Via: 2.0 tidegate\r\n") },
    }
}
