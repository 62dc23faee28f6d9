//! The load tests of Kong's SOAP/XML plugins: their configuration is imported from a file of Kong, and their requests are sent to
//! the result.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::harness::{Backend, Gateway, Message, import_kong, start_imported};

const WSDL: &str = include_str!("../examples/soap/calculator/calculator.wsdl");
const KONG_WSDL: &str = include_str!("../examples/soap/calculator/kong-result.wsdl");
const INVALID_WSDL: &str = include_str!("../examples/soap/calculator/invalid.wsdl");
const XSD: &str = include_str!("../examples/soap/calculator/calculator.xsd");
const RENAME: &str = include_str!("../examples/soap/rename.xsl");
const TEN: &str = include_str!("../examples/soap/ten.xsl");
const STRIP: &str = include_str!("../examples/soap/strip.xsl");
const KONG_RESULT: &str = include_str!("../examples/soap/kong-result.xsl");
const HTTPBIN: &str = include_str!("../examples/soap/httpbin.yaml");
const COMPANY: &str = include_str!("../examples/soap/saxon/company.xml");

/// The services of the load tests.
struct Services {
    calculator: Backend,
    calculator2: Backend,
    httpbin: Backend,
}

impl Services {
    fn start() -> Services {
        let calculator =
            |region| Backend::start_with("calculator", &[], &[("X_SOAP_REGION", region)]);
        Services {
            calculator: calculator("soap1"),
            calculator2: calculator("soap2"),
            httpbin: Backend::start("httpbin", &[]),
        }
    }

    /// A file of Kong with these routes of the calculator and of httpbin.
    fn file(&self, calculator: &[Json], httpbin: &[Json]) -> String {
        json!({
            "_format_version": "3.0",
            "services": [
                { "name": "calculator", "url": format!("http://{}/ws", self.calculator.authority()), "routes": calculator },
                { "name": "httpbin", "url": format!("http://{}", self.httpbin.authority()), "routes": httpbin },
            ],
            "upstreams": [{ "name": "calculator2", "targets": [{ "target": self.calculator2.authority() }] }],
        })
        .to_string()
    }
}

fn route(name: &str, plugins: &[Json]) -> Json {
    json!({ "name": name, "paths": [format!("/{name}")], "plugins": plugins })
}

fn request(config: Json) -> Json {
    plugin("soap-xml-request-handling", "VerboseRequest", config)
}

fn response(config: Json) -> Json {
    plugin("soap-xml-response-handling", "VerboseResponse", config)
}

fn plugin(name: &str, verbose: &str, mut config: Json) -> Json {
    config[verbose] = true.into();
    json!({ "name": name, "config": config })
}

/// Imports a file of which nothing is refused, and starts a gateway with the result.
#[track_caller]
fn serving(text: &str, code: i32) -> Gateway {
    let (gateway, run) = start_imported(import_kong(text, &[]), code);
    assert!(run.stderr.contains(" 0 refused"), "{}", run.stderr);
    gateway
}

/// The message of the load tests.
fn envelope(operation: &str, a: i32, b: i32) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<soap:Envelope xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\">\n  <soap:Body>\n    <{operation} xmlns=\"http://tempuri.org/\">\n      <intA>{a}</intA>\n      <intB>{b}</intB>\n    </{operation}>\n  </soap:Body>\n</soap:Envelope>"
    )
}

fn post(gateway: &Gateway, path: &str, lines: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST {path} HTTP/1.1\r\nHost: gateway.test\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
    ))
}

const XML: &str = "Content-Type: text/xml; charset=utf-8\r\n";
const ACTION: &str = "SOAPAction: http://tempuri.org/Add\r\n";
const JSON: &str = "Content-Type: application/json\r\n";

/// A fault of the plugin for requests, byte for byte.
fn fault(message: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<soap:Envelope xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\">\n  <soap:Body>\n    <soap:Fault>\n      <faultcode>soap:Client</faultcode>\n      <faultstring>Request - XSD validation failed</faultstring>\n      <detail>\n        <errorMessage>{message}</errorMessage>\n      </detail>\n    </soap:Fault>\n  </soap:Body>\n</soap:Envelope>"
    )
}

fn everything(after: &str) -> [Json; 2] {
    [
        request(json!({
            "xsltTransformBefore": RENAME,
            "xsdApiSchema": WSDL,
            "SOAPAction_Header": "yes",
            "xsltTransformAfter": after,
            "RouteXPathRegisterNs": ["soap,http://schemas.xmlsoap.org/soap/envelope/", "t,http://tempuri.org/"],
            "RouteXPathTargets": [{
                "URL": "http://calculator2/ws",
                "XPath": "/soap:Envelope/soap:Body/t:Add/t:intA",
                "XPathCondition": "5",
            }],
        })),
        response(json!({
            "xsltTransformBefore": KONG_RESULT,
            "xsdApiSchema": KONG_WSDL,
            "xsltTransformAfter": STRIP,
        })),
    ]
}

