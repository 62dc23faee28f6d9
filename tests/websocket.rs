//! `websocket`: quotas, bounds and rights for messages, and the codes with which connections close.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Gate, Gateway, Origin, Peer, Plain, Wire, tidegate, until};
use crate::telemetry::metric;
use crate::tokens::{EC, jwks, now};

const LOG: &str = "admin: { address: \"127.0.0.1:0\" }\ntelemetry: { access_log: { format: json, path: access.log } }";
pub(crate) const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

const FIN: u8 = 0x80;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

const NOTICE: &[u8] = br#"{"error_code": 4008, "error_message": "Websocket frame throttled out"}"#;

/// A frame with this first byte; masked as a client does, or not.
pub(crate) fn frame(first: u8, payload: &[u8], masked: bool) -> Vec<u8> {
    let (mask, key) = if masked { (0x80, [7, 77, 177, 200]) } else { (0, [0; 4]) };
    let mut frame = vec![first];
    match payload.len() {
        len @ 0..126 => frame.push(mask | u8::try_from(len).unwrap()),
        len @ 126..65_536 => {
            frame.push(mask | 126);
            frame.extend(u16::try_from(len).unwrap().to_be_bytes());
        }
        len => {
            frame.push(mask | 127);
            frame.extend((len as u64).to_be_bytes());
        }
    }
    if masked {
        frame.extend(key);
    }
    frame.extend(payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
}

/// Reads a frame: its first byte and its payload. None at the end.
pub(crate) fn read(wire: &mut Wire, masked: bool) -> Option<(u8, Vec<u8>)> {
    let start = wire.read_exact(2)?;
    assert_eq!(start[1] & 0x80 != 0, masked, "clients mask, servers do not");
    let len = match start[1] & 0x7f {
        126 => usize::from(u16::from_be_bytes(wire.read_exact(2)?.try_into().unwrap())),
        127 => {
            usize::try_from(u64::from_be_bytes(wire.read_exact(8)?.try_into().unwrap())).unwrap()
        }
        short => usize::from(short),
    };
    let key = if masked { wire.read_exact(4)? } else { vec![0; 4] };
    let payload = wire.read_exact(len)?;
    let plain = payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
    Some((start[0], plain))
}

fn close(code: u16) -> Vec<u8> {
    code.to_be_bytes().to_vec()
}

/// A client's connection.
pub(crate) struct Client(pub(crate) Wire);

impl Client {
    #[track_caller]
    pub(crate) fn open(gateway: &Gateway, target: &str, lines: &str) -> Client {
        let (status, client) = Client::ask(gateway, target, lines);
        assert_eq!(status, 101);
        client
    }

    fn ask(gateway: &Gateway, target: &str, lines: &str) -> (u16, Client) {
        let mut wire = gateway.wire();
        wire.send(format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Extensions: permessage-deflate\r\n{lines}\r\n"
        ));
        let head = wire.read_head();
        assert_eq!(head.get("sec-websocket-extensions"), None);
        (head.status(), Client(wire))
    }

    pub(crate) fn send(&mut self, first: u8, payload: &[u8]) {
        self.0.send(frame(first, payload, true));
    }

    fn text(&mut self, text: &str) {
        self.send(FIN | TEXT, text.as_bytes());
    }

    #[track_caller]
    pub(crate) fn expect(&mut self, first: u8, payload: &[u8]) {
        let (found, came) = read(&mut self.0, false).expect("a frame");
        assert_eq!(
            (found, &*String::from_utf8_lossy(&came)),
            (first, &*String::from_utf8_lossy(payload))
        );
    }

    /// Reads a Close frame with this code, answers it, and sees the end.
    #[track_caller]
    pub(crate) fn expect_close(&mut self, code: u16) {
        let (first, payload) = read(&mut self.0, false).expect("a Close frame");
        assert_eq!((first, payload.get(..2)), (FIN | CLOSE, Some(&close(code)[..])), "{payload:?}");
        assert!(std::str::from_utf8(&payload[2..]).is_ok());
        self.send(FIN | CLOSE, &payload);
        assert!(self.0.is_closed());
    }
}

