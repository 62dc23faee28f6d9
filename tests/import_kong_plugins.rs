//! Every plugin that `tidegate import kong` converts: the requests that it allows and refuses after the import.

use std::io::Read as _;
use std::net::{TcpListener, UdpSocket};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::collector::{Collector, attribute};
use crate::harness::{Gateway, Message, Origin, PATIENCE, Run, import_kong, start_imported, until};
use crate::tokens::{EC, issuer_by_discovery};

fn imported(text: &str) -> (Run, tempfile::TempDir) {
    import_kong(text, &["--listen-metrics", "127.0.0.1:0"])
}

#[track_caller]
fn serving(text: &str, code: i32) -> (Gateway, Run) {
    start_imported(imported(text), code)
}

/// A request to a route, with the expected result.
struct Ask {
    /// The method, and the part of the path after the route's.
    start: &'static str,
    lines: String,
    body: &'static str,
    status: u16,
    /// A line of the reply; an empty value means that it is not there.
    reply: (&'static str, &'static str),
    /// A line of the request as the service sees it, the same way.
    seen: (&'static str, &'static str),
}

fn ask(start: &'static str, lines: impl Into<String>, status: u16) -> Ask {
    Ask { start, lines: lines.into(), body: "", status, reply: ("", ""), seen: ("", "") }
}

fn told(ask: Ask, name: &'static str, value: &'static str) -> Ask {
    Ask { reply: (name, value), ..ask }
}

fn seen(ask: Ask, name: &'static str, value: &'static str) -> Ask {
    Ask { seen: (name, value), ..ask }
}

fn with(ask: Ask, body: &'static str) -> Ask {
    Ask { body, ..ask }
}

/// The plugins of one route, in flow style, and requests to it.
struct Case {
    name: &'static str,
    plugins: String,
    asks: Vec<Ask>,
}

fn case(name: &'static str, plugins: &str, asks: Vec<Ask>) -> Case {
    Case { name, plugins: plugins.to_owned(), asks }
}

const CONSUMERS: &str = r#"
consumers:
  - username: alice
    keyauth_credentials: [{ key: a }, { key: a2 }]
    basicauth_credentials: [{ username: alice, password: wonder }]
    hmacauth_credentials: [{ username: alice, secret: hush }]
    jwt_secrets: [{ key: k-alice, secret: 0123456789abcdef0123456789abcdef }]
    acls: [{ group: staff }]
  - { username: bob, keyauth_credentials: [{ key: b }], acls: [{ group: guests }] }
"#;

/// `alice`'s, signed with her secret; the other one is signed with another.
const TOKEN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJrLWFsaWNlIn0.KmeIX1K47Pu6DFsNMd3GpjPY0Gr0wBm8RUDJDOZSL1c";
const FORGED: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJrLWFsaWNlIn0.3VhWymW54GXWJGjS4SSr0JXGJOPV1bZW5_LvTZBpXjg";

#[track_caller]
fn check(cases: Vec<Case>, code: i32) {
    let (origin, other) = (Origin::echo(), Origin::saying("other"));
    let mut routes = String::new();
    for Case { name, plugins, .. } in &cases {
        let plugins = plugins.replace("OTHER_PORT", &other.address().port().to_string());
        routes.push_str(&format!(
            "      - {{ name: {name}, paths: [/{name}], plugins: [{plugins}] }}\n"
        ));
    }
    let text = format!(
        "_format_version: \"3.0\"\nservices:\n  - name: main\n    url: {}\n    routes:\n{routes}{CONSUMERS}",
        origin.url()
    );
    let (gateway, run) = serving(&text, code);
    for Case { name, asks, .. } in cases {
        for Ask { start, lines, body, status, reply, seen } in asks {
            origin.forget();
            let (method, rest) = start.split_once(' ').unwrap();
            let length = body.len();
            let got = gateway.wire().ask(format!(
                "{method} /{name}{rest} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n{lines}\r\n{body}"
            ));
            let what = format!("{name}: {start} {lines:?}: {}\n{}", got.text(), run.stderr);
            assert_eq!(got.status(), status, "{what}");
            let expect = |message: &Message, (line, value): (&str, &str)| {
                let found = message.get(line).unwrap_or("").to_owned();
                assert_eq!(found, value, "{line} of {what}");
            };
            if !reply.0.is_empty() {
                expect(&got, reply);
            }
            if !seen.0.is_empty() {
                expect(&origin.request(), seen);
            }
        }
    }
}

