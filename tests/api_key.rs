//! Keys: whose they are, and who never sees them.

use crate::harness::{Gateway, Message, Origin, Plain, tidegate, until};

const FILE: &str = "alice: key-of-alice\nbob: { key: key-of-bob, tier: Gold }\n\
    carol: sha256:e6c3da5b206634d7f3f3586d747ffdb36b5c675757b380c6a5fe5c570c714349\n";

#[track_caller]
fn gateway(origin: &Origin, keys: &str) -> Gateway {
    let route = format!("policies: [{{ api_key: {{ {keys} }} }}]");
    let yaml = Plain { route: &route, ..Plain::default() }.yaml(origin);
    Gateway::start_beside(yaml, &[("keys.yaml", FILE)])
}

#[track_caller]
fn ask(gateway: &Gateway, target: &str, lines: &str) -> Message {
    gateway.wire().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"))
}

#[test]
fn a_key_in_a_header_lets_in_and_stays_here() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, "header: x-api-key, keys: { file: keys.yaml }");
    // The third is written as the hash of `pass1`.
    for key in ["key-of-alice", "key-of-bob", "pass1"] {
        assert_eq!(ask(&gateway, "/", &format!("X-API-Key: {key}\r\n")).status(), 200, "{key}");
    }
    assert!(origin.requests().iter().all(|request| request.get("x-api-key").is_none()));
    let missing = ask(&gateway, "/", "");
    assert_eq!((missing.status(), missing.get("www-authenticate").is_some()), (401, true));
    for lines in [
        "X-API-Key: key-of-alic\r\n",
        "X-API-Key: key-of-alicee\r\n",
        "X-API-Key: KEY-OF-ALICE\r\n",
        "X-API-Key: sha256:e6c3da5b206634d7f3f3586d747ffdb36b5c675757b380c6a5fe5c570c714349\r\n",
        "X-API-Key: key-of-alice\r\nX-API-Key: key-of-bob\r\n",
        "X-API-Key: \r\n",
        "Authorization: key-of-alice\r\n",
    ] {
        assert_eq!(ask(&gateway, "/", lines).status(), 401, "{lines}");
    }
    let long = format!("X-API-Key: {}\r\n", "k".repeat(5000));
    assert_eq!(ask(&gateway, "/", &long).status(), 401);
    assert_eq!(origin.requests().len(), 3);
    assert!(!gateway.log().contains("key-of-"), "{}", gateway.log());
}

#[test]
fn a_key_in_the_query_is_cut_there() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, "query: key, keys: { alice: key-of-alice }");
    assert_eq!(ask(&gateway, "/p?a=1&key=key-of-alice&b=2", "").status(), 200);
    assert_eq!(origin.request().target(), "/p?a=1&b=2");
    assert_eq!(ask(&gateway, "/p?key=nobody", "").status(), 401);
    assert_eq!(ask(&gateway, "/p?key=key-of-alice&key=x", "").status(), 401);
}

#[test]
fn a_key_in_the_query_may_be_escaped_or_not() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, "query: key, keys: { bob: \"ab+/c==\" }");
    for target in ["/p?key=ab%2B%2Fc%3D%3D", "/p?key=ab+/c==", "/p?key=%61b+%2fc=%3d"] {
        assert_eq!(ask(&gateway, target, "").status(), 200, "{target}");
        assert_eq!(origin.requests().last().unwrap().target(), "/p");
    }
    assert_eq!(ask(&gateway, "/p?key=ab%20/c==", "").status(), 401);
    assert_eq!(ask(&gateway, "/p?key=ab%252B/c==", "").status(), 401);
}

