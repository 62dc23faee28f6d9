//! Messages with attachments (SwA, MTOM) below the policies that look into XML.

use serde_json::json;

use crate::harness::{Gateway, Message, Origin};
use crate::soap_services::{envelope, yaml};

const TYPE: &str = "multipart/related; boundary=b; type=\"application/xop+xml\"; start=\"<root>\"; start-info=\"text/xml\"";

const XOP_ROOT: &str = "application/xop+xml; charset=UTF-8; type=\"text/xml\"";

/// Bytes that are not text, with all kinds of line ends.
const PICTURE: &[u8] = b"\x00\xff\r\n-b\n--c\r\r\n";

const SCHEMA: &str = "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" targetNamespace=\"urn:t\" elementFormDefault=\"qualified\"><xs:element name=\"Put\"><xs:complexType><xs:sequence><xs:element name=\"name\" type=\"xs:NCName\"/><xs:element name=\"picture\"><xs:simpleType><xs:restriction base=\"xs:base64Binary\"><xs:minLength value=\"4\"/></xs:restriction></xs:simpleType></xs:element></xs:sequence></xs:complexType></xs:element></xs:schema>";

/// A message with a root part and one picture.
fn parts(root_type: &str, root: &str) -> Vec<u8> {
    let mut all = format!(
        "--b\r\nContent-Type: {root_type}\r\nContent-ID: <root>\r\n\r\n{root}\r\n--b\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: binary\r\nContent-ID: <picture@a>\r\n\r\n"
    )
    .into_bytes();
    all.extend_from_slice(PICTURE);
    all.extend_from_slice(b"\r\n--b--\r\n");
    all
}

fn put(name: &str, picture: &str) -> String {
    envelope(&format!(
        "<t:Put xmlns:t=\"urn:t\"><t:name>{name}</t:name><t:picture>{picture}</t:picture></t:Put>"
    ))
}

const INCLUDED: &str =
    "<xop:Include xmlns:xop=\"http://www.w3.org/2004/08/xop/include\" href=\"cid:picture%40a\"/>";

/// Echoes a message with its content type.
fn echoing() -> Origin {
    Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let told = request.get("content-type").unwrap_or_default();
            let length = request.body.len();
            peer.try_send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {told}\r\nContent-Length: {length}\r\n\r\n"
            ));
            peer.try_send(&request.body);
        }
    })
}