#[test]
fn credentials_let_pass_or_refuse() {
    let clock = Gateway::start(
        "listen: { public: { address: \"127.0.0.1:0\" } }\nroutes: { r: { match: { path: / }, respond: {} } }\n",
    );
    let date = clock.wire().get("/").get("date").unwrap().to_owned();
    let signature = |secret: &str| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let signature = STANDARD.encode(hmac::sign(&key, format!("date: {date}").as_bytes()));
        format!(
            "Date: {date}\r\nAuthorization: hmac username=\"alice\", algorithm=\"hmac-sha256\", headers=\"date\", signature=\"{signature}\"\r\n"
        )
    };
    let basic =
        |pair: &str| format!("Authorization: Basic {}\r\n", STANDARD.encode(pair.as_bytes()));
    let proxy = |pair: &str| format!("Proxy-{}", basic(pair));
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let alice = ("x-consumer-username", "alice");
    check(
        vec![
            case(
                "key",
                "{ name: key-auth, config: { key_names: [k] } }",
                vec![
                    seen(ask("GET /", "K: a\r\n", 200), alice.0, alice.1),
                    seen(ask("GET /?k=b", "", 200), alice.0, "bob"),
                    ask("GET /", "K: c\r\n", 401),
                    ask("GET /", "", 401),
                ],
            ),
            case(
                "basic",
                "{ name: basic-auth }",
                vec![
                    seen(ask("GET /", basic("alice:wonder"), 200), alice.0, alice.1),
                    ask("GET /", basic("alice:land"), 401),
                    ask("GET /", "", 401),
                    seen(ask("GET /", proxy("alice:wonder"), 200), alice.0, alice.1),
                    seen(ask("GET /", proxy("alice:wonder"), 200), "proxy-authorization", ""),
                    ask("GET /", proxy("alice:land"), 401),
                    ask("GET /", proxy("alice:land") + &basic("alice:wonder"), 401),
                    ask("GET /", proxy("nobody:land") + &basic("alice:wonder"), 200),
                    ask("GET /", proxy("nobody:land"), 401),
                ],
            ),
            case(
                "hmac",
                "{ name: hmac-auth, config: { enforce_headers: [date] } }",
                vec![
                    seen(ask("GET /", signature("hush"), 200), alice.0, alice.1),
                    ask("GET /", signature("other"), 401),
                    ask("GET /", "", 401),
                ],
            ),
            case(
                "jwt",
                "{ name: jwt }",
                vec![
                    seen(ask("GET /", bearer(TOKEN), 200), alice.0, alice.1),
                    ask("GET /", bearer(FORGED), 401),
                    ask("GET /", "", 401),
                ],
            ),
            case(
                "acl",
                "{ name: key-auth }, { name: acl, config: { allow: [staff] } }",
                vec![
                    seen(ask("GET /", "apikey: a\r\n", 200), "x-consumer-groups", "staff"),
                    ask("GET /", "apikey: b\r\n", 403),
                    ask("GET /", "", 401),
                ],
            ),
        ],
        0,
    );
}

