//! All requests obey the same rules, whatever protocol they use, and the request for the upstream is written from the checked
//! parts. Each case is sent as bytes, over HTTP/1 and over HTTP/2.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use crate::harness::{Gateway, Message, Origin, PATIENCE, Plain, Wire};
use crate::http2_hostile::{ALL, DATA, HEAD, HEADERS, SETTINGS, frame, greet, next};

const RST_STREAM: u8 = 3;
const WINDOW_UPDATE: u8 = 8;
/// End of the stream.
const END: u8 = 1;

/// Lines as a block of RFC 7541: literals that are not indexed, without Huffman.
fn block(lines: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    lines.iter().flat_map(|(name, value)| [vec![0], text(name), text(value)].concat()).collect()
}

const POST: [(&str, &str); 3] = [(":method", "POST"), (":scheme", "http"), (":path", "/a")];
const TO: (&str, &str) = (":authority", "a.test");

/// The status of the reply on a stream, from a block that begins with it; nothing where the stream was reset.
fn status(wire: &mut Wire) -> Option<u16> {
    loop {
        let head = wire.read_exact(9)?;
        let len = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let payload = wire.read_exact(len)?;
        match head[3] {
            RST_STREAM => return None,
            HEADERS => return Some(status_of(&payload)),
            _ => {}
        }
    }
}

/// The first header in a reply's block, after size updates of the table.
fn status_of(block: &[u8]) -> u16 {
    let at = block.iter().position(|byte| byte & 0xe0 != 0x20).unwrap();
    match block[at] {
        0x88 => 200,
        0x89 => 204,
        0x8c => 400,
        0x8d => 404,
        // A literal with the name of the table.
        _ => std::str::from_utf8(&block[at + 2..at + 5]).unwrap().parse().unwrap(),
    }
}

/// The status of a request over HTTP/2 with these headers after the pseudo-headers, and a body of five bytes.
fn asked_over_2(gateway: &Gateway, authority: bool, lines: &[(&str, &str)]) -> Option<u16> {
    let mut wire = greet(gateway);
    let all = [&POST[..], if authority { &[TO] } else { &[] }, lines].concat();
    let body = frame(DATA, END, 1, b"hello");
    wire.send([frame(HEADERS, HEAD, 1, &block(&all)), body].concat());
    status(&mut wire)
}

fn asked_over_1(gateway: &Gateway, host: &str, lines: &[(&str, &str)]) -> u16 {
    let lines: String = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut wire = gateway.wire();
    wire.ask(format!("POST /a HTTP/1.1\r\n{host}{lines}Content-Length: 5\r\n\r\nhello")).status()
}

#[track_caller]
fn framed_once(request: &Message) {
    let (lengths, codings) = (request.all("content-length"), request.all("transfer-encoding"));
    assert_eq!(lengths.len() + codings.len(), 1, "{request:?}");
}

/// Issue 18.1: a length and chunks left together, and a backend that prefers the length read a second request of the client's.
#[test]
fn a_body_with_a_length_and_trailers_leaves_framed_once() {
    let smuggled = "GET /admin HTTP/1.1\r\nHost: a\r\n\r\n";
    let length = smuggled.len().to_string();
    let lines = [&POST[..], &[TO, ("content-length", &length)]].concat();
    let head = frame(HEADERS, HEAD, 1, &block(&lines));
    let data = frame(DATA, 0, 1, smuggled.as_bytes());
    let trailers = frame(HEADERS, ALL, 1, &block(&[("x-sum", "1")]));
    // All at once, the trailers later, and each apart: the parts that are known when the request is sent on differ.
    let ways = [
        vec![[head.clone(), data.clone(), trailers.clone()].concat()],
        vec![[head.clone(), data.clone()].concat(), trailers.clone()],
        vec![head, data, trailers],
    ];
    for route in ["", "policies: [{ headers: { request: { set: { x-a: b } } } }]"] {
        for way in &ways {
            let origin = Origin::echo();
            let gateway = Plain { route, ..Plain::default() }.start(&origin);
            let mut wire = greet(&gateway);
            let (last, before) = way.split_last().unwrap();
            for piece in before {
                wire.send(piece);
                // In pieces: the gateway answers a ping once it has read a piece.
                wire.send(frame(6, 0, 0, b"arrived?"));
                assert!(next(&mut wire, 6).is_some());
            }
            wire.send(last);
            assert_eq!(status(&mut wire), Some(200));
            let request = origin.request();
            framed_once(&request);
            assert_eq!(request.text(), smuggled);
            assert_eq!(origin.requests().len(), 1);
        }
    }
}

