//! HTTP/2 for clients; the upstream uses HTTP/1.1.

use std::sync::LazyLock;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::channel::{Channel, Sender};
use hyper::{HeaderMap, Request};

use crate::harness::{
    Authority, Gate, Gateway, H2, Origin, Plain, Sent, Wire, full, pattern, until, whole,
};

use crate::http2_hostile::{ALL, DATA, HEAD, HEADERS, POST, frame, greet, next};

static OURS: LazyLock<Authority> = LazyLock::new(Authority::new);

/// With prior knowledge, without TLS.
#[track_caller]
fn open(gateway: &Gateway) -> H2 {
    H2::connect(gateway.address("public"))
}

/// A body that is sent piece by piece.
fn pieces() -> (Sender<Bytes, std::io::Error>, Sent) {
    let (sender, body) = Channel::new(4);
    (sender, body.boxed())
}

#[test]
fn it_is_spoken_with_tls_and_with_prior_knowledge() {
    let origin = Origin::saying("hello");
    let own = OURS.issue("a.test");
    let listener = "tls: { certificate: a.pem, key: a.key }";
    let yaml = Plain { listener, ..Plain::default() }.yaml(&origin);
    let secured = Gateway::start_beside(yaml, &[("a.pem", &own.certificate), ("a.key", &own.key)]);
    let plain = Gateway::before(&origin);
    let address = secured.address("public");
    for (client, scheme) in
        [(H2::connect_tls(address, "a.test", OURS.trust()), "https"), (open(&plain), "http")]
    {
        for _ in 0..2 {
            let reply = client.get(&format!("{scheme}://a.test:81/x%20y?z"));
            assert_eq!((reply.status, &reply.body[..]), (200, &b"hello"[..]));
            assert!(
                reply.headers.contains_key("date") && reply.headers.contains_key("x-request-id")
            );
            let request = origin.requests().pop().unwrap();
            assert_eq!(request.start, "GET /x%20y?z HTTP/1.1");
            assert_eq!(request.get("host"), Some("a.test:81"));
            assert_eq!(request.get("x-forwarded-proto"), Some(scheme));
            assert_eq!(request.get("x-forwarded-for"), Some("127.0.0.1"));
        }
    }
    // Both clients of a plain listener are served, by HTTP/1 as well.
    assert_eq!(plain.wire().get("/").text(), "hello");
}

#[test]
fn prior_knowledge_needs_leave() {
    let origin = Origin::saying("hello");
    let gateway = Plain { listener: "http2: false", ..Plain::default() }.start(&origin);
    let mut wire = gateway.wire();
    wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    let answer = wire.read_to_end();
    assert!(answer.starts_with(b"HTTP/1.1 "), "{}", answer.escape_ascii());
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn the_preface_may_be_cut_at_any_byte() {
    let origin = Origin::saying("hello");
    let gateway = Gateway::before(&origin);
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for at in 1..preface.len() {
        let mut wire = gateway.wire();
        wire.send(&preface[..at]);
        wire.send(&preface[at..]);
        // The server's SETTINGS.
        let frame = wire.read_exact(9).unwrap();
        assert_eq!((frame[3], frame[4]), (4, 0), "cut at {at}: {}", frame.escape_ascii());
    }
}

#[test]
fn many_streams_go_side_by_side() {
    let all = Gate::default();
    let origin = Origin::start({
        let all = all.clone();
        move |peer| {
            while let Some(request) = peer.request() {
                // Answered only once all are there, so none may wait for another.
                all.wait();
                let body = request.target().repeat(500);
                peer.send(format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                ));
            }
        }
    });
    let gateway = Gateway::before(&origin);
    let client = open(&gateway);
    let replies = (0..100).map(|n| {
        let mut sender = client.sender.clone();
        client.spawn(async move {
            let request = Request::get(format!("http://a.test/{n}")).body(full("")).unwrap();
            let reply = whole(sender.send_request(request).await.unwrap()).await.unwrap();
            (reply.status, reply.body)
        })
    });
    let replies: Vec<_> = replies.collect();
    origin.wait_for_requests(100);
    all.open();
    for (n, reply) in replies.into_iter().enumerate() {
        let (status, body) = client.block_on(reply).unwrap();
        assert!(status == 200 && body == format!("/{n}").repeat(500), "{n}: {status} {body:?}");
    }
}

