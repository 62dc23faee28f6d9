//! The limit on a whole call of an upstream, and its attempts in the access log.

use std::time::{Duration, Instant};

use crate::harness::{Gateway, Origin, Plain};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const TOTAL: &str = "timeout: { response: 5s, total: 400ms }";

/// Checks the time of a reply, which is near the total and far from the bound of each pause.
fn asked(gateway: &Gateway) -> crate::harness::Message {
    let began = Instant::now();
    let reply = gateway.wire().ask(GET);
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(390) && took < Duration::from_secs(4), "{took:?}");
    reply
}

#[test]
fn a_call_as_a_whole_has_a_limit() {
    let silent = Origin::start(|peer| {
        peer.request();
        peer.read_to_end();
    });
    let gateway = Plain { upstream: TOTAL, ..Plain::default() }.start(&silent);
    assert_eq!(asked(&gateway).status(), 504);
    gateway.wait_for_log("no reply within the time limit of the call");
}

#[test]
fn a_body_that_drips_is_cut_at_the_limit() {
    for content_type in ["text/plain", "text/event-stream"] {
        let dripping = Origin::start(move |peer| {
            peer.request();
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n"));
            while peer.try_send("data: 1\n\n") {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let gateway = Plain { upstream: TOTAL, ..Plain::default() }.start(&dripping);
        let reply = asked(&gateway);
        assert_eq!((reply.status(), reply.whole), (200, false), "{content_type}");
        assert!(reply.text().starts_with("data: 1\n\n"), "{content_type}: {}", reply.text());
        gateway.wait_for_log("upstream_timeout");
    }
}

#[test]
fn retries_are_within_the_limit_and_in_the_log() {
    let slow = Origin::start(|peer| {
        while peer.request().is_some() {
            std::thread::sleep(Duration::from_millis(400));
            peer.try_send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let upstream = "timeout: { response: 5s, total: 1500ms }, retry: { attempts: 9, on: [503] }";
    let more = "telemetry: { access_log: { format: '{status} {fault} {retries}', path: stdout } }";
    let gateway = Plain { upstream, more, ..Plain::default() }.start(&slow);
    assert_eq!(asked(&gateway).status(), 504);
    // As many as the time allows: at most three, and fewer on a busy machine.
    gateway.wait_for_output("504 upstream_timeout ");
    let told = |retries| gateway.output().contains(&format!("504 upstream_timeout {retries}\n"));
    assert!([1, 2, 3].into_iter().any(told), "{}", gateway.output());
}
