//! Branches that fail, the names of steps, and parts of steps that are templates.

use serde_json::{Value, json};

use crate::harness::{Gateway, Message, Origin, tidegate};
use crate::telemetry::metric;

fn yaml(origin: &Origin, flows: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 1\n\
         upstreams: {{ good: {{ targets: [\"{}\"] }}, dead: {{ targets: [\"http://127.0.0.1:1\"] }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, flow: main }} }}\nflows:\n{}\n",
        origin.url(),
        flows.lines().map(|line| format!("  {line}\n")).collect::<String>(),
    )
}

fn start(origin: &Origin, main: &str) -> Gateway {
    Gateway::start(yaml(origin, &format!("main: {main}")))
}

fn post(gateway: &Gateway, body: &str) -> Message {
    gateway.wire().ask(format!(
        "POST /a/b?status=418&method=PUT&path=%2Fx%2Fy%3Fz=1 HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

/// The complaints of a flow, or its warnings.
fn check(main: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    std::fs::write(&file, yaml(&Origin::silent(), &format!("main: {main}"))).unwrap();
    let run = tidegate(&["check".as_ref(), file.as_os_str()]);
    (run.code, run.stderr)
}

const KEEP: &str = "gather: { into: { json: [] }, partial: keep }";

#[test]
fn the_branches_that_failed_are_known_afterwards() {
    let origin = Origin::echo();
    let answer = "{ respond: { json: '{ \"body\": {{ $body }}, \"failed\": {{ $gather.failed }}, \"branches\": {{ $gather.branches }} }' } }";
    let scatter = format!(
        "[{{ scatter: {{ branches: [{{ call: good }}, {{ call: dead }}, {{ call: good }}, {{ fault: {{ reason: no, detail: not today }} }}], {KEEP} }} }}, {answer}]"
    );
    let gateway = start(&origin, &scatter);
    let reply: Value = serde_json::from_slice(&post(&gateway, "{\"a\":1}").body).unwrap();
    assert_eq!((&reply["body"], &reply["branches"]), (&json!([{"a":1},{"a":1}]), &json!([1, 3])));
    let failed = reply["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 2, "{reply}");
    let row = |at: usize| (&failed[at]["branch"], &failed[at]["code"], &failed[at]["kind"]);
    assert_eq!(row(0), (&json!(2), &json!(101_503), &json!("connect_failure")));
    assert_eq!(row(1), (&json!(4), &json!(0), &json!("flow_fault")));
    assert_eq!(failed[1]["detail"], json!("not today"));
    gateway.wait_for_log("2 of 4 branches failed: 2 (connect_failure");
    let faults = |reason: &str| {
        let labels = format!("{{flow=\"main\",step=\"scatter\",reason=\"{reason}\"}}");
        metric(&gateway, &format!("tidegate_flow_branch_faults_total{labels}"))
    };
    assert_eq!((faults("connect_failure"), faults("flow_fault")), (Some(1.0), Some(1.0)));
}

#[test]
fn failed_parts_are_known_in_every_language_and_in_a_catch() {
    let origin = Origin::echo();
    let steps =
        "[{ filter: { when: '$body.bad', then: { fault: { code: client, reason: bad } } } }]";
    let split = format!("{{ split: {{ over: '$body', steps: {steps}, {KEEP} }} }}");
    for (after, body, said) in [
        (
            "{{ $gather.failed[0].branch }} {{ $gather.failed[0].kind }}",
            r#"[{},{"bad":true}]"#,
            "2 flow_refused",
        ),
        ("{{ $gather.failed }} {{ $gather.branches }}", "[{},{}]", "[] [1,2]"),
        ("{{ $gather.failed }}", "[]", "[]"),
    ] {
        let gateway = start(&origin, &format!("[{split}, {{ respond: {{ text: '{after}' }} }}]"));
        assert_eq!(post(&gateway, body).text(), said, "{after}");
    }
    let cel = format!(
        "[{split}, {{ set: {{ n: {{ cel: 'size(gather.failed) * 10 + gather.failed[0].branch' }} }} }}, {{ respond: {{ text: '{{{{ $n }}}}' }} }}]"
    );
    assert_eq!(post(&start(&origin, &cel), r#"[{},{"bad":true}]"#).text(), "12");
    let before = "[{ respond: { text: 'none {{ $gather.failed }}' } }]";
    assert_eq!(post(&start(&origin, before), "{}").text(), "none ");
    let caught = "{ steps: [{ scatter: { branches: [{ call: dead }, { call: good }], gather: { into: { json: [] } } } }], catch: [{ respond: { text: '{{ $error.kind }} {{ $gather.failed[0].branch }}' } }] }";
    assert_eq!(post(&start(&origin, caught), "{}").text(), "gather_timeout 1");
}

#[test]
fn a_branch_that_is_late_has_failed() {
    let silent = Origin::silent();
    let main = format!(
        "[{{ scatter: {{ branches: [{{ call: good }}, {{ respond: {{ json: '1' }} }}], {} }} }}, {{ respond: {{ text: '{{{{ $gather.failed[0].branch }}}} {{{{ $gather.failed[0].code }}}} {{{{ $body }}}}' }} }}]",
        KEEP.replace("partial", "timeout: 200ms, partial")
    );
    assert_eq!(post(&start(&silent, &main), "{}").text(), "1 101504 [1]");
}

/// The labels of the steps in the metrics.
fn labels(gateway: &Gateway) -> Vec<String> {
    let metrics = gateway.admin_get("/metrics").text();
    let lines = metrics.lines().filter(|line| line.starts_with("tidegate_flow_step_runs_total{"));
    let label = |line: &str| line.split("step=\"").nth(1)?.split('"').next().map(str::to_owned);
    lines.filter_map(label).collect()
}

/// Without it, the replies of branches share no headers.
#[test]
fn the_head_of_what_is_gathered_is_new_or_that_of_the_first_result() {
    let origin = Origin::echo();
    let branch = |status: u16, name: &str| {
        format!(
            "[{{ call: good }}, {{ header: {{ set: {{ x-of: {name}, content-md5: x }} }} }}, {{ respond: {{ status: {status} }} }}]"
        )
    };
    let branches = format!("[{}, {}]", branch(207, "one"), branch(418, "two"));
    for (head, status, of) in
        [("", 200, None), (", head: new", 200, None), (", head: first", 207, Some("one"))]
    {
        let gather = format!("{{ into: {{ json: [] }}, partial: keep{head} }}");
        let gateway = start(
            &origin,
            &format!("[{{ scatter: {{ branches: {branches}, gather: {gather} }} }}]"),
        );
        let reply = post(&gateway, "{\"a\":1}");
        assert_eq!((reply.status(), reply.get("x-of")), (status, of), "{head}: {reply:?}");
        assert_eq!(reply.get("content-type"), Some("application/json"));
        assert_eq!(
            (reply.text().as_str(), reply.get("content-md5")),
            (r#"[{"a":1},{"a":1}]"#, None)
        );
    }
    // A first branch that failed has no result.
    let gather = "{ into: { json: [] }, partial: keep, head: first }";
    let branches = format!("[{{ call: dead }}, {}]", branch(418, "two"));
    let gateway =
        start(&origin, &format!("[{{ scatter: {{ branches: {branches}, gather: {gather} }} }}]"));
    let reply = post(&gateway, "{}");
    assert_eq!((reply.status(), reply.get("x-of")), (418, Some("two")), "{reply:?}");
}

#[test]
fn a_step_that_is_added_before_others_changes_no_label() {
    let origin = Origin::echo();
    let steps = "{ call: good }, { filter: { when: $body, then: [{ call: good }, { call: good }] } }, { name: last one, set: { a: 1 } }, { respond: { name: inside } }";
    let before = start(&origin, &format!("[{steps}]"));
    post(&before, "{\"a\":1}");
    let expected = [
        "call good",
        "filter $body",
        "filter $body/then/call good",
        "filter $body/then/call good 2",
        "inside",
        "last one",
    ];
    assert_eq!(labels(&before), expected);
    let added = "{ log: { message: hello } }, { set: { b: 2 } }, { filter: { when: $method, then: { header: { set: { x: y } } } } }";
    let after = start(&origin, &format!("[{added}, {steps}]"));
    post(&after, "{\"a\":1}");
    let after = labels(&after);
    assert!(expected.iter().all(|label| after.iter().any(|known| known == label)), "{after:?}");
}

#[test]
fn names_are_in_the_trace_the_log_and_explain() {
    let origin = Origin::echo();
    let main =
        "[{ name: fetch it, call: good }, { respond: { name: give up, status: '{{ $method }}' } }]";
    let gateway = start(&origin, main);
    assert_eq!(post(&gateway, "{}").status(), 500);
    gateway.wait_for_log("(step `give up` of flow `main`)");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    std::fs::write(&file, yaml(&origin, &format!("main: {main}"))).unwrap();
    let run = tidegate(&["explain".as_ref(), file.as_os_str()]);
    assert!(run.stdout.contains("2 steps: `fetch it`, `give up`"), "{run:?}");
    assert!(run.stdout.contains("name: \"fetch it\""), "{run:?}");
}

#[test]
fn names_that_cannot_be_are_complained_about() {
    for (main, said) in [
        (
            "[{ name: a, call: good }, { name: a, respond: {} }]",
            "two steps of the flow have the name `a`",
        ),
        ("[{ name: a, call: { upstream: good, name: b } }]", "a step can have only one name"),
        ("[{ name: '', call: good }]", "cannot be the name of a step"),
        ("[{ name: a }]", "needs a step"),
        (
            "[{ scatter: { branches: [{ call: good }, { call: good }], gather: { complete: 3 } } }]",
            "`complete: 3` is never reached",
        ),
        (
            "[{ split: { over: $body.a, steps: [call: good], max: 4, parallel: 5, gather: {} } }]",
            "`parallel: 5` is never reached: `max: 4` allows fewer parts",
        ),
        (
            "[{ foreach: { over: $body.a, steps: [call: good], max: 1, parallel: 2 } }]",
            "`parallel: 2` is never reached: `max: 1` allows fewer parts",
        ),
        (
            "[{ split: { over: $body.a, steps: [call: good], max: 4, gather: { complete: 5 } } }]",
            "`complete: 5` is never reached: `max: 4` allows fewer parts",
        ),
    ] {
        let (code, stderr) = check(main);
        assert_eq!(code, Some(1), "{main}: {stderr}");
        assert!(stderr.contains(said), "{main}: {stderr}");
    }
    // A default does not contradict anything.
    for max in ["max: 4", "max: 4, parallel: 4"] {
        let split = format!(
            "split: {{ over: $body.a, steps: [call: good], {max}, gather: {{ complete: 4 }} }}"
        );
        assert_eq!(check(&format!("[{{ {split} }}]")).0, Some(0), "{max}");
    }
    let late = "{ timeout: 5s, steps: [{ scatter: { branches: [{ call: good }], gather: { complete: 1, timeout: 20s } } }, { call: { upstream: good, timeout: 6s } }] }";
    let (code, stderr) = check(late);
    assert_eq!(
        (code, stderr.matches("this timeout is never reached").count()),
        (Some(0), 2),
        "{stderr}"
    );
}

#[test]
fn status_method_and_path_are_templates() {
    let origin = Origin::echo();
    for (main, status, asked) in [
        ("[{ respond: { status: '{{ $query.status }}', text: hi } }]", 418, None),
        ("[{ respond: { status: '{{ $method }}' } }]", 500, None),
        ("[{ respond: { status: '1{{ $query.none }}00' } }]", 500, None),
        ("[{ respond: { status: '6{{ $query.none }}00' } }]", 500, None),
        (
            "[{ call: { upstream: good, method: '{{ $query.method }}' } }]",
            200,
            Some("PUT /a/b?status=418&method=PUT&path=%2Fx%2Fy%3Fz=1"),
        ),
        ("[{ call: { upstream: good, method: 'A B{{ $query.none }}' } }]", 500, None),
        // An empty method is the request's own.
        (
            "[{ call: { upstream: good, method: '{{ $query.none }}' } }]",
            200,
            Some("POST /a/b?status=418&method=PUT&path=%2Fx%2Fy%3Fz=1"),
        ),
        ("[{ call: { upstream: good, method: 'CONNECT{{ $query.none }}' } }]", 500, None),
        ("[{ call: { upstream: good, path: '{{ $query.path }}' } }]", 200, Some("POST /x/y?z=1")),
        (
            "[{ call: { upstream: good, path: '/o/{{ $query.path }}' } }]",
            200,
            Some("POST /o/%2Fx%2Fy%3Fz%3D1"),
        ),
        ("[{ call: { upstream: good, path: '{{ $query.method }}' } }]", 500, None),
        (
            "[{ set: { p: { text: /a/../b } } }, { call: { upstream: good, path: '{{ $p }}' } }]",
            500,
            None,
        ),
        (
            "[{ set: { p: { text: '/a/%2e%2e/b' } } }, { call: { upstream: good, path: '{{ $p }}' } }]",
            500,
            None,
        ),
        (
            "[{ set: { p: { text: '/a b' } } }, { call: { upstream: good, path: '{{ $p }}' } }]",
            500,
            None,
        ),
    ] {
        origin.forget();
        let gateway = start(&origin, main);
        let reply = post(&gateway, "{}");
        assert_eq!(reply.status(), status, "{main}: {reply:?}");
        if status == 500 {
            gateway.wait_for_log("fault=\"template\"");
        }
        let came = origin
            .requests()
            .first()
            .map(|request| format!("{} {}", request.method(), request.target()));
        assert_eq!(came.as_deref(), asked, "{main}");
    }
}
