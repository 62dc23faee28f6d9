//! Definitions given by URL, and those that expire: fetched in the background, with the last good one kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::imports::counted;
use super::*;
use crate::harness::{ClosedPort, until};

const COMPILATIONS: &str = "tidegate_definition_compilations_total";
const FETCHES: &str = "tidegate_definition_fetches_total";
const GOOD: &str = "result=\"success\"";
const BAD: &str = "result=\"failure\"";

/// Documents by their paths, which may change.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<HashMap<&'static str, String>>>);

impl Shelf {
    fn put(&self, path: &'static str, text: impl Into<String>) {
        self.0.lock().unwrap().insert(path, text.into());
    }

    fn take(&self, path: &str) {
        self.0.lock().unwrap().remove(path).expect("a document");
    }

    /// Serves the existing documents, and 404 for others.
    fn serve(&self) -> Origin {
        let shelf = self.clone();
        Origin::start(move |peer| {
            while let Some(request) = peer.request() {
                let text = shelf.0.lock().unwrap().get(request.target()).cloned();
                let reply = match text {
                    Some(text) => answer(200, "Content-Type: text/xml\r\n", text.as_bytes()),
                    None => answer(404, "", b""),
                };
                if !peer.try_send(reply) {
                    return;
                }
            }
        })
    }
}

/// A gateway before an echo, with these policies.
fn gateway_with(echo: &Origin, policies: &str, files: &[(&str, &str)]) -> Gateway {
    gateway_to(&echo.url(), &format!("errors: kong, policies: [{policies}]"), files)
}

/// A stylesheet that answers with this text, and may include another.
fn saying(version: &str, text: &str, include: &str) -> String {
    format!(
        "<x:stylesheet version=\"{version}\" xmlns:x=\"http://www.w3.org/1999/XSL/Transform\">{include}<x:template match=\"/\">{text}</x:template></x:stylesheet>"
    )
}

#[test]
fn a_stylesheet_at_a_url_is_fetched_with_its_modules_and_the_last_good_one_kept() {
    let (echo, shelf) = (Origin::echo(), Shelf::default());
    shelf.put(
        "/a/main.xsl",
        saying("1.0", "<x:call-template name=\"one\"/>", "<x:include href=\"../b/one.xsl\"/>"),
    );
    let one = |value: u32| {
        format!(
            "<x:stylesheet version=\"1.0\" xmlns:x=\"http://www.w3.org/1999/XSL/Transform\"><x:template name=\"one\"><n>{value}</n></x:template></x:stylesheet>"
        )
    };
    shelf.put("/b/one.xsl", one(1));
    let sheets = shelf.serve();
    let policies = format!(
        "{{ xslt: {{ on: request, stylesheet: \"{}/a/main.xsl\", verbose: true, fetch: {{ ttl: 100ms }} }} }}",
        sheets.url()
    );
    let gateway = gateway_with(&echo, &policies, &[]);
    assert!(post(&gateway, "<a/>").text().ends_with("<n>1</n>"));
    let asked: Vec<String> =
        sheets.requests().iter().take(2).map(|one| one.target().to_owned()).collect();
    assert_eq!(asked, ["/a/main.xsl", "/b/one.xsl"]);
    // It cannot be fetched, then it does not compile: the last good one serves.
    shelf.take("/b/one.xsl");
    until("a fetch failed", || counted(&gateway, FETCHES, &[BAD]) > 0);
    assert!(post(&gateway, "<a/>").text().ends_with("<n>1</n>"));
    shelf.put("/b/one.xsl", one(2).replace("<n>", "<x:none>"));
    until("a compilation failed", || counted(&gateway, COMPILATIONS, &[BAD]) > 0);
    assert!(post(&gateway, "<a/>").text().ends_with("<n>1</n>"));
    shelf.put("/b/one.xsl", one(3));
    until("the newer one serves", || post(&gateway, "<a/>").text().ends_with("<n>3</n>"));
}

