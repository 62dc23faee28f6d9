//! Clients that would leave no room for others: with connections, and with bodies that come by the byte (issue 18.13, 18.14).

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use http_body_util::BodyExt as _;
use http_body_util::channel::Channel;
use hyper::Request;
use socket2::{Domain, Socket, Type};

use crate::harness::{Gate, Gateway, H2, Origin, Plain, Wire, until};

/// A connection from an address of this machine's own.
fn wire_from(last: u8, to: SocketAddr) -> Wire {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let from = SocketAddr::from((IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), 0));
    socket.bind(&from.into()).unwrap();
    socket.connect(&to.into()).unwrap();
    Wire::from(TcpStream::from(socket))
}

/// True if a request on it is answered; a connection that was refused is closed instead.
fn is_served(wire: &mut Wire) -> bool {
    wire.try_send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        && wire.next_head().is_some_and(|head| head.status() == 204)
}

fn refused(gateway: &Gateway, reason: &str) -> usize {
    let label = format!("reason=\"{reason}\"}} ");
    let metrics = gateway.admin_get("/metrics").text();
    let line = metrics.lines().find(|line| {
        line.starts_with("tidegate_connections_refused_total") && line.contains(&label)
    });
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
}

fn yaml(listener: &str, workers: u32) -> String {
    format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0", {listener} }} }}
admin: {{ address: "127.0.0.1:0" }}
workers: {workers}
routes: {{ all: {{ match: {{ path: "/**" }}, respond: {{ status: 204 }} }} }}
"#
    )
}

#[test]
fn a_client_has_no_more_connections_than_it_may() {
    let gateway = Gateway::start(yaml("limits: { connections_per_client: 3 }", 2));
    let address = gateway.address("public");
    let mut held: Vec<Wire> = (0..3).map(|_| wire_from(1, address)).collect();
    assert!(held.iter_mut().all(is_served));
    for _ in 0..4 {
        assert!(!is_served(&mut wire_from(1, address)), "a fourth");
    }
    until("all are counted", || refused(&gateway, "connections_per_client") == 4);
    assert!(is_served(&mut wire_from(2, address)), "another client");
    // Its open connections continue, and it may open a new one for each that it closes.
    assert!(held.iter_mut().all(is_served));
    drop(held.pop());
    until("a place is free again", || is_served(&mut wire_from(1, address)));
}

#[test]
fn behind_a_balancer_the_client_that_it_names_is_counted() {
    let listener = "proxy_protocol: true, limits: { connections_per_client: 1 }";
    let gateway = Gateway::start(yaml(listener, 2));
    let mut held = Vec::new();
    for (client, served) in [
        ("TCP4 192.0.2.1 192.0.2.9", true),
        ("TCP4 192.0.2.1 192.0.2.9", false),
        ("TCP4 192.0.2.2 192.0.2.9", true),
        ("TCP6 2001:db8:0:1::1 2001:db8::9", true),
        // Another address of the same subscriber's network, and one of another's.
        ("TCP6 2001:db8:0:1::2 2001:db8::9", false),
        ("TCP6 2001:db8:0:2::1 2001:db8::9", true),
    ] {
        let mut wire = gateway.wire();
        wire.send(format!("PROXY {client} 40000 443\r\n"));
        assert_eq!(is_served(&mut wire), served, "{client}");
        held.push(wire);
    }
    // The client may see the end before it is counted.
    until("both are counted", || refused(&gateway, "connections_per_client") == 2);
}

