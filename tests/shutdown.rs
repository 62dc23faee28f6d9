//! The shutdown: exchanges are completed, new clients are refused, and endless streams are cut in time.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{Gate, Gateway, H2, Origin, Peer, Wire, full, until};

/// An origin that delays its reply to `/slow`, upgrades `/ws` for as long as the client wants, and streams at `/sse` without end.
fn origin(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |peer: &mut Peer| {
        while let Some(request) = peer.request() {
            match request.target() {
                "/slow" => {
                    gate.wait();
                    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nslow");
                }
                "/ws" => {
                    peer.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
                    peer.read_to_end();
                    return;
                }
                "/sse" => {
                    peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
                    peer.is_closed();
                    return;
                }
                _ => peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
            }
        }
    })
}

/// One that stops without telling first.
fn gateway(origin: &Origin, more: &str) -> Gateway {
    delayed(origin, "0s", more)
}

fn delayed(origin: &Origin, delay: &str, more: &str) -> Gateway {
    let more = format!("drain: {{ delay: {delay} }}\n{more}");
    Gateway::start(format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n{more}\
         upstreams: {{ origin: {{ targets: [\"http://{}\"] }} }}\nroutes: {{ all: {{ match: {{ path: \"/**\" }}, upstream: origin }} }}\n",
        origin.address()
    ))
}

const UPGRADE: &str =
    "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

#[test]
fn exchanges_end_and_nobody_new_is_let_in() {
    for signal in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let gate = Gate::default();
        let origin = origin(&gate);
        let gateway = gateway(&origin, "telemetry: { access_log: { path: access.log } }\n");
        let address = gateway.address("public");
        let (mut idle, mut fresh, mut busy, mut begun) =
            (gateway.wire(), gateway.wire(), gateway.wire(), gateway.wire());
        assert_eq!(idle.get("/").get("connection"), None);
        begun.get("/");
        begun.send("GET /begun HTTP/1.1\r\nHo");
        busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
        origin.wait_for_requests(3);

        gateway.signal(signal);
        gateway.wait_for_log("draining");
        assert!(idle.is_closed(), "an idle connection is closed");
        assert!(fresh.is_closed(), "one that never asked anything too");
        until("new connections are refused", || TcpStream::connect(address).is_err());
        // A request that has begun is answered, and told that it was the last one.
        begun.send("st: a\r\n\r\n");
        let reply = begun.read_reply();
        assert_eq!((reply.text().as_str(), reply.get("connection")), ("ok", Some("close")));
        assert!(begun.is_closed());
        gate.open();
        let reply = busy.read_reply();
        assert_eq!((reply.text().as_str(), reply.get("connection")), ("slow", Some("close")));
        assert!(busy.is_closed());

        assert_eq!(gateway.wait_for_exit().code(), Some(0), "{signal:?}");
        gateway.wait_for_log("all requests have ended");
        // The last lines are written too.
        let log = std::fs::read_to_string(gateway.path("access.log")).unwrap();
        assert_eq!(log.lines().count(), 4, "{log}");
    }
}

/// A load balancer learns of the end before a connection is refused.
#[test]
fn listeners_stay_open_while_the_end_is_told() {
    for signal in [Signal::TERM, Signal::QUIT] {
        let gate = Gate::default();
        let origin = origin(&gate);
        let gateway = delayed(&origin, "10m", "");
        let mut wire = gateway.wire();
        wire.get("/");
        gateway.signal(signal);
        until("it is not ready", || gateway.admin_get("/readyz").status() == 503);
        for _ in 0..10 {
            assert_eq!(
                (wire.get("/").text(), gateway.wire().get("/").text()),
                ("ok".into(), "ok".into())
            );
        }
        assert!(!gateway.log().contains("draining"), "{}", gateway.log());
        // It does not wait for clients that send another request.
        gateway.signal(signal);
        assert!(wire.is_closed());
        assert_eq!(gateway.wait_for_exit().code(), Some(0));
        gateway.wait_for_log("second stop signal");
    }
    // Then they close.
    let gate = Gate::default();
    let origin = origin(&gate);
    let gateway = delayed(&origin, "50ms", "");
    let address = gateway.address("public");
    let mut busy = gateway.wire();
    busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_for_requests(1);
    gateway.signal(Signal::TERM);
    gateway.wait_for_log("draining");
    until("new connections are refused", || TcpStream::connect(address).is_err());
    gate.open();
    assert_eq!(busy.read_reply().text(), "slow");
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
}

#[test]
fn ctrl_c_does_not_wait_for_others_to_hear() {
    let origin = origin(&Gate::default());
    let gateway = delayed(&origin, "10m", "");
    gateway.signal(Signal::INT);
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
    gateway.wait_for_log("all requests have ended");
}

#[test]
fn a_second_signal_cuts() {
    for (first, second) in
        [(Signal::TERM, Signal::TERM), (Signal::TERM, Signal::INT), (Signal::INT, Signal::QUIT)]
    {
        let origin = origin(&Gate::default());
        let gateway = gateway(&origin, "shutdown: { drain: 10m }\n");
        let mut busy = gateway.wire();
        busy.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
        origin.wait_for_requests(1);
        gateway.signal(first);
        gateway.wait_for_log("draining");
        // Another signal of an operator is no reason to hurry.
        gateway.signal(Signal::HUP);
        gateway.wait_for_log("SIGHUP: not reloaded");
        gateway.signal(second);
        assert!(busy.is_closed(), "{first:?} {second:?}");
        assert_eq!(gateway.wait_for_exit().code(), Some(0));
        gateway.wait_for_log("requests that did not end in time were cut");
    }
}

#[test]
fn the_other_signals_end_nothing() {
    let origin = origin(&Gate::default());
    let gateway = gateway(&origin, "telemetry: { access_log: { path: access.log } }\n");
    let (log, old) = (gateway.path("access.log"), gateway.path("access.log.1"));
    let lines = |path: &std::path::Path| std::fs::read_to_string(path).unwrap().lines().count();
    let mut wire = gateway.wire();
    wire.get("/");
    until("the line is there", || lines(&log) == 1);
    std::fs::rename(&log, &old).unwrap();
    gateway.signal(Signal::USR1);
    until("the file is there again", || log.exists());
    wire.get("/");
    until("the line is in the new file", || lines(&log) == 1);
    assert_eq!(lines(&old), 1);
    assert!(!gateway.log().contains("generation=2"), "it reloads nothing");
    assert_eq!(wire.get("/").text(), "ok");
    // A signal that was ignored is not the first of two.
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
    gateway.wait_for_log("all requests have ended");
}

#[test]
fn an_idle_gateway_ends_at_once() {
    let origin = origin(&Gate::default());
    let gateway = gateway(&origin, "");
    gateway.wire().get("/");
    let start = Instant::now();
    gateway.signal(Signal::TERM);
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    // Nothing of it is left at the origin.
    until("its connections are closed", || origin.open() == 0);
}

#[test]
fn what_has_no_end_is_cut_at_the_limit() {
    let gate = Gate::default();
    let origin = origin(&gate);
    let gateway = gateway(
        &origin,
        "shutdown: { drain: 300ms }\ntelemetry: { access_log: { path: access.log } }\n",
    );
    let (mut tunnel, mut stream, mut stuck) = (gateway.wire(), gateway.wire(), gateway.wire());
    tunnel.send(UPGRADE);
    assert_eq!(tunnel.read_head().status(), 101);
    stream.send("GET /sse HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.read_head();
    assert_eq!(stream.read_chunk().as_deref(), Some(&b"one"[..]));
    stuck.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_for_requests(3);

    let start = Instant::now();
    gateway.signal(Signal::TERM);
    // It gets a Close frame, and does not answer.
    assert_eq!(tunnel.read_to_end(), [0x88, 2, 0x03, 0xe9]);
    assert!(start.elapsed() >= Duration::from_millis(300), "a tunnel may use the time there is");
    // A stream that was cut does not look complete.
    assert_eq!(stream.read_to_end(), b"");
    assert!(stuck.is_closed());
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
    gateway.wait_for_log("cut");
    let log = std::fs::read_to_string(gateway.path("access.log")).unwrap();
    assert_eq!(log.lines().count(), 3, "{log}");
}

#[test]
fn http2_says_goodbye_and_ends_its_streams() {
    let gate = Gate::default();
    let origin = origin(&gate);
    let gateway = gateway(&origin, "");
    let h2 = H2::connect(gateway.address("public"));
    assert_eq!(h2.get("http://a.test/").status, 200);
    let slow = hyper::Request::get("http://a.test/slow").body(full("")).unwrap();
    let slow = h2.sender.clone().send_request(slow);
    origin.wait_for_requests(2);
    // A second connection is idle.
    let idle = H2::connect(gateway.address("public"));
    assert_eq!(idle.get("http://a.test/").status, 200);

    gateway.signal(Signal::TERM);
    gateway.wait_for_log("draining");
    until("the idle connection is gone", || idle.sender.is_closed());
    // After GOAWAY a client opens no new stream, and those that are open end.
    let late = || hyper::Request::get("http://a.test/").body(full("")).unwrap();
    let mut sender = h2.sender.clone();
    until("no stream is taken", || h2.block_on(sender.send_request(late())).is_err());
    gate.open();
    let reply = h2.block_on(async { crate::harness::whole(slow.await.unwrap()).await.unwrap() });
    assert_eq!((reply.status, &reply.body[..]), (200, &b"slow"[..]));
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
}

/// Types of HTTP/2 frames (RFC 9113, 6).
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;

#[test]
fn goaway_is_on_the_wire() {
    let origin = origin(&Gate::default());
    let gateway = gateway(&origin, "");
    let mut wire = Wire::connect(gateway.address("public"));
    wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    wire.send([0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]);
    let mut types = Vec::new();
    let mut read = |wire: &mut Wire| {
        let head = wire.read_exact(9)?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        types.push(head[3]);
        Some((head[3], wire.read_exact(length)?))
    };
    assert_eq!(read(&mut wire).map(|(kind, _)| kind), Some(SETTINGS));
    gateway.signal(Signal::TERM);
    // It checks that all has arrived before it goes; a client that answers sees it go at once.
    while let Some((kind, payload)) = read(&mut wire) {
        if kind == PING {
            let acknowledged = [0, 0, 8, PING, 1, 0, 0, 0, 0];
            wire.try_send([&acknowledged[..], &payload].concat());
        }
    }
    assert!(types.contains(&GOAWAY), "no GOAWAY among frames of the types {types:?}");
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
}
