//! The native engine's output for users who know libxslt from Kong's plugins: it is equal byte for byte.

use super::*;

fn sheet(output: &str, body: &str) -> String {
    format!(
        "<x:stylesheet version=\"1.0\" xmlns:x=\"http://www.w3.org/1999/XSL/Transform\">{output}{body}</x:stylesheet>"
    )
}

/// Runs on events.
const COPY: &str = "<x:template match=\"@*|node()\"><x:copy><x:apply-templates select=\"@*|node()\"/></x:copy></x:template>";

/// Needs a tree.
const SORTED: &str = "<x:template match=\"@*|node()\"><x:copy><x:apply-templates select=\"@*|node()[last() &gt; 0]\"/></x:copy></x:template>";

const MESSAGE: &str = "<?xml version=\"1.0\"?>\n<!-- c -->\n<a z=\"1\" b=\"&lt;&gt;&#10;\" xmlns:p=\"urn:2\" xmlns:q=\"urn:1\" p:x=\"3\" q:y=\"4\"><b/><c><![CDATA[1 < 2]]></c>\n</a>\n<?p d?>";

const CANONICAL: &str = "<!-- c -->\n<a xmlns:p=\"urn:2\" xmlns:q=\"urn:1\" b=\"&lt;>&#xA;\" z=\"1\" q:y=\"4\" p:x=\"3\"><b></b><c>1 &lt; 2</c>\n</a>\n<?p d?>";

/// The reply to a message that is sent to an echo.
fn echoed(route: &str, sheet: &str, message: &str) -> String {
    let origin = Origin::echo();
    let gateway = gateway_to(&origin.url(), route, &[("sheet.xsl", sheet)]);
    let replies: Vec<String> = (0..3).map(|_| post(&gateway, message).text()).collect();
    // The second time its beginning is known, and the third its markup.
    assert!(replies.iter().all(|reply| *reply == replies[0]), "{replies:?}");
    replies[0].clone()
}

const KONG: &str =
    "errors: kong, policies: [{ xslt: { on: request, stylesheet: sheet.xsl, verbose: true } }]";

#[test]
fn a_result_is_canonical_where_kongs_users_expect_it() {
    let declared = |declaration: &str| format!("{declaration}{CANONICAL}");
    for body in [COPY, SORTED] {
        for (output, expected) in [
            ("", declared("<?xml version=\"1.0\" encoding=\"utf-8\"?>")),
            (
                "<x:output indent=\"yes\" encoding=\"Utf-8\"/>",
                declared("<?xml version=\"1.0\" encoding=\"Utf-8\"?>\n"),
            ),
            (
                "<x:output method=\"xml\" encoding=\"UTF-8\" omit-xml-declaration=\"no\"/>",
                declared("<?xml version=\"1.0\" encoding=\"UTF-8\"?>"),
            ),
            ("<x:output indent=\"yes\" omit-xml-declaration=\"yes\"/>", declared("")),
            (
                "<x:output cdata-section-elements=\"c\" doctype-system=\"a.dtd\"/>",
                declared("<?xml version=\"1.0\" encoding=\"utf-8\"?>"),
            ),
        ] {
            assert_eq!(echoed(KONG, &sheet(output, body), MESSAGE), expected, "{output} {body}");
        }
    }
    // Elsewhere the stylesheet is asked, and each form may be had on any route.
    let plain = "<!-- c --><a xmlns:p=\"urn:2\" xmlns:q=\"urn:1\" z=\"1\" b=\"&lt;&gt;&#10;\" p:x=\"3\" q:y=\"4\"><b/><c>1 &lt; 2</c>\n</a><?p d?>";
    for (route, expected) in [
        ("policies: [{ xslt: { on: request, stylesheet: sheet.xsl } }]", plain),
        (
            "policies: [{ xslt: { on: request, stylesheet: sheet.xsl, output: canonical } }]",
            CANONICAL,
        ),
        (
            "errors: kong, policies: [{ xslt: { on: request, stylesheet: sheet.xsl, output: plain } }]",
            plain,
        ),
    ] {
        let sheet = sheet("<x:output omit-xml-declaration=\"yes\"/>", COPY);
        assert_eq!(echoed(route, &sheet, MESSAGE), expected, "{route}");
    }
}

