//! Documents that schemas and descriptions name: in files, by URL, by namespace; compiled once, and anew when something changed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::*;
use crate::harness::until;

/// A schema of small numbers.
fn types(max: u32) -> String {
    format!(
        "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" targetNamespace=\"http://t/types\"><xs:simpleType name=\"Small\"><xs:restriction base=\"xs:int\"><xs:maxInclusive value=\"{max}\"/></xs:restriction></xs:simpleType></xs:schema>"
    )
}

/// A schema that imports it from there, or by its namespace alone.
fn main_schema(location: Option<&str>) -> String {
    let location = location.map(|url| format!(" schemaLocation=\"{url}\"")).unwrap_or_default();
    format!(
        "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" xmlns:t=\"http://t/types\" targetNamespace=\"http://t/\"><xs:import namespace=\"http://t/types\"{location}/><xs:element name=\"Add\" type=\"t:Small\"/></xs:schema>"
    )
}

fn number(value: u32) -> String {
    envelope(SOAP_11, &format!("<Add xmlns=\"http://t/\">{value}</Add>"))
}

fn xml(body: &str) -> Vec<u8> {
    answer(200, "Content-Type: text/xml\r\n", body.as_bytes())
}

/// A gateway with these keys of `soap` in addition to `schema: main.xsd`.
fn holding(origin: &Origin, keys: &str, files: &[(&str, &str)]) -> Gateway {
    let route = format!("errors: kong, policies: [{{ soap: {{ verbose: true, {keys} }} }}]");
    gateway_to(&origin.url(), &route, files)
}

/// The sum of the samples of a family whose labels have all of these.
pub(super) fn counted(gateway: &Gateway, family: &str, labels: &[&str]) -> u64 {
    let metrics = gateway.admin_get("/metrics").text();
    let samples = metrics
        .lines()
        .filter(|line| line.starts_with(family) && labels.iter().all(|label| line.contains(label)));
    samples.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

const COMPILATIONS: &str = "tidegate_definition_compilations_total";
const FETCHES: &str = "tidegate_definition_fetches_total";
const GOOD: &str = "result=\"success\"";
const BAD: &str = "result=\"failure\"";

#[test]
fn what_a_url_names_is_fetched_once_beside_the_requests() {
    let origin = Origin::saying("ok");
    let schemas = Origin::answering(xml(&types(9)));
    let main = main_schema(Some(&format!("{}/a/types.xsd", schemas.url())));
    let gateway = holding(&origin, "schema: main.xsd, fetch: {}", &[("main.xsd", &main)]);
    for _ in 0..3 {
        assert_eq!(post(&gateway, &number(9)).text(), "ok");
        assert!(post(&gateway, &number(10)).text().contains("Error code: 1834"));
    }
    assert_eq!(schemas.request().target(), "/a/types.xsd");
    assert_eq!(counted(&gateway, FETCHES, &[GOOD, "main.xsd"]), 1);
    assert_eq!(counted(&gateway, COMPILATIONS, &[GOOD, "main.xsd"]), 1);
}

#[test]
fn what_a_fetched_document_names_is_fetched_too_from_hosts_that_files_name() {
    let origin = Origin::saying("ok");
    let includes = "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" targetNamespace=\"http://t/types\"><xs:include schemaLocation=\"../b/small.xsd\"/></xs:schema>";
    let schemas = Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            let body =
                if request.target() == "/a/types.xsd" { includes.to_owned() } else { types(9) };
            if !peer.try_send(xml(&body)) {
                return;
            }
        }
    });
    let main = main_schema(Some(&format!("{}/a/types.xsd", schemas.url())));
    let gateway = holding(&origin, "schema: main.xsd, fetch: {}", &[("main.xsd", &main)]);
    assert_eq!(post(&gateway, &number(9)).text(), "ok");
    let asked: Vec<_> = schemas.requests().iter().map(|one| one.target().to_owned()).collect();
    assert_eq!(asked, ["/a/types.xsd", "/b/small.xsd"]);

    // The server of a schema cannot make the gateway ask a third.
    let third = Origin::saying("never");
    let elsewhere = includes.replace("../b", &third.url());
    let schemas = Origin::answering(xml(&elsewhere));
    let main = main_schema(Some(&format!("{}/a/types.xsd", schemas.url())));
    let gateway = holding(&origin, "schema: main.xsd, fetch: {}", &[("main.xsd", &main)]);
    let reply = post(&gateway, &number(9));
    let message = format!("Failed to locate a schema at location '{}/small.xsd'", third.url());
    assert!(reply.text().contains(&message), "{}", reply.text());
    gateway.wait_for_log("a host that only a fetched document names");
    assert_eq!(third.requests().len(), 0);
}

