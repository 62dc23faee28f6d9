//! The load tests of a SOAP gateway that need no Java machine, as scenarios: the same calculator behind more and more policies.
//!
//! Requests, ramps and the checks of replies are those of `bench/k6`, whose scripts check each reply strictly.

use std::time::Duration;

use http::Method;

use crate::scenario::{Expected, Request, Scenario, Stage};
use backends::Kind;

/// The folder of schemas and stylesheets.
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/soap");

const SUM: &str = "<AddResult>12</AddResult>";
const ACTION: &str = "http://tempuri.org/Add";

/// The ramps, as seconds and the number of users at their end: without policies, and with.
const PLAIN: &[(u64, u32)] = &[(30, 25), (30, 40), (900, 65)];
const POLICIES: &[(u64, u32)] = &[(30, 6), (30, 12), (30, 20), (900, 20)];

/// The part of a scenario that differs from the others.
struct Own {
    name: &'static str,
    title: &'static str,
    /// The route's policies; `FILES` stands for the folder.
    policies: &'static str,
    operation: &'static str,
    second: &'static str,
    action: bool,
    holds: &'static str,
}

/// The usual values.
const USUAL: Own = Own {
    name: "soap-0",
    title: "SOAP through a route without policies",
    policies: "",
    operation: "Add",
    second: "7",
    action: false,
    holds: SUM,
};

const ALL: &[Own] = &[
    USUAL,
    Own {
        name: "soap-1",
        title: "requests by a WSDL",
        policies: "{ soap: { schema: FILES/calculator/calculator.wsdl } }",
        ..USUAL
    },
    Own {
        name: "soap-2",
        title: "requests by a WSDL, and their action",
        policies: "{ soap: { schema: FILES/calculator/calculator.wsdl, action: required } }",
        action: true,
        ..USUAL
    },
    Own {
        name: "soap-3",
        title: "requests by an XML schema",
        policies: "{ soap: { schema: FILES/calculator/calculator.xsd } }",
        ..USUAL
    },
    Own {
        name: "soap-4",
        title: "requests through a stylesheet",
        policies: "{ xslt: { on: request, stylesheet: FILES/rename.xsl } }, { soap: {} }",
        operation: "Subtract",
        ..USUAL
    },
    Own {
        name: "soap-5",
        title: "everything, both ways",
        policies: "{ xslt: { on: request, stylesheet: FILES/rename.xsl } }, \
                   { soap: { schema: FILES/calculator/calculator.wsdl, action: required } }, \
                   { xslt: { on: request, stylesheet: FILES/ten.xsl } }, \
                   { xpath_route: { namespaces: { t: \"http://tempuri.org/\" }, \
                     cases: [{ xpath: \"//t:Add/t:intA\", equals: \"5\", upstream: calculator }] } }, \
                   { xslt: { on: response, stylesheet: FILES/strip.xsl } }, \
                   { soap: { schema: FILES/calculator/kong-result.wsdl, validate: [response] } }, \
                   { xslt: { on: response, stylesheet: FILES/kong-result.xsl } }",
        operation: "Subtract",
        second: "0",
        action: true,
        holds: "<KongResult>15</KongResult>",
    },
    Own {
        name: "soap-6",
        title: "replies by a WSDL",
        policies: "{ soap: { schema: FILES/calculator/calculator.wsdl, validate: [response] } }",
        ..USUAL
    },
    Own {
        name: "soap-7",
        title: "replies through a stylesheet",
        policies: "{ soap: { validate: [response] } }, { xslt: { on: response, stylesheet: FILES/kong-result.xsl } }",
        holds: "<KongResult>12</KongResult>",
        ..USUAL
    },
];

/// The scenarios 0 to 7.
pub(crate) fn scenarios() -> impl Iterator<Item = Scenario> {
    ALL.iter().map(scenario)
}

fn scenario(own: &Own) -> Scenario {
    let policies = own.policies.replace("FILES", FILES);
    let gateway = format!(
        "listen: {{ public: {{ address: \"LISTEN\" }} }}\nadmin: {{ address: \"ADMIN\" }}\n\
         upstreams: {{ calculator: {{ targets: [\"http://BACKEND\"] }} }}\n\
         routes: {{ sums: {{ match: {{ path: \"/**\" }}, errors: kong, upstream: calculator, policies: [{policies}] }} }}\n"
    );
    let mut headers = vec![("content-type", "text/xml; charset=utf-8")];
    headers.extend(own.action.then_some(("soapaction", ACTION)));
    let stages = if own.policies.is_empty() { PLAIN } else { POLICIES };
    let stage =
        |&(seconds, users): &(u64, u32)| Stage { users, over: Duration::from_secs(seconds) };
    Scenario {
        name: own.name,
        title: own.title,
        backend: Kind::Calculator,
        gateway,
        request: Request {
            method: Method::POST,
            target: "/ws",
            headers,
            body: envelope(own.operation, own.second).into_bytes(),
            expected: Expected::Contains(own.holds),
        },
        think: Duration::ZERO,
        wait_max: crate::scenario::WAIT_MAX,
        stages: stages.iter().map(stage).collect(),
        // The ramp.
        warm_up: Duration::from_secs(90),
    }
}

fn envelope(operation: &str, second: &str) -> String {
    format!(
        r#"<?xml version="1.0" encoding="utf-8"?>
<soap:Envelope xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/">
  <soap:Body>
    <{operation} xmlns="http://tempuri.org/">
      <intA>5</intA>
      <intB>{second}</intB>
    </{operation}>
  </soap:Body>
</soap:Envelope>
"#
    )
}
