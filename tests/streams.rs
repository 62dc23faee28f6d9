//! Long-lived streams and tunnels: over reloads, at the end of their listener, and with peers that are gone.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{Gate, Gateway, H2, Origin, Peer, Wire, full, until, whole};
use crate::reload::put_ok;
use crate::telemetry::metric;

const UPGRADE: &str =
    "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

/// A Close frame with 1001, as a server sends it.
const GOING_AWAY: [u8; 4] = [0x88, 2, 0x03, 0xe9];

/// Upgrades `/ws`; at `/sse` sends an event, at `/half` an event and a half, whose rest comes with more once the gate opens; never
/// answers `/slow`.
fn origin(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |peer: &mut Peer| {
        let Some(request) = peer.request() else { return };
        let stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        match request.target() {
            "/slow" => {}
            "/ws" => peer.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"),
            "/half" => {
                peer.send(format!("{stream}f\r\ndata: 1\n\ndata: \r\n"));
                gate.wait();
                peer.send("c\r\n2\n\ndata: 3\n\n\r\n");
            }
            _ => peer.send(format!("{stream}9\r\ndata: 1\n\n\r\n")),
        }
        peer.read_to_end();
    })
}

/// With this many listeners, the first of which is `public`, and this time limit for draining.
fn configuration(origin: &Origin, listeners: &[&str], drain: &str, more: &str) -> String {
    let listeners = listeners.join(": { address: \"127.0.0.1:0\" }, ");
    format!(
        "listen: {{ {listeners}: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n\
         drain: {{ delay: 0s }}\nshutdown: {{ drain: {drain} }}\n\
         upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\n\
         routes:\n  all: {{ match: {{ path: \"/**\" }}, upstream: origin }}\n{more}",
        origin.url()
    )
}

/// Opens a stream and reads the first part of it.
fn stream(wire: &mut Wire, path: &str, first: &str) {
    wire.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(wire.read_head().status(), 200);
    assert_eq!(wire.read_chunk().as_deref(), Some(first.as_bytes()));
}

fn event_stream(h2: &H2) -> hyper::Response<hyper::body::Incoming> {
    let request = hyper::Request::get("http://a.test/sse").body(full("")).unwrap();
    h2.block_on(h2.sender.clone().send_request(request)).unwrap()
}

#[test]
fn streams_keep_no_plan_alive() {
    let origin = origin(&Gate::default());
    let plan = |n: usize| {
        let more = format!("  n{n}: {{ match: {{ path: /n }}, respond: {{ body: \"{n}\" }} }}\n");
        configuration(&origin, &["public"], "1m", &more)
    };
    let gateway = Gateway::start(plan(0));
    let h2 = H2::connect(gateway.address("public"));
    let mut open = Vec::new();
    let mut replies = Vec::new();
    for n in 1..=10 {
        let (mut events, mut tunnel) = (gateway.wire(), gateway.wire());
        stream(&mut events, "/sse", "data: 1\n\n");
        tunnel.send(UPGRADE);
        assert_eq!(tunnel.read_head().status(), 101);
        replies.push(event_stream(&h2));
        open.push((events, tunnel));
        put_ok(&gateway, &plan(n));
    }
    let alive = || metric(&gateway, "tidegate_plans_alive").unwrap();
    until("only the plan that serves is left", || alive() < 1.5);
    for (events, tunnel) in &mut open {
        assert!(events.is_silent_for(Duration::from_millis(1)));
        assert!(tunnel.is_silent_for(Duration::from_millis(1)));
    }
}

#[test]
fn open_streams_are_counted_by_kind() {
    let origin = Origin::start(|peer: &mut Peer| {
        let Some(request) = peer.request() else { return };
        match request.get("upgrade") {
            Some(protocol) => peer.send(format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: {protocol}\r\n\r\n"
            )),
            None => peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"),
        }
        peer.read_to_end();
    });
    let gateway = Gateway::start(configuration(&origin, &["public"], "1m", ""));
    let open = |kind: &str| {
        let name = format!("tidegate_streams_open{{route=\"all\",kind=\"{kind}\"}}");
        metric(&gateway, &name)
    };
    assert_eq!(open("sse"), None, "there was none");
    let mut events = gateway.wire();
    stream(&mut events, "/sse", "data: 1\n\n");
    let h2 = H2::connect(gateway.address("public"));
    let reply = event_stream(&h2);
    let upgrade = |protocol: &str| {
        let mut wire = gateway.wire();
        wire.send(UPGRADE.replace("websocket", protocol));
        assert_eq!(wire.read_head().status(), 101);
        wire
    };
    let tunnels = [upgrade("websocket"), upgrade("WebSocket"), upgrade("other")];
    until("all are counted", || {
        let all = ["sse", "websocket", "tunnel", "grpc"].map(open);
        all == [2.0, 2.0, 1.0, 0.0].map(Some)
    });
    drop((events, reply, h2, tunnels));
    until("none is left", || {
        ["sse", "websocket", "tunnel", "grpc"].iter().all(|kind| open(kind) == Some(0.0))
    });
}

