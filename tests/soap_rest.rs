//! `soap_rest`: a SOAP service as an API of JSON.

mod document;
mod faults;
mod keys;
mod values;

use crate::harness::{Gateway, Message, Origin};

pub(crate) const TYPES: &str = include_str!("soap_rest/types.wsdl");
const CALCULATOR: &str = include_str!("../examples/soap/calculator/calculator.wsdl");

/// A gateway that offers a service below `/api`, with these additional keys of the policy.
fn offering_at(url: &str, wsdl: &str, keys: &str, more: &str) -> Gateway {
    let yaml = format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
upstreams: {{ service: {{ targets: ["{url}"] }} }}
routes:
  api: {{ match: {{ path: "/api/**" }}, policies: [{{ soap_rest: {{ wsdl: service.wsdl, {keys} }} }}{more}], upstream: service }}
"#
    );
    Gateway::start_beside(yaml, &[("service.wsdl", wsdl)])
}

fn offering(origin: &Origin, keys: &str) -> Gateway {
    offering_at(&origin.url(), TYPES, keys, "")
}

/// A service that sends back each envelope it gets.
fn mirror() -> Origin {
    Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let content_type = request.get("content-type").unwrap_or_default().to_owned();
            let body = request.text();
            peer.try_send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    })
}

/// A service that answers each request with this envelope's body.
fn answering(status: u16, content: &str) -> Origin {
    let body = enveloped("http://schemas.xmlsoap.org/soap/envelope/", content);
    Origin::answering(format!(
        "HTTP/1.1 {status} X\r\nContent-Type: text/xml\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

fn enveloped(namespace: &str, content: &str) -> String {
    format!(r#"<s:Envelope xmlns:s="{namespace}"><s:Body>{content}</s:Body></s:Envelope>"#)
}

fn ask(gateway: &Gateway, method: &str, target: &str, lines: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "{method} {target} HTTP/1.1\r\nHost: a.test\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
    ))
}

fn post(gateway: &Gateway, target: &str, body: &str) -> Message {
    ask(gateway, "POST", target, "Content-Type: application/json\r\n", body)
}

/// The content of the body of the last envelope that the service got.
fn sent(origin: &Origin) -> String {
    let text = origin.requests().last().expect("a request").text();
    let from = text.find("<soap:Body>").expect("a body") + "<soap:Body>".len();
    text[from..text.find("</soap:Body>").expect("its end")].to_owned()
}

/// The sentence of a problem about the fault.
fn wrong(reply: &Message) -> String {
    let problem: serde_json::Value = serde_json::from_str(&reply.text()).expect("a problem");
    problem["errors"][0].as_str().unwrap_or_else(|| panic!("{problem}")).to_owned()
}

#[test]
fn an_operation_is_a_resource() {
    let reply =
        r#"<AddResponse xmlns="http://tempuri.org/"><AddResult>12</AddResult></AddResponse>"#;
    let origin = answering(200, reply);
    let gateway = offering_at(&origin.url(), CALCULATOR, "", "");
    let reply = ask(
        &gateway,
        "POST",
        "/api/Add",
        "Content-Type: application/json; charset=utf-8\r\nAccept: application/json\r\nSOAPAction: mine\r\n",
        r#"{"intB":7,"intA":5}"#,
    );
    assert_eq!((reply.status(), reply.text().as_str()), (200, r#"{"AddResult":12}"#));
    assert_eq!(reply.get("content-type"), Some("application/json"));
    let request = origin.request();
    assert_eq!((request.method(), request.target()), ("POST", "/ws"));
    assert_eq!(request.all("content-type"), ["text/xml; charset=utf-8"]);
    assert_eq!(request.all("accept"), ["text/xml"]);
    assert_eq!(request.all("soapaction"), ["\"http://tempuri.org/Add\""]);
    assert_eq!(
        request.text(),
        r#"<?xml version="1.0" encoding="utf-8"?><soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body><Add xmlns="http://tempuri.org/"><intA>5</intA><intB>7</intB></Add></soap:Body></soap:Envelope>"#
    );
}

#[test]
fn a_port_of_soap_12_is_spoken_to_in_its_own_way() {
    let origin = mirror();
    let gateway = offering(&origin, "port: Two");
    let reply = post(&gateway, "/api/Order", r#"{"number":1}"#);
    assert_eq!((reply.status(), reply.text().as_str()), (200, r#"{"number":1}"#));
    let request = origin.request();
    assert_eq!(request.target(), "/services/types12");
    assert_eq!(
        request.all("content-type"),
        ["application/soap+xml; charset=utf-8; action=\"urn:order\""]
    );
    assert_eq!(
        (request.get("accept"), request.get("soapaction")),
        (Some("application/soap+xml"), None)
    );
    assert!(request.text().contains("http://www.w3.org/2003/05/soap-envelope"));
}

#[test]
fn bodies_bare_wrapped_and_of_parts() {
    let origin = mirror();
    let gateway = offering(&origin, "");
    for (operation, json, xml) in [
        ("Symbol", r#""A & B""#, r#"<n0:Symbol xmlns:n0="urn:types">A &amp; B</n0:Symbol>"#),
        ("Loose", r#"{"a":-1}"#, r#"<n1:Loose xmlns:n1="urn:loose"><a>-1</a></n1:Loose>"#),
        (
            "Parts",
            r#"{"count":2,"item":{"name":"x"}}"#,
            r#"<n2:Parts xmlns:n0="urn:types" xmlns:n2="urn:rpc"><count>2</count><item><n0:name>x</n0:name></item></n2:Parts>"#,
        ),
    ] {
        let reply = post(&gateway, &format!("/api/{operation}"), json);
        assert_eq!((reply.status(), reply.text().as_str()), (200, json), "{operation}");
        assert_eq!(sent(&origin), xml);
    }
}

#[test]
fn headers_that_the_description_asks_for_are_members() {
    let origin = mirror();
    let gateway = offering(&origin, "");
    let json = r#"{"$headers":{"Key":{"user":"ann"}},"a":1}"#;
    let reply = post(&gateway, "/api/Opened", json);
    assert_eq!((reply.status(), reply.text().as_str()), (200, json));
    let text = origin.request().text();
    let header = r#"<soap:Header><n0:Key xmlns:n0="urn:types"><n0:user>ann</n0:user></n0:Key></soap:Header>"#;
    assert!(text.contains(header), "{text}");
    for (json, error) in [
        (
            r#"{"a":1}"#,
            "/$headers/Key: expected the member, because the description requires this header",
        ),
        (
            r#"{"$headers":{"Key":{}},"a":1}"#,
            "/$headers/Key: expected the member `user`, which is missing",
        ),
        (r#"{"$headers":{"Kex":{}},"a":1}"#, "/$headers/Kex: expected one of Key"),
    ] {
        let reply = post(&gateway, "/api/Opened", json);
        assert_eq!((reply.status(), wrong(&reply).as_str()), (400, error), "{json}");
    }
}

#[test]
fn an_operation_without_a_reply_says_nothing() {
    for (status, body) in [(202, ""), (200, "")] {
        let origin = Origin::answering(format!(
            "HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let gateway = offering(&origin, "");
        let reply = post(&gateway, "/api/Tell", r#"{"number":1}"#);
        assert_eq!((reply.status(), reply.text().as_str()), (status, ""));
    }
}

#[test]
fn only_json_at_a_known_path_by_its_method_is_taken() {
    let origin = mirror();
    let gateway = offering(&origin, "");
    let json = "Content-Type: application/json\r\n";
    for (method, target, lines, status) in [
        ("POST", "/api/None", json, 404),
        ("POST", "/api/Coded", json, 404),
        ("POST", "/api/Order/", json, 404),
        ("POST", "/api", json, 404),
        ("GET", "/api/Order", json, 405),
        ("PUT", "/api/openapi.json", json, 405),
        ("POST", "/api/Order", "Content-Type: text/xml\r\n", 415),
        ("POST", "/api/Order", "Content-Encoding: gzip\r\n", 415),
        ("POST", "/api/Order", "Content-Type: application/vnd.x+json\r\n", 200),
        ("POST", "/api/Order?a=b", "", 200),
    ] {
        let reply = ask(&gateway, method, target, lines, r#"{"number":1}"#);
        assert_eq!(reply.status(), status, "{method} {target}: {reply:?}");
        if status == 405 {
            assert!(matches!(reply.get("allow"), Some("POST" | "GET")), "{reply:?}");
        }
    }
    assert_eq!(origin.requests().len(), 2);
}

/// Where the route publishes a description, its address takes SOAP messages as the service does.
#[test]
fn a_published_description_names_a_place_that_takes_soap() {
    let origin = mirror();
    let described = |soap: &str| {
        let yaml = format!(
            r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
upstreams: {{ service: {{ targets: ["{}"] }} }}
routes:
  api: {{ match: {{ path: "/api/**" }}, services: {{ wsdl: service.wsdl }}, policies: [{{ soap_rest: {{ wsdl: service.wsdl }} }}{soap}], upstream: service }}
"#,
            origin.url()
        );
        Gateway::start_beside(yaml, &[("service.wsdl", TYPES)])
    };
    let gateway = described("");
    let text = enveloped(
        "http://schemas.xmlsoap.org/soap/envelope/",
        r#"<t:Symbol  xmlns:t="urn:types">A</t:Symbol>"#,
    );
    let mtom = "multipart/related; type=\"application/xop+xml\"; boundary=b";
    for (target, kind, path) in [
        ("/api", "text/xml; charset=utf-8", "/services/types?v=1"),
        ("/api/Symbol?x=1", "Text/XML", "/services/types?v=1"),
        ("/api/any/where", "application/soap+xml; action=\"a\"", "/services/types12"),
        ("/api", mtom, "/services/types?v=1"),
        ("/api", &*format!("{mtom}; start-info=\"application/soap+xml\""), "/services/types12"),
    ] {
        let description = gateway.wire().get("/api?wsdl");
        assert!(description.text().contains("/api\""), "{}", description.text());
        let lines = format!("Content-Type: {kind}\r\nSOAPAction: \"urn:symbol\"\r\n");
        let reply = ask(&gateway, "POST", target, &lines, &text);
        assert_eq!((reply.status(), reply.text()), (200, text.clone()), "{target}");
        let sent = origin.requests().last().expect("a request").clone();
        assert_eq!((sent.target(), sent.text()), (path, text.clone()));
        assert_eq!(sent.get("content-type"), Some(kind));
        assert_eq!(sent.get("soapaction"), Some("\"urn:symbol\""));
    }
    let reply = post(&gateway, "/api/Order", r#"{"number":1}"#);
    assert_eq!((reply.status(), reply.text().as_str()), (200, r#"{"number":1}"#));
    assert_eq!(
        ask(&gateway, "PUT", "/api/Order", "Content-Type: text/xml\r\n", &text).status(),
        405
    );
    // A `soap` below answers with a fault for what is not valid, in the client's version.
    let gateway = described(", { soap: { schema: service.wsdl, validate: [request] } }");
    let before = origin.requests().len();
    let wrong = text.replace("Symbol", "Cymbal");
    let reply = ask(&gateway, "POST", "/api", "Content-Type: text/xml\r\n", &wrong);
    assert!(reply.status() == 500 && reply.text().contains("Fault"), "{reply:?}");
    assert_eq!(origin.requests().len(), before);
    let reply = ask(&gateway, "POST", "/api", "Content-Type: text/xml\r\n", &text);
    assert_eq!((reply.status(), reply.text()), (200, text));
    // Without a description, JSON alone is taken.
    let gateway = offering(&origin, "");
    let reply = ask(&gateway, "POST", "/api", "Content-Type: text/xml\r\n", "<a/>");
    assert_eq!(reply.status(), 404);
}

/// However they are written, in the configuration and in the request.
#[test]
fn escapes_in_paths_are_read_as_those_of_routes() {
    let origin = mirror();
    for (path, keys, targets) in [
        ("/l%c3%a9", "", ["/l%c3%a9/Order", "/l%C3%A9/Order"]),
        ("/n%7Ex", "", ["/n~x/Order", "/n%7ex/%4frder"]),
        ("/a", "operations: { Order: { path: \"/c%c3%a9\" } }", ["/a/c%c3%a9", "/a/c%C3%A9"]),
        ("/a", "prefix: \"/%61\"", ["/a/Order", "/%61/Order"]),
    ] {
        let yaml = format!(
            r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ service: {{ targets: ["{}"] }} }}
routes: {{ api: {{ match: {{ path: "{path}/**" }}, policies: [{{ soap_rest: {{ wsdl: service.wsdl, {keys} }} }}], upstream: service }} }}
"#,
            origin.url()
        );
        let gateway = Gateway::start_beside(yaml, &[("service.wsdl", TYPES)]);
        for target in targets {
            let reply = post(&gateway, target, r#"{"number":1}"#);
            assert_eq!(reply.status(), 200, "{path} {keys} {target}: {reply:?}");
        }
    }
}

#[test]
fn what_is_no_json_is_refused_with_its_place() {
    let origin = mirror();
    let gateway = offering(&origin, "");
    for (body, error) in [
        (
            "{\n \"number\": 01}",
            "/: no JSON at line 2, column 13: expected a comma or the end of the object or array",
        ),
        ("<a/>", "/: no JSON at line 1, column 1: expected a value"),
        ("{\"number\":1}}", "/: no JSON at line 1, column 13: expected the end of the text"),
        ("{\"number\":", "/: no JSON at line 1, column 11: expected a value"),
    ] {
        let reply = post(&gateway, "/api/Order", body);
        assert_eq!((reply.status(), wrong(&reply).as_str()), (400, error), "{body}");
    }
    assert!(origin.requests().is_empty());
}

/// The content type takes precedence over the declaration.
#[test]
fn a_reply_in_another_charset_is_read() {
    let latin = |text: &str| text.chars().map(|c| c as u8).collect::<Vec<u8>>();
    let declared = "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>";
    let symbol = enveloped(
        "http://schemas.xmlsoap.org/soap/envelope/",
        "<Symbol xmlns=\"urn:types\">café</Symbol>",
    );
    for (content_type, body) in [
        ("text/xml; charset=ISO-8859-1", latin(&symbol)),
        ("text/xml; charset=utf-8", format!("{declared}{symbol}").into_bytes()),
        ("text/xml", latin(&format!("{declared}{symbol}"))),
    ] {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let origin = Origin::answering([head.into_bytes(), body].concat());
        let reply = post(&offering(&origin, ""), "/api/Symbol", r#""x""#);
        assert_eq!((reply.status(), reply.text().as_str()), (200, "\"café\""), "{content_type}");
        assert_eq!(reply.get("content-type"), Some("application/json"));
    }
}

#[test]
fn a_gzipped_reply_is_translated_and_gzipped_again() {
    use std::io::{Read as _, Write as _};
    let body = enveloped(
        "http://schemas.xmlsoap.org/soap/envelope/",
        r#"<Symbol xmlns="urn:types">A</Symbol>"#,
    );
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(body.as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    let mut answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        packed.len()
    )
    .into_bytes();
    answer.extend(packed);
    let origin = Origin::answering(answer);
    let gateway = offering(&origin, "");
    let lines = "Content-Type: application/json\r\nAccept-Encoding: gzip\r\n";
    let reply = ask(&gateway, "POST", "/api/Symbol", lines, "\"A\"");
    assert_eq!((reply.status(), reply.get("content-encoding")), (200, Some("gzip")));
    let mut text = String::new();
    flate2::read::GzDecoder::new(&reply.body[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, "\"A\"");
}
