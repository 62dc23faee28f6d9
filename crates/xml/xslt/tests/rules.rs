//! White space, namespace aliases, ids and keys, as a table: each case with a tree of its source and streamed. Most results were
//! compared with libxslt; where that differs, the specification's section is named.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helper may panic"
)]

use std::sync::Arc;

use xslt::{Resolver, Resource, Run, Style, Stylesheet};

const COPY: &str = "<x:template match='@*|node()'><x:copy><x:apply-templates select='@*|node()'/></x:copy></x:template>";
const COPY_OF: &str = "<x:template match='/'><x:copy-of select='.'/></x:template>";

/// Modules and documents by name; for those that end in `.xsl`, the body of a stylesheet.
struct Pool<'s>(&'s [(&'s str, &'s str)]);

impl Resolver for Pool<'_> {
    fn resolve(&self, href: &str, _base: &str) -> Result<Resource, String> {
        let found = self.0.iter().find(|(name, _)| *name == href);
        let (name, text) = found.ok_or_else(|| "there is no such file".to_owned())?;
        let text = if name.ends_with(".xsl") { sheet(text) } else { (*text).to_owned() };
        Ok(Resource { uri: (*name).to_owned(), bytes: text.into_bytes() })
    }
}

fn sheet(body: &str) -> String {
    format!(
        "<x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform' xmlns:p='urn:p' xmlns:q='urn:q' \
         exclude-result-prefixes='p q'>{body}</x:stylesheet>"
    )
}

#[track_caller]
fn check_with(sheet: &str, source: &str, files: &[(&str, &str)], expected: &str) {
    let shelf = Pool(files);
    let compiled = Stylesheet::compile(sheet.as_bytes(), "main.xsl", &shelf)
        .unwrap_or_else(|error| panic!("{error}: {sheet}"));
    let options = xml::Options { doctype: xml::Doctype::Internal, ..xml::Options::default() };
    let run =
        Run { style: Style::Canonical, resolver: &shelf, base: "source.xml", ..Run::default() };
    let document = xml::Document::parse(source.as_bytes(), &options).unwrap();
    let by_tree = compiled.transform(&Arc::new(document), &run).map(|output| output.bytes);
    let by_tree = String::from_utf8(by_tree.unwrap()).unwrap();
    let result = by_tree.strip_prefix("<?xml version=\"1.0\" encoding=\"utf-8\"?>").unwrap();
    assert_eq!(result, expected, "{sheet}\n{source}");
    for _ in 0..3 {
        let streamed = compiled.transform_bytes(source.as_bytes(), &options, &run).unwrap();
        assert_eq!(String::from_utf8(streamed.bytes).unwrap(), by_tree, "{sheet}\n{source}");
    }
}

#[track_caller]
fn check(body: &str, source: &str, expected: &str) {
    check_with(&sheet(body), source, &[], expected);
}

/// A stylesheet with a template for the root with this content.
#[track_caller]
fn root(declarations: &str, content: &str, source: &str, expected: &str) {
    check(&format!("{declarations}<x:template match='/'>{content}</x:template>"), source, expected);
}

