//! The route of a request, and the path that the upstream sees.

use crate::harness::{Gateway, Origin, Plain, Wire, tidegate};

/// A listener that lets paths pass that servers read differently.
pub(crate) const KEEP_PATHS: &str =
    "paths: { escaped_slash: keep, empty_segments: keep, parameters: keep }";

fn request(method: &str, target: &str, lines: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n")
}

#[test]
fn the_most_specific_route_wins_wherever_it_stands() {
    let gateway = Gateway::start(
        r#"
listen: { public: { address: "127.0.0.1:0" } }
routes:
  any:       { match: { path: "/**" }, respond: { body: any } }
  prefix:    { match: { path: "/a/**" }, respond: { body: prefix } }
  longer:    { match: { path: "/a/b/c/**" }, respond: { body: longer } }
  parameter: { match: { path: "/a/{id}" }, respond: { body: parameter } }
  exact:     { match: { path: "/a/b" }, respond: { body: exact } }
  method:    { match: { path: "/a/b", methods: [POST, PUT] }, respond: { body: method } }
  header:    { match: { path: "/a/b", headers: { x-tier: gold } }, respond: { body: header } }
  present:   { match: { path: "/p", headers: { x-tier: { present: true } } }, respond: { body: present } }
  query:     { match: { path: "/a/b", query: { v: "2" } }, respond: { body: query } }
  both:      { match: { path: "/a/b", headers: { x-tier: gold }, query: { v: "2" } }, respond: { body: both } }
  wildcard:  { match: { path: "/a/b", host: "*.example.com" }, respond: { body: wildcard } }
  host:      { match: { path: "/**", host: [api.example.com, other.test] }, respond: { body: host } }
"#,
    );
    let host = |name: &str| format!("Host: {name}\r\n");
    let plain = host("a.test");
    let gold = format!("{plain}X-Tier: gold\r\n");
    for (method, target, lines, expected) in [
        ("GET", "/", &plain, "any"),
        ("GET", "/ab", &plain, "any"),
        ("GET", "/a", &plain, "prefix"),
        ("GET", "/a/", &plain, "prefix"),
        ("GET", "/a/x", &plain, "parameter"),
        ("GET", "/a/x/y", &plain, "prefix"),
        ("GET", "/a/b/c", &plain, "longer"),
        ("GET", "/a/b/c/d", &plain, "longer"),
        ("GET", "/a/b/cd", &plain, "prefix"),
        ("GET", "/a/b", &plain, "exact"),
        ("GET", "/%61/b", &plain, "exact"),
        ("GET", "/A/b", &plain, "any"),
        ("GET", "/a/b?v=1", &plain, "exact"),
        ("GET", "/a/b?w=1&v=2", &plain, "query"),
        ("GET", "/a/b?v=%32", &plain, "query"),
        ("POST", "/a/b", &plain, "method"),
        ("PUT", "/a/b", &gold, "method"),
        ("GET", "/a/b", &gold, "header"),
        ("GET", "/a/b?v=2", &gold, "both"),
        ("GET", "/p", &gold, "present"),
        ("GET", "/p", &plain, "any"),
        ("GET", "/a/b", &format!("{plain}x-tier: silver\r\n"), "exact"),
        ("GET", "/a/b", &host("x.example.com"), "wildcard"),
        ("GET", "/a/b", &host("x.y.Example.COM:8080"), "wildcard"),
        ("GET", "/a/b", &host("example.com"), "exact"),
        ("GET", "/a/b", &host("xexample.com"), "exact"),
        ("GET", "/a/c", &host("x.example.com"), "parameter"),
        ("GET", "/a/b", &host("api.example.com"), "host"),
        ("GET", "/a/b", &host("API.example.com:1"), "host"),
        ("GET", "/a/b", &host("other.test"), "host"),
        ("GET", "http://api.example.com/a/b", &host("api.example.com"), "host"),
        ("GET", "http://a.test", &plain, "any"),
    ] {
        let reply = gateway.wire().ask(request(method, target, lines));
        assert_eq!(
            (reply.status(), reply.text().as_str()),
            (200, expected),
            "{method} {target} {lines:?}"
        );
    }
}

