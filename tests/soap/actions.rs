//! Actions if the description has none, or if there is no description.

use super::wrong::checked;
use super::*;

const STEP: &str = "Request - XSD validation failed";
const INTRO: &str = "Validation of 'SOAPAction' header: ";

/// The calculator of whose first operation the action is written so, in both versions.
fn described(action: &str) -> String {
    let written = "soapAction=\"http://tempuri.org/Add\"";
    assert!(WSDL.contains(written), "the example");
    WSDL.replace(written, action)
}

fn holding(origin: &Origin, text: &str, action: &str) -> Gateway {
    let keys = format!("versions: [\"1.1\", \"1.2\"], verbose: true, action: {action}");
    let route = format!("errors: kong, policies: [{{ soap: {{ schema: own.wsdl, {keys} }} }}]");
    gateway_to(&origin.url(), &route, &[("own.wsdl", text)])
}

/// The reply to a call of `Add` in SOAP 1.1 with these lines.
fn called(gateway: &Gateway, lines: &str) -> Message {
    post_to(gateway, "/", &format!("Content-Type: text/xml\r\n{lines}"), &add())
}

#[test]
fn an_operation_without_an_action_refuses_every_one() {
    let origin = Origin::saying("ok");
    let none = "Unable to get the value of 'soap:operation soapAction' attribute in the WSDL linked with 'Add' Operation name";
    for written in ["soapAction=\"\"", "", "soapAction=\" \""] {
        for action in ["required", "optional"] {
            let gateway = holding(&origin, &described(written), action);
            for line in [
                "SOAPAction: \"\"\r\n",
                "SOAPAction: http://tempuri.org/Add\r\n",
                "SOAPAction:\r\n",
            ] {
                let reply = called(&gateway, line);
                assert_fault(&reply, "Client", STEP, &format!("{INTRO}{none}"));
            }
            let reply = called(&gateway, "");
            match action {
                "optional" => assert_eq!(reply.text(), "ok"),
                _ => assert_fault(&reply, "Client", STEP, &format!("{INTRO}{none}")),
            }
            // The same in SOAP 1.2, with the prefix that the WSDL uses for it.
            let twelve = envelope(SOAP_12, &operation("Add", "5", "7"));
            let lines = "Content-Type: application/soap+xml; action=\"\"\r\n";
            let said = post_to(&gateway, "/", lines, &twelve).text();
            assert!(said.contains("value of 'soap12:operation soapAction' attribute"), "{said}");
            // Others have theirs.
            let multiply = envelope(SOAP_11, &operation("Multiply", "5", "7"));
            let lines = "Content-Type: text/xml\r\nSOAPAction: http://tempuri.org/Multiply\r\n";
            assert_eq!(post_to(&gateway, "/", lines, &multiply).text(), "ok");
        }
    }
    // The prefix is the WSDL's own.
    let text = described("")
        .replace("xmlns:soap=", "xmlns:s11=")
        .replace("<soap:", "<s11:")
        .replace("</soap:", "</s11:");
    let said = called(&holding(&origin, &text, "required"), "SOAPAction: x\r\n").text();
    assert!(said.contains("value of 's11:operation soapAction' attribute"), "{said}");
    // Only bindings over HTTP have actions for us.
    let text = WSDL.replace("http://schemas.xmlsoap.org/soap/http", "urn:mail");
    let said = called(&holding(&origin, &text, "optional"), "SOAPAction: x\r\n").text();
    assert!(said.contains("linked with 'Add' Operation name"), "{said}");
}

