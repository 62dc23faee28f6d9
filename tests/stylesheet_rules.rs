//! Stylesheets as other processors run them: formats of numbers, encodings, and names that lead nowhere.

use crate::harness::{Gateway, Origin};
use crate::soap_services::{checked, post, yaml};

fn sheet(body: &str) -> String {
    format!(
        "<xsl:stylesheet version=\"1.0\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\" xmlns:func=\"http://exslt.org/functions\" extension-element-prefixes=\"func\">{body}</xsl:stylesheet>"
    )
}

/// A gateway that transforms requests and sends the result back.
fn transforming(body: &str, more: &str) -> (Gateway, Origin) {
    let origin = Origin::echo();
    let route = format!("policies: [{{ xslt: {{ on: request, stylesheet: a.xsl{more} }} }}]");
    let gateway = Gateway::start_beside(yaml(&origin, &route), &[("a.xsl", &sheet(body))]);
    (gateway, origin)
}

/// The value of an expression, as a message gets it.
fn value(expression: &str, more: &str) -> String {
    let body = format!(
        "<xsl:output method=\"text\"/><xsl:template match=\"/\"><xsl:value-of select=\"{expression}\"/></xsl:template>"
    );
    let (gateway, _origin) = transforming(&body, more);
    let reply = post(&gateway, "", "<x/>");
    assert_eq!(reply.status(), 200, "{expression}: {}", reply.text());
    reply.text()
}

/// The expected values are those of xsltproc.
#[test]
fn numbers_are_formatted_as_other_processors_do() {
    for (expression, text) in [
        ("format-number(0.5, '#.##')", "0.5"),
        ("format-number(-0.5, '#.##')", "-0.5"),
        ("format-number(0.25, '.00')", ".25"),
        ("format-number(0, '#.##')", "0"),
        ("format-number(-0.001, '0.00')", "-0.00"),
        ("format-number(1234.5, '#,##0.00')", "1,234.50"),
        ("element-available('func:result')", "true"),
        ("element-available('func:function')", "false"),
    ] {
        assert_eq!(value(expression, ""), text, "{expression}");
    }
}

/// A character that the encoding lacks becomes a reference where one is allowed, and is an error elsewhere.
#[test]
fn characters_that_an_encoding_lacks_are_not_replaced() {
    let output = "<xsl:output encoding=\"us-ascii\"/><xsl:template match=\"/\">";
    let texts = format!("{output}<a b=\"straße\">straße</a></xsl:template>");
    let (gateway, _origin) = transforming(&texts, "");
    let reply = post(&gateway, "", "<x/>").text();
    assert!(reply.contains("<a b=\"stra&#223;e\">stra&#223;e</a>"), "{reply}");
    for wrong in ["<straße/>", "<a straße=\"\"/>", "<xsl:comment>straße</xsl:comment>"] {
        let body = format!("{output}<r>{wrong}</r></xsl:template>");
        let (gateway, _origin) = transforming(&body, "");
        let reply = post(&gateway, "", "<x/>");
        assert!(reply.status() >= 400, "{wrong}: {} {}", reply.status(), reply.text());
    }
}

/// A stylesheet that names a template, a variable or an attribute set that it lacks works for messages that never reach the name.
#[test]
fn what_is_not_there_fails_where_it_is_reached() {
    for (called, said) in [
        ("<xsl:call-template name=\"none\"/>", "there is no template `none`"),
        ("<xsl:value-of select=\"$none\"/>", "there is no variable `$none`"),
        (
            "<xsl:element name=\"e\" use-attribute-sets=\"none\"/>",
            "there is no attribute set `none`",
        ),
    ] {
        let body = format!(
            "<xsl:template match=\"/\"><r><xsl:if test=\"/reach\">{called}</xsl:if></r></xsl:template>"
        );
        let (gateway, _origin) = transforming(&body, "");
        let reply = post(&gateway, "", "<x/>");
        assert_eq!(reply.status(), 200, "{said}: {}", reply.text());
        assert!(reply.text().contains("<r"), "{}", reply.text());
        let reply = post(&gateway, "", "<reach/>");
        assert!(reply.status() >= 400, "{said}: {} {}", reply.status(), reply.text());
        let text =
            yaml(&Origin::echo(), "policies: [{ xslt: { on: request, stylesheet: a.xsl } }]");
        let (code, told) = checked(&text, &[("a.xsl", &sheet(&body))]);
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains("a.xsl:1:") && told.contains(said), "{told}");
    }
}

