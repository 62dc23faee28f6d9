//! Headers at the hop between the gateway and an upstream: hop-by-hop headers are dropped, and the next hop learns about the
//! client (RFC 9110, 7.6).

use std::sync::LazyLock;

use fault::{Fault, Kind};
use message::{Headers, Protocol, Reply, RequestHead, Upgrade, WholeLine};
use policy::{Exchange, RequestId, Scheme};

/// This process's unique name in the `Via` of requests, by which it recognises requests that it has forwarded before.
static PSEUDONYM: LazyLock<Pseudonym> = LazyLock::new(Pseudonym::made);

struct Pseudonym {
    name: String,
    /// `Via`, by the version of the received message.
    lines: [WholeLine; 3],
}

/// The number of random digits. It is large enough that no two gateways have the same name.
const DIGITS: usize = 12;

impl Pseudonym {
    fn made() -> Pseudonym {
        let id = RequestId::random();
        let name = format!("tidegate-{}", id.as_str().get(..DIGITS).unwrap_or(id.as_str()));
        let versions = ["1.0", "1.1", "2.0"];
        let lines = versions.map(|version| WholeLine::new("Via", &format!("{version} {name}")));
        Pseudonym { name, lines }
    }

    fn line(&self, received: Protocol) -> &WholeLine {
        let [http10, http11, http2] = &self.lines;
        match received {
            Protocol::Http10 => http10,
            Protocol::Http11 => http11,
            Protocol::Http2 => http2,
        }
    }

    /// True if a line of `Via` has this name. Entries have a protocol, a name, and perhaps a comment.
    fn is_in(&self, line: &[u8]) -> bool {
        line.len() > self.name.len()
            && line
                .split(|b| matches!(b, b',' | b' ' | b'\t'))
                .any(|word| word == self.name.as_bytes())
    }
}

/// Refuses a request that has passed through this process before, since it would loop without end.
fn refuse_loop(head: &RequestHead) -> Result<(), Fault> {
    if head.headers.get_all("via").any(|line| PSEUDONYM.is_in(line)) {
        Err(Fault::new(Kind::Loop, "its Via names this gateway: an upstream leads back here"))
    } else {
        Ok(())
    }
}

/// Drops the headers that the client's `Connection` names. This happens before policies add headers with such names, which the
/// client must not be able to drop.
pub fn drop_named(headers: &mut Headers) {
    let named: Vec<Vec<u8>> = headers.get_all("connection").flat_map(named_by).collect();
    if named.is_empty() {
        return;
    }
    let upgrades = headers.get_all("connection").any(|line| http1::list_has(line, "upgrade"));
    headers.remove("connection");
    drop_lines(headers, &named);
    if upgrades {
        headers.add_known("Connection", b"upgrade");
    }
}

/// Drops headers that only a proxy may send. The pipeline calls this if the client is not a trusted proxy. It does so before policies run,
/// so that they see correct values and can set these headers themselves.
pub fn drop_claims(headers: &mut Headers) {
    headers.retain(|name, _| !http1::is_forwarding(name));
}

/// Drops only the claims about a request that the gateway itself sends to upstreams. The pipeline calls this instead of `drop_claims` if
/// the listener passes the other headers of untrusted peers.
pub fn drop_origin(headers: &mut Headers) {
    headers.retain(|name, _| !http1::states_origin(name));
}

/// Prepares a request for the upstream. Returns the protocol of a requested upgrade.
pub fn request(ex: &Exchange, head: &mut RequestHead) -> Result<Option<Vec<u8>>, Fault> {
    refuse_loop(head)?;
    let upgrade = Upgrade::of(head);
    if upgrade == Some(Upgrade::WebSocket) {
        websocket_version(head)?;
    }
    let upgrade = upgrade.map(Upgrade::into_line);
    drop_connection_lines(&mut head.headers);
    name_client(ex, head);
    if let Some(call) = &ex.grpc {
        call.send_on(&mut head.headers)?;
    }
    if let Some(protocol) = &upgrade {
        head.headers.add_known("Connection", b"upgrade");
        head.headers.add_known("Upgrade", protocol);
    }
    Ok(upgrade)
}

/// True if the client accepts trailers.
pub fn takes_trailers(head: &RequestHead) -> bool {
    head.headers.get_all("te").any(|line| http1::list_has(line, "trailers"))
}

fn name_client(ex: &Exchange, RequestHead { headers, protocol, .. }: &mut RequestHead) {
    headers.add_line(PSEUDONYM.line(*protocol));
    headers.add_known("X-Request-Id", ex.id.as_bytes());
    // Addresses from trusted proxies and policies are kept; the peer is added at the end of the list.
    if headers.contains("x-forwarded-for") {
        append_peer(ex, headers)
    } else {
        headers.add_line(&ex.caller.forwarded_for)
    }
    if !headers.contains("x-forwarded-proto") {
        headers.add_line(match ex.caller.scheme {
            Scheme::Http => const { &WholeLine::fixed("X-Forwarded-Proto: http\r\n") },
            Scheme::Https => const { &WholeLine::fixed("X-Forwarded-Proto: https\r\n") },
        });
    }
    if !headers.contains("x-forwarded-host") {
        headers.add_copy("X-Forwarded-Host", "host");
    }
}