#[test]
fn a_fixed_reply_is_what_is_written() {
    let gateway = Gateway::start(
        r#"
listen: { public: { address: "127.0.0.1:0" } }
routes:
  fixed: { match: { path: "/fixed" }, respond: { status: 418, body: "tea\n", headers: { content-type: text/plain, x-a: b } } }
  empty: { match: { path: "/empty" }, respond: { status: 204 } }
"#,
    );
    let mut wire = gateway.wire();
    let reply = wire.get("/fixed");
    assert_eq!((reply.status(), reply.text().as_str(), reply.length()), (418, "tea\n", Some(4)));
    assert_eq!((reply.get("content-type"), reply.get("x-a")), (Some("text/plain"), Some("b")));
    let head = wire.ask("HEAD /fixed HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.status(), head.length()), (418, Some(4)));
    let empty = wire.get("/empty");
    assert_eq!((empty.status(), empty.length()), (204, None));
}

#[test]
fn targets_are_forwarded_byte_for_byte() {
    let origin = Origin::echo();
    let [gateway, keeping] =
        ["", KEEP_PATHS].map(|listener| Plain { listener, ..Plain::default() }.start(&origin));
    let targets = [
        "/",
        "/?",
        "/a?b=/../c",
        "/a%20b%3bc?x=%2F&y",
        "/%61%62",
        "/...",
        "/a/..b/.c",
        "/a+b|c{d}",
        "/a?b?c=%00&d=\"<>;//",
    ];
    let kept = ["/a%2Fb%2fc?x=%20&y", "/a//b//", "//a/b", "/a;b=c;d/e"];
    let mut wire = gateway.wire();
    for target in targets {
        assert_eq!(wire.get(target).status(), 200, "{target}");
    }
    let mut wire = keeping.wire();
    for target in targets.iter().chain(&kept) {
        assert_eq!(wire.get(target).status(), 200, "{target}");
    }
    let seen = origin.requests();
    let seen: Vec<_> = seen.iter().map(|request| request.target()).collect();
    assert_eq!(seen, [&targets[..], &targets[..], &kept[..]].concat());
}

#[test]
fn other_forms_of_targets_are_forwarded_in_their_form() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    for (line, target) in [
        ("GET http://a.test/x?y=http://b/ HTTP/1.1", "/x?y=http://b/"),
        ("GET http://a.test HTTP/1.1", "/"),
        ("GET http://a.test?x HTTP/1.1", "/?x"),
        ("OPTIONS http://a.test/x HTTP/1.1", "/x"),
    ] {
        let reply = gateway.wire().ask(format!("{line}\r\nHost: a.test\r\n\r\n"));
        assert_eq!(reply.status(), 200, "{line}");
        let request = origin.requests().pop().unwrap();
        assert_eq!((request.target(), request.get("host")), (target, Some("a.test")), "{line}");
    }
}

/// The service sees the host that the route was found by, once.
#[test]
fn the_authority_of_a_target_replaces_another_host() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    let request = "GET http://b.test:8080/x HTTP/1.1\r\nHost: a.test\r\n\r\n";
    assert_eq!(gateway.wire().ask(request).status(), 200);
    let seen = origin.request();
    assert_eq!((seen.target(), seen.all("host")), ("/x", vec!["b.test:8080"]));
    assert_eq!(seen.get("x-forwarded-host"), Some("b.test:8080"));
}

#[test]
fn dot_segments_never_escape() {
    let origin = Origin::echo();
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes:
  orders:   {{ match: {{ path: "/orders/**" }}, upstream: origin }}
  stripped: {{ match: {{ path: "/stripped/**" }}, strip_prefix: /stripped, upstream: origin }}
  admin:    {{ match: {{ path: "/admin/**" }}, respond: {{ status: 403, body: "admin" }} }}
"#,
        origin.url()
    ));
    for (target, status) in [
        ("/orders/../admin", 403),
        ("/orders/../admin/x?y", 403),
        ("/orders/%2e%2e/admin", 403),
        ("/orders/.%2E/admin", 403),
        ("/orders/./../admin", 403),
        ("/orders/a/../../admin", 403),
        ("/orders/../other", 404),
        ("/stripped/../admin", 403),
        ("/orders/..;/admin", 400),
        ("/orders/..;a=b/admin", 400),
        ("/orders/%2e%2e;/admin", 400),
        ("/orders/..\\admin", 400),
        ("/orders/..%5cadmin", 400),
        ("/orders/..%2fadmin", 400),
        ("/orders/%2e%2e%2fadmin", 400),
        ("/orders/../../admin", 400),
        ("/../admin", 400),
    ] {
        let reply = gateway.wire().get(target);
        assert_eq!(reply.status(), status, "{target}");
    }
    assert_eq!(origin.requests().len(), 0, "{:?}", origin.requests());
    // Inside the prefix they are resolved.
    for (target, expected) in [
        ("/orders/a/../b?c=../d", "/orders/b?c=../d"),
        ("/orders/./b/.", "/orders/b/"),
        ("/stripped/a/%2e%2e/b", "/b"),
        ("/stripped//a", "/a"),
    ] {
        assert_eq!(gateway.wire().get(target).status(), 200, "{target}");
        assert_eq!(origin.requests().last().unwrap().target(), expected, "{target}");
    }
}

