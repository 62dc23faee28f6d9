//! Requests that are refused, and how clients read it.

use serde_json::Value;

use super::*;

const XSD_FAILED: &str = "Request - XSD validation failed";
const KONG: &str = "errors: kong, policies: [{ soap: { schema: calculator.wsdl, verbose: true } }]";

#[test]
fn what_the_wsdl_forbids_is_told_in_the_words_of_libxml2() {
    let origin = Origin::saying("never");
    let none = "No matching global declaration available for the validation root.";
    let cases = [
        (operation("Add_DOES_NOT_EXIST", "5", "7"), format!("Error Node: Add_DOES_NOT_EXIST, Error code: 1845, Line: 4, Message: Element '{{http://tempuri.org/}}Add_DOES_NOT_EXIST': {none}")),
        (operation("Add", "x", "7"), "Error Node: intA, Error code: 1824, Line: 5, Message: Element '{http://tempuri.org/}intA': 'x' is not a valid value of the atomic type 'xs:int'.".to_owned()),
        ("<Add xmlns=\"http://tempuri.org/\">\n<intA>5</intA>\n</Add>".to_owned(), "Error Node: Add, Error code: 1871, Line: 4, Message: Element '{http://tempuri.org/}Add': Missing child element(s). Expected is ( {http://tempuri.org/}intB ).".to_owned()),
        ("<Add xmlns=\"http://tempuri.org/\">\n<intC>5</intC>\n</Add>".to_owned(), "Error Node: intC, Error code: 1871, Line: 5, Message: Element '{http://tempuri.org/}intC': This element is not expected. Expected is ( {http://tempuri.org/}intA ).".to_owned()),
        (String::new(), "Invalid XML input. Unable to find the Operation tag in the 'soap:Body'".to_owned()),
    ];
    for schema in ["calculator.wsdl", "calculator.xsd"] {
        let gateway = gateway(&origin, &KONG.replace("calculator.wsdl", schema));
        for (content, message) in &cases {
            let message = match schema {
                // The plain schema says xsd:integer.
                "calculator.xsd" => message.replace("'xs:int'", "'xs:integer'"),
                _ => message.clone(),
            };
            assert_fault(
                &post(&gateway, &envelope(SOAP_11, content)),
                "Client",
                XSD_FAILED,
                &message,
            );
        }
    }
    assert_eq!(origin.requests().len(), 0);
}

#[test]
fn an_envelope_is_held_to_its_schema() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, "errors: kong, policies: [{ soap: { verbose: true } }]");
    assert_eq!(post(&gateway, &add()).text(), "ok");
    let wrong = add().replace("soap:Body", "soap:Boby");
    let reply = post(&gateway, &wrong);
    assert!(
        reply.text().contains("Error Node: Boby, Error code: 1871, Line: 3"),
        "{}",
        reply.text()
    );
    assert_fault(
        &post(&gateway, "<a>1</a>"),
        "Client",
        XSD_FAILED,
        "Error Node: a, Error code: 1845, Line: 1, Message: Element 'a': No matching global declaration available for the validation root.",
    );
    assert_fault(
        &post(&gateway, "no xml"),
        "Client",
        XSD_FAILED,
        "Invalid XML input. Error code: 4, Line: 1, Message: Start tag expected, 'Less Than' not found",
    );
    // A document type is refused: nothing expands.
    let bomb = format!("<!DOCTYPE a [<!ENTITY b \"c\">]>{}", add());
    assert_eq!(post(&gateway, &bomb).status(), 500);
}

