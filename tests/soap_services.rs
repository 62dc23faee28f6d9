//! SOAP services as other vendors' tools make them: styles, actions, published descriptions and names.

use crate::harness::{Gateway, Message, Origin, tidegate};

pub(crate) const SOAP: &str = "http://schemas.xmlsoap.org/soap/envelope/";

pub(crate) fn envelope(body: &str) -> String {
    format!("<s:Envelope xmlns:s=\"{SOAP}\"><s:Body>{body}</s:Body></s:Envelope>")
}

/// An origin that answers with this body of SOAP.
pub(crate) fn answering(body: &str) -> Origin {
    let text = envelope(body);
    Origin::answering(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/xml; charset=utf-8\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    ))
}

pub(crate) fn yaml(origin: &Origin, route: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\n\
         upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/ws/**\" }}, upstream: origin, {route} }} }}\n",
        origin.url()
    )
}

pub(crate) fn post(gateway: &Gateway, lines: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST /ws HTTP/1.1\r\nHost: api.test\r\nContent-Type: text/xml; charset=utf-8\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
    ))
}

/// The output of `check` for a configuration with some files.
pub(crate) fn checked(yaml: &str, files: &[(&str, &str)]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let file = folder.path().join("tidegate.yaml");
    std::fs::write(&file, yaml).unwrap();
    let run = tidegate(&["check", file.to_str().unwrap()]);
    (run.code, run.stdout + &run.stderr)
}

/// Messages in the style rpc/literal, with a type of its schema, of XML Schema, and of another namespace.
const RPC: &str = r#"<definitions xmlns="http://schemas.xmlsoap.org/wsdl/" xmlns:soap="http://schemas.xmlsoap.org/wsdl/soap/" xmlns:t="urn:rpc" xmlns:o="urn:other" xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:rpc">
  <types>
    <xs:schema targetNamespace="urn:rpc"><xs:complexType name="Point"><xs:sequence><xs:element name="x" type="xs:int"/></xs:sequence></xs:complexType></xs:schema>
    <xs:schema targetNamespace="urn:other"><xs:simpleType name="Code"><xs:restriction base="xs:string"><xs:pattern value="[A-Z]{2}"/></xs:restriction></xs:simpleType></xs:schema>
  </types>
  <message name="In"><part name="count" type="xs:int"/><part name="at" type="t:Point"/><part name="code" type="o:Code"/></message>
  <message name="Out"><part name="result" type="xs:int"/></message>
  <portType name="P"><operation name="Move"><input message="t:In"/><output message="t:Out"/></operation></portType>
  <binding name="B" type="t:P"><soap:binding style="rpc" transport="http://schemas.xmlsoap.org/soap/http"/>
    <operation name="Move"><soap:operation soapAction="urn:rpc#Move"/>
      <input><soap:body use="literal" namespace="urn:rpc"/></input><output><soap:body use="literal" namespace="urn:rpc"/></output></operation></binding>
  <service name="S"><port name="P" binding="t:B"><soap:address location="http://127.0.0.1:1/ws"/></port></service>
</definitions>"#;

fn moved(parts: &str) -> String {
    envelope(&format!("<r:Move xmlns:r=\"urn:rpc\">{parts}</r:Move>"))
}

#[test]
fn messages_in_the_style_rpc_are_held_to_the_parts_of_their_operation() {
    let origin =
        answering("<r:MoveResponse xmlns:r=\"urn:rpc\"><result>7</result></r:MoveResponse>");
    let soap =
        "policies: [{ soap: { schema: rpc.wsdl, validate: [request, response], verbose: true } }]";
    let gateway = Gateway::start_beside(yaml(&origin, soap), &[("rpc.wsdl", RPC)]);
    let good = "<count>1</count><at><x>2</x></at><code>AB</code>";
    let reply = post(&gateway, "", &moved(good));
    assert_eq!(reply.status(), 200, "{}", reply.text());
    for bad in [
        good.replace("<count>1", "<count>one"),
        good.replace("<x>2", "<x>two"),
        good.replace("AB", "ab"),
        good.replace("<code>AB</code>", ""),
        format!("{good}<more/>"),
        good.replace("count", "number"),
        good.replace("<count>1</count>", "<r:count>1</r:count>"),
    ] {
        let reply = post(&gateway, "", &moved(&bad));
        assert!(reply.status() == 500 && reply.text().contains("Client"), "{bad}: {reply:?}");
    }
    assert_eq!(post(&gateway, "", &envelope("<r:Other xmlns:r=\"urn:rpc\"/>")).status(), 500);
    let wrong =
        answering("<r:MoveResponse xmlns:r=\"urn:rpc\"><result>x</result></r:MoveResponse>");
    let gateway = Gateway::start_beside(yaml(&wrong, soap), &[("rpc.wsdl", RPC)]);
    let reply = post(&gateway, "", &moved(good));
    assert!(reply.status() >= 500 && reply.text().contains("Fault"), "{reply:?}");
    // Kong refuses all of them, and so does the mode for Kong; `check` reports that.
    let kong = yaml(&origin, &format!("errors: kong, {soap}"));
    let (code, said) = checked(&kong, &[("rpc.wsdl", RPC)]);
    assert!(code == Some(0) && said.contains("rpc/literal are refused"), "{said}");
    let gateway = Gateway::start_beside(kong, &[("rpc.wsdl", RPC)]);
    let reply = post(&gateway, "", &moved(good));
    assert!(reply.text().contains("1845"), "{}", reply.text());
    let (code, said) = checked(&yaml(&origin, soap), &[("rpc.wsdl", RPC)]);
    assert!(code == Some(0) && !said.contains("rpc"), "{said}");
}

/// A description without schemas, also below `soap_rest`.
#[test]
fn a_description_in_the_style_rpc_needs_no_types() {
    let from = RPC.find("  <types>").unwrap();
    let to = RPC.find("  <message name=\"In\">").unwrap();
    let wsdl = format!("{}{}", &RPC[..from], &RPC[to..])
        .replace("<part name=\"at\" type=\"t:Point\"/><part name=\"code\" type=\"o:Code\"/>", "");
    let origin =
        answering("<r:MoveResponse xmlns:r=\"urn:rpc\"><result>7</result></r:MoveResponse>");
    let soap = "policies: [{ soap: { schema: rpc.wsdl, validate: [request, response] } }]";
    let gateway = Gateway::start_beside(yaml(&origin, soap), &[("rpc.wsdl", &wsdl)]);
    assert_eq!(post(&gateway, "", &moved("<count>1</count>")).status(), 200);
    assert_eq!(post(&gateway, "", &moved("<count/>")).status(), 500);
    let both = "policies: [{ soap_rest: { wsdl: rpc.wsdl } }, { soap: { schema: rpc.wsdl, validate: [request, response] } }]";
    let gateway = Gateway::start_beside(yaml(&origin, both), &[("rpc.wsdl", &wsdl)]);
    let json = r#"{"count":1}"#;
    let reply = gateway.wire().ask(format!(
        "POST /ws/Move HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{json}",
        json.len()
    ));
    assert_eq!((reply.status(), reply.text().as_str()), (200, r#"{"result":7}"#));
}

const ACTIONS: &str = r#"<definitions xmlns="http://schemas.xmlsoap.org/wsdl/" xmlns:soap="http://schemas.xmlsoap.org/wsdl/soap/" xmlns:t="urn:a" xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:a">
  <types><xs:schema targetNamespace="urn:a"><xs:element name="Item" type="xs:string"/><xs:element name="Other" type="xs:string"/></xs:schema></types>
  <message name="In"><part name="b" element="t:Item"/></message>
  <message name="Else"><part name="b" element="t:Other"/></message>
  <portType name="P"><operation name="A"><input message="t:In"/></operation><operation name="B"><input message="t:In"/></operation><operation name="Item"><input message="t:Else"/></operation></portType>
  <binding name="Bi" type="t:P"><soap:binding transport="http://schemas.xmlsoap.org/soap/http"/>
    <operation name="A"><soap:operation soapAction="urn:A"/><input><soap:body use="literal"/></input></operation>
    <operation name="B"><soap:operation soapAction="urn:B"/><input><soap:body use="literal"/></input></operation>
    <operation name="Item"><soap:operation soapAction="urn:Item"/><input><soap:body use="literal"/></input></operation></binding>
</definitions>"#;

#[test]
fn each_operation_that_takes_an_element_has_its_action() {
    let origin = answering("<x/>");
    let soap = "policies: [{ soap: { schema: a.wsdl, validate: [request], action: required, verbose: true } }]";
    let gateway = Gateway::start_beside(yaml(&origin, soap), &[("a.wsdl", ACTIONS)]);
    let item = envelope("<t:Item xmlns:t=\"urn:a\">x</t:Item>");
    let other = envelope("<t:Other xmlns:t=\"urn:a\">x</t:Other>");
    for (body, action, status) in [
        (&item, "urn:A", 200),
        (&item, "urn:B", 200),
        (&item, "urn:C", 500),
        (&item, "", 500),
        (&other, "urn:Item", 200),
        (&other, "urn:A", 500),
    ] {
        let reply = post(&gateway, &format!("SOAPAction: \"{action}\"\r\n"), body);
        assert_eq!(reply.status(), status, "{action}: {}", reply.text());
    }
}

/// A description in several documents: another description, a schema, and one that refers to a third in a folder.
pub(crate) const PUBLISHED: [(&str, &str); 4] = [
    (
        "main.wsdl",
        r#"<?xml version="1.0"?>
<wsdl:definitions xmlns:wsdl="http://schemas.xmlsoap.org/wsdl/" xmlns:soap="http://schemas.xmlsoap.org/wsdl/soap/" xmlns:t="urn:p" targetNamespace="urn:p">
  <wsdl:import namespace="urn:p" location='parts/interface.wsdl'/>
  <wsdl:binding name="B" type="t:P"><soap:binding transport="http://schemas.xmlsoap.org/soap/http"/>
    <wsdl:operation name="Get"><soap:operation soapAction="get"/><wsdl:input><soap:body use="literal"/></wsdl:input><wsdl:output><soap:body use="literal"/></wsdl:output></wsdl:operation></wsdl:binding>
  <wsdl:service name="S"><wsdl:port name="P" binding="t:B"><soap:address location="http://backend.internal:8088/ws"/></wsdl:port>
    <wsdl:port name="J" binding="t:B"><soap:address location="jms:queue"/></wsdl:port></wsdl:service>
</wsdl:definitions>"#,
    ),
    (
        "parts/interface.wsdl",
        r#"<definitions xmlns="http://schemas.xmlsoap.org/wsdl/" xmlns:t="urn:p" targetNamespace="urn:p">
  <types><xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:p"><xs:include schemaLocation="types.xsd"/><xs:import namespace="urn:q" schemaLocation="http://127.0.0.1:1/far.xsd"/></xs:schema></types>
  <message name="In"><part name="b" element="t:Get"/></message><message name="Out"><part name="b" element="t:Got"/></message>
  <portType name="P"><operation name="Get"><input message="t:In"/><output message="t:Out"/></operation></portType>
</definitions>"#,
    ),
    (
        "parts/types.xsd",
        r#"<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:t="urn:p" targetNamespace="urn:p" elementFormDefault="qualified"><xs:include schemaLocation="../common.xsd"/>
  <xs:element name="Get"><xs:complexType><xs:sequence><xs:element name="id" type="t:Id"/></xs:sequence></xs:complexType></xs:element>
  <xs:element name="Got"><xs:complexType><xs:sequence><xs:element name="name" type="xs:string"/></xs:sequence></xs:complexType></xs:element></xs:schema>"#,
    ),
    (
        "common.xsd",
        r#"<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:simpleType name="Id"><xs:restriction base="xs:int"/></xs:simpleType></xs:schema>"#,
    ),
];

fn published(route: &str, listener: &str, origin: &Origin) -> Gateway {
    let yaml =
        yaml(origin, route).replace("\"127.0.0.1:0\" }", &format!("\"127.0.0.1:0\"{listener} }}"));
    let mut files = vec![("tidegate.yaml", yaml.as_str())];
    files.extend(PUBLISHED);
    Gateway::start_folder(&files)
}

#[test]
fn a_description_is_published_with_all_it_imports_where_the_client_came() {
    let origin = Origin::echo();
    let route = "services: { wsdl: main.wsdl }";
    for (listener, lines, address) in [
        ("", "", "http://api.test/ws"),
        ("", "X-Forwarded-Proto: https\r\nX-Forwarded-Host: out.test\r\n", "http://api.test/ws"),
        (
            ", trusted_proxies: [127.0.0.1]",
            "X-Forwarded-Proto: https\r\nX-Forwarded-Host: out.test:8443\r\n",
            "https://out.test:8443/ws",
        ),
    ] {
        let gateway = published(route, listener, &origin);
        let get = |query: &str| {
            let reply = gateway
                .wire()
                .ask(format!("GET /ws?{query} HTTP/1.1\r\nHost: api.test\r\n{lines}\r\n"));
            (reply.status(), reply.text())
        };
        let (status, main) = get("wsdl");
        assert_eq!(status, 200, "{main}");
        assert!(main.contains(&format!("<soap:address location=\"{address}\"/>")), "{main}");
        assert!(main.contains("location=\"jms:queue\""), "{main}");
        assert!(main.contains(&format!("location='{address}?wsdl=1'")), "{main}");
        assert_eq!(get("WSDL"), (200, main));
        let (status, interface) = get("wsdl=1");
        assert_eq!(status, 200);
        assert!(interface.contains(&format!("schemaLocation=\"{address}?xsd=1\"")), "{interface}");
        assert!(interface.contains("schemaLocation=\"http://127.0.0.1:1/far.xsd\""), "{interface}");
        let (status, types) = get("xsd=1");
        assert_eq!(status, 200);
        assert!(types.contains(&format!("schemaLocation=\"{address}?xsd=2\"")), "{types}");
        assert_eq!(get("xsd=2"), (200, PUBLISHED[3].1.to_owned()));
        for query in ["wsdl=2", "xsd=3", "xsd=0", "xsd=x", "wsdl=../main.wsdl"] {
            assert_eq!(get(query).0, 404, "{query}");
        }
        // Anything else is the service's.
        assert_eq!(get("other=1").0, 200);
        let head =
            gateway.wire().ask("HEAD /ws?wsdl HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!((head.status(), head.body.len()), (200, 0));
    }
    // At any path of the route, with characters that XML escapes, and from a file in another encoding.
    let gateway = published(route, "", &origin);
    let reply = gateway.wire().ask("GET /ws/a&b?wsdl HTTP/1.1\r\nHost: api.test\r\n\r\n");
    assert!(reply.text().contains("location=\"http://api.test/ws/a&amp;b\""), "{}", reply.text());
    let latin: Vec<u8> = PUBLISHED[3]
        .1
        .replace("<xs:simpleType", "<!-- \u{e9} --><xs:simpleType")
        .chars()
        .map(|c| c as u8)
        .collect();
    let latin = [&b"<?xml version='1.0' encoding='iso-8859-1'?>"[..], &latin].concat();
    std::fs::write(gateway.path("common.xsd"), latin).unwrap();
    crate::harness::until("it is read again", || {
        let reply = gateway.wire().ask("GET /ws?xsd=2 HTTP/1.1\r\nHost: api.test\r\n\r\n").text();
        reply.contains('\u{e9}') && !reply.contains("iso-8859-1")
    });
    // Policies that refuse requests hold for it.
    let gateway = published(
        "services: { wsdl: main.wsdl }, policies: [{ ip_filter: { allow: [192.0.2.1] } }]",
        "",
        &origin,
    );
    for query in ["wsdl", "wsdl=1", "xsd=1"] {
        assert_eq!(gateway.wire().get(&format!("/ws?{query}")).status(), 403, "{query}");
    }
    // If the description has no schemas, `xsd` is a parameter of the service.
    let alone = PUBLISHED[3].1;
    let yaml = yaml(&origin, "services: { wsdl: common.xsd }");
    let gateway = Gateway::start_beside(yaml, &[("common.xsd", alone)]);
    assert_eq!(gateway.wire().get("/ws?xsd=1").status(), 200);
    assert!(origin.requests().iter().any(|request| request.target() == "/ws?xsd=1"));
}

/// A reply that is not SOAP passes with its status and its headers; faults and invalid messages are still validated.
#[test]
fn errors_of_an_upstream_pass_as_they_are() {
    let soap = "policies: [{ soap: { schema: rpc.wsdl, validate: [request, response], upstream_errors: pass } }]";
    let good = moved("<count>1</count><at><x>2</x></at><code>AB</code>");
    let fault =
        envelope("<s:Fault><faultcode>s:Server</faultcode><faultstring>no</faultstring></s:Fault>");
    let wrong = envelope("<x/>");
    for (status, lines, body, expected) in [
        (
            "401 No",
            "Content-Type: text/html\r\nWWW-Authenticate: Basic\r\n",
            "<html><p>no</html>",
            401,
        ),
        ("302 Found", "Location: /login\r\n", "", 302),
        ("404 No", "Content-Type: text/plain\r\n", "no such thing", 404),
        ("404 No", "", "no such thing", 404),
        ("503 No", "Retry-After: 7\r\nContent-Type: application/json\r\n", "{}", 503),
        ("503 No", "Retry-After: 7\r\nContent-Type: application/xml\r\n", "<error/>", 503),
        ("500 No", "Content-Type: text/xml\r\n", &fault, 500),
        ("500 No", "Content-Type: text/xml\r\n", &wrong, 0),
        ("200 OK", "Content-Type: text/html\r\n", "<html><p>no</html>", 0),
    ] {
        let origin = Origin::answering(format!(
            "HTTP/1.1 {status}\r\n{lines}Content-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let gateway = Gateway::start_beside(yaml(&origin, soap), &[("rpc.wsdl", RPC)]);
        let reply = post(&gateway, "", &good);
        if expected == 0 {
            assert!(reply.status() >= 500 && reply.text().contains("Fault"), "{reply:?}");
            assert_ne!(reply.text(), body);
        } else {
            assert_eq!(reply.status(), expected, "{status} {lines}: {}", reply.text());
            assert_eq!(reply.text(), body, "{status}");
            for name in ["retry-after", "location", "www-authenticate"] {
                let sent = crate::harness::Message::parse(
                    format!("HTTP/1.1 200 OK\r\n{lines}\r\n").as_bytes(),
                );
                assert_eq!(reply.get(name), sent.get(name), "{name} of {status}");
            }
        }
    }
}

/// Locations are URI references.
#[test]
fn locations_with_escapes_are_those_of_files() {
    let origin = answering("<x/>");
    let schema = "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\"><xs:include schemaLocation=\"my%20types.xsd\"/></xs:schema>";
    let types = "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\"><xs:element name=\"a\" type=\"xs:int\"/></xs:schema>";
    let gateway = Gateway::start_beside(
        yaml(&origin, "policies: [{ soap: { schema: a.xsd, validate: [request] } }]"),
        &[("a.xsd", schema), ("my types.xsd", types)],
    );
    assert_eq!(post(&gateway, "", &envelope("<a>1</a>")).status(), 200);
    assert_eq!(post(&gateway, "", &envelope("<a>x</a>")).status(), 500);
    let sheet = |body: &str| {
        format!(
            "<xsl:stylesheet version=\"1.0\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\">{body}</xsl:stylesheet>"
        )
    };
    let first = sheet("<xsl:include href=\"b%20c.xsl\"/>");
    let second = sheet("<xsl:template match=\"/\"><done/></xsl:template>");
    let origin = Origin::echo();
    let gateway = Gateway::start_beside(
        yaml(&origin, "policies: [{ xslt: { on: request, stylesheet: a.xsl } }]"),
        &[("a.xsl", &first), ("b c.xsl", &second)],
    );
    let reply = post(&gateway, "", "<x/>");
    assert!(reply.text().contains("<done"), "{}", reply.text());
}

/// Schemas that libxml2 takes serve under `errors: kong`, as libxml2 reads them. Without that key they are errors.
#[test]
fn schemas_that_libxml2_takes_serve_as_it_reads_them() {
    let schema = |content: &str| {
        format!(
            "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\"><xs:element name=\"r\">{content}</xs:element></xs:schema>"
        )
    };
    let of = |particles: &str| {
        schema(&format!("<xs:complexType><xs:sequence>{particles}</xs:sequence></xs:complexType>"))
    };
    let optional = "<xs:element name=\"a\" type=\"xs:int\" minOccurs=\"0\"/><xs:any namespace=\"##any\" processContents=\"lax\"/>";
    let twice = "<xs:element name=\"a\" type=\"xs:int\"/><xs:element name=\"b\"/><xs:element name=\"a\" type=\"xs:string\"/>";
    let wider = format!(
        "{}<xs:complexType name=\"B\"><xs:sequence><xs:element name=\"a\" type=\"xs:int\"/><xs:element name=\"b\"/></xs:sequence></xs:complexType></xs:schema>",
        schema(
            "<xs:complexType><xs:complexContent><xs:restriction base=\"B\"><xs:sequence><xs:element name=\"a\" type=\"xs:int\"/></xs:sequence></xs:restriction></xs:complexContent></xs:complexType>"
        )
        .trim_end_matches("</xs:schema>")
    );
    // The verdicts are those of xmllint.
    for (schema, code, messages) in [
        (
            of(optional),
            "cos-nonambig",
            &[
                ("<r><a>1</a></r>", false),
                ("<r><a>1</a><a>x</a></r>", true),
                ("<r><a>x</a></r>", false),
                ("<r><b/></r>", true),
                ("<r><b/><a>x</a></r>", false),
            ][..],
        ),
        (
            of(twice),
            "cos-element-consistent",
            &[("<r><a>1</a><b/><a>x</a></r>", true), ("<r><a>x</a><b/><a>x</a></r>", false)],
        ),
        (wider, "rcase-Recurse", &[("<r><a>1</a></r>", true), ("<r><a>1</a><b/></r>", false)]),
    ] {
        let origin = answering("<x/>");
        let policy = "policies: [{ soap: { schema: a.xsd, validate: [request] } }]";
        let strict = yaml(&origin, policy);
        let (exit, told) = checked(&strict, &[("a.xsd", &schema)]);
        assert_eq!(exit, Some(1), "{code}: {told}");
        assert!(told.contains(code), "{code}: {told}");
        let lenient = yaml(&origin, &format!("errors: kong, {policy}"));
        let (exit, told) = checked(&lenient, &[("a.xsd", &schema)]);
        assert_eq!(exit, Some(0), "{code}: {told}");
        assert!(told.contains(code) && told.contains("warning"), "{code}: {told}");
        let gateway = Gateway::start_beside(lenient, &[("a.xsd", &schema)]);
        for (body, valid) in messages {
            let status = post(&gateway, "", &envelope(body)).status();
            assert_eq!(status == 200, *valid, "{code} {body}: {status}");
        }
    }
}
