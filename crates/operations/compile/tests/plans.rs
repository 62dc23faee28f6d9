//! The content of a plan, and the parts that it takes over from the previous one.
#![allow(clippy::unwrap_used, reason = "a test ends where it is surprised")]

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

use compile::ExplainedRequest;
use config::LoadedConfig;
use expect_test::{Expect, expect};
use plan::Plan;
use plan::telemetry::Telemetry;

const TEXT: &str = r#"
listen:
  public: { address: "127.0.0.1:8080" }
  inside: { address: "127.0.0.1:8081", trusted_proxies: [10.0.0.0/8] }
admin: { address: "127.0.0.1:9901" }
workers: 2
upstreams:
  orders:
    targets: ["http://10.0.0.1:8080", { url: "https://h", weight: 2 }]
    retry: { attempts: 2, on: [reset, 503, timeout] }
    health: { path: /health }
  other: { targets: ["http://10.0.0.3"], balance: { hash: { by: "cookie:s" } } }
routes:
  orders:
    match: { path: "/orders/**", host: [api.example.com, "*.example.org"], methods: [GET, POST] }
    strip_prefix: /orders/
    limits: { body_bytes_max: 1MiB }
    policies:
      - headers: { request: { set: { X-A: "$${b}" }, remove: [x-c] } }
      - headers: {}
    upstream: orders
  gold:
    match: { path: "/orders/**", host: api.example.com, headers: { X-Tier: gold }, query: { v: { present: true } } }
    rewrite: "/gold/{**}"
    host: orders.internal:8080
    upstream: orders
  one:
    match: { path: "/users/{id}/cards/{card}" }
    rewrite: "/cards/{card}/of/{id}"
    host: target
    upstream: other
  hello: { match: { path: /hello }, respond: { body: "hello\n", headers: { Content-Type: text/plain } } }
telemetry: { access_log: { format: "{client} {status}", path: /var/log/access.log } }
"#;

fn load(text: &str) -> LoadedConfig {
    config::parse(text, Path::new("gate.yaml"))
}

fn compile(text: &str, previous: Option<&Plan>, telemetry: &Telemetry) -> Plan {
    let compiled = compile::compile(&load(text), previous, telemetry);
    compiled.map_err(|report| report.to_string()).unwrap().plan
}

