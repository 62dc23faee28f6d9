//! HTTP/1.1 on the wire: connections, framing, order.

use std::time::Duration;

use crate::harness::{Gateway, Message, Origin, Plain, pattern};

/// The body as chunks of some size, the last one included.
fn chunks(body: &[u8], size: usize, trailers: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in body.chunks(size) {
        out.extend(format!("{:x}\r\n", piece.len()).bytes());
        out.extend(piece);
        out.extend(b"\r\n");
    }
    out.extend(format!("0\r\n{trailers}\r\n").bytes());
    out
}

#[test]
fn connections_are_kept_on_both_sides() {
    let origin = Origin::saying("hello");
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    for _ in 0..3 {
        let reply = wire.get("/a");
        assert_eq!((reply.status(), reply.text().as_str()), (200, "hello"));
        assert!(reply.get("date").is_some());
    }
    assert_eq!((origin.requests().len(), origin.accepted()), (3, 1));
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let origin = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let body = format!("{} {}", request.target(), request.text());
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        }
    });
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    wire.send(concat!(
        "GET /1 HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "POST /2 HTTP/1.1\r\nHost: a.test\r\nContent-Length: 3\r\n\r\ntwo",
        "POST /3 HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nthree\r\n0\r\n\r\n",
        "GET /4 HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n",
    ));
    for expected in ["/1 ", "/2 two", "/3 three", "/4 "] {
        assert_eq!(wire.read_reply().text(), expected);
    }
    assert!(wire.is_closed());
}

#[test]
fn connections_end_as_the_client_asks() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    );
    let gateway = Gateway::before(&origin);
    for (request, stays) in [
        ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false),
        ("GET / HTTP/1.1\r\nHost: a\r\nConnection: foo, CLOSE\r\n\r\n", false),
        ("GET / HTTP/1.0\r\nHost: a\r\n\r\n", false),
        ("GET / HTTP/1.0\r\n\r\n", false),
    ] {
        let mut wire = gateway.wire();
        let reply = wire.ask(request);
        assert_eq!((reply.text().as_str(), reply.whole), ("ok", true), "{request}");
        assert!(!reply.is_chunked() || !request.contains("HTTP/1.0"), "{request}");
        if request.contains("HTTP/1.1") {
            assert_eq!(reply.lists("connection", "close"), !stays, "{request}{reply:?}");
        }
        if stays {
            wire.ask(request);
        } else {
            assert!(wire.is_closed(), "{request}");
        }
    }
}

#[test]
fn http_1_0_is_kept_alive_on_request_where_the_length_is_known() {
    let origin = Origin::saying("hello");
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    for _ in 0..2 {
        let reply = wire.ask("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert!(reply.lists("connection", "keep-alive"), "{reply:?}");
        assert_eq!((reply.text().as_str(), reply.length()), ("hello", Some(5)));
    }
    let request = origin.requests().remove(0);
    assert!(request.start.ends_with(" HTTP/1.1") && request.get("host").is_some(), "{request:?}");
}

#[test]
fn head_has_the_lengths_of_get_and_no_body() {
    let origin = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
            if request.method() != "HEAD" {
                peer.send("hello");
            }
        }
    });
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    for _ in 0..2 {
        let reply = wire.ask("HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!((reply.status(), reply.length()), (200, Some(5)));
        assert_eq!(wire.get("/").text(), "hello");
    }
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn replies_without_bodies_have_none() {
    for (reply, length) in [
        ("HTTP/1.1 204 No Content\r\n\r\n", None),
        ("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", None),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", Some(7)),
    ] {
        let origin = Origin::answering(reply);
        let gateway = Gateway::before(&origin);
        let mut wire = gateway.wire();
        for _ in 0..2 {
            let got = wire.get("/");
            assert_eq!((got.start.as_str(), got.length()), (reply.lines().next().unwrap(), length));
            assert!(!got.is_chunked());
        }
        assert_eq!(origin.accepted(), 1, "{reply}");
    }
}

#[test]
fn bodies_pass_in_every_framing() {
    for length in [0, 1, 1000, 16_383, 16_384, 16_385, 200_000] {
        let body = pattern(length);
        let mut sized =
            format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n").into_bytes();
        sized.extend(&body);
        let mut chunked =
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        chunked.extend(chunks(&body, 1111, ""));
        let expected = body.clone();
        let origin = Origin::start(move |peer| {
            let replies = [
                (format!("Content-Length: {length}\r\n\r\n"), expected.clone()),
                ("Transfer-Encoding: chunked\r\n\r\n".to_owned(), chunks(&expected, 777, "")),
                ("Connection: close\r\n\r\n".to_owned(), expected.clone()),
            ];
            for (head, body) in replies.iter().skip(peer.number * 3) {
                let Some(request) = peer.request() else { return };
                assert!(request.whole && request.body == expected, "{request:?}");
                peer.send(format!("HTTP/1.1 200 OK\r\n{head}"));
                peer.send(body);
            }
        });
        let gateway = Gateway::before(&origin);
        let mut wire = gateway.wire();
        for (request, framing) in [(&sized, "length"), (&chunked, "chunked"), (&sized, "close")] {
            let reply = wire.ask(request);
            assert!(reply.whole && reply.body == body, "{length} bytes, {framing}: {reply:?}");
        }
        let framings = origin.requests().iter().map(Message::is_chunked).collect::<Vec<_>>();
        assert_eq!(framings, [false, true, false]);
    }
}

#[test]
fn trailers_pass_both_ways() {
    let origin = Origin::start(|peer| {
        peer.request();
        peer.send("HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n");
        peer.send("2\r\nok\r\n0\r\nX-Sum: 2\r\nX-Other: b\r\n\r\n");
    });
    let gateway = Gateway::before(&origin);
    let reply = gateway.wire().ask(concat!(
        "POST / HTTP/1.1\r\nHost: a\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n",
        "3;ext=1\r\nabc\r\n0\r\nX-Sum: 3\r\n\r\n",
    ));
    let trailer = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(reply.trailers, [trailer("X-Sum", "2"), trailer("X-Other", "b")]);
    assert_eq!(reply.get("trailer"), Some("X-Sum"));
    let request = origin.request();
    assert_eq!(request.trailers, [trailer("X-Sum", "3")]);
    assert_eq!((request.text().as_str(), request.get("trailer")), ("abc", Some("X-Sum")));
}

#[test]
fn a_request_may_be_cut_at_any_byte() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    let request = concat!(
        "POST /cut HTTP/1.1\r\nHost: a.test\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n",
        "5;x=y\r\nhello\r\n6\r\n world\r\n0\r\nX-T: u\r\n\r\n",
    )
    .as_bytes();
    let mut wire = gateway.wire();
    for at in 1..request.len() {
        wire.send(&request[..at]);
        wire.send(&request[at..]);
        let reply = wire.read_reply();
        assert_eq!((reply.status(), reply.text().as_str()), (200, "hello world"), "cut at {at}");
    }
    request.iter().for_each(|byte| wire.send([*byte]));
    assert_eq!(wire.read_reply().text(), "hello world");
    assert!(origin.requests().iter().all(|request| request.target() == "/cut"));
}