/// A service that sends back each data frame, answers pings and closes. At `/push` it sends these frames first.
pub(crate) fn service(push: Vec<Vec<u8>>) -> Origin {
    Origin::start(move |peer: &mut Peer| {
        let Some(request) = peer.request() else { return };
        // If no policy reads the messages, the client may request extensions.
        let is_bare = request.target().starts_with("/ws/bare");
        assert_eq!(request.get("sec-websocket-extensions").is_some(), is_bare);
        peer.send(SWITCH);
        if request.target().ends_with("/push") {
            push.iter().for_each(|frame| peer.send(frame));
        }
        while let Some((first, payload)) = read(peer, true) {
            peer.note(&crate::harness::Message::parse(
                format!(
                    "FRAME {first} {}\r\n\r\n",
                    String::from_utf8_lossy(&payload).escape_debug().to_string().replace(' ', "_")
                )
                .as_bytes(),
            ));
            let answer = match first & 0xf {
                PING => frame(FIN | PONG, &payload, false),
                PONG => continue,
                _ => frame(first, &payload, false),
            };
            if !peer.try_send(answer) || first & 0xf == CLOSE {
                return;
            }
        }
    })
}

pub(crate) fn start(origin: &Origin, keys: &str) -> Gateway {
    start_with(origin, &format!("policies: [{{ websocket: {{ {keys} }} }}]"))
}

fn start_with(origin: &Origin, route: &str) -> Gateway {
    Plain { route, more: LOG, ..Plain::default() }.start(origin)
}

/// The frames that the upstream got, as `FIRST PAYLOAD`.
fn frames_at(origin: &Origin) -> Vec<String> {
    let requests = origin.requests();
    let frames = requests.iter().filter_map(|request| request.start.strip_prefix("FRAME "));
    frames.map(str::to_owned).collect()
}

pub(crate) fn log_line(gateway: &Gateway) -> Value {
    let path = gateway.path("access.log");
    let read = || std::fs::read_to_string(&path).unwrap_or_default();
    until("the line is there", || read().lines().count() >= 1);
    serde_json::from_str(read().lines().next().unwrap()).unwrap()
}

#[test]
fn frames_pass_both_ways_as_they_are() {
    let origin = service(vec![]);
    let gateway = start(&origin, "messages: 1000, per: 1m, message_bytes_max: 1MiB");
    let mut client = Client::open(&gateway, "/ws", "");
    client.text("hello");
    client.expect(FIN | TEXT, b"hello");
    client.send(FIN | BINARY, &[0, 255, 254]);
    client.expect(FIN | BINARY, &[0, 255, 254]);
    for (first, part) in [(TEXT, &b"one "[..]), (FIN | PING, b"?"), (0, b""), (FIN, b"two")] {
        client.send(first, part);
        let first = if first & 0xf == PING { FIN | PONG } else { first };
        client.expect(first, part);
    }
    for len in [125, 126, 65_535, 65_536, 200_000] {
        let text = "ä".repeat(len / 2);
        client.text(&text);
        client.expect(FIN | TEXT, text.as_bytes());
    }
    // Two messages in one piece, and one byte by byte.
    client.0.send([frame(FIN | TEXT, b"a", true), frame(FIN | TEXT, b"b", true)].concat());
    client.expect(FIN | TEXT, b"a");
    client.expect(FIN | TEXT, b"b");
    for byte in frame(FIN | TEXT, "käse".as_bytes(), true) {
        client.0.send([byte]);
    }
    client.expect(FIN | TEXT, "käse".as_bytes());
    client.send(FIN | CLOSE, &close(4321));
    client.expect(FIN | CLOSE, &close(4321));
    assert!(client.0.is_closed());
    until("the upstream is left", || origin.open() == 0);
    let line = log_line(&gateway);
    assert_eq!((&line["status"], &line["stream_end"]), (&json!(101), &Value::Null), "{line}");
    let messages = |direction: &str| {
        let name =
            format!("tidegate_websocket_messages_total{{route=\"all\",direction=\"{direction}\"}}");
        metric(&gateway, &name)
    };
    assert_eq!((messages("received"), messages("sent")), (Some(11.0), Some(11.0)));
    assert_eq!(line["events"], 22);
}

