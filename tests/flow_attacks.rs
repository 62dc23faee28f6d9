//! Attacks that flows prevent: forwarding data that no step requested, getting another client's reply, passing a check by
//! an ambiguous message.

use crate::harness::{Gateway, Message, Origin, tidegate};

const JSON: &str = "Content-Type: application/json\r\n";

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
fn start(origin: &Origin, flow: &str) -> Gateway {
    Gateway::start(yaml(origin, flow))
}

#[track_caller]
fn send(gateway: &Gateway, start: &str, lines: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "{start} HTTP/1.1\r\nHost: a\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
    ))
}

#[track_caller]
fn post(gateway: &Gateway, lines: &str, body: &str) -> Message {
    send(gateway, "POST /", lines, body)
}

/// The output of `check` for a flow, and its exit code.
fn check(flow: &str) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidegate.yaml");
    std::fs::write(&file, yaml(&Origin::saying("unused"), flow)).unwrap();
    let run = tidegate(&["check", file.to_str().unwrap()]);
    (run.code, run.stdout + &run.stderr)
}

/// A service that does not read the body of a GET would take it for its next request.
#[test]
fn methods_without_content_send_none() {
    let origin = Origin::echo();
    const LINES: &str = "Content-Type: text/plain\r\nContent-Encoding: identity\r\nContent_Language: en\r\nContent-Disposition: inline\r\nDigest: a=b\r\nExpect: 100-continue\r\nX-Kept: yes\r\n";
    let smuggled = "GET /admin/x HTTP/1.1\r\nHost: x\r\n\r\n";
    for (steps, sent) in [
        ("{ call: { upstream: echo, method: GET } }", false),
        ("{ call: { upstream: echo, method: HEAD } }", false),
        ("{ call: { upstream: echo, method: DELETE } }", false),
        ("{ call: { upstream: echo, method: OPTIONS } }", false),
        ("{ call: { upstream: echo, method: GET, into: reply } }", false),
        ("{ payload: { text: made } }, { call: { upstream: echo, method: GET } }", false),
        (
            "{ scatter: { branches: [{ call: { upstream: echo, method: GET } }], gather: { into: <a/>, partial: keep } } }",
            false,
        ),
        ("{ call: { upstream: echo, method: GET, body: $body } }", true),
        ("{ call: { upstream: echo, method: PUT } }", true),
    ] {
        let gateway = start(&origin, &format!("[{steps}, {{ respond: {{ text: done }} }}]"));
        origin.forget();
        let lines = LINES.replace("Expect: 100-continue\r\n", "");
        assert_eq!(post(&gateway, &lines, smuggled).status(), 200, "{steps}");
        let request = origin.request();
        assert_eq!(request.get("x-kept"), Some("yes"), "{steps}");
        let about = |request: &Message| {
            [
                "content-type",
                "content-encoding",
                "content_language",
                "content-disposition",
                "digest",
            ]
            .iter()
            .any(|name| request.get(name).is_some())
        };
        assert_eq!((about(&request), request.text().is_empty()), (sent, !sent), "{steps}");
        assert_eq!(request.length().unwrap_or_default() > 0, sent, "{steps}");
    }
    // The client's own method, also where the flow is nothing but the call.
    for flow in ["[{ call: echo }]", "[{ call: echo }, { header: { set: { x-a: b } } }]"] {
        let gateway = start(&origin, flow);
        for method in ["GET", "DELETE", "OPTIONS"] {
            origin.forget();
            let reply =
                send(&gateway, &format!("{method} /"), "Content-Type: text/plain\r\n", smuggled);
            assert_eq!(reply.status(), 200, "{flow} {method}");
            let request = origin.request();
            assert_eq!(
                (request.text().as_str(), request.get("content-type")),
                ("", None),
                "{flow}"
            );
        }
    }
    let (code, said) =
        check("[{ payload: { text: made } }, { call: { upstream: echo, method: GET } }]");
    assert!(code == Some(0) && said.contains("the payload before this call is not sent"), "{said}");
}