#[test]
fn paths_are_cut_and_rewritten() {
    let origin = Origin::echo();
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0", paths: {{ escaped_slash: keep, empty_segments: keep }} }} }}
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes:
  orders: {{ match: {{ path: "/orders/**" }}, strip_prefix: /orders, upstream: origin }}
  thing:  {{ match: {{ path: "/v1/{{id}}/parts/{{part}}" }}, rewrite: "/parts/{{part}}/of/{{id}}", upstream: origin }}
  old:    {{ match: {{ path: "/old/**" }}, rewrite: "/new/{{**}}", upstream: origin }}
  fixed:  {{ match: {{ path: "/fixed" }}, rewrite: "/elsewhere", upstream: origin }}
"#,
        origin.url()
    ));
    for (target, expected) in [
        ("/orders", "/"),
        ("/orders?a=b", "/?a=b"),
        ("/orders/", "/"),
        ("/orders/5/x?a=/orders", "/5/x?a=/orders"),
        ("/orders/a%2Fb", "/a%2Fb"),
        ("/orders//a", "//a"),
        ("/orders/orders/5", "/orders/5"),
        ("/%6frders/5", "/5"),
        ("/v1/7/parts/8?x", "/parts/8/of/7?x"),
        ("/v1/a%20b/parts/c", "/parts/c/of/a%20b"),
        ("/old/a/b?c", "/new/a/b?c"),
        ("/old", "/new"),
        ("/old?c", "/new?c"),
        ("/old/", "/new/"),
        ("/fixed?a", "/elsewhere?a"),
    ] {
        assert_eq!(gateway.wire().get(target).status(), 200, "{target}");
        assert_eq!(origin.requests().last().unwrap().target(), expected, "{target}");
    }
    assert_eq!(gateway.wire().get("/ordersx").status(), 404);
}

#[test]
fn the_upstream_sees_the_host_it_shall() {
    let origin = Origin::echo();
    let own = origin.address().to_string();
    for (route, expected) in [
        ("", "client.test:81"),
        ("host: preserve", "client.test:81"),
        ("host: target", own.as_str()),
        ("host: other.test", "other.test"),
    ] {
        let gateway = Plain { route, ..Plain::default() }.start(&origin);
        let reply = gateway.wire().ask("GET / HTTP/1.1\r\nHost: client.test:81\r\n\r\n");
        assert_eq!(reply.status(), 200);
        let request = origin.requests().pop().unwrap();
        assert_eq!(request.get("host"), Some(expected), "{route}");
        assert_eq!(request.get("x-forwarded-host"), Some("client.test:81"), "{route}");
    }
}

const METHODS: &str = r#"
listen: { public: { address: "127.0.0.1:0" } }
routes:
  read:    { match: { path: "/a", methods: [GET] }, respond: { body: read } }
  write:   { match: { path: "/a", methods: [PUT, POST] }, respond: { body: write } }
  gold:    { match: { path: "/a", methods: [DELETE], headers: { x-tier: gold } }, respond: { body: gold } }
  below:   { match: { path: "/b/**", methods: [GET] }, respond: { body: below } }
  head:    { match: { path: "/b/c", methods: [HEAD] }, respond: { status: 204 } }
  get:     { match: { path: "/b/c", methods: [GET] }, respond: { body: get } }
  any:     { match: { path: "/b/d" }, respond: { body: any } }
  find:    { match: { path: "/f", methods: [PROPFIND, FETCH] }, respond: { body: find } }
  hosted:  { match: { path: "/h", host: a.test, methods: [GET] }, respond: { body: hosted } }
  kong:    { match: { path: "/kong", methods: [POST] }, errors: kong, respond: { body: kong } }
  wso2:    { match: { path: "/wso2", methods: [POST] }, errors: wso2, respond: { body: wso2 } }