#[test]
fn version_1_2_needs_its_schema() {
    let origin = Origin::saying("ok");
    let message = envelope(SOAP_12, &operation("Add", "5", "7"));
    let refused = r#"<?xml version="1.0" encoding="utf-8"?>
<env:Envelope xmlns:env="http://www.w3.org/2003/05/soap-envelope" xmlns:f="http://www.example.org/faults" xmlns:xml="http://www.w3.org/XML/1998/namespace">
  <env:Body>
    <env:Fault>
      <env:Code>
        <env:Value>env:Receiver</env:Value>
      </env:Code>
      <env:Reason>
        <env:Text xml:lang="en">Request - XSD validation failed</env:Text>
      </env:Reason>
      <env:Detail>
        <f:errorDetails>
          <f:errorMessage>Invalid XSD schema. Unable to find schema for SOAP 1.2</f:errorMessage>
        </f:errorDetails>
      </env:Detail>
    </env:Fault>
  </env:Body>
</env:Envelope>"#;
    for keys in ["", r#", versions: ["1.1"]"#] {
        let route = format!("errors: kong, policies: [{{ soap: {{ verbose: true {keys} }} }}]");
        let gateway = gateway(&origin, &route);
        // The envelope decides, whatever the headers contain.
        for reply in [post(&gateway, &message), post_12(&gateway, &message)] {
            assert_eq!(reply.text(), refused);
            assert_eq!(reply.status(), 500);
            assert_eq!(reply.get("content-type"), Some("application/soap+xml; charset=utf-8"));
        }
    }
    let own = "<schema xmlns=\"http://www.w3.org/2001/XMLSchema\" targetNamespace=\"http://www.w3.org/2003/05/soap-envelope\"><element name=\"Envelope\"/></schema>";
    let files = [("own.xsd", own), ("off.xsd", "<!-- -->\n")];
    for keys in [
        r#"versions: ["1.1", "1.2"]"#,
        "envelope: off",
        r#"envelope: { "1.2": own.xsd }"#,
        r#"envelope: { "1.2": off.xsd }"#,
    ] {
        let route = format!("policies: [{{ soap: {{ schema: calculator.wsdl, {keys} }} }}]");
        let gateway = gateway_to(&origin.url(), &route, &files);
        assert_eq!(post_12(&gateway, &message).text(), "ok", "{keys}");
        let wrong = envelope(SOAP_12, &operation("Add", "x", "7"));
        assert_eq!(post_12(&gateway, &wrong).status(), 500, "{keys}");
    }
    let route = r#"errors: kong, policies: [{ soap: { envelope: { "1.1": off.xsd } } }]"#;
    let gateway = gateway_to(&origin.url(), route, &files);
    assert_eq!(post(&gateway, "<any/>").text(), "ok");
}

#[test]
fn the_action_has_to_be_the_operations() {
    let origin = Origin::saying("ok");
    let route = r#"errors: kong, policies: [{ soap: { schema: calculator.wsdl, versions: ["1.1", "1.2"], action: required, verbose: true } }]"#;
    let gateway = gateway(&origin, route);
    let xml = "Content-Type: text/xml\r\n";
    let message = |lines: &str| {
        let reply = post_to(&gateway, "/ws", &format!("{xml}{lines}"), &add());
        (reply.status(), reply.text())
    };
    assert_eq!(message("SOAPAction: \"http://tempuri.org/Add\"\r\n").1, "ok");
    let (status, text) = message("");
    assert_eq!(status, 500);
    let absent = "Validation of 'SOAPAction' header: The 'SOAPAction' header is not set but according to the WSDL this value is 'Required'";
    assert_eq!(text, kong_11("Client", XSD_FAILED, absent, None));
    assert!(
        message("SOAPAction: urn:x\r\n")
            .1
            .contains("should be 'http://tempuri.org/Add' and not 'urn:x'")
    );
    // Multiply does not require one.
    assert_eq!(post(&gateway, &envelope(SOAP_11, &operation("Multiply", "1", "2"))).text(), "ok");
    let twelve = envelope(SOAP_12, &operation("Add", "5", "7"));
    for (value, status) in
        [("; action=\"http://tempuri.org/Add\"", 200), ("; action=x", 500), ("", 500)]
    {
        let lines = format!("Content-Type: application/soap+xml{value}\r\n");
        assert_eq!(post_to(&gateway, "/ws", &lines, &twelve).status(), status, "{value}");
    }
}

