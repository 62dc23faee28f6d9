//! TLS towards clients and towards upstreams.

use std::sync::LazyLock;
use std::time::Duration;

use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

use crate::harness::{Authority, Gateway, Origin, Plain, Wire, pattern, until};

const ONLY_12: &[&SupportedProtocolVersion] = &[&TLS12];
const ONLY_13: &[&SupportedProtocolVersion] = &[&TLS13];

/// Making keys takes time; the certificates of this module come from here.
static OURS: LazyLock<Authority> = LazyLock::new(Authority::new);
static OTHERS: LazyLock<Authority> = LazyLock::new(Authority::new);

/// A gateway with a TLS listener for `a.test` before an origin.
#[track_caller]
fn secured(origin: &Origin, tls: &str, listener: &str) -> Gateway {
    let (own, other) = (OURS.issue("a.test"), OURS.issue("b.test"));
    let wild = OURS.issue("*.c.test");
    let listener = format!("tls: {{ certificate: a.pem, key: a.key, {tls} }}, {listener}");
    let yaml = Plain { listener: &listener, ..Plain::default() }.yaml(origin);
    let files = [
        ("a.pem", own.certificate.as_str()),
        ("a.key", &own.key),
        ("b.pem", &other.certificate),
        ("b.key", &other.key),
        ("c.pem", &wild.certificate),
        ("c.key", &wild.key),
        ("clients.pem", &OTHERS.pem()),
    ];
    Gateway::start_beside(yaml, &files)
}

#[test]
fn both_versions_of_tls_are_spoken() {
    let origin = Origin::echo();
    let gateway = secured(&origin, "", "");
    let address = gateway.address("public");
    for versions in [ONLY_12, ONLY_13] {
        let mut wire = Wire::connect_tls(address, "a.test", &OURS.trust().speaking(versions));
        for _ in 0..2 {
            assert_eq!(
                wire.ask("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello")
                    .text(),
                "hello"
            );
        }
    }
    assert!(
        origin.requests().iter().all(|request| request.get("x-forwarded-proto") == Some("https"))
    );
}

#[test]
fn a_version_that_is_not_offered_is_refused() {
    let origin = Origin::echo();
    let gateway = secured(&origin, "versions: [\"1.3\"]", "");
    let address = gateway.address("public");
    assert!(Wire::try_tls(address, "a.test", &OURS.trust().speaking(ONLY_12)).is_err());
    assert_eq!(Wire::connect_tls(address, "a.test", &OURS.trust()).get("/").status(), 200);
}

#[test]
fn the_name_asked_for_chooses_the_certificate() {
    let origin = Origin::echo();
    let sni = "sni: { b.test: { certificate: b.pem, key: b.key }, \"*.c.test\": { certificate: c.pem, key: c.key } }";
    let gateway = secured(&origin, sni, "");
    let address = gateway.address("public");
    // The client checks the name, so a connection is proof of the right certificate.
    for name in ["a.test", "b.test", "x.c.test", "y.c.test"] {
        assert_eq!(
            Wire::connect_tls(address, name, &OURS.trust()).get("/").status(),
            200,
            "{name}"
        );
    }
    for name in ["other.test", "c.test"] {
        assert!(Wire::try_tls(address, name, &OURS.trust()).is_err(), "{name}");
    }
    assert!(Wire::try_tls(address, "a.test", &OTHERS.trust()).is_err(), "another authority");
}

#[test]
fn protocols_are_agreed_on() {
    let origin = Origin::echo();
    for (listener, offered, agreed) in [
        ("", &["h2", "http/1.1"][..], Some("h2")),
        ("", &["http/1.1"], Some("http/1.1")),
        ("", &[], None),
        ("http2: false", &["h2", "http/1.1"], Some("http/1.1")),
    ] {
        let gateway = secured(&origin, "", listener);
        let trust = OURS.trust().offering(offered);
        let wire = Wire::connect_tls(gateway.address("public"), "a.test", &trust);
        assert_eq!(wire.alpn(), agreed, "{listener} {offered:?}");
    }
}

#[test]
fn clients_show_a_certificate_where_one_is_asked_for() {
    let origin = Origin::echo();
    let gateway = secured(&origin, "client_ca: clients.pem", "");
    let address = gateway.address("public");
    for versions in [ONLY_12, ONLY_13] {
        let trust = || OURS.trust().speaking(versions);
        let good = trust().showing(OTHERS.issue("client.test"));
        assert_eq!(Wire::connect_tls(address, "a.test", &good).get("/").status(), 200);
        for bad in [trust(), trust().showing(OURS.issue("client.test"))] {
            // With TLS 1.3, a client notices it with its first read.
            let served = Wire::try_tls(address, "a.test", &bad).is_ok_and(|mut wire| {
                wire.try_send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")
                    && wire.next_head().is_some()
            });
            assert!(!served);
        }
    }
    assert_eq!(origin.requests().len(), 2);
}

/// Behind a load balancer, the PROXY header and the handshake have one time together.
#[test]
fn what_is_late_is_named() {
    let origin = Origin::echo();
    let gateway = secured(&origin, "", "proxy_protocol: true, timeout: { tls: 1s }");
    let address = gateway.address("public");
    let (mut no_header, mut no_handshake) = (Wire::connect(address), Wire::connect(address));
    no_handshake.send("PROXY TCP4 203.0.113.7 192.0.2.2 8080 443\r\n");
    assert!(no_header.is_closed() && no_handshake.is_closed());
    gateway.wait_for_log("connection refused: PROXY header too slow");
    gateway.wait_for_log("connection refused: handshake too slow");
}