/// The client's conditions and ranges are for its own reply. A step that reads a reply needs all of it, and a precondition of a
/// change holds for that change alone.
#[test]
fn conditions_of_the_client_stay_with_its_own_request() {
    let origin = Origin::echo();
    const LINES: &str = "Range: bytes=0-1\r\nIf-None-Match: \"a\"\r\nIf-Match: \"b\"\r\nIf-Modified-Since: Sat, 01 Jan 2022 00:00:00 GMT\r\n";
    let names = ["range", "if-none-match", "if-match", "if-modified-since"];
    for (method, flow, sent) in [
        ("GET", "[{ call: echo }, { header: { set: { x-a: b } } }]", true),
        ("GET", "[{ call: echo }, { payload: { xml: '<a>{{ $body }}</a>' } }]", false),
        ("GET", "[{ call: { upstream: echo, into: r } }]", false),
        (
            "GET",
            "[{ header: { set: { range: '{{ $headers.range }}', if-none-match: '{{ $headers.if-none-match }}', if-match: '{{ $headers.if-match }}', if-modified-since: '{{ $headers.if-modified-since }}' } } }, { call: { upstream: echo, into: r } }]",
            true,
        ),
        ("PUT", "[{ filter: { when: $body, then: [{ call: echo }] } }]", true),
        (
            "PUT",
            "[{ call: { upstream: echo, method: GET } }, { header: { set: { x-a: b } } }]",
            false,
        ),
        ("PUT", "[{ call: { upstream: echo, method: POST, path: /log } }]", false),
    ] {
        let gateway = start(&origin, flow);
        origin.forget();
        send(&gateway, &format!("{method} /"), LINES, "x");
        let request = origin.request();
        let all = names.map(|name| request.get(name).is_some());
        assert_eq!(all, [sent; 4], "{method} {flow}");
    }
}

/// Sends requests in turn. Only some of them reach the upstream.
#[track_caller]
fn cached(origin: &Origin, keys: &str, requests: &[(&str, &str, &str)], asked: &[bool]) {
    let flow = format!("[{{ cache: {{ {keys}, ttl: 1h, steps: [{{ call: echo }}] }} }}]");
    let gateway = start(origin, &flow);
    for ((request, lines, body), asked) in requests.iter().zip(asked) {
        origin.forget();
        send(&gateway, request, lines, body);
        assert_eq!(!origin.requests().is_empty(), *asked, "{keys}: {request} {lines}");
    }
}

/// The rules of the policy `cache`: a reply that may depend on more than the key is not cached.
#[test]
fn a_cache_of_a_flow_gives_nothing_that_was_for_one_client() {
    let plain = Origin::saying("all");
    const GET: (&str, &str, &str) = ("GET /?k=1", "", "");
    const KEY: &str = "key: '{{ $query.k }}'";
    for lines in [
        "Range: bytes=0-1\r\n",
        "X-HTTP-Method-Override: DELETE\r\n",
        "Cookie: a=b\r\n",
        "Cache-Control: no-store\r\n",
        "Authorization: Basic YTpi\r\n",
    ] {
        cached(&plain, KEY, &[("GET /?k=1", lines, ""), GET, GET], &[true, true, false]);
    }
    for request in ["HEAD /?k=1", "POST /?k=1", "PUT /?k=1", "DELETE /?k=1"] {
        cached(&plain, KEY, &[(request, "", ""), GET, GET], &[true, true, false]);
    }
    // A HEAD is answered from the reply to a GET.
    cached(&plain, KEY, &[GET, ("HEAD /?k=1", "", "")], &[true, false]);
    cached(&plain, KEY, &[("GET /?k=1", "", "body"), GET], &[true, true]);
    // Sharing more requires a setting.
    let basic = "Authorization: Basic YTpi\r\n";
    cached(
        &plain,
        "key: '{{ $query.k }}', credentials: ignore",
        &[("GET /?k=1", basic, ""), GET],
        &[true, false],
    );
    cached(
        &plain,
        "key: '{{ $query.k }} {{ $headers.authorization }}'",
        &[("GET /?k=1", basic, ""), ("GET /?k=1", basic, ""), GET],
        &[true, false, true],
    );
    cached(
        &plain,
        "key: '{{ $query.k }}', cookies: ignore",
        &[("GET /?k=1", "Cookie: a=b\r\n", ""), GET],
        &[true, false],
    );
    cached(
        &plain,
        "key: '{{ $request.body }}'",
        &[("POST /", "", "a"), ("POST /", "", "a"), ("PUT /", "", "a"), ("POST /", "", "b")],
        &[true, false, true, true],
    );
    cached(
        &plain,
        "key: all, methods: [POST]",
        &[("POST /", "", "a"), ("POST /", "", "b"), ("GET /", "", "")],
        &[true, false, true],
    );
}

