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

#[cfg(test)]
mod tests {
    use message::Body;
    use policy::{Caller, Scheme};

    use super::*;

    fn head(method: &str, line: Option<&str>) -> RequestHead {
        let mut head = RequestHead::new(Protocol::Http11, method.as_bytes(), b"/");
        if let Some(value) = line {
            head.headers.add("max-forwards", value.as_bytes()).unwrap();
        }
        head
    }

    #[test]
    fn options_requests_end_here_when_their_forwards_are_used_up() {
        for (method, before, ends, after) in [
            ("OPTIONS", None, false, None),
            ("OPTIONS", Some("0"), true, Some("0")),
            ("OPTIONS", Some("00"), true, Some("00")),
            ("OPTIONS", Some("1"), false, Some("0")),
            ("OPTIONS", Some("10"), false, Some("9")),
            // More hops than fit a number are not a reason to end here.
            ("OPTIONS", Some("99999999999999999999"), false, Some("18446744073709551614")),
            ("OPTIONS", Some("-1"), false, Some("-1")),
            ("OPTIONS", Some("x"), false, Some("x")),
            ("OPTIONS", Some(""), false, Some("")),
            ("GET", Some("0"), false, Some("0")),
        ] {
            let mut head = head(method, before);
            assert_eq!(ends_here(&mut head), ends, "{method} {before:?}");
            assert_eq!(head.headers.get("max-forwards"), after.map(str::as_bytes), "{before:?}");
        }
    }

    #[test]
    fn replies_name_this_gateway_once_with_the_version_that_it_received() {
        let peer = "192.0.2.1:1".parse().unwrap();
        let ex = Exchange::new(Caller::new(peer, peer, Scheme::Http, 0).into(), Default::default());
        for (protocol, expected) in [
            (Protocol::Http10, "1.0 tidegate"),
            (Protocol::Http11, "1.1 tidegate"),
            (Protocol::Http2, "2.0 tidegate"),
        ] {
            let mut reply = Reply::new(200, Body::Empty);
            reply.head.protocol = protocol;
            for (name, value) in [("x-request-id", "of the upstream"), ("via", "1.1 other")] {
                reply.head.headers.add(name, value.as_bytes()).unwrap();
            }
            finish_reply(&ex, &mut reply);
            let ids: Vec<&[u8]> = reply.head.headers.get_all("x-request-id").collect();
            assert_eq!(ids, [ex.id.as_bytes()]);
            let via: Vec<&[u8]> = reply.head.headers.get_all("via").collect();
            assert_eq!(via, [&b"1.1 other"[..], expected.as_bytes()]);
        }
    }
}
