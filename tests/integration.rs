//! examples/integration from end to end, asserted on both sides, with only the ports changed.

use std::path::Path;

use crate::harness::{Gateway, Message, Origin, tidegate};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/integration");

fn read(name: &str) -> String {
    std::fs::read_to_string(Path::new(FOLDER).join(name)).unwrap()
}

/// An origin that echoes bodies, with their content type.
fn echo() -> Origin {
    Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let content_type = request.get("content-type").unwrap_or("text/plain").to_owned();
            let length = request.body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
            );
            if !peer.try_send(head) || !peer.try_send(&request.body) {
                return;
            }
        }
    })
}

fn start(origin: &Origin) -> Gateway {
    start_of("tidegate.yaml", origin)
}

fn start_of(name: &str, origin: &Origin) -> Gateway {
    let yaml = read(name)
        .replace("127.0.0.1:8080\"", "127.0.0.1:0\"")
        .replace("http://127.0.0.1:9000", &origin.url());
    let names = ["there.xsl", "back.xsl", "stocks.wsdl", "order.xml"];
    let files = names.map(|name| (name, read(name)));
    let files: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    Gateway::start_beside(yaml, &files)
}

fn post(gateway: &Gateway, path: &str, lines: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
    ))
}

const XML: &str = "Content-Type: text/xml\r\nSOAPAction: \"urn:buyStocks\"\r\n";

/// The text between two marks.
fn between<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("no {from} in {text}"));
    rest.split_once(to).unwrap_or_else(|| panic!("no {to} in {rest}")).0
}

#[test]
fn direct_flows_pass_every_byte_and_publish_the_description() {
    let origin = echo();
    let gateway = start(&origin);
    for (path, body) in [
        ("/services/DirectProxy/buyStocksOperation", read("order.xml")),
        ("/directApi", "<not <well formed".to_owned()),
    ] {
        let reply = post(&gateway, path, XML, &body);
        assert_eq!((reply.status(), reply.text()), (200, body.clone()), "{path}");
        let seen = origin.requests().pop().unwrap();
        assert_eq!((seen.target(), seen.text()), (path, body), "{path}");
    }
    let count = origin.requests().len();
    // With the address that the client used.
    let published = read("stocks.wsdl").replace("http://127.0.0.1:8080/", "http://a.test/");
    for query in ["wsdl", "WSDL"] {
        let description = gateway.wire().get(&format!("/services/DirectProxy?{query}"));
        assert_eq!((description.status(), description.text()), (200, published.clone()));
        assert_eq!(description.get("content-type"), Some("text/xml; charset=utf-8"));
    }
    assert_eq!(origin.requests().len(), count);
}

#[test]
fn the_backend_sees_names_backwards_and_the_client_its_own() {
    let origin = echo();
    let gateway = start(&origin);
    let reply = post(&gateway, "/services/XSLTProxy/a", XML, &read("order.xml"));
    assert_eq!((reply.status(), reply.text().trim_end()), (200, read("order.xml").trim_end()));
    let seen = origin.request().text();
    for (name, turned) in [
        ("buyStocks", "skcotSyub"),
        ("order", "redro"),
        ("symbol", "lobmys"),
        ("buyerID", "DIreyub"),
        ("price", "ecirp"),
        ("volume", "emulov"),
    ] {
        assert!(!seen.contains(&format!("{name}>")), "{name}: {seen}");
        assert!(seen.contains(&format!("{turned}>")), "{turned}: {seen}");
    }
}

#[test]
fn a_built_message_holds_every_element_with_what_is_in_it() {
    let origin = echo();
    let gateway = start(&origin);
    let reply = post(&gateway, "/services/MessageBuildingProxy", XML, &read("order.xml"));
    assert_eq!(reply.status(), 200);
    let seen = origin.request().text();
    assert_eq!(reply.text(), seen);
    let payload = between(&seen, "<soapenv:Body><payload>", "</payload></soapenv:Body>");
    // Each of two orders once in the whole, once as itself; each of their parts once more.
    assert_eq!(payload.matches("<m:buyStocks").count(), 1);
    assert_eq!(payload.matches("<order>").count(), 4);
    assert_eq!(payload.matches("<symbol>IBM</symbol>").count(), 3);
    assert!(seen.contains("<r:routing"), "{seen}");
}

#[test]
fn clones_are_called_once_each_and_gathered() {
    for (path, count) in [("Two", 2), ("Four", 4), ("Eight", 8)] {
        let origin = echo();
        let gateway = start(&origin);
        let path = format!("/services/CloneAndAggregateWith{path}BackendProxy");
        let reply = post(&gateway, &path, XML, &read("order.xml"));
        assert_eq!(reply.status(), 200);
        assert_eq!(reply.get("content-type"), Some("text/xml"));
        assert_eq!(origin.requests().len(), count);
        let text = reply.text();
        let gathered = between(&text, "<soapenv:Body><Aggregated>", "</Aggregated></soapenv:Body>");
        let order = read("order.xml");
        let one = between(&order, "<soapenv:Body>", "</soapenv:Body>");
        assert_eq!(gathered, one.repeat(count), "{path}");
    }
}