#[test]
fn the_whole_in_words() {
    let plan = compile(TEXT, None, &Telemetry::new(2));
    let text = compile::explain(&load(TEXT), &plan);
    expect![[r##"
        # Everything that is in effect, defaults included.
        listen:
          public:
            address: "127.0.0.1:8080"
            http2: true
            proxy_protocol: false
            trusted_proxies: []
            pass_untrusted_headers: false
            paths:
              escaped_slash: refuse
              empty_segments: merge
              parameters: refuse
            limits:
              head_bytes_max: 64KiB
              target_bytes_max: 16KiB
              headers_max: 128
              connections_max: 65536
              streams_max: 128
              body_rate_min: 240B
            timeout:
              head: 10s
              body: 30s
              idle: 75s
              tunnel: 10m
              tls: 10s
          inside:
            address: "127.0.0.1:8081"
            http2: true
            proxy_protocol: false
            trusted_proxies: ["10.0.0.0/8"]
            pass_untrusted_headers: false
            paths:
              escaped_slash: refuse
              empty_segments: merge
              parameters: refuse
            limits:
              head_bytes_max: 64KiB
              target_bytes_max: 16KiB
              headers_max: 128
              connections_max: 65536
              streams_max: 128
              body_rate_min: 240B
            timeout:
              head: 10s
              body: 30s
              idle: 75s
              tunnel: 10m
              tls: 10s
        admin:
          address: "127.0.0.1:9901"
          users: {}
          origins: []
          hosts: []
          open: false
          history: 50
        workers: 2
        limits:
          memory: "60%"
        shutdown:
          delay: 5s
          drain: 30s
        upgrade:
          timeout: 30s
          drain: 1h
        upstreams:
          orders:
            targets:
              - { url: "http://10.0.0.1:8080", weight: 1 }
              - { url: "https://h:443", weight: 2 }
            addresses: together
            protocol: http1
            balance: round_robin
            available_min_percent: 0
            timeout:
              connect: 1s
              response: 1m
              idle: 1m
            retry:
              attempts: 2
              when: [reset, 503, timeout]
              body_bytes_max: 64KiB
              non_idempotent: true
              pause_max: 250ms
            health:
              path: /health
              interval: 10s
              timeout: 1s
              unhealthy_after: 2
              healthy_after: 2
              statuses: ["200-399"]
            breaker:
              connections: 65536
              requests: 65536
              pending: 65536
            pool:
              idle_max: 1024
            dns:
              refresh: 5s
            tls:
              verify: true
          other:
            targets:
              - { url: "http://10.0.0.3:80", weight: 1 }
            addresses: together
            protocol: http1
            balance:
              hash:
                by: "cookie:s"
            available_min_percent: 0
            timeout:
              connect: 1s
              response: 1m
              idle: 1m
            retry:
              when: [connect_failure]
              body_bytes_max: 64KiB
              non_idempotent: true
              pause_max: 250ms
            breaker:
              connections: 65536
              requests: 65536
              pending: 65536
            pool:
              idle_max: 1024
            dns:
              refresh: 5s
            tls:
              verify: true
        issuers: {}
        routes:
          orders:
            match:
              path: "/orders/**"
              priority: 0
              listener: []
              host: [api.example.com, "*.example.org"]
              sni: []
              source: []
              methods: [GET, POST]
              head: true
              headers: {}
              query: {}
            strip_prefix: /orders/
            host: preserve
            limits:
              body_bytes_max: 1MiB
              length_required: false
            streams:
              reload: keep
              drain: 30s
            policies:
              - { headers: { request: { rename: {}, replace: {}, set: { X-A: "$${b}" }, default: {}, add: {}, remove: [x-c], if_status: [] }, response: { rename: {}, replace: {}, set: {}, default: {}, add: {}, remove: [], if_status: [] } } }
              - { headers: { request: { rename: {}, replace: {}, set: {}, default: {}, add: {}, remove: [], if_status: [] }, response: { rename: {}, replace: {}, set: {}, default: {}, add: {}, remove: [], if_status: [] } } }
            defaults: true
            errors: problem
            upstream: orders
            services:
              imports: {}
          gold:
            match:
              path: "/orders/**"
              priority: 0
              listener: []
              host: api.example.com
              sni: []
              source: []
              methods: []
              head: true
              headers:
                X-Tier: gold
              query:
                v:
                  present: true
            rewrite: "/gold/{**}"
            host: "orders.internal:8080"
            limits:
              length_required: false
            streams:
              reload: keep
              drain: 30s
            policies: []
            defaults: true
            errors: problem
            upstream: orders
            services:
              imports: {}
          one:
            match:
              path: "/users/{id}/cards/{card}"
              priority: 0
              listener: []
              host: []
              sni: []
              source: []
              methods: []
              head: true
              headers: {}
              query: {}
            rewrite: "/cards/{card}/of/{id}"
            host: target
            limits:
              length_required: false
            streams:
              reload: keep
              drain: 30s
            policies: []
            defaults: true
            errors: problem
            upstream: other
            services:
              imports: {}
          hello:
            match:
              path: /hello
              priority: 0
              listener: []
              host: []
              sni: []
              source: []
              methods: []
              head: true
              headers: {}
              query: {}
            host: preserve
            limits:
              length_required: false
            streams:
              reload: keep
              drain: 30s
            policies: []
            defaults: true
            errors: problem
            services:
              imports: {}
            respond:
              status: 200
              body: "hello\n"
              headers:
                Content-Type: text/plain
        flows: {}
        databases: {}
        hubs: {}
        queues: {}
        schedules: {}
        cases: {}
        plans: {}
        applications: {}
        stores: {}
        policy_sets: {}
        defaults:
          policies: []
        apis: {}
        saxon:
          heap_bytes_max: 256MiB
          pending: 1024
          timeout: 5s
        telemetry:
          access_log:
            format: "{client} {status}"
            fields: {}
            to: /var/log/access.log

        # Plan 1: 2 workers.
        # Routes, as written. The highest priority wins, then the most specific match:
        # exact host, then a literal path, a regular expression, the longer path, then listener,
        # server name, source, methods, headers, query.
        #   orders: api.example.com/orders/** GET|POST
        #     -> upstream `orders` (http://10.0.0.1:8080, https://h), the path without /orders, the client's Host
        #     policy headers: request: head
        #     policy headers: nothing to do
        #   orders: *.example.org/orders/** GET|POST
        #     -> upstream `orders` (http://10.0.0.1:8080, https://h), the path without /orders, the client's Host
        #     policy headers: request: head
        #     policy headers: nothing to do
        #   gold: api.example.com/orders/**, header x-tier = gold, query v present
        #     -> upstream `orders` (http://10.0.0.1:8080, https://h), the path /gold/{**}, Host orders.internal:8080
        #   one: /users/{id}/cards/{card}
        #     -> upstream `other` (http://10.0.0.3), the path /cards/{card}/of/{id}, the target's Host
        #   hello: /hello
        #     -> a fixed reply, status 200, 6 bytes
    "##]].assert_eq(&text);
    let again = load(&text);
    assert!(again.report.is_empty(), "{}", again.report);
    assert_eq!(again.config, load(TEXT).config);
}

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn asked<'a>(
    method: &'a str,
    url: &'a str,
    headers: &'a [(String, String)],
) -> ExplainedRequest<'a> {
    ExplainedRequest { client: CLIENT, method, url, headers, body: None }
}