/// With `output: canonical`, numbers and orders are those of libxslt. The expected texts are from xsltproc 1.1.35.
#[test]
fn canonical_output_has_the_numbers_and_orders_of_libxslt() {
    for (expression, text) in [
        ("0.1 + 0.2", "0.3"),
        ("1 div 3", "0.333333333333333"),
        ("1 div 3000", "0.000333333333333333"),
        ("2 div 3", "0.666666666666667"),
        ("100000 * 100000", "1e+10"),
        ("1234567890.5", "1.2345678905e+09"),
        ("1000000000", "1000000000"),
        ("2147483647", "2.147483647e+09"),
        ("123456789.123456789", "123456789.123457"),
        ("0.000001", "1e-06"),
        ("0.00001", "0.00001"),
        ("-1 div 0", "-Infinity"),
        ("1.1 * 1.1", "1.21"),
        ("-0.0", "0"),
        ("concat(12345678901234567890, '')", "1.23456789012346e+19"),
        ("format-number(2.5, '0')", "3"),
        ("format-number(-2.5, '0')", "-3"),
        ("format-number(0.125, '0.00')", "0.13"),
        ("format-number(1.005, '0.00')", "1.00"),
        ("format-number(0.995, '0.00')", "1.00"),
        ("format-number(99.995, '0.00')", "100.00"),
        ("format-number(1234567.891, '#,##0.00')", "1,234,567.89"),
    ] {
        assert_eq!(value(expression, ", output: canonical"), text, "{expression}");
    }
    // Exactly as in XPath 1.0.
    assert_eq!(value("0.1 + 0.2", ""), "0.30000000000000004");
    assert_eq!(value("format-number(2.5, '0')", ""), "2");
    let sorted = |sort: &str, more: &str| {
        let body = format!(
            "<xsl:output method=\"text\"/><xsl:template match=\"/\"><xsl:for-each select=\"r/s\"><xsl:sort {sort}/><xsl:value-of select=\".\"/></xsl:for-each></xsl:template>"
        );
        let (gateway, _origin) = transforming(&body, more);
        let message = "<r><s>b</s><s>C</s><s>a</s><s>B</s><s>é</s><s>e</s><s>A</s><s>z</s></r>";
        post(&gateway, "", message).text()
    };
    assert_eq!(sorted("", ", output: canonical"), "ABCabezé");
    assert_eq!(sorted("case-order=\"lower-first\"", ", output: canonical"), "ABCabezé");
    assert_eq!(sorted("lang=\"en\"", ", output: canonical"), "aAbBCeéz");
    assert_eq!(sorted("", ""), "aAbBCeéz");
}

/// Stylesheets, schemas and results in the encodings of the WHATWG's standard.
#[test]
fn stylesheets_schemas_and_results_may_be_in_other_encodings() {
    let origin = Origin::echo();
    let route = "policies: [{ xslt: { on: request, stylesheet: a.xsl } }]";
    let gateway =
        Gateway::start_folder(&[("tidegate.yaml", &yaml(&origin, route)), ("a.xsl", &sheet(""))]);
    let body = sheet(
        "<xsl:output encoding=\"windows-1251\"/><xsl:template match=\"/\"><да>да</да></xsl:template>",
    );
    // In windows-1251 the Cyrillic letters have consecutive numbers.
    let narrow = |text: &str| -> Vec<u8> {
        let byte = |c: char| match u32::from(c) {
            code @ 0x410..=0x44f => u8::try_from(code - 0x410 + 0xc0).unwrap(),
            code => u8::try_from(code).unwrap(),
        };
        text.chars().map(byte).collect()
    };
    let text = format!("<?xml version=\"1.0\" encoding=\"windows-1251\"?>{body}");
    std::fs::write(gateway.path("a.xsl"), narrow(&text)).unwrap();
    let expected = narrow("<да>&#1076;&#1072;</да>");
    crate::harness::until("the stylesheet is read", || {
        post(&gateway, "", "<x/>").body.ends_with(&expected)
    });
    let missing = body.replace("да", "ß");
    std::fs::write(gateway.path("a.xsl"), &missing).unwrap();
    crate::harness::until("a name that the encoding lacks is an error", || {
        post(&gateway, "", "<x/>").status() >= 400
    });
    let schema = "<?xml version=\"1.0\" encoding=\"windows-1251\"?><xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\"><xs:element name=\"да\" type=\"xs:int\"/></xs:schema>";
    let route = "policies: [{ soap: { schema: a.xsd, validate: [request] } }]";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.xsd");
    std::fs::write(&file, narrow(schema)).unwrap();
    let route = route.replace("a.xsd", &file.display().to_string());
    let gateway = Gateway::start(yaml(&origin, &route));
    let envelope = crate::soap_services::envelope;
    assert_eq!(post(&gateway, "", &envelope("<да>1</да>")).status(), 200);
    assert_eq!(post(&gateway, "", &envelope("<да>x</да>")).status(), 500);
}