/// The headers of the replies from which the message was made are considered.
#[test]
fn a_cache_of_a_flow_keeps_what_its_replies_allow() {
    for (lines, kept) in [
        ("", true),
        ("Cache-Control: private\r\n", false),
        ("Cache-Control: no-store\r\n", false),
        ("Cache-Control: no-cache\r\n", false),
        ("Cache-Control: max-age=0\r\n", false),
        ("Cache-Control: max-age=60\r\n", true),
        ("Set-Cookie: a=b\r\n", false),
        ("Vary: *\r\n", false),
        ("Vary: Accept-Encoding\r\n", true),
    ] {
        let reply = format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 2\r\n\r\nok");
        for steps in [
            "{ call: echo }",
            "{ call: { upstream: echo, into: r } }, { payload: { text: '{{ $r.body }}' } }",
        ] {
            let origin = Origin::answering(&reply);
            let flow = format!("[{{ cache: {{ key: all, ttl: 1h, steps: [{steps}] }} }}]");
            let gateway = start(&origin, &flow);
            let ask = || send(&gateway, "GET /", "Accept-Encoding: gzip\r\n", "");
            let (first, second) = (ask(), ask());
            assert_eq!((first.text(), second.text()), ("ok".into(), "ok".into()));
            assert_eq!(origin.requests().len() == 1, kept, "{lines} {steps}");
            let status = second.all("cache-status").join(", ");
            assert_eq!(status.contains("; hit"), kept, "{lines} {steps}: {status}");
        }
    }
    // With credentials, only if each reply is marked as public.
    for (lines, kept) in [("", false), ("Cache-Control: public, max-age=60\r\n", true)] {
        let origin =
            Origin::answering(format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 2\r\n\r\nok"));
        let gateway = start(&origin, "[{ cache: { key: all, ttl: 1h, steps: [{ call: echo }] } }]");
        let ask = || send(&gateway, "GET /", "Authorization: Bearer a\r\n", "");
        let (_, second) = (ask(), ask());
        assert_eq!(origin.requests().len() == 1, kept, "{lines}");
        let told = second.get("cache-status").unwrap_or_default().to_owned();
        assert!(kept || told.contains("detail=authorization"), "{told}");
    }
    // A reply that varies is given to those alone who ask in the same way.
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nVary: Accept-Language\r\nContent-Length: 2\r\n\r\nok",
    );
    let gateway = start(&origin, "[{ cache: { key: all, ttl: 1h, steps: [{ call: echo }] } }]");
    for (language, calls) in [("de", 1), ("en", 2), ("de", 2), ("en", 2)] {
        send(&gateway, "GET /", &format!("Accept-Language: {language}\r\n"), "");
        assert_eq!(origin.requests().len(), calls, "{language}");
    }
}

