//! Artifacts of Synapse as configurations: each case is an artifact, and the text that it becomes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use expect_test::{Expect, expect};
use import::synapse::{ImportResult, Mistake, Outcome, import};

const HEAD: &str = "xmlns=\"http://ws.apache.org/ns/synapse\"";

fn imported(files: &[(&str, &str)]) -> ImportResult {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text.replace("SYNAPSE", HEAD)).unwrap();
    }
    let made = import(folder.path()).unwrap();
    let read = config::document(&made.configuration, Path::new("tidegate.yaml"));
    assert!(read.is_ok(), "{read:?}\n{}", made.configuration);
    made
}

/// Everything that is made of files, as one text.
fn whole(files: &[(&str, &str)]) -> String {
    let made = imported(files);
    let mut text = made.configuration;
    for (name, bytes) in &made.files {
        text.push_str(&format!("==== {name}\n{}\n", String::from_utf8_lossy(bytes).trim()));
    }
    text.push_str("====\n");
    text.push_str(&made.table.to_string());
    text.push('\n');
    text
}

/// The steps of mediators on the way to a service, without the configuration around them.
fn steps(mediators: &str) -> String {
    let sequences = if mediators.contains("\"plain\"") { SEQUENCES } else { "" };
    let text = format!(
        "<definitions {HEAD} xmlns:m=\"urn:m\" xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\">\n<proxy name=\"P\"><target><inSequence>\n{mediators}\n<respond/></inSequence></target></proxy>\n{AROUND}{sequences}</definitions>"
    );
    let made = imported(&[("p.xml", &text)]);
    let flows = made.configuration.split_once("flows:\n").unwrap().1;
    let mut out = format!("flows:\n{flows}");
    let last = 2 + u32::try_from(mediators.lines().count()).unwrap();
    for row in &made.table.rows {
        let is_ours = row.place.line > 2 && row.place.line <= last;
        if is_ours && row.outcome != Outcome::Converted {
            out.push_str(&format!("{} {}: {}\n", row.outcome, row.place, row.note));
        }
    }
    out
}

/// The artifacts that mediators of the cases refer to.
const AROUND: &str = r#"<endpoint name="E"><address uri="http://e.test:9000/service/Echo"/></endpoint>
<endpoint name="H"><http method="get" uri-template="http://h.test/things/{uri.var.id}?q={query.param.q}"/></endpoint>
<localEntry key="x.xsl"><xsl:stylesheet xmlns:xsl="http://www.w3.org/1999/XSL/Transform" version="1.0"/></localEntry>
<localEntry key="x.xsd"><xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"/></localEntry>
<localEntry key="x.json">{ "type": "object" }</localEntry>
<template name="T"><parameter name="who" isMandatory="true"/><parameter name="how" defaultValue="well"/><sequence><log level="custom"><property name="who" expression="$func:who"/></log></sequence></template>
"#;

const SEQUENCES: &str = r#"<sequence name="plain"><log level="custom"><property name="a" value="b"/></log></sequence>
<sequence name="loop"><sequence key="loop"/></sequence>
"#;

fn check(cases: &[(&str, Expect)]) {
    for (mediators, expected) in cases {
        expected.assert_eq(&steps(mediators));
    }
}