#[test]
fn a_key_may_come_by_several_names() {
    let origin = Origin::saying("ok");
    let route = "policies: [{ api_key: { header: [x-api-key, apikey], query: [key, k], \
        keys: { alice: key-of-alice, bob: key-of-bob } } }]";
    let more = "telemetry: { access_log: { format: json } }";
    let gateway = Plain { route, more, ..Plain::default() }.start(&origin);
    for (target, lines) in [
        ("/p", "X-Api-Key: key-of-alice\r\n"),
        ("/p", "APIKEY: key-of-bob\r\n"),
        ("/p?k=key-of-bob", ""),
        ("/p?%6bey=key-of-bob", ""),
        ("/p?key=key-of-bob&x=1&k=key-of-bob", "X-API-Key: key-of-bob\r\nApikey: key-of-bob\r\n"),
    ] {
        assert_eq!(ask(&gateway, target, lines).status(), 200, "{target} {lines}");
    }
    let last = origin.requests().pop().unwrap();
    assert_eq!((last.target(), last.get("x-api-key"), last.get("apikey")), ("/p?x=1", None, None));
    for (target, lines) in [
        ("/p", "X-Api-Key: key-of-alice\r\nApikey: key-of-bob\r\n"),
        ("/p?key=key-of-alice&k=key-of-bob", ""),
        ("/p?key=key-of-alice&k%65y=key-of-bob", ""),
        ("/p?k=nobody", "Apikey: key-of-alice\r\n"),
        ("/p", ""),
    ] {
        assert_eq!(ask(&gateway, target, lines).status(), 401, "{target} {lines}");
    }
    gateway.wait_for_output("two different keys");
    let told = gateway.output() + &gateway.log();
    assert!(!told.contains("key-of-"), "{told}");
}

#[test]
fn a_key_is_forwarded_only_where_that_is_asked_for() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, "header: x-k, forward: true, keys: { alice: a1 }");
    assert_eq!(ask(&gateway, "/", "X-K: a1\r\n").status(), 200);
    assert_eq!(origin.request().get("x-k"), Some("a1"));
}

#[test]
fn mistakes_in_keys_are_complaints_that_show_no_key() {
    let folder = tempfile::tempdir().unwrap();
    let check = |policy: &str, file: &str| {
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nroutes:\n  a: {{ match: {{ path: /a }}, policies: [{{ {policy} }}], respond: {{}} }}\n"
        );
        std::fs::write(folder.path().join("gate.yaml"), yaml).unwrap();
        std::fs::write(folder.path().join("keys.yaml"), file).unwrap();
        tidegate(&["check", folder.path().join("gate.yaml").to_str().unwrap()])
    };
    let from_file = "api_key: { header: k, keys: { file: keys.yaml } }";
    for (policy, file, part) in [
        (from_file, "", "the file is empty"),
        (from_file, "- a\n", "expected secrets by subject"),
        (from_file, "a: secret-1\na: secret-2\n", "appears twice"),
        (from_file, "a: \"\"\n", "must not be empty"),
        (from_file, "a: secret-1\nb: secret-1\n", "`a` and `b` have the same key"),
        (from_file, "a: sha256:secret-1\n", "64 hex digits"),
        ("api_key: { header: k, keys: { file: none.yaml } }", "", "none.yaml"),
        ("api_key: { keys: { a: b } }", "", "the place of the key is missing"),
        ("api_key: { header: \"a b\", keys: { a: b } }", "", "is not a valid header name"),
        ("api_key: { query: \"a&b\", keys: { a: b } }", "", "is not a valid name of a query"),
        ("basic: { users: { \"a:b\": c } }", "", "it has a colon"),
        ("basic: { users: { a: $2y$10$short } }", "", "like a bcrypt hash, but is not one"),
        ("basic: { users: { a: $6$x$y } }", "", "not supported"),
        ("mutual_tls: {}", "", "no listener requests client certificates"),
        ("authorize: { rule: \"request.method ==\" }", "", "the rule cannot be used"),
        ("authorize: { rule: \"reqest.method == 'GET'\" }", "", "there is no `reqest`"),
        ("jwt: { issuers: [main] }", "", "there is no issuer `main`"),
        ("jwt: { issuers: [] }", "", "no issuer"),
        ("backend_jwt: { keys: [keys.yaml] }", "x", "cannot sign with"),
    ] {
        let said = check(policy, file);
        assert_eq!(said.code, Some(1), "{policy}: {said:?}");
        assert!(said.stderr.contains(part), "{policy} should say {part:?}: {}", said.stderr);
        assert!(said.stderr.contains("help: "), "{}", said.stderr);
        assert!(!said.stderr.contains("secret-1"), "{}", said.stderr);
    }
    let said = check("api_key: { header: k, keys: { a: secret-1 } }", "x: y");
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn issuers_that_cannot_work_are_complaints() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("rubbish.pem", "rubbish"),
        ("rubbish.json", "{}"),
        ("weak.json", r#"{"kty":"oct","kid":"a","k":"AAAA"}"#),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    for (issuer, part) in [
        ("issuer: i", "the issuer has no keys"),
        ("jwks: \"http://127.0.0.1:1/k\"", "the issuer has no name"),
        ("issuer: i, jwks: \"http://127.0.0.1:1/k\", keys: [rubbish.pem]", "only one source"),
        ("issuer: i, keys: [rubbish.pem]", "no usable keys"),
        ("issuer: i, keys: [rubbish.json]", "neither a JWK nor a JWK set"),
        ("issuer: i, keys: [weak.json]", "no key that verifies tokens"),
        ("issuer: i, keys: [none.pem]", "there is no such file"),
        ("issuer: i, discovery: true", "has no scheme"),
        ("issuer: i, jwks: \"ftp://a/k\"", "neither http nor https"),
        ("isuer: i, jwks: \"http://a/k\"", "did you mean `issuer`?"),
    ] {
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nissuers: {{ main: {{ {issuer} }} }}\nroutes:\n  a: {{ match: {{ path: /a }}, policies: [{{ jwt: {{ issuers: [main] }} }}], respond: {{}} }}\n"
        );
        std::fs::write(folder.path().join("gate.yaml"), yaml).unwrap();
        let said = tidegate(&["check", folder.path().join("gate.yaml").to_str().unwrap()]);
        assert_eq!(said.code, Some(1), "{issuer}: {said:?}");
        assert!(said.stderr.contains(part), "{issuer} should say {part:?}: {}", said.stderr);
    }
}

