//! `cors`: preflights are answered, and every reply that a page may read is marked, including errors.

use crate::harness::{Gateway, Message, Origin, Plain, tidegate};

const PAGE: &str = "https://app.example.com";

fn start(origin: &Origin, cors: &str, more: &str) -> Gateway {
    let route = format!("policies: [{{ cors: {{ {cors} }} }}{more}]");
    Plain { route: &route, ..Plain::default() }.start(origin)
}

fn ask(gateway: &Gateway, method: &str, target: &str, lines: &[(&str, &str)]) -> Message {
    let lines: String = lines.iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
    gateway.wire().ask(format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n"))
}

fn preflight(gateway: &Gateway, target: &str, page: &str, method: &str) -> Message {
    let lines = [
        ("Origin", page),
        ("Access-Control-Request-Method", method),
        ("Access-Control-Request-Headers", "x-a,authorization"),
    ];
    ask(gateway, "OPTIONS", target, &lines)
}

#[test]
fn a_preflight_may_be_answered_with_another_status() {
    let origin = Origin::saying("ok");
    let gateway = start(&origin, &format!("origins: [\"{PAGE}\"], preflight_status: 200"), "");
    for (page, allowed) in [(PAGE, Some(PAGE)), ("https://evil.example", None)] {
        let reply = preflight(&gateway, "/a", page, "PUT");
        assert_eq!((reply.status(), reply.body.len()), (200, 0), "{reply:?}");
        assert_eq!(reply.get("access-control-allow-origin"), allowed, "{reply:?}");
    }
    assert!(origin.requests().is_empty());
}

#[test]
fn preflights_are_answered_without_the_upstream() {
    let origin = Origin::saying("ok");
    let cors = format!(
        "origins: [\"{PAGE}\"], methods: [GET, PUT], headers: [X-A, Authorization], credentials: true, max_age: 1h"
    );
    let gateway = start(&origin, &cors, "");
    let reply = preflight(&gateway, "/a", PAGE, "PUT");
    assert_eq!((reply.status(), reply.body.len()), (204, 0));
    for (name, value) in [
        ("access-control-allow-origin", PAGE),
        ("access-control-allow-methods", "GET, PUT"),
        ("access-control-allow-headers", "x-a, authorization"),
        ("access-control-allow-credentials", "true"),
        ("access-control-max-age", "3600"),
    ] {
        assert_eq!(reply.get(name), Some(value), "{reply:?}");
    }
    for word in ["origin", "access-control-request-method", "access-control-request-headers"] {
        assert!(reply.lists("vary", word), "{reply:?}");
    }
    // Another page gets no permissions and no additional information.
    let reply = preflight(&gateway, "/a", "https://evil.example", "PUT");
    assert_eq!(reply.status(), 204);
    assert!(!format!("{reply:?}").to_lowercase().contains("access-control-allow"), "{reply:?}");
    assert!(reply.get("allow").unwrap().contains("OPTIONS"));
    assert!(origin.requests().is_empty());
}

#[test]
fn a_wildcard_is_sent_as_one_and_what_is_asked_for_is_allowed() {
    let origin = Origin::saying("ok");
    let gateway = start(&origin, "origins: [\"*\"]", "");
    let reply = preflight(&gateway, "/a", PAGE, "DELETE");
    assert_eq!(reply.get("access-control-allow-origin"), Some("*"));
    assert_eq!(reply.get("access-control-allow-headers"), Some("x-a,authorization"));
    assert!(reply.lists("access-control-allow-methods", "DELETE"));
    assert_eq!(reply.get("access-control-allow-credentials"), None);
    let reply = ask(&gateway, "GET", "/", &[("Origin", PAGE)]);
    assert_eq!(reply.get("access-control-allow-origin"), Some("*"));
    assert_eq!(reply.get("vary"), None, "the reply is the same for all");
    // A request without an origin, or with two, may come from a cache, which gives the reply to pages too.
    for lines in [&[][..], &[("Origin", PAGE), ("Origin", PAGE)]] {
        let reply = ask(&gateway, "GET", "/", lines);
        assert_eq!(reply.get("access-control-allow-origin"), Some("*"), "{lines:?}");
        assert_eq!(reply.get("vary"), None, "{lines:?}");
    }
}

#[test]
fn replies_name_the_page_and_caches_are_told() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nVary: Accept\r\nAccess-Control-Allow-Origin: *\r\n\r\nok",
    );
    let cors = "origins: [\"https://*.example.com\", \"http://localhost:*\"], expose: [X-B, X-C], credentials: true";
    let gateway = start(&origin, cors, "");
    for (page, allowed) in [
        (PAGE, true),
        ("http://localhost:3000", true),
        ("https://example.com", false),
        ("https://app.example.com.evil.com", false),
        ("http://app.example.com", false),
        ("null", false),
    ] {
        let reply = ask(&gateway, "GET", "/", &[("Origin", page)]);
        assert_eq!((reply.status(), reply.text().as_str()), (200, "ok"), "it passes in any case");
        let named = reply.get("access-control-allow-origin");
        assert_eq!(named, allowed.then_some(page), "{reply:?}");
        let credentials = reply.get("access-control-allow-credentials");
        assert_eq!(credentials, allowed.then_some("true"));
        let exposed = reply.get("access-control-expose-headers");
        assert_eq!(exposed, allowed.then_some("x-b, x-c"));
        assert!(reply.lists("vary", "origin") && reply.lists("vary", "accept"), "{reply:?}");
    }
    // Without an origin there is no permission, but `Vary` for caches.
    let reply = ask(&gateway, "GET", "/", &[]);
    assert_eq!(reply.get("access-control-allow-origin"), None);
    assert!(reply.lists("vary", "origin"));
    // Two origins, or a huge one, count as none.
    let twice = ask(&gateway, "GET", "/", &[("Origin", PAGE), ("Origin", PAGE)]);
    assert_eq!(twice.get("access-control-allow-origin"), None);
    let huge = format!("https://{}.example.com", "a".repeat(5000));
    let reply = ask(&gateway, "GET", "/", &[("Origin", &huge)]);
    assert_eq!(reply.get("access-control-allow-origin"), None);
}

