//! Bodies as they pass: each piece before the next, at the pace of the slower side, broken where the other
//! side broke.

use crate::harness::{Gate, Gateway, Origin, Wire, pattern, until};

#[test]
fn a_reply_may_come_while_the_upload_goes_on() {
    let origin = Origin::start(|peer| {
        peer.request_head();
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while let Some(chunk) = peer.read_chunk() {
            peer.send(format!("{:x}\r\n", chunk.len()));
            peer.send(&chunk);
            peer.send("\r\n");
        }
        peer.send("0\r\n\r\n");
    });
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    wire.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(wire.read_head().status(), 200);
    for word in ["one", "twofold", "three"] {
        wire.send(format!("{:x}\r\n{word}\r\n", word.len()));
        assert_eq!(wire.read_chunk().unwrap(), word.as_bytes());
    }
    wire.send("0\r\n\r\n");
    assert_eq!(wire.read_chunk(), None);
    assert_eq!(wire.read_exact(2).unwrap(), b"\r\n");
}

#[test]
fn an_early_refusal_reaches_a_client_that_is_still_sending() {
    for connection in ["", "Connection: close\r\n"] {
        let origin = Origin::start(move |peer| {
            peer.request_head();
            peer.send(format!("HTTP/1.1 403 Forbidden\r\n{connection}Content-Length: 2\r\n\r\nno"));
            if connection.is_empty() {
                // Reads on, to check that the gateway stops sending.
                peer.read_to_end();
            }
        });
        let gateway = Gateway::before(&origin);
        let mut wire = gateway.wire();
        wire.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
        let mut sent = 0;
        while sent < 4_000_000 && wire.try_send(pattern(50_000)) {
            sent += 50_000;
        }
        let reply = wire.read_reply();
        assert_eq!((reply.status(), reply.text().as_str()), (403, "no"));
    }
}

#[test]
fn an_upload_reaches_the_origin_before_it_ends() {
    for (head, first, second) in [
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n", "hello", "world"),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            "5\r\nhello\r\n",
            "5\r\nworld\r\n0\r\n\r\n",
        ),
        (
            "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            "5\r\nhello\r\n",
            "5\r\nworld\r\n0\r\n\r\n",
        ),
    ] {
        let (arrived, open) = (Gate::default(), Gate::default());
        let origin = Origin::start({
            let (arrived, open) = (arrived.clone(), open.clone());
            move |peer| {
                peer.request_head();
                peer.read_until(b"hello");
                arrived.open();
                peer.read_until(b"world");
                open.wait();
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            }
        });
        let gateway = Gateway::before(&origin);
        let mut wire = gateway.wire();
        wire.send(head);
        wire.send(first);
        arrived.wait();
        wire.send(second);
        open.open();
        assert_eq!(wire.read_reply().status(), 200);
    }
}

#[test]
fn an_event_reaches_the_client_before_the_next_is_made() {
    for framing in ["Transfer-Encoding: chunked", "Connection: close"] {
        let gates = [Gate::default(), Gate::default(), Gate::default()];
        let origin = Origin::start({
            let gates = gates.clone();
            move |peer| {
                peer.request();
                peer.send(format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{framing}\r\n\r\n"
                ));
                for gate in &gates {
                    gate.wait();
                    let event = "data: hello\n\n";
                    match framing {
                        "Connection: close" => peer.send(event),
                        _ => peer.send(format!("{:x}\r\n{event}\r\n", event.len())),
                    }
                }
                peer.read_to_end();
            }
        });
        let gateway = Gateway::before(&origin);
        let mut wire = gateway.wire();
        wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = wire.read_head();
        assert_eq!(head.get("content-type"), Some("text/event-stream"));
        for gate in &gates {
            gate.open();
            assert_eq!(wire.read_chunk().unwrap(), b"data: hello\n\n", "{framing}");
        }
    }
}

#[test]
fn a_client_that_leaves_a_stream_ends_it_at_the_origin() {
    for leaves in [Wire::reset, drop::<Wire>] {
        let origin = Origin::start(|peer| {
            peer.request();
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
            peer.send("3\r\na\n\n\r\n");
            // Ends only when the gateway closes.
            peer.read_to_end();
        });
        let gateway = Gateway::before(&origin);
        let mut wire = gateway.wire();
        wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        wire.read_head();
        wire.read_chunk();
        assert_eq!(origin.open(), 1);
        leaves(wire);
        until("the origin's connection has ended", || origin.open() == 0);
    }
}

/// A reset is a departure before the reply, too.
#[test]
fn a_client_that_resets_before_its_reply_frees_the_origin() {
    let origin = Origin::start(|peer| {
        peer.request();
        peer.read_to_end();
    });
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_for_requests(1);
    wire.reset();
    until("the origin's connection has ended", || origin.open() == 0);
}

/// A client that closed its connection in peace before its reply began has left as well.
#[test]
fn a_client_that_closes_before_its_reply_takes_its_call_with_it() {
    let origin = Origin::silent();
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_for_requests(1);
    drop(wire);
    until("the origin's connection has ended", || origin.open() == 0);
}

/// An origin that replies `hello` once the gate is open.
fn held_reply(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |peer| {
        while peer.request().is_some() {
            gate.wait();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        }
    })
}

