//! Clients that people use, calling a service through the gateway in SOAP 1.1 and 1.2: zeep, node-soap and gSOAP, and CXF from a
//! published description.
//!
//! `scripts/setup.sh tests` installs them below `soap-clients` in the target folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Backend, Gateway, Origin, tidegate};

const WSDL: &str = include_str!("../examples/soap/calculator/calculator.wsdl");

/// The gateway validates both sides against the description, and actions of SOAP 1.1 requests. In SOAP 1.2, zeep and gSOAP
/// send the action twice, as a parameter and as the header of SOAP 1.1, which `action` refuses.
fn gateway(calculator: &Backend) -> Gateway {
    let yaml = format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
upstreams: {{ calculator: {{ targets: ["{}"] }} }}
routes:
  first:
    match: {{ path: "/soap1" }}
    policies:
      - soap: {{ versions: ["1.1"], schema: calculator.wsdl, validate: [request, response], action: required, verbose: true }}
    upstream: calculator
  second:
    match: {{ path: "/soap2" }}
    policies:
      - soap: {{ versions: ["1.2"], schema: calculator.wsdl, validate: [request, response], verbose: true }}
    upstream: calculator
"#,
        calculator.url
    );
    Gateway::start_beside(yaml, &[("calculator.wsdl", WSDL)])
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().expect("the project")
}

/// The output of a client in each version of SOAP; `arguments` get the endpoint.
fn printed(command: [&str; 2], arguments: &dyn Fn(&str, &str) -> Vec<String>) -> [String; 2] {
    let calculator = Backend::start("calculator", &[]);
    let gateway = gateway(&calculator);
    [("1", command[0]), ("2", command[1])].map(|(version, command)| {
        let endpoint = format!("http://{}/soap{version}", gateway.address("public"));
        let clients = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("soap-clients");
        let program = if command.contains('/') { clients.join(command) } else { command.into() };
        let run = Command::new(&program)
            .args(arguments(&endpoint, version))
            .env("NODE_CLIENTS", &clients)
            .output()
            .unwrap_or_else(|error| {
                panic!("{}: {error}; run scripts/setup.sh tests", program.display())
            });
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(run.status.success(), "{}{}", text(&run.stdout), text(&run.stderr));
        text(&run.stdout)
    })
}

fn script(name: &str, endpoint: &str, version: &str) -> Vec<String> {
    let here = root().join("tests/soap_clients").join(name).display().to_string();
    let wsdl = root().join("examples/soap/calculator/calculator.wsdl").display().to_string();
    vec![here, wsdl, endpoint.to_owned(), version.to_owned()]
}

#[test]
fn zeep_calls_through_the_gateway() {
    let arguments = |endpoint: &str, version: &str| script("zeep_client.py", endpoint, version);
    let [first, second] = printed(["zeep/bin/python"; 2], &arguments);
    let said = |code: &str| {
        format!(
            "Add 12\nSubtract -2\nMultiply -12\nDivide division by zero\nRefused {code} Request - XSD validation failed\n"
        )
    };
    assert_eq!(first, said("soap:Client"));
    assert_eq!(second, said("env:Sender"));
}

#[test]
fn node_soap_calls_through_the_gateway() {
    let arguments = |endpoint: &str, version: &str| script("soap_client.mjs", endpoint, version);
    let said = "Add 12\nSubtract -2\nMultiply -12\nDivide division by zero\nRefused Request - XSD validation failed\n";
    assert_eq!(printed(["node"; 2], &arguments), [said, said]);
}

#[test]
fn gsoap_calls_through_the_gateway() {
    let arguments = |endpoint: &str, version: &str| vec![endpoint.to_owned(), version.to_owned()];
    let [first, second] = printed(["gsoap/client1", "gsoap/client2"], &arguments);
    let said = "Add 12\nSubtract -2\nDivide division by zero\n";
    assert_eq!(first, format!("{said}Refused Request - XSD validation failed\n"));
    assert_eq!(second, said);
}

