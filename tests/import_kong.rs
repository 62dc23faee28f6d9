//! `tidegate import kong`: its configuration serves as Kong would, and its table names every part that differs.

use crate::harness::{Gateway, Origin, Run, import_kong, start_imported, tidegate};

/// Imports files by their names and texts.
fn imported(files: &[(&str, &str)], more: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = vec!["import".to_owned(), "kong".to_owned()];
    for (name, text) in files {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        arguments.push(file.to_str().unwrap().to_owned());
    }
    arguments.extend(["--listen", "127.0.0.1:0"].map(str::to_owned));
    arguments.extend(more.iter().map(|text| (*text).to_owned()));
    tidegate(&arguments)
}

/// Imports one file, and starts a gateway with the result.
fn serving(text: &str, code: i32) -> (Gateway, Run) {
    let run = imported(&[("kong.yaml", text)], &[]);
    assert_eq!(run.code, Some(code), "{}{}", run.stdout, run.stderr);
    (Gateway::start(&run.stdout), run)
}

#[test]
fn services_routes_and_consumers_serve() {
    let origin = Origin::echo();
    let (gateway, run) = serving(
        &format!(
            r#"
_format_version: "3.0"
services:
  - name: orders
    url: {}/base
    routes:
      - name: orders
        paths: [/orders, "~/v\\d+/orders"]
        plugins:
          - name: key-auth
            config: {{ key_names: [x-key], hide_credentials: true }}
          - name: acl
            config: {{ allow: [staff] }}
      - {{ name: open, paths: [/open/], strip_path: false, methods: [GET] }}
      - {{ name: hosted, hosts: ["c.*", "*.b.test"], headers: {{ x-tier: [Gold, silver] }}, preserve_host: true }}
consumers:
  - username: alice
    custom_id: a1
    keyauth_credentials: [{{ key: k1 }}, {{ key: k2 }}]
    acls: [{{ group: staff }}, {{ group: ops }}]
  - username: bob
    custom_id: b1
    keyauth_credentials: [{{ key: k3 }}]
"#,
            origin.url()
        ),
        0,
    );
    assert!(run.stderr.contains("0 approximated, 0 refused"), "{}", run.stderr);
    for (target, lines, status, sent) in [
        ("/orders/7?a=b", "X-Key: k1\r\n", 200, "/base/7?a=b"),
        ("/orders", "X-Key: k2\r\n", 200, "/base"),
        ("/orders2", "X-Key: k1\r\n", 200, "/base/2"),
        ("/v12/orders/x", "X-Key: k1\r\n", 200, "/base/x"),
        ("/orders/7?x-key=k1&a=b", "", 200, "/base/7?a=b"),
        ("/orders", "X-Key: k3\r\n", 403, ""),
        ("/orders", "X-Key: no\r\n", 401, ""),
        ("/orders", "", 401, ""),
        ("/open/a", "", 200, "/base/open/a"),
        ("/open", "", 404, ""),
        ("/other", "", 404, ""),
        ("/any", "X-Tier: GOLD\r\nHost: c.test\r\n", 200, "/base/any"),
        ("/any", "X-Tier: silver\r\nHost: a.b.test\r\n", 200, "/base/any"),
        ("/any", "X-Tier: bronze\r\nHost: a.b.test\r\n", 404, ""),
        ("/any", "X-Tier: gold\r\nHost: b.test\r\n", 404, ""),
    ] {
        origin.forget();
        let host = if lines.contains("Host") { "" } else { "Host: h.test\r\n" };
        let reply = gateway.wire().ask(format!("GET {target} HTTP/1.1\r\n{host}{lines}\r\n"));
        assert_eq!(reply.status(), status, "{target} {lines:?}: {}", reply.text());
        if status == 200 {
            assert_eq!(origin.request().target(), sent, "{target}");
        }
    }
    origin.forget();
    let reply = gateway
        .wire()
        .ask("GET /orders HTTP/1.1\r\nHost: h\r\nX-Key: k2\r\nX-Consumer-Username: eve\r\n\r\n");
    assert_eq!(reply.status(), 200);
    let seen = origin.request();
    assert_eq!(seen.all("x-consumer-username"), ["alice"]);
    assert_eq!(seen.all("x-consumer-custom-id"), ["a1"]);
    assert_eq!(seen.all("x-consumer-groups"), ["staff,ops"]);
    // The ids that Kong makes for a declarative file: UUIDs of version 5.
    assert_eq!(seen.all("x-consumer-id"), ["b32379d9-3d28-5683-a79c-72139be6e34f"]);
    assert_eq!(seen.all("x-credential-identifier").len(), 1);
    assert_eq!(seen.get("x-key"), None);
    assert_eq!(gateway.wire().ask("POST /open/a HTTP/1.1\r\nHost: h\r\n\r\n").status(), 404);
}

