//! The schemas of one description: each compiled for itself with its imports, and tried in order.

use super::wrong::checked;
use super::*;

/// A schema of a namespace, in which `t` is `urn:t` and `u` is `urn:u`.
fn schema(target: &str, content: &str) -> String {
    format!(
        r#"<x:schema xmlns:x="http://www.w3.org/2001/XMLSchema" xmlns:t="urn:t" xmlns:u="urn:u" targetNamespace="{target}">{content}</x:schema>"#
    )
}

/// A description with these schemas in its types.
fn wsdl(schemas: &[&str]) -> String {
    format!(
        r#"<w:definitions xmlns:w="http://schemas.xmlsoap.org/wsdl/" targetNamespace="urn:w"><w:types>{}</w:types></w:definitions>"#,
        schemas.concat()
    )
}

fn element(name: &str, of: &str) -> String {
    format!(r#"<x:element name="{name}" type="{of}"/>"#)
}

/// An element that contains one of another namespace.
fn wrap(process: &str) -> String {
    format!(
        r###"<x:element name="Wrap"><x:complexType><x:sequence><x:any namespace="##other" processContents="{process}"/></x:sequence></x:complexType></x:element>"###
    )
}

const IMPORT: &str = r#"<x:import namespace="urn:u"/>"#;

fn holding(origin: &Origin, text: &str, keys: &str, files: &[(&str, &str)]) -> Gateway {
    let route =
        format!("errors: kong, policies: [{{ soap: {{ schema: a.wsdl, verbose: true {keys} }} }}]");
    gateway_to(&origin.url(), &route, &[&[("a.wsdl", text)], files].concat())
}

/// Asserts the answer to messages with this content, in any pieces and after any others: `ok`, or a part of it.
#[track_caller]
fn assert_told(gateway: &Gateway, content: &str, what: &str) {
    let body = envelope(SOAP_11, content);
    for _ in 0..3 {
        let said = post(gateway, &body).text();
        assert!(said.contains(what), "{content}: {said}");
    }
    let chunks: String = body.chars().map(|c| format!("1\r\n{c}\r\n")).collect();
    let (first, rest) = chunks.split_at(chunks.len() / 2);
    let mut wire = gateway.wire();
    wire.send(format!(
        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Type: text/xml\r\nTransfer-Encoding: chunked\r\n\r\n{first}"
    ));
    wire.send(format!("{rest}0\r\n\r\n"));
    let said = wire.read_reply().text();
    assert!(said.contains(what), "in pieces: {content}: {said}");
}

const NOWHERE: &str = "No matching global declaration available for the validation root.";

#[test]
fn two_schemas_of_one_namespace_may_define_one_name() {
    let origin = Origin::saying("ok");
    let first = schema("urn:t", &[element("Add", "x:int"), element("One", "x:int")].concat());
    let second = schema("urn:t", &[element("Add", "x:boolean"), element("Two", "x:int")].concat());
    let gateway = holding(&origin, &wsdl(&[&first, &second]), "", &[]);
    for (content, what) in [
        ("<Add xmlns=\"urn:t\">1</Add>", "ok"),
        // The first decides.
        ("<Add xmlns=\"urn:t\">true</Add>", "Error Node: Add, Error code: 1824, Line: 4"),
        ("<One xmlns=\"urn:t\">1</One>", "ok"),
        ("<Two xmlns=\"urn:t\">2</Two>", "ok"),
        ("<Two xmlns=\"urn:t\">two</Two>", "Error Node: Two, Error code: 1824, Line: 4"),
        ("<Six xmlns=\"urn:t\">2</Six>", NOWHERE),
    ] {
        assert_told(&gateway, content, what);
    }
}

#[test]
fn a_missing_declaration_means_the_next_and_the_last_is_told() {
    let origin = Origin::saying("ok");
    let item = schema("urn:u", &element("Item", "x:int"));
    let content = |value: &str| {
        format!("<t:Wrap xmlns:t=\"urn:t\"><u:Item xmlns:u=\"urn:u\">{value}</u:Item></t:Wrap>")
    };
    let strict = schema("urn:t", &wrap("strict"));
    let importing = schema("urn:t", &[IMPORT, &wrap("strict")].concat());
    let lax = schema("urn:t", &wrap("lax"));
    let wildcard = "Error Node: Item, Error code: 1845, Line: 4";
    let root = format!(
        "Error Node: Wrap, Error code: 1845, Line: 4, Message: Element '{{urn:t}}Wrap': {NOWHERE}"
    );
    let value = "Error Node: Item, Error code: 1824, Line: 4";
    for (schemas, of_good, of_bad) in [
        // A schema that is not imported is not known.
        (vec![&strict, &item], root.as_str(), root.as_str()),
        (vec![&item, &strict], wildcard, wildcard),
        (vec![&importing, &item], "ok", value),
        (vec![&strict, &importing, &item], "ok", value),
        (vec![&strict, &lax, &item], "ok", "ok"),
        (vec![&lax, &item], "ok", "ok"),
        (vec![&item, &lax, &importing], "ok", "ok"),
    ] {
        let all: Vec<&str> = schemas.iter().map(|text| text.as_str()).collect();
        let gateway = holding(&origin, &wsdl(&all), "", &[]);
        assert_told(&gateway, &content("1"), of_good);
        assert_told(&gateway, &content("one"), of_bad);
        assert_told(&gateway, "<u:Item xmlns:u=\"urn:u\">1</u:Item>", "ok");
    }
}

#[test]
fn a_mapped_import_replaces_the_sibling_of_its_namespace() {
    let origin = Origin::saying("ok");
    let small = |max: u32| {
        schema(
            "urn:u",
            &format!(
                r#"<x:simpleType name="Small"><x:restriction base="x:int"><x:maxInclusive value="{max}"/></x:restriction></x:simpleType>"#
            ),
        )
    };
    let (sibling, mapped) = (small(9), small(99));
    let add = |location: &str| {
        let import = format!(r#"<x:import namespace="urn:u" {location}/>"#);
        schema("urn:t", &[import, element("Add", "u:Small")].concat())
    };
    let files: &[(&str, &str)] = &[("mapped.xsd", &mapped)];
    for (location, keys, max) in [
        ("", "", 9),
        (r#"schemaLocation="none.xsd""#, "", 9),
        (r#"schemaLocation="mapped.xsd""#, "", 99),
        (
            r#"schemaLocation="http://t.test/u.xsd""#,
            r#", imports: { "http://t.test/u.xsd": mapped.xsd }"#,
            99,
        ),
        ("", r#", imports: { "urn:u": mapped.xsd }, imports_by_namespace: true"#, 99),
        ("", ", imports_by_namespace: true", 9),
    ] {
        for siblings in [[add(location), sibling.clone()], [sibling.clone(), add(location)]] {
            let text = wsdl(&[&siblings[0], &siblings[1]]);
            let gateway = holding(&origin, &text, keys, files);
            let message = |value: u32| format!("<Add xmlns=\"urn:t\">{value}</Add>");
            assert_told(&gateway, &message(max), "ok");
            assert_told(&gateway, &message(max + 1), "Error code: 1834");
        }
    }
}

#[test]
fn what_siblings_share_is_found_however_they_are_split() {
    let origin = Origin::saying("ok");
    let adding = |import: &str| schema("urn:t", &[import, &element("Add", "u:Small")].concat());
    let of = |base: &str| {
        format!(r#"<x:simpleType name="Small"><x:restriction base="{base}"/></x:simpleType>"#)
    };
    let own = schema("urn:t", &element("Add", "t:Small"));
    for schemas in [
        // Two of the imported namespace, which do not refer to one another.
        vec![
            adding(IMPORT),
            schema("urn:u", &element("B", "x:int")),
            schema("urn:u", &of("x:int")),
        ],
        // Two that define the same name, of which the first is imported.
        vec![adding(IMPORT), schema("urn:u", &of("x:int")), schema("urn:u", &of("x:boolean"))],
        // One namespace in two parts, without a word of it.
        vec![own.clone(), schema("urn:t", &of("x:int"))],
        vec![schema("urn:t", &of("x:int")), own],
        // They import one another.
        vec![
            adding(IMPORT),
            schema(
                "urn:u",
                &[r#"<x:import namespace="urn:t"/>"#, &of("x:int"), &element("B", "t:C")].concat(),
            ),
            schema(
                "urn:t",
                r#"<x:simpleType name="C"><x:restriction base="x:int"/></x:simpleType>"#,
            ),
        ],
    ] {
        let all: Vec<&str> = schemas.iter().map(String::as_str).collect();
        let text = wsdl(&all);
        let route = "policies: [{ soap: { schema: a.wsdl } }]";
        let (good, said) = checked(route, &[("a.wsdl", &text)]);
        assert!(good, "{text}: {said}");
        let gateway = holding(&origin, &text, "", &[]);
        assert_told(&gateway, "<Add xmlns=\"urn:t\">7</Add>", "ok");
        assert_told(&gateway, "<Add xmlns=\"urn:t\">true</Add>", "Error code: 1824");
    }
}

#[test]
fn a_schema_that_does_not_compile_is_told_to_those_who_come_to_it() {
    let origin = Origin::saying("ok");
    let good = schema("urn:t", &element("Add", "x:int"));
    let broken = schema("urn:u", &element("Sub", "x:none"));
    let last = schema("urn:v", &element("Mul", "x:int"));
    let text = wsdl(&[&good, &broken, &last]);
    let route = "policies: [{ soap: { schema: a.wsdl } }]";
    let (good, said) = checked(route, &[("a.wsdl", &text)]);
    assert!(!good && said.contains("a.wsdl:1:"), "{said}");
    let route = "errors: kong, policies: [{ soap: { schema: a.wsdl } }]";
    let (good, said) = checked(route, &[("a.wsdl", &text)]);
    assert!(good && said.contains("warning: "), "{said}");
    let gateway = holding(&origin, &text, "", &[]);
    assert_told(&gateway, "<Add xmlns=\"urn:t\">1</Add>", "ok");
    assert_told(&gateway, "<Add xmlns=\"urn:t\">one</Add>", "Error code: 1824");
    for content in ["<Sub xmlns=\"urn:u\">1</Sub>", "<Mul xmlns=\"urn:v\">1</Mul>"] {
        assert_told(&gateway, content, "<faultcode>soap:Server</faultcode>");
    }
    // Types in which there is no schema at all.
    let gateway = holding(&origin, &wsdl(&[]), "", &[]);
    assert_fault(
        &post(&gateway, &add()),
        "Client",
        "Request - XSD validation failed",
        "Unable to find a suitable Schema to validate the SOAP/XML",
    );
}

#[test]
fn replies_are_held_to_the_schemas_in_turn_too() {
    let first = schema("urn:t", &[IMPORT, &wrap("strict")].concat());
    let text = wsdl(&[&first, &schema("urn:u", &element("Sum", "x:int"))]);
    for (value, status) in [("12", 200), ("many", 500)] {
        let body = envelope(SOAP_11, &format!("<Sum xmlns=\"urn:u\">{value}</Sum>"));
        let origin = Origin::answering(answer(200, "Content-Type: text/xml\r\n", body.as_bytes()));
        let route = "policies: [{ soap: { schema: a.wsdl, validate: [response] } }]";
        let gateway = gateway_to(&origin.url(), route, &[("a.wsdl", &text)]);
        assert_eq!([0; 3].map(|_| post(&gateway, &add()).status()), [status; 3], "{value}");
    }
}
