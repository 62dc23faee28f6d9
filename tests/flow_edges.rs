//! Edge cases of flows: names that two flows share, places that are not part of a message, log lines.

use crate::harness::{Gateway, Message, Origin, tidegate, until};

const XML: &str = "application/xml";

fn yaml(origin: &str, flows: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\n\
         upstreams: {{ echo: {{ targets: [\"{origin}\"] }} }}\n\
         routes:\n  all: {{ match: {{ path: \"/**\" }}, flow: main }}\n  other: {{ match: {{ path: /other }}, flow: other }}\n\
         flows:\n{}\n",
        flows.lines().map(|line| format!("  {line}\n")).collect::<String>(),
    )
}

fn start(origin: &Origin, flows: &str) -> Gateway {
    Gateway::start(yaml(&origin.url(), flows))
}

/// The output of `check` for flows, and whether it refuses them.
fn check(flows: &str) -> (bool, String) {
    check_whole(&yaml("http://127.0.0.1:1", flows))
}

fn check_whole(yaml: &str) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidegate.yaml");
    std::fs::write(&file, yaml).unwrap();
    let run = tidegate(&["check", file.to_str().unwrap()]);
    (run.code == Some(1), run.stdout + &run.stderr)
}

#[track_caller]
fn post(gateway: &Gateway, lines: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST /a?q=1%0A2026-01-01T00:00:00Z%20%20INFO%20forged%1B HTTP/1.1\r\nHost: a\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
    ))
}

fn of_type(content_type: &str) -> String {
    format!("Content-Type: {content_type}\r\n")
}

const OTHER: &str = "other: [{ respond: { text: other } }]";

/// A flow that has nothing to do with another may use its names for other things.
#[test]
fn flows_that_never_meet_share_no_variables() {
    let origin = Origin::echo();
    let flows = "main: [{ set: { r: $body } }, { respond: { xml: '<o>{{ $r }}</o>' } }]\n\
                 other: [{ call: { upstream: echo, into: r } }, { respond: { text: '{{ $r.status }}' } }]";
    let gateway = start(&origin, flows);
    assert_eq!(post(&gateway, &of_type(XML), "<a/>").text(), "<o><a/></o>");
    let reply = gateway.wire().ask("GET /other HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(reply.text(), "200");
    // A variable that only another flow sets is unknown.
    let (refused, said) =
        check("main: [{ set: { seen: $body } }]\nother: [{ respond: { text: '{{ $seen }}' } }]");
    assert!(refused && said.contains("there is no `$seen`"), "{said}");
    // Variables of all flows in one run are known, in any order.
    let flows = "main: [{ sequence: sets }, { sequence: says }]\n\
                 sets: [{ set: { v: '1' } }]\nsays: [{ respond: { text: 'said {{ $v }}' } }]\n\
                 other: [{ sequence: says }]";
    let gateway = start(&origin, flows);
    assert_eq!(post(&gateway, "", "").text(), "said 1");
}

/// `enrich` changes each target that is found, in the message and in a variable, and nothing else.
#[test]
fn a_variable_is_enriched_and_the_message_left_alone() {
    let origin = Origin::echo();
    let cases = [
        ("{ source: { xml: '<k/>' }, target: '$o/b', action: child }", "<a><b><k/></b></a>"),
        ("{ source: { xml: '<k/>' }, target: '$o//b', action: after }", "<a><b/><k/></a>"),
        ("{ source: $method, target: $o/b }", "<a>POST</a>"),
        ("{ source: { xml: '<k/>' }, target: $o, action: child }", "<a><b/><k/></a>"),
        ("{ source: { xml: '<k/>' }, target: $o }", "<k/>"),
        ("{ source: $method, target: $o }", "POST"),
        ("{ target: $o/b, action: remove }", "<a></a>"),
        ("{ target: $o, action: remove }", ""),
        ("{ source: $method, target: $o/none }", "<a><b/></a>"),
    ];
    for (keys, expected) in cases {
        let flow = format!(
            "main: [{{ set: {{ o: $body }} }}, {{ enrich: {keys} }}, {{ respond: {{ xml: '<r><o>{{{{ $o }}}}</o>{{{{ $body }}}}</r>' }} }}]\n{OTHER}"
        );
        let reply = post(&start(&origin, &flow), &of_type(XML), "<a><b/></a>");
        assert_eq!(reply.text(), format!("<r><o>{expected}</o><a><b/></a></r>"), "{keys}");
    }
    let flow = format!(
        "main: [{{ set: {{ o: $body.a }} }}, {{ enrich: {{ source: $method, target: '$o.list', action: child }} }}, {{ respond: {{ json: '[{{{{ $o }}}}, {{{{ $body }}}}]' }} }}]\n{OTHER}"
    );
    let body = r#"{"a":{"list":[1.0]}}"#;
    let reply = post(&start(&origin, &flow), &of_type("application/json"), body);
    assert_eq!(reply.text(), r#"[{"list":[1.0,"POST"]}, {"a":{"list":[1.0]}}]"#);
}

/// An enriched variable keeps its type: a document, a Body, or nothing.
#[test]
fn a_variable_that_was_enriched_keeps_its_kind() {
    let origin = Origin::echo();
    let soap = |body: &str| {
        format!(
            r#"<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Header><h/></e:Header><e:Body>{body}</e:Body></e:Envelope>"#
        )
    };
    let remove = |held: &str, target: &str| {
        format!(
            "main: [{{ set: {{ o: {held} }} }}, {{ enrich: {{ target: {target}, action: remove }} }}, {{ payload: {{ from: $o }} }}, {{ respond: {{}} }}]\n{OTHER}"
        )
    };
    let plain = "<a><b/><c/></a>".to_owned();
    for (flow, sent, expected) in [
        (remove("$envelope", "$o//a/b"), plain.clone(), "<a><c/></a>".to_owned()),
        (remove("$envelope", "$o/a/b"), plain, "<a><c/></a>".to_owned()),
        (remove("$envelope", "$o//a/b"), soap("<a><b/><c/></a>"), soap("<a><c/></a>")),
        (remove("$body", "$o/b"), soap("<b/><c/>"), soap("<c/>")),
    ] {
        // Twice, since the second one finds the result of the first.
        let twice = flow.replacen(
            "{ payload",
            "{ enrich: { target: $o/none, action: remove } }, { payload",
            1,
        );
        for flow in [flow, twice] {
            let reply = post(&start(&origin, &flow), &of_type(XML), &sent);
            assert_eq!((reply.status(), reply.text()), (200, expected.clone()), "{flow}");
        }
    }
    let reply = post(&start(&origin, &remove("//none", "$o/b")), &of_type(XML), &soap("<a/>"));
    assert_eq!((reply.status(), reply.text()), (200, soap("")));
}

/// A target outside of the body and of variables would have replaced the whole message.
#[test]
fn a_target_outside_the_body_is_a_complaint() {
    for (keys, said) in [
        ("{ source: a, target: $headers.x-a }", "`enrich` cannot change `$headers`"),
        ("{ source: a, target: $query.q }", "`enrich` cannot change `$query`"),
        ("{ source: a, target: $request.body }", "`enrich` cannot change `$request`"),
        ("{ source: a, target: $r.body }", "`$r` holds a reply, which cannot be changed"),
        ("{ source: a, target: $none/b }", "there is no `$none"),
    ] {
        let flows = format!(
            "main: [{{ call: {{ upstream: echo, into: r }} }}, {{ enrich: {keys} }}]\n{OTHER}"
        );
        let (refused, told) = check(&flows);
        assert!(refused && told.contains(said), "{keys}: {told}");
    }
    // A computed text is not a place either.
    let flows = format!(
        "main: [{{ enrich: {{ source: x, target: {{ xpath: 'string(//b)' }} }} }}]\n{OTHER}"
    );
    let reply = post(&start(&Origin::echo(), &flows), &of_type(XML), "<a><b>1</b></a>");
    assert_eq!(reply.status(), 500, "{}", reply.text());
}

/// Digests are of the bytes that the client sent.
#[test]
fn digests_go_with_the_body_that_they_are_of() {
    const NAMES: [&str; 4] = ["content-digest", "repr-digest", "digest", "content-md5"];
    let lines: String = NAMES.iter().map(|name| format!("{name}: x\r\n")).collect();
    let lines = lines + &of_type(XML);
    for (step, kept) in [
        ("{ header: { set: { x-a: b } } }", true),
        ("{ filter: { when: //b } }", true),
        ("{ header: { remove: [content-digest, repr-digest, digest, content-md5] } }", false),
        ("{ payload: { xml: '<c/>' } }", false),
        ("{ enrich: { source: x, target: //b } }", false),
        ("{ convert: { to: json } }", false),
        ("{ foreach: { over: //b, steps: [{ payload: { xml: '<c/>' } }] } }", false),
        ("{ scatter: { branches: [{ set: { v: '1' } }], gather: { into: <all/> } } }", false),
    ] {
        let origin = Origin::echo();
        let flow = format!("main: [{step}, {{ call: echo }}]\n{OTHER}");
        let reply = post(&start(&origin, &flow), &lines, "<a><b>1</b></a>");
        assert_eq!(reply.status(), 200, "{step}: {}", reply.text());
        let seen = origin.request();
        let there: Vec<&str> = NAMES.into_iter().filter(|name| seen.get(name).is_some()).collect();
        let expected: &[&str] = if kept { &NAMES } else { &[] };
        assert_eq!(there, expected, "{step}");
    }
    let origin = Origin::echo();
    let flow = format!("main: [{{ call: {{ upstream: echo, body: //b }} }}]\n{OTHER}");
    post(&start(&origin, &flow), &lines, "<a><b>1</b></a>");
    let seen = origin.request();
    assert_eq!(seen.text(), "<b>1</b>");
    NAMES.iter().for_each(|name| assert_eq!(seen.get(name), None, "{name}"));
    // The headers set by the flow are sent.
    let origin = Origin::echo();
    let flow = format!(
        "main: [{{ payload: {{ text: made }} }}, {{ header: {{ set: {{ digest: mine }} }} }}, {{ call: echo }}]\n{OTHER}"
    );
    post(&start(&origin, &flow), &lines, "<a/>");
    assert_eq!(origin.request().all("digest"), ["mine"]);
}

/// The content of a message never becomes a separate log line.
#[test]
fn a_log_line_is_one_line() {
    let flow = format!(
        "main: [{{ log: {{ level: warn, message: 'said {{{{ $query.q }}}} {{{{ $body }}}} end' }} }}, {{ respond: {{ text: ok }} }}]\n{OTHER}"
    );
    let gateway = start(&Origin::echo(), &flow);
    assert_eq!(post(&gateway, &of_type("text/plain"), "a\r\nb").text(), "ok");
    until("the line is there", || gateway.log().contains("said"));
    let log = gateway.log();
    let line = log.lines().find(|line| line.contains("said")).unwrap_or_default();
    assert!(line.contains("said 1 2026-01-01T00:00:00Z  INFO forged  a  b end"), "{log}");
}

/// A file is sent with the type of its name; a whole SOAP message with the type of its version.
#[test]
fn a_payload_of_a_file_has_the_type_of_the_file() {
    let soap =
        r#"<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body/></s:Envelope>"#;
    for (file, content, expected) in [
        ("a.xml", "<a/>", XML),
        ("a.json", "{}", "application/json"),
        ("a.txt", "a", "text/plain; charset=utf-8"),
        ("a.bin", "a", "application/octet-stream"),
        ("soap.xml", soap, "application/soap+xml; charset=utf-8"),
    ] {
        let flow =
            format!("main: [{{ payload: {{ file: {file} }} }}, {{ respond: {{}} }}]\n{OTHER}");
        let gateway = Gateway::start_beside(yaml("http://127.0.0.1:1", &flow), &[(file, content)]);
        let reply = post(&gateway, "", "");
        assert_eq!((reply.get("content-type"), reply.text().as_str()), (Some(expected), content));
    }
    let (_, said) = check(&format!("main: [{{ payload: {{ file: none.xml }} }}]\n{OTHER}"));
    assert!(said.contains("cannot read") && !said.contains("PEM"), "{said}");
    let whole = yaml("http://127.0.0.1:1", &format!("main: [{{ drop: {{}} }}]\n{OTHER}"));
    let (_, said) = check_whole(
        &whole.replace("flow: other }", "flow: other, services: { wsdl: none.wsdl } }"),
    );
    assert!(said.contains("cannot read") && !said.contains("PEM"), "{said}");
    let database = "databases: { d: { url: \"oracle://a/b\" } }\n";
    let (_, said) = check_whole(&format!("{whole}{database}"));
    assert!(
        said.contains(
            "write `postgres://HOST:PORT/DATABASE` or `mysql://HOST:PORT/DATABASE`, with "
        ),
        "{said}"
    );
    let step = "{ payload: { text: a, content_type: no type } }";
    let (refused, said) = check(&format!("main: [{step}]\n{OTHER}"));
    assert!(refused && said.contains("`no type` is not a content type"), "{said}");
}

/// If there is nothing to split, a SOAP message is kept whole.
#[test]
fn nothing_to_split_leaves_the_envelope() {
    let soap = r#"<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Header><h/></s:Header><s:Body><a/></s:Body></s:Envelope>"#;
    for (gather, inside) in [("{ into: <All/> }", "<All></All>"), ("{}", "")] {
        let flow = format!(
            "main: [{{ split: {{ over: //none, steps: [{{ call: echo }}], gather: {gather} }} }}, {{ respond: {{}} }}]\n{OTHER}"
        );
        let reply = post(&start(&Origin::echo(), &flow), &of_type("text/xml"), soap);
        assert_eq!(reply.text(), soap.replace("<a/>", inside), "{gather}");
        assert_eq!(reply.get("content-type"), Some("text/xml"), "{gather}");
    }
}

/// Steps for an invalid message can read the reason.
#[test]
fn the_steps_for_an_invalid_message_have_its_error() {
    let schema = r#"<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="a" type="xs:int"/></xs:schema>"#;
    let flow = format!(
        "main: [{{ validate: {{ schema: a.xsd, else: [{{ respond: {{ status: 422, text: '{{{{ $error.kind }}}}|{{{{ $error.message }}}}|{{{{ $error.detail }}}}' }} }}] }} }}]\n{OTHER}"
    );
    let gateway = Gateway::start_beside(yaml("http://127.0.0.1:1", &flow), &[("a.xsd", schema)]);
    let reply = post(&gateway, &of_type(XML), "<a>x</a>");
    let said = "request_invalid|The message is not valid.|<a>: 'x' is not a value of the type int";
    assert_eq!((reply.status(), reply.text().as_str()), (422, said));
}

/// CEL sees the same values as the other languages.
#[test]
fn cel_has_the_request_and_headers_of_replies() {
    let flow = format!(
        "main:\n  - payload: {{ text: made }}\n  - call: {{ upstream: echo, into: r }}\n  \
         - set: {{ v: {{ cel: \"request.body.n + request.headers['x-a'] + request.method + vars.r.headers['content-length']\" }} }}\n  \
         - respond: {{ text: '{{{{ $v }}}}' }}\n{OTHER}"
    );
    let lines = format!("X-A: b\r\n{}", of_type("application/json"));
    let reply = post(&start(&Origin::echo(), &flow), &lines, r#"{"n":"N"}"#);
    assert_eq!(reply.text(), "NbPOST4");
}

/// An element that is elsewhere is not transformed in the message's place.
#[test]
fn a_stylesheet_transforms_parts_of_the_message_only() {
    let sheet = r#"<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><new/></xsl:template></xsl:stylesheet>"#;
    let flow = format!(
        "main: [{{ set: {{ o: $body }} }}, {{ payload: {{ xml: '<c><b/></c>' }} }}, {{ xslt: {{ stylesheet: a.xsl, of: OF }} }}, {{ respond: {{}} }}]\n{OTHER}"
    );
    for (of, status) in [("//b", 200), ("$o/b", 500)] {
        let yaml = yaml("http://127.0.0.1:1", &flow.replace("OF", of));
        let gateway = Gateway::start_beside(yaml, &[("a.xsl", sheet)]);
        let reply = post(&gateway, &of_type(XML), "<a><b/></a>");
        assert_eq!(reply.status(), status, "{of}: {}", reply.text());
        if status == 200 {
            assert_eq!(reply.text(), "<c><new/></c>");
        }
    }
}

/// If a text is needed, invalid bytes are a fault of their sender. Otherwise they are forwarded unchanged.
#[test]
fn bytes_are_no_text() {
    let origin = Origin::echo();
    for (flow, body, status) in [
        ("[{ respond: { text: '{{ $body }}' } }]", &b"\xff\x00"[..], 400),
        ("[{ respond: { xml: '<a>{{ $body }}</a>' } }]", b"\xff\x00", 400),
        ("[{ respond: { json: '[{{ $body }}]' } }]", b"\xff\x00", 400),
        ("[{ payload: { from: $body } }, { respond: {} }]", b"\xff\x00", 200),
        ("[{ set: { v: $body } }, { respond: { from: $v } }]", b"\xff\x00", 200),
        (
            "[{ set: { v: $body } }, { payload: { text: made } }, { respond: { text: '{{ $v }}' } }]",
            b"\xff\x00",
            400,
        ),
    ] {
        let gateway = start(&origin, &format!("main: {flow}\n{OTHER}"));
        let mut request = format!(
            "POST /a HTTP/1.1\r\nHost: a\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        let reply = gateway.wire().ask(request);
        assert_eq!(reply.status(), status, "{flow}: {}", reply.text());
        if status == 200 {
            assert_eq!(reply.body, body, "{flow}");
        }
    }
}

/// The result of steps on a reply without a body does not reveal the length of the reply to a GET (RFC 9110, 8.6).
#[test]
fn the_reply_to_a_head_promises_no_length_that_a_get_would_not_have() {
    let origin = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let body = if request.method() == "HEAD" { "" } else { "{\"a\":1}" };
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n";
            if !peer.try_send(format!("{head}{body}")) {
                return;
            }
        }
    });
    for (flow, length) in [
        ("[{ call: echo }, { payload: { text: \"<{{$body}}>\" } }, { respond: {} }]", None),
        (
            "[{ scatter: { branches: [{ call: echo }, { call: echo }], gather: { into: { json: [] } } } }]",
            None,
        ),
        (
            "[{ call: { upstream: echo, into: r } }, { respond: { json: '{\"b\": {{$r.status}}}' } }]",
            None,
        ),
        ("[{ call: echo }, { respond: {} }]", Some("7")),
    ] {
        let gateway = start(&origin, &format!("main: {flow}\n{OTHER}"));
        let get = gateway.wire().get("/a");
        let head = gateway.wire().ask("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((head.status(), head.get("content-length")), (200, length), "{flow}: {get:?}");
        assert_eq!(head.get("content-type"), get.get("content-type"), "{flow}");
    }
}
