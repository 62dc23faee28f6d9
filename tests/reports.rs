//! Public bug reports about other gateways, integration runtimes and hubs, re-created here. Each test names its report.

use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::harness::{Gateway, Message, Origin, Plain};
use crate::hubs::{bodies, json_of, publish, start as hub};
use crate::queues;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const FAILED: &str = "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n";

fn post(gateway: &Gateway, target: &str, lines: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST {target} HTTP/1.1\r\nHost: a.test\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
    ))
}

/// wso2/product-integrator-mi 4544: a message processor sent another payload on its second attempt.
#[test]
fn a_message_that_is_tried_again_is_the_same() {
    let body = "{ \"a\" : [1.50, 1e3],\r\n  \"b\":\"\\u00e9 \\/ $1\", \"a\": null }";
    let origin = queues::origin(|count, _| if count < 3 { FAILED } else { OK });
    let gateway = Gateway::start(queues::yaml(&origin, ", retry: { attempts: 5, initial: 50ms }"));
    let lines = "Content-Type: application/json; charset=utf-8\r\nX-Own: one\r\n";
    assert_eq!(post(&gateway, "/in/x?y=%2F&z", lines, body).status(), 202);
    origin.wait_for_requests(4);
    let requests = origin.requests();
    for request in &requests {
        assert_eq!((request.text().as_str(), request.target()), (body, "/x?y=%2F&z"));
        assert_eq!(request.get("content-type"), Some("application/json; charset=utf-8"));
        assert_eq!(request.get("x-own"), Some("one"));
        assert_eq!(request.length(), Some(body.len()));
    }
}

/// wso2/product-integrator-mi 1137: a stored message without a body was never forwarded.
#[test]
fn a_message_without_a_body_passes_a_queue() {
    let origin = queues::origin(|_, _| OK);
    let gateway = Gateway::start(queues::yaml(&origin, ""));
    assert_eq!(gateway.wire().get("/in/empty").status(), 202);
    assert_eq!(post(&gateway, "/in/none", "", "").status(), 202);
    origin.wait_for_requests(2);
    let requests = origin.requests();
    let found: Vec<_> = requests.iter().map(|r| (r.method(), r.target(), r.body.len())).collect();
    assert_eq!(found, [("GET", "/empty", 0), ("POST", "/none", 0)]);
}

