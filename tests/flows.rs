//! The effect of flows' steps on messages, seen from both sides.

use crate::harness::{Gateway, Message, Origin};

const SOAP: &str = "http://schemas.xmlsoap.org/soap/envelope/";

/// A gateway with one flow for all paths, before an origin by the name of `echo`.
#[track_caller]
fn start(origin: &Origin, flow: &str) -> Gateway {
    Gateway::start(yaml(origin, flow))
}

fn yaml(origin: &Origin, flow: &str) -> String {
    format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
upstreams: {{ echo: {{ targets: ["{}"] }}, dead: {{ targets: ["http://127.0.0.1:1"] }} }}
routes: {{ all: {{ match: {{ path: "/{{kind}}/**" }}, flow: main }} }}
flows:
  main: {}
"#,
        origin.url(),
        flow.replace('\n', "\n    "),
    )
}

#[track_caller]
fn post(gateway: &Gateway, content_type: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST /a/b?q=1%202&r=x HTTP/1.1\r\nHost: a\r\nX-Name: value\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

fn soap(body: &str) -> String {
    format!(
        r#"<s:Envelope xmlns:s="{SOAP}"><s:Header><h:a xmlns:h="urn:h">1</h:a></s:Header><s:Body>{body}</s:Body></s:Envelope>"#
    )
}

/// Steps that answer by themselves: the request, and the reply.
#[test]
fn steps_make_the_reply() {
    let orders = r#"<m:orders xmlns:m="urn:m"><m:order id="1">a &amp; b</m:order><m:order id="2">c</m:order></m:orders>"#;
    let json = r#"{"items":[{"price":1.10,"n":"x"},{"price":2e3}],"on":true}"#;
    let cases: &[(&str, &str, &str, &str, &str)] = &[
        (
            "[respond: { text: \"{{ $body }}\" }]",
            "text/plain",
            "hello",
            "text/plain; charset=utf-8",
            "hello",
        ),
        ("[respond: {}]", "text/csv", "a;b", "text/csv", "a;b"),
        ("[]", "text/csv", "a;b", "text/csv", "a;b"),
        (
            "[respond: { text: \"{{ $method }} {{ $path.kind }} {{ $query.q }} {{ $headers.x-name }}\" }]",
            "text/plain",
            "",
            "text/plain; charset=utf-8",
            "POST a 1 2 value",
        ),
        (
            "{ namespaces: { m: 'urn:m' }, steps: [respond: { text: \"{{ //m:order[2] }}/{{ $body/m:order/@id }}\" }] }",
            "text/xml",
            orders,
            "text/plain; charset=utf-8",
            "c/1",
        ),
        (
            "[respond: { json: { all: \"{{ $body.items[0].n }}\" } }]",
            "application/json",
            json,
            "application/json",
            r#"{"all":"x"}"#,
        ),
        (
            "[respond: { json: '{\"p\":{{ $body.items[*].price }},\"on\":{{ $body.on }}}' }]",
            "application/json",
            json,
            "application/json",
            r#"{"p":[1.10,2e3],"on":true}"#,
        ),
        (
            "{ namespaces: { m: 'urn:m' }, steps: [respond: { xml: \"<r at='{{ $query.r }}'>{{ //m:order[1] }}</r>\" }] }",
            "application/xml",
            orders,
            "application/xml",
            r#"<r at='x'><m:order xmlns:m="urn:m" id="1">a &amp; b</m:order></r>"#,
        ),
        (
            "[{ set: { a: '$body.items[0].price', b: { value: '7', type: number } } }, respond: { json: '[{{ $a }},{{ $b }}]' }]",
            "application/json",
            json,
            "application/json",
            "[1.10,7]",
        ),
        (
            "[filter: { when: { cel: 'query.r == \"x\" && body.on' }, then: [respond: { text: yes }], else: [respond: { text: no }] }]",
            "application/json",
            json,
            "text/plain; charset=utf-8",
            "yes",
        ),
        (
            "[filter: { when: { value: $headers.x-name, matches: '^val' }, then: { respond: { text: yes } } }, respond: { text: no }]",
            "text/plain",
            "",
            "text/plain; charset=utf-8",
            "yes",
        ),
        (
            "[switch: { on: $query.r, cases: [{ equals: y, steps: [respond: { text: a }] }, { matches: '^x', steps: [respond: { text: b }] }] }]",
            "text/plain",
            "",
            "text/plain; charset=utf-8",
            "b",
        ),
        (
            "[enrich: { target: '$body.items[1].price', source: '$query.r' }, enrich: { target: $body.on, action: remove }, respond: {}]",
            "application/json",
            json,
            "application/json",
            r#"{"items":[{"price":1.10,"n":"x"},{"price":"x"}]}"#,
        ),
        (
            "{ namespaces: { m: 'urn:m' }, steps: [enrich: { target: '//m:order[1]/@id', source: $query.r }, enrich: { target: '//m:order[2]', source: { xml: '<n/>' }, action: before }, respond: {}] }",
            "text/xml",
            orders,
            "text/xml",
            r#"<m:orders xmlns:m="urn:m"><m:order id="x">a &amp; b</m:order><n/><m:order id="2">c</m:order></m:orders>"#,
        ),
        (
            "[convert: { to: json }, respond: {}]",
            "text/xml",
            orders,
            "application/json",
            r##"{"orders":{"order":[{"@id":"1","#text":"a & b"},{"@id":"2","#text":"c"}]}}"##,
        ),
        (
            "[convert: { to: xml, root: all }, respond: {}]",
            "application/json",
            json,
            "application/xml",
            "<all><items><price>1.10</price><n>x</n></items><items><price>2e3</price></items><on>true</on></all>",
        ),
        (
            "{ namespaces: { m: 'urn:m' }, steps: [foreach: { over: //m:order, steps: [payload: { xml: '<o>{{ string(/*) }}</o>' }] }, respond: {}] }",
            "text/xml",
            orders,
            "text/xml",
            r#"<m:orders xmlns:m="urn:m"><o>a &amp; b</o><o>c</o></m:orders>"#,
        ),
        (
            "[foreach: { over: '$body.items', parallel: 4, steps: [payload: { json: '{\"p\":{{ $body.price }}}' }] }, respond: {}]",
            "application/json",
            json,
            "application/json",
            r#"{"items":[{"p":1.10},{"p":2e3}],"on":true}"#,
        ),
        (
            "[split: { over: '$body.items[*].price', steps: [], gather: { into: { json: [] } } }, respond: {}]",
            "application/json",
            json,
            "application/json",
            "[1.10,2e3]",
        ),
    ];
    let origin = Origin::saying("unused");
    for (flow, content_type, body, made_type, made) in cases {
        let gateway = start(&origin, flow);
        let reply = post(&gateway, content_type, body);
        assert_eq!((reply.status(), reply.text().as_str()), (200, *made), "{flow}");
        assert_eq!(reply.get("content-type"), Some(*made_type), "{flow}");
    }
    assert!(origin.requests().is_empty());
}

/// In a SOAP message, a payload becomes the content of the Body, and the header is kept or changed.
#[test]
fn the_envelope_of_a_soap_message_stays_around_what_is_made() {
    let origin = Origin::saying("unused");
    for (steps, expected) in [
        ("payload: { xml: '<n/>' }", soap("<n/>")),
        ("payload: { from: '$body/*/*' }", soap("<b>1</b><c/>")),
        ("payload: { xml: '<n/>', envelope: drop }", "<n/>".to_owned()),
        (
            "enrich: { target: '$body/a/c', source: '$body/a/b', action: child }",
            soap("<a><b>1</b><c><b>1</b></c></a>"),
        ),
        (
            "soap_header: { remove: ['h:a'], set: ['<h:b xmlns:h=\"urn:h\">{{ $query.r }}</h:b>'] }",
            soap("<a><b>1</b><c/></a>")
                .replace(r#"<h:a xmlns:h="urn:h">1</h:a>"#, r#"<h:b xmlns:h="urn:h">x</h:b>"#),
        ),
        (
            "foreach: { over: '$body/a/*', steps: [payload: { xml: '<o>{{ $body/* }}</o>' }] }",
            soap("<a><o><b>1</b></o><o><c/></o></a>"),
        ),
    ] {
        let flow =
            format!("{{ namespaces: {{ h: 'urn:h' }}, steps: [{{ {steps} }}, respond: {{}}] }}");
        let gateway = start(&origin, &flow);
        let reply = post(&gateway, "text/xml; charset=utf-8", &soap("<a><b>1</b><c/></a>"));
        assert_eq!((reply.status(), reply.text()), (200, expected), "{steps}");
    }
}

/// A stylesheet for a part gets only that part, and its result replaces the part.
#[test]
fn a_stylesheet_may_be_for_a_part_of_the_message() {
    let sheet = r#"<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
        <xsl:param name="p"/><xsl:param name="q"/>
        <xsl:template match="/"><made of="{name(/*)}" p="{$p}" q="{$q}"/></xsl:template></xsl:stylesheet>"#;
    let origin = Origin::saying("unused");
    for (keys, expected) in [
        (
            "of: '$body/*', parameters: { p: $query.r, q: two }",
            soap(r#"<made of="a" p="x" q="two"/>"#),
        ),
        ("parameters: { p: one }", r#"<made of="s:Envelope" p="one" q=""/>"#.to_owned()),
    ] {
        let flow = format!("[{{ xslt: {{ stylesheet: made.xsl, {keys} }} }}, respond: {{}}]");
        let gateway = Gateway::start_beside(yaml(&origin, &flow), &[("made.xsl", sheet)]);
        let reply = post(&gateway, "text/xml", &soap("<a><b>1</b></a>"));
        let text = reply.text();
        let text = text.split_once("?>").map_or(&*text, |(_, rest)| rest).trim();
        assert_eq!((reply.status(), text), (200, &*expected), "{keys}");
    }
}

#[test]
fn a_call_sends_the_message_and_takes_the_reply() {
    let origin = Origin::echo();
    for (flow, line, lines, body) in [
        ("[call: echo]", "POST /a/b?q=1%202&r=x", &[("x-name", Some("value"))][..], "<a>1</a>"),
        (
            "[call: { upstream: echo, method: PUT, path: '/x/{{ /a }}', headers: { set: { x-new: '{{ $query.r }}' }, remove: [x-name] } }]",
            "PUT /x/1",
            &[("x-name", None), ("x-new", Some("x"))],
            "<a>1</a>",
        ),
        (
            "[call: { upstream: echo, query: { z: '{{ $headers.x-name }} ' } }]",
            "POST /a/b?z=value%20",
            &[],
            "<a>1</a>",
        ),
        (
            "[{ header: { set: { x-b: b } } }, { payload: { json: '{\"a\":{{ /a }}}' } }, { call: echo }]",
            "POST /a/b?q=1%202&r=x",
            &[("content-type", Some("application/json")), ("x-b", Some("b"))],
            r#"{"a":"1"}"#,
        ),
        (
            "[call: { upstream: echo, body: /a }]",
            "POST /a/b?q=1%202&r=x",
            &[("content-type", Some("application/xml"))],
            "<a>1</a>",
        ),
    ] {
        let gateway = start(&origin, flow);
        let reply = post(&gateway, "text/xml", "<a>1</a>");
        assert_eq!((reply.status(), reply.text().as_str()), (200, body), "{flow}");
        let seen = origin.requests().pop().unwrap();
        assert_eq!(format!("{} {}", seen.method(), seen.target()), line, "{flow}");
        for (name, value) in lines {
            assert_eq!(seen.get(name), *value, "{flow}");
        }
    }
}

#[test]
fn a_reply_goes_into_a_variable_and_the_message_stays() {
    let origin = Origin::answering(
        "HTTP/1.1 203 Fine\r\nX-Of: reply\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
    );
    let flow = "[{ call: { upstream: echo, into: one } }, { respond: { text: '{{ $one.status }} {{ $one.headers.x-of }} {{ $one.body.a }} {{ $body }} {{ $status }}' } }]";
    let gateway = start(&origin, flow);
    assert_eq!(post(&gateway, "text/plain", "mine").text(), "203 reply 1 mine 203");
}

#[test]
fn branches_run_at_once_and_are_gathered_in_their_order() {
    let origin = Origin::echo();
    let branch = |name: &str| {
        format!("[{{ payload: {{ xml: '<p:{name} xmlns:p=\"urn:p\"/>' }} }}, {{ call: echo }}]")
    };
    let flow = format!(
        "[{{ scatter: {{ branches: [{}, {}, {{ call: echo }}], gather: {{ take: '$body/*[1]', into: '<Aggregated/>' }} }} }}, respond: {{}}]",
        branch("one"),
        branch("two"),
    );
    let gateway = start(&origin, &flow);
    let reply = post(&gateway, "text/xml", &soap("<a/>"));
    let gathered =
        r#"<Aggregated><p:one xmlns:p="urn:p"/><p:two xmlns:p="urn:p"/><a/></Aggregated>"#;
    assert_eq!((reply.status(), reply.text()), (200, soap(gathered)));
    assert_eq!(origin.requests().len(), 3);
}

#[test]
fn faults_go_to_the_nearest_catch_or_to_the_client() {
    let origin = Origin::answering("HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno");
    let caught = "[respond: { text: '{{ $error.kind }} {{ $error.code }} {{ $error.message }}' }]";
    for (steps, said) in [
        ("{ call: dead }", "connect_failure 101503 The upstream cannot be reached."),
        (
            "{ call: { upstream: echo, fault_on: [5xx] } }",
            "upstream_status 0 The upstream refused the request.",
        ),
        ("{ fault: { code: client, reason: 'not {{ $query.r }}' } }", "flow_refused 0 not x"),
        (
            "{ set: { a: { value: $headers.none, required: true } } }",
            "missing 0 A required value is missing.",
        ),
        (
            "{ scatter: { branches: [{ call: dead }], gather: { take: $body } } }",
            "gather_timeout 101504 Not all services replied in time.",
        ),
    ] {
        let gateway = start(&origin, &format!("{{ steps: [{steps}], catch: {caught} }}"));
        let reply = post(&gateway, "text/plain", "x");
        assert_eq!((reply.status(), reply.text().as_str()), (200, said), "{steps}");
    }
    for (steps, content_type, status, said) in [
        ("{ call: dead }", "text/plain", 502, r#""fault":"connect_failure""#),
        ("{ call: dead }", "application/soap+xml", 500, "<soap:Value>soap:Receiver</soap:Value>"),
        (
            "{ fault: { code: client, reason: 'a < b' } }",
            "application/soap+xml",
            500,
            "a &lt; b</soap:Text>",
        ),
        ("{ fault: { code: client, reason: no } }", "application/json", 400, r#""detail":"no""#),
        ("{ fault: { reason: no, status: 409 } }", "text/plain", 409, r#""status":409"#),
        ("{ header: { set: { x-a: '{{ $body }}' } } }", "text/plain", 400, r#""fault":"template""#),
        ("{ log: { message: '{{ /a }}' } }", "text/xml", 400, r#""fault":"request_invalid""#),
    ] {
        let gateway = start(&origin, &format!("[{steps}]"));
        let reply = post(&gateway, content_type, "\u{1}");
        assert_eq!(reply.status(), status, "{steps}");
        assert!(reply.text().contains(said), "{steps}: {}", reply.text());
    }
}

/// A compressed body is decoded if a step reads it, and passes unchanged otherwise.
#[test]
fn coded_bodies_are_decoded_only_for_steps_that_look_inside() {
    use std::io::Write as _;
    let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    coder.write_all(b"{\"a\":1}").unwrap();
    let coded = coder.finish().unwrap();
    let send = |gateway: &Gateway, coding: &str, body: &[u8]| {
        let head = format!(
            "POST /a/b HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        gateway.wire().ask([head.as_bytes(), body].concat())
    };
    let origin = Origin::echo();
    let looks =
        "[{ set: { a: $body.a } }, { call: echo }, { respond: { text: '{{ $a }}{{ $body }}' } }]";
    let gateway = start(&origin, looks);
    let reply = send(&gateway, "gzip", &coded);
    assert_eq!((reply.status(), reply.text().as_str()), (200, "1{\"a\":1}"));
    let seen = origin.requests().pop().unwrap();
    assert_eq!(
        (seen.get("content-encoding"), seen.get("accept-encoding"), seen.text().as_str()),
        (None, None, "{\"a\":1}")
    );
    for (coding, body, status) in
        [("zstd", &coded[..], 415), ("gzip", b"no", 400), ("gzip, br", &coded, 415)]
    {
        assert_eq!(send(&gateway, coding, body).status(), status, "{coding}");
    }
    let gateway = start(&origin, "[{ header: { set: { x-a: b } } }, { call: echo }]");
    assert_eq!(send(&gateway, "zstd", &coded).status(), 200);
    let seen = origin.requests().pop().unwrap();
    assert_eq!(
        (seen.get("content-encoding"), seen.get("accept-encoding")),
        (Some("zstd"), Some("gzip"))
    );
    assert_eq!(seen.body, coded);
}

#[test]
fn a_drop_answers_202_and_nothing() {
    let gateway = start(&Origin::saying("unused"), "[drop: {}]");
    let reply = post(&gateway, "text/plain", "x");
    assert_eq!((reply.status(), reply.text().as_str(), reply.get("content-type")), (202, "", None));
}

/// Runs, faults and time of flows and of their steps are told apart.
#[test]
fn the_metrics_tell_flows_and_steps_apart() {
    let origin = Origin::echo();
    let flow = "[{ filter: { when: '$query.fail', then: [{ fault: { reason: no } }], else: [{ header: { set: { x: y } } }] } }, { call: echo }]";
    let text = yaml(&origin, flow)
        .replace("workers: 1", "workers: 1\nadmin: { address: \"127.0.0.1:0\" }");
    let gateway = Gateway::start(text);
    for (query, status) in [("", 200), ("", 200), ("?fail=1", 500)] {
        assert_eq!(gateway.wire().get(&format!("/a/b{query}")).status(), status);
    }
    let metrics = gateway.admin_get("/metrics").text();
    for line in [
        r#"tidegate_flow_runs_total{flow="main"} 3"#,
        r#"tidegate_flow_faults_total{flow="main",reason="flow_fault"} 1"#,
        r#"tidegate_flow_step_runs_total{flow="main",step="filter $query.fail"} 3"#,
        r#"tidegate_flow_step_runs_total{flow="main",step="filter $query.fail/then/fault"} 1"#,
        r#"tidegate_flow_step_runs_total{flow="main",step="filter $query.fail/else/header x"} 2"#,
        r#"tidegate_flow_step_runs_total{flow="main",step="call echo"} 2"#,
        r#"tidegate_flow_step_faults_total{flow="main",step="filter $query.fail/then/fault",reason="flow_fault"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    let waited = metrics.lines().find(|line| {
        line.starts_with(r#"tidegate_flow_step_call_seconds_total{flow="main",step="call echo"}"#)
    });
    let waited: f64 = waited.unwrap().rsplit_once(' ').unwrap().1.parse().unwrap();
    assert!(waited > 0.0, "{metrics}");
}