#[test]
fn a_description_of_wsdl_2_names_its_actions() {
    let origin = Origin::saying("ok");
    let wsdl = r#"<description xmlns="http://www.w3.org/ns/wsdl" xmlns:t="http://t/ns" xmlns:wsam="http://www.w3.org/2007/05/addressing/metadata" targetNamespace="http://t/ns/">
<types><xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="http://t/ns"><xs:element name="Add" type="xs:int"/><xs:element name="Sub" type="xs:int"/></xs:schema></types>
<interface name="I"><operation name="Add" pattern="http://www.w3.org/ns/wsdl/in-out"><input messageLabel="In" element="t:Add" wsam:Action="urn:add"/><output messageLabel="Out" element="t:Add"/></operation>
<operation name="Sub" pattern="http://www.w3.org/ns/wsdl/in-out"><input messageLabel="In" element="t:Sub"/><output messageLabel="Out" element="t:Sub"/></operation></interface></description>"#;
    let route =
        "errors: kong, policies: [{ soap: { schema: two.wsdl, action: required, verbose: true } }]";
    let gateway = gateway_to(&origin.url(), route, &[("two.wsdl", wsdl)]);
    for (operation, action, status) in [
        ("Add", "SOAPAction: urn:add\r\n", 200),
        ("Add", "SOAPAction: urn:sub\r\n", 500),
        ("Add", "", 500),
        ("Sub", "SOAPAction: http://t/ns/I/SubRequest\r\n", 200),
    ] {
        let body =
            envelope(SOAP_11, &format!("<{operation} xmlns=\"http://t/ns\">1</{operation}>"));
        let reply = post_to(&gateway, "/", &format!("Content-Type: text/xml\r\n{action}"), &body);
        assert_eq!(reply.status(), status, "{operation} {action} {}", reply.text());
    }
}

#[test]
fn actions_are_those_of_included_descriptions_too() {
    let origin = Origin::saying("ok");
    let main = r#"<description xmlns="http://www.w3.org/ns/wsdl" targetNamespace="http://t/ns/"><include location="part.wsdl"/></description>"#;
    let part = r#"<description xmlns="http://www.w3.org/ns/wsdl" xmlns:t="http://t/ns" targetNamespace="http://t/ns/">
<types><xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="http://t/ns"><xs:element name="Add" type="xs:int"/><xs:element name="Tell" type="xs:int"/></xs:schema></types>
<interface name="I"><operation name="Add" pattern="http://www.w3.org/ns/wsdl/in-out"><input messageLabel="In" element="t:Add"/><output messageLabel="Out" element="t:Add"/></operation>
<operation name="Tell" pattern="http://www.w3.org/ns/wsdl/in-only"><input messageLabel="In" element="t:Tell"/></operation></interface></description>"#;
    let route = "errors: kong, policies: [{ soap: { schema: main.wsdl, action: required, verbose: true } }]";
    let gateway = gateway_to(&origin.url(), route, &[("main.wsdl", main), ("part.wsdl", part)]);
    let call = |operation: &str, action: &str| {
        let body =
            envelope(SOAP_11, &format!("<{operation} xmlns=\"http://t/ns\">1</{operation}>"));
        let lines = format!("Content-Type: text/xml\r\nSOAPAction: {action}\r\n");
        post_to(&gateway, "/", &lines, &body).text()
    };
    assert_eq!(call("Add", "http://t/ns/I/AddRequest"), "ok");
    let said = call("Add", "x");
    let other = "The Operation Name found in 'soap:Body' is 'Add'. According to the WSDL the 'SOAPAction' should be 'http://t/ns/I/AddRequest' and not 'x'";
    assert!(said.contains(other), "{said}");
    let said = call("Tell", "http://t/ns/I/TellRequest");
    let pattern = "the 'pattern' found in WSDL is 'http://www.w3.org/ns/wsdl/in-only' and must be";
    assert!(said.contains(pattern), "{said}");
}

#[test]
fn a_stylesheets_envelope_does_not_say_how_the_client_speaks() {
    let origin = Origin::saying("never");
    let sheet = format!(
        "<xsl:stylesheet version=\"1.0\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\"><xsl:template match=\"/\"><n:Envelope xmlns:n=\"{SOAP_12}\"><n:Body><xsl:copy-of select=\"//*[local-name()='Body']/*\"/></n:Body></n:Envelope></xsl:template></xsl:stylesheet>"
    );
    let route = "policies: [{ xslt: { on: request, stylesheet: newer.xsl } }, { soap: { schema: calculator.wsdl, versions: [\"1.2\"] } }]";
    let gateway = gateway_to(&origin.url(), route, &[("newer.xsl", &sheet)]);
    let bad = operation("Add", "x", "7");
    let reply = post(&gateway, &envelope(SOAP_11, &bad));
    assert_eq!((reply.status(), reply.get("content-type")), (500, Some("text/xml; charset=utf-8")));
    // Its own envelope decides, whatever its headers contain.
    let reply = post(&gateway, &envelope(SOAP_12, &bad));
    let content_type = Some("application/soap+xml; charset=utf-8");
    assert_eq!((reply.status(), reply.get("content-type")), (500, content_type));
}