#[test]
fn a_stylesheet_that_cannot_be_had_is_a_fault_of_its_step() {
    let (echo, shelf) = (Origin::echo(), Shelf::default());
    shelf.put("/later.xsl", saying("2.0", "<n/>", ""));
    let sheets = shelf.serve();
    let gateway = |path: &str| {
        let policies = format!(
            "{{ xslt: {{ on: request, stylesheet: \"{}{path}\", verbose: true, fetch: {{ timeout: 200ms }} }} }}",
            sheets.url()
        );
        gateway_with(&echo, &policies, &[])
    };
    let step = "Request - XSLT transformation failed (after XSD validation)";
    let message = format!("Failed to locate a schema at location '{}/none.xsl'", sheets.url());
    let none = gateway("/none.xsl");
    assert_fault(&post(&none, "<a/>"), "Server", step, &message);
    // The fetch is retried, and the definition is used as soon as it exists.
    shelf.put("/none.xsl", saying("1.0", "<n>1</n>", ""));
    until("it is there", || post(&none, "<a/>").text().ends_with("<n>1</n>"));
    let reply = post(&gateway("/later.xsl"), "<a/>").text();
    assert!(reply.contains("only 1.1 features are supported"), "{reply}");
}

#[test]
fn a_stylesheet_for_saxon_is_fetched_with_its_modules_too() {
    let (echo, shelf) = (Origin::echo(), Shelf::default());
    let include = "<x:include href=\"two.xsl\"/>";
    shelf.put("/a/main.xsl", saying("3.0", "<x:call-template name=\"two\"/>", include));
    let two = |value: &str| {
        format!(
            "<x:stylesheet version=\"3.0\" xmlns:x=\"http://www.w3.org/1999/XSL/Transform\"><x:template name=\"two\"><n><x:value-of select=\"{value}\"/></n></x:template></x:stylesheet>"
        )
    };
    shelf.put("/a/two.xsl", two("1 to 3"));
    let sheets = shelf.serve();
    let policies = format!(
        "{{ xslt: {{ on: request, stylesheet: \"{}/a/main.xsl\", engine: saxon, verbose: true, fetch: {{ ttl: 100ms, timeout: 5s }} }} }}",
        sheets.url()
    );
    let gateway = gateway_with(&echo, &policies, &[]);
    let reply = post(&gateway, "<a/>").text();
    assert!(reply.ends_with("<n>1 2 3</n>"), "{reply}");
    shelf.put("/a/two.xsl", two("sum(1 to 4)"));
    until("the newer one serves", || post(&gateway, "<a/>").text().ends_with("<n>10</n>"));
}

#[test]
fn an_envelope_may_be_at_a_url_and_name_others() {
    let (echo, shelf) = (Origin::saying("ok"), Shelf::default());
    let types = |max: u32| {
        format!(
            "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" targetNamespace=\"http://t/types\"><xs:simpleType name=\"Small\"><xs:restriction base=\"xs:int\"><xs:maxInclusive value=\"{max}\"/></xs:restriction></xs:simpleType></xs:schema>"
        )
    };
    let own = |location: &str| {
        format!(
            "<schema xmlns=\"http://www.w3.org/2001/XMLSchema\" xmlns:t=\"http://t/types\" targetNamespace=\"{SOAP_12}\"><import namespace=\"http://t/types\" schemaLocation=\"{location}\"/><element name=\"Envelope\" type=\"t:Small\"/></schema>"
        )
    };
    shelf.put("/own.xsd", own("types.xsd"));
    shelf.put("/types.xsd", types(9));
    let schemas = shelf.serve();
    let message = |value: u32| format!("<Envelope xmlns=\"{SOAP_12}\">{value}</Envelope>");
    let local = own(&format!("{}/types.xsd", schemas.url()));
    for at in [format!("{}/own.xsd", schemas.url()), "own.xsd".to_owned()] {
        shelf.put("/types.xsd", types(9));
        let policies = format!(
            "{{ soap: {{ envelope: {{ \"1.2\": \"{at}\" }}, verbose: true, fetch: {{ ttl: 100ms }} }} }}"
        );
        let gateway = gateway_with(&echo, &policies, &[("own.xsd", &local)]);
        assert_eq!(post_12(&gateway, &message(9)).text(), "ok", "{at}");
        assert!(post_12(&gateway, &message(10)).text().contains("Error code: 1834"), "{at}");
        // The other version is checked by the schema that is built in.
        assert_eq!(post(&gateway, &add()).text(), "ok", "{at}");
        shelf.put("/types.xsd", types(19));
        until("the newer one serves", || post_12(&gateway, &message(10)).text() == "ok");
        // A failed fetch changes nothing.
        shelf.take("/types.xsd");
        until("a fetch failed", || counted(&gateway, FETCHES, &[BAD]) > 0);
        assert_eq!(post_12(&gateway, &message(10)).text(), "ok", "{at}");
    }
}