#[test]
fn one_request_in_words() {
    let plan = compile(TEXT, None, &Telemetry::new(2));
    let check = |method: &str, url: &str, headers: &[(&str, &str)], expected: Expect| {
        let headers: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let text = compile::explain_request(&plan, &asked(method, url, &headers));
        expected.assert_eq(&text.unwrap_or_else(|fault| fault));
    };
    check(
        "GET",
        "http://api.example.com/orders/1?x=y",
        &[],
        expect![[r#"
            GET http://api.example.com/orders/1?x=y
            route `orders`
              matches api.example.com/orders/** GET|POST
              matches *.example.org/orders/** GET|POST
              a body over 1048576 bytes is refused with 413
              policy headers: passes (gate.yaml:19:9)
                + x-a: ${b}
              policy headers: nothing to do (gate.yaml:20:9)
              -> upstream `orders` (http://10.0.0.1:8080, https://h), the path without /orders, the client's Host
            not chosen:
              `gold`: the header `x-tier` is not `gold`
              `one`: the path is not /users/{id}/cards/{card}
              `hello`: the path is not /hello
        "#]],
    );
    for (method, url, said) in [
        ("PURGE", "/hello", "refused with 501"),
        ("get", "/hello", "refused with 501"),
        ("TRACE", "/hello", "refused with 405"),
        ("OPTIONS", "/users/1/cards/2", "route `one`"),
        (
            "OPTIONS",
            "http://api.example.com/orders/1",
            "204 with `Allow: GET, HEAD, POST, OPTIONS`",
        ),
        ("GET", "/a%zz", "refused with 400"),
        ("GET", "/a%00", "refused with 400"),
        ("GET", "/a b", "refused with 400"),
    ] {
        let text = compile::explain_request(&plan, &asked(method, url, &[])).unwrap();
        assert!(text.contains(said), "{text}");
    }
    check(
        "PUT",
        "http://API.example.com:80/orders?v=1",
        &[("x-tier", "gold")],
        expect![[r#"
            PUT http://API.example.com:80/orders?v=1
            route `gold`
              matches api.example.com/orders/**, header x-tier = gold, query v present
              -> upstream `orders` (http://10.0.0.1:8080, https://h), the path /gold/{**}, Host orders.internal:8080
            not chosen:
              `orders`: the method PUT is not GET or POST
              `one`: the path is not /users/{id}/cards/{card}
              `hello`: the path is not /hello
        "#]],
    );
    check(
        "GET",
        "/users/5/cards/7",
        &[("Host", "x")],
        expect![[r#"
            GET /users/5/cards/7
            route `one`
              matches /users/{id}/cards/{card}
              {id} is 5
              {card} is 7
              -> upstream `other` (http://10.0.0.3), the path /cards/{card}/of/{id}, the target's Host
            not chosen:
              `hello`: the path is not /hello
              `orders`: the host is not api.example.com
              `gold`: the host is not api.example.com
        "#]],
    );
    check(
        "GET",
        "/a/../hello#there",
        &[],
        expect![[r#"
            GET /a/../hello#there
            matched as /hello
            route `hello`
              matches /hello
              -> a fixed reply, status 200, 6 bytes
            not chosen:
              `one`: the path is not /users/{id}/cards/{card}
              `orders`: the host is not api.example.com
              `gold`: the host is not api.example.com
        "#]],
    );
    check(
        "GET",
        "/../hello",
        &[],
        expect![[r#"
        GET /../hello
        refused with 400: the path leaves its root, or hides dots
    "#]],
    );
    check(
        "GET",
        "http://h",
        &[],
        expect![[r#"
            GET http://h
            no route matches: 404
            not chosen:
              `one`: the path is not /users/{id}/cards/{card}
              `hello`: the path is not /hello
              `orders`: the host is not api.example.com
              `gold`: the host is not api.example.com
        "#]],
    );
    check("G T", "/", &[], expect!["`G T` is not a method"]);
    check("GET", "ftp://h/", &[], expect!["`ftp://h/` is neither http nor https"]);
    check("GET", "hello", &[], expect!["`hello` is not a URL; write http://HOST/PATH or /PATH"]);
    check("GET", "/", &[("a b", "c")], expect!["`a b: c` is not a header"]);
}

#[test]
fn what_did_not_change_is_kept() {
    let telemetry = Telemetry::new(2);
    let first = compile(TEXT, None, &telemetry);
    let changed = TEXT.replace("10.0.0.3", "10.0.0.4").replace("10.0.0.0/8", "10.0.0.0/9");
    let second = compile(&changed, Some(&first), &telemetry);
    let third = compile(TEXT, Some(&second), &telemetry);
    assert_eq!([first.generation, second.generation, third.generation], [1, 2, 3]);

    let same = |a: &Plan, b: &Plan, upstream: usize, listener: usize| {
        (
            Arc::ptr_eq(a.upstreams.get(upstream).unwrap(), b.upstreams.get(upstream).unwrap()),
            Arc::ptr_eq(a.listeners.get(listener).unwrap(), b.listeners.get(listener).unwrap()),
        )
    };
    assert_eq!(same(&first, &second, 0, 0), (true, true));
    assert_eq!(same(&first, &second, 1, 1), (false, false));
    assert_eq!(same(&second, &third, 1, 1), (false, false));
    assert_eq!(same(&first, &third, 0, 0), (true, true));
}

#[test]
fn an_upstream_keeps_its_state_when_a_route_to_it_moves() {
    let telemetry = Telemetry::new(2);
    let first = compile(TEXT, None, &telemetry);
    let second = compile(&TEXT.replace("/users/", "/people/"), Some(&first), &telemetry);
    for (old, new) in first.upstreams.iter().zip(&second.upstreams) {
        assert!(Arc::ptr_eq(old, new));
    }
}

#[test]
fn the_number_of_workers_is_that_of_the_start() {
    let telemetry = Telemetry::new(2);
    let first = compile(TEXT, None, &telemetry);
    let more = TEXT.replace("workers: 2", "workers: 3");
    let second = compile::compile(&load(&more), Some(&first), &telemetry).map_err(drop).unwrap();
    assert_eq!(second.plan.workers, 2);
    expect![[r#"
        gate.yaml:6:10: warning: the number of workers stays at 2 until the gateway is restarted
          help: restart it, or restore the number in use
        gate.yaml:10:24: warning: a request fails if its target cannot be connected to, although there are others
          help: add `connect_failure` to `when`; a retry is safe, because nothing was sent
    "#]]
    .assert_eq(&second.warnings.to_string());
}

#[test]
fn a_bad_configuration_makes_no_metrics() {
    let telemetry = Telemetry::new(1);
    let before = telemetry.render().lines().count();
    let bad = r#"
listen: { a: { address: "127.0.0.1:0" } }
issuers: { secret: { issuer: "https://a.test", jwks: "https://a.test/keys" } }
hubs: { secret: { topics: [secret], callbacks: { allow: [127.0.0.0/8] } } }
flows: { secret: [{ respond: { text: a } }] }
queues: { secret: { flow: secret } }
schedules: { secret: { every: 1m, flow: secret } }
endpoints: { allow: ["https://a.test"] }
routes:
  secret: { match: {}, upstream: none }
  hub: { match: { path: "/secret/**" }, hub: secret }
"#;
    let report = compile::compile(&load(bad), None, &telemetry).map(|_| ()).unwrap_err();
    assert_eq!(report.errors().count(), 1, "{report}");
    let after = telemetry.render();
    assert!(!after.contains("secret"), "{after}");
    assert_eq!(after.lines().count(), before, "{after}");
}

#[test]
fn only_replies_of_the_route_itself_are_not_transformed() {
    let folder = tempfile::tempdir().unwrap();
    let sheet = "<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'/>";
    std::fs::write(folder.path().join("a.xsl"), sheet).unwrap();
    let transforms = |end: &str| {
        let text = format!(
            "listen: {{ a: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ u: {{ targets: [\"http://a.test\"] }} }}\nroutes: {{ r: {{ match: {{ path: /a }}, policies: [{{ xslt: {{ stylesheet: a.xsl, on: response }} }}], {end} }} }}\n"
        );
        let loaded = config::parse(&text, &folder.path().join("gate.yaml"));
        let compiled = compile::compile(&loaded, None, &Telemetry::new(1));
        let plan = compiled.map_err(|report| report.to_string()).unwrap().plan;
        let (_, route) = plan.table.routes().next().unwrap();
        route.policies[0].response.is_some()
    };
    assert!(transforms("upstream: u"));
    assert!(!transforms("respond: { status: 200 }"));
    assert!(transforms("respond: { status: 404 }"));
    // Only some requests get the reply of the route.
    assert!(transforms("upstream: u, respond: { status: 200, trigger: x-mock }"));
}

#[test]
fn the_target_of_a_case_has_the_timeouts_of_an_upstream() {
    let text = r#"
listen: { a: { address: "127.0.0.1:0" } }
upstreams: { u: { targets: ["http://a.test"] } }
routes:
  r:
    match: { path: /a }
    upstream: u
    policies: [{ xpath_route: { cases: [{ xpath: /a, equals: b, url: "http://b.test/x" }] } }]
"#;
    let plan = compile(text, None, &Telemetry::new(1));
    let timeouts: Vec<_> =
        plan.upstreams.iter().map(|one| one.settings().timeout.clone()).collect();
    assert_eq!(timeouts.len(), 2);
    assert_eq!(timeouts.first(), timeouts.last());
}
