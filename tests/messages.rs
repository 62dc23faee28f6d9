//! Forms, texts, bytes and messages with attachments in flows: true to the byte where no step changes them, and readable where one
//! looks inside.

use crate::harness::{Gateway, Message, Origin};

fn start(origin: &Origin, flow: &str) -> Gateway {
    start_beside(origin, flow, &[])
}

fn start_beside(origin: &Origin, flow: &str, files: &[(&str, &str)]) -> Gateway {
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\n\
         upstreams: {{ echo: {{ targets: [\"{}\"] }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, flow: main }} }}\nflows:\n  main: {flow}\n",
        origin.url()
    );
    Gateway::start_beside(yaml, files)
}

#[track_caller]
fn post(gateway: &Gateway, content_type: &str, body: &[u8]) -> Message {
    let length = body.len();
    let head = format!(
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
    );
    gateway.wire().ask([head.as_bytes(), body].concat())
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

const FORM: &str = "application/x-www-form-urlencoded";
const FORM_DATA: &str = "multipart/form-data; boundary=\"--x y\"";
const MTOM: &str = "multipart/related; boundary=\"uuid:1+2\"; type=\"application/xop+xml\"; start=\"<root@a>\"; start-info=\"text/xml\"";
const SWA: &str = "multipart/related; type=\"text/xml\"; boundary=part";
const SOAP: &str = "http://schemas.xmlsoap.org/soap/envelope/";

fn envelope(body: &str) -> String {
    format!(r#"<s:Envelope xmlns:s="{SOAP}"><s:Header/><s:Body>{body}</s:Body></s:Envelope>"#)
}

const INCLUDE: &str = r#"<f><d><x:Include xmlns:x="http://www.w3.org/2004/08/xop/include" href="cid:one@a"/></d><n>7</n></f>"#;

/// A message whose root is the second part, with attachments around it that no text could hold.
fn mtom(body: &str) -> Vec<u8> {
    let head = "nothing to see here\r\n--uuid:1+2\r\nContent-ID: <one@a>\r\ncontent-type:  image/png\r\nContent-Transfer-Encoding: binary\r\n\r\n";
    let root = format!(
        "\r\n--uuid:1+2  \r\nContent-Type: application/xop+xml; charset=UTF-8; type=\"text/xml\"\r\nContent-Transfer-Encoding: binary\r\nContent-ID: <root@a>\r\n\r\n{}",
        envelope(body)
    );
    let tail = "\r\n--uuid:1+2\r\nContent-ID: <two@a>\r\n\r\n";
    let (one, two) = (b"\x89PNG\r\n\0\xff\r\n--uuid:1+\r\n", b"\r\n\r\n");
    let end = b"\r\n--uuid:1+2--\r\nand nothing here\xff";
    [head.as_bytes(), one, root.as_bytes(), tail.as_bytes(), two, end].concat()
}

fn swa(content: &str, encoding: &str) -> Vec<u8> {
    let text = format!(
        "--part\r\nContent-Type: text/xml; charset=iso-8859-1\r\n{encoding}Content-Length: 9\r\n\r\n{content}\r\n--part\r\nContent-Type: a/b\r\n\r\n"
    );
    [text.as_bytes(), b"\0\xfe\xff", b"\r\n--part--"].concat()
}

fn form_data() -> Vec<u8> {
    let text = "----x y\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\na \"b\" & <c>\r\n----x y\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\nContent-Type: application/octet-stream\r\n\r\n";
    [text.as_bytes(), b"\0\x01\xff\r\n", b"\r\n----x y--\r\n"].concat()
}

#[test]
fn a_message_that_no_step_changes_is_the_same_to_the_byte() {
    let origin = mirror();
    let branches = "branches: [{ call: echo }, { call: echo }]";
    for (flow, calls) in [
        ("[{ call: echo }, { respond: {} }]".to_owned(), 1),
        ("[{ header: { set: { x-a: b } } }, { call: echo }, { respond: {} }]".to_owned(), 1),
        ("[{ respond: {} }]".to_owned(), 0),
        ("[{ set: { seen: $body } }, { call: echo }]".to_owned(), 1),
        ("[{ call: { upstream: echo, into: reply } }, { respond: {} }]".to_owned(), 1),
        (
            format!(
                "[{{ scatter: {{ {branches}, gather: {{ take: {{ text: x }}, into: {{ json: [] }} }} }} }}, {{ respond: {{ status: 200 }} }}]"
            ),
            2,
        ),
    ] {
        let gateway = start(&origin, &flow);
        for (content_type, body) in [
            (FORM, &b"a=%41+b&c=\xff&&"[..]),
            ("text/plain; charset=iso-8859-1", b"caf\xe9\r\n"),
            ("application/octet-stream", b"\0\x01\xfe\xff"),
            (FORM_DATA, &form_data()),
            (MTOM, &mtom(INCLUDE)),
            (SWA, &swa(&envelope("<a>1</a>"), "")),
        ] {
            origin.forget();
            let reply = post(&gateway, content_type, body);
            assert_eq!(reply.status(), 200, "{flow} {content_type}: {}", reply.text());
            let seen = origin.requests();
            assert_eq!(seen.len(), calls, "{flow}");
            for request in &seen {
                assert_eq!(request.body, body, "{flow} {content_type}");
                assert_eq!(request.get("content-type"), Some(content_type), "{flow}");
            }
            if calls < 2 {
                assert_eq!(reply.body, body, "{flow} {content_type}");
                assert_eq!(reply.get("content-type"), Some(content_type), "{flow}");
            }
        }
    }
}

#[test]
fn the_body_of_a_message_with_attachments_is_that_of_its_root_part() {
    let origin = mirror();
    let gateway = start(
        &origin,
        "[{ respond: { text: \"{{ $body/f/n }} {{ count($body//*) }} {{ //d/*/@href }} {{ name($envelope/*) }} {{ $headers.content-type }}\" } }]",
    );
    let reply = post(&gateway, MTOM, &mtom(INCLUDE));
    assert_eq!(reply.text(), format!("7 4 cid:one@a s:Envelope {MTOM}"));
    let reply = post(&gateway, SWA, &swa(&envelope("<f><n>7</n></f>"), ""));
    assert_eq!(reply.text(), format!("7 2  s:Envelope {SWA}"));
    for encoding in ["Base64", "quoted-printable"] {
        let text = envelope("<f><n>\u{e9}</n></f>");
        let coded = match encoding {
            "Base64" => "PGY+PG4+7jwvbj48L2Y+".to_owned(),
            _ => text.replace('=', "=3D=\r\n").replace('\u{e9}', "=C3=A9"),
        };
        let line = format!("Content-Transfer-Encoding: {encoding}\r\n");
        let reply = post(&gateway, SWA, &swa(&coded, &line));
        assert_eq!(reply.status(), 200, "{}", reply.text());
        let first = if encoding == "Base64" { " 1  f" } else { "\u{e9} 2  s:Envelope" };
        assert!(reply.text().starts_with(first), "{encoding}: {}", reply.text());
    }
}

/// A change of the root part keeps all surrounding bytes.
#[test]
fn a_changed_root_part_keeps_the_attachments() {
    let origin = mirror();
    let sheet = r#"<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:output omit-xml-declaration="yes"/>
        <xsl:template match="@*|node()"><xsl:copy><xsl:apply-templates select="@*|node()"/></xsl:copy></xsl:template>
        <xsl:template match="n"><n>8</n></xsl:template></xsl:stylesheet>"#;
    let changed = INCLUDE.replace("<n>7</n>", "<n>8</n>");
    for (step, body) in [
        ("enrich: { target: $body/f/n, source: { xml: '<n>8</n>' } }", changed.as_str()),
        ("payload: { xml: '<p>{{ string($body/f/n) }}\u{e9}</p>' }", "<p>7\u{e9}</p>"),
        ("xslt: { stylesheet: eight.xsl }", &changed),
        ("xslt: { stylesheet: eight.xsl, of: $body/f/n }", &changed),
        ("foreach: { over: $body/f/n, steps: [{ payload: { xml: '<n>8</n>' } }] }", &changed),
    ] {
        let flow = format!("[{{ {step} }}, {{ call: echo }}]");
        let gateway = start_beside(&origin, &flow, &[("eight.xsl", sheet)]);
        let reply = post(&gateway, MTOM, &mtom(INCLUDE));
        let (text, expected) = (reply.text(), String::from_utf8_lossy(&mtom(body)).into_owned());
        assert_eq!((reply.status(), text), (200, expected), "{step}");
        assert_eq!(reply.body, mtom(body), "{step}");
        assert_eq!(origin.request().get("content-type"), Some(MTOM), "{step}");
        origin.forget();
    }
    let gateway = start(&origin, "[{ soap_header: { set: ['<h>1</h>'] } }, { respond: {} }]");
    let reply = post(&gateway, MTOM, &mtom(INCLUDE));
    assert!(reply.text().contains("<s:Header><h>1</h></s:Header>"), "{}", reply.text());
    // The part's headers describe the new text.
    let gateway = start(&origin, "[{ payload: { xml: '<p>\u{e9}</p>' } }, { respond: {} }]");
    let reply = post(&gateway, SWA, &swa(&envelope("<a>1</a>"), ""));
    let part =
        format!("Content-Type: text/xml; charset=utf-8\r\n\r\n{}", envelope("<p>\u{e9}</p>"));
    assert!(
        reply.text().starts_with(&format!("--part\r\n{part}\r\n--part\r\n")),
        "{}",
        reply.text()
    );
    assert!(reply.body.ends_with(b"\0\xfe\xff\r\n--part--"));
}

#[test]
fn what_is_made_anew_or_gathered_has_no_attachments() {
    let origin = mirror();
    for (steps, expected) in [
        ("{ payload: { from: $envelope } }", envelope("<a>1</a>")),
        ("{ payload: { xml: '<n/>', envelope: drop } }", "<n/>".to_owned()),
        (
            "{ scatter: { branches: [{ call: echo }, { call: echo }], gather: { take: '$body/*', into: '<all/>' } } }",
            envelope("<all><a>1</a><a>1</a></all>"),
        ),
    ] {
        let gateway = start(&origin, &format!("[{steps}, {{ respond: {{}} }}]"));
        let reply = post(&gateway, MTOM, &mtom("<a>1</a>"));
        assert_eq!((reply.status(), reply.text()), (200, expected), "{steps}");
        let content_type = reply.get("content-type").unwrap();
        assert!(!content_type.starts_with("multipart"), "{steps}: {content_type}");
    }
}

#[test]
fn a_message_that_cannot_be_taken_apart_is_its_senders_fault() {
    let origin = mirror();
    let looks = start(&origin, "[{ respond: { text: '{{ $body }}' } }]");
    let passes = start(&origin, "[{ header: { set: { a: b } } }, { call: echo }]");
    let many = "--part\r\n\r\nx\r\n".repeat(1_001) + "--part--";
    let lines = format!("--part\r\n{}\r\n<a/>\r\n--part--", "A: b\r\n".repeat(101));
    for (content_type, body) in [
        ("multipart/related", "--part\r\n\r\n<a/>\r\n--part--"),
        (SWA, "no part"),
        (SWA, "--part\r\nContent-Type: text/xml\r\n\r\n<a/>\r\n"),
        (SWA, "--part\r\nContent-Type: text/xml\r\n\r\n<a/>--part--"),
        (SWA, "--part--"),
        (SWA, "--part\r\nno line\r\n\r\n<a/>\r\n--part--"),
        (SWA, "--part\r\nContent-Type: text/xml\r\n\r\n<a>\r\n--part--"),
        (
            SWA,
            "--part\r\nContent-Type: text/xml\r\nContent-Transfer-Encoding: uuencode\r\n\r\n<a/>\r\n--part--",
        ),
        (SWA, &many),
        (SWA, &lines),
        ("multipart/related; boundary=part; start=\"<none>\"", "--part\r\n\r\n<a/>\r\n--part--"),
        ("multipart/form-data; boundary=part", "--part\r\n"),
    ] {
        let reply = post(&looks, content_type, body.as_bytes());
        assert_eq!(reply.status(), 400, "{body:?}: {}", reply.text());
        assert!(reply.text().contains(r#""fault":"request_invalid""#), "{}", reply.text());
        // If no step reads it, it is not refused.
        let reply = post(&passes, content_type, body.as_bytes());
        assert_eq!((reply.status(), reply.text().as_str()), (200, body));
    }
    // A message with attachments is one of SOAP.
    let fails = start(&origin, "[{ fault: { code: client, reason: no } }]");
    for (content_type, part) in [
        (MTOM.to_owned(), "<faultcode>soap:Client</faultcode>"),
        (MTOM.replace("text/xml", "application/soap+xml"), "<soap:Value>soap:Sender</soap:Value>"),
    ] {
        let reply = post(&fails, &content_type, &mtom("<a/>"));
        assert_eq!(reply.status(), 500, "{}", reply.text());
        assert!(reply.text().contains(part), "{}", reply.text());
    }
    let malformed = Origin::answering(
        "HTTP/1.1 200 OK\r\nContent-Type: multipart/related; boundary=b\r\nContent-Length: 3\r\n\r\n--b",
    );
    let gateway = start(&malformed, "[{ call: echo }, { respond: { text: '{{ $body }}' } }]");
    let reply = post(&gateway, "text/plain", b"x");
    assert_eq!(reply.status(), 502, "{}", reply.text());
    assert!(reply.text().contains(r#""fault":"reply_invalid""#), "{}", reply.text());
}

/// A value could end its part and begin another.
#[test]
fn no_value_breaks_out_of_its_part() {
    let origin = mirror();
    let gateway = start(
        &origin,
        "[{ payload: { xml: '<a>{{ $query.v }}</a>' } }, { call: echo }, { respond: {} }]",
    );
    for (value, status) in [("x%0D%0A--part%0D%0A", 500), ("x%0A--part--", 500), ("x--part", 200)] {
        let body = swa(&envelope("<a>1</a>"), "");
        let head = format!(
            "POST /a?v={value} HTTP/1.1\r\nHost: a\r\nContent-Type: {SWA}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let reply = gateway.wire().ask([head.as_bytes(), &body].concat());
        assert_eq!(reply.status(), status, "{value}: {}", reply.text());
    }
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn the_body_of_a_form_is_its_text_and_its_fields_have_names() {
    let origin = mirror();
    let body = b"name=A%26B+%22&n=1&tag=x&tag=y&empty";
    for (flow, made) in [
        ("[{ respond: { text: '{{ $body }}' } }]", "name=A%26B+%22&n=1&tag=x&tag=y&empty"),
        ("[{ respond: { text: '{{ $body.name }}' } }]", "A&B \""),
        (
            "[{ respond: { text: '{{ $body.tag[1] }}|{{ $body.none }}|{{ $body.empty }}|' } }]",
            "y|||",
        ),
        (
            "[{ respond: { json: '{\"n\":{{ $body.name }},\"t\":{{ $body.tag }}}' } }]",
            r#"{"n":"A&B \"","t":["x","y"]}"#,
        ),
        (
            "[{ respond: { xml: '<a n=\"{{ $body.n }}\">{{ $body.name }}</a>' } }]",
            "<a n=\"1\">A&amp;B \"</a>",
        ),
        ("[{ set: { v: { json: '$.tag[0]' } } }, { respond: { text: '{{ $v }}' } }]", "x"),
        ("[{ convert: { to: json } }]", r#"{"name":"A&B \"","n":"1","tag":["x","y"],"empty":""}"#),
        (
            "[{ convert: { to: xml, root: f } }]",
            "<f><name>A&amp;B \"</name><n>1</n><tag>x</tag><tag>y</tag><empty></empty></f>",
        ),
        (
            "[{ filter: { when: '$body.none', then: [{ respond: { text: a } }] } }, { respond: { text: b } }]",
            "b",
        ),
        (
            "[{ call: { upstream: echo, into: r } }, { payload: { text: '-' } }, { respond: { text: '{{ $r.body.n }}{{ $request.body.n }}' } }]",
            "11",
        ),
    ] {
        let reply = post(&start(&origin, flow), FORM, body);
        assert_eq!((reply.status(), reply.text().as_str()), (200, made), "{flow}");
    }
    for (flow, made) in [
        ("[{ respond: { text: '{{ $body.note }}' } }]", r#"a "b" & <c>"#),
        (
            "[{ respond: { text: '{{ $body.file.filename }} {{ $body.file.base64 }}' } }]",
            "a.bin AAH/DQo=",
        ),
        (
            "[{ convert: { to: json } }]",
            r#"{"note":"a \"b\" & <c>","file":{"filename":"a.bin","content_type":"application/octet-stream","base64":"AAH/DQo="}}"#,
        ),
    ] {
        let reply = post(&start(&origin, flow), FORM_DATA, &form_data());
        assert_eq!((reply.status(), reply.text().as_str()), (200, made), "{flow}");
    }
    let latin = start(&origin, "[{ respond: { text: '{{ $body }}' } }]");
    let reply = post(&latin, "text/plain; charset=ISO-8859-1", b"caf\xe9");
    assert_eq!((reply.status(), reply.text().as_str()), (200, "caf\u{e9}"));
}