/// Issue 18.3 and 18.5, and other refusals of HTTP/1: lines that two readers may read differently.
#[test]
fn lines_that_http_1_refuses_are_refused_over_http_2() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    let cases: [&[(&str, &str)]; 8] = [
        &[("content-type", "text/plain"), ("content-type", "application/json")],
        &[("content_length", "0")],
        &[("transfer_encoding", "chunked")],
        &[("host", "a.test"), ("host", "b.test")],
        &[("host", "a.test"), ("host", "a.test")],
        &[("host", "a b")],
        &[("expect", "200-maybe")],
        &[("host", "")],
    ];
    for case in cases {
        let named = case.iter().any(|(name, _)| *name == "host");
        let host = if named { "" } else { "Host: a.test\r\n" };
        let expected = if case[0].0 == "expect" { 417 } else { 400 };
        assert_eq!(asked_over_1(&gateway, host, case), expected, "{case:?} over HTTP/1");
        assert_eq!(asked_over_2(&gateway, !named, case), Some(expected), "{case:?} over HTTP/2");
    }
    assert!(origin.requests().is_empty());
    // Without any host, as in HTTP/1, and with one that differs from the authority.
    assert_eq!(asked_over_2(&gateway, false, &[]), Some(400));
    for other in ["b.test", "a.test:8080", "a.test:443"] {
        assert_eq!(asked_over_2(&gateway, true, &[("host", other)]), Some(400), "{other}");
    }
    assert!(origin.requests().is_empty());
    for same in ["a.test", "A.test", "a.test:80"] {
        assert_eq!(asked_over_2(&gateway, true, &[("host", same)]), Some(200), "{same}");
        assert_eq!(origin.requests().last().unwrap().all("host"), [same]);
    }
    assert_eq!(asked_over_1(&gateway, "Host: a\r\nContent-Length: 05\r\n", &[]), 400);
    assert_eq!(asked_over_2(&gateway, true, &[("content-length", "05")]), Some(400));
}