#[test]
fn the_access_log_tells_who_asked_and_never_the_key() {
    let origin = Origin::saying("ok");
    let route = "policies: [{ api_key: { header: x-key, query: key, keys: { \"ann \\\"x\\\"\": geheim } } }]";
    let log = "telemetry: { access_log: { format: json, path: access.log } }";
    let gateway = Plain { route, more: log, ..Plain::default() }.start(&origin);
    let mut wire = gateway.wire();
    assert_eq!(wire.ask("GET /a HTTP/1.1\r\nHost: a\r\nX-Key: geheim\r\n\r\n").status(), 200);
    assert_eq!(wire.get("/b?key=geheim").status(), 200);
    assert_eq!(wire.get("/c?key=other").status(), 401);
    let read = || std::fs::read_to_string(gateway.path("access.log")).unwrap_or_default();
    until("all three are told", || read().lines().count() == 3);
    let lines: Vec<serde_json::Value> =
        read().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (line, subject) in lines.iter().zip([Some("ann \"x\""), Some("ann \"x\""), None]) {
        assert_eq!(line.get("subject").and_then(|said| said.as_str()), subject, "{line}");
    }
    assert!(!read().contains("geheim") && !read().contains("other"), "{}", read());
}

#[test]
fn the_access_log_tells_no_key_of_a_request_that_no_route_takes() {
    let gateway = Gateway::start(
        r#"
listen: { public: { address: "127.0.0.1:0" } }
routes:
  keyed:
    match: { path: "/keyed/**", methods: [GET] }
    policies: [{ api_key: { header: x-key, query: key, keys: { ann: geheim } } }]
    respond: {}
telemetry: { access_log: { format: json, path: access.log } }
"#,
    );
    let requests = [
        ("POST /keyed/a?key=geheim&b=1", 405),
        ("OPTIONS /keyed/a?b=1&key=geheim", 204),
        ("GET /keyd/a?key=geheim", 404),
        ("GET /keyed/../../a?key=geheim", 400),
        ("GET /keyed/a%2Fb?k%65y=geheim", 400),
    ];
    for (request, status) in requests {
        let reply = gateway.wire().ask(format!("{request} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(reply.status(), status, "{request}");
    }
    let read = || std::fs::read_to_string(gateway.path("access.log")).unwrap_or_default();
    until("all are told", || read().lines().count() == requests.len());
    assert!(!read().contains("geheim") && read().contains("key=*&b=1"), "{}", read());
}
