//! Streams with peers that mean harm or are broken: each is closed with the right code, counted, and held no longer than its deadline.
//!
//! The parsers have their own tests for each kind of frame. These tests are about the gateway's reactions.

use std::sync::mpsc;

use crate::harness::frames::{END, block, data, frame as h2_frame, head, kind, reset};
use crate::harness::{Gateway, H2, Origin, PATIENCE, Peer, Plain, full, until, whole};
use crate::telemetry::metric;
use crate::websocket::{Client, SWITCH, frame, log_line, read, service, start};

const FIN: u8 = 0x80;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;

/// A code of HTTP/2.
const FLOW_CONTROL_ERROR: u32 = 3;

/// The growth of memory that is ignored: system pages are large, and allocators keep some memory.
const GROWTH_MAX: usize = 48 << 20;

#[track_caller]
fn counted(gateway: &Gateway, reason: &str) {
    let name = format!("tidegate_stream_ends_total{{route=\"all\",reason=\"{reason}\"}}");
    until("it is counted", || metric(gateway, &name) == Some(1.0));
    let open = "tidegate_streams_open{route=\"all\",kind=\"websocket\"}";
    until("it is open no more", || metric(gateway, open) == Some(0.0));
}

/// A header with this second byte and length, as a client writes it, and no payload.
fn header(first: u8, second: u8, length: &[u8]) -> Vec<u8> {
    [&[first, 0x80 | second][..], length, &[0; 4]].concat()
}

#[test]
fn malformed_frames_of_every_kind_close_with_their_code() {
    let long = [b'x'; 126];
    let of = |first: u8, payload: &[u8]| frame(first, payload, true);
    let cases: Vec<(&str, Vec<u8>, u16)> = vec![
        ("2^63 bytes", header(FIN | BINARY, 127, &(1_u64 << 63).to_be_bytes()), 1002),
        ("2^64 - 1 bytes", header(FIN | TEXT, 127, &u64::MAX.to_be_bytes()), 1002),
        ("125 bytes in two", header(FIN | BINARY, 126, &125_u16.to_be_bytes()), 1002),
        ("65,535 bytes in eight", header(FIN | BINARY, 127, &65_535_u64.to_be_bytes()), 1002),
        ("a PING in fragments", of(PING, b""), 1002),
        ("a PING of 126 bytes", of(FIN | PING, &long), 1002),
        ("a Close of 126 bytes", of(FIN | CLOSE, &[&[3, 0xe8], &long[2..]].concat()), 1002),
        ("a Close of one byte", of(FIN | CLOSE, &[3]), 1002),
        ("a code that is none", of(FIN | CLOSE, &999_u16.to_be_bytes()), 1002),
        ("a code that is never sent", of(FIN | CLOSE, &1006_u16.to_be_bytes()), 1002),
        ("a reason that is not text", of(FIN | CLOSE, b"\x03\xe8\xff"), 1007),
        ("a message within one", [of(TEXT, b"a"), of(FIN | TEXT, b"b")].concat(), 1002),
        ("a reserved opcode", of(FIN | 0xb, b""), 1002),
        ("a reserved bit", of(FIN | 0x40 | TEXT, b""), 1002),
        ("no mask", frame(FIN | BINARY, b"x", false), 1002),
    ];
    for (what, bytes, code) in cases {
        let origin = service(vec![]);
        let gateway = start(&origin, "");
        let mut client = Client::open(&gateway, "/ws", "");
        client.0.send(&bytes);
        // An earlier message may have been echoed.
        let told = loop {
            let (first, payload) = read(&mut client.0, false).expect(what);
            if first == FIN | CLOSE {
                break payload;
            }
        };
        assert_eq!(told[..2], code.to_be_bytes(), "{what}: {}", told[2..].escape_ascii());
        client.send(FIN | CLOSE, &told);
        assert!(client.0.is_closed(), "{what}");
        assert_eq!(log_line(&gateway)["stream_end"], "malformed", "{what}");
        counted(&gateway, "malformed");
        until("the upstream is left", || origin.open() == 0);
    }
}

