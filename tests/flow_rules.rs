//! The rules of flows, sentence by sentence, for a reader who knows only the guide.

use std::time::{Duration, Instant};

use crate::harness::{Gateway, Message, Origin};

const SOAP: &str = "http://schemas.xmlsoap.org/soap/envelope/";
const SOAP_12: &str = "http://www.w3.org/2003/05/soap-envelope";

/// A gateway whose route runs `main`, before an origin named `echo`; `flows` are all its flows.
fn start(origin: &Origin, flows: &str) -> Gateway {
    start_beside(origin, flows, &[])
}

fn start_beside(origin: &Origin, flows: &str, files: &[(&str, &str)]) -> Gateway {
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\n\
         upstreams: {{ echo: {{ targets: [\"{}\"] }}, dead: {{ targets: [\"http://127.0.0.1:1\"] }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/{{kind}}/**\" }}, flow: main }} }}\nflows:\n{}\n",
        origin.url(),
        flows.lines().map(|line| format!("  {line}\n")).collect::<String>(),
    );
    Gateway::start_beside(yaml, files)
}

#[track_caller]
fn post(gateway: &Gateway, content_type: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST /a%20b/c?q=1%202&r=x+y HTTP/1.1\r\nHost: a\r\nX-Name: value\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

fn soap(body: &str) -> String {
    format!(
        r#"<s:Envelope xmlns:s="{SOAP}"><s:Header><h:a xmlns:h="urn:h">1</h:a></s:Header><s:Body>{body}</s:Body></s:Envelope>"#
    )
}

/// Answers with this status and an own header, and with the received body.
fn answering(status: &'static str) -> Origin {
    Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            let content_type = request.get("content-type").unwrap_or("text/plain").to_owned();
            let length = request.body.len();
            let head = format!(
                "HTTP/1.1 {status} x\r\nX-Of: reply\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
            );
            if !peer.try_send(head) || !peer.try_send(&request.body) {
                return;
            }
        }
    })
}

const TEXT: &str = "text/plain";
const JSON: &str = "application/json";
const XML: &str = "application/xml";

/// Flows that answer with a text: content type, body, flow, expected answer.
#[track_caller]
fn say(cases: &[(&str, &str, &str, &str)]) {
    let origin = answering("203");
    for (content_type, body, flow, said) in cases {
        let gateway = start(&origin, &format!("main: {flow}"));
        let reply = post(&gateway, content_type, body);
        assert_eq!(reply.text(), *said, "{flow}");
    }
}

/// One template after a `set`, for the reader's sake.
fn text_of(expression: &str) -> String {
    let quoted = if expression.starts_with('{') {
        expression.to_owned()
    } else {
        format!("\"{expression}\"")
    };
    format!("[{{ set: {{ v: {quoted} }} }}, {{ respond: {{ text: '{{{{ $v }}}}' }} }}]")
}

#[test]
fn a_text_is_an_expression_by_its_first_character() {
    let orders =
        r#"<m:os xmlns:m="urn:m"><m:o id="1"><p>5</p></m:o><m:o id="2"><p>6</p></m:o></m:os>"#;
    let json = r#"{"items":[{"price":1.10},{"price":20}],"a":{"b":[1,2]}}"#;
    for (content_type, body, expression, said) in [
        (TEXT, "x", "hello", "hello"),
        (TEXT, "x", "a $body", "a $body"),
        (TEXT, "x", "{ text: '$body' }", "$body"),
        (TEXT, "x", "$body", "x"),
        (TEXT, "x", "$method", "POST"),
        (TEXT, "x", "$status", ""),
        (TEXT, "x", "$path.kind", "a b"),
        (TEXT, "x", "$query.q", "1 2"),
        (TEXT, "x", "$query.r", "x y"),
        (TEXT, "x", "$query.none", ""),
        (TEXT, "x", "$headers.X-Name", "value"),
        (TEXT, "x", "$request.headers.x-name", "value"),
        (TEXT, "x", "$request.body", "x"),
        (XML, orders, "/m:os/m:o[2]/p", "6"),
        (XML, orders, "//m:o/p", "5"),
        (XML, orders, "$body/m:o[1]/@id", "1"),
        (XML, orders, "$envelope/m:os/m:o[2]/@id", "2"),
        (XML, orders, "{ xpath: 'count(//m:o)' }", "2"),
        (XML, orders, "{ xpath: 'sum($body//p) + 1' }", "12"),
        (XML, orders, "$body.items", ""),
        (JSON, json, "$body.items[0].price", "1.10"),
        (JSON, json, "$body..price", "1.10"),
        (JSON, json, "$body.items[?@.price > 2].price", "20"),
        (JSON, json, "{ json: '$.a.b[1]' }", "2"),
        (JSON, json, "{ xpath: 'count($body.items) + sum($body.a.b)' }", "5"),
        (JSON, json, "{ xpath: 'sum($body..price) > 21' }", "true"),
        ("text/plain; charset=utf-16le", "h\0i\0", "$body", "hi"),
        (JSON, json, "$body.a", r#"{"b":[1,2]}"#),
        (JSON, json, "$body/a/b", ""),
        (JSON, json, "{ cel: 'body.items[1].price + 1' }", "21"),
        (JSON, json, "{ cel: 'headers[\"x-name\"] + path.kind + query.q' }", "valuea b1 2"),
    ] {
        let flow = format!("{{ namespaces: {{ m: 'urn:m' }}, steps: {} }}", text_of(expression));
        say(&[(content_type, body, &flow, said)]);
    }
    let header = "{ namespaces: { h: 'urn:h' }, steps: [{ set: { v: $header/h:a, w: '$body/*' } }, { call: { upstream: echo, body: $body } }, { respond: { text: '{{ $v }}{{ $w/n }}{{ $status }}{{ $request.body/o/n }}' } }] }";
    say(&[("text/xml", &soap("<o><n>2</n></o>"), header, "122032")]);
}

#[test]
fn json_is_what_the_client_wrote() {
    let last = |flow: &str| format!("{{ duplicate_members: last, steps: {flow} }}");
    let long = "[1.10, 1E400, 12345678901234567890123, -0.0, 1e-7]";
    let keep = "[{ set: { v: $body } }, { respond: { json: '{\"v\":{{ $v }}}' } }]";
    say(&[
        (JSON, long, keep, r#"{"v":[1.10, 1E400, 12345678901234567890123, -0.0, 1e-7]}"#),
        (JSON, " {\"a\" : 1}\n", "[{ set: { v: $body.a } }, { respond: {} }]", " {\"a\" : 1}\n"),
        (JSON, r#"{"a":1,"a":2}"#, &last(&text_of("$body.a")), "2"),
        (JSON, r#"{"a":1,"a":2}"#, &last(&text_of("{ cel: body.a }")), "2"),
        (
            JSON,
            r#"{"n":[{"p":1},{"p":2}],"o":[]}"#,
            "[{ respond: { json: '[{{ $body.n[0].p }},{{ $body.n[*].p }},{{ $body..x }},{{ $body.o }}]' } }]",
            "[1,[1,2],[],[]]",
        ),
    ]);
    let nested = |levels: usize| ["[".repeat(levels), "]".repeat(levels)].concat();
    let origin = answering("200");
    let gateway = start(&origin, &format!("main: {}", text_of("$body[0]")));
    for (levels, status) in [(512, 200), (513, 400)] {
        assert_eq!(post(&gateway, JSON, &nested(levels)).status(), status, "{levels}");
    }
}

#[test]
fn null_false_nought_and_nothing_are_false() {
    let when = |value: &str, holds: bool| {
        let flow = "[{ filter: { when: $body.v, then: [{ respond: { text: yes } }], else: [{ respond: { text: no } }] } }]";
        say(&[(JSON, &format!("{{\"v\":{value}}}"), flow, if holds { "yes" } else { "no" })]);
    };
    for value in ["null", "false", "0", "0.0", "\"\"", "[]", "{}"] {
        when(value, false);
    }
    for value in ["true", "1", "\"false\"", "[0]", "{\"a\":null}"] {
        when(value, true);
    }
    let filter = |when: &str| {
        format!(
            "[{{ filter: {{ when: {when}, then: [{{ respond: {{ text: yes }} }}] }} }}, {{ respond: {{ text: no }} }}]"
        )
    };
    say(&[
        (JSON, "{}", &filter("$body.none"), "no"),
        (XML, "<a><b/></a>", &filter("/a/b"), "yes"),
        (XML, "<a><b/></a>", &filter("{ xpath: 'string(/a/b)' }"), "no"),
        (TEXT, "abc", &filter("{ value: $body, matches: 'b' }"), "yes"),
        (TEXT, "abc", &filter("{ value: $body, matches: '^b' }"), "no"),
    ]);
}

#[test]
fn a_template_writes_each_value_as_its_place_needs_it() {
    let orders = r#"<m:os xmlns:m="urn:m" xmlns:x="http://www.w3.org/2001/XMLSchema-instance" xmlns:t="urn:t"><m:o x:type="t:big" id="&lt;1">a &amp; b<p/></m:o></m:os>"#;
    let moved = r#"<r><m:o xmlns:m="urn:m" xmlns:x="http://www.w3.org/2001/XMLSchema-instance" xmlns:t="urn:t" x:type="t:big" id="&lt;1">a &amp; b<p/></m:o></r>"#;
    let namespaces = |steps: &str| format!("{{ namespaces: {{ m: 'urn:m' }}, steps: [{steps}] }}");
    say(&[
        (XML, orders, &namespaces("{ respond: { xml: '<r>{{ //m:o }}</r>' } }"), moved),
        (
            XML,
            orders,
            &namespaces("{ respond: { xml: '<r>{{ //m:o/@id }}{{ //m:o/text() }}</r>' } }"),
            "<r>&lt;1a &amp; b</r>",
        ),
        (
            XML,
            orders,
            &namespaces("{ respond: { xml: \"<r a='{{ //m:o }}'/>\" } }"),
            "<r a='a &amp; b'/>",
        ),
        (
            XML,
            orders,
            &namespaces(
                "{ respond: { json: '[{{ //m:o }},\"<{{ //m:o }}>\",{{ count(//m:o) }}]' } }",
            ),
            r#"["a & b","<a & b>",1]"#,
        ),
        (XML, orders, &namespaces("{ respond: { text: '{{ //m:o/@id }}' } }"), "<1"),
        (
            XML,
            "<a><b>1</b><b>2</b></a>",
            "[{ payload: { from: '/a/b' } }, { respond: {} }]",
            "<b>1</b><b>2</b>",
        ),
        (
            XML,
            "<a><b>1</b><b>2</b></a>",
            "[{ respond: { json: { all: '{{ /a/b }}', text: plain } } }]",
            r#"{"all":"1","text":"plain"}"#,
        ),
        (
            JSON,
            r#"{"a":"x\ny \"z\""}"#,
            "[{ respond: { json: '{\"in\":\"<{{ $body.a }}>\",\"as\":{{ $body.a }},\"all\":{{ $body }}}' } }]",
            r#"{"in":"<x\ny \"z\">","as":"x\ny \"z\"","all":{"a":"x\ny \"z\""}}"#,
        ),
        (
            JSON,
            r#"{"a":{"b":1}}"#,
            "[{ respond: { xml: '<r>{{ $body.a }}</r>' } }]",
            r#"<r>{"b":1}</r>"#,
        ),
        (
            TEXT,
            "]]>",
            "[{ respond: { xml: '<r><![CDATA[{{ $body }}]]></r>' } }]",
            "<r><![CDATA[]]]]>&gt;<![CDATA[]]></r>",
        ),
    ]);
}

#[test]
fn what_is_called_and_what_is_answered() {
    let origin = answering("203");
    // Path, query and headers are templates, literal outside their braces.
    let flow = "main: [{ call: { upstream: echo, method: PUT, path: '/$body/{{ $body }}', query: { 'a b': '{{ $query.q }}', c: $body }, headers: { set: { x-new: '$body {{ $body }}', x-name: other }, remove: [accept] } } }]";
    let reply = post(&start(&origin, flow), TEXT, "x y");
    assert_eq!(
        (reply.status(), reply.get("x-of"), reply.get("x-name")),
        (203, Some("reply"), None)
    );
    let seen = origin.request();
    assert_eq!(
        (seen.method(), seen.target(), seen.get("x-new"), seen.get("x-name")),
        ("PUT", "/$body/x%20y?a%20b=1%202&c=%24body", Some("$body x y"), Some("other"))
    );
    origin.forget();
    // A second call has the request's headers and nothing of the first reply.
    let flow = "main: [{ header: { set: { x-a: b }, remove: [x-name] } }, { call: echo }, { call: { upstream: echo, path: /second } }]";
    post(&start(&origin, flow), TEXT, "x");
    let second = origin.requests().pop().unwrap();
    assert_eq!(
        (second.target(), second.get("x-a"), second.get("x-name"), second.get("x-of")),
        ("/second", Some("b"), None, None)
    );
    assert_eq!((second.get("content-type"), second.text().as_str()), (Some(TEXT), "x"));
    // `respond` keeps the status of the message, also when it makes a body.
    for (steps, status, body) in [
        ("{ call: echo }, { respond: { text: new } }", 203, "new"),
        ("{ call: echo }, { respond: { status: 299, text: new } }", 299, "new"),
        ("{ call: echo }, { payload: { text: new } }", 203, "new"),
        ("{ call: { upstream: echo, into: r } }, { respond: {} }", 200, "x"),
        ("{ respond: { text: new } }", 200, "new"),
        ("{ call: echo }, { drop: {} }", 202, ""),
    ] {
        let reply = post(&start(&origin, &format!("main: [{steps}]")), TEXT, "x");
        assert_eq!((reply.status(), reply.text().as_str()), (status, body), "{steps}");
    }
    let flow = "main: [{ call: echo }, { header: { set: { x-of: mine }, add: { x-more: '{{ $body }}' }, remove: [content-type] } }, { respond: { headers: { x-last: '{{ $status }}' } } }]";
    let reply = post(&start(&origin, flow), TEXT, "x");
    let lines = ["x-of", "x-more", "x-last", "content-type"].map(|name| reply.get(name));
    assert_eq!(lines, [Some("mine"), Some("x"), Some("203"), None]);
}

#[test]
fn payloads_of_soap_messages_replace_the_body_or_everything() {
    let (own, other) =
        (soap("<a/>"), format!("<e:Envelope xmlns:e=\"{SOAP_12}\"><e:Body/></e:Envelope>"));
    let origin = answering("200");
    for (step, made, content_type) in [
        ("payload: { xml: '<n/>' }", soap("<n/>"), "text/xml"),
        ("payload: { from: 'x < y' }", soap("x &lt; y"), "text/xml"),
        (
            "payload: { from: $method, envelope: drop }",
            "POST".to_owned(),
            "text/plain; charset=utf-8",
        ),
        ("payload: { json: '{\"a\":1}' }", "{\"a\":1}".to_owned(), JSON),
        ("payload: { text: hi }", "hi".to_owned(), "text/plain; charset=utf-8"),
        ("payload: { file: made.txt, content_type: text/csv }", "a;b\n".to_owned(), "text/csv"),
        (
            &format!("payload: {{ xml: '{other}' }}"),
            other.clone(),
            "application/soap+xml; charset=utf-8",
        ),
        (
            "payload: { xml: '<n/>', content_type: application/x+xml }",
            soap("<n/>"),
            "application/x+xml",
        ),
        (
            "enrich: { target: '$body/*', source: '$header/*', action: after }",
            soap("<a/><h:a xmlns:h=\"urn:h\">1</h:a>"),
            "text/xml",
        ),
        (
            "enrich: { target: '$body/a', source: 'x < y', action: child }",
            soap("<a>x &lt; y</a>"),
            "text/xml",
        ),
        (
            "enrich: { target: '$header/*', action: remove }",
            soap("<a/>").replace("<h:a xmlns:h=\"urn:h\">1</h:a>", ""),
            "text/xml",
        ),
    ] {
        let gateway = start_beside(
            &origin,
            &format!("main: [{{ {step} }}, {{ respond: {{}} }}]"),
            &[("made.txt", "a;b\n")],
        );
        let reply = post(&gateway, "text/xml", &own);
        let text = reply.text().replace("<s:Header></s:Header>", "<s:Header/>");
        let made = made.replace("<s:Header></s:Header>", "<s:Header/>");
        assert_eq!((reply.status(), text), (200, made), "{step}");
        assert_eq!(reply.get("content-type"), Some(content_type), "{step}");
    }
}

/// The Body of a kept message means its content, so that the client gets its own message back.
#[test]
fn the_body_of_one_soap_message_goes_into_another() {
    let origin = answering("200");
    for version in [SOAP, SOAP_12] {
        let of = |body: &str| soap(body).replace(SOAP, version);
        let content_type = if version == SOAP { "text/xml" } else { "application/soap+xml" };
        let own = of("<m:a xmlns:m=\"urn:m\"> x <b/></m:a>");
        for (steps, made) in [
            (
                "{ set: { original: $body } }, { payload: { xml: '<hello>world</hello>' } }, { call: echo }, { payload: { from: $original } }",
                own.clone(),
            ),
            ("{ call: echo }, { payload: { from: $request.body } }", own.clone()),
            ("{ payload: { from: $body } }", own.clone()),
            ("{ enrich: { target: $body, source: { xml: '<n/>' } } }", of("<n/>")),
            ("{ enrich: { target: $body, source: '$body/*/b' } }", of("<b/>")),
            (
                "{ set: { v: $body } }, { payload: { xml: '<n/>' } }, { enrich: { target: $body, source: $v } }",
                own.clone(),
            ),
            (
                "{ enrich: { target: $body, source: { xml: '<n/>' }, action: child } }",
                own.replace("</s:Body>", "<n/></s:Body>"),
            ),
        ] {
            let gateway = start(&origin, &format!("main: [{steps}, {{ respond: {{}} }}]"));
            let reply = post(&gateway, content_type, &own);
            let text = reply.text().replace(&format!("<s:Body xmlns:s=\"{version}\">"), "<s:Body>");
            assert_eq!((reply.status(), text), (200, made), "{steps}");
        }
    }
}

/// Issue 21: steps that copy elements unchanged read only the first levels of a message, which is then not parsed further. Their
/// result equals that for a whole tree, which the step that searches for `never` requires.
#[test]
fn what_is_copied_is_the_same_of_a_message_parsed_in_part() {
    let origin = answering("200");
    let deep = "<b>1<c at='x &amp; y'><d/> z </c></b>";
    let contents = [
        format!("<a>{deep}</a>"),
        format!("<m:a xmlns:m='urn:m' xmlns:n='urn:n'><m:b><n:c n:d='1'>{deep}</n:c></m:b></m:a>"),
        format!("<a xmlns='urn:m'><b xmlns=''>{deep}</b></a><a xmlns='urn:n'>{deep}</a>"),
        format!(
            "<a xmlns:i='http://www.w3.org/2001/XMLSchema-instance'><b><c i:type='t'>{deep}</c></b></a>"
        ),
        "<a><b><c>&#233; &lt; &#x41;<!-- - --><?t d?><![CDATA[<&]]></c></b></a>".to_owned(),
        "<a><b><c>1</c></d></a>".to_owned(),
        "<a><b><c>&none;</c></b></a>".to_owned(),
        "text".to_owned(),
        String::new(),
    ];
    let mut count = 0;
    for steps in [
        "{ set: { kept: $body } }, { payload: { xml: '<n/>' } }, { call: echo }, { payload: { from: $kept } }",
        "{ call: echo }, { payload: { from: $request.body } }",
        "{ payload: { xml: '<w x=\"{{ $method }}\">{{ $body/* }}</w>' } }",
        "{ payload: { xml: '<w xmlns=\"urn:w\">{{ $body/*/* }}</w>', envelope: drop } }",
        "{ filter: { when: '$body/*[1]/b', then: [{ set: { kept: '$body/*[1]/b' } }, { respond: { from: $kept } }] } }",
        "{ scatter: { branches: [{ call: echo }, { payload: { from: $body } }], gather: { take: '$body/*', into: '<all/>' } } }",
    ] {
        let flow = |first| format!("main: [{first}{steps}, {{ respond: {{}} }}]");
        let part = start(&origin, &flow(""));
        let whole = start(&origin, &flow("{ log: { message: '{{ $body//never }}' } }, "));
        for content in &contents {
            let bare = format!("<Envelope xmlns='{SOAP}'><Body>{content}</Body></Envelope>");
            for own in [soap(content), bare, content.clone()] {
                let [part, whole] = [&part, &whole].map(|gateway| post(gateway, "text/xml", &own));
                let made = |reply: &Message| (reply.status() == 200).then(|| reply.text());
                assert_eq!(made(&part), made(&whole), "{steps} of {own}");
                count += usize::from(part.status() == 200);
            }
        }
    }
    assert!(count > 80, "{count} were made");
}

#[test]
fn formats_are_converted_and_parts_are_changed() {
    let steps = |step: &str| format!("[{{ {step} }}, {{ respond: {{}} }}]");
    let xml = r#"<m:a xmlns:m="urn:m" x="1">t<b>2</b><b>true</b><c/><d><e>05</e></d></m:a>"#;
    say(&[
        (
            XML,
            xml,
            &steps("convert: { to: json }"),
            r##"{"a":{"@x":"1","b":["2","true"],"c":"","d":{"e":"05"},"#text":"t"}}"##,
        ),
        (
            XML,
            xml,
            &steps("convert: { to: json, types: true, arrays: [c, d/e] }"),
            r##"{"a":{"@x":1,"b":[2,true],"c":[""],"d":{"e":["05"]},"#text":"t"}}"##,
        ),
        (
            XML,
            xml,
            &steps("convert: { to: json, arrays: [a/c, a/d/e] }"),
            r##"{"a":{"@x":"1","b":["2","true"],"c":[""],"d":{"e":["05"]},"#text":"t"}}"##,
        ),
        (XML, "<a><b>1</b>2</a>", &steps("convert: { to: text }"), "12"),
        (TEXT, "a \"b\"", &steps("convert: { to: json }"), r#""a \"b\"""#),
        (
            JSON,
            r##"{"@x":1,"b":[1,{"c":null}],"#text":"t"}"##,
            &steps("convert: { to: xml, root: a }"),
            "<a x=\"1\"><b>1</b><b><c></c></b>t</a>",
        ),
        (
            "text/xml",
            &soap("<o><n>1</n></o>"),
            &steps("convert: { to: json }"),
            r#"{"o":{"n":"1"}}"#,
        ),
        (
            JSON,
            r#"{"a":[1],"b":{"c":2}}"#,
            &steps("enrich: { target: $body.a, source: $body.b, action: child }"),
            r#"{"a":[1,{"c":2}],"b":{"c":2}}"#,
        ),
        (
            JSON,
            r#"{"a":{"k":1},"b":{"c":2}}"#,
            &steps("enrich: { target: $body.a, source: $body.b, action: child }"),
            r#"{"a":{"k":1,"c":2},"b":{"c":2}}"#,
        ),
        // A member of a name that was there takes its place, however the name is written.
        (
            JSON,
            r#"{"a":{"k":1, "\u0063":{"x":1},"l":[1, 2]},"b":{"c":2,"d":3}}"#,
            &steps("enrich: { target: $body.a, source: $body.b, action: child }"),
            r#"{"a":{"k":1,"l":[1, 2],"c":2,"d":3},"b":{"c":2,"d":3}}"#,
        ),
        (
            JSON,
            r#"{"a":[{"c":1},{"d":1}]}"#,
            &steps("enrich: { target: '$body.a[*]', source: { json: '$.a[0]' }, action: child }"),
            r#"{"a":[{"c":1},{"d":1,"c":1}]}"#,
        ),
        (
            JSON,
            r#"{"a":{"k":1}}"#,
            &steps("enrich: { target: $body.a, source: $body.none, action: child }"),
            r#"{"a":{"k":1}}"#,
        ),
        (
            JSON,
            r#"{"a":1,"b":2}"#,
            &steps("enrich: { target: $body.b, action: remove }"),
            r#"{"a":1}"#,
        ),
        (
            JSON,
            r#"{"a":1,"b":2}"#,
            &steps("enrich: { target: $body.none, source: x }"),
            r#"{"a":1,"b":2}"#,
        ),
        (
            XML,
            "<a><b i='1'/><b i='2'/></a>",
            &steps("enrich: { target: '/a/b/@i', source: x }"),
            r#"<a><b i="x"/><b i="x"/></a>"#,
        ),
        (
            XML,
            "<a><b/><b/></a>",
            &steps(
                "enrich: { target: '/a/b', source: { xml: '<n>{{ $method }}</n>' }, action: before }",
            ),
            "<a><n>POST</n><b/><n>POST</n><b/></a>",
        ),
    ]);
    say(&[
        (
            TEXT,
            "7",
            "[{ set: { v: { value: $body, type: number } } }, { respond: { json: '[{{ $v }}]' } }]",
            "[7]",
        ),
        (
            TEXT,
            "true",
            "[{ set: { v: { value: $body, type: boolean } } }, { respond: { json: '[{{ $v }}]' } }]",
            "[true]",
        ),
        (
            TEXT,
            "{\"a\":[3]}",
            "[{ set: { v: { value: $body, type: json } } }, { respond: { text: '{{ $v.a[0] }}' } }]",
            "3",
        ),
        (
            TEXT,
            "<a><b>3</b></a>",
            "[{ set: { v: { value: $body, type: xml } } }, { respond: { xml: '<r>{{ $v/b }}</r>' } }]",
            "<r><b>3</b></r>",
        ),
        (
            XML,
            "<a>3</a>",
            "[{ set: { v: { value: /a, type: text } } }, { respond: { xml: '<r>{{ $v }}</r>' } }]",
            "<r>3</r>",
        ),
        (
            TEXT,
            "b",
            "[{ switch: { on: $body, cases: [{ equals: a, steps: [{ respond: { text: A } }] }], default: [{ respond: { text: other } }] } }]",
            "other",
        ),
    ]);
}

#[test]
fn messages_are_checked_against_schemas() {
    let origin = answering("200");
    let files = [
        (
            "a.xsd",
            r#"<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="a" type="xs:int"/></xs:schema>"#,
        ),
        ("a.json", r#"{ "type": "object", "required": ["a"] }"#),
        ("word.json", r#"{ "properties": { "a": { "pattern": "^[\\w-\\.]+$" } } }"#),
    ];
    for (keys, content_type, body, status, said) in [
        ("schema: a.xsd", "text/xml", soap("<a>1</a>"), 200, "valid"),
        ("schema: a.xsd", "text/xml", soap("<a>x</a>"), 500, "soap:Client"),
        ("schema: a.xsd", XML, "<a>1</a>".to_owned(), 200, "valid"),
        ("schema: a.xsd", XML, "<a>x</a>".to_owned(), 400, "request_invalid"),
        (
            "schema: a.xsd, else: [{ respond: { text: otherwise } }]",
            XML,
            "<a>x</a>".to_owned(),
            200,
            "otherwise",
        ),
        ("schema: a.xsd, of: /b/a", XML, "<b><a>1</a></b>".to_owned(), 200, "valid"),
        ("json_schema: a.json", JSON, "{\"a\":1}".to_owned(), 200, "valid"),
        ("json_schema: a.json", JSON, "{}".to_owned(), 400, "request_invalid"),
        ("json_schema: a.json, of: $body.b", JSON, "{\"b\":{\"a\":1}}".to_owned(), 200, "valid"),
        // An ECMAScript pattern, where a dash beside a class is literal.
        ("json_schema: word.json", JSON, "{\"a\":\"x-y.z\"}".to_owned(), 200, "valid"),
        ("json_schema: word.json", JSON, "{\"a\":\"x y\"}".to_owned(), 400, "request_invalid"),
    ] {
        let flow =
            format!("main: [{{ validate: {{ {keys} }} }}, {{ respond: {{ text: valid }} }}]");
        let reply = post(&start_beside(&origin, &flow, &files), content_type, &body);
        assert_eq!(reply.status(), status, "{keys} {body}: {}", reply.text());
        assert!(reply.text().contains(said), "{keys} {body}: {}", reply.text());
    }
}

/// If a member is repeated, one parser could use the first and another the last.
#[test]
fn a_schema_in_which_a_member_is_twice_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a.json"), "{ \"type\": \"object\",\n  \"type\": \"string\" }").unwrap();
    for (name, keys) in [
        ("flow", "flow: f }}\nflows: { f: [{ validate: { json_schema: a.json } }] }"),
        ("websocket", "upstream: u, policies: [{ websocket: { schema: a.json } }] }}"),
    ] {
        let text = format!(
            "listen: {{ a: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ u: {{ targets: [\"http://u.test\"] }} }}\nroutes: {{ r: {{ match: {{ path: /a }}, {keys}\n"
        );
        std::fs::write(path("gate.yaml"), text).unwrap();
        let run = crate::harness::tidegate(&["check", path("gate.yaml").to_str().unwrap()]);
        assert_eq!(run.code, Some(1), "{name}: {run:?}");
        let said =
            "the member `type` appears twice in its object, the second time at line 2 column 3";
        assert!(run.stderr.contains(said), "{name}: {run:?}");
    }
}

#[test]
fn branches_have_copies_of_variables_and_sequences_share_them() {
    let parts = r#"["a","b"]"#;
    say(&[
        (
            JSON,
            parts,
            "[{ set: { v: '0' } }, { foreach: { over: $body, steps: [{ set: { v: $body } }] } }, { respond: { text: '{{ $v }}' } }]",
            "b",
        ),
        (
            JSON,
            parts,
            "[{ set: { v: '0' } }, { foreach: { over: $body, parallel: 2, steps: [{ set: { v: $body } }, { payload: { json: '\"{{ $v }}!\"' } }] } }, { respond: { text: '{{ $v }}{{ $body }}' } }]",
            r#"0["a!","b!"]"#,
        ),
        (
            JSON,
            parts,
            "[{ set: { v: '0' } }, { split: { over: $body, steps: [{ set: { v: $body } }, { payload: { json: '\"{{ $v }}?\"' } }], gather: { into: { json: [] } } } }, { respond: { text: '{{ $v }}{{ $body }}' } }]",
            r#"0["a?","b?"]"#,
        ),
        (
            TEXT,
            "x",
            "[{ set: { v: '0' } }, { scatter: { branches: [{ set: { v: '1' } }, [{ set: { v: '2' } }]], gather: { take: $v, into: { json: [] } } } }, { respond: { text: '{{ $v }}{{ $body }}' } }]",
            r#"0["1","2"]"#,
        ),
    ]);
    let origin = answering("200");
    let flows = "main: [{ set: { v: '0' } }, { sequence: inner }, { respond: { text: '{{ $v }} {{ $body }}' } }]\n\
                 inner: { steps: [{ set: { v: '1' } }, { payload: { text: made } }, { fault: { reason: no } }], catch: [{ set: { v: $error.message } }] }";
    let reply = post(&start(&origin, flows), TEXT, "x");
    assert_eq!((reply.status(), reply.text().as_str()), (200, "no made"));
    let flows = "main: { steps: [{ sequence: inner }], catch: [{ respond: { text: 'outer {{ $error.message }}' } }] }\n\
                 inner: { steps: [{ fault: { reason: one } }], catch: [{ fault: { reason: 'two after {{ $error.message }}' } }] }";
    let reply = post(&start(&origin, flows), TEXT, "x");
    assert_eq!(reply.text(), "outer two after one");
    let flows = "main: { steps: [{ scatter: { branches: [{ sequence: inner }, { payload: { text: b } }], gather: { take: $body, into: { json: [] } } } }] }\n\
                 inner: { steps: [{ call: dead }], catch: [{ payload: { text: 'caught {{ $error.code }}' } }] }";
    let reply = post(&start(&origin, flows), TEXT, "x");
    assert_eq!(reply.text(), r#"["caught 101503","b"]"#);
}

/// In `catch` the message is the one at the time of the fault, and `$status` that of the last call.
#[test]
fn a_catch_has_the_message_of_that_moment() {
    let origin = answering("503");
    for (steps, catch, said) in [
        (
            "{ call: dead }",
            "{ respond: { text: '{{ $body }} {{ $headers.x-name }}' } }",
            "mine value",
        ),
        ("{ call: dead }", "{ log: { message: no } }", "mine"),
        ("{ call: dead }", "{ respond: {} }", "mine"),
        (
            "{ call: dead }",
            "{ filter: { when: $error.code, then: [{ respond: { text: '{{ $body }}' } }] } }",
            "mine",
        ),
        ("{ payload: { text: made } }, { call: dead }", "{ respond: {} }", "made"),
        (
            "{ call: { upstream: echo, fault_on: [5xx] } }",
            "{ respond: { text: '{{ $status }} {{ $body }} {{ $error.detail }}' } }",
            "503 mine upstream echo replied with status 503",
        ),
        (
            "{ call: echo }, { call: dead }",
            "{ respond: { text: '{{ $status }} {{ $body }} {{ $headers.x-of }}' } }",
            "503 mine reply",
        ),
    ] {
        let gateway = start(&origin, &format!("main: {{ steps: [{steps}], catch: [{catch}] }}"));
        let reply = post(&gateway, TEXT, "mine");
        assert_eq!(reply.text(), said, "{steps} {catch}");
    }
    // A catch that needs no message lets a large one pass, and the flow keeps none of it.
    let gateway = start(
        &origin,
        "main: { limits: { body_bytes_max: 1KiB }, steps: [{ header: { set: { a: b } } }, { call: echo }], catch: [{ respond: { text: no } }] }",
    );
    assert_eq!(post(&gateway, TEXT, &"x".repeat(4000)).text().len(), 4000);
}

#[test]
fn faults_speak_the_callers_language() {
    let origin = answering("200");
    let soap_12 = format!("<e:Envelope xmlns:e=\"{SOAP_12}\"><e:Body/></e:Envelope>");
    for (steps, content_type, body, status, parts) in [
        (
            "{ fault: { code: client, reason: 'no {{ $body/a }}', detail: 'x < y' } }",
            "text/xml",
            soap("<a>1</a>"),
            500,
            &[
                "<faultcode>soap:Client</faultcode>",
                "<faultstring>no 1</faultstring>",
                "<detail>x &lt; y</detail>",
            ][..],
        ),
        (
            "{ fault: { reason: no, status: 503 } }",
            "application/soap+xml",
            soap_12.clone(),
            503,
            &["soap:Receiver", "no</soap:Text>"],
        ),
        (
            "{ set: { v: { value: $body/none, required: true } } }",
            "text/xml",
            soap("<a/>"),
            500,
            &["soap:Client"],
        ),
        (
            "{ set: { v: { xpath: 'string(/none)', required: true } } }, { respond: { text: empty } }",
            XML,
            "<a/>".to_owned(),
            200,
            &["empty"],
        ),
        (
            "{ set: { v: { xpath: /none, required: true } } }",
            XML,
            "<a/>".to_owned(),
            400,
            &["missing"],
        ),
        (
            "{ set: { v: { json: $.none, required: true } } }",
            JSON,
            "{}".to_owned(),
            400,
            &["missing"],
        ),
        (
            "{ set: { v: { json: $.some, required: true } } }, { respond: { text: 'null' } }",
            JSON,
            "{\"some\":null}".to_owned(),
            200,
            &["null"],
        ),
        (
            "{ fault: { code: client, reason: 'not {{ $query.q }}', detail: more } }",
            JSON,
            "{}".to_owned(),
            400,
            &["\"detail\":\"not 1 2\"", "more"],
        ),
        (
            "{ fault: { reason: no } }",
            TEXT,
            "x".to_owned(),
            500,
            &["\"detail\":\"no\"", "\"status\":500"],
        ),
        ("{ call: dead }", "text/xml", soap("<a/>"), 500, &["soap:Server"]),
        ("{ set: { v: $body } }, { call: dead }", JSON, "{}".to_owned(), 502, &["connect_failure"]),
        (
            "{ header: { set: { x-a: \"{{ $body }}\" } } }",
            TEXT,
            "a\nb".to_owned(),
            400,
            &["template"],
        ),
    ] {
        let reply = post(&start(&origin, &format!("main: [{steps}]")), content_type, &body);
        assert_eq!(reply.status(), status, "{steps}: {}", reply.text());
        for part in parts {
            assert!(reply.text().contains(part), "{steps}: {part} in {}", reply.text());
        }
        let has_xml = reply.text().starts_with("<?xml");
        assert_eq!(has_xml, body.contains("Envelope"), "{steps}: {}", reply.text());
    }
}

/// An XML policy around a flow has its own format for its faults, which does not apply to the flow's.
#[test]
fn a_fault_of_a_flow_is_told_behind_a_soap_policy_too() {
    let origin = answering("200");
    let flows = [
        ("no", "{ fault: { code: client, reason: 'no <{{ //a }}>', detail: 'x & y' } }"),
        ("gone", "{ fault: { reason: gone, status: 503 } }"),
        ("none", "{ set: { v: { xpath: //none, required: true } } }"),
    ];
    let soap_policy = "{ soap: { versions: [\"1.1\", \"1.2\"], verbose: true } }";
    let mut yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\n\
         upstreams: {{ echo: {{ targets: [\"{}\"] }} }}\nflows:\n",
        origin.url()
    );
    for (name, steps) in flows {
        yaml.push_str(&format!("  {name}: [{steps}]\n"));
    }
    yaml.push_str("routes:\n");
    for (errors, (name, _)) in ["problem", "kong"].iter().flat_map(|e| flows.map(|flow| (e, flow)))
    {
        yaml.push_str(&format!(
            "  {errors}_{name}: {{ match: {{ path: /{errors}/{name} }}, errors: {errors}, policies: [{soap_policy}], flow: {name} }}\n"
        ));
    }
    let gateway = Gateway::start(yaml);
    let soap_12 =
        format!("<e:Envelope xmlns:e=\"{SOAP_12}\"><e:Body><a>1</a></e:Body></e:Envelope>");
    for (path, status, parts) in [
        (
            "/problem/no",
            500,
            &[
                "<faultcode>soap:Client</faultcode>",
                "<faultstring>no &lt;1&gt;</faultstring>",
                "<detail>x &amp; y</detail>",
            ][..],
        ),
        ("/problem/gone", 503, &["soap:Server", "<faultstring>gone</faultstring>"]),
        ("/problem/none", 500, &["soap:Client", "A required value is missing."]),
        (
            "/kong/no",
            500,
            &[
                "<faultcode>soap:Client</faultcode>",
                "<faultstring>no Less Than1Greater Than</faultstring>",
                "<errorMessage>x &amp; y</errorMessage>",
            ],
        ),
        (
            "/kong/gone",
            503,
            &[
                "<faultcode>soap:Server</faultcode>",
                "<faultstring>gone</faultstring>",
                "<errorMessage>HTTP Error code is 503</errorMessage>",
            ],
        ),
        ("/kong/none", 500, &["<faultcode>soap:Client</faultcode>", "HTTP Error code is 500"]),
    ] {
        for (content_type, body) in
            [("text/xml", soap("<a>1</a>")), ("application/soap+xml", soap_12.clone())]
        {
            let length = body.len();
            let reply = gateway.wire().ask(format!(
                "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
            ));
            assert_eq!(reply.status(), status, "{path}: {}", reply.text());
            let version = if content_type == "text/xml" { SOAP } else { SOAP_12 };
            assert!(reply.text().contains(version), "{path}: {}", reply.text());
            for part in parts.iter().filter(|_| content_type == "text/xml") {
                assert!(reply.text().contains(part), "{path}: {part} in {}", reply.text());
            }
        }
    }
}

#[test]
fn a_gather_that_cannot_get_enough_ends_at_once() {
    let origin = answering("200");
    let flow = |gather: &str| {
        format!(
            "main: {{ steps: [{{ split: {{ over: $body, steps: [], gather: {{ into: {{ json: [] }}, {gather} }} }} }}, {{ respond: {{}} }}], catch: [{{ respond: {{ text: '{{{{ $error.code }}}}' }} }}] }}"
        )
    };
    for (gather, said) in [
        ("complete: 2", "[1,2]"),
        ("complete: all", "[1,2,3]"),
        ("complete: 4", "101504"),
        ("complete: 4, partial: keep", "[1,2,3]"),
    ] {
        let began = Instant::now();
        let reply = post(&start(&origin, &flow(gather)), JSON, "[1,2,3]");
        assert_eq!(reply.text(), said, "{gather}");
        assert!(began.elapsed() < Duration::from_secs(10), "{gather}");
    }
    let empty = post(&start(&origin, &flow("complete: all")), JSON, "[]");
    assert_eq!(empty.text(), "[]");
}

/// The policies of a route run around its flow as around an upstream.
#[test]
fn policies_run_around_a_flow() {
    let origin = answering("200");
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\n\
         upstreams: {{ echo: {{ targets: [\"{}\"] }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/api/**\" }}, strip_prefix: /api, policies: [{{ headers: {{ request: {{ set: {{ x-in: a }} }}, response: {{ set: {{ x-out: b }} }} }} }}, {{ rate_limit: {{ requests: 2, per: 1h, by: route }} }}], flow: main }} }}\n\
         flows: {{ main: [{{ set: {{ v: $headers.x-in }} }}, {{ call: echo }}, {{ header: {{ set: {{ x-v: '{{{{ $v }}}}' }} }} }}] }}\n",
        origin.url()
    );
    let gateway = Gateway::start(yaml);
    let reply = gateway.wire().get("/api/x?y=z");
    let lines = ["x-out", "x-v"].map(|name| reply.get(name));
    assert_eq!((reply.status(), lines), (200, [Some("b"), Some("a")]));
    assert_eq!(origin.request().target(), "/x?y=z");
    gateway.wire().get("/api/x");
    assert_eq!(gateway.wire().get("/api/x").status(), 429);
}

/// Concurrent waits of branches: the log has the elapsed time, and not their sum.
#[test]
fn calls_at_once_count_as_the_time_that_goes_by() {
    let origin = Origin::start(|peer| {
        while let Some(_request) = peer.request() {
            std::thread::sleep(Duration::from_millis(200));
            peer.try_send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n1",
            );
        }
    });
    let branches = ["{ call: echo }"; 4].join(", ");
    let flow = format!(
        "[{{ scatter: {{ branches: [{branches}], gather: {{ into: {{ json: [] }} }} }} }}, {{ respond: {{}} }}]"
    );
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\n\
         telemetry: {{ access_log: {{ format: \"waited {{upstream_ms}} of {{duration_ms}}\" }} }}\n\
         upstreams: {{ echo: {{ targets: [\"{}\"] }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, flow: main }} }}\nflows: {{ main: {flow} }}\n",
        origin.url()
    );
    let gateway = Gateway::start(yaml);
    assert_eq!(gateway.wire().get("/a").text(), "[1,1,1,1]");
    gateway.wait_for_output("waited ");
    let output = gateway.output();
    let (_, line) = output.split_once("waited ").unwrap();
    let line = line.lines().next().unwrap();
    let (waited, whole) = line.split_once(" of ").unwrap();
    let [waited, whole] = [waited, whole].map(|text| text.trim().parse::<f64>().unwrap());
    assert!(waited >= 190.0 && waited <= whole, "{line}");
}

/// Members are not merged into one element, and arrays are kept: JSON converted to XML and back is the same.
#[test]
fn json_is_the_same_after_a_way_through_xml() {
    let origin = Origin::echo();
    let there_and_back =
        start(&origin, "main: [convert: { to: xml, root: r }, convert: { to: json }, respond: {}]");
    let there = start(&origin, "main: [convert: { to: xml, root: r }, respond: {}]");
    for (json, xml) in [
        (
            r#"{"a b":"1","a:b":"2","a/b":"3","a_b":"4","a_x0020_b":"5","":"6","1":"7"}"#,
            "<r><a_x0020_b>1</a_x0020_b><a_x003A_b>2</a_x003A_b><a_x002F_b>3</a_x002F_b><a_b>4</a_b>\
             <a_x005F_x0020_b>5</a_x005F_x0020_b><_x_>6</_x_><_x0031_>7</_x0031_></r>",
        ),
        (r#"{"@a b":"1","a":{"@x:y":"2"}}"#, "<r a_x0020_b=\"1\"><a x_x003A_y=\"2\"></a></r>"),
        (
            r#"{"a b":[],"c":{"d":[]}}"#,
            "<r><?xml-multiple a_x0020_b?><c><?xml-multiple d?></c></r>",
        ),
        (r#"{"\u00b2":"x","\u00aa":"y"}"#, "<r><_x00B2_>x</_x00B2_><_x00AA_>y</_x00AA_></r>"),
    ] {
        let made = post(&there, JSON, json);
        assert_eq!((made.status(), &*made.text()), (200, xml));
        let back: serde_json::Value =
            serde_json::from_slice(&post(&there_and_back, JSON, json).body).unwrap();
        assert_eq!(back["r"], serde_json::from_str::<serde_json::Value>(json).unwrap(), "{json}");
    }
    let omits =
        start(&origin, "main: [convert: { to: xml, root: r, empty_arrays: omit }, respond: {}]");
    assert_eq!(post(&omits, JSON, r#"{"a":[],"b":[1]}"#).text(), "<r><b>1</b></r>");
    // One element is a list where another converter has marked it.
    let lists = start(&origin, "main: [convert: { to: json }, respond: {}]");
    let marked = "<r><?xml-multiple a?><a>1</a><?other b?><b>2</b></r>";
    assert_eq!(post(&lists, XML, marked).text(), r#"{"r":{"a":["1"],"b":"2"}}"#);
}
