//! Spellings of a path that servers interpret differently: no spelling reaches another route than the path it represents (issue
//! 18, 7).

use hyper::Request;

use crate::harness::{Gateway, H2, Origin, Plain, full, until};
use crate::reload::put;

/// An open route with a guarded one below it.
fn guarded(origin: &Origin, listener: &str) -> String {
    format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0", {listener} }} }}
admin: {{ address: "127.0.0.1:0" }}
workers: 1
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes:
  raw:   {{ match: {{ path: "/raw/**" }}, upstream: origin }}
  admin:
    match: {{ path: "/raw/admin/**" }}
    policies: [{{ api_key: {{ header: x-key, keys: {{ ann: the-key }} }} }}]
    upstream: origin
"#,
        origin.url()
    )
}

#[test]
fn no_spelling_reaches_the_less_specific_route() {
    let origin = Origin::echo();
    let gateway = Gateway::start(guarded(&origin, ""));
    let client = H2::connect(gateway.address("public"));
    // The statuses without the key and with it, and the path that the upstream sees then.
    for (target, without, with, sent) in [
        ("/raw/admin/x", 401, 200, "/raw/admin/x"),
        ("/raw//admin/x?a=//b;c%2Fd", 401, 200, "/raw/admin/x?a=//b;c%2Fd"),
        ("//raw///admin//x", 401, 200, "/raw/admin/x"),
        ("/raw/admin//", 401, 200, "/raw/admin/"),
        ("/raw/.//admin/x", 401, 200, "/raw/admin/x"),
        ("/raw/x//../..//raw/%61dmin/y", 401, 200, "/raw/admin/y"),
        ("/raw/admin%2Fx", 400, 400, ""),
        ("/raw%2fadmin/x", 400, 400, ""),
        ("/raw/admin%5Cx", 400, 400, ""),
        ("/raw/admin%5cx", 400, 400, ""),
        ("/raw/%2Fadmin/x", 400, 400, ""),
        ("/raw/admin;a/x", 400, 400, ""),
        ("/raw;a=b/admin/x", 400, 400, ""),
        ("/raw/;/admin/x", 400, 400, ""),
        ("/raw/admin/x;jsessionid=1", 400, 400, ""),
        // Names of their own.
        ("/raw/caf%c3%a9", 200, 200, "/raw/caf%c3%a9"),
        ("/raw/admin%252Fx", 200, 200, "/raw/admin%252Fx"),
        ("/raw/admin%255cx", 200, 200, "/raw/admin%255cx"),
        ("/raw/admin%3Bx", 200, 200, "/raw/admin%3Bx"),
        ("/raw/Admin/x", 200, 200, "/raw/Admin/x"),
        ("/raw/x?a;b//c%2F", 200, 200, "/raw/x?a;b//c%2F"),
    ] {
        for form in [target.to_owned(), format!("http://a.test{target}")] {
            let request = format!("GET {form} HTTP/1.1\r\nHost: a.test\r\n");
            let before = origin.requests().len();
            let reply = gateway.wire().ask(format!("{request}\r\n"));
            assert_eq!(reply.status(), without, "{form}");
            if without == 400 {
                assert!(reply.text().contains("\"path_ambiguous\""), "{}", reply.text());
                assert_eq!(origin.requests().len(), before, "{form}");
            }
            let reply = gateway.wire().ask(format!("{request}X-Key: the-key\r\n\r\n"));
            assert_eq!(reply.status(), with, "{form}");
            if with == 200 {
                assert_eq!(origin.requests().last().unwrap().target(), sent, "{form}");
            }
        }
        let reply = client.get(&format!("http://a.test{target}"));
        assert_eq!(reply.status, without, "{target} over HTTP/2");
        let request = Request::get(format!("http://a.test{target}")).header("x-key", "the-key");
        let reply = client.ask(request.body(full("")).unwrap());
        assert_eq!(reply.status, with, "{target} over HTTP/2");
        if with == 200 {
            assert_eq!(origin.requests().last().unwrap().target(), sent, "{target} over HTTP/2");
        }
    }
}

