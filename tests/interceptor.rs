//! `interceptor`: the calls of the service, the effect of its answers, and requests when it fails.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::{Authority, Backend, Gateway, H2, Message, Origin, Peer, Plain, full};

/// An interceptor that gives every call the same answer.
fn answering(status: u16, answer: &str) -> Origin {
    let length = answer.len();
    Origin::answering(format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{answer}"))
}

fn saying(answer: &Value) -> Origin {
    answering(200, &answer.to_string())
}

/// The bodies of the calls of a path that a service got.
fn told(service: &Origin, path: &str) -> Vec<Value> {
    let calls = service.requests().into_iter().filter(|call| call.target() == path);
    calls.map(|call| serde_json::from_slice(&call.body).expect("JSON")).collect()
}

/// A gateway before the origin that asks the service on the request.
fn on_request(origin: &Origin, service: &Origin, includes: &str) -> Gateway {
    intercepted(
        origin,
        &format!("request: {{ url: \"{}\", includes: [{includes}] }}", service.url()),
    )
}

fn on_response(origin: &Origin, service: &Origin, includes: &str) -> Gateway {
    intercepted(
        origin,
        &format!("response: {{ url: \"{}\", includes: [{includes}] }}", service.url()),
    )
}

fn intercepted(origin: &Origin, keys: &str) -> Gateway {
    let route = format!("policies: [{{ interceptor: {{ {keys} }} }}]");
    Plain { route: &route, ..Plain::default() }.start(origin)
}

fn post(gateway: &Gateway, lines: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST /a/b?c=d HTTP/1.1\r\nHost: api.test:81\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
    ))
}

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

#[track_caller]
fn assert_failed(reply: &Message, code: &str) {
    assert_eq!(reply.status(), 500, "{reply:?}");
    assert_eq!(reply.get("content-type"), Some("application/json"));
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    let members: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(members, ["error_message", "error_description", "code"]);
    assert_eq!(body["error_message"], "Internal Server Error");
    assert_eq!(body["code"], code, "{reply:?}");
}

#[test]
fn the_service_is_told_only_what_is_included() {
    let origin = Origin::saying("ok");
    for (includes, members) in [
        ("", &[][..]),
        ("request_headers", &["requestHeaders"]),
        ("request_body", &["requestBody"]),
        ("request_trailers", &["requestTrailers"]),
        ("invocation_context", &["invocationContext"]),
        (
            "request_headers, request_body, request_trailers, invocation_context",
            &["requestHeaders", "requestTrailers", "requestBody", "invocationContext"],
        ),
    ] {
        let service = answering(204, "");
        let gateway = on_request(&origin, &service, includes);
        let reply = post(&gateway, "X-A: 1\r\nx-a: 2\r\nX-Odd: \"\\\r\n", "hello");
        assert_eq!(reply.text(), "ok");
        let call = service.request();
        assert_eq!(call.start, "POST /api/v1/handle-request HTTP/1.1");
        assert_eq!(call.get("content-type"), Some("application/json"));
        let told = &told(&service, "/api/v1/handle-request")[0];
        let names: Vec<&String> = told.as_object().unwrap().keys().collect();
        assert_eq!(names, members, "{includes}");
        if let Some(headers) = told.get("requestHeaders") {
            assert_eq!(headers["x-a"], "1, 2");
            assert_eq!(headers["x-odd"], "\"\\");
            assert_eq!(headers["host"], "api.test:81");
        }
        if let Some(body) = told.get("requestBody") {
            assert_eq!(body, &json!(encoded("hello")));
        }
    }
}