#[test]
fn replies_are_canonical_too_and_other_methods_stay_as_they_are() {
    let line = "Content-Type: text/xml; charset=utf-8\r\n";
    let origin = Origin::answering(answer(200, line, b"<r b='2' a='1'><e/></r>"));
    let route = "errors: kong, policies: [{ xslt: { on: response, stylesheet: sheet.xsl } }]";
    for (output, expected) in [
        (
            "<x:output indent=\"yes\"/>",
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<r a=\"1\" b=\"2\"><e></e></r>",
        ),
        ("<x:output method=\"text\"/>", ""),
        ("<x:output method=\"html\" indent=\"no\"/>", "<r b=\"2\" a=\"1\"><e></e></r>"),
    ] {
        let gateway = gateway_to(&origin.url(), route, &[("sheet.xsl", &sheet(output, COPY))]);
        assert_eq!(post(&gateway, "<q/>").text(), expected, "{output}");
    }
}

#[test]
fn empty_namespaces_go_from_what_is_canonical() {
    let body = "<x:template match=\"/\"><r xmlns=\"urn:r\"><x:element name=\"e\" namespace=\"\"/></r></x:template>";
    let declaration = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";
    let expected = format!("{declaration}<r xmlns=\"urn:r\"><e></e></r>");
    assert_eq!(echoed(KONG, &sheet("", body), "<a/>"), expected);
    let keeping = KONG.replace("verbose: true", "strip_empty_namespaces: false");
    let expected = format!("{declaration}<r xmlns=\"urn:r\"><e xmlns=\"\"></e></r>");
    assert_eq!(echoed(&keeping, &sheet("", body), "<a/>"), expected);
}

#[test]
fn lines_of_faults_are_those_of_the_canonical_text() {
    let bad = add().replace("<intA>5</intA>", "<intA>five</intA>").replace("?>\n", "?>\n\n\n");
    for (output, line) in [
        ("", 3),
        ("<x:output indent=\"yes\"/>", 4),
        ("<x:output omit-xml-declaration=\"yes\"/>", 3),
    ] {
        let route = "errors: kong, policies: [{ xslt: { on: request, stylesheet: sheet.xsl } }, { soap: { schema: calculator.wsdl, verbose: true } }]";
        let fault = echoed(route, &sheet(output, COPY), &bad);
        // The operation's element is on the third line of an envelope that begins on the first.
        let said = format!("Error Node: intA, Error code: 1824, Line: {}, ", line + 1);
        assert!(fault.contains(&said), "{output}: {fault}");
    }
}

#[test]
fn the_key_is_not_for_saxon() {
    let later = sheet("", COPY).replace("1.0", "2.0");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    let yaml = "listen: { public: { address: \"127.0.0.1:0\" } }\nupstreams: { o: { targets: [\"http://127.0.0.1:1\"] } }\nroutes: { all: { match: { path: /** }, upstream: o, policies: [{ xslt: { on: request, stylesheet: sheet.xsl, engine: ENGINE, output: canonical } }] } }\n";
    std::fs::write(folder.path().join("sheet.xsl"), later).unwrap();
    std::fs::write(&path, yaml.replace("ENGINE", "saxon")).unwrap();
    let run = crate::harness::tidegate(&["check".as_ref(), path.as_os_str()]);
    let said = format!("{}{}", run.stdout, run.stderr);
    assert!(said.contains("`output` applies only to the native engine"), "{said}");
}

/// The functions of EXSLT for the time have one where none is given.
#[test]
fn a_stylesheet_may_ask_what_time_it_is() {
    let origin = Origin::echo();
    let sheet = r#"<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns:date="http://exslt.org/dates-and-times"><xsl:output method="text"/><xsl:template match="/"><xsl:value-of select="concat(date:seconds(), ' ', date:seconds(date:date-time()))"/></xsl:template></xsl:stylesheet>"#;
    let route = "policies: [{ xslt: { side: request, stylesheet: time.xsl, verbose: true } }]";
    let gateway = gateway_to(&origin.url(), route, &[("time.xsl", sheet)]);
    let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let before = now();
    let reply = post(&gateway, &add());
    let text = reply.text();
    assert_eq!(reply.status(), 200, "{text}");
    let told: Vec<u64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
    let [seconds, of_text] = told[..] else { panic!("{text}") };
    assert!((before..=now()).contains(&seconds), "{before} {text}");
    assert_eq!(seconds, of_text);
}