/// The documents of a description, without what clients cannot reach.
fn described() -> [(&'static str, String); 4] {
    crate::soap_services::PUBLISHED.map(|(name, text)| {
        let far = "<xs:import namespace=\"urn:q\" schemaLocation=\"http://127.0.0.1:1/far.xsd\"/>";
        let jms = "<wsdl:port name=\"J\" binding=\"t:B\"><soap:address location=\"jms:queue\"/></wsdl:port>";
        (name, text.replace(far, "").replace(jms, ""))
    })
}

/// The service that the documents describe.
fn service() -> Origin {
    crate::soap_services::answering("<t:Got xmlns:t=\"urn:p\"><t:name>ann</t:name></t:Got>")
}

/// A gateway that publishes the description in several documents at `/ws`, with these policies.
fn publishing(origin: &Origin, policies: &str) -> Gateway {
    let more =
        if policies.is_empty() { String::new() } else { format!(", policies: [{policies}]") };
    let yaml =
        crate::soap_services::yaml(origin, &format!("services: {{ wsdl: main.wsdl }}{more}"));
    let mut files = vec![("tidegate.yaml", yaml.as_str())];
    let described = described();
    files.extend(described.iter().map(|(name, text)| (*name, text.as_str())));
    Gateway::start_folder(&files)
}

/// The output of each client that gets the URL of a description.
fn told(url: &str) -> [(&'static str, String); 3] {
    let clients = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("soap-clients");
    let python = clients.join("zeep/bin/python").display().to_string();
    let jars = format!("{}/*", clients.join("cxf").display());
    let folder = tempfile::tempdir().unwrap();
    let made = format!("-Djava.io.tmpdir={}", folder.path().display());
    [
        ("zeep", vec![python.as_str(), "zeep_described.py"]),
        ("node-soap", vec!["node", "soap_described.mjs"]),
        ("CXF", vec!["java", made.as_str(), "-cp", jars.as_str(), "CxfDescribed.java"]),
    ]
    .map(|(name, command)| {
        let (program, before) = command.split_first().unwrap();
        let run = Command::new(program)
            .args(before)
            .arg(url)
            .current_dir(root().join("tests/soap_clients"))
            .env("NODE_CLIENTS", &clients)
            .output()
            .unwrap_or_else(|error| panic!("{program}: {error}; run scripts/setup.sh tests"));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(run.status.success(), "{name}: {}{}", text(&run.stdout), text(&run.stderr));
        (name, text(&run.stdout))
    })
}

/// An imported proxy publishes the description that it names, with the documents in it.
#[test]
fn clients_are_made_from_the_description_of_an_imported_proxy() {
    let origin = service();
    let entries = described().map(|(name, text)| {
        let text = text.replace("<?xml version=\"1.0\"?>\n", "");
        format!("<localEntry key=\"{name}\">{text}</localEntry>")
    });
    let locations = [
        ("parts/interface.wsdl", "parts/interface.wsdl"),
        ("types.xsd", "parts/types.xsd"),
        ("../common.xsd", "common.xsd"),
    ]
    .map(|(location, key)| format!("<resource location=\"{location}\" key=\"{key}\"/>"));
    let artifacts = format!(
        "<definitions xmlns=\"http://ws.apache.org/ns/synapse\">{}<proxy name=\"S\"><target><inSequence><send><endpoint><address uri=\"{}/ws\"/></endpoint></send></inSequence><outSequence><send/></outSequence></target><publishWSDL key=\"main.wsdl\">{}</publishWSDL></proxy></definitions>",
        entries.concat(),
        origin.url(),
        locations.concat()
    );
    let folder = tempfile::tempdir().unwrap();
    let (file, into) = (folder.path().join("all.xml"), folder.path().join("made"));
    std::fs::write(&file, artifacts).unwrap();
    let run =
        tidegate(&["import", "synapse", file.to_str().unwrap(), "--into", into.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let configuration = into.join("tidegate.yaml");
    let text = std::fs::read_to_string(&configuration).unwrap();
    let (before, after) = text.split_once("address: \"").unwrap();
    let (_, after) = after.split_once('"').unwrap();
    let text = format!("{before}address: \"127.0.0.1:0\"{after}\nworkers: 1\n");
    std::fs::write(&configuration, text).unwrap();
    let gateway = Gateway::start_in(&into, "tidegate.yaml");
    let url = format!("http://{}/services/S?wsdl", gateway.address("public"));
    for (name, said) in told(&url) {
        assert_eq!(said, "ann\n", "{name}");
    }
}

#[test]
fn clients_are_made_from_the_published_description_alone() {
    let origin = service();
    let soap = "{ soap: { schema: main.wsdl, validate: [request, response], action: required } }";
    let rest = "{ soap_rest: { wsdl: main.wsdl } }";
    for policies in ["", soap, rest, &*format!("{rest}, {soap}")] {
        let gateway = publishing(&origin, policies);
        for (name, said) in told(&format!("http://{}/ws?wsdl", gateway.address("public"))) {
            assert_eq!(said, "ann\n", "{name}: {policies}");
        }
        if policies.starts_with(rest) {
            let json = r#"{"id":5}"#;
            let reply = gateway.wire().ask(format!(
                "POST /ws/Get HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{json}",
                json.len()
            ));
            assert_eq!((reply.status(), reply.text().as_str()), (200, r#"{"name":"ann"}"#));
        }
    }
}