#[test]
fn error_replies_can_be_read_by_pages_too() {
    let page = [("Origin", PAGE)];
    let cors = format!("origins: [\"{PAGE}\"]");
    let dead = Origin::saying("ok").url();
    let origin = Origin::saying("ok");
    let gateway = start(&origin, &cors, ", { rate_limit: { requests: 1, per: 1h } }");
    let statuses = [200, 429].map(|status| {
        let reply = ask(&gateway, "GET", "/", &page);
        assert_eq!(reply.get("access-control-allow-origin"), Some(PAGE), "{reply:?}");
        assert_eq!(reply.status(), status);
    });
    assert_eq!(statuses.len(), 2);
    // The upstream is gone.
    let route = format!("policies: [{{ cors: {{ {cors} }} }}], limits: {{ body_bytes_max: 4B }}");
    let gateway = Plain { route: &route, targets: &[dead], ..Plain::default() }.start(&origin);
    let reply = ask(&gateway, "GET", "/", &page);
    assert_eq!(reply.status(), 502);
    assert_eq!(reply.get("access-control-allow-origin"), Some(PAGE));
    // The body is too large, by its announced length and by its bytes.
    let body = [("Origin", PAGE), ("Content-Length", "9")];
    let reply = ask(&gateway, "POST", "/", &body);
    assert_eq!(reply.status(), 413);
    assert_eq!(reply.get("access-control-allow-origin"), Some(PAGE));
}

