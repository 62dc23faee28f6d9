//! A fault as a reply: RFC 9457 problem details. What the client reads is the kind's title and the fault's safe detail;
//! the cause goes to the log.

use fault::{Fault, Kind};
use message::{Body, Reply};
use policy::Exchange;

/// Makes the reply for a fault, and notes the fault in the exchange.
pub(crate) fn reply(ex: &mut Exchange, fault: Fault) -> Reply {
    let kind = fault.kind;
    let mut text = format!(
        r#"{{"type":"about:blank","title":"{}","status":{},"fault":"{}""#,
        kind.title(),
        kind.status(),
        kind.label()
    );
    if let Some(detail) = &fault.detail {
        text.push_str(r#","detail":""#);
        escape(detail, &mut text);
        text.push('"');
    }
    text.push_str(r#","request_id":""#);
    escape(ex.id.as_str(), &mut text);
    text.push_str("\"}\n");
    ex.fault = Some(fault);
    let mut reply = Reply::new(kind.status(), Body::whole(text.into_bytes().into()));
    let json = ("Content-Type", &b"application/problem+json"[..]);
    for (name, value) in std::iter::once(json).chain(told_by(kind)) {
        let written = reply.head.headers.add(name, value);
        debug_assert!(written.is_ok());
    }
    reply
}

/// The header line that a status calls for.
fn told_by(kind: Kind) -> Option<(&'static str, &'static [u8])> {
    const METHODS: &[u8] = b"GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS";
    let lines = [
        (Kind::MethodRefused, "Allow", METHODS),
        (Kind::UpgradeRequired, "Sec-WebSocket-Version", b"13"),
    ];
    lines.into_iter().find(|line| line.0 == kind).map(|(_, name, value)| (name, value))
}

/// Escapes text for a JSON string (RFC 8259, 7).
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::{Caller, Scheme};

    #[test]
    fn the_client_never_reads_the_cause() {
        let peer = "192.0.2.1:1".parse().unwrap();
        let mut ex =
            Exchange::new(Caller::new(peer, peer, Scheme::Http, 0).into(), Default::default());
        let fault = Fault::with_detail(Kind::ConnectFailure, "10.0.0.1:80: refused", "a \"b\"\n");
        let reply = reply(&mut ex, fault);
        let Body::Whole(bytes) = &reply.body else { panic!("no body") };
        let text = std::str::from_utf8(bytes).unwrap();
        assert_eq!(reply.head.status, 502);
        assert!(!text.contains("10.0.0.1"), "{text}");
        assert!(text.contains(r#""detail":"a \"b\"\u000a""#), "{text}");
        assert_eq!(ex.fault.unwrap().kind, Kind::ConnectFailure);
    }
}
