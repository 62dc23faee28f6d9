//! Upgrades: a 101 makes a tunnel, everything else an ordinary reply.

use std::time::Duration;

use crate::harness::{Authority, Gate, Gateway, Origin, Peer, Plain, Wire, until};

const ASK: &str = concat!(
    "GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n",
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
);
const SWITCH: &str = concat!(
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
);

/// Opens a tunnel and reads the 101.
#[track_caller]
fn tunnel(gateway: &Gateway) -> Wire {
    let mut wire = gateway.wire();
    wire.send(ASK);
    let head = wire.read_head();
    assert_eq!(head.start, "HTTP/1.1 101 Switching Protocols");
    assert!(head.lists("connection", "upgrade"), "{head:?}");
    assert_eq!(head.get("upgrade"), Some("websocket"));
    assert_eq!(head.get("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert!(head.all("content-length").is_empty() && !head.is_chunked(), "{head:?}");
    wire
}

/// Switches, and echoes until the end.
fn echo(peer: &mut Peer) {
    peer.request();
    peer.send(SWITCH);
    while let Some(byte) = peer.read_exact(1) {
        peer.send(byte);
    }
    peer.send("bye");
}

#[test]
fn bytes_pass_both_ways_until_both_are_done() {
    let origin = Origin::start(echo);
    let gateway = Gateway::before(&origin);
    let mut wire = tunnel(&gateway);
    for message in [&b"hello"[..], &[0, 0xff, 0x0d, 0x0a, 0x0d, 0x0a], &[7; 100_000]] {
        wire.send(message);
        assert!(wire.read_exact(message.len()).unwrap() == message);
    }
    // The client has ended its side; the origin still sends.
    wire.shut();
    assert_eq!(wire.read_to_end(), b"bye");
    let request = origin.request();
    assert_eq!(
        (request.get("upgrade"), request.get("sec-websocket-version")),
        (Some("websocket"), Some("13"))
    );
    assert_eq!(request.get("sec-websocket-key"), Some("dGhlIHNhbXBsZSBub25jZQ=="));
    assert!(
        request.lists("connection", "upgrade") && !request.lists("connection", "keep-alive"),
        "{request:?}"
    );
    until("the origin's connection has ended", || origin.open() == 0);
}

#[test]
fn tunnels_run_through_tls_on_both_sides() {
    let authority = Authority::new();
    let origin = Origin::start_tls(authority.server("127.0.0.1", None), echo);
    let own = authority.issue("a.test");
    let targets = [format!("https://{}", origin.address())];
    let listener = "tls: { certificate: a.pem, key: a.key }";
    let yaml =
        Plain { listener, targets: &targets, upstream: "tls: { ca: ca.pem }", ..Plain::default() }
            .yaml(&origin);
    let files =
        [("a.pem", own.certificate.as_str()), ("a.key", &own.key), ("ca.pem", &authority.pem())];
    let gateway = Gateway::start_beside(yaml, &files);
    let mut wire = Wire::connect_tls(gateway.address("public"), "a.test", &authority.trust());
    wire.send(format!("{ASK}early"));
    assert_eq!(wire.read_head().status(), 101);
    assert_eq!(wire.read_exact(5).unwrap(), b"early");
    let large = [7; 200_000];
    let mut sent = 0;
    // In pieces: neither side of the test reads while it writes.
    while sent < large.len() {
        wire.send(&large[..20_000]);
        assert!(wire.read_exact(20_000).unwrap() == large[..20_000]);
        sent += 20_000;
    }
    drop(wire);
    until("the origin's connection has ended", || origin.open() == 0);
}

#[test]
fn a_tunnel_comes_about_behind_a_stale_connection() {
    let origin = Origin::start(|peer| {
        if peer.number == 0 {
            peer.request();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            // It takes the next request, and is gone.
            peer.request();
            return;
        }
        peer.request();
        peer.send(SWITCH);
        peer.send("hello");
    });
    let gateway = Gateway::before(&origin);
    let reply = gateway.wire().ask("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(reply.status(), 200);
    let mut wire = tunnel(&gateway);
    assert_eq!(wire.read_exact(5).unwrap(), b"hello");
    assert_eq!((origin.accepted(), origin.requests().len()), (2, 3));
}

#[test]
fn the_origin_may_be_done_first() {
    let origin = Origin::start(|peer| {
        peer.request();
        peer.send(SWITCH);
        peer.shut();
        assert_eq!(peer.read_to_end(), b"still here");
    });
    let gateway = Gateway::before(&origin);
    let mut wire = tunnel(&gateway);
    assert!(wire.is_closed());
    wire.send("still here");
    drop(wire);
    until("the origin's connection has ended", || origin.open() == 0);
}

#[test]
fn bytes_right_behind_the_heads_are_not_lost() {
    let origin = Origin::start(|peer| {
        peer.request();
        peer.send(format!("{SWITCH}first"));
        assert_eq!(peer.read_exact(5).unwrap(), b"early");
        peer.send("second");
    });
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    wire.send(format!("{ASK}early"));
    assert_eq!(wire.read_head().status(), 101);
    assert_eq!(wire.read_to_end(), b"firstsecond");
}

#[test]
fn a_tunnel_may_be_silent() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |peer| {
            peer.request();
            peer.send(SWITCH);
            gate.wait();
            peer.send("awake");
        }
    });
    let limits = "timeout: { head: 1s, body: 1s, idle: 1s }";
    let gateway = Plain {
        listener: limits,
        upstream: "timeout: { response: 1s, idle: 1s }",
        ..Plain::default()
    };
    let gateway = gateway.start(&origin);
    let mut wire = tunnel(&gateway);
    assert!(wire.is_silent_for(Duration::from_millis(2500)));
    gate.open();
    assert_eq!(wire.read_to_end(), b"awake");
}

