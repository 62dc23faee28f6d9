//! `redirect`: where clients are sent instead.

use crate::harness::{Gateway, tidegate};

const ROUTES: &str = r#"
listen: { public: { address: "127.0.0.1:0", paths: { empty_segments: keep } } }
routes:
  all:   { match: { path: "/**" }, policies: [{ redirect: { to: "/", keep_path: true, keep_query: true } }] }
  fixed: { match: { path: "/old" }, policies: [{ redirect: { status: 301, to: "/new?from=old", keep_query: true } }] }
  plain: { match: { path: "/plain" }, policies: [{ redirect: { status: 308, to: "https://{host}/", keep_path: true } }] }
  bare:  { match: { path: "/bare" }, policies: [{ redirect: { to: "https://{hostname}/", keep_path: true } }] }
  named: { match: { path: "/go/{name}" }, policies: [{ redirect: { status: 307, to: "/{name}" } }] }
  other: { match: { path: "/other/**" }, policies: [{ redirect: { status: 303, to: "HTTPS://other.test/base/", keep_path: true } }] }
"#;

#[test]
fn clients_are_sent_elsewhere_and_never_to_a_host_of_their_choice() {
    let gateway = Gateway::start(ROUTES);
    let mut wire = gateway.wire();
    for (target, status, location) in [
        ("/", 302, "/"),
        ("/a/b?c=d", 302, "/a/b?c=d"),
        ("//evil.test/x", 302, "/evil.test/x"),
        ("///evil.test", 302, "/evil.test"),
        ("/old", 301, "/new?from=old"),
        ("/old?a=b", 301, "/new?from=old&a=b"),
        ("/plain?a=b", 308, "https://www.test:81/plain"),
        ("/bare?a=b", 302, "https://www.test/bare"),
        ("/go/there", 307, "/there"),
        ("/other//evil.test", 303, "HTTPS://other.test/base/other//evil.test"),
    ] {
        let reply = wire.ask(format!("GET {target} HTTP/1.1\r\nHost: www.test:81\r\n\r\n"));
        assert_eq!((reply.status(), reply.get("location")), (status, Some(location)), "{target}");
        assert_eq!(reply.length(), Some(0), "{target}");
    }
}

#[test]
fn bodies_and_heads_leave_the_connection_usable() {
    let gateway = Gateway::start(ROUTES);
    let mut wire = gateway.wire();
    let body = "x".repeat(4096);
    for request in [
        format!("POST /old HTTP/1.1\r\nHost: a\r\nContent-Length: 4096\r\n\r\n{body}"),
        "HEAD /old HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET /old HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
    ] {
        let reply = wire.ask(&request);
        assert_eq!((reply.status(), reply.get("location")), (301, Some("/new?from=old")));
    }
}

#[test]
fn explain_names_no_destination() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    std::fs::write(&file, "listen: { public: { address: \"127.0.0.1:0\" } }\nroutes: { a: { match: { path: /a }, policies: [{ redirect: { to: /b } }] } }\n").unwrap();
    let said = tidegate(&["explain", file.to_str().unwrap(), "GET", "/a"]);
    let policy = format!("  policy redirect: answers with 302 ({}:2:48)\n", file.display());
    let end = "  not reached: no destination, because the policies answer every request\n";
    assert!(said.stdout.contains(&format!("{policy}{end}")), "{said:?}");
}

#[test]
fn mistakes_are_complaints() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    let check = |keys: &str| {
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nroutes:\n  a: {{ match: {{ path: \"/{{name}}\" }}, policies: [{{ redirect: {{ {keys} }} }}] }}\n"
        );
        std::fs::write(&file, yaml).unwrap();
        tidegate(&["check", file.to_str().unwrap()])
    };
    for (keys, part) in [
        ("status: 304, to: /", "304 is not a redirect status"),
        ("to: here", "`here` is neither a URL nor a path"),
        ("to: //other.test", "is neither a URL nor a path"),
        ("to: \"{path}\"", "is neither a URL nor a path"),
        ("to: https:///x", "has no host"),
        ("to: \"https://{name}.test/\"", "would let the client choose the host"),
        ("to: \"https://www.test{path}\"", "would let the client choose the host"),
        ("to: \"https://{host}@{name}/\"", "would let the client choose the host"),
        ("to: \"https://{hostname}.{name}/\"", "would let the client choose the host"),
        ("to: /a?b, keep_path: true", "`keep_path` cannot be used"),
        ("to: /a#b, keep_query: true", "`keep_query` cannot be used"),
        ("to: \"/{nam}\"", "did you mean `name`?"),
    ] {
        let said = check(keys);
        assert_eq!(said.code, Some(1), "{keys}: {said:?}");
        assert!(said.stderr.contains(part), "{keys} should say {part:?}: {}", said.stderr);
        assert!(said.stderr.contains("help: "), "{}", said.stderr);
    }
    assert_eq!(check("to: \"https://{host}/{name}?a={query}\"").code, Some(0));
}
