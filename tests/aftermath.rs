//! A failed exchange leaves no trace: no connection, no place under a limit, no count.

use std::collections::BTreeMap;

use crate::harness::{Gateway, H2, Origin, Peer, Plain, Wire, full, until};

/// The acts of the origin, by the target.
const ORIGIN: [&str; 9] =
    ["ok", "close", "reset", "garbage", "cut", "hang", "flood", "events", "switch"];

fn script(peer: &mut Peer) {
    while let Some(request) = peer.request_head() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
        match &request.target()[1..] {
            "close" => return,
            "reset" => return peer.reset_on_close(),
            "garbage" => drop(peer.try_send("garbage\r\n\r\n")),
            "cut" => {
                peer.try_send(chunked);
                return;
            }
            "hang" => drop(peer.read_to_end()),
            "flood" => {
                peer.try_send("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n");
                while peer.try_send([0; 50_000]) {}
            }
            "events" => {
                peer.try_send(chunked);
                peer.read_to_end();
            }
            "switch" => {
                peer.try_send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
                peer.read_to_end();
            }
            _ => {
                let mut request = request;
                peer.read_request_body(&mut request);
                peer.try_send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        }
    }
}

/// The act of the client on its connection, after a request was sent.
type Leaving = fn(Wire);

const CLIENT: [Leaving; 5] = [
    drop,
    Wire::reset,
    |mut wire| drop(wire.next_head()),
    |mut wire| {
        wire.next_head();
        wire.reset();
    },
    |mut wire| {
        wire.shut();
        wire.next_head();
    },
];

fn request(what: &str, body: &str) -> String {
    let upgrade =
        if what == "switch" { "Connection: upgrade\r\nUpgrade: websocket\r\n" } else { "" };
    format!("POST /{what} HTTP/1.1\r\nHost: a\r\n{upgrade}{body}")
}

const BODIES: [&str; 4] = [
    "\r\n",
    "Content-Length: 5\r\n\r\nhello",
    "Content-Length: 500000\r\n\r\nhello",
    "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nbogus",
];

/// The gauges, by name and labels.
fn gauges(gateway: &Gateway) -> BTreeMap<String, f64> {
    let text = gateway.admin_get("/metrics").text();
    let sample = |line: &str| {
        line.rsplit_once(' ').map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect()
}

#[test]
fn mishaps_leave_nothing_behind() {
    let origin = Origin::start(script);
    let gateway = Plain {
        listener: "timeout: { body: 300ms, head: 2s }",
        upstream: "timeout: { response: 500ms }, breaker: { requests: 20, connections: 20, pending: 20 }",
        more: "admin: { address: \"127.0.0.1:0\" }\n",
        ..Plain::default()
    };
    let gateway = gateway.start(&origin);
    for what in ORIGIN {
        for body in BODIES {
            for leaves in CLIENT {
                let mut wire = gateway.wire();
                wire.try_send(request(what, body));
                leaves(wire);
            }
        }
        let client = H2::connect(gateway.address("public"));
        let asked =
            hyper::Request::post(format!("http://a.test/{what}")).body(full("hello")).unwrap();
        let mut sender = client.sender.clone();
        // Left as soon as the reply begins, or fails to.
        drop(client.block_on(sender.send_request(asked)));
    }
    let open = ["connections_open{", "requests_active{", "requests_pending{"];
    until("nothing is open or active", || {
        let gauges = gauges(&gateway);
        let left = |(name, value): (&String, &f64)| {
            open.iter().any(|part| name.contains(part)) && *value != 0.0
        };
        let idle = gauges.iter().find(|(name, _)| name.contains("upstream_connections_idle"));
        let upstream = gauges.iter().find(|(name, _)| name.contains("upstream_connections_open"));
        let others = gauges.iter().filter(|(name, _)| !name.contains("upstream_connections_open"));
        !others.into_iter().any(left) && idle.unwrap().1 == upstream.unwrap().1
    });
    until("the origin sees no others", || {
        let gauges = gauges(&gateway);
        let open =
            gauges.iter().find(|(name, _)| name.contains("upstream_connections_open")).unwrap();
        origin.open() as f64 == *open.1
    });
    // All places are free again.
    let mut wires: Vec<Wire> = (0..20).map(|_| gateway.wire()).collect();
    wires.iter_mut().for_each(|wire| wire.send(request("events", "Content-Length: 0\r\n\r\n")));
    wires.iter_mut().for_each(|wire| assert_eq!(wire.read_head().status(), 200));
    assert!(!gateway.log().contains("panic"), "{}", gateway.log());
}
