//! Engines, parameters, reload, and the output of `check`.

use super::*;
use crate::harness::{tidegate_with, until};

/// The output of `check` for a route with this policy and these additional keys.
#[track_caller]
fn checked(more: &str, policy: &str, files: &[(&str, &str)]) -> (Option<i32>, String) {
    checked_with(&[], more, policy, files)
}

/// The same, with environment variables.
#[track_caller]
fn checked_with(
    variables: &[(&str, &str)],
    more: &str,
    policy: &str,
    files: &[(&str, &str)],
) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\n{more}\nupstreams: {{ o: {{ targets: [\"http://127.0.0.1:1\"] }} }}\nroutes: {{ all: {{ match: {{ path: /** }}, upstream: o, policies: [{{ xslt: {{ on: request, {policy} }} }}] }} }}\n"
    );
    std::fs::write(&path, yaml).unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let run = tidegate_with(&["check".as_ref(), path.as_os_str()], variables);
    (run.code, format!("{}{}", run.stdout, run.stderr))
}

#[test]
fn check_says_what_is_missing_and_what_to_do() {
    let text = sheet("");
    let files: &[(&str, &str)] = &[("a.xsl", &text)];
    for (more, said) in [
        (
            "saxon: { java_home: /nowhere }",
            &["there is no Java in /nowhere", "install a Java runtime", "saxon.java_home"][..],
        ),
        (
            "saxon: { home: /nowhere }",
            &["cannot read the folder /nowhere", "make saxon", "saxon.home"],
        ),
        ("saxon: { threads: 0 }", &["threads"]),
        ("saxon: { heap_bytes_max: 1MiB }", &["too small", "`saxon.heap_bytes_max: 16MiB`"]),
        ("saxon: { heap_bytes_max: 900000GiB }", &["more than", "write less"]),
        ("saxon: { heap: 1MiB }", &["unknown key", "heap_bytes_max"]),
    ] {
        let (code, text) = checked(more, "stylesheet: a.xsl", files);
        assert_eq!(code, Some(1), "{more}: {text}");
        for said in said {
            assert!(text.contains(said), "{more}: {text}");
        }
    }
    // A configuration without such a stylesheet needs neither.
    let old = text
        .replace("version=\"3.0\"", "version=\"1.0\"")
        .replace("exclude-result-prefixes=\"#all\"", "");
    let (code, text) =
        checked("saxon: { java_home: /nowhere }", "stylesheet: a.xsl", &[("a.xsl", &old)]);
    assert_eq!(code, Some(0), "{text}");
}

/// Java would end the process with its own message, which does not mention the configuration.
#[test]
fn a_machine_that_gives_up_is_a_complaint() {
    let text = sheet("");
    let variables = [("_JAVA_OPTIONS", "-Xmx1m")];
    let (code, text) = checked_with(&variables, "", "stylesheet: a.xsl", &[("a.xsl", &text)]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("during initialization of VM"), "{text}");
    assert!(text.contains("it needs Saxon") && text.contains("it gave up"), "{text}");
}

/// In the format that clients of WSO2 API Manager compare. Places are only for operators.
#[test]
fn clients_are_told_of_a_stylesheet_in_saxons_words() {
    let unknown =
        sheet("<xsl:template match=\"/\"><xsl:value-of select=\"$unknown\"/></xsl:template>");
    let lost = sheet("<xsl:import href=\"lost.xsl\"/>");
    for (text, said) in [
        (
            "no xml",
            &["SXXP0003:  Error reported by XML parser: Content is not allowed in prolog."][..],
        ),
        (unknown.as_str(), &["unknown"]),
        (lost.as_str(), &["lost.xsl"]),
    ] {
        let origin = Origin::saying("never");
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ origin: {{ targets: [\"{}\"] }} }}\nroutes: {{ all: {{ match: {{ path: /** }}, upstream: origin, errors: kong, policies: [{{ xslt: {{ on: request, stylesheet: a.xsl, engine: saxon, verbose: true }} }}] }} }}\n",
            origin.url()
        );
        let gateway = Gateway::start_beside(yaml, &[("a.xsl", text)]);
        let reply = post(&gateway, "/", "application/json", "{}");
        assert_eq!((reply.status(), reply.get("content-type")), (500, Some("application/json")));
        let reply = reply.text();
        assert!(reply.contains("\"message_verbose\": \"Invalid XSLT definition. "), "{reply}");
        assert!(said.iter().all(|said| reply.contains(said)), "{reply}");
        assert!(
            !reply.contains("a.xsl") && !reply.contains("sheet:/") && !reply.contains("/tmp"),
            "{reply}"
        );
    }
}

#[test]
fn mistakes_of_a_stylesheet_have_their_places() {
    let wrong = sheet(
        "<xsl:template match=\"/\">\n  <xsl:value-of select=\"nothing(\"/>\n</xsl:template>\n<xsl:template match=\"b\"><xsl:value-of select=\"$unknown\"/></xsl:template>",
    );
    let part = sheet("<xsl:import href=\"wrong.xsl\"/>");
    let lost = sheet("\n<xsl:import href=\"lost.xsl\"/>");
    let files: &[(&str, &str)] = &[
        ("wrong.xsl", &wrong),
        ("part.xsl", &part),
        ("lost.xsl.xsl", &lost),
        ("broken.xsl", "<a"),
    ];
    for (policy, said) in [
        ("stylesheet: wrong.xsl", &["wrong.xsl:3:", "wrong.xsl:5:", "unknown"][..]),
        ("stylesheet: part.xsl", &["wrong.xsl:3:", "wrong.xsl:5:"]),
        ("stylesheet: lost.xsl.xsl", &["lost.xsl.xsl:3:", "lost.xsl"]),
        ("stylesheet: broken.xsl, engine: saxon", &["broken.xsl:1:"]),
        ("stylesheet: part.xsl, engine: native", &["only 1.1 features are supported"]),
        ("stylesheet: part.xsl, engine: libxslt", &["unknown value `libxslt`", "saxon"]),
    ] {
        let (code, text) = checked("", policy, files);
        assert_eq!(code, Some(1), "{policy}: {text}");
        for said in said {
            assert!(text.contains(said), "{policy}: {said}: {text}");
        }
    }
}

#[test]
fn parameters_are_given_to_both_engines() {
    let origin = Origin::echo();
    let three = sheet(
        "<xsl:output method=\"text\"/><xsl:param name=\"n\" as=\"xs:integer\"/><xsl:param name=\"text\"/><xsl:template match=\"/\"><xsl:value-of select=\"$n + 1, $text\"/></xsl:template>",
    );
    let one = "<xsl:stylesheet version=\"1.0\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\"><xsl:output method=\"text\"/><xsl:param name=\"n\"/><xsl:param name=\"text\"/><xsl:template match=\"/\"><xsl:value-of select=\"concat($n + 1, ' ', $text)\"/></xsl:template></xsl:stylesheet>";
    let route = |name: &str, engine: &str, n: &str| {
        format!(
            "  {name}-{engine}-{n}: {{ match: {{ path: /{name}-{engine}-{n} }}, upstream: origin, policies: [{{ xslt: {{ on: request, stylesheet: {name}.xsl, engine: {engine}, parameters: {{ n: \"{n}\", text: \"it's\" }} }} }}] }}\n"
        )
    };
    let routes = [
        ("three", "auto", "1"),
        ("three", "saxon", "2"),
        ("one", "saxon", "3"),
        ("one", "auto", "4"),
    ];
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ origin: {{ targets: [\"{}\"] }} }}\nroutes:\n{}",
        origin.url(),
        routes.map(|(name, engine, n)| route(name, engine, n)).concat()
    );
    let gateway = Gateway::start_beside(yaml, &[("three.xsl", &three), ("one.xsl", one)]);
    for (name, engine, n) in routes {
        let sum = n.parse::<u32>().unwrap() + 1;
        let reply = transform(&gateway, &format!("{name}-{engine}-{n}"), "<a/>");
        assert_eq!(reply.text(), format!("{sum} it's"), "{name} {engine}");
    }
}

#[test]
fn parameters_are_strings_unless_they_are_declared_otherwise() {
    let origin = Origin::echo();
    let kinds = sheet(
        "<xsl:output method=\"text\"/><xsl:param name=\"plain\"/><xsl:param name=\"text\" as=\"xs:string\"/><xsl:param name=\"day\" as=\"xs:date?\"/><xsl:param name=\"any\" as=\"item()*\"/><xsl:template match=\"/\"><xsl:value-of select=\"$plain instance of xs:string, $text instance of xs:string, $any instance of xs:string, year-from-date($day)\"/></xsl:template>",
    );
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ origin: {{ targets: [\"{}\"] }} }}\nroutes: {{ all: {{ match: {{ path: /** }}, upstream: origin, policies: [{{ xslt: {{ on: request, stylesheet: kinds.xsl, verbose: true, parameters: {{ plain: \"1\", text: \"2\", any: \"3\", day: \"2024-05-06\", none: \"5\" }} }} }}] }} }}\n",
        origin.url()
    );
    let gateway = Gateway::start_beside(yaml, &[("kinds.xsl", &kinds)]);
    assert_eq!(transform(&gateway, "all", "<a/>").text(), "true true true 2024");
}

#[test]
fn a_result_is_labelled_with_its_charset() {
    let origin = Origin::echo();
    let latin =
        sheet("<xsl:output encoding=\"iso-8859-1\"/><xsl:mode on-no-match=\"shallow-copy\"/>");
    let gateway = transforming(&origin, "", &[("latin", &latin)]);
    let reply = post(
        &gateway,
        "/latin",
        "text/xml; charset=iso-8859-1",
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><a>\u{00e9}</a>",
    );
    assert_eq!(reply.text(), "<?xml version=\"1.0\" encoding=\"UTF-8\"?><a>\u{00e9}</a>");
    assert_eq!(origin.request().get("content-type"), Some("text/xml; charset=utf-8"));
}

#[test]
fn a_reload_compiles_what_changed_and_nothing_else() {
    let origin = Origin::echo();
    let says = |text: &str| {
        sheet(&format!(
            "<xsl:output method=\"text\"/><xsl:template match=\"/\">{text}</xsl:template>"
        ))
    };
    let (one, two) = (says("one"), says("two"));
    let gateway = transforming(&origin, "", &[("same", &one), ("changed", &one)]);
    let compiled = |name: &str| {
        let text = gateway.admin_get("/metrics").text();
        let line = text.lines().find(|line| {
            line.starts_with("tidegate_definition_compilations_total")
                && line.contains(&format!("{name}.xsl\""))
                && line.contains("success")
        });
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    assert_eq!(transform(&gateway, "changed", "<a/>").text(), "one");
    gateway.put("changed.xsl", &two);
    until("the other stylesheet serves", || transform(&gateway, "changed", "<a/>").text() == "two");
    assert_eq!(transform(&gateway, "same", "<a/>").text(), "one");
    assert_eq!((compiled("same"), compiled("changed")), (Some(1.0), Some(2.0)));
    // A bad one leaves the last good one serving.
    gateway.put("changed.xsl", &says("<xsl:nothing/>"));
    gateway.wait_for_log("changed.xsl:2:");
    assert_eq!(transform(&gateway, "changed", "<a/>").text(), "two");
}
