//! A route's requests shared among several upstreams.

use crate::harness::{Gateway, Origin, tidegate};

fn yaml(a: &Origin, b: &Origin, route: &str) -> String {
    format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
admin: {{ address: "127.0.0.1:0" }}
workers: 1
upstreams:
  a: {{ targets: ["{}"] }}
  b: {{ targets: ["{}"] }}
routes:
  split: {{ {route} }}
telemetry: {{ access_log: {{ format: "{{upstream}} {{upstream_target}}", path: stdout }} }}
"#,
        a.url(),
        b.url()
    )
}

#[test]
fn requests_are_shared_by_weight() {
    let (a, b) = (Origin::saying("a"), Origin::saying("b"));
    let gateway = Gateway::start(yaml(&a, &b, "match: {}, upstream: { a: 90, b: 10 }"));
    let mut wire = gateway.wire();
    let bodies: Vec<String> = (0..1000).map(|_| wire.get("/").text()).collect();
    let to_b = bodies.iter().filter(|body| *body == "b").count();
    // Ten standard deviations.
    assert!((5..=195).contains(&to_b), "{to_b} of 1000");
    assert_eq!((a.requests().len(), b.requests().len()), (1000 - to_b, to_b));
    let metrics = gateway.admin_get("/metrics").text();
    for name in ["a", "b"] {
        assert!(
            metrics.contains(&format!(
                "tidegate_upstream_connections_created_total{{upstream=\"{name}\"}}"
            )),
            "{metrics}"
        );
    }
    // The log names the one that was called.
    crate::harness::until("all lines are out", || gateway.output().lines().count() >= 1000);
    let lines = gateway.output();
    for (name, origin, count) in [("a", &a, 1000 - to_b), ("b", &b, to_b)] {
        let line = format!("{name} {}", origin.url());
        assert_eq!(lines.lines().filter(|other| **other == line).count(), count, "{line}");
    }
    let plan = gateway.admin_get("/routes").text();
    assert!(plan.contains(r#""upstream":{"a":90,"b":10}"#), "{plan}");
}

#[test]
fn a_weight_of_zero_gets_nothing_until_it_has_one() {
    let (a, b) = (Origin::saying("a"), Origin::saying("b"));
    let gateway = Gateway::start(yaml(&a, &b, "match: {}, upstream: { a: 1, b: 0 }"));
    let mut wire = gateway.wire();
    assert!((0..100).all(|_| wire.get("/").text() == "a"));
    gateway.rewrite(yaml(&a, &b, "match: {}, upstream: { a: 0, b: 1 }"));
    crate::harness::until("the other shares hold", || gateway.wire().get("/").text() == "b");
    let mut wire = gateway.wire();
    assert!((0..100).all(|_| wire.get("/").text() == "b"));
}

#[test]
fn what_one_of_them_replied_is_not_given_for_the_other() {
    let reply = |body: &str| {
        Origin::answering(format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 1\r\n\r\n{body}"
        ))
    };
    let (a, b) = (reply("a"), reply("b"));
    let route = "match: {}, policies: [{ cache: {} }], upstream: { a: 1, b: 1 }";
    let gateway = Gateway::start(yaml(&a, &b, route));
    let mut wire = gateway.wire();
    let bodies: Vec<String> = (0..200).map(|_| wire.get("/").text()).collect();
    // Each is called once, and its reply is cached separately.
    assert_eq!((a.requests().len(), b.requests().len()), (1, 1));
    let of_a = bodies.iter().filter(|body| *body == "a").count();
    assert!((20..=180).contains(&of_a), "{of_a} of 200");
}

#[test]
fn policies_that_choose_an_upstream_win() {
    let (a, b) = (Origin::saying("a"), Origin::saying("b"));
    let route = r#"match: {}, upstream: { a: 1, b: 0 }, policies: [{ xpath_route: { cases: [{ xpath: "/x", equals: b, upstream: b }] } }]"#;
    let gateway = Gateway::start(yaml(&a, &b, route));
    let ask = |body: &str| {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: text/xml\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        gateway.wire().ask(request).text()
    };
    assert_eq!(ask("<x>b</x>"), "b");
    assert_eq!(ask("<x>a</x>"), "a");
    gateway.wait_for_output(&format!("b {}", b.url()));
}

#[test]
fn a_retry_stays_with_the_upstream_that_was_drawn() {
    let (a, b) =
        (Origin::saying("a"), Origin::answering("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"));
    let yaml = yaml(&a, &b, "match: {}, upstream: { a: 0, b: 1 }").replace(
        &format!("b: {{ targets: [\"{}\"] }}", b.url()),
        &format!("b: {{ targets: [\"{}\"], retry: {{ attempts: 2, when: [503] }} }}", b.url()),
    );
    let gateway = Gateway::start(yaml);
    assert_eq!(gateway.wire().get("/").status(), 503);
    assert_eq!((a.requests().len(), b.requests().len()), (0, 3));
}

#[test]
fn what_is_wrong_with_a_split_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    std::fs::write(
        &file,
        r#"listen: { public: { address: "127.0.0.1:0" } }
upstreams: { blue: { targets: ["http://127.0.0.1:1"] }, green: { targets: ["http://127.0.0.1:2"] } }
routes:
  typo:   { match: { path: /a }, upstream: { blue: 1, gren: 1 } }
  none:   { match: { path: /b }, upstream: { blue: 0, green: 0 } }
  empty:  { match: { path: /c }, upstream: {} }
  part:   { match: { path: /d }, upstream: { blue: 0.5, green: 0.5 } }
  minus:  { match: { path: /e }, upstream: { blue: -1, green: 2 } }
"#,
    )
    .unwrap();
    let run = tidegate(&["check", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(1), "{run:?}");
    for expected in [
        "4:55: there is no upstream `gren`; did you mean `green`?",
        "5:44: no upstream gets a share of the requests",
        "6:44: no upstream gets a share of the requests",
        "7:52: expected a whole number from 0 to 65535",
        "8:52: expected a whole number from 0 to 65535",
    ] {
        assert!(
            run.stderr.contains(&format!("gate.yaml:{expected}")),
            "{expected}\n{}",
            run.stderr
        );
    }
}

#[test]
fn explain_tells_the_shares() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    let text = r#"
listen: { public: { address: "127.0.0.1:0" } }
upstreams: { a: { targets: ["http://127.0.0.1:1"] }, b: { targets: ["http://127.0.0.1:2"] } }
routes: { split: { match: {}, upstream: { a: 90, b: 10 } } }
"#;
    std::fs::write(&file, text).unwrap();
    let asked = tidegate(&["explain", file.to_str().unwrap(), "GET", "/"]).stdout;
    let expected = "  -> 90 of 100 to upstream `a` (http://127.0.0.1:1), 10 of 100 to upstream `b` (http://127.0.0.1:2), the path unchanged";
    assert!(asked.contains(expected), "{asked}");
}

/// RFC 9111, 4.4: a resource that a request changed by way of one upstream is forgotten of the others too.
#[test]
fn a_change_forgets_the_replies_of_all_shares() {
    const KEPT: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 1\r\n\r\n";
    let (a, b) = (Origin::answering(format!("{KEPT}a")), Origin::answering(format!("{KEPT}b")));
    let route = "match: {}, upstream: { a: 50, b: 50 }, policies: [{ cache: {} }]";
    let gateway = Gateway::start(yaml(&a, &b, route));
    let mut wire = gateway.wire();
    // Each has its turn within these, but once in 2^60 runs.
    let mut fill = || {
        for _ in 0..60 {
            wire.get("/");
        }
    };
    let gets = |origin: &Origin| {
        origin.requests().iter().filter(|request| request.method() == "GET").count()
    };
    fill();
    assert_eq!((gets(&a), gets(&b)), (1, 1));
    gateway.wire().ask("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n");
    fill();
    assert_eq!((gets(&a), gets(&b)), (2, 2));
}
