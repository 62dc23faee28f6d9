//! Routes by regular expression.

use crate::harness::{Gateway, Origin, tidegate};
use crate::routing::KEEP_PATHS;

const ROUTES: &str = r#"
listen: { public: { address: "127.0.0.1:0" } }
routes:
  any:       { match: { path: "/**" }, respond: { body: any } }
  prefix:    { match: { path: "/orders/**" }, respond: { body: prefix } }
  template:  { match: { path: "/orders/{id}" }, respond: { body: template } }
  number:    { match: { path: { regex: "/orders/[0-9]+" } }, respond: { body: number } }
  longer:    { match: { path: { regex: "/orders/[0-9]{1,4}" } }, respond: { body: longer } }
  gold:      { match: { path: { regex: "/orders/[0-9]+" }, headers: { x-tier: gold } }, respond: { body: gold } }
  exact:     { match: { path: "/orders/7" }, respond: { body: exact } }
  post:      { match: { path: { regex: "/orders/[0-9]{1,4}/lines/.*" }, methods: [POST] }, respond: { body: post } }
  either:    { match: { path: [/list, { regex: "/(list|all)[.]json" }] }, respond: { body: either } }
  named:     { match: { path: { regex: "/v(?<version>[0-9]+)/(?<name>[a-z]+)(/(?<rest>.*))?" } }, respond: { body: "{version} {name} {rest}" } }
  hosted:    { match: { path: "/**", host: a.test }, respond: { body: hosted } }
"#;

#[test]
fn a_regular_expression_is_for_the_whole_path_and_stands_before_prefixes() {
    let gateway = Gateway::start(ROUTES);
    for (target, lines, expected) in [
        ("/orders/7", "", "exact"),
        ("/orders/%37", "", "exact"),
        ("/orders/8", "", "longer"),
        ("/orders/%38?a=b", "", "longer"),
        ("/orders/x/../8", "", "longer"),
        ("/orders//8", "", "longer"),
        ("/orders/12345", "", "number"),
        ("/orders/12345", "X-Tier: gold\r\n", "gold"),
        ("/orders/8", "X-Tier: gold\r\n", "longer"),
        ("/orders/x", "", "template"),
        ("/orders/8x", "", "template"),
        ("/orders/8/x", "", "prefix"),
        ("/x/orders/8", "", "any"),
        ("/list", "", "either"),
        ("/all.json", "", "either"),
        ("/allxjson", "", "any"),
        ("/v2/orders", "", "2 orders "),
        ("/v2/orders/a/b", "", "2 orders a/b"),
        ("/V2/orders", "", "any"),
        ("/orders/8", "Host: a.test\r\n", "hosted"),
    ] {
        let host = if lines.starts_with("Host") { "" } else { "Host: b.test\r\n" };
        let request = format!("GET {target} HTTP/1.1\r\n{host}{lines}\r\n");
        let reply = gateway.wire().ask(request);
        assert_eq!((reply.status(), reply.text().as_str()), (200, expected), "{target} {lines:?}");
    }
    // A path that servers read differently is refused before anything is matched.
    for target in ["/orders/8%2F9", "/orders/8;a", "/orders/..%2f8", "/../orders/8"] {
        assert_eq!(gateway.wire().get(target).status(), 400, "{target}");
    }
}