#[test]
fn a_reply_may_be_cut_at_any_byte() {
    let reply = b"HTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: u\r\n\r\n";
    let origin = Origin::start(move |peer| {
        let mut at = 1;
        while peer.request().is_some() {
            peer.send(&reply[..at]);
            peer.send(&reply[at..]);
            at += 1;
        }
    });
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    for at in 1..reply.len() {
        let got = wire.get("/");
        assert_eq!((got.text().as_str(), got.trailers.len()), ("hello", 1), "cut at {at}");
    }
    assert_eq!(origin.accepted(), 1);
}

#[test]
fn leave_to_send_a_body_is_given_when_it_is_wanted() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    for _ in 0..2 {
        wire.send(
            "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
        );
        assert_eq!(wire.read_head().start, "HTTP/1.1 100 Continue");
        wire.send("hello");
        assert_eq!(wire.read_reply().text(), "hello");
    }
    // A client that does not wait gets no 100 it would have to read past.
    wire.send(
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
    );
    assert_eq!(wire.read_reply().text(), "hello");
    // HTTP/1.0 knows no interim replies.
    wire.send("POST / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert!(wire.is_silent_for(Duration::from_millis(50)));
    wire.send("hello");
    assert_eq!(wire.read_reply().text(), "hello");
    // The origin is asked for leave where the client waits for it and may be told, and only there.
    let asked = [true, true, false, false].map(|asked| asked.then_some("100-continue"));
    assert_eq!(origin.requests().iter().map(|r| r.get("expect")).collect::<Vec<_>>(), asked);
}

#[test]
fn leave_to_send_a_body_is_not_given_to_what_is_refused() {
    let origin = Origin::echo();
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes:
  small: {{ match: {{ path: "/small" }}, upstream: origin, limits: {{ body_bytes_max: 4B }} }}
  fixed: {{ match: {{ path: "/fixed" }}, respond: {{ status: 403, body: "no" }} }}
"#,
        origin.url()
    ));
    for (path, status) in [("/small", 413), ("/none", 404), ("/fixed", 403)] {
        let mut wire = gateway.wire();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
        );
        let reply = wire.ask(head);
        assert_eq!(reply.status(), status);
        // The body may come or not: only an end keeps it from being read as a request.
        assert!(reply.lists("connection", "close"), "{reply:?}");
        assert!(wire.is_closed());
    }
    assert!(origin.requests().is_empty());
}

#[test]
fn an_unknown_expectation_is_417() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    let reply = gateway.wire().ask("GET / HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\n\r\n");
    assert_eq!(reply.status(), 417);
    assert!(origin.requests().is_empty());
}