/// Adds the peer to the existing addresses in one header line, since many services read only the first line.
fn append_peer(ex: &Exchange, headers: &mut Headers) {
    let mut all: Vec<u8> = Vec::new();
    for line in headers.get_all("x-forwarded-for").filter(|line| !line.is_empty()) {
        all.extend_from_slice(line);
        all.extend_from_slice(b", ");
    }
    all.extend_from_slice(ex.caller.peer.ip().to_canonical().to_string().as_bytes());
    headers.remove("x-forwarded-for");
    headers.add_known("X-Forwarded-For", &all);
}

/// Refuses a body in a WebSocket handshake. An upstream may take its bytes for the first frames, and no policy would have checked
/// them.
pub fn check_handshake(asked: Option<&[u8]>, has_body: bool) -> Result<(), Fault> {
    if has_body && asked == Some(b"websocket") {
        Err(Fault::new(Kind::Malformed, "a request for a WebSocket with a body"))
    } else {
        Ok(())
    }
}

/// Only one version of WebSocket is supported (RFC 6455, 4.4).
fn websocket_version(head: &RequestHead) -> Result<(), Fault> {
    match head.headers.get("sec-websocket-version") {
        Some(version) if version != b"13" => {
            Err(Fault::new(Kind::UpgradeRequired, "a WebSocket version other than 13"))
        }
        _ => Ok(()),
    }
}

/// A 101 has to name exactly the requested protocol (RFC 9110, 7.8). Otherwise the client and the upstream would use different
/// protocols.
pub fn upgraded(asked: Option<&[u8]>, reply: &Reply) -> Result<(), Fault> {
    if reply.tunnel.is_none() {
        return Ok(());
    }
    let offered = asked.unwrap_or(b"");
    let taken = reply.head.headers.get("upgrade").unwrap_or(b"");
    // An empty value was not offered.
    let taken = std::str::from_utf8(taken).unwrap_or("");
    if !taken.is_empty() && taken.split(',').all(|name| http1::list_has(offered, name.trim())) {
        Ok(())
    } else {
        Err(Fault::new(Kind::UpstreamMalformed, "101 for an upgrade that was not requested"))
    }
}

/// Prepares an upstream's reply for the client. The reply of a tunnel keeps the headers of its upgrade.
pub(crate) fn reply(reply: &mut Reply) {
    let upgrade =
        reply.tunnel.as_ref().and_then(|_| reply.head.headers.get("upgrade").map(<[u8]>::to_vec));
    drop_connection_lines(&mut reply.head.headers);
    if let Some(protocol) = upgrade {
        reply.head.headers.add_known("Connection", b"upgrade");
        reply.head.headers.add_known("Upgrade", &protocol);
    }
}

/// Removes hop-by-hop headers and everything that `Connection` names.
fn drop_connection_lines(headers: &mut Headers) {
    let mut named: Vec<Vec<u8>> = Vec::new();
    headers.retain(|name, value| {
        let is_connections = is_of_connection(name);
        if is_connections && name.eq_ignore_ascii_case(b"connection") {
            named.extend(named_by(value));
        }
        !is_connections
    });
    drop_lines(headers, &named);
}

/// The headers that one line of `Connection` names.
fn named_by(line: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let options = line.split(|b| *b == b',').map(<[u8]>::trim_ascii);
    options.filter(|option| names_line(option)).map(<[u8]>::to_vec)
}

fn drop_lines(headers: &mut Headers, named: &[Vec<u8>]) {
    if !named.is_empty() {
        headers.retain(|name, _| !named.iter().any(|n| http1::is_alias(n, name)));
    }
}

/// True for a `Connection` option that names a header to drop. A client must not be able to drop headers for routing, framing,
/// authorization or the request id.
fn names_line(option: &[u8]) -> bool {
    const NOT: [&[u8]; 8] = [
        b"",
        b"close",
        b"keep-alive",
        b"upgrade",
        b"host",
        b"content-length",
        b"x-request-id",
        b"authorization",
    ];
    !NOT.iter().any(|n| http1::is_alias(n, option))
}