"#;

#[test]
fn get_takes_no_head_where_the_route_says_so() {
    let gateway = Gateway::start(
        r#"
listen: { public: { address: "127.0.0.1:0" } }
routes:
  own:  { match: { path: "/a", methods: [GET], head: false }, respond: { status: 201 } }
  post: { match: { path: "/b", methods: [GET, POST], head: false }, respond: { status: 202 } }
  both: { match: { path: "/c", methods: [GET, HEAD], head: false }, respond: { status: 203 } }
  rest: { match: { path: "/a/**" }, respond: { status: 204 } }
"#,
    );
    let status = |method: &str, target: &str| {
        let asked = format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        gateway.wire().ask(asked).status()
    };
    for (method, target, expected) in [
        ("GET", "/a", 201),
        ("HEAD", "/a", 204),
        ("GET", "/b", 202),
        ("HEAD", "/b", 405),
        ("HEAD", "/c", 203),
        ("GET", "/c", 203),
    ] {
        assert_eq!(status(method, target), expected, "{method} {target}");
    }
}

/// RFC 9110, 9.3.2: HEAD is GET without the content.
#[test]
fn head_goes_where_get_does() {
    let gateway = Gateway::start(METHODS);
    let mut wire = gateway.wire();
    for (target, status, length) in [
        ("/a", 200, Some("4")),
        ("/b/x", 200, Some("5")),
        // A route of the same path that names it comes first.
        ("/b/c", 204, None),
        ("/b/d", 200, Some("3")),
    ] {
        let reply = wire.ask(format!("HEAD {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        assert_eq!((reply.status(), reply.get("content-length")), (status, length), "{target}");
        assert_eq!(wire.get("/a").text(), "read", "nothing of a body is in the way");
    }
}

/// RFC 9110, 15.5.6.
#[test]
fn a_path_that_takes_other_methods_is_405_and_says_which() {
    let gateway = Gateway::start(METHODS);
    let ask = |request: &str| gateway.wire().ask(request);
    for (method, target, lines, status, allow) in [
        ("DELETE", "/a", "", 405, Some("GET, HEAD, POST, PUT, OPTIONS")),
        ("PATCH", "/a", "X-Tier: gold\r\n", 405, Some("GET, HEAD, POST, PUT, DELETE, OPTIONS")),
        ("DELETE", "/a", "X-Tier: gold\r\n", 200, None),
        ("POST", "/b/x/y", "", 405, Some("GET, HEAD, OPTIONS")),
        ("GET", "/f", "", 405, Some("PROPFIND, FETCH, OPTIONS")),
        ("FETCH", "/a", "", 405, Some("GET, HEAD, POST, PUT, OPTIONS")),
        ("SNATCH", "/a", "", 501, Some("GET, HEAD, POST, PUT, OPTIONS")),
        ("OPTIONS", "/a", "", 204, Some("GET, HEAD, POST, PUT, OPTIONS")),
        ("POST", "/h", "", 405, Some("GET, HEAD, OPTIONS")),
        ("GET", "/none", "", 404, None),
        ("SNATCH", "/none", "", 404, None),
    ] {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n");
        let reply = ask(&request);
        assert_eq!((reply.status(), reply.get("allow")), (status, allow), "{method} {target}");
    }
    let other = ask("POST /h HTTP/1.1\r\nHost: b.test\r\n\r\n");
    assert_eq!((other.status(), other.get("allow")), (404, None), "the path of another host");
    let problem = ask("DELETE /a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(problem.text().contains("\"fault\":\"method_not_allowed\""), "{problem:?}");
    let head = ask("HEAD /f HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.status(), head.get("allow")), (405, Some("PROPFIND, FETCH, OPTIONS")));
}

/// The route for other methods determines the format of the error.
#[test]
fn a_405_has_the_form_of_the_route() {
    let gateway = Gateway::start(METHODS);
    let mut wire = gateway.wire();
    for (target, body) in [
        ("/kong", "{\n    \"message\": \"Method not allowed\"\n}"),
        (
            "/wso2",
            r#"{"code":"405","message":"Method Not Allowed","description":"Method not allowed for given API resource"}"#,
        ),
    ] {
        let lines = "Content-Type: application/json\r\nContent-Length: 2\r\n";
        let reply = wire.ask(format!("PUT {target} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n{{}}"));
        assert_eq!((reply.status(), reply.get("allow")), (405, Some("POST, OPTIONS")), "{reply:?}");
        assert_eq!(reply.text(), body, "{target}");
    }
}

#[test]
fn explain_says_405_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidegate.yaml");
    std::fs::write(&file, METHODS).unwrap();
    let file = file.to_str().unwrap();
    for (method, url, said) in [
        ("HEAD", "/a", "route `read`"),
        ("HEAD", "/b/c", "route `head`"),
        (
            "DELETE",
            "/a",
            "no route accepts DELETE here: 405 with `Allow: GET, HEAD, POST, PUT, OPTIONS`",
        ),
        ("SNATCH", "/a", "refused with 501"),
        ("DELETE", "/none", "no route matches: 404"),
    ] {
        let run = crate::harness::tidegate(&["explain", file, method, url]);
        assert!(run.stdout.contains(said), "{method} {url}: {run:?}");
    }
}

#[test]
fn issue_19_placeholders_are_filled_or_refused() {
    let origin = Origin::echo();
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ up: {{ targets: ["{}"] }} }}
routes:
  up:
    match: {{ path: "/up/{{id}}" }}
    policies:
    - basic: {{ users: {{ alice: "a-long-password" }} }}
    - headers:
        request: {{ set: {{ x-who: "{{subject}}@{{host}}", x-id: "{{id}} {{{{id}}}}" }}, add: {{ x-path: "{{method}} {{path}}?{{query}} {{claims.none}}" }} }}
        response: {{ set: {{ x-told: "{{request_id}} {{id}} {{subject}}" }} }}
    upstream: up
  moved: {{ match: {{ path: "/old/{{id}}/**" }}, respond: {{ status: 301, headers: {{ location: "https://{{host}}/new/{{id}}?{{query}}" }} }} }}
  json: {{ match: {{ path: /json }}, respond: {{ body: '{{"a":{{"q":"{{query}}"}},"from":"{{client}}"}}', headers: {{ content-type: application/json }} }} }}
  html: {{ match: {{ path: /html }}, respond: {{ body: "<b style='a{{color:red}}'>{{query}}</b>", headers: {{ content-type: text/html }} }} }}
