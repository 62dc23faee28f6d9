//! `forward_auth`: the data for the service, the effects of its reply, and failures of the service.

use crate::harness::{ClosedPort, Gateway, Message, Origin, Plain, tidegate};

/// A service that refuses clients without `X-Pass`.
fn service() -> Origin {
    Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let reply = match request.get("x-pass") {
                Some("1") => {
                    "HTTP/1.1 204 No Content\r\nX-User: alice\r\nX-Role: a\r\nX-Role: b\r\nX-Other: o\r\n\r\n"
                }
                Some("huge") => "HTTP/1.1 403 Forbidden\r\nContent-Length: 2000000\r\n\r\nwhatever",
                _ => {
                    "HTTP/1.1 302 Found\r\nLocation: https://login.test/\r\nSet-Cookie: s=1\r\nConnection: X-Hop\r\nX-Hop: 1\r\nContent-Length: 5\r\n\r\nlogin"
                }
            };
            if !peer.try_send(reply) {
                return;
            }
        }
    })
}

#[track_caller]
fn gateway(origin: &Origin, service: &str, more: &str) -> Gateway {
    let route = format!(
        "policies: [{{ forward_auth: {{ url: \"{service}/verify?x=1\", headers: {{ take: [x-user, x-role] }}, {more} }} }}]"
    );
    Plain { route: &route, ..Plain::default() }.start(origin)
}

#[track_caller]
fn ask(gateway: &Gateway, lines: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST /orders%2d1?q=2 HTTP/1.1\r\nHost: shop.test\r\nContent-Length: {length}\r\n{lines}\r\n{body}"
    ))
}

