//! Mistakes in the configuration, and the complaints about them.

use super::{CALCULATOR, TYPES, mirror, offering_at, post};
use crate::harness::{Run, tidegate};

fn checked(wsdl: &str, path: &str, keys: &str) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ a: {{ targets: [\"http://127.0.0.1:1\"] }} }}\nroutes:\n  api:\n    match: {{ path: \"{path}\" }}\n    policies:\n      - soap_rest: {{ wsdl: a.wsdl, {keys} }}\n    upstream: a\n"
    );
    let file = folder.path().join("tidegate.yaml");
    std::fs::write(&file, yaml).unwrap();
    std::fs::write(folder.path().join("a.wsdl"), wsdl).unwrap();
    tidegate(&["check", file.to_str().unwrap()])
}

#[test]
fn mistakes_are_told_with_their_places() {
    let encoded = TYPES.replace("use=\"literal\"", "use=\"encoded\"");
    for (wsdl, path, keys, place, what) in [
        (
            TYPES,
            "/api/**",
            "port: Three",
            ":7:28",
            "no such port speaks SOAP over HTTP; the description has Types/One, Types/Two",
        ),
        (
            TYPES,
            "/api/**",
            "operations: { Ordr: {} }",
            ":7:",
            "there is no operation `Ordr`; did you mean `Order`?",
        ),
        (
            TYPES,
            "/api/**",
            "operations: { Order: { path: order } }",
            ":7:",
            "`order` is not a path",
        ),
        (
            TYPES,
            "/api/**",
            "operations: { Order: { path: /Symbol } }",
            ":7:",
            "`Order` is at `POST /Symbol` already",
        ),
        (TYPES, "/api/**", "operations: { Order: { method: HEAD } }", ":7:", "POST"),
        (
            TYPES,
            "/api/**",
            "operations: { Order: { path: /openapi.json } }",
            ":7:",
            "is the path of the OpenAPI document",
        ),
        (TYPES, "/api/**", "openapi: no", ":7:", "`no` is not a path"),
        (TYPES, "/api/**", "prefix: api", ":7:", "`api` is not a path"),
        (TYPES, "/api/**", "path: ws", ":7:", "`ws` is not a path"),
        (TYPES, "/api/**", "faults: { TooMany: 200 }", ":7:", "400"),
        (TYPES, "/{tenant}/**", "", ":7:", "the route's path has parameters"),
        (TYPES, "/api/**", "wsdls: b", ":7:", "unknown key"),
        (
            encoded.as_str(),
            "/api/**",
            "port: One",
            ":7:",
            "none of the operations can be offered as JSON",
        ),
        ("<a/>", "/api/**", "", ":7:", "the root is <a>"),
        ("<a", "/api/**", "", ":7:", "a.wsdl:1:3"),
    ] {
        let run = checked(wsdl, path, keys);
        assert_eq!(run.code, Some(1), "{keys}: {}{}", run.stdout, run.stderr);
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(said.contains(place) && said.contains(what), "{keys}: {said}");
    }
}

#[test]
fn operations_that_are_left_out_are_warned_of() {
    let run = checked(TYPES, "/api/**", "");
    let said = format!("{}{}", run.stdout, run.stderr);
    assert_eq!(run.code, Some(0), "{said}");
    assert!(
        said.contains("the operation `Coded` is not offered as JSON: its messages are encoded"),
        "{said}"
    );
}

#[test]
fn paths_and_prefix_are_as_written() {
    let origin = mirror();
    let keys = "prefix: /api/v1/, path: /other?x=1, operations: { Symbol: { path: /symbols/one, method: PATCH } }";
    let gateway = offering_at(&origin.url(), TYPES, keys, "");
    let reply = super::ask(&gateway, "PATCH", "/api/v1/symbols/one", "", "\"A\"");
    assert_eq!((reply.status(), reply.text().as_str()), (200, "\"A\""));
    assert_eq!(
        (origin.request().method().to_owned(), origin.request().target()),
        ("POST".to_owned(), "/other?x=1")
    );
}

#[test]
fn imports_are_read_from_beside_or_from_where_the_configuration_says() {
    let schema = "<xsd:schema xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" targetNamespace=\"urn:b\"><xsd:element name=\"B\" type=\"xsd:int\"/></xsd:schema>";
    let wsdl = CALCULATOR.replace(
        "<wsdl:types>",
        "<wsdl:types><xsd:schema><xsd:import namespace=\"urn:b\" schemaLocation=\"http://b.test/b.xsd\"/></xsd:schema>",
    )
    .replace("<xsd:element name=\"intA\" type=\"xsd:int\"/>", "<xsd:element ref=\"b:B\" xmlns:b=\"urn:b\"/>");
    let wsdl = wsdl.replace(
        "<xsd:schema elementFormDefault",
        "<xsd:schema xmlns:b=\"urn:b\" elementFormDefault",
    );
    let wsdl = wsdl.replacen(
        "targetNamespace=\"http://tempuri.org/\">\n      <xsd:element name=\"Add\">",
        "targetNamespace=\"http://tempuri.org/\">\n      <xsd:import namespace=\"urn:b\"/><xsd:element name=\"Add\">",
        1,
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("b.xsd"), schema).unwrap();
    let file = folder.path().join("b.xsd");
    let origin = mirror();
    let keys = format!("imports: {{ \"http://b.test/b.xsd\": \"{}\" }}", file.display());
    let gateway = offering_at(&origin.url(), &wsdl, &keys, "");
    // The mirror sends the request back, which is not a reply.
    assert_eq!(post(&gateway, "/api/Add", r#"{"B":1,"intB":2}"#).status(), 502);
    assert_eq!(
        super::sent(&origin),
        r#"<n0:Add xmlns:n0="http://tempuri.org/" xmlns:n1="urn:b"><n1:B>1</n1:B><n0:intB>2</n0:intB></n0:Add>"#
    );
}
