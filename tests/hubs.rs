//! `hubs`: events are published, and read again by long poll, as event streams and by WebSocket.

use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use serde_json::{Value, json};

use crate::harness::{Gateway, Message, Wire, until};
use crate::telemetry::metric;
use crate::tokens::{EC, jwks, now};

/// A gateway with one hub at `/news`.
pub(crate) fn hub(keys: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n\
         drain: {{ delay: 0s }}\n\
         hubs: {{ news: {{ topics: [sports, weather]{keys} }} }}\n\
         routes: {{ news: {{ match: {{ path: \"/news/**\" }}, hub: news }} }}\n"
    )
}

pub(crate) fn start(keys: &str) -> Gateway {
    Gateway::start(hub(keys))
}

fn post(target: &str, lines: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: hub.example\r\n{lines}Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

pub(crate) fn publish(gateway: &Gateway, topic: &str, body: &str) -> String {
    let target = format!("/news/publish?topic={topic}");
    let reply = gateway.wire().ask(post(&target, "Content-Type: text/plain\r\n", body.as_bytes()));
    assert_eq!(reply.status(), 200, "{reply:?}");
    json_of(&reply)["id"].as_str().expect("an id").to_owned()
}

pub(crate) fn json_of(reply: &Message) -> Value {
    assert_eq!(reply.get("content-type"), Some("application/json"), "{reply:?}");
    serde_json::from_slice(&reply.body).expect("JSON")
}

pub(crate) fn poll(gateway: &Gateway, query: &str) -> Value {
    let reply = gateway.wire().get(&format!("/news/topics/sports{query}"));
    assert_eq!(reply.status(), 200, "{reply:?}");
    json_of(&reply)
}

pub(crate) fn bodies(read: &Value) -> Vec<&str> {
    let events = read["events"].as_array().expect("a list of events");
    events.iter().map(|event| event["body"].as_str().expect("a body")).collect()
}

/// An event stream whose head has come.
pub(crate) fn stream(gateway: &Gateway, query: &str, lines: &str) -> (Wire, Message) {
    let mut wire = gateway.wire();
    wire.send(format!(
        "GET /news/topics/sports{query} HTTP/1.1\r\nHost: hub.example\r\nAccept: text/event-stream\r\n{lines}\r\n"
    ));
    let head = wire.read_head();
    (wire, head)
}

/// Reads chunks until they hold this many events.
pub(crate) fn events(wire: &mut Wire, count: usize) -> String {
    let mut text = String::new();
    while text.matches("\n\n").count() < count {
        let chunk = wire.read_chunk().expect("the stream goes on");
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    text
}

#[test]
fn what_is_published_is_read_in_order() {
    let gateway = start("");
    assert_eq!(poll(&gateway, "?after=0"), json!({ "events": [], "next": "0" }));
    let ids: Vec<String> =
        (0..5).map(|n| publish(&gateway, "sports", &format!("goal {n}"))).collect();
    publish(&gateway, "weather", "rain");
    let all = poll(&gateway, "?after=0");
    assert_eq!(bodies(&all), ["goal 0", "goal 1", "goal 2", "goal 3", "goal 4"]);
    assert_eq!(all["next"], json!(ids[4]));
    let first = &all["events"][0];
    assert_eq!((&first["id"], &first["type"]), (&json!(ids[0]), &json!("text/plain")));
    assert!(
        first["time"].as_str().is_some_and(|time| time.starts_with("20") && time.ends_with('Z'))
    );
    // Page by page, and from then on.
    let two = poll(&gateway, "?after=0&limit=2");
    assert_eq!((bodies(&two), &two["next"]), (vec!["goal 0", "goal 1"], &json!(ids[1])));
    let rest = poll(&gateway, &format!("?limit=10&after={}", ids[1]));
    assert_eq!(bodies(&rest), ["goal 2", "goal 3", "goal 4"]);
    assert_eq!(poll(&gateway, ""), json!({ "events": [], "next": ids[4] }));
    let published = "tidegate_hub_published_total{hub=\"news\",topic=\"sports\"}";
    assert_eq!(metric(&gateway, published), Some(5.0));
}

#[test]
fn a_long_poll_waits_for_an_event_and_no_longer() {
    let gateway = start("");
    let began = Instant::now();
    assert_eq!(poll(&gateway, "?wait=300ms"), json!({ "events": [], "next": "0" }));
    assert!(began.elapsed() >= Duration::from_millis(300));
    let mut waiting: Vec<Wire> = (0..8).map(|_| gateway.wire()).collect();
    for wire in &mut waiting {
        wire.send("GET /news/topics/sports?wait=30s&after=0 HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let id = publish(&gateway, "sports", "goal");
    for wire in &mut waiting {
        let read = json_of(&wire.read_reply());
        assert_eq!((bodies(&read), &read["next"]), (vec!["goal"], &json!(id)));
    }
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn an_event_stream_gives_what_is_kept_and_what_comes() {
    let gateway = start("");
    let old = publish(&gateway, "sports", "one\ntwo");
    let (mut all, head) = stream(&gateway, "?after=0", "");
    assert_eq!((head.status(), head.get("content-type")), (200, Some("text/event-stream")));
    assert_eq!(events(&mut all, 1), format!("id: {old}\ndata: one\ndata: two\n\n"));
    let (mut new, _) = stream(&gateway, "", "");
    let (mut behind, _) = stream(&gateway, "?after=0", &format!("Last-Event-ID: {old}\r\n"));
    let id = publish(&gateway, "sports", "three");
    for wire in [&mut all, &mut new, &mut behind] {
        assert_eq!(events(wire, 1), format!("id: {id}\ndata: three\n\n"));
    }
}

#[test]
fn bytes_that_are_no_text_are_given_as_base64() {
    let gateway = start("");
    let reply = gateway.wire().ask(post("/news/publish?topic=sports", "", b"\xff\x00\xfe"));
    let id = json_of(&reply)["id"].clone();
    let event = &poll(&gateway, "?after=0")["events"][0];
    assert_eq!(
        (&event["base64"], &event["type"]),
        (&json!("/wD+"), &json!("application/octet-stream"))
    );
    assert_eq!(event.get("body"), None);
    let (mut wire, _) = stream(&gateway, "?after=0", "");
    let id = id.as_str().unwrap();
    assert_eq!(events(&mut wire, 1), format!("id: {id}\nevent: base64\ndata: /wD+\n\n"));
}

#[test]
fn reads_name_the_hub_and_the_topic() {
    let gateway = start("");
    let links = [
        "<http://hub.example/news>; rel=\"hub\", <http://hub.example/news/topics/sports>; rel=\"self\"",
    ];
    for method in ["GET", "HEAD"] {
        let ask = format!("{method} /news/topics/sports HTTP/1.1\r\nHost: hub.example\r\n\r\n");
        let mut wire = gateway.wire();
        wire.send(ask);
        assert_eq!(wire.read_head().all("link"), links, "{method}");
    }
    let (_, head) = stream(&gateway, "", "");
    assert_eq!(head.all("link"), links);
}

#[test]
fn what_cannot_be_asked_has_its_status() {
    let gateway = start(", event_bytes_max: 1KiB");
    for (request, status) in [
        (post("/news/publish", "", b"x"), 422),
        (post("/news/publish?topic=", "", b"x"), 422),
        (post("/news/publish?topic=chess", "", b"x"), 404),
        (post("/news/publish?topic=sports", "", &[b'x'; 1025]), 413),
        (post("/news/publish?topic=sports", "", &[b'x'; 1024]), 200),
        (post("/news/topics/sports", "", b""), 405),
        (post("/news/other", "", b""), 404),
        (b"GET /news/publish HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 405),
        (b"GET /news HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 405),
        (b"GET /news/topics/chess HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 404),
        (b"GET /news/topics/sports/x HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 404),
        (b"GET /news/topics/ HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 404),
        (b"GET /news/topics/sports?after=x HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 400),
        (b"GET /news/topics/sports?after=-1 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 400),
        (b"GET /news/topics/sports?wait=ever HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 400),
        (b"GET /news/topics/sports?limit=0 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec(), 400),
        (
            b"GET /news/topics/sports HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\nLast-Event-ID: x\r\n\r\n"
                .to_vec(),
            400,
        ),
    ] {
        let reply = gateway.wire().ask(&request);
        assert_eq!(reply.status(), status, "{}", String::from_utf8_lossy(&request));
    }
}

#[test]
fn a_place_that_is_gone_is_410_with_the_oldest_that_is_kept() {
    let gateway = start(", retention: { bytes: 1KiB }");
    let text = "x".repeat(200);
    let ids: Vec<String> = (0..20).map(|_| publish(&gateway, "sports", &text)).collect();
    let ask = |lines: &str, query: &str| {
        gateway
            .wire()
            .ask(format!("GET /news/topics/sports{query} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"))
    };
    let after = format!("?after={}", ids[0]);
    until("old events are dropped", || ask("", &after).status() == 410);
    let oldest = json_of(&ask("", &after))["oldest"].as_str().unwrap().to_owned();
    let kept = poll(&gateway, "?after=0");
    assert_eq!(kept["events"][0]["id"], json!(oldest));
    assert!(kept["events"].as_array().unwrap().len() <= 5, "{kept}");
    // An EventSource that is refused never reconnects, so its stream continues at the oldest event and reports the gap.
    let last: u64 = oldest.parse().unwrap();
    for (query, line) in [
        (String::new(), format!("Last-Event-ID: {}\r\n", ids[0])),
        (after.clone(), "Last-Event-ID: \r\n".to_owned()),
    ] {
        let (mut wire, head) = stream(&gateway, &query, &line);
        assert_eq!((head.status(), head.get("x-accel-buffering")), (200, Some("no")));
        let gap = format!(
            "id: {}\nevent: gap\ndata: {{\"after\":\"{}\",\"oldest\":\"{oldest}\"}}\n\n",
            last - 1,
            ids[0]
        );
        let text = events(&mut wire, 2);
        assert!(text.starts_with(&format!("{gap}id: {oldest}\n")), "{text}");
    }
    // The last event that was read may be gone; the one after it may not.
    assert_eq!(ask("", &format!("?after={}", last - 1)).status(), 200);
    assert_eq!(poll(&gateway, "?after=99999")["next"], json!(ids[19]));
}

fn hex(algorithm: hmac::Algorithm, secret: &str, body: &[u8]) -> String {
    let tag = hmac::sign(&hmac::Key::new(algorithm, secret.as_bytes()), body);
    tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_secret_asks_publishers_for_a_signature() {
    let sha1 = hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY;
    for (keys, header, name, algorithm) in [
        ("", "X-Hub-Signature", "sha256", hmac::HMAC_SHA256),
        (", signature: x-signed, algorithm: sha1", "X-Signed", "sha1", sha1),
        (", algorithm: sha512", "X-Hub-Signature", "sha512", hmac::HMAC_SHA512),
    ] {
        let gateway = start(&format!(", secret: s3cret{keys}"));
        let good = hex(algorithm, "s3cret", b"goal");
        let other = hex(algorithm, "other", b"goal");
        for (line, status) in [
            (String::new(), 401),
            (format!("{header}: {name}={good}\r\n"), 200),
            (format!("{header}: {name}={other}\r\n"), 401),
            (format!("{header}: {good}\r\n"), 401),
            (format!("{header}: md5={good}\r\n"), 401),
            (format!("{header}: {name}=\r\n"), 401),
            (format!("{header}: \r\n"), 401),
            (format!("{header}: =\r\n"), 401),
            (format!("{header}: ={good}\r\n"), 401),
            (format!("{header}: {name}:{good}\r\n"), 401),
            (format!("{header}: {name} = {good}\r\n"), 401),
            (format!("{header}: {name}={}\r\n", &good[1..]), 401),
            (format!("{header}: {name}={}\r\n", &good[2..]), 401),
            (format!("{header}: {name}={good}00\r\n"), 401),
            (format!("{header}: {name}={}\r\n", "0".repeat(good.len())), 401),
            (format!("{header}: {name}={}\r\n", "zz".repeat(good.len() / 2)), 401),
            (format!("{header}: {name}={}\r\n", "a".repeat(8000)), 401),
            (format!("{header}: {name}={good}, {name}={good}\r\n"), 401),
            (format!("{header}: {name}={good}\r\n{header}: {name}={other}\r\n"), 401),
            (format!("{header}: {name}={good}\r\n{header}: {name}={good}\r\n"), 401),
            (format!("X-Other: {name}={good}\r\n"), 401),
        ] {
            let reply = gateway.wire().ask(post("/news/publish?topic=sports", &line, b"goal"));
            assert_eq!(reply.status(), status, "{line}");
        }
        // The signature of other bytes, and one by the hub's secret in a method that the hub does not use.
        let weak = hex(hmac::HMAC_SHA384, "s3cret", b"goal");
        for (line, body) in [
            (format!("{header}: {name}={good}\r\n"), &b"goal "[..]),
            (format!("{header}: {name}={good}\r\n"), b""),
            (format!("{header}: sha384={weak}\r\n"), b"goal"),
        ] {
            let reply = gateway.wire().ask(post("/news/publish?topic=sports", &line, body));
            assert_eq!(reply.status(), 401, "{line}");
        }
        assert_eq!(bodies(&poll(&gateway, "?after=0")), ["goal"], "only what was signed");
        assert!(!gateway.admin_get("/plan").text().contains("s3cret"));
    }
}

#[test]
fn events_survive_a_reload_and_streams_go_on() {
    let gateway = start("");
    publish(&gateway, "sports", "before");
    let (mut wire, _) = stream(&gateway, "?after=0", "");
    events(&mut wire, 1);
    for keys in ["", ", event_bytes_max: 2MiB", ", subscriptions_max: 7"] {
        crate::reload::put_ok(&gateway, &hub(keys));
        publish(&gateway, "sports", "after");
        assert!(events(&mut wire, 1).contains("data: after"));
    }
    assert_eq!(bodies(&poll(&gateway, "?after=0")), ["before", "after", "after", "after"]);
}

/// A gateway with one hub at `/news`, and its store in a folder.
pub(crate) fn start_in(folder: &std::path::Path, keys: &str) -> Gateway {
    let store = json!({ "path": folder.join("store") });
    Gateway::start(format!("{}store: {store}\n", hub(keys)))
}

#[test]
fn what_was_acknowledged_outlives_a_killed_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    for round in 0..4 {
        let gateway = start_in(folder.path(), "");
        assert_eq!(bodies(&poll(&gateway, "?after=0")), expected);
        for number in 0..3 {
            let body = format!("{round}.{number}");
            let id = publish(&gateway, "sports", &body);
            expected.push(body);
            assert_eq!(poll(&gateway, "?after=0")["next"], json!(id));
        }
        // Dropping it kills it.
    }
    let gateway = start_in(folder.path(), "");
    let all = poll(&gateway, "?after=0");
    assert_eq!(bodies(&all), expected);
    let ids: Vec<u64> = all["events"].as_array().unwrap().iter().map(id_of).collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

fn id_of(event: &Value) -> u64 {
    event["id"].as_str().and_then(|id| id.parse().ok()).expect("a number")
}

#[test]
fn a_more_specific_route_may_lead_to_a_part_of_the_hub() {
    let yaml = hub("").replace(
        "routes: { ",
        "routes: { publishers: { match: { path: /news/publish }, hub: news, policies: [{ api_key: { header: x-api-key, keys: { me: k } } }] }, \
         one: { match: { path: /news/topics/weather }, hub: news, policies: [{ headers: { response: { add: { x-one: y } } } }] }, ",
    );
    let gateway = Gateway::start(yaml);
    let send = |lines: &str| {
        gateway.wire().ask(post("/news/publish?topic=weather", lines, b"sun")).status()
    };
    assert_eq!((send(""), send("x-api-key: k\r\n")), (401, 200));
    let reply = gateway.wire().get("/news/topics/weather?after=0");
    assert_eq!((reply.get("x-one"), bodies(&json_of(&reply))), (Some("y"), vec!["sun"]));
}

#[test]
fn a_stream_whose_client_left_is_over() {
    let gateway = start("");
    let open = || metric(&gateway, "tidegate_connections_open{listener=\"public\"}");
    for _ in 0..20 {
        let (wire, _) = stream(&gateway, "", "");
        drop(wire);
    }
    until("all connections are closed", || open() == Some(0.0));
}

/// A WebSocket that is open.
pub(crate) fn socket(gateway: &Gateway, query: &str) -> Wire {
    socket_with(gateway, query, "")
}

fn socket_with(gateway: &Gateway, query: &str, lines: &str) -> Wire {
    let mut wire = gateway.wire();
    wire.send(format!(
        "GET /news/topics/sports{query} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n"
    ));
    let head = wire.read_head();
    assert_eq!(head.status(), 101, "{head:?}");
    assert_eq!(head.get("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert!(head.lists("connection", "upgrade"));
    wire
}

/// The first byte of a short frame, and its payload.
pub(crate) fn frame(wire: &mut Wire) -> (u8, Vec<u8>) {
    let header = wire.read_exact(2).expect("a header");
    let len = match header[1] {
        126 => {
            let len = wire.read_exact(2).unwrap();
            usize::from(u16::from_be_bytes([len[0], len[1]]))
        }
        len => usize::from(len),
    };
    (header[0], if len == 0 { Vec::new() } else { wire.read_exact(len).expect("a payload") })
}

#[test]
fn a_web_socket_gives_each_event_as_a_message() {
    let gateway = start("");
    let old = publish(&gateway, "sports", "old");
    let mut json = socket(&gateway, "?after=0");
    let mut body = socket(&gateway, "?format=body");
    let (first, message) = frame(&mut json);
    let message: Value = serde_json::from_slice(&message).unwrap();
    assert_eq!((first, &message["id"], &message["body"]), (0x81, &json!(old), &json!("old")));
    // A ping is answered, and a message has no effect; both are masked.
    body.send(b"\x89\x82\0\0\0\0hi\x81\x82\0\0\0\0hi");
    assert_eq!(frame(&mut body), (0x8a, b"hi".to_vec()));
    publish(&gateway, "sports", "goal");
    gateway.wire().ask(post("/news/publish?topic=sports", "", b"\xff\xfe"));
    assert_eq!(frame(&mut body), (0x81, b"goal".to_vec()));
    assert_eq!(frame(&mut body), (0x82, b"\xff\xfe".to_vec()));
    for (key, value) in [("body", "goal"), ("base64", "//4=")] {
        let message: Value = serde_json::from_slice(&frame(&mut json).1).unwrap();
        assert_eq!(message[key], json!(value));
    }
    // A goodbye is answered, and bytes that are not a frame end it.
    json.send(b"\x88\x82\0\0\0\0\x03\xe8");
    assert_eq!(frame(&mut json), (0x88, b"\x03\xe8".to_vec()));
    assert!(json.is_closed());
    body.send(b"\xff\xff\xff");
    let (first, reason) = frame(&mut body);
    assert_eq!((first, &reason[..2]), (0x88, &[0x03, 0xea][..]));
}

/// A client that does not read holds only the memory of its last read, however many events there are.
#[test]
fn slow_readers_hold_little() {
    const CLIENTS: usize = 60;
    let gateway = start("");
    let text = "x".repeat(100_000);
    // Far more than the sockets of one reader take.
    let ids: Vec<String> = (0..240).map(|_| publish(&gateway, "sports", &text)).collect();
    let before = gateway.resident_bytes();
    let _slow: Vec<Wire> = (0..CLIENTS).map(|_| stream(&gateway, "?after=0", "").0).collect();
    let _sockets: Vec<Wire> = (0..CLIENTS).map(|_| socket(&gateway, "?after=0")).collect();
    // One that reads gets all of it meanwhile.
    let (mut reads, _) = stream(&gateway, "?after=0", "");
    let last = format!("id: {}\n", ids.last().unwrap());
    assert!(events(&mut reads, ids.len()).contains(&last));
    // Threads that read the log for all of them end later, and free their memory then.
    let max = before + 2 * CLIENTS * 512 * 1024 + (8 << 20);
    until("slow readers hold little", || gateway.resident_bytes() < max);
}

#[test]
fn a_poll_has_what_was_published_before_it() {
    let gateway = start("");
    // Readers on the workers, which are woken for each event.
    let _open: Vec<Wire> = (0..8).map(|_| stream(&gateway, "", "").0).collect();
    let mut after = "0".to_owned();
    for number in 0..300 {
        let id = publish(&gateway, "sports", "goal");
        let polled = poll(&gateway, &format!("?after={after}"));
        assert_eq!((&polled["next"], number), (&json!(id), number));
        after = id;
    }
}

#[test]
fn readers_end_with_their_token() {
    let yaml = hub("")
        .replace("hub: news }", "hub: news, policies: [{ jwt: { issuers: [main] } }] }")
        + "issuers: { main: { issuer: \"https://idp.test\", keys: [all.jwks], leeway: 0s } }\n";
    let gateway = Gateway::start_beside(yaml, &[("all.jwks", jwks(&[&EC]).leak())]);
    let token = EC.token(&json!({ "iss": "https://idp.test", "sub": "ann", "exp": now() + 12 }));
    let lines = format!("Authorization: Bearer {token}\r\n");
    let (mut events, head) = stream(&gateway, "", &lines);
    assert_eq!(head.status(), 200, "{head:?}");
    let mut messages = socket_with(&gateway, "", &lines);
    assert_eq!(events.read_chunk(), None, "the stream ends well");
    let (first, reason) = frame(&mut messages);
    assert_eq!((first, &reason[..2]), (0x88, &1008_u16.to_be_bytes()[..]));
}

#[test]
fn operators_see_hubs_by_their_names() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let hubs: String =
        names.iter().rev().map(|name| format!("{name}: {{ topics: [t] }}, ")).collect();
    let gateway = Gateway::start(hub("").replace("hubs: {", &format!("hubs: {{ {hubs}")));
    let shown = gateway.admin_get("/hubs");
    let shown: Value = serde_json::from_slice(&shown.body).unwrap();
    let shown: Vec<&str> =
        shown["hubs"].as_array().unwrap().iter().filter_map(|hub| hub["name"].as_str()).collect();
    assert_eq!(shown, [&names[..], &["news"]].concat());
}

#[test]
fn an_event_stream_is_for_those_who_take_one() {
    let gateway = start("");
    publish(&gateway, "sports", "goal");
    for (accept, kind) in [
        ("application/json, text/event-stream;q=0", "application/json"),
        ("text/event-stream; Q=0.0", "application/json"),
        ("application/json;q=0.9, text/event-stream;q=0.1", "text/event-stream"),
    ] {
        let mut wire = gateway.wire();
        wire.send(format!(
            "GET /news/topics/sports HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\n\r\n"
        ));
        assert_eq!(wire.read_head().get("content-type"), Some(kind), "{accept}");
    }
}

#[test]
fn handshakes_that_are_none_are_refused() {
    let gateway = start("");
    for (lines, status) in [
        ("Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", 426),
        ("Sec-WebSocket-Version: 13\r\n", 400),
        ("Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n", 400),
    ] {
        let reply = gateway.wire().ask(format!(
            "GET /news/topics/sports HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{lines}\r\n"
        ));
        assert_eq!(reply.status(), status, "{lines}");
    }
    assert_eq!(gateway.wire().get("/news/topics/sports?format=xml").status(), 400);
}

/// A request that is not a valid handshake of RFC 6455 changes no protocol. A proxy would interpret the following data differently.
#[test]
fn only_a_whole_handshake_changes_the_protocol() {
    let gateway = start("");
    let socket = "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (protocol, lines, body) in [
        ("HTTP/1.1", "", ""),
        ("HTTP/1.1", "Connection: keep-alive\r\n", ""),
        ("HTTP/1.0", "Connection: Upgrade\r\n", ""),
        ("HTTP/1.1", "Connection: Upgrade\r\nContent-Length: 5\r\n", "hello"),
        (
            "HTTP/1.1",
            "Connection: Upgrade\r\nTransfer-Encoding: chunked\r\n",
            "5\r\nhello\r\n0\r\n\r\n",
        ),
    ] {
        let reply = gateway.wire().ask(format!(
            "GET /news/topics/sports {protocol}\r\nHost: a\r\n{socket}{lines}\r\n{body}"
        ));
        assert_eq!(reply.status(), 400, "{protocol} {lines}");
    }
}