/// Returns true for hop-by-hop headers, and for `X-Request-Id`, which the gateway sets itself. Names are compared by length first, so that
/// only one or two lines of an ordinary head need a comparison. Spellings with underscores count as the name itself.
fn is_of_connection(name: &[u8]) -> bool {
    let is = |other: &str| http1::is_alias(name, other.as_bytes());
    match name.len() {
        2 => is("te"),
        6 => is("expect"),
        7 => is("upgrade"),
        10 => is("connection") || is("keep-alive"),
        12 => is("x-request-id"),
        14 => is("http2-settings"),
        16 => is("proxy-connection"),
        17 => is("transfer-encoding"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::{Caller, Scheme};

    fn passed(lines: &[(&str, &str)], trusted: bool) -> Vec<(String, String)> {
        let mut head = RequestHead::new(Protocol::Http11, b"GET", b"/");
        for (name, value) in lines {
            head.headers.add(name, value.as_bytes()).unwrap();
        }
        if !trusted {
            drop_claims(&mut head.headers);
        }
        sent(head)
    }

    /// The lines of a request as the upstream gets it.
    fn sent(mut head: RequestHead) -> Vec<(String, String)> {
        let peer = "192.0.2.1:1".parse().unwrap();
        let mut ex =
            Exchange::new(Caller::new(peer, peer, Scheme::Https, 0).into(), Default::default());
        ex.id = policy::RequestId::from_client(b"id").unwrap();
        request(&ex, &mut head).unwrap();
        let text = |b: &[u8]| String::from_utf8(b.to_vec()).unwrap();
        head.headers.iter().map(|(n, v)| (text(n).to_ascii_lowercase(), text(v))).collect()
    }

    fn values(lines: &[(String, String)], name: &str) -> Vec<String> {
        lines.iter().filter(|(n, _)| n == name).map(|(_, v)| v.clone()).collect()
    }

    #[test]
    fn hop_by_hop_headers_are_dropped() {
        let lines = passed(
            &[
                ("Host", "a"),
                ("Connection", "keep-alive, X-Secret"),
                ("X-Secret", "1"),
                ("Keep-Alive", "5"),
                ("TE", "gzip"),
                ("Transfer-Encoding", "chunked"),
                ("Proxy-Connection", "x"),
                ("HTTP2-Settings", "x"),
                ("Upgrade", "h2c"),
                ("Expect", "100-continue"),
                ("Accept", "x"),
            ],
            false,
        );
        let names: Vec<&str> = lines.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(
            names,
            [
                "host",
                "accept",
                "via",
                "x-request-id",
                "x-forwarded-for",
                "x-forwarded-proto",
                "x-forwarded-host"
            ]
        );
    }

    #[test]
    fn only_trusted_peers_are_believed() {
        let claims = [
            ("Host", "a"),
            ("X-Forwarded-For", "203.0.113.9"),
            ("X-Forwarded-Proto", "http"),
            ("Forwarded", "for=x"),
            ("X_Forwarded_For", "203.0.113.9"),
            ("X-Original-URL", "/admin"),
            ("X_Request_Id", "other"),
        ];
        let stranger = passed(&claims, false);
        assert_eq!(values(&stranger, "x-forwarded-for"), ["192.0.2.1"]);
        assert_eq!(values(&stranger, "x-forwarded-proto"), ["https"]);
        for gone in ["forwarded", "x_forwarded_for", "x-original-url", "x_request_id"] {
            assert!(values(&stranger, gone).is_empty(), "{gone}");
        }
        let proxy = passed(&claims, true);
        assert_eq!(values(&proxy, "x-forwarded-for"), ["203.0.113.9, 192.0.2.1"]);
        assert_eq!(values(&proxy, "x-forwarded-proto"), ["http"]);
        assert_eq!(values(&proxy, "forwarded"), ["for=x"]);
        assert_eq!(values(&proxy, "x-original-url"), ["/admin"]);
    }

    #[test]
    fn headers_of_other_peers_may_pass_except_those_about_the_request() {
        let mut head = RequestHead::new(Protocol::Http11, b"GET", b"/");
        for (name, value) in [
            ("Host", "a"),
            ("X-Forwarded-For", "203.0.113.9"),
            ("X-Forwarded-Proto", "http"),
            ("X_Forwarded_Host", "b"),
            ("X-Real-IP", "203.0.113.9"),
            ("CF-Connecting-IP", "203.0.113.9"),
        ] {
            head.headers.add(name, value.as_bytes()).unwrap();
        }
        drop_origin(&mut head.headers);
        let lines = sent(head);
        assert_eq!(values(&lines, "x-forwarded-for"), ["203.0.113.9, 192.0.2.1"]);
        assert_eq!(values(&lines, "x-forwarded-proto"), ["https"]);
        assert_eq!(values(&lines, "x-forwarded-host"), ["a"]);
        assert_eq!(values(&lines, "cf-connecting-ip"), ["203.0.113.9"]);
        for gone in ["x_forwarded_host", "x-real-ip"] {
            assert!(values(&lines, gone).is_empty(), "{gone}");
        }
    }

    #[test]
    fn websocket_upgrades_pass_and_h2c_never_does() {
        let websocket = passed(&[("Connection", "Upgrade"), ("Upgrade", "websocket")], false);
        assert_eq!(values(&websocket, "upgrade"), ["websocket"]);
        assert_eq!(values(&websocket, "connection"), ["upgrade"]);
        for value in ["h2c", "H2C", "websocket, h2c"] {
            let h2c =
                passed(&[("Connection", "upgrade, http2-settings"), ("Upgrade", value)], false);
            assert!(
                values(&h2c, "upgrade").is_empty() && values(&h2c, "connection").is_empty(),
                "{value}"
            );
        }
        assert!(values(&passed(&[("Upgrade", "websocket")], false), "upgrade").is_empty());
    }
}
