//! Flows with a paused clock and one worker: their timeouts, and whether they yield to others.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test ends where it is surprised"
)]

use std::path::Path;

use testkit::{Client, Gateway, Outcome, ServiceAnswer, Services, run};

/// Creates a gateway whose only service never answers, with a timeout of five minutes.
fn gateway(flows: &str) -> Gateway {
    let yaml = format!(
        "listen: {{ a: {{ address: \"127.0.0.1:0\" }} }}\n\
         upstreams: {{ u: {{ targets: [\"http://192.0.2.1:80\"], timeout: {{ response: 5m }} }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, flow: main }} }}\n\
         flows:\n{flows}\n"
    );
    Gateway::new(&yaml, Path::new("."), Services::new(|_| ServiceAnswer::Silent)).unwrap()
}

async fn post(gateway: &Gateway, body: &str) -> Outcome {
    let request = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    gateway.exchange(&Client::sending(request)).await
}

/// Issue 21: a configured timeout applies to the flow even if it equals the default.
#[test]
fn a_timeout_of_a_minute_is_one_as_any_other() {
    for (flows, fault) in [
        ("  main: { timeout: 60s, steps: [{ call: u }] }", "flow_timeout"),
        ("  main: { timeout: 60s, steps: [{ call: u }, { respond: {} }] }", "flow_timeout"),
        ("  main: { timeout: 61s, steps: [{ call: u }] }", "flow_timeout"),
        (
            "  main: { timeout: 10m, steps: [{ sequence: inner }] }\n  inner: { timeout: 60s, steps: [{ call: u }] }",
            "flow_timeout",
        ),
        // Without one, a single call is plain forwarding, and the steps of other flows have the default.
        ("  main: [{ call: u }]", "upstream_timeout"),
        (
            "  main: { timeout: 10m, steps: [{ sequence: inner }] }\n  inner: [{ call: u }]",
            "upstream_timeout",
        ),
    ] {
        run(async {
            let reply = post(&gateway(flows), "{}").await.replies(&[false]).unwrap().remove(0);
            let said = reply.text();
            assert!(said.contains(&format!(r#""fault":"{fault}""#)), "{flows}: {said}");
        });
    }
}

/// Posts a body through a flow whose only service answers with JSON. Returns the status and the body of the reply.
async fn answered(steps: &str, content_type: &str, body: &str) -> (String, String) {
    let yaml = format!(
        "listen: {{ a: {{ address: \"127.0.0.1:0\" }} }}\n\
         upstreams: {{ u: {{ targets: [\"http://192.0.2.1:80\"] }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, flow: main }} }}\n\
         flows: {{ main: [{steps}] }}\n"
    );
    let reply = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    let services = Services::new(move |_| ServiceAnswer::Reply(reply.into()));
    let gateway = Gateway::new(&yaml, Path::new("."), services).unwrap();
    let request = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let outcome = gateway.exchange(&Client::sending(request)).await;
    let reply = outcome.replies(&[false]).unwrap().remove(0);
    (reply.method_or_status, String::from_utf8(reply.body).unwrap())
}

#[test]
fn soap_header_blames_the_sender_of_a_message_that_is_not_soap() {
    const SET: &str = "soap_header: { set: ['<h>1</h>'] }, respond: {}";
    for (before, status) in
        [("", "400"), ("call: u, ", "502"), ("payload: { json: { a: 1 } }, ", "500")]
    {
        run(async {
            let (found, text) = answered(&format!("{before}{SET}"), "application/json", "{}").await;
            assert_eq!(found, status, "{before}: {text}");
        });
    }
}

#[test]
fn an_array_that_is_named_in_two_forms_is_one_member() {
    run(async {
        let convert = "convert: { to: json, arrays: [x, y, r/x] }, respond: {}";
        let (_, text) = answered(convert, "application/xml", "<r><z/></r>").await;
        assert_eq!(text, r#"{"r":{"x":[],"y":[],"z":""}}"#);
    });
}

/// Issue 21: 100,000 parts whose steps never wait blocked a worker with all its other connections.
#[test]
fn parts_that_wait_for_nothing_leave_turns_to_others() {
    const PARTS: usize = 1_000;
    let body = format!("[{}]", vec!["1"; PARTS].join(","));
    for (step, expected) in [
        ("foreach: { over: '$body[*]', steps: [{ set: { a: $body } }] }", body.clone()),
        (
            "foreach: { over: '$body[*]', parallel: 4, steps: [{ set: { a: $body } }] }",
            body.clone(),
        ),
        (
            "split: { over: '$body[*]', steps: [{ set: { a: $body } }], gather: { into: { json: [] } } }",
            body.clone(),
        ),
    ] {
        run(async {
            let flow = format!("  main: [{{ {step} }}, {{ respond: {{}} }}]");
            let outcome = post(&gateway(&flow), &body).await;
            let reply = outcome.replies(&[false]).unwrap().remove(0);
            assert_eq!(
                (reply.method_or_status.as_str(), reply.body),
                ("200", expected.into_bytes()),
                "{step}"
            );
            assert!(outcome.polls > PARTS / 10, "{step}: all within {} polls", outcome.polls);
        });
    }
}
