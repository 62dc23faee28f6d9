//! What public files of Kong use besides the plugins' common fields, behind the result of `tidegate import kong`.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::harness::{Gateway, Origin, Plain, Run, tidegate, until};

fn imported(text: &str, more: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kong.yaml");
    std::fs::write(&file, text).unwrap();
    let mut arguments = vec!["import", "kong", file.to_str().unwrap(), "--listen", "127.0.0.1:0"];
    arguments.extend(more);
    tidegate(&arguments)
}

fn serving(text: &str) -> Gateway {
    let run = imported(text, &[]);
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    Gateway::start(&run.stdout)
}

fn token(secret: &str, header: &str, claims: &str) -> String {
    let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part));
    let signed = format!("{header}.{claims}");
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes())))
}

fn status(gateway: &Gateway, target: &str, token: &str) -> u16 {
    let line = format!("Authorization: Bearer {token}");
    gateway.wire().ask(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{line}\r\n\r\n")).status()
}

#[test]
fn a_credential_is_found_by_any_claim_or_header_and_has_a_secret_of_any_length() {
    let origin = Origin::echo();
    let gateway = serving(&format!(
        r#"
_format_version: "3.0"
services:
  - name: s
    url: {}
    routes:
      - {{ name: iss, paths: [/iss], plugins: [{{ name: jwt }}] }}
      - {{ name: kid, paths: [/kid], plugins: [{{ name: jwt, config: {{ key_claim_name: kid }} }}] }}
      - {{ name: app, paths: [/app], plugins: [{{ name: jwt, config: {{ key_claim_name: app }} }}] }}
consumers:
  - {{ username: ann, jwt_secrets: [{{ key: k-ann, secret: hush }}] }}
  - {{ username: bob, jwt_secrets: [{{ key: k-bob, secret: 0123456789abcdef0123456789abcdef }}] }}
"#,
        origin.url()
    ));
    const BOB: &str = "0123456789abcdef0123456789abcdef";
    let plain = r#"{"alg":"HS256"}"#;
    let kid = r#"{"alg":"HS256","kid":"k-ann"}"#;
    let app = r#"{"alg":"HS256","app":"k-bob"}"#;
    for (target, secret, header, claims, who) in [
        ("/iss", "hush", plain, r#"{"iss":"k-ann"}"#, "ann"),
        ("/iss", "hush", kid, r#"{"iss":"k-ann"}"#, "ann"),
        ("/iss", BOB, plain, r#"{"iss":"k-bob"}"#, "bob"),
        ("/iss", "hash", plain, r#"{"iss":"k-ann"}"#, ""),
        ("/iss", "hush", kid, r#"{"sub":"k-ann"}"#, ""),
        ("/kid", "hush", kid, r#"{"iss":"other"}"#, "ann"),
        ("/kid", BOB, plain, r#"{"kid":"k-bob"}"#, "bob"),
        // A claim comes before the header.
        ("/kid", BOB, kid, r#"{"kid":"k-bob"}"#, "bob"),
        ("/kid", "hush", kid, r#"{"kid":"none"}"#, ""),
        ("/kid", "hush", kid, r#"{"kid":7}"#, ""),
        ("/kid", "hush", plain, r#"{"iss":"k-ann"}"#, ""),
        ("/kid", BOB, kid, "{}", ""),
        ("/app", BOB, app, "{}", "bob"),
        ("/app", "hush", plain, r#"{"app":"k-ann"}"#, "ann"),
        ("/app", "hush", app, "{}", ""),
    ] {
        origin.forget();
        let expected = if who.is_empty() { 401 } else { 200 };
        let token = token(secret, header, claims);
        assert_eq!(status(&gateway, target, &token), expected, "{target} {header} {claims}");
        if expected == 200 {
            assert_eq!(origin.request().get("x-consumer-username"), Some(who), "{target} {claims}");
        }
    }
}

#[test]
fn an_issuer_has_one_way_to_be_named_and_a_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.yaml");
    let check = |issuers: &str| {
        let text = format!(
            "listen: {{ a: {{ address: \"127.0.0.1:0\" }} }}\nissuers: {{ {issuers} }}\nroutes: {{ r: {{ match: {{ path: / }}, policies: [{{ jwt: {{ issuers: [a] }} }}], respond: {{}} }} }}\n"
        );
        std::fs::write(&file, text).unwrap();
        tidegate(&["check", file.to_str().unwrap()])
    };
    let run = check("a: { issuer: x, secret: hush, secret_short: true }");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("can guess its secret"), "{}", run.stderr);
    for (issuers, what) in [
        ("a: { issuer: x, secret: hush }", "the secret of the issuer cannot be used"),
        ("a: { issuer: x, secret: \"\", secret_short: true }", "cannot be used"),
        (
            "a: { issuer: \"http://127.0.0.1:1\", discovery: true, issuer_claim: kid }",
            "with `discovery`, tokens must name their issuer in `iss`",
        ),
    ] {
        let run = check(issuers);
        assert_eq!(run.code, Some(1), "{issuers}: {}", run.stdout);
        assert!(run.stderr.contains(what), "{issuers}: {}", run.stderr);
    }
}

#[test]
fn variables_of_a_shell_stay_variables_where_the_operator_says_so() {
    let text = r#"
_format_version: "2.1"
# $COMMENT
services:
  - { name: a, url: "http://$AUTH_HOST:9999/verify", routes: [{ name: r, paths: [/a], plugins: [{ name: key-auth }] }] }
consumers:
  - { username: c, keyauth_credentials: [{ key: $ANON_KEY }, { key: "x-${OTHER_KEY}$" }, { key: "$1 ${A-b} $" }] }
plugins:
  - { name: request-transformer, config: { add: { headers: ["x-a:$WHO", "x-b:b"] } } }
"#;
    let run = imported(text, &["--shell-variables"]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    for line in ["http://${AUTH_HOST}:9999", "\"${ANON_KEY}\"", "\"x-${OTHER_KEY}$\"", "${WHO}"] {
        assert!(run.stdout.contains(line), "{line}: {}", run.stdout);
    }
    assert!(run.stdout.contains("$1 $"), "{}", run.stdout);
    assert!(
        run.stderr.contains("Tidegate does not fill in templates in the value of a variable"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("1 approximated, 0 refused"), "{}", run.stderr);
    // Kong itself knows no variables, and no such host.
    let run = imported(text, &[]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(!run.stdout.contains("\"${ANON_KEY}\""), "{}", run.stdout);
    assert!(run.stderr.contains("has a bad host"), "{}", run.stderr);
}

#[test]
fn a_star_in_a_path_is_a_star_since_format_3() {
    let origin = Origin::echo();
    let file = |version: &str| {
        format!(
            "_format_version: \"{version}\"\nservices: [{{ name: s, url: \"{}\", routes: [{{ name: r, paths: [/a/*/b], strip_path: false }}] }}]\n",
            origin.url()
        )
    };
    let get = |gateway: &Gateway, target: &str| gateway.wire().get(target).status();
    let gateway = serving(&file("3.0"));
    assert_eq!((get(&gateway, "/a/*/b/c"), get(&gateway, "/a/x/b")), (200, 404));
    // Before, it made the path a regular expression.
    let gateway = serving(&file("2.1"));
    assert_eq!((get(&gateway, "/a///b"), get(&gateway, "/a/*/b")), (200, 404));
    let run = imported(&file("3.0").replace("/a/*/b", "/a/{b}"), &[]);
    assert_eq!(run.code, Some(1), "{}", run.stdout);
}

#[test]
fn a_file_without_a_format_has_that_of_the_others_or_the_first() {
    let origin = Origin::echo();
    let services = format!(
        "services:\n  - {{ name: a, url: {}, routes: [{{ name: r, paths: [\"/a/(b)+\", /b], strip_path: false }}] }}\n",
        origin.url()
    );
    let gateway = serving(&services);
    for (target, status) in [("/a/bb", 200), ("/a/x", 404), ("/b", 200)] {
        assert_eq!(gateway.wire().get(target).status(), status, "{target}");
    }
    // Of format 3.0 it is a path with parentheses.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.yaml"), &services).unwrap();
    std::fs::write(folder.path().join("b.yaml"), "_format_version: \"3.0\"\n").unwrap();
    let folder = folder.path().to_str().unwrap();
    let run = tidegate(&["import", "kong", folder, "--listen", "127.0.0.1:0"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("prefix: \"/a/(b)+\""), "{}", run.stdout);
    assert!(!run.stdout.contains("regex_prefix"), "{}", run.stdout);
}

#[test]
fn a_mark_of_an_expression_before_format_3_is_reported() {
    let text = |version: &str, path: &str| {
        format!(
            "_format_version: \"{version}\"\nservices: [{{ name: a, url: \"http://h\", routes: [{{ name: r, paths: [\"{path}\"] }}] }}]\n"
        )
    };
    let run = imported(&text("1.1", "~/a/[0-9]+"), &[]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("which matches nothing in Kong"), "{}", run.stderr);
    assert!(run.stdout.contains("regex_prefix: \"/a/[0-9]+\""), "{}", run.stdout);
    for (version, path) in [("3.0", "~/a/[0-9]+"), ("1.1", "/a/[0-9]+"), ("1.1", "~/a")] {
        let run = imported(&text(version, path), &[]);
        assert_eq!(run.code, Some(0), "{version} {path}: {}", run.stderr);
    }
}

#[test]
fn an_anonymous_consumer_may_have_the_id_that_kong_makes() {
    let origin = Origin::echo();
    let text = |anonymous: &str| {
        format!(
            "_format_version: \"3.0\"\nservices: [{{ name: a, url: {}, routes: [{{ name: r, paths: [/r], plugins: [{{ name: key-auth, config: {{ anonymous: {anonymous} }} }}] }}] }}]\nconsumers: [{{ username: anonymous }}, {{ username: b, keyauth_credentials: [{{ key: k }}] }}]\n",
            origin.url()
        )
    };
    for (anonymous, status) in [
        ("anonymous", 200),
        // The UUID of version 5 of the name.
        ("1cd57acc-61b9-5afa-9668-80123fa9b98d", 200),
        ("nobody", 401),
    ] {
        let run = imported(&text(anonymous), &[]);
        assert_eq!(run.code, Some(3), "{anonymous}: {}", run.stderr);
        let told = run.stderr.contains("there is no consumer `nobody`");
        assert_eq!(told, anonymous == "nobody", "{}", run.stderr);
        let gateway = Gateway::start(&run.stdout);
        assert_eq!(gateway.wire().get("/r").status(), status, "{anonymous}");
        assert_eq!(gateway.wire().get("/r?apikey=k").status(), 200, "{anonymous}");
    }
}

#[test]
fn preflights_match_routes_as_options_as_in_kong() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nAccess-Control-Allow-Origin: https://own.test\r\n\r\nok",
    );
    let text = format!(
        r#"
_format_version: "3.0"
services:
  - name: a
    url: {}
    routes:
      - {{ name: some, paths: [/some], methods: [GET, POST] }}
      - {{ name: own, paths: [/own], methods: [GET, OPTIONS] }}
      - {{ name: all, paths: [/all] }}
      - {{ paths: [/unnamed], methods: [PUT] }}
      - name: behind
        paths: [/behind]
        plugins: [{{ name: cors, config: {{ origins: ["https://a.test"], preflight_continue: true }} }}]
    plugins: [{{ name: cors, config: {{ origins: ["https://a.test", "https://b.test"] }} }}]
"#,
        origin.url()
    );
    let run = imported(&text, &[]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let gateway = Gateway::start(&run.stdout);
    for (path, page, status, allowed) in [
        // No route takes OPTIONS.
        ("/some", "https://a.test", 404, None),
        ("/unnamed", "https://a.test", 404, None),
        ("/own", "https://a.test", 200, Some("https://a.test")),
        ("/all", "https://b.test", 200, Some("https://b.test")),
        // The gateway answers pages of other origins too.
        ("/own", "https://c.test", 200, None),
        // The answer of the service.
        ("/behind", "https://c.test", 200, Some("https://own.test")),
    ] {
        let method = "Access-Control-Request-Method: GET";
        let reply = gateway.wire().ask(format!(
            "OPTIONS {path} HTTP/1.1\r\nHost: h\r\nOrigin: {page}\r\n{method}\r\n\r\n"
        ));
        assert_eq!(reply.status(), status, "{path} {page}: {reply:?}");
        assert_eq!(reply.get("access-control-allow-origin"), allowed, "{path} {page}");
    }
    assert_eq!(origin.requests().len(), 1);
    // A reply to another request has the headers of the gateway.
    let get = "GET /behind HTTP/1.1\r\nHost: h\r\nOrigin: https://a.test\r\n\r\n";
    let reply = gateway.wire().ask(get);
    assert_eq!(reply.get("access-control-allow-origin"), Some("https://a.test"));
}

#[test]
fn after_a_plugin_that_answers_no_other_runs_on_the_request() {
    let gateway = serving(
        r#"
_format_version: "3.0"
services:
  - name: a
    url: "http://h"
    routes:
      - { name: denied, paths: [/denied], plugins: [{ name: ip-restriction, config: { deny: [127.0.0.0/8] } }] }
      - name: limited
        paths: [/limited]
        plugins:
          - { name: rate-limiting, config: { minute: 1, policy: local } }
          - { name: response-transformer, config: { add: { headers: ["x-seen:1"] } } }
    plugins: [{ name: jwt }]
"#,
    );
    for target in ["/denied", "/limited", "/limited"] {
        let reply = gateway.wire().get(target);
        assert_eq!(reply.status(), 401, "{target}");
        assert_eq!(reply.get("x-ratelimit-limit-minute"), None, "{target}");
        assert_eq!(reply.get("x-seen").is_some(), target == "/limited", "{target}");
    }
}

#[test]
fn a_certificate_in_a_vault_is_refused() {
    let text = r#"
_format_version: "3.0"
vaults: [{ name: env, prefix: mine, config: { prefix: MY_ } }]
certificates:
  - { id: 13c562a1-191c-4464-9b18-e5222b46035b, cert: "{vault://mine/cert}", key: "{vault://mine/key}", snis: [{ name: a.test }] }
services:
  - { name: a, url: "https://h", client_certificate: 13c562a1-191c-4464-9b18-e5222b46035b, routes: [{ name: r, paths: [/r] }] }
"#;
    let run = imported(text, &[]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    for row in ["certificate a.test", "service a"] {
        let told = |line: &str| line.starts_with("refused") && line.contains(row);
        assert!(run.stderr.lines().any(told), "{row}: {}", run.stderr);
    }
    assert!(run.stderr.contains("must be in the file"), "{}", run.stderr);
}

#[test]
fn the_headers_of_cached_replies_are_compared_with_kongs() {
    let text = |headers: &str| {
        format!(
            "_format_version: \"3.0\"\nservices: [{{ name: a, url: \"http://h\", routes: [{{ name: r, paths: [/r], plugins: [{{ name: proxy-cache, config: {{ cache_control: true, content_type: [\"text/plain; charset=utf-8\"], response_headers: {{ {headers} }} }} }}] }}] }}]\n"
        )
    };
    for (headers, code, what) in [
        ("X-Cache-Key: false, X-Cache-Status: true, age: true", 0, "0 approximated"),
        ("X-Cache-Key: true, X-Cache-Status: true, age: true", 3, "does not add `X-Cache-Key`"),
        ("X-Cache-Key: false, age: false", 3, "always adds `Age` and `X-Cache-Status`"),
        ("", 3, "does not add `X-Cache-Key`"),
    ] {
        let run = imported(&text(headers), &[]);
        assert_eq!(run.code, Some(code), "{headers}: {}", run.stderr);
        assert!(run.stderr.contains(what), "{headers}: {}", run.stderr);
    }
}

#[test]
fn too_few_targets_take_no_requests() {
    let origin = Origin::echo();
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let upstream = |name: &str, threshold: u32| {
        format!(
            "  - {{ name: {name}, targets: [{{ target: \"{}\" }}, {{ target: \"{closed}\" }}], healthchecks: {{ threshold: {threshold}, active: {{ type: tcp, healthy: {{ interval: 0.1, successes: 1 }}, unhealthy: {{ interval: 0.1, http_failures: 1, tcp_failures: 1, timeouts: 1 }} }} }} }}\n",
            origin.address()
        )
    };
    let gateway = serving(&format!(
        "_format_version: \"3.0\"\nservices:\n  - {{ name: a, host: half, routes: [{{ name: a, paths: [/a] }}] }}\n  - {{ name: b, host: most, routes: [{{ name: b, paths: [/b] }}] }}\nupstreams:\n{}{}",
        upstream("half", 50),
        upstream("most", 51)
    ));
    let status = |target: &str| gateway.wire().get(target).status();
    until("the check of the closed target has failed", || status("/b") == 503);
    for _ in 0..4 {
        assert_eq!(status("/b"), 503);
    }
    until("only the open target is asked", || (0..4).all(|_| status("/a") == 200));
}

#[test]
fn kong_writes_some_headers_itself() {
    let origin = Origin::echo();
    let edits = "add: { headers: [\"X-Forwarded-Proto:https\", \"X-Real-IP:1.1.1.1\", \"x-a:b\", \"X-Forwarded-For:9.9.9.9\"] }, replace: { headers: [\"X-Forwarded-Host:other\"] }, remove: { headers: [x-forwarded-port] }";
    let file = |edits: &str| {
        format!(
            "_format_version: \"3.0\"\nservices: [{{ name: s, url: \"{}\", routes: [{{ name: r, paths: [/a], plugins: [{{ name: request-transformer, config: {{ {edits} }} }}] }}] }}]\n",
            origin.url()
        )
    };
    let gateway = serving(&file(edits));
    assert_eq!(gateway.wire().ask("GET /a HTTP/1.1\r\nHost: h\r\n\r\n").status(), 200);
    let seen = origin.request();
    assert_eq!(seen.all("x-forwarded-proto"), ["http"]);
    assert_eq!(seen.all("x-forwarded-host"), ["h"]);
    assert_eq!((seen.all("x-real-ip"), seen.get("x-a")), (vec!["127.0.0.1"], Some("b")));
    assert_eq!(seen.all("x-forwarded-port"), [gateway.address("public").port().to_string()]);
    assert_eq!(seen.all("x-forwarded-for"), ["9.9.9.9, 127.0.0.1"]);
    let run = imported(&file("rename: { headers: [\"x-a:x-forwarded-proto\"] }"), &[]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("Kong writes `x-forwarded-proto` itself"), "{}", run.stderr);
}

#[test]
fn the_slash_at_the_end_of_a_services_path_counts() {
    let origin = Origin::echo();
    let mut text = "_format_version: \"3.0\"\nservices:\n".to_owned();
    let cases = [
        // The path of the service and of its route, `strip_path`, a request, and what the service sees.
        ("", "/", true, "/", "/"),
        ("/base", "/", true, "/", "/base"),
        ("/base", "/", true, "/x", "/base/x"),
        ("/base/", "/", true, "/", "/base/"),
        ("/base/", "/", true, "/x", "/base/x"),
        ("/base/", "/", false, "/", "/base/"),
        ("/base/", "/", false, "/x/", "/base/x/"),
        ("/base/", "/r", true, "/r", "/base"),
        ("/base/", "/r", true, "/r/", "/base/"),
        ("/base/", "/r", false, "/r", "/base/r"),
    ];
    for (at, (base, path, strips, ..)) in cases.iter().enumerate() {
        let route = format!("hosts: [h{at}], paths: [{path}], strip_path: {strips}");
        let url = format!("{}{base}", origin.url());
        text += &format!(
            "  - {{ name: s{at}, url: \"{url}\", routes: [{{ name: r{at}, {route} }}] }}\n"
        );
    }
    let gateway = serving(&text);
    for (at, (.., target, sent)) in cases.iter().enumerate() {
        let reply = gateway.wire().ask(format!("GET {target} HTTP/1.1\r\nHost: h{at}\r\n\r\n"));
        assert_eq!(reply.status(), 200, "{at}");
        assert_eq!(origin.request().target(), *sent, "{at}");
        origin.forget();
    }
}

#[test]
fn a_request_that_is_terminated_without_a_message_has_that_of_its_status() {
    for (config, status, body) in [
        ("{}", 503, r#"{"message":"Service unavailable"}"#),
        ("{ status_code: 405 }", 405, r#"{"message":"Method not allowed"}"#),
        ("{ status_code: 200, message: null }", 200, ""),
        ("{ status_code: 403 }", 403, ""),
        ("{ status_code: 429, message: slow }", 429, r#"{"message":"slow"}"#),
    ] {
        let gateway = serving(&format!(
            "_format_version: \"3.0\"\nroutes: [{{ name: r, paths: [/r], plugins: [{{ name: request-termination, config: {config} }}] }}]\n"
        ));
        let reply = gateway.wire().get("/r");
        assert_eq!((reply.status(), reply.text().as_str()), (status, body), "{config}");
        let kind = (!body.is_empty()).then_some("application/json; charset=utf-8");
        assert_eq!(reply.get("content-type"), kind, "{config}");
    }
}

#[test]
fn what_would_not_be_noticed_has_a_row() {
    for (text, code, row) in [
        (
            "consumers: [{ username: a, keyauth_credentials: [{ key: k, ttl: 60 }] }]",
            3,
            "keys do not expire",
        ),
        ("consumers: [{ username: a, keyauth_credentials: [{ key: k, ttl: 0 }] }]", 0, ""),
        ("plugins: [{ name: rate-limiting, config: { minute: 1, limit_by: service } }]", 0, ""),
        ("plugins: [{ name: rate-limiting, config: { minute: 1, limit_by: credential } }]", 0, ""),
        (
            "plugins: [{ name: rate-limiting, config: { month: 1 } }]",
            3,
            "each month has the same number of days",
        ),
        (
            "plugins: [{ name: rate-limiting, service: s, config: { minute: 1, limit_by: service } }]",
            0,
            "",
        ),
        (
            "plugins: [{ name: rate-limiting, config: { minute: 1, limit_by: service, policy: cluster } }]",
            3,
            "each gateway counts for itself",
        ),
        (
            "upstreams: [{ name: u, targets: [{ target: h }], healthchecks: { active: { type: https, healthy: { interval: 1, successes: 1 }, unhealthy: { interval: 1, http_failures: 1, tcp_failures: 1, timeouts: 1 } } } }]",
            3,
            "health checks use the protocol of the service",
        ),
        (
            "plugins: [{ name: key-auth }]\nconsumers: [{ custom_id: c, keyauth_credentials: [{ key: k }] }]",
            3,
            "`X-Consumer-Username` is the custom id",
        ),
        (
            "plugins: [{ name: key-auth }]\nconsumers: [{ username: c, keyauth_credentials: [{ key: k }] }]",
            0,
            "",
        ),
    ] {
        let services = "services: [{ name: s, url: \"http://h\", routes: [{ paths: [/s], plugins: [{ name: cors }] }] }]";
        let run = imported(&format!("_format_version: \"3.0\"\n{services}\n{text}\n"), &[]);
        assert_eq!(run.code, Some(code), "{text}: {}", run.stderr);
        assert!(run.stderr.contains(row), "{text}: {}", run.stderr);
        assert!(run.stderr.contains("plugin cors of route without a name"), "{}", run.stderr);
    }
}

#[test]
fn routes_for_https_alone_have_a_certificate_as_in_kong() {
    let origin = Origin::echo();
    let text = format!(
        "_format_version: \"3.0\"\nservices: [{{ name: a, url: \"{}\", routes: [{{ name: r, paths: [/r], protocols: [https] }}, {{ name: both, paths: [/both] }}] }}]\n",
        origin.url()
    );
    let run = imported(&text, &["--listen-tls", "127.0.0.1:0"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("the gateway makes the certificate"), "{}", run.stderr);
    let gateway = Gateway::start(&run.stdout);
    assert_eq!(gateway.wire().get("/r").status(), 426);
    assert_eq!(gateway.wire().get("/both").status(), 200);
    let secure = [format!("https://{}", gateway.address("secure"))];
    let upstream = "tls: { verify: false }";
    let client = Plain { targets: &secure, upstream, ..Plain::default() }.start(&origin);
    assert_eq!(client.wire().get("/r").status(), 200);
    assert_eq!(client.wire().get("/both").status(), 200);
}

#[test]
fn a_certificate_that_cannot_be_read_is_not_replaced_by_another() {
    let text = "_format_version: \"3.0\"\nservices: [{ name: a, url: \"http://h\", routes: [{ name: r, paths: [/r], protocols: [https] }] }]\ncertificates: [{ cert: \"{vault://hcv/a}\", key: \"{vault://hcv/b}\", snis: [{ name: a.test }] }]\n";
    let run = imported(text, &[]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("nothing listens for HTTPS"), "{}", run.stderr);
    assert!(!run.stdout.contains("self_signed"), "{}", run.stdout);
}

#[test]
fn a_route_for_get_takes_no_head() {
    let origin = Origin::echo();
    let gateway = serving(&format!(
        "_format_version: \"3.0\"\nservices: [{{ name: a, url: \"{}\", routes: [{{ name: get, paths: [/a], methods: [GET, POST] }}, {{ name: head, paths: [/b], methods: [GET, HEAD] }}, {{ name: each, paths: [/c] }}] }}]\n",
        origin.url()
    ));
    for (target, status) in [("/a", 404), ("/b", 200), ("/c", 200)] {
        let asked = format!("HEAD {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        assert_eq!(gateway.wire().ask(asked).status(), status, "{target}");
        assert_eq!(gateway.wire().get(target).status(), 200, "{target}");
    }
}

#[test]
fn a_header_without_a_value_is_not_edited() {
    let origin = Origin::echo();
    let gateway = serving(&format!(
        "_format_version: \"3.0\"\nservices: [{{ name: a, url: \"{}\", routes: [{{ name: a, paths: [/a], plugins: [{{ name: request-transformer, config: {{ add: {{ headers: [x-new, \"x-other:1\"] }}, replace: {{ headers: [x-old] }} }} }}] }}] }}]\n",
        origin.url()
    ));
    let asked = "GET /a HTTP/1.1\r\nHost: h\r\nX-Old: kept\r\n\r\n";
    assert_eq!(gateway.wire().ask(asked).status(), 200);
    let seen = origin.request();
    assert_eq!(
        (seen.get("x-new"), seen.get("x-other"), seen.get("x-old")),
        (None, Some("1"), Some("kept"))
    );
}

#[test]
fn a_service_gets_no_post_twice() {
    // It closes its first connection without an answer.
    let closing = || {
        Origin::start(|peer| {
            let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            while peer.request().is_some() && peer.number > 0 && peer.try_send(ok) {}
        })
    };
    for (method, status, times) in [("POST", 502, 1), ("PATCH", 502, 1), ("GET", 200, 2)] {
        let origin = closing();
        let gateway = serving(&format!(
            "_format_version: \"3.0\"\nservices: [{{ name: a, url: \"{}\", routes: [{{ name: r, paths: [/r] }}] }}]\n",
            origin.url()
        ));
        let asked = format!("{method} /r HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\na");
        assert_eq!(gateway.wire().ask(asked).status(), status, "{method}");
        assert_eq!(origin.requests().len(), times, "{method}");
    }
}
