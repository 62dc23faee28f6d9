//! Flows with hostile input and failing services: each gives one typed fault or the configured partial answer, in time, and
//! leaves no trace.

use std::time::{Duration, Instant};

use crate::harness::{ClosedPort, Gate, Gateway, Message, Origin, tidegate, until};

fn yaml(upstreams: &[(&str, String)], flow: &str) -> String {
    let upstreams: Vec<String> = upstreams
        .iter()
        .map(|(name, url)| {
            format!("{name}: {{ targets: [\"{url}\"], timeout: {{ response: 20s }} }}")
        })
        .collect();
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 1\n\
         upstreams: {{ {} }}\nroutes: {{ all: {{ match: {{ path: \"/**\" }}, flow: main }} }}\nflows:\n  main: {flow}\n",
        upstreams.join(", ")
    )
}

fn start(upstreams: &[(&str, &Origin)], flow: &str) -> Gateway {
    let urls: Vec<(&str, String)> =
        upstreams.iter().map(|(name, origin)| (*name, origin.url())).collect();
    Gateway::start(yaml(&urls, flow))
}

fn post(gateway: &Gateway, content_type: &str, body: &[u8]) -> Message {
    let length = body.len();
    let head = format!(
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
    );
    gateway.wire().ask([head.as_bytes(), body].concat())
}

#[track_caller]
fn is_fault(reply: &Message, status: u16, label: &str) {
    assert_eq!(reply.status(), status, "{}", reply.text());
    assert!(reply.text().contains(&format!(r#""fault":"{label}""#)), "{label}: {}", reply.text());
}

pub(crate) fn reply_of(content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into()
}

pub(crate) const BOMB: &str =
    r#"<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><a>&b;</a>"#;

#[test]
fn messages_that_cannot_be_read_are_their_senders_fault() {
    let deep_json = ["[".repeat(10_000), "]".repeat(10_000)].concat();
    let deep_xml = ["<a>".repeat(10_000), "</a>".repeat(10_000)].concat();
    let unused = Origin::saying("unused");
    let gateway = start(&[("a", &unused)], "[respond: { text: '{{ $body }}' }]");
    for (content_type, body) in [
        ("application/json", deep_json.as_str()),
        ("application/json", "{\"a\":"),
        ("text/xml", deep_xml.as_str()),
        ("text/xml", BOMB),
        ("text/xml", "<a><b></a>"),
        ("text/xml", "<p:a/>"),
    ] {
        is_fault(&post(&gateway, content_type, body.as_bytes()), 400, "request_invalid");
    }
    is_fault(&post(&gateway, "application/json", b"\"\xff\""), 400, "request_invalid");
    for (content_type, body) in
        [("application/json", deep_json.as_str()), ("text/xml", BOMB), ("text/xml", "no")]
    {
        let origin = Origin::answering(reply_of(content_type, body));
        let gateway =
            start(&[("a", &origin)], "[{ call: a }, { respond: { text: '{{ $body }}' } }]");
        is_fault(&post(&gateway, "text/plain", b"x"), 502, "reply_invalid");
    }
}

#[test]
fn bodies_over_the_limit_are_refused_whoever_made_them() {
    let large = "x".repeat(2000);
    let origin = Origin::answering(reply_of("text/plain", &large));
    let limits = "limits: { body_bytes_max: 1KiB }";
    for (steps, body, status, label) in [
        ("[respond: { text: '{{ $body }}' }]", large.as_str(), 413, "body_too_large"),
        ("[{ call: a }, { respond: { text: '{{ $body }}' } }]", "x", 502, "reply_too_large"),
        (
            "[payload: { text: '{{ $body }}{{ $body }}{{ $body }}' }]",
            &"x".repeat(600),
            500,
            "flow_failed",
        ),
    ] {
        let gateway = start(&[("a", &origin)], &format!("{{ {limits}, steps: {steps} }}"));
        is_fault(&post(&gateway, "text/plain", body.as_bytes()), status, label);
    }
    // A body that no step reads has no limit.
    let gateway = start(
        &[("a", &origin)],
        &format!("{{ {limits}, steps: [header: {{ set: {{ x: y }} }}, {{ call: a }}] }}"),
    );
    let reply = post(&gateway, "text/plain", large.as_bytes());
    assert_eq!((reply.status(), reply.text()), (200, large));
}

/// The output of `$body//*` on a deep tree is quadratic; the bound on a step's output ends it.
#[test]
fn an_expression_that_finds_too_much_ends_at_the_bound_of_the_step() {
    let unused = Origin::saying("unused");
    let steps = "[payload: { xml: '<p>{{ $body//* }}</p>' }]";
    let gateway = start(
        &[("a", &unused)],
        &format!("{{ limits: {{ body_bytes_max: 16MiB }}, steps: {steps} }}"),
    );
    let nest = ["<a>".repeat(200), "x".repeat(1000), "</a>".repeat(200)].concat();
    let body = format!("<r>{}</r>", nest.repeat(200));
    let began = Instant::now();
    is_fault(&post(&gateway, "text/xml", body.as_bytes()), 500, "flow_failed");
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// Every part of a SOAP message has the whole envelope around it. An envelope that is large would be copied and read for each.
#[test]
fn parts_with_a_large_envelope_end_at_the_bound_of_the_work() {
    let unused = Origin::saying("unused");
    let header = "x".repeat(4_000_000);
    let body = format!(
        "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Header><h>{header}</h></s:Header><s:Body>{}</s:Body></s:Envelope>",
        "<a/>".repeat(1000)
    );
    for step in [
        "foreach: { over: '$body/*', steps: [payload: { text: x }] }",
        "foreach: { over: '$body/*', parallel: 2, steps: [payload: { text: x }] }",
        "split: { over: '$body/*', steps: [payload: { text: x }], gather: { into: { json: [] } } }",
    ] {
        let gateway = start(&[("a", &unused)], &format!("[{{ {step} }}, respond: {{}}]"));
        let reply = post(&gateway, "text/xml", body.as_bytes());
        assert!(reply.status() == 500 && reply.text().contains("Fault>"), "{step}");
    }
}

/// Results are bounded together while they come, and not only when all are there.
#[test]
fn results_of_parts_are_bounded_together() {
    let large = format!("<l>{}</l>", "x".repeat(600_000));
    for step in [
        "foreach: { over: '$body/*', steps: [{ call: a }] }",
        "foreach: { over: '$body/*', parallel: 2, steps: [{ call: a }] }",
        "split: { over: '$body/*', parallel: 2, steps: [{ call: a }], gather: { into: '<all/>' } }",
    ] {
        let origin = Origin::answering(reply_of("application/xml", &large));
        let flow = format!("{{ limits: {{ body_bytes_max: 1MiB }}, steps: [{{ {step} }}] }}");
        let gateway = start(&[("a", &origin)], &flow);
        let body = format!("<r>{}</r>", "<a/>".repeat(50));
        is_fault(&post(&gateway, "application/xml", body.as_bytes()), 500, "flow_failed");
        let calls = origin.requests().len();
        assert!(calls < 10, "{step}: {calls} calls");
    }
}

/// A malformed reply in a variable is a fault of its service, whatever the message is by then.
#[test]
fn a_malformed_body_in_a_variable_is_its_senders_fault() {
    let (xml, json) = ("text/xml", "application/json");
    for (content_type, body, used) in [
        (xml, "<a><b></a>", "$v.body"),
        (xml, BOMB, "$v.body/b"),
        (json, "{\"a\":", "$v.body"),
        (json, "{\"a\":", "$v.body.a"),
    ] {
        let origin = Origin::answering(reply_of(content_type, body));
        let flow = format!(
            "[{{ call: {{ upstream: a, into: v }} }}, respond: {{ text: '{{{{ {used} }}}}' }}]"
        );
        let gateway = start(&[("a", &origin)], &flow);
        is_fault(&post(&gateway, "text/plain", b"text"), 502, "reply_invalid");
        let flow = format!(
            "[{{ call: a }}, respond: {{ text: '{{{{ {} }}}}' }}]",
            used.replace("$v", "$request")
        );
        let origin = Origin::answering(reply_of("text/plain", "text"));
        let gateway = start(&[("a", &origin)], &flow);
        is_fault(&post(&gateway, content_type, body.as_bytes()), 400, "request_invalid");
    }
}

/// The `timeout` of a call is for the whole reply, also where it is a later step that reads the body.
#[test]
fn a_reply_whose_body_does_not_end_is_cut_off_in_the_time_of_its_call() {
    let origin = Origin::start(|peer| {
        while peer.request().is_some() {
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: 100\r\n\r\n<a>";
            if !peer.try_send(head) {
                return;
            }
        }
    });
    let call = "{ call: { upstream: a, timeout: 300ms } }";
    for flow in [
        format!("[{call}, {{ log: {{ message: '{{{{ $body }}}}' }} }}]"),
        format!("[{{ foreach: {{ over: $body, steps: [{call}] }} }}]"),
        "[{ call: { upstream: a, timeout: 300ms, into: v } }, { log: { message: '{{ $v.body }}' } }]".to_owned(),
    ] {
        let gateway = start(&[("a", &origin)], &flow);
        is_fault(&post(&gateway, "text/xml", b"<a/>"), 504, "upstream_timeout");
        until("the connection is closed", || origin.open() == 0);
    }
}

#[test]
fn branches_that_fail_or_hang_give_one_answer() {
    let good = Origin::answering(reply_of("text/xml", "<good/>"));
    let (silent, garbage) = (Origin::silent(), Origin::answering("garbage\r\n\r\n"));
    let upstreams = [("good", &good), ("silent", &silent), ("garbage", &garbage)];
    let scatter = |branches: &str, gather: &str| {
        format!(
            "[{{ scatter: {{ branches: [{branches}], gather: {{ into: '<all/>', {gather} }} }} }}, {{ respond: {{}} }}]"
        )
    };
    let (one, both) = ("{ call: good }, { call: silent }", "{ call: good }, { call: garbage }");
    for (branches, gather, expected) in [
        (one, "timeout: 1500ms", Err((504, "gather_timeout"))),
        (one, "timeout: 1500ms, partial: keep", Ok("<all><good/></all>")),
        (one, "complete: 1", Ok("<all><good/></all>")),
        (both, "", Err((504, "gather_timeout"))),
        (both, "partial: keep", Ok("<all><good/></all>")),
        ("{ call: garbage }, { call: garbage }", "partial: keep", Err((502, "upstream_malformed"))),
        (
            "{ call: { upstream: silent, timeout: 1500ms } }, { call: good }",
            "partial: keep",
            Ok("<all><good/></all>"),
        ),
    ] {
        let gateway = start(&upstreams, &scatter(branches, gather));
        let reply = post(&gateway, "text/xml", b"<a/>");
        match expected {
            Ok(text) => assert_eq!(
                (reply.status(), reply.text().as_str()),
                (200, text),
                "{branches} {gather}"
            ),
            Err((status, label)) => is_fault(&reply, status, label),
        }
        // The connection of an abandoned branch is closed.
        until("the silent connection is closed", || silent.open() == 0);
    }
}

/// The parts that a gather ignores are parsed as strictly as the others.
#[test]
fn a_hostile_result_is_a_fault_or_missing_among_those_that_are_gathered() {
    let below = |inside: &str| format!("<r><a><b><c>{inside}</c></b></a></r>");
    let deep = below(&["<d>".repeat(10_000), "</d>".repeat(10_000)].concat());
    let unclosed = "<e>".repeat(1_000);
    let good = Origin::answering(reply_of("text/xml", "<r><a>1</a></r>"));
    for hostile in [
        BOMB,
        &deep,
        &below("<d><e></d></e>"),
        &below("<d></e>"),
        &below(&unclosed),
        &below("<d>&b;</d>"),
        &below("<p:d/>"),
        &below("<d x='1' x='2'/>"),
        &below("]]>"),
        &below("<d>\u{1}</d>"),
    ] {
        let bad = Origin::answering(reply_of("text/xml", hostile));
        for (branches, gather, expected) in [
            ("{ call: bad }, { call: bad }", "partial: keep", Err((502, "reply_invalid"))),
            ("{ call: good }, { call: bad }", "partial: keep", Ok("<all><a>1</a></all>")),
            ("{ call: good }, { call: bad }", "complete: 1", Ok("<all><a>1</a></all>")),
            ("{ call: good }, { call: bad }", "timeout: 20s", Err((504, "gather_timeout"))),
        ] {
            let steps = format!(
                "[{{ scatter: {{ branches: [{branches}], gather: {{ take: /r/a, into: '<all/>', {gather} }} }} }}, {{ respond: {{}} }}]"
            );
            let gateway = start(&[("good", &good), ("bad", &bad)], &steps);
            let reply = post(&gateway, "text/xml", b"<a/>");
            let shown = hostile.get(..80).unwrap_or(hostile);
            match expected {
                Ok(text) => {
                    let got = (reply.status(), reply.text());
                    assert_eq!(got, (200, text.to_owned()), "{gather} {shown}");
                }
                Err((status, label)) => is_fault(&reply, status, label),
            }
        }
    }
}

/// Four results of ten megabytes, of which a few bytes are used. The rest is not converted.
#[test]
fn large_results_are_gathered_in_bounded_memory() {
    let order = "<order><symbol>IBM</symbol><price>140.34</price></order>";
    let large = format!("<r><a>1</a><b>{}</b></r>", order.repeat(10_000_000 / order.len()));
    let origin = Origin::answering(reply_of("text/xml", &large));
    let branches = ["{ call: a }"; 4].join(", ");
    let steps = format!(
        "[{{ scatter: {{ branches: [{branches}], gather: {{ take: /r/a, into: '<all/>' }} }} }}, {{ respond: {{}} }}]"
    );
    let gateway = start(&[("a", &origin)], &steps);
    let began = Instant::now();
    for _ in 0..2 {
        let reply = post(&gateway, "text/xml", b"<a/>");
        let all = format!("<all>{}</all>", "<a>1</a>".repeat(4));
        assert_eq!((reply.status(), reply.text()), (200, all));
    }
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    // The four results, a copy of one of them with its tree, and the program.
    let peak = gateway.peak_bytes();
    assert!(peak < 250 << 20, "{peak}");
    let gateway = start(
        &[("a", &origin)],
        &format!("{{ limits: {{ body_bytes_max: 8MiB }}, steps: {steps} }}"),
    );
    is_fault(&post(&gateway, "text/xml", b"<a/>"), 504, "gather_timeout");
}

/// The steps of a flow have its time, and those of its `catch` once more, so that they may call a service instead.
#[test]
fn a_flow_has_a_timeout_and_its_catch_as_long_again() {
    let silent = Origin::silent();
    let other = Origin::saying("other");
    let gone = "{ call: a }, { respond: { text: never } }";
    for (flow, said) in [
        (format!("steps: [{gone}]"), None),
        (
            format!(
                "steps: [{gone}], catch: [{{ respond: {{ text: '{{{{ $error.code }}}} {{{{ $error.kind }}}} {{{{ $body }}}}' }} }}]"
            ),
            Some("101504 flow_timeout x"),
        ),
        (format!("steps: [{gone}], catch: [{{ call: b }}, {{ respond: {{}} }}]"), Some("other")),
        (format!("steps: [{gone}], catch: [{{ call: a }}, {{ respond: {{}} }}]"), None),
        // A plain call is held to it, too.
        ("steps: [{ call: a }]".to_owned(), None),
    ] {
        let flow = format!("{{ timeout: 300ms, {flow} }}");
        let gateway = start(&[("a", &silent), ("b", &other)], &flow);
        let reply = post(&gateway, "text/plain", b"x");
        match said {
            Some(said) => {
                assert_eq!((reply.status(), reply.text().as_str()), (200, said), "{flow}");
            }
            None => is_fault(&reply, 504, "flow_timeout"),
        }
        until("the connection is closed", || silent.open() == 0);
    }
}

/// A flow that another runs by `sequence` has its own time there, as far as the other has any left.
#[test]
fn a_flow_that_is_run_by_sequence_keeps_its_timeout() {
    let silent = Origin::silent();
    let other = Origin::saying("other");
    let inner = "{ timeout: 300ms, steps: [{ call: a }], catch: [{ call: b }] }";
    for (main, inner, expected) in [
        ("{ timeout: 20s, steps: [{ sequence: inner }, { respond: {} }] }", inner, Ok("other")),
        (
            "{ timeout: 20s, steps: [{ sequence: inner }], catch: [{ respond: { text: '{{ $error.kind }}' } }] }",
            "{ timeout: 300ms, steps: [{ call: a }] }",
            Ok("flow_timeout"),
        ),
        // In branches, each has its own.
        (
            "{ timeout: 20s, steps: [{ scatter: { branches: [{ sequence: inner }, { call: b }], gather: { into: '<all/>', timeout: 20s, partial: keep } } }] }",
            "{ timeout: 300ms, steps: [{ call: a }] }",
            Ok("<all>other</all>"),
        ),
        (
            "{ timeout: 300ms, steps: [{ sequence: inner }, { respond: {} }] }",
            "{ timeout: 20s, steps: [{ call: a }], catch: [{ call: b }] }",
            Err("flow_timeout"),
        ),
    ] {
        let gateway = start(&[("a", &silent), ("b", &other)], &format!("{main}\n  inner: {inner}"));
        let reply = post(&gateway, "text/plain", b"x");
        match expected {
            Ok(text) => assert_eq!((reply.status(), reply.text().as_str()), (200, text), "{main}"),
            Err(label) => is_fault(&reply, 504, label),
        }
        until("the connection is closed", || silent.open() == 0);
    }
}

/// A request whose body does not come in time is a timeout of the flow as any other.
#[test]
fn a_body_that_does_not_come_is_caught_as_a_timeout_of_the_flow() {
    let origin = Origin::saying("unused");
    let flow = "{ timeout: 300ms, steps: [{ set: { v: $body } }], catch: [{ respond: { status: 504, text: '{{ $error.code }}' } }] }";
    let gateway = start(&[("a", &origin)], flow);
    let mut wire = gateway.wire();
    wire.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n<a");
    let reply = wire.read_reply();
    assert_eq!((reply.status(), reply.text().as_str()), (504, "101504"));
}

#[test]
fn a_client_that_goes_takes_its_branches_with_it() {
    let silent = Origin::silent();
    let flow = "[{ scatter: { branches: [{ call: a }, { call: a }, { call: a }], gather: { into: '<all/>' } } }]";
    let gateway = start(&[("a", &silent)], flow);
    for (gone, calls) in [("by a reset", 3), ("in peace", 6)] {
        let mut wire = gateway.wire();
        wire.send(
            "POST /a HTTP/1.1\r\nHost: a\r\nContent-Type: text/xml\r\nContent-Length: 4\r\n\r\n<a/>",
        );
        silent.wait_for_requests(calls);
        match gone {
            "by a reset" => wire.reset(),
            _ => drop(wire),
        }
        until(&format!("the branches of a client that left {gone} are gone"), || {
            silent.open() == 0
        });
    }
}

/// A split into 1,000 parts has at most `parallel` concurrent calls.
#[test]
fn parts_that_run_at_once_are_bounded() {
    let latch = Gate::default();
    let gate = latch.clone();
    let origin = Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            gate.wait();
            let length = request.body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
            );
            if !peer.try_send(head) || !peer.try_send(&request.body) {
                return;
            }
        }
    });
    let flow = "[{ split: { over: '$body[*]', parallel: 3, steps: [{ call: a }], gather: { into: { json: [] } } } }, { respond: {} }]";
    let gateway = start(&[("a", &origin)], flow);
    let items: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    let body = format!("[{}]", items.join(","));
    let mut wire = gateway.wire();
    let length = body.len();
    wire.send(format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"));
    origin.wait_for_requests(3);
    assert!(wire.is_silent_for(Duration::from_millis(200)));
    assert_eq!(origin.requests().len(), 3);
    latch.open();
    let reply = wire.read_reply();
    assert_eq!((reply.status(), reply.text()), (200, body));
    assert!(origin.accepted() <= 3, "{}", origin.accepted());
}

/// Values are always inserted as text, and a value that cannot be written is a fault.
#[test]
fn no_value_breaks_out_of_its_place() {
    let origin = Origin::saying("ok");
    let hostile = r#"</a><!-- ]]> " ' & {{ $body }} \"#;
    let gateway = start(
        &[("a", &origin)],
        r#"[{ set: { v: $body } }, { payload: { xml: '<a b="{{ $v }}">{{ $v }}<![CDATA[{{ $v }}]]></a>' } }, { respond: { json: '{"x":"{{ $v }}","y":{{ $v }},"z":{{ string(/a) }}}' } }]"#,
    );
    let reply = post(&gateway, "text/plain", hostile.as_bytes());
    let json: serde_json::Value = serde_json::from_str(&reply.text()).unwrap();
    assert_eq!(
        json,
        serde_json::json!({ "x": hostile, "y": hostile, "z": format!("{hostile}{hostile}") })
    );
    for (steps, body) in [
        ("header: { set: { x: '{{ $body }}' } }", "a\r\nX-Evil: 1"),
        ("payload: { xml: '<a>{{ $body }}</a>' }", "\u{0}"),
        ("call: { upstream: a, path: '/x/{{ $body }}' }", ".."),
        ("call: { upstream: a, headers: { set: { x: '{{ $body }}' } } }", "a\nb"),
    ] {
        let gateway = start(&[("a", &origin)], &format!("[{{ {steps} }}]"));
        is_fault(&post(&gateway, "text/plain", body.as_bytes()), 400, "template");
    }
    assert!(origin.requests().is_empty());
}

/// A gateway that calls itself goes round once.
#[test]
fn a_flow_that_calls_its_own_gateway_ends() {
    let port = ClosedPort::any();
    let address = port.address;
    let flow = "[{ header: { set: { x-a: b } } }, { call: own }]";
    let text = yaml(&[("own", format!("http://{address}"))], flow).replacen(
        "127.0.0.1:0",
        &address.to_string(),
        1,
    );
    let gateway = Gateway::start(text);
    is_fault(&post(&gateway, "text/plain", b"x"), 508, "loop");
}

/// Ten megabytes that an expression splits, and fifty that are not kept.
#[test]
fn large_messages_pass_or_are_refused_in_time() {
    let origin = Origin::echo();
    let order = "<order><symbol>IBM</symbol><price>140.34</price></order>";
    let large = format!("<orders>{}</orders>", order.repeat(10_000_000 / order.len()));
    let gateway = start(&[("a", &origin)], "[{ payload: { xml: '<p>{{ $body//* }}</p>' } }]");
    let began = Instant::now();
    // Each part is sent with its envelope: over 16 MiB in total.
    is_fault(&post(&gateway, "text/xml", large.as_bytes()), 500, "flow_failed");
    let gateway = start(&[("a", &origin)], "[{ respond: { text: '{{ count($body//*) }}' } }]");
    let counted = post(&gateway, "text/xml", large.as_bytes());
    let count = large.matches('<').count() / 2 - 1;
    assert_eq!((counted.status(), counted.text()), (200, count.to_string()));
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let mut wire = gateway.wire();
    wire.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Type: text/xml\r\nContent-Length: 50000000\r\n\r\n<a>");
    is_fault(&wire.read_reply(), 413, "body_too_large");
    let passes = start(&[("a", &origin)], "[{ header: { set: { x: y } } }, { call: a }]");
    let huge = vec![b'x'; 50_000_000];
    let reply = post(&passes, "application/octet-stream", &huge);
    assert!(reply.status() == 200 && reply.body == huge, "{}", reply.status());
}

#[test]
fn a_flow_that_runs_itself_is_complained_about() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    let flows =
        "[{ filter: { when: $body, then: [{ sequence: other }] } }]\n  other: [{ sequence: main }]";
    std::fs::write(&file, yaml(&[("a", "http://127.0.0.1:1".to_owned())], flows)).unwrap();
    let run = tidegate(&["check", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let said = [run.stdout, run.stderr].concat();
    assert!(said.contains("the flow runs itself: main -> other -> main"), "{said}");
    assert!(said.contains("gateway.yaml:8:23: "), "{said}");
}