#[test]
fn messages_and_bytes_have_several_windows_and_plans() {
    let origin = service(vec![]);
    let windows = "messages: 100, per: 1h, windows: [{ messages: 50, bytes: 100B, per: 1h }]";
    let named = "plans: true, default: Mine";
    let plans = "plans: { Mine: { events: 100, per: 1h, windows: [{ events: 50, bytes: 100B, per: 1h }] } }";
    for (keys, more) in [(windows, ""), (named, plans)] {
        let route = format!("policies: [{{ websocket: {{ {keys}, on_limit: close }} }}]");
        let gateway = Plain { route: &route, more, ..Plain::default() }.start(&origin);
        let mut client = Client::open(&gateway, "/ws", "");
        client.text(&"a".repeat(40));
        client.expect(FIN | TEXT, "a".repeat(40).as_bytes());
        client.text("b");
        client.expect(FIN | TEXT, b"b");
        client.text(&"c".repeat(30));
        client.expect_close(1008);
    }
}

#[test]
fn messages_over_the_quota_are_dropped_until_the_next_window() {
    let origin = service(vec![]);
    let gateway = start(&origin, "messages: 4, per: 4s");
    let mut client = Client::open(&gateway, "/ws", "");
    for text in ["a", "b"] {
        client.text(text);
        client.expect(FIN | TEXT, text.as_bytes());
    }
    // The window has begun before.
    let start = Instant::now();
    // Two from the client and two back are four.
    for text in ["c", "d", "e"] {
        client.text(text);
    }
    client.expect(FIN | TEXT, NOTICE);
    client.send(FIN | PING, b"still here");
    client.expect(FIN | PONG, b"still here");
    std::thread::sleep(Duration::from_millis(4050).saturating_sub(start.elapsed()));
    client.text("f");
    client.expect(FIN | TEXT, b"f");
    client.text("g");
    client.expect(FIN | TEXT, b"g");
    client.text("h");
    client.expect(FIN | TEXT, NOTICE);
    let texts: Vec<String> =
        frames_at(&origin).into_iter().filter(|frame| frame.starts_with("129 ")).collect();
    assert_eq!(texts, ["129 a", "129 b", "129 f", "129 g"]);
    let dropped = metric(&gateway, "tidegate_websocket_messages_dropped_total{route=\"all\"}");
    assert!(dropped == Some(4.0), "{dropped:?}");
}

#[test]
fn bytes_have_a_quota_and_a_limit_may_close() {
    for (errors, code) in [("problem", 1008), ("wso2", 4008)] {
        let origin = service(vec![]);
        let policy = "policies: [{ websocket: { bytes: 10B, per: 1m, on_limit: close } }]";
        let gateway = start_with(&origin, &format!("{policy}, errors: {errors}"));
        let mut client = Client::open(&gateway, "/ws", "");
        client.text("12345");
        client.expect(FIN | TEXT, b"12345");
        client.text("");
        client.expect(FIN | TEXT, b"");
        client.text("6");
        client.expect_close(code);
        assert_eq!(log_line(&gateway)["stream_end"], "quota");
        until("the upstream is told", || {
            frames_at(&origin).last().is_some_and(|f| f.starts_with("136 "))
        });
        until("the upstream is left", || origin.open() == 0);
    }
}

