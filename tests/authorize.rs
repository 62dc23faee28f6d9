//! Rules in CEL.

use crate::harness::{Authority, Gateway, Origin, Plain, Wire, tidegate};

#[track_caller]
fn gateway(origin: &Origin, rule: &str) -> Gateway {
    let keys = "api_key: { header: k, keys: { alice: { key: a1, tier: Gold }, bob: b1 } }";
    let route = format!("policies: [{{ {keys} }}, {{ authorize: {{ rule: {rule:?} }} }}]");
    Plain { route: &route, ..Plain::default() }.start(origin)
}

#[test]
fn a_rule_says_who_may_do_what() {
    let origin = Origin::saying("ok");
    let rule = "request.method == 'GET' && (tier == 'Gold' || request.path.startsWith('/free/')) || subject == 'bob' && request.headers['x-a'] == '1'";
    let gateway = gateway(&origin, rule);
    for (method, path, lines, status) in [
        ("GET", "/", "K: a1\r\n", 200),
        ("DELETE", "/", "K: a1\r\n", 403),
        ("GET", "/", "K: b1\r\n", 403),
        ("GET", "/free/x", "K: b1\r\n", 200),
        ("DELETE", "/", "K: b1\r\nX-A: 1\r\n", 200),
        // The header that the rule reads is missing: a rule that cannot be evaluated refuses.
        ("DELETE", "/", "K: b1\r\n", 403),
        ("GET", "/", "", 401),
    ] {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let reply = gateway.wire().ask(request);
        assert_eq!(reply.status(), status, "{method} {path} {lines}");
        assert!(!reply.text().contains("rule"), "{}", reply.text());
    }
}

/// A CGI server cannot distinguish `X_Bad` and `X-Bad`.
#[test]
fn a_rule_sees_all_spellings_of_a_header() {
    let origin = Origin::saying("ok");
    let gateway =
        gateway(&origin, "!('x-bad' in request.headers) || request.headers['x-bad'] == '1'");
    for (lines, status) in
        [("", 200), ("X-Bad: 1\r\n", 200), ("X_Bad: 2\r\n", 403), ("x-bad: 1\r\nx_bad: 2\r\n", 403)]
    {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nK: a1\r\n{lines}\r\n");
        assert_eq!(gateway.wire().ask(request).status(), status, "{lines}");
    }
}

#[test]
fn a_rule_above_the_policy_it_asks_is_a_complaint() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    let key = "{ api_key: { header: k, keys: { a: b } } }";
    for (first, second, code, part) in [
        ("{ authorize: { rule: \"subject == 'a'\" } }", key, 1, "move it below `api_key`"),
        (key, "{ authorize: { rule: \"nope(1)\" } }", 1, "there is no function `nope`"),
        (key, "{ authorize: { rule: request.path } }", 1, "its result is a text"),
        (key, "{ authorize: { rule: 'has(request.headers.x_bad)' } }", 1, "write `x-bad`"),
        ("{ cache: {} }", "{ key_type: { sandbox: s } }", 1, "move it below `key_type`"),
        ("{ cache: {} }", key, 0, "move it below `api_key`"),
        (
            "{ cache: {} }",
            "{ ip_filter: { deny: [192.0.2.1] } }",
            0,
            "which does not run for cached replies",
        ),
        (key, "{ cache: {} }", 0, ""),
        (key, "{ authorize: { rule: \"subject == 'a'\" } }", 0, ""),
        ("{ authorize: { rule: \"request.method == 'GET'\" } }", key, 0, ""),
    ] {
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nroutes:\n  a: {{ match: {{ path: /a }}, policies: [{first}, {second}], respond: {{}} }}\n"
        );
        std::fs::write(&file, yaml).unwrap();
        let said = tidegate(&["check", file.to_str().unwrap()]);
        assert_eq!(said.code, Some(code), "{first}: {said:?}");
        assert!(said.stderr.contains(part), "{}", said.stderr);
    }
}

/// A policy decides about the same path that the route was found for.
#[test]
fn a_rule_sees_the_path_that_was_matched() {
    let origin = Origin::saying("ok");
    let route = "policies: [{ authorize: { rule: \"!request.path.startsWith('/admin')\" } }]";
    let listener = "paths: { escaped_slash: keep }";
    let gateway = Plain { listener, route, ..Plain::default() }.start(&origin);
    let ask = |target: &str| {
        let reply = gateway.wire().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let sent = origin.requests().last().map(|request| request.target().to_owned());
        (reply.status(), sent.unwrap_or_default())
    };
    for target in ["/admin", "/x/../admin", "/./admin", "/x/%2e%2e/admin", "/%61dmin?q", "//admin"]
    {
        assert_eq!(ask(target).0, 403, "{target}");
    }
    assert_eq!(origin.requests().len(), 0);
    for (target, sent) in [
        ("/fr%65e?a=%61", "/fr%65e?a=%61"),
        ("/admin/../fr%65e?a=..", "/free?a=.."),
        ("/a%2fb", "/a%2fb"),
    ] {
        assert_eq!(ask(target), (200, sent.to_owned()), "{target}");
    }
}

#[test]
fn a_rule_sees_the_host_that_was_matched() {
    let origin = Origin::saying("ok");
    let route = "policies: [{ authorize: { rule: \"request.host != 'adm.test'\" } }]";
    let gateway = Plain { route, ..Plain::default() }.start(&origin);
    for (host, status) in [
        ("adm.test", 403),
        ("Adm.test", 403),
        ("adm.test:8080", 403),
        ("adm.test.", 403),
        ("ADM.test.:80", 403),
        ("adm.test.evil", 200),
        ("[::1]:80", 200),
    ] {
        let reply = gateway.wire().ask(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(reply.status(), status, "{host}");
    }
}

#[test]
fn issue_19_a_rule_sees_whether_the_client_came_by_tls() {
    let authority = Authority::new();
    let identity = authority.issue("a.test");
    let yaml = "listen:\n  plain: { address: \"127.0.0.1:0\" }\n  secure: { address: \"127.0.0.1:0\", tls: { certificate: cert.pem, key: key.pem } }\n\
                routes: { all: { match: {}, policies: [{ authorize: { rule: \"tls || request.path == '/open'\" } }], respond: { body: ok } } }\n";
    let files = [("cert.pem", identity.certificate.as_str()), ("key.pem", identity.key.as_str())];
    let gateway = Gateway::start_beside(yaml, &files);
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let mut plain = Wire::connect(gateway.address("plain"));
    assert_eq!(plain.ask(get("/")).status(), 403);
    assert_eq!(plain.ask(get("/open")).status(), 200);
    let mut secure = Wire::connect_tls(gateway.address("secure"), "a.test", &authority.trust());
    assert_eq!(secure.ask(get("/")).status(), 200);
}