/// A client that still waits gets interim replies for a while, and then its reply.
#[test]
fn a_half_closed_client_that_waits_for_long_gets_its_reply() {
    let gate = Gate::default();
    let origin = held_reply(&gate);
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wire.shut();
    // Two of them: the first one did not cause a reset.
    for _ in 0..2 {
        assert_eq!(wire.read_reply().status(), 100);
    }
    gate.open();
    let mut reply = wire.read_reply();
    while reply.status() == 100 {
        reply = wire.read_reply();
    }
    assert_eq!(reply.text(), "hello");
    assert!(wire.is_closed());
}

/// A client that closed its sending side still wants its reply.
#[test]
fn a_half_closed_client_gets_its_reply() {
    let gate = Gate::default();
    let origin = held_reply(&gate);
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wire.shut();
    origin.wait_for_requests(1);
    gate.open();
    let mut reply = wire.read_reply();
    // On a machine that stalls it is asked whether it is still there.
    while reply.status() == 100 {
        reply = wire.read_reply();
    }
    assert_eq!(reply.text(), "hello");
    assert!(wire.is_closed());
}

/// A reply that breaks off must not look complete: the client gets the part that came, and no end.
#[test]
fn a_reply_that_breaks_off_looks_broken() {
    let sized = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    for (reply, then, resets) in [
        (sized, "", false),
        (sized, "", true),
        (chunked, "", false),
        (chunked, "", true),
        (chunked, "7\r\nhel", false),
        (chunked, "bogus\r\n", false),
        (chunked, "0\r\nbogus\r\n\r\n", false),
    ] {
        let arrived = Gate::default();
        let origin = Origin::start({
            let arrived = arrived.clone();
            move |peer| {
                peer.request();
                peer.send(reply);
                arrived.wait();
                peer.send(then);
                if resets {
                    peer.reset_on_close();
                }
            }
        });
        let gateway = Gateway::before(&origin);
        let mut wire = gateway.wire();
        wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = wire.read_head();
        assert_eq!(head.status(), 200, "{reply}");
        wire.read_until(b"hello");
        arrived.open();
        let rest = wire.read_to_end();
        assert!(
            !rest.ends_with(b"0\r\n\r\n") && rest.len() < 12,
            "{reply}{then}: {}",
            rest.escape_ascii()
        );
    }
}

/// The received part of a reply is forwarded even if it arrives together with the error.
#[test]
fn the_part_of_a_broken_reply_that_came_is_passed_on() {
    for reply in [
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ] {
        let origin = Origin::start(move |peer| {
            peer.request();
            peer.send(reply);
        });
        let gateway = Gateway::before(&origin);
        let mut wire = gateway.wire();
        wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let got = wire.read_reply();
        assert_eq!((got.status(), got.text().as_str(), got.whole), (200, "hello", false));
        assert!(wire.is_closed());
    }
}

/// HTTP/1.0 knows no other end than the connection's; a cut must differ from it.
#[test]
fn a_reply_broken_off_towards_http_1_0_is_a_reset() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |peer| {
            peer.request();
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
            gate.wait();
        }
    });
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    wire.send("GET / HTTP/1.0\r\n\r\n");
    wire.read_until(b"hello");
    gate.open();
    assert!(wire.is_reset(), "an end like that of a whole reply");
}

#[test]
fn an_upload_and_its_reply_run_at_full_tilt() {
    let body = pattern(10_000_000);
    let origin = Origin::start(|peer| {
        let length = peer.request_head().unwrap().length().unwrap();
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"));
        let mut left = length;
        while left > 0 {
            let piece = peer.read_exact(left.min(40_000)).unwrap();
            left -= piece.len();
            peer.send(piece);
        }
    });
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    let mut sender = wire.second();
    let sent = body.clone();
    let sending = std::thread::spawn(move || {
        sender
            .send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", sent.len()));
        sender.send(&sent);
    });
    let reply = wire.read_reply();
    sending.join().unwrap();
    assert!(reply.whole && reply.body == body, "{} bytes", reply.body.len());
}

/// An origin that does not read holds the client back; the gateway holds next to nothing.
#[test]
fn an_upload_waits_for_the_origin() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |peer| {
            peer.request_head();
            gate.wait();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    wire.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 200000000\r\n\r\n");
    let taken = wire.send_until_stuck(&[b'x'; 50_000], 200_000_000);
    assert!(taken < 40_000_000, "{taken} bytes were taken from the client");
    gate.open();
    assert_eq!(wire.read_reply().text(), "ok");
}

/// An upload that breaks off must not look complete to the origin.
#[test]
fn an_upload_that_breaks_off_looks_broken() {
    for head in
        ["Content-Length: 10\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"]
    {
        for leaves in [Wire::reset, drop::<Wire>] {
            let origin = Origin::start(|peer| {
                let mut request = peer.request_head().unwrap();
                peer.read_request_body(&mut request);
                assert!(!request.whole);
                peer.note(&request);
            });
            let gateway = Gateway::before(&origin);
            let mut wire = gateway.wire();
            wire.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{head}"));
            origin.wait_for_requests(1);
            leaves(wire);
            origin.wait_for_requests(2);
            let request = origin.requests().pop().unwrap();
            assert_eq!((request.text().as_str(), request.whole), ("hello", false));
        }
    }
}