#[test]
fn the_calculator_answers_behind_each_scenario() {
    let services = Services::start();
    let wsdl = || json!({ "xsdApiSchema": WSDL });
    let gateway = serving(
        &services.file(
            &[
                route("scen0", &[]),
                route("scen1", &[request(wsdl())]),
                route(
                    "scen2",
                    &[request(json!({ "xsdApiSchema": WSDL, "SOAPAction_Header": "yes" }))],
                ),
                route("scen3", &[request(json!({ "xsdApiSchema": XSD }))]),
                route("scen4", &[request(json!({ "xsltTransformBefore": RENAME }))]),
                route("scen5", &everything(TEN)),
                route("scen6", &[response(wsdl())]),
                route("scen7", &[response(json!({ "xsltTransformBefore": KONG_RESULT }))]),
                route("invalid", &[request(json!({ "xsdApiSchema": INVALID_WSDL }))]),
            ],
            &[],
        ),
        0,
    );
    for (path, lines, operation, numbers, region, result) in [
        ("/scen0", "", "Add", (5, 7), "soap1", "<AddResult>12</AddResult>"),
        ("/scen1", "", "Add", (5, 7), "soap1", "<AddResult>12</AddResult>"),
        ("/scen2", ACTION, "Add", (5, 7), "soap1", "<AddResult>12</AddResult>"),
        ("/scen3", "", "Add", (5, 7), "soap1", "<AddResult>12</AddResult>"),
        ("/scen4", "", "Subtract", (5, 7), "soap1", "<AddResult>12</AddResult>"),
        ("/scen5", ACTION, "Subtract", (5, 0), "soap2", "<KongResult>15</KongResult>"),
        ("/scen5", ACTION, "Subtract", (6, 0), "soap1", "<KongResult>16</KongResult>"),
        ("/scen6", "", "Add", (5, 7), "soap1", "<AddResult>12</AddResult>"),
        ("/scen7", "", "Add", (5, 7), "soap1", "<KongResult>12</KongResult>"),
    ] {
        let body = envelope(operation, numbers.0, numbers.1);
        let reply = post(&gateway, path, &format!("{XML}{lines}"), &body);
        assert_eq!(reply.status(), 200, "{path}: {}", reply.text());
        assert_eq!(reply.get("content-type"), Some("text/xml;charset=utf-8"), "{path}");
        assert_eq!(reply.get("x-soap-region"), Some(region), "{path}");
        assert!(reply.text().contains(result), "{path}: {}", reply.text());
    }
    let no_schema = "Unable to find a suitable Schema to validate the SOAP/XML";
    let unknown = "Error Node: Add_DOES_NOT_EXIST, Error code: 1845, Line: 4, Message: Element '{http://tempuri.org/}Add_DOES_NOT_EXIST': No matching global declaration available for the validation root.";
    for (path, operation, message) in
        [("/invalid", "Add", no_schema), ("/scen3", "Add_DOES_NOT_EXIST", unknown)]
    {
        let reply = post(&gateway, path, XML, &envelope(operation, 5, 7));
        assert_eq!((reply.status(), reply.text()), (500, fault(message)), "{path}");
        assert_eq!(reply.get("content-type"), Some("text/xml; charset=utf-8"), "{path}");
    }
    let reply = post(&gateway, "/scen2", XML, &envelope("Add", 5, 7));
    assert_eq!(reply.status(), 500);
    assert!(reply.text().contains("Validation of 'SOAPAction' header: "), "{}", reply.text());
}

/// Definitions in files, as in the endurance runs.
#[test]
fn definitions_may_lie_in_files() {
    let services = Services::start();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/soap");
    let folder = folder.canonicalize().unwrap();
    let folder = folder.to_str().unwrap();
    let mut plugins = everything("thirteen.xsl");
    for (plugin, field, file) in [
        (0, "xsltTransformBefore", "rename.xsl"),
        (0, "xsdApiSchema", "calculator/calculator.wsdl"),
        (1, "xsltTransformBefore", "kong-result.xsl"),
        (1, "xsdApiSchema", "calculator/kong-result.wsdl"),
        (1, "xsltTransformAfter", "strip.xsl"),
    ] {
        plugins[plugin]["config"][field] = file.into();
        plugins[plugin]["config"]["filePathPrefix"] = folder.into();
    }
    let gateway = serving(&services.file(&[route("endurance", &plugins)], &[]), 0);
    let reply =
        post(&gateway, "/endurance", &format!("{XML}{ACTION}"), &envelope("Subtract", 5, 0));
    assert_eq!((reply.status(), reply.get("x-soap-region")), (200, Some("soap2")));
    let result = "<AddResponse><KongResult>18</KongResult></AddResponse>";
    assert!(reply.text().contains(result), "{}", reply.text());
}

