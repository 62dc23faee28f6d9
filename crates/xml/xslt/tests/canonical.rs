//! Results in canonical form: from a table, and compared with libxml2, both with a tree of the source and streamed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helper may panic"
)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use expect_test::{Expect, expect};
use xslt::{Encoding, NoDocuments, Output, Run, Style, Stylesheet};

const COPY: &str = "<x:template match='@*|node()'><x:copy><x:apply-templates select='@*|node()'/></x:copy></x:template>";
const COPY_OF: &str = "<x:template match='/'><x:copy-of select='.'/></x:template>";

fn sheet(body: &str) -> String {
    format!(
        "<x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform'>{body}</x:stylesheet>"
    )
}

/// Transforms in both ways, and again once the document's markup is known.
fn output(body: &str, source: &str) -> Output {
    let compiled = Stylesheet::compile(sheet(body).as_bytes(), "", &NoDocuments).unwrap();
    let run = Run { style: Style::Canonical, ..Run::default() };
    let options = xml::Options { doctype: xml::Doctype::Internal, ..xml::Options::default() };
    let document = xml::Document::parse(source.as_bytes(), &options).unwrap();
    let by_tree = compiled.transform(&Arc::new(document), &run).unwrap();
    for _ in 0..3 {
        let streamed = compiled.transform_bytes(source.as_bytes(), &options, &run).unwrap();
        assert_eq!(streamed, by_tree, "{body}");
    }
    by_tree
}

fn canonical(body: &str, source: &str) -> String {
    String::from_utf8(output(body, source).bytes).unwrap()
}

fn check(body: &str, source: &str, expected: Expect) {
    expected.assert_eq(&canonical(body, source));
}

#[test]
fn tags_are_in_order_and_nothing_is_left_open() {
    let source = "<a z='1' b='2' xmlns:p='urn:2' xmlns:q='urn:1' p:x='3' q:y='4' q:a='5' xml:lang='en'><b/><c xmlns='urn:d' xmlns:p='urn:2'/></a>";
    check(
        COPY,
        source,
        expect![[
            r#"<?xml version="1.0" encoding="utf-8"?><a xmlns:p="urn:2" xmlns:q="urn:1" b="2" z="1" xml:lang="en" q:a="5" q:y="4" p:x="3"><b></b><c xmlns="urn:d"></c></a>"#
        ]],
    );
    check(
        "<x:template match='/'><r xmlns:z='urn:z' xmlns:a='urn:a'><x:attribute name='q:n' namespace='urn:n'>1</x:attribute><x:attribute name='m'>2</x:attribute></r></x:template>",
        "<a/>",
        expect![[
            r#"<?xml version="1.0" encoding="utf-8"?><r xmlns:a="urn:a" xmlns:q="urn:n" xmlns:z="urn:z" m="2" q:n="1"></r>"#
        ]],
    );
    check(
        "<x:template match='/'><r xmlns='urn:d'><x:element name='e' namespace=''><f xmlns='urn:d'/></x:element></r></x:template>",
        "<a/>",
        expect![[
            r#"<?xml version="1.0" encoding="utf-8"?><r xmlns="urn:d"><e xmlns=""><f xmlns="urn:d"></f></e></r>"#
        ]],
    );
}

/// Like libxslt, with or without a tree: namespaces that names do not need are not copied.
#[test]
fn namespaces_of_what_stands_around_are_not_copied() {
    let source = "<s:E xmlns:s='urn:s' xmlns:i='urn:i'><s:B><o xmlns='urn:o'><v i:t='1'/><w xmlns=''/></o></s:B></s:E>";
    let unwrap = format!(
        "<x:template match='*[local-name()=\"E\" or local-name()=\"B\"]' priority='1'><x:apply-templates/></x:template>{COPY}"
    );
    check(
        &unwrap,
        source,
        expect![[
            r#"<?xml version="1.0" encoding="utf-8"?><o xmlns="urn:o"><v xmlns:i="urn:i" i:t="1"></v><w xmlns=""></w></o>"#
        ]],
    );
    check(
        "<x:template match='/'><x:copy-of select='*/*/*'/></x:template>",
        source,
        expect![[
            r#"<?xml version="1.0" encoding="utf-8"?><o xmlns="urn:o" xmlns:i="urn:i" xmlns:s="urn:s"><v i:t="1"></v><w xmlns=""></w></o>"#
        ]],
    );
    check(
        "<x:template match='*'><x:copy><x:copy-of select='*'/></x:copy></x:template><x:template match='/'><x:apply-templates select='*/*'/></x:template>",
        source,
        expect![[
            r#"<?xml version="1.0" encoding="utf-8"?><s:B xmlns:s="urn:s"><o xmlns="urn:o" xmlns:i="urn:i"><v i:t="1"></v><w xmlns=""></w></o></s:B>"#
        ]],
    );
    let with = |content: &str| {
        format!(
            "<x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform' xmlns:t='urn:t'><x:template match='/'>{content}</x:template></x:stylesheet>"
        )
    };
    for (content, expected) in [
        ("<r><x:if test='1'><u/></x:if></r>", "<r xmlns:t=\"urn:t\"><u></u></r>"),
        ("<x:if test='1'><r xmlns:v='urn:v'><u/></r></x:if>", "<r xmlns:v=\"urn:v\"><u></u></r>"),
        ("<x:for-each select='/'><t:r/></x:for-each>", "<t:r xmlns:t=\"urn:t\"></t:r>"),
    ] {
        let compiled = Stylesheet::compile(with(content).as_bytes(), "", &NoDocuments).unwrap();
        let run = Run { style: Style::Canonical, ..Run::default() };
        let made = compiled.transform_bytes(b"<a/>", &xml::Options::default(), &run).unwrap();
        let made = String::from_utf8(made.bytes).unwrap();
        assert_eq!(made, format!("<?xml version=\"1.0\" encoding=\"utf-8\"?>{expected}"));
    }
}

