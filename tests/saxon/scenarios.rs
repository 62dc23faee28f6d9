//! The examples' configuration, as the load tests ask it.

use super::*;

const FILES: &[(&str, &str)] = &[
    ("rename.xsl", include_str!("../../examples/soap/saxon/rename.xsl")),
    ("json-to-soap.xsl", include_str!("../../examples/soap/saxon/json-to-soap.xsl")),
    ("soap-to-json.xsl", include_str!("../../examples/soap/saxon/soap-to-json.xsl")),
    ("company-to-json.xsl", include_str!("../../examples/soap/saxon/company-to-json.xsl")),
    ("json-to-company.xsl", include_str!("../../examples/soap/saxon/json-to-company.xsl")),
    ("company.xsd", include_str!("../../examples/soap/saxon/company.xsd")),
];

const COMPANY: &str = include_str!("../../examples/soap/saxon/company.xml");
const ADD: &str = include_str!("../../examples/soap/saxon/add.json");

/// The service's side: notes its requests and answers as the calculator or as httpbin does.
fn service(reply: impl Fn(&Message) -> (String, &'static str) + Send + Sync + 'static) -> Origin {
    Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            peer.note(&request);
            let (body, content_type) = reply(&request);
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    })
}

fn calculator() -> Origin {
    service(|_| {
        let body = format!(
            "<?xml version=\"1.0\"?><s:Envelope xmlns:s=\"{SOAP_11}\"><s:Body><AddResponse xmlns=\"http://tempuri.org/\"><AddResult>60</AddResult></AddResponse></s:Body></s:Envelope>"
        );
        (body, "text/xml;charset=utf-8")
    })
}

fn examples(calculator: &Origin, httpbin: &Origin) -> Gateway {
    let yaml = include_str!("../../examples/soap/saxon.yaml");
    let yaml = yaml
        .replace("127.0.0.1:8080", "127.0.0.1:0")
        .replace("http://127.0.0.1:9080", &calculator.url())
        .replace("http://127.0.0.1:9082", &httpbin.url())
        .replace("saxon/", "");
    Gateway::start_beside(yaml, FILES)
}