#[test]
fn a_preflight_finds_the_route_of_what_it_asks_about() {
    let origin = Origin::saying("ok");
    let policies = format!("policies: [{{ cors: {{ origins: [\"{PAGE}\"] }} }}]");
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
upstreams: {{ origin: {{ targets: [{:?}] }} }}
routes:
  read: {{ match: {{ path: /x, methods: [GET] }}, upstream: origin, {policies} }}
  write: {{ match: {{ path: /x, methods: [PUT] }}, upstream: origin }}
  own: {{ match: {{ path: /own, methods: [GET, OPTIONS] }}, upstream: origin }}
  all: {{ match: {{ path: "/**" }}, respond: {{ status: 418 }} }}
"#,
        origin.url()
    ));
    // The reply of `read`, although it takes no OPTIONS and `all` would.
    let reply = preflight(&gateway, "/x", PAGE, "GET");
    assert_eq!(reply.status(), 204);
    assert_eq!(reply.get("access-control-allow-origin"), Some(PAGE));
    // `write` has no CORS, so its preflight is an OPTIONS like any other.
    assert_eq!(preflight(&gateway, "/x", PAGE, "PUT").status(), 418);
    assert_eq!(preflight(&gateway, "/other", PAGE, "GET").status(), 418);
    // A service that answers its preflights itself.
    assert_eq!(preflight(&gateway, "/own", PAGE, "GET").text(), "ok");
    // Not preflights: no requested method, or no origin.
    assert_eq!(ask(&gateway, "OPTIONS", "/x", &[("Origin", PAGE)]).status(), 418);
    let reply = ask(&gateway, "OPTIONS", "/x", &[("Access-Control-Request-Method", "GET")]);
    assert_eq!(reply.status(), 418);
}

#[test]
fn preflights_may_be_options_like_others_and_may_go_to_the_upstream() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nAccess-Control-Allow-Origin: *\r\nAccess-Control-Max-Age: 7\r\n\r\nok",
    );
    let cors = |word: &str| {
        format!("policies: [{{ cors: {{ origins: [\"{PAGE}\"], preflights: {word} }} }}]")
    };
    let (answered, forwarded) = (cors("as_options"), cors("forward"));
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
upstreams: {{ origin: {{ targets: [{:?}] }} }}
routes:
  read: {{ match: {{ path: /x, methods: [GET] }}, upstream: origin, {answered} }}
  own: {{ match: {{ path: /own, methods: [GET, OPTIONS] }}, upstream: origin, {answered} }}
  each: {{ match: {{ path: /each }}, upstream: origin, {answered} }}
  passed: {{ match: {{ path: /passed }}, upstream: origin, {forwarded} }}
  missed: {{ match: {{ path: /missed, methods: [GET] }}, upstream: origin, {forwarded} }}
  all: {{ match: {{ path: "/**" }}, respond: {{ status: 418 }} }}
"#,
        origin.url()
    ));
    for target in ["/x", "/missed"] {
        assert_eq!(preflight(&gateway, target, PAGE, "GET").status(), 418, "{target}");
    }
    for target in ["/own", "/each"] {
        let reply = preflight(&gateway, target, PAGE, "GET");
        let allowed = reply.get("access-control-allow-origin");
        assert_eq!((reply.status(), allowed), (204, Some(PAGE)), "{target}");
        let reply = preflight(&gateway, target, "https://evil.example", "GET");
        let allowed = reply.get("access-control-allow-origin");
        assert_eq!((reply.status(), allowed), (204, None), "{target}");
    }
    assert!(origin.requests().is_empty());
    // The permission is that of the service, for each origin.
    for page in [PAGE, "https://evil.example"] {
        let reply = preflight(&gateway, "/passed", page, "PUT");
        assert_eq!(reply.text(), "ok");
        assert_eq!(reply.all("access-control-allow-origin"), ["*"]);
        assert_eq!(reply.get("access-control-max-age"), Some("7"));
    }
    assert_eq!(origin.requests().len(), 2);
    let reply = ask(&gateway, "GET", "/passed", &[("Origin", PAGE)]);
    assert_eq!(reply.all("access-control-allow-origin"), [PAGE]);
    assert_eq!(reply.get("access-control-max-age"), None);
}

#[test]
fn options_of_a_path_that_takes_none_lists_what_it_takes() {
    let origin = Origin::saying("ok");
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
upstreams: {{ origin: {{ targets: [{:?}] }} }}
routes:
  read: {{ match: {{ path: /x, methods: [GET] }}, upstream: origin }}
  write: {{ match: {{ path: /x, methods: [PUT] }}, upstream: origin }}
"#,
        origin.url()
    ));
    let reply = ask(&gateway, "OPTIONS", "/x", &[]);
    assert_eq!((reply.status(), reply.get("allow")), (204, Some("GET, HEAD, PUT, OPTIONS")));
    assert_eq!(ask(&gateway, "OPTIONS", "/y", &[]).status(), 404);
    let reply = ask(&gateway, "DELETE", "/x", &[]);
    assert_eq!((reply.status(), reply.get("allow")), (405, Some("GET, HEAD, PUT, OPTIONS")));
    assert!(origin.requests().is_empty());
}