/// A length is trusted only up to the limit: no memory is reserved for announced data.
#[test]
fn a_length_that_is_allowed_by_the_standard_alone_is_too_large() {
    let origin = service(vec![]);
    let gateway = start(&origin, "message_bytes_max: 1MiB");
    let before = gateway.resident_bytes();
    let mut client = Client::open(&gateway, "/ws", "");
    client.0.send(header(FIN | BINARY, 127, &(i64::MAX as u64).to_be_bytes()));
    client.expect_close(1009);
    assert!(gateway.resident_bytes() <= before + GROWTH_MAX);
    counted(&gateway, "too_large");
}

#[test]
fn fragments_without_end_are_bounded_by_their_sum_and_hold_nothing() {
    let origin = service(vec![]);
    let gateway = start(&origin, "message_bytes_max: 100B");
    let mut client = Client::open(&gateway, "/ws", "");
    client.send(BINARY, b"");
    for _ in 0..101 {
        // It may be closed already.
        client.0.try_send(frame(0, b"x", true));
    }
    let code = loop {
        let (first, payload) = read(&mut client.0, false).expect("a Close frame");
        if first == FIN | CLOSE {
            break payload[..2].to_vec();
        }
    };
    assert_eq!(code, 1009_u16.to_be_bytes());
    counted(&gateway, "too_large");

    // Empty ones pass: they are for the service to judge.
    let (told, tells) = mpsc::channel();
    let origin = Origin::start(move |peer: &mut Peer| {
        peer.request();
        peer.send(SWITCH);
        let mut came = 0;
        while let Some((first, _)) = read(peer, true) {
            came += 1;
            if first & FIN != 0 {
                told.send(came).unwrap();
                peer.read_to_end();
                return;
            }
        }
    });
    let gateway = start(&origin, "message_bytes_max: 100B");
    let mut client = Client::open(&gateway, "/ws", "");
    let before = gateway.resident_bytes();
    client.send(BINARY, b"");
    for _ in 0..100 {
        client.0.send(frame(0, b"", true).repeat(1000));
    }
    client.send(FIN, b"");
    assert_eq!(tells.recv_timeout(PATIENCE).unwrap(), 100_002);
    assert!(gateway.resident_bytes() <= before + GROWTH_MAX);
}

/// A client that sends requests without reading answers is not read any more, and does not answer the gateway's pings
/// either.
#[test]
fn a_flood_of_pings_waits_for_its_answers_and_ends() {
    let origin = service(vec![]);
    let gateway = start(&origin, "ping: 1s");
    let before = gateway.resident_bytes();
    let mut client = Client::open(&gateway, "/ws", "");
    let pings = frame(FIN | PING, &[b'p'; 125], true).repeat(500);
    // The pings alone show that it is there, as long as they pass.
    client.0.send_until_stuck(&pings, 200 << 20);
    assert!(gateway.resident_bytes() <= before + GROWTH_MAX);
    assert_eq!(log_line(&gateway)["stream_end"], "unanswered");
    counted(&gateway, "unanswered");
    until("the upstream is left", || origin.open() == 0);
}

/// A service that sends without end, as far as the client reads.
fn flood(first: impl AsRef<[u8]>, piece: impl AsRef<[u8]>) -> Origin {
    let (first, piece) = (first.as_ref().to_vec(), piece.as_ref().to_vec());
    Origin::start(move |peer: &mut Peer| {
        if peer.request().is_some() && peer.try_send(&first) {
            while peer.try_send(&piece) {}
        }
    })
}

#[test]
fn a_client_that_never_reads_its_messages_is_found_out() {
    let origin = flood(SWITCH, frame(FIN | BINARY, &[7; 50_000], false));
    let gateway = start(&origin, "ping: 500ms");
    let before = gateway.resident_bytes();
    let client = Client::open(&gateway, "/ws", "");
    until("the upstream is left", || origin.open() == 0);
    assert!(gateway.resident_bytes() <= before + GROWTH_MAX);
    assert_eq!(log_line(&gateway)["stream_end"], "unanswered");
    counted(&gateway, "unanswered");
    drop(client);
}

