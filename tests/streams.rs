//! What lasts: streams and tunnels over reloads.

use std::time::Duration;

use crate::harness::{Gate, Gateway, H2, Origin, Peer, Wire, full, until};
use crate::reload::put_ok;
use crate::telemetry::metric;

const UPGRADE: &str =
    "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

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
        peer.is_closed();
    })
}

/// With so many listeners, of which the first is `public`, and this time to drain.
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

/// Opens a stream and reads what there is of it.
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