#[test]
fn a_refused_guard_takes_its_route_with_it() {
    let origin = Origin::echo();
    let (gateway, run) = serving(
        &format!(
            r#"
_format_version: "3.0"
services:
  - name: a
    url: {0}
    routes:
      - {{ name: guarded, paths: [/guarded], plugins: [{{ name: ldap-auth }}] }}
      - {{ name: own, paths: [/own], plugins: [{{ name: our-plugin, config: {{ a: 1 }} }}] }}
      - {{ name: off, paths: [/off], plugins: [{{ name: ldap-auth, enabled: false }}] }}
      - {{ name: logged, paths: [/logged], plugins: [{{ name: udp-log, config: {{ host: h, port: 1 }} }}] }}
      - {{ name: unknown, paths: [/unknown], plugins: [{{ name: ip-restriction, config: {{ allow: [10.0.0.0/8], moon: full }} }}] }}
      - {{ name: ended, paths: [/ended], plugins: [{{ name: request-termination, config: {{ echo: true }} }}] }}
"#,
            origin.url()
        ),
        3,
    );
    for (target, status) in [
        ("/guarded/x", 503),
        ("/own", 503),
        ("/off", 200),
        ("/logged", 200),
        ("/unknown", 503),
        ("/ended", 503),
    ] {
        assert_eq!(gateway.wire().get(target).status(), status, "{target}");
    }
    for line in [
        "plugin our-plugin of route own",
        "Tidegate does not have this plugin",
        "its guard `ldap-auth` is refused, so it answers 503",
        "the field `moon` is unknown",
    ] {
        assert!(run.stderr.contains(line), "{line}: {}", run.stderr);
    }
}