#[test]
fn where_there_is_no_room_the_longest_idle_goes_first() {
    let (origin, gate) = gated();
    let yaml = yaml("limits: { connections_max: 4 }", 1).replace(
        "routes: {",
        &format!(
            "upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\nroutes: {{ held: {{ match: {{ path: /held }}, upstream: origin }},",
            origin.url()
        ),
    );
    let gateway = Gateway::start(yaml);
    // The first is oldest, and has a request; the next two are idle, and the last speaks HTTP/2.
    let mut busy = gateway.wire();
    busy.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_for_requests(1);
    let (mut first, mut second) = (gateway.wire(), gateway.wire());
    assert!(is_served(&mut first) && is_served(&mut second));
    let streams = H2::connect(gateway.address("public"));
    assert_eq!(streams.get("http://a.test/").status, 204);
    assert!(is_served(&mut first), "so that the second is idle longest");
    let mut third = gateway.wire();
    assert!(is_served(&mut third), "a new one gets in");
    assert!(second.is_closed(), "for the one that is idle longest");
    let mut fourth = gateway.wire();
    assert!(is_served(&mut fourth));
    until("the one over HTTP/2 is told to go", || streams.sender.is_closed());
    assert!(is_served(&mut first) && is_served(&mut third) && is_served(&mut fourth));
    let metrics = gateway.admin_get("/metrics").text();
    assert!(metrics.contains("tidegate_connections_displaced_total{listener=\"public\"} 2"));
    gate.open();
    assert_eq!(busy.read_reply().status(), 200, "a request in progress is never aborted");
}

/// An origin that answers when the gate is open.
fn gated() -> (Origin, Gate) {
    let gate = Gate::default();
    let shut = gate.clone();
    let origin = Origin::start(move |peer| {
        while peer.request().is_some() {
            shut.wait();
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    (origin, gate)
}

/// An origin that reads bodies without answering, with room for one request.
fn taking() -> Origin {
    Origin::start(|peer| {
        while let Some(head) = peer.request_head() {
            if head.method() == "GET" {
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                continue;
            }
            peer.read_to_end();
        }
    })
}

/// Each byte comes well before the pause is over, and they never end.
fn trickle(wire: &mut Wire) {
    wire.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    let came = (0..1000).any(|_| {
        let silent = wire.is_silent_for(Duration::from_millis(40));
        !silent || !wire.try_send("x")
    });
    assert!(came, "all of it was taken");
}

#[test]
fn a_body_that_comes_by_the_byte_is_408_and_frees_its_place() {
    for listener in [
        "timeout: { body: 2s }, limits: { body_rate_min: 10KiB }",
        "timeout: { body: 2s, body_total: 3s }, limits: { body_rate_min: 0B }",
    ] {
        let origin = taking();
        let upstream = "breaker: { requests: 1 }";
        let gateway = Plain { listener, upstream, ..Plain::default() }.start(&origin);
        let mut wire = gateway.wire();
        trickle(&mut wire);
        assert_eq!(wire.read_reply().status(), 408, "{listener}");
        until("the request upstream is cut", || origin.open() == 0);
        assert_eq!(gateway.wire().get("/").status(), 200, "{listener}");
    }
}

#[test]
fn over_http2_as_well() {
    let origin = taking();
    let listener = "timeout: { body: 2s }, limits: { body_rate_min: 10KiB }";
    let gateway = Plain { listener, ..Plain::default() }.start(&origin);
    let client = H2::connect(gateway.address("public"));
    let (mut sender, body) = Channel::new(4);
    client.spawn(async move {
        for _ in 0..1000 {
            if sender.send_data("x".into()).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    });
    let reply = client.ask(Request::post("http://a.test/").body(body.boxed()).unwrap());
    assert_eq!(reply.status, 408);
    until("the request upstream is cut", || origin.open() == 0);
}

/// An exchange whose reply has begun may be slow, but must not pause.
#[test]
fn a_body_whose_reply_has_begun_has_no_rate_to_keep() {
    let origin = Origin::start(|peer| {
        peer.request_head();
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while let Some(chunk) = peer.read_chunk() {
            peer.send(format!("{:x}\r\n", chunk.len()));
            peer.send([&chunk[..], b"\r\n"].concat());
        }
        peer.send("0\r\n\r\n");
    });
    let listener = "timeout: { body: 2s }, limits: { body_rate_min: 10KiB }";
    let gateway = Plain { listener, ..Plain::default() }.start(&origin);
    let mut wire = gateway.wire();
    wire.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    assert_eq!(wire.read_head().status(), 200);
    // Twice as long as its account would last.
    for _ in 0..16 {
        wire.send("1\r\nx\r\n");
        assert_eq!(wire.read_chunk().as_deref(), Some(&b"x"[..]));
        assert!(wire.is_silent_for(Duration::from_millis(250)));
    }
    wire.send("0\r\n\r\n");
    assert_eq!(wire.read_chunk(), None);
}
