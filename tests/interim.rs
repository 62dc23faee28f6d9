//! Interim replies of upstreams, and requests that wait for leave to send their body (RFC 9110, 10.1.1 and 15.2).

use std::time::{Duration, Instant};

use crate::harness::{Gateway, LEAVE, Origin, Plain};

const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nlink: </b.js>\r\nX-Secret: 1\r\nConnection: x-y\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const UPLOAD: &str =
    "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";

/// Sends hints, and the rest after the client has read them.
fn hinting() -> (Origin, std::sync::mpsc::Sender<()>) {
    let (go, gone_on) = std::sync::mpsc::channel();
    let gone_on = std::sync::Mutex::new(gone_on);
    let origin = Origin::start(move |peer| {
        while peer.request().is_some() {
            peer.send(HINTS);
            let _ = gone_on.lock().unwrap().recv_timeout(Duration::from_secs(5));
            peer.send(OK);
        }
    });
    (origin, go)
}

#[test]
fn early_hints_reach_the_client_before_the_reply_is_made() {
    let (origin, go) = hinting();
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    for _ in 0..2 {
        wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let hints = wire.next_head().unwrap();
        assert_eq!(hints.start, "HTTP/1.1 103 Early Hints");
        assert_eq!(hints.all("link"), ["</a.css>; rel=preload", "</b.js>"]);
        assert_eq!(hints.headers.len(), 2, "{hints:?}");
        go.send(()).unwrap();
        assert_eq!(wire.read_reply().text(), "ok");
    }
    // HTTP/1.0 knows none.
    go.send(()).unwrap();
    let reply = gateway.wire().ask("GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!((reply.status(), reply.text().as_str()), (200, "ok"));
}

#[test]
fn more_interim_replies_than_anybody_needs_are_a_fault() {
    for (count, status) in [(16, 200), (17, 502)] {
        let origin = Origin::start(move |peer| {
            while peer.request().is_some() {
                for _ in 0..count {
                    peer.try_send("HTTP/1.1 102 Processing\r\n\r\n");
                    std::thread::sleep(Duration::from_millis(2));
                }
                peer.try_send(OK);
            }
        });
        let gateway = Gateway::before(&origin);
        let mut wire = gateway.wire();
        wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut head = wire.next_head().unwrap();
        let mut passed = 0;
        while head.status() == 102 {
            passed += 1;
            head = wire.next_head().unwrap();
        }
        assert_eq!((passed, head.status()), (count, status));
    }
}

#[test]
fn an_upstream_refuses_a_body_before_it_is_sent() {
    let origin = Origin::start(|peer| {
        if peer.request_head().is_some() {
            peer.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno");
            // Nothing can follow a body that was not sent, so the gateway closes.
            assert_eq!(peer.read_to_end(), b"");
        }
    });
    let gateway = Gateway::before(&origin);
    for _ in 0..2 {
        let mut wire = gateway.wire();
        let reply = wire.ask(UPLOAD);
        assert_eq!((reply.status(), reply.text().as_str()), (401, "no"));
        assert!(reply.lists("connection", "close"), "{reply:?}");
        assert!(wire.is_closed());
    }
    assert_eq!(origin.accepted(), 2);
}

#[test]
fn leave_comes_from_the_upstream_and_late_ones_are_not_waited_for() {
    let origin = Origin::start(|peer| {
        while let Some(mut request) = peer.request_head() {
            if request.target() == "/asks" {
                peer.send(LEAVE);
            }
            peer.read_request_body(&mut request);
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}", request.text()));
        }
    });
    let gateway = Gateway::before(&origin);
    for (path, least, most) in [("/asks", 0, 900), ("/knows-nothing-of-it", 900, 4000)] {
        let mut wire = gateway.wire();
        let began = Instant::now();
        wire.send(UPLOAD.replace("/ ", &format!("{path} ")));
        assert_eq!(wire.read_head().start, "HTTP/1.1 100 Continue", "{path}");
        let waited = began.elapsed();
        let (least, most) = (Duration::from_millis(least), Duration::from_millis(most));
        assert!(waited >= least && waited < most, "{path}: {waited:?}");
        wire.send("hello");
        assert_eq!(wire.read_reply().text(), "hello");
    }
}

#[test]
fn a_stale_connection_costs_no_upload_that_was_not_begun() {
    let origin = Origin::start(|peer| {
        // A second request finds the connection closed.
        if peer.request().is_some() {
            peer.send(OK);
        }
    });
    let gateway = Plain::default().start(&origin);
    let mut wire = gateway.wire();
    assert_eq!(wire.get("/").text(), "ok");
    wire.send(UPLOAD);
    assert_eq!(wire.read_head().start, "HTTP/1.1 100 Continue");
    wire.send("hello");
    assert_eq!(wire.read_reply().text(), "ok");
    assert_eq!(origin.accepted(), 2);
    assert_eq!(origin.requests().last().unwrap().text(), "hello");
}