#[test]
fn plugins_do_what_kong_does() {
    let origin = Origin::echo();
    let (gateway, run) = serving(
        &format!(
            r#"
_format_version: "3.0"
services:
  - name: a
    url: {0}
    plugins:
      - {{ name: rate-limiting, config: {{ minute: 2, limit_by: ip }} }}
    routes:
      - {{ name: limited, paths: [/limited] }}
      - {{ name: too, paths: [/too] }}
      - {{ name: free, paths: [/free], plugins: [{{ name: rate-limiting, config: {{ hour: 1000 }} }}] }}
  - name: b
    url: {0}
    routes:
      - name: changed
        paths: [/changed]
        plugins:
          - name: request-transformer
            config:
              remove: {{ headers: [x-gone], querystring: [q] }}
              replace: {{ headers: ["x-there:new", "x-missing:new"] }}
              add: {{ headers: ["x-there:never", "x-added:{{subject}} ${{HOME}}"], querystring: ["r:1"] }}
              append: {{ headers: ["x-there:too"] }}
          - name: response-transformer
            config: {{ add: {{ headers: ["x-reply:yes"] }} }}
      - name: ended
        paths: [/ended]
        plugins: [{{ name: request-termination, config: {{ status_code: 403, message: "so {{long}}" }} }}]
      - name: moved
        paths: [/moved]
        plugins: [{{ name: redirect, config: {{ status_code: 308, location: "https://new.test/x" }} }}]
      - name: small
        paths: [/small]
        plugins: [{{ name: request-size-limiting, config: {{ allowed_payload_size: 4, size_unit: bytes }} }}]
      - name: pages
        paths: [/pages]
        plugins: [{{ name: cors, config: {{ origins: ["https://a.test"], credentials: true, max_age: 60 }} }}]
      - name: away
        paths: [/away]
        plugins: [{{ name: ip-restriction, config: {{ deny: [127.0.0.0/8] }} }}]
"#,
            origin.url()
        ),
        0,
    );
    for (target, status) in [("/limited", 200), ("/too", 200), ("/limited", 429), ("/too", 429)] {
        let reply = gateway.wire().get(target);
        assert_eq!(reply.status(), status, "{target}: {}", run.stdout);
        assert_eq!(reply.get("x-ratelimit-limit-minute"), Some("2"), "{target}");
    }
    assert_eq!(gateway.wire().get("/free").get("x-ratelimit-limit-hour"), Some("1000"));
    origin.forget();
    let request = "GET /changed?q=1&a=b HTTP/1.1\r\nHost: h\r\nX-Gone: 1\r\nX-There: old\r\n\r\n";
    let reply = gateway.wire().ask(request);
    assert_eq!(reply.get("x-reply"), Some("yes"));
    let seen = origin.request();
    assert_eq!(seen.target(), "/?a=b&r=1");
    assert_eq!(seen.get("x-gone"), None);
    assert_eq!(seen.all("x-there"), ["new", "too"]);
    assert_eq!(seen.get("x-missing"), None);
    assert_eq!(seen.all("x-added"), ["{subject} ${HOME}"]);
    let ended = gateway.wire().get("/ended");
    assert_eq!((ended.status(), ended.text().as_str()), (403, r#"{"message":"so {long}"}"#));
    let moved = gateway.wire().get("/moved");
    assert_eq!((moved.status(), moved.get("location")), (308, Some("https://new.test/x")));
    let post = |body: &str| {
        let length = body.len();
        let request =
            format!("POST /small HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n{body}");
        gateway.wire().ask(request).status()
    };
    assert_eq!((post("1234"), post("12345")), (200, 413));
    let preflight = "OPTIONS /pages HTTP/1.1\r\nHost: h\r\nOrigin: https://a.test\r\nAccess-Control-Request-Method: PUT\r\n\r\n";
    let reply = gateway.wire().ask(preflight);
    assert_eq!(reply.get("access-control-allow-origin"), Some("https://a.test"));
    assert_eq!(reply.get("access-control-max-age"), Some("60"));
    assert_eq!(gateway.wire().get("/away").status(), 403);
}

#[test]
fn routes_have_the_winner_that_they_have_in_kong() {
    let origin = Origin::echo();
    let text = r#"
_format_version: "3.0"
services:
  - name: a
    url: ORIGIN
    plugins: [{ name: request-termination, config: { trigger: x-never } }]
    routes:
      - { name: A, paths: [/a], methods: [GET], plugins: [{ name: response-transformer, config: { add: { headers: ["x-route:A"] } } }] }
      - { name: B, paths: [/a/b], plugins: [{ name: response-transformer, config: { add: { headers: ["x-route:B"] } } }] }
      - { name: C, hosts: ["*.c.test"], headers: { x-tier: [gold] }, plugins: [{ name: response-transformer, config: { add: { headers: ["x-route:C"] } } }] }
      - { name: D, hosts: [d.c.test], plugins: [{ name: response-transformer, config: { add: { headers: ["x-route:D"] } } }] }
      - { name: E, paths: ["~/x/\\d+$"], regex_priority: 1, plugins: [{ name: response-transformer, config: { add: { headers: ["x-route:E"] } } }] }
      - { name: F, paths: ["~/x/[0-9]+/?.*"], plugins: [{ name: response-transformer, config: { add: { headers: ["x-route:F"] } } }] }
      - { name: G, paths: [/a], methods: [GET], plugins: [{ name: response-transformer, config: { add: { headers: ["x-route:G"] } } }] }
"#;
    let (gateway, run) = serving(&text.replace("ORIGIN", &origin.url()), 3);
    let told: Vec<&str> =
        run.stderr.lines().filter(|line| line.starts_with("approximated")).collect();
    assert_eq!(told.len(), 1, "{}", run.stderr);
    for part in ["route G", "`A` has the same conditions and takes all requests of one of its"] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    for (method, target, lines, route) in [
        ("GET", "/a/b", "Host: h\r\n", "A"),
        ("PUT", "/a/b", "Host: h\r\n", "B"),
        ("GET", "/", "Host: d.c.test\r\nX-Tier: gold\r\n", "C"),
        ("GET", "/", "Host: d.c.test\r\n", "D"),
        ("GET", "/x/12", "Host: h\r\n", "E"),
        ("GET", "/x/12/", "Host: h\r\n", "F"),
    ] {
        let reply = gateway.wire().ask(format!("{method} {target} HTTP/1.1\r\n{lines}\r\n"));
        assert_eq!(reply.get("x-route"), Some(route), "{method} {target}: {}", run.stdout);
    }
}

#[test]
fn plugins_of_a_consumer_or_a_group_are_for_these_alone() {
    let origin = Origin::echo();
    let (gateway, run) = serving(
        &format!(
            r#"
_format_version: "3.0"
services:
  - name: a
    url: {}
    routes: [{{ name: r, paths: [/r] }}, {{ name: open, paths: [/open], plugins: [{{ name: key-auth, enabled: false }}] }}]
plugins:
  - {{ name: key-auth, route: r }}
  - {{ name: rate-limiting, config: {{ hour: 3 }} }}
  - {{ name: rate-limiting, consumer: alice, config: {{ hour: 1 }} }}
  - {{ name: rate-limiting, consumer_group: gold, config: {{ hour: 2 }} }}
  - {{ name: response-transformer, consumer_group: gold, route: r, config: {{ add: {{ headers: ["x-gold:1"] }} }} }}
consumer_groups: [{{ name: gold, consumers: [{{ username: carol }}] }}, {{ name: empty, plugins: [{{ name: ip-restriction, config: {{ deny: [0.0.0.0/0] }} }}] }}]
consumers:
  - {{ username: alice, groups: [{{ name: gold }}], keyauth_credentials: [{{ key: a }}] }}
  - {{ username: bob, keyauth_credentials: [{{ key: b }}], plugins: [{{ name: ip-restriction, config: {{ deny: [10.0.0.0/8] }} }}] }}
  - {{ username: carol, keyauth_credentials: [{{ key: c }}] }}
  - {{ username: dave, keyauth_credentials: [{{ key: d }}], plugins: [{{ name: bot-detection }}] }}
  - {{ username: erin, keyauth_credentials: [{{ key: e }}], plugins: [{{ name: ip-restriction, config: {{ deny: [127.0.0.0/8] }} }}] }}
"#,
            origin.url()
        ),
        3,
    );
    for (key, allowed, gold) in [("a", 1, true), ("b", 3, false), ("c", 2, true)] {
        for number in 1..=4 {
            let request = format!("GET /r HTTP/1.1\r\nHost: h\r\napikey: {key}\r\n\r\n");
            let reply = gateway.wire().ask(request);
            let status = if number <= allowed { 200 } else { 429 };
            assert_eq!(reply.status(), status, "{key} {number}: {}", run.stdout);
            if status == 200 {
                assert_eq!(reply.get("x-gold").is_some(), gold, "{key}");
            }
        }
    }
    let with = |key: &str| format!("GET /r HTTP/1.1\r\nHost: h\r\napikey: {key}\r\n\r\n");
    // A guard without a counterpart leaves its consumer without a credential.
    assert_eq!(gateway.wire().ask(with("d")).status(), 401);
    assert_eq!(gateway.wire().ask(with("e")).status(), 403);
    assert_eq!(gateway.wire().get("/open").status(), 200);
    let refused: Vec<&str> =
        run.stderr.lines().filter(|line| line.starts_with("refused")).collect();
    assert!(refused.iter().all(|line| line.contains("dave")), "{}", run.stderr);
    let bad = "_format_version: \"3.0\"\nconsumers: [{ username: a, groups: [{ name: none }] }]\nconsumer_groups: [{ name: g, consumers: [none] }]\n";
    let run = imported(&[("kong.yaml", bad)], &[]);
    assert_eq!(run.code, Some(1));
    for line in ["there is no such consumer group", "there is no such consumer"] {
        assert!(run.stderr.contains(line), "{}", run.stderr);
    }
}

#[test]
fn expressions_of_the_router_become_routes() {
    let origin = Origin::echo();
    let marked = |name: &str, expression: &str, priority: u32| {
        format!(
            "      - {{ name: {name}, strip_path: false, priority: {priority}, expression: '{expression}', plugins: [{{ name: response-transformer, config: {{ add: {{ headers: [\"x-route:{name}\"] }} }} }}] }}\n"
        )
    };
    let routes = [
        marked("A", r#"http.path ^= "/a" && http.method == "GET""#, 5),
        marked("B", r#"http.path == "/a/b" || http.path ~ "^/b/[0-9]+""#, 1),
        marked(
            "C",
            r#"http.headers.x_tier == "gold" && http.host =^ ".c.test" && http.queries.q ~ "^x""#,
            9,
        ),
        marked("D", r#"net.src.ip in 127.0.0.0/8 && http.path ^= "/d""#, 0),
        marked("E", r#"net.src.ip == 10.0.0.1 && http.path ^= "/d""#, 9),
    ];
    let text = format!(
        "_format_version: \"3.0\"\nservices:\n  - name: s\n    url: {}\n    routes:\n{}",
        origin.url(),
        routes.concat()
    );
    let (gateway, run) = serving(&text, 0);
    for (method, target, lines, route) in [
        ("GET", "/a/b", "Host: h\r\n", Some("A")),
        ("PUT", "/a/b", "Host: h\r\n", Some("B")),
        ("PUT", "/a/b/c", "Host: h\r\n", None),
        ("PUT", "/b/12/x", "Host: h\r\n", Some("B")),
        ("GET", "/a?q=xy", "Host: x.c.test\r\nX-Tier: gold\r\n", Some("C")),
        ("GET", "/a?q=yx", "Host: x.c.test\r\nX-Tier: gold\r\n", Some("A")),
        ("GET", "/d", "Host: h\r\n", Some("D")),
    ] {
        let reply = gateway.wire().ask(format!("{method} {target} HTTP/1.1\r\n{lines}\r\n"));
        assert_eq!(reply.get("x-route"), route, "{method} {target}: {}", run.stdout);
    }
    for (expression, what) in [
        (r#"!(http.path == "/a")"#, "Tidegate has no negation"),
        (r#"http.path != "/a""#, "Tidegate has no condition `http.path != /a`"),
        (r#"http.path.segments.0 == "a""#, "Tidegate has no condition"),
        (r#"http.path =="#, "a comparison without a value"),
    ] {
        let text = format!(
            "_format_version: \"3.0\"\nservices: [{{ name: s, url: \"http://h\", routes: [{{ name: r, expression: '{expression}' }}] }}]\n"
        );
        let run = imported(&[("kong.yaml", &text)], &[]);
        assert_eq!(run.code, Some(3), "{expression}: {}", run.stderr);
        assert!(run.stderr.contains(what), "{expression}: {}", run.stderr);
    }
}

#[test]
fn signatures_ids_and_other_features_are_converted() {
    let origin = Origin::echo();
    let (gateway, run) = serving(
        &format!(
            r#"
_format_version: "3.0"
services:
  - name: a
    url: {}
    write_timeout: 5000
    routes:
      - {{ name: signed, paths: [/signed], plugins: [{{ name: hmac-auth, config: {{ enforce_headers: [date], algorithms: [hmac-sha256] }} }}] }}
      - {{ name: body, paths: [/body], plugins: [{{ name: key-auth, config: {{ key_in_body: true, hide_credentials: true }} }}] }}
      - {{ name: id, paths: [/id], plugins: [{{ name: correlation-id, config: {{ header_name: X-Id, generator: uuid, echo_downstream: true }} }}] }}
      - name: moved
        paths: ["~/v1/(?<kind>[a-z]+)/(?<id>[0-9]+)"]
        plugins: [{{ name: request-transformer, config: {{ replace: {{ uri: "/new/$(uri_captures['id'])", headers: ["host:other.test"] }}, add: {{ headers: ["x-kind:$(uri_captures.kind)"], body: ["a:1"] }} }} }}]
      - name: lost
        paths: [/lost]
        plugins: [{{ name: response-transformer-advanced, config: {{ add: {{ headers: ["x-bad:1"], if_status: ["400-599"] }}, remove: {{ headers: [x-none], if_status: [200] }} }} }}]
      - {{ name: none, paths: [/none], plugins: [{{ name: jwt }}] }}
      - {{ name: part, paths: [/part], plugins: [{{ name: canary, config: {{ percentage: 0, upstream_host: new.test, upstream_port: 8080, canary_by_header_name: X-Canary }} }}] }}
consumers:
  - {{ username: alice, hmacauth_credentials: [{{ username: al, secret: s }}], keyauth_credentials: [{{ key: k }}] }}
"#,
            origin.url()
        ),
        3,
    );
    assert!(run.stderr.contains("0 refused"), "{}", run.stderr);
    assert!(run.stdout.contains("write: \"5s\""), "{}", run.stdout);
    assert!(run.stdout.contains("http://new.test:8080"), "{}", run.stdout);
    assert_eq!(
        gateway.wire().get("/signed").get("www-authenticate"),
        Some("hmac realm=\"tidegate\"")
    );
    let form = "POST /body HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 12\r\n\r\na=1&apikey=k";
    assert_eq!(gateway.wire().ask(form).status(), 200);
    assert_eq!(origin.request().text(), "a=1");
    let reply = gateway.wire().get("/id");
    assert_eq!(reply.get("x-id").map(str::len), Some(36));
    origin.forget();
    let form = "POST /v1/pets/7 HTTP/1.1\r\nHost: h\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\nb=2";
    assert_eq!(gateway.wire().ask(form).status(), 200);
    let seen = origin.request();
    assert_eq!((seen.target(), seen.get("host")), ("/new/7", Some("other.test")));
    assert_eq!((seen.get("x-kind"), seen.text().as_str()), (Some("pets"), "b=2&a=1"));
    assert_eq!(gateway.wire().get("/lost").get("x-bad"), None);
    assert_eq!(gateway.wire().get("/none").status(), 401);
}

#[test]
fn all_mistakes_are_told_with_their_places() {
    let one = r#"_format_version: "3.0"
services:
  - name: a
    port: many
  - name: a
    url: "no url"
    routes:
      - name: r
      - { name: s, paths: [x], methods: [get] }
      - { name: t, hosts: ["a*b"], protocols: [gopher] }
routes:
  - { name: u, paths: [/u], service: nowhere }
upstreams:
  - { name: up, targets: [{ target: "a b", weight: 70000 }], algorithm: random }
consumers:
  - keyauth_credentials: [{ key: k }]
  - { username: c, keyauth_credentials: [{ key: k }] }
plugins:
  - { config: {} }
  - { name: cors }
  - { name: cors }
  - { name: rate-limiting, config: { minute: -1 } }
"#;
    let run = imported(&[("one.yaml", one), ("two.yaml", "_format_version: \"2.1\"\n")], &[]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{}", run.stderr);
    for line in [
        "one.yaml:4:11: `port` must be a whole number",
        "one.yaml:3:5: a service without `url` and `host`",
        "one.yaml:5:11: another service has this `name`; the first is at ",
        "one.yaml:6:10: `url` must be like `http://host:80/path`",
        "one.yaml:8:9: a route needs one of `methods`, `hosts`, `paths`, `headers` and `snis`",
        "one.yaml:9:28: a path must begin with `/`",
        "one.yaml:9:42: a method must be in capitals",
        "one.yaml:10:28: the `*` of a host must be all of its first or last label",
        "one.yaml:10:48: a protocol must be one of http",
        "one.yaml:12:38: there is no service `nowhere`",
        "`target` must be a host or an address",
        "`weight` must be 0 to 65535",
        "`algorithm` must be one of round-robin",
        "one.yaml:16:5: a consumer without `username` and `custom_id`",
        "another key-auth credential has this `key`",
        "one.yaml:19:5: a plugin without `name`",
        "one.yaml:21:5: the plugin `cors` appears twice for the same",
        "`minute` must be a number",
        "two.yaml:1:18: the files have different versions, 3.0 and 2.1",
    ] {
        assert!(run.stderr.contains(line), "{line}: {}", run.stderr);
    }
}

#[test]
fn files_are_merged_and_selected_and_variables_stay() {
    let services = r#"
_format_version: "3.0"
_info: { defaults: { service: { retries: 3, connect_timeout: 500 } } }
services:
  - { name: a, host: "${{ env \"DECK_HOST\" }}", port: 81, tags: [one, two], routes: [{ name: ra, paths: [/a], tags: [one] }] }
  - { name: b, host: b.test, tags: [two], routes: [{ name: rb, paths: [/b] }] }
"#;
    let plugins = r#"
_format_version: "3.0"
plugins: [{ name: correlation-id, tags: [one] }, { name: acme, tags: [other] }]
"#;
    let run = imported(&[("a.yaml", services), ("b.json", plugins)], &["--select-tag", "one"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let plain = services.replace(r#""${{ env \"DECK_HOST\" }}""#, "'${{ env \"DECK_HOST\" }}'");
    assert_ne!(plain, services);
    let same = imported(&[("a.yaml", &plain), ("b.json", plugins)], &["--select-tag", "one"]);
    assert_eq!(same.stdout, run.stdout);
    for line in ["\"http://${DECK_HOST}:81\"", "attempts: 3", "connect: \"500ms\"", "prefix: /a"] {
        assert!(run.stdout.contains(line), "{line}: {}", run.stdout);
    }
    assert!(!run.stdout.contains("b.test"), "{}", run.stdout);
    let vault = r#"
_format_version: "3.0"
services: [{ name: a, host: a.test, routes: [{ name: r, paths: [/a], plugins: [{ name: key-auth }] }] }]
consumers:
  - { username: c, keyauth_credentials: [{ key: "{vault://env/my-key}" }] }
  - { username: d, keyauth_credentials: [{ key: "{vault://aws/other}" }] }
"#;
    let run = imported(&[("a.yaml", vault)], &[]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stdout.contains("key: \"${MY_KEY}\""), "{}", run.stdout);
    assert!(!run.stdout.contains("vault"), "{}", run.stdout);
    assert!(run.stderr.contains("`key`: Tidegate reads only the vault `env`"), "{}", run.stderr);
    let bad = services.replace("DECK_HOST", "HOME");
    let run = imported(&[("a.yaml", &bad)], &[]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    assert!(run.stderr.contains("decK reads variables that begin with `DECK_`"), "{}", run.stderr);
}

#[test]
fn a_result_that_no_gateway_could_read_is_refused() {
    let body = "a".repeat(17 << 20);
    let text = format!(
        "_format_version: \"3.0\"\nservices: [{{ name: a, url: \"http://h\", routes: [{{ name: r, paths: [/a], plugins: [{{ name: request-termination, config: {{ body: {body} }} }}] }}] }}]\n"
    );
    let run = imported(&[("kong.yaml", &text)], &[]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""));
    assert!(
        run.stderr.contains("but the limit is 16777216: import a part of the files"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_hundred_thousand_routes_are_refused_with_the_limit() {
    let mut text = String::from(
        "_format_version: \"3.0\"\nservices:\n  - name: s\n    url: http://h\n    routes:\n",
    );
    for number in 0..100_000 {
        text.push_str(&format!("      - {{ name: r{number}, paths: [/team-{number}/orders] }}\n"));
    }
    let run = imported(&[("kong.yaml", &text)], &[]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""));
    assert!(run.stderr.contains("bytes, but the limit is 16777216"), "{}", run.stderr);
    // One line, and no row for each of the routes.
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr.lines().next().unwrap_or(""));
}

/// The plugins for SOAP/XML, whose definitions are in the file.
#[test]
fn soap_plugins_become_policies() {
    let origin = Origin::echo();
    let text = format!(
        r#"
_format_version: "3.0"
services:
  - name: calculator
    url: {}
    routes:
      - name: scen
        paths: [/scen]
        plugins:
          - name: soap-xml-request-handling
            config:
              VerboseRequest: true
              xsltTransformBefore: |
                <xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
                  <xsl:template match="@*|node()"><xsl:copy><xsl:apply-templates select="@*|node()"/></xsl:copy></xsl:template>
                  <xsl:template match="old"><n xmlns="urn:n"><xsl:value-of select="."/></n></xsl:template>
                </xsl:stylesheet>
              xsdApiSchema: |
                <xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:n" elementFormDefault="qualified">
                  <xs:element name="n" type="xs:int"/>
                </xs:schema>
          - name: soap-xml-response-handling
            config: {{ VerboseResponse: true, ignoreProcessIfServiceHttpError: true }}
"#,
        origin.url()
    );
    let (run, folder) = import_kong(&text, &[]);
    let into = folder.path().join("made");
    let (gateway, _) = start_imported((run, folder), 0);
    assert!(into.join("definition.xsl").is_file() && into.join("definition-2.xsd").is_file());
    let post = |value: &str| {
        let body = format!(
            "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body><old>{value}</old></s:Body></s:Envelope>"
        );
        let length = body.len();
        gateway.wire().ask(format!(
            "POST /scen HTTP/1.1\r\nHost: h\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    };
    let good = post("5");
    assert_eq!(good.status(), 200, "{}", good.text());
    assert!(good.text().contains("<n xmlns=\"urn:n\">5</n>"), "{}", good.text());
    let bad = post("five");
    assert_eq!(bad.status(), 500);
    assert!(
        bad.text().contains("<faultstring>Request - XSD validation failed</faultstring>"),
        "{}",
        bad.text()
    );
}
