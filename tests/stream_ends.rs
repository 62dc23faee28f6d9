//! The ends of open streams: silence (`streams.idle`) and the expiry of the client's token.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Gateway, Origin, Peer, Plain, Wire, until};
use crate::tokens::{EC, jwks, now};
use crate::websocket::{Client, SWITCH, frame, read, service};

const TEXT: u8 = 0x81;
const PONG: u8 = 0x8a;

/// A tunnel that is not a WebSocket.
const ASK: &str = "GET /raw HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: raw\r\n";
const SWITCHED: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n";

/// Answers a request for a tunnel, and sends back each byte.
fn raw(peer: &mut Peer) {
    if peer.request().is_none() {
        return;
    }
    peer.send(SWITCHED);
    while let Some(byte) = peer.read_exact(1) {
        if !peer.try_send(byte) {
            return;
        }
    }
}

fn open_raw(gateway: &Gateway, lines: &str) -> Wire {
    let mut wire = gateway.wire();
    wire.send(format!("{ASK}{lines}\r\n"));
    assert_eq!(wire.read_head().status(), 101);
    wire
}

/// An event, and nothing more.
fn event(peer: &mut Peer) {
    if peer.request().is_some() {
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
        peer.read_to_end();
    }
}

fn with_idle(origin: &Origin, idle: &str) -> Gateway {
    Plain { route: &format!("streams: {{ idle: {idle} }}"), ..Plain::default() }.start(origin)
}

#[test]
fn a_stream_in_which_nothing_passes_ends() {
    let sockets = service(vec![]);
    let gateway = with_idle(&sockets, "300ms");
    let mut client = Client::open(&gateway, "/ws/bare", "");
    client.send(TEXT, b"one");
    client.expect(TEXT, b"one");
    client.expect_close(1001);
    until("the service is left", || sockets.open() == 0);

    let origin = Origin::start(raw);
    let gateway = with_idle(&origin, "300ms");
    let mut wire = open_raw(&gateway, "");
    wire.send("x");
    assert_eq!(wire.read_to_end(), b"x");
    until("the service is left", || origin.open() == 0);

    let origin = Origin::start(event);
    let gateway = with_idle(&origin, "300ms");
    let reply = gateway.wire().ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((&*reply.text(), reply.whole), ("data: 1\n\n", true));
    until("the service is left", || origin.open() == 0);
}

/// Data in either direction counts.
#[test]
fn a_stream_in_which_something_passes_stays() {
    const PIECES: usize = 12;
    let pause = || std::thread::sleep(Duration::from_millis(200));
    let sockets = service(vec![]);
    let gateway = with_idle(&sockets, "2s");
    // The service answers no pong: it goes one way.
    let mut client = Client::open(&gateway, "/ws/bare", "");
    for _ in 0..PIECES {
        client.send(PONG, b"");
        pause();
    }
    client.send(TEXT, b"still here");
    client.expect(TEXT, b"still here");

    // The other way.
    let pushing = Origin::start(move |peer: &mut Peer| {
        if peer.request().is_none() {
            return;
        }
        peer.send(SWITCH);
        for _ in 0..PIECES {
            if !peer.try_send(frame(TEXT, b"tick", false)) {
                return;
            }
            pause();
        }
        peer.read_to_end();
    });
    let gateway = with_idle(&pushing, "2s");
    let mut client = Client::open(&gateway, "/ws", "");
    for _ in 0..PIECES {
        client.expect(TEXT, b"tick");
    }

    let origin = Origin::start(raw);
    let gateway = with_idle(&origin, "2s");
    let mut wire = open_raw(&gateway, "");
    for _ in 0..PIECES {
        wire.send("x");
        assert_eq!(wire.read_exact(1).as_deref(), Some(&b"x"[..]));
        pause();
    }

    let ticking = Origin::start(move |peer: &mut Peer| {
        if peer.request().is_none() {
            return;
        }
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
        for _ in 0..PIECES {
            if !peer.try_send("data: 1\n\n") {
                return;
            }
            pause();
        }
    });
    let gateway = with_idle(&ticking, "2s");
    let reply = gateway.wire().ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(reply.text(), "data: 1\n\n".repeat(PIECES));
}

/// The token expires in four seconds, and all streams opened with it end then, although they are busy or may be silent for an hour.
#[test]
fn a_stream_ends_with_the_token_that_opened_it() {
    let origin = Origin::start(|peer: &mut Peer| {
        let Some(request) = peer.request() else { return };
        match request.target() {
            "/raw" => {
                peer.send(SWITCHED);
                while peer.try_send("x") {
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
            "/ws" => {
                peer.send(SWITCH);
                while let Some((first, payload)) = read(peer, true) {
                    if !peer.try_send(frame(first, &payload, false)) {
                        return;
                    }
                }
            }
            _ => {
                peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
                while peer.try_send("data: 1\n\n") {
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    });
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\n\
         upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\n\
         issuers: {{ main: {{ issuer: \"https://idp.test\", keys: [all.jwks], leeway: 0s }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, streams: {{ idle: 1h }}, policies: [{{ jwt: {{ issuers: [main] }} }}], upstream: origin }} }}\n",
        origin.url()
    );
    let gateway = Gateway::start_beside(yaml, &[("all.jwks", jwks(&[&EC]).leak())]);
    let token = EC.token(&json!({ "iss": "https://idp.test", "sub": "alice", "exp": now() + 4 }));
    let lines = format!("Authorization: Bearer {token}\r\n");
    let mut socket = Client::open(&gateway, "/ws", &lines);
    let mut tunnel = open_raw(&gateway, &lines);
    let mut events = gateway.wire();
    events.send(format!("GET /events HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
    assert_eq!(events.read_head().status(), 200);
    socket.send(TEXT, b"before");
    socket.expect(TEXT, b"before");

    // The last event is whole, and so is the body.
    let mut seen = Vec::new();
    while let Some(chunk) = events.read_chunk().filter(|chunk| !chunk.is_empty()) {
        seen.extend(chunk);
    }
    assert!(seen.ends_with(b"\n\n") && seen.len() > 9, "{}", String::from_utf8_lossy(&seen));
    let passed = tunnel.read_to_end();
    assert!(passed.len() > 1 && passed.iter().all(|byte| *byte == b'x'), "{passed:?}");
    socket.expect_close(1008);
    until("the service is left", || origin.open() == 0);
    assert_eq!(
        gateway.wire().ask(format!("GET /events HTTP/1.1\r\nHost: a\r\n{lines}\r\n")).status(),
        401
    );
}
