//! `tidegate test` and `tidegate explain --run`: their output, and that they reach no network.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::harness::{Authority, Gateway, Origin, Run, Wire, tidegate, until};

/// A route over a flow with branches, and one to an upstream; their targets lead nowhere, or to a socket that the test watches.
const CONFIGURATION: &str = r#"
listen:
  other: { address: "127.0.0.1:0" }
  public: { address: "127.0.0.1:0" }
upstreams:
  orders: { targets: ["http://orders.invalid:80"] }
  stock: { targets: ["http://STOCK"] }
  copies: { targets: ["http://STOCK"] }
  http2: { targets: ["http://STOCK"], protocol: http2 }
routes:
  flow:
    match: { path: "/orders/{id}", listener: public }
    policies:
      - headers: { request: { set: { x-by: gate } }, response: { set: { x-seen: "yes" } } }
    flow: main
  plain: { match: { path: "/plain/**" }, strip_prefix: /plain, upstream: stock, mirror: { upstream: copies } }
  limited:
    match: { path: /limited }
    policies: [{ rate_limit: { requests: 1, per: 1h, by: client } }]
    respond: { status: 204 }
  http2: { match: { path: /http2 }, upstream: http2 }
  script: { match: { path: /script }, flow: script }
  shared:
    match: { path: /shared }
    policies: [{ rate_limit: { requests: 1, per: 1h, by: client, shared: counts } }]
    respond: { status: 204 }
stores: { counts: { redis: "redis://STOCK" } }
flows:
  main:
    - call: { upstream: orders, path: "/o/{{ $path.id }}" }
    - scatter:
        branches:
          - call: { upstream: stock, path: /a }
          - [{ set: { seen: "1" } }, { call: { upstream: stock, path: /b } }]
        gather: { into: { json: [] } }
    - respond: {}
  script: [{ script: { jq: "[.a]" } }, { respond: {} }]
cases:
"#;

/// A case of the flow, all of whose parts hold.
const FLOW: &str = r#"
  flow:
    request:
      method: POST
      path: /orders/7
      headers: { content-type: application/xml }
      body: '<order xmlns="urn:o"><password>geheim</password></order>'
    calls:
      - upstream: stock
        expect: { path: /b }
        reply: { headers: { content-type: application/json }, body: '{"n":2}' }
      - upstream: stock
        expect: { path: /a, headers: { x-by: gate } }
        reply: { headers: { content-type: application/json }, body: '{"n":1}', delay: 30ms }
      - upstream: orders
        expect: { method: POST, path: /o/7, xml: "<p:order xmlns:p='urn:o'>\n<p:password>geheim</p:password>\n</p:order>" }
        reply: { headers: { content-type: application/json }, body: '{"n":0}' }
    reply: { status: 200, headers: { x-seen: "yes" }, json: [{ n: 1.0 }, { n: 2 }] }
"#;

struct Folder(tempfile::TempDir, TcpListener);