#[test]
fn a_client_that_never_reads_its_events_is_left() {
    let event = format!("data: {}\n\n", "x".repeat(50_000));
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    let origin = flood(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        chunk,
    );
    let (listener, route) = ("timeout: { body: 300ms }", "policies: [sse: {}]");
    let more = "admin: { address: \"127.0.0.1:0\" }";
    let gateway = Plain { listener, route, more, ..Plain::default() }.start(&origin);
    let open = || metric(&gateway, "tidegate_streams_open{route=\"all\",kind=\"sse\"}");
    let before = gateway.resident_bytes();
    let mut plain = gateway.wire();
    plain.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let h2 = H2::connect(gateway.address("public"));
    let request = hyper::Request::get("http://a.test/").body(full("")).unwrap();
    let unread = h2.block_on(h2.sender.clone().send_request(request)).unwrap();
    origin.wait_for_requests(2);
    until("both are left", || origin.open() == 0);
    let after = gateway.resident_bytes();
    assert!(after <= before + GROWTH_MAX, "{before} and then {after}");
    until("none is open", || open() == Some(0.0));
    assert!(h2.block_on(whole(unread)).is_err(), "it looks whole");
}

/// The part of an event before the end passes unchanged. If the upstream fails, the stream does not look complete.
#[test]
fn upstreams_that_end_within_an_event() {
    for (end, is_whole) in [("0\r\n\r\n", true), ("", false)] {
        let origin = Origin::start(move |peer: &mut Peer| {
            if peer.request().is_some() {
                peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
                peer.send(format!("9\r\ndata: 1\n\n\r\n8\r\ndata: ha\r\n{end}"));
            }
        });
        for route in ["", "policies: [sse: { events: 10, per: 1m }]"] {
            let more = "admin: { address: \"127.0.0.1:0\" }";
            let gateway = Plain { route, more, ..Plain::default() }.start(&origin);
            let reply = gateway.wire().get("/");
            assert_eq!((reply.status(), reply.whole), (200, is_whole), "{route} {end:?}");
            assert!(reply.text().starts_with("data: 1\n\n"), "{reply:?}");
            let h2 = H2::connect(gateway.address("public"));
            let request = hyper::Request::get("http://a.test/").body(full("")).unwrap();
            let reply = h2.block_on(async {
                whole(h2.sender.clone().send_request(request).await.unwrap()).await
            });
            assert_eq!(reply.is_ok(), is_whole, "{route} {end:?}");
            // A reply that came whole at once was not a stream, and nothing was counted.
            let open = "tidegate_streams_open{route=\"all\",kind=\"sse\"}";
            until("none is open", || metric(&gateway, open).is_none_or(|open| open == 0.0));
        }
    }
}

/// A message that was begun, and then: the end of the stream, its reset, or the end of the connection.
#[test]
fn services_that_end_within_a_message_of_grpc() {
    let begun = b"\0\0\0\0\x0abegun".to_vec();
    for (how, status) in [("end", ""), ("reset", "14"), ("gone", "14"), ("late", "4")] {
        let sent = begun.clone();
        let origin = Origin::start(move |peer| {
            peer.greet(&[]);
            let (stream, _) = peer.whole_stream().unwrap();
            let lines = [(":status", "200"), ("content-type", "application/grpc")];
            peer.send(head(stream, 0, &lines));
            match how {
                "end" => peer.send(data(stream, END, &sent)),
                "reset" => peer.send([data(stream, 0, &sent), reset(stream, 2)].concat()),
                "gone" => return peer.send(data(stream, 0, &sent)),
                _ => peer.send(data(stream, 0, &sent)),
            }
            while peer.frame().is_some() {}
        });
        let more = "admin: { address: \"127.0.0.1:0\" }";
        let gateway =
            Plain { upstream: "protocol: http2", more, ..Plain::default() }.start(&origin);
        let client = H2::connect(gateway.address("public"));
        let request = hyper::Request::post("http://a.test/a.B/C")
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .header("grpc-timeout", if how == "late" { "500m" } else { "1H" });
        let reply = client.ask(request.body(full("")).unwrap());
        assert_eq!(reply.status, 200, "{how}");
        assert!(begun.starts_with(&reply.body), "{how}: {:?}", reply.body);
        // One that is late, on a busy machine, may be that before its head.
        let told = reply.trailers.get("grpc-status").or(reply.headers.get("grpc-status"));
        let told = told.map(|value| value.to_str().unwrap());
        assert_eq!(told.unwrap_or_default(), status, "{how}");
        let known = if status.is_empty() { "2" } else { status };
        let calls = format!("tidegate_grpc_calls_total{{route=\"all\",grpc_status=\"{known}\"}}");
        until("it is counted", || metric(&gateway, &calls) == Some(1.0));
        let open = "tidegate_streams_open{route=\"all\",kind=\"grpc\"}";
        until("it is open no more", || metric(&gateway, open) == Some(0.0));
    }
}

