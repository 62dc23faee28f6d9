//! `xsi:type` in the content of an envelope: the schemas of the API judge it, and the envelope's does not.

use super::*;

const TYPES: &str = r#"<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:t="urn:a" targetNamespace="urn:a" elementFormDefault="qualified">
  <xs:complexType name="B"><xs:sequence><xs:element name="a" type="xs:int"/></xs:sequence></xs:complexType>
  <xs:complexType name="D"><xs:complexContent><xs:extension base="t:B"><xs:sequence><xs:element name="b" type="xs:int"/></xs:sequence></xs:extension></xs:complexContent></xs:complexType>
  <xs:element name="r" type="t:B"/>
</xs:schema>"#;

const XSI: &str = "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" xmlns:t=\"urn:a\"";

fn with_header(block: &str, content: &str) -> String {
    let header = format!("<soap:Header>{block}</soap:Header>\n  <soap:Body>");
    envelope(SOAP_11, content).replace("<soap:Body>", &header)
}

#[test]
fn the_type_of_what_the_body_holds_is_none_of_the_envelopes_business() {
    let origin = Origin::saying("ok");
    let plain = gateway_to(
        &origin.url(),
        "policies: [{ soap: { verbose: true, versions: [\"1.1\"] } }]",
        &[],
    );
    let typed = gateway_to(
        &origin.url(),
        "policies: [{ soap: { schema: t.xsd, verbose: true } }]",
        &[("t.xsd", TYPES)],
    );
    let derived = format!("<t:r {XSI} xsi:type=\"t:D\"><t:a>1</t:a><t:b>2</t:b></t:r>");
    let base = format!("<t:r {XSI}><t:a>1</t:a></t:r>");
    for (gateway, message) in [
        (&plain, envelope(SOAP_11, &format!("<n {XSI} xsi:type=\"xsd:int\">5</n>"))),
        (&plain, envelope(SOAP_11, &derived)),
        (&plain, with_header(&format!("<t:h {XSI} xsi:type=\"t:H\">x</t:h>"), &base)),
        (&plain, with_header(&format!("<t:h {XSI}><i xsi:type=\"t:H\"><j/></i></t:h>"), &base)),
        (&plain, with_header(&format!("<t:h {XSI} xsi:type=\"xsd:int\">5</t:h>"), &base)),
        (&typed, envelope(SOAP_11, &derived)),
        (&typed, with_header(&format!("<t:h {XSI} xsi:type=\"t:H\"/>"), &derived)),
    ] {
        // As a first message, and as one similar to earlier ones.
        for _ in 0..3 {
            let reply = post(gateway, &message);
            assert_eq!((reply.status(), reply.text()), (200, "ok".to_owned()), "{message}");
        }
    }
    let wrong = derived.replace("t:D", "t:None");
    let said = post(&typed, &envelope(SOAP_11, &wrong)).text();
    assert!(said.contains("Error Node: r, Error code: 1851"), "{said}");
    let wrong = derived.replace("<t:b>2</t:b>", "");
    let said = post(&typed, &envelope(SOAP_11, &wrong)).text();
    assert!(said.contains("Error Node: r, Error code: 1871"), "{said}");
    let wrong = with_header(&format!("<t:h {XSI} xsi:type=\"xsd:int\">five</t:h>"), &base);
    let said = post(&plain, &wrong).text();
    assert!(said.contains("Error Node: h, Error code: 1824"), "{said}");
}

#[test]
fn the_type_of_a_faults_detail_is_the_services() {
    let fault = format!(
        "<soap:Fault><faultcode>soap:Server</faultcode><faultstring>no</faultstring><detail><t:d {XSI} xsi:type=\"t:D\"><a/></t:d></detail></soap:Fault>"
    );
    let body = envelope(SOAP_11, &fault);
    let origin = Origin::answering(answer(500, "Content-Type: text/xml\r\n", body.as_bytes()));
    let gateway = gateway(
        &origin,
        "policies: [{ soap: { schema: calculator.wsdl, validate: [response], verbose: true } }]",
    );
    for _ in 0..3 {
        assert_eq!(post(&gateway, &add()).text(), body);
    }
}
