//! Features of SOAP services without a JSON counterpart: forms of numbers, headers, texts in details, read-only
//! operations.

use crate::harness::{Gateway, Origin, tidegate};
use crate::soap_services::{SOAP, answering, checked, envelope, yaml};

/// Operations of one description, with these schemas and these parts of its binding.
pub(crate) fn described(schema: &str, messages: &str, operations: &str, bound: &str) -> String {
    format!(
        r#"<definitions xmlns="http://schemas.xmlsoap.org/wsdl/" xmlns:soap="http://schemas.xmlsoap.org/wsdl/soap/" xmlns:t="urn:t" targetNamespace="urn:t">
  <types><xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:t" elementFormDefault="qualified">{schema}</xs:schema></types>
  {messages}<portType name="P">{operations}</portType>
  <binding name="B" type="t:P"><soap:binding transport="http://schemas.xmlsoap.org/soap/http"/>{bound}</binding>
  <service name="S"><port name="P" binding="t:B"><soap:address location="http://127.0.0.1:1/ws"/></port></service></definitions>"#
    )
}

pub(crate) fn plain_operation(name: &str) -> [String; 3] {
    [
        format!(
            "<message name=\"{name}In\"><part name=\"b\" element=\"t:{name}\"/></message><message name=\"{name}Out\"><part name=\"b\" element=\"t:{name}Response\"/></message>"
        ),
        format!(
            "<operation name=\"{name}\"><input message=\"t:{name}In\"/><output message=\"t:{name}Out\"/></operation>"
        ),
        format!(
            "<operation name=\"{name}\"><soap:operation soapAction=\"{name}\"/><input><soap:body use=\"literal\"/></input><output><soap:body use=\"literal\"/></output></operation>"
        ),
    ]
}

pub(crate) fn rest(
    gateway: &Gateway,
    method: &str,
    target: &str,
    body: &str,
) -> (u16, serde_json::Value) {
    let lines = match body {
        "" => String::new(),
        body => format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()),
    };
    let reply =
        gateway.wire().ask(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n{body}"));
    let read = serde_json::from_slice(&reply.body);
    (reply.status(), read.unwrap_or(serde_json::Value::Null))
}

/// If a pattern requires a form, JSON has a string, which is returned unchanged.
#[test]
fn forms_that_a_pattern_asks_for_are_strings() {
    let schema = r#"<xs:simpleType name="Number"><xs:restriction base="xs:integer"><xs:pattern value="[0-9]{5}"/></xs:restriction></xs:simpleType>
      <xs:simpleType name="Flag"><xs:restriction base="xs:boolean"><xs:pattern value="0|1"/></xs:restriction></xs:simpleType>
      <xs:complexType name="T"><xs:sequence><xs:element name="n" type="t:Number"/><xs:element name="f" type="t:Flag"/><xs:element name="i" type="xs:int"/></xs:sequence></xs:complexType>
      <xs:element name="Get" type="t:T"/><xs:element name="GetResponse" type="t:T"/>"#;
    let [messages, operations, bound] = plain_operation("Get");
    let wsdl = described(schema, &messages, &operations, &bound);
    let content = "<t:n>01234</t:n><t:f>1</t:f><t:i>7</t:i>";
    let origin = answering(&format!("<t:GetResponse xmlns:t=\"urn:t\">{content}</t:GetResponse>"));
    let gateway = Gateway::start_beside(
        yaml(&origin, "policies: [{ soap_rest: { wsdl: a.wsdl } }]"),
        &[("a.wsdl", &wsdl)],
    );
    let value = serde_json::json!({ "n": "01234", "f": "1", "i": 7 });
    assert_eq!(rest(&gateway, "POST", "/ws/Get", &value.to_string()), (200, value));
    let sent = origin.request().text();
    assert!(sent.contains(">01234</") && sent.contains(">1</"), "{sent}");
    for bad in [
        r#"{"n":"1234","f":"1","i":7}"#,
        r#"{"n":"01234","f":"true","i":7}"#,
        r#"{"n":1234,"f":"1","i":7}"#,
    ] {
        assert_eq!(rest(&gateway, "POST", "/ws/Get", bad).0, 400, "{bad}");
    }
    let (_, document) = rest(&gateway, "GET", "/ws/openapi.json", "");
    let n = &document["components"]["schemas"]["T"]["properties"]["n"];
    assert_eq!(
        (&n["type"], &n["pattern"]),
        (&"string".into(), &"^(?:[0-9]{5})$".into()),
        "{document}"
    );
    let text = document.to_string();
    assert!(!text.contains("$nil") && !text.contains("$headers"), "{text}");
}

