//! The gateway's own refusals: bytes that are not a request, too much, too slow.

use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

use crate::harness::{Authority, Gateway, Message, Origin, Peer, Plain, Wire, until};
use crate::http2_hostile::{ALL, GET, HEADERS, SETTINGS, frame};

/// Checks a refusal: a problem that names its exchange, and the end of the connection.
#[track_caller]
fn refused(wire: &mut Wire, status: u16, what: &str) -> Message {
    let reply = wire.read_reply();
    assert_eq!(reply.status(), status, "{what}: {reply:?}");
    assert!(reply.whole && reply.lists("connection", "close"), "{what}: {reply:?}");
    assert_eq!(reply.get("content-type"), Some("application/problem+json"), "{what}");
    let id = reply.get("x-request-id").expect("an id");
    assert!(reply.text().contains(&format!("\"request_id\":\"{id}\"")), "{what}: {reply:?}");
    assert!(wire.is_closed(), "{what}: something follows");
    reply
}

#[test]
fn malformed_heads_are_400_and_never_forwarded() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    let post = "POST / HTTP/1.1\r\nHost: a\r\n";
    let heads: &[(String, u16)] = &[
        ("GET / HTTP/1.1\nHost: a\n\n".into(), 400),
        ("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX\0: b\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: b\0\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n".into(), 400),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n".into(), 400),
        ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400),
        ("GET /a b HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400),
        ("GET a HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400),
        ("GET /a#b HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400),
        ("GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400),
        ("G(T / HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400),
        ("GET /a%zz HTTP/1.1\r\nHost: a\r\n\r\n".into(), 400),
        ("GET / HTTP/2.0\r\nHost: a\r\n\r\n".into(), 505),
        (format!("{post}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), 400),
        (format!("{post}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello"), 400),
        (format!("{post}Content-Length: +5\r\n\r\nhello"), 400),
        (format!("{post}Content-Length: -5\r\n\r\nhello"), 400),
        (format!("{post}Content-Length: 0x5\r\n\r\nhello"), 400),
        (format!("{post}Content-Length: 5 5\r\n\r\nhello"), 400),
        (format!("{post}Content-Length: 99999999999999999999\r\n\r\nhello"), 400),
        (format!("{post}Content-Length:\r\n\r\n"), 400),
        (format!("{post}Transfer-Encoding: gzip\r\n\r\n"), 400),
        (format!("{post}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"), 501),
        (format!("{post}Transfer-Encoding: chunked, gzip\r\n\r\n"), 400),
        (format!("{post}Transfer-Encoding: xchunked\r\n\r\n"), 400),
        (
            format!(
                "{post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
            400,
        ),
        ("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".into(), 400),
    ];
    for (head, status) in heads {
        let mut wire = gateway.wire();
        // The following bytes must not be treated as a request.
        wire.send(format!("{head}GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"));
        refused(&mut wire, *status, head);
    }
    assert_eq!(origin.accepted(), 0, "{:?}", origin.requests());
}

/// On a connection that allows HTTP/2 by prior knowledge it may be a bad preface, which gets no reply (RFC 9113, 3.4).
#[test]
fn what_names_no_http_is_no_request() {
    let origin = Origin::echo();
    for (listener, may_close) in [("", true), ("http2: false", false)] {
        let gateway = Plain { listener, ..Plain::default() }.start(&origin);
        for bytes in [
            "GET /\r\nHost: a\r\n\r\n",
            "GET / HTTX/1.1\r\nHost: a\r\n\r\n",
            "\0\x01\x02\x03 garbage \r\n\r\n",
            "\x16\x03\x01\x02\0\x01\0\x01\r\n\r\n",
            "PROXY TCP4 203.0.113.7 192.0.2.2 8080 80\r\n",
            "PRI * HTTP/1.1\r\n\r\nSM\r\n\r\n",
        ] {
            let mut wire = gateway.wire();
            wire.send(format!("{bytes}GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"));
            match wire.next_head() {
                Some(head) => assert_eq!(head.status(), 400, "{bytes:?}"),
                None => assert!(may_close && !bytes.contains("HTTP/"), "{bytes:?}"),
            }
        }
    }
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn malformed_chunks_are_400_and_never_a_whole_request() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    for body in [
        "g\r\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhello\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhelloX\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "ffffffffffffffff1\r\nhello\r\n",
        "5;\0\r\nhello\r\n0\r\n\r\n",
        "0\r\nX Y: b\r\n\r\n",
        "0\r\nbroken\r\n\r\n",
        "\r\n",
    ] {
        let mut wire = gateway.wire();
        let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
        wire.send(format!("{head}{body}GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"));
        refused(&mut wire, 400, body);
    }
    let whole = origin.requests().into_iter().filter(|request| request.whole).collect::<Vec<_>>();
    assert!(whole.is_empty(), "{whole:?}");
}

#[test]
fn heads_have_limits() {
    let origin = Origin::echo();
    let limits = "limits: { head_bytes_max: 1KiB, target_bytes_max: 100B, headers_max: 5 }";
    let gateway = Plain { listener: limits, ..Plain::default() }.start(&origin);
    let target =
        |length: usize| format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(length - 1));
    let lines =
        |count: usize| format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(count - 1));
    let value =
        |length: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(length));
    for (request, status) in [
        (target(100), 200),
        (target(101), 414),
        (target(5000), 414),
        (lines(5), 200),
        (lines(6), 431),
        (value(900), 200),
        (value(1000), 431),
        (value(5000), 431),
    ] {
        let mut wire = gateway.wire();
        wire.send(&request);
        match status {
            200 => assert_eq!(wire.read_reply().status(), 200, "{request}"),
            status => drop(refused(&mut wire, status, &request)),
        }
    }
    assert_eq!(origin.requests().len(), 3);
}

#[test]
fn heads_have_limits_by_default() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    let many = (0..20_000).fold(String::new(), |lines, n| lines + &format!("X-{n}: y\r\n"));
    for (request, status) in [
        (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(1 << 20)), 414),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n"), 431),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "a".repeat(1 << 20)), 431),
    ] {
        let mut wire = gateway.wire();
        // The refusal may come before all is sent.
        wire.try_send(request);
        refused(&mut wire, status, "a default limit");
    }
    assert!(origin.requests().is_empty());
}

#[test]
fn bodies_have_limits() {
    let origin = Origin::echo();
    let gateway =
        Plain { route: "limits: { body_bytes_max: 10B }", ..Plain::default() }.start(&origin);
    let head = "POST / HTTP/1.1\r\nHost: a\r\n";
    // Refused by its length alone: no byte of the body is sent.
    let mut wire = gateway.wire();
    wire.send(format!("{head}Content-Length: 11\r\n\r\n"));
    refused(&mut wire, 413, "announced");
    for (body, status) in [
        ("a\r\n0123456789\r\n0\r\n\r\n", 200),
        ("b\r\n0123456789a\r\n0\r\n\r\n", 413),
        ("5\r\n01234\r\n6\r\n56789a\r\n0\r\n\r\n", 413),
    ] {
        let mut wire = gateway.wire();
        wire.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n{body}"));
        match status {
            200 => assert_eq!(wire.read_reply().text(), "0123456789"),
            status => drop(refused(&mut wire, status, body)),
        }
    }
    assert_eq!(origin.requests().iter().filter(|request| request.whole).count(), 1);
    let mut wire = gateway.wire();
    assert_eq!(
        wire.ask(format!("{head}Content-Length: 10\r\n\r\n0123456789")).text(),
        "0123456789"
    );
}

#[test]
fn a_head_has_a_time_that_dribbling_does_not_stretch() {
    let origin = Origin::echo();
    let gateway = Plain { listener: "timeout: { head: 1500ms, idle: 5s }", ..Plain::default() }
        .start(&origin);
    for first in [true, false] {
        let mut wire = gateway.wire();
        if !first {
            wire.get("/first");
        }
        let mut rest = b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: ".iter().chain([b'a'; 500].iter());
        while wire.try_send([*rest.next().expect("a reply long before")])
            && wire.is_silent_for(Duration::from_millis(20))
        {}
        refused(&mut wire, 408, "a slow head");
    }
    assert!(origin.requests().iter().all(|request| request.target() == "/first"));
}

#[test]
fn a_body_may_be_slow_but_not_pause() {
    let origin = Origin::echo();
    let listener = "timeout: { body: 1500ms }, limits: { body_rate_min: 0B }";
    let gateway = Plain { listener, ..Plain::default() }.start(&origin);
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";
    let mut wire = gateway.wire();
    wire.send(head);
    // Twice the pause in all.
    for byte in b"0123456789" {
        assert!(wire.is_silent_for(Duration::from_millis(300)));
        wire.send([*byte]);
    }
    assert_eq!(wire.read_reply().text(), "0123456789");
    wire.send(head);
    wire.send("01234");
    refused(&mut wire, 408, "a pause");
}

#[test]
fn idle_connections_are_closed_silently() {
    let origin = Origin::echo();
    let gateway =
        Plain { listener: "timeout: { idle: 500ms, head: 2s }", ..Plain::default() }.start(&origin);
    let mut wire = gateway.wire();
    wire.get("/");
    assert!(wire.is_closed(), "after a reply");
    assert!(gateway.wire().is_closed(), "from the beginning");
}

#[test]
fn a_client_that_does_not_read_is_bounded_and_left() {
    let total = 200_000_000;
    let origin = Origin::start(move |peer| {
        peer.request();
        peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {total}\r\n\r\n"));
        let mut sent = 0;
        while sent < total && peer.try_send([0; 50_000]) {
            sent += 50_000;
        }
        // Buffers of sockets on the way hold some, the gateway itself next to nothing.
        assert!(sent < 40_000_000, "{sent} bytes were taken from the origin");
    });
    let gateway = Plain { listener: "timeout: { body: 300ms }", ..Plain::default() }.start(&origin);
    let mut wire = gateway.wire();
    wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    wire.read_head();
    until("the origin's connection has ended", || origin.open() == 0);
    let rest = wire.read_to_end();
    assert!(rest.len() < 40_000_000, "{} bytes", rest.len());
}

/// Reads 2,000 bytes every tenth of a second, while the system holds megabytes for it: plain, through TLS, and as a stream.
#[test]
fn a_client_that_reads_slowly_is_not_left() {
    let flood = |peer: &mut Peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 200000000\r\n\r\n");
        while peer.try_send([0; 50_000]) {}
    };
    let authority = Authority::new();
    let own = authority.issue("a.test");
    let timeout = "timeout: { body: 2s }";
    let tls = format!("{timeout}, tls: {{ certificate: a.pem, key: a.key }}");
    let ask = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".to_vec();
    let stream = h2_with_room();
    for (listener, asked) in [(timeout, &ask), (&*tls, &ask), (timeout, &stream)] {
        let origin = Origin::start(flood);
        let yaml = Plain { listener, ..Plain::default() }.yaml(&origin);
        let files = [("a.pem", own.certificate.as_str()), ("a.key", &own.key)];
        let gateway = Gateway::start_beside(yaml, &files);
        let socket = narrow(gateway.address("public"));
        let mut wire = if listener == timeout {
            Wire::from(socket)
        } else {
            Wire::wrap_client(socket, "a.test", &authority.trust()).unwrap()
        };
        wire.send(asked);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(5) {
            wire.read_exact(2000).expect("more of the reply");
            thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(origin.open(), 1);
        // Now it takes nothing.
        until("the origin's connection has ended", || origin.open() == 0);
    }
}

/// A connection whose own system holds next to nothing for it.
fn narrow(address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(8 * 1024).unwrap();
    socket.connect(&address.into()).unwrap();
    socket.into()
}

/// A request over HTTP/2, with windows that do not matter.
fn h2_with_room() -> Vec<u8> {
    let windows = frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
    let window = frame(8, 0, 0, &0x7000_0000u32.to_be_bytes());
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    [preface, &*windows, &window, &frame(HEADERS, ALL, 1, GET)].concat()
}

#[test]
fn what_no_route_takes_is_404_and_the_connection_goes_on() {
    let gateway = Gateway::start(
        r#"
listen: { public: { address: "127.0.0.1:0" } }
routes: { hello: { match: { path: "/hello", methods: [GET] }, respond: { body: "hello" } } }
"#,
    );
    let mut wire = gateway.wire();
    let reply = wire.ask("POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(reply.status(), 404);
    assert!(reply.text().contains("\"fault\":\"no_route\""), "{reply:?}");
    let reply = wire.ask("POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!((reply.status(), reply.get("allow")), (405, Some("GET, HEAD, OPTIONS")));
    assert_eq!(wire.get("/hello").text(), "hello");
}

#[test]
fn connect_and_trace_are_not_served() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    for request in [
        "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n",
        "TRACE / HTTP/1.1\r\nHost: a\r\nAuthorization: secret\r\n\r\n",
    ] {
        let mut wire = gateway.wire();
        wire.send(request);
        let reply = refused(&mut wire, 405, request);
        assert!(!reply.text().contains("secret"));
    }
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn no_more_connections_are_served_than_allowed() {
    let origin = Origin::start(|peer| while peer.request().is_some() {});
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0", limits: {{ connections_max: 2 }} }} }}
workers: 2
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes:
  held: {{ match: {{ path: "/held" }}, upstream: origin }}
  hello: {{ match: {{ path: "/**" }}, respond: {{ body: "hello" }} }}
"#,
        origin.url()
    ));
    // Connections with a request stay.
    let mut held = [gateway.wire(), gateway.wire()];
    held.iter_mut().for_each(|wire| wire.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n"));
    origin.wait_for_requests(2);
    for _ in 0..5 {
        assert!(gateway.wire().is_closed());
    }
    drop(held);
    until("a place is free again", || {
        let mut wire = gateway.wire();
        wire.try_send("GET / HTTP/1.1\r\nHost: a\r\n\r\n") && wire.next_head().is_some()
    });
}
