//! Definitions and keys that are wrong.

use super::*;
use crate::harness::tidegate;

/// The complaints of `check` about a configuration with these keys of its route.
pub(super) fn complaints(route: &str, files: &[(&str, &str)]) -> String {
    checked(route, files).1
}

/// True if `check` finds it good, and its output.
pub(super) fn checked(route: &str, files: &[(&str, &str)]) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ o: {{ targets: [\"http://127.0.0.1:1\"] }} }}\nroutes: {{ all: {{ match: {{ path: /** }}, upstream: o, {route} }} }}\n"
    );
    std::fs::write(&path, yaml).unwrap();
    for (name, text) in FILES.iter().chain(files) {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let run = tidegate(&["check".as_ref(), path.as_os_str()]);
    (run.code == Some(0), format!("{}{}", run.stdout, run.stderr))
}

#[test]
fn a_wrong_definition_is_complained_about_with_its_place() {
    let wsdl = WSDL.replacen("type=\"xsd:int\"", "type=\"xsd:nothing\"", 1);
    let root = WSDL.replace("wsdl:definitions", "wsdl:definition");
    let sheet = RENAME.replace("t:Subtract", "t:Subtract[");
    let later = RENAME.replace("version=\"1.0\" xmlns", "version=\"2.0\" xmlns");
    let files: &[(&str, &str)] = &[
        ("wrong.wsdl", &wsdl),
        ("root.wsdl", &root),
        ("wrong.xsl", &sheet),
        ("later.xsl", &later),
    ];
    for (policy, said) in [
        ("soap: { schema: wrong.wsdl }", "wrong.wsdl:13:"),
        ("soap: { schema: root.wsdl }", "neither a WSDL's nor a schema's"),
        ("soap: { schema: none.wsdl }", "cannot read"),
        ("soap: { schema: calculator.xsd, action: required }", "is not a WSDL"),
        ("soap: { action: optional }", "needs a WSDL"),
        ("soap: { imports: { a: calculator.xsd } }", "`imports` needs `schema`"),
        ("soap: { envelope: { \"1.3\": calculator.xsd } }", "not a SOAP version"),
        ("soap: { versions: [\"1.3\"] }", "unknown value"),
        ("xslt: { on: request, stylesheet: wrong.xsl }", "wrong.xsl:"),
        (
            "xslt: { on: request, stylesheet: later.xsl, engine: native }",
            "only 1.1 features are supported",
        ),
        (
            "xpath_route: { cases: [{ xpath: \"//t:a\", equals: x, upstream: o }] }",
            "the expression",
        ),
        (
            "xpath_route: { cases: [{ xpath: \"//a\", equals: x, upstream: p }] }",
            "there is no upstream `p`",
        ),
        ("xpath_route: { cases: [{ xpath: \"//a\", equals: x }] }", "needs `upstream` or `url`"),
    ] {
        let said_all = complaints(&format!("policies: [{{ {policy} }}]"), files);
        let plain = said.replace('"', "`");
        assert!(said_all.contains(said) || said_all.contains(&plain), "{policy}: {said_all}");
    }
}

#[test]
fn a_wrong_definition_may_be_answered_with_faults() {
    let origin = Origin::saying("never");
    let root = WSDL.replace("wsdl:definitions", "wsdl:definition");
    let route = "errors: kong, policies: [{ soap: { schema: root.wsdl, verbose: true } }]";
    let gateway = gateway_to(&origin.url(), route, &[("root.wsdl", &root)]);
    for _ in 0..2 {
        assert_fault(
            &post(&gateway, &add()),
            "Client",
            "Request - XSD validation failed",
            "Unable to find a suitable Schema to validate the SOAP/XML",
        );
    }
    let route = "policies: [{ xslt: { on: request, stylesheet: later.xsl, engine: native, bad_definitions: fault, verbose: true } }]";
    let later = RENAME.replace("version=\"1.0\" xmlns", "version=\"2.0\" xmlns");
    let gateway = gateway_to(&origin.url(), route, &[("later.xsl", &later)]);
    let reply = post(&gateway, &add());
    assert_eq!(reply.status(), 500);
    assert!(reply.text().contains("only 1.1 features are supported"), "{}", reply.text());
    assert!(reply.text().contains("<faultcode>soap:Server</faultcode>"), "{}", reply.text());
}

#[test]
fn imports_are_found_beside_and_by_the_map() {
    let origin = Origin::saying("ok");
    let types = "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" targetNamespace=\"http://t/types\"><xs:simpleType name=\"Small\"><xs:restriction base=\"xs:int\"><xs:maxInclusive value=\"9\"/></xs:restriction></xs:simpleType></xs:schema>";
    for (location, imports) in [
        ("types.xsd", ""),
        ("http://nowhere.test/t.xsd", ", imports: { \"http://nowhere.test/t.xsd\": types.xsd }"),
    ] {
        let schema = format!(
            "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" xmlns:t=\"http://t/types\" targetNamespace=\"http://t/\"><xs:import namespace=\"http://t/types\" schemaLocation=\"{location}\"/><xs:element name=\"Add\" type=\"t:Small\"/></xs:schema>"
        );
        let route = format!(
            "errors: kong, policies: [{{ soap: {{ schema: main.xsd, verbose: true {imports} }} }}]"
        );
        let files: &[(&str, &str)] = &[("main.xsd", &schema), ("types.xsd", types)];
        let gateway = gateway_to(&origin.url(), &route, files);
        let message =
            |value: &str| envelope(SOAP_11, &format!("<Add xmlns=\"http://t/\">{value}</Add>"));
        assert_eq!(post(&gateway, &message("9")).text(), "ok", "{location}");
        let reply = post(&gateway, &message("10"));
        assert!(reply.text().contains("Error code: 1834"), "{location}: {}", reply.text());
    }
}

#[test]
fn what_cannot_be_fetched_or_counted_is_complained_about() {
    let main = "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" xmlns:t=\"http://t/types\" targetNamespace=\"http://t/\"><xs:import namespace=\"http://t/types\" schemaLocation=\"http://u.test/t.xsd\"/><xs:element name=\"Add\" type=\"t:Small\"/></xs:schema>";
    let wrong = main.replace("http://u.test/t.xsd", "http://user@u.test/t.xsd");
    let naming = RENAME.replace(
        "<xsl:template match=\"t:Subtract\">",
        "<xsl:include href=\"http://u.test/m.xsl\"/><xsl:template match=\"t:Subtract\">",
    );
    let files: &[(&str, &str)] =
        &[("main.xsd", main), ("wrong.xsd", &wrong), ("naming.xsl", &naming)];
    for (policies, said) in [
        (
            "{ soap: { schema: main.xsd } }",
            "`http://u.test/t.xsd` is imported, but `fetch` is not set",
        ),
        ("{ soap: { schema: wrong.xsd, fetch: {} } }", "a user name or password"),
        ("{ soap: { schema: calculator.wsdl, fetch: { every: 1h } } }", "unknown key \"every\""),
        (
            "{ soap: { schema: \"https://u.test/s.wsdl\" } }",
            "`https://u.test/s.wsdl` is a URL, but `fetch` is not set",
        ),
        (
            "{ soap: { envelope: { \"1.1\": \"http://u.test/e.xsd\" } } }",
            "`http://u.test/e.xsd` is a URL, but `fetch` is not set",
        ),
        (
            "{ xslt: { on: request, stylesheet: \"http://u.test/s.xsl\" } }",
            "`http://u.test/s.xsl` is a URL, but `fetch` is not set",
        ),
        ("{ xslt: { on: request, stylesheet: naming.xsl } }", "or add `fetch: { ttl: 1h }`"),
        (
            "{ soap: { schema: \"http://u.test/s.wsdl\", fetch: {} } }, { rate_limit: { requests: 1, per: 1s, by: operation } }",
            "counts by operation, but no operation is known",
        ),
        ("{ soap: { schema: calculator.wsdl, fetch: { ttl: 0s } } }", "tidegate.yaml:3:"),
        (
            "{ rate_limit: { requests: 1, per: 1s, by: operation } }, { soap: { schema: calculator.wsdl } }",
            "counts by operation, but no operation is known",
        ),
        (
            "{ soap: {} }, { concurrency: { requests: 1, by: operation } }",
            "counts by operation, but no operation is known",
        ),
    ] {
        let said_all = complaints(&format!("policies: [{policies}]"), files);
        let plain = said.replace('"', "`");
        assert!(said_all.contains(said) || said_all.contains(&plain), "{policies}: {said_all}");
    }
    // With `fetch`, the definition was not compiled yet.
    let said = complaints("policies: [{ soap: { schema: main.xsd, fetch: {} } }]", files);
    assert!(!said.contains("main.xsd:"), "{said}");
}

#[test]
fn a_location_that_is_no_url_is_a_warning_where_faults_answer() {
    let schema = "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\"><xs:import namespace=\"urn:t\" schemaLocation=\"http://127.0.0.1:1/a b.xsd\"/></xs:schema>";
    let route = "errors: kong, policies: [{ soap: { schema: t.xsd, verbose: true, fetch: { timeout: 100ms } } }]";
    let said = complaints(route, &[("t.xsd", schema)]);
    assert!(said.contains("warning: the URL") && !said.contains(": error"), "{said}");
    let origin = Origin::saying("never");
    let gateway = gateway_to(&origin.url(), route, &[("t.xsd", schema)]);
    let reply = post(&gateway, &add());
    assert_eq!(reply.status(), 500);
    assert!(reply.text().contains("a b.xsd"), "{}", reply.text());
}

#[test]
fn types_without_elements_are_types() {
    let from = WSDL.find("<xsd:element").unwrap();
    let wsdl = format!(
        "{}<xsd:simpleType name=\"T\"><xsd:restriction base=\"xsd:int\"/></xsd:simpleType></xsd:schema></wsdl:types></wsdl:definitions>",
        &WSDL[..from]
    );
    let without = format!("{}</wsdl:definitions>", &WSDL[..WSDL.find("<wsdl:types>").unwrap()]);
    let origin = Origin::saying("never");
    let route = "errors: kong, policies: [{ soap: { schema: rpc.wsdl, verbose: true } }]";
    for (wsdl, said) in [
        (wsdl, "Error Node: Add, Error code: 1845"),
        (without, "Unable to find the 'Less Than wsdl:types Greater Than'"),
    ] {
        let gateway = gateway_to(&origin.url(), route, &[("rpc.wsdl", &wsdl)]);
        let reply = post(&gateway, &add()).text();
        assert!(reply.contains(said), "{reply}");
    }
}

/// The text for a client, or an empty text if the message passes.
fn told(route: &str, files: &[(&str, &str)]) -> String {
    let origin = Origin::saying("");
    let gateway =
        gateway_to(&origin.url(), &format!("errors: kong, policies: [{{ {route} }}]"), files);
    let text = post(&gateway, &add()).text();
    let message = text.split("<errorMessage>").nth(1).unwrap_or_default();
    message.split("</errorMessage>").next().unwrap_or_default().to_owned()
}

#[test]
fn a_client_is_told_what_is_wrong_and_not_where_files_are() {
    let types = WSDL.find("<wsdl:types>").unwrap()..WSDL.find("</wsdl:types>").unwrap() + 13;
    let mut untyped = WSDL.to_owned();
    untyped.replace_range(types, "");
    let unknown = XSD.replace("xsd:integer", "xsd:nothing");
    let names = "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\"><xs:include schemaLocation=\"unknown.xsd\"/></xs:schema>";
    let files: &[(&str, &str)] = &[
        ("untyped.wsdl", &untyped),
        ("unknown.xsd", &unknown),
        ("names.xsd", names),
        ("no.xsd", "no xml"),
        ("no.xsl", "<a>"),
    ];
    let no_xml = "Error code: 4, Line: 1, Message: Start tag expected, 'Less Than' not found";
    for (route, said) in [
        (
            "soap: { schema: untyped.wsdl, verbose: true }",
            "Invalid WSDL/XSD schema. Unable to find the 'Less Than wsdl:types Greater Than'"
                .to_owned(),
        ),
        ("soap: { schema: no.xsd, verbose: true }", format!("Invalid WSDL/XSD schema. {no_xml}")),
        (
            "soap: { envelope: { \"1.1\": no.xsd }, verbose: true }",
            format!(
                "Invalid XSD schema. {no_xml}. Error code: 3067, Line: 0, Message: Failed to parse the XML resource 'in_memory_buffer'."
            ),
        ),
    ] {
        assert_eq!(told(route, files), said, "{route}");
    }
    for (route, said) in [
        ("soap: { schema: unknown.xsd, verbose: true }", "unknown.xsd:"),
        ("soap: { schema: names.xsd, verbose: true }", "unknown.xsd:"),
    ] {
        let text = told(route, files);
        assert!(text.starts_with(said), "{route}: {text}");
    }
}

/// Only the log has it: hosts of upstreams and the content at their URLs are not shown to clients.
#[test]
fn a_client_is_not_told_what_a_stylesheet_asked_for() {
    let asks = "<xsl:stylesheet version=\"1.0\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\"><xsl:template match=\"/\"><xsl:copy-of select=\"document('http://inner.corp/x?token=SECRET')\"/></xsl:template></xsl:stylesheet>";
    let text =
        told("xslt: { on: request, stylesheet: asks.xsl, verbose: true }", &[("asks.xsl", asks)]);
    assert!(text.contains("cannot load a document"), "{text}");
    assert!(!text.contains("inner.corp") && !text.contains("SECRET"), "{text}");
}

/// In the format that clients of WSO2 API Manager compare. Lines of a stylesheet are in `check` and the log.
#[test]
fn a_stylesheet_is_told_in_the_words_of_libxml2_and_libxslt() {
    let later = RENAME.replace("version=\"1.0\" xmlns", "version=\"2.0\" xmlns");
    let naming = |file: &str| {
        RENAME.replace(
            "<xsl:template match=\"t:Subtract\">",
            &format!("<xsl:include href=\"{file}\"/><xsl:template match=\"t:Subtract\">"),
        )
    };
    let (absent, broken) = (naming("sub/none.xsl"), naming("text.xsl"));
    let expression = RENAME.replace("t:Subtract", "t:Subtract[");
    let files: &[(&str, &str)] = &[
        ("later.xsl", &later),
        ("text.xsl", "no xml"),
        ("empty.xsl", ""),
        ("open.xsl", "\n<p:a xmlns:p='urn:p'>\n<b>\n"),
        ("crossed.xsl", "<a>\n<b>\n</a>"),
        ("other.xsl", "<a/>"),
        ("absent.xsl", &absent),
        ("broken.xsl", &broken),
        ("expression.xsl", &expression),
    ];
    for (file, said) in [
        ("later.xsl", "compilation error. xsl:version: only 1.1 features are supported"),
        ("text.xsl", "Error code: 4, Line: 1, Message: Start tag expected, 'Less Than' not found"),
        ("empty.xsl", "Error code: 4, Line: 1, Message: Document is empty"),
        ("open.xsl", "Error code: 77, Line: 4, Message: Premature end of data in tag b line 3"),
        (
            "crossed.xsl",
            "Error code: 76, Line: 3, Message: Opening and ending tag mismatch: b line 2 and a",
        ),
        (
            "other.xsl",
            "compilation error. xsltParseStylesheetProcess : document is not a stylesheet",
        ),
        ("absent.xsl", "Failed to parse the XML resource 'sub/none.xsl'."),
        ("broken.xsl", "Failed to parse the XML resource 'text.xsl'."),
    ] {
        let route =
            format!("xslt: {{ on: request, stylesheet: {file}, engine: native, verbose: true }}");
        assert_eq!(told(&route, files), format!("Invalid XSLT definition. {said}"), "{file}");
    }
    let text = told("xslt: { on: request, stylesheet: expression.xsl, verbose: true }", files);
    assert!(text.starts_with("Invalid XSLT definition. compilation error. "), "{text}");
    assert!(!text.contains("expression.xsl"), "{text}");
    // The operator has the place.
    let said = complaints("policies: [{ xslt: { on: request, stylesheet: crossed.xsl } }]", files);
    assert!(said.contains("crossed.xsl:3:"), "{said}");
}

#[test]
fn what_a_definition_names_and_cannot_be_used_is_told() {
    let schema = |location: &str| {
        format!(
            "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" xmlns:t=\"urn:t\"><xs:import namespace=\"urn:t\" schemaLocation=\"{location}\"/><xs:element name=\"Add\" type=\"t:T\"/></xs:schema>"
        )
    };
    let wsdl = |location: &str| {
        format!(
            "<w:definitions xmlns:w=\"http://schemas.xmlsoap.org/wsdl/\"><w:import namespace=\"urn:t\" location=\"{location}\"/></w:definitions>"
        )
    };
    let (absent, text, within) =
        (schema("parts/none.xsd"), schema("text.xsd"), schema("names.xsd"));
    let (gone, other, no_xml) = (wsdl("none.wsdl"), wsdl("other.wsdl"), wsdl("text.xsd"));
    let files: &[(&str, &str)] = &[
        ("absent.xsd", &absent),
        ("text.xsd", "no xml"),
        ("no-xml.xsd", &text),
        ("within.xsd", &within),
        (
            "names.xsd",
            "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" targetNamespace=\"urn:t\"><xs:include schemaLocation=\"http://h.test/none.xsd\"/></xs:schema>",
        ),
        ("gone.wsdl", &gone),
        ("root.wsdl", &other),
        ("other.wsdl", "<w:definition xmlns:w=\"http://schemas.xmlsoap.org/wsdl/\"/>"),
        ("no-xml.wsdl", &no_xml),
    ];
    let unparsed = |name: &str| format!("Failed to parse the XML resource '{name}'.");
    for (file, said) in [
        ("absent.xsd", unparsed("parts/none.xsd")),
        ("no-xml.xsd", unparsed("text.xsd")),
        ("within.xsd", unparsed("http://h.test/none.xsd")),
        ("gone.wsdl", unparsed("none.wsdl")),
        ("no-xml.wsdl", unparsed("text.xsd")),
        (
            "root.wsdl",
            "Invalid WSDL/XSD schema. The root of the imported 'other.wsdl' is 'definition', and that of a WSDL is 'definitions' or 'description'".to_owned(),
        ),
    ] {
        let route = format!("soap: {{ schema: {file}, verbose: true }}");
        assert_eq!(told(&route, files), said, "{file}");
    }
    // With the name in the configuration, wherever the file is.
    let mapped = schema("http://h.test/t.xsd");
    let files: &[(&str, &str)] = &[("mapped.xsd", &mapped), ("text.xsd", "no xml")];
    let route = "soap: { schema: mapped.xsd, imports: { \"http://h.test/t.xsd\": text.xsd }, verbose: true }";
    assert_eq!(told(route, files), unparsed("http://h.test/t.xsd"));
}

#[test]
fn a_schema_may_have_a_document_type_or_be_a_comment() {
    let typed = format!(
        "<?xml version=\"1.0\"?><!DOCTYPE schema PUBLIC \"-//W3C//DTD XMLSCHEMA 200102//EN\" \"http://www.w3.org/2001/XMLSchema.dtd\" [<!ENTITY % p ''>]>{}",
        XSD.trim_start_matches("<?xml version=\"1.0\" encoding=\"utf-8\"?>").trim_start()
    );
    let described = typed.replace(
        XSD.trim_start_matches("<?xml version=\"1.0\" encoding=\"utf-8\"?>").trim_start(),
        WSDL.trim_start_matches("<?xml version=\"1.0\" encoding=\"utf-8\"?>").trim_start(),
    );
    let files: &[(&str, &str)] =
        &[("typed.xsd", &typed), ("typed.wsdl", &described), ("none.xsd", "<!-- none -->\n")];
    for schema in ["typed.xsd", "typed.wsdl", "none.xsd"] {
        assert_eq!(
            told(&format!("soap: {{ schema: {schema}, verbose: true }}"), files),
            "",
            "{schema}"
        );
    }
    let said = complaints("policies: [{ soap: { schema: typed.xsd, action: required } }]", files);
    assert!(said.contains("is not a WSDL"), "{said}");
    let said = complaints("policies: [{ soap: { schema: none.xsd, action: required } }]", files);
    assert!(said.contains("needs a WSDL"), "{said}");
}

#[test]
fn a_file_that_is_named_and_missing_is_told() {
    let schema = "<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\"><xs:include schemaLocation=\"parts/none.xsd\"/><xs:element name=\"Add\" type=\"TYPE\"/></xs:schema>";
    let (unused, needed) = (schema.replace("TYPE", "xs:int"), schema.replace("TYPE", "Number"));
    let files: &[(&str, &str)] = &[("unused.xsd", &unused), ("needed.xsd", &needed)];
    let named = "refers to `parts/none.xsd`, which cannot be read";
    let said = complaints("policies: [{ soap: { schema: unused.xsd } }]", files);
    assert!(
        said.contains("warning: ") && said.contains(named) && !said.contains("error"),
        "{said}"
    );
    let said = complaints("policies: [{ soap: { schema: needed.xsd } }]", files);
    assert!(said.contains(named) && said.contains("Number"), "{said}");
}
