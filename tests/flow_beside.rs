//! Work of flows apart from their answer: storing messages, and copies for other steps.

use rustix::process::Signal;

use crate::harness::{Gate, Gateway, Message, Origin, tidegate, until};
use crate::telemetry::metric;

/// A gateway whose route runs `main`, before origins named `origin` and `tap`.
fn yaml(origin: &Origin, tap: &Origin, main: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 1\n\
         shutdown: {{ delay: 0s, drain: 10s }}\n\
         upstreams: {{ origin: {{ targets: [\"{}\"] }}, tap: {{ targets: [\"{}\"] }} }}\n\
         queues: {{ work: {{ flow: send }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, flow: main }} }}\n\
         flows:\n  send: [{{ call: tap }}]\n  main: {main}\n",
        origin.url(),
        tap.url(),
    )
}

fn post(gateway: &Gateway, path: &str, body: &str) -> Message {
    gateway.wire().ask(request(path, body))
}

fn request(path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nX-Own: 1\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Answers once a gate is open, and then always.
fn held(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            gate.wait();
            peer.try_send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}",
                request.body.len(),
                request.text()
            ));
        }
    })
}

#[test]
fn a_message_is_stored_on_the_way_and_the_answer_has_its_number() {
    let (origin, tap) = (Origin::echo(), Origin::echo());
    for (into, cel) in [("$kept.id", false), ("vars.kept.id", true)] {
        let id = if cel { format!("{{ cel: '{into}' }}") } else { format!("\"{into}\"") };
        let main = format!(
            "[{{ store: {{ queue: work, end: false, into: kept }} }}, {{ set: {{ id: {id} }} }}, {{ call: origin }}, {{ respond: {{ status: 201, text: '{{{{ $id }}}} {{{{ $body }}}}' }} }}]"
        );
        let gateway = Gateway::start(yaml(&origin, &tap, &main));
        for number in 1..=2 {
            let reply = post(&gateway, "/a", "hello");
            assert_eq!((reply.status(), reply.text()), (201, format!("{number} hello")));
        }
        tap.wait_for_requests(2);
        let stored = tap.requests().remove(0);
        assert_eq!(
            (stored.method(), stored.target(), stored.text()),
            ("POST", "/a", "hello".to_owned())
        );
        assert_eq!(
            (stored.get("x-own"), stored.get("content-type")),
            (Some("1"), Some("text/plain"))
        );
        assert_eq!(origin.requests()[0].text(), "hello");
        tap.forget();
        origin.forget();
    }
}

#[test]
fn a_variable_of_a_store_that_ends_the_flow_is_warned_of() {
    let (origin, tap) = (Origin::echo(), Origin::echo());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    std::fs::write(
        &file,
        yaml(&origin, &tap, "[{ store: { queue: work, end: true, into: kept } }]"),
    )
    .unwrap();
    let run = tidegate(&["check".as_ref(), file.as_os_str()]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("no step can read the variable"), "{run:?}");
}

#[test]
fn a_tap_gets_a_copy_and_its_steps_change_nothing() {
    let (origin, tap) = (Origin::echo(), Origin::echo());
    let main = "[{ set: { v: before } }, { wire_tap: { steps: [{ payload: { text: 'copy of {{ $body }} {{ $v }} {{ $request.body }} {{ $headers.x-own }}' } }, { set: { v: changed } }, { call: tap }, { respond: { status: 500 } }] } }, { call: origin }, { respond: { text: '{{ $body }} {{ $v }}' } }]";
    let gateway = Gateway::start(yaml(&origin, &tap, main));
    let reply = post(&gateway, "/a?b=c", "hello");
    assert_eq!((reply.status(), reply.text()), (200, "hello before".to_owned()));
    tap.wait_for_requests(1);
    let copy = tap.request();
    assert_eq!(copy.text(), "copy of hello before hello 1");
    assert_eq!((copy.target(), copy.get("x-own")), ("/a?b=c", Some("1")));
}

#[test]
fn a_tap_that_fails_is_counted_and_logged_and_nothing_else() {
    let (origin, tap) = (Origin::echo(), Origin::echo());
    let main = "[{ name: audit, wire_tap: { steps: [{ fault: { reason: no } }] } }, { respond: { text: ok } }]";
    let gateway = Gateway::start(yaml(&origin, &tap, main));
    assert_eq!(post(&gateway, "/", "x").text(), "ok");
    gateway.wait_for_log("a copy failed: flow_fault");
    gateway.wait_for_log("audit");
    until("it is counted", || {
        metric(
            &gateway,
            "tidegate_flow_step_faults_total{flow=\"main\",step=\"audit\",reason=\"flow_fault\"}",
        ) == Some(1.0)
    });
    assert_eq!(
        metric(&gateway, "tidegate_flow_faults_total{flow=\"main\",reason=\"flow_fault\"}"),
        None
    );
}

#[test]
fn what_is_over_the_bound_of_a_tap_is_dropped_counted_and_logged() {
    let (origin, gate) = (Origin::echo(), Gate::default());
    let tap = held(&gate);
    let main = "[{ wire_tap: { max: 2, steps: [{ call: tap }] } }, { respond: { text: ok } }]";
    let gateway = Gateway::start(yaml(&origin, &tap, main));
    for _ in 0..5 {
        assert_eq!(post(&gateway, "/", "x").text(), "ok");
    }
    gateway.wait_for_log("not copied: 2 copies are in progress");
    let dropped = "tidegate_flow_taps_dropped_total{flow=\"main\",step=\"wire_tap\"}";
    until("three are dropped", || metric(&gateway, dropped) == Some(3.0));
    tap.wait_for_requests(2);
    gate.open();
    let own = "tidegate_flow_step_runs_total{flow=\"main\",step=\"wire_tap/steps/call tap\"}";
    until("both have ended", || metric(&gateway, own) == Some(2.0));
    // The places are free again.
    until("a copy is made", || {
        post(&gateway, "/", "x");
        tap.requests().len() > 2
    });
}

#[test]
fn a_tap_goes_on_when_its_client_has_gone_and_a_shutdown_waits_for_it() {
    let gate = Gate::default();
    let (origin, tap) = (held(&gate), held(&gate));
    let main = "[{ wire_tap: { steps: [{ call: tap }, { call: { upstream: tap, path: /second } }] } }, { call: origin }]";
    let gateway = Gateway::start(yaml(&origin, &tap, main));
    let mut wire = gateway.wire();
    wire.send(request("/first", "x"));
    tap.wait_for_requests(1);
    origin.wait_for_requests(1);
    drop(wire);
    gateway.signal(Signal::TERM);
    gateway.wait_for_log("draining");
    gate.open();
    tap.wait_for_requests(2);
    assert_eq!(tap.requests()[1].target(), "/second");
    assert!(gateway.wait_for_exit().success());
    gateway.wait_for_log("all requests have ended");
}

#[test]
fn a_tap_ends_with_the_time_of_its_flow() {
    let gate = Gate::default();
    let (origin, tap) = (Origin::echo(), held(&gate));
    let main = "{ timeout: 300ms, steps: [{ wire_tap: { steps: [{ call: tap }] } }, { respond: { text: ok } }] }";
    let gateway = Gateway::start(yaml(&origin, &tap, main));
    assert_eq!(post(&gateway, "/", "x").text(), "ok");
    gateway.wait_for_log("a copy failed: flow_timeout");
    gate.open();
}
