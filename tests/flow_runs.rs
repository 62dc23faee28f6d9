//! Concurrent and failing runs of flows: which client gets which answer, the codes of faults, and how often a message is parsed.

use std::thread;

use crate::harness::{Gateway, Message, Origin, tidegate, until};
use crate::reload_soak::asked;
use crate::telemetry::metric;

fn start(upstreams: &[(&str, &Origin)], flow: &str) -> Gateway {
    let upstreams: Vec<String> = upstreams
        .iter()
        .map(|(name, origin)| format!("{name}: {{ targets: [\"{}\"] }}", origin.url()))
        .collect();
    Gateway::start(format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n\
         upstreams: {{ dead: {{ targets: [\"http://127.0.0.1:1\"] }}, {} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, flow: main }} }}\nflows:\n  main: {flow}\n",
        upstreams.join(", ")
    ))
}

fn post(gateway: &Gateway, content_type: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

/// An origin that sends bodies back with their content type.
fn mirror() -> Origin {
    Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let content_type = request.get("content-type").unwrap_or("text/plain").to_owned();
            let length = request.body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
            );
            if !peer.try_send(head) || !peer.try_send(&request.body) {
                return;
            }
        }
    })
}

/// Many concurrent clients with numbered messages: every answer has the client's number, once for each branch. `make soak`
/// lets 50 clients send 10,000 messages each.
#[test]
fn answers_of_clients_at_once_are_never_mixed() {
    let clients = asked("TIDEGATE_SOAK_CLIENTS", 16);
    let requests = asked("TIDEGATE_SOAK_ANSWERS", 25);
    let origin = mirror();
    let branches = ["{ call: echo }"; 4].join(", ");
    let gateway = start(
        &[("echo", &origin)],
        &format!(
            "[{{ set: {{ own: /a/n }} }}, {{ scatter: {{ branches: [{branches}], gather: {{ take: /a/n, into: '<all/>' }} }} }}, {{ header: {{ set: {{ x-own: '{{{{ $own }}}}' }} }} }}]"
        ),
    );
    thread::scope(|scope| {
        for client in 0..clients {
            let mut wire = gateway.wire();
            scope.spawn(move || {
                for request in 0..requests {
                    let number = client * 1_000_000 + request;
                    let body = format!("<a><n>{number}</n></a>");
                    let length = body.len();
                    let reply = wire.ask(format!(
                        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Type: application/xml\r\nContent-Length: {length}\r\n\r\n{body}"
                    ));
                    let all = format!("<n>{number}</n>").repeat(4);
                    assert_eq!((reply.status(), reply.text()), (200, format!("<all>{all}</all>")));
                    assert_eq!(reply.get("x-own"), Some(&*number.to_string()));
                }
            });
        }
    });
    assert_eq!(origin.requests().len(), clients * requests * 4);
}

/// In `catch`, `$error.code` is the number known from Synapse.
#[test]
fn the_end_of_a_call_has_its_code() {
    let (silent, garbage) = (Origin::silent(), Origin::answering("garbage\r\n\r\n"));
    let closing = Origin::start(|peer| {
        peer.request();
    });
    let upstreams = [("silent", &silent), ("garbage", &garbage), ("closing", &closing)];
    for (steps, code) in [
        ("{ call: dead }", "101503"),
        ("{ call: { upstream: silent, timeout: 100ms } }", "101504"),
        ("{ call: { upstream: closing, method: POST } }", "101505"),
        ("{ call: garbage }", "101506"),
        (
            "{ scatter: { branches: [{ call: silent }], gather: { into: '<a/>', timeout: 100ms } } }",
            "101504",
        ),
        ("{ fault: { reason: own } }", "0"),
    ] {
        let flow = format!(
            "{{ steps: [{steps}], catch: [{{ respond: {{ text: '{{{{ $error.code }}}}' }} }}] }}"
        );
        let reply = post(&start(&upstreams, &flow), "text/plain", "x");
        assert_eq!((reply.status(), reply.text().as_str()), (200, code), "{steps}");
    }
}

/// A message is parsed at most once, however many steps use it, and never if none does.
#[test]
fn each_message_is_read_at_most_once() {
    let origin = mirror();
    let looks = "[{ set: { a: '//n', b: 'count(//n)' } }, { filter: { when: '/a/n', then: [{ header: { set: { x: '{{ /a/n }}' } } }] } }, { call: echo }, { respond: { xml: '<r>{{ /a/n }}{{ count(/a//n) }}{{ //n[2] }}</r>' } }]";
    let json = "[{ set: { a: '$body.n[0]', b: $body..n } }, { call: echo }, { respond: { json: '[{{ $body.n }},{{ $body.n[1] }}]' } }]";
    let xml_body = "<a><n>1</n><n>2</n></a>";
    for (flow, content_type, body, said, parses_max) in [
        ("[{ call: echo }, { respond: {} }]", "application/xml", xml_body, xml_body, 0.0),
        ("[{ header: { set: { a: b } } }, { call: echo }]", "application/xml", "<no", "<no", 0.0),
        (looks, "application/xml", xml_body, "<r><n>1</n><n>2</n>2<n>2</n></r>", 2.0),
        (json, "application/json", r#"{"n":[1,2]}"#, "[[1,2],2]", 2.0),
    ] {
        let gateway = start(&[("echo", &origin)], flow);
        let reply = post(&gateway, content_type, body);
        assert_eq!((reply.status(), reply.text().as_str()), (200, said), "{flow}");
        let of = |sample: &str| metric(&gateway, sample);
        until("the request is recorded", || {
            of(r#"tidegate_requests_total{route="all",status_class="2xx"}"#) == Some(1.0)
        });
        let parses = |format| of(&format!("tidegate_message_parses_total{{format=\"{format}\"}}"));
        let sum: f64 = ["json", "xml"].into_iter().filter_map(parses).sum();
        assert!(sum <= parses_max, "{flow}: {sum} parses");
    }
}

/// The result of a branch or a part is written as its place requires, whatever its format.
#[test]
fn results_of_any_format_are_gathered_into_any() {
    let origin = mirror();
    let soap = |body: &str| {
        format!(
            "<Envelope xmlns=\"http://schemas.xmlsoap.org/soap/envelope/\"><Body>{body}</Body></Envelope>"
        )
    };
    let scatter = |into: &str| {
        format!(
            "[{{ scatter: {{ branches: [{{ payload: {{ text: 'a <b>' }} }}, {{ payload: {{ json: '{{\"c\":\"<d>\"}}' }} }}, {{ payload: {{ xml: '<e>f</e>' }} }}], gather: {{ into: {into} }} }} }}]"
        )
    };
    let foreach = |over: &str, made: &str| {
        format!("[{{ foreach: {{ over: '{over}', steps: [{{ payload: {{ {made} }} }}] }} }}]")
    };
    let soap_type = "text/xml";
    for (flow, content_type, body, made) in [
        (scatter("{ json: [] }"), "text/plain", "x".to_owned(), r#"["a <b>",{"c":"<d>"},"f"]"#.to_owned()),
        (scatter("'<all/>'"), "text/plain", "x".to_owned(), r#"<all>a &lt;b&gt;{"c":"&lt;d&gt;"}<e>f</e></all>"#.to_owned()),
        (foreach("$body.n", "text: 'a \"b\"'"), "application/json", r#"{"n":[1,2]}"#.to_owned(), r#"{"n":["a \"b\"","a \"b\""]}"#.to_owned()),
        (foreach("$body.n", "text: ''"), "application/json", r#"{"n":[1]}"#.to_owned(), r#"{"n":[""]}"#.to_owned()),
        (foreach("$body.n", "xml: '<a>1</a>'"), "application/json", r#"{"n":[1]}"#.to_owned(), r#"{"n":["1"]}"#.to_owned()),
        (foreach("/a/b", "json: '{\"c\":\"<d>\"}'"), "application/xml", "<a><b/></a>".to_owned(), r#"<a>{"c":"&lt;d&gt;"}</a>"#.to_owned()),
        // If a default namespace applies, elements without one undeclare it.
        (foreach("/*/*", "xml: '<n/>'"), "application/xml", "<a xmlns='urn:a'><b/></a>".to_owned(), r#"<a xmlns="urn:a"><n xmlns=""/></a>"#.to_owned()),
        ("[{ payload: { xml: '<n>{{ $method }}</n>' } }]".to_owned(), soap_type, soap("<a/>"), soap(r#"<n xmlns="">POST</n>"#)),
        ("[{ payload: { xml: '<n xmlns=\"urn:n\"/>' } }]".to_owned(), soap_type, soap("<a/>"), soap(r#"<n xmlns="urn:n"/>"#)),
        ("[{ enrich: { target: $body/*, source: { xml: '<n/>' }, action: after } }]".to_owned(), soap_type, soap("<a/>"), soap(r#"<a/><n xmlns=""/>"#)),
        (
            "[{ scatter: { branches: [{ call: echo }, { call: echo }], gather: { take: '$body/*', into: '<all/>' } } }]".to_owned(),
            soap_type,
            soap(r#"<n xmlns="">1</n>"#),
            soap(r#"<all xmlns=""><n xmlns="">1</n><n xmlns="">1</n></all>"#),
        ),
    ] {
        let reply = post(&start(&[("echo", &origin)], &flow), content_type, &body);
        let text = reply.text().replace("<Header></Header>", "");
        assert_eq!((reply.status(), text), (200, made), "{flow}");
    }
}

/// A text that begins neither with `$` or `/` nor with a function is a literal: `check` reports it if a path is expected.
#[test]
fn a_text_where_something_is_looked_for_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    for (step, warned) in [
        ("split: { over: 'items/item', steps: [], gather: { into: { json: [] } } }", true),
        ("filter: { when: 'count(//a)', then: [] }", false),
        ("scatter: { branches: [{ drop: {} }], gather: { take: 'body', into: '<a/>' } }", true),
        ("switch: { on: { text: x }, cases: [] }", false),
        ("switch: { on: $body, cases: [] }", false),
        ("set: { v: 'count(//a)' }", false),
    ] {
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nroutes: {{ all: {{ match: {{ path: \"/**\" }}, flow: main }} }}\nflows:\n  main: [{{ {step} }}, {{ respond: {{}} }}]\n"
        );
        std::fs::write(&file, yaml).unwrap();
        let run = tidegate(&["check", file.to_str().unwrap()]);
        let said = format!("{}{}", run.stdout, run.stderr);
        assert_eq!(
            (run.code, said.contains("warning: this is plain text")),
            (Some(0), warned),
            "{said}"
        );
    }
}
