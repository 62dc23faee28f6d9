//! The content type of a stylesheet's result, in every combination of the types of request, reply and result.

use super::*;

/// The output is the text of the message's attribute.
const SHEET: &str = r#"<x:stylesheet version="1.0" xmlns:x="http://www.w3.org/1999/XSL/Transform"><x:output method="text"/><x:template match="/"><x:value-of select="/*/@out"/></x:template></x:stylesheet>"#;

fn transforming(origin: &Origin, on: &str) -> Gateway {
    let route = format!("policies: [{{ xslt: {{ on: {on}, stylesheet: out.xsl }} }}]");
    gateway_to(&origin.url(), &route, &[("out.xsl", SHEET)])
}

/// XML that names the output.
fn message(out: &str) -> String {
    let out = out.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    format!("<a out=\"{out}\"/>")
}

fn line(content_type: &str) -> String {
    match content_type {
        "" => String::new(),
        written => format!("Content-Type: {written}\r\n"),
    }
}

const XML: &str = "text/xml; charset=utf-8";
const JSON: &str = "application/json";

/// The content type of a message, and those of its result: XML, an object, an array or something else.
const LABELS: &[(&str, [&str; 4])] = &[
    (XML, [XML, JSON, JSON, XML]),
    ("text/xml", ["text/xml", JSON, JSON, "text/xml"]),
    ("application/xml", ["application/xml", JSON, JSON, "application/xml"]),
    (
        "application/soap+xml; action=\"urn:a\"",
        [
            "application/soap+xml; action=\"urn:a\"",
            JSON,
            JSON,
            "application/soap+xml; action=\"urn:a\"",
        ],
    ),
    (JSON, [XML, JSON, JSON, JSON]),
    (
        "application/json; charset=utf-8",
        [
            XML,
            "application/json; charset=utf-8",
            "application/json; charset=utf-8",
            "application/json; charset=utf-8",
        ],
    ),
    (
        "application/vnd.api+json",
        [XML, "application/vnd.api+json", "application/vnd.api+json", "application/vnd.api+json"],
    ),
    // An unknown or missing type counts as XML, and stays as long as the message does.
    ("text/plain", ["text/plain", JSON, JSON, "text/plain"]),
    ("", ["", JSON, JSON, ""]),
];

const RESULTS: [&str; 4] = ["<b/>", r#"{"b":1}"#, "[1]", "plain"];

#[test]
fn a_request_goes_on_as_what_it_became() {
    let origin = Origin::saying("ok");
    let gateway = transforming(&origin, "request");
    for (sent, labels) in LABELS {
        for (result, label) in RESULTS.into_iter().zip(labels) {
            let reply = post_to(&gateway, "/", &line(sent), &message(result));
            assert_eq!(reply.text(), "ok", "{sent} {result}");
            let seen = origin.requests().pop().expect("a request");
            assert_eq!(seen.text(), result, "{sent}");
            assert_eq!(seen.get("content-type").unwrap_or_default(), *label, "{sent} {result}");
            let length = result.len().to_string();
            assert_eq!(seen.get("content-length"), Some(length.as_str()), "{sent} {result}");
        }
    }
}

#[test]
fn a_reply_is_labelled_for_the_client_by_what_it_became() {
    // It echoes the message, with the type in the request's `x-label`.
    let origin = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let label = line(request.get("x-label").unwrap_or_default());
            if !peer.try_send(answer(200, &label, &request.body)) {
                return;
            }
        }
    });
    let gateway = transforming(&origin, "response");
    for client in [XML, "application/soap+xml; charset=utf-8", JSON] {
        for (sent, labels) in LABELS {
            for (result, label) in RESULTS.into_iter().zip(labels) {
                let lines = format!("{}X-Label: {sent}\r\n", line(client));
                let reply = post_to(&gateway, "/", &lines, &message(result));
                let what = format!("{client}, {sent}, {result}");
                assert_eq!((reply.status(), reply.text().as_str()), (200, result), "{what}");
                assert_eq!(reply.get("content-type").unwrap_or_default(), *label, "{what}");
            }
        }
    }
}

/// Posts bytes to a route that holds them to the calculator's schema and renames the operation.
fn renamed(gateway: &Gateway, content_type: &str, body: &[u8]) -> Message {
    let head = format!(
        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    gateway.wire().ask([head.as_bytes(), body].concat())
}

#[test]
fn the_charset_of_a_content_type_stands_above_the_declaration() {
    let origin = Origin::echo();
    let sheet = r#"<x:stylesheet version="1.0" xmlns:x="http://www.w3.org/1999/XSL/Transform"><x:template match="/"><x:copy-of select="//n"/></x:template></x:stylesheet>"#;
    let route =
        "policies: [{ soap: { verbose: true } }, { xslt: { on: request, stylesheet: n.xsl } }]";
    let gateway = gateway_to(&origin.url(), route, &[("n.xsl", sheet)]);
    let latin = |declaration: &str| {
        let text = format!(
            "{declaration}{}",
            envelope(SOAP_11, "<n>é</n>").lines().skip(1).collect::<String>()
        );
        text.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect::<Vec<u8>>()
    };
    let utf8 = envelope(SOAP_11, "<n>é</n>").replace("utf-8", "iso-8859-1");
    for _ in 0..3 {
        for (content_type, body) in [
            ("text/xml; charset=iso-8859-1", latin("")),
            ("text/xml; charset=\"ISO-8859-1\"", latin("<?xml version=\"1.0\"?>")),
            ("text/xml", latin("<?xml version=\"1.0\" encoding=\"iso-8859-1\"?>")),
            ("text/xml; charset=ISO-8859-15", latin("")),
            ("text/xml", latin("<?xml version=\"1.0\" encoding=\"windows-1252\"?>")),
            ("text/xml; charset=utf-8", utf8.clone().into_bytes()),
            ("text/xml; charset=utf-8", envelope(SOAP_11, "<n>é</n>").into_bytes()),
        ] {
            let reply = renamed(&gateway, content_type, &body).text();
            assert!(reply.contains(">é</n>"), "{content_type}: {reply}");
        }
    }
    let wrong = renamed(&gateway, "text/xml; charset=utf-8", &latin("")).text();
    assert!(wrong.contains("this is not UTF-8"), "{wrong}");
    let plain = envelope(SOAP_11, "<n>e</n>");
    for (content_type, body, why) in [
        ("text/xml; charset=x-unknown", plain.clone(), "The charset 'x-unknown' is not supported"),
        ("text/xml; charset=utf-16", plain.clone(), "The message is not in the charset 'utf-16'"),
        ("text/xml", plain.replace("utf-8", "x-unknown"), "the encoding `x-unknown` is not read"),
    ] {
        let reply = renamed(&gateway, content_type, body.as_bytes());
        assert_eq!(reply.status(), 500, "{content_type}");
        assert!(reply.text().contains(why), "{content_type}: {}", reply.text());
    }
}