#[test]
fn the_port_that_a_scheme_implies_may_be_written() {
    let origin = Origin::saying("ok");
    let cors = "origins: [\"https://a.test:443\", \"http://*.b.test:80\", \"http://[::1]:443\"]";
    let gateway = start(&origin, cors, "");
    for (page, allowed) in [
        ("https://a.test", true),
        ("https://a.test:443", false),
        ("http://x.b.test", true),
        ("http://[::1]:443", true),
        ("http://[::1]", false),
    ] {
        let reply = ask(&gateway, "GET", "/", &[("Origin", page)]);
        let named = reply.get("access-control-allow-origin");
        assert_eq!(named, allowed.then_some(page), "{page}");
    }
}

/// A star in the place of a port is digits, and no way to another host.
#[test]
fn any_port_is_a_port() {
    let origin = Origin::saying("ok");
    let gateway = start(&origin, "origins: [\"http://localhost:*\"]", "");
    for (page, allowed) in [
        ("http://localhost:3000", true),
        ("http://localhost:1", true),
        ("http://localhost", false),
        ("http://localhost:", false),
        ("https://localhost:3000", false),
        ("http://localhost:3000.evil.test", false),
        ("http://localhost:evil.test", false),
        ("http://localhost:80@evil.test", false),
        ("http://localhost:80/x", false),
        ("http://evil.test:3000", false),
    ] {
        let reply = ask(&gateway, "GET", "/", &[("Origin", page)]);
        let named = reply.get("access-control-allow-origin");
        assert_eq!(named, allowed.then_some(page), "{page}");
    }
}

#[test]
fn what_a_page_asks_for_cannot_break_a_line() {
    let origin = Origin::saying("ok");
    let gateway = start(&origin, "origins: [\"*\"]", "");
    for asked in ["x-a, x b", "x\u{7f}", "", &"x-a,".repeat(2000)] {
        let lines = [
            ("Origin", PAGE),
            ("Access-Control-Request-Method", "GET"),
            ("Access-Control-Request-Headers", asked),
        ];
        let reply = ask(&gateway, "OPTIONS", "/", &lines);
        if reply.status() == 204 {
            assert_eq!(reply.get("access-control-allow-headers"), None, "{asked:?}");
        } else {
            assert_eq!(reply.status(), 400, "{asked:?}");
        }
    }
}

#[test]
fn mistakes_are_complained_about_with_a_way_out() {
    let origin = Origin::saying("ok");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    for (cors, complaint) in [
        ("origins: [\"*\"], credentials: true", "list the origins"),
        ("origins: [app.example.com]", "is not an origin"),
        ("origins: [\"https://app.example.com/\"]", "is not an origin such as"),
        ("origins: [\"https://App.example.com\"]", "is not an origin such as"),
        ("origins: [\"https://*example.com\"]", "`*` is allowed only as"),
        ("origins: [\"https://*.*.com\"]", "`*` is allowed only as"),
        ("origins: [\"*\"], methods: [get]", "write `GET`"),
        ("origins: [\"*\"], headers: [\"a b\"]", "is not a valid header name"),
        ("origins: [\"*\"], expose: [\"a\\r\\nb\"]", "is not a valid header name"),
        ("methods: [GET]", "the key `origins` is missing"),
        ("origins: []", "no origin is listed"),
        ("origins: [\"*\"], preflights: pass", "`forward`"),
    ] {
        let route = format!("policies: [{{ cors: {{ {cors} }} }}]");
        std::fs::write(&file, Plain { route: &route, ..Plain::default() }.yaml(&origin)).unwrap();
        let run = tidegate(&["check".as_ref(), file.as_os_str()]);
        let said = run.stdout + &run.stderr;
        assert_eq!(run.code, Some(1), "{cors}: {said}");
        assert!(said.contains(complaint), "{cors}: {said}");
    }
}