/// wso2/product-integrator-mi 2543 and wso2/product-ei 5346: `$`, carriage returns and backslashes in an argument of a payload.
#[test]
fn what_goes_into_a_template_stays_as_it_is() {
    let origin = Origin::echo();
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ echo: {{ targets: [\"{}\"] }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, flow: main }} }}\n\
         flows:\n  main:\n    - payload: {{ json: '{{\"v\":{{{{ $body.v }}}},\"s\":\"<{{{{ $body.v }}}}>\"}}' }}\n    - call: echo\n",
        origin.url()
    );
    let gateway = Gateway::start(yaml);
    for text in [
        "test $",
        "$1 ${x} $0",
        "a\r\nb\tc",
        "\\ \\n \"q\" '",
        "{{ $body }} {x}",
        "\u{0}\u{7f}\u{2028}é😀",
        "</script>&amp;",
    ] {
        let body = json!({ "v": text }).to_string();
        let reply = post(&gateway, "/", "Content-Type: application/json\r\n", &body);
        assert_eq!(reply.status(), 200, "{text:?}: {reply:?}");
        let read: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(read, json!({ "v": text, "s": format!("<{text}>") }));
    }
}

/// apache/apisix 10927: the question to an authorisation service said a length without a body, and the second one hung.
#[test]
fn a_question_to_an_authorisation_service_has_no_body() {
    let (origin, auth) = (Origin::echo(), Origin::answering("HTTP/1.1 204 No\r\n\r\n"));
    let route = format!("policies: [{{ forward_auth: {{ url: \"{}/v\" }} }}]", auth.url());
    let gateway = Plain { route: &route, ..Plain::default() }.start(&origin);
    let mut wire = gateway.wire();
    for round in 0..4 {
        let body = "x".repeat(round * 1000);
        let reply = wire.ask(format!(
            "POST /test HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert_eq!((reply.status(), reply.body.len()), (200, body.len()));
    }
    for question in auth.requests() {
        assert_eq!((question.method(), question.body.len()), ("GET", 0));
        assert!(question.length().is_none_or(|length| length == 0), "{question:?}");
        assert!(question.get("transfer-encoding").is_none());
    }
}

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// aspnet/KestrelHttpServer 1570, nodejs/node 60016, eclipse-vertx/vert.x 2648: a request for an upgrade that has a body. Its bytes could
/// be read as frames, or as the next request, or fill the memory.
#[test]
fn the_body_of_a_request_for_an_upgrade_is_never_read_as_something_else() {
    let origin = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            if request.get("upgrade").is_some() {
                peer.try_send(crate::websocket::SWITCH);
                return drop(peer.read_to_end());
            }
            peer.try_send(OK);
        }
    });
    let gateway = Gateway::before(&origin);
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    for lines in [
        format!("Content-Length: {}\r\n", smuggled.len()),
        "Transfer-Encoding: chunked\r\n".to_owned(),
        "Content-Length: 1000000000\r\n".to_owned(),
    ] {
        let mut wire = gateway.wire();
        wire.send(format!("GET /ws HTTP/1.1\r\nHost: a\r\n{UPGRADE}{lines}\r\n"));
        wire.try_send(smuggled);
        let status = wire.next_head().map(|head| head.status());
        assert_ne!(status, Some(101), "{lines}");
    }
    let targets: Vec<String> = origin.requests().iter().map(|r| r.target().to_owned()).collect();
    assert!(!targets.iter().any(|target| target == "/smuggled"), "{targets:?}");
    assert!(gateway.resident_bytes() < 256 << 20);
}

/// boostorg/beast 692, fastly/pushpin 47663: a 101 with a length.
#[test]
fn the_length_of_a_101_means_nothing() {
    let origin = Origin::start(|peer| {
        peer.request();
        peer.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2147483647\r\n\r\n");
        while let Some(byte) = peer.read_exact(1) {
            peer.send(byte);
        }
    });
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    wire.send(format!("GET /ws HTTP/1.1\r\nHost: a\r\n{UPGRADE}\r\n"));
    let head = wire.read_head();
    assert_eq!((head.status(), head.length()), (101, None), "{head:?}");
    wire.send("hello");
    assert_eq!(wire.read_exact(5).as_deref(), Some(&b"hello"[..]));
}

/// dunglas/mercure 704: a reader with an id that the hub had never assigned got nothing and waited without end.
#[test]
fn a_reader_with_an_id_that_was_never_given_gets_what_is_new() {
    let gateway = hub("");
    for text in ["one", "two"] {
        publish(&gateway, "sports", text);
    }
    let read = |more: &str, lines: &str| {
        gateway.wire().ask(format!(
            "GET /news/topics/sports{more} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{lines}\r\n"
        ))
    };
    assert_eq!(bodies(&json_of(&read("?after=1", ""))), ["two"]);
    assert_eq!(json_of(&read("?after=2", ""))["next"], "2");
    // It starts at the end, and the reply names that place.
    let ahead = json_of(&read("?after=1665666647", ""));
    assert_eq!((&ahead["events"], &ahead["next"]), (&json!([]), &json!("2")));
    let mut stream = gateway.wire();
    stream.send("GET /news/topics/sports HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\nLast-Event-ID: 1665666647\r\n\r\n");
    assert_eq!(stream.read_head().status(), 200);
    publish(&gateway, "sports", "three");
    let all = stream.read_until(b"data: three\n\n").expect("what is new");
    assert!(String::from_utf8(all).unwrap().contains("id: 3\n"));
}

/// spring-cloud/spring-cloud-gateway 580 and 3336: the second try of a POST had no body. 725: the reply after a retry had none.
#[test]
fn a_retry_has_the_body_and_its_reply_too() {
    let count = AtomicUsize::new(0);
    let origin = Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let reply = match number % 3 {
                2 => format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}",
                    request.body.len(),
                    request.text()
                ),
                _ => "HTTP/1.1 503 No\r\nContent-Length: 5\r\n\r\nwrong".to_owned(),
            };
            if !peer.try_send(reply) {
                return;
            }
        }
    });
    let upstream = "retry: { attempts: 2, when: [503] }";
    let gateway = Plain { upstream, ..Plain::default() }.start(&origin);
    let part = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--b--\r\n";
    for (lines, body) in [
        ("Content-Type: application/json\r\n", "{\"a\":1}"),
        ("Content-Type: multipart/form-data; boundary=b\r\n", part),
    ] {
        let reply = post(&gateway, "/", lines, body);
        assert_eq!((reply.status(), reply.text().as_str()), (200, body));
    }
    for request in origin.requests() {
        assert!(!request.body.is_empty(), "{request:?}");
    }
}

/// An origin whose reply is the value of a header, with these lines.
fn saying_of(header: &'static str, lines: &'static str) -> Origin {
    Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            let said = format!("{} {}", request.target(), request.get(header).unwrap_or("none"));
            let reply =
                format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: {}\r\n\r\n{said}", said.len());
            if !peer.try_send(reply) {
                return;
            }
        }
    })
}