/// The action of SOAP 1.2 is in the content type, that of other messages in `SOAPAction`.
#[test]
fn actions_are_where_the_message_has_them() {
    check(&[
        (
            r#"<header name="Action" value="urn:a"/>
<header name="Action" expression="//m:action"/>
<header name="Action" action="remove"/>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - switch:
                          "on": "$headers.content-type"
                          cases:
                            - matches: "(?i)^application/soap\\+xml"
                              steps:
                                - header:
                                    set:
                                      content-type: "application/soap+xml{{ concat(substring('; charset=', 1 + 9999999 * not(contains($headers.content-type, 'charset='))), substring-before(concat(substring-after($headers.content-type, 'charset='), ';'), ';')) }}; action=\"urn:a\""
                          default:
                            - header:
                                set:
                                  SOAPAction: "\"urn:a\""
                      - filter:
                          when: "texts($infoset//m:action)"
                          then:
                            - switch:
                                "on": "$headers.content-type"
                                cases:
                                  - matches: "(?i)^application/soap\\+xml"
                                    steps:
                                      - header:
                                          set:
                                            content-type: "application/soap+xml{{ concat(substring('; charset=', 1 + 9999999 * not(contains($headers.content-type, 'charset='))), substring-before(concat(substring-after($headers.content-type, 'charset='), ';'), ';')) }}; action=\"{{ translate(texts($infoset//m:action), '\"', '') }}\""
                                default:
                                  - header:
                                      set:
                                        SOAPAction: "\"{{ translate(texts($infoset//m:action), '\"', '') }}\""
                          else:
                            - filter:
                                when:
                                  value: "$headers.content-type"
                                  matches: "(?i)^application/soap\\+xml"
                                then:
                                  - header:
                                      set:
                                        content-type: "application/soap+xml{{ concat(substring('; charset=', 1 + 9999999 * not(contains($headers.content-type, 'charset='))), substring-before(concat(substring-after($headers.content-type, 'charset='), ';'), ';')) }}"
                      - filter:
                          when:
                            value: "$headers.content-type"
                            matches: "(?i)^application/soap\\+xml"
                          then:
                            - header:
                                set:
                                  content-type: "application/soap+xml{{ concat(substring('; charset=', 1 + 9999999 * not(contains($headers.content-type, 'charset='))), substring-before(concat(substring-after($headers.content-type, 'charset='), ';'), ';')) }}"
                      # approximated: respond, p.xml:6:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
            "#]],
        ),
        (
            r#"<filter source="$ctx:Action" regex="urn:a"><then/></filter>"#,
            expect![[r#"
            flows:
              P:
                - filter:
                    when:
                      value: "concat(translate(substring-before(concat(substring-after($headers.content-type, 'action='), ';'), ';'), '\" ', ''), substring(translate($headers.SOAPAction, '\"', ''), 1 + 9999999 * contains($headers.content-type, 'action=')))"
                      matches: "^(?:urn:a)$"
                    then: []
                # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                - respond: {}
        "#]],
        ),
        (
            r#"<call><endpoint><address uri="http://a.test/a" format="soap11"/></endpoint></call><call><endpoint><address uri="http://b.test/b" format="soap12"/></endpoint></call>"#,
            expect![[r#"
                flows:
                  P:
                    - filter:
                        when: "translate(substring-before(concat(substring-after($headers.content-type, 'action='), ';'), ';'), '\" ', '')"
                        then:
                          - header:
                              set:
                                SOAPAction: "\"{{ translate(substring-before(concat(substring-after($headers.content-type, 'action='), ';'), ';'), '\" ', '') }}\""
                    - convert:
                        to: soap11
                    - call:
                        upstream: a.test
                        method: POST
                        path: /a
                    # approximated: call, p.xml:3:83: the headers of the reply before it are not sent on; those of the request are
                    - convert:
                        to: soap12
                    - filter:
                        when: "translate($headers.SOAPAction, '\"', '') != '' and not(contains($headers.content-type, 'action='))"
                        then:
                          - header:
                              set:
                                content-type: "application/soap+xml{{ concat(substring('; charset=', 1 + 9999999 * not(contains($headers.content-type, 'charset='))), substring-before(concat(substring-after($headers.content-type, 'charset='), ';'), ';')) }}; action=\"{{ translate($headers.SOAPAction, '\"', '') }}\""
                    - call:
                        upstream: b.test
                        method: POST
                        path: /b
                        headers:
                          remove: [SOAPAction]
                    - respond: {}
                approximated p.xml:3:83: the headers of the reply before it are not sent on; those of the request are
            "#]],
        ),
        (
            r#"<property name="messageType" value="application/soap+xml" scope="axis2"/><call><endpoint key="E"/></call><property name="messageType" value="text/xml" scope="axis2"/>"#,
            expect![[r#"
                flows:
                  P:
                    # approximated: property messageType, p.xml:3:1: plain XML and SOAP of the other version get an envelope of that version and its content type; Synapse itself sends them as they came
                    - convert:
                        to: soap12
                    - filter:
                        when: "translate($headers.SOAPAction, '\"', '') != '' and not(contains($headers.content-type, 'action='))"
                        then:
                          - header:
                              set:
                                content-type: "application/soap+xml{{ concat(substring('; charset=', 1 + 9999999 * not(contains($headers.content-type, 'charset='))), substring-before(concat(substring-after($headers.content-type, 'charset='), ';'), ';')) }}; action=\"{{ translate($headers.SOAPAction, '\"', '') }}\""
                    - call:
                        upstream: E
                        path: "{{ concat('/service/Echo', substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                    # approximated: property messageType, p.xml:3:106: plain XML and SOAP of the other version get an envelope of that version and its content type; Synapse itself sends them as they came
                    - convert:
                        to: soap11
                    - respond: {}
                approximated p.xml:3:1: plain XML and SOAP of the other version get an envelope of that version and its content type; Synapse itself sends them as they came
                approximated p.xml:3:106: plain XML and SOAP of the other version get an envelope of that version and its content type; Synapse itself sends them as they came
            "#]],
        ),
        (
            r#"<header name="Action" value="urn:a"/><log level="custom"><property name="a" expression="$trp:SOAPAction"/></log>"#,
            expect![[r#"
                flows:
                  P:
                    - switch:
                        "on": "$headers.content-type"
                        cases:
                          - matches: "(?i)^application/soap\\+xml"
                            steps:
                              - header:
                                  set:
                                    content-type: "application/soap+xml{{ concat(substring('; charset=', 1 + 9999999 * not(contains($headers.content-type, 'charset='))), substring-before(concat(substring-after($headers.content-type, 'charset='), ';'), ';')) }}; action=\"urn:a\""
                        default:
                          - header:
                              set:
                                SOAPAction: "\"urn:a\""
                    # approximated: log custom, p.xml:3:38: Tidegate uses the action that was set; Synapse uses the header that was received
                    - log:
                        level: info
                        message: "a = {{ $headers.SOAPAction }}"
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                approximated p.xml:3:38: Tidegate uses the action that was set; Synapse uses the header that was received
            "#]],
        ),
    ]);
}

/// What stands from the beginning of a transaction to its `commit` takes effect together.
#[test]
fn transactions_are_steps() {
    let sql = r#"<dbreport useTransaction="true"><connection><pool><dsName>jdbc/Shop</dsName></pool></connection><statement><sql>delete from a</sql></statement></dbreport>"#;
    let begin = r#"<transaction action="new"/>"#;
    let end = r#"<transaction action="commit"/>"#;
    let whole = format!(
        r#"{begin}<filter xpath="//m:a"><then>{sql}</then></filter>{sql}{end}<log level="custom"><property name="a" value="b"/></log>"#
    );
    expect![[r#"
        flows:
          P:
            namespaces:
              m: "urn:m"
            steps:
              # approximated: transaction, p.xml:3:1: the data source jdbc/Shop is the URL in the variable SHOP_URL
              - transaction:
                  database: Shop
                  steps:
                    - filter:
                        when: "$infoset//m:a"
                        then:
                          # approximated: dbreport, p.xml:3:56: the data source jdbc/Shop is the URL in the variable SHOP_URL
                          - sql:
                              database: Shop
                              query: "delete from a"
                    # approximated: dbreport, p.xml:3:226: the data source jdbc/Shop is the URL in the variable SHOP_URL
                    - sql:
                        database: Shop
                        query: "delete from a"
              - log:
                  level: info
                  message: "a = b"
              # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
              - respond: {}
        approximated p.xml:3:1: the data source jdbc/Shop is the URL in the variable SHOP_URL
        approximated p.xml:3:56: the data source jdbc/Shop is the URL in the variable SHOP_URL
        approximated p.xml:3:226: the data source jdbc/Shop is the URL in the variable SHOP_URL
    "#]].assert_eq(&steps(&whole));
    let other = sql.replace("jdbc/Shop", "jdbc/Other");
    let own = sql.replace("<dsName>jdbc/Shop</dsName>", "<url>jdbc:postgresql://db.test/a</url>");
    for (mediators, why) in [
        (format!("{begin}{sql}"), "it has no `commit` in the same list of mediators"),
        (format!("{begin}{sql}{other}{end}"), "2 databases, which have no common transaction"),
        (format!("{begin}{end}"), "0 databases, which have no common transaction"),
        (format!("{begin}{own}{end}"), "a connection of its own"),
        (
            format!(r#"{begin}{sql}<filter xpath="//m:a"><then><respond/></then></filter>{end}"#),
            "`respond` stands in the transaction",
        ),
        (
            format!(r#"{begin}{sql}<filter xpath="//m:a"><then sequence="plain"/></filter>{end}"#),
            "`then` stands in the transaction",
        ),
        (sql.to_owned(), "the transaction that it takes part in has no counterpart"),
        (
            r#"<transaction action="rollback"/>"#.to_owned(),
            "a transaction is rolled back by a fault",
        ),
        (r#"<transaction action="suspend"/>"#.to_owned(), "`@action`: a transaction begins"),
    ] {
        let made = steps(&mediators);
        assert!(made.contains(why), "{mediators}: {made}");
        assert!(!made.contains("- transaction:"), "{mediators}: {made}");
    }
    let artifact = format!(
        "<definitions {HEAD}><proxy name=\"P\"><target><inSequence>{begin}{sql}{end}<respond/></inSequence><faultSequence><transaction action=\"rollback\"/><respond/></faultSequence></target></proxy></definitions>"
    );
    let made = imported(&[("p.xml", &artifact)]);
    assert!(made.table.rows.iter().all(|row| row.outcome != Outcome::Refused), "{}", made.table);
}

/// A script that asks for what is not there is refused, with the line.
#[test]
fn scripts_are_run_only_where_they_find_all_that_they_ask_for() {
    let told = |attributes: &str, program: &str| {
        let item = format!("<script {attributes}><![CDATA[{program}]]></script>");
        steps(&item).lines().last().unwrap().to_owned()
    };
    for (program, why) in [
        (
            "var a = 1;\nmc.getEnvelopeXML()",
            "`mc.getEnvelopeXML` is not there for scripts (line 2 of the script)",
        ),
        ("var x = mc.getPayloadXML().a", "XML is a text for scripts"),
        ("mc.getProperty(name)", "`getProperty` of a name that is computed has no counterpart"),
        (
            "mc.setProperty('a' + 1, 2)",
            "`setProperty` of a name that is computed has no counterpart",
        ),
        ("mc['setProperty']('a', 1)", "`mc` is only there for its functions"),
        ("mc.setProperty('x', 1, 'registry')", "a script cannot set `x` of registry here"),
        (
            "mc.setProperty('x', mc.getProperty('none'))",
            "nothing among the artifacts sets the property `none`",
        ),
        (
            "importPackage(Packages.java.util)",
            "`importPackage` is not there for scripts (line 1 of the script)",
        ),
        ("var d = new java.util.Date()", "`java` is not there for scripts"),
        ("print('a')", "`print` is not there for scripts"),
    ] {
        let told = told("language=\"js\"", program);
        assert!(told.starts_with("refused ") && told.contains(why), "{program}: {told}");
    }
    let told = told("language=\"groovy\"", "mc.setPayloadJSON('{}')");
    assert!(told.contains("programs are run in JavaScript"), "{told}");
}

/// A mapping of JSON to JSON is run; the titles of the schemas name its function and its input.
#[test]
fn data_mappers_of_json_are_scripts() {
    const ATTRIBUTES: &str = r#"config="gov:m/Map.dmc" inputSchema="gov:m/in.json" outputSchema="gov:m/out.json" inputType="JSON" outputType="JSON""#;
    const PROGRAM: &str = "map_S_order_S_bill = function(){\nvar outputbill={};\noutputbill.sum = inputorder.total;\nreturn outputbill;\n};";
    let with = |attributes: &str, program: &str, title: &str| {
        let proxy = format!(
            "<proxy {HEAD} name=\"P\"><target><inSequence><datamapper {attributes}/><respond/></inSequence></target></proxy>"
        );
        let input = format!("{{ \"title\": \"{title}\", \"type\": \"object\" }}");
        let output = "{ \"title\": \"bill\", \"type\": \"object\" }";
        let files = [
            ("p.xml", &*proxy),
            ("m/Map.dmc", program),
            ("m/in.json", &*input),
            ("m/out.json", output),
        ];
        imported(&files)
    };
    let made = with(ATTRIBUTES, PROGRAM, "order");
    let row = made.table.rows.iter().find(|row| row.what.starts_with("datamapper")).unwrap();
    assert_eq!(row.outcome, Outcome::Approximated, "{}", row.note);
    assert!(row.note.starts_with("JSON is mapped without the schemas"), "{}", row.note);
    let text = &made.configuration;
    for part in [
        "var inputorder = message;",
        "outputbill.sum = inputorder.total;",
        "return map_S_order_S_bill();",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let typed =
        with(ATTRIBUTES, "function mapFunction(input) { return { sum: input.total }; }", "order");
    assert!(
        typed.configuration.contains("return mapFunction(message);"),
        "{}",
        typed.configuration
    );
    for (attributes, program, title, why) in [
        (ATTRIBUTES, PROGRAM, "other", "its mapping has no function `map_S_other_S_bill`"),
        (
            ATTRIBUTES,
            PROGRAM,
            "an order",
            "the title `an order` of the schema `gov:m/in.json` cannot be a part",
        ),
        (
            ATTRIBUTES,
            "map_S_order_S_bill = function() { return { a: inputorder.b_EnC0DeCHaRHyPh3n_c }; };",
            "order",
            "`_EnC0DeCHaRHyPh3n_` of its mapping stands for no member of JSON",
        ),
        (ATTRIBUTES, "DM_PROPERTIES.TRANSPORT.a", "order", "`DM_PROPERTIES` of its mapping"),
        (ATTRIBUTES, "new java.util.Date()", "order", "`java` of its mapping"),
        ("config=\"gov:m/Map.dmc\"", PROGRAM, "order", "it has no `inputType`"),
        ("inputType=\"JSON\" outputType=\"JSON\"", PROGRAM, "order", "it has no mapping"),
        (
            "config=\"gov:none.dmc\" inputType=\"JSON\" outputType=\"JSON\"",
            PROGRAM,
            "order",
            "`gov:none.dmc` is not among the artifacts",
        ),
        (
            "config=\"gov:m/Map.dmc\" inputType=\"CSV\" outputType=\"JSON\"",
            PROGRAM,
            "order",
            "only XML and JSON are mapped",
        ),
    ] {
        let made = with(attributes, program, title);
        let row = made.table.rows.iter().find(|row| row.what.starts_with("datamapper")).unwrap();
        assert_eq!(row.outcome, Outcome::Refused, "{attributes} {}", row.note);
        assert!(row.note.contains(why), "{why}: {}", row.note);
    }
}

/// XML is read by the input schema, and written by the names of the result.
#[test]
fn data_mappers_of_xml_read_and_write_by_the_schemas() {
    const PROGRAM: &str = "map_S_an_EnC0DeCHaRHyPh3n_order_S_bill = function(){\nreturn { lines: inputm_an_EnC0DeCHaRHyPh3n_order.m_line };\n};";
    const INPUT: &str = r#"{ "$schema": "x", "title": "m:an-order", "type": "object", "properties": {
  "m:line": { "id": "a", "type": "array", "items": [{ "type": "object", "value": { "type": "string" }, "properties": { "count": { "type": "integer" } }, "attributes": { "id": { "type": "number" } } }] },
  "note": { "type": "null" } }, "namespaces": [{ "prefix": "m", "url": "urn:m" }] }"#;
    const OUTPUT: &str = r#"{ "title": "bill", "type": "object", "namespaces": [{ "prefix": "b", "url": "urn:b" }] }"#;
    let with = |kinds: [&str; 2], program: &str, [input, output]: [&str; 2]| {
        let proxy = format!(
            "<proxy {HEAD} name=\"P\"><target><inSequence><datamapper config=\"gov:m/Map.dmc\" inputSchema=\"gov:m/in.json\" outputSchema=\"gov:m/out.json\" inputType=\"{}\" outputType=\"{}\" xsltStyleSheet=\"gov:m/a.xsl\"/><respond/></inSequence></target></proxy>",
            kinds[0], kinds[1]
        );
        let files = [
            ("p.xml", &*proxy),
            ("m/Map.dmc", program),
            ("m/in.json", input),
            ("m/out.json", output),
        ];
        imported(&files)
    };
    let row = |made: &ImportResult| {
        let row = made.table.rows.iter().find(|row| row.what.starts_with("datamapper")).unwrap();
        format!("{} {}", row.outcome, row.note)
    };
    let made = with(["XML", "XML"], PROGRAM, [INPUT, OUTPUT]);
    let note = row(&made);
    assert!(
        note.starts_with("approximated an element that the input schema does not have")
            && note.contains("a value that is null or undefined is left out of XML")
            && note.contains("the mapping is run and not its stylesheet")
            && !note.contains("JSON is mapped without"),
        "{note}"
    );
    for part in [
        "const title$ = \"m:an-order\", xsi$ = false, prefixes$ = {\"urn:m\":\"m\"};",
        r#"const schema$ = {"m:line":{"type":"object","text":"string","isList":true,"children":{"count":{"type":"integer","children":{}},"id":{"type":"number","children":{}}}},"note":{"type":"null","children":{}}};"#,
        "const root$ = \"bill\", uris$ = {\"b\":\"urn:b\"};",
        "var inputm_an_EnC0DeCHaRHyPh3n_order = read$(values.payload);",
        "return write$(map_S_an_EnC0DeCHaRHyPh3n_order_S_bill());",
        "payload: \"$infoset_payload\"",
        "to: pox",
    ] {
        assert!(made.configuration.contains(part), "{part}: {}", made.configuration);
    }
    let made = with(["XML", "JSON"], PROGRAM, [INPUT, OUTPUT]);
    assert!(row(&made).contains("JSON is mapped without"), "{}", row(&made));
    let text = &made.configuration;
    assert!(text.contains("return map_S_an_EnC0DeCHaRHyPh3n_order_S_bill();"), "{text}");
    assert!(!text.contains("write$"), "{text}");
    let hyphens = PROGRAM.replace("lines:", "a_EnC0DeCHaRHyPh3n_b:");
    let text = with(["XML", "JSON"], &hyphens, [INPUT, OUTPUT]).configuration;
    assert!(text.contains(".replaceAll('_EnC0DeCHaRHyPh3n_', '-'))"), "{text}");
    let order = PROGRAM.replace("an_EnC0DeCHaRHyPh3n_order", "order");
    let made = with(["JSON", "XML"], &order, [&INPUT.replace("m:an-order", "order"), OUTPUT]);
    let text = &made.configuration;
    assert!(
        text.contains("var inputorder = message;") && text.contains("return write$("),
        "{text}"
    );
    let input = |from: &str, to: &str| INPUT.replace(from, to);
    for (input, output, program, why) in [
        (
            input("\"id\": \"a\"", "\"oneOf\": []"),
            OUTPUT,
            PROGRAM,
            "`gov:m/in.json`, /properties/m:line/oneOf: the engine is not known to read this key",
        ),
        (
            input("[{ \"type\": \"object\"", "[{}, { \"type\": \"object\""),
            OUTPUT,
            PROGRAM,
            "/properties/m:line: `items` is not the schema of one item",
        ),
        (
            input("\"integer\"", "\"date\""),
            OUTPUT,
            PROGRAM,
            "/properties/m:line/properties/count: the type `date` has no counterpart",
        ),
        (
            input("\"value\": { \"type\": \"string\" }", "\"value\": {}"),
            OUTPUT,
            PROGRAM,
            "/properties/m:line/value: it must be the type of an object's text",
        ),
        (
            input("\"note\"", "\"note,xsi:type=a\""),
            OUTPUT,
            PROGRAM,
            "elements by their `xsi:type` have no counterpart",
        ),
        (
            input("\"note\"", "\"m:an-order\""),
            OUTPUT,
            PROGRAM,
            "an element in the root cannot have this name",
        ),
        (
            input("[{ \"prefix\"", "[{ \"prefix\": \"n\", \"url\": \"urn:m\" }, { \"prefix\""),
            OUTPUT,
            PROGRAM,
            "`m` is one of several for a prefix or a namespace",
        ),
        (
            input("\"m:an-order\", \"type\": \"object\"", "\"m:an-order\", \"type\": \"array\""),
            OUTPUT,
            PROGRAM,
            "/type: the root element must be an `object`",
        ),
        (
            input("m:an-order", "soapenv:Envelope"),
            OUTPUT,
            PROGRAM,
            "a mapping of the whole envelope has no counterpart",
        ),
        (input("m:an-order", "jsonObject"), OUTPUT, PROGRAM, "it maps JSON as XML"),
        (
            INPUT.to_owned(),
            "{ \"title\": \"s:Envelope\", \"type\": \"object\" }",
            PROGRAM,
            "`gov:m/out.json`, /title: a mapping of the whole envelope",
        ),
        (INPUT.to_owned(), OUTPUT, "inputorder.nameATTR.attr_id", "in `ATTR` of its mapping"),
        (INPUT.to_owned(), OUTPUT, "a_Separat0r_b", "`_Separat0r_` of its mapping"),
    ] {
        let note = row(&with(["XML", "XML"], program, [&input, output]));
        assert!(note.starts_with("refused ") && note.contains(why), "{why}: {note}");
    }
}

/// What an endpoint adds to messages is the upstream's; secrets are variables of the environment.
#[test]
fn security_and_addressing_of_endpoints() {
    let policy = |inner: &str| {
        format!(
            "<localEntry key=\"sec\"><wsp:Policy xmlns:wsp=\"http://schemas.xmlsoap.org/ws/2004/09/policy\" xmlns:sp=\"http://docs.oasis-open.org/ws-sx/ws-securitypolicy/200702\" xmlns:rampart=\"http://ws.apache.org/rampart/policy\"><wsp:ExactlyOne><wsp:All>{inner}</wsp:All></wsp:ExactlyOne></wsp:Policy></localEntry>"
        )
    };
    let user = "<sp:TransportBinding><wsp:Policy><sp:IncludeTimestamp/></wsp:Policy></sp:TransportBinding><sp:SignedSupportingTokens><wsp:Policy><sp:UsernameToken><wsp:Policy><sp:HashPassword/></wsp:Policy></sp:UsernameToken></wsp:Policy></sp:SignedSupportingTokens><rampart:RampartConfig><rampart:user>alice</rampart:user><rampart:timestampTTL>60</rampart:timestampTTL></rampart:RampartConfig>";
    let made = |endpoint: &str, more: &str| {
        let text = format!(
            "<definitions {HEAD}>{more}<endpoint name=\"S\">{endpoint}</endpoint><proxy name=\"P\"><target endpoint=\"S\"><outSequence><send/></outSequence></target></proxy></definitions>"
        );
        whole(&[("p.xml", &text)])
    };
    let http = |inner: &str| format!("<http uri-template=\"https://a.test/x\">{inner}</http>");
    let oauth = |grant: &str, inner: &str| {
        http(&format!("<authentication><oauth><{grant}>{inner}</{grant}></oauth></authentication>"))
    };
    let client = "<tokenUrl>https://idp.test/token</tokenUrl><clientId>gate</clientId><clientSecret>hunter2</clientSecret>";
    for (endpoint, policy, lines) in [
        (
            oauth("clientCredentials", &format!("{client}<authMode>payload</authMode><requestParameters><parameter name=\"scope\">a b</parameter><parameter name=\"audience\">c</parameter></requestParameters>")),
            String::new(),
            &["token_url: \"https://idp.test/token\"", "client_id: gate", "client_secret: \"${S_CLIENT_SECRET}\"", "authentication: body", "audience: c", "the secret is not copied; it is in the variable S_CLIENT_SECRET"][..],
        ),
        (
            oauth("authorizationCode", client),
            String::new(),
            &["OAuth for a user has no counterpart"],
        ),
        (
            oauth("clientCredentials", "<tokenUrl>{$ctx:u}</tokenUrl>"),
            String::new(),
            &["`tokenUrl` of its OAuth is computed"],
        ),
        (
            http("<authentication><basicAuth><username>u</username><password>p</password></basicAuth></authentication>"),
            String::new(),
            &["a password for a service is not copied"],
        ),
        (
            "<address uri=\"http://a.test/x\"><enableAddressing version=\"submission\"/></address>".to_owned(),
            String::new(),
            &["version: submission", "a message without an action is refused"],
        ),
        (
            "<address uri=\"http://a.test/x\"><enableAddressing separateListener=\"true\"/></address>".to_owned(),
            String::new(),
            &["replies of WS-Addressing come by the same connection here"],
        ),
        (
            "<address uri=\"https://a.test/x\"><enableSec policy=\"sec\"/></address>".to_owned(),
            policy(user),
            &["username: alice", "password: \"${S_PASSWORD}\"", "password_type: digest", "timestamp: \"60s\"", "replies are not verified"],
        ),
        (
            "<address uri=\"https://a.test/x\"><enableSec policy=\"sec\"/></address>".to_owned(),
            policy("<sp:AsymmetricBinding/>"),
            &["`AsymmetricBinding` of the policy `sec` has no counterpart"],
        ),
    ] {
        let made = made(&endpoint, &policy);
        for line in lines {
            assert!(made.contains(line), "{endpoint}: {line}\n{made}");
        }
        assert!(!made.contains("hunter2"), "{made}");
    }
}

/// What is not read is told in the row of its part.
#[test]
fn what_is_not_read_is_told() {
    let aggregate = |attributes: &str| {
        format!(
            "<clone><target><sequence><call><endpoint key=\"E\"/></call></sequence></target></clone>\n<aggregate><completeCondition {attributes}<onComplete expression=\"$body/*\"/></aggregate>"
        )
    };
    let left_out = "which is not a number; it is left out";
    for (mediators, told) in [
        ("<cache timeout=\"soon\"/>".to_owned(), format!("`timeout` is `soon`, {left_out}")),
        (aggregate("timeout=\"2s\"/>"), format!("`timeout` is `2s`, {left_out}")),
        (
            aggregate("><messageCount min=\"{m:count}\"/></completeCondition>"),
            format!("`min` is `{{m:count}}`, {left_out}"),
        ),
        (
            "<call-template target=\"T\"><with-param name=\"who\" value=\"a\"/><with-param name=\"when\" value=\"b\"/></call-template>".to_owned(),
            "the template has no parameter `when`; it is left out".to_owned(),
        ),
        (
            "<switch source=\"//a\"><case><respond/></case></switch>".to_owned(),
            "a case without a regex".to_owned(),
        ),
        (
            "<conditionalRouter><conditionalRoute><condition><match type=\"header\" regex=\"a\"/></condition><target sequence=\"plain\"/></conditionalRoute></conditionalRouter>".to_owned(),
            "a condition without a source".to_owned(),
        ),
    ] {
        let made = steps(&mediators);
        assert!(made.contains(&told), "{mediators}: {told}\n{made}");
    }
    assert!(!steps(&aggregate("timeout=\"-1\"/>")).contains(left_out));
}

/// The import of a processor with these parameters of a class of Micro Integrator, or another class.
fn processed(class: &str, parameters: &[(&str, &str)]) -> (String, String) {
    let parameters = parameters
        .iter()
        .map(|(name, value)| format!("<parameter name=\"{name}\">{value}</parameter>"));
    let text = format!(
        "<definitions {HEAD}><messageStore name=\"S\"/><messageStore name=\"F\"/><messageProcessor name=\"P\" messageStore=\"S\" class=\"{class}\" targetEndpoint=\"E\">{}</messageProcessor><sequence name=\"r\"><log level=\"custom\"/></sequence><sequence name=\"caught\"><log level=\"custom\"/><store messageStore=\"F\"/><drop/></sequence><sequence name=\"outer\"><sequence key=\"caught\"/></sequence><sequence name=\"one-way\"><property name=\"OUT_ONLY\" value=\"true\"/></sequence>\n{AROUND}</definitions>",
        parameters.collect::<String>()
    );
    let made = imported(&[("p.xml", &text)]);
    let row = made.table.rows.iter().find(|row| row.what == "messageProcessor P");
    let queues = made.configuration.split("\nqueues:\n").nth(1).unwrap_or("").to_owned();
    let flow = made.configuration.split("\n  P:\n").nth(1).unwrap_or("");
    let flow = flow.split("\nqueues:").next().unwrap_or("");
    (row.unwrap().note.clone(), format!("P:\n{flow}\nqueues:\n{queues}"))
}

const PACED: &str =
    "org.apache.synapse.message.processor.impl.forwarder.ScheduledMessageForwardingProcessor";
const APACHE: &str =
    "org.apache.synapse.message.processors.forward.ScheduledMessageForwardingProcessor";
const SAMPLING: &str = "org.apache.synapse.message.processor.impl.sampler.SamplingProcessor";

#[test]
fn parameters_of_a_processor_are_told() {
    let unlimited = "attempts end after a thousand; then the queue pauses";
    for (name, value, told) in [
        ("max.delivery.attempts", "-1", unlimited),
        ("max.delivery.attempts", "1001", unlimited),
        ("max.delivery.attempts", "few", "`max.delivery.attempts` is `few`, which is not a number"),
        ("is.active", "true", unlimited),
        ("member.count", "3", "does not hold back others"),
        ("member.count", "300", "at most a hundred messages are in progress at once"),
        ("message.processor.deactivate.sequence", "r", "a queue that pauses runs nothing"),
        ("message.processor.fault.sequence", "r", "of a failed reply only that it failed"),
        ("message.processor.fault.sequence", "outer", "the sequence `caught` in it ends the flow"),
        ("message.processor.fault.sequence", "none", "`none` is not among the artifacts"),
        ("message.processor.failMessagesStore", "S", unlimited),
        ("cronExpression", "0 0 2 * * ?", "`cronExpression`: a queue does not begin messages at"),
        ("axis2.repo", "x", "`axis2.repo`: the settings of Axis2 as a client are not read"),
        ("pinnedServers", "x", "`pinnedServers`: a queue is processed once in a cluster"),
        (
            "store.failed.message",
            "true",
            "`store.failed.message`: no parameter of that name is known",
        ),
    ] {
        let (note, _) = processed(PACED, &[(name, value)]);
        assert!(note.contains(told), "{name}: {told}\n{note}");
    }
    let attempts = ("max.delivery.attempts", "4");
    let own = [attempts, ("message.processor.failMessagesStore", "S")];
    assert!(processed(PACED, &own).0.contains("it is the store that the processor takes from"));
    let late = "messages are taken as they come, not at an interval";
    assert_eq!(processed(APACHE, &[attempts, ("interval", "1000")]).0, late);
    assert_eq!(processed(APACHE, &[("max.deliver.attempts", "4")]).0, "");
    let class = "org.apache.synapse.message.processors.resequence.ResequencingProcessor";
    assert!(processed(class, &[]).0.contains("ResequencingProcessor has no counterpart"));
    // These have no effect in Synapse, or the same here.
    let all = [
        attempts,
        ("max.delivery.drop", "Enabled"),
        ("throttle", "false"),
        ("client.retry.interval", "1000"),
        ("interval", "1000"),
        ("member.count", "1"),
        ("is.active", "true"),
        ("store.connection.retry.interval", "1000"),
        ("max.store.connection.attempts", "-1"),
        ("message.processor.reply.sequence", "r"),
        ("message.processor.deactivate.sequence", "r"),
        ("non.retry.status.codes", "404, 503"),
    ];
    assert_eq!(processed(PACED, &all).0, "");
}

/// Synapse's own source says what each parameter does.
#[test]
fn parameters_of_a_processor_are_keys_of_its_queue() {
    let attempts = ("max.delivery.attempts", "4");
    let of = |parameters: &[(&str, &str)]| processed(PACED, parameters).1;
    expect![[r#"
        P:
            - call:
                upstream: E
                path: /service/Echo
                fault_on: ["3xx", "4xx", "5xx"]
          r:
            - log:
                level: info
                message: ""
          caught:
            - log:
                level: info
                message: ""
            - store:
                queue: F
          outer:
            - sequence: caught
          one-way:
            # approximated: property OUT_ONLY, p.xml:1:555: the client gets 202; there it waits, unless `FORCE_SC_ACCEPTED` is set too
            []
          F:
            - fault:
                code: server
                reason: "nothing processes these messages"
        queues:
          S:
            flow: P
            retry:
              attempts: 4
              initial: "1s"
              factor: 1
              then: pause
            interval: "1s"
          F:
            flow: F
            retry:
              attempts: 1
            dead_letter: true
    "#]]
    .assert_eq(&of(&[attempts]));
    expect![[r#"
        P:
            - call:
                upstream: E
                path: /service/Echo
                fault_on: ["3xx", "401-403", "405-499", "500-502", "504-599"]
          r:
            - log:
                level: info
                message: ""
          caught:
            - log:
                level: info
                message: ""
            - store:
                queue: F
          outer:
            - sequence: caught
          one-way:
            # approximated: property OUT_ONLY, p.xml:1:833: the client gets 202; there it waits, unless `FORCE_SC_ACCEPTED` is set too
            []
          F:
            - fault:
                code: server
                reason: "nothing processes these messages"
        queues:
          S:
            flow: P
            retry:
              attempts: 4
              initial: "90s"
              factor: 1
              max: "90s"
            dead:
              queue: F
            interval: "250ms"
            fault_on: []
            paused: true
          F:
            flow: F
            retry:
              attempts: 1
            dead_letter: true
    "#]]
    .assert_eq(&of(&[
        attempts,
        ("is.active", "false"),
        ("client.retry.interval", "90000"),
        ("interval", "250"),
        ("non.retry.status.codes", "400, 404,503,x"),
        ("message.processor.failMessagesStore", "F"),
    ]));
    expect![[r#"
        P:
            steps:
              - call:
                  upstream: E
                  path: /service/Echo
                  fault_on: ["3xx", "4xx", "5xx"]
              - sequence: P-reply
            catch:
              - log:
                  level: info
                  message: ""
              - store:
                  queue: F
                  end: false
              - fault:
                  code: server
                  reason: "{{ $error.message }}"
          P-reply:
            steps:
              - sequence: r
            catch:
              - log:
                  level: error
                  message: "the reply to a message was not processed: {{ $error.message }}"
              - drop: {}
          r:
            - log:
                level: info
                message: ""
          outer:
            - sequence: caught
          caught:
            - log:
                level: info
                message: ""
            - store:
                queue: F
          one-way:
            # approximated: property OUT_ONLY, p.xml:1:854: the client gets 202; there it waits, unless `FORCE_SC_ACCEPTED` is set too
            []
          F:
            - fault:
                code: server
                reason: "nothing processes these messages"
        queues:
          S:
            flow: P
            retry:
              attempts: 4
              initial: "1s"
              factor: 1
            dead_letter: false
            concurrency: 4
            order: free
            interval: "250ms"
            fault_on: []
          F:
            flow: F
            retry:
              attempts: 1
            dead_letter: true
    "#]]
    .assert_eq(&of(&[
        ("max.delivery.drop", "Enabled"),
        attempts,
        ("member.count", "4"),
        ("message.processor.failMessagesStore", "F"),
        ("message.processor.fault.sequence", "caught"),
        ("message.processor.reply.sequence", "r"),
    ]));
    expect![[r#"
        P:
            - call:
                upstream: E
                path: /service/Echo
                fault_on: ["3xx", "4xx", "5xx"]
          r:
            - log:
                level: info
                message: ""
          caught:
            - log:
                level: info
                message: ""
            - store:
                queue: F
          outer:
            - sequence: caught
          one-way:
            # approximated: property OUT_ONLY, p.xml:1:590: the client gets 202; there it waits, unless `FORCE_SC_ACCEPTED` is set too
            []
          F:
            - fault:
                code: server
                reason: "nothing processes these messages"
        queues:
          S:
            flow: P
            retry:
              attempts: 1000
              initial: "500ms"
              factor: 1
              then: pause
            paused: true
          F:
            flow: F
            retry:
              attempts: 1
            dead_letter: true
    "#]]
    .assert_eq(&processed(APACHE, &[("max.deliver.attempts", "0"), ("interval", "500")]).1);
    expect![[r#"
        P:
            - sequence: r
          r:
            - log:
                level: info
                message: ""
          caught:
            - log:
                level: info
                message: ""
            - store:
                queue: F
          outer:
            - sequence: caught
          one-way:
            # approximated: property OUT_ONLY, p.xml:1:608: the client gets 202; there it waits, unless `FORCE_SC_ACCEPTED` is set too
            []
          F:
            - fault:
                code: server
                reason: "nothing processes these messages"
        queues:
          S:
            flow: P
            fault_on: []
            retry:
              attempts: 1
            dead_letter: false
            concurrency: 20
            order: free
            interval: "500ms"
          F:
            flow: F
            retry:
              attempts: 1
            dead_letter: true
    "#]]
    .assert_eq(
        &processed(SAMPLING, &[("sequence", "r"), ("concurrency", "4"), ("interval", "2000")]).1,
    );
}

#[test]
fn of_two_processors_of_a_store_one_is_refused() {
    let processor = |name: &str| {
        format!(
            "<messageProcessor name=\"{name}\" messageStore=\"S\" class=\"{APACHE}\" targetEndpoint=\"E\"/>"
        )
    };
    let text = format!(
        "<definitions {HEAD}><messageStore name=\"S\"/>{}{}\n{AROUND}</definitions>",
        processor("P"),
        processor("Q")
    );
    let made = imported(&[("p.xml", &text)]);
    let note =
        |what: &str| made.table.rows.iter().find(|row| row.what == what).unwrap().note.clone();
    assert_eq!(note("messageProcessor Q"), "another processor takes from `S` already");
    assert!(!note("messageProcessor P").contains("another"));
}

/// The table says that the first of two is taken.
#[test]
fn of_two_templates_with_one_name_the_first_is_filled() {
    let template = |host: &str| {
        format!(
            "<template name=\"T\"><endpoint><address uri=\"http://{host}.test/\"/></endpoint></template>"
        )
    };
    let text = format!(
        "<definitions {HEAD}>{}{}<proxy name=\"P\"><target><endpoint template=\"T\"/></target></proxy></definitions>",
        template("one"),
        template("two")
    );
    let made = imported(&[("p.xml", &text)]);
    assert!(made.configuration.contains("http://one.test"), "{}", made.configuration);
    assert!(!made.configuration.contains("http://two.test"), "{}", made.configuration);
}

#[test]
fn the_flows_of_the_load_tests() {
    let artifacts = r#"<definitions SYNAPSE>
  <endpoint name="RealService">
    <address uri="http://netty:8688/service/EchoService">
      <suspendOnFailure><errorCodes>-1</errorCodes><initialDuration>0</initialDuration><progressionFactor>1.0</progressionFactor><maximumDuration>0</maximumDuration></suspendOnFailure>
      <markForSuspension><errorCodes>-1</errorCodes></markForSuspension>
      <timeout><duration>30000</duration><responseAction>fault</responseAction></timeout>
    </address>
  </endpoint>
  <proxy name="DirectProxy" transports="http https">
    <target endpoint="RealService"><outSequence><send/></outSequence></target>
    <publishWSDL><d:definitions xmlns:d="http://schemas.xmlsoap.org/wsdl/" name="Echo"/></publishWSDL>
  </proxy>
  <proxy name="XSLTProxy">
    <target>
      <inSequence><xslt key="there"/><send><endpoint key="RealService"/></send></inSequence>
      <outSequence><xslt key="back"/><send/></outSequence>
    </target>
  </proxy>
  <localEntry key="there"><xsl:stylesheet xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns="" version="1.0"><xsl:template match="a"><b/></xsl:template></xsl:stylesheet></localEntry>
  <localEntry key="back"><xsl:stylesheet xmlns:xsl="http://www.w3.org/1999/XSL/Transform" xmlns="" version="1.0"><xsl:template match="b"><a/></xsl:template></xsl:stylesheet></localEntry>
  <api name="directApi" context="/directApi">
    <resource methods="POST"><inSequence><call><endpoint><http uri-template="http://netty:8688/service/EchoService"/></endpoint></call><respond/></inSequence></resource>
  </api>
  <proxy name="MessageBuildingProxy">
    <target><inSequence>
      <payloadFactory media-type="xml"><format><payload xmlns="">$1</payload></format><args><arg evaluator="xml" expression="$body//*"/></args></payloadFactory>
      <call><endpoint key="RealService"/></call><respond/>
    </inSequence></target>
  </proxy>
  <proxy name="CloneProxy">
    <target>
      <inSequence>
        <property name="ENCLOSING"><Aggregated xmlns=""/></property>
        <clone id="perf"><target><sequence><send><endpoint key="RealService"/></send></sequence></target><target><sequence><send><endpoint key="RealService"/></send></sequence></target></clone>
      </inSequence>
      <outSequence>
        <aggregate id="perf"><completeCondition><messageCount min="2" max="2"/></completeCondition><onComplete expression="$body/*[1]" enclosingElementProperty="ENCLOSING"><send/></onComplete></aggregate>
      </outSequence>
    </target>
  </proxy>
  <proxy name="EnrichProxy">
    <target><inSequence>
      <enrich><source clone="true" type="body"/><target property="REQUEST_PAYLOAD" type="property"/></enrich>
      <payloadFactory media-type="xml"><format><hello xmlns="">world</hello></format><args/></payloadFactory>
      <call><endpoint key="RealService"/></call>
      <enrich><source clone="true" property="REQUEST_PAYLOAD" type="property"/><target type="body"/></enrich>
      <respond/>
    </inSequence></target>
  </proxy>
</definitions>"#;
    expect![[r#"
        listen:
          public:
            address: "127.0.0.1:8080"
        upstreams:
          RealService:
            targets: ["http://netty:8688"]
            timeout:
              response: "30s"
          netty-8688:
            targets: ["http://netty:8688"]
            suspend:
              "on": [timeout, connect_failure, reset]
              after: 1
              initial: "30s"
              factor: 1
              max: "30s"
        routes:
          DirectProxy:
            match:
              path: "/services/DirectProxy/**"
            services:
              wsdl: DirectProxy.wsdl
            flow: DirectProxy
          XSLTProxy:
            match:
              path: "/services/XSLTProxy/**"
            flow: XSLTProxy
          MessageBuildingProxy:
            match:
              path: "/services/MessageBuildingProxy/**"
            flow: MessageBuildingProxy
          CloneProxy:
            match:
              path: "/services/CloneProxy/**"
            flow: CloneProxy
          EnrichProxy:
            match:
              path: "/services/EnrichProxy/**"
            flow: EnrichProxy
          directApi:
            match:
              path: "/directApi/**"
              methods: [POST]
            flow: directApi
        flows:
          DirectProxy:
            - call:
                upstream: RealService
                path: "{{ concat('/service/EchoService', substring(substring-after($request.path, '/services/DirectProxy'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
            - respond: {}
          XSLTProxy:
            - xslt:
                stylesheet: there.xsl
                of:
                  xpath: "(/soap:Envelope/soap:Body/* | /soap12:Envelope/soap12:Body/* | /*[not(self::soap:Envelope or self::soap12:Envelope)])[1]"
            - call:
                upstream: RealService
                path: "{{ concat('/service/EchoService', substring(substring-after($request.path, '/services/XSLTProxy'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
            - xslt:
                stylesheet: back.xsl
                of:
                  xpath: "(/soap:Envelope/soap:Body/* | /soap12:Envelope/soap12:Body/* | /*[not(self::soap:Envelope or self::soap12:Envelope)])[1]"
            - respond: {}
          MessageBuildingProxy:
            # approximated: payloadFactory, all.xml:26:7: an element without elements in it is written as an element, as in Micro Integrator; Synapse writes its text
            - payload:
                xml: "<payload>{{ $infoset_body//* }}</payload>"
            - call:
                upstream: RealService
                path: "{{ concat('/service/EchoService', substring(substring-after($request.path, '/services/MessageBuildingProxy'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
            - respond: {}
          CloneProxy:
            - set:
                ENCLOSING:
                  value: "<Aggregated/>"
                  type: xml
            - scatter:
                branches:
                  - call:
                      upstream: RealService
                      path: "{{ concat('/service/EchoService', substring(substring-after($request.path, '/services/CloneProxy'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                  - call:
                      upstream: RealService
                      path: "{{ concat('/service/EchoService', substring(substring-after($request.path, '/services/CloneProxy'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                gather:
                  take: "$infoset_body/*[1]"
                  into: "<Aggregated/>"
                  complete: all
                  head: first
            - respond: {}
          EnrichProxy:
            - set:
                REQUEST_PAYLOAD: "$infoset_payload"
            - payload:
                xml: "<hello>world</hello>"
            - call:
                upstream: RealService
                path: "{{ concat('/service/EchoService', substring(substring-after($request.path, '/services/EnrichProxy'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
            - payload:
                from: "$REQUEST_PAYLOAD"
            - respond: {}
          directApi:
            - call:
                upstream: netty-8688
                path: /service/EchoService
            - respond: {}
        ==== DirectProxy.wsdl
        <d:definitions xmlns:d="http://schemas.xmlsoap.org/wsdl/" name="Echo"/>
        ==== there.xsl
        <xsl:stylesheet xmlns:xsl="http://www.w3.org/1999/XSL/Transform" version="1.0"><xsl:template match="a"><b/></xsl:template></xsl:stylesheet>
        ==== back.xsl
        <xsl:stylesheet xmlns:xsl="http://www.w3.org/1999/XSL/Transform" version="1.0"><xsl:template match="b"><a/></xsl:template></xsl:stylesheet>
        ====
        converted     all.xml:9:3     proxy DirectProxy
        converted     all.xml:13:3    proxy XSLTProxy
        converted     all.xml:15:19   xslt there
        converted     all.xml:15:38   send
        converted     all.xml:16:20   xslt back
        converted     all.xml:16:38   send
        converted     all.xml:24:3    proxy MessageBuildingProxy
        approximated  all.xml:26:7    payloadFactory              an element without elements in it is written as an element, as in Micro Integrator; Synapse writes its text
        converted     all.xml:27:7    call
        converted     all.xml:27:49   respond
        converted     all.xml:30:3    proxy CloneProxy
        converted     all.xml:33:9    property ENCLOSING
        converted     all.xml:34:9    clone perf
        converted     all.xml:34:44   send
        converted     all.xml:34:124  send
        converted     all.xml:37:9    aggregate perf
        converted     all.xml:37:173  send
        converted     all.xml:41:3    proxy EnrichProxy
        converted     all.xml:43:7    enrich
        converted     all.xml:44:7    payloadFactory
        converted     all.xml:45:7    call
        converted     all.xml:46:7    enrich
        converted     all.xml:47:7    respond
        converted     all.xml:21:3    api directApi
        converted     all.xml:22:5    resource of directApi
        converted     all.xml:22:42   call
        converted     all.xml:22:136  respond
        converted     all.xml:2:3     endpoint RealService
        converted     all.xml:19:3    localEntry there
        converted     all.xml:20:3    localEntry back
        29 converted, 1 approximated, 0 refused
    "#]].assert_eq(&whole(&[("all.xml", artifacts)]));
}

#[test]
fn calls_and_answers() {
    check(&[
        (
            r#"<call><endpoint key="E"/></call>"#,
            expect![[r#"
                flows:
                  P:
                    - call:
                        upstream: E
                        path: "{{ concat('/service/Echo', substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                    - respond: {}
            "#]],
        ),
        (
            r#"<property name="uri.var.id" value="7"/><call><endpoint key="H"/></call>"#,
            expect![[r#"
                flows:
                  P:
                    - set:
                        uri_var_id: "7"
                    - call:
                        upstream: H
                        method: GET
                        path: "/things/{{ $uri_var_id }}"
                        query: "q={{ $query.q }}"
                    - respond: {}
            "#]],
        ),
        (
            r#"<call blocking="true"><endpoint key="E"/><source type="custom">//m:a</source><target type="property" name="reply"/></call>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      # approximated: call, p.xml:3:1: the call does not block a thread, and a fault has the code of any other call
                      - call:
                          upstream: E
                          path: "{{ concat('/service/Echo', substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                          body: "$infoset//m:a"
                          into: reply_reply
                      - set:
                          reply: "$reply_reply.body"
                      # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
                approximated p.xml:3:1: the call does not block a thread, and a fault has the code of any other call
            "#]],
        ),
        (
            r#"<call><endpoint key="absent"/></call>"#,
            expect![[r#"
                flows:
                  P:
                    # refused: call, p.xml:3:1: the endpoint `absent` is not among the artifacts
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:3:1: the endpoint `absent` is not among the artifacts
            "#]],
        ),
        (
            r#"<callout serviceURL="http://c.test/s" action="urn:a"><source xpath="//m:a"/><target key="result"/></callout>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - switch:
                          "on": "$headers.content-type"
                          cases:
                            - matches: "(?i)^application/soap\\+xml"
                              steps:
                                - set:
                                    callout_request:
                                      value: "<soapenv:Envelope xmlns:soapenv=\"http://www.w3.org/2003/05/soap-envelope\"><soapenv:Body/></soapenv:Envelope>"
                                      type: xml
                                - enrich:
                                    source: "$infoset//m:a"
                                    target: "$callout_request/soap12:Body"
                                    action: child
                                - call:
                                    upstream: c.test
                                    path: /s
                                    headers:
                                      set:
                                        content-type: "application/soap+xml; charset=utf-8; action=\"urn:a\""
                                      remove: [SOAPAction]
                                    body: "$callout_request"
                                    into: callout_reply
                                    fault_on: ["4xx", "5xx"]
                                    method: POST
                            - matches: "(?i)^text/xml"
                              steps:
                                - set:
                                    callout_request:
                                      value: "<soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\"><soapenv:Body/></soapenv:Envelope>"
                                      type: xml
                                - enrich:
                                    source: "$infoset//m:a"
                                    target: "$callout_request/soap:Body"
                                    action: child
                                - call:
                                    upstream: c.test
                                    path: /s
                                    headers:
                                      set:
                                        content-type: "text/xml; charset=utf-8"
                                        SOAPAction: "\"urn:a\""
                                    body: "$callout_request"
                                    into: callout_reply
                                    fault_on: ["4xx", "5xx"]
                                    method: POST
                          default:
                            - call:
                                upstream: c.test
                                path: /s
                                headers:
                                  set:
                                    content-type: "application/xml; charset=utf-8"
                                    SOAPAction: "\"urn:a\""
                                body: "$infoset//m:a"
                                into: callout_reply
                                fault_on: ["4xx", "5xx"]
                                method: POST
                      - set:
                          result:
                            xpath: "$callout_reply.body/self::soap:Body/*[1] | $callout_reply.body/self::soap12:Body/*[1] | $callout_reply.body[not(self::soap:Body or self::soap12:Body)]"
                      # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
            "#]],
        ),
        (
            r#"<send><endpoint key="E"/></send>"#,
            expect![[r#"
                flows:
                  P:
                    - call:
                        upstream: E
                        path: "{{ concat('/service/Echo', substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                    - respond: {}
            "#]],
        ),
        (
            r#"<header name="To" action="remove"/><property name="RESPONSE" value="true"/><send/>"#,
            expect![[r#"
                flows:
                  P:
                    # approximated: send, p.xml:3:76: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                approximated p.xml:3:76: the headers of the request, which are sent back there, do not go to the client
            "#]],
        ),
        (
            r#"<property name="HTTP_SC" value="201" scope="axis2"/><respond/>"#,
            expect![[r#"
                flows:
                  P:
                    # approximated: respond, p.xml:3:53: the headers of the request, which are sent back there, do not go to the client
                    - respond:
                        status: 201
                approximated p.xml:3:53: the headers of the request, which are sent back there, do not go to the client
            "#]],
        ),
        (
            r#"<property name="OUT_ONLY" value="true"/><send><endpoint key="E"/></send>"#,
            expect![[r#"
                flows:
                  P:
                    # approximated: property OUT_ONLY, p.xml:3:1: the client gets 202; there it waits, unless `FORCE_SC_ACCEPTED` is set too
                    - call:
                        upstream: E
                        path: "{{ concat('/service/Echo', substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                    - drop: {}
                approximated p.xml:3:1: the client gets 202; there it waits, unless `FORCE_SC_ACCEPTED` is set too
            "#]],
        ),
        (
            "<loopback/>",
            expect![[r#"
                flows:
                  P:
                    # approximated: loopback, p.xml:3:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                approximated p.xml:3:1: the headers of the request, which are sent back there, do not go to the client
            "#]],
        ),
        (
            "<drop/>",
            expect![[r#"
                flows:
                  P:
                    - drop: {}
            "#]],
        ),
        (
            r#"<property name="REST_URL_POSTFIX" value="/more" scope="axis2"/><property name="HTTP_METHOD" value="put" scope="axis2"/><call><endpoint key="E"/></call>"#,
            expect![[r#"
                flows:
                  P:
                    - call:
                        upstream: E
                        method: PUT
                        path: /service/Echo/more
                    - respond: {}
            "#]],
        ),
        (
            r#"<send><endpoint><recipientlist><endpoint key="E"/><endpoint><address uri="https://two.test"/></endpoint></recipientlist></endpoint></send>"#,
            expect![[r#"
                flows:
                  P:
                    # approximated: send, p.xml:3:1: the replies of a recipient list are put into one message; Synapse handles each by itself
                    - scatter:
                        branches:
                          - - call:
                                upstream: E
                                path: "{{ concat('/service/Echo', substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                          - - call:
                                upstream: two.test
                                path: "{{ concat(substring('/', 1 + 9999999 * (starts-with(substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST')), '/'))), substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                        gather:
                          take: "$infoset_body/*"
                          into: "<Replies/>"
                          complete: all
                          partial: keep
                    - respond: {}
                approximated p.xml:3:1: the replies of a recipient list are put into one message; Synapse handles each by itself
            "#]],
        ),
        (
            "<send/>",
            expect![[r#"
                flows:
                  P:
                    # refused: send, p.xml:3:1: it has no endpoint, and no step before it says where to
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:3:1: it has no endpoint, and no step before it says where to
            "#]],
        ),
    ]);
}

#[test]
fn values_and_headers() {
    check(&[
        (
            r#"<property name="a" value="text"/><property name="b" expression="//m:x"/><property name="c" expression="//m:x" type="OM"/><property name="d" expression="count(//m:x)" type="INTEGER"/>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - set:
                          a: text
                      - set:
                          b: "texts($infoset//m:x)"
                      - set:
                          c: "$infoset//m:x"
                      - set:
                          d:
                            value: "count($infoset//m:x)"
                            type: number
                      # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
            "#]],
        ),
        (
            r#"<property name="path" value="/literal"/><property name="p-1" value="$literal {{ and braces"/><property name="a" action="remove"/>"#,
            expect![[r#"
                flows:
                  P:
                    - set:
                        path_:
                          text: /literal
                    - set:
                        p_1:
                          text: "$literal {{ and braces"
                    - set:
                        a: ""
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            r#"<property name="x"><m:a>1</m:a></property>"#,
            expect![[r#"
                flows:
                  P:
                    - set:
                        x:
                          value: "<m:a xmlns:m=\"urn:m\">1</m:a>"
                          type: xml
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            r#"<property name="X-Id" expression="$ctx:a" scope="transport"/><property name="a" value="1"/><property name="X-Old" scope="transport" action="remove"/>"#,
            expect![[r#"
                flows:
                  P:
                    - filter:
                        when: "$a"
                        then:
                          - header:
                              set:
                                X-Id: "{{ $a }}"
                        else:
                          - header:
                              remove: [X-Id]
                    - set:
                        a: "1"
                    - header:
                        remove: [X-Old]
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            r#"<property name="messageType" value="application/json" scope="axis2"/><property name="ContentType" value="application/json" scope="axis2"/>"#,
            expect![[r#"
                flows:
                  P:
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - convert:
                        to: json
                        types: true
                    - header:
                        set:
                          content-type: application/json
                    - respond: {}
            "#]],
        ),
        (
            r#"<property name="DISABLE_CHUNKING" value="true" scope="axis2"/><property name="NO_ENTITY_BODY" value="true" scope="axis2"/>"#,
            expect![[r#"
                flows:
                  P:
                    # approximated: property NO_ENTITY_BODY, p.xml:3:63: the body is empty, and the content type that of text
                    - payload:
                        text: ""
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                approximated p.xml:3:63: the body is empty, and the content type that of text
            "#]],
        ),
        (
            r#"<property name="a" expression="get-property('system', 'HOME')"/><property name="a" value="1" scope="registry"/>"#,
            expect![[r#"
                flows:
                  P:
                    # refused: property a, p.xml:3:1: the system property `HOME` is read at run time; write `${NAME}` or `${file:PATH}` where it is used (character 1 of `get-property('system', 'HOME')`)
                    - set:
                        a: ""
                    # refused: property a, p.xml:3:65: the property `a` of registry: there is no registry; a file beside the configuration has what changes seldom
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:3:1: the system property `HOME` is read at run time; write `${NAME}` or `${file:PATH}` where it is used (character 1 of `get-property('system', 'HOME')`)
                refused p.xml:3:65: the property `a` of registry: there is no registry; a file beside the configuration has what changes seldom
            "#]],
        ),
        (
            r#"<propertyGroup><property name="a" value="1"/><property name="b" value="2"/></propertyGroup>"#,
            expect![[r#"
                flows:
                  P:
                    - set:
                        a: "1"
                    - set:
                        b: "2"
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            r#"<variable name="v" type="JSON" expression="${payload.a[0].b}"/><variable name="w" type="BOOLEAN" value="${payload.n > 3 and vars.v == 'x'}"/>"#,
            expect![[r#"
                flows:
                  P:
                    - set:
                        v:
                          value: "$body.a[0].b"
                          type: json
                    # approximated: variable w, p.xml:3:64: `and` and `or` bind weaker than comparisons here; there they bind stronger, so that comparisons need parentheses
                    - set:
                        w:
                          value:
                            cel: "default([body.n > 3, sameText(vars.v, 'x')].all(side, side), '')"
                          type: boolean
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                approximated p.xml:3:64: `and` and `or` bind weaker than comparisons here; there they bind stronger, so that comparisons need parentheses
            "#]],
        ),
        (
            r#"<header name="m:routing" value="a &lt; b"/><header name="m:routing" action="remove"/><header name="m:id" expression="//m:x"/><header><m:whole/></header>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - filter:
                          when:
                            value: "$headers.content-type"
                            matches: "(?i)^(text/xml|application/soap\\+xml)"
                          then:
                            - soap_header:
                                set: ["<m:routing xmlns:m=\"urn:m\">a &lt; b</m:routing>"]
                      - filter:
                          when:
                            value: "$headers.content-type"
                            matches: "(?i)^(text/xml|application/soap\\+xml)"
                          then:
                            - soap_header:
                                remove: ["m:routing"]
                      - filter:
                          when:
                            value: "$headers.content-type"
                            matches: "(?i)^(text/xml|application/soap\\+xml)"
                          then:
                            - soap_header:
                                set: ["<m:id xmlns:m=\"urn:m\">{{ string(texts($infoset//m:x)) }}</m:id>"]
                      - filter:
                          when:
                            value: "$headers.content-type"
                            matches: "(?i)^(text/xml|application/soap\\+xml)"
                          then:
                            - soap_header:
                                set: ["<m:whole xmlns:m=\"urn:m\"/>"]
                      # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
            "#]],
        ),
        (
            r#"<header name="X-A" value="1" scope="transport"/><header name="Action" value="urn:a"/><header name="From" value="x"/>"#,
            expect![[r#"
                flows:
                  P:
                    - header:
                        set:
                          X-A: "1"
                    - switch:
                        "on": "$headers.content-type"
                        cases:
                          - matches: "(?i)^application/soap\\+xml"
                            steps:
                              - header:
                                  set:
                                    content-type: "application/soap+xml{{ concat(substring('; charset=', 1 + 9999999 * not(contains($headers.content-type, 'charset='))), substring-before(concat(substring-after($headers.content-type, 'charset='), ';'), ';')) }}; action=\"urn:a\""
                        default:
                          - header:
                              set:
                                SOAPAction: "\"urn:a\""
                    # refused: header From, p.xml:3:86: `From` of WS-Addressing has no counterpart
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:3:86: `From` of WS-Addressing has no counterpart
            "#]],
        ),
        (
            r#"<log level="custom" category="WARN" separator=" | "><property name="id" expression="$trp:X-Id"/><property name="all" expression="$body"/></log><log level="full"/>"#,
            expect![[r#"
                flows:
                  P:
                    - log:
                        level: warn
                        message: "id = {{ $headers.X-Id }} | all = {{ texts($infoset_body) }}"
                    # approximated: log full, p.xml:3:144: the line has the method, `SOAPAction` and the texts of the message, not the addresses of WS-Addressing
                    - log:
                        level: info
                        message: "{{ $method }} {{ $headers.SOAPAction }} {{ $envelope }}"
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                approximated p.xml:3:144: the line has the method, `SOAPAction` and the texts of the message, not the addresses of WS-Addressing
            "#]],
        ),
        (
            r#"<log category="ERROR"><message>order ${payload.id} of ${headers["X-User"]}: ${vars.n + 1}</message></log><variable name="n" value="1"/>"#,
            expect![[r#"
                flows:
                  P:
                    - set:
                        computed_1:
                          cel: "default(vars.n + 1, '')"
                    - log:
                        level: error
                        message: "order {{ $body.id }} of {{ $headers.X-User }}: {{ $computed_1 }}"
                    - set:
                        "n": "1"
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
    ]);
}

#[test]
fn expressions() {
    let cases: &[(&str, Expect)] = &[
        (
            "$body//m:x/y[1]",
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - set:
                          set: "1"
                      - set:
                          r:
                            value: "$infoset_body//m:x/y[1]"
                            type: json
                      # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
            "#]],
        ),
        (
            "//m:x[@id = 'get-property(1)' and . != '']",
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - set:
                          set: "1"
                      - set:
                          r:
                            value: "$infoset//m:x[@id = 'get-property(1)' and . != '']"
                            type: json
                      # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
            "#]],
        ),
        (
            "$trp:X-Id",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    - set:
                        r:
                          value: "$headers.X-Id"
                          type: json
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            "get-property('transport', 'X-Id')",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    - set:
                        r:
                          value: "$headers.X-Id"
                          type: json
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            "fn:concat($ctx:set, '-', get-property('ERROR_CODE'))",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    - set:
                        r:
                          value: "concat($set, '-', $error.code)"
                          type: json
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            "$env/s:Body/*",
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      s: "http://schemas.xmlsoap.org/soap/envelope/"
                    steps:
                      - set:
                          set: "1"
                      - set:
                          r:
                            value: "$infoset/*/s:Body/*"
                            type: json
                      # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
            "#]],
        ),
        (
            "s:Body/m:x",
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      s: "http://schemas.xmlsoap.org/soap/envelope/"
                      m: "urn:m"
                    steps:
                      - set:
                          set: "1"
                      - set:
                          r:
                            value: "$infoset/*/s:Body/m:x"
                            type: json
                      # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
            "#]],
        ),
        (
            "count(m:x) > 3 and not(@id) or * = 2",
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - set:
                          set: "1"
                      - set:
                          r:
                            value: "count($infoset/*/m:x) > 3 and not($infoset/*/@id) or $infoset/*/* = 2"
                            type: json
                      # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
            "#]],
        ),
        (
            "json-eval($.a.b[0])",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    - set:
                        r:
                          value: "$body.a.b[0]"
                          type: json
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            "json-eval($)",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    - set:
                        r:
                          value: "$body"
                          type: json
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            "$.a..b",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    - set:
                        r:
                          value: "$body.a..b"
                          type: json
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            "$url:limit",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    - set:
                        r:
                          value: "$query.limit"
                          type: json
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            "$ctx:uri.var.id",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    # refused: property r, p.xml:4:1: nothing sets `uri.var.id`, and no path has it (character 1 of `$ctx:uri.var.id`)
                    - set:
                        r: ""
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:4:1: nothing sets `uri.var.id`, and no path has it (character 1 of `$ctx:uri.var.id`)
            "#]],
        ),
        (
            "get-property('query.param.x')",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    - set:
                        r:
                          value: "$query.x"
                          type: json
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            "$axis2:HTTP_SC",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    - set:
                        r:
                          value: "$status"
                          type: json
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            "${params.queryParams.a}",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    - set:
                        r:
                          value: "$query.a"
                          type: json
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            "${xpath('//m:x')}",
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - set:
                          set: "1"
                      - set:
                          r:
                            value: "$infoset//m:x"
                            type: json
                      # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
            "#]],
        ),
        (
            "${properties.synapse.set}",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    - set:
                        r:
                          value: "$set"
                          type: json
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            "${payload.a + 1}",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    - set:
                        r:
                          value:
                            cel: "default(body.a + 1, '')"
                          type: json
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            "${not (payload.a >= 1) or length(payload.b) == 2}",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    # approximated: property r, p.xml:4:1: `and` and `or` bind weaker than comparisons here; there they bind stronger, so that comparisons need parentheses
                    - set:
                        r:
                          value:
                            cel: "default([!(body.a >= 1), sameText(size(body.b), 2)].exists(side, side), '')"
                          type: json
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                approximated p.xml:4:1: `and` and `or` bind weaker than comparisons here; there they bind stronger, so that comparisons need parentheses
            "#]],
        ),
        (
            "${configs.host}",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    # refused: property r, p.xml:4:1: `configs.host` is read at run time; write `${host}` where it is used
                    - set:
                        r: ""
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:4:1: `configs.host` is read at run time; write `${host}` where it is used
            "#]],
        ),
        (
            "${toUpper(payload.a)}",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    # refused: property r, p.xml:4:1: `toUpper` has no counterpart (character 1 of `toUpper(payload.a)`)
                    - set:
                        r: ""
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:4:1: `toUpper` has no counterpart (character 1 of `toUpper(payload.a)`)
            "#]],
        ),
        (
            "base64Encode($body)",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    # refused: property r, p.xml:4:1: the function `base64Encode` has no counterpart (character 1 of `base64Encode($body)`)
                    - set:
                        r: ""
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:4:1: the function `base64Encode` has no counterpart (character 1 of `base64Encode($body)`)
            "#]],
        ),
        (
            "$ctx:nobody-sets-it",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    # refused: property r, p.xml:4:1: nothing among the artifacts sets the property `nobody-sets-it` (character 1 of `$ctx:nobody-sets-it`)
                    - set:
                        r: ""
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:4:1: nothing among the artifacts sets the property `nobody-sets-it` (character 1 of `$ctx:nobody-sets-it`)
            "#]],
        ),
        (
            "n:x",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    # refused: property r, p.xml:4:1: the prefix `n` is not declared (character 1 of `n:x`)
                    - set:
                        r: ""
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:4:1: the prefix `n` is not declared (character 1 of `n:x`)
            "#]],
        ),
        (
            "//m:x[",
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - set:
                          set: "1"
                      # refused: property r, p.xml:4:1: `$infoset//m:x[` has no counterpart: expected an expression, found the end
                      - set:
                          r: ""
                      # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
                refused p.xml:4:1: `$infoset//m:x[` has no counterpart: expected an expression, found the end
            "#]],
        ),
        (
            "//m:x['",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    # refused: property r, p.xml:4:1: `//m:x['` is not an XPath at character 7
                    - set:
                        r: ""
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:4:1: `//m:x['` is not an XPath at character 7
            "#]],
        ),
        (
            "../a",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    # refused: property r, p.xml:4:1: `..` leads above the envelope (character 1 of `../a`)
                    - set:
                        r: ""
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:4:1: `..` leads above the envelope (character 1 of `../a`)
            "#]],
        ),
        (
            "$func:x",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    # refused: property r, p.xml:4:1: `$func:x` is used outside a template (character 1 of `$func:x`)
                    - set:
                        r: ""
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:4:1: `$func:x` is used outside a template (character 1 of `$func:x`)
            "#]],
        ),
        (
            "get-property($ctx:set)",
            expect![[r#"
                flows:
                  P:
                    - set:
                        set: "1"
                    # refused: property r, p.xml:4:1: `get-property` of a name that is computed has no counterpart (character 1 of `get-property($ctx:set)`)
                    - set:
                        r: ""
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:4:1: `get-property` of a name that is computed has no counterpart (character 1 of `get-property($ctx:set)`)
            "#]],
        ),
    ];
    for (expression, expected) in cases {
        let expression = expression.replace('<', "&lt;").replace('"', "&quot;");
        let made = steps(&format!(
            "<property name=\"set\" value=\"1\"/>\n<property name=\"r\" type=\"JSON\" expression=\"{expression}\"/>"
        ));
        expected.assert_eq(&made);
    }
}

#[test]
fn messages_that_are_made() {
    check(&[
        (
            r#"<payloadFactory><format><m:a b="$2">$1 and {{</m:a></format><args><arg expression="//m:x"/><arg value="a &lt; 'b'"/></args></payloadFactory>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - payload:
                          xml: "<m:a xmlns:m=\"urn:m\" b=\"a &lt; 'b'\">{{ $infoset//m:x[not(*)]/text() | $infoset//m:x[*] }} and {{ '{{' }}</m:a>"
                      # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
            "#]],
        ),
        (
            "<payloadFactory media-type=\"json\"><format>{\n  \"a\": \"$1\",\n  \"n\": $2\n}</format><args><arg evaluator=\"json\" expression=\"$.a\"/><arg evaluator=\"xml\" expression=\"//m:n\"/></args></payloadFactory>",
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      # approximated: payloadFactory, p.xml:3:1: a value without quotes around it is written as the JSON it is: text of XML in quotes
                      - payload:
                          json: |-
                            {
                              "a": "{{ $body.a }}",
                              "n": {{ texts($infoset//m:n) }}
                            }
                      # approximated: respond, p.xml:7:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
                approximated p.xml:3:1: a value without quotes around it is written as the JSON it is: text of XML in quotes
            "#]],
        ),
        (
            r#"<payloadFactory media-type="json"><format>{"id": ${payload.id}}</format></payloadFactory>"#,
            expect![[r#"
                flows:
                  P:
                    - payload:
                        json: "{\"id\": {{ $body.id }}}"
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            r#"<payloadFactory media-type="text"><format>Hello $1</format><args><arg expression="//m:x"/></args></payloadFactory>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - payload:
                          text: "Hello {{ texts($infoset//m:x) }}"
                      # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
            "#]],
        ),
        (
            r#"<payloadFactory template-type="freemarker"><format>x</format></payloadFactory><payloadFactory><format><a>$2</a></format><args><arg value="1"/></args></payloadFactory>"#,
            expect![[r#"
                flows:
                  P:
                    # refused: payloadFactory, p.xml:3:1: `@template-type`: FreeMarker is not run; write the format with `{{ }}`
                    # refused: payloadFactory, p.xml:3:79: there is no argument for `$2`
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:3:1: `@template-type`: FreeMarker is not run; write the format with `{{ }}`
                refused p.xml:3:79: there is no argument for `$2`
            "#]],
        ),
        (
            r#"<makefault version="soap11"><code value="s:Client"/><reason expression="//m:x"/><detail>d</detail></makefault><log level="custom"/>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - switch:
                          "on": "$headers.content-type"
                          cases:
                            - matches: "(?i)^application/soap\\+xml"
                              steps:
                                - payload:
                                    xml: "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body><s:Fault xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><faultcode>s:Client</faultcode><faultstring>{{ texts($infoset//m:x) }}</faultstring><detail>d</detail></s:Fault></s:Body></s:Envelope>"
                            - matches: "(?i)^text/xml"
                              steps:
                                - payload:
                                    xml: "<s:Fault xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><faultcode>s:Client</faultcode><faultstring>{{ texts($infoset//m:x) }}</faultstring><detail>d</detail></s:Fault>"
                          default:
                            - payload:
                                xml: "<Exception/>"
                      - log:
                          level: info
                          message: ""
                      # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                      - respond:
                          status: 500
            "#]],
        ),
        (
            r#"<makefault version="soap12"><code value="s:Receiver"/><reason value="a &lt; b"/></makefault><property name="x" value="1"/>"#,
            expect![[r#"
                flows:
                  P:
                    - switch:
                        "on": "$headers.content-type"
                        cases:
                          - matches: "(?i)^application/soap\\+xml"
                            steps:
                              - payload:
                                  xml: "<s:Fault xmlns:s=\"http://www.w3.org/2003/05/soap-envelope\"><s:Code><s:Value>s:Receiver</s:Value></s:Code><s:Reason><s:Text xml:lang=\"en\">a &lt; b</s:Text></s:Reason></s:Fault>"
                          - matches: "(?i)^text/xml"
                            steps:
                              - payload:
                                  xml: "<s:Envelope xmlns:s=\"http://www.w3.org/2003/05/soap-envelope\"><s:Body><s:Fault xmlns:s=\"http://www.w3.org/2003/05/soap-envelope\"><s:Code><s:Value>s:Receiver</s:Value></s:Code><s:Reason><s:Text xml:lang=\"en\">a &lt; b</s:Text></s:Reason></s:Fault></s:Body></s:Envelope>"
                        default:
                          - payload:
                              xml: "<Exception>a &lt; b</Exception>"
                    - set:
                        x: "1"
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond:
                        status: 500
            "#]],
        ),
        (
            r#"<enrich><source type="inline"><m:a/></source><target xpath="//m:x" action="child"/></enrich><enrich><source xpath="//m:x"/><target xpath="//m:y" action="sibling"/></enrich>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - enrich:
                          source:
                            xml: "<m:a xmlns:m=\"urn:m\"/>"
                          target: "$infoset//m:x"
                          action: child
                      - enrich:
                          source: "$infoset//m:x"
                          target: "$infoset//m:y"
                          action: after
                      # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
            "#]],
        ),
        (
            r#"<enrich><source xpath="//m:x"/><target action="remove"/></enrich><enrich><source type="envelope"/><target type="property" property="all"/></enrich><enrich><source type="inline">{"a": 1}</source><target type="body"/></enrich><enrich><source type="body"/><target type="key"/></enrich>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - enrich:
                          target: "$infoset//m:x"
                          action: remove
                      - set:
                          all: "$envelope"
                      - payload:
                          json: "{\"a\": 1}"
                      # refused: enrich, p.xml:3:225: `target@type`: a new key in JSON has no counterpart; `payload: { json }` writes it
                      # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
                refused p.xml:3:225: `target@type`: a new key in JSON has no counterpart; `payload: { json }` writes it
            "#]],
        ),
    ]);
}

#[test]
fn documents_that_transform_and_validate() {
    check(&[
        (
            r#"<xslt key="x.xsl"><property name="p" value="1"/><property name="q" expression="//m:x"/></xslt>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - xslt:
                          stylesheet: x.xsl
                          of:
                            xpath: "(/soap:Envelope/soap:Body/* | /soap12:Envelope/soap12:Body/* | /*[not(self::soap:Envelope or self::soap12:Envelope)])[1]"
                          parameters:
                            p: "1"
                            q: "texts($infoset//m:x)"
                      # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
            "#]],
        ),
        (
            r#"<xslt key="absent.xsl"/><xslt key="x.xsl" source="//m:x"/><xslt key="../secret.xsl"/>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      # refused: xslt absent.xsl, p.xml:3:1: `absent.xsl` is not among the artifacts
                      - xslt:
                          stylesheet: x.xsl
                          of: "$infoset//m:x"
                      # refused: xslt ../secret.xsl, p.xml:3:59: `../secret.xsl` leads out of the artifacts
                      # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
                refused p.xml:3:1: `absent.xsl` is not among the artifacts
                refused p.xml:3:59: `../secret.xsl` leads out of the artifacts
            "#]],
        ),
        (
            r#"<validate><schema key="x.xsd"/><on-fail><respond/></on-fail></validate><validate source="$body/*[1]"><schema key="x.json"/></validate>"#,
            expect![[r#"
                flows:
                  P:
                    - validate:
                        schema: x.xsd
                        else:
                          # approximated: respond, p.xml:3:41: the headers of the request, which are sent back there, do not go to the client
                          - respond: {}
                    - validate:
                        json_schema: x.json
                        of: "$infoset_body/*[1]"
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                approximated p.xml:3:41: the headers of the request, which are sent back there, do not go to the client
            "#]],
        ),
        (
            r#"<jsontransform/>"#,
            expect![[r#"
                flows:
                  P:
                    # approximated: jsontransform, p.xml:3:1: elements become JSON by the rules of `convert`; texts that are numbers become numbers
                    - convert:
                        to: json
                        types: true
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                approximated p.xml:3:1: elements become JSON by the rules of `convert`; texts that are numbers become numbers
            "#]],
        ),
        (
            r#"<script language="js">mc.setProperty("a", "b"); // c
        mc.setProperty('c', '/d');</script><log level="custom"><property name="a" expression="$ctx:a"/></log>"#,
            expect![[r#"
                flows:
                  P:
                    - set:
                        a: b
                        c:
                          text: /d
                    - log:
                        level: info
                        message: "a = {{ $a }}"
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            r#"<script language="js"><![CDATA[var x = mc.getPayloadJSON(); mc.setProperty("n", x.a + 1); mc.setPayloadJSON({ n: x.a });]]></script><log level="custom"><property name="n" expression="$ctx:n"/></log>"#,
            expect![[r#"
                flows:
                  P:
                    - script:
                        js: |-
                          const out$ = {}, reads$ = [], sets$ = ["default n"];
                          let json$ = typeof message === 'object' && message !== null ? message : {};
                          const mc$ = {
                            getPayloadJSON() { return json$; },
                            setPayloadJSON(value) { json$ = typeof value === 'string' ? JSON.parse(value) : value; out$.json = json$; out$.is_json = true; out$.is_xml = false; },
                            getPayloadXML() { return { toString() { return values.payload; }, toXMLString() { return values.payload; } }; },
                            setPayloadXML(value) { out$.xml = String(value); out$.is_xml = true; out$.is_json = false; },
                            getProperty(name, scope) {
                              const key = (scope || 'default') + ' ' + name, set = sets$.indexOf(key), read = reads$.indexOf(key);
                              if (set >= 0 && out$['h' + set]) return out$['w' + set];
                              if (read < 0 && set < 0) throw new Error('the property ' + name + ' is not named where the script is read');
                              return read < 0 ? null : values['r' + read];
                            },
                            setProperty(name, value, scope) {
                              const at = sets$.indexOf((scope || 'default') + ' ' + name);
                              if (at < 0) throw new Error('the property ' + name + ' is not named where the script is read');
                              out$['h' + at] = true;
                              out$['w' + at] = value === undefined ? null : value;
                            },
                          };
                          out$.ends = false === (function (mc) {
                          var x = mc.getPayloadJSON(); mc.setProperty("n", x.a + 1); mc.setPayloadJSON({ n: x.a });
                          }(mc$));
                          return out$;
                        into: script_made
                    - filter:
                        when: "$script_made.h0"
                        then:
                          - set:
                              "n": "$script_made.w0"
                    - filter:
                        when: "$script_made.is_json"
                        then:
                          - payload:
                              json: "{{ $script_made.json }}"
                    - log:
                        level: info
                        message: "n = {{ $n }}"
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
    ]);
}

#[test]
fn what_decides_what_runs() {
    check(&[
        (
            r#"<filter source="$trp:routing" regex="xadmin;.*"><then><log level="custom"/></then><else><drop/></else></filter>"#,
            expect![[r#"
                flows:
                  P:
                    - filter:
                        when:
                          value: "$headers.routing"
                          matches: "^(?:xadmin;.*)$"
                        then:
                          - log:
                              level: info
                              message: ""
                        else:
                          - drop: {}
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            r#"<filter xpath="//m:x = 1"><drop/></filter><filter source="//m:x" regex="(?=a)b"><drop/></filter>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - filter:
                          when: "$infoset//m:x = 1"
                          then:
                            - drop: {}
                      # refused: filter //m:x, p.xml:3:43: the regular expression `(?=a)b` has no counterpart: it looks around or back, or is none
                      # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
                refused p.xml:3:43: the regular expression `(?=a)b` has no counterpart: it looks around or back, or is none
            "#]],
        ),
        (
            r#"<filter xpath="boolean(//m:x)"><then><respond/></then><else><drop/></else></filter><log/>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - filter:
                          when: "boolean($infoset//m:x)"
                          then:
                            # approximated: respond, p.xml:3:38: the headers of the request, which are sent back there, do not go to the client
                            - respond: {}
                          else:
                            - drop: {}
                approximated p.xml:3:38: the headers of the request, which are sent back there, do not go to the client
            "#]],
        ),
        (
            r#"<switch source="//m:x"><case regex="IBM"><drop/></case><case regex="M.*"><log level="custom"/></case><default/></switch>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - switch:
                          "on": "texts($infoset//m:x)"
                          cases:
                            - equals: IBM
                              steps:
                                - drop: {}
                            - matches: "^(?:M.*)$"
                              steps:
                                - log:
                                    level: info
                                    message: ""
                          default: []
                      # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
            "#]],
        ),
        (
            r#"<sequence key="plain"/><sequence key="plain"/><sequence key="loop"/><sequence key="absent"/><sequence key="{$ctx:a}"/>"#,
            expect![[r#"
                flows:
                  P:
                    - sequence: plain
                    - sequence: plain
                    - sequence: loop
                    # refused: sequence absent, p.xml:3:69: the sequence `absent` is not among the artifacts
                    # refused: sequence {$ctx:a}, p.xml:3:93: a sequence whose name is computed has no counterpart; write the cases as `switch`
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                  plain:
                    - log:
                        level: info
                        message: "a = b"
                  loop:
                    # refused: sequence loop, p.xml:12:23: the sequence `loop` runs itself
                    []
                refused p.xml:3:69: the sequence `absent` is not among the artifacts
                refused p.xml:3:93: a sequence whose name is computed has no counterpart; write the cases as `switch`
            "#]],
        ),
        (
            r#"<call-template target="T"><with-param name="who" value="{$trp:X-Id}"/></call-template><call-template target="T"/>"#,
            expect![[r#"
                flows:
                  P:
                    - set:
                        T_who: "$headers.X-Id"
                        T_how: well
                    - sequence: T
                    # refused: call-template T, p.xml:3:87: the parameter `who` is not given
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                  T:
                    - log:
                        level: info
                        message: "who = {{ $T_who }}"
                refused p.xml:3:87: the parameter `who` is not given
            "#]],
        ),
        (
            r#"<foreach expression="//m:order"><sequence><log level="custom"/></sequence></foreach>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - foreach:
                          over: "$infoset//m:order"
                          steps:
                            - log:
                                level: info
                                message: ""
                      # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
            "#]],
        ),
        (
            r#"<foreach collection="${payload.items}"><sequence><call><endpoint key="E"/></call></sequence></foreach>"#,
            expect![[r#"
                flows:
                  P:
                    - foreach:
                        over: "$body.items"
                        steps:
                          - call:
                              upstream: E
                              path: "{{ concat('/service/Echo', substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                        parallel: 8
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            r#"<in><log level="custom"/></in><out><drop/></out>"#,
            expect![[r#"
                flows:
                  P:
                    - log:
                        level: info
                        message: ""
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
    ]);
}

#[test]
fn messages_that_are_split_and_joined() {
    check(&[
        (
            r#"<iterate expression="//m:order"><target><sequence><call><endpoint key="E"/></call></sequence></target></iterate><aggregate><completeCondition timeout="5"><messageCount min="-1" max="-1"/></completeCondition><onComplete expression="$body/*"><respond/></onComplete></aggregate>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - split:
                          over: "$infoset//m:order"
                          steps:
                            - call:
                                upstream: E
                                path: "{{ concat('/service/Echo', substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                          parallel: 8
                          gather:
                            take: "$infoset_body/*"
                            into: "<Aggregated/>"
                            complete: all
                            head: first
                            timeout: "5s"
                            partial: keep
                      - payload:
                          from:
                            xpath: "$infoset_body/Aggregated/*[position() = 1 or $envelope/soap:Envelope or $envelope/soap12:Envelope]"
                      - respond: {}
            "#]],
        ),
        (
            r#"<clone><target endpoint="E"/><target soapAction="urn:b" endpoint="E"/><target><sequence><call><endpoint key="E"/></call><aggregate><completeCondition><messageCount min="1"/></completeCondition><onComplete expression="$body/*"/></aggregate></sequence></target></clone>"#,
            expect![[r#"
                flows:
                  P:
                    - scatter:
                        branches:
                          - call:
                              upstream: E
                              path: "{{ concat('/service/Echo', substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                          - - switch:
                                "on": "$headers.content-type"
                                cases:
                                  - matches: "(?i)^application/soap\\+xml"
                                    steps:
                                      - header:
                                          set:
                                            content-type: "application/soap+xml{{ concat(substring('; charset=', 1 + 9999999 * not(contains($headers.content-type, 'charset='))), substring-before(concat(substring-after($headers.content-type, 'charset='), ';'), ';')) }}; action=\"urn:b\""
                                default:
                                  - header:
                                      set:
                                        SOAPAction: "\"urn:b\""
                            - call:
                                upstream: E
                                path: "{{ concat('/service/Echo', substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                          - call:
                              upstream: E
                              path: "{{ concat('/service/Echo', substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                        gather:
                          take: "$infoset_body/*"
                          into: "<Aggregated/>"
                          complete: 1
                          head: first
                    - payload:
                        from:
                          xpath: "$infoset_body/Aggregated/*[position() = 1 or $envelope/soap:Envelope or $envelope/soap12:Envelope]"
                    - respond: {}
            "#]],
        ),
        (
            r#"<clone continueParent="true"><target sequence="plain"/></clone>"#,
            expect![[r#"
                flows:
                  P:
                    - wire_tap:
                        steps:
                          - sequence: plain
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                  plain:
                    - log:
                        level: info
                        message: "a = b"
                  loop:
                    # refused: sequence loop, p.xml:12:23: the sequence `loop` runs itself
                    []
            "#]],
        ),
        (
            r#"<scatter-gather parallel-execution="true" target="Variable" target-variable="all" result-content-type="JSON"><aggregation expression="${payload}" timeout="10" min-messages="1"/><sequence><call><endpoint key="E"/></call></sequence><sequence><property name="uri.var.id" value="7"/><call><endpoint key="H"/></call></sequence></scatter-gather>"#,
            expect![[r#"
                flows:
                  P:
                    - set:
                        scatter_kept: "$body"
                    - scatter:
                        branches:
                          - - call:
                                upstream: E
                                path: "{{ concat('/service/Echo', substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                          - - set:
                                uri_var_id: "7"
                            # approximated: call, p.xml:3:280: the headers of the reply before it are not sent on; those of the request are
                            - call:
                                upstream: H
                                method: GET
                                path: "/things/{{ $uri_var_id }}"
                                query: "q={{ $query.q }}"
                        gather:
                          take: "$body"
                          into:
                            json: []
                          complete: 1
                          timeout: "10s"
                          partial: keep
                    - set:
                        all: "$body"
                    - payload:
                        from: "$scatter_kept"
                    - respond: {}
                approximated p.xml:3:280: the headers of the reply before it are not sent on; those of the request are
            "#]],
        ),
        (
            r#"<iterate expression="//m:order" preservePayload="true"><target><sequence><call><endpoint key="E"/></call></sequence></target></iterate>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      # approximated: iterate //m:order, p.xml:3:1: each part is a message of its own, without what was around it; no aggregate collects the replies; here they are put into one message
                      - split:
                          over: "$infoset//m:order"
                          steps:
                            - call:
                                upstream: E
                                path: "{{ concat('/service/Echo', substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                          parallel: 8
                          gather:
                            take: "$infoset_body/*"
                            into: "<Replies/>"
                            complete: all
                            partial: keep
                      - respond: {}
                approximated p.xml:3:1: each part is a message of its own, without what was around it; no aggregate collects the replies; here they are put into one message
            "#]],
        ),
        (
            r#"<iterate expression="//m:all/m:order" preservePayload="true" attachPath="//m:all"><target><sequence><call><endpoint key="E"/></call></sequence></target></iterate>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      # approximated: iterate //m:all/m:order, p.xml:3:1: no aggregate collects the replies; here they are put into one message
                      - set:
                          iterate_rest: "$infoset"
                      - enrich:
                          target: "$iterate_rest//m:all/m:order"
                          action: remove
                      - split:
                          over: "$infoset//m:all/m:order"
                          steps:
                            - set:
                                iterate_part:
                                  xpath: "(/soap:Envelope/soap:Body/* | /soap12:Envelope/soap12:Body/* | /*[not(self::soap:Envelope or self::soap12:Envelope)])[1]"
                            - payload:
                                from:
                                  xpath: "$iterate_rest/soap:Envelope/soap:Body/node() | $iterate_rest/soap12:Envelope/soap12:Body/node()"
                            - enrich:
                                source: "$iterate_part"
                                target: "$infoset//m:all"
                                action: child
                            - call:
                                upstream: E
                                path: "{{ concat('/service/Echo', substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                          parallel: 8
                          gather:
                            take: "$infoset_body/*"
                            into: "<Replies/>"
                            complete: all
                            partial: keep
                      - respond: {}
                approximated p.xml:3:1: no aggregate collects the replies; here they are put into one message
            "#]],
        ),
        (
            r#"<aggregate><onComplete expression="//m:x"/></aggregate>"#,
            expect![[r#"
                flows:
                  P:
                    # refused: aggregate, p.xml:3:1: it has no `clone` or `iterate` before it that it could belong to
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:3:1: it has no `clone` or `iterate` before it that it could belong to
            "#]],
        ),
    ]);
}

#[test]
fn what_keeps_and_counts() {
    check(&[
        (
            r#"<cache timeout="20" collector="false"/><call><endpoint key="E"/></call><cache collector="true"/>"#,
            expect![[r#"
                flows:
                  P:
                    # approximated: cache, p.xml:3:1: requests are equal by method, action and body; name other values that matter in `key`
                    - cache:
                        key: "{{ $method }} {{ concat(translate(substring-before(concat(substring-after($headers.content-type, 'action='), ';'), ';'), '\" ', ''), substring(translate($headers.SOAPAction, '\"', ''), 1 + 9999999 * contains($headers.content-type, 'action='))) }} {{ $request.body }}"
                        ttl: "20s"
                        steps:
                          - call:
                              upstream: E
                              path: "{{ concat('/service/Echo', substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                          # approximated: cache, p.xml:3:72: requests are equal by method, action and body; name other values that matter in `key`
                          - respond: {}
                approximated p.xml:3:1: requests are equal by method, action and body; name other values that matter in `key`
                approximated p.xml:3:72: requests are equal by method, action and body; name other values that matter in `key`
            "#]],
        ),
        (
            r#"<throttle id="t"><policy><w:Policy xmlns:w="http://schemas.xmlsoap.org/ws/2004/09/policy" xmlns:t="http://www.wso2.org/products/wso2commons/throttle"><t:MaximumCount>4</t:MaximumCount><t:UnitTime>800000</t:UnitTime></w:Policy></policy><onAccept><log level="custom"/></onAccept><onReject><drop/></onReject></throttle>"#,
            expect![[r#"
                flows:
                  P:
                    # approximated: throttle t, p.xml:3:1: the policy's first limit counts for each client's address; a time of prohibition is left out; refused requests are answered with 429, not by `onReject`
                    - throttle:
                        requests: 4
                        per: "800s"
                        by: client
                        headers: none
                    - log:
                        level: info
                        message: ""
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                approximated p.xml:3:1: the policy's first limit counts for each client's address; a time of prohibition is left out; refused requests are answered with 429, not by `onReject`
            "#]],
        ),
        (
            r#"<store messageStore="S"/>"#,
            expect![[r#"
                flows:
                  P:
                    - store:
                        queue: S
                  S:
                    - fault:
                        code: server
                        reason: "nothing processes these messages"
                queues:
                  S:
                    flow: S
                    retry:
                      attempts: 1
                    dead_letter: true
            "#]],
        ),
        (
            r#"<dblookup><connection><pool><driver>org.postgresql.Driver</driver><url>jdbc:postgresql://db.test:5432/shop</url><user>ann</user><password>s3cret</password></pool></connection><statement><sql>select name from c where id = ? and x = '?'</sql><parameter expression="//m:x" type="VARCHAR"/><result name="who" column="name"/></statement></dblookup><log level="custom"><property name="who" expression="$ctx:who"/></log>"#,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      # approximated: dblookup, p.xml:3:1: the password is in the variable SHOP_PASSWORD
                      - sql:
                          database: shop
                          query: "select name from c where id = $1 and x = '?'"
                          arguments: ["texts($infoset//m:x)"]
                          into: shop_rows
                      - set:
                          who: "$shop_rows[0]['name']"
                      - log:
                          level: info
                          message: "who = {{ $who }}"
                      # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
                approximated p.xml:3:1: the password is in the variable SHOP_PASSWORD
            "#]],
        ),
        (
            r#"<conditionalRouter continueAfter="true"><conditionalRoute><condition><match type="header" source="X-Kind" regex="a.*"/></condition><target><sequence><property name="k" value="a"/></sequence></target></conditionalRoute><conditionalRoute breakRoute="false"><condition><and><equal type="param" source="q" value="1"/><not><exist type="header" source="Y"/></not></and></condition><target><sequence><property name="k" value="b"/></sequence></target></conditionalRoute></conditionalRouter>"#,
            expect![[r#"
                flows:
                  P:
                    - filter:
                        when:
                          cel: "((\"x-kind\" in headers) && headers[\"x-kind\"].matches(\"^(?:a.*)$\"))"
                        then:
                          - set:
                              k: a
                        else:
                          - filter:
                              when:
                                cel: "(((\"q\" in query) && query[\"q\"] == \"1\") && !((\"y\" in headers)))"
                              then:
                                - set:
                                    k: b
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
            "#]],
        ),
        (
            r#"<throwError type="LIMIT" errorMessage="too much"/>"#,
            expect![[r#"
                flows:
                  P:
                    # approximated: throwError, p.xml:3:1: its type is the detail of the fault; `$error.code` is 0
                    - fault:
                        code: server
                        reason: "too much"
                        detail: LIMIT
                approximated p.xml:3:1: its type is the detail of the fault; `$error.code` is 0
            "#]],
        ),
        (
            r#"<dbreport><connection><pool><url>jdbc:oracle:thin:@db.test:shop</url></pool></connection><statement><sql>x</sql></statement></dbreport>"#,
            expect![[r#"
                flows:
                  P:
                    # refused: dbreport, p.xml:3:1: `jdbc:oracle:thin:@db.test:shop` is a database that is not spoken to; PostgreSQL, MySQL, MariaDB and SQLite are
                    # approximated: respond, p.xml:4:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:3:1: `jdbc:oracle:thin:@db.test:shop` is a database that is not spoken to; PostgreSQL, MySQL, MariaDB and SQLite are
            "#]],
        ),
    ]);
}

#[test]
fn what_has_no_counterpart_is_refused_with_its_place() {
    let names = [
        "class",
        "xquery",
        "smooks",
        "rule",
        "bean",
        "spring",
        "ejb",
        "entitlement",
        "oauthService",
        "ntlm",
        "opa",
        "transaction",
        "event",
        "enqueue",
        "sampler",
        "dataServiceCall",
        "salesforce.query",
        "unheard",
    ];
    for name in names {
        let made = steps(&format!("<log level=\"custom\"/>\n  <{name} name=\"n\"/>"));
        let told = format!("    # refused: {name} n, p.xml:4:3: ");
        assert!(made.contains(&told), "{name}: {made}");
        let row = made.lines().last().unwrap();
        assert!(row.starts_with("refused p.xml:4:3: "), "{name}: {row}");
        assert!(row.len() > 30, "{name} has no reason: {row}");
    }
}

#[test]
fn urls_that_rules_make() {
    check(&[
        (
            r#"<rewrite><rewriterule><action value="https" fragment="protocol"/><action value="s.test" fragment="host"/><action value="8443" fragment="port"/></rewriterule></rewrite><call/>"#,
            expect![[r#"
                flows:
                  P:
                    - call: s.test-8443
                    - respond: {}
            "#]],
        ),
        (
            r#"<header name="To" value="http://a.test/stock/x?b=1"/>
<rewrite><rewriterule><action type="append" value="/more" fragment="path"/><action type="prepend" value="/v2" fragment="path"/></rewriterule>
<rewriterule><action type="replace" regex="^/v2" value="/v3" fragment="path"/><action type="remove" fragment="query"/><action type="replace" regex="a\." value="b." fragment="host"/></rewriterule></rewrite>
<send/>"#,
            expect![[r#"
                flows:
                  P:
                    - call:
                        upstream: b.test
                        path: /v3/stock/x/more
                        query: ""
                    - respond: {}
            "#]],
        ),
        (
            r#"<rewrite><rewriterule><action value="http://b.test:81/x?y={z}"/><action xpath="concat('/', $trp:To)" fragment="path"/></rewriterule></rewrite><call><endpoint><default><timeout><duration>5000</duration></timeout></default></endpoint></call>
<rewrite><rewriterule><action value="c.test" fragment="host"/></rewriterule></rewrite><call><endpoint key="E"/></call>"#,
            expect![[r#"
                flows:
                  P:
                    - call:
                        upstream: b.test-81
                        path: "{{ concat('/', $headers.To) }}"
                        query: "y={z}"
                    # approximated: call, p.xml:4:87: the headers of the reply before it are not sent on; those of the request are
                    - filter:
                        when:
                          value: "$headers.content-type"
                          matches: "(?i)^application/soap\\+xml"
                        then:
                          - header:
                              set:
                                content-type: "application/soap+xml{{ concat(substring('; charset=', 1 + 9999999 * not(contains($headers.content-type, 'charset='))), substring-before(concat(substring-after($headers.content-type, 'charset='), ';'), ';')) }}"
                    - call:
                        upstream: E
                        method: POST
                        path: /service/Echo
                        headers:
                          remove: [SOAPAction]
                    - respond: {}
                approximated p.xml:4:87: the headers of the reply before it are not sent on; those of the request are
            "#]],
        ),
        (
            r#"<rewrite inProperty="a"><rewriterule><action value="x" fragment="host"/></rewriterule></rewrite>
<rewrite><rewriterule><condition><equal type="url" source="host" value="a"/></condition><action value="x" fragment="host"/></rewriterule></rewrite>
<rewrite><rewriterule><action type="append" value="/x" fragment="path"/></rewriterule></rewrite>
<rewrite><rewriterule><action value="me" fragment="user"/></rewriterule></rewrite>
<rewrite><rewriterule><action value="/x" fragment="path"/></rewriterule></rewrite>
<call/>
<builder/>"#,
            expect![[r#"
                flows:
                  P:
                    # refused: rewrite, p.xml:3:1: `@inProperty`: a URL in a property has no counterpart; write it in `path` and `query` of the call
                    # refused: rewrite, p.xml:4:1: a condition about `host` of a URL, which is not known
                    # refused: rewrite, p.xml:5:1: the `path` of the request is not known here; `set` it
                    # refused: rewrite, p.xml:6:1: the part `user` of a URL has no counterpart
                    # refused: call, p.xml:8:1: the host is that of the gateway itself
                    # approximated: builder, p.xml:9:1: it has no effect here: bodies are read when a step looks into them
                    # approximated: respond, p.xml:10:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:3:1: `@inProperty`: a URL in a property has no counterpart; write it in `path` and `query` of the call
                refused p.xml:4:1: a condition about `host` of a URL, which is not known
                refused p.xml:5:1: the `path` of the request is not known here; `set` it
                refused p.xml:6:1: the part `user` of a URL has no counterpart
                refused p.xml:8:1: the host is that of the gateway itself
                approximated p.xml:9:1: it has no effect here: bodies are read when a step looks into them
            "#]],
        ),
    ]);
}

#[test]
fn endpoints_that_are_made_of_templates() {
    let templates = r#"<template SYNAPSE name="ET"><parameter name="wait"/><parameter name="port"/>
<endpoint name="$name"><address uri="$uri:$port/base"><timeout><duration>$wait</duration><responseAction>fault</responseAction></timeout><suspendOnFailure><initialDuration>$wait</initialDuration><maximumDuration>60000</maximumDuration><progressionFactor>2.0</progressionFactor></suspendOnFailure></address></endpoint></template>"#;
    let uses = r#"<definitions SYNAPSE xmlns:a="http://ws.apache.org/ns/synapse">
<endpoint name="one" template="ET" uri="http://one.test"><a:parameter name="wait" value="5000"/><a:parameter name="port" value="81"/></endpoint>
<endpoint name="two" template="ET" uri="http://t&quot;wo.test"><parameter name="wait" value="250"/><parameter name="port" value="82"/></endpoint>
<endpoint name="less" template="ET" uri="http://less.test"><parameter name="wait" value="250"/></endpoint>
<endpoint name="none" template="NONE" uri="http://none.test"/>
<template name="idle"><endpoint name="$name"><default/></endpoint></template>
<proxy name="P"><target endpoint="one"><outSequence><send/></outSequence></target></proxy>
</definitions>"#;
    expect![[r#"
        listen:
          public:
            address: "127.0.0.1:8080"
        upstreams:
          one:
            targets: ["http://one.test:81"]
            timeout:
              response: "5s"
            suspend:
              "on": [timeout, connect_failure, reset]
              after: 1
              initial: "5s"
              max: "60s"
              factor: 2
          two:
            targets: ["http://t\"wo.test:82"]
            timeout:
              response: "250ms"
            suspend:
              "on": [timeout, connect_failure, reset]
              after: 1
              initial: "250ms"
              max: "60s"
              factor: 2
          # refused: endpoint less, u.xml:4:1: the parameter `port` of the template is not given
          # refused: endpoint none, u.xml:5:1: the template `NONE` of an endpoint is not among the artifacts
        routes:
          P:
            match:
              path: "/services/P/**"
            flow: P
        flows:
          P:
            - call:
                upstream: one
                path: "{{ concat('/base', substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
            - respond: {}
        ====
        converted     u.xml:7:1  proxy P
        converted     t.xml:1:1  template ET
        converted     u.xml:2:1  endpoint one
        converted     u.xml:3:1  endpoint two
        refused       u.xml:4:1  endpoint less  the parameter `port` of the template is not given
        refused       u.xml:5:1  endpoint none  the template `NONE` of an endpoint is not among the artifacts
        approximated  u.xml:6:1  template idle  no endpoint is made of it; it is left out
        4 converted, 1 approximated, 2 refused
    "#]].assert_eq(&whole(&[("t.xml", templates), ("u.xml", uses)]));
}

#[test]
fn endpoints() {
    let endpoint = |inner: &str| {
        let artifact = format!("<endpoint {HEAD} name=\"E\">{inner}</endpoint>");
        let made = imported(&[("e.xml", &artifact)]);
        let text = made.configuration.split_once('\n').unwrap().1.to_owned();
        let text = text.split_once("8080\n").map_or(text.clone(), |(_, rest)| rest.to_owned());
        let notes: Vec<String> =
            made.table.rows.iter().map(|r| format!("{} {}", r.outcome, r.note)).collect();
        format!("{text}{}\n", notes.join("\n"))
    };
    let cases: &[(&str, Expect)] = &[
        (
            r#"<address uri="https://a.test:9443/x"><timeout><duration>1500</duration><responseAction>discard</responseAction></timeout></address>"#,
            expect![[r#"
                  public:
                    address: "127.0.0.1:8080"
                upstreams:
                  E:
                    targets: ["https://a.test:9443"]
                    timeout:
                      response: "1500ms"
                    suspend:
                      "on": [timeout, connect_failure, reset]
                      after: 1
                      initial: "30s"
                      factor: 1
                      max: "30s"
                approximated a timeout is a fault, not a discarded reply
            "#]],
        ),
        (
            r#"<address uri="http://a.test"><suspendOnFailure><errorCodes>101503,101504,999</errorCodes><initialDuration>1000</initialDuration><progressionFactor>1.5</progressionFactor><maximumDuration>60000</maximumDuration></suspendOnFailure><markForSuspension><errorCodes>101505</errorCodes><retriesBeforeSuspension>3</retriesBeforeSuspension><retryDelay>1</retryDelay></markForSuspension></address>"#,
            expect![[r#"
              public:
                address: "127.0.0.1:8080"
            upstreams:
              E:
                targets: ["http://a.test"]
                suspend:
                  "on": [connect_failure, timeout, reset]
                  after: 3
                  initial: "1s"
                  max: "60s"
                  factor: 1.5
            approximated the error code 999 does not suspend; `retryDelay` is left out
        "#]],
        ),
        (
            r#"<loadbalance algorithm="org.apache.synapse.endpoints.algorithms.RoundRobin"><endpoint><address uri="http://a.test/x"/></endpoint><endpoint><address uri="http://b.test/x"/></endpoint></loadbalance><session type="http"/>"#,
            expect![[r#"
                  public:
                    address: "127.0.0.1:8080"
                upstreams:
                  E:
                    targets: ["http://a.test", "http://b.test"]
                    balance: round_robin
                    sticky:
                      cookie: JSESSIONID
                    suspend:
                      "on": [timeout, connect_failure, reset]
                      after: 1
                      initial: "30s"
                      factor: 1
                      max: "30s"
                approximated sessions stick by the cookie JSESSIONID; timeout and suspension are those of the group's first endpoint
            "#]],
        ),
        (
            r#"<failover><endpoint><http uri-template="http://a.test/x"/></endpoint><endpoint><failover><endpoint><http uri-template="http://b.test/x"/></endpoint></failover></endpoint></failover>"#,
            expect![[r#"
                  public:
                    address: "127.0.0.1:8080"
                upstreams:
                  E:
                    targets: ["http://a.test", "http://b.test"]
                    balance: failover
                    retry:
                      attempts: 1
                      "on": [connect_failure, reset, timeout]
                    suspend:
                      "on": [timeout, connect_failure, reset]
                      after: 1
                      initial: "30s"
                      factor: 1
                      max: "30s"
                approximated a group within the group is one with it; timeout and suspension are those of the group's first endpoint
            "#]],
        ),
        (
            r#"<wsdl service="S" port="P"><w:definitions xmlns:w="http://schemas.xmlsoap.org/wsdl/"><w:service name="S"><w:port name="O"/><w:port name="P"><s:address xmlns:s="http://schemas.xmlsoap.org/wsdl/soap/" location="http://w.test/s"/></w:port></w:service></w:definitions></wsdl>"#,
            expect![[r#"
                  public:
                    address: "127.0.0.1:8080"
                upstreams:
                  E:
                    targets: ["http://w.test"]
                    suspend:
                      "on": [timeout, connect_failure, reset]
                      after: 1
                      initial: "30s"
                      factor: 1
                      max: "30s"
                converted 
            "#]],
        ),
        (
            r#"<loadbalance><endpoint><address uri="http://a.test/x"/></endpoint><endpoint><address uri="http://b.test/y"/></endpoint></loadbalance>"#,
            expect![[r#"
                  public:
                    address: "127.0.0.1:8080"
                upstreams:
                  # refused: endpoint E, e.xml:1:1: the endpoints of the group have different paths
                  {}
                refused the endpoints of the group have different paths
            "#]],
        ),
        (
            r#"<address uri="jms:/q"/>"#,
            expect![[r#"
                  public:
                    address: "127.0.0.1:8080"
                upstreams:
                  # refused: endpoint E, e.xml:1:1: `jms:/q` is not an HTTP address
                  {}
                refused `jms:/q` is not an HTTP address
            "#]],
        ),
        (
            r#"<http uri-template="http://{uri.var.host}/x"/>"#,
            expect![[r#"
                  public:
                    address: "127.0.0.1:8080"
                upstreams:
                  # refused: endpoint E, e.xml:1:1: the host of `http://{uri.var.host}/x` is computed, which has no counterpart
                  {}
                refused the host of `http://{uri.var.host}/x` is computed, which has no counterpart
            "#]],
        ),
        (
            r#"<address uri="http://u:p@a.test/x"/>"#,
            expect![[r#"
                  public:
                    address: "127.0.0.1:8080"
                upstreams:
                  # refused: endpoint E, e.xml:1:1: a URL with a password has no counterpart; `header: { set }` sends one
                  {}
                refused a URL with a password has no counterpart; `header: { set }` sends one
            "#]],
        ),
        (
            r#"<address uri="http://a.test" format="soap12"><enableSec/></address>"#,
            expect![[r#"
                  public:
                    address: "127.0.0.1:8080"
                upstreams:
                  # refused: endpoint E, e.xml:1:1: its WS-Security has no policy
                  {}
                refused its WS-Security has no policy
            "#]],
        ),
        (
            r#"<http uri-template="$SYSTEM:BACKEND"/>"#,
            expect![[r#"
                  public:
                    address: "127.0.0.1:8080"
                upstreams:
                  E:
                    targets: ["${BACKEND}"]
                    suspend:
                      "on": [timeout, connect_failure, reset]
                      after: 1
                      initial: "30s"
                      factor: 1
                      max: "30s"
                approximated the variable BACKEND has to be a URL without a path
            "#]],
        ),
        (
            "<default/>",
            expect![[r#"
                  public:
                    address: "127.0.0.1:8080"
                upstreams:
                  # refused: endpoint E, e.xml:1:1: a default endpoint sends to an address that is computed, which has no counterpart
                  {}
                refused a default endpoint sends to an address that is computed, which has no counterpart
            "#]],
        ),
    ];
    for (inner, expected) in cases {
        expected.assert_eq(&endpoint(inner));
    }
}

/// Its address has parameters of its callers' paths.
#[test]
fn an_endpoint_of_its_own_takes_parameters_of_a_path() {
    let endpoint = r#"<endpoint SYNAPSE name="EP"><http method="get" uri-template="http://d.test/of/{uri.var.kind}"/></endpoint>"#;
    let api = r#"<api SYNAPSE name="A" context="/a"><resource methods="GET" uri-template="/{kind}"><inSequence><call><endpoint key="EP"/></call><respond/></inSequence></resource></api>"#;
    for files in [&[("e.xml", endpoint), ("a.xml", api)][..], &[("e.xml", endpoint)]] {
        let made = imported(files);
        let table = made.table.to_string();
        assert!(table.ends_with(", 0 refused"), "{table}");
        assert!(made.configuration.contains("http://d.test"), "{}", made.configuration);
        let path = "/of/{{ $path.kind }}";
        assert_eq!(made.configuration.contains(path), files.len() > 1, "{}", made.configuration);
    }
}

/// A parameter of a template is a text: of elements Synapse keeps that.
#[test]
fn a_parameter_of_a_template_is_a_text() {
    let template = r#"<template SYNAPSE name="T"><parameter name="who"/><sequence><log level="custom"><property name="w" expression="$func:who"/></log></sequence></template>"#;
    let proxy = r#"<proxy SYNAPSE name="P"><target><inSequence><call-template target="T"><with-param name="who" value="{//name}"/></call-template><respond/></inSequence></target></proxy>"#;
    let made = imported(&[("t.xml", template), ("p.xml", proxy)]).configuration;
    assert!(made.contains("T_who: \"texts($infoset//name)\""), "{made}");
}

#[test]
fn apis() {
    let api = r#"<api SYNAPSE name="orders" context="/orders" version="1.0" version-type="url" hostname="api.test">
  <resource methods="GET" uri-template="/{id}?expand={more}" faultSequence="failed">
    <inSequence>
      <log level="custom"><property name="id" expression="get-property('uri.var.id')"/><property name="more" expression="$ctx:uri.var.more"/></log>
      <send><endpoint><address uri="http://o.test/base"/></endpoint></send>
    </inSequence>
    <outSequence><log level="custom"/><send/></outSequence>
  </resource>
  <resource methods="POST PUT" url-mapping="/bulk/*">
    <inSequence>
      <filter source="$trp:X-Tier" regex="gold">
        <then><send><endpoint><address uri="http://o.test/base"/></endpoint></send></then>
        <else><send><endpoint><address uri="http://o.test/base"/></endpoint></send></else>
      </filter>
    </inSequence>
    <outSequence><property name="HTTP_SC" value="202" scope="axis2"/><send/></outSequence>
    <faultSequence><property name="HTTP_SC" value="502" scope="axis2"/><payloadFactory media-type="json"><format>{"error": "$1"}</format><args><arg expression="$ctx:ERROR_MESSAGE"/></args></payloadFactory><respond/></faultSequence>
  </resource>
  <resource uri-template="/a*b"><inSequence><drop/></inSequence></resource>
  <handlers><handler class="org.wso2.carbon.apimgt.gateway.handlers.security.CORSRequestHandler"/></handlers>
</api>"#;
    let failed = r#"<sequence SYNAPSE name="failed"><makefault><code value="Server"/><reason expression="get-property('ERROR_MESSAGE')"/></makefault><send/></sequence>"#;
    expect![[r#"
        listen:
          public:
            address: "127.0.0.1:8080"
        upstreams:
          o.test:
            targets: ["http://o.test"]
            suspend:
              "on": [timeout, connect_failure, reset]
              after: 1
              initial: "30s"
              factor: 1
              max: "30s"
        routes:
          # refused: handler org.wso2.carbon.apimgt.gateway.handlers.security.CORSRequestHandler, api.xml:20:13: write it as the policy `cors` of the routes
          orders-get-id:
            match:
              path: "/orders/1.0/{id}"
              methods: [GET]
              host: api.test
            rewrite: "/base/{id}"
            flow: orders-get-id
          orders-post-put-bulk:
            match:
              path: "/orders/1.0/bulk/**"
              methods: [POST, PUT]
              host: api.test
            flow: orders-post-put-bulk
          # refused: resource of orders, api.xml:19:3: the path `/a*b` has a segment that is neither a name nor text
        flows:
          orders-get-id:
            steps:
              - log:
                  level: info
                  message: "id = {{ $path.id }}, more = {{ $query.expand }}"
              - call: o.test
              - log:
                  level: info
                  message: ""
              - respond: {}
            catch:
              # approximated: makefault, sequences/failed.xml:1:65: the text is the gateway's own
              - switch:
                  "on": "$headers.content-type"
                  cases:
                    - matches: "(?i)^application/soap\\+xml"
                      steps:
                        - payload:
                            xml: "<s:Fault xmlns:s=\"http://www.w3.org/2003/05/soap-envelope\"><s:Code><s:Value>s:Receiver</s:Value></s:Code><s:Reason><s:Text xml:lang=\"en\">{{ $error.message }}</s:Text></s:Reason></s:Fault>"
                    - matches: "(?i)^text/xml"
                      steps:
                        - payload:
                            xml: "<s:Fault xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><faultcode>s:Server</faultcode><faultstring>{{ $error.message }}</faultstring></s:Fault>"
                  default:
                    - payload:
                        xml: "<Exception>{{ $error.message }}</Exception>"
              # approximated: send, sequences/failed.xml:1:162: the headers of the request, which are sent back there, do not go to the client
              - respond:
                  status: 500
          orders-post-put-bulk:
            steps:
              - filter:
                  when:
                    value: "$headers.X-Tier"
                    matches: "^(?:gold)$"
                  then:
                    - call:
                        upstream: o.test
                        path: "{{ concat('/base', substring(substring-after($request.path, '/orders/1.0'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                    - sequence: orders-post-put-bulk-out
                  else:
                    - call:
                        upstream: o.test
                        path: "{{ concat('/base', substring(substring-after($request.path, '/orders/1.0'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                    - sequence: orders-post-put-bulk-out
            catch:
              # approximated: payloadFactory, api.xml:17:72: the text is the gateway's own
              - payload:
                  json: "{\"error\": \"{{ $error.message }}\"}"
              # approximated: respond, api.xml:17:206: the headers of the request, which are sent back there, do not go to the client
              - respond:
                  status: 502
          orders-post-put-bulk-out:
            - respond:
                status: 202
        ====
        converted     api.xml:1:1                 api orders
        refused       api.xml:20:13               handler org.wso2.carbon.apimgt.gateway.handlers.security.CORSRequestHandler  write it as the policy `cors` of the routes
        converted     api.xml:2:3                 resource of orders
        converted     api.xml:4:7                 log custom
        converted     api.xml:5:7                 send
        converted     api.xml:7:18                log custom
        converted     api.xml:7:39                send
        approximated  sequences/failed.xml:1:65   makefault                                                     the text is the gateway's own
        approximated  sequences/failed.xml:1:162  send                                                          the headers of the request, which are sent back there, do not go to the client
        converted     api.xml:9:3                 resource of orders
        converted     api.xml:11:7                filter $trp:X-Tier
        converted     api.xml:12:15               send
        converted     api.xml:16:18               property HTTP_SC
        converted     api.xml:16:70               send
        converted     api.xml:13:15               send
        converted     api.xml:17:20               property HTTP_SC
        approximated  api.xml:17:72               payloadFactory                                                the text is the gateway's own
        approximated  api.xml:17:206              respond                                                       the headers of the request, which are sent back there, do not go to the client
        refused       api.xml:19:3                resource of orders                                            the path `/a*b` has a segment that is neither a name nor text
        converted     sequences/failed.xml:1:1    sequence failed
        14 converted, 4 approximated, 2 refused
    "#]].assert_eq(&whole(&[("api.xml", api), ("sequences/failed.xml", failed)]));
}

/// Operations of the http connector are calls of the URL of their connection.
#[test]
fn operations_of_the_http_connector() {
    let with = |operations: &str, init: &str| {
        let text = format!(
            "<definitions {HEAD}><proxy name=\"P\"><target><inSequence>{operations}<respond/></inSequence></target></proxy><localEntry key=\"C\"><http.init><connectionType>http</connectionType><baseUrl>http://c.test:8080/base</baseUrl><name>C</name>{init}</http.init></localEntry></definitions>"
        );
        let made = imported(&[("p.xml", &text)]);
        let row = made.table.rows.iter().find(|row| row.what.starts_with("http.")).unwrap();
        (made.configuration, row.outcome, row.note.clone())
    };
    let path = "<relativePath>/items/7?q=1</relativePath>";
    let body = "<relativePath>items</relativePath><requestBodyType>JSON</requestBodyType><requestBodyJson>{\"a\": 1}</requestBodyJson>";
    for (operation, inner, parts) in [
        ("get", path, &["path: /base/items/7\n", "query: \"q=1\"\n", "method: GET\n"][..]),
        ("delete", path, &["path: /base/items/7\n", "method: DELETE\n"]),
        ("head", "", &["path: /base\n", "method: HEAD\n"]),
        ("post", body, &["json: \"{\\\"a\\\": 1}\"\n", "path: /base/items\n", "method: POST\n"]),
        ("put", body, &["method: PUT\n"]),
        ("patch", body, &["method: PATCH\n"]),
    ] {
        let item = format!("<http.{operation} configKey=\"C\">{inner}</http.{operation}>");
        let (text, outcome, note) = with(&item, "");
        assert_eq!(outcome, Outcome::Converted, "{operation}: {note}");
        assert!(text.contains("targets: [\"http://c.test:8080\"]"), "{text}");
        for part in parts {
            assert!(text.contains(part), "{operation}: {part}{text}");
        }
    }
    let headers = "<http.get configKey=\"C\"><headers>[[\"a\", \"b\"]]</headers></http.get>";
    let computed = "<http.get configKey=\"C\"><headers>[]</headers></http.get>";
    for (item, init, why) in [
        (headers, "", "headers of one operation have no counterpart"),
        (
            computed,
            "<trustStorePath>x</trustStorePath>",
            "the setting `trustStorePath` of the connection `C`",
        ),
        ("<http.get configKey=\"D\"/>", "", "the connection `D` is not among the artifacts"),
    ] {
        let (_, outcome, note) = with(item, init);
        assert_eq!(outcome, Outcome::Refused, "{item}");
        assert!(note.contains(why), "{why}: {note}");
    }
}

/// An inbound endpoint over HTTP has a listener, on which nothing else is.
#[test]
fn inbound_endpoints_over_http_are_listeners() {
    let with = |attributes: &str, parameters: &str| {
        let text = format!(
            "<definitions {HEAD}><inboundEndpoint name=\"in\" sequence=\"take\" {attributes}><parameters>{parameters}</parameters></inboundEndpoint><sequence name=\"take\"><log level=\"custom\"/><drop/></sequence><proxy name=\"P\"><target><inSequence><drop/></inSequence></target></proxy></definitions>"
        );
        let made = imported(&[("p.xml", &text)]);
        let row = made.table.rows.iter().find(|row| row.what.starts_with("inbound")).unwrap();
        (made.configuration, row.outcome, row.note.clone())
    };
    let port = "<parameter name=\"inbound.http.port\">8285</parameter>";
    let (text, outcome, note) = with("protocol=\"http\" suspend=\"false\"", port);
    assert_eq!(outcome, Outcome::Converted, "{note}");
    for part in [
        "  in:\n    address: \"0.0.0.0:8285\"\n",
        "  in:\n    match:\n      listener: in\n      path: \"/**\"\n    flow: in\n",
        "  P:\n    match:\n      path: \"/services/P/**\"\n      listener: public\n",
    ] {
        assert!(text.contains(part), "{part}{text}");
    }
    for (attributes, parameters, why) in [
        ("protocol=\"http\"", "", "it has no port"),
        (
            "protocol=\"http\"",
            "<parameter name=\"inbound.http.port\">0</parameter>",
            "its port is not a number",
        ),
        ("protocol=\"http\" suspend=\"true\"", port, "an endpoint that is suspended takes nothing"),
        ("protocol=\"https\"", port, "its certificate is in a keystore of Java"),
    ] {
        let (_, outcome, note) = with(attributes, parameters);
        assert_eq!(outcome, Outcome::Refused, "{attributes}");
        assert!(note.contains(why), "{why}: {note}");
    }
}

/// A `*` is the rest of the path at its end, and one segment before that.
#[test]
fn templates_with_stars() {
    for (template, path) in [
        ("/*", "/t/**"),
        ("/things/*", "/t/things/**"),
        ("/{id}/*", "/t/{id}/**"),
        ("/things/*/parts", "/t/things/{any2}/parts"),
        ("/*/parts/*", "/t/{any1}/parts/**"),
    ] {
        let text = format!(
            "<api {HEAD} name=\"t\" context=\"/t\"><resource methods=\"GET\" uri-template=\"{template}\"><inSequence><drop/></inSequence></resource></api>"
        );
        let made = imported(&[("api.xml", &text)]);
        let expected = format!("path: \"{path}\"\n");
        assert!(made.configuration.contains(&expected), "{template}: {}", made.configuration);
        let all_are = made.table.rows.iter().all(|row| row.outcome == Outcome::Converted);
        assert!(all_are, "{template}: {}", made.table);
    }
}

/// The message of a task stands in an envelope of SOAP 1.2, unless its format is another.
#[test]
fn tasks_inject_envelopes() {
    let message = r#"<property name="message"><a xmlns="">1</a></property>"#;
    let format = |value: &str| format!(r#"{message}<property name="format" value="{value}"/>"#);
    for (properties, expected) in [
        (message.to_owned(), Ok(Some("soap12"))),
        (format("soap12"), Ok(Some("soap12"))),
        (format("soap11"), Ok(Some("soap11"))),
        (format("pox"), Ok(None)),
        (r#"<property name="message" value='{"a": 1}'/>"#.to_owned(), Ok(None)),
        (format("get"), Err("a message as the query of GET has no counterpart")),
    ] {
        let text = format!(
            r#"<definitions {HEAD}><sequence name="s"><log level="custom"><property name="a" expression="//a"/></log></sequence><task name="t" class="org.apache.synapse.startup.tasks.MessageInjector"><trigger cron="0 0 2 * * ?"/><property name="sequenceName" value="s"/>{properties}</task></definitions>"#
        );
        let made = imported(&[("t.xml", &text)]);
        let (text, table) = (&made.configuration, &made.table);
        match expected {
            Ok(Some(form)) => {
                assert!(text.contains(&format!("to: {form}\n")), "{text}");
                assert!(text.contains("flow: t-message\n"), "{text}");
            }
            Ok(None) => {
                assert!(!text.contains("convert"), "{text}");
                assert!(text.contains("flow: s\n"), "{text}");
            }
            Err(why) => assert!(table.rows.iter().any(|row| row.note.contains(why)), "{table}"),
        }
    }
}

#[test]
fn queues_schedules_and_what_is_left() {
    let artifacts = r#"<definitions SYNAPSE>
  <registry provider="x"/>
  <endpoint name="E"><address uri="http://e.test/s"/></endpoint>
  <messageStore name="S" class="org.apache.synapse.message.store.impl.memory.InMemoryStore"/>
  <messageProcessor name="forward" class="org.apache.synapse.message.processor.impl.forwarder.ScheduledMessageForwardingProcessor" messageStore="S" targetEndpoint="E">
    <parameter name="interval">2000</parameter><parameter name="max.delivery.attempts">4</parameter><parameter name="member.count">3</parameter>
  </messageProcessor>
  <messageProcessor name="nowhere" class="org.apache.synapse.message.processor.impl.forwarder.ScheduledMessageForwardingProcessor" messageStore="S"/>
  <sequence name="tick"><send><endpoint key="E"/></send></sequence>
  <task name="ticks" class="org.apache.synapse.startup.tasks.MessageInjector"><trigger interval="5"/><property name="sequenceName" value="tick"/><property name="message"><a xmlns="">1</a></property></task>
  <task name="nightly" class="org.apache.synapse.startup.tasks.MessageInjector"><trigger cron="0 0/5 2 ? * *"/><property name="sequenceName" value="tick"/></task>
  <task name="own" class="com.example.Task"><trigger interval="5"/></task>
  <inboundEndpoint name="in" protocol="jms" sequence="tick"/>
  <localEntry key="unused">x</localEntry>
  <sequence name="main"><in><send/></in><out><send/></out></sequence>
  <sequence name="fault"><log level="custom"/></sequence>
  <proxy name="P"><target><inSequence><class name="com.example.M"/></inSequence></target></proxy>
</definitions>"#;
    expect![[r#"
        listen:
          public:
            address: "127.0.0.1:8080"
        upstreams:
          E:
            targets: ["http://e.test"]
            suspend:
              "on": [timeout, connect_failure, reset]
              after: 1
              initial: "30s"
              factor: 1
              max: "30s"
        routes:
          P:
            match:
              path: "/services/P/**"
            flow: P
          main:
            match:
              path: "/**"
            flow: main
          # refused: inboundEndpoint in, all.xml:13:3: nothing takes messages from `jms`; a service of yours can post them
        flows:
          P:
            steps:
              # refused: class com.example.M, all.xml:17:39: code in Java is not run; an `interceptor` on the route calls a service of yours
              - drop: {}
            catch:
              - log:
                  level: info
                  message: ""
              # approximated: the fault sequence does not answer; here the fault itself is the answer
              - fault:
                  code: server
                  reason: "{{ $error.message }}"
          main:
            steps:
              # refused: send, all.xml:15:29: it has no endpoint, and no step before it says where to
              - drop: {}
            catch:
              - log:
                  level: info
                  message: ""
              # approximated: the fault sequence does not answer; here the fault itself is the answer
              - fault:
                  code: server
                  reason: "{{ $error.message }}"
          forward:
            - call:
                upstream: E
                path: /s
                fault_on: ["3xx", "4xx", "5xx"]
          ticks:
            - convert:
                to: soap12
            - call:
                upstream: E
                path: /s
            - respond: {}
          nightly:
            - call:
                upstream: E
                path: /s
            - respond: {}
        queues:
          S:
            flow: forward
            retry:
              attempts: 4
              initial: "1s"
              factor: 1
              then: pause
            concurrency: 3
            order: free
            interval: "666ms"
          # refused: messageProcessor nowhere, all.xml:8:3: another processor takes from `S` already
        schedules:
          ticks:
            every: "5s"
            flow: ticks
            message:
              xml: "<a>1</a>"
          nightly:
            cron: "0 */5 2 * * *"
            flow: nightly
          # refused: task own, all.xml:12:3: code in Java (com.example.Task) is not run
        ====
        approximated  all.xml:4:3    messageStore S            the queue is the gateway's own and durable, not that of InMemoryStore
        converted     all.xml:17:3   proxy P
        refused       all.xml:17:39  class com.example.M       code in Java is not run; an `interceptor` on the route calls a service of yours
        converted     all.xml:16:26  log custom
        converted     all.xml:15:3   sequence main
        converted     all.xml:15:25  in
        refused       all.xml:15:29  send                      it has no endpoint, and no step before it says where to
        converted     all.xml:15:41  out
        approximated  all.xml:5:3    messageProcessor forward  a message that waits for another attempt does not hold back others; without a reply sequence, Synapse's processor stops at the first reply, unless the message is `OUT_ONLY`; here the queue goes on
        refused       all.xml:8:3    messageProcessor nowhere  another processor takes from `S` already
        converted     all.xml:9:25   send
        approximated  all.xml:10:3   task ticks                it runs first after one interval
        converted     all.xml:11:3   task nightly
        refused       all.xml:12:3   task own                  code in Java (com.example.Task) is not run
        converted     all.xml:3:3    endpoint E
        converted     all.xml:9:3    sequence tick
        approximated  all.xml:14:3   localEntry unused         nothing takes it; it is left out
        refused       all.xml:13:3   inboundEndpoint in        nothing takes messages from `jms`; a service of yours can post them
        9 converted, 4 approximated, 5 refused
    "#]].assert_eq(&whole(&[("all.xml", artifacts)]));
}

#[test]
fn faults_and_replies_have_their_own_steps() {
    let artifacts = r#"<definitions SYNAPSE xmlns:m="urn:m">
  <endpoint name="E"><address uri="http://e.test/s"/></endpoint>
  <proxy name="Drops"><target endpoint="E"><outSequence><send/></outSequence><faultSequence><drop/></faultSequence></target></proxy>
  <proxy name="Makes"><target>
    <inSequence><makefault version="soap11"><code value="s:Server"/><reason value="no"/></makefault><respond/></inSequence>
    <faultSequence><makefault><code value="s:Client"/><reason expression="$ctx:ERROR_DETAIL"/></makefault><property name="HTTP_SC" value="503" scope="axis2"/><send/></faultSequence>
  </target></proxy>
  <sequence name="guarded" onError="caught"><log level="custom"/></sequence>
  <sequence name="caught"><respond/></sequence>
  <sequence name="out"><log level="custom"><property name="at" value="out"/></log><send/></sequence>
  <sequence name="sends"><sequence key="guarded"/><send receive="received"><endpoint key="E"/></send></sequence>
  <sequence name="received"><enrich><source xpath="//m:a"/><target type="body"/></enrich><send/></sequence>
  <proxy name="Receives"><target inSequence="sends" outSequence="out"/></proxy>
  <proxy name="Loops"><target outSequence="out"><inSequence>
    <filter xpath="//m:a"><then><loopback/></then><else><send><endpoint key="E"/></send></else></filter>
  </inSequence></target></proxy>
</definitions>"#;
    expect![[r#"
        listen:
          public:
            address: "127.0.0.1:8080"
        upstreams:
          E:
            targets: ["http://e.test"]
            suspend:
              "on": [timeout, connect_failure, reset]
              after: 1
              initial: "30s"
              factor: 1
              max: "30s"
        routes:
          Drops:
            match:
              path: "/services/Drops/**"
            flow: Drops
          Makes:
            match:
              path: "/services/Makes/**"
            flow: Makes
          Receives:
            match:
              path: "/services/Receives/**"
            flow: Receives
          Loops:
            match:
              path: "/services/Loops/**"
            flow: Loops
        flows:
          Drops:
            steps:
              - call:
                  upstream: E
                  path: "{{ concat('/s', substring(substring-after($request.path, '/services/Drops'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
              - respond: {}
            catch:
              # approximated: drop, all.xml:3:93: the client would get no answer; here it gets the fault
              - fault:
                  code: server
                  reason: "{{ $error.message }}"
          Makes:
            steps:
              - switch:
                  "on": "$headers.content-type"
                  cases:
                    - matches: "(?i)^application/soap\\+xml"
                      steps:
                        - payload:
                            xml: "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body><s:Fault xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><faultcode>s:Server</faultcode><faultstring>no</faultstring></s:Fault></s:Body></s:Envelope>"
                    - matches: "(?i)^text/xml"
                      steps:
                        - payload:
                            xml: "<s:Fault xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><faultcode>s:Server</faultcode><faultstring>no</faultstring></s:Fault>"
                  default:
                    - payload:
                        xml: "<Exception>no</Exception>"
              # approximated: respond, all.xml:5:101: the headers of the request, which are sent back there, do not go to the client
              - respond:
                  status: 500
            catch:
              # approximated: makefault, all.xml:6:20: the text is the gateway's own
              - switch:
                  "on": "$headers.content-type"
                  cases:
                    - matches: "(?i)^application/soap\\+xml"
                      steps:
                        - payload:
                            xml: "<s:Fault xmlns:s=\"http://www.w3.org/2003/05/soap-envelope\"><s:Code><s:Value>s:Sender</s:Value></s:Code><s:Reason><s:Text xml:lang=\"en\">{{ $error.detail }}</s:Text></s:Reason></s:Fault>"
                    - matches: "(?i)^text/xml"
                      steps:
                        - payload:
                            xml: "<s:Fault xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><faultcode>s:Client</faultcode><faultstring>{{ $error.detail }}</faultstring></s:Fault>"
                  default:
                    - payload:
                        xml: "<Exception>{{ $error.detail }}</Exception>"
              # approximated: send, all.xml:6:159: the headers of the request, which are sent back there, do not go to the client
              - respond:
                  status: 503
          Receives:
            namespaces:
              m: "urn:m"
            steps:
              - sequence: guarded
              - call:
                  upstream: E
                  path: "{{ concat('/s', substring(substring-after($request.path, '/services/Receives'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
              - payload:
                  from: "$infoset//m:a"
              - respond: {}
          guarded:
            steps:
              - log:
                  level: info
                  message: ""
            catch:
              # approximated: respond, all.xml:9:27: the headers of the request, which are sent back there, do not go to the client
              - respond: {}
          Loops:
            namespaces:
              m: "urn:m"
            steps:
              - filter:
                  when: "$infoset//m:a"
                  then:
                    - sequence: Loops-out
                  else:
                    - call:
                        upstream: E
                        path: "{{ concat('/s', substring(substring-after($request.path, '/services/Loops'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                    - sequence: Loops-out
          Loops-out:
            - log:
                level: info
                message: "at = out"
            - respond: {}
        ====
        converted     all.xml:3:3    proxy Drops
        approximated  all.xml:3:93   drop               the client would get no answer; here it gets the fault
        converted     all.xml:4:3    proxy Makes
        converted     all.xml:5:17   makefault
        approximated  all.xml:5:101  respond            the headers of the request, which are sent back there, do not go to the client
        approximated  all.xml:6:20   makefault          the text is the gateway's own
        converted     all.xml:6:107  property HTTP_SC
        approximated  all.xml:6:159  send               the headers of the request, which are sent back there, do not go to the client
        converted     all.xml:13:3   proxy Receives
        converted     all.xml:11:26  sequence guarded
        converted     all.xml:8:3    sequence guarded
        converted     all.xml:8:45   log custom
        approximated  all.xml:9:27   respond            the headers of the request, which are sent back there, do not go to the client
        converted     all.xml:11:51  send
        converted     all.xml:12:29  enrich
        converted     all.xml:12:90  send
        converted     all.xml:14:3   proxy Loops
        converted     all.xml:15:5   filter //m:a
        converted     all.xml:15:33  loopback
        converted     all.xml:10:24  log custom
        converted     all.xml:10:83  send
        converted     all.xml:15:57  send
        converted     all.xml:2:3    endpoint E
        converted     all.xml:9:3    sequence caught
        converted     all.xml:10:3   sequence out
        converted     all.xml:11:3   sequence sends
        converted     all.xml:12:3   sequence received
        22 converted, 5 approximated, 0 refused
    "#]].assert_eq(&whole(&[("all.xml", artifacts)]));
}

/// An archive with these entries.
fn archive(path: &Path, entries: &[(&str, &[u8])]) {
    use std::io::Write as _;
    let mut writer = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    for (name, bytes) in entries {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn an_archive_is_read_with_its_resources() {
    let folder = tempfile::tempdir().unwrap();
    let car = folder.path().join("orders.car");
    let proxy = format!(
        "<proxy {HEAD} name=\"P\"><target><inSequence><xslt key=\"conf:/xslt/x.xsl\"/><respond/></inSequence></target></proxy>"
    );
    archive(
        &car,
        &[
            ("artifacts.xml", b"<artifacts/>"),
            ("P_1.0.0/P-1.0.0.xml", proxy.as_bytes()),
            ("x_1.0.0/resources/x.xsl", b"<xsl/>"),
            ("connector.zip", b"PK"),
            ("D_1.0.0/D-1.0.0.dbs", b"<data name=\"D\"/>"),
            ("M_1.0.0/M-1.0.0.jar", b"PK"),
        ],
    );
    let made = import(&car).unwrap();
    assert!(made.configuration.contains("stylesheet: x.xsl"), "{}", made.configuration);
    assert_eq!(made.files, [("x.xsl".to_owned(), b"<xsl/>".to_vec())]);
    let refused: Vec<_> =
        made.table.rows.iter().filter(|row| row.outcome == Outcome::Refused).collect();
    let refused: Vec<_> =
        refused.iter().map(|row| (row.what.as_str(), row.place.file.as_str())).collect();
    let expected = [
        ("archive", "orders.car/connector.zip"),
        ("mediator in Java", "orders.car/M_1.0.0/M-1.0.0.jar"),
    ];
    assert_eq!(refused, expected, "{}", made.table);
}

/// A proxy publishes its description with the documents that it names, wherever these are written.
#[test]
fn a_published_description_has_its_documents() {
    let folder = tempfile::tempdir().unwrap();
    let car = folder.path().join("orders.car");
    let proxy = format!(
        "<proxy {HEAD} name=\"P\"><target><inSequence><respond/></inSequence></target><publishWSDL key=\"conf:/w/orders.wsdl\"><resource location=\"schemas/types.xsd\" key=\"conf:/x/t.xsd\"/></publishWSDL></proxy>"
    );
    let info = |file: &str, path: &str| {
        format!("<resources><item><file>{file}</file><path>{path}</path></item></resources>")
    };
    archive(
        &car,
        &[
            ("P_1.0.0/P-1.0.0.xml", proxy.as_bytes()),
            ("A_1.0.0/registry-info.xml", info("orders.wsdl", "/_system/config/w").as_bytes()),
            (
                "A_1.0.0/resources/orders.wsdl",
                b"<definitions xmlns=\"http://schemas.xmlsoap.org/wsdl/\"><types><xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\"><xs:include schemaLocation=\"schemas/types.xsd\"/></xs:schema></types></definitions>",
            ),
            ("B_1.0.0/registry-info.xml", info("t.xsd", "/_system/config/x").as_bytes()),
            (
                "B_1.0.0/resources/t.xsd",
                b"<xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\"/>",
            ),
        ],
    );
    let made = import(&car).unwrap();
    assert!(made.table.rows.iter().all(|row| row.outcome != Outcome::Refused), "{}", made.table);
    let text = &made.configuration;
    for part in ["wsdl: orders.wsdl", "schemas/types.xsd: t.xsd"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// Issue 21: resources of one name are told apart by the paths that they have in the registry.
#[test]
fn a_resource_of_the_registry_is_found_by_its_path_there() {
    let folder = tempfile::tempdir().unwrap();
    let car = folder.path().join("orders.car");
    let proxy = format!(
        "<proxy {HEAD} name=\"P\"><target><inSequence><xslt key=\"conf:/new/x.xsl\"/><xslt key=\"gov:old/x.xsl\"/><respond/></inSequence></target></proxy>"
    );
    let info = |path: &str| {
        format!("<resources><item><file>x.xsl</file><path>{path}</path></item></resources>")
    };
    archive(
        &car,
        &[
            ("P_1.0.0/P-1.0.0.xml", proxy.as_bytes()),
            ("A_1.0.0/registry-info.xml", info("/_system/governance/old").as_bytes()),
            ("A_1.0.0/resources/x.xsl", b"<old/>"),
            ("B_1.0.0/registry-info.xml", info("/_system/config/new/").as_bytes()),
            ("B_1.0.0/resources/x.xsl", b"<new/>"),
        ],
    );
    let made = import(&car).unwrap();
    assert!(made.table.rows.iter().all(|row| row.outcome != Outcome::Refused), "{}", made.table);
    let contents: Vec<&[u8]> = made.files.iter().map(|(_, content)| &**content).collect();
    assert_eq!(contents, [b"<new/>", b"<old/>"], "{}", made.configuration);
    let places: Vec<_> = made
        .files
        .iter()
        .map(|(name, _)| made.configuration.find(&format!("stylesheet: {name}\n")))
        .collect();
    assert!(places[0].is_some() && places[0] < places[1], "{}", made.configuration);
}

/// Some readers take the first of two entries, others the last. The writer of archives writes no name twice.
#[test]
fn an_archive_with_a_name_twice_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.car");
    archive(&path, &[("one.xml", b"<a/>"), ("two.xml", b"<b/>")]);
    let mut bytes = std::fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        if bytes[at..].starts_with(b"two.xml") {
            bytes[at..at + 3].copy_from_slice(b"one");
        }
    }
    std::fs::write(&path, bytes).unwrap();
    let why = import(&path).unwrap_err();
    assert!(why.contains("a.car`: \"one.xml\" appears twice in the archive"), "{why}");
}

#[test]
fn hostile_input_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.car");
    let large = vec![b' '; (16 << 20) + 1];
    let many: Vec<String> = (0..10_001).map(|number| format!("{number}.xml")).collect();
    let many: Vec<(&str, &[u8])> = many.iter().map(|name| (name.as_str(), &b""[..])).collect();
    for (entries, what) in [
        (&[("../a.xml", &b""[..])][..], "has an absolute path, or contains `..`"),
        (&[("/a.xml", b"")], "has an absolute path, or contains `..`"),
        (&[("a/../../a.xml", b"")], "has an absolute path, or contains `..`"),
        (&[("a\\..\\b.xml", b"")], "has an absolute path, or contains `..`"),
        (&[("a.xml", &large)], "larger than 16777216 bytes"),
        (&many, "more than 10000 entries"),
        (&[("a.xml", b"<a/>")], "there is no artifact of Synapse"),
    ] {
        archive(&path, entries);
        let error = import(&path).unwrap_err();
        assert!(error.contains(what), "{what}: {error}");
    }
    std::fs::write(&path, "no archive").unwrap();
    assert!(import(&path).unwrap_err().contains("not an archive that can be read"));
    let deep = format!(
        "<sequence {HEAD} name=\"a\">{}{}</sequence>",
        "<filter>".repeat(200),
        "</filter>".repeat(200)
    );
    for (text, what) in [
        (
            "<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",
            "a.xml:1:1: a DOCTYPE is not allowed here",
        ),
        (deep.as_str(), "over the limit depth"),
        ("<a", "a.xml:1:3: "),
    ] {
        let file = folder.path().join("a.xml");
        std::fs::write(&file, text).unwrap();
        let error = import(&file).unwrap_err();
        assert!(error.contains(what), "{what}: {error}");
    }
    assert!(import(&folder.path().join("absent")).unwrap_err().contains("absent"));
}

#[test]
fn sequences_that_are_written_out_do_not_explode() {
    let mut artifacts = String::from("<definitions SYNAPSE>");
    for number in 0..40 {
        let next = number + 1;
        artifacts.push_str(&format!(
            "<sequence name=\"s{number}\"><sequence key=\"s{next}\"/><sequence key=\"s{next}\"/><property name=\"HTTP_SC\" value=\"200\" scope=\"axis2\"/></sequence>"
        ));
    }
    artifacts.push_str("<proxy name=\"P\"><target inSequence=\"s0\"/></proxy></definitions>");
    let made = imported(&[("a.xml", &artifacts)]);
    assert!(made.table.to_string().contains("there are more than"), "{}", made.table.rows.len());
}

#[test]
fn what_is_posted_as_a_form_is_a_form() {
    const TYPE: &str =
        r#"<property name="messageType" value="application/x-www-form-urlencoded" scope="axis2"/>"#;
    const CONTENT: &str =
        r#"<property name="ContentType" value="application/x-www-form-urlencoded" scope="axis2"/>"#;
    let fields = format!(
        r#"<payloadFactory media-type="xml"><format><f xmlns=""><user>$1</user><grant>a b&amp;c</grant></f></format><args><arg expression="//m:user"/></args></payloadFactory>
<log level="simple"/>{TYPE}"#
    );
    let members = format!(
        r#"<payloadFactory media-type="json"><format>{{"user": $1, "n": 1, "t": "x$2"}}</format><args><arg expression="//m:user"/><arg value="y"/></args></payloadFactory>
{TYPE}"#
    );
    let text = format!(
        r#"<payloadFactory media-type="text"><format>user=$1&amp;n=1</format><args><arg expression="//m:user"/></args></payloadFactory>
{CONTENT}"#
    );
    let nested = format!(
        r#"<payloadFactory media-type="xml"><format><f xmlns=""><user><name>$1</name></user></f></format><args><arg expression="//m:user"/></args></payloadFactory>
{TYPE}"#
    );
    let twice = format!(
        r#"<payloadFactory media-type="xml"><format><f xmlns=""><a>1</a><a>2</a></f></format></payloadFactory>
{TYPE}"#
    );
    let typed = format!(
        r#"<payloadFactory media-type="xml"><format><f xmlns=""><a>1</a></f></format></payloadFactory>
{CONTENT}"#
    );
    // Another message comes between, or nothing makes one here.
    let between = format!(
        r#"<payloadFactory media-type="xml"><format><f xmlns=""><a>1</a></f></format></payloadFactory>
<call><endpoint key="E"/></call>{TYPE}"#
    );
    check(&[
        (
            &fields,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - payload:
                          form:
                            user: "{{ texts($infoset//m:user) }}"
                            grant: "a b&c"
                      # approximated: log simple, p.xml:4:1: the line has the method, `SOAPAction` and the texts of the message, not the addresses of WS-Addressing
                      - log:
                          level: info
                          message: "{{ $method }} {{ $headers.SOAPAction }}"
                      # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
                approximated p.xml:4:1: the line has the method, `SOAPAction` and the texts of the message, not the addresses of WS-Addressing
            "#]],
        ),
        (
            &members,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      - payload:
                          form:
                            user: "{{ texts($infoset//m:user) }}"
                            "n": "1"
                            t: xy
                      # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
            "#]],
        ),
        (
            &text,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      # approximated: payloadFactory, p.xml:3:1: the values of the form are percent-encoded; Synapse writes them as they are
                      - payload:
                          form: "user={{ texts($infoset//m:user) }}&n=1"
                      # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
                approximated p.xml:3:1: the values of the form are percent-encoded; Synapse writes them as they are
            "#]],
        ),
        (
            &nested,
            expect![[r#"
                flows:
                  P:
                    namespaces:
                      m: "urn:m"
                    steps:
                      # refused: payloadFactory, p.xml:3:1: a form is made of a format with one level of fields; write `payload: { form }` for it
                      # refused: property messageType, p.xml:4:1: messages are not written as `application/x-www-form-urlencoded`
                      # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                      - respond: {}
                refused p.xml:3:1: a form is made of a format with one level of fields; write `payload: { form }` for it
                refused p.xml:4:1: messages are not written as `application/x-www-form-urlencoded`
            "#]],
        ),
        (
            &twice,
            expect![[r#"
                flows:
                  P:
                    # refused: payloadFactory, p.xml:3:1: the form has the field `a` twice; write `payload: { form }` for it
                    # refused: property messageType, p.xml:4:1: messages are not written as `application/x-www-form-urlencoded`
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - respond: {}
                refused p.xml:3:1: the form has the field `a` twice; write `payload: { form }` for it
                refused p.xml:4:1: messages are not written as `application/x-www-form-urlencoded`
            "#]],
        ),
        (
            &typed,
            expect![[r#"
                flows:
                  P:
                    - payload:
                        xml: "<f><a>1</a></f>"
                    # approximated: property ContentType, p.xml:4:1: SOAP gets it too, for which Synapse keeps its own unless `messageType` is another
                    # approximated: respond, p.xml:5:1: the headers of the request, which are sent back there, do not go to the client
                    - header:
                        set:
                          content-type: application/x-www-form-urlencoded
                    - respond: {}
                approximated p.xml:4:1: SOAP gets it too, for which Synapse keeps its own unless `messageType` is another
            "#]],
        ),
        (
            &between,
            expect![[r#"
                flows:
                  P:
                    - payload:
                        xml: "<f><a>1</a></f>"
                    - call:
                        upstream: E
                        path: "{{ concat('/service/Echo', substring(substring-after($request.path, '/services/P'), 1 + 9999999 * ((contains($request.headers.content-type, 'text/xml') or contains($request.headers.content-type, 'application/soap+xml')) and $method = 'POST'))) }}"
                    # refused: property messageType, p.xml:4:33: messages are not written as `application/x-www-form-urlencoded`
                    - respond: {}
                refused p.xml:4:33: messages are not written as `application/x-www-form-urlencoded`
            "#]],
        ),
    ]);
}

#[test]
fn a_mistake_refuses_the_part_that_it_is_in() {
    let text = format!(
        "<definitions {HEAD}>\n<proxy name=\"P\"><target><inSequence>\n<property name=\"a\" value=\"1\"/>\n<log level=\"custom\"><property name=\"x\" expression=\"$ctx:a\"/></log>\n<respond/></inSequence></target></proxy>\n<proxy name=\"Q\"><target><inSequence><respond/></inSequence></target></proxy></definitions>"
    );
    let mut made = imported(&[("p.xml", &text)]);
    let line_of = |made: &ImportResult, text: &str| {
        let at = made.configuration.lines().position(|line| line.contains(text)).unwrap();
        u32::try_from(at + 1).unwrap()
    };
    let mistake = |line, what: &str| Mistake { line, column: 200, what: what.to_owned() };
    let set = line_of(&made, "a: \"1\"");
    assert!(made.refuse(&[mistake(set, "no such value")]));
    assert!(made.configuration.contains(
        "# refused: property a, p.xml:3:1: the gateway would refuse it: no such value\n    - set:\n        a: \"\""
    ), "{}", made.configuration);
    let refused: Vec<String> = made
        .table
        .rows
        .iter()
        .filter(|row| row.outcome == Outcome::Refused)
        .map(|row| row.place.to_string())
        .collect();
    assert_eq!(refused, ["p.xml:3:1"]);
    // An entry of a section goes as a whole, with the artifact that it is of.
    let route = line_of(&made, "/services/Q/");
    assert!(made.refuse(&[mistake(route, "no such path"), mistake(route, "nor that")]));
    assert!(!made.configuration.contains("/services/Q/"), "{}", made.configuration);
    let row = made.table.rows.iter().find(|row| row.what == "proxy Q").unwrap();
    assert_eq!(
        (row.outcome, &*row.note),
        (Outcome::Refused, "the gateway would refuse it: no such path; nor that")
    );
    // What stands in no part cannot be helped.
    let listen = line_of(&made, "address");
    assert!(!made.refuse(&[mistake(listen, "no such address")]));
}

#[test]
fn endpoints_of_more_templates_than_are_filled_are_refused() {
    let uses: String = (0..1_002)
        .map(|n| format!("<endpoint name=\"e{n}\" template=\"t\"><parameter name=\"h\" value=\"h{n}\"/></endpoint>\n"))
        .collect();
    let text = format!(
        "<definitions {HEAD}><template name=\"t\"><parameter name=\"h\"/><endpoint><address uri=\"http://$h.test:80/\"/></endpoint></template>\n{uses}</definitions>"
    );
    let made = imported(&[("p.xml", &text)]);
    let refused = made.table.rows.iter().filter(|row| row.outcome == Outcome::Refused);
    let refused: Vec<String> = refused.map(|row| format!("{} {}", row.place, row.note)).collect();
    assert_eq!(
        refused,
        [
            "p.xml:1002:1 more than 1000 endpoints are made of templates",
            "p.xml:1003:1 more than 1000 endpoints are made of templates",
        ]
    );
}

const DATA: &str = r#"<data name="Shop" serviceNamespace="urn:shop" transports="http https">
  <config id="db"><property name="driverClassName">com.mysql.jdbc.Driver</property><property name="url">jdbc:mysql://db.test:3306/shop?useSSL=false</property><property name="username">gate</property><property name="password">secret</property></config>
QUERIES
</data>"#;

/// What is refused in a data service, and why.
#[test]
fn data_services_are_refused_where_something_would_be_lost() {
    let result = r#"<result element="As" rowName="A"><element name="a" column="a"/></result>"#;
    let call = r#"<resource method="GET" path="a/{id}"><call-query href="q"><with-param name="id" query-param="id"/></call-query></resource>"#;
    let query = |inner: &str, sql: &str| {
        format!("<query id=\"q\" useConfig=\"db\"><sql>{sql}</sql>{inner}</query>{call}")
    };
    let with = |parameter: &str, sql: &str| {
        query(&format!("{result}<param name=\"id\" {parameter}</param>"), sql)
    };
    let good = with(r#"sqlType="INTEGER">"#, "select a from t where id = :id and b = ':id'");
    for (queries, why) in [
        (good.clone(), ""),
        (with(r#"sqlType="QUERY_STRING">"#, "select a from t :id"), "a part of the statement"),
        (
            with(r#"sqlType="STRING" paramType="ARRAY">"#, "select a from t where b in (?)"),
            "is an array, and those of an address are one text",
        ),
        (with(r#"sqlType="TIMESTAMP">"#, "select ?"), "of the type TIMESTAMP"),
        (with(r#"sqlType="STRING"><validateCustom class="x.Y"/>"#, "select ?"), "validateCustom"),
        (
            with(
                r#"sqlType="STRING"></param><param name="other" sqlType="STRING">"#,
                "select ?, ?",
            ),
            "gives the parameter `other` no value",
        ),
        (with(r#"sqlType="STRING">"#, "select ?, ?"), "the placeholder 2 has no parameter"),
        (
            good.replace("name=\"a\" column", "requiredRoles=\"admin\" name=\"a\" column"),
            "requiredRoles",
        ),
        (good.replace("<result", "<result outputType=\"json\""), "result@outputType"),
        (good.replace("useConfig=\"db\"", "useConfig=\"none\""), "there is no data source `none`"),
        (good.replace("<sql>", "<sql dialect=\"mysql\">"), "sql@dialect"),
        (good.replace("href=\"q\"", "href=\"r\""), "there is no query `r`"),
        (good.replace("a/{id}", "a/*"), "neither a name nor text"),
        (good.replace("<call-query", "<call-query-group/><call-query"), "call-query-group"),
    ] {
        let made = imported(&[("shop.dbs", &DATA.replace("QUERIES", &queries))]);
        let refused = made.table.rows.iter().filter(|row| row.outcome == Outcome::Refused);
        let refused: Vec<&str> = refused.map(|row| &*row.note).collect();
        let text = &made.configuration;
        assert!(!text.contains("secret"), "{text}");
        if why.is_empty() {
            assert!(refused.is_empty(), "{}", made.table);
            assert!(text.contains("select a from t where id = $1 and b = ':id'"), "{text}");
        } else {
            assert!(refused.len() == 1 && refused[0].contains(why), "{queries}: {}", made.table);
            assert!(!text.contains("select"), "{text}");
        }
    }
}

/// An array is one argument, where PostgreSQL has the operator for it.
#[test]
fn arrays_of_data_services_are_arguments_of_any() {
    let made = |scheme: &str, parameter: &str, sql: &str| {
        let queries = format!(
            r#"<query id="q" useConfig="db"><sql>{sql}</sql><result element="As" rowName="A"><element name="a" column="a"/></result><param name="id" paramType="ARRAY" {parameter}</param><param name="b" sqlType="STRING"/></query><operation name="find"><call-query href="q"><with-param name="id" query-param="ids"/><with-param name="b" query-param="b"/></call-query></operation>"#
        );
        let data = DATA.replace("QUERIES", &queries);
        imported(&[("shop.dbs", &data.replace("jdbc:mysql", scheme).replace("?useSSL=false", ""))])
    };
    let postgres = "jdbc:postgresql";
    let checked = r#"sqlType="INTEGER"><validateLongRange minimum="1" maximum="9"/>"#;
    let text = made(postgres, checked, "select a from t where b = :b and id\n IN ( :id )");
    assert!(text.table.rows.iter().all(|row| row.outcome != Outcome::Refused), "{}", text.table);
    let (_, flow) = text.configuration.split_once("steps:\n").unwrap();
    let (flow, _) = flow.split_once("- payload").unwrap();
    let flow = flow.replace("\n              ", "\n");
    expect![[r#"
                      - set:
                          dbs_id:
                            cel: "[]"
                      - foreach:
                          over: "$infoset_body/*/*[local-name()='ids']"
                          steps:
                            - set:
                                dbs_id:
                                  cel: "vars.dbs_id + [string(body)]"
                      - filter:
                          when:
                            cel: "size(vars.dbs_id) > 0 && vars.dbs_id.all(item, (item.matches(\"^[+-]?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?$\")) && (item.matches(\"^[+-]?[0-9]{1,18}$\") && int(item) >= 1 && int(item) <= 9))"
                          else:
                            - fault:
                                code: client
                                reason: "The parameter id is not valid"
                                status: 400
                      - set:
                          dbs_b:
                            value: "$infoset_body/*/*[local-name()='b']"
                            required: true
                      - sql:
                          database: shop
                          query: "select a from t where b = $1 and id = any($2)"
                          into: dbs_rows
                          arguments: ["$dbs_b", "$dbs_id"]"#]].assert_eq(flow.trim());
    let text = r#"sqlType="STRING">"#;
    for (scheme, parameter, sql, found) in [
        (
            postgres,
            text,
            "select a from t where id not in(?) and b = ?",
            "id <> all($1) and b = $2",
        ),
        (postgres, text, "select a from t where b in (?, ?)", "not alone in `in (...)`"),
        (postgres, text, "insert into t values (?) -- ?", "not alone in `in (...)`"),
        (postgres, text, "select a from t where margin(?) = ?", "not alone in `in (...)`"),
        ("jdbc:mysql", text, "select a from t where id in (?) and b = ?", "only PostgreSQL takes"),
        (
            postgres,
            r#"sqlType="STRING" optional="true">"#,
            "select a from t where id in (?) and b = ?",
            "an array that may be missing",
        ),
    ] {
        let made = made(scheme, parameter, sql);
        let refused = made.table.rows.iter().find(|row| row.outcome == Outcome::Refused);
        let note = refused.map_or(&*made.configuration, |row| &*row.note);
        assert!(note.contains(found), "{sql}: {note}");
    }
}

/// In a URL, `@` and `$` in the name of a user would mean something else.
#[test]
fn the_user_of_a_database_is_escaped() {
    let data = DATA.replace(">gate<", ">ann@${HOME}<").replace("QUERIES", "");
    let text = imported(&[("shop.dbs", &data)]).configuration;
    let url = "mysql://ann%40%24%7BHOME%7D:${SHOP_PASSWORD}@db.test:3306/shop?sslmode=disable";
    assert!(text.contains(url), "{text}");
}