#[test]
fn json_and_text_pass_with_and_without_a_document() {
    let services = Services::start();
    let validation = |response: bool| {
        json!({ "name": "oas-validation", "config": {
            "api_spec": HTTPBIN,
            "verbose_response": true,
            "validate_response_body": response,
            "allowed_header_parameters": "Host,Content-Type,User-Agent,Accept,Content-Length",
        } })
    };
    let gateway = serving(
        &services.file(
            &[],
            &[
                route("httpbin0", &[]),
                route("httpbin1", &[validation(false)]),
                route("httpbin2", &[validation(true)]),
                route("gobench0", &[]),
            ],
        ),
        3,
    );
    let texts = json!({ "one": "a", "two": "b", "three": "c", "four": "d" });
    for path in ["/httpbin0/anything", "/httpbin1/anything", "/httpbin2/anything"] {
        let reply = post(&gateway, path, JSON, &texts.to_string());
        assert_eq!(reply.status(), 200, "{path}: {}", reply.text());
        let echo: Json = serde_json::from_str(&reply.text()).unwrap();
        assert_eq!(echo["json"], texts, "{path}");
        let status = post(&gateway, path, JSON, "{\"one\":1}").status();
        assert_eq!(status, if path.starts_with("/httpbin0") { 200 } else { 400 }, "{path}");
    }
    let reply = gateway.wire().get("/gobench0/size/350B");
    assert_eq!((reply.status(), reply.body.len()), (200, 350));
    assert_eq!(reply.get("content-type"), Some("text/plain; charset=utf-8"));
}

/// Scenarios 8 to 10, whose stylesheets are of XSLT 3.0.
#[test]
fn stylesheets_of_saxon_translate_json_and_back() {
    let services = Services::start();
    let saxon = |mut config: Json| {
        config["xsltLibrary"] = "saxon".into();
        config
    };
    let company = include_str!("../examples/soap/saxon/company.xsd");
    let gateway = serving(
        &services
            .file(
                &[
                    route(
                        "scen8",
                        &[request(saxon(
                            json!({ "xsltTransformBefore": include_str!("../examples/soap/saxon/rename.xsl") }),
                        ))],
                    ),
                    route(
                        "scen9",
                        &[
                            request(saxon(
                                json!({ "xsltTransformBefore": include_str!("../examples/soap/saxon/json-to-soap.xsl") }),
                            )),
                            response(saxon(
                                json!({ "xsltTransformAfter": include_str!("../examples/soap/saxon/soap-to-json.xsl") }),
                            )),
                        ],
                    ),
                ],
                &[route(
                    "scen10",
                    &[
                        request(saxon(json!({
                            "xsdSoapSchema": company,
                            "xsltTransformAfter": include_str!("../examples/soap/saxon/company-to-json.xsl"),
                        }))),
                        response(saxon(json!({
                            "xsdSoapSchema": company,
                            "xsltTransformBefore": include_str!("../examples/soap/saxon/json-to-company.xsl"),
                        }))),
                    ],
                )],
            ),
        0,
    );
    let reply = post(&gateway, "/scen8", XML, &envelope("Subtract", 5, 7));
    assert_eq!(reply.status(), 200, "{}", reply.text());
    assert!(reply.text().contains("<AddResult>12</AddResult>"), "{}", reply.text());
    let sum = r#"{"operation":"Add","intA":50,"intB":10}"#;
    let reply = post(&gateway, "/scen9", JSON, sum);
    assert_eq!((reply.status(), reply.text().as_str()), (200, "{\"result\":60}"));
    assert_eq!(reply.get("content-type"), Some("application/json"));
    let reply = post(&gateway, "/scen10/anything", XML, COMPANY);
    assert_eq!((reply.status(), reply.text().as_str()), (200, COMPANY));
    assert_eq!(reply.get("content-type"), Some("text/xml; charset=utf-8"));
}

#[test]
fn a_reply_that_its_schema_does_not_allow_is_a_fault() {
    let services = Services::start();
    let gateway = serving(
        &services.file(
            &[
                route("right", &[response(json!({ "xsdApiSchema": WSDL }))]),
                route("wrong", &[response(json!({ "xsdApiSchema": KONG_WSDL }))]),
            ],
            &[],
        ),
        0,
    );
    let reply = post(&gateway, "/right", XML, &envelope("Add", 5, 7));
    assert_eq!(reply.status(), 200, "{}", reply.text());
    let reply = post(&gateway, "/wrong", XML, &envelope("Add", 5, 7));
    assert_eq!(reply.status(), 500, "{}", reply.text());
    let text = reply.text();
    for part in [
        "<faultcode>soap:Server</faultcode>",
        "<faultstring>Response - XSD validation failed</faultstring>",
        "<backendHttpCode>200</backendHttpCode>",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