#[test]
fn the_invocation_context_says_who_asks_for_what() {
    let origin = Origin::saying("ok");
    let service = answering(204, "");
    let route = format!(
        r#"match: {{ path: "/a/{{id}}", methods: [GET, POST] }}, upstream: origin, policies: [{{ interceptor: {{ request: {{ url: "{}", includes: [invocation_context] }}, api: {{ version: "1.2", base_path: /x }} }} }}]"#,
        service.url()
    );
    let gateway = Gateway::start(format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ origin: {{ targets: [\"{}\"] }} }}\nroutes: {{ pets: {{ {route} }} }}",
        origin.url()
    ));
    post(&gateway, "X-Request-Id: id-7\r\n", "");
    let told = &told(&service, "/api/v1/handle-request")[0]["invocationContext"];
    let source = told["source"].as_str().unwrap();
    assert!(source.starts_with("127.0.0.1:"), "{source}");
    let expected = json!({
        "requestId": "id-7", "protocol": "HTTP/1.1", "scheme": "http", "apiName": "pets",
        "apiVersion": "1.2", "vhost": "api.test", "supportedMethods": "GET POST", "method": "POST",
        "basePath": "/x", "path": "/a/b?c=d", "pathTemplate": "/a/{id}", "source": source,
        "prodClusterName": "origin", "sandClusterName": "", "authenticationContext": {},
    });
    assert_eq!(told, &expected);
}

/// In Choreo Connect's contract, the authentication context has the token, whether or not the upstream gets it.
#[test]
fn the_authentication_context_has_the_token() {
    use crate::tokens::{EC, jwks, now};
    let token = EC.token(&json!({ "iss": "https://idp.test", "sub": "a", "exp": now() + 600 }));
    for (errors, keys, has) in
        [("problem", "", false), ("wso2", "", true), ("problem", "token: true, ", true)]
    {
        let (origin, service) = (Origin::saying("ok"), answering(204, ""));
        let route = format!(
            "errors: {errors}, policies: [{{ jwt: {{ issuers: [main] }} }}, {{ interceptor: {{ {keys}request: {{ url: \"{}\", includes: [invocation_context] }} }} }}]",
            service.url()
        );
        let more = "issuers: { main: { issuer: \"https://idp.test\", keys: [keys.jwks] } }";
        let yaml = Plain { route: &route, more, ..Plain::default() }.yaml(&origin);
        let gateway = Gateway::start_beside(yaml, &[("keys.jwks", &jwks(&[&EC]))]);
        let line = format!("Authorization: Bearer {token}\r\n");
        assert_eq!(post(&gateway, &line, "").status(), 200);
        let told = &told(&service, "/api/v1/handle-request")[0]["invocationContext"];
        let told = told["authenticationContext"]["token"].as_str().unwrap();
        assert_eq!(told, if has { &token } else { "" }, "{errors} {keys}");
        assert_eq!(origin.request().get("authorization"), None);
    }
}

#[test]
fn what_was_said_of_a_replaced_body_is_dropped() {
    const LINES: &str =
        "Content-Digest: x\r\nRepr-Digest: x\r\nDigest: x\r\nContent-MD5: x\r\nX-A: 1\r\n";
    let names = ["content-digest", "repr-digest", "digest", "content-md5", "etag", "accept-ranges"];
    for (body, kept) in [(true, false), (false, true)] {
        let origin = Origin::answering(format!(
            "HTTP/1.1 200 OK\r\n{LINES}ETag: \"a\"\r\nAccept-Ranges: bytes\r\nContent-Length: 2\r\n\r\nok"
        ));
        let answer = if body {
            json!({ "body": encoded("new"), "headersToAdd": { "X-B": "2" } })
        } else {
            json!({ "headersToAdd": { "X-B": "2" } })
        };
        let service = saying(&answer);
        assert_eq!(
            post(&on_request(&origin, &service, "request_body"), LINES, "old").status(),
            200
        );
        let seen = origin.requests().remove(0);
        assert_eq!((seen.get("x-a"), seen.get("x-b")), (Some("1"), Some("2")));
        let reply = post(&on_response(&origin, &service, "response_body"), "", "old");
        assert_eq!((reply.get("x-a"), reply.get("x-b")), (Some("1"), Some("2")));
        for name in names {
            assert_eq!(reply.get(name).is_some(), kept, "{name} {answer}");
        }
        for name in &names[..4] {
            assert_eq!(seen.get(name).is_some(), kept, "{name} {answer}");
        }
    }
}

#[test]
fn lines_are_removed_then_replaced_then_added() {
    let origin = Origin::saying("ok");
    let service = saying(&json!({
        "headersToRemove": ["X-Gone", "x-both", "x-wso2-kept", "Host", "content-length"],
        "headersToReplace": { "x-both": "replaced", "X-New": "set", "x-envoy-a": "no", "content-length": "1" },
        "headersToAdd": { "x-both": "added", "x-wso2-new": "no", "Transfer-Encoding": "chunked" },
    }));
    let gateway = on_request(&origin, &service, "request_headers");
    let lines = "X-Gone: 1\r\nX-Both: 1\r\nX-Both: 2\r\nX-WSO2-Kept: 1\r\n";
    assert_eq!(post(&gateway, lines, "hello").status(), 200);
    let seen = origin.request();
    assert_eq!(seen.all("x-both"), ["replaced", "added"]);
    assert_eq!((seen.get("x-gone"), seen.get("x-new")), (None, Some("set")));
    assert_eq!((seen.get("x-wso2-kept"), seen.get("x-wso2-new")), (Some("1"), None));
    assert_eq!((seen.get("x-envoy-a"), seen.get("host")), (None, Some("api.test:81")));
    assert_eq!((seen.length(), seen.text().as_str()), (Some(5), "hello"));
}

#[test]
fn the_body_is_replaced_and_its_length_is_right() {
    let origin = Origin::echo();
    for body in ["a body that is longer than it was", "", "x"] {
        let service = saying(&json!({ "body": encoded(body) }));
        let gateway = on_request(&origin, &service, "request_body");
        assert_eq!(post(&gateway, "", "hello").text(), body);
        let seen = origin.requests().pop().unwrap();
        assert_eq!(seen.length(), Some(body.len()));
    }
}

#[test]
fn an_empty_body_is_still_said_to_be_one() {
    let origin = Origin::saying("ok");
    let service = saying(&json!({}));
    let gateway = on_request(&origin, &service, "request_body");
    assert_eq!(post(&gateway, "", "").status(), 200);
    assert_eq!(origin.request().length(), Some(0));
}

#[test]
fn a_body_that_was_not_included_is_not_replaced_nor_is_anything_else() {
    let origin = Origin::echo();
    let service = saying(&json!({ "body": encoded("other"), "headersToAdd": { "x-a": "1" } }));
    let gateway = on_request(&origin, &service, "request_headers");
    assert_eq!(post(&gateway, "", "hello").text(), "hello");
    assert_eq!(origin.request().get("x-a"), None);
    gateway.wait_for_log("`includes` does not list `request_body`");
    let gateway = on_response(&origin, &service, "response_headers");
    let reply = post(&gateway, "", "hello");
    assert_eq!((reply.text().as_str(), reply.get("x-a")), ("hello", None));
    gateway.wait_for_log("`includes` does not list `response_body`");
}

#[test]
fn a_direct_answer_skips_the_backend_and_the_response_interceptor() {
    let origin = Origin::saying("ok");
    for (answer, status, body) in [
        (json!({ "directRespond": true }), 204, ""),
        (json!({ "directRespond": true, "body": encoded("hi") }), 200, "hi"),
        (json!({ "directRespond": true, "responseCode": 418, "body": encoded("tea") }), 418, "tea"),
    ] {
        let mut answer = answer;
        answer["headersToAdd"] = json!({ "x-a": "1", "x-wso2-b": "1" });
        let service = saying(&answer);
        let url = service.url();
        let keys = format!("request: {{ url: \"{url}\" }}, response: {{ url: \"{url}\" }}");
        let reply = post(&intercepted(&origin, &keys), "", "hello");
        assert_eq!((reply.status(), reply.text().as_str()), (status, body));
        assert_eq!((reply.get("x-a"), reply.get("x-wso2-b")), (Some("1"), None));
        assert_eq!(service.request().target(), "/api/v1/handle-request");
    }
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn a_dynamic_endpoint_is_another_upstream() {
    let (origin, other) = (Origin::saying("origin"), Origin::saying("other"));
    let more = |name: &str| {
        let service = saying(&json!({ "dynamicEndpoint": { "endpointName": name } }));
        let gateway = Gateway::start(format!(
            r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ origin: {{ targets: ["{}"] }}, other: {{ targets: ["{}"] }} }}
routes: {{ all: {{ upstream: origin, policies: [{{ interceptor: {{ request: {{ url: "{}" }} }} }}], match: {{ path: "/**" }} }} }}
"#,
            origin.url(),
            other.url(),
            service.url()
        ));
        post(&gateway, "", "x")
    };
    assert_eq!(more("other").text(), "other");
    assert_eq!(more("origin").text(), "origin");
    assert_failed(&more("nowhere"), "103500");
}

#[test]
fn the_path_is_rewritten() {
    let origin = Origin::saying("ok");
    for (path, seen) in [("/new/path", "/new/path?c=d"), ("/new?x=y", "/new?x=y")] {
        let service = saying(&json!({ "pathToRewrite": path }));
        let gateway = on_request(&origin, &service, "");
        post(&gateway, "", "x");
        assert_eq!(origin.requests().pop().unwrap().target(), seen);
    }
    for path in ["new", "/a b", "/a\r\nX: y", ""] {
        let service = saying(&json!({ "pathToRewrite": path }));
        assert_failed(&post(&on_request(&origin, &service, ""), "", "x"), "103501");
    }
}

#[test]
fn the_context_comes_back_with_the_reply() {
    let origin = Origin::answering(
        "HTTP/1.1 201 Made\r\nX-Reply: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-End: 9\r\n\r\n",
    );
    let service = Origin::start(|peer: &mut Peer| {
        while let Some(call) = peer.request() {
            let answer = match call.target() {
                "/api/v1/handle-request" => {
                    json!({ "interceptorContext": { "a": "1", "b": "\"" } })
                }
                _ => json!({
                    "responseCode": 202, "headersToReplace": { "x-reply": "2" },
                    "body": encoded("changed"), "trailersToAdd": { "x-more": "1" },
                }),
            };
            let text = answer.to_string();
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()));
        }
    });
    let url = service.url();
    let all = "request_headers, request_body, request_trailers, response_headers, response_body, response_trailers, invocation_context";
    let keys =
        format!("request: {{ url: \"{url}\" }}, response: {{ url: \"{url}\", includes: [{all}] }}");
    let gateway = intercepted(&origin, &keys);
    let reply = gateway.wire().ask(
        "POST /p HTTP/1.1\r\nHost: a\r\nX-Ask: 1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Last: 3\r\n\r\n",
    );
    assert_eq!((reply.status(), reply.text().as_str()), (202, "changed"));
    assert_eq!(reply.get("x-reply"), Some("2"));
    assert!(reply.trailers.contains(&("X-End".to_owned(), "9".to_owned())), "{reply:?}");
    assert!(reply.trailers.contains(&("x-more".to_owned(), "1".to_owned())), "{reply:?}");
    let told = &told(&service, "/api/v1/handle-response")[0];
    assert_eq!(told["responseCode"], 201);
    assert_eq!(told["interceptorContext"], json!({ "a": "1", "b": "\"" }));
    assert_eq!(told["requestHeaders"]["x-ask"], "1");
    assert_eq!(told["requestBody"], json!(encoded("hello")));
    assert_eq!(told["requestTrailers"], json!({ "x-last": "3" }));
    assert_eq!(told["responseHeaders"]["x-reply"], "1");
    assert_eq!(told["responseBody"], json!(encoded("ok")));
    assert_eq!(told["responseTrailers"], json!({ "x-end": "9" }));
    assert_eq!(told["invocationContext"]["method"], "POST");
}