#[test]
fn a_shutdown_ends_streams_between_two_events() {
    let gate = Gate::default();
    let origin = origin(&gate);
    let gateway = Gateway::start(configuration(&origin, &["public"], "10m", ""));
    let (mut between, mut within) = (gateway.wire(), gateway.wire());
    stream(&mut between, "/sse", "data: 1\n\n");
    stream(&mut within, "/half", "data: 1\n\ndata: ");
    let h2 = H2::connect(gateway.address("public"));
    let reply = event_stream(&h2);
    gateway.signal(Signal::TERM);
    gateway.wait_for_log("draining");
    assert_eq!(between.read_to_end(), b"0\r\n\r\n");
    let reply = h2.block_on(whole(reply)).expect("an end, and no reset");
    assert_eq!(&reply.body[..], b"data: 1\n\n");
    // A stream within an event continues up to the end of that event.
    gate.open();
    assert_eq!(within.read_chunk().as_deref(), Some(&b"2\n\n"[..]));
    assert_eq!(within.read_to_end(), b"0\r\n\r\n");
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
    gateway.wait_for_log("all requests have ended");
}

#[test]
fn what_a_removed_listener_leaves_ends_within_the_drain() {
    let gate = Gate::default();
    let origin = origin(&gate);
    let drain = Duration::from_millis(500);
    let gateway = Gateway::start(configuration(&origin, &["public", "old"], "500ms", ""));
    let connect = || Wire::connect(gateway.address("old"));
    let (mut events, mut half, mut tunnel, mut slow) = (connect(), connect(), connect(), connect());
    let mut stays = gateway.wire();
    stream(&mut events, "/sse", "data: 1\n\n");
    stream(&mut half, "/half", "data: 1\n\ndata: ");
    stream(&mut stays, "/sse", "data: 1\n\n");
    tunnel.send(UPGRADE);
    assert_eq!(tunnel.read_head().status(), 101);
    slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    let h2 = H2::connect(gateway.address("old"));
    let request = hyper::Request::get("http://a.test/slow").body(full("")).unwrap();
    let reply = h2.spawn(h2.sender.clone().send_request(request));
    origin.wait_for_requests(6);

    let start = Instant::now();
    put_ok(&gateway, &configuration(&origin, &["public"], "500ms", ""));
    assert_eq!(events.read_to_end(), b"0\r\n\r\n");
    assert_eq!(tunnel.read_to_end(), GOING_AWAY);
    assert!(start.elapsed() >= drain, "a tunnel may use the time there is");
    // A stream that was cut does not look complete.
    assert_eq!(half.read_to_end(), b"");
    gate.open();
    assert!(slow.is_closed());
    h2.block_on(reply).unwrap().expect_err("the connection is cut");
    assert!(stays.is_silent_for(Duration::from_millis(50)));
    until("nothing is left at the origin but the one that stays", || origin.open() == 1);
}

/// The system's timer of an idle connection: `02` is the keep-alive timer, in hundredths of a second.
#[cfg(target_os = "linux")]
#[test]
fn silent_peers_are_probed_on_both_sides() {
    let origin = origin(&Gate::default());
    let gateway = Gateway::start(configuration(&origin, &["public"], "1m", ""));
    let mut wire = gateway.wire();
    stream(&mut wire, "/sse", "data: 1\n\n");
    let (ours, theirs) = (gateway.address("public").port(), origin.address().port());
    for (own, other) in [(Some(ours), None), (None, Some(theirs))] {
        until("a minute at most is left before it is probed", || {
            probed_in(own, other).is_some_and(|left| left <= 6100)
        });
    }
}

/// The hundredths of a second until the first open connection with these ports, the own and the other's, is probed.
#[cfg(target_os = "linux")]
fn probed_in(own: Option<u16>, other: Option<u16>) -> Option<u64> {
    const ESTABLISHED: &str = "01";
    let port = |end: &str| u16::from_str_radix(end.rsplit(':').next()?, 16).ok();
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_it = own.is_none_or(|own| port(fields[1]) == Some(own))
            && other.is_none_or(|other| port(fields[2]) == Some(other));
        let (timer, left) = fields[5].split_once(':')?;
        let is_probing = is_it && fields[3] == ESTABLISHED && timer == "02";
        is_probing.then(|| u64::from_str_radix(left, 16).ok())?
    })
}