#[test]
fn guards_let_pass_or_refuse() {
    let api = r#"{\"openapi\":\"3.0.3\",\"info\":{\"title\":\"t\",\"version\":\"1\"},\"paths\":{\"/oas/sums\":{\"post\":{\"requestBody\":{\"required\":true,\"content\":{\"application/json\":{\"schema\":{\"type\":\"object\",\"required\":[\"a\"]}}}},\"responses\":{\"200\":{\"description\":\"ok\"}}}}}}"#;
    let json = "Content-Type: application/json\r\n";
    check(
        vec![
            case(
                "bots",
                "{ name: bot-detection, config: { allow: [goodbot], deny: [curl] } }",
                vec![
                    ask("GET /", "User-Agent: goodbot/1\r\n", 200),
                    ask("GET /", "User-Agent: Firefox\r\n", 200),
                    ask("GET /", "", 200),
                    ask("GET /", "User-Agent: curl/8\r\n", 403),
                    ask("GET /", "User-Agent: badbot/1\r\n", 403),
                    ask("GET /", "User-Agent: a\r\nUser-Agent: b\r\n", 400),
                ],
            ),
            case(
                "near",
                "{ name: ip-restriction, config: { allow: [127.0.0.0/8] } }",
                vec![ask("GET /", "", 200)],
            ),
            case(
                "far",
                "{ name: ip-restriction, config: { deny: [127.0.0.0/8], status: 451 } }",
                vec![ask("GET /", "", 451)],
            ),
            case(
                "size",
                "{ name: request-size-limiting, config: { allowed_payload_size: 4, size_unit: bytes } }",
                vec![with(ask("POST /", "", 200), "1234"), with(ask("POST /", "", 413), "12345")],
            ),
            case(
                "limit",
                "{ name: rate-limiting, config: { hour: 1 } }",
                vec![
                    told(ask("GET /", "", 200), "x-ratelimit-remaining-hour", "0"),
                    ask("GET /", "", 429),
                ],
            ),
            case(
                "credentials",
                "{ name: key-auth }, { name: rate-limiting, config: { hour: 1, limit_by: credential } }",
                vec![
                    ask("GET /", "apikey: a\r\n", 200),
                    ask("GET /", "apikey: a\r\n", 429),
                    ask("GET /", "apikey: a2\r\n", 200),
                    ask("GET /", "apikey: b\r\n", 200),
                ],
            ),
            case(
                "consumers",
                "{ name: key-auth }, { name: rate-limiting, config: { hour: 1 } }",
                vec![
                    ask("GET /", "apikey: a\r\n", 200),
                    ask("GET /", "apikey: a2\r\n", 429),
                    ask("GET /", "apikey: b\r\n", 200),
                ],
            ),
            case(
                "nobody",
                "{ name: rate-limiting, config: { hour: 1, limit_by: credential } }",
                vec![ask("GET /", "apikey: a\r\n", 200), ask("GET /", "apikey: a2\r\n", 429)],
            ),
            case(
                "denied",
                "{ name: key-auth }, { name: acl, config: { deny: [guests] } }",
                vec![ask("GET /", "apikey: a\r\n", 200), ask("GET /", "apikey: b\r\n", 403)],
            ),
            case(
                "limits",
                "{ name: rate-limiting-advanced, config: { limit: [1], window_size: [3600], identifier: ip } }",
                vec![ask("GET /", "", 200), ask("GET /", "", 429)],
            ),
            case(
                "valid",
                r#"{ name: request-validator, config: { version: draft7, body_schema: '{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}', parameter_schema: [{ in: query, name: n, required: true, style: form, explode: true, schema: '{"type":"integer","minimum":1}' }] } }"#,
                vec![
                    with(ask("POST /?n=2", json, 200), r#"{"a":1}"#),
                    with(ask("POST /?n=0", json, 400), r#"{"a":1}"#),
                    with(ask("POST /", json, 400), r#"{"a":1}"#),
                    with(ask("POST /?n=2", json, 400), r#"{"a":"b"}"#),
                    with(ask("POST /?n=2", "Content-Type: text/plain\r\n", 415), "text"),
                    ask("POST /?n=2", json, 400),
                    ask("GET /?n=2", "", 200),
                ],
            ),
            case(
                "oas",
                &format!("{{ name: oas-validation, config: {{ api_spec: \"{api}\" }} }}"),
                vec![
                    with(ask("POST /sums", json, 200), r#"{"a":1}"#),
                    with(ask("POST /sums", json, 400), r#"{"b":1}"#),
                ],
            ),
        ],
        3,
    );
}

#[test]
fn messages_are_changed_as_kong_changes_them() {
    let origin = |origin: &str| format!("Origin: {origin}\r\n");
    let allowed = "access-control-allow-origin";
    let form = "Content-Type: multipart/form-data; boundary=b\r\n";
    const FORM: &str = "--b\r\nContent-Disposition: form-data; name=\"gone\"\r\n\r\n1\r\n--b\r\nContent-Disposition: form-data; name=\"there\"\r\n\r\nbefore\r\n--b--\r\n";
    check(
        vec![
            case(
                "id",
                "{ name: correlation-id, config: { header_name: X-Id, generator: uuid, echo_downstream: true } }",
                vec![told(ask("GET /", "X-Id: mine\r\n", 200), "x-id", "mine")],
            ),
            case(
                "unechoed",
                "{ name: correlation-id, config: { header_name: X-Id } }",
                vec![told(seen(ask("GET /", "X-Id: mine\r\n", 200), "x-id", "mine"), "x-id", "")],
            ),
            case(
                "cors",
                r#"{ name: cors, config: { origins: ["https://a.test/", "https?://[a-z]+\\.b\\.test(:[0-9]+)?$", "^c[0-9]\\.test", "https://d.test|https://e.test"] } }"#,
                vec![
                    told(ask("GET /", origin("https://a.test"), 200), allowed, "https://a.test"),
                    told(
                        ask("GET /", origin("http://x.b.test:81"), 200),
                        allowed,
                        "http://x.b.test:81",
                    ),
                    told(
                        ask("GET /", origin("https://c1.test:8443"), 200),
                        allowed,
                        "https://c1.test:8443",
                    ),
                    told(
                        ask("GET /", origin("https://d.test.more"), 200),
                        allowed,
                        "https://d.test.more",
                    ),
                    told(ask("GET /", origin("https://e.test.more"), 200), allowed, ""),
                    told(ask("GET /", origin("https://x.b.test.evil"), 200), allowed, ""),
                    told(ask("GET /", origin("https://ac1.test"), 200), allowed, ""),
                    told(ask("GET /", origin("https://f.test"), 200), allowed, ""),
                ],
            ),
            case(
                "request",
                r#"{ name: request-transformer, config: { add: { headers: ["x-a: $(headers.x_from) $(query_params['q'])", "x-there: never"] }, remove: { headers: [x-gone] } } }"#,
                vec![
                    seen(ask("GET /?q=%2B1", "X-From: here\r\n", 200), "x-a", "here +1"),
                    seen(ask("GET /", "X-A: kept\r\n", 200), "x-a", "kept"),
                    seen(ask("GET /", "X-There: yes\r\n", 200), "x-there", "yes"),
                    seen(ask("GET /", "X-Gone: 1\r\n", 200), "x-gone", ""),
                ],
            ),
            case(
                "advanced",
                r#"{ name: request-transformer-advanced, config: { rename: { headers: ["x-old:x-new"] } } }"#,
                vec![
                    seen(ask("GET /", "X-Old: 1\r\n", 200), "x-new", "1"),
                    seen(ask("GET /", "", 200), "x-new", ""),
                ],
            ),
            case(
                "method",
                r#"{ name: request-transformer, config: { http_method: put, remove: { body: [gone] } } }"#,
                vec![
                    seen(with(ask("POST /", form, 200), FORM), "content-length", "68"),
                    with(ask("POST /", form, 400), "no parts"),
                ],
            ),
            case(
                "reply",
                r#"{ name: response-transformer, config: { add: { headers: ["x-b: 1", "x-c: $(upstream_status)"] }, replace: { headers: ["x-none: 1"] } } }"#,
                vec![
                    told(ask("GET /", "", 200), "x-b", "1"),
                    told(ask("GET /", "", 200), "x-c", "$(upstream_status)"),
                    told(ask("GET /", "", 200), "x-none", ""),
                ],
            ),
            case(
                "statuses",
                r#"{ name: response-transformer-advanced, config: { add: { headers: ["x-b: 1"], if_status: ["500-599"] } } }"#,
                vec![told(ask("GET /", "", 200), "x-b", "")],
            ),
            case(
                "found",
                r#"{ name: response-transformer-advanced, config: { add: { headers: ["x-b: 1"], if_status: ["200-299"] } } }"#,
                vec![told(ask("GET /", "", 200), "x-b", "1")],
            ),
            case(
                "stays",
                r#"{ name: redirect, enabled: false, config: { location: "https://new.test/x" } }"#,
                vec![ask("GET /", "", 200)],
            ),
            case(
                "away",
                r#"{ name: redirect, config: { status_code: 308, location: "https://new.test/x" } }"#,
                vec![told(ask("GET /", "", 308), "location", "https://new.test/x")],
            ),
            case(
                "ended",
                "{ name: request-termination, config: { status_code: 418, message: tea } }",
                vec![told(
                    ask("GET /", "", 418),
                    "content-type",
                    "application/json; charset=utf-8",
                )],
            ),
            case(
                "sometimes",
                "{ name: request-termination, config: { status_code: 418, trigger: x-tea } }",
                vec![ask("GET /", "", 200), ask("GET /", "X-Tea: 1\r\n", 418)],
            ),
            case(
                "web",
                "{ name: grpc-web }",
                vec![told(ask("GET /", origin("https://any.test"), 200), allowed, "*")],
            ),
        ],
        0,
    );
}

#[test]
fn requests_go_elsewhere_or_are_answered_from_a_cache_or_a_document() {
    let api = r#"{\"openapi\":\"3.0.3\",\"info\":{\"title\":\"t\",\"version\":\"1\"},\"paths\":{\"/mock/pets\":{\"get\":{\"responses\":{\"200\":{\"description\":\"ok\",\"content\":{\"application/json\":{\"example\":{\"id\":7}}}}}}}}}"#;
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\nmain",
    );
    let other = Origin::saying("other");
    let canary = |share: &str| {
        format!(
            "plugins: [{{ name: canary, config: {{ {share}, hash: none, upstream_host: 127.0.0.1, upstream_port: {} }} }}]",
            other.address().port()
        )
    };
    let (gateway, run) = serving(
        &format!(
            r#"
_format_version: "3.0"
services:
  - name: main
    url: {}
    routes:
      - {{ name: cached, paths: [/cached], plugins: [{{ name: proxy-cache, config: {{ content_type: [text/plain] }} }}] }}
      - {{ name: other, paths: [/other], plugins: [{{ name: proxy-cache, config: {{ content_type: [text/html] }} }}] }}
      - {{ name: all, paths: [/all], {} }}
      - {{ name: none, paths: [/none], {} }}
      - {{ name: grown, paths: [/grown], {} }}
      - {{ name: later, paths: [/later], {} }}
      - {{ name: mock, paths: [/mock], plugins: [{{ name: mocking, config: {{ api_specification: "{api}" }} }}] }}
"#,
            origin.url(),
            canary("percentage: 100"),
            canary("percentage: 0"),
            canary("start: 1600000000, duration: 60"),
            canary("start: 32503680000"),
        ),
        3,
    );
    assert!(run.stderr.contains(" 0 refused"), "{}", run.stderr);
    for (path, status, line, text) in [
        ("/cached", 200, "Miss", "main"),
        ("/cached", 200, "Hit", "main"),
        ("/other", 200, "Bypass", "main"),
        ("/other", 200, "Bypass", "main"),
        ("/all", 200, "", "other"),
        ("/none", 200, "", "main"),
        ("/grown", 200, "", "other"),
        ("/later", 200, "", "main"),
        ("/mock/pets", 200, "", "{\"id\":7}"),
        ("/mock/cats", 404, "", ""),
    ] {
        let reply = gateway.wire().get(path);
        assert_eq!(reply.status(), status, "{path}: {}", reply.text());
        assert_eq!(reply.get("x-cache-status").unwrap_or(""), line, "{path}");
        assert!(reply.text().contains(text), "{path}: {}", reply.text());
    }
}

#[test]
fn tokens_of_an_issuer_pass_and_others_do_not() {
    let idp = issuer_by_discovery();
    let origin = Origin::echo();
    let issuer = format!("{}/realm", idp.url());
    let text = |methods: &str| {
        format!(
            "_format_version: \"3.0\"\nservices: [{{ name: s, url: \"{}\", routes: [{{ name: r, paths: [/r], plugins: [{{ name: openid-connect, config: {{ issuer: \"{issuer}\", auth_methods: [{methods}], audience_required: [shop], upstream_headers_claims: [sub, org.id], upstream_headers_names: [X-Sub, X-Org] }} }}] }}] }}]\n",
            origin.url()
        )
    };
    let (gateway, _) = serving(&text("bearer"), 3);
    let asked = |token: &str| {
        let line = format!("Authorization: Bearer {token}");
        gateway.wire().ask(format!("GET /r HTTP/1.1\r\nHost: h\r\n{line}\r\n\r\n")).status()
    };
    let claims = json!({ "iss": issuer, "aud": "shop", "sub": "ann", "org": { "id": 7 } });
    assert_eq!(asked(&EC.token(&claims)), 200);
    let seen = origin.request();
    assert_eq!((seen.get("x-sub"), seen.get("x-org")), (Some("ann"), Some("7")));
    assert_eq!(asked(&EC.token(&json!({ "iss": issuer, "aud": "other" }))), 401);
    assert_eq!(asked(TOKEN), 401);
    // Without its protecting plugin, a route does not serve requests.
    let (gateway, run) = serving(&text("bearer, authorization_code"), 3);
    assert!(run.stderr.contains("its guard `openid-connect` is refused"), "{}", run.stderr);
    assert_eq!(gateway.wire().get("/r").status(), 503);
}

/// The service says what its replies cost. Kong refuses the reply that uses up a limit, and later requests only if the plugin says so.
#[test]
fn replies_are_limited_by_the_costs_that_the_service_tells() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nX-Kong-Limit: video=2, image = 1, other=9\r\nContent-Length: 2\r\n\r\nok",
    );
    let plugin = |path: &str, more: &str| {
        format!(
            "{{ name: {path}, paths: [/{path}], plugins: [{{ name: response-ratelimiting, config: {{ limit_by: ip, {more} }} }}] }}"
        )
    };
    let (gateway, run) = serving(
        &format!(
            "_format_version: \"3.0\"\nservices: [{{ name: s, url: \"{}\", routes: [{}, {}, {}, {}] }}]\n",
            origin.url(),
            plugin("late", "limits: { video: { hour: 3 } }"),
            plugin(
                "early",
                "limits: { video: { hour: 3, day: 8 } }, block_on_first_violation: true"
            ),
            plugin("two", "limits: { video: { hour: 5 }, image: { hour: 9 } }"),
            plugin("hidden", "limits: { text: { hour: 1 } }, hide_client_headers: true"),
        ),
        3,
    );
    let rows: Vec<&str> = run.stderr.lines().filter(|row| row.contains("plugin ")).collect();
    let converted = rows.iter().filter(|row| row.starts_with("converted")).count();
    assert_eq!((rows.len(), converted), (4, 3), "{}", run.stderr);
    let (limit, rest) = ("x-ratelimit-limit-video-hour", "x-ratelimit-remaining-video-hour");
    for (path, status, name, value, asked) in [
        ("/late", 200, rest, "1", Some("3")),
        ("/late", 200, rest, "0", Some("1")),
        ("/late", 429, limit, "3", Some("0")),
        ("/early", 200, rest, "1", Some("3")),
        ("/early", 200, "x-ratelimit-remaining-video-day", "4", Some("1")),
        ("/early", 429, rest, "0", None),
        ("/two", 200, "x-ratelimit-remaining-image-hour", "8", Some("5")),
        ("/two", 200, rest, "1", Some("3")),
        ("/hidden", 200, "x-ratelimit-remaining-text-hour", "", None),
        ("/hidden", 200, "x-ratelimit-limit-text-hour", "", None),
    ] {
        origin.forget();
        let reply = gateway.wire().get(path);
        assert_eq!(reply.status(), status, "{path}: {reply:?}");
        assert_eq!(reply.get(name).unwrap_or(""), value, "{path}: {reply:?}");
        assert_eq!(reply.get("x-kong-limit"), None, "{path}");
        let seen = origin.requests();
        let told = seen.first().and_then(|seen| seen.get("x-ratelimit-remaining-video"));
        assert_eq!(told, asked, "{path}");
    }
}

/// A service with one route, and plugins for all.
fn plugged(origin: &Origin, plugins: &str) -> String {
    format!(
        "_format_version: \"3.0\"\nservices: [{{ name: s, url: \"{}\", routes: [{{ name: r, paths: [/r] }}] }}]\nplugins: [{plugins}]\n",
        origin.url()
    )
}

#[test]
fn lines_of_the_log_go_where_the_plugin_sends_them() {
    let (origin, receiver) =
        (Origin::echo(), Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    let url = receiver.url().replace("http://", "http://user:pass@");
    let plugin = format!(
        "{{ name: http-log, config: {{ http_endpoint: \"{url}/logs\", headers: {{ x-a: b }}, timeout: 1000 }} }}"
    );
    let (gateway, run) = serving(&plugged(&origin, &plugin), 3);
    let row = run.stderr.lines().find(|line| line.contains("plugin http-log")).unwrap();
    assert!(row.starts_with("approximated"), "{row}");
    assert_eq!(gateway.wire().get("/r").status(), 200);
    until("a line is there", || !receiver.requests().is_empty());
    let sent = receiver.requests().remove(0);
    assert_eq!(sent.start, "POST /logs HTTP/1.1");
    assert_eq!(
        (sent.get("authorization"), sent.get("x-a")),
        (Some("Basic dXNlcjpwYXNz"), Some("b"))
    );
    let line: Value = serde_json::from_str(sent.text().lines().next().unwrap()).unwrap();
    assert_eq!((&line["path"], &line["status"]), (&"/r".into(), &200.into()));

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let plugin = format!("{{ name: tcp-log, config: {{ host: 127.0.0.1, port: {port} }} }}");
    let (gateway, _) = serving(&plugged(&origin, &plugin), 3);
    assert_eq!(gateway.wire().get("/r").status(), 200);
    let (mut peer, _) = listener.accept().unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = vec![0; 65_536];
    let length = peer.read(&mut bytes).unwrap();
    assert!(String::from_utf8_lossy(&bytes[..length]).contains("\"path\":\"/r\""));

    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = socket.local_addr().unwrap().port();
    let plugin = format!("{{ name: udp-log, config: {{ host: 127.0.0.1, port: {port} }} }}");
    let (gateway, _) = serving(&plugged(&origin, &plugin), 3);
    assert_eq!(gateway.wire().get("/r").status(), 200);
    let length = socket.recv(&mut bytes).unwrap();
    assert!(String::from_utf8_lossy(&bytes[..length]).contains("\"path\":\"/r\""));

    let off = "{ name: http-log, enabled: false, config: { http_endpoint: \"http://h\" } }";
    let plugin = format!("{off}, {{ name: file-log, config: {{ path: /dev/stdout }} }}");
    let (gateway, _) = serving(&plugged(&origin, &plugin), 3);
    assert_eq!(gateway.wire().get("/r").status(), 200);
    gateway.wait_for_output("\"path\":\"/r\"");
}

#[test]
fn traces_and_metrics_are_those_of_the_plugins() {
    let (origin, collector) = (Origin::echo(), Collector::http());
    let plugins = format!(
        "{{ name: opentelemetry, config: {{ traces_endpoint: \"{0}/v1/traces\", sampling_rate: 1, access_logs: {{ endpoint: \"{0}/v1/logs\" }}, header_type: b3, resource_attributes: {{ service.namespace: shop }} }} }}, {{ name: prometheus }}",
        collector.url()
    );
    let (run, folder) = imported(&plugged(&origin, &plugins));
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("2 approximated, 0 refused"), "{}", run.stderr);
    let made = std::fs::read_to_string(folder.path().join("made/tidegate.yaml")).unwrap();
    assert!(made.contains("status:\n  address: \"127.0.0.1:0\""), "{made}");
    let gateway = Gateway::start(&made);
    assert_eq!(gateway.wire().get("/r").status(), 200);
    until("a span is there", || !collector.spans().is_empty());
    until("a line is there", || !collector.records().is_empty());
    let resource = &collector.resources()[0];
    assert_eq!(attribute(&resource.attributes, "service.namespace").as_deref(), Some("shop"));
    assert!(origin.request().get("x-b3-traceid").is_some());
    // Of plugins that are off nothing is left.
    let off = plugins.replace("{ name: opentelemetry,", "{ name: opentelemetry, enabled: false,");
    let off = off.replace("{ name: prometheus }", "{ name: prometheus, enabled: false }");
    let (run, folder) = imported(&plugged(&origin, &off));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let made = std::fs::read_to_string(folder.path().join("made/tidegate.yaml")).unwrap();
    assert!(!made.contains("\nstatus:") && !made.contains("telemetry"), "{made}");
}

#[test]
fn what_a_plugin_cannot_do_here_is_refused_with_its_place() {
    let origin = Origin::echo();
    for (plugin, what) in [
        (
            "{ name: zipkin, config: { http_endpoint: \"http://h:9411/api/v2/spans\" } }",
            "Tidegate has no Zipkin format",
        ),
        ("{ name: syslog }", "the plugin names no receiver"),
        ("{ name: loggly, config: { key: k } }", "messages have no token"),
        (
            "{ name: http-log, config: { http_endpoint: \"http://h\", method: PUT } }",
            "Tidegate sends lines by POST only",
        ),
        (
            "{ name: http-log, config: { http_endpoint: \"http://h\", custom_fields_by_lua: { a: return 1 } } }",
            "Tidegate does not run Lua code",
        ),
        (
            "{ name: bot-detection, config: { deny: [\"(?=a)b\"] } }",
            "no look-around and no references",
        ),
        (
            "{ name: cors, config: { origins: [\"https://(?!a).test\"] } }",
            "no look-around and no references",
        ),
        ("{ name: cors, config: { origins: [a.test] } }", "no page has an origin of this list"),
        (
            "{ name: request-transformer, config: { add: { headers: [\"a:$(headers.b or 1)\"] } } }",
            "Tidegate has no template `$(headers.b or 1)`",
        ),
        (
            "{ name: request-transformer, config: { http_method: TRACE } }",
            "Tidegate does not forward `TRACE`",
        ),
        (
            "{ name: request-transformer, config: { replace: { uri: \"/$(headers.b)\" } } }",
            "Tidegate has no `replace.uri` with this template",
        ),
        (
            "{ name: response-transformer-advanced, config: { replace: { body: x } } }",
            "Tidegate does not replace a whole body",
        ),
        (
            "{ name: response-ratelimiting, config: { limits: { \"a b\": { minute: 1 } } } }",
            "the limit `a b` cannot be part of a header's name",
        ),
        (
            "{ name: rate-limiting, config: { second: 1, minute: 2, hour: 3, day: 4, month: 5 } }",
            "a limit can have at most 4 windows",
        ),
        (
            "{ name: request-validator, config: { body_schema: '[]' } }",
            "`body_schema` must be JSON Schema",
        ),
        (
            "{ name: grpc-web, config: { proto: a.proto } }",
            "compile the file with `protoc`, and use `grpc_json`",
        ),
        (
            "{ name: tcp-log, config: { host: h, port: 1, custom_fields_by_lua: { a: return 1 } } }",
            "Tidegate does not run Lua code",
        ),
        (
            "{ name: udp-log, config: { host: h, port: 1, custom_fields_by_lua: { a: return 1 } } }",
            "Tidegate does not run Lua code",
        ),
        (
            "{ name: file-log, config: { path: /dev/stdout, custom_fields_by_lua: { a: return 1 } } }",
            "Tidegate does not run Lua code",
        ),
        (
            "{ name: grpc-gateway, config: { proto: a.proto } }",
            "compile the file with `protoc`, and use `grpc_json`",
        ),
        ("{ name: mtls-auth }", "Tidegate does not look up certificates among consumers"),
        ("{ name: session }", "Tidegate has no sessions: each request must have its credential"),
        ("{ name: pre-function, config: { access: [x] } }", "Tidegate does not run Lua code"),
        ("{ name: json-threat-protection }", "limits on the shape of JSON"),
        ("{ name: xml-threat-protection }", "limits on the shape of XML"),
        ("{ name: our-own }", "Tidegate does not have this plugin"),
    ] {
        let (run, _folder) = imported(&plugged(&origin, plugin));
        assert_eq!(run.code, Some(3), "{plugin}: {}", run.stderr);
        let row = run.stderr.lines().find(|line| line.contains("plugin ")).unwrap();
        assert!(row.starts_with("refused"), "{plugin}: {row}");
        assert!(row.contains("kong.yaml:3:11"), "{plugin}: {row}");
        assert!(run.stderr.contains(what), "{plugin}: {}", run.stderr);
    }
    let two = "{ name: file-log, config: { path: /dev/stdout } }, { name: udp-log, config: { host: h, port: 1 } }";
    let (run, _folder) = imported(&plugged(&origin, two));
    assert!(run.stderr.contains("the gateway has one access log"), "{}", run.stderr);
}
