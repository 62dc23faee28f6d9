//! HTTP/2 towards upstreams.

use std::sync::mpsc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::channel::{Channel, Sender};
use hyper::{HeaderMap, Request};

use crate::harness::frames::{
    END, HEAD, block, data, frame, goaway, head, kind, reply, reset, settings, window,
};
use crate::harness::{
    Gate, Gateway, H2, Origin, Peer, Plain, Sent, full, pattern, tidegate, until, whole,
};

/// Answers each request whole, in its order.
fn answering(
    answer: impl Fn(u32, &crate::harness::Message) -> Vec<u8> + Send + Sync + 'static,
) -> Origin {
    Origin::start(move |peer| {
        peer.greet(&[]);
        while let Some((stream, request)) = peer.whole_stream() {
            peer.try_send(answer(stream, &request));
        }
    })
}

#[track_caller]
fn before(origin: &Origin) -> Gateway {
    with("", origin)
}

#[track_caller]
fn with(upstream: &str, origin: &Origin) -> Gateway {
    let upstream = format!("protocol: http2, {upstream}");
    Plain { upstream: &upstream, ..Plain::default() }.start(origin)
}

/// A body that is sent piece by piece.
fn pieces() -> (Sender<Bytes, std::io::Error>, Sent) {
    let (sender, body) = Channel::new(4);
    (sender, body.boxed())
}

const ECHO: fn(u32, &crate::harness::Message) -> Vec<u8> = |stream, request| {
    let pieces = request.body.chunks(10_000).flat_map(|piece| data(stream, 0, piece));
    let lines = [(":status", "200"), ("x-a", "b")];
    [head(stream, 0, &lines), pieces.collect(), data(stream, END, "")].concat()
};

#[test]
fn a_request_of_http_1_and_its_reply_pass() {
    let origin = answering(ECHO);
    let gateway = before(&origin);
    let mut wire = gateway.wire();
    for _ in 0..2 {
        let sent = "POST /a?b HTTP/1.1\r\nHost: a.test\r\nConnection: x-gone\r\nX-Gone: 1\r\nTE: trailers\r\nCookie: a=b\r\nX-B: c\r\nContent-Length: 5\r\n\r\nhello";
        let reply = wire.ask(sent);
        assert_eq!((reply.status(), reply.text().as_str()), (200, "hello"));
        assert_eq!(reply.get("x-a"), Some("b"));
    }
    assert_eq!(origin.accepted(), 1, "one connection for both");
    let request = origin.requests().pop().unwrap();
    assert_eq!(request.start, "POST /a?b http");
    assert_eq!(request.get("host"), Some("a.test"));
    assert_eq!(request.get("content-length"), Some("5"));
    assert_eq!((request.get("te"), request.get("cookie")), (Some("trailers"), Some("a=b")));
    assert_eq!(request.get("x-forwarded-for"), Some("127.0.0.1"));
    assert!(request.get("connection").is_none() && request.get("x-gone").is_none());
}