"#,
        origin.url()
    ));
    // alice:a-long-password
    let known =
        "Authorization: Basic YWxpY2U6YS1sb25nLXBhc3N3b3Jk\r\nX-Who: root\r\nX-Request-Id: r1\r\n";
    let reply =
        gateway.wire().ask(format!("GET /up/7%2Dx?a=1 HTTP/1.1\r\nHost: a.test:81\r\n{known}\r\n"));
    assert_eq!(reply.get("x-told"), Some("r1 7-x alice"), "{reply:?}");
    let seen = origin.request();
    assert_eq!(seen.all("x-who"), ["alice@a.test:81"]);
    assert_eq!(seen.all("x-id"), ["7-x {id}"]);
    assert_eq!(seen.all("x-path"), ["GET /up/7-x?a=1"]);

    let ask =
        |target: &str| gateway.wire().ask(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
    assert_eq!(ask("/old/5/x?y=z").get("location"), Some("https://a.test/new/5?y=z"));
    assert_eq!(ask("/json?a\"b\\").text(), r#"{"a":{"q":"a\"b\\"},"from":"127.0.0.1"}"#);
    assert_eq!(
        ask("/html?<x>'\"&").text(),
        "<b style='a{color:red}'>&lt;x&gt;&#39;&quot;&amp;</b>"
    );
}

#[test]
fn issue_19_placeholders_that_lead_nowhere_are_complaints() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gate.yaml");
    for (route, place, what) in [
        (
            "respond: { body: \"{subjct}\" }",
            "3:36",
            "there is no placeholder `subjct`; did you mean `subject`?",
        ),
        ("respond: { headers: { a: \"{nr}\" } }", "3:44", "there is no placeholder `nr`"),
        (
            "policies: [{ headers: { request: { add: { a: \"{claims}\" } } } }], respond: {}",
            "3:64",
            "there is no placeholder `claims`",
        ),
        (
            "policies: [{ headers: { response: { set: { a: \"{path}\" } } } }], respond: {}",
            "3:65",
            "a reply cannot use values of the request",
        ),
        (
            "policies: [{ headers: { request: { set: { a: \"{subject}\" } } } }, { basic: { users: { a: a-long-password } } }], respond: {}",
            "3:30",
            "`headers` needs the subject, which only `basic` below it finds",
        ),
    ] {
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nroutes:\n  a: {{ match: {{}}, {route} }}\n"
        );
        std::fs::write(&path, yaml).unwrap();
        let said = tidegate(&["check", path.to_str().unwrap()]).stderr;
        let line = said
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{}:", path.display())))
            .unwrap();
        assert_eq!(line, format!("{place}: {what}"), "{said}");
    }
}