#[test]
fn of_declarations_for_an_element_the_best_counts_and_of_those_the_last() {
    let source = "<a> <b> </b> <p:b xmlns:p='urn:p'> </p:b></a>";
    let all = "<a> <b> </b> <p:b xmlns:p=\"urn:p\"> </p:b></a>";
    let none = "<a><b></b><p:b xmlns:p=\"urn:p\"></p:b></a>";
    let strip = |names: &str| format!("<x:strip-space elements='{names}'/>");
    let preserve = |names: &str| format!("<x:preserve-space elements='{names}'/>");
    for (declarations, expected) in [
        (strip("*"), none),
        (preserve("*"), all),
        // Conflicts are recoverable errors (3.4); libxslt takes the first of two names.
        (strip("*") + &preserve("*"), all),
        (preserve("*") + &strip("*"), none),
        (strip("a b p:b") + &preserve("a b p:b"), all),
        (preserve("a b p:b") + &strip("a b p:b"), none),
        (
            strip("*") + &strip("p:*") + &preserve("p:*"),
            "<a><b></b><p:b xmlns:p=\"urn:p\"> </p:b></a>",
        ),
        (preserve("p:*") + &strip("p:*"), "<a> <b> </b> <p:b xmlns:p=\"urn:p\"></p:b></a>"),
        // The priority decides, whatever the order of the rules.
        (preserve("b") + &strip("*"), "<a><b> </b><p:b xmlns:p=\"urn:p\"></p:b></a>"),
        (strip("b") + &preserve("*"), "<a> <b></b> <p:b xmlns:p=\"urn:p\"> </p:b></a>"),
        (preserve("p:*") + &strip("*"), "<a><b></b><p:b xmlns:p=\"urn:p\"> </p:b></a>"),
        (preserve("p:b") + &strip("p:*"), all),
    ] {
        for template in [COPY, COPY_OF] {
            check(&format!("{declarations}{template}"), source, expected);
        }
    }
}

#[test]
fn import_precedence_comes_before_priority_for_white_space() {
    let source = "<a> <b> </b></a>";
    let (all, none) = ("<a> <b> </b></a>", "<a><b></b></a>");
    for (declarations, one, two, expected) in [
        ("<x:strip-space elements='*'/>", "<x:preserve-space elements='b'/>", "", none),
        ("<x:preserve-space elements='*'/>", "<x:strip-space elements='b'/>", "", all),
        ("", "<x:strip-space elements='*'/>", "<x:preserve-space elements='*'/>", all),
        ("", "<x:preserve-space elements='b'/>", "<x:strip-space elements='*'/>", none),
        (
            "",
            "<x:strip-space elements='*'/>",
            "<x:preserve-space elements='b'/>",
            "<a><b> </b></a>",
        ),
    ] {
        let imports = "<x:import href='one.xsl'/><x:import href='two.xsl'/>";
        let files = [("one.xsl", one), ("two.xsl", two)];
        check_with(&sheet(&format!("{imports}{declarations}{COPY}")), source, &files, expected);
    }
}

#[test]
fn xml_space_stands_above_names_until_another_says_default() {
    let strip = "<x:strip-space elements='*'/>";
    for (source, expected) in [
        (
            "<a xml:space='preserve'> <b xml:space='default'> <c xml:space='preserve'> </c></b></a>",
            "<a xml:space=\"preserve\"> <b xml:space=\"default\"><c xml:space=\"preserve\"> </c></b></a>",
        ),
        // Other values are ignored (3.4).
        (
            "<a xml:space='preserve'> <b xml:space='keep'> <c> </c></b></a>",
            "<a xml:space=\"preserve\"> <b xml:space=\"keep\"> <c> </c></b></a>",
        ),
        (
            "<!DOCTYPE a [<!ATTLIST b xml:space (default|preserve) 'preserve'>]><a> <b> </b></a>",
            "<a><b xml:space=\"preserve\"> </b></a>",
        ),
        ("<a> <!--c--> x <?p?> <b>&#32;<![CDATA[ ]]></b></a>", "<a><!--c--> x <?p?><b></b></a>"),
    ] {
        for template in [COPY, COPY_OF] {
            check(&format!("{strip}{template}"), source, expected);
        }
    }
    // White space in the stylesheet itself.
    let source = "<a/>";
    for (content, expected) in [
        (
            "<r> <s xml:space='preserve'> <t xml:space='default'> <u/> </t> </s> </r>",
            "<r><s xml:space=\"preserve\"> <t xml:space=\"default\"><u></u></t> </s></r>",
        ),
        (
            "<r xml:space='preserve'> <s xml:space='keep'> </s></r>",
            "<r xml:space=\"preserve\"> <s xml:space=\"keep\"> </s></r>",
        ),
        ("<r> <x:text> </x:text> <x:text/>t </r>", "<r> t </r>"),
        ("<r> <![CDATA[ x]]><!--c--> </r>", "<r>  x</r>"),
        (
            "<x:variable name='v' select='1' xml:space='preserve'> </x:variable><r><x:value-of select='$v'/></r>",
            "<r>1</r>",
        ),
    ] {
        root("", content, source, expected);
    }
}