#[test]
fn nothing_is_told_unless_it_may_be() {
    let origin = Origin::saying("never");
    let gateway =
        gateway(&origin, "errors: kong, policies: [{ soap: { schema: calculator.wsdl } }]");
    let body = envelope(SOAP_11, &operation("Add", "x", "7"));
    assert_fault(&post(&gateway, &body), "Client", XSD_FAILED, "SOAP/XML process failure");
    let reply = post_to(&gateway, "/", "Content-Type: application/json\r\n", "{}");
    assert_eq!(reply.text(), "{\n    \"message\": \"Request - XSD validation failed\"\n}");
    assert_eq!((reply.status(), reply.get("content-type")), (400, Some("application/json")));
}

#[test]
fn a_client_that_speaks_json_reads_json() {
    let origin = Origin::saying("never");
    let lines = "Content-Type: application/json\r\n";
    let kong = gateway(&origin, KONG);
    let reply = post_to(&kong, "/", lines, "{}");
    assert_eq!(
        reply.text(),
        "{\n    \"message\": \"Request - XSD validation failed\",\n    \"message_verbose\": \"Invalid XML input. Error code: 4, Line: 1, Message: Start tag expected, '<' not found\"\n}"
    );
    let plain = gateway(&origin, &KONG.replace("errors: kong, ", ""));
    let reply = post_to(&plain, "/", lines, "{}");
    assert_eq!(
        (reply.status(), reply.get("content-type")),
        (400, Some("application/problem+json"))
    );
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(body["fault"], "request_invalid");
}

#[test]
fn the_default_fault_is_escaped() {
    let origin = Origin::saying("never");
    let gateway = gateway(&origin, &KONG.replace("errors: kong, ", ""));
    let reply = post(&gateway, &envelope(SOAP_11, &operation("Add", "&lt;x&amp;", "7")));
    assert_eq!(reply.status(), 500);
    assert!(reply.text().contains("'&lt;x&amp;' is not a valid value"), "{}", reply.text());
}

#[test]
fn the_gateways_own_errors_are_faults_with_their_status() {
    let origin = Origin::saying("ok");
    let closed = {
        let origin = Origin::saying("gone");
        origin.url()
    };
    let limited = "limits: { body_bytes_max: 10B }, ";
    let keyed = |errors: &str| {
        format!(
            "{errors} policies: [{{ api_key: {{ header: x-api-key, keys: {{ a: key-of-a }} }} }}, {{ soap: {{ verbose: true }} }}]"
        )
    };
    let soap = "policies: [{ soap: { verbose: true } }]";
    let kong = "errors: kong,";
    let cases = [
        (origin.url(), keyed(kong), 401, "Client", "Unauthorized", None),
        (
            origin.url(),
            format!("{limited} {kong} {soap}"),
            413,
            "Client",
            "Payload too large",
            None,
        ),
        (
            closed.clone(),
            format!("{kong} {soap}"),
            502,
            "Server",
            "An invalid response was received from the upstream server",
            Some(502),
        ),
    ];
    for (url, route, status, code, text, backend) in cases {
        let gateway = gateway_to(&url, &route, &[]);
        let reply = post(&gateway, &add());
        let message = format!("HTTP Error code is {status}");
        assert_eq!(reply.text(), kong_11(code, text, &message, backend));
        assert_eq!(reply.status(), status);
    }
    // Also in the default format, in the version that the headers specify.
    let gateway = gateway_to(&closed, soap, &[]);
    let reply = post_12(&gateway, &add().replace(SOAP_11, SOAP_12));
    assert_eq!(reply.status(), 500, "1.2 has no schema here");
    let gateway = gateway_to(&origin.url(), &keyed(""), &[]);
    let reply = post_12(&gateway, "");
    assert_eq!(reply.status(), 401);
    assert_eq!(reply.get("content-type"), Some("application/soap+xml; charset=utf-8"));
    assert!(reply.text().contains("<env:Value>env:Sender</env:Value>"), "{}", reply.text());
}

