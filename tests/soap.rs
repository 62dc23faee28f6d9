//! `soap`, `xslt` and `xpath_route`: messages validated, transformed and sent elsewhere, and the faults clients read.

mod actions;
mod arriving;
mod canonical;
mod costly;
mod descriptions;
mod faults;
mod fetched;
mod gateway_faults;
mod imports;
mod labels;
mod operations;
mod replies;
mod scenarios;
mod siblings;
mod template_cache;
mod types;
mod words;
mod wrapping;
mod wrong;

use crate::harness::{Backend, Gateway, Message, Origin};

const WSDL: &str = include_str!("../examples/soap/calculator/calculator.wsdl");
const XSD: &str = include_str!("../examples/soap/calculator/calculator.xsd");
const KONG_WSDL: &str = include_str!("../examples/soap/calculator/kong-result.wsdl");
const RENAME: &str = include_str!("../examples/soap/rename.xsl");
const TEN: &str = include_str!("../examples/soap/ten.xsl");
const KONG_RESULT: &str = include_str!("../examples/soap/kong-result.xsl");
const STRIP: &str = include_str!("../examples/soap/strip.xsl");

/// The files of the examples.
const FILES: &[(&str, &str)] = &[
    ("calculator.wsdl", WSDL),
    ("calculator.xsd", XSD),
    ("kong-result.wsdl", KONG_WSDL),
    ("rename.xsl", RENAME),
    ("ten.xsl", TEN),
    ("kong-result.xsl", KONG_RESULT),
    ("strip.xsl", STRIP),
    ("invalid.wsdl", include_str!("../examples/soap/calculator/invalid.wsdl")),
    ("httpbin.yaml", include_str!("../examples/soap/httpbin.yaml")),
];

const SOAP_11: &str = "http://schemas.xmlsoap.org/soap/envelope/";
const SOAP_12: &str = "http://www.w3.org/2003/05/soap-envelope";

/// The calculator, which names its region in its replies.
fn calculator(region: &str) -> Backend {
    Backend::start_with("calculator", &[], &[("X_SOAP_REGION", region)])
}

/// A gateway with metrics and one route before an address, and these keys of the route.
fn gateway_to(url: &str, route: &str, more: &[(&str, &str)]) -> Gateway {
    let yaml = format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
admin: {{ address: "127.0.0.1:0" }}
workers: 1
upstreams: {{ origin: {{ targets: ["{url}"] }} }}
routes: {{ all: {{ match: {{ path: "/**" }}, upstream: origin, {route} }} }}
"#
    );
    Gateway::start_beside(yaml, &[FILES, more].concat())
}

fn gateway(origin: &Origin, route: &str) -> Gateway {
    gateway_to(&origin.url(), route, &[])
}

/// An envelope with the operation on line 4.
fn envelope(namespace: &str, content: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<soap:Envelope xmlns:soap=\"{namespace}\">\n  <soap:Body>\n    {content}\n  </soap:Body>\n</soap:Envelope>"
    )
}

fn operation(name: &str, a: &str, b: &str) -> String {
    format!(
        "<{name} xmlns=\"http://tempuri.org/\">\n      <intA>{a}</intA>\n      <intB>{b}</intB>\n    </{name}>"
    )
}

fn add() -> String {
    envelope(SOAP_11, &operation("Add", "5", "7"))
}

fn post_to(gateway: &Gateway, path: &str, lines: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST {path} HTTP/1.1\r\nHost: a.test\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
    ))
}

/// Posts as SOAP 1.1.
fn post(gateway: &Gateway, body: &str) -> Message {
    post_to(gateway, "/ws", "Content-Type: text/xml; charset=utf-8\r\n", body)
}

/// Posts as SOAP 1.2.
fn post_12(gateway: &Gateway, body: &str) -> Message {
    post_to(gateway, "/ws", "Content-Type: application/soap+xml; charset=utf-8\r\n", body)
}

/// A reply of an upstream.
fn answer(status: u16, lines: &str, body: &[u8]) -> Vec<u8> {
    let mut reply = format!("HTTP/1.1 {status} X\r\n{lines}Content-Length: {}\r\n\r\n", body.len())
        .into_bytes();
    reply.extend_from_slice(body);
    reply
}

/// The fault of SOAP 1.1 in Kong's layout.
fn kong_11(code: &str, step: &str, message: &str, backend: Option<u16>) -> String {
    let backend = backend
        .map(|status| format!("\n        <backendHttpCode>{status}</backendHttpCode>"))
        .unwrap_or_default();
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
         <soap:Envelope xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\">\n  \
           <soap:Body>\n    \
             <soap:Fault>\n      \
               <faultcode>soap:{code}</faultcode>\n      \
               <faultstring>{step}</faultstring>\n      \
               <detail>\n        \
                 <errorMessage>{message}</errorMessage>{backend}\n      \
               </detail>\n    \
             </soap:Fault>\n  \
           </soap:Body>\n\
         </soap:Envelope>"
    )
}

#[track_caller]
fn assert_fault(reply: &Message, code: &str, step: &str, message: &str) {
    assert_eq!(reply.text(), kong_11(code, step, message, None));
    assert_eq!(reply.status(), 500);
    assert_eq!(reply.get("content-type"), Some("text/xml; charset=utf-8"));
}