#[test]
fn fragments_pass_no_more_bytes_than_a_window_has() {
    let (tells, told) = mpsc::channel();
    let origin = Origin::start(move |peer: &mut Peer| {
        peer.request();
        peer.send(SWITCH);
        while let Some(frame) = read(peer, true) {
            let is_last = frame.0 == FIN | CLOSE;
            tells.send(frame).unwrap();
            if is_last {
                return;
            }
        }
    });
    let gateway = start(&origin, "bytes: 10B, per: 1h");
    let mut client = Client::open(&gateway, "/ws", "");
    client.send(TEXT, b"1234567");
    client.send(0, b"890");
    client.send(0, b"1");
    client.expect_close(1008);
    assert_eq!(log_line(&gateway)["stream_end"], "quota");
    until("the upstream is left", || origin.open() == 0);
    let told: Vec<(u8, Vec<u8>)> = told.try_iter().collect();
    let texts: Vec<&[u8]> = told.iter().map(|(_, payload)| &payload[..]).collect();
    assert_eq!(texts.get(..2), Some(&[&b"1234567"[..], b"890"][..]));
    assert_eq!((told.len(), told[2].0), (3, FIN | CLOSE));
}

#[test]
fn a_notice_never_stands_within_a_message() {
    let gate = Gate::default();
    let opens = gate.clone();
    let origin = Origin::start(move |peer: &mut Peer| {
        peer.request();
        peer.send(SWITCH);
        peer.send(frame(TEXT, b"begun ", false));
        opens.wait();
        peer.send(frame(FIN, b"whole", false));
        peer.read_to_end();
    });
    let gateway = start(&origin, "messages: 1, per: 1m");
    let mut client = Client::open(&gateway, "/ws", "");
    client.expect(TEXT, b"begun ");
    client.text("dropped");
    client.text("dropped too");
    assert!(client.0.is_silent_for(Duration::from_millis(50)));
    gate.open();
    client.expect(FIN, b"whole");
    client.expect(FIN | TEXT, NOTICE);
    assert!(client.0.is_silent_for(Duration::from_millis(50)), "one notice in a window");
}

#[test]
fn too_large_malformed_and_no_text_close_both_sides() {
    let large = frame(FIN | BINARY, &[1; 101], true);
    let parts = [frame(TEXT, &[b'a'; 60], true), frame(FIN, &[b'a'; 60], true)].concat();
    for (bytes, code, end) in [
        (large, 1009, "too_large"),
        (parts, 1009, "too_large"),
        (frame(FIN | TEXT, b"unmasked", false), 1002, "malformed"),
        (frame(0xf0 | TEXT, b"bits", true), 1002, "malformed"),
        (frame(FIN | 3, b"opcode", true), 1002, "malformed"),
        (frame(FIN, b"nothing to go on with", true), 1002, "malformed"),
        (frame(FIN | CLOSE, &close(1005), true), 1002, "malformed"),
        (frame(FIN | TEXT, b"\xff", true), 1007, "malformed"),
        (frame(FIN | TEXT, b"cut \xc3", true), 1007, "malformed"),
    ] {
        let origin = service(vec![]);
        let gateway = start(&origin, "message_bytes_max: 100B");
        let mut client = Client::open(&gateway, "/ws", "");
        client.0.send(&bytes);
        client.expect_close(code);
        assert_eq!(log_line(&gateway)["stream_end"], end, "{bytes:?}");
        until("the upstream is told", || {
            frames_at(&origin).last().is_some_and(|frame| frame.starts_with("136 \\u{3}"))
        });
        until("the upstream is left", || origin.open() == 0);
    }
}

#[test]
fn an_upstream_that_breaks_the_rules_is_told_which() {
    for (push, client_sees, upstream_sees) in [
        (frame(FIN | BINARY, &[1; 101], false), 1009, 1009_u16),
        (frame(FIN | TEXT, b"\xc0\xaf", false), 1007, 1007),
        (frame(FIN | TEXT, b"masked", true), 1002, 1002),
    ] {
        let (sender, told) = std::sync::mpsc::channel();
        let origin = Origin::start(move |peer: &mut Peer| {
            peer.request();
            peer.send(SWITCH);
            peer.send(&push);
            while let Some((first, payload)) = read(peer, true) {
                if first == FIN | CLOSE {
                    sender.send(u16::from_be_bytes([payload[0], payload[1]])).unwrap();
                    peer.try_send(frame(first, &payload[..2], false));
                }
            }
        });
        let gateway = start(&origin, "message_bytes_max: 100B");
        let mut client = Client::open(&gateway, "/ws", "");
        client.expect_close(client_sees);
        assert_eq!(told.recv_timeout(Duration::from_secs(10)).unwrap(), upstream_sees);
        until("the upstream is left", || origin.open() == 0);
    }
}

