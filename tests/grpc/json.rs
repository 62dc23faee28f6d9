//! JSON for gRPC services. The service is scripted in HTTP/1, and clients use both versions.

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use hyper::Request;
use serde_json::{Value, json};

use super::{peers, shop};
use crate::harness::{Gate, Gateway, H2, Message, Origin, Plain, full, until};

const LOG: &str =
    "admin: { address: \"127.0.0.1:0\" }\ntelemetry: { access_log: { path: access.log } }";

const HEAD: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A message with its prefix.
fn frame(message: &[u8]) -> Vec<u8> {
    let len = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &len, message].concat()
}

/// A chunk of HTTP/1.
fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// An order with an id.
fn order(id: &str) -> Vec<u8> {
    let mut message = Vec::new();
    shop::bytes(1, id.as_bytes(), &mut message);
    message
}

/// A `google.rpc.Status` with an `ErrorInfo`.
fn details() -> Vec<u8> {
    let (mut info, mut any, mut status) = (Vec::new(), Vec::new(), Vec::new());
    shop::bytes(1, b"STOCK", &mut info);
    shop::bytes(2, b"shop.sample", &mut info);
    shop::bytes(1, b"type.googleapis.com/google.rpc.ErrorInfo", &mut any);
    shop::bytes(2, &info, &mut any);
    shop::varint(1, 5, &mut status);
    shop::bytes(3, &any, &mut status);
    status
}

/// A service that answers with the message that it got.
fn echo() -> Origin {
    replying(|body| {
        [HEAD.as_bytes(), &chunk(body), b"0\r\ngrpc-status: 0\r\nx-more: 1\r\n\r\n"].concat()
    })
}

/// A service that makes its reply of the request's body.
fn replying(reply: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> Origin {
    Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            peer.send(reply(&request.body));
        }
    })
}

/// A gateway with these keys of `grpc_json`.
fn start(origin: &Origin, keys: &str) -> Gateway {
    start_with(origin, &format!("grpc_json: {{ descriptors: shop.pb, {keys} }}"))
}

/// A gateway with these policies, and the descriptors of the shop.
fn start_with(origin: &Origin, policies: &str) -> Gateway {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.pb"), shop::set()).unwrap();
    start_in(folder, origin, policies)
}

/// A gateway with these policies, whose descriptors are in a folder.
fn start_in(folder: tempfile::TempDir, origin: &Origin, policies: &str) -> Gateway {
    let policies = format!("policies: [{policies}]");
    let yaml = Plain { route: &policies, more: LOG, ..Plain::default() }.yaml(origin);
    std::fs::write(folder.path().join("tidegate.yaml"), yaml).unwrap();
    Gateway::start_of(folder, "tidegate.yaml")
}

fn ask(gateway: &Gateway, start: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "{start} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

fn json_of(reply: &Message) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|why| panic!("{why}: {reply:?}"))
}