#[test]
fn the_backend_is_greeted_and_the_client_gets_its_message() {
    let origin = echo();
    let gateway = start(&origin);
    let reply = post(&gateway, "/services/EnrichBackAndForthProxy", XML, &read("order.xml"));
    assert_eq!((reply.status(), reply.text().trim_end()), (200, read("order.xml").trim_end()));
    let seen = origin.request();
    assert_eq!(seen.target(), "/service/EchoService");
    assert_eq!(between(&seen.text(), "<soapenv:Body>", "</soapenv:Body>"), "<hello>world</hello>");
}

#[test]
fn messages_are_routed_by_what_they_say() {
    let origin = echo();
    let gateway = start(&origin);
    let order = read("order.xml");
    let routing = format!("{XML}routing: xadmin;server1;community#1.0##\r\n");
    for (path, lines, body, passes) in [
        ("Body", XML, order.clone(), true),
        ("Body", XML, order.replace("IBM", "XYZ"), false),
        ("SOAPHeader", XML, order.clone(), true),
        ("SOAPHeader", XML, order.replace("server1", "server2"), false),
        ("TransportHeader", &routing, order.clone(), true),
        ("TransportHeader", XML, order.clone(), false),
    ] {
        let path = format!("/services/ContentBasedRouting{path}Proxy");
        let reply = post(&gateway, &path, lines, &body);
        if passes {
            assert_eq!((reply.status(), reply.text()), (200, body), "{path}")
        } else {
            assert_eq!(reply.status(), 500, "{path}");
            assert!(
                reply.text().contains("<faultcode>soap:Client</faultcode>"),
                "{}",
                reply.text()
            );
        }
    }
    assert_eq!(origin.requests().len(), 3);
}

#[test]
fn parts_are_sent_one_by_one_and_gathered() {
    let origin = echo();
    let gateway = start(&origin);
    let reply = post(&gateway, "/services/IterateAndAggregateProxy", XML, &read("order.xml"));
    assert_eq!((reply.status(), reply.text().trim_end()), (200, read("order.xml").trim_end()));
    let mut seen: Vec<String> = origin.requests().iter().map(Message::text).collect();
    seen.sort();
    assert_eq!(seen.len(), 2);
    assert!(
        seen.iter()
            .all(|text| text.matches("<order>").count() == 1 && text.contains("<soapenv:Body>"))
    );
}

#[test]
fn a_client_of_json_talks_to_a_service_of_soap() {
    let origin = echo();
    let gateway = start(&origin);
    let json = r#"{"symbol":"A & <B>","volume":12}"#;
    let reply =
        post(&gateway, "/services/JSONToSOAPProxy", "Content-Type: application/json\r\n", json);
    let seen = origin.request();
    assert_eq!(
        (seen.get("content-type"), seen.get("soapaction")),
        (Some("text/xml; charset=utf-8"), Some("\"urn:buyStocks\""))
    );
    assert!(
        seen.text().contains("<symbol>A &amp; &lt;B&gt;</symbol><volume>12</volume>"),
        "{}",
        seen.text()
    );
    assert_eq!(
        (reply.status(), reply.text()),
        (200, r#"{ "symbol": "A & <B>", "volume": 12 }"#.to_owned())
    );
}

#[test]
fn payloads_hold_an_element_for_each_of_their_fields() {
    let origin = echo();
    let gateway = start_of("payloads.yaml", &origin);
    let orders = |count: usize| {
        let order = read("order.xml");
        let one = between(&order, "<order>", "</order>");
        let (before, rest) = order.split_once("<order>").unwrap();
        let (_, after) = rest.rsplit_once("</order>").unwrap();
        let all: Vec<String> = (0..count)
            .map(|n| format!("<order>{}</order>", one.replace("2000", &format!("{n}"))))
            .collect();
        format!("{before}{}{after}", all.join(""))
    };
    for count in [20, 50, 100] {
        origin.forget();
        let path = format!("/services/PayloadFactoryWith{count}ElementsProxy");
        let reply = post(&gateway, &path, XML, &orders(25));
        let seen = origin.request().text();
        assert_eq!((reply.status(), reply.text()), (200, seen.clone()), "{count}");
        for n in 0..count {
            let element = format!("f{}", n + 1);
            let value = match n % 4 {
                0 => "IBM".to_owned(),
                1 => "asankha".to_owned(),
                2 => "140.34".to_owned(),
                _ => (n / 4).to_string(),
            };
            let found = between(&seen, &format!("<{element}>"), &format!("</{element}>"));
            assert_eq!(found, value, "{count} {element}");
        }
        assert!(!seen.contains(&format!("<f{}>", count + 1)), "{seen}");
    }
}

#[test]
fn the_cases_of_the_example_pass() {
    for (name, told) in [
        ("tidegate.yaml", "18 cases: 18 passed, 0 failed"),
        ("payloads.yaml", "3 cases: 3 passed, 0 failed"),
    ] {
        let file = Path::new(FOLDER).join(name);
        let run = tidegate(&["test", file.to_str().unwrap()]);
        assert!(run.code == Some(0), "{}{}", run.stdout, run.stderr);
        assert!(run.stdout.contains(told), "{}", run.stdout);
    }
}