#[test]
fn what_is_no_handshake_harms_nobody() {
    let origin = Origin::echo();
    let gateway = secured(&origin, "", "timeout: { tls: 2s }");
    let address = gateway.address("public");
    let mut silent = Wire::connect(address);
    let mut plain = Wire::connect(address);
    plain.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let answer = plain.read_to_end();
    assert!(!answer.starts_with(b"HTTP/"), "{}", answer.escape_ascii());
    assert!(silent.is_closed());
    gateway.wait_for_log("connection refused: received corrupt message of type InvalidContentType");
    gateway.wait_for_log("connection refused: handshake too slow");
    assert_eq!(Wire::connect_tls(address, "a.test", &OURS.trust()).get("/").status(), 200);
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn a_new_certificate_is_taken_without_a_restart() {
    let origin = Origin::echo();
    let gateway = secured(&origin, "", "");
    let address = gateway.address("public");
    let mut old = Wire::connect_tls(address, "a.test", &OURS.trust());
    let new = OTHERS.issue("a.test");
    gateway.put("a.key", &new.key);
    gateway.put("a.pem", &new.certificate);
    until("the new certificate is shown", || {
        Wire::try_tls(address, "a.test", &OTHERS.trust()).is_ok()
    });
    assert_eq!(old.get("/").status(), 200);
}

#[test]
fn large_bodies_pass_encrypted_on_both_sides() {
    let origin = Origin::start_tls(OURS.server("127.0.0.1", None), crate::harness::echo);
    let body = pattern(3_000_000);
    let (own, ca) = (OURS.issue("a.test"), OURS.pem());
    let targets = [format!("https://{}", origin.address())];
    let listener = "tls: { certificate: a.pem, key: a.key }";
    let yaml =
        Plain { listener, targets: &targets, upstream: "tls: { ca: ca.pem }", ..Plain::default() }
            .yaml(&origin);
    let files = [("a.pem", own.certificate.as_str()), ("a.key", &own.key), ("ca.pem", &ca)];
    let gateway = Gateway::start_beside(yaml, &files);
    let mut wire = Wire::connect_tls(gateway.address("public"), "a.test", &OURS.trust());
    for _ in 0..2 {
        wire.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()));
        wire.send(&body);
        let reply = wire.read_reply();
        assert!(reply.whole && reply.body == body, "{} bytes", reply.body.len());
    }
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn an_upstreams_certificate_is_checked() {
    let shown = OURS.issue("client.test");
    let files = [
        ("ours.pem", OURS.pem()),
        ("others.pem", OTHERS.pem()),
        ("client.pem", shown.certificate.clone()),
        ("client.key", shown.key.clone()),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    for (host, clients, tls, status) in [
        ("127.0.0.1", false, "ca: ours.pem", 200),
        ("127.0.0.1", false, "ca: others.pem", 502),
        ("127.0.0.1", false, "ca: others.pem, verify: false", 200),
        ("127.0.0.1", false, "", 502),
        ("other.test", false, "ca: ours.pem", 502),
        ("other.test", false, "ca: ours.pem, server_name: other.test", 200),
        ("127.0.0.1", true, "ca: ours.pem, certificate: client.pem, key: client.key", 200),
        ("127.0.0.1", true, "ca: ours.pem", 502),
    ] {
        let settings = OURS.server(host, clients.then_some(&*OURS));
        let origin = Origin::start_tls(settings, crate::harness::echo);
        let targets = [format!("https://{}", origin.address())];
        let upstream = format!("tls: {{ {tls} }}");
        let yaml =
            Plain { targets: &targets, upstream: &upstream, ..Plain::default() }.yaml(&origin);
        let gateway = Gateway::start_beside(yaml, &files);
        let reply =
            gateway.wire().ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
        assert_eq!(reply.status(), status, "{host} {tls}: {reply:?}");
        match status {
            200 => assert_eq!(reply.text(), "hello"),
            _ => assert!(origin.requests().is_empty(), "{host} {tls}"),
        }
        assert!(!reply.text().contains("certificate"), "the reason is for the log: {reply:?}");
    }
}

#[test]
fn a_handshake_with_an_upstream_has_a_time() {
    // It accepts the connection and sends nothing.
    let origin = Origin::start(|peer| drop(peer.read_to_end()));
    let targets = [format!("https://{}", origin.address())];
    let upstream = "timeout: { connect: 100ms }";
    let gateway = Plain { targets: &targets, upstream, ..Plain::default() }.start(&origin);
    let reply = gateway.wire().get("/");
    assert_eq!(reply.status(), 504);
    assert!(reply.text().contains("connect_timeout"), "{reply:?}");
    until("the connection is given up", || origin.open() == 0);
}

/// Towards TLS clients of HTTP/1.0 a reply without a length ends with a goodbye, a broken one without.
#[test]
fn a_reply_broken_off_says_no_goodbye() {
    for whole in [true, false] {
        let origin = Origin::start(move |peer| {
            peer.request();
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            assert!(peer.is_silent_for(Duration::from_millis(50)));
            peer.send("5\r\nhello\r\n");
            assert!(peer.is_silent_for(Duration::from_millis(50)));
            if whole {
                peer.send("0\r\n\r\n");
            }
        });
        let gateway = secured(&origin, "", "");
        let mut wire = Wire::connect_tls(gateway.address("public"), "a.test", &OURS.trust());
        wire.send("GET / HTTP/1.0\r\n\r\n");
        wire.read_until(b"hello");
        assert_eq!(wire.says_goodbye(), whole);
    }
}