#[test]
fn a_stylesheet_that_fails_names_its_step() {
    let origin = Origin::saying("never");
    let stop = RENAME.replace(
        "<xsl:template match=\"t:Subtract\">",
        "<xsl:template match=\"t:Add\"><xsl:message terminate=\"yes\">no &lt;Add&gt;</xsl:message></xsl:template><xsl:template match=\"t:Subtract\">",
    );
    let xslt = "xslt: { on: request, stylesheet: stop.xsl, verbose: true }";
    let soap = "soap: { verbose: true }";
    for (policies, when) in [
        (format!("{{ {xslt} }}, {{ {soap} }}"), "before"),
        (format!("{{ {soap} }}, {{ {xslt} }}"), "after"),
    ] {
        let route = format!("errors: kong, policies: [{policies}]");
        let gateway = gateway_to(&origin.url(), &route, &[("stop.xsl", &stop)]);
        let step = format!("Request - XSLT transformation failed ({when} XSD validation)");
        let message = "ended by xsl:message: no Less ThanAddGreater Than";
        assert_fault(&post(&gateway, &add()), "Server", &step, message);
    }
    let route = format!("errors: kong, policies: [{{ {xslt} }}]");
    let gateway = gateway_to(&origin.url(), &route, &[("stop.xsl", &stop)]);
    assert!(post(&gateway, "none").text().contains("<faultcode>soap:Client</faultcode>"));
}

#[test]
fn an_action_may_be_missing_where_it_is_optional_and_never_wrong() {
    let origin = Origin::saying("ok");
    // A namespace without a slash, whose default action uses colons; in-only operations have none.
    let wsdl = r#"<description xmlns="http://www.w3.org/ns/wsdl" xmlns:t="urn:t" targetNamespace="urn:t">
<types><xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:t"><xs:element name="Sub" type="xs:int"/></xs:schema></types>
<interface name="I"><operation name="Sub" pattern="http://www.w3.org/ns/wsdl/in-opt-out"><input messageLabel="In" element="t:Sub"/></operation></interface></description>"#;
    let files: &[(&str, &str)] = &[("two.wsdl", wsdl)];
    let sub = |namespace: &str| envelope(namespace, "<Sub xmlns=\"urn:t\">1</Sub>");
    for (schema, action, namespace, body, lines, status) in [
        ("two.wsdl", "required", SOAP_11, sub(SOAP_11), "SOAPAction: urn:t.I.SubRequest\r\n", 200),
        ("two.wsdl", "required", SOAP_11, sub(SOAP_11), "", 500),
        ("two.wsdl", "optional", SOAP_11, sub(SOAP_11), "", 200),
        ("two.wsdl", "required", SOAP_12, sub(SOAP_12), "; action='urn:t.I.SubRequest'", 200),
        ("two.wsdl", "required", SOAP_12, sub(SOAP_12), "; action=urn:t/I/SubRequest", 500),
        ("two.wsdl", "optional", SOAP_12, sub(SOAP_12), "", 200),
        ("calculator.wsdl", "optional", SOAP_11, add(), "", 200),
        ("calculator.wsdl", "optional", SOAP_11, add(), "SOAPAction: urn:x\r\n", 500),
        ("calculator.wsdl", "optional", SOAP_11, add(), "SOAPAction: \"\"\r\n", 500),
        ("calculator.wsdl", "off", SOAP_11, add(), "SOAPAction: urn:x\r\n", 200),
    ] {
        let route = format!(
            r#"errors: kong, policies: [{{ soap: {{ schema: {schema}, versions: ["1.1", "1.2"], action: {action}, verbose: true }} }}]"#
        );
        let gateway = gateway_to(&origin.url(), &route, files);
        let lines = match namespace {
            SOAP_12 => format!("Content-Type: application/soap+xml{lines}\r\n"),
            _ => format!("Content-Type: text/xml\r\n{lines}"),
        };
        let reply = post_to(&gateway, "/", &lines, &body);
        assert_eq!(reply.status(), status, "{schema} {action} {lines}: {}", reply.text());
    }
}
