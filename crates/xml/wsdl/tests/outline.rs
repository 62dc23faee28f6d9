//! The lenient reading of descriptions: schemas that compile, and complaints that are only reported.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test's helper may panic")]

use std::sync::Arc;

use wsdl::{Complaint, Limits, Outline};
use xsd::Map;

fn definitions(inner: &str) -> String {
    format!(
        r#"<w:definitions xmlns:w="http://schemas.xmlsoap.org/wsdl/" xmlns:s="http://schemas.xmlsoap.org/wsdl/soap/" xmlns:x="http://www.w3.org/2001/XMLSchema" xmlns:t="urn:t" xmlns:u="urn:u" targetNamespace="urn:t">{inner}</w:definitions>"#
    )
}

fn schema(target: &str, content: &str) -> String {
    format!("<x:schema targetNamespace=\"{target}\">{content}</x:schema>")
}

fn outline(text: &str, limits: &Limits) -> Result<Outline, Vec<Complaint>> {
    let mut map = Map::default();
    map.insert("a.wsdl", text);
    wsdl::outline("a.wsdl", &map, limits, wsdl::RpcMessages::Declared)
}

const TO_T: &str = "<x:import namespace=\"urn:t\"/>";
const TO_U: &str = "<x:import namespace=\"urn:u\"/>";

#[test]
fn each_schema_knows_what_it_imports_and_no_more() {
    let types = [
        schema("urn:t", &format!("{TO_U}<x:element name='a' type='u:b'/>")),
        schema("urn:u", "<x:simpleType name='b'><x:restriction base='x:int'/></x:simpleType>"),
        schema("urn:v", "<x:element name='c'/>"),
    ];
    let text = definitions(&format!("<w:types>{}</w:types>", types.concat()));
    let found = outline(&text, &Limits::default()).unwrap();
    let knows = |at: usize, name: &str| {
        let schema = found.schemas[at].as_ref().unwrap();
        schema.has_element("urn:t", name)
            || schema.has_element("urn:v", name)
            || schema.has_type("urn:u", name)
    };
    let known = [0, 1, 2].map(|at| ["a", "b", "c"].map(|name| knows(at, name)));
    assert_eq!(known, [[true, true, false], [false, true, false], [false, false, true]]);
}

#[test]
fn schemas_that_import_one_another_are_compiled_once() {
    let types = [
        schema("urn:t", &format!("{TO_U}<x:element name='a' type='u:b'/>")),
        schema(
            "urn:u",
            &format!("{TO_T}<x:simpleType name='b'><x:restriction base='x:int'/></x:simpleType>"),
        ),
    ];
    let text = definitions(&format!("<w:types>{}</w:types>", types.concat()));
    let found = outline(&text, &Limits::default()).unwrap();
    let schemas: Vec<_> = found.schemas.iter().flatten().collect();
    assert_eq!(schemas.len(), 2);
    assert!(Arc::ptr_eq(schemas[0], schemas[1]));
}

#[test]
fn a_binding_has_its_operations_without_a_port_type() {
    let text = definitions(
        "<w:types/><w:binding name='B' type='t:P'><s:binding/><w:operation name='Add'><s:operation soapAction='urn:add'/></w:operation></w:binding>",
    );
    let found = outline(&text, &Limits::default()).unwrap();
    let bound = &found.bindings[0].operations[0];
    assert_eq!(
        (&*bound.name, bound.action.as_deref(), bound.operation),
        ("Add", Some("urn:add"), None)
    );
    assert!(found.operation(bound).is_none());
    let codes: Vec<&str> = found.unresolved.iter().map(|complaint| complaint.code).collect();
    assert_eq!(codes, ["wsdl-reference"]);
    // The strict reading reports the same.
    let mut map = Map::default();
    map.insert("a.wsdl", text.as_str());
    let complaints = wsdl::read("a.wsdl", &map, &Limits::default()).unwrap_err();
    assert_eq!(complaints, found.unresolved);
}

#[test]
fn schemas_have_a_bound() {
    let many = schema("urn:t", "").repeat(20);
    let text = definitions(&format!("<w:types>{many}</w:types>"));
    assert!(outline(&text, &Limits::default()).is_ok());
    let limits = Limits { schemas_max: 10, ..Limits::default() };
    assert_eq!(outline(&text, &limits).unwrap_err()[0].code, "limit");
}
