//! `script: { js }`: programs in JavaScript over the messages of flows.

use crate::harness::{Gateway, Message, Origin, tidegate};

const JSON: &str = "application/json";

fn yaml(origin: &Origin, flow: &str) -> String {
    format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
upstreams: {{ echo: {{ targets: ["{}"] }} }}
routes: {{ all: {{ match: {{ path: "/**" }}, flow: f }} }}
flows:
  f: {flow}
"#,
        origin.url()
    )
}

fn start(flow: &str) -> Gateway {
    let origin = Origin::echo();
    let gateway = Gateway::start(yaml(&origin, flow));
    std::mem::forget(origin);
    gateway
}

#[track_caller]
fn post(gateway: &Gateway, target: &str, content_type: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST {target} HTTP/1.1\r\nHost: a\r\nX-User: alice\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

#[test]
fn a_program_makes_the_message_anew_from_it_and_from_values() {
    let flow = r#"
    - set: { doubled: "{ cel: 'body.a' }", list: "$body.list" }
    - script:
        js: |
          const total = message.list.reduce((sum, n) => sum + n, 0);
          return { total, user: values.user, list: values.list, none: values.none, id: values.id };
        values: { user: "$headers.x-user", list: "$body.list", none: "$body.nothing", id: "fixed" }
    - respond: {}
"#;
    let gateway = start(&flow.replace("doubled: \"{ cel: 'body.a' }\", ", ""));
    for (list, total) in [("[1,2,3]", "6"), ("[0.5]", "0.5"), ("[]", "0")] {
        let reply = post(&gateway, "/", JSON, &format!("{{\"list\":{list}}}"));
        let text =
            format!(r#"{{"total":{total},"user":"alice","list":{list},"none":null,"id":"fixed"}}"#);
        assert_eq!((reply.status(), reply.text()), (200, text));
        assert_eq!(reply.get("content-type"), Some(JSON));
    }
}

#[test]
fn xml_and_text_come_as_texts_and_an_empty_message_as_null() {
    let gateway = start("[script: { js: 'return [typeof message, message];' }, respond: {}]");
    for (kind, body, made) in [
        ("text/xml", "<a b=\"1\"><c/></a>", r#"["string","<a b=\"1\"><c/></a>"]"#),
        ("text/plain", "a\"b", r#"["string","a\"b"]"#),
        (JSON, "[null]", r#"["object",[null]]"#),
        (JSON, "", r#"["object",null]"#),
    ] {
        let reply = post(&gateway, "/", kind, body);
        assert_eq!((reply.status(), reply.text().as_str()), (200, made), "{body}");
    }
    for (kind, body) in [("image/png", "\u{1}\u{2}\0"), (JSON, "{"), ("text/xml", "<a>")] {
        let reply = post(&gateway, "/", kind, body);
        assert!(matches!(reply.status(), 200 | 400), "{kind} {body}: {reply:?}");
        assert!(kind == "image/png" || reply.status() == 400, "{kind} {body}: {reply:?}");
    }
}

#[test]
fn a_result_in_a_variable_leaves_the_message() {
    let flow = r#"
    - script: { js: "return { n: message.n + 1, markup: '<x>' + message.n + '</x>' };", into: made }
    - set: { nodes: { value: "$made.markup", type: xml } }
    - header: { set: { x-n: "{{ $made.n }}", x-inner: "{{ $nodes }}" } }
    - respond: { headers: { x-n: "{{ $made.n }}", x-inner: "{{ $nodes }}" } }
"#;
    let gateway = start(flow);
    let reply = post(&gateway, "/", JSON, "{\"n\": 4}");
    assert_eq!((reply.status(), reply.text().as_str()), (200, "{\"n\": 4}"));
    assert_eq!((reply.get("x-n"), reply.get("x-inner")), (Some("5"), Some("4")));
}

#[test]
fn a_program_that_asks_too_much_or_fails_is_a_fault() {
    for (program, why) in [
        ("while (true);", "stopped after 1 s"),
        ("function f() { return f() + 1 } return f()", "stack"),
        // It runs out of memory or out of time, whichever comes first.
        ("let a = []; while (true) a.push('x'.repeat(1e6) + a.length)", ""),
        ("return 'x'.repeat(2 ** 29)", ""),
        ("return new Array(2 ** 27).fill(1)", ""),
        ("/(a+)+$/.test('a'.repeat(40) + 'b'); return 1", ""),
        ("return message.a.b.c", "cannot read property"),
        ("throw new Error('none left')", "none left"),
        ("message.a = 2", "returns no value"),
        ("return () => 1", "not JSON"),
        ("return Promise.resolve(1)", "promise"),
        ("let o = {}; o.o = o; return o", "circular"),
        ("return require('fs')", "require"),
        ("return fetch('http://127.0.0.1')", "fetch"),
        ("eval('while (true);'); return 1", "stopped after 1 s"),
        ("return import('fs')", "promise"),
    ] {
        let program = program.replace('\'', "''");
        let flow = format!(
            "{{ steps: [filter: {{ when: \"$query.ok = '1'\", then: [respond: {{ text: fine }}] }}, script: {{ js: '{program}' }}, respond: {{}}], catch: [respond: {{ text: '{{{{ $error.detail }}}}' }}] }}"
        );
        let gateway = start(&flow);
        for _ in 0..2 {
            let said = post(&gateway, "/", JSON, r#"{"a":"b"}"#).text();
            assert!(said.starts_with("script: ") && said.contains(why), "{program}: {said:.200}");
        }
        assert_eq!(post(&gateway, "/?ok=1", JSON, "").text(), "fine", "{program}");
    }
}

#[test]
fn nothing_stays_for_the_next_message() {
    let flow = "[script: { js: 'count = (typeof count === \"undefined\" ? 0 : count) + 1; Array.prototype.x = 1; return [count, Object.keys(message).length];' }, respond: {}]";
    let gateway = start(flow);
    for _ in 0..5 {
        assert_eq!(post(&gateway, "/", JSON, "{\"__proto__\":{\"y\":1}}").text(), "[1,1]");
    }
}

#[test]
fn what_cannot_work_is_a_complaint_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    let origin = Origin::saying("ok");
    for (step, part) in [
        ("js: 'return 1 +'", "the program in JavaScript is malformed, at line 1, column "),
        ("js: '}); throw 1; (function () {'", "malformed, at line 1, column 2"),
        ("js: 'with (message) {}'", "malformed"),
        ("{}", ""),
        ("jq: '.', js: 'return 1'", "keep one of the two"),
        ("jq: '.', values: { a: b }", "a jq program gets only the message"),
        ("js: 'return 1', values: { a: $nix }", "nix"),
    ] {
        let step = if step == "{}" { step.to_owned() } else { format!("{{ {step} }}") };
        std::fs::write(&file, yaml(&origin, &format!("[script: {step}, respond: {{}}]"))).unwrap();
        let run = tidegate(&["check", file.to_str().unwrap()]);
        assert_eq!(run.code, Some(1), "{step}: {run:?}");
        assert!(run.stderr.contains(part), "{step}: {run:?}");
    }
}