#[test]
fn issue_19_a_route_may_be_for_one_listener() {
    let yaml = |public: u16, inner: u16| {
        format!(
            r#"listen:
  public: {{ address: "127.0.0.1:{public}" }}
  inner: {{ address: "127.0.0.1:{inner}" }}
  third: {{ address: "127.0.0.1:0" }}
admin: {{ address: "127.0.0.1:0" }}
routes:
  any: {{ match: {{ path: /a }}, respond: {{ body: any }} }}
  own: {{ match: {{ path: /a, listener: inner }}, respond: {{ body: own }} }}
  get: {{ match: {{ path: /a, methods: GET, headers: {{ x: y }} }}, respond: {{ body: get }} }}
  two: {{ match: {{ path: /ops, listener: [inner, third] }}, respond: {{ body: two }} }}
  put: {{ match: {{ path: /put, listener: inner, methods: PUT }}, respond: {{ body: put }} }}
"#
        )
    };
    let gateway = Gateway::start(yaml(0, 0));
    for (listener, method, path, status, body) in [
        ("public", "GET", "/a", 200, "any"),
        ("inner", "GET", "/a", 200, "own"),
        ("third", "GET", "/a", 200, "any"),
        ("third", "GET", "/ops", 200, "two"),
        ("public", "GET", "/ops", 404, ""),
        ("inner", "OPTIONS", "/put", 204, ""),
        // Its existence is not revealed.
        ("public", "OPTIONS", "/put", 404, ""),
        ("public", "PUT", "/put", 404, ""),
    ] {
        let reply = Wire::connect(gateway.address(listener)).ask(request(
            method,
            path,
            "Host: a\r\nX: y\r\n",
        ));
        let expected = if (listener, path) == ("inner", "/a") {
            "own"
        } else if path == "/a" {
            "get"
        } else {
            body
        };
        assert_eq!(reply.status(), status, "{listener} {method} {path}");
        assert!(status != 200 || reply.text() == expected, "{listener} {path}: {}", reply.text());
        let plain =
            Wire::connect(gateway.address(listener)).ask(request(method, path, "Host: a\r\n"));
        assert!(status != 200 || plain.text() == body, "{listener} {path}: {}", plain.text());
    }
    let routes = gateway.admin_get("/routes").text();
    assert!(routes.contains(r#""listeners":["inner","third"]"#), "{routes}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gate.yaml");
    std::fs::write(&path, yaml(18081, 18082)).unwrap();
    let explain = |url: &str| tidegate(&["explain", path.to_str().unwrap(), "GET", url]).stdout;
    let told = explain("http://a:18081/ops");
    assert!(told.contains("received by the listener `public`\nno route matches: 404"), "{told}");
    assert!(told.contains("`two`: the listener is not inner or third"), "{told}");
    let told = explain("http://a:18082/a");
    assert!(told.contains("route `own`\n  matches /a, listener inner\n"), "{told}");
    for (from, to, complaint) in [
        (
            "listener: inner }",
            "listener: iner }",
            "8:39: there is no listener `iner`; did you mean `inner`?",
        ),
        (
            "path: /ops, listener: [inner, third]",
            "path: /a, listener: [third, inner]",
            "the routes `two` and `own` match the same requests",
        ),
    ] {
        std::fs::write(&path, yaml(0, 0).replace(from, to)).unwrap();
        let said = tidegate(&["check", path.to_str().unwrap()]);
        assert!(said.code == Some(1) && said.stderr.contains(complaint), "{said:?}");
    }
}

#[test]
fn issue_19_a_route_may_have_several_paths() {
    let origin = Origin::echo();
    let yaml = format!(
        r#"listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ up: {{ targets: ["{}"] }} }}
routes:
  many: {{ match: {{ path: ["/a/{{id}}", "/b/{{id}}/**", "/c/d/{{id}}"], host: [x.test, "*.y.test"] }}, rewrite: "/sent/{{id}}", upstream: up }}
  cut: {{ match: {{ path: [/p/one, "/p/two/**"] }}, strip_prefix: /p, upstream: up }}
"#,
        origin.url()
    );
    let gateway = Gateway::start(&yaml);
    for (host, path, sent) in [
        ("x.test", "/a/1", Some("/sent/1")),
        ("x.test", "/b/2/e/f", Some("/sent/2")),
        ("z.y.test", "/c/d/3", Some("/sent/3")),
        ("z.test", "/a/1", None),
        ("x.test", "/a/1/2", None),
        ("z.test", "/p/one", Some("/one")),
        ("z.test", "/p/two/three", Some("/two/three")),
    ] {
        let before = origin.requests().len();
        let reply = gateway.wire().ask(request("GET", path, &format!("Host: {host}\r\n")));
        assert_eq!(reply.status(), if sent.is_some() { 200 } else { 404 }, "{host}{path}");
        let seen = origin.requests();
        assert_eq!(seen.get(before).map(|request| request.target().to_owned()).as_deref(), sent);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gate.yaml");
    std::fs::write(&path, &yaml).unwrap();
    let told = tidegate(&["explain", path.to_str().unwrap(), "GET", "http://x.test/b/2/e"]).stdout;
    assert!(
        told.contains("  matches x.test/b/{id}/**\n") && told.contains("  {id} is 2\n"),
        "{told}"
    );
    for (from, to, complaint) in [
        (
            "\"/c/d/{id}\"",
            "\"/c/d/{nr}\"",
            "4:52: the paths of a route must have the same parameters in the same order",
        ),
        ("\"/c/d/{id}\"", "\"/a/{id}\"", "a host or a path appears twice"),
        ("[/p/one, \"/p/two/**\"]", "[]", "5:17: the match has no path"),
        ("[/p/one, \"/p/two/**\"]", "[/p/one, q]", "5:34: the path `q` cannot be matched"),
        (
            "[/p/one, \"/p/two/**\"]",
            "[/p/one, /q]",
            "5:55: the paths of this route, `/q`, do not begin with `/p`",
        ),
    ] {
        std::fs::write(&path, yaml.replace(from, to)).unwrap();
        let said = tidegate(&["check", path.to_str().unwrap()]);
        assert!(said.code == Some(1) && said.stderr.contains(complaint), "{complaint}: {said:?}");
    }
}

/// A host in an absolute target counts like the header, and one with an empty label is invalid.
#[test]
fn an_absolute_target_names_the_host_where_no_line_does() {
    let yaml = r#"
listen: { public: { address: "127.0.0.1:0" } }
routes:
  admin: { match: { path: "/**", host: adm.test }, respond: { body: admin } }
  any:   { match: { path: "/**" }, respond: { body: any } }
"#;
    let gateway = Gateway::start(yaml);
    for (start, line, told) in [
        ("GET http://adm.test/z HTTP/1.0", "", "admin"),
        ("GET http://other.test/z HTTP/1.0", "", "any"),
        ("GET /z HTTP/1.0", "", "any"),
        ("GET http://adm.test/z HTTP/1.1", "Host: adm.test\r\n", "admin"),
        ("GET /z HTTP/1.1", "Host: adm.test.\r\n", "admin"),
        // If there are two hosts, the target's is used (RFC 9112, 3.2.2).
        ("GET http://adm.test/z HTTP/1.1", "Host: other.test\r\n", "admin"),
        ("GET http://other.test/z HTTP/1.1", "Host: adm.test\r\n", "any"),
        ("GET http://adm.test:80/z HTTP/1.0", "Host: other.test\r\n", "admin"),
    ] {
        assert_eq!(gateway.wire().ask(format!("{start}\r\n{line}\r\n")).text(), told, "{start}");
    }
    for host in ["adm.test..", ".adm.test", "a..adm.test"] {
        let reply = gateway.wire().ask(format!("GET /z HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(reply.status(), 400, "{host}");
    }
}