#[test]
fn bodies_and_trailers_pass_both_ways() {
    let origin = answering(|stream, request| {
        let echo = request.body.chunks(16_000).flat_map(|piece| data(stream, 0, piece));
        let said = format!("{:?}", request.trailers);
        let trailers = block(&[("grpc-status", "0"), ("x-said", &said)]);
        [
            head(stream, 0, &[(":status", "200"), ("content-type", "application/grpc")]),
            echo.collect(),
            frame(kind::HEADERS, END | HEAD, stream, &trailers),
        ]
        .concat()
    });
    let gateway = before(&origin);
    let client = H2::connect(gateway.address("public"));
    let sent = pattern(40_000);
    let (mut sender, body) = pieces();
    let request = Request::post("http://a.test/").header("te", "trailers").body(body).unwrap();
    let mut requests = client.sender.clone();
    let got = client.block_on(async {
        let asked = tokio::spawn(requests.send_request(request));
        for piece in sent.chunks(1000) {
            sender.send_data(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        sender.send_trailers(trailers).await.unwrap();
        drop(sender);
        whole(asked.await.unwrap().unwrap()).await.unwrap()
    });
    assert!(got.body == sent, "{} bytes", got.body.len());
    assert_eq!(got.trailers["grpc-status"], "0");
    assert_eq!(got.trailers["x-said"], r#"[("x-sum", "1")]"#);
}

/// Services of gRPC send the details of an error so.
#[test]
fn trailers_of_the_size_of_a_head_pass() {
    let origin = answering(|stream, _| {
        let names: Vec<String> = (0..70).map(|n| format!("x-{n}")).collect();
        let value = "v".repeat(120);
        let lines: Vec<(&str, &str)> = names.iter().map(|name| (&**name, &*value)).collect();
        let trailers = frame(kind::HEADERS, END | HEAD, stream, &block(&lines));
        [head(stream, 0, &[(":status", "200")]), trailers].concat()
    });
    let gateway = before(&origin);
    let reply = H2::connect(gateway.address("public")).get("http://a.test/");
    assert_eq!((reply.status, reply.trailers.len()), (200, 70));
    assert!(reply.trailers.values().all(|value| value.len() == 120));
}

#[test]
fn the_head_of_a_reply_comes_before_the_requests_end_and_both_go_on() {
    let origin = Origin::start(|peer| {
        peer.greet(&[]);
        let (stream, _, _) = peer.stream().unwrap();
        peer.send(head(stream, 0, &[(":status", "200")]));
        while let Some(next) = peer.frame() {
            peer.send(data(stream, next.flags & END, &next.payload));
            if next.is_end() {
                break;
            }
        }
        peer.read_to_end();
    });
    let gateway = before(&origin);
    let client = H2::connect(gateway.address("public"));
    let (mut sender, body) = pieces();
    let mut requests = client.sender.clone();
    client.block_on(async {
        let request = Request::post("http://a.test/").body(body).unwrap();
        let mut reply = requests.send_request(request).await.unwrap().into_body();
        for piece in ["one", "two", "three"] {
            sender.send_data(piece.into()).await.unwrap();
            let echo = reply.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(echo, piece);
        }
        drop(sender);
        assert!(reply.collect().await.unwrap().to_bytes().is_empty());
    });
}

#[test]
fn many_requests_share_a_connection() {
    let gate = Gate::default();
    let opened = gate.clone();
    let origin = Origin::start(move |peer| {
        peer.greet(&[]);
        let all: Vec<u32> = (0..50).map(|_| peer.whole_stream().unwrap().0).collect();
        opened.wait();
        all.iter().rev().for_each(|stream| peer.send(reply(*stream, &stream.to_string())));
        peer.read_to_end();
    });
    let gateway = before(&origin);
    let client = H2::connect(gateway.address("public"));
    let asked: Vec<_> = (0..50)
        .map(|_| {
            let mut sender = client.sender.clone();
            client.spawn(async move {
                let request = Request::get("http://a.test/").body(full("")).unwrap();
                whole(sender.send_request(request).await.unwrap()).await.unwrap()
            })
        })
        .collect();
    origin.wait_for_requests(50);
    gate.open();
    let mut said: Vec<u32> = asked
        .into_iter()
        .map(|asked| {
            let reply = client.block_on(asked).unwrap();
            std::str::from_utf8(&reply.body).unwrap().parse().unwrap()
        })
        .collect();
    said.sort_unstable();
    assert_eq!(said, (0..50).map(|n| 2 * n + 1).collect::<Vec<u32>>());
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn a_client_that_leaves_cancels_its_stream() {
    let (told, tells) = mpsc::channel();
    let origin = Origin::start(move |peer: &mut Peer| {
        peer.greet(&[]);
        let (stream, _, _) = peer.stream().unwrap();
        let next = peer.frame().unwrap();
        told.send((next.kind, next.stream == stream, next.number())).unwrap();
        while let Some((stream, _)) = peer.whole_stream() {
            peer.send(reply(stream, "ok"));
        }
    });
    let gateway = before(&origin);
    let mut wire = gateway.wire();
    wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_for_requests(1);
    wire.reset();
    assert_eq!(tells.recv().unwrap(), (kind::RST_STREAM, true, 8));
    assert_eq!(gateway.wire().get("/").text(), "ok");
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn windows_hold_back_what_nobody_takes() {
    let origin = Origin::start(|peer| {
        peer.greet(&[(4, 1000)]);
        let (first, _) = peer.whole_stream().unwrap();
        peer.send(reply(first, "ok"));
        let (stream, _, _) = peer.stream().unwrap();
        let first = peer.frame().unwrap();
        assert_eq!((first.kind, first.payload.len()), (kind::DATA, 1000));
        let mut got = first.payload.len();
        while got < 5000 {
            peer.send(window(stream, 500));
            let next = peer.frame().unwrap();
            assert_eq!(next.payload.len(), 500);
            got += next.payload.len();
        }
        peer.send(reply(stream, "ok"));
        peer.read_to_end();
    });
    let gateway = before(&origin);
    assert_eq!(gateway.wire().get("/").text(), "ok");
    let body = "x".repeat(5000);
    let request = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n{body}");
    assert_eq!(gateway.wire().ask(request).text(), "ok");
}

#[test]
fn a_target_of_http_1_is_told_as_that() {
    let origin = Origin::answering("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    let more = "telemetry: { access_log: { path: stdout } }";
    let gateway = Plain { upstream: "protocol: http2", more, ..Plain::default() }.start(&origin);
    let mut wire = gateway.wire();
    assert_eq!(wire.get("/").status(), 502);
    gateway.wait_for_output("it answers with HTTP/1.1");
}

#[test]
fn a_target_that_is_not_there_is_502() {
    let origin = Origin::start(|peer| {
        peer.greet(&[]);
        let (stream, _) = peer.whole_stream().unwrap();
        peer.send(reply(stream, "ok"));
    });
    let gateway = before(&origin);
    assert_eq!(gateway.wire().get("/").status(), 200);
    drop(origin);
    until("it is noticed", || gateway.wire().get("/").status() == 502);
}

#[test]
fn what_a_target_refuses_is_sent_again_whatever_its_method() {
    let origin = Origin::start(|peer| {
        peer.greet(&[]);
        // The first connection refuses one stream and leaves with the next.
        if peer.number == 0 {
            let (first, _) = peer.whole_stream().unwrap();
            peer.send(reset(first, 7));
            let (again, _) = peer.whole_stream().unwrap();
            assert_ne!(first, again);
            peer.send(goaway(first, 0));
            peer.read_to_end();
            return;
        }
        while let Some((stream, request)) = peer.whole_stream() {
            peer.send(reply(stream, &request.text()));
        }
    });
    let gateway = before(&origin);
    let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(gateway.wire().ask(request).text(), "hello");
    assert_eq!((origin.accepted(), origin.requests().len()), (2, 3));
}

#[test]
fn a_target_that_only_refuses_is_502() {
    let origin = answering(|stream, _| reset(stream, 7));
    let gateway = before(&origin);
    assert_eq!(gateway.wire().get("/").status(), 502);
    assert_eq!(origin.requests().len(), 4, "the first, and three more");
}

#[test]
fn a_target_that_leaves_finishes_what_it_has_begun() {
    let gate = Gate::default();
    let opened = gate.clone();
    let origin = Origin::start(move |peer| {
        peer.greet(&[]);
        let (stream, _) = peer.whole_stream().unwrap();
        if peer.number == 0 {
            peer.send(goaway(stream, 0));
            peer.send(head(stream, 0, &[(":status", "200")]));
            opened.wait();
            peer.send(data(stream, END, "old"));
            peer.read_to_end();
            return;
        }
        peer.send(reply(stream, "new"));
        peer.read_to_end();
    });
    let gateway = before(&origin);
    let mut first = gateway.wire();
    first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_for_requests(1);
    let begun = first.next_head().unwrap();
    assert_eq!(begun.status(), 200);
    assert_eq!(gateway.wire().get("/").text(), "new");
    gate.open();
    assert_eq!(first.read_chunk().unwrap(), b"old");
    until("the connection has ended", || origin.open() == 1);
}

#[test]
fn the_targets_limit_of_streams_is_kept() {
    let origin = Origin::start(|peer| {
        peer.greet(&[(3, 1)]);
        while let Some((stream, _)) = peer.whole_stream() {
            peer.try_send(reply(stream, "ok"));
        }
    });
    let gateway = before(&origin);
    assert_eq!(gateway.wire().get("/").text(), "ok");
    let mut wires: Vec<_> = (0..4).map(|_| gateway.wire()).collect();
    wires.iter_mut().for_each(|wire| wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    wires.iter_mut().for_each(|wire| assert_eq!(wire.read_reply().text(), "ok"));
}

/// Servers should do this only for a short time (RFC 9113, 6.5.2).
#[test]
fn a_target_that_allows_no_streams_is_waited_for() {
    let gate = Gate::default();
    let opened = gate.clone();
    let origin = Origin::start(move |peer| {
        peer.greet(&[]);
        let (first, _) = peer.whole_stream().unwrap();
        peer.send([settings(&[(3, 0)]), reply(first, "first")].concat());
        opened.wait();
        peer.send(settings(&[(3, 100)]));
        while let Some((stream, _)) = peer.whole_stream() {
            peer.try_send(reply(stream, "later"));
        }
    });
    let gateway = with("timeout: { connect: 60s }", &origin);
    assert_eq!(gateway.wire().get("/").text(), "first");
    let mut wires = [gateway.wire(), gateway.wire()];
    wires.iter_mut().for_each(|wire| wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert!(wires.iter_mut().all(|wire| wire.is_silent_for(Duration::from_millis(20))));
    gate.open();
    wires.iter_mut().for_each(|wire| assert_eq!(wire.read_reply().text(), "later"));
    assert_eq!(origin.accepted(), 1);

    // No longer than for a connection.
    let origin = Origin::start(|peer| {
        peer.greet(&[(3, 0)]);
        while let Some((stream, _)) = peer.whole_stream() {
            peer.try_send(reset(stream, 7));
        }
    });
    let gateway = with("timeout: { connect: 300ms }", &origin);
    assert_eq!(gateway.wire().get("/").status(), 504);
}

/// Protocol violations of a server, with the code that it gets, and the fault of the request.
#[test]
fn hostile_targets_are_told_why_and_left() {
    let bytes = |n: usize| vec![b'x'; n];
    let huge = [&[0, 1, b'x', 0x7f, 0x81, 0x06][..], &bytes(896)].concat();
    let calm = 0xb;
    let cases: Vec<(Vec<u8>, u32, &str)> = vec![
        (frame(kind::PING, 0, 0, &[0; 8]).repeat(25_000), calm, "pings"),
        (settings(&[]).repeat(25_000), calm, "settings"),
        (data(1, 0, "").repeat(25_000), calm, "empty data"),
        (reset(1, 8).repeat(25_000), calm, "resets"),
        (
            [
                frame(kind::HEADERS, 0, 1, &block(&[(":status", "200")])),
                frame(kind::CONTINUATION, 0, 1, &huge.repeat(15)).repeat(100),
            ]
            .concat(),
            calm,
            "a head without end",
        ),
        (frame(kind::PUSH_PROMISE, HEAD, 1, &[0, 0, 0, 2, 0x82]), 1, "a push"),
        (head(2, END, &[(":status", "200")]), 1, "a stream that nobody opened"),
        (data(9, 0, "x"), 1, "data of nobody"),
        (window(0, 0x7fff_ffff), 3, "a window that is too large"),
        (settings(&[(2, 1)]), 1, "leave to push"),
        (frame(kind::HEADERS, HEAD, 1, &[0xbe]), 9, "an entry that was never made"),
        (frame(kind::DATA, 0, 1, &bytes(16_385)), 6, "a frame that is too large"),
    ];
    for (sent, code, what) in cases {
        let is_long = sent.len() > 1000;
        let (told, tells) = mpsc::channel();
        let origin = Origin::start(move |peer| {
            peer.greet(&[]);
            peer.stream().unwrap();
            // It may stop reading before it has all.
            peer.try_send(&sent);
            while let Some(next) = peer.any_frame() {
                if next.kind == kind::GOAWAY {
                    told.send(next.code()).unwrap();
                    return;
                }
            }
        });
        let upstream = "protocol: http2, timeout: { response: 20s }, retry: { attempts: 0 }";
        let gateway = Plain { upstream, ..Plain::default() }.start(&origin);
        let reply = gateway.wire().ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
        assert_eq!(reply.status(), 502, "{what}");
        until("nothing is open", || origin.open() == 0);
        // The last frames may be lost in a reset, if not all its data was read.
        match tells.try_recv() {
            Ok(told) => assert_eq!(told, code, "{what}"),
            Err(_) => assert!(is_long, "{what}: nothing was told"),
        }
    }
}

#[test]
fn mistakes_with_one_stream_are_its_own() {
    let origin = Origin::start(|peer| {
        peer.greet(&[]);
        while let Some((stream, request)) = peer.whole_stream() {
            let ok = head(stream, 0, &[(":status", "200"), ("content-length", "1")]);
            peer.try_send(match request.target() {
                "/early" => data(stream, 0, "x"),
                "/long" => [ok, data(stream, END, "xy")].concat(),
                "/status" => head(stream, END, &[(":status", "20")]),
                "/line" => head(stream, END, &[(":status", "200"), ("connection", "x")]),
                _ => reply(stream, "ok"),
            });
        }
    });
    let gateway = before(&origin);
    for path in ["/early", "/status", "/line"] {
        assert_eq!(gateway.wire().get(path).status(), 502, "{path}");
    }
    assert!(!gateway.wire().get("/long").whole);
    assert_eq!(gateway.wire().get("/").text(), "ok");
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody_else() {
    let origin = Origin::start(|peer| {
        peer.greet(&[]);
        let (slow, _) = peer.whole_stream().unwrap();
        // As much as the window allows; more would be an error.
        let lines = [(":status", "200"), ("content-length", "10000000")];
        peer.send([head(slow, 0, &lines), data(slow, 0, [b'x'; 16_384]).repeat(4)].concat());
        while let Some((stream, _)) = peer.whole_stream() {
            peer.try_send(reply(stream, "ok"));
        }
    });
    let gateway = before(&origin);
    let mut slow = gateway.wire();
    slow.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_for_requests(1);
    for _ in 0..20 {
        assert_eq!(gateway.wire().get("/").text(), "ok");
    }
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn a_silent_target_is_504_and_the_next_request_gets_a_new_connection() {
    let origin = Origin::start(|peer| {
        if peer.number == 0 {
            peer.greet(&[]);
            peer.stream().unwrap();
            // It reads no more, so it does not answer a PING.
            peer.is_silent_for(std::time::Duration::from_secs(1));
            while peer.any_frame().is_some() {}
            return;
        }
        peer.greet(&[]);
        while let Some((stream, _)) = peer.whole_stream() {
            peer.try_send(reply(stream, "ok"));
        }
    });
    let gateway = with("timeout: { response: 300ms }", &origin);
    assert_eq!(gateway.wire().get("/").status(), 504);
    assert_eq!(gateway.wire().get("/").text(), "ok");
    until("the silent one is closed", || origin.open() == 1);
}

#[test]
fn interim_replies_pass() {
    let origin = answering(|stream, _| {
        let early = head(stream, 0, &[(":status", "103"), ("link", "</a.css>")]);
        [early, reply(stream, "ok")].concat()
    });
    let gateway = before(&origin);
    let mut wire = gateway.wire();
    wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let early = wire.next_head().unwrap();
    assert_eq!((early.status(), early.get("link")), (103, Some("</a.css>")));
    assert_eq!(wire.read_reply().text(), "ok");
}

#[test]
fn health_checks_use_the_protocol() {
    let origin = answering(|stream, _| reply(stream, "ok"));
    let upstream = "protocol: http2, health: { path: /health, interval: 100ms }";
    let more = "admin: { address: \"127.0.0.1:0\" }";
    let gateway = Plain { upstream, more, ..Plain::default() }.start(&origin);
    until("it is checked", || origin.requests().iter().any(|r| r.target() == "/health"));
    until("it is known", || gateway.admin_get("/upstreams").text().contains("\"healthy\":true"));
    let view = gateway.admin_get("/upstreams").text();
    assert!(view.contains("\"protocol\":\"http2\""), "{view}");
}

/// An ordinary request in its place would get an answer that no client of a WebSocket reads.
#[test]
fn a_websocket_is_refused_with_its_reason() {
    let origin = answering(ECHO);
    let gateway = before(&origin);
    let handshake = "GET /ws HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    assert_eq!(gateway.wire().ask(handshake).status(), 501);
    assert_eq!(origin.accepted(), 0);
    // Other protocols may be declined by an ordinary answer (RFC 9110, 7.8).
    let other =
        "GET /a HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: other/1\r\n\r\n";
    assert_eq!(gateway.wire().ask(other).status(), 200);

    let folder = tempfile::tempdir().unwrap();
    let route = "policies: [{ websocket: {} }]";
    for (protocol, is_refused) in [("http2", true), ("auto", false), ("http1", false)] {
        let upstream = format!("protocol: {protocol}");
        let yaml = Plain { route, upstream: &upstream, ..Plain::default() }.yaml(&origin);
        let file = folder.path().join("a.yaml");
        std::fs::write(&file, yaml).unwrap();
        let run = tidegate(&["check", file.to_str().unwrap()]);
        let said = "no WebSocket can be opened at `origin`, because it uses HTTP/2";
        assert_eq!(run.stderr.contains(said), is_refused, "{protocol}: {}", run.stderr);
        assert_eq!(run.code == Some(1), is_refused, "{protocol}: {}", run.stderr);
    }
}