/// Issue 18.4: trailers that route, authenticate or frame do not pass, and there is a bound on them.
#[test]
fn trailers_over_http_2_are_held_to_the_rules_of_http_1() {
    let origin = Origin::start(|peer| {
        let request = peer.request_head().unwrap();
        assert!(request.is_chunked());
        let body = peer.read_until(b"\r\n\r\n").unwrap();
        peer.note(&Message { body, ..request });
        peer.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    });
    let gateway = Gateway::before(&origin);
    let ask = |trailers: &[(&str, &str)]| {
        let mut wire = greet(&gateway);
        let head = frame(HEADERS, HEAD, 1, &block(&[&POST[..], &[TO]].concat()));
        let data = frame(DATA, 0, 1, b"hello");
        wire.send([head, data, frame(HEADERS, ALL, 1, &block(trailers))].concat());
        status(&mut wire)
    };
    let refused = [
        ("host", "b.test"),
        ("authorization", "Basic YTpi"),
        ("cookie", "a=b"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x_forwarded_for", "127.0.0.1"),
        ("x-real-ip", "127.0.0.1"),
        ("content_length", "7"),
        ("content-type", "text/html"),
    ];
    let passed = [("x-sum", "1"), ("grpc-status", "0")];
    assert_eq!(ask(&[&refused[..], &passed[..]].concat()), Some(200));
    let body = origin.requests().last().unwrap().text();
    assert!(body.ends_with("\r\n0\r\nx-sum: 1\r\ngrpc-status: 0\r\n\r\n"), "{body:?}");
    for (name, _) in refused {
        assert!(!body.contains(&format!("{name}:")), "{name} in {body:?}");
    }
    // The largest number, and one more.
    let names: Vec<String> = (0..33).map(|n| format!("x-{n}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "v")).collect();
    assert_eq!(ask(&many[..32]), Some(200));
    assert_eq!(ask(&many), None);
    let long = "v".repeat(100);
    let large: Vec<(&str, &str)> = (0..90).map(|_| ("x-sum", &*long)).collect();
    assert_eq!(ask(&large), None);
}

/// A header that a policy sets or removes in a head does not reappear as a trailer, which some servers treat as a
/// header.
#[test]
fn trailers_do_not_say_again_what_policies_have_decided() {
    let origin = Origin::start(|peer| {
        while let Some(request) = peer.request_head() {
            let body = peer.read_until(b"\r\n\r\n").unwrap();
            peer.note(&Message { body, ..request });
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Secret: 1\r\n\r\n";
            let trailers = "x-secret: 2\r\nX_Frame_Options: none\r\naccess-control-allow-origin: *\r\nx-sum: 1\r\n";
            peer.send(format!("{head}2\r\nok\r\n0\r\n{trailers}\r\n"));
        }
    });
    let route = concat!(
        "policies: [{ headers: { request: { set: { x-user: gateway }, remove: [x-admin] }, ",
        "response: { set: { x-frame-options: DENY }, remove: [x-secret] } } }]"
    );
    let gateway = Plain { route, ..Plain::default() }.start(&origin);
    let lies = [("x-user", "root"), ("x_user", "root"), ("x-admin", "1"), ("x-request-id", "a")];
    let trailers = [&lies[..], &[("x-http-method-override", "PUT"), ("x-sum", "1")]].concat();

    let lines: String = trailers.iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
    let mut wire = gateway.wire();
    wire.send("POST /a HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
    wire.send(format!("5\r\nhello\r\n0\r\n{lines}\r\n"));
    let head = wire.read_head();
    assert_eq!((head.status(), head.get("x-secret")), (200, None));
    assert_eq!(wire.read_until(b"\r\n\r\n").unwrap(), b"2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n");

    let mut wire = greet(&gateway);
    let head = frame(HEADERS, HEAD, 1, &block(&[&POST[..], &[TO]].concat()));
    let data = frame(DATA, 0, 1, b"hello");
    wire.send([head, data, frame(HEADERS, ALL, 1, &block(&trailers))].concat());
    assert_eq!(status(&mut wire), Some(200));
    let requests = origin.requests();
    let bodies: Vec<String> =
        requests.iter().map(Message::text).filter(|b| !b.is_empty()).collect();
    assert_eq!(bodies, ["5\r\nhello\r\n0\r\nx-sum: 1\r\n\r\n"; 2]);
}

/// Issue 18.8: a header that a gateway drops or sets reappears with underscores in its name, which CGI cannot distinguish.
#[test]
fn names_with_underscores_are_dropped_with_their_twins() {
    let origin = Origin::saying("ok");
    let route =
        "policies: [{ headers: { request: { set: { x-user: gateway }, remove: [x-debug] } } }]";
    let gateway = Plain { route, ..Plain::default() }.start(&origin);
    let lies = [
        ("x_user", "root"),
        ("X_DEBUG", "1"),
        ("x_forwarded_for", "127.0.0.1"),
        ("x-forwarded_for", "127.0.0.1"),
        ("X_Forwarded_Proto", "https"),
        ("x_real_ip", "127.0.0.1"),
        ("x_request_id", "mine"),
        ("keep_alive", "1"),
    ];
    let lines: Vec<(String, &str)> =
        lies.iter().map(|(name, value)| (name.to_ascii_lowercase(), *value)).collect();
    let lines: Vec<(&str, &str)> = lines.iter().map(|(name, value)| (&**name, *value)).collect();
    assert_eq!(asked_over_1(&gateway, "Host: a.test\r\n", &lies), 200);
    assert_eq!(asked_over_2(&gateway, true, &lines), Some(200));
    assert_eq!(origin.requests().len(), 2);
    for request in origin.requests() {
        for (name, lie) in lies {
            assert_eq!(request.get(name), None, "{name}: {lie}");
        }
        assert_eq!(request.all("x-user"), ["gateway"]);
        assert_eq!(request.all("x-forwarded-for"), ["127.0.0.1"]);
        assert_eq!(request.all("x-forwarded-proto"), ["http"]);
    }
}

/// Issue 18.8: lines that frameworks believe about the client are a trusted proxy's to send.
#[test]
fn what_only_a_proxy_may_say_is_dropped_from_others() {
    let names = [
        "X-Client-IP",
        "X-Real-IP",
        "X-Forwarded-Prefix",
        "X-Original-URL",
        "X-Rewrite-URL",
        "X-Forwarded-Client-Cert",
        "True-Client-IP",
        "CF-Connecting-IP",
        "CF_Connecting_IP",
        "CF-Connecting-IPv6",
        "Fastly-Client-IP",
        "Fly-Client-IP",
        "Client-IP",
        "X-Azure-ClientIP",
        "CloudFront-Viewer-Address",
    ];
    let lines: Vec<(&str, &str)> = names.iter().map(|name| (*name, "/admin")).collect();
    let origin = Origin::saying("ok");
    let stranger = Gateway::before(&origin);
    let trusted = r#"trusted_proxies: ["127.0.0.0/8"]"#;
    let proxied = Plain { listener: trusted, ..Plain::default() }.start(&origin);
    assert_eq!(asked_over_1(&stranger, "Host: a.test\r\n", &lines), 200);
    assert_eq!(asked_over_1(&proxied, "Host: a.test\r\n", &lines), 200);
    let requests = origin.requests();
    for name in names {
        assert_eq!(requests[0].get(name), None, "{name}");
        assert_eq!(requests[1].get(name), Some("/admin"), "{name}");
    }
}

/// Headers that only proxies may send are removed before policies run, and policies may set them.
#[test]
fn policies_may_say_what_only_a_proxy_may() {
    let origin = Origin::saying("ok");
    let route = concat!(
        "policies: [{ authorize: { rule: \"!('x-real-ip' in request.headers)\" } }, ",
        "{ headers: { request: { rename: { x-client-ip: x-seen }, set: { x-real-ip: \"{client}\", ",
        "x-forwarded-for: 192.0.2.7, x-forwarded-proto: https, x-forwarded-prefix: /p } } } }]"
    );
    let gateway = Plain { route, ..Plain::default() }.start(&origin);
    let lies = [
        ("X-Real-IP", "192.0.2.1"),
        ("x-client-ip", "192.0.2.1"),
        ("X-Forwarded-For", "192.0.2.1"),
        ("x_forwarded_proto", "ftp"),
        ("X-Forwarded-Prefix", "/lie"),
    ];
    assert_eq!(asked_over_1(&gateway, "Host: a.test\r\n", &lies), 200);
    let request = origin.request();
    for (name, values) in [
        ("x-seen", &[][..]),
        ("x-real-ip", &["127.0.0.1"]),
        ("x-forwarded-for", &["192.0.2.7, 127.0.0.1"]),
        ("x-forwarded-proto", &["https"]),
        ("x_forwarded_proto", &[]),
        ("x-forwarded-host", &["a.test"]),
        ("x-forwarded-prefix", &["/p"]),
    ] {
        assert_eq!(request.all(name), values, "{name}");
    }
}

/// Issue 18.11: a request that arrives byte by byte is parsed like one that arrives at once. `http1::Partial` shows that the
/// cost is proportional to its length.
#[test]
fn a_head_in_single_bytes_is_a_head() {
    let origin = Origin::saying("ok");
    let gateway = Gateway::before(&origin);
    let lines: String = (0..100).map(|n| format!("x-{n}: {}\r\n", "v".repeat(40))).collect();
    let mut wire = gateway.wire();
    for _ in 0..2 {
        for byte in format!("GET / HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n").bytes() {
            wire.send([byte]);
        }
        assert_eq!(wire.read_reply().status(), 200);
    }
    assert_eq!(origin.requests()[1].get("x-99").map(str::len), Some(40));
    // A fault is reported as soon as the head may have ended.
    let mut wire = gateway.wire();
    for byte in format!("GET / HTTP/1.1\r\nHost: a.test\r\n{lines}a b: c\r\n\r\n").bytes() {
        wire.send([byte]);
    }
    assert_eq!(wire.read_reply().status(), 400);
}

/// Issue 18.18: a text that is not a version is a bad request, with an answer; one that may be a version some day is not supported.
#[test]
fn what_is_no_version_is_a_bad_request() {
    let origin = Origin::saying("ok");
    let gateway = Gateway::before(&origin);
    let cases = [
        ("HTTP/01.01", 400),
        ("HTTP/1.01", 400),
        ("HTTP/2", 400),
        ("http/1.1", 400),
        ("Http/1.1", 400),
        ("HTTP/1.2", 505),
        ("HTTP/3.0", 505),
    ];
    for (version, status) in cases {
        let reply = gateway.wire().ask(format!("GET / {version}\r\nHost: a.test\r\n\r\n"));
        assert_eq!(reply.status(), status, "{version}");
    }
}

/// Issue 18.2: the written part of a connection's output was kept until all of it was written, which never happened for a
/// client that reads slowly and keeps enlarging the windows of its streams.
#[test]
fn a_slow_reader_of_http_2_is_not_kept_for() {
    if !small_send_buffers("message_rules::a_slow_reader_of_http_2_is_not_kept_for") {
        return;
    }
    const STREAMS: u32 = 8;
    let body = "x".repeat(1 << 20);
    let origin = Origin::start(move |peer| {
        peer.request();
        peer.try_send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        while peer.try_send(format!("100000\r\n{body}\r\n")) {}
    });
    let gateway = Gateway::before(&origin);
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(16 << 10).unwrap();
    socket.connect(&gateway.address("public").into()).unwrap();
    let mut slow = TcpStream::from(socket);
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    let largest = u32::try_from(i32::MAX).unwrap() - 65_535;
    let windows = [&[0, 4][..], &largest.to_be_bytes()].concat();
    slow.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    slow.write_all(&frame(SETTINGS, 0, 0, &windows)).unwrap();
    slow.write_all(&frame(WINDOW_UPDATE, 0, 0, &largest.to_be_bytes())).unwrap();
    let get = [(":method", "GET"), (":scheme", "http"), (":path", "/a"), TO];
    for stream in 0..STREAMS {
        slow.write_all(&frame(HEADERS, ALL, 2 * stream + 1, &block(&get))).unwrap();
    }
    let more = |stream: u32| frame(WINDOW_UPDATE, 0, 2 * stream + 1, &1u32.to_be_bytes());
    let room: Vec<u8> = (0..STREAMS).flat_map(more).collect();
    let mut read = vec![0; 8 << 10];
    let mut take = |bytes: usize| {
        let mut taken = 0;
        while taken < bytes {
            taken += slow.read(&mut read).unwrap();
            // It is slow: the gateway makes more than this takes.
            std::thread::sleep(Duration::from_micros(300));
            slow.write_all(&room).unwrap();
        }
    };
    take(2 << 20);
    let before = gateway.resident_bytes();
    take(32 << 20);
    let after = gateway.resident_bytes();
    assert!(after < before + (16 << 20), "{before} bytes, then {after}");
}

/// True if this process is in its own network namespace with small send buffers. Otherwise the test is run in one, and has
/// passed when this returns.
fn small_send_buffers(test: &str) -> bool {
    const WITHIN: &str = "TIDEGATE_SMALL_SEND_BUFFERS";
    if std::env::var_os(WITHIN).is_some() {
        return true;
    }
    let script = "ip link set lo up && echo 4096 16384 32768 > /proc/sys/net/ipv4/tcp_wmem && exec \"$0\" --exact \"$1\" --nocapture";
    let run = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "sh", "-c", script])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(WITHIN, "")
        .output()
        .expect("`unshare` of util-linux and `ip` of iproute2: make setup-tests installs them");
    let said = String::from_utf8_lossy(&run.stdout);
    let wrong = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.contains("1 passed"), "{said}{wrong}");
    false
}
