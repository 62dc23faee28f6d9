//! `tidegate import wsdl`: a configuration for any description, and each operation's way there and back.

use crate::harness::{Backend, Gateway, Run, tidegate};

const CALCULATOR: &str = include_str!("../examples/soap/calculator/calculator.wsdl");

/// Imports a description with other files beside it.
fn imported(files: &[(&str, &str)], more: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let file = folder.path().join(files[0].0);
    let mut arguments = vec!["import", "wsdl", file.to_str().unwrap()];
    arguments.extend(more);
    let mut run = tidegate(&arguments);
    let place = format!("{}/", folder.path().display());
    run.stdout = run.stdout.replace(&place, "");
    run.stderr = run.stderr.replace(&place, "");
    run
}

#[test]
fn a_configuration_is_printed_and_every_operation_tried() {
    let run = imported(&[("calculator.wsdl", CALCULATOR)], &[]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    expect_test::expect![[r#"
        listen:
          public:
            address: "127.0.0.1:8081"
        upstreams:
          calculator:
            targets: ["http://localhost:8080"]
        routes:
          calculator:
            match:
              path: "/calculator/**"
            policies:
              - soap_rest:
                  wsdl: calculator.wsdl
            upstream: calculator
    "#]]
    .assert_eq(&run.stdout);
    let rows: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(
        rows,
        [
            "4 operations, 24 messages translated to SOAP and back",
            "converted     calculator.wsdl:97:5   operation Add",
            "converted     calculator.wsdl:101:5  operation Subtract",
            "converted     calculator.wsdl:105:5  operation Multiply",
            "converted     calculator.wsdl:109:5  operation Divide",
            "4 converted, 0 approximated, 0 refused",
        ]
    );
}

#[test]
fn the_configuration_serves() {
    let calculator = Backend::start("calculator", &[]);
    let url = format!("{}/ws", calculator.url);
    let run = imported(&[("service.wsdl", CALCULATOR)], &["--upstream", &url, "--prefix", "/v1"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let yaml = run.stdout.replace("127.0.0.1:8080", "127.0.0.1:0");
    let gateway = Gateway::start_beside(yaml, &[("service.wsdl", CALCULATOR)]);
    let ask = |operation: &str, body: &str| {
        gateway.wire().ask(format!(
            "POST /v1/{operation} HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    for (operation, body, result) in [
        ("Add", r#"{"intA":5,"intB":7}"#, r#"{"AddResult":12}"#),
        ("Subtract", r#"{"intB":5,"intA":7}"#, r#"{"SubtractResult":2}"#),
        ("Multiply", r#"{"intA":-2147483648,"intB":1}"#, r#"{"MultiplyResult":-2147483648}"#),
    ] {
        let reply = ask(operation, body);
        assert_eq!((reply.status(), reply.text().as_str()), (200, result));
    }
    let fault = ask("Divide", r#"{"intA":1,"intB":0}"#);
    assert_eq!(fault.status(), 500);
    assert!(fault.text().contains(r#""detail":"division by zero""#), "{}", fault.text());
    let wrong = ask("Divide", r#"{"intA":1,"intB":2147483648}"#);
    assert_eq!(wrong.status(), 400);
}

#[test]
fn what_it_names_is_followed() {
    let main = r#"<definitions xmlns="http://schemas.xmlsoap.org/wsdl/" xmlns:t="urn:t" xmlns:soap="http://schemas.xmlsoap.org/wsdl/soap/" targetNamespace="urn:t">
  <import namespace="urn:t" location="messages.wsdl"/>
  <portType name="P"><operation name="Get"><input message="t:Get"/><output message="t:Get"/></operation></portType>
  <binding name="B" type="t:P"><soap:binding transport="http://schemas.xmlsoap.org/soap/http"/>
    <operation name="Get"><soap:operation soapAction="get"/><input><soap:body use="literal"/></input><output><soap:body use="literal"/></output></operation></binding>
  <service name="S"><port name="P" binding="t:B"><soap:address location="https://s.test:8443/get?x"/></port></service>
</definitions>"#;
    let messages = r#"<definitions xmlns="http://schemas.xmlsoap.org/wsdl/" xmlns:t="urn:t" targetNamespace="urn:t">
  <types><xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:t"><xs:include schemaLocation="a.xsd"/><xs:import namespace="urn:b" schemaLocation="http://far.test/b.xsd"/></xs:schema></types>
  <message name="Get"><part name="body" element="t:Get"/></message>
</definitions>"#;
    let a = r#"<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:b="urn:b"><xs:import namespace="urn:b"/>
  <xs:element name="Get"><xs:complexType><xs:sequence><xs:element name="id" type="b:Id"/></xs:sequence></xs:complexType></xs:element></xs:schema>"#;
    let b = r#"<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:b"><xs:simpleType name="Id"><xs:restriction base="xs:string"><xs:pattern value="[A-Z]{2}-\d{3,}"/></xs:restriction></xs:simpleType></xs:schema>"#;
    let files = [("s.wsdl", main), ("messages.wsdl", messages), ("a.xsd", a), ("b.xsd", b)];
    let run = imported(&files, &[]);
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    assert!(run.stderr.contains("urn:b"), "{}", run.stderr);

    let folder = tempfile::tempdir().unwrap();
    let far = folder.path().join("far.xsd");
    std::fs::write(&far, b).unwrap();
    let import = format!("http://far.test/b.xsd={}", far.display());
    let run = imported(&files, &["--import", &import]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let told = "1 operations, 6 messages translated to SOAP and back\nconverted     s.wsdl:3:22  operation Get\n";
    assert!(run.stderr.starts_with(told), "{}", run.stderr);
    assert!(run.stdout.contains("https://s.test:8443"), "{}", run.stdout);
}

#[test]
fn all_that_types_can_be_goes_there_and_back() {
    let run = imported(&[("types.wsdl", crate::soap_rest::TYPES)], &[]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    let told = "6 operations, 33 messages translated to SOAP and back\n";
    assert!(run.stderr.starts_with(told), "{}", run.stderr);
    let row =
        "operation Coded   is not offered: its messages are encoded, which no schema describes\n";
    assert!(run.stderr.contains(row), "{}", run.stderr);
    assert!(run.stderr.ends_with("6 converted, 0 approximated, 1 refused\n"), "{}", run.stderr);
}

#[test]
fn what_cannot_be_offered_is_told() {
    let encoded = CALCULATOR.replace("use=\"literal\"", "use=\"encoded\"");
    let nowhere = CALCULATOR.replace("http://localhost:8080/ws", "jms:queue");
    for (wsdl, more, what) in [
        (encoded.as_str(), &[][..], "none of the operations can be offered as JSON"),
        (nowhere.as_str(), &[], "say where it runs with --upstream"),
        (CALCULATOR, &["--port", "Calc"], "the description has Calculator/CalculatorSoap"),
        ("<a/>", &[], "the root is <a>"),
        ("<a", &[], "s.wsdl:1:3"),
    ] {
        let run = imported(&[("s.wsdl", wsdl)], more);
        assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{what}");
        assert!(run.stderr.contains(what), "{what}: {}", run.stderr);
    }
    let run = tidegate(&["import", "wsdl", "not-there.wsdl"]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("not-there.wsdl"), "{}", run.stderr);
}

#[test]
fn what_it_prints_is_found_good_whatever_the_names() {
    let renamed = CALCULATOR
        .replace("name=\"Add\"", "name=\"Öp.x-1\"")
        .replace("tns:Add\"", "tns:Öp.x-1\"")
        .replace("localhost:8080/ws", "localhost:8080/ws#frag");
    let two = renamed.replace(
        "</wsdl:definitions>",
        "<wsdl:service name=\"Other\"><wsdl:port name=\"O\" binding=\"tns:CalculatorSoap\"><soap:address location=\"http://o.test/\"/></wsdl:port></wsdl:service></wsdl:definitions>",
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my service.wsdl");
    std::fs::write(&file, two).unwrap();
    let run = tidegate(&["import", "wsdl", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stdout.contains("\"/my-service/**\""), "{}", run.stdout);
    let row = run.stderr.lines().find(|line| line.contains("service Other")).unwrap();
    assert!(row.starts_with("refused ") && row.contains("my service.wsdl:"), "{row}");
    let note = "is not offered here; import it with --service Other";
    assert!(row.ends_with(note), "{row}");
    let yaml = folder.path().join("tidegate.yaml");
    std::fs::write(&yaml, run.stdout.replace("127.0.0.1:8080", "127.0.0.1:0")).unwrap();
    let check = tidegate(&["check".as_ref(), yaml.as_os_str()]);
    assert_eq!(check.code, Some(0), "{}{}", check.stdout, check.stderr);
}

#[test]
fn a_sample_that_only_a_rule_of_identity_refuses_is_a_note() {
    let unique = CALCULATOR.replacen(
        "</xsd:complexType>\n      </xsd:element>",
        "</xsd:complexType><xsd:unique name=\"u\"><xsd:selector xpath=\"*\"/><xsd:field xpath=\".\"/></xsd:unique></xsd:element>",
        1,
    );
    let run = imported(&[("calculator.wsdl", &unique)], &[]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    let note = "request: there is no sample: it repeats a value that the schema wants once";
    let row = run.stderr.lines().find(|line| line.contains("operation Add ")).unwrap();
    assert!(row.starts_with("approximated ") && row.ends_with(note), "{row}");
}