/// One small request cannot cause more calls than configured.
#[test]
fn parts_are_bounded() {
    let origin = Origin::echo();
    for (step, max) in [
        (
            "split: { over: $body.a, max: 3, steps: [{ log: { message: x } }], gather: { into: { json: [] } } }",
            3,
        ),
        ("foreach: { over: $body.a, max: 3, steps: [{ log: { message: x } }] }", 3),
        ("foreach: { over: $body.a, parallel: 2, steps: [{ log: { message: x } }] }", 10_000),
    ] {
        let gateway = start(&origin, &format!("[{{ {step} }}, {{ respond: {{ text: done }} }}]"));
        let with = |count: usize| format!("{{\"a\":[{}]}}", vec!["1"; count].join(","));
        assert_eq!(post(&gateway, JSON, &with(max)).text(), "done", "{step}");
        let reply = post(&gateway, JSON, &with(max + 1));
        assert_eq!(reply.status(), 413, "{step}");
        assert!(reply.text().contains(r#""fault":"too_many_parts""#), "{}", reply.text());
    }
}

/// Null, nothing and an empty text have no parts. Any other text is not a list.
#[test]
fn what_is_no_list_has_no_parts() {
    let origin = Origin::echo();
    let flow =
        "[{ foreach: { over: $body.a, steps: [{ call: echo }] } }, { respond: { text: done } }]";
    let gateway = start(&origin, flow);
    for (body, status, calls) in [
        (r#"{"a":null}"#, 200, 0),
        ("{}", 200, 0),
        (r#"{"a":[]}"#, 200, 0),
        (r#"{"a":["x","y"]}"#, 200, 2),
        (r#"{"a":{"b":1}}"#, 200, 1),
        (r#"{"a":"x,y"}"#, 400, 0),
        (r#"{"a":7}"#, 400, 0),
    ] {
        origin.forget();
        assert_eq!(post(&gateway, JSON, body).status(), status, "{body}");
        assert_eq!(origin.requests().len(), calls, "{body}");
    }
}

/// If a member is repeated, a step could check one and a service use the other.
#[test]
fn json_with_a_member_twice_passes_no_step() {
    let doubled = r#"{"role":"admin","\u0072ole":"user"}"#;
    let origin = Origin::echo();
    for steps in [
        "{ filter: { when: '$body.role', then: [{ call: echo }] } }",
        "{ filter: { when: { cel: 'body.role == \"user\"' }, then: [{ call: echo }] } }",
        "{ set: { r: $body.role } }, { call: echo }",
        "{ convert: { to: xml, root: a } }",
        "{ script: { jq: '.' } }",
        "{ enrich: { source: $method, target: $body.x, action: replace } }",
    ] {
        origin.forget();
        let gateway = start(&origin, &format!("[{steps}]"));
        let reply = post(&gateway, JSON, doubled);
        assert_eq!((reply.status(), origin.requests().len()), (400, 0), "{steps}");
        let gateway = start(&origin, &format!("{{ duplicate_members: last, steps: [{steps}] }}"));
        assert_eq!(post(&gateway, JSON, doubled).status(), 200, "{steps}");
    }
    let gateway = start(
        &Origin::answering(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"a\":1,\"a\":2}",
        ),
        "[{ call: echo }, { set: { r: $body.a } }]",
    );
    assert_eq!(post(&gateway, JSON, "{}").status(), 502);
    let (code, said) = check(r#"[{ payload: { json: '{"a":1,"a":2}' } }]"#);
    assert!(code == Some(1) && said.contains("a duplicate member"), "{said}");
}

/// `convert` writes no name twice, and no namespace that a member names.
#[test]
fn a_conversion_makes_nothing_that_two_read_differently() {
    let origin = Origin::echo();
    let gateway = start(&origin, "[{ convert: { to: json } }]");
    let xml = "Content-Type: application/xml\r\n";
    let body = "<a xmlns:p='u' p:role='admin' role='user'/>";
    assert_eq!(post(&gateway, xml, body).status(), 400);
    let gateway = start(&origin, "[{ convert: { to: xml, root: r } }]");
    for body in [r#"{"@xmlns":"urn:x"}"#, r#"{"x":{"@xmlns":"u"}}"#] {
        assert_eq!(post(&gateway, JSON, body).status(), 400, "{body}");
    }
    assert_eq!(post(&gateway, JSON, r#"{"@id":"1"}"#).text(), "<r id=\"1\"></r>");
    let text = post(&gateway, JSON, r#"{"@a b":"1","@a_b":"2"}"#).text();
    let (code, said) = check("[{ convert: { to: xml, root: 'a b' } }]");
    assert!(code == Some(1) && said.contains("is not the name of an element"), "{said}");
    assert_eq!(text, "<r a_x0020_b=\"1\" a_b=\"2\"></r>");
}

/// JSON with the content type of plain text is visible to steps that read its members.
#[test]
fn a_content_type_hides_nothing_from_a_filter() {
    let origin = Origin::echo();
    let flow = "[{ filter: { when: { value: $body.role, matches: admin }, then: [{ fault: { code: client, reason: no, status: 403 } }] } }, { call: echo }]";
    let gateway = start(&origin, flow);
    let admin = r#" {"role":"admin"}"#;
    for content_type in ["application/json", "text/plain", "application/octet-stream", "text/json"]
    {
        let lines = format!("Content-Type: {content_type}\r\n");
        assert_eq!(post(&gateway, &lines, admin).status(), 403, "{content_type}");
    }
    assert_eq!(post(&gateway, "", admin).status(), 403);
    let text = "Content-Type: text/plain\r\n";
    assert_eq!(post(&gateway, text, r#"{"role":"admin",}"#).status(), 400);
    assert_eq!(post(&gateway, text, "hello").status(), 200);
    let flow = "[{ filter: { when: \"//role[. = 'admin']\", then: [{ fault: { code: client, reason: no, status: 403 } }] } }, { call: echo }]";
    let gateway = start(&origin, flow);
    assert_eq!(post(&gateway, text, "<a><role>admin</role></a>").status(), 403);
}

/// No value adds a field to a form.
#[test]
fn a_form_is_encoded() {
    let origin = Origin::echo();
    for form in ["\"user={{ $body.u }}&role=user\"", "{ user: '{{ $body.u }}', role: user }"] {
        let flow = format!("[{{ payload: {{ form: {form} }} }}, {{ call: echo }}]");
        let gateway = start(&origin, &flow);
        let reply = post(&gateway, JSON, r#"{"u":"a&role=admin é+%"}"#);
        assert_eq!(reply.text(), "user=a%26role%3Dadmin%20%C3%A9%2B%25&role=user", "{form}");
        let request = origin.requests().pop().unwrap();
        assert_eq!(request.get("content-type"), Some("application/x-www-form-urlencoded"));
    }
    let gateway = start(&origin, "[{ respond: { form: { a: '{{ $query.a }}' } } }]");
    assert_eq!(send(&gateway, "GET /?a=%26b", "", "").text(), "a=%26b");
    let text =
        "payload: { text: 'a={{ $query.a }}', content_type: application/x-www-form-urlencoded }";
    let (code, said) = check(&format!("[{{ {text} }}]"));
    assert!(code == Some(0) && said.contains("write `form`"), "{said}");
}

/// Parts of a form that two parsers separate differently.
#[test]
fn parts_of_a_form_have_one_reading() {
    let origin = Origin::echo();
    let gateway = start(&origin, "[{ respond: { text: '{{ $body.role }}' } }]");
    let form = "Content-Type: multipart/form-data; boundary=b\r\n";
    let part = |head: &str, behind: &str| format!("--b\r\n{head}\r\n\r\nuser\r\n--b--{behind}");
    const PLAIN: &str = "Content-Disposition: form-data; name=\"role\"";
    assert_eq!(post(&gateway, form, &part(PLAIN, "")).text(), "user");
    for body in [
        part(&format!("{PLAIN}\r\nContent-Disposition: form-data; name=\"x\""), ""),
        part("Content-Disposition: form-data; name=\"role\"; name=\"x\"", ""),
        part("Content-Disposition: form-data; name=\"role\"; name*=UTF-8''x", ""),
        part(
            PLAIN,
            "\r\n--b\r\nContent-Disposition: form-data; name=\"role\"\r\n\r\nadmin\r\n--b--",
        ),
        part(&format!("{PLAIN}\r\nContent-Type: text/plain\r\nContent-Type: a/b"), ""),
    ] {
        assert_eq!(post(&gateway, form, &body).status(), 400, "{body}");
    }
    let twice = "Content-Type: multipart/form-data; boundary=b; boundary=c\r\n";
    assert_eq!(post(&gateway, twice, &part(PLAIN, "")).status(), 400);
}

/// A value that a step cannot use is a fault of its sender.
#[test]
fn mistakes_of_clients_are_theirs() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n{\"v\":\"a\\nb\"}",
    );
    for (steps, status) in [
        ("{ header: { set: { x-a: '{{ $body.v }}' } } }", 400),
        ("{ set: { v: $body.v } }, { header: { set: { x-a: '{{ $v }}' } } }", 400),
        ("{ call: echo }, { header: { set: { x-a: '{{ $body.v }}' } } }", 502),
        (
            "{ call: { upstream: echo, into: r } }, { header: { set: { x-a: '{{ $r.body.v }}' } } }",
            502,
        ),
        ("{ set: { n: { cel: 'int(body.v)' } } }", 400),
        ("{ set: { n: { value: $headers.content-type, type: json } } }", 400),
    ] {
        let gateway = start(&origin, &format!("[{steps}, {{ respond: {{ text: done }} }}]"));
        let reply = post(&gateway, JSON, r#"{"v":"a\nb"}"#);
        assert_eq!(reply.status(), status, "{steps}: {}", reply.text());
    }
}