#[test]
fn bodies_pass_both_ways() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    let client = open(&gateway);
    for length in [0, 1, 16_384, 65_536, 5_000_000] {
        let body = pattern(length);
        let reply = client.ask(Request::post("http://a.test/").body(full(body.clone())).unwrap());
        assert!(
            reply.status == 200 && reply.body == body,
            "{length}: {} {}",
            reply.status,
            reply.body.len()
        );
        let request = origin.requests().pop().unwrap();
        assert!(request.whole && request.body == body, "{length}");
    }
}

#[test]
fn trailers_pass_both_ways() {
    let origin = Origin::start(|peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 2\r\nX-Sum: 3\r\n\r\n");
    });
    let gateway = Gateway::before(&origin);
    let client = open(&gateway);
    let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "1".parse().unwrap())]);
    let (mut sender, body) = pieces();
    let sent = client.spawn(async move {
        sender.send_data("hello".into()).await.unwrap();
        sender.send_trailers(trailers).await.unwrap();
    });
    let reply = client.ask(Request::post("http://a.test/").body(body).unwrap());
    client.block_on(sent).unwrap();
    assert_eq!(&reply.body[..], b"ok");
    let sums: Vec<_> = reply.trailers.get_all("x-sum").iter().collect();
    assert_eq!(sums, ["2", "3"]);
    let request = origin.request();
    assert_eq!((request.text().as_str(), request.is_chunked()), ("hello", true));
    assert_eq!(request.trailers, [("x-sum".to_owned(), "1".to_owned())]);
}

#[test]
fn replies_without_bodies_have_none() {
    let origin = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            peer.send(match request.target() {
                "/204" => "HTTP/1.1 204 No Content\r\n\r\n",
                "/304" => "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
                _ => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            });
        }
    });
    let gateway = Gateway::before(&origin);
    let client = open(&gateway);
    let head = client.ask(Request::head("http://a.test/").body(full("")).unwrap());
    assert_eq!(
        (head.status, head.headers["content-length"].as_bytes(), head.body.len()),
        (200, &b"5"[..], 0)
    );
    for status in [204, 304] {
        let reply = client.get(&format!("http://a.test/{status}"));
        assert_eq!((reply.status, reply.body.len()), (status, 0));
        assert!(!reply.headers.contains_key("content-length"), "{reply:?}");
    }
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn the_gateways_own_refusals_leave_the_connection_open() {
    let origin = Origin::echo();
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0", limits: {{ target_bytes_max: 100B, headers_max: 20 }} }} }}
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes:
  a: {{ match: {{ path: "/a/**" }}, upstream: origin, limits: {{ body_bytes_max: 4B }} }}
"#,
        origin.url()
    ));
    let client = open(&gateway);
    let mut many = Request::get("http://a.test/a").body(full("")).unwrap();
    (0..30).for_each(|n| {
        drop(many.headers_mut().insert(
            hyper::header::HeaderName::try_from(format!("x-{n}")).unwrap(),
            hyper::header::HeaderValue::from_static("y"),
        ))
    });
    let post = |body: &'static str| Request::post("http://a.test/a").body(full(body)).unwrap();
    for (request, status) in [
        (Request::get("http://a.test/none").body(full("")).unwrap(), 404),
        (Request::get("http://a.test/a/../b").body(full("")).unwrap(), 404),
        (Request::get(format!("http://a.test/a/{}", "a".repeat(100))).body(full("")).unwrap(), 414),
        (many, 431),
        (post("hello"), 413),
        (Request::trace("http://a.test/a").body(full("")).unwrap(), 405),
    ] {
        let what = format!("{request:?}");
        let reply = client.ask(request);
        assert_eq!(reply.status, status, "{what}");
        assert_eq!(reply.headers["content-type"], "application/problem+json", "{what}");
        assert!(!reply.headers.contains_key("connection"));
    }
    let reply = client.ask(post("hell"));
    assert_eq!((reply.status, &reply.body[..]), (200, &b"hell"[..]));
    assert_eq!(origin.requests().iter().filter(|request| request.whole).count(), 1);
}