#[test]
fn trailers_of_requests_are_told_and_changed() {
    let origin = Origin::saying("ok");
    let service = saying(&json!({
        "trailersToRemove": ["x-gone"], "trailersToReplace": { "x-set": "2" },
        "trailersToAdd": { "x-new": "3", "x-wso2-no": "1" },
    }));
    let gateway = on_request(&origin, &service, "request_trailers");
    gateway.wire().ask(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Gone: 1\r\nX-Set: 1\r\nx-gone: 2\r\n\r\n",
    );
    let told = &told(&service, "/api/v1/handle-request")[0];
    assert_eq!(told, &json!({ "requestTrailers": { "x-gone": "1, 2", "x-set": "1" } }));
    let seen = origin.request();
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(seen.trailers, [pair("x-set", "2"), pair("x-new", "3")]);
    assert_eq!(seen.text(), "hi");
}

#[test]
fn trailers_reach_clients_of_http2() {
    let origin = Origin::saying("ok");
    let service = saying(&json!({ "trailersToAdd": { "x-end": "7" } }));
    let gateway = on_response(&origin, &service, "response_trailers");
    let h2 = H2::connect(gateway.address("public"));
    let reply = h2.ask(hyper::Request::post("http://a.test/").body(full("hello")).unwrap());
    assert_eq!((reply.status, &reply.body[..]), (200, &b"ok"[..]));
    assert_eq!(reply.trailers.get("x-end").unwrap(), "7");
}