/// A header that is declared twice is sent once, and a header with a plain value passes in both directions.
#[test]
fn headers_beside_plain_values_and_twice() {
    let schema = r#"<xs:element name="Get" type="xs:int"/><xs:element name="GetResponse" type="xs:int"/><xs:element name="Token" type="xs:string"/>"#;
    let [messages, operations, bound] = plain_operation("Get");
    let messages =
        format!("{messages}<message name=\"H\"><part name=\"h\" element=\"t:Token\"/></message>");
    let header = "<soap:header message=\"t:H\" part=\"h\" use=\"literal\"/>";
    let bound = bound
        .replace(
            "<input><soap:body use=\"literal\"/>",
            &format!("<input><soap:body use=\"literal\"/>{header}{header}"),
        )
        .replace(
            "<output><soap:body use=\"literal\"/>",
            &format!("<output><soap:body use=\"literal\"/>{header}"),
        );
    let wsdl = described(schema, &messages, &operations, &bound);
    let text = format!(
        "<s:Envelope xmlns:s=\"{SOAP}\"><s:Header><t:Token xmlns:t=\"urn:t\">back</t:Token></s:Header><s:Body><t:GetResponse xmlns:t=\"urn:t\">8</t:GetResponse></s:Body></s:Envelope>"
    );
    let origin = Origin::answering(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: {}\r\n\r\n{text}",
        text.len()
    ));
    let gateway = Gateway::start_beside(
        yaml(&origin, "policies: [{ soap_rest: { wsdl: a.wsdl } }]"),
        &[("a.wsdl", &wsdl)],
    );
    let (status, reply) =
        rest(&gateway, "POST", "/ws/Get", r#"{"value":7,"$headers":{"Token":"t1"}}"#);
    assert_eq!(
        (status, reply),
        (200, serde_json::json!({ "value": 8, "$headers": { "Token": "back" } }))
    );
    let sent = origin.request().text();
    assert_eq!(sent.matches("t1").count(), 1, "{sent}");
    assert!(sent.contains(">7</"), "{sent}");
    assert_eq!(rest(&gateway, "POST", "/ws/Get", "7").0, 400);
    let run = {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.wsdl"), &wsdl).unwrap();
        tidegate(&["import", "wsdl", folder.path().join("a.wsdl").to_str().unwrap()])
    };
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

#[test]
fn the_text_of_a_faults_detail_is_told() {
    let schema =
        r#"<xs:element name="Get" type="xs:int"/><xs:element name="GetResponse" type="xs:int"/>"#;
    let [messages, operations, bound] = plain_operation("Get");
    let wsdl = described(schema, &messages, &operations, &bound);
    for (detail, told) in [
        ("<detail>Order 17 is locked</detail>", serde_json::json!("Order 17 is locked")),
        ("<detail> see <a>b</a></detail>", serde_json::json!({ "a": "<a>b</a>", "#text": "see" })),
        ("<detail><a>b</a></detail>", serde_json::json!({ "a": "<a>b</a>" })),
        ("<detail> </detail>", serde_json::Value::Null),
    ] {
        let text = envelope(&format!(
            "<s:Fault><faultcode>s:Server</faultcode><faultstring>no</faultstring>{detail}</s:Fault>"
        ));
        let origin = Origin::answering(format!(
            "HTTP/1.1 500 No\r\nContent-Type: text/xml\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        ));
        let gateway = Gateway::start_beside(
            yaml(&origin, "policies: [{ soap_rest: { wsdl: a.wsdl } }]"),
            &[("a.wsdl", &wsdl)],
        );
        let (status, reply) = rest(&gateway, "POST", "/ws/Get", "7");
        assert_eq!((status, &reply["details"]), (500, &told), "{reply}");
    }
}

const ORDERS: &str = r#"<xs:element name="GetOrder"><xs:complexType><xs:sequence>
      <xs:element name="orderId" type="xs:int"/><xs:element name="expand" type="xs:boolean" minOccurs="0"/><xs:element name="tag" type="xs:string" minOccurs="0" maxOccurs="unbounded"/>
      <xs:element name="range" minOccurs="0"><xs:complexType><xs:sequence><xs:element name="from" type="xs:date"/><xs:element name="to" type="xs:date" minOccurs="0"/></xs:sequence></xs:complexType></xs:element>
    </xs:sequence></xs:complexType></xs:element>
    <xs:element name="GetOrderResponse"><xs:complexType><xs:sequence><xs:element name="name" type="xs:string"/></xs:sequence></xs:complexType></xs:element>
    <xs:element name="Drop"><xs:complexType><xs:sequence><xs:element name="id" type="xs:int"/></xs:sequence></xs:complexType></xs:element>
    <xs:element name="DropResponse"><xs:complexType><xs:sequence/></xs:complexType></xs:element>
    <xs:element name="Put"><xs:complexType><xs:sequence><xs:element name="order"><xs:complexType><xs:sequence><xs:element name="a" type="xs:int"/><xs:element name="b" type="xs:date"/></xs:sequence></xs:complexType></xs:element><xs:element name="c" type="xs:int"/></xs:sequence></xs:complexType></xs:element>
    <xs:element name="PutResponse"><xs:complexType><xs:sequence/></xs:complexType></xs:element>"#;

fn orders() -> String {
    let parts: Vec<[String; 3]> = ["GetOrder", "Drop", "Put"].map(plain_operation).into();
    let all = |at: usize| parts.iter().map(|part| part[at].as_str()).collect::<String>();
    described(ORDERS, &all(0), &all(1), &all(2))
}

#[test]
fn operations_are_called_by_paths_and_queries() {
    let wsdl = orders();
    let origin =
        answering("<t:GetOrderResponse xmlns:t=\"urn:t\"><t:name>n</t:name></t:GetOrderResponse>");
    let keys = "operations: { GetOrder: { method: GET, path: \"/orders/{id}\", parameters: { id: \"/GetOrder/orderId\", since: \"/GetOrder/range/from\" } }, Drop: { method: DELETE, path: \"/orders/{id}\" } }";
    let route = format!("policies: [{{ soap_rest: {{ wsdl: a.wsdl, {keys} }} }}]");
    let gateway = Gateway::start_beside(yaml(&origin, &route), &[("a.wsdl", &wsdl)]);
    let (status, reply) =
        rest(&gateway, "GET", "/ws/orders/17?since=2026-01-31&tag=a%26b&tag=c+d&expand=true", "");
    assert_eq!((status, reply), (200, serde_json::json!({ "name": "n" })));
    let sent = origin.request();
    assert_eq!(
        (sent.method(), sent.target(), sent.get("soapaction")),
        ("POST", "/ws", Some("\"GetOrder\""))
    );
    let text = sent.text();
    for part in [">17</", ">true</", ">a&amp;b</", ">c d</", ">2026-01-31</"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    origin.forget();
    for (method, target, body, status, told) in [
        ("GET", "/ws/orders/x", "", 400, "/orderId: "),
        ("GET", "/ws/orders/17?since=soon", "", 400, "/range/from: "),
        ("GET", "/ws/orders/17?other=1", "", 400, "/other: the operation has no such parameter"),
        ("GET", "/ws/orders/17?expand=1&expand=0", "", 400, "/expand: the parameter appears twice"),
        ("GET", "/ws/orders/17?tag=%ff", "", 400, "/tag: it is not UTF-8"),
        ("GET", "/ws/orders/17", "{}", 400, "no body"),
        ("GET", "/ws/orders", "", 404, ""),
        ("GET", "/ws/orders/17/18", "", 404, ""),
        ("POST", "/ws/orders/17", "{}", 405, ""),
    ] {
        let (found, reply) = rest(&gateway, method, target, body);
        assert_eq!(found, status, "{target}: {reply}");
        assert!(reply.to_string().contains(told), "{target}: {reply}");
    }
    assert!(origin.requests().is_empty());
    assert_eq!(
        rest(&gateway, "DELETE", "/ws/orders/5", "").0,
        502,
        "the reply is another operation's"
    );
    assert!(origin.request().text().contains(">5</"));
    let (_, document) = rest(&gateway, "GET", "/ws/openapi.json", "");
    let get = &document["paths"]["/orders/{id}"]["get"];
    assert!(get["requestBody"].is_null(), "{get}");
    let named = |name: &str| {
        get["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["name"] == name)
            .cloned()
            .unwrap()
    };
    assert_eq!((&named("id")["in"], &named("id")["required"]), (&"path".into(), &true.into()));
    assert_eq!(
        (&named("tag")["in"], &named("tag")["schema"]["type"]),
        (&"query".into(), &"array".into())
    );
    assert_eq!(named("expand")["schema"]["type"], "boolean");
    assert!(document["paths"]["/orders/{id}"]["delete"].is_object());
    // Four mistakes, four sentences.
    let (status, reply) =
        rest(&gateway, "POST", "/ws/Put", r#"{"order":{"a":"x","b":"y","z":1},"c":true}"#);
    assert_eq!(status, 400);
    let errors: Vec<&str> =
        reply["errors"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert_eq!(errors.len(), 4, "{errors:?}");
    for place in ["/order/a: ", "/order/b: ", "/order/z: ", "/c: "] {
        assert!(errors.iter().any(|error| error.starts_with(place)), "{place} {errors:?}");
    }
}

#[test]
fn operations_that_parameters_cannot_call_are_complaints() {
    let origin = Origin::saying("unused");
    let wsdl = orders();
    for (keys, said) in [
        ("Put: { method: GET }", "`Put` needs `order`, which no parameter can give"),
        ("GetOrder: { method: GET, path: \"/o/{id}\" }", "`{id}` is not a value of the request"),
        ("GetOrder: { method: GET, parameters: { x: /GetOrder/none } }", "there is no `none`"),
        (
            "GetOrder: { method: GET, parameters: { x: /GetOrder/range } }",
            "it is not a plain value",
        ),
        (
            "GetOrder: { method: GET, parameters: { x: /Other/orderId } }",
            "the request is <GetOrder>",
        ),
        (
            "GetOrder: { method: GET, path: \"/o/{tag}\" }",
            "is an array, but a path parameter has one value",
        ),
        ("GetOrder: { path: \"/o/{orderId}\" }", "the operation takes a body"),
        (
            "GetOrder: { parameters: { x: /GetOrder/orderId } }",
            "an operation with a body cannot have parameters",
        ),
        (
            "GetOrder: { method: GET, path: \"/o/{orderId}\" }, Drop: { method: GET, path: \"/o/{id}\" }",
            "is at `GET /o/{id}` already",
        ),
        ("GetOrder: { method: HEAD }", "HEAD"),
    ] {
        let route =
            format!("policies: [{{ soap_rest: {{ wsdl: a.wsdl, operations: {{ {keys} }} }} }}]");
        let (code, told) = checked(&yaml(&origin, &route), &[("a.wsdl", &wsdl)]);
        assert!(code == Some(1) && told.contains(said), "{keys}: {told}");
    }
}

/// The sample for a wildcard has a namespace that the wildcard takes.
#[test]
fn an_import_tries_wildcards_of_all_kinds() {
    for (namespace, process) in [
        ("##local", "lax"),
        ("##local", "skip"),
        ("##targetNamespace", "lax"),
        ("urn:one urn:two", "skip"),
        ("##other", "lax"),
        ("##any", "lax"),
    ] {
        let schema = format!(
            "<xs:element name=\"Put\"><xs:complexType><xs:sequence><xs:any namespace=\"{namespace}\" processContents=\"{process}\"/></xs:sequence></xs:complexType></xs:element>\
             <xs:element name=\"PutResponse\" type=\"xs:int\"/>"
        );
        let [messages, operations, bound] = plain_operation("Put");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.wsdl");
        std::fs::write(&file, described(&schema, &messages, &operations, &bound)).unwrap();
        let run = tidegate(&["import", "wsdl", file.to_str().unwrap()]);
        assert_eq!(run.code, Some(0), "{namespace} {process}: {}", run.stderr);
    }
}
