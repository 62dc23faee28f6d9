//! `sse`: complete events are counted, and a stream that must end does so after an event.

use std::fs;
use std::io::{Read, Write};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::harness::{Gate, Gateway, H2, Origin, Peer, Plain, full, until, whole};
use crate::telemetry::metric;
use crate::tokens::{EC, jwks, now};

const HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n";
const GET: &str = "GET /ticks HTTP/1.1\r\nHost: a\r\n\r\n";
const LOG: &str = "admin: { address: \"127.0.0.1:0\" }\ntelemetry: { access_log: { format: json, path: access.log } }";

fn policy(keys: &str) -> String {
    format!("policies: [{{ sse: {{ {keys} }} }}]")
}

fn start(origin: &Origin, keys: &str) -> Gateway {
    Plain { route: &policy(keys), more: LOG, ..Plain::default() }.start(origin)
}

/// Sends these parts of a stream, each as a separate chunk, and then waits for its client to close.
fn sending(lines: &str, parts: Vec<Vec<u8>>) -> Origin {
    let lines = lines.to_owned();
    Origin::start(move |peer: &mut Peer| {
        if peer.request().is_none() {
            return;
        }
        peer.send(format!("{HEAD}{lines}\r\n"));
        for part in &parts {
            let chunk = [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat();
            if !peer.try_send(chunk) {
                return;
            }
        }
        peer.read_to_end();
    })
}

/// The body of the stream, which ended well.
fn stream(gateway: &Gateway) -> String {
    let reply = gateway.wire().ask(GET);
    assert_eq!(reply.status(), 200);
    reply.text()
}

pub(crate) fn access_line(gateway: &Gateway, number: usize) -> Value {
    let path = gateway.path("access.log");
    let read = || fs::read_to_string(&path).unwrap_or_default();
    until("the line is there", || read().lines().count() >= number);
    serde_json::from_str(read().lines().nth(number - 1).unwrap()).unwrap()
}

#[test]
fn a_stream_ends_behind_the_last_event_of_its_quota() {
    let text = "\u{feff}: hello\r\n\r\nid: 1\r\ndata: a\r\n\r\n: ping\n\ndata: b\rdata: c\r\rretry: 9\n\ndata\n\ndata: never\n\n";
    let allowed = text.find("data: never").unwrap();
    for piece in [1, 2, 3, 7, 1000] {
        let origin = sending("", text.as_bytes().chunks(piece).map(<[u8]>::to_vec).collect());
        let gateway = start(&origin, "events: 3, per: 1h");
        assert_eq!(stream(&gateway), text[..allowed], "in pieces of {piece}");
        until("the upstream is left", || origin.open() == 0);
        let line = access_line(&gateway, 1);
        assert_eq!((&line["events"], &line["stream_end"]), (&json!(3), &json!("quota")), "{line}");
        let count = |name: &str| metric(&gateway, name);
        assert_eq!(count("tidegate_sse_events_total{route=\"all\"}"), Some(3.0));
        let ends = "tidegate_stream_ends_total{route=\"all\",reason=\"quota\"}";
        assert_eq!(count(ends), Some(1.0));

        // Nothing is left for the next one, which never reaches the upstream.
        let refused = gateway.wire().ask(GET);
        assert_eq!((refused.status(), origin.accepted()), (429, 1));
        let wait: u64 = refused.get("retry-after").unwrap().parse().unwrap();
        assert!((3590..=3600).contains(&wait), "until the window is over: {wait}");
    }
}

#[test]
fn events_pass_as_they_come_and_whole() {
    let gate = Gate::default();
    let opens = gate.clone();
    let origin = Origin::start(move |peer: &mut Peer| {
        if peer.request().is_none() {
            return;
        }
        peer.send(format!("{HEAD}\r\n"));
        peer.send("9\r\ndata: 1\n\n\r\n6\r\ndata: \r\n");
        opens.wait();
        peer.send("3\r\n2\n\n\r\n4\r\nrest\r\n0\r\n\r\n");
        peer.read_to_end();
    });
    let gateway = start(&origin, "events: 10, per: 1m");
    let mut wire = gateway.wire();
    wire.send(GET);
    assert_eq!(wire.read_head().status(), 200);
    assert_eq!(wire.read_chunk().as_deref(), Some(&b"data: 1\n\n"[..]));
    assert!(wire.is_silent_for(Duration::from_secs(1)), "half an event is held");
    gate.open();
    // An end by the upstream is not one by the policy, and the data before it is not counted.
    assert_eq!(wire.read_chunk().as_deref(), Some(&b"data: 2\n\nrest"[..]));
    assert_eq!(wire.read_exact(5).as_deref(), Some(&b"0\r\n\r\n"[..]));
    let line = access_line(&gateway, 1);
    assert_eq!((&line["events"], &line["stream_end"]), (&json!(2), &Value::Null), "{line}");
    let [waited, own] = ["upstream_ms", "own_ms"].map(|name| line[name].as_f64().unwrap());
    assert!(waited >= 1000.0 && own < waited, "{line}");
}

#[test]
fn an_event_that_is_too_large_cuts_the_stream_before_it() {
    let event = |bytes: usize| format!("data: {}\n\n", "x".repeat(bytes - 8)).into_bytes();
    for (parts, passed) in [
        (vec![event(100), event(101), event(20)], 100),
        // Its size is known before its end, which may never come.
        (vec![event(50), event(100), b"data: ".to_vec(), vec![b'x'; 95]], 150),
        (vec![[event(30), event(1000)].concat()], 30),
    ] {
        let origin = sending("", parts);
        let gateway = start(&origin, "event_bytes_max: 100B");
        let mut wire = gateway.wire();
        wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(wire.read_head().status(), 200);
        let mut came = 0;
        // A reconnect would get the same event, so the end must not look regular: there is no last chunk.
        while let Some(chunk) = wire.read_chunk() {
            assert!(!chunk.is_empty(), "a clean end");
            came += chunk.len();
        }
        assert_eq!(came, passed);
        let line = access_line(&gateway, 1);
        assert_eq!(
            (&line["stream_end"], &line["fault"]),
            (&"too_large".into(), &"reply_too_large".into())
        );
        let h2 = H2::connect(gateway.address("public"));
        let request = hyper::Request::get("http://a.test/").body(full("")).unwrap();
        let reply = h2.block_on(h2.sender.clone().send_request(request)).unwrap();
        assert!(h2.block_on(whole(reply)).is_err(), "the stream is reset");
        until("the upstream is left", || origin.open() == 0);
    }
}

/// A model sends its whole answer as one event.
#[test]
fn an_event_of_half_a_mebibyte_passes_by_default() {
    let event = format!("data: {}\n\n", "x".repeat(512 << 10));
    let origin = Origin::answering(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{event}",
        event.len()
    ));
    for policy in ["events: 9, per: 1h", "share: {}"] {
        let gateway = start(&origin, policy);
        assert_eq!(stream(&gateway).len(), event.len(), "{policy}");
    }
}