/// A tunnel without data, or with one side closed and the other silent, held two sockets without end.
#[test]
fn a_tunnel_may_not_be_silent_for_ever() {
    let origin = Origin::start(|peer| {
        peer.request();
        peer.send(SWITCH);
        peer.read_to_end();
        // It reads no end and sends none.
        peer.is_closed();
    });
    let open = "timeout: { tunnel: 1s }";
    let half_closed = "timeout: { idle: 1s, tunnel: 1h }";
    for (listener, is_done) in [(open, false), (half_closed, true)] {
        let gateway = Plain { listener, ..Plain::default() }.start(&origin);
        let mut wire = tunnel(&gateway);
        wire.send("a");
        if is_done {
            wire.shut();
        }
        // Both are WebSockets, so the Close frame has the reason, unless the client has closed its side.
        let told = wire.read_to_end();
        assert!(told.is_empty() || told == b"\x88\x02\x03\xe9", "{listener}: {told:?}");
        until("the origin is let go", || origin.open() == 0);
    }
}

#[test]
fn an_end_by_reset_ends_the_other_side() {
    let origin = Origin::start(|peer| {
        peer.request();
        peer.send(SWITCH);
        peer.read_to_end();
    });
    let gateway = Gateway::before(&origin);
    tunnel(&gateway).reset();
    until("the origin's connection has ended", || origin.open() == 0);
    let resetting = Origin::start(|peer| {
        peer.request();
        peer.send(SWITCH);
        peer.reset_on_close();
    });
    let gateway = Gateway::before(&resetting);
    assert!(tunnel(&gateway).is_closed());
}

#[test]
fn a_refused_upgrade_is_an_ordinary_reply() {
    let origin = Origin::answering("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    for _ in 0..2 {
        let reply = wire.ask(ASK);
        assert_eq!((reply.status(), reply.text().as_str()), (403, "no"));
    }
    assert_eq!(origin.accepted(), 1);
}

/// The sides of the tunnel would use different protocols.
#[test]
fn a_switch_to_what_was_not_asked_for_is_502() {
    for (line, status) in [
        ("Upgrade: foo\r\n", 502),
        ("", 502),
        ("Upgrade: websocket, foo\r\n", 502),
        ("Upgrade: WebSocket\r\n", 101),
    ] {
        let origin = Origin::start(move |peer| {
            peer.request();
            peer.send(SWITCH.replace("Upgrade: websocket\r\n", line));
            peer.read_to_end();
        });
        let gateway = Gateway::before(&origin);
        let mut wire = gateway.wire();
        wire.send(ASK);
        assert_eq!(wire.read_head().status(), status, "{line}");
        drop(wire);
        until("the origin's connection has ended", || origin.open() == 0);
    }
}

/// After an upgrade to h2c, requests would bypass all routes.
#[test]
fn h2c_is_never_forwarded() {
    let origin = Origin::saying("plain");
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    for upgrade in ["h2c", "H2C", "h2c, websocket", "websocket, h2c"] {
        let reply = wire.ask(format!(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: {upgrade}\r\n{}\r\n\r\n",
            "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"
        ));
        assert_eq!((reply.status(), reply.text().as_str()), (200, "plain"));
        let request = origin.requests().pop().unwrap();
        assert!(
            !request.all("upgrade").join(",").to_lowercase().contains("h2c"),
            "{upgrade}: {request:?}"
        );
        assert!(request.all("http2-settings").is_empty(), "{upgrade}: {request:?}");
    }
}

#[test]
fn an_upgrade_needs_both_lines() {
    let origin = Origin::saying("plain");
    let gateway = Gateway::before(&origin);
    for lines in ["Upgrade: websocket\r\n", "Connection: upgrade\r\n"] {
        let reply = gateway.wire().ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        assert_eq!(reply.status(), 200);
        let request = origin.requests().pop().unwrap();
        assert!(
            request.all("upgrade").is_empty() && request.all("connection").is_empty(),
            "{request:?}"
        );
    }
}

#[test]
fn there_is_one_version_of_websocket() {
    let origin = Origin::saying("plain");
    let gateway = Gateway::before(&origin);
    let reply = gateway.wire().ask(ASK.replace("Version: 13", "Version: 8"));
    assert_eq!((reply.status(), reply.get("sec-websocket-version")), (426, Some("13")));
    assert_eq!(origin.requests().len(), 0);
}