#[test]
fn lines_of_an_http_1_connection_stay_behind() {
    let origin = Origin::answering(concat!(
        "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Internal\r\nKeep-Alive: timeout=5\r\nX-Internal: a\r\n",
        "Upgrade: h2c\r\nProxy-Connection: close\r\nX-cAsE: kept\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ));
    let gateway = Gateway::before(&origin);
    let reply = open(&gateway).get("http://a.test/");
    assert_eq!((reply.status, reply.headers["x-case"].as_bytes()), (200, &b"kept"[..]));
    for name in [
        "connection",
        "keep-alive",
        "x-internal",
        "upgrade",
        "proxy-connection",
        "transfer-encoding",
    ] {
        assert!(!reply.headers.contains_key(name), "{reply:?}");
    }
}

#[test]
fn crumbs_of_a_cookie_become_one_line() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    let request = Request::get("http://a.test/")
        .header("cookie", "a=b")
        .header("cookie", "c=d; e=f")
        .header("x-a", "1");
    open(&gateway).ask(request.header("te", "trailers").body(full("")).unwrap());
    let request = origin.request();
    assert_eq!(request.all("cookie"), ["a=b; c=d; e=f"]);
    assert_eq!((request.get("x-a"), request.get("te")), (Some("1"), None));
}

#[test]
fn an_upload_reaches_the_origin_before_it_ends() {
    let arrived = Gate::default();
    let origin = Origin::start({
        let arrived = arrived.clone();
        move |peer| {
            peer.request_head();
            peer.read_until(b"hello");
            arrived.open();
            peer.read_until(b"world");
            peer.read_until(b"0\r\n\r\n");
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let gateway = Gateway::before(&origin);
    let client = open(&gateway);
    let (mut sender, body) = pieces();
    let mut asking = client.sender.clone();
    let reply = client.spawn(async move {
        asking
            .send_request(Request::post("http://a.test/").body(body).unwrap())
            .await
            .unwrap()
            .status()
    });
    client.block_on(sender.send_data("hello".into())).unwrap();
    arrived.wait();
    client.block_on(sender.send_data("world".into())).unwrap();
    drop(sender);
    assert_eq!(client.block_on(reply).unwrap(), 200);
}

/// The body stops after its beginning or before it.
#[test]
fn a_body_that_pauses_too_long_is_408() {
    let origin = Origin::start(|peer| {
        peer.request_head();
        peer.read_to_end();
    });
    let gateway = Plain { listener: "timeout: { body: 200ms }", ..Plain::default() }.start(&origin);
    let client = open(&gateway);
    for begun in [true, false] {
        let (mut sender, body) = pieces();
        if begun {
            client.block_on(sender.send_data("hello".into())).unwrap();
        }
        let reply = client.ask(Request::post("http://a.test/").body(body).unwrap());
        assert_eq!(reply.status, 408);
        until("the origin's connection has ended", || origin.open() == 0);
    }
}

#[test]
fn leave_to_send_a_body_is_given_when_it_is_wanted() {
    let origin = Origin::echo();
    let gateway = Plain { listener: "timeout: { body: 5s }", ..Plain::default() }.start(&origin);
    let mut wire = greet(&gateway);
    let expecting = [POST, b"\x0f\x14\x0c100-continue"].concat();
    wire.send(frame(HEADERS, HEAD, 1, &expecting));
    let interim = next(&mut wire, HEADERS).unwrap();
    assert!(interim.ends_with(b"\x08\x03100"), "{}", interim.escape_ascii());
    wire.send(frame(DATA, 1, 1, b"hello"));
    // 200, by the fixed table.
    assert_eq!(next(&mut wire, HEADERS).unwrap()[0], 0x88);
    assert_eq!(next(&mut wire, DATA).unwrap(), b"hello");
    // A client that does not wait gets no 100 it would have to read past.
    wire.send([frame(HEADERS, HEAD, 3, &expecting), frame(DATA, 1, 3, b"hello")].concat());
    assert_eq!(next(&mut wire, HEADERS).unwrap()[0], 0x88);
    let asked = [Some("100-continue"), None];
    assert_eq!(origin.requests().iter().map(|r| r.get("expect")).collect::<Vec<_>>(), asked);
    // Nothing is to come.
    wire.send(frame(HEADERS, ALL, 5, &expecting));
    assert_eq!(next(&mut wire, HEADERS).unwrap()[0], 0x88);
}

#[test]
fn an_unknown_expectation_is_417() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    let client = open(&gateway);
    for (expectation, status) in [("miracles", 417), ("100-Continue", 200)] {
        let request = Request::get("http://a.test/").header("expect", expectation);
        assert_eq!(client.ask(request.body(full("")).unwrap()).status, status, "{expectation}");
    }
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn an_event_reaches_the_client_before_the_next_is_made() {
    let gates = [Gate::default(), Gate::default(), Gate::default()];
    let origin = Origin::start({
        let gates = gates.clone();
        move |peer| {
            peer.request();
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
            for gate in &gates {
                gate.wait();
                peer.send("9\r\ndata: a\n\n\r\n");
            }
            // Ends only when the gateway closes.
            peer.read_to_end();
        }
    });
    let gateway = Gateway::before(&origin);
    let client = open(&gateway);
    let mut sender = client.sender.clone();
    let request = Request::get("http://a.test/").body(full("")).unwrap();
    let mut reply = client.block_on(sender.send_request(request)).unwrap();
    for gate in &gates {
        gate.open();
        let frame = client.block_on(reply.body_mut().frame()).unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "data: a\n\n");
    }
    // An abandoned stream ends the request to the upstream; the connection stays open.
    drop(reply);
    until("the origin's connection has ended", || origin.open() == 0);
}

#[test]
fn a_reply_that_breaks_off_resets_its_stream_and_no_other() {
    let broken = Gate::default();
    let origin = Origin::start({
        let broken = broken.clone();
        move |peer| {
            while let Some(request) = peer.request() {
                let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
                match request.target() {
                    "/broken" => return peer.send(head),
                    _ => {
                        peer.send(head);
                        broken.wait();
                        peer.send("5\r\nworld\r\n0\r\n\r\n");
                    }
                }
            }
        }
    });
    let gateway = Gateway::before(&origin);
    let client = open(&gateway);
    let ask = |path: &str| {
        let mut sender = client.sender.clone();
        let request = Request::get(format!("http://a.test{path}")).body(full("")).unwrap();
        client.spawn(async move { whole(sender.send_request(request).await?).await })
    };
    let other = ask("/whole");
    origin.wait_for_requests(1);
    assert!(client.block_on(ask("/broken")).unwrap().is_err());
    broken.open();
    assert_eq!(client.block_on(other).unwrap().unwrap().body, "helloworld");
}

#[test]
fn faults_of_the_upstream_are_replies() {
    let origin = Origin::start(|peer| drop(peer.request()));
    let gateway = Gateway::before(&origin);
    let client = open(&gateway);
    for _ in 0..2 {
        let reply = client.get("http://a.test/");
        assert_eq!(reply.status, 502);
        assert!(reply.body.windows(14).any(|part| part == b"upstream_reset"), "{reply:?}");
    }
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody_else() {
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = sent.clone();
    let origin = Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            if request.target() != "/flood" {
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                continue;
            }
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 200000000\r\n\r\n");
            while peer.try_send([0; 50_000]) {
                counted.fetch_add(50_000, std::sync::atomic::Ordering::SeqCst);
            }
        }
    });
    let gateway = Gateway::before(&origin);
    let client = open(&gateway);
    let mut sender = client.sender.clone();
    let request = Request::get("http://a.test/flood").body(full("")).unwrap();
    let flood = client.block_on(sender.send_request(request)).unwrap();
    for _ in 0..20 {
        assert_eq!(client.get("http://a.test/other").body, "ok");
    }
    let taken = sent.load(std::sync::atomic::Ordering::SeqCst);
    assert!(taken < 40_000_000, "{taken} bytes were taken from the origin");
    drop(flood);
    until("the origin is told", || origin.open() <= 1);
}

#[test]
fn a_client_that_takes_nothing_is_left() {
    let origin = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            if request.target() != "/flood" {
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                continue;
            }
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 200000000\r\n\r\n");
            while peer.try_send([0; 50_000]) {}
        }
    });
    let gateway = Plain { listener: "timeout: { body: 200ms }", ..Plain::default() }.start(&origin);
    let client = open(&gateway);
    let mut sender = client.sender.clone();
    let request = Request::get("http://a.test/flood").body(full("")).unwrap();
    let flood = client.block_on(sender.send_request(request)).unwrap();
    until("the origin is told", || origin.open() == 0);
    assert!(client.block_on(whole(flood)).is_err(), "it looks whole");
    assert_eq!(client.get("http://a.test/other").body, "ok");
}

#[test]
fn idle_connections_are_closed() {
    let origin = Origin::saying("ok");
    let listener = "timeout: { idle: 500ms, head: 2s }";
    let gateway = Plain { listener, ..Plain::default() }.start(&origin);
    let client = open(&gateway);
    assert_eq!(client.get("http://a.test/").status, 200);
    until("the connection is closed", || client.sender.is_closed());
    // One that never asks anything, too.
    let mut wire = gateway.wire();
    wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
    wire.read_to_end();
}

#[test]
fn nonsense_ends_the_connection_and_nothing_else() {
    let origin = Origin::saying("ok");
    let gateway = Gateway::before(&origin);
    for nonsense in [
        &b"\0\0\xff\x09\x09\x09garbage"[..],
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let mut wire: Wire = gateway.wire();
        wire.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        wire.send(nonsense);
        wire.shut();
        wire.read_to_end();
    }
    assert_eq!(open(&gateway).get("http://a.test/").status, 200);
    assert!(!gateway.log().contains("panic"), "{}", gateway.log());
}
