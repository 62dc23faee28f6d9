//! Values in flows: expressions, missing values, and texts in other encodings.

use crate::harness::{Gateway, Message, Origin, tidegate};

const JSON: &str = "application/json";
const XML: &str = "application/xml";

fn yaml(origin: &Origin, flow: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\n\
         upstreams: {{ echo: {{ targets: [\"{}\"] }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, flow: main }} }}\n\
         flows: {{ main: {flow} }}\n",
        origin.url(),
    )
}

#[track_caller]
fn post(gateway: &Gateway, content_type: &str, body: &[u8]) -> Message {
    let length = body.len();
    let mut request = format!(
        "POST /?n=5&t=abc HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
    )
    .into_bytes();
    request.extend_from_slice(body);
    gateway.wire().ask(request)
}

/// Each case: a content type, a body, a flow, and the reply.
#[track_caller]
fn say(cases: &[(&str, &[u8], &str, &str)]) {
    let origin = Origin::saying("unused");
    for (content_type, body, flow, expected) in cases {
        let gateway = Gateway::start(yaml(&origin, flow));
        let reply = post(&gateway, content_type, body);
        assert_eq!((reply.status(), reply.text().as_str()), (200, *expected), "{flow}");
    }
}

fn check(flow: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidegate.yaml");
    std::fs::write(&file, yaml(&Origin::saying("unused"), flow)).unwrap();
    let run = tidegate(&["check", file.to_str().unwrap()]);
    (run.code, run.stdout + &run.stderr)
}

/// A text that begins with a function is an expression wherever one is written.
#[test]
fn a_function_begins_an_expression() {
    let body = br#"{"l":[1,2,3.5],"a":"x"}"#;
    say(&[
        (JSON, body, "[{ set: { s: 'sum($body.l)' } }, { respond: { text: '{{ $s }}' } }]", "6.5"),
        (JSON, body, "[{ payload: { from: \"concat($body.a, '-', count($body.l))\" } }]", "x-3"),
        (
            JSON,
            body,
            "[{ switch: { on: 'count($body.l)', cases: [{ equals: '3', steps: [{ respond: { text: three } }] }] } }]",
            "three",
        ),
        (
            JSON,
            body,
            "[{ filter: { when: 'not($body.none)', then: [{ respond: { text: none } }] } }]",
            "none",
        ),
        (
            JSON,
            body,
            "[{ set: { s: 'summary(1)' } }, { respond: { text: '{{ $s }}' } }]",
            "summary(1)",
        ),
        (
            JSON,
            body,
            "[{ set: { s: { text: 'sum(1)' } } }, { respond: { text: '{{ $s }}' } }]",
            "sum(1)",
        ),
    ]);
    for (value, warned) in [
        ("'total of $body.l'", true),
        ("'id {{ $body.a }}'", true),
        ("'a//b'", true),
        ("{ text: 'total of $body.l' }", false),
        ("'costs 5 $'", false),
        ("'$body.l'", false),
    ] {
        let (code, said) = check(&format!("[{{ set: {{ v: {value} }} }}, {{ respond: {{}} }}]"));
        assert_eq!((code, said.contains("this is literal text")), (Some(0), warned), "{said}");
    }
    let (code, said) = check("[{ set: { v: 'sum($body.l' } }, { respond: {} }]");
    assert_eq!(code, Some(1), "{said}");
}

#[test]
fn a_source_that_finds_nothing_changes_nothing() {
    let enrich = |keys: &str| format!("[{{ enrich: {{ {keys} }} }}, {{ respond: {{}} }}]");
    let variable = "[{ set: { v: $body.a } }, { enrich: { source: $body.none, target: $v } }, { respond: { text: '<{{ $v }}>' } }]";
    say(&[
        (XML, b"<r><a>1</a></r>", &enrich("source: //none, target: //a"), "<r><a>1</a></r>"),
        (
            XML,
            b"<r><a>1</a></r>",
            &enrich("source: //none, target: //a, action: child"),
            "<r><a>1</a></r>",
        ),
        (JSON, br#"{"a":1}"#, &enrich("source: $body.none, target: $body.a"), r#"{"a":1}"#),
        (JSON, br#"{"a":1}"#, variable, "<>"),
    ]);
}

#[test]
fn conversions_keep_what_the_message_says() {
    let to_json = |more: &str| format!("[{{ convert: {{ to: json{more} }} }}]");
    let arrays = to_json(", arrays: [orders/order]");
    say(&[
        (XML, b"<orders/>", &arrays, r#"{"orders":{"order":[]}}"#),
        (XML, b"<orders n='0'/>", &arrays, r#"{"orders":{"@n":"0","order":[]}}"#),
        (XML, b"<orders><order>1</order></orders>", &arrays, r#"{"orders":{"order":["1"]}}"#),
        (
            XML,
            b"<a><b>12E5</b><c>12.5</c><d>true</d></a>",
            &to_json(", types: true"),
            r#"{"a":{"b":"12E5","c":12.5,"d":true}}"#,
        ),
    ]);
}

#[test]
fn texts_of_other_encodings_are_read() {
    let text = "[{ respond: { text: '{{ $body }}' } }]";
    let path = "[{ respond: { text: '{{ /a }}' } }]";
    say(&[
        (JSON, b"\xef\xbb\xbf{\"a\":\"1\"}", "[{ respond: { text: '{{ $body.a }}' } }]", "1"),
        (JSON, b"\xef\xbb\xbf{\"a\":\"1\"}", "[{ script: { jq: '.a' } }]", "\"1\""),
        (
            "text/plain; charset=windows-1252",
            b"\x80 \x93\xe9\x94",
            text,
            "\u{20ac} \u{201c}\u{e9}\u{201d}",
        ),
        ("text/xml; charset=windows-1252", b"<a>\x80\xe9</a>", path, "\u{20ac}\u{e9}"),
        ("text/xml; charset=koi8-r", b"<a>\xd0</a>", path, "\u{43f}"),
        (XML, b"<?xml version='1.0' encoding='windows-1251'?><a>\xef</a>", path, "\u{43f}"),
        ("text/plain; charset=Shift_JIS", b"\x82\xa0", text, "\u{3042}"),
        (
            XML,
            b"<?xml version='1.0' encoding='windows-1252'?><a>\x80\xe9</a>",
            path,
            "\u{20ac}\u{e9}",
        ),
    ]);
}

/// A SOAP fault that the operator takes as a fault has Synapse's code.
#[test]
fn a_soap_fault_has_a_code() {
    let body = "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body><s:Fault><faultcode>s:Server</faultcode><faultstring>no</faultstring></s:Fault></s:Body></s:Envelope>";
    let flow = "{ steps: [{ call: { upstream: echo, fault_on: [5xx] } }], catch: [{ respond: { text: '{{ $error.code }}' } }] }";
    for (content_type, body, code) in [("text/xml", body, "500000"), ("text/plain", "no", "0")] {
        let origin = Origin::answering(format!(
            "HTTP/1.1 500 No\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let gateway = Gateway::start(yaml(&origin, flow));
        assert_eq!(post(&gateway, XML, b"<a/>").text(), code);
    }
}

#[test]
fn all_lines_of_a_header_and_all_parameters_of_a_name_count() {
    let names = "$headers.x-a|$headers.cookie|$headers.set-cookie|$request.headers.X-A|$query.q|$headers.x-latin|$headers.none";
    let template = names.split('|').map(|name| format!("[{{{{ {name} }}}}]")).collect::<String>();
    let origin = Origin::saying("unused");
    let cel = "headers['x-a'] + query['q'] + request.headers['x-a']";
    let steps = format!(
        "[{{ set: {{ c: {{ cel: \"{cel}\" }} }} }}, {{ respond: {{ text: '{template}{{{{ $c }}}}' }} }}]"
    );
    let gateway = Gateway::start(yaml(&origin, &steps));
    let lines = b"X-A: 1\r\nCookie: a=1\r\nx-a: 2, 3\r\nCookie: b=2\r\nSet-Cookie: a, b\r\nSet-Cookie: c\r\nX-Latin: \xe9\r\n\r\n";
    let ask = |query: &str| {
        let start = format!("GET /?{query} HTTP/1.1\r\nHost: a\r\n").into_bytes();
        gateway.wire().ask([&start[..], lines].concat())
    };
    let told = ask("q=x&p=1&q=%C3%A9");
    assert_eq!(told.text(), "[1, 2, 3][a=1; b=2][a, b\nc][1, 2, 3][x, é][é][]1, 2, 3x, é1, 2, 3");
    assert_eq!(ask("q=%FF").status(), 400, "it is not text");
    let gateway = Gateway::start(yaml(
        &origin,
        "[{ respond: { headers: { x-b: '{{ $headers.set-cookie }}' } } }]",
    ));
    let start = b"GET / HTTP/1.1\r\nHost: a\r\n";
    assert_eq!(gateway.wire().ask([&start[..], lines].concat()).status(), 400);
}

#[test]
fn texts_of_encodings_that_are_not_known_are_refused() {
    let origin = Origin::saying("unused");
    for (content_type, body, step, why) in [
        (
            "text/xml; charset=x-unknown",
            "<a>1</a>",
            "/a",
            "The charset 'x-unknown' is not supported",
        ),
        (
            "application/xml",
            "<?xml version='1.0' encoding='x-unknown'?><a>1</a>",
            "/a",
            "x-unknown",
        ),
        ("text/xml; charset=utf-16", "<a>1</a>", "/a", "not in the charset 'utf-16'"),
        ("text/plain; charset=x-unknown", "1", "$body", "The charset 'x-unknown' is not supported"),
        ("text/csv; charset=utf-7", "+AGE-", "$body", "The charset 'utf-7' is not supported"),
        ("text/plain; charset=utf-16", "abc", "$body", "not in the charset 'utf-16'"),
        ("application/x-a; charset=shift_jis", "\u{81}", "$body", "not in the charset 'shift_jis'"),
    ] {
        let steps = format!("[{{ respond: {{ text: '{{{{ {step} }}}}' }} }}]");
        let gateway = Gateway::start(yaml(&origin, &steps));
        let reply = post(&gateway, content_type, body.as_bytes());
        assert_eq!(reply.status(), 400, "{content_type}: {}", reply.text());
        let caught = "[{ respond: { text: '{{ $error.detail }}' } }]";
        let steps = format!("{{ steps: {steps}, catch: {caught} }}");
        let gateway = Gateway::start(yaml(&origin, &steps));
        let reply = post(&gateway, content_type, body.as_bytes());
        assert!(reply.text().contains(why), "{content_type}: {}", reply.text());
    }
}

/// A body that no step uses passes unchanged, whatever its charset, even if it is not text.
#[test]
fn bytes_that_nobody_reads_pass() {
    let origin = Origin::echo();
    let passes = Gateway::start(yaml(&origin, "[{ call: echo }]"));
    let kept = Gateway::start(yaml(&origin, "[{ payload: { from: $body } }, { call: echo }]"));
    for content_type in ["text/plain; charset=x-unknown", "text/plain; charset=utf-7"] {
        let reply = post(&passes, content_type, b"+AGE-\xff");
        assert_eq!((reply.status(), &reply.body[..]), (200, &b"+AGE-\xff"[..]), "{content_type}");
        assert_eq!(post(&kept, content_type, b"+AGE-").status(), 400, "{content_type}");
    }
    for content_type in [
        "application/octet-stream; charset=binary",
        "image/png; charset=x",
        "text/plain",
        "text/plain; charset=utf-8",
    ] {
        let reply = post(&kept, content_type, b"\x89\xff\0");
        assert_eq!((reply.status(), &reply.body[..]), (200, &b"\x89\xff\0"[..]), "{content_type}");
    }
}

/// Plain XML, JSON and text are put into an envelope, and paths find the same nodes in all of them.
#[test]
fn every_message_is_seen_as_an_envelope() {
    const SOAP: &[u8] = b"<s:Envelope xmlns:s='http://schemas.xmlsoap.org/soap/envelope/'><s:Header><h/></s:Header><s:Body><order><id>7</id></order></s:Body></s:Envelope>";
    const PLAIN: &[u8] = b"<?xml version='1.0'?><order><id>7</id></order>";
    let id = "[{ respond: { text: '{{ $infoset_body/order/id }} {{ count($infoset/soap:Envelope/soap:Body/*) }} {{ count($infoset//h) }}' } }]";
    let json = "[{ respond: { text: '{{ $infoset//jsonObject/a }} {{ count($infoset//l) }} {{ $infoset_payload.a }}' } }]";
    let list = "[{ respond: { text: '{{ count($infoset_body/jsonArray/jsonElement) }}' } }]";
    let text = "[{ respond: { text: '{{ $infoset_body/* }}' } }]";
    let enrich = "[{ enrich: { source: { text: '8' }, target: '$infoset_body/order/id', action: replace } }, { respond: {} }]";
    let changed = "[{ enrich: { source: { xml: '<a>8</a>' }, target: '$infoset//a', action: replace } }, { respond: {} }]";
    say(&[
        ("text/xml", SOAP, id, "7 1 1"),
        (XML, PLAIN, id, "7 1 0"),
        (JSON, br#"{"a": 1, "l": [1, 2]}"#, json, "1 2 1"),
        (JSON, b"[1, 2, 3]", list, "3"),
        (JSON, b"[]", list, "0"),
        ("text/plain", b"a < b", text, "a < b"),
        ("text/plain", b"", text, ""),
        (XML, b"<order><id>7</id></order>", enrich, "<order>8</order>"),
        (JSON, br#"{"a": "x", "l": [1]}"#, changed, r#"{"a":8,"l":[1]}"#),
    ]);
}

/// A message goes into an envelope of a version, from one version into another, and out of it.
#[test]
fn messages_go_into_envelopes_and_out_of_them() {
    let envelope = |uri: &str, header: &str, inside: &str| {
        let header = if header.is_empty() {
            String::new()
        } else {
            format!("<soapenv:Header>{header}</soapenv:Header>")
        };
        format!(
            "<soapenv:Envelope xmlns:soapenv=\"{uri}\">{header}<soapenv:Body>{inside}</soapenv:Body></soapenv:Envelope>"
        )
    };
    let (first, second) =
        ("http://schemas.xmlsoap.org/soap/envelope/", "http://www.w3.org/2003/05/soap-envelope");
    let soap = envelope(first, "<h/>", "<a/>");
    let to = |form: &str| format!("[{{ convert: {{ to: {form} }} }}, {{ respond: {{}} }}]");
    let origin = Origin::saying("unused");
    for (content_type, body, form, kind, expected) in [
        (XML, "<a/>".to_owned(), "soap11", "text/xml; charset=utf-8", envelope(first, "", "<a/>")),
        (
            XML,
            "<a/>".to_owned(),
            "soap12",
            "application/soap+xml; charset=utf-8",
            envelope(second, "", "<a/>"),
        ),
        (
            "text/xml",
            soap.clone(),
            "soap12",
            "application/soap+xml; charset=utf-8",
            envelope(second, "<h/>", "<a/>"),
        ),
        ("text/xml", soap.clone(), "soap11", "text/xml", soap.clone()),
        ("text/xml", soap.clone(), "pox", XML, "<a/>".to_owned()),
        (XML, "<a/>".to_owned(), "pox", XML, "<a/>".to_owned()),
        (
            JSON,
            r#"{"n":1}"#.to_owned(),
            "soap11",
            "text/xml; charset=utf-8",
            envelope(first, "", "<jsonObject><n>1</n></jsonObject>"),
        ),
        (JSON, r#"{"n":1}"#.to_owned(), "pox", JSON, r#"{"n":1}"#.to_owned()),
    ] {
        let gateway = Gateway::start(yaml(&origin, &to(form)));
        let reply = post(&gateway, content_type, body.as_bytes());
        let got = (reply.status(), reply.get("content-type").unwrap_or(""), reply.text());
        assert_eq!(got, (200, kind, expected), "{form} of {body}");
    }
    let gateway = Gateway::start(yaml(&origin, &to("soap11")));
    for body in [&b"\xff\xfe\x00"[..], b"{\"a\": \"\\u0000\"}", b"{"] {
        let kind = if body[0] == b'{' { JSON } else { "application/octet-stream" };
        let reply = post(&gateway, kind, body);
        assert_eq!(reply.status(), 400, "{}", reply.text());
    }
}

/// A status that is computed and empty is that of the message.
#[test]
fn an_empty_status_is_the_messages_own() {
    let flow = "[{ respond: { status: '{{ $query.s }}', text: '{{ $request.path }}' } }]";
    let origin = Origin::saying("unused");
    let gateway = Gateway::start(yaml(&origin, flow));
    for (target, status) in [("/a/b?s=418", 418), ("/a/b", 200), ("/a/b?s=", 200)] {
        let reply = gateway.wire().get(target);
        assert_eq!(reply.status(), status, "{target}: {}", reply.text());
        assert_eq!(reply.text(), target);
    }
}
