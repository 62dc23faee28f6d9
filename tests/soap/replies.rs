//! Replies of upstreams, validated and transformed.

use std::io::{Read as _, Write as _};

use super::*;
use crate::harness::{H2, full};

const XML: &str = "Content-Type: text/xml;charset=utf-8\r\n";
const ROUTE: &str = "errors: kong, policies: [{ soap: { schema: calculator.wsdl, validate: [response], verbose: true } }]";

fn result(text: &str) -> String {
    envelope(
        SOAP_11,
        &format!(
            "<AddResponse xmlns=\"http://tempuri.org/\"><AddResult>{text}</AddResult></AddResponse>"
        ),
    )
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_reply_is_held_to_the_wsdl() {
    let good = Origin::answering(answer(200, XML, result("12").as_bytes()));
    assert_eq!(post(&gateway(&good, ROUTE), &add()).text(), result("12"));

    let bad = Origin::answering(answer(200, XML, result("many").as_bytes()));
    let reply = post(&gateway(&bad, ROUTE), &add());
    let message = "Error Node: AddResult, Error code: 1824, Line: 4, Message: Element '{http://tempuri.org/}AddResult': 'many' is not a valid value of the atomic type 'xs:int'.";
    assert_eq!(
        reply.text(),
        kong_11("Server", "Response - XSD validation failed", message, Some(200))
    );
    assert_eq!(reply.status(), 500);

    // A service may answer with a fault at any time.
    let fault = envelope(
        SOAP_11,
        "<soap:Fault><faultcode>soap:Client</faultcode><faultstring>no</faultstring></soap:Fault>",
    );
    let origin = Origin::answering(answer(500, XML, fault.as_bytes()));
    let reply = post(&gateway(&origin, ROUTE), &add());
    assert_eq!((reply.status(), reply.text()), (500, fault));
}

/// The same for any fault of a reply, since the client could not correct it.
#[test]
fn a_refused_reply_is_the_servers_fault_whoever_refuses_it() {
    let files: &[(&str, &str)] =
        &[("later.xsl", "<x:a xmlns:x=\"http://www.w3.org/1999/XSL/Transform\"/>")];
    let soap = "soap: { schema: calculator.wsdl, versions: [\"1.1\", \"1.2\"], validate: [response], verbose: true }";
    let xslt = "xslt: { on: response, stylesheet: rename.xsl, verbose: true }";
    let broken = "xslt: { on: response, stylesheet: later.xsl, verbose: true }";
    let (wrong, none) = (result("many"), envelope(SOAP_11, ""));
    for (policy, body) in [
        (soap, wrong.as_str()),
        (soap, "<a"),
        (soap, ""),
        (soap, "<a/>"),
        (soap, &none),
        (xslt, "<a"),
        (xslt, "no xml"),
        (broken, "<a/>"),
    ] {
        let origin = Origin::answering(answer(200, XML, body.as_bytes()));
        for errors in ["errors: kong, ", ""] {
            let faulty = policy.replace("later.xsl,", "later.xsl, bad_definitions: fault,");
            let route = format!("{errors}policies: [{{ {faulty} }}]");
            let gateway = gateway_to(&origin.url(), &route, files);
            let reply = post(&gateway, &add());
            assert_eq!(reply.status(), 500, "{route} {body}: {}", reply.text());
            let code = "<faultcode>soap:Server</faultcode>";
            assert!(reply.text().contains(code), "{route} {body}: {}", reply.text());
            let reply = post_12(&gateway, &add().replace(SOAP_11, SOAP_12));
            let code = "<env:Value>env:Receiver</env:Value>";
            assert!(reply.text().contains(code), "{route} {body}: {}", reply.text());
            let json = "Content-Type: application/json\r\n";
            let reply = post_to(&gateway, "/", json, "{}");
            let status = if errors.is_empty() { [500, 502] } else { [500, 500] };
            assert!(status.contains(&reply.status()), "{route} {body}: {}", reply.text());
        }
    }
}

#[test]
fn an_upstreams_error_becomes_a_fault_where_one_wants_it() {
    let origin = Origin::answering(answer(503, "Content-Type: text/html\r\n", b"<h1>down</h1>"));
    let route = "errors: kong, policies: [{ soap: { validate: [response], upstream_errors: fault, verbose: true } }]";
    let reply = post(&gateway(&origin, route), &add());
    let message = "Service Backend returned an HTTP error. The SOAP/XML process is ignored";
    assert_eq!(
        reply.text(),
        kong_11("Server", "Response - General process failed", message, Some(503))
    );
    assert_eq!(reply.status(), 500);
}

#[test]
fn a_coded_reply_is_looked_into_and_coded_again() {
    let lines = format!("{XML}Content-Encoding: gzip\r\n");
    let policies = "policies: [{ soap: { schema: kong-result.wsdl, validate: [response] } }, { xslt: { on: response, stylesheet: kong-result.xsl } }]";
    let origin = Origin::answering(answer(200, &lines, &gzip(&result("12"))));
    for errors in ["errors: kong,", ""] {
        let reply = post(&gateway(&origin, &format!("{errors} {policies}")), &add());
        assert_eq!(
            (reply.status(), reply.get("content-encoding")),
            (200, Some("gzip")),
            "{}",
            reply.text()
        );
        let mut text = String::new();
        flate2::read::GzDecoder::new(&*reply.body).read_to_string(&mut text).unwrap();
        assert!(
            text.contains("<KongResult xmlns=\"http://tempuri.org/\">12</KongResult>")
                || text.contains("<KongResult>12</KongResult>"),
            "{text}"
        );
    }
    // A body that inflates beyond the bound is refused before it is held.
    let bomb = Origin::answering(answer(200, &lines, &gzip(&" ".repeat(1 << 20))));
    let route = "policies: [{ soap: { validate: [response], body_bytes_max: 64KiB } }]";
    assert_eq!(post(&gateway(&bomb, route), &add()).status(), 502);
}

#[test]
fn deflate_is_what_kong_refuses() {
    let lines = format!("{XML}Content-Encoding: deflate\r\n");
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(result("12").as_bytes()).unwrap();
    let origin = Origin::answering(answer(200, &lines, &encoder.finish().unwrap()));
    let reply = post(&gateway(&origin, ROUTE), &add());
    let message = "Content-encoding of type 'deflate' is not supported";
    let fault = kong_11("Client", "Response - General process failed", message, Some(200));
    assert_eq!((reply.status(), reply.text()), (500, fault.clone()));
    assert_eq!(reply.get("content-encoding"), None);
    // For each policy that reads it.
    for policies in [
        "{ xslt: { on: response, stylesheet: kong-result.xsl, verbose: true } }",
        "{ soap: { schema: calculator.wsdl, validate: [response], verbose: true } }, { xslt: { on: response, stylesheet: kong-result.xsl, verbose: true } }",
    ] {
        let gateway = gateway(&origin, &format!("errors: kong, policies: [{policies}]"));
        assert_eq!(post(&gateway, &add()).text(), fault, "{policies}");
    }
    // A body in another coding than its headers specify is a fault of the server.
    let broken = Origin::answering(answer(200, &lines.replace("deflate", "gzip"), b"no gzip"));
    let xslt = "errors: kong, policies: [{ xslt: { on: response, stylesheet: kong-result.xsl, verbose: true } }]";
    let fault = kong_11(
        "Server",
        "Response - General process failed",
        "The content does not have the content coding 'gzip' that it states",
        Some(200),
    );
    for route in [ROUTE, xslt] {
        assert_eq!(post(&gateway(&broken, route), &add()).text(), fault, "{route}");
    }
    let reply = post(&gateway(&origin, &ROUTE.replace("errors: kong, ", "")), &add());
    assert_eq!((reply.status(), reply.get("content-encoding")), (200, Some("deflate")));
}

#[test]
fn a_result_of_another_kind_is_labelled() {
    let sheet = r#"<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:output method="text"/><xsl:param name="name"/><xsl:template match="/">{"<xsl:value-of select="$name"/>":<xsl:value-of select="//*[local-name()='AddResult']"/>}</xsl:template></xsl:stylesheet>"#;
    let origin = Origin::answering(answer(200, XML, result("12").as_bytes()));
    let route = "policies: [{ xslt: { on: response, stylesheet: json.xsl, parameters: { name: \"it's\" } } }]";
    let gateway = gateway_to(&origin.url(), route, &[("json.xsl", sheet)]);
    let reply = post(&gateway, &add());
    assert_eq!(reply.text(), r#"{"it's":12}"#);
    assert_eq!(reply.get("content-type"), Some("application/json"));
}

#[test]
fn replies_are_looked_into_over_http_2_too() {
    let origin = Origin::answering(answer(200, XML, result("12").as_bytes()));
    let gateway = gateway(&origin, ROUTE);
    let client = H2::connect(gateway.address("public"));
    let request = hyper::Request::post("http://a.test/ws").header("content-type", "text/xml");
    let reply = client.ask(request.body(full(add())).unwrap());
    assert_eq!((reply.status, &reply.body[..]), (200, result("12").as_bytes()));
}

#[test]
fn what_is_said_of_the_bytes_goes_with_them() {
    let lines = "Content-Type: text/xml\r\nETag: \"a\"\r\nContent-MD5: x\r\nDigest: x\r\nContent-Digest: x\r\nRepr-Digest: x\r\nAccept-Ranges: bytes\r\nX-Other: y\r\n";
    let good = Origin::answering(answer(200, lines, result("12").as_bytes()));
    let route = "policies: [{ xslt: { on: response, stylesheet: rename.xsl } }]";
    let reply = post(&gateway(&good, route), &add());
    assert_eq!((reply.status(), reply.get("x-other")), (200, Some("y")));
    for name in ["etag", "content-md5", "digest", "content-digest", "repr-digest", "accept-ranges"]
    {
        assert_eq!(reply.get(name), None, "{name}");
    }
    // Nothing of it is touched that is not transformed.
    let route = "policies: [{ soap: { schema: calculator.wsdl, validate: [response] } }]";
    assert_eq!(post(&gateway(&good, route), &add()).get("etag"), Some("\"a\""));
}

#[test]
fn a_reply_to_head_is_let_through() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nETag: \"a\"\r\nAccept-Ranges: bytes\r\nContent-Length: 5000\r\n\r\n";
    let origin = Origin::answering(head);
    // A transformed reply has nothing that is said of the upstream's bytes, so neither has its head.
    for (policies, [etag, ranges]) in [
        ("policies: [{ xslt: { on: response, stylesheet: rename.xsl } }]", [None; 2]),
        (
            "policies: [{ soap: { schema: calculator.wsdl, validate: [response] } }]",
            [Some("\"a\""), Some("bytes")],
        ),
        (
            "errors: problem, policies: [{ xslt: { on: response, stylesheet: rename.xsl } }]",
            [None; 2],
        ),
    ] {
        let gateway = gateway(&origin, policies);
        let mut wire = gateway.wire();
        wire.send("HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        let reply = wire.read_head();
        assert_eq!((reply.status(), reply.get("etag")), (200, etag), "{policies}");
        assert_eq!((reply.get("accept-ranges"), reply.get("content-length")), (ranges, None));
    }
}

#[test]
fn the_routes_own_reply_with_200_passes_untouched() {
    let policies = "policies: [{ soap: { schema: calculator.wsdl, validate: [request, response], upstream_errors: fault } }, { xslt: { on: response, stylesheet: kong-result.xsl } }]";
    for errors in ["errors: kong,", ""] {
        for (respond, status, passes) in [
            ("{ status: 200, body: mock }", 200, true),
            ("{ status: 404, body: mock }", 500, false),
        ] {
            let yaml = format!(
                "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nroutes: {{ all: {{ match: {{ path: /** }}, {errors} respond: {respond}, {policies} }} }}\n"
            );
            let gateway = Gateway::start_beside(yaml, FILES);
            let reply = post(&gateway, &add());
            assert_eq!((reply.status(), reply.text() == "mock"), (status, passes), "{respond}");
        }
    }
}

#[test]
fn an_upstreams_error_is_nobody_elses_message() {
    let route = "errors: kong, policies: [{ soap: { validate: [response], upstream_errors: fault, verbose: true } }, { xslt: { on: response, stylesheet: kong-result.xsl } }, { soap: { schema: calculator.wsdl, validate: [response] } }]";
    for (status, body) in [(500, "down"), (404, "<a/>"), (202, ""), (204, "")] {
        let origin =
            Origin::answering(answer(status, "Content-Type: text/plain\r\n", body.as_bytes()));
        let reply = post(&gateway(&origin, route), &add());
        let message = "Service Backend returned an HTTP error. The SOAP/XML process is ignored";
        let fault = kong_11("Server", "Response - General process failed", message, Some(status));
        assert_eq!((reply.status(), reply.text()), (500, fault), "{status}");
    }
}

#[test]
fn a_fault_may_say_its_language_but_for_kong() {
    let fault = envelope(
        SOAP_11,
        "<soap:Fault><faultcode>soap:Client</faultcode><faultstring xml:lang=\"en\">no</faultstring></soap:Fault>",
    );
    let origin = Origin::answering(answer(500, XML, fault.as_bytes()));
    let kong = post(&gateway(&origin, ROUTE), &add());
    assert!(kong.text().contains("Error code: 1827"), "{}", kong.text());
    let plain = post(&gateway(&origin, &ROUTE.replace("errors: kong, ", "")), &add());
    assert_eq!((plain.status(), plain.text()), (500, fault));
}

#[test]
fn codings_are_read_of_all_lines() {
    let lines = format!("{XML}Content-Encoding: identity\r\nContent-Encoding: gzip\r\n");
    let origin = Origin::answering(answer(200, &lines, &gzip(&result("12"))));
    let reply = post(&gateway(&origin, ROUTE), &add());
    assert_eq!((reply.status(), reply.get("content-encoding")), (200, Some("gzip")));

    let lines = format!("{XML}Content-Encoding: gzip\r\nContent-Encoding: br\r\n");
    let origin = Origin::answering(answer(200, &lines, &gzip(&result("12"))));
    let reply = post(&gateway(&origin, ROUTE), &add());
    let message = "Content-encoding of type 'gzip, br' is not supported";
    assert_eq!(
        reply.text(),
        kong_11("Client", "Response - General process failed", message, Some(200))
    );
}
