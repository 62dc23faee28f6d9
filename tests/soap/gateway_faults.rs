//! The gateway's own errors on a route with XML policies, in Kong's layouts: each keeps its status, in the client's format.

use super::*;
use crate::harness::until;

/// The fault of SOAP 1.2 in Kong's layout.
fn kong_12(code: &str, step: &str, message: &str, backend: Option<u16>) -> String {
    let backend = backend
        .map(|status| format!("\n          <f:backendHttpCode>{status}</f:backendHttpCode>"))
        .unwrap_or_default();
    format!(
        r#"<?xml version="1.0" encoding="utf-8"?>
<env:Envelope xmlns:env="http://www.w3.org/2003/05/soap-envelope" xmlns:f="http://www.example.org/faults" xmlns:xml="http://www.w3.org/XML/1998/namespace">
  <env:Body>
    <env:Fault>
      <env:Code>
        <env:Value>env:{code}</env:Value>
      </env:Code>
      <env:Reason>
        <env:Text xml:lang="en">{step}</env:Text>
      </env:Reason>
      <env:Detail>
        <f:errorDetails>
          <f:errorMessage>{message}</f:errorMessage>{backend}
        </f:errorDetails>
      </env:Detail>
    </env:Fault>
  </env:Body>
</env:Envelope>"#
    )
}

/// The JSON error in Kong's layout; without a message where nothing may be told.
fn kong_json(step: &str, message: Option<&str>, backend: Option<u16>) -> String {
    let message =
        message.map(|text| format!(",\n    \"message_verbose\": \"{text}\"")).unwrap_or_default();
    let backend =
        backend.map(|status| format!(",\n    \"backend_http_code\": {status}")).unwrap_or_default();
    format!("{{\n    \"message\": \"{step}\"{message}{backend}\n}}")
}

const CONTENT_TYPES: [&str; 3] =
    ["text/xml; charset=utf-8", "application/soap+xml; charset=utf-8", "application/json"];

/// Sends as each kind of client and compares the whole reply.
#[track_caller]
fn assert_told(gateway: &Gateway, status: u16, step: &str, backend: Option<u16>, verbose: bool) {
    let message = if verbose {
        format!("HTTP Error code is {status}")
    } else {
        "SOAP/XML process failure".to_owned()
    };
    let backend = backend.filter(|_| verbose);
    let server = status >= 500;
    let faults = [
        kong_11(if server { "Server" } else { "Client" }, step, &message, backend),
        kong_12(if server { "Receiver" } else { "Sender" }, step, &message, backend),
        kong_json(step, verbose.then_some(message.as_str()), backend),
    ];
    for (content_type, expected) in CONTENT_TYPES.into_iter().zip(faults) {
        let lines = format!("Content-Type: {content_type}\r\n");
        let reply = post_to(gateway, "/ws", &lines, &add());
        assert_eq!(reply.text(), expected);
        assert_eq!((reply.status(), reply.get("content-type")), (status, Some(content_type)));
        assert_eq!(reply.get("content-encoding"), None);
    }
}

fn route(verbose: bool, above: &str, more: &str) -> String {
    // The policy looks at replies, so that requests of every version get as far as the upstream.
    format!(
        "errors: kong, {more} policies: [{above} {{ soap: {{ validate: [response], verbose: {verbose} }} }}]"
    )
}

#[test]
fn each_error_keeps_its_status_in_every_layout() {
    let origin = Origin::saying("never");
    let key = "{ api_key: { header: x-api-key, keys: { a: key-of-a } } },";
    let rules = "{ ip_filter: { deny: [\"127.0.0.0/8\"] } },";
    let limit = "{ rate_limit: { requests: 1, per: 1h } },";
    for verbose in [true, false] {
        for (above, more, status, step) in [
            (key, "", 401, "Unauthorized"),
            (rules, "", 403, "You cannot consume this service"),
            ("", "limits: { body_bytes_max: 10B },", 413, "Payload too large"),
            (limit, "", 429, "API rate limit exceeded"),
        ] {
            let gateway = gateway(&origin, &route(verbose, above, more));
            if status == 429 {
                post_to(&gateway, "/ws", "", "");
            }
            assert_told(&gateway, status, step, None, verbose);
        }
    }
}

