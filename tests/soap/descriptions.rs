//! Descriptions found in practice: only the parts that messages and actions need are checked; other broken references cause
//! warnings.

use super::wrong::checked;
use super::*;

const TYPES: &str = r#"<w:types><x:schema targetNamespace="urn:t"><x:element name="Add" type="x:int"/></x:schema></w:types>"#;
const MESSAGE: &str = r#"<w:message name="In"><w:part name="p" element="t:Add"/></w:message>"#;
const PORT_TYPE: &str = r#"<w:portType name="P"><w:operation name="Add"><w:input message="t:In"/></w:operation></w:portType>"#;
const BINDING: &str = r#"<w:binding name="B" type="t:P"><s:binding transport="http://schemas.xmlsoap.org/soap/http"/>
<w:operation name="Add"><s:operation soapAction="urn:t/Add"/><w:input><s:body use="literal"/></w:input></w:operation></w:binding>"#;
const SERVICE: &str = r#"<w:service name="S"><w:port name="A" binding="t:B"><s:address location="http://localhost/"/></w:port></w:service>"#;

/// A description of WSDL 1.1.
fn wsdl(parts: &[&str]) -> String {
    format!(
        r#"<w:definitions xmlns:w="http://schemas.xmlsoap.org/wsdl/" xmlns:s="http://schemas.xmlsoap.org/wsdl/soap/" xmlns:x="http://www.w3.org/2001/XMLSchema" xmlns:t="urn:t" targetNamespace="urn:t">{}</w:definitions>"#,
        parts.concat()
    )
}

/// A description of WSDL 2.0 in which WSDL's own namespace is the default one.
fn wsdl_2(parts: &[&str]) -> String {
    format!(
        r#"<description xmlns="http://www.w3.org/ns/wsdl" xmlns:x="http://www.w3.org/2001/XMLSchema" xmlns:t="urn:t" xmlns:wsam="http://www.w3.org/2007/05/addressing/metadata" targetNamespace="urn:t">{}</description>"#,
        parts.concat()
    )
}

const TYPES_2: &str = r#"<types><x:schema targetNamespace="urn:t"><x:element name="Add" type="x:int"/></x:schema></types>"#;
const INTERFACE: &str = r#"<interface name="I"><operation name="Add" pattern="http://www.w3.org/ns/wsdl/in-out"><input messageLabel="In" element="t:Add" wsam:Action="urn:t/Add"/></operation></interface>"#;
const BINDING_2: &str = r#"<binding name="B" interface="I" type="http://www.w3.org/ns/wsdl/soap"><operation ref="Add"/></binding><service name="S" interface="I"><endpoint name="E" binding="B" address="http://localhost/"/></service>"#;

const KEYS: &str = "action: required, verbose: true";

/// Asserts that messages and actions are validated against the description.
#[track_caller]
fn assert_serves(gateway: &Gateway, what: &str) {
    let call = |value: &str, action: &str| {
        let body = envelope(SOAP_11, &format!("<Add xmlns=\"urn:t\">{value}</Add>"));
        let lines = format!("Content-Type: text/xml\r\nSOAPAction: {action}\r\n");
        post_to(gateway, "/", &lines, &body).text()
    };
    assert_eq!(call("1", "urn:t/Add"), "ok", "{what}");
    let said = call("one", "urn:t/Add");
    assert!(said.contains("Error code: 1824"), "{what}: {said}");
    let said = call("1", "urn:t/Sub");
    assert!(said.contains("should be 'urn:t/Add' and not 'urn:t/Sub'"), "{what}: {said}");
}