#[test]
fn the_scenarios_answer_byte_for_byte() {
    let calculator = calculator();
    let httpbin = service(|request| {
        let echo =
            format!("{{\"args\": {{}}, \"json\": {}, \"method\": \"POST\"}}", request.text());
        (echo, "application/json")
    });
    let gateway = examples(&calculator, &httpbin);
    // Twice, since traces of one message in a thread's memory must not show in the next.
    for _ in 0..2 {
        let body = format!(
            "<soap:Envelope xmlns:soap=\"{SOAP_11}\">\n <soap:Body>\n  <Subtract xmlns=\"http://tempuri.org/\"><intA>5</intA><intB>7</intB></Subtract>\n </soap:Body>\n</soap:Envelope>"
        );
        let reply = post(&gateway, "/scen8", "text/xml; charset=utf-8", &body);
        assert_eq!(reply.status(), 200, "{}", reply.text());
        assert_eq!(reply.get("content-type"), Some("text/xml;charset=utf-8"));
        let seen = calculator.requests().pop().unwrap();
        let renamed = body.replace("Subtract", "Add");
        assert_eq!(seen.text(), format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>{renamed}"));
        assert_eq!(seen.get("content-type"), Some("text/xml; charset=utf-8"));

        let reply = post(&gateway, "/scen9", "application/json", ADD);
        assert_eq!((reply.status(), reply.text()), (200, "{\"result\":60}".to_owned()));
        assert_eq!(reply.get("content-type"), Some("application/json"));
        let seen = calculator.requests().pop().unwrap();
        assert_eq!(
            seen.text(),
            format!(
                "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<soap:Envelope xmlns:soap=\"{SOAP_11}\">\n   <soap:Body>\n      <Add xmlns=\"http://tempuri.org/\">\n         <intA>50</intA>\n         <intB>10</intB>\n      </Add>\n   </soap:Body>\n</soap:Envelope>\n"
            )
        );
        assert_eq!(seen.get("content-type"), Some("text/xml; charset=utf-8"));

        let reply = post(&gateway, "/scen10", "text/xml; charset=utf-8", COMPANY);
        assert_eq!((reply.status(), reply.text().as_str()), (200, COMPANY));
        assert_eq!(reply.get("content-type"), Some("text/xml; charset=utf-8"));
        let seen = httpbin.requests().pop().unwrap();
        assert_eq!(seen.target(), "/anything");
        assert_eq!(seen.get("content-type"), Some("application/json"));
        assert_eq!(
            seen.text(),
            r#"{"companyName":"Tidewater Trading","city":"Lisbon","state":"Estremadura","country":"Portugal","offices":{"site":["Lisbon","Porto","Faro","Braga","Coimbra"]},"products":""}"#
        );
    }
}

#[test]
fn what_is_no_json_or_no_xml_is_the_clients_fault_in_its_form() {
    let calculator = calculator();
    let gateway = examples(&calculator, &calculator);
    let reply = post(&gateway, "/scen9", "application/json", "{\"operation\":");
    assert_eq!((reply.status(), reply.get("content-type")), (400, Some("application/json")));
    let step = "\"message\": \"Request - XSLT transformation failed (before XSD validation)\"";
    assert!(reply.text().contains(step), "{}", reply.text());
    assert!(reply.text().contains("\"message_verbose\": \"Invalid JSON input"), "{}", reply.text());
    let latin = [b"{\"operation\":\"caf\xE9\"}".as_slice()].concat();
    let head = format!(
        "POST /scen9 HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        latin.len()
    );
    let reply = gateway.wire().ask([head.as_bytes(), &latin].concat());
    assert_eq!(reply.status(), 400);
    assert!(reply.text().contains("it is not in UTF-8"), "{}", reply.text());
    for bad in ["<a>", "", "<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>"] {
        let reply = post(&gateway, "/scen8", "text/xml", bad);
        assert_eq!(reply.status(), 500, "{bad}");
        assert!(
            reply.text().contains("<faultcode>soap:Client</faultcode>"),
            "{bad}: {}",
            reply.text()
        );
    }
    assert_eq!(calculator.requests().len(), 0);
}

#[test]
fn a_client_that_speaks_json_is_answered_so_behind_its_envelope_too() {
    let calculator = calculator();
    let policies = "policies: [{ xslt: { on: request, stylesheet: json-to-soap.xsl, engine: saxon } }, { soap: { schema: calculator.wsdl, validate: [request, response], verbose: true } }, { rate_limit: { by: operation, requests: 1, per: 1h } }]";
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\nupstreams: {{ origin: {{ targets: [\"{}\"] }}, dead: {{ targets: [\"http://127.0.0.1:1\"] }} }}\nroutes:\n  kong: {{ match: {{ path: /kong }}, upstream: origin, errors: kong, {policies} }}\n  plain: {{ match: {{ path: /plain }}, upstream: origin, {policies} }}\n  dead: {{ match: {{ path: /dead }}, upstream: dead, {policies} }}\n",
        calculator.url()
    );
    let wsdl = ("calculator.wsdl", include_str!("../../examples/soap/calculator/calculator.wsdl"));
    let gateway = Gateway::start_beside(yaml, &[FILES, &[wsdl]].concat());
    let bad = ADD.replace("Add", "Foo");
    for (path, content_type, said) in [
        ("/kong", "application/json", "\"message_verbose\": \"Error Node: Foo, Error code: 1845"),
        ("/plain", "application/problem+json", "\"status\":400"),
    ] {
        let reply = post(&gateway, path, "application/json", &bad);
        assert_eq!((reply.status(), reply.get("content-type")), (400, Some(content_type)));
        assert!(reply.text().contains(said), "{}", reply.text());
        assert_eq!(post(&gateway, path, "application/json", ADD).status(), 200);
        let reply = post(&gateway, path, "application/json", ADD);
        assert_eq!((reply.status(), reply.get("content-type")), (429, Some(content_type)));
    }
    let reply = post(&gateway, "/dead", "application/json", ADD);
    let content_type = Some("application/problem+json");
    assert_eq!((reply.status(), reply.get("content-type")), (502, content_type));
}

#[test]
fn json_may_hold_what_xml_could_not() {
    let origin = Origin::echo();
    let text = value("json-to-xml(.)/f:map/f:string[@key = 'a'], name(*)");
    let gateway = transforming(&origin, "", &[("read", &text)]);
    let reply = post(
        &gateway,
        "/read",
        "application/json",
        "{\"a\": \"1 < 2 & 3 > 2 ]]> \u{00e9}\u{1F600}\"}",
    );
    assert_eq!(reply.text(), "1 < 2 & 3 > 2 ]]> \u{00e9}\u{1F600} InternalkongRoot");
}

#[test]
fn coded_replies_are_read_and_coded_again() {
    use std::io::{Read as _, Write as _};
    let zlib = {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"<a>1</a>").unwrap();
        encoder.finish().unwrap()
    };
    let mut reply = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Encoding: deflate\r\nContent-Length: {}\r\n\r\n",
        zlib.len()
    )
    .into_bytes();
    reply.extend_from_slice(&zlib);
    let origin = Origin::answering(reply);
    let text =
        sheet("<xsl:template match=\"a\"><b><xsl:value-of select=\". + 1\"/></b></xsl:template>");
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ origin: {{ targets: [\"{}\"] }} }}\nroutes:\n  plain: {{ match: {{ path: /plain }}, upstream: origin, policies: [{{ xslt: {{ on: response, stylesheet: a.xsl }} }}] }}\n  kong: {{ match: {{ path: /kong }}, upstream: origin, errors: kong, policies: [{{ xslt: {{ on: response, stylesheet: a.xsl, verbose: true }} }}] }}\n",
        origin.url()
    );
    let gateway = Gateway::start_beside(yaml, &[("a.xsl", &text)]);
    let reply = post(&gateway, "/plain", "text/xml", "<x/>");
    assert_eq!(reply.get("content-encoding"), Some("deflate"));
    let mut plain = String::new();
    flate2::read::ZlibDecoder::new(&*reply.body).read_to_string(&mut plain).unwrap();
    assert!(plain.ends_with("<b>2</b>"), "{plain}");
    let reply = post(&gateway, "/kong", "text/xml", "<x/>");
    assert_eq!((reply.status(), reply.get("content-encoding")), (500, None));
    let said = "Content-encoding of type 'deflate' is not supported";
    assert!(reply.text().contains(said), "{}", reply.text());
}