#[test]
fn sides_that_go_without_a_word_are_told_of() {
    for (parts, code) in [
        (vec![], 1014),
        (vec![frame(FIN | TEXT, b"whole", false)], 1014),
        (vec![frame(TEXT, b"begun", false)], 1011),
        (vec![frame(FIN | TEXT, b"half a frame", false)[..5].to_vec()], 1011),
    ] {
        let expected: Vec<Vec<u8>> = parts.iter().filter(|part| part.len() > 5).cloned().collect();
        let origin = Origin::start(move |peer: &mut Peer| {
            peer.request();
            peer.send(SWITCH);
            parts.iter().for_each(|part| peer.send(part));
        });
        let gateway = start(&origin, "");
        let mut client = Client::open(&gateway, "/ws", "");
        for part in &expected {
            client.expect(part[0], &part[2..]);
        }
        client.expect_close(code);
        assert_eq!(log_line(&gateway)["stream_end"], "upstream_gone");
    }
    let origin = service(vec![]);
    let gateway = start(&origin, "");
    drop(Client::open(&gateway, "/ws", ""));
    until("the upstream is told", || frames_at(&origin) == ["136 \\u{3}�"]);
    until("the upstream is left", || origin.open() == 0);
    assert_eq!(log_line(&gateway)["stream_end"], "client_gone");
}