#[test]
fn what_leads_nowhere_and_is_not_needed_is_a_warning() {
    let none = "";
    let header = BINDING.replace("<s:body", "<s:header message=\"t:No\" part=\"h\" use=\"literal\"/><s:header message=\"t:In\" part=\"h\" use=\"literal\"/><s:body");
    let faulty = INTERFACE.replace("</operation>", "<outfault ref=\"No\"/></operation>");
    let unbound = BINDING_2.replace("binding=\"B\"", "binding=\"No\"");
    let cases = [
        (wsdl(&[TYPES, MESSAGE, PORT_TYPE, BINDING, SERVICE]), none),
        (wsdl(&[TYPES, PORT_TYPE, BINDING, SERVICE]), "there is no message {urn:t}In"),
        (
            wsdl(&[TYPES, &MESSAGE.replace("t:Add", "t:Sub"), PORT_TYPE, BINDING]),
            "the element {urn:t}Sub, which no schema declares",
        ),
        (wsdl(&[TYPES, BINDING, SERVICE]), "there is no portType {urn:t}P"),
        (wsdl(&[TYPES, &PORT_TYPE.replace("Add", "Sub"), BINDING]), "has no operation `Add`"),
        (wsdl(&[TYPES, &BINDING.replace("t:P", "u:P")]), "the prefix of `u:P` is not declared"),
        (
            wsdl(&[TYPES, &MESSAGE.replace("t:Add", "u:Add"), PORT_TYPE, BINDING]),
            "the prefix of `u:Add` is not declared",
        ),
        (wsdl(&[TYPES, BINDING, &SERVICE.replace("t:B", "t:C")]), "there is no binding {urn:t}C"),
        (wsdl(&[TYPES, MESSAGE, PORT_TYPE, &header]), "there is no message {urn:t}No"),
        (wsdl(&[TYPES, MESSAGE, PORT_TYPE, &header]), "has no part `h`"),
        (wsdl(&[TYPES, MESSAGE, MESSAGE, PORT_TYPE, BINDING]), "there are two <message>"),
        (wsdl(&[TYPES, MESSAGE, PORT_TYPE, BINDING, BINDING]), "there are two <binding>"),
        (
            wsdl(&[TYPES, &MESSAGE.replace(" element=\"t:Add\"", ""), PORT_TYPE, BINDING]),
            "has neither `element` nor `type`",
        ),
        (wsdl_2(&[TYPES_2, INTERFACE, BINDING_2]), none),
        (
            wsdl_2(&[TYPES_2, INTERFACE, &BINDING_2.replace("\"I\" type", "\"J\" type")]),
            "there is no interface {urn:t}J",
        ),
        (wsdl_2(&[TYPES_2, INTERFACE, &unbound]), "there is no binding {urn:t}No"),
        (wsdl_2(&[TYPES_2, &faulty, BINDING_2]), "there is no fault {urn:t}No"),
        (
            wsdl_2(&[TYPES_2, &INTERFACE.replace("\"I\"", "\"I\" extends=\"K\""), BINDING_2]),
            "there is no interface {urn:t}K",
        ),
        (
            wsdl_2(&[TYPES_2, &INTERFACE.replace("element=\"t:", "element=\"u:")]),
            "the prefix of `u:Add` is not declared",
        ),
    ];
    let origin = Origin::saying("ok");
    let route = format!("policies: [{{ soap: {{ schema: a.wsdl, {KEYS} }} }}]");
    for (text, warning) in &cases {
        let files: &[(&str, &str)] = &[("a.wsdl", text)];
        let (good, said) = checked(&route, files);
        assert!(good, "{text}: {said}");
        assert_eq!(said.contains("warning: "), !warning.is_empty(), "{text}: {said}");
        assert!(said.contains(warning), "{warning}: {said}");
        assert_serves(&gateway_to(&origin.url(), &route, files), text);
    }
}