#[test]
fn what_the_upstream_did_to_us_is_told_too() {
    let closed = Origin::saying("gone").url();
    let (silent, later) = (
        Origin::start(|peer| while peer.request().is_some() {}),
        Origin::start(|peer| while peer.request().is_some() {}),
    );
    for verbose in [true, false] {
        let gateway = gateway_to(&closed, &route(verbose, "", ""), &[]);
        let bad = "An invalid response was received from the upstream server";
        assert_told(&gateway, 502, bad, Some(502), verbose);

        let yaml = format!(
            r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
upstreams: {{ origin: {{ targets: ["{}"], timeout: {{ response: 50ms }} }} }}
routes: {{ all: {{ match: {{ path: "/**" }}, upstream: origin, {} }} }}
"#,
            silent.url(),
            route(verbose, "", "")
        );
        let gateway = Gateway::start(yaml);
        assert_told(&gateway, 504, "The upstream server is timing out", Some(504), verbose);

        let busy = "{ concurrency: { requests: 1, by: route } },";
        let gateway = gateway_to(&later.url(), &route(verbose, busy, ""), &[]);
        let before = later.requests().len();
        let mut first = gateway.wire();
        first.send("GET /ws HTTP/1.1\r\nHost: a.test\r\n\r\n");
        until("the only place is taken", || later.requests().len() > before);
        assert_told(&gateway, 503, "The upstream server is currently unavailable", None, verbose);
    }
}

#[test]
fn a_message_that_is_no_xml_is_answered_as_its_head_says() {
    let origin = Origin::saying("never");
    let step = "Request - XSD validation failed";
    let message = "Invalid XML input. Error code: 4, Line: 1, Message: Start tag expected, 'Less Than' not found";
    for verbose in [true, false] {
        let gateway = gateway(
            &origin,
            &format!("errors: kong, policies: [{{ soap: {{ verbose: {verbose} }} }}]"),
        );
        let told = if verbose { message } else { "SOAP/XML process failure" };
        let json = message.replace("Less Than", "<");
        let expected = [
            (500, kong_11("Client", step, told, None)),
            (500, kong_12("Sender", step, told, None)),
            (400, kong_json(step, verbose.then_some(json.as_str()), None)),
        ];
        for (content_type, (status, expected)) in CONTENT_TYPES.into_iter().zip(expected) {
            let lines = format!("Content-Type: {content_type}\r\n");
            let reply = post_to(&gateway, "/ws", &lines, "none");
            assert_eq!((reply.status(), reply.text()), (status, expected));
        }
        // A missing or unknown content type counts as SOAP 1.1.
        for lines in ["", "Content-Type: text/plain\r\n"] {
            let reply = post_to(&gateway, "/ws", lines, "none");
            assert_eq!((reply.status(), reply.text()), (500, kong_11("Client", step, told, None)));
        }
    }
}

#[test]
fn a_reply_that_is_refused_is_told_in_every_layout() {
    let bad = envelope(
        SOAP_11,
        "<AddResponse xmlns=\"http://tempuri.org/\"><AddResult>x</AddResult></AddResponse>",
    );
    let origin = Origin::answering(answer(200, "Content-Type: text/xml\r\n", bad.as_bytes()));
    let step = "Response - XSD validation failed";
    let message = "Error Node: AddResult, Error code: 1824, Line: 4, Message: Element '{http://tempuri.org/}AddResult': 'x' is not a valid value of the atomic type 'xs:int'.";
    for verbose in [true, false] {
        let keys = format!("schema: calculator.wsdl, validate: [response], verbose: {verbose}");
        let gateway =
            gateway(&origin, &format!("errors: kong, policies: [{{ soap: {{ {keys} }} }}]"));
        let told = if verbose { message } else { "SOAP/XML process failure" };
        let backend = verbose.then_some(200);
        let expected = [
            kong_11("Server", step, told, backend),
            kong_12("Receiver", step, told, backend),
            kong_json(step, verbose.then_some(message), backend),
        ];
        for (content_type, expected) in CONTENT_TYPES.into_iter().zip(expected) {
            let lines = format!("Content-Type: {content_type}\r\n");
            let reply = post_to(&gateway, "/ws", &lines, &add());
            assert_eq!((reply.status(), reply.text()), (500, expected));
        }
    }
}

#[test]
fn a_short_circuit_with_200_passes_untouched() {
    let yaml = r#"
listen: { public: { address: "127.0.0.1:0" } }
workers: 1
routes:
  mock:
    match: { path: "/**" }
    errors: kong
    policies: [{ soap: { validate: [request], verbose: true } }]
    respond: { status: 200, body: "mock", headers: { content-type: text/plain } }
"#;
    let gateway = Gateway::start(yaml);
    let reply = post(&gateway, &add());
    assert_eq!((reply.status(), reply.text().as_str()), (200, "mock"));
    assert_eq!(reply.get("content-type"), Some("text/plain"));
}