#[test]
fn an_envelope_that_cannot_be_had_refuses_its_version_alone() {
    let (echo, schemas) = (Origin::saying("ok"), Shelf::default().serve());
    let policies = format!(
        "{{ soap: {{ envelope: {{ \"1.2\": \"{}/own.xsd\" }}, verbose: true, fetch: {{ timeout: 200ms }} }} }}",
        schemas.url()
    );
    let gateway = gateway_with(&echo, &policies, &[]);
    assert_eq!(post(&gateway, &add()).text(), "ok");
    let reply = post_12(&gateway, &add().replace(SOAP_11, SOAP_12));
    assert_eq!(reply.status(), 500);
    assert!(reply.text().contains("Failed to locate a schema at location "));
    assert!(reply.text().contains("env:Receiver"), "{}", reply.text());
}

#[test]
fn a_description_may_be_at_a_url() {
    let (echo, shelf) = (Origin::saying("ok"), Shelf::default());
    shelf.put("/calculator.wsdl", WSDL);
    let schemas = shelf.serve();
    let policies = format!(
        "{{ soap: {{ schema: \"{}/calculator.wsdl\", action: required, verbose: true, fetch: {{}} }} }}",
        schemas.url()
    );
    let gateway = gateway_with(&echo, &policies, &[]);
    let ask = |action: &str, body: &str| {
        post_to(&gateway, "/", &format!("Content-Type: text/xml\r\n{action}"), body)
    };
    let action = "SOAPAction: http://tempuri.org/Add\r\n";
    assert_eq!(ask(action, &add()).text(), "ok");
    assert!(ask("", &add()).text().contains("according to the WSDL this value is"));
    let wrong = envelope(SOAP_11, &operation("Add", "x", "7"));
    assert!(ask(action, &wrong).text().contains("Error code: 1824"));
    assert_eq!(counted(&gateway, FETCHES, &[GOOD]), 1);
    assert_eq!(schemas.requests().len(), 1, "once for all messages");
}

#[test]
fn compiled_once_expired_in_time_and_anew_after_a_change() {
    let echo = Origin::echo();
    let sheet = saying("1.0", "<n>1</n>", "<x:include href=\"more.xsl\"/>");
    let more = |name: &str| {
        format!(
            "<x:stylesheet version=\"1.0\" xmlns:x=\"http://www.w3.org/1999/XSL/Transform\"><x:template match=\"{name}\"/></x:stylesheet>"
        )
    };
    let files: &[(&str, &str)] = &[("sheet.xsl", &sheet), ("more.xsl", &more("a"))];
    let ask = |gateway: &Gateway| assert!(post(gateway, "<a/>").text().ends_with("<n>1</n>"));
    let compiled = |gateway: &Gateway| counted(gateway, COMPILATIONS, &[GOOD, "sheet.xsl"]);
    let policies = "{ xslt: { on: request, stylesheet: sheet.xsl } }, { xslt: { on: response, stylesheet: sheet.xsl } }";
    let gateway = gateway_with(&echo, policies, files);
    (0..20).for_each(|_| ask(&gateway));
    assert_eq!(compiled(&gateway), 1, "for both policies and all messages");
    // A module that only the stylesheet names is watched.
    gateway.put("more.xsl", &more("b"));
    until("it is compiled anew", || compiled(&gateway) == 2);
    ask(&gateway);

    let policies = "{ xslt: { on: request, stylesheet: sheet.xsl, fetch: { ttl: 50ms } } }";
    let gateway = gateway_with(&echo, policies, files);
    until("it was compiled four times", || {
        ask(&gateway);
        compiled(&gateway) >= 4
    });
    assert_eq!(counted(&gateway, COMPILATIONS, &[BAD]), 0);
}