#[test]
fn no_content_changes_nothing() {
    let origin = Origin::echo();
    let service = answering(204, "");
    let url = service.url();
    let includes = "includes: [request_body]";
    let keys = format!(
        "request: {{ url: \"{url}\", {includes} }}, response: {{ url: \"{url}\", includes: [response_body] }}"
    );
    let reply = post(&intercepted(&origin, &keys), "X-A: 1\r\n", "hello");
    assert_eq!((reply.status(), reply.text().as_str()), (200, "hello"));
    assert_eq!(origin.request().get("x-a"), Some("1"));
    assert_eq!(service.requests().len(), 2);
}

#[test]
fn failures_of_the_service_have_the_codes_of_the_contract() {
    let origin = Origin::saying("ok");
    let huge = format!("{{\"body\":\"{}\"}}", "A".repeat(3 << 20));
    for (status, answer, code) in [
        (503, "{}", "103500"),
        (404, "", "103500"),
        (201, "{}", "103500"),
        (302, "", "103500"),
        (200, huge.as_str(), "103500"),
        (200, "", "103501"),
        (200, "{", "103501"),
        (200, "[]", "103501"),
        (200, "\"text\"", "103501"),
        (200, r#"{"body": "*"}"#, "103501"),
        (200, r#"{"headersToAdd": {"x": 1}}"#, "103501"),
        (200, r#"{"headersToAdd": {"x": "a\r\nb: c"}}"#, "103501"),
        (200, r#"{"headersToAdd": {"x y": "a"}}"#, "103501"),
        (200, r#"{"directRespond": 1}"#, "103501"),
        (200, r#"{"directRespond": true, "directRespond": false}"#, "103501"),
        (200, r#"{"headersToReplace": {"x-user": "a", "x-user": "b"}}"#, "103501"),
        (200, r#"{"headersToAdd": {"x-user": "a", "x-\u0075ser": "b"}}"#, "103501"),
        (200, r#"{"interceptorContext": {"a": "1", "a": "2"}}"#, "103501"),
        (200, r#"{"responseCode": 7}"#, "103501"),
    ] {
        let service = answering(status, answer);
        for gateway in [
            on_request(&origin, &service, "request_body"),
            on_response(&origin, &service, "response_body"),
        ] {
            let reply = post(&gateway, "", "hello");
            assert_failed(&reply, code);
            // The cause is the operator's to read.
            gateway.wait_for_log("interceptor");
        }
    }
    let seen = origin.requests().len();
    assert_eq!(seen, 19, "a request that failed before the backend reached it");
}

#[test]
fn a_service_that_is_down_or_talks_nonsense_fails_the_request() {
    let origin = Origin::saying("ok");
    let gone = Origin::saying("").url();
    let keys = format!("request: {{ url: \"{gone}\" }}");
    assert_failed(&post(&intercepted(&origin, &keys), "", "hello"), "103500");
    for nonsense in ["", "HELLO\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"] {
        let service = Origin::start(move |peer: &mut Peer| {
            peer.request();
            peer.send(nonsense);
        });
        assert_failed(&post(&on_request(&origin, &service, ""), "", "hello"), "103500");
    }
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn a_slow_service_never_holds_a_request_past_its_deadline() {
    let origin = Origin::saying("ok");
    for part in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"] {
        let service = Origin::start(move |peer: &mut Peer| {
            peer.request();
            peer.send(part);
            peer.is_closed();
        });
        let url = service.url();
        for keys in [
            format!("request: {{ url: \"{url}\", timeout: 200ms }}"),
            format!("response: {{ url: \"{url}\", timeout: 200ms, includes: [response_body] }}"),
        ] {
            let gateway = intercepted(&origin, &keys);
            let began = Instant::now();
            assert_failed(&post(&gateway, "", "hello"), "103500");
            let took = began.elapsed();
            assert!(
                took >= Duration::from_millis(200) && took < Duration::from_secs(5),
                "{took:?}"
            );
        }
    }
}

#[test]
fn connections_to_the_service_are_kept() {
    let origin = Origin::saying("ok");
    let service = answering(204, "");
    let gateway = on_request(&origin, &service, "request_headers");
    let mut wire = gateway.wire();
    (0..20).for_each(|_| assert_eq!(wire.get("/").status(), 200));
    assert_eq!((service.requests().len(), service.accepted()), (20, 1));
}

#[test]
fn tls_of_the_service_is_checked_and_shown_who_we_are() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let origin = Origin::saying("ok");
    let call = |peer: &mut Peer| {
        while peer.request().is_some() && peer.try_send("HTTP/1.1 204 No Content\r\n\r\n") {}
    };
    let plain = Origin::start_tls(authority.server("127.0.0.1", None), call);
    let mutual = Origin::start_tls(authority.server("127.0.0.1", Some(&authority)), call);
    let client = authority.issue("gateway");
    let (ca, other) = (authority.pem(), stranger.pem());
    let files = [
        ("ca.pem", ca.as_str()),
        ("other.pem", other.as_str()),
        ("client.pem", client.certificate.as_str()),
        ("client.key", client.key.as_str()),
    ];
    let shown = "ca: ca.pem, certificate: client.pem, key: client.key";
    for (service, tls, works) in [
        (&plain, "ca: ca.pem", true),
        (&plain, "ca: other.pem", false),
        (&mutual, "ca: ca.pem", false),
        (&mutual, shown, true),
    ] {
        let url = format!("https://{}", service.address());
        let route = format!(
            "policies: [{{ interceptor: {{ request: {{ url: \"{url}\", tls: {{ {tls} }} }} }} }}]"
        );
        let yaml = Plain { route: &route, ..Plain::default() }.yaml(&origin);
        let reply = post(&Gateway::start_beside(yaml, &files), "", "hello");
        if works {
            assert_eq!(reply.text(), "ok", "{tls}")
        } else {
            assert_failed(&reply, "103500")
        }
    }
}

/// `tidegate backend interceptor` that adds its name.
fn replica(name: &str) -> Backend {
    let answer = json!({ "headersToAdd": { "x-by": name } }).to_string();
    Backend::start("interceptor", &["--request-answer", &answer])
}

#[test]
fn two_replicas_share_the_calls_and_one_may_die() {
    let origin = Origin::saying("ok");
    let (mut one, two) = (replica("one"), replica("two"));
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
upstreams: {{ origin: {{ targets: ["{}"] }}, asked: {{ targets: ["{}", "{}"] }} }}
routes:
  all:
    match: {{ path: "/**" }}
    upstream: origin
    policies: [{{ interceptor: {{ request: {{ upstream: asked }} }} }}]
"#,
        origin.url(),
        one.url,
        two.url
    ));
    let mut wires: Vec<_> = (0..4).map(|_| gateway.wire()).collect();
    let mut round = || {
        let sent = wires.iter_mut().map(|wire| wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        sent.for_each(drop);
        wires.iter_mut().for_each(|wire| assert_eq!(wire.read_reply().status(), 200));
    };
    (0..10).for_each(|_| round());
    let by = |name: &str| {
        let requests = origin.requests();
        requests.iter().filter(|request| request.get("x-by") == Some(name)).count()
    };
    assert_eq!((by("one"), by("two")), (20, 20));
    one.kill();
    // None was in progress, so none is lost.
    (0..25).for_each(|_| round());
    assert_eq!((by("one"), by("two")), (20, 120));
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let origin = Origin::saying("ok");
    let service = answering(204, "");
    let url = service.url();
    let keys =
        format!("request: {{ url: \"{url}\", includes: [request_body], body_bytes_max: 1KiB }}");
    assert_eq!(post(&intercepted(&origin, &keys), "", &"x".repeat(2000)).status(), 413);
    // A body that the service enlarges beyond the limit is refused too.
    let larger = saying(&json!({ "body": encoded(&"x".repeat(2000)) }));
    let keys = keys.replace(&url, &larger.url());
    assert_failed(&post(&intercepted(&origin, &keys), "", "x"), "103500");
    // Without the body among its includes any length streams through.
    let gateway = on_request(&origin, &service, "request_headers");
    assert_eq!(post(&gateway, "", &"x".repeat(3 << 20)).status(), 200);
}

#[test]
fn mistakes_are_said_with_their_place() {
    for (keys, what) in [
        ("{}", "an interceptor needs `request` or `response`"),
        ("{ request: {} }", "an interceptor needs `url` or `upstream`"),
        ("{ request: { url: \"http://a:1\", upstream: origin } }", "cannot be combined"),
        (
            "{ request: { upstream: orgin } }",
            "there is no upstream `orgin`; did you mean `origin`?",
        ),
        (
            "{ request: { url: \"http://a:1\", includes: [response_body] } }",
            "`response_body` is not available",
        ),
        (
            "{ request: { url: \"http://a:1\", includes: [request_boby] } }",
            "did you mean `request_body`?",
        ),
        ("{ request: { url: \"ftp://a:1\" } }", "neither http nor https"),
        (
            "{ request: { upstream: origin, tls: { verify: false } } }",
            "`tls` cannot be combined with `upstream`",
        ),
        (
            "{ request: { url: \"http://a:1\" }, endpoints: { a: { upstream: b } } }",
            "there is no upstream `b`",
        ),
    ] {
        let yaml =
            Plain { route: &format!("policies: [{{ interceptor: {keys} }}]"), ..Plain::default() };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tidegate.yaml");
        std::fs::write(&path, yaml.yaml(&Origin::saying(""))).unwrap();
        let run = crate::harness::tidegate(&["check", path.to_str().unwrap()]);
        assert_eq!(run.code, Some(1), "{keys}: {run:?}");
        assert!(run.stderr.contains(what) || run.stdout.contains(what), "{keys}: {run:?}");
    }
}

/// An answer with two values of one name has two readings, and one with a great many names would hold up all others.
#[test]
fn an_answer_with_two_readings_or_too_many_names_fails_the_request() {
    let origin = Origin::saying("ok");
    let names: serde_json::Map<String, Value> =
        (0..20_000).map(|number| (format!("a{number}"), json!(""))).collect();
    let list: Vec<&String> = names.keys().collect();
    for answer in [
        r#"{"headersToReplace": {"x-a": "1", "x-a": "2"}}"#.to_owned(),
        r#"{"headersToAdd": {"x-a": "1", "x-\u0061": "2"}}"#.to_owned(),
        r#"{"dynamicEndpoint": {"endpointName": "a", "endpointName": "b"}}"#.to_owned(),
        r#"{"interceptorContext": {"a": "1", "a": "2"}}"#.to_owned(),
        json!({ "headersToReplace": names }).to_string(),
        json!({ "headersToRemove": list }).to_string(),
    ] {
        let service = answering(200, &answer);
        let gateway = on_request(&origin, &service, "");
        let began = Instant::now();
        assert_failed(&post(&gateway, "", "hello"), "103501");
        assert!(began.elapsed() < Duration::from_secs(5), "{:.80}: {:?}", answer, began.elapsed());
    }
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn no_path_of_an_answer_climbs() {
    let origin = Origin::saying("ok");
    for path in ["/../x", "/a/..", "/a/./b", "/a/%2e%2E/b", "/a/..%2fb", "/a/..\\b", "/..;x/b"] {
        let service = saying(&json!({ "pathToRewrite": path }));
        let reply = post(&on_request(&origin, &service, ""), "", "hello");
        assert_failed(&reply, "103501");
    }
    assert_eq!(origin.requests().len(), 0);
    for path in ["/a/...", "/a..b/.c?x=../y"] {
        let service = saying(&json!({ "pathToRewrite": path }));
        assert_eq!(post(&on_request(&origin, &service, ""), "", "hello").status(), 200);
        assert!(origin.requests().pop().unwrap().target().starts_with(path), "{path}");
    }
}
