//! `concurrency`: limits concurrent exchanges, and releases a place however an exchange ends.

use crate::harness::{Gate, Gateway, Origin, Plain, until};

const REQUEST: &str = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";

fn start(origin: &Origin, limit: &str) -> Gateway {
    let route = format!("policies: [{{ concurrency: {{ {limit} }} }}]");
    Plain { route: &route, ..Plain::default() }.start(origin)
}

/// Sends a head and the first half of a body, and the rest when the gate opens.
fn slow(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |peer| {
        while peer.request().is_some() {
            peer.try_send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf-");
            gate.wait();
            peer.try_send("whole");
        }
    })
}

#[test]
fn a_place_is_held_until_the_last_byte_is_out() {
    let gate = Gate::default();
    let origin = slow(&gate);
    let gateway = start(&origin, "requests: 2");
    let mut held = [gateway.wire(), gateway.wire()];
    for wire in &mut held {
        wire.send(REQUEST);
        wire.read_head();
        assert_eq!(wire.read_exact(5).unwrap(), b"half-");
    }
    let refused = gateway.wire().ask(REQUEST);
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.get("retry-after"), Some("1"));
    assert!(refused.text().contains("\"fault\":\"busy\""), "{refused:?}");
    gate.open();
    for wire in &mut held {
        assert_eq!(wire.read_exact(5).unwrap(), b"whole");
    }
    until("a place is free", || gateway.wire().ask(REQUEST).status() == 200);
}

#[test]
fn a_client_that_goes_gives_its_place_back() {
    let gate = Gate::default();
    let origin = slow(&gate);
    let gateway = start(&origin, "requests: 1");
    for reset in [true, false] {
        let mut wire = gateway.wire();
        until("the place is taken", || {
            wire.send(REQUEST);
            let head = wire.read_head();
            let taken = head.status() == 200;
            if !taken {
                wire.read_exact(head.length().unwrap());
            }
            taken
        });
        wire.read_exact(5);
        assert_eq!(gateway.wire().ask(REQUEST).status(), 503);
        if reset { wire.reset() } else { drop(wire) }
    }
    gate.open();
    until("a place is free", || gateway.wire().ask(REQUEST).status() == 200);
}

#[test]
fn each_key_has_its_own_places_and_is_told_that_it_asks_too_much() {
    let gate = Gate::default();
    let origin = slow(&gate);
    let gateway = start(&origin, "requests: 1, by: \"header:x-key\"");
    let ask = |key: &str| format!("GET / HTTP/1.1\r\nHost: a\r\nx-key: {key}\r\n\r\n");
    let mut first = gateway.wire();
    first.send(ask("a"));
    assert_eq!(first.read_head().status(), 200);
    assert_eq!(gateway.wire().ask(ask("a")).status(), 429);
    let mut second = gateway.wire();
    second.send(ask("b"));
    assert_eq!(second.read_head().status(), 200);
    gate.open();
}

#[test]
fn a_request_may_wait_for_a_place() {
    let gate = Gate::default();
    let origin = slow(&gate);
    let gateway = start(&origin, "requests: 1, wait: 10s");
    let mut first = gateway.wire();
    first.send(REQUEST);
    first.read_head();
    let mut second = gateway.wire();
    second.send(REQUEST);
    assert!(second.is_silent_for(std::time::Duration::from_millis(100)));
    gate.open();
    assert_eq!(second.read_reply().text(), "half-whole");
}

#[test]
fn who_waits_too_long_is_refused() {
    let gate = Gate::default();
    let origin = slow(&gate);
    let gateway = start(&origin, "requests: 1, wait: 50ms");
    let mut first = gateway.wire();
    first.send(REQUEST);
    first.read_head();
    assert_eq!(gateway.wire().ask(REQUEST).status(), 503);
    gate.open();
}
