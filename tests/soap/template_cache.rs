//! The common prefix of messages is parsed once, and so are messages that differ in values only: the outcome of each is that of
//! a gateway that never met it.

use super::*;

const POLICIES: &str = "policies: [
  { xslt: { on: response, stylesheet: kong-result.xsl, verbose: true } },
  { soap: { schema: calculator.wsdl, validate: [request, response], verbose: true } },
  { xslt: { on: request, stylesheet: rename.xsl, verbose: true } }]";

/// The parts of a reply that a client reads, but for those that are new in each.
fn seen(reply: &Message) -> (u16, Option<String>, String) {
    (reply.status(), reply.get("content-type").map(str::to_owned), reply.text())
}

#[test]
fn what_is_known_changes_no_outcome() {
    let calculator = calculator("soap1");
    let add = |content: &str| envelope(SOAP_11, content);
    let body =
        |content: &str| add("").replace("<soap:Body>\n", &format!("<soap:Body>\n    {content}\n"));
    let cases = [
        add(&operation("Add", "5", "7")),
        add(&operation("Subtract", "5", "7")),
        add(&operation("Add", "8", "-9")),
        add(&operation("Add", " 8\n", "+09")),
        add(&operation("Add", "five", "7")),
        add(&operation("Add", "5", "99999999999")),
        add(&operation("Add", "5", "\u{660}")),
        add(&operation("Add", "5", " ")),
        add(&operation("Add", "&#53;", "<![CDATA[7]]>")),
        add(&operation("Add", "5", "7<!-- 8 -->")),
        add(&operation("Add", "5", "7\u{1}")),
        add(&operation("Multiply", "5", "7")),
        add("<Add xmlns=\"http://tempuri.org/\"><intA>1</intA>"),
        add("<Add xmlns=\"http://tempuri.org/\"/><Add/>"),
        add("<soap:Fault><faultcode>a</faultcode><faultstring>b</faultstring></soap:Fault>"),
        add("<none:Add/>"),
        add(""),
        body("<!-- a comment --><Add/>"),
        add(&operation("Add", "5", "7")).replace("</soap:Body>", "</soap:Body><soap:Body/>"),
        add(&operation("Add", "5", "7")).replace("</soap:Envelope>", ""),
        add(&operation("Add", "5", "7")).replace("<soap:Body>", "<soap:Header/><soap:Body>"),
        add(&operation("Add", "5", "7")).replace("<soap:Body>", "<soap:Body a=\"b\">"),
        add(&operation("Add", "5", "7")).replace("utf-8", "iso-8859-1"),
        envelope(SOAP_12, &operation("Add", "5", "7")),
        envelope(SOAP_12, &operation("Add", "5", "")),
        envelope("urn:other", &operation("Add", "5", "7")),
    ];
    for route in [POLICIES.to_owned(), format!("errors: kong, {POLICIES}")] {
        check(&calculator.url, &route, &cases);
    }
}

fn check(url: &str, route: &str, cases: &[String]) {
    let knowing = gateway_to(url, route, &[]);
    let mut known = Vec::new();
    for round in 0..4 {
        let replies = cases.iter().map(|case| {
            assert_eq!(post(&knowing, &cases[0]).status(), 200);
            seen(&post(&knowing, case))
        });
        known.push(replies.collect::<Vec<_>>());
        assert_eq!(known.last(), known.first(), "round {round}");
    }
    assert_eq!(known.first().unwrap().first().unwrap().0, 200);
    for (case, known) in cases.iter().zip(known.last().unwrap()) {
        let new = gateway_to(url, route, &[]);
        assert_eq!(*known, seen(&post(&new, case)), "{case}");
    }
}
