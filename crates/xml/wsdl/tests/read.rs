//! Descriptions as input, with the definitions found or the complaints.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helper may panic"
)]

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use wsdl::{Description, Limits, Payload, Protocol, SoapVersion};
use xsd::{Map, NoDocuments};

const HEAD: &str = r#"<w:definitions xmlns:w="http://schemas.xmlsoap.org/wsdl/" xmlns:s="http://schemas.xmlsoap.org/wsdl/soap/"
 xmlns:s12="http://schemas.xmlsoap.org/wsdl/soap12/" xmlns:x="http://www.w3.org/2001/XMLSchema" xmlns:t="urn:t" targetNamespace="urn:t">"#;

const TYPES: &str = r#"<w:types><x:schema targetNamespace="urn:t"><x:element name="Add"/><x:element name="AddResponse"/>
 <x:element name="Token"/><x:complexType name="Pair"><x:sequence/></x:complexType></x:schema></w:types>"#;

const MESSAGES: &str = r#"<w:message name="In"><w:part name="p" element="t:Add"/><w:part name="h" element="t:Token"/></w:message>
<w:message name="Out"><w:part name="p" element="t:AddResponse"/></w:message>
<w:portType name="P"><w:operation name="Add"><w:input message="t:In"/><w:output message="t:Out"/><w:fault name="F" message="t:Out"/></w:operation></w:portType>"#;

const BINDING: &str = r#"<w:binding name="B" type="t:P"><s:binding transport="http://schemas.xmlsoap.org/soap/http"/>
<w:operation name="Add"><s:operation soapAction="urn:t/Add" soapActionRequired="true"/>
<w:input><s:header message="t:In" part="h" use="literal"/><s:body use="literal"/></w:input><w:output><s:body use="literal"/></w:output>
<w:fault name="F"><s:fault name="F" use="literal"/></w:fault></w:operation></w:binding>
<w:service name="S"><w:port name="A" binding="t:B"><s:address location="http://localhost/add"/></w:port></w:service>"#;

/// All definitions of a description, one per line.
fn told(found: &Description) -> String {
    let mut text = String::new();
    let mut say = |line: String| writeln!(text, "{line}").unwrap();
    for service in &found.services {
        for port in &service.ports {
            let binding = &found.bindings[port.binding].name;
            say(format!(
                "service {} port {} {binding} {:?}",
                service.name, port.name, port.address
            ));
        }
    }
    for binding in &found.bindings {
        say(format!("binding {} {:?}", binding.name, binding.protocol));
        for bound in &binding.operations {
            let input = bound.input.as_ref().unwrap();
            let headers = input.headers.iter().map(|header| &header.payload).collect::<Vec<_>>();
            say(format!(
                "  {} {:?} action {:?} {:?} parts {:?} headers {} faults {}",
                bound.name,
                found.shape(bound),
                bound.action,
                bound.action_required,
                input.body.parts,
                headers.iter().map(|payload| named(payload)).collect::<Vec<_>>().join(" "),
                bound.faults.len()
            ));
            let operation = found.operation(bound).unwrap();
            for message in operation.input.iter().chain(&operation.output) {
                let parts = message.parts.iter().map(|part| named(&part.payload));
                say(format!("    {} {}", message.name, parts.collect::<Vec<_>>().join(" ")));
            }
        }
    }
    text
}

fn named(payload: &Payload) -> String {
    match payload {
        Payload::Element(name) => format!("<{name}>"),
        Payload::Type(name) => format!("of type {name}"),
        Payload::Any => "any".to_owned(),
        Payload::None => "none".to_owned(),
        Payload::Other => "other".to_owned(),
    }
}

fn read(documents: &[(&str, &str)]) -> Result<Description, Vec<wsdl::Complaint>> {
    let mut map = Map::default();
    documents.iter().for_each(|(location, text)| map.insert(location, text.as_bytes()));
    wsdl::read("a.wsdl", &map, &Limits::default())
}

fn check(documents: &[(&str, &str)], expected: Expect) {
    let text = match read(documents) {
        Ok(found) => told(&found),
        Err(complaints) => complaints.iter().map(|complaint| format!("{complaint}\n")).collect(),
    };
    expected.assert_eq(&text);
}

