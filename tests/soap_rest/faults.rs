//! Faults of the service, and of the way to it.

use super::{answering, mirror, offering, offering_at, post};
use crate::harness::{Message, Origin};

const FAULT: &str = r#"<s:Fault><faultcode>s:Client.Limit</faultcode><faultstring>Too &lt;many&gt;</faultstring><faultactor>urn:me</faultactor><detail><t:TooMany xmlns:t="urn:types"><t:max>3</t:max></t:TooMany><x xmlns="">raw</x></detail></s:Fault>"#;

fn problem(reply: &Message) -> serde_json::Value {
    assert_eq!(reply.get("content-type"), Some("application/problem+json"), "{reply:?}");
    let mut problem: serde_json::Value = serde_json::from_str(&reply.text()).expect("a problem");
    problem.as_object_mut().unwrap().remove("request_id").expect("an id");
    problem
}

#[test]
fn a_fault_becomes_a_problem_with_its_status_kept() {
    let origin = answering(500, FAULT);
    let gateway = offering(&origin, "");
    let reply = post(&gateway, "/api/Order", r#"{"number":1}"#);
    assert_eq!(reply.status(), 500);
    assert_eq!(
        problem(&reply),
        serde_json::json!({
            "type": "about:blank",
            "title": "The service answered with a fault.",
            "status": 500,
            "fault": "soap_fault",
            "detail": "Too <many>",
            "code": "Client",
            "subcodes": ["Limit"],
            "actor": "urn:me",
            "details": { "TooMany": { "max": 3 }, "x": "<x>raw</x>" },
        })
    );
}

#[test]
fn a_fault_of_soap_12_too() {
    let content = r#"<s:Fault><s:Code><s:Value>s:Sender</s:Value><s:Subcode><s:Value xmlns:m="urn:m">m:Limit</s:Value></s:Subcode></s:Code><s:Reason><s:Text xml:lang="en">Too many</s:Text><s:Text xml:lang="de">Zu viele</s:Text></s:Reason><s:Detail><t:TooMany xmlns:t="urn:types"><t:max>3</t:max></t:TooMany></s:Detail></s:Fault>"#;
    let body = super::enveloped("http://www.w3.org/2003/05/soap-envelope", content);
    let origin = Origin::answering(format!(
        "HTTP/1.1 400 X\r\nContent-Type: application/soap+xml\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let gateway = offering(&origin, "");
    let reply = post(&gateway, "/api/Order", r#"{"number":1}"#);
    assert_eq!(reply.status(), 400);
    let problem = problem(&reply);
    assert_eq!(problem["detail"], "Too many");
    assert_eq!(problem["code"], "Sender");
    assert_eq!(problem["subcodes"], serde_json::json!(["Limit"]));
    assert_eq!(problem["details"], serde_json::json!({ "TooMany": { "max": 3 } }));
}

#[test]
fn the_status_of_a_fault_is_what_the_configuration_says() {
    let server = FAULT.replace("s:Client.Limit", "s:Server").replace("t:TooMany", "t:Other");
    for (keys, content, came, status) in [
        ("", FAULT, 200, 500),
        ("", FAULT, 500, 500),
        ("fault_status: by_code", FAULT, 500, 400),
        ("fault_status: by_code", server.as_str(), 500, 502),
        ("faults: { TooMany: 429 }", FAULT, 500, 429),
        ("faults: { Limit: 422 }", FAULT, 500, 422),
        ("faults: { Client: 409, TooMany: 429 }", FAULT, 500, 429),
        ("faults: { Client: 409 }, fault_status: by_code", server.as_str(), 500, 502),
    ] {
        let origin = answering(came, content);
        let gateway = offering(&origin, keys);
        let reply = post(&gateway, "/api/Order", r#"{"number":1}"#);
        assert_eq!(reply.status(), status, "{keys}");
        assert_eq!(problem(&reply)["status"], status);
    }
}

#[test]
fn a_service_that_speaks_no_soap_is_told_as_a_problem() {
    for (status, told) in [(503, 503), (404, 404), (200, 502)] {
        let origin = Origin::answering(format!(
            "HTTP/1.1 {status} X\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<html></html>"
        ));
        let gateway = offering(&origin, "");
        let reply = post(&gateway, "/api/Order", r#"{"number":1}"#);
        assert_eq!(reply.status(), told);
        assert_eq!(problem(&reply)["status"], told);
    }
}

#[test]
fn faults_of_the_gateway_stay_problems_also_where_soap_is_validated_below() {
    let dead = Origin::saying("").url();
    let wsdl = super::TYPES;
    for more in ["", ", { soap: { schema: service.wsdl, validate: [request, response] } }"] {
        let gateway = offering_at(&dead, wsdl, "", more);
        let reply = post(&gateway, "/api/Order", r#"{"number":1}"#);
        assert!(matches!(reply.status(), 502 | 503), "{more}: {}", reply.text());
        assert_eq!(problem(&reply)["status"], reply.status(), "{more}");
    }
}

#[test]
fn what_is_sent_passes_the_validation_of_the_same_description() {
    let origin = mirror();
    let more =
        ", { soap: { schema: service.wsdl, validate: [request, response], action: required } }";
    let gateway = offering_at(&origin.url(), super::TYPES, "", more);
    let json = r#"{"number":1,"tag":["a"],"shape":{"$type":"Square","side":2}}"#;
    let reply = post(&gateway, "/api/Order", json);
    assert_eq!((reply.status(), reply.text().as_str()), (200, json));
}

#[test]
fn a_detail_that_is_not_as_described_is_told_as_it_is() {
    let fault = FAULT.replace("<t:max>3</t:max>", "<t:max>many</t:max>");
    let origin = answering(500, &fault);
    let reply = post(&offering(&origin, ""), "/api/Order", r#"{"number":1}"#);
    let problem = problem(&reply);
    assert_eq!((reply.status(), &problem["code"]), (500, &"Client".into()));
    assert_eq!(problem["detail"], "Too <many>");
    let details = serde_json::json!({
        "TooMany": "<t:TooMany xmlns:t=\"urn:types\"><t:max>many</t:max></t:TooMany>",
        "x": "<x>raw</x>",
    });
    assert_eq!(problem["details"], details);
}

#[test]
fn elements_of_one_name_in_a_detail_are_a_list() {
    let more = r#"<x xmlns="">more</x><t:TooMany xmlns:t="urn:types"><t:max>4</t:max></t:TooMany></detail>"#;
    let origin = answering(500, &FAULT.replace("</detail>", more));
    let reply = post(&offering(&origin, ""), "/api/Order", r#"{"number":1}"#);
    let details = r#""details":{"TooMany":[{"max":3},{"max":4}],"x":["<x>raw</x>","<x>more</x>"]}"#;
    assert!(reply.text().contains(details), "{}", reply.text());
}

#[test]
fn a_bad_reply_is_a_problem_also_where_soap_is_validated_below() {
    let origin = answering(200, "<none/>");
    for more in ["", ", { soap: { schema: service.wsdl, validate: [request, response] } }"] {
        let gateway = offering_at(&origin.url(), super::TYPES, "", more);
        for _ in 0..2 {
            let reply = post(&gateway, "/api/Order", r#"{"number":1}"#);
            assert_eq!(reply.status(), 502, "{more}");
            assert_eq!(problem(&reply)["fault"], "reply_invalid", "{more}");
        }
    }
}
