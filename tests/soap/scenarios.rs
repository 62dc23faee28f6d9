//! The examples' configuration, as the load tests ask it.

use super::*;

fn examples(one: &str, two: &str) -> Gateway {
    examples_with(one, two, "http://127.0.0.1:9082")
}

fn examples_with(one: &str, two: &str, httpbin: &str) -> Gateway {
    let yaml = include_str!("../../examples/soap/tidegate.yaml");
    let yaml = yaml
        .replace("http://127.0.0.1:9082", httpbin)
        .replace("127.0.0.1:8080", "127.0.0.1:0")
        .replace("http://127.0.0.1:9080", one)
        .replace("http://127.0.0.1:9081", two)
        .replace("calculator/", "");
    Gateway::start_beside(yaml, FILES)
}

#[test]
fn each_scenario_answers_as_the_load_tests_check() {
    let (one, two) = (super::calculator("soap1"), super::calculator("soap2"));
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
        // Twice, since traces of one message in a validator must not show in the next.
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
    let (one, two) = (super::calculator("soap1"), super::calculator("soap2"));
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

#[test]
fn a_url_means_an_upstream_whatever_the_case_of_its_name() {
    let (origin, other) = (Origin::saying("origin"), Origin::saying("other"));
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ main: {{ targets: ["{}"] }}, Calc2: {{ targets: ["{}"] }} }}
routes:
  ws:
    match: {{ path: /ws }}
    policies: [{{ xpath_route: {{ cases: [{{ xpath: /a, equals: "1", url: "HTTP://CALC2:81/named" }}] }} }}]
    upstream: main
"#,
        origin.url(),
        other.url()
    ));
    assert_eq!(post(&gateway, "<a>1</a>").text(), "other");
    assert_eq!(other.requests()[0].target(), "/named");
    assert_eq!(post(&gateway, "<a>2</a>").text(), "origin");
}

#[test]
fn good_and_bad_requests_at_once_see_nothing_of_one_another() {
    let calculator = super::calculator("soap1");
    let gateway = examples(&calculator.url, &calculator.url);
    let unknown = envelope(SOAP_11, &operation("Add_DOES_NOT_EXIST", "5", "7"));
    let no_element = "Error Node: Add_DOES_NOT_EXIST, Error code: 1845, Line: 4, Message: Element '{http://tempuri.org/}Add_DOES_NOT_EXIST': No matching global declaration available for the validation root.";
    let no_schema = "Unable to find a suitable Schema to validate the SOAP/XML";
    let step = "Request - XSD validation failed";
    std::thread::scope(|scope| {
        for (path, body, fault) in [
            ("/scen1", add(), None),
            ("/scen1invalidwsdl", add(), Some(no_schema)),
            ("/scen3", add(), None),
            ("/scen3", unknown, Some(no_element)),
        ] {
            let gateway = &gateway;
            scope.spawn(move || {
                for _ in 0..50 {
                    let reply =
                        post_to(gateway, path, "Content-Type: text/xml; charset=utf-8\r\n", &body);
                    match fault {
                        Some(message) => assert_fault(&reply, "Client", step, message),
                        None => {
                            assert_eq!(reply.status(), 200, "{}", reply.text());
                            assert!(reply.text().contains("<AddResult>12</AddResult>"));
                        }
                    }
                }
            });
        }
    });
}

#[test]
fn json_and_text_scenarios_answer_as_checked() {
    let httpbin = Backend::start("httpbin", &[]);
    let gateway = examples_with("http://127.0.0.1:1", "http://127.0.0.1:1", &httpbin.url);
    let good = r#"{"one":"a","two":"b","three":"c","four":"d"}"#;
    let lines = "Content-Type: application/json\r\nUser-Agent: k6\r\nAccept: */*\r\n";
    for number in 0..=2 {
        let path = format!("/httpbin{number}/anything");
        let reply = post_to(&gateway, &path, lines, good);
        assert_eq!(reply.status(), 200, "{number}: {}", reply.text());
        let echoed: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        let sent: serde_json::Value = serde_json::from_str(good).unwrap();
        assert_eq!(echoed["json"], sent);
        for wrong in [r#"{"one":1,"two":"b","three":"c","four":"d"}"#, r#"{"one":"a"}"#] {
            let status = post_to(&gateway, &path, lines, wrong).status();
            assert_eq!(status, if number == 0 { 200 } else { 400 }, "{number} {wrong}");
        }
    }
    let reply = gateway.wire().get("/gobench0/size/350B");
    assert_eq!((reply.status(), reply.body.len()), (200, 350));
    assert_eq!(reply.get("content-type"), Some("text/plain; charset=utf-8"));
}

#[test]
fn typed_json_answers_as_the_load_tests_check() {
    let calculator = super::calculator("soap1");
    let gateway = examples(&calculator.url, &calculator.url);
    for _ in 0..2 {
        let lines = "Content-Type: application/json\r\n";
        let reply = post_to(&gateway, "/typed/Add", lines, r#"{"intA":5,"intB":7}"#);
        assert_eq!((reply.status(), reply.text().as_str()), (200, r#"{"AddResult":12}"#));
        assert_eq!(reply.get("content-type"), Some("application/json"));
    }
}

/// The stages of the load tests' scripts are those of the documents.
#[test]
fn the_load_scripts_hold_the_documents_stages() {
    let common = include_str!("../../bench/k6/common.js");
    for stages in [
        "scen0: [[30, 25], [30, 40], [900, 65]],",
        "policies: [[30, 6], [30, 12], [30, 20], [900, 20]],",
        "httpbin: [[30, 6], [30, 12], [30, 300], [900, 300]],",
        "gobench: [[30, 6], [30, 12], [30, 100], [900, 100]],",
        "const minutes = Number(__ENV.MINUTES || 24 * 60);",
        "{ duration: '60s', target: vus || 10 },",
        "{ duration: `${minutes}m`, target: vus || 20 },",
        "summaryTrendStats: ['min', 'max', 'avg', 'p(90)', 'p(95)', 'p(99)'],",
        "thresholds: { checks: ['rate==1'] },",
    ] {
        assert!(common.contains(stages), "{stages}");
    }
    let endurance = include_str!("../../bench/k6/endurance.js");
    assert!(endurance.contains("sleep(0.65);") && endurance.contains("__ENV.ROUTES || 100"));
}