fn send(gateway: &Gateway, body: &[u8]) -> Message {
    let mut wire = format!(
        "POST /ws HTTP/1.1\r\nHost: api.test\r\nContent-Type: {TYPE}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    wire.extend_from_slice(body);
    gateway.wire().ask(wire)
}

#[test]
fn a_schema_holds_the_root_with_what_it_includes() {
    let origin = echoing();
    let route =
        "policies: [{ soap: { schema: a.xsd, validate: [request, response], verbose: true } }]";
    let gateway = Gateway::start_beside(yaml(&origin, route), &[("a.xsd", SCHEMA)]);
    for (root_type, root) in [
        (XOP_ROOT, put("ann", INCLUDED)),
        (XOP_ROOT, put("ann", &INCLUDED.replace("/>", "></xop:Include>"))),
        ("text/xml; charset=utf-8", put("ann", "AAAAAAAA")),
    ] {
        let sent = parts(root_type, &root);
        let reply = send(&gateway, &sent);
        assert_eq!(reply.status(), 200, "{root}: {}", reply.text());
        assert!(reply.body == sent, "the message goes and comes as it was: {}", reply.text());
    }
    for (root_type, root) in [
        (XOP_ROOT, put("a b", INCLUDED)),
        (XOP_ROOT, put("ann", &INCLUDED.replace("picture%40a", "other"))),
        (XOP_ROOT, put("ann", &INCLUDED.replace("cid:", "http://a/"))),
        ("text/xml; charset=utf-8", put("ann", INCLUDED)),
        ("text/xml; charset=utf-8", put("ann", "AAAA")),
    ] {
        let reply = send(&gateway, &parts(root_type, &root));
        assert_eq!(reply.status(), 500, "{root}: {}", reply.text());
        assert!(reply.text().contains("Client"), "{root}: {}", reply.text());
    }
    let reply = send(&gateway, b"--b\r\nContent-Type: text/xml\r\n\r\n<a/>\r\n");
    assert_eq!(reply.status(), 500, "{}", reply.text());
}

#[test]
fn an_attachment_that_is_included_often_is_bounded() {
    let origin = echoing();
    let route =
        "policies: [{ soap: { schema: a.xsd, validate: [request], body_bytes_max: 64KiB } }]";
    let gateway = Gateway::start_beside(yaml(&origin, route), &[("a.xsd", SCHEMA)]);
    let mut sent = parts(XOP_ROOT, &put("ann", &INCLUDED.repeat(50)));
    let at = sent.len() - b"\r\n--b--\r\n".len();
    sent.splice(at..at, [7; 10_000]);
    let reply = send(&gateway, &sent);
    assert_eq!(reply.status(), 413, "{}", reply.text());
}

#[test]
fn a_stylesheet_changes_the_root_alone() {
    let origin = echoing();
    let sheet = "<xsl:stylesheet version=\"1.0\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\" xmlns:t=\"urn:t\"><xsl:template match=\"@*|node()\"><xsl:copy><xsl:apply-templates select=\"@*|node()\"/></xsl:copy></xsl:template><xsl:template match=\"t:name\"><t:name>bob</t:name></xsl:template></xsl:stylesheet>";
    let route = "policies: [{ xslt: { on: request, stylesheet: a.xsl } }]";
    let gateway = Gateway::start_beside(yaml(&origin, route), &[("a.xsl", sheet)]);
    let reply = send(&gateway, &parts(XOP_ROOT, &put("ann", INCLUDED)));
    assert_eq!(reply.status(), 200, "{}", reply.text());
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    assert!(text.contains("<t:name>bob</t:name>"), "{text}");
    assert!(text.contains("href=\"cid:picture%40a\""), "{text}");
    assert!(text.contains(&format!("Content-Type: {XOP_ROOT}\r\n")), "{text}");
    let tail = [PICTURE, b"\r\n--b--\r\n"].concat();
    assert!(reply.body.ends_with(&tail), "{text}");
    assert_eq!(reply.get("content-type"), Some(TYPE));
}

#[test]
fn a_root_chooses_the_upstream() {
    let other = Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother");
    let origin = echoing();
    let text = yaml(
        &origin,
        "policies: [{ xpath_route: { namespaces: { t: \"urn:t\" }, cases: [{ xpath: \"//t:name\", equals: bob, upstream: other }] } }]",
    )
    .replace("upstreams: {", &format!("upstreams: {{ other: {{ targets: [\"{}\"] }},", other.url()));
    let gateway = Gateway::start(text);
    let reply = send(&gateway, &parts(XOP_ROOT, &put("bob", INCLUDED)));
    assert_eq!(reply.text(), "other");
    let sent = parts(XOP_ROOT, &put("ann", INCLUDED));
    assert!(send(&gateway, &sent).body == sent);
}

#[test]
fn a_reply_with_attachments_becomes_json() {
    let wsdl = crate::soap_json::described(
        "<xs:element name=\"Get\"><xs:complexType/></xs:element><xs:element name=\"GetResponse\"><xs:complexType><xs:sequence><xs:element name=\"picture\" type=\"xs:base64Binary\"/></xs:sequence></xs:complexType></xs:element>",
        &crate::soap_json::plain_operation("Get")[0],
        &crate::soap_json::plain_operation("Get")[1],
        &crate::soap_json::plain_operation("Get")[2],
    );
    let of = |picture: &str| {
        let root = envelope(&format!(
            "<t:GetResponse xmlns:t=\"urn:t\"><t:picture>{picture}</t:picture></t:GetResponse>"
        ));
        let body = parts(XOP_ROOT, &root);
        let mut reply = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {TYPE}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        reply.extend_from_slice(&body);
        let origin = Origin::answering(reply);
        let route = "policies: [{ soap_rest: { wsdl: a.wsdl } }]";
        let gateway = Gateway::start_beside(yaml(&origin, route), &[("a.wsdl", &wsdl)]);
        crate::soap_json::rest(&gateway, "POST", "/ws/Get", "{}")
    };
    assert_eq!(of(INCLUDED), (200, json!({ "picture": "AP8NCi1iCi0tYw0NCg==" })));
    // An attachment that no element includes would be lost.
    assert_eq!(of("AAAA").0, 502);
}
