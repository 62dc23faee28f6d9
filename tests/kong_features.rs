//! Features that the import of Kong's files needs: credentials in Kong's form, conditions on the reply, caches by directives of the
//! operator, and targets without a weight.

use crate::harness::{Gateway, Origin, tidegate};

/// A gateway with a listener, an echoing upstream and the rest of the configuration.
fn gateway(origin: &Origin, rest: &str) -> Gateway {
    let listen = "listen: { public: { address: \"127.0.0.1:0\" } }";
    let upstreams = format!("upstreams: {{ echo: {{ targets: [\"{}\"] }} }}", origin.url());
    Gateway::start(format!("{listen}\n{upstreams}\n{rest}"))
}

fn get(gateway: &Gateway, target: &str, lines: &str) -> crate::harness::Message {
    gateway.wire().ask(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{lines}\r\n"))
}

/// The complaints about a configuration.
fn complaints(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.yaml");
    std::fs::write(&file, text).unwrap();
    let run = tidegate(&["check", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    run.stderr
}

#[test]
fn headers_and_parameters_are_replaced_or_given() {
    let origin = Origin::echo();
    let gateway = gateway(
        &origin,
        r#"
routes:
  r:
    match: { path: "/**" }
    policies:
      - headers:
          request: { replace: { x-there: "new {host}", x-missing: never }, default: { x-there: never, x-given: yes } }
          response: { default: { x-reply: given } }
      - transform: { query: { replace: { a: "1", b: never }, default: { a: never, c: "3" } } }
    upstream: echo
"#,
    );
    let reply = get(&gateway, "/?a=0&a=2", "X-There: 1\r\nX-There: 2\r\n");
    assert_eq!(reply.get("x-reply"), Some("given"));
    let seen = origin.request();
    assert_eq!(seen.target(), "/?a=1&c=3");
    assert_eq!(seen.all("x-there"), ["new h"]);
    assert_eq!((seen.get("x-missing"), seen.get("x-given")), (None, Some("yes")));
}

#[test]
fn one_client_has_several_secrets_and_a_password_as_kong_keeps_it() {
    let origin = Origin::echo();
    let gateway = gateway(
        &origin,
        r#"
routes:
  keys:
    match: { path: /keys }
    policies:
      - api_key: { header: x-key, keys: { alice: k1, alice-2: { key: k2, subject: alice } } }
      - headers: { request: { set: { x-who: "{subject}" } } }
    upstream: echo
  users:
    match: { path: /users }
    policies:
      - basic: { users: { login: { sha1: "id-1:a818e9d8ba4908316a0e00363de0920cfa42dde3", subject: alice } } }
      - headers: { request: { set: { x-who: "{subject}" } } }
    upstream: echo
"#,
    );
    for (target, line, status) in [
        ("/keys", "X-Key: k1", 200),
        ("/keys", "X-Key: k2", 200),
        ("/keys", "X-Key: k3", 401),
        ("/users", "Authorization: Basic bG9naW46d29uZGVy", 200),
        ("/users", "Authorization: Basic bG9naW46b3RoZXI=", 401),
    ] {
        origin.forget();
        assert_eq!(get(&gateway, target, &format!("{line}\r\n")).status(), status, "{line}");
        if status == 200 {
            assert_eq!(origin.request().get("x-who"), Some("alice"), "{line}");
        }
    }
    let bad = "listen: { a: { address: \"127.0.0.1:0\" } }\nroutes: { r: { match: { path: / }, policies: [{ basic: { users: { a: USER } } }], respond: {} } }";
    for (user, what) in [
        ("{ sha1: \"id:12\" }", "`sha1` is not `SALT:HEX` with 40 hex digits"),
        ("{ sha1: \"a:b\", key: c }", "a credential needs exactly one secret: a key or a hash"),
        ("{ tier: gold }", "a credential needs exactly one secret: a key or a hash"),
    ] {
        let said = complaints(&bad.replace("USER", user));
        assert!(said.contains(what), "{user}: {said}");
    }
}

const TOKEN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJrLWFsaWNlIn0.KmeIX1K47Pu6DFsNMd3GpjPY0Gr0wBm8RUDJDOZSL1c";
/// It ends in 2100.
const LONG: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJrLWFsaWNlIiwiZXhwIjo0MTAyNDQ0ODAwfQ.p6Enie7HNXFeHi3LQ3l--dGyyADlQWmSL95Dxx9cEfI";
const FORGED: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJrLWFsaWNlIn0.3VhWymW54GXWJGjS4SSr0JXGJOPV1bZW5_LvTZBpXjg";

#[test]
fn an_issuer_is_one_client_with_a_secret() {
    let origin = Origin::echo();
    let gateway = gateway(
        &origin,
        r#"
issuers:
  alice: { issuer: k-alice, secret: 0123456789abcdef0123456789abcdef, algorithms: [HS256], expiry_required: false, subject: alice, groups: [staff], attributes: { id: a1 } }
  other: { issuer: k-alice, secret: "base64:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", algorithms: [HS512], expiry_required: false }
routes:
  any:
    match: { path: /any }
    policies:
      - jwt: { issuers: [alice], cookie: token }
      - authorize: { groups: { allow: [staff] } }
      - headers: { request: { set: { x-who: "{subject} {attributes.id}" } } }
    upstream: echo
  short: { match: { path: /short }, policies: [{ jwt: { issuers: [alice], lifetime_max: 1h } }], upstream: echo }
  other: { match: { path: /other }, policies: [{ jwt: { issuers: [other] } }], upstream: echo }
"#,
    );
    for (target, line, status) in [
        ("/any", format!("Authorization: Bearer {TOKEN}"), 200),
        ("/any", format!("Authorization: Bearer {LONG}"), 200),
        ("/any", format!("Cookie: a=b; token={TOKEN}; c=d"), 200),
        ("/any", format!("Cookie: token={TOKEN}; token={LONG}"), 401),
        ("/any", format!("Authorization: Bearer {FORGED}"), 401),
        ("/any", "Cookie: tokens=x".to_owned(), 401),
        ("/short", format!("Authorization: Bearer {LONG}"), 401),
        ("/short", format!("Authorization: Bearer {TOKEN}"), 401),
        ("/other", format!("Authorization: Bearer {TOKEN}"), 401),
    ] {
        origin.forget();
        assert_eq!(
            get(&gateway, target, &format!("{line}\r\n")).status(),
            status,
            "{target} {line}"
        );
        if status == 200 {
            let seen = origin.request();
            assert_eq!(seen.get("x-who"), Some("alice a1"));
            let cookie = line.starts_with("Cookie").then_some("a=b; c=d");
            assert_eq!((seen.get("cookie"), seen.get("authorization")), (cookie, None));
        }
    }
    let said = complaints(
        "listen: { a: { address: \"127.0.0.1:0\" } }\nissuers: { i: { issuer: a, secret: short, algorithms: [HS1] } }\nroutes: { r: { match: { path: / }, respond: {} } }",
    );
    assert!(said.contains("the secret of the issuer cannot be used"), "{said}");
    assert!(said.contains("the algorithm `HS1` is not known"), "{said}");
}

#[test]
fn a_reply_is_given_to_requests_with_its_trigger() {
    let origin = Origin::echo();
    let gateway = gateway(
        &origin,
        r#"
routes:
  r: { match: { path: "/**" }, upstream: echo, respond: { status: 410, body: "gone", trigger: x-down } }
"#,
    );
    for (target, lines, status) in [
        ("/", "", 200),
        ("/?x-downs=1", "", 200),
        ("/", "X-Down: 0\r\n", 410),
        ("/?a=b&X-down", "", 410),
    ] {
        assert_eq!(get(&gateway, target, lines).status(), status, "{target} {lines:?}");
    }
    let said = complaints(
        "listen: { a: { address: \"127.0.0.1:0\" } }\nroutes: { r: { match: { path: / }, respond: { trigger: x } } }",
    );
    assert!(said.contains("has no destination"), "{said}");
}

#[test]
fn a_length_may_be_required_and_addresses_have_a_status() {
    let origin = Origin::echo();
    let gateway = gateway(
        &origin,
        r#"
routes:
  r: { match: { path: "/r" }, limits: { length_required: true }, upstream: echo }
  away: { match: { path: "/away" }, policies: [{ ip_filter: { deny: ["127.0.0.0/8"], status: 451, message: Not here. } }], upstream: echo }
"#,
    );
    let post = |lines: &str, body: &str| {
        gateway.wire().ask(format!("POST /r HTTP/1.1\r\nHost: h\r\n{lines}\r\n{body}")).status()
    };
    assert_eq!(post("Content-Length: 2\r\n", "ab"), 200);
    assert_eq!(post("Transfer-Encoding: chunked\r\n", "2\r\nab\r\n0\r\n\r\n"), 411);
    assert_eq!(get(&gateway, "/r", "").status(), 200);
    let away = get(&gateway, "/away", "");
    assert_eq!(away.status(), 451);
    assert!(away.text().contains("Not here."), "{}", away.text());
}

#[test]
fn a_cache_goes_by_the_operators_word() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\nContent-Length: 2\r\n\r\nok",
    );
    let gateway = gateway(
        &origin,
        r#"
routes:
  kong:
    match: { path: "/kong" }
    policies: [{ cache: { ttl: 60s, cache_control: ignore, types: [text/plain], query: [a], headers: kong } }]
    upstream: echo
  json: { match: { path: "/json" }, policies: [{ cache: { ttl: 60s, cache_control: ignore, types: [application/json], headers: kong } }], upstream: echo }
  obey: { match: { path: "/obey" }, policies: [{ cache: { ttl: 60s } }], upstream: echo }
"#,
    );
    for (target, lines, word) in [
        ("/kong?a=1&x=1", "", Some("Miss")),
        ("/kong?x=2&a=1", "Cache-Control: no-cache\r\n", Some("Hit")),
        ("/kong?a=2", "", Some("Miss")),
        ("/json", "", Some("Bypass")),
        ("/json", "", Some("Bypass")),
        ("/obey", "", None),
    ] {
        let reply = get(&gateway, target, lines);
        assert_eq!(reply.get("x-cache-status"), word, "{target}");
        assert_eq!(reply.get("cache-status").is_some(), word.is_none(), "{target}");
    }
    let said = complaints(
        "listen: { a: { address: \"127.0.0.1:0\" } }\nroutes: { r: { match: { path: / }, policies: [{ cache: { cache_control: ignore } }], respond: {} } }",
    );
    assert!(said.contains("`cache_control: ignore` needs `ttl`"), "{said}");
}

#[test]
fn a_target_without_a_weight_gets_nothing() {
    let (one, other) = (Origin::echo(), Origin::echo());
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams:
  both: {{ targets: [{{ url: "{0}", weight: 0 }}, {{ url: "{1}", weight: 3 }}] }}
  none: {{ targets: [{{ url: "{0}", weight: 0 }}] }}
  hashed: {{ targets: ["{0}", "{1}"], balance: {{ hash: {{ by: "query:q", else: "header:x-h" }} }} }}
routes:
  both: {{ match: {{ path: /both }}, upstream: both }}
  none: {{ match: {{ path: /none }}, upstream: none }}
  hashed: {{ match: {{ path: /hashed }}, upstream: hashed }}
"#,
        one.url(),
        other.url()
    ));
    for _ in 0..6 {
        assert_eq!(get(&gateway, "/both", "").status(), 200);
    }
    assert_eq!((one.requests().len(), other.requests().len()), (0, 6));
    assert_eq!(get(&gateway, "/none", "").status(), 503);
    // A key always selects the same target, and many keys are spread over both.
    for (target, lines) in [("/hashed?q=7&x=", "X-H: "), ("/hashed?x=", "X-H: same")] {
        one.forget();
        other.forget();
        for number in 0..6 {
            get(&gateway, &format!("{target}{number}"), &format!("{lines}\r\n"));
        }
        let counts = [one.requests().len(), other.requests().len()];
        assert!(counts.contains(&6) && counts.contains(&0), "{target}: {counts:?}");
    }
    one.forget();
    other.forget();
    for number in 0..40 {
        get(&gateway, &format!("/hashed?q={number}"), "X-H: same\r\n");
    }
    assert!(one.requests().len() > 4 && other.requests().len() > 4);
}