#[test]
fn escapes_are_those_of_canonical_form() {
    let source = "<a b='&lt;&gt;&amp;&quot;&apos;&#9;&#10;&#13;é'>&lt;&gt;&amp;\"'&#13;&#9;é<![CDATA[<x>&]]><!-- x&#13; --></a>";
    check(
        COPY,
        source,
        expect![[
            r#"<?xml version="1.0" encoding="utf-8"?><a b="&lt;>&amp;&quot;'&#x9;&#xA;&#xD;é">&lt;&gt;&amp;"'&#xD;	é&lt;x&gt;&amp;<!-- x&#13; --></a>"#
        ]],
    );
    // Canonical form has no other way to write text.
    check(
        "<x:output cdata-section-elements='r'/><x:template match='/'><r>&lt;<x:value-of select=\"'&lt;b/&gt;'\" disable-output-escaping='yes'/></r></x:template>",
        "<a/>",
        expect![[r#"<?xml version="1.0" encoding="utf-8"?><r>&lt;&lt;b/&gt;</r>"#]],
    );
    check(
        "<x:template match='/'><r><x:comment>a&#13;b</x:comment><x:processing-instruction name='p'>c&#13;d</x:processing-instruction></r></x:template>",
        "<a/>",
        expect![[r#"<?xml version="1.0" encoding="utf-8"?><r><!--a&#xD;b--><?p c&#xD;d?></r>"#]],
    );
}

#[test]
fn what_stands_beside_the_root_has_lines_of_its_own() {
    let source = "<?p q?><!--c-->\n<a/><!--d-->\n<?r?>";
    check(
        COPY,
        source,
        expect![[r#"
        <?xml version="1.0" encoding="utf-8"?><?p q?>
        <!--c-->
        <a></a>
        <!--d-->
        <?r?>"#]],
    );
    check(
        COPY_OF,
        source,
        expect![[r#"
        <?xml version="1.0" encoding="utf-8"?><?p q?>
        <!--c-->
        <a></a>
        <!--d-->
        <?r?>"#]],
    );
}

#[test]
fn the_declaration_is_as_the_stylesheet_spells_it() {
    for (output, expected) in [
        ("", r#"<?xml version="1.0" encoding="utf-8"?><a><b></b></a>"#),
        ("indent='yes'", "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<a><b></b></a>"),
        ("indent='no'", r#"<?xml version="1.0" encoding="utf-8"?><a><b></b></a>"#),
        ("encoding='UTF-8'", r#"<?xml version="1.0" encoding="UTF-8"?><a><b></b></a>"#),
        ("encoding='Utf8'", r#"<?xml version="1.0" encoding="Utf8"?><a><b></b></a>"#),
        ("encoding='a\"b'", r#"<?xml version="1.0" encoding="utf-8"?><a><b></b></a>"#),
        ("omit-xml-declaration='yes' indent='yes'", "<a><b></b></a>"),
        ("omit-xml-declaration='no'", r#"<?xml version="1.0" encoding="utf-8"?><a><b></b></a>"#),
        (
            "standalone='yes'",
            r#"<?xml version="1.0" encoding="utf-8" standalone="yes"?><a><b></b></a>"#,
        ),
        ("standalone='no'", r#"<?xml version="1.0" encoding="utf-8"?><a><b></b></a>"#),
        (
            "doctype-system='s' method='xml'",
            r#"<?xml version="1.0" encoding="utf-8"?><a><b></b></a>"#,
        ),
        ("method='text'", ""),
        ("method='html' indent='no'", "<a><b></b></a>"),
    ] {
        assert_eq!(
            canonical(&format!("<x:output {output}/>{COPY}"), "<a><b/></a>"),
            expected,
            "{output}"
        );
    }
    let html = "<x:template match='/'><html/></x:template>";
    check(html, "<a/>", expect![[r#"<?xml version="1.0" encoding="utf-8"?><html></html>"#]]);
}

#[test]
fn the_bytes_are_in_the_encoding_that_is_named() {
    for (name, bytes, encoding) in [
        ("ISO-8859-1", &b"\xe9&#8364;"[..], Encoding::Latin1),
        ("us-ascii", b"&#233;&#8364;", Encoding::Ascii),
        ("UTF-8", "é€".as_bytes(), Encoding::Utf8),
        // What is not ASCII is written as references.
        ("windows-1252", b"&#233;&#8364;", Encoding::Other(encoding_rs::WINDOWS_1252)),
    ] {
        let made = output(&format!("<x:output encoding='{name}'/>{COPY}"), "<a>é€</a>");
        let expected =
            [format!("<?xml version=\"1.0\" encoding=\"{name}\"?><a>").as_bytes(), bytes, b"</a>"]
                .concat();
        assert_eq!((made.bytes, made.encoding), (expected, encoding), "{name}");
    }
}

/// Bodies whose results have one root, and are well-formed.
const BODIES: &[&str] = &[
    COPY,
    COPY_OF,
    "<x:template match='/'><r xmlns:z='urn:z' xmlns='urn:d' z:b='1' a='2'><x:copy-of select='*'/></r></x:template>",
    "<x:template match='/'><r><x:copy-of select='//@*'/><x:copy-of select='//comment()'/></r></x:template>",
    "<x:template match='/'><x:apply-templates select='*'/></x:template><x:template match='*'><x:element name='e_{local-name()}' namespace='urn:{count(@*)}'><x:apply-templates select='@*|node()'/></x:element></x:template><x:template match='@*'><x:attribute name='a_{local-name()}' namespace='{namespace-uri()}'><x:value-of select='.'/></x:attribute></x:template>",
    "<x:template match='/'><x:apply-templates select='/*/*[1]|/*[not(*)]'/></x:template><x:template match='*'><x:copy><x:if test='1'><n xmlns='urn:n'/></x:if><x:copy-of select='*'/></x:copy></x:template>",
    "<x:template match='/'><x:comment>c</x:comment><r><x:apply-templates/></r><x:processing-instruction name='p'>d</x:processing-instruction></x:template><x:template match='*'><x:copy><x:apply-templates/></x:copy></x:template>",
];

const DOCUMENTS: &[&str] = &[
    "<a/>",
    "<?p q?><!--c-->\n<a/><!--d-->\n<?r?>",
    "<a z='1' b='2' xmlns:p='urn:2' xmlns:q='urn:1' p:x='3' q:y='4' q:a='5' xml:lang='en'/>",
    "<a xmlns='urn:d' xmlns:z='urn:z' xmlns:b='urn:b'><b xmlns=''><c xmlns='urn:d'/></b><z:c xmlns:z='urn:z' xmlns:y='urn:y'/></a>",
    "<a b='&lt;&gt;&amp;&quot;&apos;&#9;&#10;&#13;é'>&lt;&gt;&amp;\"'&#13;&#9;&#10;é</a>",
    "<p:a xmlns:p='urn:u' p:b='1' c='2'><p:d xmlns:p='urn:v' p:b='1'/></p:a>",
    "<a>\n <b> <c> </c>\n</b>\t<d>x</d>\n</a>",
];

#[test]
fn libxml2_agrees() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (number, body) in BODIES.iter().enumerate() {
        let body = format!("<x:output omit-xml-declaration='yes'/>{body}");
        let path = folder.join(format!("canonical-{number}.xsl"));
        fs::write(&path, sheet(&body)).unwrap();
        for (at, source) in DOCUMENTS.iter().enumerate() {
            let file = folder.join(format!("canonical-{number}-{at}.xml"));
            fs::write(&file, source).unwrap();
            let result = file.with_extension("out");
            let made = Command::new("xsltproc").arg("-o").args([&result, &path, &file]).output();
            let made = made.expect("xsltproc is installed by the project's setup");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            let theirs = Command::new("xmllint").arg("--c14n").arg(&result).output();
            let theirs = theirs.expect("xmllint is installed by the project's setup");
            assert!(theirs.status.success(), "{}", String::from_utf8_lossy(&theirs.stderr));
            let theirs = String::from_utf8(theirs.stdout).unwrap();
            assert_eq!(canonical(&body, source), theirs, "{body}\n{source}");
        }
    }
}