impl Folder {
    /// A configuration with these cases, and a socket to which no connection may be made.
    fn new(cases: &str) -> Folder {
        let watched = TcpListener::bind("127.0.0.1:0").unwrap();
        watched.set_nonblocking(true).unwrap();
        let address = watched.local_addr().unwrap().to_string();
        let folder = tempfile::tempdir().unwrap();
        let text = format!("{CONFIGURATION}{cases}").replace("STOCK", &address);
        fs::write(folder.path().join("gateway.yaml"), text).unwrap();
        Folder(folder, watched)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a command over the configuration.
    #[track_caller]
    fn run(&self, command: &str, more: &[&str]) -> Run {
        let file = self.path("gateway.yaml");
        let run = tidegate(&[&[command, file.to_str().unwrap()], more].concat());
        assert!(self.1.accept().is_err(), "somebody connected: {run:?}");
        run
    }

    /// The report about cases that fail, without the times.
    #[track_caller]
    fn failing(cases: &str) -> String {
        let run = Folder::new(cases).run("test", &[]);
        assert_eq!(run.code, Some(1), "{run:?}");
        let untimed = |line: &str| line.split(" (").next().unwrap().trim().to_owned();
        run.stdout.lines().map(untimed).collect::<Vec<_>>().join("\n")
    }
}

#[test]
fn cases_pass_through_the_whole_gateway_without_a_network() {
    let folder = Folder::new(&format!(
        r#"{FLOW}
  plain:
    request: {{ path: "/plain/x?a=b" }}
    calls:
      - {{ upstream: stock, expect: {{ method: GET, path: "/x?a=b", body: "" }}, reply: {{ status: 201, body: "<a b='1'/>" }} }}
      - {{ upstream: copies, expect: {{ path: /x }}, reply: {{ status: 500 }} }}
    reply: {{ status: 201, xml: '<a  b="1"></a>' }}
  head: {{ request: {{ method: HEAD, path: /plain/h }}, calls: [{{ upstream: stock, expect: {{ method: HEAD }}, reply: {{ body: abc }} }}, {{ upstream: copies, expect: {{}}, reply: {{}} }}], reply: {{ body: "", headers: {{ content-length: "3" }} }} }}
  http2: {{ request: {{ path: /http2 }}, calls: [{{ upstream: http2, expect: {{ path: /http2 }}, reply: {{ body: two }} }}], reply: {{ body: two }} }}
  script: {{ request: {{ method: POST, path: /script, headers: {{ content-type: application/json }}, body: '{{"a":1}}' }}, reply: {{ status: 200, json: [1] }} }}
  first: {{ request: {{ path: /limited }}, reply: {{ status: 204 }} }}
  again: {{ request: {{ path: /limited }}, reply: {{ status: 204 }} }}
  shared: {{ request: {{ path: /shared }}, reply: {{ status: 204 }} }}
  nowhere: {{ request: {{ path: /no }}, reply: {{ status: 404, contains: ["404", No route] }} }}
  file: {{ request: {{ method: POST, path: /plain/f, body_file: body.txt }}, calls: [{{ upstream: stock, expect: {{ body: "in a file\n" }}, reply: {{ status: 204 }} }}, {{ upstream: copies, expect: {{}}, reply: {{}} }}], reply: {{ status: 204, body: "" }} }}
"#
    ));
    fs::write(folder.path("body.txt"), "in a file\n").unwrap();
    let run = folder.run("test", &["--junit", folder.path("junit.xml").to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let lines: Vec<&str> = run.stdout.lines().collect();
    let names =
        ["flow", "plain", "head", "http2", "script", "first", "again", "shared", "nowhere", "file"];
    for (line, name) in lines.iter().zip(names) {
        assert!(line.starts_with(&format!("ok   {name} (")), "{line}");
    }
    assert_eq!(lines[names.len()], "10 cases: 10 passed, 0 failed");
    let junit = fs::read_to_string(folder.path("junit.xml")).unwrap();
    assert!(junit.contains(r#"<testsuites tests="10" failures="0" errors="0" time=""#), "{junit}");
    let only = folder.run("test", &["--only", "^(first|again)$"]);
    assert_eq!((only.code, only.stdout.lines().count()), (Some(0), 3), "{only:?}");
}

#[test]
fn a_failing_case_tells_what_was_expected_and_what_came() {
    for (cases, told) in [
        (
            "  a: { request: { path: /limited }, reply: { status: 200, headers: { x-a: b } } }",
            "FAIL a\nreply: status differs\nexpected: 200\nactual:   204\nreply: header x-a differs\nexpected: b\nactual:\n1 case: 0 passed, 1 failed",
        ),
        (
            "  a: { request: { path: /plain/a }, calls: [{ upstream: stock, expect: { path: /b }, reply: {} }, { upstream: copies, expect: {}, reply: {} }], reply: { status: 501 } }",
            "FAIL a\ncalls[0]: GET /a to `stock`: path differs\nexpected: /b\nactual:   /a\n1 case: 0 passed, 1 failed",
        ),
        (
            "  a: { request: { path: /limited }, calls: [{ upstream: stock, expect: { method: PUT, path: /b }, reply: {} }], reply: { status: 204 } }",
            "FAIL a\ncalls[0]: PUT /b to `stock` was not made\n1 case: 0 passed, 1 failed",
        ),
        (
            "  a: { request: { path: /orders/9 }, reply: { status: 501 } }",
            "FAIL a\ncall: GET /o/9 to `orders` was made, but the case does not list it\nbody:\n",
        ),
        (
            r#"  a: { request: { path: /plain/a }, calls: [{ upstream: stock, expect: {}, reply: { body: '{"a":[1,{"b":2}]}' } }, { upstream: copies, expect: {}, reply: {} }], reply: { json: { a: [1, { b: 3 }] } } }"#,
            "FAIL a\nreply: json at $.a[1].b differs\nexpected: 3\nactual:   2\n",
        ),
        (
            r#"  a: { request: { path: /plain/a }, calls: [{ upstream: stock, expect: {}, reply: { body: '<a><b/><b c="1"/></a>' } }, { upstream: copies, expect: {}, reply: {} }], reply: { xml: '<a><b/><b c="2"/></a>' } }"#,
            "FAIL a\nreply: xml at /a/b[2]/@c differs\nexpected: 2\nactual:   1\n",
        ),
        (
            "  a: { request: { path: /plain/a }, calls: [{ upstream: stock, expect: {}, reply: { body: abc } }, { upstream: copies, expect: {}, reply: {} }], reply: { contains: [b, x] } }",
            "FAIL a\nreply: body differs\nexpected: text that contains \"x\"\nactual:   abc\n",
        ),
    ] {
        let said = Folder::failing(cases);
        assert!(said.starts_with(told.trim_end()), "{cases}\n{said}");
    }
}

/// The call is answered once: a second one is not listed, though it is the same.
#[test]
fn a_listed_call_stands_for_one_call() {
    let said = Folder::failing(&FLOW.replace("path: /b }", "path: /b, method: PUT }"));
    assert!(said.contains("calls[0]: POST /b to `stock`: method differs\nexpected: PUT"), "{said}");
    let twice = FLOW
        .replace("expect: { path: /b }", "expect: {}")
        .replace("expect: { path: /a, headers: { x-by: gate } }", "expect: { path: /c }");
    let said = Folder::failing(&twice);
    assert!(said.contains("`stock`: path differs\nexpected: /c"), "{said}");
}

#[test]
fn a_failure_is_in_the_junit_file() {
    let folder = Folder::new(
        "  a&b: { request: { path: /limited }, reply: { body: '<]]>\"' } }\n  c: { request: { path: /limited }, reply: {} }",
    );
    let file = folder.path("junit.xml");
    let run = folder.run("test", &["--junit", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let junit = fs::read_to_string(&file).unwrap();
    for part in [
        r#"tests="2" failures="1" errors="0""#,
        r#" name="a&amp;b" time=""#,
        r#"<failure message="reply: body at byte 0, line 1, differs">reply: body at byte 0"#,
        r#" name="c" time=""#,
    ] {
        assert!(junit.contains(part), "{part} in {junit}");
    }
    let whole =
        tidegate(&["test", folder.path("gateway.yaml").to_str().unwrap(), "--junit", "/none/j"]);
    assert_eq!(whole.code, Some(1));
    assert!(whole.stderr.contains("/none/j cannot be written"), "{whole:?}");
}

/// A build server reads the file in any case, so an older file must be replaced.
#[test]
fn an_older_report_is_gone_where_cases_cannot_be_run() {
    let folder = Folder::new("  a: { request: { path: /limited }, reply: {} }");
    let file = folder.path("junit.xml");
    let junit = file.to_str().unwrap();
    let reads = || fs::read_to_string(&file).unwrap();
    let gateway = folder.path("gateway.yaml");
    let good = fs::read_to_string(&gateway).unwrap();
    for (text, more, why) in [
        (good.as_str(), &["--only", "b"][..], "gateway.yaml: no case has a name that matches"),
        (&good, &["--only", "["], "--only: regex parse error:"),
        (good.split("cases:").next().unwrap(), &[], "gateway.yaml: it has no `cases`"),
        (&good.replace("/limited", "limited"), &[], "`limited` is not a valid request path"),
    ] {
        fs::write(&gateway, &good).unwrap();
        assert_eq!(folder.run("test", &["--junit", junit]).code, Some(0));
        assert!(reads().contains(r#"failures="0" errors="0""#));
        fs::write(&gateway, text).unwrap();
        let run = folder.run("test", &[&["--junit", junit], more].concat());
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.stderr.contains(why), "{run:?}");
        let report = reads();
        for part in [r#"tests="1" failures="0" errors="1""#, r#"<error message=""#, why] {
            assert!(report.contains(part), "{part} in {report}");
        }
        fs::remove_file(&file).unwrap();
        folder.run("test", &[&["--junit", junit], more].concat());
        assert!(reads().contains(r#"errors="1""#), "also without an older one");
    }
}

/// Issue 21: on a listener with TLS a case counts as a client of TLS.
#[test]
fn a_case_on_a_listener_with_tls_is_https() {
    let folder = tempfile::tempdir().unwrap();
    let identity = Authority::new().issue("localhost");
    let yaml = r#"
listen:
  plain: { address: "127.0.0.1:0" }
  secure: { address: "127.0.0.1:0", tls: { certificate: cert.pem, key: key.pem } }
upstreams: { stock: { targets: ["http://stock.invalid:80"] } }
routes:
  plain: { match: { path: /plain, listener: plain }, upstream: stock }
  secure: { match: { path: /secure, listener: secure }, upstream: stock }
cases:
  plain: { request: { path: /plain }, calls: [{ upstream: stock, expect: { headers: { x-forwarded-proto: http } }, reply: {} }], reply: { status: 200 } }
  secure: { request: { path: /secure }, calls: [{ upstream: stock, expect: { headers: { x-forwarded-proto: https } }, reply: {} }], reply: { status: 200 } }
"#;
    for (name, text) in
        [("gateway.yaml", yaml), ("cert.pem", &identity.certificate), ("key.pem", &identity.key)]
    {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let run = tidegate(&["test", folder.path().join("gateway.yaml").to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{run:?}");
}

#[test]
fn what_cannot_be_run_is_exit_code_2() {
    for (cases, more, said) in [
        (
            "  a: { request: { path: /a }, calls: [{ upstream: stok, expect: {}, reply: {} }], reply: {} }",
            &[][..],
            "there is no upstream `stok`; did you mean `stock`?",
        ),
        ("  a: { request: { path: a }, reply: {} }", &[], "`a` is not a valid request path"),
        ("  a: { request: { path: /a }, reply: { xml: <a> } }", &[], "this is not XML"),
        ("  a: { request: { path: /a }, reply: { json: '{' } }", &[], "this is not JSON"),
        (
            "  a: { request: { path: /a }, reply: { xml: <a/>, json: 1 } }",
            &[],
            "the expected body is written in two ways",
        ),
        (
            "  a: { request: { path: /a }, reply: {} }",
            &["--only", "b"],
            "no case has a name that matches",
        ),
        ("  a: { request: { path: /a }, reply: {} }", &["--only", "("], "unclosed group"),
    ] {
        let run = Folder::new(cases).run("test", more);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.stderr.contains(said), "{said}: {run:?}");
    }
}

#[test]
fn explain_runs_a_request_and_shows_each_step() {
    let folder = Folder::new(FLOW);
    let request = folder.path("request.http");
    fs::write(&request, "POST /orders/7?token=abc HTTP/1.1\nContent-Type: application/xml\n\n<order xmlns=\"urn:o\"><password>geheim</password></order>").unwrap();
    let run = folder.run("explain", &["--run", request.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let lines: Vec<&str> = run.stdout.lines().collect();
    for expected in [
        "POST /orders/7?token=***",
        "flow `main`",
        "  1 call",
        "    before: application/xml, 56 bytes",
        "      <order xmlns=\"urn:o\"><password>***</password></order>",
        "    after: 200, application/json, 7 bytes",
        "      {\"n\":0}",
        "  2 scatter",
        "    4 set (part 2)",
        "      after: unchanged",
        "  POST /o/7 to `orders`: 200 by a case",
        "reply: 200 application/json",
        "  [{\"n\":1},{\"n\":2}]",
    ] {
        assert!(lines.contains(&expected), "{expected} in {}", run.stdout);
    }
    assert!(!run.stdout.contains("geheim"));
    // A call that the case of this request lists is answered by it, though another body was expected.
    fs::write(&request, "POST /orders/7 HTTP/1.1\nContent-Type: application/xml\n\n<other/>")
        .unwrap();
    let run = folder.run("explain", &["--run", request.to_str().unwrap()]);
    assert!(run.stdout.contains("POST /o/7 to `orders`: 200 by a case"), "{run:?}");
    fs::write(&request, "GET /plain/x HTTP/1.1\n\n").unwrap();
    let run = folder.run("explain", &["--run", request.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{run:?}");
    for line in ["no step ran", "  GET /x to `stock`: no case has an answer for it", "reply: 501"] {
        assert!(run.stdout.contains(line), "{line} in {run:?}");
    }
    fs::write(&request, "no request").unwrap();
    let run = folder.run("explain", &["--run", request.to_str().unwrap()]);
    assert_eq!(run.code, Some(2), "{run:?}");
}

/// The gateway takes a URL as a target, and so does what shows how it runs.
#[test]
fn explain_runs_a_request_whose_target_is_a_url() {
    let folder = Folder::new(FLOW);
    let request = folder.path("request.http");
    for (head, told) in [
        ("POST http://a.test:8080/orders/7?x HTTP/1.1\n", "POST /o/7 to `orders`: 200 by a case"),
        ("GET HTTPS://a.test HTTP/1.1\nHost: a.test\n", "reply: 404"),
        (
            "GET http://a.test/plain/x HTTP/1.1\n",
            "  GET /x to `stock`: no case has an answer for it",
        ),
        // As in the gateway, the target's host is used.
        (
            "GET http://a.test/plain/x HTTP/1.1\nHost: b.test\n",
            "  GET /x to `stock`: no case has an answer for it",
        ),
    ] {
        let body = "<order xmlns=\"urn:o\"><password>geheim</password></order>";
        fs::write(&request, format!("{head}Content-Type: application/xml\n\n{body}")).unwrap();
        let run = folder.run("explain", &["--run", request.to_str().unwrap()]);
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(run.stdout.contains(told), "{head}: {run:?}");
    }
}

/// A device has no size, and no end.
#[test]
fn no_file_takes_all_memory() {
    let folder = Folder::new(FLOW);
    let explained = folder.run("explain", &["--run", "/dev/zero"]);
    assert_eq!(explained.code, Some(2), "{explained:?}");
    assert!(explained.stderr.contains("/dev/zero: it is larger than"), "{explained:?}");
}

/// Text from the network could contain terminal control characters.
#[test]
fn no_control_character_reaches_the_terminal() {
    let folder = Folder::new(
        "  a: { request: { path: /plain/x }, calls: [{ upstream: stock, expect: {}, reply: { body: \"a\\e]0;x\\a\\tb\\x9bc\" } }, { upstream: copies, expect: {}, reply: {} }], reply: { contains: [y] } }",
    );
    let request = folder.path("request.http");
    fs::write(&request, "GET /plain/x HTTP/1.1\n\n").unwrap();
    let shown = "a\\u{1b}]0;x\\u{7}\tb\\u{9b}c";
    let explained = folder.run("explain", &["--run", request.to_str().unwrap()]);
    assert!(explained.stdout.contains(&format!("\n  {shown}\n")), "{explained:?}");
    let tested = folder.run("test", &[]);
    assert!(tested.stdout.contains(&format!("actual:   {shown}\n")), "{tested:?}");
}

/// Configurations of the examples that have cases hold them.
#[test]
fn the_cases_of_the_examples_pass() {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples"));
    let (mut open, mut tested) = (vec![root], 0);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_yaml = path.extension().is_some_and(|extension| extension == "yaml");
            if path.is_dir() {
                open.push(path);
            } else if is_yaml && fs::read_to_string(&path).unwrap().contains("\ncases:\n") {
                let run = tidegate(&["test".as_ref(), path.as_os_str()]);
                assert_eq!(run.code, Some(0), "{}: {run:?}", path.display());
                tested += 1;
            }
        }
    }
    assert!(tested > 0);
}

/// The admin API traces the next message and no other, and shows no secret of its body.
#[test]
fn a_running_gateway_traces_one_message() {
    let origin = Origin::saying("{\"n\":0}");
    let silent = Origin::silent();
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
admin: {{ address: "127.0.0.1:0" }}
workers: 1
upstreams: {{ orders: {{ targets: ["{}"] }}, silent: {{ targets: ["{}"] }} }}
routes: {{ all: {{ match: {{ path: "/**" }}, flow: main }} }}
flows:
  main:
    - filter: {{ when: "$body.fail", then: [{{ fault: {{ code: client, reason: "no password: geheim" }} }}] }}
    - filter: {{ when: "$body.waits", then: [{{ call: silent }}] }}
    - call: orders
    - respond: {{}}
"#,
        origin.url(),
        silent.url()
    ));
    let send = |path: &str, body: &str| {
        gateway.wire().ask(format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    let shown = || -> Value { serde_json::from_slice(&gateway.admin_get("/trace").body).unwrap() };
    let ask = "POST /trace HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n";
    send("/a", "{}");
    assert_eq!(shown(), json!({ "asked": null, "traces": [] }));
    assert_eq!(Wire::connect(gateway.admin()).ask(ask).status(), 200);
    assert_eq!(shown()["asked"]["count"], 1);
    send("/a", "{\"secret\":\"geheim\"}");
    until("the trace is there", || !shown()["traces"][0].is_null());
    let trace = shown();
    send("/b", "{\"other\":1}");
    assert_eq!(shown(), trace);
    assert_eq!((&trace["asked"], &trace["traces"][0]["flow"]), (&Value::Null, &json!("main")));
    let steps = trace["traces"][0]["steps"].as_array().unwrap();
    let names: Vec<&Value> = steps.iter().map(|step| &step["name"]).collect();
    assert_eq!(names, ["filter", "filter", "call", "respond"]);
    assert_eq!(steps[2]["before"]["body"], "{\"secret\":\"***\"}");
    assert_eq!(
        (&steps[2]["after"]["status"], &steps[2]["after"]["bytes"]),
        (&json!(200), &json!(7))
    );
    Wire::connect(gateway.admin()).ask(ask);
    send("/c", "{\"fail\":true}");
    let trace = shown();
    let steps = trace["traces"][0]["steps"].as_array().unwrap();
    let names: Vec<&Value> = steps.iter().map(|step| &step["name"]).collect();
    assert_eq!(names, ["filter", "fault"]);
    assert_eq!((&steps[1]["depth"], &steps[1]["after"]), (&json!(1), &Value::Null));
    assert!(steps[1]["fault"].as_str().unwrap().ends_with("no password: ***"), "{trace}");
    // If the client leaves, the trace has the steps until then.
    Wire::connect(gateway.admin()).ask(ask);
    let mut gone = gateway.wire();
    gone.send("POST /d HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"waits\":true}");
    silent.wait_for_requests(1);
    drop(gone);
    until("the trace is there", || !shown()["traces"][0].is_null());
    let trace = shown();
    let last = trace["traces"][0]["steps"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["name"], &last["after"], &last["fault"]),
        (&json!("call"), &Value::Null, &Value::Null)
    );
}

/// Flows of a route, of queues and of a schedule.
const BESIDE: &str = r#"
listen: { public: { address: "127.0.0.1:0" } }
upstreams:
  orders: { targets: ["http://orders.invalid:80"] }
  audit: { targets: ["http://audit.invalid:80"] }
routes:
  in:
    match: { path: "/in/**" }
    policies: [{ headers: { request: { set: { x-by: gate } } } }]
    flow: accept
flows:
  accept:
    - wire_tap: { steps: [{ payload: { json: '{"tapped":true}' } }, { store: { queue: copies } }] }
    - wire_tap: { steps: [{ call: { upstream: audit, path: /tapped } }] }
    - store: { queue: work, end: false, into: stored }
    - payload: { json: '{"second":{{ $stored.id }}}' }
    - store: { queue: work }
  work:
    - call: { upstream: orders, path: "/o/{{ $request.headers.x-path }}", fault_on: [5xx] }
    - filter: { when: { value: $body.again, matches: "true" }, then: [{ store: { queue: copies, end: false } }] }
  idle: [{ drop: {} }]
  nightly: [{ call: { upstream: orders, path: /nightly } }]
queues: { work: { flow: work }, copies: { flow: idle } }
schedules: { night: { every: 1h, flow: nightly, message: { json: '{"a":1}' } } }
cases:
"#;

fn beside(cases: &str) -> (Run, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    fs::write(&file, format!("{BESIDE}{cases}")).unwrap();
    (tidegate(&["test", file.to_str().unwrap()]), folder)
}

const ACCEPTED: &str = r#"
  accepted:
    request: { method: POST, path: "/in/a?b=c", headers: { content-type: application/json }, body: '{"n":1}' }
    calls:
      - { upstream: audit, expect: { path: /tapped, json: { n: 1 } }, reply: { delay: 100ms } }
    queues:
      work:
        - { method: POST, path: "/in/a?b=c", headers: { x-by: gate, content-type: application/json }, json: { n: 1.0 } }
        - { json: { second: 1 } }
      copies: [{ body: '{"tapped":true}' }]
    reply: { status: 202 }
"#;

#[test]
fn cases_say_what_queues_get() {
    let (run, _) = beside(ACCEPTED);
    assert_eq!(run.code, Some(0), "{run:?}");
    // Without the key, queues are not checked.
    let silent = ACCEPTED.split("    queues:").next().unwrap();
    let (run, _) = beside(&format!("{silent}    reply: {{ status: 202 }}\n"));
    assert_eq!(run.code, Some(0), "{run:?}");
    for (from, to, said) in [
        ("{ n: 1.0 }", "{ n: 2 }", "queues.work[0]: json at $.n differs"),
        ("x-by: gate", "x-by: other", "queues.work[0]: header x-by differs"),
        ("{ second: 1 }", "{ second: 2 }", "queues.work[1]: json at $.second differs"),
        (
            "        - { json: { second: 1 } }\n",
            "",
            "queues.work[1]: POST /in/a?b=c was put into the queue, but the case does not list it",
        ),
        (
            "[{ body: '{\"tapped\":true}' }]",
            "[{}, {}]",
            "queues.copies[1]: no such message was put into the queue",
        ),
        (
            "      copies: [{ body: '{\"tapped\":true}' }]\n",
            "",
            "queues.copies[0]: POST /in/a?b=c was put into the queue",
        ),
    ] {
        assert!(ACCEPTED.contains(from), "{from}");
        let (run, _) = beside(&ACCEPTED.replace(from, to));
        assert_eq!(run.code, Some(1), "{said}: {run:?}");
        assert!(run.stdout.contains(said), "{said}: {}", run.stdout);
    }
}

#[test]
fn cases_run_flows_of_queues_and_schedules() {
    let cases = r#"
  sent:
    message: { queue: work, headers: { x-path: "7", content-type: application/json }, body: '{"n":1}' }
    calls: [{ upstream: orders, expect: { method: POST, path: /o/7, json: { n: 1 } }, reply: { status: 201, headers: { content-type: application/json }, body: '{"again":true}' } }]
    queues: { copies: [{ json: { again: true } }] }
    reply: { status: 201, json: { again: true } }
  failed:
    message: { queue: work, method: PUT, headers: { x-path: a } }
    calls: [{ upstream: orders, expect: { method: PUT }, reply: { status: 503 } }]
    queues: {}
    reply: { fault: "503" }
  dropped: { message: { queue: copies, body: x }, reply: { status: 202, body: "" } }
  night:
    schedule: night
    calls: [{ upstream: orders, expect: { method: POST, path: /nightly, json: { a: 1 } }, reply: { body: ok } }]
    reply: { status: 200, body: ok }
"#;
    let (run, _) = beside(cases);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.contains("4 cases: 4 passed, 0 failed"), "{run:?}");
    for (from, to, said) in [
        ("reply: { fault: \"503\" }", "reply: { status: 200 }", "reply: the flow failed: "),
        ("fault: \"503\"", "fault: \"404\"", "reply: fault differs"),
        ("{ status: 202, body: \"\" }", "{ fault: x }", "(no fault, but a reply with 202)"),
        ("{ status: 200, body: ok }", "{ body: no }", "reply: body at byte 0"),
        ("path: /nightly, json: { a: 1 }", "json: { a: 2 }", "calls[0]: POST /nightly to `orders`"),
    ] {
        assert!(cases.contains(from), "{from}");
        let (run, _) = beside(&cases.replace(from, to));
        assert_eq!(run.code, Some(1), "{said}: {run:?}");
        assert!(run.stdout.contains(said), "{said}: {}", run.stdout);
    }
    for (case, said) in [
        ("{ reply: {} }", "a case needs exactly one start, but this one has 0"),
        ("{ request: { path: / }, schedule: night, reply: {} }", "but this one has 2"),
        ("{ schedule: nigth, reply: {} }", "there is no schedule `nigth`; did you mean `night`?"),
        (
            "{ message: { queue: wrok }, reply: {} }",
            "there is no queue `wrok`; did you mean `work`?",
        ),
        ("{ schedule: night, queues: { wrok: [] }, reply: {} }", "there is no queue `wrok`"),
        (
            "{ request: { path: / }, reply: { fault: x } }",
            "`fault` applies only to flows of queues",
        ),
        ("{ message: { queue: work, body: a, body_file: b }, reply: {} }", "one body"),
    ] {
        let (run, _) = beside(&format!("  bad: {case}\n"));
        assert_eq!(run.code, Some(2), "{case}: {run:?}");
        assert!(run.stderr.contains(said), "{said}: {}", run.stderr);
    }
}

/// Policies that change, protect and check. The response policies change the reply.
const POLICIES: &str = r#"
listen: { public: { address: "127.0.0.1:0" } }
upstreams: { orders: { targets: ["http://orders.invalid:80"] } }
routes:
  orders:
    match: { path: "/orders/**" }
    errors: problem
    policies:
      - api_key: { header: x-key, keys: { ann: the-key } }
      - headers:
          request: { set: { x-by: gate, x-tier: gold }, remove: [x-gone] }
          response: { set: { x-seen: "yes" }, remove: [server] }
      - transform: { json: { set: { "/by": gate } } }
      - openapi: { document: api.json, request: true }
      - rate_limit: { requests: 5, per: 1m, by: client }
    upstream: orders
cases:
  one:
    request: { method: POST, path: /orders/7 }
    calls: [{ upstream: orders, expect: {}, reply: { headers: { server: old }, body: fine } }]
    reply: {}
"#;

const DOCUMENT: &str = r#"{ "openapi": "3.0.0", "info": { "title": "t", "version": "1" }, "paths": { "/orders/{id}": { "post": {
  "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "string" } }],
  "requestBody": { "required": true, "content": { "application/json": { "schema": { "type": "object", "required": ["n"], "properties": { "n": { "type": "integer" } } } } } },
  "responses": { "default": { "description": "d" } } } } } }"#;

fn explained(arguments: &[&str], request: &str) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (name, text) in [("gateway.yaml", POLICIES), ("api.json", DOCUMENT), ("body", request)] {
        fs::write(path(name), text).unwrap();
    }
    let arguments = arguments.iter().map(|one| one.replace("BODY", &path("body")));
    let all: Vec<String> =
        ["explain".to_owned(), path("gateway.yaml")].into_iter().chain(arguments).collect();
    let mut run = tidegate(&all);
    run.stdout = run.stdout.replace(&format!("{}/", folder.path().display()), "");
    run
}

const HEAD: [&str; 8] = [
    "POST",
    "/orders/7",
    "-H",
    "x-key: the-key",
    "-H",
    "x-gone: 1",
    "-H",
    "content-type: application/json",
];

#[test]
fn explain_takes_a_body() {
    let ask = |more: &[&str], body: &str| explained(&[&HEAD[..], more].concat(), body);
    let open = ask(&[], "").stdout;
    assert!(open.contains("policy openapi: depends on `transform`"), "{open}");
    for body in [["--data", r#"{"n":1}"#], ["-d", "@BODY"], ["--body", "@BODY"]] {
        let run = ask(&body, r#"{"n":1}"#);
        assert_eq!(run.code, Some(0), "{run:?}");
        for line in [
            "  policy api_key: passes (gateway.yaml:9:9)",
            "    client identity: ann",
            "    - x-key: ***",
            "  policy headers: passes (gateway.yaml:10:9)",
            "    + x-by: gate",
            "    - x-gone: 1",
            "  policy transform: passes (gateway.yaml:13:9)",
            "    body: 7 -> 19 bytes",
            "      {\"n\":1,\"by\":\"gate\"}",
            "  policy openapi: passes (gateway.yaml:14:9)",
            "  policy rate_limit: passes (gateway.yaml:15:9)",
            "  -> upstream `orders` (http://orders.invalid)",
        ] {
            let has = run.stdout.lines().any(|shown| shown.starts_with(line));
            assert!(has, "{line} in {}", run.stdout);
        }
    }
    let refused = ask(&["--data", r#"{"n":"x"}"#], "").stdout;
    assert!(refused.contains("policy openapi: refuses with 400: "), "{refused}");
    assert!(refused.contains("policy rate_limit: not reached (gateway.yaml:15:9)"), "{refused}");
    let broken = ask(&["--data", "{"], "").stdout;
    assert!(broken.contains("policy transform: refuses with 400: "), "{broken}");
    for (more, said) in [
        (&["--data", "@/no/such/file"][..], "cannot read `/no/such/file`: there is no such file"),
        (&["--data", "@/dev/zero"], "`/dev/zero` is larger than"),
    ] {
        let run = ask(more, "");
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.stderr.contains(said), "{run:?}");
    }
}

#[test]
fn explain_runs_a_request_and_shows_what_each_policy_made_of_it() {
    let request = |key: &str, body: &str| {
        format!(
            "POST /orders/7 HTTP/1.1\nX-Key: {key}\nX-Gone: 1\nContent-Type: application/json\n\n{body}"
        )
    };
    let run = explained(&["--run", "BODY"], &request("the-key", r#"{"n":1,"password":"geheim"}"#));
    assert_eq!(run.code, Some(0), "{run:?}");
    for line in [
        "route `orders`",
        "policies on the request:",
        "  api_key: passes (gateway.yaml:9:9)",
        "    client identity: ann",
        "    - x-key: ***",
        "  headers: passes (gateway.yaml:10:9)",
        "    + x-by: gate",
        "    + x-tier: gold",
        "    - x-gone: 1",
        "  transform: passes (gateway.yaml:13:9)",
        "    body: 27 -> 39 bytes",
        "      {\"n\":1,\"password\":\"***\",\"by\":\"gate\"}",
        "  openapi: passes (gateway.yaml:14:9)",
        "  rate_limit: passes (gateway.yaml:15:9)",
        "  POST /orders/7 to `orders`: 200 by a case",
        "policies on the reply:",
        "    + x-seen: yes",
        "    - server: old",
        "reply: 200",
    ] {
        assert!(run.stdout.lines().any(|shown| shown == line), "{line} in {}", run.stdout);
    }
    for secret in ["geheim", "the-key"] {
        assert!(!run.stdout.contains(secret), "{}", run.stdout);
    }
    // A refusal has the logged reason, and the policies after it are listed.
    for (key, body, refused) in [
        ("other", r#"{"n":1}"#, "  api_key: refuses with 401: "),
        ("the-key", r#"{"n":"x"}"#, "  openapi: refuses with 400: "),
    ] {
        let run = explained(&["--run", "BODY"], &request(key, body));
        for part in [refused, "  rate_limit: not reached (gateway.yaml:15:9)", "\nfault: 40"] {
            assert!(run.stdout.contains(part), "{part} in {}", run.stdout);
        }
    }
    let run = explained(&["--run", "BODY"], "GET /nowhere HTTP/1.1\n\n");
    for part in ["no route matched", "fault: 404 no_route: ", "reply: 404"] {
        assert!(run.stdout.contains(part), "{part} in {}", run.stdout);
    }
}