#[test]
fn an_empty_action_may_be_allowed_where_there_is_none() {
    let origin = Origin::saying("ok");
    let allowed = "{ check: required, empty: allow }";
    for written in ["soapAction=\"\"", ""] {
        for action in [allowed, "{ empty: allow }", "{ check: optional, empty: allow }"] {
            let gateway = holding(&origin, &described(written), action);
            assert_eq!(called(&gateway, "SOAPAction: \"\"\r\n").text(), "ok", "{action}");
            let said = called(&gateway, "SOAPAction: urn:x\r\n").text();
            assert!(said.contains("should be '' and not 'urn:x'"), "{said}");
        }
    }
    // An operation with an action has to be called by it.
    let gateway = holding(&origin, WSDL, allowed);
    assert_eq!(called(&gateway, "SOAPAction: http://tempuri.org/Add\r\n").text(), "ok");
    assert!(called(&gateway, "SOAPAction: \"\"\r\n").text().contains("and not ''"));
    assert!(called(&gateway, "").text().contains("this value is 'Required'"));
    let policy = "soap: { schema: calculator.wsdl, action: { empty: yes } }";
    let (good, said) = checked(&format!("policies: [{{ {policy} }}]"), &[]);
    assert!(!good && said.contains("write `refuse` or `allow`"), "{said}");
}

#[test]
fn an_operation_is_called_by_its_own_action_first() {
    // The message of one operation has the name of another.
    let text = r#"<w:definitions xmlns:w="http://schemas.xmlsoap.org/wsdl/" xmlns:s="http://schemas.xmlsoap.org/wsdl/soap/" xmlns:x="http://www.w3.org/2001/XMLSchema" xmlns:t="urn:t" targetNamespace="urn:t">
<w:types><x:schema targetNamespace="urn:t"><x:element name="Add" type="x:int"/><x:element name="Sum" type="x:int"/></x:schema></w:types>
<w:message name="A"><w:part name="p" element="t:Add"/></w:message><w:message name="S"><w:part name="p" element="t:Sum"/></w:message>
<w:portType name="P"><w:operation name="First"><w:input message="t:A"/></w:operation><w:operation name="Add"><w:input message="t:S"/></w:operation></w:portType>
<w:binding name="B" type="t:P"><s:binding transport="http://schemas.xmlsoap.org/soap/http"/>
<w:operation name="First"><s:operation soapAction="urn:first"/></w:operation><w:operation name="Add"><s:operation soapAction=""/></w:operation></w:binding></w:definitions>"#;
    let origin = Origin::saying("ok");
    let gateway = holding(&origin, text, "required");
    let call = |element: &str, action: &str| {
        let body = envelope(SOAP_11, &format!("<{element} xmlns=\"urn:t\">1</{element}>"));
        post_to(
            &gateway,
            "/",
            &format!("Content-Type: text/xml\r\nSOAPAction: {action}\r\n"),
            &body,
        )
        .text()
    };
    assert!(call("Add", "urn:first").contains("linked with 'Add' Operation name"));
    assert!(call("Sum", "\"\"").contains("linked with 'Sum' Operation name"));
}

#[test]
fn a_schema_that_is_no_wsdl_has_no_actions() {
    let origin = Origin::saying("ok");
    let none = "Validation of 'SOAPAction' header: Unable to find the 'wsdl:definitions' for WSDL 1.1 or 'wsdl2:description' for WSDL 2.0 in the WSDL definition";
    let keys =
        |action: &str| format!("soap: {{ schema: calculator.xsd, verbose: true, action: {action}");
    for (errors, more) in [("errors: kong, ", ""), ("", ", bad_definitions: fault")] {
        for action in ["required", "optional"] {
            let route = format!("{errors}policies: [{{ {}{more} }} }}]", keys(action));
            let (good, said) = checked(&route, &[]);
            assert!(good && said.contains("warning: "), "{said}");
            assert!(said.contains("is not a WSDL"), "{said}");
            let gateway = gateway(&origin, &route);
            let reply = called(&gateway, "SOAPAction: http://tempuri.org/Add\r\n");
            match errors {
                "" => assert!(reply.text().contains("soap:Client") && reply.status() == 500),
                _ => assert_fault(&reply, "Client", STEP, none),
            }
            let passes = called(&gateway, "").text() == "ok";
            assert_eq!(passes, action == "optional", "{action}");
            // A fault by the schema is reported first.
            let wrong = envelope(SOAP_11, &operation("Add", "x", "7"));
            assert!(post(&gateway, &wrong).text().contains("Error code: 1824"));
        }
    }
    let (good, said) = checked(&format!("policies: [{{ {} }} }}]", keys("required")), &[]);
    assert!(!good && said.contains("is not a WSDL"), "{said}");
}

