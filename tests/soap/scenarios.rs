//! The examples' configuration, as the load tests ask it.

use super::*;

fn examples(one: &str, two: &str) -> Gateway {
    let yaml = include_str!("../../examples/soap/tidegate.yaml");
    let yaml = yaml
        .replace("127.0.0.1:8080", "127.0.0.1:0")
        .replace("http://127.0.0.1:9080", one)
        .replace("http://127.0.0.1:9081", two)
        .replace("calculator/", "");
    Gateway::start_beside(yaml, FILES)
}

#[test]
fn each_scenario_answers_as_the_load_tests_check() {
    let (one, two) = (Calculator::start("soap1"), Calculator::start("soap2"));
    let gateway = examples(&one.url, &two.url);
    let subtract = |b| envelope(SOAP_11, &operation("Subtract", "5", b));
    let cases = [
        (0, add(), "", "<AddResult>12</AddResult>", "soap1"),
        (1, add(), "", "<AddResult>12</AddResult>", "soap1"),
        (2, add(), "SOAPAction: http://tempuri.org/Add\r\n", "<AddResult>12</AddResult>", "soap1"),
        (3, add(), "", "<AddResult>12</AddResult>", "soap1"),
        (4, subtract("7"), "", "<AddResult>12</AddResult>", "soap1"),
        (
            5,
            subtract("0"),
            "SOAPAction: \"http://tempuri.org/Add\"\r\n",
            "<KongResult>15</KongResult>",
            "soap2",
        ),
        (6, add(), "", "<AddResult>12</AddResult>", "soap1"),
        (7, add(), "", "<KongResult>12</KongResult>", "soap1"),
    ];
    for (number, body, lines, holds, region) in cases {
        let lines = format!("Content-Type: text/xml; charset=utf-8\r\n{lines}");
        // Twice, since what one message left in a validator must not show in the next.
        for _ in 0..2 {
            let reply = post_to(&gateway, &format!("/scen{number}"), &lines, &body);
            assert_eq!(reply.status(), 200, "{number}: {}", reply.text());
            assert_eq!(reply.get("content-type"), Some("text/xml;charset=utf-8"), "{number}");
            assert_eq!(reply.get("x-soap-region"), Some(region), "{number}");
            assert!(reply.text().contains(holds), "{number}: {}", reply.text());
        }
    }
}

#[test]
fn the_envelope_is_stripped_of_the_last_scenario() {
    let (one, two) = (Calculator::start("soap1"), Calculator::start("soap2"));
    let gateway = examples(&one.url, &two.url);
    let lines = "Content-Type: text/xml\r\nSOAPAction: http://tempuri.org/Add\r\n";
    let body = envelope(SOAP_11, &operation("Subtract", "5", "0"));
    let reply = post_to(&gateway, "/scen5", lines, &body);
    assert!(
        reply.text().ends_with("<AddResponse><KongResult>15</KongResult></AddResponse>"),
        "{}",
        reply.text()
    );
    // No case fits: the upstream stays the route's.
    let body = envelope(SOAP_11, &operation("Subtract", "6", "0"));
    let reply = post_to(&gateway, "/scen5", lines, &body);
    assert_eq!(reply.get("x-soap-region"), Some("soap1"), "{}", reply.text());
}

#[test]
fn a_case_may_name_a_url_and_the_first_that_fits_is_taken() {
    let (origin, other) = (Origin::saying("origin"), Origin::saying("other"));
    let route = format!(
        r#"policies: [{{ xpath_route: {{ namespaces: {{ t: "http://tempuri.org/" }}, cases: [
            {{ xpath: "//t:intA", equals: "1", url: "{}/elsewhere?a=b" }},
            {{ xpath: "//t:intA = //t:intB", equals: "true", url: "http://origin/named" }},
            {{ xpath: "//t:intA", equals: "2", url: "{}" }},
        ] }} }}]"#,
        other.url(),
        other.url(),
    );
    let gateway = gateway(&origin, &route);
    for (a, b, said, target) in [
        ("1", "1", "other", "/elsewhere?a=b"),
        ("2", "2", "origin", "/named"),
        ("2", "3", "other", "/"),
        ("3", "4", "origin", "/ws"),
    ] {
        let reply = post(&gateway, &envelope(SOAP_11, &operation("Add", a, b)));
        assert_eq!(reply.text(), said, "{a} {b}");
        let seen = if said == "other" { &other } else { &origin };
        assert_eq!(seen.requests().last().unwrap().target(), target);
    }
}
