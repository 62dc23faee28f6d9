//! A file of Kong's SOAP/XML plugins with many routes. Each has a WSDL of its own, which imports a schema over HTTP, asynchronously.
//!
//! `make soak ARGS=soap` does it with 500 routes. The test prints times and memory, and judges neither.

use std::time::Instant;

use serde_json::{Value as Json, json};

use crate::harness::{Gateway, Origin, tidegate, until};
use crate::reload::put_ok;

const ROUTES: usize = 20;

const WSDL: &str = include_str!("../examples/soap/calculator/calculator.wsdl");
const XSD: &str = include_str!("../examples/soap/calculator/calculator.xsd");

/// Answers every POST, and has a schema at each path that ends in `.xsd`.
fn service() -> Origin {
    Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let body = if request.target().ends_with(".xsd") { XSD } else { "<ok/>" };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\n\r\n"
            );
            if !peer.try_send(head + body) {
                return;
            }
        }
    })
}

/// The WSDL of a route. Its types are in a schema that is downloaded.
fn wsdl(service: &Origin, route: usize) -> String {
    let (front, rest) = WSDL.split_once("<wsdl:types>").unwrap();
    let (_, behind) = rest.split_once("</wsdl:types>").unwrap();
    let url = format!("{}/schemas/{route}.xsd", service.url());
    format!(
        "{front}<wsdl:types><xsd:schema><xsd:import namespace=\"http://tempuri.org/\" schemaLocation=\"{url}\"/></xsd:schema></wsdl:types>{behind}"
    )
}

fn file(service: &Origin, routes: usize) -> String {
    let route = |route: usize| {
        let config = json!({
            "xsdApiSchema": wsdl(service, route),
            "ExternalEntityLoader_Async": true,
            "ExternalEntityLoader_CacheTTL": 3600,
            "ExternalEntityLoader_Timeout": 30,
            "VerboseRequest": true,
        });
        json!({
            "name": format!("calculator-{route}"),
            "paths": [format!("/calculator-{route}/ws")],
            "plugins": [{ "name": "soap-xml-request-handling", "config": config }],
        })
    };
    let routes: Vec<Json> = (0..routes).map(route).collect();
    let service =
        json!({ "name": "calculator", "url": format!("{}/ws", service.url()), "routes": routes });
    json!({ "_format_version": "3.0", "services": [service] }).to_string()
}

/// The status of a message for a route.
fn ask(gateway: &Gateway, route: usize, operation: &str) -> u16 {
    let body = format!(
        "<soap:Envelope xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\"><soap:Body><{operation} xmlns=\"http://tempuri.org/\"><intA>5</intA><intB>7</intB></{operation}></soap:Body></soap:Envelope>"
    );
    let length = body.len();
    let head = format!(
        "POST /calculator-{route}/ws HTTP/1.1\r\nHost: h\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\n\r\n"
    );
    gateway.wire().ask(head + &body).status()
}

#[test]
fn every_route_validates_by_its_own_schema_and_a_reload_downloads_none_again() {
    let routes = std::env::var("TIDEGATE_SOAK_SOAP_ROUTES").map_or(ROUTES, |n| n.parse().unwrap());
    let service = service();
    let folder = tempfile::tempdir().unwrap();
    let (from, into) = (folder.path().join("kong.json"), folder.path().join("made"));
    std::fs::write(&from, file(&service, routes)).unwrap();
    let began = Instant::now();
    let words = ["import", "kong", "--listen", "127.0.0.1:0", "--into"];
    let run = tidegate(&[&words[..], &[into.to_str().unwrap(), from.to_str().unwrap()]].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let imported = began.elapsed();
    let made = into.join("tidegate.yaml");
    let mut yaml = std::fs::read_to_string(&made).unwrap();
    yaml.push_str("admin: { address: \"127.0.0.1:0\" }\n");
    std::fs::write(&made, &yaml).unwrap();

    let began = Instant::now();
    let gateway = Gateway::start_of(folder, "made/tidegate.yaml");
    let listening = began.elapsed();
    let fetched = || {
        let seen = service.requests();
        seen.iter().filter(|seen| seen.target().ends_with(".xsd")).count()
    };
    until("every schema is there", || fetched() >= routes);
    for route in 0..routes {
        assert_eq!(ask(&gateway, route, "Add"), 200, "{route}");
    }
    let ready = began.elapsed();
    assert_eq!(ask(&gateway, routes - 1, "Addition"), 500);
    let memory = gateway.resident_bytes();
    assert_eq!(fetched(), routes);

    let began = Instant::now();
    put_ok(&gateway, &yaml.replace("/calculator-0/ws", "/calculator-new/ws"));
    let reloaded = began.elapsed();
    assert_eq!(ask(&gateway, routes - 1, "Add"), 200);
    assert_eq!(fetched(), routes, "a reload downloads nothing that it has");
    println!(
        "{routes} routes: imported in {imported:.1?}, listening after {listening:.1?}, all ready after {ready:.1?}, {} MiB, reloaded in {reloaded:.1?}, {} MiB then",
        memory >> 20,
        gateway.resident_bytes() >> 20,
    );
}