#[test]
fn a_wrong_action_is_told_with_the_prefix_of_the_request() {
    let origin = Origin::saying("ok");
    let gateway = holding(&origin, WSDL, "required");
    for (namespace, prefix, shown) in [
        (SOAP_11, "soap:", "soap"),
        (SOAP_11, "SOAP-ENV:", "SOAP-ENV"),
        (SOAP_11, "", "soap"),
        (SOAP_12, "env:", "env"),
        (SOAP_12, "", "soap12"),
    ] {
        let declared = format!("xmlns{}=", format!(":{prefix}").trim_end_matches(':'));
        let body = envelope(namespace, &operation("Add", "5", "7"));
        let body = body.replace("xmlns:soap=", &declared).replace("soap:", prefix);
        let lines = match namespace {
            SOAP_12 => "Content-Type: application/soap+xml; action=x\r\n",
            _ => "Content-Type: text/xml\r\nSOAPAction: x\r\n",
        };
        for _ in 0..3 {
            let said = post_to(&gateway, "/", lines, &body).text();
            let what = format!("The Operation Name found in '{shown}:Body' is 'Add'. According");
            assert!(said.contains(&what), "{body}: {said}");
        }
    }
}

#[test]
fn a_comment_has_no_actions_either() {
    let origin = Origin::saying("ok");
    let files: &[(&str, &str)] = &[("off.xsd", "<!-- off -->")];
    let route =
        "errors: kong, policies: [{ soap: { schema: off.xsd, verbose: true, action: optional } }]";
    let (good, said) = checked(route, files);
    assert!(good && said.contains("is not a WSDL"), "{said}");
    let gateway = gateway_to(&origin.url(), route, files);
    assert_eq!(called(&gateway, "").text(), "ok");
    let said = called(&gateway, "SOAPAction: http://tempuri.org/Add\r\n").text();
    assert!(said.contains("Unable to find the 'wsdl:definitions'"), "{said}");
}

#[test]
fn a_schema_at_a_url_may_turn_out_to_be_no_wsdl() {
    let origin = Origin::saying("ok");
    let schemas = Origin::answering(answer(200, "Content-Type: text/xml\r\n", XSD.as_bytes()));
    let route = format!(
        "policies: [{{ soap: {{ schema: \"{}/a.xsd\", fetch: {{}}, verbose: true, action: required }} }}]",
        schemas.url()
    );
    let gateway = gateway_to(&origin.url(), &route, &[]);
    let said = called(&gateway, "SOAPAction: http://tempuri.org/Add\r\n").text();
    assert!(said.contains("Unable to find the 'wsdl:definitions'"), "{said}");
}

#[test]
fn an_empty_action_of_wsdl_2_is_the_one_that_follows_from_the_names() {
    let origin = Origin::saying("ok");
    let text = r#"<description xmlns="http://www.w3.org/ns/wsdl" xmlns:t="urn:t" xmlns:wsam="http://www.w3.org/2007/05/addressing/metadata" targetNamespace="urn:t">
<types><x:schema xmlns:x="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:t"><x:element name="Add" type="x:int"/></x:schema></types>
<interface name="I"><operation name="Add" pattern="http://www.w3.org/ns/wsdl/in-out"><input messageLabel="In" element="t:Add" wsam:Action=""/></operation></interface></description>"#;
    let gateway = holding(&origin, text, "required");
    let body = envelope(SOAP_11, "<Add xmlns=\"urn:t\">1</Add>");
    for (action, status) in [("urn:t.I.AddRequest", 200), ("\"\"", 500)] {
        let lines = format!("Content-Type: text/xml\r\nSOAPAction: {action}\r\n");
        assert_eq!(post_to(&gateway, "/", &lines, &body).status(), status, "{action}");
    }
}