#[test]
fn a_message_before_the_first_fetch_waits_for_it() {
    let origin = Origin::saying("ok");
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Mutex::new(held);
    let schemas = Origin::start(move |peer| {
        while peer.request().is_some() {
            held.lock().unwrap().recv().unwrap();
            assert!(peer.try_send(xml(&types(9))));
        }
    });
    let main = main_schema(Some(&format!("{}/types.xsd", schemas.url())));
    let keys = "schema: main.xsd, fetch: { timeout: 20s }";
    let gateway = holding(&origin, keys, &[("main.xsd", &main)]);
    let body = number(9);
    let mut wire = gateway.wire();
    wire.send(format!(
        "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Type: text/xml\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    until("the schema is asked for", || schemas.requests().len() == 1);
    assert_eq!(origin.requests().len(), 0, "nothing goes on unseen");
    release.send(()).unwrap();
    assert_eq!(wire.read_reply().text(), "ok");
}

#[test]
fn what_cannot_be_fetched_is_a_fault_until_it_can() {
    let origin = Origin::saying("ok");
    let good = Arc::new(AtomicUsize::new(0));
    let switch = good.clone();
    let schemas = Origin::start(move |peer| {
        while peer.request().is_some() {
            let reply = match switch.load(Ordering::SeqCst) {
                0 => answer(404, "", b""),
                _ => xml(&types(9)),
            };
            if !peer.try_send(&reply) {
                return;
            }
        }
    });
    let url = format!("{}/types.xsd", schemas.url());
    let main = main_schema(Some(&url));
    let keys = "schema: main.xsd, fetch: { timeout: 200ms }";
    let gateway = holding(&origin, keys, &[("main.xsd", &main)]);
    let message = format!("Failed to locate a schema at location '{url}'");
    assert_fault(
        &post(&gateway, &number(9)),
        "Server",
        "Request - XSD validation failed",
        &message,
    );
    assert!(counted(&gateway, FETCHES, &[BAD]) >= 1);
    gateway.wait_for_log("the definition cannot be compiled, messages are refused");
    gateway.wait_for_log(&format!("the import '{url}' cannot be fetched: it answered 404"));
    good.store(1, Ordering::SeqCst);
    until("it is tried again", || post(&gateway, &number(9)).status() == 200);

    // One that never answers is given up in time.
    let silent = Origin::start(|peer| while peer.request().is_some() {});
    let main = main_schema(Some(&format!("{}/types.xsd", silent.url())));
    let gateway = holding(&origin, keys, &[("main.xsd", &main)]);
    let reply = post(&gateway, &number(9));
    assert!(reply.text().contains("Failed to locate a schema"), "{}", reply.text());
}

#[test]
fn the_last_good_definition_serves_until_there_is_a_newer_one() {
    let origin = Origin::saying("ok");
    let serving = Arc::new(Mutex::new(Some(types(9))));
    let now = serving.clone();
    let schemas = Origin::start(move |peer| {
        while peer.request().is_some() {
            let reply = now.lock().unwrap().as_deref().map_or_else(|| answer(503, "", b""), xml);
            if !peer.try_send(&reply) {
                return;
            }
        }
    });
    let main = main_schema(Some(&format!("{}/types.xsd", schemas.url())));
    let keys = "schema: main.xsd, fetch: { timeout: 1s, ttl: 100ms }";
    let gateway = holding(&origin, keys, &[("main.xsd", &main)]);
    assert_eq!(post(&gateway, &number(9)).text(), "ok");
    *serving.lock().unwrap() = None;
    until("a fetch failed", || counted(&gateway, FETCHES, &[BAD]) > 0);
    gateway.wait_for_log("the last good one stays in use");
    assert_eq!(post(&gateway, &number(9)).text(), "ok");
    assert_eq!(post(&gateway, &number(10)).status(), 500);
    // A definition that does not compile does not replace the old one.
    *serving.lock().unwrap() = Some(types(9).replace("xs:int", "xs:nothing"));
    until("a compilation failed", || counted(&gateway, COMPILATIONS, &[BAD]) > 0);
    assert_eq!(post(&gateway, &number(9)).text(), "ok");
    *serving.lock().unwrap() = Some(types(19));
    until("the newer one serves", || post(&gateway, &number(10)).text() == "ok");
    assert_eq!(post(&gateway, &number(20)).status(), 500);
}

#[test]
fn without_background_the_first_message_makes_it_be_fetched() {
    let origin = Origin::saying("ok");
    let schemas = Origin::answering(xml(&types(9)));
    let main = main_schema(Some(&format!("{}/types.xsd", schemas.url())));
    let keys = "schema: main.xsd, fetch: { background: false }";
    let gateway = holding(&origin, keys, &[("main.xsd", &main)]);
    assert_eq!(counted(&gateway, FETCHES, &[]), 0);
    assert_eq!(schemas.requests().len(), 0);
    assert_eq!(post(&gateway, &number(9)).text(), "ok");
    assert_eq!(schemas.requests().len(), 1);
}

#[test]
fn a_compiled_definition_expires_and_is_made_anew() {
    let origin = Origin::saying("ok");
    let keys = "schema: calculator.wsdl, fetch: { ttl: 50ms }";
    let gateway = holding(&origin, keys, &[("calculator.wsdl", WSDL)]);
    until("it was compiled four times", || {
        assert_eq!(post(&gateway, &add()).text(), "ok");
        counted(&gateway, COMPILATIONS, &[GOOD, "calculator.wsdl"]) >= 4
    });
    assert_eq!(post(&gateway, &envelope(SOAP_11, &operation("Add", "x", "7"))).status(), 500);
    assert_eq!(counted(&gateway, COMPILATIONS, &[BAD]), 0);
}

#[test]
fn a_definition_is_compiled_once_for_all_and_anew_only_where_it_changed() {
    let origin = Origin::saying("ok");
    let routes: String = ["a", "b", "c"]
        .map(|name| {
            let schema = if name == "c" { "other.wsdl" } else { "main.xsd" };
            format!("  {name}: {{ match: {{ path: \"/{name}/**\" }}, upstream: origin, policies: [{{ soap: {{ schema: {schema} }} }}] }}\n")
        })
        .concat();
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 1\nupstreams: {{ origin: {{ targets: [\"{}\"] }} }}\nroutes:\n{routes}",
        origin.url()
    );
    let main = main_schema(Some("types.xsd"));
    let files: &[(&str, &str)] =
        &[("main.xsd", &main), ("types.xsd", &types(9)), ("other.wsdl", WSDL)];
    let gateway = Gateway::start_beside(yaml, files);
    let ask =
        |route: &str, body: &str| post_to(&gateway, route, "Content-Type: text/xml\r\n", body);
    for _ in 0..20 {
        assert_eq!(ask("/a/", &number(9)).text(), "ok");
        assert_eq!(ask("/b/", &number(10)).status(), 500);
        assert_eq!(ask("/c/", &add()).text(), "ok");
    }
    assert_eq!(counted(&gateway, COMPILATIONS, &[GOOD, "main.xsd"]), 1);
    assert_eq!(counted(&gateway, COMPILATIONS, &[GOOD, "other.wsdl"]), 1);
    // A file that only a schema names is watched, and only definitions with it are compiled again.
    gateway.put("types.xsd", &types(19));
    until("the change serves", || ask("/a/", &number(10)).text() == "ok");
    assert_eq!(ask("/b/", &number(10)).text(), "ok");
    assert_eq!(counted(&gateway, COMPILATIONS, &[GOOD, "main.xsd"]), 2);
    assert_eq!(counted(&gateway, COMPILATIONS, &[GOOD, "other.wsdl"]), 1);
    // An invalid one causes a complaint, and the last good one stays in use.
    gateway.put("types.xsd", "<none/>");
    gateway.wait_for_log("main.xsd:1:");
    assert_eq!(ask("/a/", &number(10)).text(), "ok");
}

#[test]
fn an_import_without_a_location_is_found_by_its_namespace() {
    let origin = Origin::saying("ok");
    // Schemas of one description are always visible to one another.
    let wsdl = format!(
        "<wsdl:definitions xmlns:wsdl=\"http://schemas.xmlsoap.org/wsdl/\" targetNamespace=\"urn:w\"><wsdl:types>{}{}</wsdl:types></wsdl:definitions>",
        main_schema(None),
        types(9)
    );
    for keys in ["", ", imports_by_namespace: true"] {
        let keys = format!("schema: main.wsdl{keys}");
        let gateway = holding(&origin, &keys, &[("main.wsdl", &wsdl)]);
        assert_eq!(post(&gateway, &number(9)).text(), "ok", "{keys}");
        assert!(post(&gateway, &number(10)).text().contains("Error code: 1834"), "{keys}");
    }
    // Others have to be given, or fetched.
    let main = main_schema(None);
    let files: &[(&str, &str)] = &[("main.xsd", &main), ("types.xsd", &types(9))];
    let given = "schema: main.xsd, imports: { \"http://t/types\": types.xsd }";
    let gateway = holding(&origin, &format!("{given}, imports_by_namespace: true"), files);
    assert_eq!(post(&gateway, &number(9)).text(), "ok");
    assert_eq!(post(&gateway, &number(10)).status(), 500);
    let gateway = holding(&origin, given, files);
    let reply = post(&gateway, &number(9)).text();
    assert!(reply.contains("soap:Server") && reply.contains("main.xsd"), "{reply}");
}

#[test]
fn a_namespace_that_is_a_url_may_be_fetched() {
    let origin = Origin::saying("ok");
    let text = Arc::new(Mutex::new(String::new()));
    let serving = text.clone();
    let schemas = Origin::start(move |peer| {
        while peer.request().is_some() {
            let reply = xml(&serving.lock().unwrap());
            if !peer.try_send(&reply) {
                return;
            }
        }
    });
    let namespace = format!("{}/types", schemas.url());
    *text.lock().unwrap() = types(9).replace("http://t/types", &namespace);
    let main = main_schema(None).replace("http://t/types", &namespace);
    let keys = "schema: main.xsd, imports_by_namespace: true, fetch: {}";
    let gateway = holding(&origin, keys, &[("main.xsd", &main)]);
    assert_eq!(post(&gateway, &number(9)).text(), "ok");
    assert_eq!(schemas.request().target(), "/types");
}

#[test]
fn descriptions_are_put_together_from_those_they_import() {
    let origin = Origin::saying("ok");
    let part = |imports: &str, types: &str| {
        format!(
            "<wsdl:definitions xmlns:wsdl=\"http://schemas.xmlsoap.org/wsdl/\" targetNamespace=\"urn:w\">{imports}<wsdl:types>{types}</wsdl:types></wsdl:definitions>"
        )
    };
    let import =
        |location: &str| format!("<wsdl:import namespace=\"urn:w\" location=\"{location}\"/>");
    let other = main_schema(Some("../types.xsd"))
        .replace("targetNamespace=\"http://t/\"", "targetNamespace=\"http://u/\"");
    let first = part(&import("parts/one.wsdl"), &main_schema(Some("types.xsd")));
    let one = part(&import("two.wsdl"), "");
    let two = part("", &other);
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("parts")).unwrap();
    for (name, text) in [
        ("first.wsdl", &first),
        ("parts/one.wsdl", &one),
        ("parts/two.wsdl", &two),
        ("types.xsd", &types(9)),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let schema = folder.path().join("first.wsdl");
    let of_other = |value: u32| number(value).replace("http://t/", "http://u/");
    let gateway = holding(&origin, &format!("schema: \"{}\"", schema.display()), &[]);
    for good in [number(9), of_other(9)] {
        assert_eq!(post(&gateway, &good).text(), "ok");
    }
    assert_eq!(post(&gateway, &of_other(10)).status(), 500);
    // As in Kong without its key, imports are ignored.
    let keys = format!("schema: \"{}\", wsdl_imports: false", schema.display());
    let gateway = holding(&origin, &keys, &[]);
    assert_eq!(post(&gateway, &number(9)).text(), "ok");
    assert!(post(&gateway, &of_other(9)).text().contains("Error code: 1845"));
}

#[test]
fn an_envelopes_schema_may_import_what_is_mapped() {
    let origin = Origin::saying("ok");
    let own = "<schema xmlns=\"http://www.w3.org/2001/XMLSchema\" xmlns:t=\"http://t/types\" targetNamespace=\"http://schemas.xmlsoap.org/soap/envelope/\"><import namespace=\"http://t/types\" schemaLocation=\"urn:types\"/><element name=\"Envelope\" type=\"t:Small\"/></schema>";
    let keys = "envelope: { \"1.1\": own.xsd }, imports: { \"urn:types\": types.xsd }";
    let gateway = holding(&origin, keys, &[("own.xsd", own), ("types.xsd", &types(9))]);
    let message = |value: u32| format!("<Envelope xmlns=\"{SOAP_11}\">{value}</Envelope>");
    assert_eq!(post(&gateway, &message(9)).text(), "ok");
    assert!(post(&gateway, &message(10)).text().contains("Error code: 1834"));
}