#[test]
fn a_silent_stream_ends_well() {
    let origin = sending("", vec![b"data: 1\n\n".to_vec(), b"data: 2".to_vec()]);
    let gateway = start(&origin, "idle: 1s");
    assert_eq!(stream(&gateway), "data: 1\n\n");
    assert_eq!(access_line(&gateway, 1)["stream_end"], "idle");
    let h2 = H2::connect(gateway.address("public"));
    let reply = h2.get("http://a.test/ticks");
    assert_eq!((reply.status, &reply.body[..]), (200, &b"data: 1\n\n"[..]));
    until("the upstream is left", || origin.open() == 0);
}

#[test]
fn streams_at_once_are_bounded_for_each_client() {
    let origin = sending("", vec![b"data: 1\n\n".to_vec()]);
    let gateway = start(&origin, "connections: 2, by: header:x-who");
    let open = |who: &str| {
        let mut wire = gateway.wire();
        wire.send(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Who: {who}\r\n\r\n"));
        let head = wire.read_head();
        (head.status(), wire)
    };
    let held: Vec<_> = (0..2).map(|_| open("a")).collect();
    assert!(held.iter().all(|(status, _)| *status == 200));
    assert_eq!(open("a").0, 429);
    let (status, other) = open("b");
    assert_eq!(status, 200);
    drop(held);
    until("a place is free again", || open("a").0 == 200);
    drop(other);
    until("nothing is left at the upstream", || origin.open() == 0);
}

#[test]
fn a_stream_ends_with_the_token_of_its_client() {
    let origin = sending("", vec![b"data: 1\n\ndata: half".to_vec()]);
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\n{LOG}\nworkers: 1\n\
         upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\n\
         issuers: {{ main: {{ issuer: \"https://idp.test\", keys: [all.jwks], leeway: 0s }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, policies: [{{ jwt: {{ issuers: [main] }} }}, {{ sse: {{}} }}], upstream: origin }} }}\n",
        origin.url()
    );
    let gateway = Gateway::start_beside(yaml, &[("all.jwks", jwks(&[&EC]).leak())]);
    let token = EC.token(&json!({ "iss": "https://idp.test", "sub": "alice", "exp": now() + 4 }));
    let ask = format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n");
    let reply = gateway.wire().ask(&ask);
    assert_eq!((reply.status(), &*reply.text()), (200, "data: 1\n\n"));
    let line = access_line(&gateway, 1);
    assert_eq!((&line["subject"], &line["stream_end"]), (&json!("alice"), &json!("expired")));
    assert!(line["duration_ms"].as_f64().unwrap() < 10_000.0, "{line}");
    until("the upstream is left", || origin.open() == 0);
    assert_eq!(gateway.wire().ask(&ask).status(), 401);
}

#[test]
fn a_stream_that_no_policy_counts_ends_with_the_token_too() {
    let origin = sending("", vec![b"data: 1\n\n".to_vec()]);
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\n{LOG}\nworkers: 1\n\
         upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\n\
         issuers: {{ main: {{ issuer: \"https://idp.test\", keys: [all.jwks], leeway: 0s }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, policies: [{{ jwt: {{ issuers: [main] }} }}], upstream: origin }} }}\n",
        origin.url()
    );
    let gateway = Gateway::start_beside(yaml, &[("all.jwks", jwks(&[&EC]).leak())]);
    let token = EC.token(&json!({ "iss": "https://idp.test", "sub": "alice", "exp": now() + 12 }));
    let ask = format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n");
    let reply = gateway.wire().ask(&ask);
    assert_eq!((reply.status(), &*reply.text(), reply.whole), (200, "data: 1\n\n", true));
    until("the upstream is left", || origin.open() == 0);
}

#[test]
fn a_stream_that_is_old_is_counted_among_those_that_leave() {
    let origin = sending("", vec![b"data: 1\n\n".to_vec()]);
    let route = format!("{}, streams: {{ max_age: 500ms }}", policy(""));
    let gateway = Plain { route: &route, more: LOG, ..Plain::default() }.start(&origin);
    // The amount of data before that does not matter.
    let _ended = stream(&gateway);
    assert_eq!(access_line(&gateway, 1)["stream_end"], "leaving");
    let ends = "tidegate_stream_ends_total{route=\"all\",reason=\"leaving\"}";
    assert!(metric(&gateway, ends) == Some(1.0));
}

#[test]
fn a_coded_stream_is_counted_without_its_coding() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut parts = Vec::new();
    for number in 0..5 {
        encoder.write_all(format!("data: {number}\n\n").as_bytes()).unwrap();
        encoder.flush().unwrap();
        parts.push(std::mem::take(encoder.get_mut()));
    }
    let piece = [parts.concat(), encoder.finish().unwrap(), vec![0; 20]].concat();
    let origin = sending("Content-Encoding: gzip\r\n", parts);
    let gateway = start(&origin, "events: 2, per: 1h");
    let reply = gateway.wire().ask(GET);
    assert_eq!((reply.get("content-encoding"), &*reply.text()), (None, "data: 0\n\ndata: 1\n\n"));

    // Data before the invalid part of a coding passes, even if both arrive together.
    let origin = sending("Content-Encoding: gzip\r\n", vec![piece]);
    let gateway = start(&origin, "events: 9, per: 1h");
    let mut wire = gateway.wire();
    wire.send(GET);
    assert_eq!(wire.read_head().status(), 200);
    let events = String::from_utf8(wire.read_to_end()).unwrap();
    assert!(events.contains("data: 0\n\n") && events.contains("data: 4\n\n"), "{events}");
    assert!(!events.ends_with("0\r\n\r\n"), "no last chunk: {events}");
    until("the upstream is left", || origin.open() == 0);

    // A coding that is broken is found once its bytes come, one that is not known before.
    let origin = sending("Content-Encoding: gzip\r\n", vec![b"data: 0\n\ndata: 1\n\n".to_vec()]);
    let gateway = start(&origin, "events: 2, per: 1h");
    let mut wire = gateway.wire();
    wire.send(GET);
    assert_eq!(wire.read_head().status(), 200);
    assert_eq!(wire.read_to_end(), b"", "no last chunk");
    until("the upstream is left", || origin.open() == 0);
    let origin = sending("Content-Encoding: zstd\r\n", vec![b"data: 0\n\n".to_vec()]);
    assert_eq!(start(&origin, "events: 2, per: 1h").wire().ask(GET).status(), 502);
    until("the upstream is left", || origin.open() == 0);
}

/// All events pass. The end of the coding after them decides whether the stream ends regularly.
#[test]
fn a_coding_is_checked_to_its_end() {
    let events = "data: 0\n\ndata: 1\n\n";
    let coded = |encoder: &mut dyn Read| {
        let mut coded = Vec::new();
        encoder.read_to_end(&mut coded).unwrap();
        coded
    };
    let (plain, level) = (events.as_bytes(), Compression::default());
    let gzip = coded(&mut flate2::read::GzEncoder::new(plain, level));
    let deflate = coded(&mut flate2::read::ZlibEncoder::new(plain, level));
    let bare = coded(&mut flate2::read::DeflateEncoder::new(plain, level));
    // All events, and then the end.
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), level);
    encoder.write_all(plain).unwrap();
    encoder.flush().unwrap();
    let flushed = encoder.finish().unwrap();
    let brotli = coded(&mut brotli::CompressorReader::new(plain, 4096, 5, 18));
    let flipped = |coded: &[u8], from_end: usize| {
        let mut coded = coded.to_vec();
        let at = coded.len() - from_end;
        coded[at] ^= 1;
        coded
    };
    let again = gzip.repeat(2);
    for (what, coding, body, times, is_whole) in [
        ("whole", "gzip", gzip.clone(), 1, true),
        ("two members", "gzip", again.clone(), 2, true),
        ("nothing", "gzip", Vec::new(), 0, true),
        ("a wrong sum", "gzip", flipped(&gzip, 8), 1, false),
        ("a wrong length", "gzip", flipped(&gzip, 4), 1, false),
        ("a wrong sum of the second member", "gzip", flipped(&again, 8), 2, false),
        ("no sum", "gzip", gzip[..gzip.len() - 8].to_vec(), 1, false),
        ("half a sum", "gzip", gzip[..gzip.len() - 6].to_vec(), 1, false),
        ("whole", "deflate", deflate.clone(), 1, true),
        ("a wrong sum", "deflate", flipped(&deflate, 1), 1, false),
        ("half a sum", "deflate", deflate[..deflate.len() - 2].to_vec(), 1, false),
        ("more behind it", "deflate", [&deflate[..], b"x"].concat(), 1, false),
        ("nothing", "deflate", Vec::new(), 0, true),
        ("without the wrapper", "deflate", bare.clone(), 1, true),
        ("bare, and cut", "deflate", flushed[..flushed.len() - 2].to_vec(), 1, false),
        ("whole", "br", brotli, 1, true),
    ] {
        for keys in ["events: 9, per: 1h", "share: {}"] {
            let body = body.clone();
            let origin = Origin::start(move |peer: &mut Peer| {
                while peer.request().is_some() {
                    peer.send(format!("{HEAD}Content-Encoding: {coding}\r\n\r\n"));
                    // Byte by byte, but all at once.
                    let chunks =
                        body.iter().flat_map(|byte| [b'1', b'\r', b'\n', *byte, b'\r', b'\n']);
                    peer.send([chunks.collect(), b"0\r\n\r\n".to_vec()].concat());
                }
            });
            let gateway = start(&origin, keys);
            let mut wire = gateway.wire();
            wire.send("GET /ticks HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            assert_eq!(wire.read_head().status(), 200);
            let rest = String::from_utf8(wire.read_to_end()).unwrap();
            let ends = rest.ends_with("0\r\n\r\n");
            let got = (rest.matches("data: 0\n\n").count(), rest.matches("data: 1\n\n").count());
            assert_eq!((got, ends), ((times, times), is_whole), "{keys}: {coding}, {what}: {rest}");
        }
    }
}

/// Browsers accept Zstandard, in which events cannot be counted.
#[test]
fn the_upstream_is_asked_only_for_codings_that_can_be_read() {
    let origin = Origin::echo();
    let gateway = start(&origin, "events: 2, per: 1h");
    for (accepted, sent) in [
        ("gzip, deflate, br, zstd", Some("gzip, deflate, br")),
        ("zstd;q=1.0, BR;q=0.5,identity ; q=0.1", Some("BR;q=0.5, identity ; q=0.1")),
        ("gzip,  br", Some("gzip,  br")),
        ("zstd, *", None),
    ] {
        let request =
            format!("GET / HTTP/1.1\r\nHost: gateway\r\nAccept-Encoding: {accepted}\r\n\r\n");
        assert_eq!(gateway.wire().ask(&request).status(), 200);
        let requests = origin.requests();
        assert_eq!(requests.last().unwrap().get("accept-encoding"), sent, "{accepted}");
    }
}

#[test]
fn other_replies_pass_untouched() {
    let body = "data: 1\n\n".repeat(20);
    for content_type in ["text/plain", "text/event-streams", "x-text/event-stream"] {
        let origin = Origin::answering(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let gateway = start(&origin, "events: 1, per: 1h, event_bytes_max: 10B, connections: 1");
        let mut wire = gateway.wire();
        for _ in 0..3 {
            let reply = wire.ask(GET);
            assert_eq!((reply.status(), reply.length()), (200, Some(body.len())), "{content_type}");
            assert_eq!(reply.text(), body);
        }
    }
}

#[test]
fn over_http2_the_quota_ends_the_stream_alone() {
    let parts = (0..9).map(|number| format!("data: {number}\n\n").into_bytes()).collect();
    let origin = sending("", parts);
    let gateway = start(&origin, "events: 4, per: 1h, by: header:x-who");
    let h2 = H2::connect(gateway.address("public"));
    for who in ["a", "b"] {
        let request =
            hyper::Request::get("http://a.test/").header("x-who", who).body(full("")).unwrap();
        let reply = h2.block_on(h2.sender.clone().send_request(request)).unwrap();
        let reply = h2.block_on(whole(reply)).expect("an end, and no reset");
        assert_eq!(reply.body.len(), 4 * 9);
    }
    until("the upstream is left", || origin.open() == 0);
}

#[test]
fn a_reload_keeps_the_counts() {
    let parts = vec![b"data: 1\n\ndata: 2\n\ndata: 3\n\n".to_vec()];
    let origin = sending("", parts);
    let more = |name: &str| format!("{LOG}\nplans: {{ {name}: {{ unlimited: true }} }}");
    let yaml = |name: &str| {
        let policy = policy("events: 3, per: 1h");
        Plain { route: &policy, more: &more(name), ..Plain::default() }.yaml(&origin)
    };
    let gateway = Gateway::start(yaml("a"));
    assert_eq!(stream(&gateway).len(), 27);
    crate::reload::put_ok(&gateway, &yaml("b"));
    assert_eq!(gateway.wire().ask(GET).status(), 429);
}