/// apache/apisix 13831: a forged path had the cache key of another path's variant.
#[test]
fn no_path_and_no_header_reads_what_another_has_in_the_cache() {
    let origin = saying_of("x-of", "Cache-Control: max-age=600\r\nVary: X-Of\r\n");
    let gateway = Plain { route: "policies: [{ cache: {} }]", ..Plain::default() }.start(&origin);
    let values = ["", "a", "a\tb", "::__vary", "a, b", "x-of=a", "a\u{1}b"];
    let paths = ["/v", "/v::__vary", "/v%00x-of", "/v?x-of=a", "/v?a", "/v%0a", "/v;a"];
    for _ in 0..2 {
        for path in paths {
            for value in values {
                let line =
                    if value.is_empty() { String::new() } else { format!("X-Of: {value}\r\n") };
                let reply = gateway
                    .wire()
                    .ask(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n{line}\r\n"));
                if reply.status() == 400 {
                    continue;
                }
                assert_eq!(reply.status(), 200, "{path} {value:?}: {reply:?}");
                let expected = format!("{path} {}", if value.is_empty() { "none" } else { value });
                assert_eq!(reply.text(), expected, "{path} {value:?}");
            }
        }
    }
}

/// nextlyhq/nextly 1630: a directive with a list of fields was split at its comma, and the fields that it protects were cached.
#[test]
fn a_directive_that_names_fields_protects_them() {
    for control in [
        "private=\"Set-Cookie, X-User\", max-age=600",
        "no-cache=\"X-User, X-Other\", max-age=600",
        "max-age=600, private=\"X-User\"",
        "max-age=600, PRIVATE",
    ] {
        let lines: &'static str = format!("Cache-Control: {control}\r\nX-User: secret\r\n").leak();
        let origin = saying_of("x-of", lines);
        let gateway =
            Plain { route: "policies: [{ cache: {} }]", ..Plain::default() }.start(&origin);
        for who in ["one", "two"] {
            let reply =
                gateway.wire().ask(format!("GET /p HTTP/1.1\r\nHost: a\r\nX-Of: {who}\r\n\r\n"));
            let own = format!("/p {who}");
            let is_own = reply.text() == own;
            assert!(is_own || reply.get("x-user").is_none(), "{control}: {reply:?}");
            assert!(is_own, "{control}: {reply:?}");
        }
    }
}

/// Kong/kubernetes-ingress-controller 1031: a path that climbs from an allowed prefix to a forbidden one.
#[test]
fn no_path_climbs_past_a_policy() {
    let origin = Origin::echo();
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ origin: {{ targets: [\"{}\"] }} }}\n\
         routes:\n  operator: {{ match: {{ path: \"/api/operator/**\" }}, upstream: origin }}\n  \
         admin: {{ match: {{ path: \"/api/admin/**\" }}, policies: [{{ ip_filter: {{ allow: [192.0.2.1] }} }}], upstream: origin }}\n",
        origin.url()
    );
    let gateway = Gateway::start(yaml);
    assert_eq!(gateway.wire().get("/api/operator").status(), 200);
    assert_eq!(gateway.wire().get("/api/admin").status(), 403);
    origin.forget();
    for path in [
        "/api/operator/../admin",
        "/api/operator/%2e%2e/admin",
        "/api/operator/.%2E/admin",
        "/api/operator/..%2fadmin",
        "/api/operator/..%5cadmin",
        "/api/operator/..;/admin",
        "/api/operator/..;a=b/admin",
        "/api/operator/x/../../admin",
        "/api/operator//../admin",
        "/api//admin",
        "/api/./admin",
        "/API/admin",
        "/api/%61dmin",
        "/api/operator/%252e%252e/admin",
        "/api/operator/\\..\\admin",
    ] {
        let status = gateway.wire().get(path).status();
        for request in origin.requests() {
            let target = request.target().to_ascii_lowercase();
            assert!(
                target.starts_with("/api/operator") && !target.contains("/admin")
                    || target.contains("%252e"),
                "{path} led to {target} with {status}"
            );
        }
        assert_ne!(status, 500, "{path}");
    }
}

/// lyft/presto-gateway 46: line ends of a body were changed, and its length was not.
#[test]
fn a_body_with_any_line_ends_passes() {
    let origin = Origin::echo();
    let gateway = Plain {
        route: "policies: [{ headers: { request: { set: { x-a: b } } } }]",
        ..Plain::default()
    }
    .start(&origin);
    for body in ["a\r\nb\nc\rd\r\n\r\n", "\r\n", "\n\n\n", "\u{feff}x\r\n"] {
        let reply = post(&gateway, "/", "Content-Type: text/plain\r\n", body);
        assert_eq!((reply.status(), reply.text().as_str()), (200, body));
        assert_eq!(origin.request().length(), Some(body.len()));
        origin.forget();
    }
}

/// dunglas/mercure 586: a hub that is started again must not send events again to a reader that has had them.
#[test]
fn a_reader_that_comes_back_gets_nothing_twice_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = crate::hubs::start_in(folder.path(), "");
    let ids: Vec<String> =
        ["one", "two"].iter().map(|text| publish(&gateway, "sports", text)).collect();
    drop(gateway);
    let gateway = crate::hubs::start_in(folder.path(), "");
    let mut stream = gateway.wire();
    let last = &ids[1];
    stream.send(format!("GET /news/topics/sports HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\nLast-Event-ID: {last}\r\n\r\n"));
    assert_eq!(stream.read_head().status(), 200);
    publish(&gateway, "sports", "three");
    let said =
        String::from_utf8(stream.read_until(b"data: three\n\n").expect("the new one")).unwrap();
    assert!(!said.contains("one") && !said.contains("two"), "{said}");
}