#[test]
fn requests_become_calls_and_replies_json() {
    let origin = echo();
    let gateway = start(&origin, "ignore_query: [key]");
    for (start, body, target, expected) in [
        (
            "GET /v1/orders/a%20b?totalQuantity=5&customer.address.city=B&tags=x&tags=y&key=s",
            "",
            "Get",
            json!({"id": "a b", "totalQuantity": "5", "customer": {"address": {"city": "B"}}, "tags": ["x", "y"]}),
        ),
        (
            "POST /v1/orders",
            r#"{"status":"OPEN","limit":3,"created":"2026-01-31T12:30:05Z","extra":{"a":[1]}}"#,
            "Create",
            json!({"status": "OPEN", "limit": 3, "created": "2026-01-31T12:30:05Z", "extra": {"a": [1]}}),
        ),
        ("PUT /v1/orders/7", r#"{"id":"8","note":0}"#, "Create", json!({"id": "7", "note": 0})),
        (
            "PATCH /v1/customers/ann/orders/1",
            r#"{"status":2}"#,
            "Update",
            json!({"status": "SHIPPED"}),
        ),
        ("POST /v1/orders/5:cancel", "", "Cancel", json!({"id": "5"})),
        ("POST /shop.v1.Orders/Plain", r#"{"gift":true}"#, "Plain", json!({"gift": true})),
    ] {
        let reply = ask(&gateway, start, body);
        assert_eq!((reply.status(), json_of(&reply)), (200, expected.clone()), "{start}");
        assert_eq!(reply.get("content-type"), Some("application/json"), "{start}");
        assert_eq!((reply.get("grpc-status"), reply.get("trailer")), (None, None));
        let sent = origin.requests().pop().unwrap();
        let path = format!("/shop.v1.Orders/{target}");
        assert_eq!((sent.method(), sent.target()), ("POST", &*path), "{start}");
        assert_eq!(sent.get("content-type"), Some("application/grpc"));

        let client = H2::connect(gateway.address("public"));
        let (method, path) = start.split_once(' ').unwrap();
        let request = Request::builder().method(method).uri(format!("http://a.test{path}"));
        let request = request.header("content-type", "application/json");
        let reply = client.ask(request.body(full(body.to_owned())).unwrap());
        let read: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!((reply.status, read), (200, expected), "{start}");
        assert_eq!(reply.trailers.get("x-more"), Some(&"1".parse().unwrap()));
        assert_eq!(reply.trailers.get("grpc-status"), None);
    }
}

/// The guide's definition, compiled by the guide's command, and its example.
#[test]
fn the_definition_of_the_guide_becomes_a_json_api() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/guide/grpc.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let block = |begin: &str| {
        let (_, rest) =
            guide.split_once(begin).unwrap_or_else(|| panic!("no {begin} in the guide"));
        rest.split_once("```").unwrap().0
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.proto"), block("```proto\n")).unwrap();
    let packages = peers::installed("python/packages");
    let mut protoc = Command::new(peers::installed("python/bin/python"));
    protoc.current_dir(&folder).args(["-m", "grpc_tools.protoc", "-I."]);
    protoc.arg(format!("-I{}", packages.display()));
    protoc.arg(format!("-I{}", packages.join("grpc_tools/_proto").display()));
    let compiled = protoc.args(block("```sh\nprotoc").split_whitespace()).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));

    let (mut called, mut made) = (order("7"), order("7"));
    shop::varint(2, 1, &mut called);
    shop::varint(2, 1250, &mut made);
    shop::bytes(3, b"tea", &mut made);
    let reply = [HEAD.as_bytes(), &chunk(&frame(&made)), b"0\r\ngrpc-status: 0\r\n\r\n"].concat();
    let origin = replying(move |_| reply.clone());
    let policy = "grpc_json: { descriptors: shop.pb, services: [shop.v1.Orders] }";
    let gateway = start_in(folder, &origin, policy);
    let reply = ask(&gateway, "GET /v1/orders/7?with_lines=true", "");
    let text = String::from_utf8_lossy(&reply.body);
    assert!(guide.contains(&format!("the reply is `{text}`")), "{text}");
    let sent = origin.requests().pop().unwrap();
    assert_eq!((sent.target(), &sent.body), ("/shop.v1.Orders/Get", &frame(&called)));
}

#[test]
fn streams_are_translated_for_some_clients() {
    let (first, next) = (chunk(&frame(&order("0"))), chunk(&frame(&order("1"))));
    let end = b"0\r\ngrpc-status: 0\r\n\r\n";
    let reply = [HEAD.as_bytes(), &first, &next, end].concat();
    let origin = replying(move |_| reply.clone());
    let policies = "{ api_key: { header: apikey, keys: { alice: sesame } } }, \
        { for: { subjects: [alice], policy: { grpc_json: { descriptors: shop.pb, stream: array } } } }";
    let gateway = start_with(&origin, policies);
    let reply = gateway.wire().ask("GET /v1/orders HTTP/1.1\r\nHost: a\r\napikey: sesame\r\n\r\n");
    assert_eq!(json_of(&reply), json!([{ "id": "0" }, { "id": "1" }]));
}

#[test]
fn what_the_service_cannot_take_is_refused() {
    let origin = echo();
    let gateway = start(&origin, "body_bytes_max: 1KiB");
    for (start, body, status, text) in [
        (
            "POST /v1/orders",
            r#"{"customer":{"x":1}}"#,
            400,
            "/customer/x: the message has no such field",
        ),
        ("POST /v1/orders", r#"{"tags":["a",1]}"#, 400, "/tags/1: it is not a string"),
        ("POST /v1/orders", "{", 400, "the JSON is not valid"),
        ("POST /v1/orders", "[]", 400, "it is not an object"),
        ("GET /v1/orders/1?x=1", "", 400, "/x: the message has no such field"),
        ("GET /v1/orders/1", "{}", 400, "takes parameters and no body"),
        ("GET /v1/nothing", "", 404, "There is no such operation."),
        ("DELETE /v1/orders/1", "", 405, "not allowed"),
        ("GET /v1/orders/%ff", "", 400, "the path is not UTF-8"),
    ] {
        let reply = ask(&gateway, start, body);
        assert_eq!(reply.status(), status, "{start} {body}");
        assert!(reply.text().contains(text), "{start} {body}: {}", reply.text());
        assert_eq!(reply.get("content-type"), Some("application/problem+json"));
    }
    assert_eq!(ask(&gateway, "DELETE /v1/orders/1", "").get("allow"), Some("GET, PUT"));
    let large = format!(r#"{{"id":"{}"}}"#, "x".repeat(2000));
    assert_eq!(ask(&gateway, "POST /v1/orders", &large).status(), 413);
    let typed = gateway.wire().ask(
        "POST /v1/orders HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
    );
    assert_eq!(typed.status(), 415);
    assert!(origin.requests().is_empty());
}

#[test]
fn calls_of_grpc_pass_unchanged() {
    let origin = echo();
    let gateway = start(&origin, "");
    let client = H2::connect(gateway.address("public"));
    let request = Request::post("http://a.test/shop.v1.Orders/Get")
        .header("content-type", "application/grpc");
    let reply = client.ask(request.body(full(frame(b"x"))).unwrap());
    assert_eq!(
        (&reply.body[..], &reply.trailers["grpc-status"]),
        (&*frame(b"x"), &"0".parse().unwrap())
    );
}

#[test]
fn statuses_become_those_of_http() {
    let origin = replying(|body| {
        let code = body.get(7..).unwrap_or_default();
        let code = String::from_utf8_lossy(code).into_owned();
        if let Some(code) = code.strip_prefix("head-") {
            let lines = format!("grpc-status: {code}\r\ngrpc-message: in%20head\r\nx-own: 1\r\n");
            return format!("HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n{lines}\r\n").into_bytes();
        }
        let details = STANDARD_NO_PAD.encode(details());
        [HEAD, &format!("0\r\ngrpc-status: {code}\r\ngrpc-message: no%20such%20%C3%A9\r\ngrpc-status-details-bin: {details}\r\n\r\n")].concat().into_bytes()
    });
    let gateway = start(&origin, "");
    for (code, status) in [(1, 499), (3, 400), (5, 404), (8, 429), (14, 503), (16, 401), (99, 500)]
    {
        let reply = ask(&gateway, &format!("GET /v1/orders/{code}"), "");
        assert_eq!(reply.status(), status, "{code}");
        assert_eq!(
            json_of(&reply),
            json!({
                "code": code,
                "message": "no such \u{e9}",
                "details": [{
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "STOCK",
                    "domain": "shop.sample",
                }],
            })
        );
    }
    let reply = ask(&gateway, "GET /v1/orders/head-7", "");
    assert_eq!(
        (reply.status(), reply.get("x-own"), reply.get("grpc-status")),
        (403, Some("1"), None)
    );
    assert_eq!(json_of(&reply), json!({"code": 7, "message": "in head", "details": []}));
    // A stream that fails before its reply begins.
    let reply = ask(&gateway, "GET /v1/orders?id=head-5", "");
    assert_eq!((reply.status(), reply.get("content-type")), (404, Some("application/json")));
}

#[test]
fn replies_that_are_not_valid_are_faults() {
    let origin = replying(|body| {
        let body = match body.get(7..).unwrap_or_default() {
            b"compressed" => chunk(b"\x01\0\0\0\0"),
            b"two" => chunk(&[frame(b""), frame(b"")].concat()),
            b"none" => Vec::new(),
            b"cut" => chunk(b"\0\0\0\0\x05a"),
            b"wrong" => chunk(&frame(b"\xff")),
            b"large" => chunk(&frame(&order(&"x".repeat(2000)))),
            b"bare" => return [HEAD, "5\r\n\0\0\0\0\0\r\n0\r\n\r\n"].concat().into_bytes(),
            b"html" => return b"HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<p/>".to_vec(),
            _ => return Vec::new(),
        };
        [HEAD.as_bytes(), &body, b"0\r\ngrpc-status: 0\r\n\r\n"].concat()
    });
    let gateway = start(&origin, "body_bytes_max: 1KiB");
    for of in ["compressed", "two", "none", "cut", "wrong", "large", "bare"] {
        let reply = ask(&gateway, &format!("GET /v1/orders/{of}"), "");
        assert_eq!(reply.status(), 502, "{of}");
        assert_eq!(reply.get("content-type"), Some("application/problem+json"), "{of}");
    }
    let reply = ask(&gateway, "GET /v1/orders/html", "");
    assert_eq!((reply.status(), reply.text()), (502, "<p/>".into()));
}

#[test]
fn an_upstream_that_is_gone_is_a_problem() {
    let origin = Origin::start(|peer| {
        let _ = peer.request();
        peer.send(HEAD);
    });
    let gateway = start(&origin, "");
    let reply = ask(&gateway, "GET /v1/orders/1", "");
    assert_eq!(
        (reply.status(), reply.get("content-type")),
        (502, Some("application/problem+json"))
    );
}

#[test]
fn bodies_of_any_type_and_single_fields_are_sent_as_they_are() {
    let origin = replying(|_| {
        let mut body = Vec::new();
        shop::bytes(1, b"text/csv", &mut body);
        shop::bytes(2, b"a,b\n", &mut body);
        [HEAD.as_bytes(), &chunk(&frame(&body)), b"0\r\ngrpc-status: 0\r\n\r\n"].concat()
    });
    let gateway = start(&origin, "");
    let reply = ask(&gateway, "GET /v1/files/a/b", "");
    assert_eq!((reply.status(), reply.get("content-type")), (200, Some("text/csv")));
    assert_eq!(reply.text(), "a,b\n");
}

#[test]
fn the_items_of_an_array_are_the_messages_of_a_stream() {
    let origin = replying(|body| {
        let first = body.get(..8).unwrap_or_default();
        let first = if first.is_empty() { frame(b"") } else { first.to_vec() };
        [HEAD.as_bytes(), &chunk(&first), b"0\r\ngrpc-status: 0\r\n\r\n"].concat()
    });
    let gateway = start(&origin, "prefix: /api");
    let reply = ask(&gateway, "POST /api/v1/uploads", r#"[{"id":"a"},{"id":"b"}]"#);
    assert_eq!((reply.status(), json_of(&reply)), (200, json!({"id": "a"})));
    let sent = origin.requests().pop().unwrap();
    assert_eq!(sent.body, [frame(&order("a")), frame(&order("b"))].concat());
    assert_eq!(ask(&gateway, "POST /api/v1/uploads", "[]").status(), 200);
    assert_eq!(ask(&gateway, "POST /v1/uploads", "[]").status(), 404);
}

/// Each message reaches the client before the service sends the next one.
#[test]
fn streams_are_seen_piece_by_piece() {
    for (form, content_type, pieces, end) in [
        ("array", "application/json", [r#"[{"id":"0"}"#, r#",{"id":"1"}"#], "]"),
        ("ndjson", "application/x-ndjson", ["{\"id\":\"0\"}\n", "{\"id\":\"1\"}\n"], ""),
        (
            "events",
            "text/event-stream",
            ["data: {\"id\":\"0\"}\n\n", "data: {\"id\":\"1\"}\n\n"],
            "",
        ),
    ] {
        let gates = [Gate::default(), Gate::default()];
        let behind = gates.clone();
        let origin = Origin::start(move |peer| {
            while peer.request().is_some() {
                peer.send(HEAD);
                for (id, gate) in ["0", "1"].into_iter().zip(&behind) {
                    // The message arrives in two pieces.
                    let message = frame(&order(id));
                    let (front, back) = message.split_at(6);
                    peer.send(chunk(front));
                    peer.send(chunk(back));
                    gate.wait();
                }
                peer.send("0\r\ngrpc-status: 0\r\nx-more: 1\r\n\r\n");
            }
        });
        let gateway = start(&origin, &format!("stream: {form}"));
        let mut wire = gateway.wire();
        wire.send("GET /v1/orders HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
        let head = wire.read_head();
        assert_eq!((head.status(), head.get("content-type")), (200, Some(content_type)));
        let mut seen = String::new();
        for (piece, gate) in pieces.into_iter().zip(&gates) {
            while !seen.ends_with(piece) {
                let chunk = wire.read_chunk().unwrap_or_else(|| panic!("{form}: {seen}"));
                seen.push_str(&String::from_utf8(chunk).unwrap());
            }
            gate.open();
        }
        while let Some(chunk) = wire.read_chunk().filter(|chunk| !chunk.is_empty()) {
            seen.push_str(&String::from_utf8(chunk).unwrap());
        }
        assert_eq!(seen, pieces.concat() + end, "{form}");
    }
}

#[test]
fn a_stream_that_fails_ends_with_its_status() {
    let status = r#"{"code":8,"message":"enough","details":[]}"#;
    for (form, expected) in [
        ("array", format!(r#"[{{"id":"0"}},{status}]"#)),
        ("ndjson", format!("{{\"id\":\"0\"}}\n{status}\n")),
        ("events", format!("data: {{\"id\":\"0\"}}\n\nevent: error\ndata: {status}\n\n")),
    ] {
        let origin = replying(|_| {
            let end = b"0\r\ngrpc-status: 8\r\ngrpc-message: enough\r\n\r\n";
            [HEAD.as_bytes(), &chunk(&frame(&order("0"))), end].concat()
        });
        let gateway = start(&origin, &format!("stream: {form}"));
        assert_eq!(ask(&gateway, "GET /v1/orders", "").text(), expected);
        let client = H2::connect(gateway.address("public"));
        assert_eq!(client.get("http://a.test/v1/orders").body, expected.as_bytes());
    }
}

#[test]
fn streams_end_early_when_they_must() {
    let origin = replying(|body| {
        let of = body.get(7..).unwrap_or_default();
        let mut sent = [HEAD.as_bytes(), &chunk(&frame(&order("0")))].concat();
        match of {
            b"empty" => return [HEAD, "0\r\ngrpc-status: 0\r\n\r\n"].concat().into_bytes(),
            b"large" => sent.extend(chunk(&frame(&order(&"x".repeat(2000))))),
            b"wrong" => sent.extend(chunk(&frame(b"\xff"))),
            b"cut" => sent.extend(chunk(b"\0\0\0\0\x05a")),
            _ => {}
        }
        sent.extend(b"0\r\ngrpc-status: 0\r\n\r\n");
        sent
    });
    let gateway = start(&origin, "body_bytes_max: 1KiB");
    assert_eq!(ask(&gateway, "GET /v1/orders?id=empty", "").text(), "[]");
    for of in ["large", "wrong", "cut"] {
        let mut wire = gateway.wire();
        wire.send(format!("GET /v1/orders?id={of} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let all = String::from_utf8(wire.read_to_end()).unwrap();
        assert!(all.contains(r#"[{"id":"0"}"#) && !all.ends_with("0\r\n\r\n"), "{of}: {all}");
    }
    let faults = || std::fs::read_to_string(gateway.path("access.log")).unwrap_or_default();
    until("the faults are logged", || faults().matches("reply_invalid").count() == 2);
    assert_eq!(faults().matches("reply_too_large").count(), 1);
}

#[test]
fn methods_are_the_operations_of_the_log() {
    let origin = echo();
    let gateway = start(&origin, "");
    assert_eq!(ask(&gateway, "GET /v1/orders/1", "").status(), 200);
    let log = || std::fs::read_to_string(gateway.path("access.log")).unwrap_or_default();
    until("the line is there", || log().contains("\"operation\":\"shop.v1.Orders/Get\""));
}
