//! Stylesheets as a table: the body of the stylesheet, the source, and the expected bytes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helper may panic"
)]

use std::sync::Arc;

use expect_test::{Expect, expect};
use xslt::{Argument, Budgets, NoDocuments, Parameter, Resolver, Resource, Run, Stylesheet};

/// Modules and documents by name.
struct Pool(&'static [(&'static str, &'static str)]);

impl Resolver for Pool {
    fn resolve(&self, href: &str, _base: &str) -> Result<Resource, String> {
        let found = self.0.iter().find(|(name, _)| *name == href);
        let (name, text) = found.ok_or_else(|| "there is no such file".to_owned())?;
        Ok(Resource { uri: (*name).to_owned(), bytes: text.as_bytes().to_vec() })
    }
}

fn sheet(body: &str) -> String {
    format!(
        "<x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform' \
         xmlns:e='http://exslt.org/common' xmlns:f='http://exslt.org/functions' xmlns:my='urn:my' \
         extension-element-prefixes='e f' exclude-result-prefixes='my'>{body}</x:stylesheet>"
    )
}

fn run_with(body: &str, source: &str, resolver: &dyn Resolver, budgets: Budgets) -> String {
    let compiled = match Stylesheet::compile(sheet(body).as_bytes(), "main", resolver) {
        Ok(compiled) => compiled,
        Err(error) => return format!("compile: {error}"),
    };
    let document = xml::Document::parse(source.as_bytes(), &xml::Options::default()).unwrap();
    let parameters = [Parameter {
        uri: "".into(),
        local: "given".into(),
        value: Argument::Text("from outside".into()),
    }];
    let run = Run { parameters: &parameters, resolver, budgets, ..Run::default() };
    match compiled.transform(&Arc::new(document), &run) {
        Ok(output) => {
            let mut text = String::from_utf8(output.bytes).unwrap();
            for message in output.messages {
                text.push_str(&format!("\nmessage: {message}"));
            }
            text
        }
        Err(error) => format!("run: {error}"),
    }
}

fn check(body: &str, source: &str, expected: Expect) {
    let body = format!("<x:output omit-xml-declaration='yes'/>{body}");
    expected.assert_eq(&run_with(&body, source, &NoDocuments, Budgets::default()));
}

const COPY: &str = "<x:template match='@*|node()'><x:copy><x:apply-templates select='@*|node()'/></x:copy></x:template>";

#[test]
fn templates_and_modes() {
    let source = "<a x='1'><b>t</b><b y='2'/><!--c--><?p d?></a>";
    check(COPY, source, expect![[r#"<a x="1"><b>t</b><b y="2"/><!--c--><?p d?></a>"#]]);
    check(
        "<x:template match='b[1]'><x:apply-templates select='.' mode='m'/></x:template>\
         <x:template match='b' mode='m' priority='1'>1</x:template>\
         <x:template match='b' mode='m'>2</x:template>\
         <x:template match='b[@y]'><x:value-of select='@y'/></x:template>",
        source,
        expect!["12"],
    );
    check(
        "<x:template match='/'><x:call-template name='t'><x:with-param name='p' select='7'/>\
         </x:call-template></x:template><x:template name='t'><x:param name='p' select='1'/>\
         <x:param name='q' select='$p + 1'/><x:value-of select='$p'/>,<x:value-of select='$q'/>\
         </x:template>",
        source,
        expect!["7,8"],
    );
}

/// Elements whose template only copies them take a fast path, which must not affect the result around and inside them.
#[test]
fn what_is_only_copied_leaves_no_trace() {
    let source = "<a><b><c>1</c>x<c>2</c></b><b>y</b><d/></a>";
    check(
        &format!(
            "{COPY}<x:template match='c'><n><x:value-of select='concat(position(), last(), .)'/></n>\
             </x:template>"
        ),
        source,
        expect!["<a><b><n>131</n>x<n>332</n></b><b>y</b><d/></a>"],
    );
    check(
        &format!(
            "{COPY}<x:template match='a'><x:variable name='v' select='name()'/>\
             <r><x:apply-templates/>|<x:value-of select='concat($v, name())'/></r></x:template>"
        ),
        source,
        expect!["<r><b><c>1</c>x<c>2</c></b><b>y</b><d/>|aa</r>"],
    );
    check(
        "<x:template match='/|node()'><x:copy><x:apply-templates mode='m'/></x:copy></x:template>\
         <x:template match='node()' mode='m'><x:copy><x:apply-templates/></x:copy>.</x:template>",
        source,
        expect!["<a><b><c>1</c>.x.<c>2</c>.</b><b>y.</b><d/></a>."],
    );
    check(
        &format!(
            "{COPY}<x:template match='c'><x:param name='p' select='7'/><x:value-of select='$p'/>\
             </x:template><x:template match='/'><x:apply-templates>\
             <x:with-param name='p' select='1'/></x:apply-templates></x:template>"
        ),
        source,
        expect!["<a><b>7x7</b><b>y</b><d/></a>"],
    );
}

#[test]
fn namespaces_are_fixed_up() {
    check(
        "<x:template match='/'><x:element name='p:e' namespace='urn:p'>\
         <x:attribute name='p:a' namespace='urn:q'>1</x:attribute>\
         <x:attribute name='b' namespace='urn:q'>2</x:attribute><in xmlns='urn:d'>\
         <x:element name='none' namespace=''/></in></x:element></x:template>",
        "<a/>",
        expect![[
            r#"<p:e xmlns:p="urn:p" xmlns:p_1="urn:q" xmlns:ns_1="urn:q" p_1:a="1" ns_1:b="2"><in xmlns="urn:d"><none xmlns=""/></in></p:e>"#
        ]],
    );
    check(
        "<x:template match='/'><r><x:copy-of select='//b'/></r></x:template>",
        "<a xmlns:p='urn:p' xmlns='urn:d'><b p:c='1'><d/></b></a>",
        expect![[r#"<r/>"#]],
    );
    check(
        "<x:template match='/'><r><x:copy-of select='//*[@y]'/></r></x:template>",
        "<a xmlns:p='urn:p' xmlns='urn:d'><b p:c='1' y=''><d/></b></a>",
        expect![[r#"<r><b xmlns="urn:d" xmlns:p="urn:p" p:c="1" y=""><d/></b></r>"#]],
    );
}

#[test]
fn values_loops_and_sorting() {
    let source = "<a><n>10</n><n>9</n><n>b</n><n>B</n><n>a</n></a>";
    check(
        "<x:template match='a'><x:for-each select='n'><x:sort select='.'/><x:value-of select='.'/>\
         <x:if test='position() != last()'>,</x:if></x:for-each>;<x:for-each select='n'>\
         <x:sort data-type='number' order='descending'/><x:value-of select='.'/>,</x:for-each>\
         </x:template>",
        source,
        expect!["10,9,a,b,B;10,9,b,B,a,"],
    );
    check(
        "<x:param name='given' select='1'/><x:param name='absent' select='2'/>\
         <x:variable name='late' select='$later + 1'/><x:variable name='later' select='4'/>\
         <x:template match='/'><x:variable name='t'><i>1</i><i>2</i></x:variable>\
         <x:value-of select='$given'/>|<x:value-of select='$absent'/>|<x:value-of select='$late'/>|\
         <x:value-of select='sum(e:node-set($t)/i)'/>|<x:value-of select='$t'/></x:template>",
        source,
        expect!["from outside|2|5|3|12"],
    );
    check(
        "<x:key name='k' match='n' use='string-length()'/><x:template match='/'>\
         <x:value-of select=\"count(key('k', 1))\"/>|<x:value-of select=\"key('k', '2')\"/>|\
         <x:value-of select=\"generate-id(//n[1]) = generate-id(key('k', 2))\"/></x:template>",
        source,
        expect!["4|10|true"],
    );
}

/// The tree of a call is dropped with it, and the next one has its number.
#[test]
fn ids_are_never_generated_twice() {
    let body = "<x:output method='text'/><x:template name='t'><x:variable name='v'><i/></x:variable>\
         <x:value-of select='generate-id(e:node-set($v)/i)'/></x:template>\
         <x:template match='/'><x:call-template name='t'/>|<x:call-template name='t'/>|<x:value-of select='generate-id(*)'/></x:template>";
    let text = run_with(body, "<a/>", &NoDocuments, Budgets::default());
    let ids: std::collections::HashSet<&str> = text.split('|').collect();
    assert_eq!(ids.len(), 3, "{text}");
}

#[test]
fn the_namespaces_of_xml_and_xmlns_keep_their_prefixes() {
    let xml = "http://www.w3.org/XML/1998/namespace";
    check(
        &format!(
            "<x:template match='/'><x:element name='a' namespace='{xml}'><x:attribute name='p:b' namespace='{xml}'>1</x:attribute>\
             <x:element name='xml:c' namespace='urn:c'/><x:element name='p:d' namespace='{xml}'/><x:element name='xml:e'/></x:element></x:template>"
        ),
        "<a/>",
        expect![[r#"<xml:a xml:b="1"><c xmlns="urn:c"/><xml:d/><xml:e/></xml:a>"#]],
    );
    for content in [
        "<x:element name='a' namespace='NAME'/>",
        "<a><x:attribute name='a' namespace='NAME'/></a>",
    ] {
        let content = content.replace("NAME", "http://www.w3.org/2000/xmlns/");
        let body = format!("<x:template match='/'>{content}</x:template>");
        let text = run_with(&body, "<a/>", &NoDocuments, Budgets::default());
        assert!(text.contains("cannot be in the namespace of xmlns"), "{text}");
    }
}

#[test]
fn attributes_are_neither_text_nor_comments() {
    check(
        "<x:template match='@text()|@comment()|@processing-instruction()'>wrong</x:template>\
         <x:template match='/'><x:apply-templates select='a/node()|a/@*'/></x:template>",
        "<a b='1'>2<!--c--><?d?></a>",
        expect!["12"],
    );
}

/// Runs a stylesheet of XSLT 2.0.
fn later(body: &str, source: &str) -> String {
    let sheet = sheet(body).replace("version='1.0'", "version='2.0'");
    let compiled = match Stylesheet::compile(sheet.as_bytes(), "main", &NoDocuments) {
        Ok(compiled) => compiled,
        Err(error) => return error.to_string(),
    };
    let document = xml::Document::parse(source.as_bytes(), &xml::Options::default()).unwrap();
    let output = compiled.transform(&Arc::new(document), &Run::default()).unwrap();
    String::from_utf8(output.bytes).unwrap()
}

#[test]
fn modes_of_a_later_version_are_listed_once() {
    for (mode, expected) in [
        ("m #default", "1"),
        (" #all ", "1"),
        ("m", "0"),
        ("", "mode is empty"),
        ("#all m", "mode has `#all` beside other modes"),
        ("m #default m", "mode has `m` twice"),
    ] {
        let body =
            format!("<x:output method='text'/><x:template match='a' mode='{mode}'>1</x:template>");
        let found = later(&body, "<a>0</a>");
        assert!(found.ends_with(expected), "{mode}: {found}");
    }
}

#[test]
fn functions_are_available_with_a_number_of_arguments() {
    for (call, expected) in [
        ("function-available('concat', 9)", "true"),
        ("function-available('concat', 1)", "false"),
        ("function-available('key', 2)", "true"),
        ("function-available('key', 2.5)", "false"),
        ("function-available('current', 0)", "true"),
        ("function-available('string-join')", "true"),
        ("function-available('string-joint')", "false"),
        ("function-available('e:node-set', 1)", "true"),
        ("function-available('e:node-set', 2)", "false"),
    ] {
        let body = format!(
            "<x:output method='text'/><x:template match='/'><x:value-of select=\"{call}\"/></x:template>"
        );
        assert_eq!(later(&body, "<a/>"), expected, "{call}");
    }
    check(
        "<x:template match='/'><x:value-of select=\"function-available('string-join')\"/></x:template>",
        "<a/>",
        expect!["false"],
    );
}

#[test]
fn numbers() {
    check(
        "<x:template match='/'><x:for-each select='//s'><x:number level='multiple' format='1.a '/>\
         <x:number level='any'/>;</x:for-each><x:value-of select=\"format-number(1234.5, '#,##0.00')\"/>\
         </x:template>",
        "<d><s/><s><s/><s/></s></d>",
        expect!["1 1;2 2;2.a 3;2.b 4;1,234.50"],
    );
}

#[test]
fn output_methods() {
    let html = "<x:output method='html' indent='no' encoding='us-ascii'/><x:template match='/'>\
        <html><head><title>é</title></head><body><br/><script>a &lt; b</script>\
        <input checked='checked' title='a &lt; b'/><a href='é'>x</a></body></html></x:template>";
    check(
        html,
        "<a/>",
        expect![[
            r#"<html><head><meta http-equiv="Content-Type" content="text/html; charset=US-ASCII"><title>&#233;</title></head><body><br><script>a < b</script><input checked title="a < b"><a href="%C3%A9">x</a></body></html>"#
        ]],
    );
    check(
        "<x:output method='text'/><x:template match='/'><a>&lt;</a>b</x:template>",
        "<a/>",
        expect!["<b"],
    );
    check(
        "<x:output cdata-section-elements='c' indent='yes' doctype-system='s.dtd'/>\
         <x:template match='/'><a><c>x]]&gt;y</c><d><e/></d></a></x:template>",
        "<a/>",
        expect![[r#"
            <!DOCTYPE a SYSTEM "s.dtd">
            <a>
              <c><![CDATA[x]]]]><![CDATA[>y]]></c>
              <d>
                <e/>
              </d>
            </a>"#]],
    );
}

#[test]
fn functions_of_the_stylesheet() {
    check(
        "<f:function name='my:fact'><x:param name='n'/><x:choose><x:when test='$n &lt; 2'>\
         <f:result select='1'/></x:when><x:otherwise><f:result select='$n * my:fact($n - 1)'/>\
         </x:otherwise></x:choose></f:function>\
         <x:template match='/'><x:value-of select='my:fact(5)'/></x:template>",
        "<a/>",
        expect!["120"],
    );
}

#[test]
fn white_space_attribute_sets_and_messages() {
    check(
        &format!("<x:strip-space elements='*'/><x:preserve-space elements='k'/>{COPY}"),
        "<a> <b> </b> <k> </k> <c xml:space='preserve'> </c></a>",
        expect![[r#"<a><b/><k> </k><c xml:space="preserve"> </c></a>"#]],
    );
    check(
        "<x:attribute-set name='s'><x:attribute name='a'>1</x:attribute></x:attribute-set>\
         <x:attribute-set name='t' use-attribute-sets='s'><x:attribute name='b'>2</x:attribute>\
         </x:attribute-set><x:template match='/'><e x:use-attribute-sets='t' b='3'/>\
         <x:message>said <x:value-of select='1'/></x:message></x:template>",
        "<a/>",
        expect![[r#"
            <e a="1" b="3"/>
            message: said 1"#]],
    );
}

#[test]
fn mistakes_have_a_place() {
    let cases = [
        ("<x:template match='/'><x:value-of/></x:template>", "needs the attribute select"),
        ("<x:template match='/'><x:value-of select='1 +'/></x:template>", "`1 +`"),
        ("<x:template match='/'><x:call-template name='no'/></x:template>", "no template `no`"),
        ("<x:template match='/'><x:value-of select='$no'/></x:template>", "no variable `$no`"),
        ("<x:template match='/'><x:nothing/></x:template>", "xsl:nothing is not allowed here"),
        ("<x:template match='/'><a b='{1'/></x:template>", "a brace is not closed"),
        ("<x:template match='/' wrong='1'/>", "does not take the attribute wrong"),
        ("<x:template/>", "needs the attribute match or name"),
        ("<x:variable name='a'/><x:variable name='a'/>", "two global variables `a`"),
        ("<x:template match='/'><x:message terminate='yes'>stop</x:message></x:template>", "stop"),
        ("<x:template match='/'><x:element name='1'/></x:template>", "`1` is not a name"),
        ("<x:include href='gone'/>", "cannot load `gone`"),
    ];
    for (body, expected) in cases {
        let found = run_with(body, "<a/>", &NoDocuments, Budgets::default());
        assert!(found.contains(expected) && found.contains("main:1:"), "{body}: {found}");
    }
}

#[test]
fn modules_and_documents() {
    let shelf = Pool(&[
        (
            "low",
            "<x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform'><x:template match='b'>low</x:template></x:stylesheet>",
        ),
        (
            "again",
            "<x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform'><x:import href='again'/></x:stylesheet>",
        ),
        ("d", "<d>doc</d>"),
    ]);
    let run = |body: &str| run_with(body, "<a><b/></a>", &shelf, Budgets::default());
    let output = "<x:output method='text'/>";
    assert_eq!(
        run(&format!(
            "<x:import href='low'/>{output}<x:template match='b'>high,<x:apply-imports/></x:template>"
        )),
        "high,low"
    );
    assert_eq!(
        run(&format!(
            "{output}<x:template match='/'><x:value-of select=\"document('d')\"/><x:value-of select=\"count(document('d')|document('d'))\"/></x:template>"
        )),
        "doc1"
    );
    let cyclic = run("<x:import href='again'/>");
    assert!(cyclic.contains("`again` imports or includes itself"), "{cyclic}");
}