#[test]
fn a_change_of_the_pace_keeps_the_last_good_definition() {
    let (echo, shelf) = (Origin::echo(), Shelf::default());
    shelf.put("/sheet.xsl", saying("1.0", "<n>1</n>", ""));
    let sheets = shelf.serve();
    let policies = |pace: &str| {
        let url = sheets.url();
        format!(
            "{{ xslt: {{ on: request, stylesheet: \"{url}/sheet.xsl\", fetch: {{ {pace} }} }} }}"
        )
    };
    let before = policies("ttl: 1h");
    let gateway = gateway_with(&echo, &before, &[]);
    let serves = |pace: &str| {
        let reply = post(&gateway, "<a/>").text();
        assert!(reply.ends_with("<n>1</n>"), "{pace}: {reply}");
    };
    serves("ttl: 1h");
    shelf.take("/sheet.xsl");
    let yaml = std::fs::read_to_string(gateway.path("tidegate.yaml")).unwrap();
    for pace in ["ttl: 2h", "ttl: 2h, timeout: 2s", "ttl: 1h, background: false", "ttl: 1h"] {
        let failed = counted(&gateway, FETCHES, &[BAD]);
        gateway.rewrite(yaml.replace(&before, &policies(pace)));
        until("the new plan has tried to fetch it", || {
            serves(pace);
            counted(&gateway, FETCHES, &[BAD]) > failed
        });
        serves(pace);
    }
}

/// Issue 18.9: a definition that cannot be fetched, or does not compile, is the operator's to know. `errors: kong` alone names
/// the location, which is the definition's own word, since those faults are compared to the letter.
#[test]
fn what_cannot_be_fetched_is_told_without_hosts_and_without_the_systems_error() {
    let (echo, shelf) = (Origin::echo(), Shelf::default());
    shelf.put("/a/types.xsd", "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" targetNamespace=\"http://t/types\"><xs:element name=\"n\" type=\"xs:nothing\"/></xs:schema>");
    let schemas = shelf.serve();
    let port = ClosedPort::any();
    let closed = format!("http://{}", port.address);
    let main = |url: &str| {
        format!(
            "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" targetNamespace=\"http://t/main\"><xs:import namespace=\"http://t/types\" schemaLocation=\"{url}/a/types.xsd\"/></xs:schema>"
        )
    };
    let sheet =
        |url: &str| saying("1.0", "<n/>", &format!("<x:include href=\"{url}/a/types.xsd\"/>"));
    let soap = "{ soap: { schema: main.xsd, verbose: true, fetch: { timeout: 1s } } }";
    let xslt =
        "{ xslt: { on: request, stylesheet: sheet.xsl, verbose: true, fetch: { timeout: 1s } } }";
    for (url, told) in [(&closed, "cannot be fetched"), (&schemas.url(), "types.xsd")] {
        let files = &[("main.xsd", &*main(url)), ("sheet.xsl", &*sheet(url))];
        for policy in [soap, xslt] {
            for errors in ["", "errors: wso2, ", "errors: kong, "] {
                let case = format!("{errors}{policy} with {url}");
                let gateway =
                    gateway_to(&echo.url(), &format!("{errors}policies: [{policy}]"), files);
                let reply = post(&gateway, &envelope(SOAP_11, "<n xmlns=\"http://t/types\"/>"));
                let text = reply.text();
                assert_eq!(reply.status(), 500, "{case}: {text}");
                assert!(!text.contains("os error") && !text.contains("refused"), "{case}: {text}");
                // A document that is not a stylesheet is reported in libxslt's words, which name no document.
                let of_sheet = (policy == xslt && *url != closed)
                    .then_some("xsltParseStylesheetProcess : document is not a stylesheet");
                if errors.contains("kong") && of_sheet.is_none() {
                    assert!(text.contains(&format!("{url}/a/types.xsd")), "{case}: {text}")
                } else {
                    let told = of_sheet.unwrap_or(told);
                    let told = if errors.contains("wso2") { "" } else { told };
                    assert!(!text.contains("127.0.0.1") && text.contains(told), "{case}: {text}");
                }
                // The log has all of it.
                gateway.wait_for_log(&format!("{url}/a/types.xsd"));
            }
        }
    }
}