#[test]
fn documents_are_stripped_like_the_source_and_known_by_their_addresses() {
    let content = "<r> <x:value-of select=\"count(document('')//text())\"/>,<x:value-of select=\"count(document('other.xml')//text())\"/>,<x:value-of select=\"count(//text())\"/></r>";
    let files =
        [("other.xml", "<m> <n> </n>x</m>"), ("source.xml", "<never/>"), ("main.xsl", "never")];
    for (declarations, expected) in [
        ("", "<r>4,3,2</r>"),
        ("<x:strip-space elements='*'/>", "<r>2,1,1</r>"),
        ("<x:strip-space elements='x:*'/>", "<r>3,3,2</r>"),
    ] {
        let body = format!("{declarations}<x:template match='/'>{content}</x:template> ");
        check_with(&sheet(&body), "<a> <b>x</b></a>", &files, expected);
    }
    // Two references to the same address yield the same document (12.1).
    let content = "<r><x:value-of select=\"count(document('source.xml') | /)\"/>,<x:value-of select=\"count(document('main.xsl') | document(''))\"/></r>";
    let body = format!("<x:template match='/'>{content}</x:template>");
    check_with(&sheet(&body), "<a/>", &files, "<r>1,1</r>");
}

#[test]
fn an_alias_changes_namespaces_and_leaves_prefixes() {
    let aliased = |aliases: &[(&str, &str)], attributes: &str, content: &str, expected: &str| {
        let aliases: String = aliases
            .iter()
            .map(|(from, to)| {
                format!("<x:namespace-alias stylesheet-prefix='{from}' result-prefix='{to}'/>")
            })
            .collect();
        let text = format!(
            "<x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform' xmlns:a='urn:a' xmlns:b='urn:b' {attributes}>{aliases}<x:template match='/'>{content}</x:template></x:stylesheet>"
        );
        check_with(&text, "<c/>", &[], expected);
    };
    let used = "<a:r a:x='1' y='2'><a:s/></a:r>";
    aliased(
        &[("a", "b")],
        "",
        used,
        "<a:r xmlns:a=\"urn:b\" xmlns:b=\"urn:b\" y=\"2\" a:x=\"1\"><a:s></a:s></a:r>",
    );
    // Exclusion applies to the namespaces in the stylesheet, and namespaces that names need are declared anyway (7.1.1).
    aliased(
        &[("a", "b")],
        "exclude-result-prefixes='b'",
        used,
        "<a:r xmlns:a=\"urn:b\" y=\"2\" a:x=\"1\"><a:s></a:s></a:r>",
    );
    aliased(&[("a", "b")], "exclude-result-prefixes='a b'", "<r/>", "<r></r>");
    aliased(
        &[("a", "x")],
        "exclude-result-prefixes='b'",
        "<a:if test='1'/>",
        "<a:if xmlns:a=\"http://www.w3.org/1999/XSL/Transform\" test=\"1\"></a:if>",
    );
    aliased(
        &[("a", "x")],
        "exclude-result-prefixes='b x'",
        "<r a:version='1'/>",
        "<r xmlns:a=\"http://www.w3.org/1999/XSL/Transform\" a:version=\"1\"></r>",
    );
    // The default namespace, and no namespace.
    aliased(
        &[("#default", "b")],
        "exclude-result-prefixes='a b'",
        "<r y='1'><s/></r>",
        "<b:r xmlns:b=\"urn:b\" y=\"1\"><b:s></b:s></b:r>",
    );
    aliased(
        &[("#default", "b")],
        "xmlns='urn:d' exclude-result-prefixes='a b'",
        "<r y='1'><s xmlns=''/></r>",
        "<r xmlns=\"urn:b\" y=\"1\"><s xmlns=\"\"></s></r>",
    );
    aliased(
        &[("a", "#default")],
        "xmlns='urn:d' exclude-result-prefixes='a b'",
        used,
        "<a:r xmlns=\"urn:d\" xmlns:a=\"urn:d\" y=\"2\" a:x=\"1\"><a:s></a:s></a:r>",
    );
    aliased(
        &[("a", "#default")],
        "exclude-result-prefixes='b'",
        used,
        "<r x=\"1\" y=\"2\"><s></s></r>",
    );
    // Each namespace is looked up once.
    aliased(
        &[("a", "b"), ("b", "a")],
        "",
        "<a:r><b:s/></a:r>",
        "<a:r xmlns:a=\"urn:b\" xmlns:b=\"urn:a\"><b:s></b:s></a:r>",
    );
    // Two aliases for one namespace are an error, of which the last wins (7.1.1).
    aliased(
        &[("a", "x"), ("a", "b")],
        "exclude-result-prefixes='b'",
        "<a:r/>",
        "<a:r xmlns:a=\"urn:b\"></a:r>",
    );
    // Only literal elements are affected.
    aliased(
        &[("a", "b")],
        "exclude-result-prefixes='a b'",
        "<r><x:attribute name='a:t'/><x:element name='a:e'/></r>",
        "<r xmlns:a=\"urn:a\" a:t=\"\"><a:e></a:e></r>",
    );
}

