//! The form of error replies: problem details, or the bodies and codes of WSO2 Choreo Connect.

use crate::harness::{Gateway, Message, Origin, Plain, Wire};

const PROBLEM: &str = "application/problem+json";

fn start(origin: &Origin, targets: &[String], upstream: &str, route: &str) -> Gateway {
    Plain { upstream, route: &format!("errors: wso2, {route}"), targets, ..Plain::default() }
        .start(origin)
}

/// Status, content type and body.
fn told(reply: &Message) -> (u16, &str, String) {
    (reply.status(), reply.get("content-type").unwrap_or_default(), reply.text())
}

fn router(status: u16, code: u32, message: &str, description: &str) -> (u16, &'static str, String) {
    let body =
        format!(r#"{{"code":"{code}","message":"{message}","description":"{description}"}}"#);
    (status, "application/json", body)
}

#[test]
fn what_the_router_finds_wrong_has_its_shape_and_codes() {
    let origin = Origin::saying("ok");
    let dead = [Origin::saying("ok").url()];
    let gateway = start(&origin, &dead, "", "");
    let down = router(
        503,
        102_503,
        "Upstream connection failure",
        "The backend service cannot be reached",
    );
    assert_eq!(told(&gateway.wire().get("/")), down);

    let silent = Origin::start(|peer| {
        peer.request();
        peer.read_to_end();
    });
    let gateway = start(&silent, &[], "timeout: { response: 50ms }", "");
    let late = router(
        504,
        102_504,
        "Upstream request timeout",
        "The backend service did not respond in time",
    );
    assert_eq!(told(&gateway.wire().get("/")), late);

    let closing = Origin::start(|peer| drop(peer.request()));
    let gateway = start(&closing, &[], "", "");
    let reply = gateway.wire().ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(reply.status(), 503);
    assert!(reply.text().contains("\"code\":\"102509\""), "{reply:?}");

    let gateway = start(&origin, &[], "", "limits: { body_bytes_max: 1B }");
    let reply = gateway.wire().ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n");
    assert_eq!(told(&reply).0, 413);
    assert!(reply.text().starts_with(r#"{"code":"413","message":"#), "{reply:?}");
}

#[test]
fn no_healthy_host_and_overflow() {
    let gate = crate::harness::Gate::default();
    let held = gate.clone();
    let origin = Origin::start(move |peer| {
        while peer.request().is_some() {
            held.wait();
            peer.try_send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let gateway = start(&origin, &[], "breaker: { requests: 1 }", "");
    let mut first = gateway.wire();
    first.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_for_requests(1);
    let overflow = router(503, 102_505, "Upstream overflow", "The backend service is at its limit");
    assert_eq!(told(&gateway.wire().get("/")), overflow);
    gate.open();
    assert_eq!(first.read_reply().status(), 200);
}

#[test]
fn what_the_enforcer_refuses_has_its_shape_and_codes() {
    let origin = Origin::saying("ok");
    let enforcer = |status: u16, code: u32, message: &str, description: &str| {
        let body = format!(
            r#"{{"error_message":"{message}","code":"{code}","error_description":"{description}"}}"#
        );
        (status, "application/json", body)
    };
    for (by, code) in [("client", 900_800), ("route", 900_802)] {
        let route = format!("policies: [{{ rate_limit: {{ requests: 1, per: 1h, by: {by} }} }}]");
        let gateway = start(&origin, &[], "", &route);
        let mut wire = gateway.wire();
        assert_eq!(wire.get("/").status(), 200);
        let reply = wire.get("/");
        let throttled =
            enforcer(429, code, "Message throttled out", "You have exceeded your quota");
        assert_eq!(told(&reply), throttled);
        assert!(reply.get("retry-after").is_some(), "{reply:?}");
    }
    let gateway = start(&origin, &[], "", "policies: [{ ip_filter: { deny: [127.0.0.1] } }]");
    let blocked = enforcer(
        403,
        900_805,
        "Message blocked",
        "You have been blocked from accessing the resource",
    );
    assert_eq!(told(&gateway.wire().get("/")), blocked);
}

#[test]
fn before_a_route_is_known_and_without_the_key_faults_are_problems() {
    let origin = Origin::saying("ok");
    let dead = [Origin::saying("ok").url()];
    let gateway = start(&origin, &[], "", "");
    let reply = gateway.wire().ask("GET /%2e%2e/%2e%2e/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((told(&reply).0, told(&reply).1), (400, PROBLEM));
    let gateway = Plain { targets: &dead, ..Plain::default() }.start(&origin);
    let mut wire: Wire = gateway.wire();
    let reply = wire.get("/");
    assert_eq!((told(&reply).0, told(&reply).1), (502, PROBLEM));
}