#[test]
fn what_is_needed_stops_the_configuration_all_the_same() {
    let absent = "<w:import namespace=\"urn:u\" location=\"none.wsdl\"/>";
    let other = "<w:import namespace=\"urn:u\" location=\"other.xml\"/>";
    let cases = [
        (wsdl(&[absent, TYPES, BINDING]), "none.wsdl\" cannot be found"),
        (wsdl(&[other, TYPES, BINDING]), "other.xml:1:1: wsdl-root"),
        (wsdl(&[&TYPES.replace("x:int", "x:none"), BINDING]), "a.wsdl:1:"),
        (wsdl(&[&TYPES.replace("x:int", "y:int"), BINDING]), "a.wsdl:1:"),
        (wsdl(&[BINDING]), "Unable to find the '< wsdl:types >'"),
    ];
    for (text, what) in cases {
        let files: &[(&str, &str)] = &[("a.wsdl", &text), ("other.xml", "<other/>")];
        let (good, said) = checked("policies: [{ soap: { schema: a.wsdl } }]", files);
        assert!(!good && said.contains(what), "{text}: {said}");
    }
}

#[test]
fn descriptions_are_included_and_imported_by_file_and_by_http() {
    let origin = Origin::saying("ok");
    // The names that the second one uses are in the first, whose own references are broken.
    let parts = [
        (wsdl(&[TYPES, PORT_TYPE]), wsdl(&["IMPORT", BINDING, SERVICE])),
        (wsdl_2(&[TYPES_2, INTERFACE, BINDING_2]), wsdl_2(&["<include location=\"LOCATION\"/>"])),
        (
            wsdl_2(&[TYPES_2, INTERFACE]),
            wsdl_2(&["<import namespace=\"urn:t\" location=\"LOCATION\"/>", BINDING_2]),
        ),
    ];
    for (part, main) in parts {
        let import = "<w:import namespace=\"urn:t\" location=\"LOCATION\"/>";
        let main = main.replace("IMPORT", import);
        let text = part.clone();
        let shelf = Origin::start(move |peer| {
            while peer.request().is_some() {
                if !peer.try_send(answer(200, "Content-Type: text/xml\r\n", text.as_bytes())) {
                    return;
                }
            }
        });
        let url = format!("{}/part.wsdl", shelf.url());
        for (location, keys) in [("part.wsdl", ""), (url.as_str(), ", fetch: {}")] {
            let main = main.replace("LOCATION", location);
            let files: &[(&str, &str)] = &[("main.wsdl", &main), ("part.wsdl", &part)];
            let route = format!("policies: [{{ soap: {{ schema: main.wsdl, {KEYS}{keys} }} }}]");
            assert_serves(&gateway_to(&origin.url(), &route, files), &main);
        }
    }
    // Without its imports, the other references are broken.
    let main = wsdl(&["<w:import namespace=\"urn:t\" location=\"part.wsdl\"/>", TYPES, BINDING]);
    let part = wsdl(&[MESSAGE, PORT_TYPE]);
    let files: &[(&str, &str)] = &[("main.wsdl", &main), ("part.wsdl", &part)];
    let route =
        format!("policies: [{{ soap: {{ schema: main.wsdl, {KEYS}, wsdl_imports: false }} }}]");
    assert_serves(&gateway_to(&origin.url(), &route, files), &main);
}

#[test]
fn operations_that_only_a_binding_names_are_counted() {
    let origin = Origin::saying("ok");
    let text = wsdl(&[TYPES, BINDING]);
    let limit = "rate_limit: { requests: 1, per: 1h, by: operation }";
    let route = format!("policies: [{{ soap: {{ schema: a.wsdl }} }}, {{ {limit} }}]");
    let gateway = gateway_to(&origin.url(), &route, &[("a.wsdl", &text)]);
    let body = envelope(SOAP_11, "<Add xmlns=\"urn:t\">1</Add>");
    assert_eq!([0; 2].map(|_| post(&gateway, &body).status()), [200, 429]);
}

#[test]
fn whoever_translates_messages_asks_for_more_and_says_what_for() {
    let text = wsdl(&[TYPES, PORT_TYPE, BINDING, SERVICE]);
    let route = "policies: [{ soap_rest: { wsdl: a.wsdl } }]";
    let (good, said) = checked(route, &[("a.wsdl", &text)]);
    let what = "there is no message {urn:t}In, which is needed to translate messages to JSON";
    assert!(!good && said.contains(what), "{said}");
}