#[test]
fn an_alias_of_the_importing_stylesheet_is_for_all() {
    let alias =
        |to: &str| format!("<x:namespace-alias stylesheet-prefix='p' result-prefix='{to}'/>");
    let template = "<x:template match='/'><p:r/></x:template>";
    let (q, x) = (alias("q"), alias("x"));
    for (own, one, two, expected) in [
        (format!("{x}{template}"), q.as_str(), "", "http://www.w3.org/1999/XSL/Transform"),
        (q.clone(), template, "", "urn:q"),
        (template.to_owned(), x.as_str(), q.as_str(), "urn:q"),
    ] {
        let text = sheet(&format!("<x:import href='one.xsl'/><x:import href='two.xsl'/>{own}"));
        let expected = format!("<p:r xmlns:p=\"{expected}\"></p:r>");
        check_with(&text, "<a/>", &[("one.xsl", one), ("two.xsl", two)], &expected);
    }
}

#[test]
fn ids_are_found_in_stripped_documents_and_by_lists() {
    let source = "<!DOCTYPE r [<!ATTLIST e k ID #IMPLIED><!ATTLIST p:f k ID #IMPLIED>]>\n<r> <e k=' one '> <e k='two'> </e></e> <p:f xmlns:p='urn:p' k='three'/> <e k='one'/><g xml:id=' four '>two three</g><h k='two'/></r>";
    for declarations in ["", "<x:strip-space elements='*'/>", "<x:strip-space elements='r'/>"] {
        for (expression, expected) in [
            ("id('one')", "e1"),
            ("id(' three\tone one')", "e1f3"),
            ("id('two')/..", "e1"),
            ("id(//g)", "e2f3"),
            ("id(//g | //@k)", "e1e2f3"),
            ("id('four')", "g5"),
            ("id('none')", ""),
            ("id(1)", ""),
        ] {
            let content = format!(
                "<r><x:for-each select=\"{expression}\"><x:value-of select='local-name()'/><x:value-of select='count(preceding::*) + count(ancestor::*)'/></x:for-each></r>"
            );
            root(declarations, &content, source, &format!("<r>{expected}</r>"));
        }
        let body = format!(
            "{declarations}<x:template match=\"id('four two')\">[<x:value-of select='name()'/>]</x:template><x:template match='text()'/>"
        );
        check(&body, source, "[e][g]");
    }
}

#[test]
fn a_key_may_match_the_root() {
    let key = "<x:key name='k' match='/|a|@b' use=\"'v'\"/>";
    root(key, "<r><x:value-of select=\"count(key('k', 'v'))\"/></r>", "<a b='1'/>", "<r>3</r>");
}