#[test]
fn a_2xx_lets_a_request_continue_with_the_headers_it_sets() {
    let (origin, service) = (Origin::echo(), service());
    let gateway = gateway(&origin, &service.url(), "");
    let lines = "X-Pass: 1\r\nX-User: root\r\nx_role: root\r\nCookie: c=1\r\nX-Forwarded-Uri: /other\r\n\
        Connection: keep-alive, X-Mine\r\nX-Mine: 1\r\nContent-Encoding: identity\r\n";
    let reply = ask(&gateway, lines, "hello");
    assert_eq!((reply.status(), reply.text().as_str()), (200, "hello"));
    let told = service.request();
    assert_eq!((told.method(), told.target()), ("GET", "/verify?x=1"));
    for (name, value) in [
        ("x-forwarded-method", "POST"),
        ("x-forwarded-uri", "/orders%2d1?q=2"),
        ("x-forwarded-host", "shop.test"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-for", "127.0.0.1"),
        ("cookie", "c=1"),
        ("x-user", "root"),
    ] {
        assert_eq!(told.all(name), [value], "{name}: {told:?}");
    }
    for absent in ["content-length", "transfer-encoding", "content-encoding", "x-mine"] {
        assert_eq!(told.get(absent), None, "{absent}: {told:?}");
    }
    assert_eq!(told.get("host"), Some(&*service.address().to_string()));
    let seen = origin.request();
    assert_eq!((seen.all("x-user"), seen.all("x-role")), (vec!["alice"], vec!["a", "b"]));
    assert_eq!((seen.get("x_role"), seen.get("x-other")), (None, None));
}

#[test]
fn any_other_reply_is_the_clients() {
    let (origin, service) = (Origin::saying("ok"), service());
    let gateway = gateway(&origin, &service.url(), "");
    let reply = ask(&gateway, "X-Pass: 0\r\n", "");
    assert_eq!((reply.status(), reply.text().as_str()), (302, "login"));
    assert_eq!(reply.get("location"), Some("https://login.test/"));
    assert_eq!((reply.get("set-cookie"), reply.get("x-hop")), (Some("s=1"), None));
    // More than may be passed on.
    assert_eq!(ask(&gateway, "X-Pass: huge\r\n", "").status(), 503);
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn only_the_headers_of_send_reach_the_service() {
    let (origin, service) = (Origin::saying("ok"), service());
    let route =
        "policies: [{ forward_auth: { upstream: auth, path: /v, headers: { send: [x-pass] } } }]";
    let yaml = Plain { route, ..Plain::default() }.yaml(&origin);
    let auth = format!("upstreams: {{ auth: {{ targets: [\"{}\"] }}, ", service.url());
    let gateway = Gateway::start(yaml.replace("upstreams: { ", &auth));
    assert_eq!(
        ask(&gateway, "X-Pass: 1\r\nCookie: c=1\r\nAuthorization: Bearer x\r\n", "").status(),
        200
    );
    let told = service.request();
    assert_eq!(told.target(), "/v");
    assert_eq!((told.get("x-pass"), told.get("cookie")), (Some("1"), None));
    assert_eq!((told.get("authorization"), told.get("x-forwarded-method")), (None, Some("POST")));
}

#[test]
fn without_an_answer_a_request_is_refused_or_passes() {
    let origin = Origin::saying("ok");
    let closed = ClosedPort::any();
    let silent = Origin::silent();
    for url in [format!("http://{}", closed.address), silent.url()] {
        let refuses = gateway(&origin, &url, "timeout: 200ms");
        assert_eq!(ask(&refuses, "X-User: root\r\n", "").status(), 503, "{url}");
        assert_eq!(origin.requests().len(), 0);
        let passes = gateway(&origin, &url, "timeout: 200ms, on_failure: pass");
        assert_eq!(ask(&passes, "X-User: root\r\n", "").status(), 200, "{url}");
        assert_eq!(origin.request().get("x-user"), None);
        passes.wait_for_log("the request passes, as `on_failure` says");
        origin.forget();
    }
}

#[test]
fn what_cannot_work_is_a_complaint() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    let origin = Origin::saying("ok");
    for (keys, part) in [
        ("", "needs `url` or `upstream`"),
        ("url: \"http://a/\", upstream: origin", "keep one of the two"),
        ("url: \"http://a/\", path: /x", "`path` cannot be combined with `url`"),
        ("upstream: origin, path: x", "begins with `/`"),
        ("upstream: origin, headers: { take: [content-length] }", "cannot be changed"),
    ] {
        let route = format!("policies: [{{ forward_auth: {{ {keys} }} }}]");
        let yaml = Plain { route: &route, ..Plain::default() }.yaml(&origin);
        std::fs::write(&file, yaml).unwrap();
        let run = tidegate(&["check", file.to_str().unwrap()]);
        let said = format!("{}{}", run.stdout, run.stderr);
        assert_eq!(run.code, Some(1), "{keys}: {said}");
        assert!(said.contains(part), "{keys}: {said}");
    }
}

/// Conditional and range headers of the client are for the upstream. A service that honoured them would answer 304, 412 or 416.
#[test]
fn the_service_gets_no_conditions_about_the_upstreams_reply() {
    let origin = Origin::echo();
    let service = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let conditions = ["if-match", "if-none-match", "if-modified-since", "range"];
            let heeded = conditions.iter().any(|name| request.get(name).is_some());
            let status = if heeded { "304 Not Modified" } else { "204 No Content" };
            if !peer.try_send(format!("HTTP/1.1 {status}\r\n\r\n")) {
                return;
            }
        }
    });
    let gateway = gateway(&origin, &service.url(), "");
    for line in [
        "If-Match: \"a\"",
        "If-None-Match: *",
        "If_None_Match: *",
        "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
        "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT",
        "If-Range: \"a\"",
        "Range: bytes=0-1",
    ] {
        let reply = ask(&gateway, &format!("{line}\r\n"), "hello");
        assert_eq!((reply.status(), reply.text().as_str()), (200, "hello"), "{line}");
        let (name, value) = line.split_once(": ").unwrap();
        assert_eq!(service.requests().pop().unwrap().get(name), None, "{line}");
        assert_eq!(origin.requests().pop().unwrap().get(name), Some(value), "{line}");
    }
}