fn definitions(parts: &[&str]) -> String {
    format!("{HEAD}{}</w:definitions>", parts.concat())
}

#[test]
fn a_service_is_read_to_its_parts() {
    check(
        &[("a.wsdl", &definitions(&[TYPES, MESSAGES, BINDING]))],
        expect![[r#"
            service {urn:t}S port A {urn:t}B Some("http://localhost/add")
            binding {urn:t}B Soap(V11)
              Add Wrapped action Some("urn:t/Add") Some(true) parts [0] headers <{urn:t}Token> faults 1
                {urn:t}In <{urn:t}Add> <{urn:t}Token>
                {urn:t}Out <{urn:t}AddResponse>
        "#]],
    );
}

#[test]
fn definitions_and_schemas_are_imported_each_once() {
    let main = definitions(&[r#"<w:import namespace="urn:t" location="sub/b.wsdl"/>"#, BINDING]);
    let imported = definitions(&[
        r#"<w:import namespace="urn:t" location="../a.wsdl"/><w:types><x:schema><x:import namespace="urn:t" schemaLocation="types.xsd"/></x:schema></w:types>"#,
        MESSAGES,
    ]);
    let types = r#"<x:schema xmlns:x="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:t"><x:element name="Add"/><x:element name="AddResponse"/><x:element name="Token"/></x:schema>"#;
    let found =
        read(&[("a.wsdl", &main), ("sub/b.wsdl", &imported), ("sub/types.xsd", types)]).unwrap();
    assert_eq!(found.documents.iter().map(|d| &**d).collect::<Vec<_>>(), ["a.wsdl", "sub/b.wsdl"]);
    assert!(found.schema.has_element("urn:t", "Add"));
    assert_eq!(found.bindings[0].protocol, Protocol::Soap(SoapVersion::V11));
}

#[test]
fn rpc_messages_and_their_encoding_are_told_apart() {
    let messages = r#"<w:message name="In"><w:part name="a" type="x:int"/><w:part name="b" type="t:Pair"/></w:message>
<w:portType name="P"><w:operation name="Add"><w:input message="t:In"/></w:operation></w:portType>"#;
    let binding = |usage: &str| {
        format!(
            r#"<w:binding name="B" type="t:P"><s12:binding style="rpc"/><w:operation name="Add">
<w:input><s12:body use="{usage}" namespace="urn:rpc" parts="b"/></w:input></w:operation></w:binding>"#
        )
    };
    let imports = r#"<w:types><x:schema targetNamespace="urn:t"><x:import namespace="http://schemas.xmlsoap.org/soap/encoding/"/>
 <x:complexType name="Pair"><x:complexContent><x:restriction xmlns:e="http://schemas.xmlsoap.org/soap/encoding/" base="e:Array">
 <x:attribute ref="e:arrayType" w:arrayType="x:int[]"/></x:restriction></x:complexContent></x:complexType></x:schema></w:types>"#;
    for (usage, shape) in [("literal", "RpcLiteral"), ("encoded", "RpcEncoded")] {
        let text = definitions(&[imports, messages, &binding(usage)]);
        let found = told(&read(&[("a.wsdl", &text)]).unwrap());
        assert!(found.contains("binding {urn:t}B Soap(V12)"), "{found}");
        assert!(found.contains(&format!("Add {shape} action None None parts [1]")), "{found}");
    }
}

#[test]
fn wsdl_2_interfaces_inherit() {
    let text = r##"<description xmlns="http://www.w3.org/ns/wsdl" xmlns:t="urn:t" xmlns:x="http://www.w3.org/2001/XMLSchema"
 xmlns:ws="http://www.w3.org/ns/wsdl/soap" targetNamespace="urn:t">
<types><x:schema targetNamespace="urn:t"><x:element name="Add"/><x:element name="Sum"/><x:element name="No"/></x:schema></types>
<interface name="Base"><fault name="No" element="t:No"/><operation name="Ping"><input element="#none"/><output element="#any"/></operation></interface>
<interface name="I" extends="t:Base"><operation name="Add"><input element="t:Add"/><output element="t:Sum"/><outfault ref="t:No"/></operation></interface>
<binding name="B" interface="t:I" type="http://www.w3.org/ns/wsdl/soap" ws:protocol="http://www.w3.org/2003/05/soap/bindings/HTTP/">
<operation ref="t:Add" ws:action="urn:t/Add"/></binding>
<service name="S" interface="t:I"><endpoint name="E" binding="t:B" address="http://localhost/"/></service></description>"##;
    check(
        &[("a.wsdl", text)],
        expect![[r#"
            service {urn:t}S port E {urn:t}B Some("http://localhost/")
            binding {urn:t}B Soap(V12)
              Add Wrapped action Some("urn:t/Add") None parts [0] headers  faults 1
                {urn:t}Add <{urn:t}Add>
                {urn:t}Add <{urn:t}Sum>
              Ping DocumentLiteral action None None parts [] headers  faults 0
                {urn:t}Ping 
                {urn:t}Ping any
        "#]],
    );
}

#[test]
fn what_leads_nowhere_is_complained_about_with_its_place() {
    let broken = definitions(&[
        TYPES,
        "\n<w:message name=\"In\"><w:part name=\"p\" element=\"t:Sub\"/><w:part name=\"q\"/></w:message>",
        "\n<w:message name=\"In\"/><w:portType name=\"P\"><w:operation name=\"Add\"><w:input message=\"t:Im\"/></w:operation></w:portType>",
        "\n<w:binding name=\"B\" type=\"u:P\"/><w:binding name=\"C\" type=\"t:P\"><s:binding style=\"rcp\"/><w:operation name=\"Sub\"/></w:binding>",
        "\n<w:service name=\"S\"><w:port name=\"A\" binding=\"t:D\"/></w:service>",
    ]);
    check(
        &[("a.wsdl", &broken)],
        expect![[r#"
            a.wsdl:5:1: wsdl-duplicate: there are two <message> with the name {urn:t}In
            a.wsdl:4:56: wsdl-part: the part `q` has neither `element` nor `type`
            a.wsdl:5:68: wsdl-reference: there is no message {urn:t}Im
            a.wsdl:6:1: wsdl-prefix: the prefix of `u:P` is not declared
            a.wsdl:6:64: wsdl-attribute: the style is `document` or `rpc`, not `rcp`
            a.wsdl:6:88: wsdl-reference: the portType has no operation `Sub`
            a.wsdl:7:21: wsdl-reference: there is no binding {urn:t}D
            a.wsdl:4:22: wsdl-part: a part of a message is the element {urn:t}Sub, which no schema declares
        "#]],
    );
}

#[test]
fn what_is_no_description_is_refused() {
    for (text, code) in [
        ("<a", "wsdl-not-xml"),
        ("<definitions/>", "wsdl-root"),
        ("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", "wsdl-root"),
        (
            "<w:definitions xmlns:w=\"http://schemas.xmlsoap.org/wsdl/\"><w:import location=\"b.wsdl\"/></w:definitions>",
            "wsdl-import",
        ),
    ] {
        let complaints = read(&[("a.wsdl", text)]).unwrap_err();
        assert_eq!(complaints[0].code, code, "{text}");
    }
    let absent = wsdl::read("a.wsdl", &NoDocuments, &Limits::default()).unwrap_err();
    assert_eq!(absent[0].code, "wsdl-import");
}

#[test]
fn budgets_end_what_grows() {
    let mut map = Map::default();
    for number in 0..50 {
        let text = definitions(&[&format!("<w:import location=\"{}.wsdl\"/>", number + 1)]);
        map.insert(&format!("{number}.wsdl"), text);
    }
    let limits = Limits { documents_max: 10, ..Limits::default() };
    let complaints = wsdl::read("0.wsdl", &map, &limits).unwrap_err();
    assert!(complaints.iter().any(|complaint| complaint.code == "limit"), "{complaints:?}");

    let messages = "<w:message name=\"m\"/>".repeat(100);
    let mut map = Map::default();
    map.insert("a.wsdl", definitions(&[&messages]));
    let limits = Limits { definitions_max: 50, complaints_max: 3, ..Limits::default() };
    assert_eq!(wsdl::read("a.wsdl", &map, &limits).unwrap_err()[0].code, "limit");
    let limits = Limits { complaints_max: 3, ..Limits::default() };
    assert_eq!(wsdl::read("a.wsdl", &map, &limits).unwrap_err().len(), 3);
}