#[test]
fn methods_hold_as_for_other_paths() {
    let gateway = Gateway::start(
        r#"
listen: { public: { address: "127.0.0.1:0" } }
routes:
  read:  { match: { path: { regex: "/a/[0-9]+" }, methods: [GET] }, respond: { body: read } }
  write: { match: { path: { regex: "/a/[0-9]+" }, methods: [PUT] }, respond: { body: write } }
  get:   { match: { path: { regex: "/b/[0-9]+" }, methods: [GET] }, respond: { body: get } }
  head:  { match: { path: { regex: "/b/[0-9]+" }, methods: [HEAD] }, respond: { status: 204 } }
"#,
    );
    for (method, target, status, allow) in [
        ("GET", "/a/1", 200, None),
        ("HEAD", "/a/1", 200, None),
        ("PUT", "/a/1", 200, None),
        ("POST", "/a/1", 405, Some("GET, HEAD, PUT, OPTIONS")),
        ("OPTIONS", "/a/1", 204, Some("GET, HEAD, PUT, OPTIONS")),
        ("POST", "/a/x", 404, None),
        ("HEAD", "/b/1", 204, None),
    ] {
        let reply = gateway
            .wire()
            .ask(format!("{method} {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!((reply.status(), reply.get("allow")), (status, allow), "{method} {target}");
    }
}

#[test]
fn groups_rewrite_the_path_but_never_climb() {
    let origin = Origin::echo();
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0", {KEEP_PATHS} }} }}
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes:
  users:
    match: {{ path: {{ regex: "/users/(?<id>[0-9]+)[.](?<format>json|xml)" }} }}
    rewrite: "/{{format}}/users/{{id}}"
    policies: [{{ headers: {{ request: {{ set: {{ x-id: "{{id}}" }} }} }} }}]
    upstream: origin
  files: {{ match: {{ path: {{ regex: "/files-(?<name>.*)" }} }}, rewrite: "/store/{{name}}/x", upstream: origin }}
  parts: {{ match: {{ path: {{ regex: "/parts/(?<a>..?)(?<b>[^/]*)/(?<c>.*)" }} }}, rewrite: "/{{a}}{{c}}", upstream: origin }}
"#,
        origin.url()
    ));
    for (target, sent) in [
        ("/users/7.json?a=b", "/json/users/7?a=b"),
        ("/users/8.xml", "/xml/users/8"),
        ("/files-a", "/store/a/x"),
        ("/files-a/b", "/store/a/b/x"),
        ("/files-a%20b", "/store/a%20b/x"),
    ] {
        assert_eq!(gateway.wire().get(target).status(), 200, "{target}");
        assert_eq!(origin.requests().last().unwrap().target(), sent, "{target}");
    }
    assert_eq!(origin.requests()[0].get("x-id"), Some("7"));
    let before = origin.requests().len();
    for target in ["/files-..", "/files-.", "/files-%2e%2e", "/files-..%2f", "/files-..;a"]
        // Escapes that consist of parts of two others, which no rule has matched.
        .into_iter()
        .chain(["/parts/%20/2fetc", "/parts/%20/00x", "/parts/%2520/0d", "/parts/%20/zz"])
    {
        let reply = gateway.wire().get(target);
        assert_eq!(reply.status(), 400, "{target}");
    }
    assert_eq!(origin.requests().len(), before);
}

#[test]
fn what_is_wrong_with_an_expression_is_said_where_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    std::fs::write(
        &file,
        r#"listen: { public: { address: "127.0.0.1:0" } }
upstreams: { origin: { targets: ["http://127.0.0.1:1"] } }
routes:
  open:  { match: { path: { regex: "/a(" } }, upstream: origin }
  look:  { match: { path: { regex: "/(?=b)" } }, upstream: origin }
  bare:  { match: { path: { regex: "orders" } }, upstream: origin }
  large: { match: { path: { regex: "/(a{1,1000}){1,1000}" } }, upstream: origin }
  strip: { match: { path: { regex: "/s/.*" } }, strip_prefix: /s, upstream: origin }
  group: { match: { path: { regex: "/g/(?<id>.*)" } }, rewrite: "/{ip}", upstream: origin }
  mixed: { match: { path: ["/m/{id}", { regex: "/n/.*" }] }, upstream: origin }
  key:   { match: { path: { regexp: "/k" } }, upstream: origin }
  one:   { match: { path: { regex: "/same/[a-z]" } }, upstream: origin }
  two:   { match: { path: { regex: "/same/[a-z]" } }, upstream: origin }
"#,
    )
    .unwrap();
    let run = tidegate(&["check", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(1), "{run:?}");
    for expected in [
        "4:36: the regular expression `/a(` cannot be matched: unclosed group",
        "5:36: the regular expression `/(?=b)` cannot be matched: look-around",
        "6:36: the regular expression `orders` cannot be matched: it does not begin with `/`, as every path does",
        "7:36: the regular expression `/(a{1,1000}){1,1000}` cannot be matched: it is over 256 KiB once compiled",
        "8:63: a regular expression has no fixed prefix to remove",
        "9:65: there is no parameter `ip`; did you mean `id`?",
        "10:39: the paths of a route must have the same parameters in the same order",
        "11:29: unknown key `regexp`; did you mean `regex`?",
        "13:19: the routes `two` and `one` match the same requests",
    ] {
        assert!(
            run.stderr.contains(&format!("gate.yaml:{expected}")),
            "{expected}\n{}",
            run.stderr
        );
    }
}

#[test]
fn explain_shows_expressions_and_why_others_were_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    std::fs::write(&file, ROUTES).unwrap();
    let file = file.to_str().unwrap();
    let asked = tidegate(&["explain", file, "GET", "/v2/orders/a"]);
    for expected in [
        "route `named`\n",
        "matches ~/v(?<version>[0-9]+)/(?<name>[a-z]+)(/(?<rest>.*))?\n",
        "{version} is 2\n  {name} is orders\n  {rest} is a\n",
        "`any`: matches too, but /** is less specific\n",
        "`number`: the path is not ~/orders/[0-9]+\n",
    ] {
        assert!(asked.stdout.contains(expected), "{expected}\n{}", asked.stdout);
    }
    let whole = tidegate(&["explain", file]).stdout;
    assert!(whole.contains("#   number: ~/orders/[0-9]+\n"), "{whole}");
    assert!(whole.contains("regex: \"/orders/[0-9]+\""), "{whole}");
}