#[test]
fn an_interim_reply_of_the_origin_is_not_taken_for_the_reply() {
    let origin = Origin::start(|peer| {
        while peer.request().is_some() {
            peer.send(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
            );
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    for _ in 0..2 {
        wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut head = wire.next_head().unwrap();
        // Early hints may be passed on; 100 answers an expectation this client did not have.
        while head.status() == 103 {
            head = wire.next_head().unwrap();
        }
        assert_eq!((head.status(), wire.read_exact(2).unwrap()), (200, b"ok".to_vec()));
    }
}

#[test]
fn large_bodies_pass_unchanged() {
    let body = pattern(10_000_000);
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let cases = [(head.as_str(), body.clone()), (chunked, chunks(&body, 70_001, ""))];
    let mut wire = gateway.wire();
    for (head, sent) in cases {
        wire.send(head);
        wire.send(&sent);
        let reply = wire.read_reply();
        assert!(reply.whole && reply.body == body, "{} bytes came back", reply.body.len());
    }
    assert!(origin.requests().iter().all(|request| request.body == body));
}

/// The rest of an unread body is not treated as the next request.
#[test]
fn a_body_nobody_reads_is_passed_over() {
    let gateway = Gateway::start(
        r#"
listen: { public: { address: "127.0.0.1:0" } }
routes: { fixed: { match: { path: "/fixed" }, respond: { body: "fixed" } } }
"#,
    );
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    let sized = format!("Content-Length: {}\r\n\r\n", smuggled.len());
    let chunked = "Transfer-Encoding: chunked\r\n\r\n".to_owned();
    let cases = [
        (sized, smuggled.to_owned()),
        (chunked, format!("{:x}\r\n{smuggled}\r\n0\r\n\r\n", smuggled.len())),
    ];
    for (head, body) in cases {
        let mut wire = gateway.wire();
        for _ in 0..2 {
            // The reply is there before the body.
            wire.send(format!("POST /fixed HTTP/1.1\r\nHost: a\r\n{head}"));
            assert_eq!(wire.read_reply().text(), "fixed");
            wire.send(&body);
            assert_eq!(wire.get("/fixed").text(), "fixed");
        }
    }
    // Too much to discard: the connection ends, and the reply still arrives.
    let mut wire = gateway.wire();
    wire.send("POST /fixed HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
    (0..20).all(|_| wire.try_send([b'x'; 100_000]));
    let reply = wire.read_reply();
    assert!(reply.text() == "fixed" && reply.lists("connection", "close"), "{reply:?}");
    assert!(wire.is_closed());
}

#[test]
fn an_origin_may_speak_http_1_0() {
    for (reply, accepted) in [
        ("HTTP/1.0 200 OK\r\n\r\nhello", 2),
        ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", 2),
        ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello", 1),
    ] {
        let origin = Origin::start(move |peer| {
            while peer.request().is_some() {
                peer.send(reply);
                if !reply.contains("keep-alive") {
                    return;
                }
            }
        });
        let gateway = Gateway::before(&origin);
        let mut wire = gateway.wire();
        for _ in 0..2 {
            let got = wire.get("/");
            assert_eq!((got.start.as_str(), got.text().as_str()), ("HTTP/1.1 200 OK", "hello"));
        }
        assert_eq!(origin.accepted(), accepted, "{reply}");
    }
}

#[test]
fn a_large_head_of_the_origin_passes() {
    let value = "v".repeat(60_000);
    let many = (0..200).fold(String::new(), |lines, n| lines + &format!("X-{n}: y\r\n"));
    let origin = Origin::answering(format!(
        "HTTP/1.1 200 OK\r\nX-Large: {value}\r\n{many}Content-Length: 2\r\n\r\nok"
    ));
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    for _ in 0..2 {
        let reply = wire.get("/");
        assert_eq!((reply.get("x-large"), reply.get("x-199")), (Some(value.as_str()), Some("y")));
        assert_eq!(reply.text(), "ok");
    }
}

/// Lines that frame or route do so in heads only (RFC 9110, 6.5.1).
#[test]
fn trailers_cannot_frame_or_route() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    for line in [
        "Content-Length: 5",
        "Transfer-Encoding: chunked",
        "Host: b.test",
        "Connection: close",
        "Via: x",
    ] {
        let reply = gateway.wire().ask(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n{line}\r\nX-T: u\r\n\r\n"
        ));
        // Refused or left out.
        if reply.status() == 200 {
            let request = origin.requests().pop().unwrap();
            assert!(request.trailers.iter().all(|(name, _)| name == "X-T"), "{line}: {request:?}");
        } else {
            assert_eq!(reply.status(), 400, "{line}");
        }
    }
}

#[test]
fn many_clients_are_served_at_once_by_several_workers() {
    let origin = Origin::echo();
    let gateway =
        Gateway::start(Plain::default().yaml(&origin).replace("workers: 1", "workers: 3"));
    let clients: Vec<_> = (0..24)
        .map(|client| {
            let mut wire = gateway.wire();
            std::thread::spawn(move || {
                for turn in 0..30 {
                    let body = format!("{client} {turn} ").repeat(turn * 40 + 1);
                    let head = format!(
                        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n",
                        body.len()
                    );
                    assert_eq!(wire.ask(head + &body).text(), body);
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
}
