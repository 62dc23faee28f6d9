//! Routes by the beginning of the path, as a text or a regular expression, and by headers with several values.

use crate::harness::{Gateway, Origin, tidegate};

const ROUTES: &str = r#"
listen: { public: { address: "127.0.0.1:0" } }
routes:
  any:      { match: { path: { prefix: / } }, respond: { body: any } }
  p:        { match: { path: { prefix: /p } }, respond: { body: p } }
  posts:    { match: { path: { prefix: /p }, methods: [POST] }, respond: { body: posts } }
  pets:     { match: { path: { prefix: /pet } }, respond: { body: pet } }
  slash:    { match: { path: { prefix: /pets/ } }, respond: { body: slash } }
  segment:  { match: { path: "/p/**" }, respond: { body: segment } }
  id:       { match: { path: "/pets/{id}" }, respond: { body: id } }
  exact:    { match: { path: /pets/7 }, respond: { body: exact } }
  regex:    { match: { path: { regex_prefix: "/v(?<version>[0-9]+)" } }, respond: { body: "v {version}" } }
  escaped:  { match: { path: { prefix: "/%70lain%20" } }, respond: { body: escaped } }
  any_of:   { match: { path: { prefix: /h }, headers: { x-a: { any: [one, two] } } }, respond: { body: any_of } }
  matching: { match: { path: { prefix: /h }, headers: { x-b: { regex: "(?i)v[0-9]+" } } }, respond: { body: matching } }
"#;

#[test]
fn a_prefix_is_a_text_and_the_longest_wins() {
    let gateway = Gateway::start(ROUTES);
    for (method, target, lines, expected) in [
        ("GET", "/", "", "any"),
        ("GET", "/x", "", "any"),
        ("GET", "/p2", "", "p"),
        ("POST", "/p2", "", "posts"),
        ("GET", "/p", "", "segment"),
        ("GET", "/p/x", "", "segment"),
        ("POST", "/p/x", "", "segment"),
        ("GET", "/pets", "", "pet"),
        ("POST", "/pets", "", "pet"),
        ("GET", "/pets/7", "", "exact"),
        ("GET", "/pets/8", "", "id"),
        ("GET", "/pets/8/9", "", "slash"),
        ("GET", "/%70ets/8/9", "", "slash"),
        ("GET", "/v12/x", "", "v 12"),
        ("GET", "/va", "", "any"),
        ("GET", "/plain%20x", "", "escaped"),
        ("GET", "/h", "X-A: two\r\n", "any_of"),
        ("GET", "/h", "X-A: three\r\n", "any"),
        ("GET", "/h", "X-B: V12\r\n", "matching"),
        ("GET", "/h", "X-B: v12x\r\n", "any"),
        ("GET", "/h", "", "any"),
    ] {
        let request = format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n");
        let reply = gateway.wire().ask(request);
        assert_eq!(
            (reply.status(), reply.text().as_str()),
            (200, expected),
            "{method} {target} {lines:?}"
        );
    }
}

#[test]
fn what_follows_a_prefix_is_sent_on() {
    let origin = Origin::echo();
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ echo: {{ targets: ["{}"] }} }}
routes:
  cut:   {{ match: {{ path: {{ prefix: /cut }} }}, strip_prefix: /cut, upstream: echo }}
  base:  {{ match: {{ path: [{{ prefix: /base }}, {{ prefix: /other }}] }}, rewrite: "/b/{{**}}", upstream: echo }}
  whole: {{ match: {{ path: {{ prefix: /whole }} }}, rewrite: "/b{{path}}", upstream: echo }}
  regex: {{ match: {{ path: {{ regex_prefix: "/r[0-9]+" }} }}, rewrite: "/{{**}}", upstream: echo }}
"#,
        origin.url()
    ));
    for (target, sent) in [
        ("/cut", "/"),
        ("/cut/a?b=c", "/a?b=c"),
        ("/cuts", "/s"),
        ("/base", "/b"),
        ("/base/", "/b/"),
        ("/base/x", "/b/x"),
        ("/basex", "/b/x"),
        ("/other/y/", "/b/y/"),
        ("/whole2/x", "/b/whole2/x"),
        ("/r12/x", "/x"),
        ("/r1", "/"),
    ] {
        let reply = gateway.wire().get(target);
        let line = origin.request().target().to_owned();
        assert_eq!((reply.status(), line.as_str()), (200, sent), "{target}");
        origin.forget();
    }
}

#[test]
fn what_cannot_be_matched_is_complained_of() {
    for (path, what) in [
        ("{ prefix: p }", "it does not begin with `/`"),
        ("{ prefix: \"/a b\" }", "' ' is not allowed in a path"),
        ("{ prefix: /a/../b }", "`.` and `..` never match"),
        (
            "{ prefix: /a, regex: /a }",
            "a path needs exactly one of `regex`, `regex_prefix` and `prefix`",
        ),
        ("{}", "a path needs exactly one of `regex`, `regex_prefix` and `prefix`"),
        ("{ regex_prefix: \"/a(\" }", "unclosed group"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("t.yaml");
        let text = format!(
            "listen: {{ a: {{ address: \"127.0.0.1:0\" }} }}\nroutes: {{ r: {{ match: {{ path: {path} }}, respond: {{}} }} }}\n"
        );
        std::fs::write(&file, text).unwrap();
        let run = tidegate(&["check", file.to_str().unwrap()]);
        assert_eq!(run.code, Some(1), "{path}");
        assert!(run.stderr.contains(what), "{path}: {}", run.stderr);
    }
}