/// Old decoders read `%c0%af` as a slash and `%c0%ae` as a dot. No listener lets them pass.
#[test]
fn overlong_escapes_are_refused_on_every_listener() {
    let origin = Origin::echo();
    const KEEP: &str = "paths: { escaped_slash: keep, empty_segments: keep, parameters: keep }";
    for listener in ["", KEEP] {
        let gateway = Gateway::start(guarded(&origin, listener));
        let client = H2::connect(gateway.address("public"));
        for escapes in
            ["%c0%af", "%C0%AF", "%c0%ae%c0%ae", "%c1%9c", "%e0%80%af", "%E0%9f%bf", "%f0%80%80%af"]
        {
            for target in [format!("/raw/x{escapes}admin/x"), format!("/raw/{escapes}")] {
                let request = format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n");
                let reply = gateway.wire().ask(format!("{request}X-Key: the-key\r\n\r\n"));
                assert_eq!(reply.status(), 400, "{listener} {target}: {reply:?}");
                let reply = client.get(&format!("http://a.test{target}"));
                assert_eq!(reply.status, 400, "{listener} {target} over HTTP/2");
            }
        }
        // In a query, the service interprets them. A sequence that is not overlong is part of a name.
        for target in ["/raw/x?a=%c0%af", "/raw/%e0%a0%80", "/raw/%f0%90%80%80"] {
            let reply =
                gateway.wire().ask(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
            assert_eq!(reply.status(), 200, "{listener} {target}: {reply:?}");
        }
    }
}

/// A listener that has to allow them specifies how they are read, and they are forwarded as matched.
#[test]
fn a_listener_says_how_spellings_are_read() {
    const ALL: &str = "escaped_slash: decode, empty_segments: merge, parameters: strip";
    let origin = Origin::echo();
    for (rules, targets) in [
        (
            "escaped_slash: keep",
            &[
                ("/raw/a%2Fb%5cc", 200, "/raw/a%2Fb%5cc"),
                ("/raw/admin%2Fx", 200, "/raw/admin%2Fx"),
                ("/raw//a%2fb", 200, "/raw/a%2Fb"),
                ("/raw/..%2fadmin", 400, ""),
                ("/raw/a%5C..", 400, ""),
                ("/raw/a;b", 400, ""),
            ][..],
        ),
        (
            "escaped_slash: decode",
            &[
                ("/raw/a%2fb", 200, "/raw/a/b"),
                ("/raw/a%5Cb", 200, "/raw/a/b"),
                ("/raw/admin%2fx", 401, ""),
                ("/raw%2f%2Fadmin%5cx", 401, ""),
                ("/raw/x/..%2fadmin", 401, ""),
                ("/raw/%2e%2e%2f..%2fx", 400, ""),
                ("/raw/a%252fb", 200, "/raw/a%252fb"),
            ],
        ),
        (
            "empty_segments: refuse",
            &[("/raw//a", 400, ""), ("/raw/a//", 400, ""), ("/raw/a/", 200, "/raw/a/")],
        ),
        (
            "empty_segments: keep",
            &[("/raw//a/", 200, "/raw//a/"), ("/raw//admin/x", 200, "/raw//admin/x")],
        ),
        (
            "parameters: strip",
            &[
                ("/raw/a;b=c/d;e?f;g", 200, "/raw/a/d?f;g"),
                ("/raw/admin;a/x", 401, ""),
                ("/raw/;a/admin;", 401, ""),
                ("/raw/..;/x", 400, ""),
            ],
        ),
        (
            "parameters: keep",
            &[
                ("/raw/a;b=c/d;e", 200, "/raw/a;b=c/d;e"),
                ("/raw/admin;a/x", 200, "/raw/admin;a/x"),
                ("/raw/..;/x", 400, ""),
            ],
        ),
        (ALL, &[("/raw/;a%2F%5Cadmin/x", 401, ""), ("/raw%2fa;//b;c", 200, "/raw/a/b")]),
    ] {
        let gateway = Gateway::start(guarded(&origin, &format!("paths: {{ {rules} }}")));
        for (target, status, sent) in targets {
            assert_eq!(gateway.wire().get(target).status(), *status, "{rules}: {target}");
            if *status == 200 {
                assert_eq!(origin.requests().last().unwrap().target(), *sent, "{rules}: {target}");
            }
        }
    }
}

#[test]
fn a_last_slash_still_tells_paths_apart() {
    let gateway = Gateway::start(
        r#"
listen: { public: { address: "127.0.0.1:0" } }
routes:
  bare:    { match: { path: /a }, respond: { body: bare } }
  slashed: { match: { path: /a/ }, respond: { body: slashed } }
  root:    { match: { path: / }, respond: { body: root } }
"#,
    );
    for (target, body) in [
        ("/a", "bare"),
        ("//a", "bare"),
        ("/a/", "slashed"),
        ("/a//", "slashed"),
        ("/", "root"),
        ("//", "root"),
    ] {
        assert_eq!(gateway.wire().get(target).text(), body, "{target}");
    }
}

/// The route's changes begin with the path that was matched.
#[test]
fn what_is_cut_and_rewritten_is_the_path_that_was_matched() {
    let origin = Origin::echo();
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes:
  cut: {{ match: {{ path: "/cut/**" }}, strip_prefix: /cut, upstream: origin }}
  new: {{ match: {{ path: "/old/{{id}}/**" }}, rewrite: "/new/{{id}}/{{**}}", upstream: origin }}
"#,
        origin.url()
    ));
    for (target, sent) in [
        ("/cut//a//b?c//d", "/a/b?c//d"),
        ("//cut/a", "/a"),
        ("/old//7//a//b", "/new/7/a/b"),
        ("/old//7", "/new/7"),
        ("/old//7/", "/new/7/"),
    ] {
        assert_eq!(gateway.wire().get(target).status(), 200, "{target}");
        assert_eq!(origin.requests().last().unwrap().target(), sent, "{target}");
    }
}

#[test]
fn a_reload_changes_how_spellings_are_read() {
    let origin = Origin::echo();
    let gateway = Gateway::start(guarded(&origin, ""));
    let mut wire = gateway.wire();
    for (rules, status) in [("", 400), ("paths: { escaped_slash: keep }", 200), ("", 400)] {
        assert_eq!(put(&gateway, &guarded(&origin, rules)).status(), 200);
        until("the connection has the new rules", || wire.get("/raw/a%2Fb").status() == status);
        assert_eq!(gateway.wire().get("/raw/a%2Fb").status(), status, "{rules}");
    }
}

/// `OPTIONS` that no route takes is answered for the path that other methods would find.
#[test]
fn what_options_tells_is_of_the_path_that_is_matched() {
    let origin = Origin::echo();
    let gateway = Plain { route: "", ..Plain::default() }.yaml(&origin);
    let gateway = gateway.replace("path: \"/**\"", "path: \"/a/**\", methods: [GET]");
    let gateway = Gateway::start(gateway);
    for (target, status) in [("/a//b", 204), ("//a/b", 204), ("/a%2Fb", 400), ("/b//a", 404)] {
        let request = format!("OPTIONS {target} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(gateway.wire().ask(request).status(), status, "{target}");
    }
}