/// Servers of HTTP/2 that stop: before their settings, within a head, and by a window that never opens.
#[test]
fn servers_that_stall_are_left_in_time() {
    for how in ["settings", "head", "window"] {
        let origin = Origin::start(move |peer| {
            if how == "settings" {
                peer.read_to_end();
                return;
            }
            peer.greet(if how == "window" { &[(4, 0)] } else { &[] });
            while let Some((stream, _)) = peer.whole_stream() {
                match how {
                    "head" => {
                        let block = block(&[(":status", "200")]);
                        peer.try_send(h2_frame(kind::HEADERS, 0, stream, &block));
                    }
                    _ => {
                        peer.try_send(head(stream, END, &[(":status", "204")]));
                    }
                }
            }
        });
        let upstream = "protocol: http2, timeout: { response: 500ms }, retry: { attempts: 0 }";
        let more = "admin: { address: \"127.0.0.1:0\" }";
        let gateway = Plain { upstream, more, ..Plain::default() }.start(&origin);
        if how == "window" {
            until("its window is known", || gateway.wire().get("/").status() == 204);
        }
        let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(gateway.wire().ask(post).status(), 504, "{how}");
        let active = "tidegate_upstream_requests_active{upstream=\"origin\"}";
        until("nothing waits for it", || metric(&gateway, active) == Some(0.0));
        // One that still answers PING keeps its connection; the others are closed.
        if how == "settings" {
            until("it is closed", || origin.open() == 0);
        }
    }
}

/// A server that sends more than the window allows. The client does not read, so the window is not enlarged.
#[test]
fn servers_that_ignore_windows_are_told_so() {
    let (told, tells) = mpsc::channel();
    let origin = Origin::start(move |peer| {
        peer.greet(&[]);
        let (stream, _) = peer.whole_stream().unwrap();
        peer.send(head(stream, 0, &[(":status", "200")]));
        // More than any socket between holds.
        for _ in 0..20_000 {
            if !peer.try_send(data(stream, 0, [b'x'; 16_384])) {
                break;
            }
        }
        while let Some(next) = peer.any_frame() {
            match next.kind {
                kind::GOAWAY => return told.send(next.code()).unwrap(),
                kind::RST_STREAM => return told.send(next.number()).unwrap(),
                _ => {}
            }
        }
        told.send(u32::MAX).unwrap();
    });
    let upstream = "protocol: http2, timeout: { response: 1h }";
    let listener = "timeout: { body: 1h }";
    let gateway = Plain { upstream, listener, ..Plain::default() }.start(&origin);
    let before = gateway.resident_bytes();
    let mut client = gateway.wire();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let told = tells.recv_timeout(PATIENCE).unwrap();
    // The last frames may be lost in a reset, if not all its data was read.
    assert!(told == FLOW_CONTROL_ERROR || told == u32::MAX, "{told}");
    assert!(gateway.resident_bytes() <= before + GROWTH_MAX);
    until("it is left", || origin.open() == 0);
    assert!(!client.read_reply().whole);
}
