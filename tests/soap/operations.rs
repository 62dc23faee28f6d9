//! Operations as operators see them: metrics, access log and limits.

use super::imports::counted;
use super::*;
use crate::harness::until;
use serde_json::Value;

const CALLS: &str = "tidegate_soap_operations_total";

fn counting(url: &str, policies: &str) -> Gateway {
    let yaml = format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
admin: {{ address: "127.0.0.1:0" }}
workers: 1
telemetry: {{ access_log: {{ format: json }} }}
upstreams: {{ origin: {{ targets: ["{url}"] }} }}
routes: {{ sums: {{ match: {{ path: "/**" }}, upstream: origin, policies: [{policies}] }} }}
"#
    );
    Gateway::start_beside(yaml, FILES)
}

fn call(gateway: &Gateway, name: &str, a: &str) -> u16 {
    post(gateway, &envelope(SOAP_11, &operation(name, a, "7"))).status()
}

#[test]
fn calls_are_counted_and_logged_by_operation_and_fault() {
    let calculator = super::calculator("soap1");
    let gateway = counting(&calculator.url, "{ soap: { schema: calculator.wsdl } }");
    for _ in 0..3 {
        assert_eq!(call(&gateway, "Add", "5"), 200);
    }
    assert_eq!(call(&gateway, "Add", "five"), 500);
    // The service answers a division by zero with its own fault.
    let zero = envelope(SOAP_11, &operation("Divide", "5", "0"));
    assert_eq!(post_to(&gateway, "/ws", "Content-Type: text/xml\r\n", &zero).status(), 500);
    // Names that clients make up are one.
    for name in ["Made", "Up", "Names"] {
        assert_eq!(call(&gateway, name, "5"), 500);
    }
    assert_eq!(post(&gateway, "no xml").status(), 500);
    let count = |operation: &str, fault: &str| {
        let operation = format!("operation=\"{operation}\"");
        counted(&gateway, CALLS, &["route=\"sums\"", &operation, &format!("fault=\"{fault}\"")])
    };
    until("all are counted", || counted(&gateway, CALLS, &[]) == 9);
    assert_eq!(count("Add", "none"), 3);
    assert_eq!(count("Add", "client"), 1);
    assert_eq!(count("Divide", "none"), 0);
    assert_eq!(count("Divide", "client") + count("Divide", "server"), 1);
    assert_eq!(count("(unknown)", "client"), 4);

    until("the log is written", || gateway.output().matches("\"route\":\"sums\"").count() == 9);
    let output = gateway.output();
    let lines = output.lines().filter(|line| line.contains("\"route\":\"sums\""));
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["operation"], &lines[0]["soap_fault"]), (&"Add".into(), &Value::Null));
    assert_eq!(
        (&lines[3]["operation"], &lines[3]["soap_fault"]),
        (&"Add".into(), &"client".into())
    );
    assert_eq!(lines[4]["operation"], "Divide");
    assert!(lines[4]["soap_fault"].is_string(), "{}", lines[4]);
    assert_eq!(lines[5]["operation"], "(unknown)");
}

#[test]
fn the_code_of_an_upstreams_fault_is_read_as_it_passes() {
    let fault = |code: &str| {
        let inner = format!(
            "<soap:Fault><faultcode>{code}</faultcode><faultstring>no</faultstring></soap:Fault>"
        );
        envelope(SOAP_11, &inner)
    };
    let policies = [
        "{ soap: { schema: calculator.wsdl } }",
        "{ soap: { schema: calculator.wsdl, validate: [request, response] } }",
    ];
    for policies in policies {
        for (code, label) in [
            ("soap:MustUnderstand", "must_understand"),
            ("soap:Server.Busy", "server"),
            ("soap:Own", "other"),
        ] {
            let body = fault(code);
            let reply = answer(500, "Content-Type: text/xml\r\n", body.as_bytes());
            let origin = Origin::answering(reply);
            let gateway = counting(&origin.url(), policies);
            let reply = post(&gateway, &add());
            assert_eq!((reply.status(), reply.text()), (500, body), "as it came");
            let label = format!("fault=\"{label}\"");
            let labels = ["operation=\"Add\"", &label];
            until(code, || counted(&gateway, CALLS, &labels) == 1);
        }
    }
}

#[test]
fn a_limit_may_count_each_operation() {
    let origin = Origin::saying("ok");
    let limit = "rate_limit: { requests: 2, per: 1h, by: operation }";
    let gateway = counting(
        &origin.url(),
        &format!("{{ soap: {{ schema: calculator.wsdl }} }}, {{ {limit} }}"),
    );
    assert_eq!([0; 3].map(|_| call(&gateway, "Add", "5")), [200, 200, 429]);
    assert_eq!([0; 3].map(|_| call(&gateway, "Subtract", "5")), [200, 200, 429]);
    assert_eq!(call(&gateway, "Add", "5"), 429);
    let refused = ["operation=\"Add\"", "fault=\"client\""];
    until("refusals are counted", || counted(&gateway, CALLS, &refused) == 2);
}

#[test]
fn a_compressed_fault_of_the_service_is_counted_as_one() {
    use std::io::Write as _;
    let fault = envelope(
        SOAP_11,
        "<soap:Fault><faultcode>soap:Server</faultcode><faultstring>no</faultstring></soap:Fault>",
    );
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(fault.as_bytes()).unwrap();
    let coded = encoder.finish().unwrap();
    let lines = "Content-Type: text/xml\r\nContent-Encoding: gzip\r\n";
    let origin = Origin::answering(answer(500, lines, &coded));
    let gateway = counting(&origin.url(), "{ soap: { schema: calculator.wsdl } }");
    let reply = post(&gateway, &add());
    assert_eq!((reply.status(), &reply.body[..]), (500, &coded[..]));
    until("it is counted", || counted(&gateway, CALLS, &["fault=\"server\""]) == 1);
    // A body that is not gzip is forwarded nevertheless.
    let origin = Origin::answering(answer(500, lines, b"\x1f\x8b no gzip"));
    let gateway = counting(&origin.url(), "{ soap: { schema: calculator.wsdl } }");
    assert_eq!(&post(&gateway, &add()).body[..], b"\x1f\x8b no gzip");
    until("it is counted", || counted(&gateway, CALLS, &["fault=\"none\""]) == 1);
}