/// Patterns are those of ECMAScript, with a dash beside a class and an unnecessary backslash.
#[test]
fn patterns_of_schemas_are_those_of_ecmascript() {
    let schema = r#"{ "properties": { "name": { "pattern": "^[\\w-\\.]+\\_$" } }, "patternProperties": { "^[\\w-]+\\/$": { "type": "integer" } } }"#;
    let origin = service(vec![]);
    for (bad, good) in
        [(r#"{"name":"a b_"}"#, r#"{"name":"a-b.c_"}"#), (r#"{"a-b/":"x"}"#, r#"{"a-b/":1}"#)]
    {
        let route = "policies: [{ websocket: { schema: message.json } }]";
        let yaml = Plain { route, more: LOG, ..Plain::default() }.yaml(&origin);
        let gateway = Gateway::start_beside(yaml, &[("message.json", schema)]);
        let mut client = Client::open(&gateway, "/ws", "");
        client.text(good);
        client.expect(FIN | TEXT, good.as_bytes());
        client.text(bad);
        client.expect_close(1007);
    }
}

#[test]
fn messages_are_as_their_schema_says() {
    let schema = r#"{ "type": "object", "required": ["room"], "properties": { "room": { "type": "integer" } } }"#;
    for (errors, first, payload, code) in [
        ("problem", FIN | TEXT, &br#"{"room":"x"}"#[..], 1007),
        ("wso2", FIN | TEXT, br#"{"room":"x"}"#, 4010),
        ("problem", FIN | TEXT, b"no json", 1007),
        ("problem", FIN | BINARY, br#"{"room":1}"#, 1003),
    ] {
        let origin = service(vec![]);
        let policy = "policies: [{ websocket: { schema: message.json } }]";
        let route = format!("{policy}, errors: {errors}");
        let yaml = Plain { route: &route, more: LOG, ..Plain::default() }.yaml(&origin);
        let gateway = Gateway::start_beside(yaml, &[("message.json", schema)]);
        let mut client = Client::open(&gateway, "/ws", "");
        client.send(TEXT, br#"{"ro"#);
        client.send(FIN | PING, b"");
        client.expect(FIN | PONG, b"");
        client.send(0, b"");
        client.send(FIN, br#"om":1}"#);
        client.expect(FIN | TEXT, br#"{"room":1}"#);
        client.send(first, payload);
        client.expect_close(code);
        assert_eq!(log_line(&gateway)["stream_end"], "invalid");
        let texts = frames_at(&origin).iter().filter(|frame| frame.starts_with("129 ")).count();
        assert_eq!(texts, 1, "nothing of what is not valid has passed");
    }
}

#[test]
fn pings_find_sides_that_are_gone_and_idle_ones_are_closed() {
    let origin = service(vec![]);
    let gateway = start(&origin, "ping: 1s");
    let mut client = Client::open(&gateway, "/ws", "");
    let (first, ping) = read(&mut client.0, false).unwrap();
    assert_eq!((first, ping.len()), (FIN | PING, 8));
    client.send(FIN | PONG, &ping);
    // The upstream answers on its own, and neither side sees the pongs of the other.
    client.text("hello");
    until("an echo among pings", || {
        let (first, payload) = read(&mut client.0, false).unwrap();
        assert!(first == FIN | PING || payload == b"hello", "{first} {payload:?}");
        first == FIN | TEXT
    });
    assert!(!frames_at(&origin).iter().any(|frame| frame.starts_with("138 ")));
    // From here on the client is silent.
    until("it is closed", || {
        read(&mut client.0, false)
            .is_some_and(|(first, payload)| first == FIN | CLOSE && payload[..2] == close(1001))
    });
    assert_eq!(
        {
            drop(client);
            log_line(&gateway)
        }["stream_end"],
        "unanswered"
    );

    let gateway = start(&origin, "idle: 3s");
    let mut client = Client::open(&gateway, "/ws", "");
    std::thread::sleep(Duration::from_secs(2));
    client.send(FIN | PING, b"");
    client.expect(FIN | PONG, b"");
    client.expect_close(1001);
    let line = log_line(&gateway);
    assert_eq!(line["stream_end"], "idle");
    assert!(line["duration_ms"].as_f64().unwrap() < 4000.0, "pings are not messages: {line}");
}

#[test]
fn connections_are_bounded_and_other_requests_pass() {
    let origin = service(vec![]);
    let gateway = start(&origin, "connections: 2, by: header:x-who");
    let open = |who: &str| Client::ask(&gateway, "/ws", &format!("X-Who: {who}\r\n"));
    let held: Vec<_> = (0..2).map(|_| open("a")).collect();
    assert!(held.iter().all(|(status, _)| *status == 101));
    assert_eq!((open("a").0, open("b").0), (429, 101));
    drop(held);
    until("a place is free again", || open("a").0 == 101);
    let origin = Origin::saying("plain");
    let gateway = start(&origin, "connections: 1");
    for _ in 0..3 {
        assert_eq!(gateway.wire().get("/").text(), "plain");
    }
    // An answer that opens nothing gives its place back.
    for _ in 0..3 {
        assert_eq!(Client::ask(&gateway, "/ws", "").0, 200);
    }
}

fn with_tokens(origin: &Origin, policy: &str, errors: &str) -> Gateway {
    behind_tokens(origin, &format!(", {{ websocket: {{ {policy} }} }}"), errors)
}

/// With these policies after `jwt`.
fn behind_tokens(origin: &Origin, policies: &str, errors: &str) -> Gateway {
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\n{LOG}\nworkers: 1\n\
         upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\n\
         issuers: {{ main: {{ issuer: \"https://idp.test\", keys: [all.jwks], leeway: 0s }} }}\n\
         routes:\n  all:\n    match: {{ path: \"/ws/**\" }}\n    errors: {errors}\n    upstream: origin\n    \
         policies: [{{ jwt: {{ issuers: [main], query: access_token }} }}{policies}]\n",
        origin.url()
    );
    Gateway::start_beside(yaml, &[("all.jwks", jwks(&[&EC]).leak())])
}

fn token(scope: &str, seconds: u64) -> String {
    let exp = now() + seconds;
    EC.token(&json!({ "iss": "https://idp.test", "sub": "alice", "exp": exp, "scope": scope }))
}

#[test]
fn a_session_ends_with_its_token() {
    for (errors, code) in [("problem", 1008), ("wso2", 4001)] {
        let origin = service(vec![]);
        let gateway = with_tokens(&origin, "", errors);
        let target = format!("/ws/a?access_token={}&b=1", token("", 2));
        let mut client = Client::open(&gateway, &target, "");
        assert_eq!(origin.request().target(), "/ws/a?b=1", "the upstream sees no token");
        client.text("hello");
        client.expect(FIN | TEXT, b"hello");
        client.expect_close(code);
        assert_eq!(log_line(&gateway)["stream_end"], "expired");
        assert_eq!(Client::ask(&gateway, &target, "").0, 401);
        assert_eq!(Client::ask(&gateway, "/ws/a", "").0, 401);
    }
}

#[test]
fn a_session_ends_with_its_token_without_the_policy_too() {
    let origin = service(vec![]);
    let sessions = [("problem", 1008), ("wso2", 4001)].map(|(errors, code)| {
        let gateway = behind_tokens(&origin, "", errors);
        let target = format!("/ws/bare?access_token={}", token("", 12));
        let mut client = Client::open(&gateway, &target, "");
        client.text("hello");
        client.expect(FIN | TEXT, b"hello");
        (client, gateway, code)
    });
    for (mut client, _gateway, code) in sessions {
        client.expect_close(code);
    }
}

#[test]
fn topics_have_paths_and_scopes() {
    let policy = r#"topics: { "/room/{id}": { path: "/r/{id}", publish: [write], subscribe: [read] }, "/open": {} }"#;
    let push = vec![frame(FIN | TEXT, b"pushed", false)];
    let origin = service(push.clone());
    for (errors, code) in [("problem", 1008), ("wso2", 4007)] {
        let gateway = with_tokens(&origin, policy, errors);
        let open = |path: &str, scope: &str| {
            let lines = format!("Authorization: Bearer {}\r\n", token(scope, 60));
            Client::ask(&gateway, path, &lines)
        };
        assert_eq!(open("/ws/room/7", "other").0, 403);
        assert_eq!(open("/ws/rooms/7", "read write").0, 404);
        assert_eq!(open("/ws/room/7/8", "read write").0, 404);
        let (status, mut client) = open("/ws/room/7?q=1", "read write");
        assert_eq!(status, 101);
        client.text("both");
        client.expect(FIN | TEXT, b"both");
        assert_eq!(origin.requests()[0].target(), "/r/7?q=1");
        let (_, mut reads) = open("/ws/room/push", "read");
        reads.expect(FIN | TEXT, b"pushed");
        reads.text("not allowed");
        reads.expect_close(code);
        // A client that may only publish gets nothing.
        let (_, mut writes) = open("/ws/room/push", "write");
        writes.text("sent");
        assert!(writes.0.is_silent_for(Duration::from_millis(50)));
        let (status, mut anybody) = open("/ws/open", "");
        assert_eq!(status, 101);
        anybody.text("hi");
        anybody.expect(FIN | TEXT, b"hi");
        assert!(frames_at(&origin).iter().any(|frame| frame == "129 sent"));
        assert!(!frames_at(&origin).iter().any(|frame| frame.contains("not_allowed")));
        break_connections(&origin, vec![client, writes, anybody]);
    }
}

/// A request that an upstream would treat as a WebSocket is one for the policy.
#[test]
fn no_spelling_of_the_upgrade_goes_by_the_policy() {
    let origin = service(Vec::new());
    let gateway = with_tokens(&origin, r#"topics: { "/open": {} }"#, "problem");
    let ask = |path: &str, upgrade: &str, more: &str, body: &str| {
        gateway.wire().ask(format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nConnection: upgrade\r\n{upgrade}\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n{body}",
            token("", 60)
        ))
    };
    for upgrade in [
        "Upgrade: websocket",
        "Upgrade: websocket/13",
        "Upgrade: WebSocket / 13",
        "Upgrade: foo, websocket",
        "Upgrade: foo\r\nUpgrade: websocket/13",
    ] {
        assert_eq!(ask("/ws/secret", upgrade, "", "").status(), 404, "{upgrade}");
        let mut wire = gateway.wire();
        wire.send(format!(
            "GET /ws/open HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nConnection: upgrade\r\n{upgrade}\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            token("", 60)
        ));
        assert_eq!(wire.read_head().status(), 101, "{upgrade}");
        let seen = origin.requests().pop().unwrap();
        assert_eq!(seen.all("upgrade"), ["websocket"], "the upstream reads the same");
    }
    // An upstream would treat a body as the first frames, which no policy has checked.
    let reply = ask("/ws/open", "Upgrade: websocket", "Content-Length: 5\r\n", "hello");
    assert_eq!(reply.status(), 400);
}

#[test]
fn the_topic_that_says_more_of_a_path_is_meant_wherever_it_stands() {
    let origin = service(vec![]);
    let policy = r#"topics: { "/room/{id}": { path: "/r/{id}", publish: [write], subscribe: [read] },
        "/room/lobby": { path: /lobby } }"#;
    let gateway = with_tokens(&origin, policy, "problem");
    let lines = format!("Authorization: Bearer {}\r\n", token("", 60));
    let mut client = Client::open(&gateway, "/ws/room/lobby", &lines);
    client.text("hi");
    client.expect(FIN | TEXT, b"hi");
    assert_eq!(origin.requests()[0].target(), "/lobby");
    assert_eq!(Client::ask(&gateway, "/ws/room/7", &lines).0, 403);
}

#[test]
fn what_no_websocket_can_be_is_said_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    for (keys, said) in [
        ("schema: none.json", "name a file that can be read"),
        (
            r#"schema: none.json, topics: { "/a": { publish: [write] } }"#,
            "no policy identifies the client, so there is no subject",
        ),
        (
            r#"topics: { "/a/{x}": {}, "/a/{y}": {} }"#,
            "another topic matches the same paths as `/a/{y}`",
        ),
    ] {
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\n\
             upstreams: {{ a: {{ targets: [\"http://127.0.0.1:1\"] }} }}\n\
             routes: {{ all: {{ match: {{ path: \"/**\" }}, policies: [{{ websocket: {{ {keys} }} }}], upstream: a }} }}\n"
        );
        let path = folder.path().join("a.yaml");
        std::fs::write(&path, yaml).unwrap();
        let run = tidegate(&["check", path.to_str().unwrap()]);
        assert_eq!(run.code, Some(1), "{keys}");
        let is_said = run.stderr.contains(said) && run.stderr.contains("a.yaml:3:");
        assert!(is_said, "{keys}: {}", run.stderr);
    }
}

/// Ends them, and discards the origin's records.
fn break_connections(origin: &Origin, clients: Vec<Client>) {
    drop(clients);
    until("nothing is left at the upstream", || origin.open() == 0);
    origin.forget();
}

#[test]
fn a_changed_route_may_end_its_connections() {
    let origin = service(vec![]);
    let yaml = |keys: &str| {
        let route =
            format!("policies: [{{ websocket: {{ {keys} }} }}], streams: {{ reload: close }}");
        Plain { route: &route, more: LOG, ..Plain::default() }.yaml(&origin)
    };
    let gateway = Gateway::start(yaml("messages: 100, per: 1m"));
    let mut client = Client::open(&gateway, "/ws", "");
    client.text("hello");
    client.expect(FIN | TEXT, b"hello");
    crate::reload::put_ok(&gateway, &yaml("messages: 200, per: 1m"));
    client.expect_close(1001);
    assert_eq!(log_line(&gateway)["stream_end"], "leaving");
    until("the upstream is left", || origin.open() == 0);
}
