//! Serialisation of trees.

use expect_test::{Expect, expect};
use proptest::collection::vec;
use proptest::prelude::*;
use xml::{Document, Form, Kind, NodeId};

use crate::record::{internal, whole};

fn parse(text: &str) -> Document {
    Document::parse(text.as_bytes(), &internal()).unwrap()
}

fn check(text: &str, form: &Form<'_>, expected: &Expect) {
    expected.assert_eq(&parse(text).to_text(Document::ROOT, form));
}

const COMMENTS: Form<'static> = Form::Canonical { comments: true };
const CANONICAL: Form<'static> = Form::Canonical { comments: false };
const EXCLUSIVE: Form<'static> = Form::Exclusive { comments: false, inclusive: &[] };

/// Canonical XML 1.0, 3.1.
#[test]
fn instructions_comments_and_outside_of_the_document_element() {
    let text = "<?xml version=\"1.0\"?>\n\n<?xml-stylesheet   href=\"doc.xsl\"\n   type=\"text/xsl\"   ?>\n\n<!DOCTYPE doc SYSTEM \"doc.dtd\">\n\n<doc>Hello, world!<!-- Comment 1 --></doc>\n\n<?pi-without-data     ?>\n\n<!-- Comment 2 -->\n\n<!-- Comment 3 -->\n";
    check(
        text,
        &CANONICAL,
        &expect![[r#"
        <?xml-stylesheet href="doc.xsl"
           type="text/xsl"   ?>
        <doc>Hello, world!</doc>
        <?pi-without-data?>"#]],
    );
    check(
        text,
        &COMMENTS,
        &expect![[r#"
        <?xml-stylesheet href="doc.xsl"
           type="text/xsl"   ?>
        <doc>Hello, world!<!-- Comment 1 --></doc>
        <?pi-without-data?>
        <!-- Comment 2 -->
        <!-- Comment 3 -->"#]],
    );
}

/// Canonical XML 1.0, 3.3.
#[test]
fn start_and_end_tags() {
    let text = r#"<!DOCTYPE doc [<!ATTLIST e9 attr CDATA "default">]>
<doc>
   <e1   />
   <e2   ></e2>
   <e3   name = "elem3"   id="elem3"   />
   <e4   name="elem4"   id="elem4"   ></e4>
   <e5 a:attr="out" b:attr="sorted" attr2="all" attr="I'm"
      xmlns:b="http://www.ietf.org"
      xmlns:a="http://www.w3.org"
      xmlns="http://example.org"/>
   <e6 xmlns="" xmlns:a="http://www.w3.org">
      <e7 xmlns="http://www.ietf.org">
         <e8 xmlns="" xmlns:a="http://www.w3.org">
            <e9 xmlns="" xmlns:a="http://www.ietf.org"/>
         </e8>
      </e7>
   </e6>
</doc>"#;
    check(
        text,
        &CANONICAL,
        &expect![[r#"
        <doc>
           <e1></e1>
           <e2></e2>
           <e3 id="elem3" name="elem3"></e3>
           <e4 id="elem4" name="elem4"></e4>
           <e5 xmlns="http://example.org" xmlns:a="http://www.w3.org" xmlns:b="http://www.ietf.org" attr="I'm" attr2="all" b:attr="sorted" a:attr="out"></e5>
           <e6 xmlns:a="http://www.w3.org">
              <e7 xmlns="http://www.ietf.org">
                 <e8 xmlns="">
                    <e9 xmlns:a="http://www.ietf.org" attr="default"></e9>
                 </e8>
              </e7>
           </e6>
        </doc>"#]],
    );
}

/// Canonical XML 1.0, 3.4 and 3.5.
#[test]
fn characters_and_entities() {
    let text = "<!DOCTYPE doc [\n<!ATTLIST normId id ID #IMPLIED>\n<!ATTLIST normNames attr NMTOKENS #IMPLIED>\n<!ENTITY ent1 \"Hello\">]>\n<doc>\n   <text>First line&#x0d;&#10;Second line &ent1;</text>\n   <value>&#x32;</value>\n   <compute><![CDATA[value>\"0\" && value<\"10\" ?\"valid\":\"error\"]]></compute>\n   <compute expr='value>\"0\" &amp;&amp; value&lt;\"10\" ?\"valid\":\"error\"'>valid</compute>\n   <norm attr=' &apos;   &#x20;&#13;&#xa;&#9;   &apos; '/>\n   <normNames attr='   A   &#x20;&#13;&#xa;&#9;   B   '/>\n   <normId id=' &apos;   &#x20;&#13;&#xa;&#9;   &apos; '/>\n</doc>";
    check(
        text,
        &CANONICAL,
        &expect![[r#"
        <doc>
           <text>First line&#xD;
        Second line Hello</text>
           <value>2</value>
           <compute>value&gt;"0" &amp;&amp; value&lt;"10" ?"valid":"error"</compute>
           <compute expr="value>&quot;0&quot; &amp;&amp; value&lt;&quot;10&quot; ?&quot;valid&quot;:&quot;error&quot;">valid</compute>
           <norm attr=" '    &#xD;&#xA;&#x9;   ' "></norm>
           <normNames attr="A &#xD;&#xA;&#x9; B"></normNames>
           <normId id="' &#xD;&#xA;&#x9; '"></normId>
        </doc>"#]],
    );
}

/// Exclusive XML Canonicalization 1.0, 2.2: a subtree is written in the same way wherever it is in a document.
#[test]
fn subtrees_in_other_surroundings() {
    let first = r#"<n0:local xmlns:n0="foo:bar" xmlns:n3="ftp://example.org"><n1:elem2 xmlns:n1="http://example.net" xml:lang="en"><n3:stuff xmlns:n3="ftp://example.org"/></n1:elem2></n0:local>"#;
    let second = r#"<n2:pdu xmlns:n1="http://example.com" xmlns:n2="http://foo.example" xml:lang="fr" xml:space="retain"><n1:elem2 xmlns:n1="http://example.net" xml:lang="en"><n3:stuff xmlns:n3="ftp://example.org"/></n1:elem2></n2:pdu>"#;
    let write = |text: &str, form: &Form<'_>| {
        let document = parse(text);
        let inner = document.first_child(document.root_element().unwrap()).unwrap();
        document.to_text(inner, form)
    };
    expect![[r#"<n1:elem2 xmlns:n0="foo:bar" xmlns:n1="http://example.net" xmlns:n3="ftp://example.org" xml:lang="en"><n3:stuff></n3:stuff></n1:elem2>"#]]
        .assert_eq(&write(first, &CANONICAL));
    expect![[r#"<n1:elem2 xmlns:n1="http://example.net" xmlns:n2="http://foo.example" xml:lang="en" xml:space="retain"><n3:stuff xmlns:n3="ftp://example.org"></n3:stuff></n1:elem2>"#]]
        .assert_eq(&write(second, &CANONICAL));
    let exclusive = r#"<n1:elem2 xmlns:n1="http://example.net" xml:lang="en"><n3:stuff xmlns:n3="ftp://example.org"></n3:stuff></n1:elem2>"#;
    assert_eq!(write(first, &EXCLUSIVE), exclusive);
    assert_eq!(write(second, &EXCLUSIVE), exclusive);
    let listed = Form::Exclusive { comments: false, inclusive: &["n0"] };
    assert!(write(first, &listed).starts_with(r#"<n1:elem2 xmlns:n0="foo:bar" xmlns:n1="#));
}

#[test]
fn subtrees_take_along_the_namespaces_that_are_kept() {
    let text = r#"<e xmlns="urn:e" xmlns:x="urn:x" xmlns:y="urn:y"><x:a><b xmlns:z="urn:z" y:c="1"/></x:a></e>"#;
    let document = parse(text);
    let node = document.root_element().and_then(|root| document.first_child(root)).unwrap();
    for (kept, expected) in [
        // Whatever is kept, the meaning of names does not change.
        (
            &[][..],
            r#"<x:a xmlns:x="urn:x"><b xmlns:z="urn:z" xmlns="urn:e" xmlns:y="urn:y" y:c="1"/></x:a>"#,
        ),
        (
            &["", "y"],
            r#"<x:a xmlns="urn:e" xmlns:y="urn:y" xmlns:x="urn:x"><b xmlns:z="urn:z" y:c="1"/></x:a>"#,
        ),
    ] {
        assert_eq!(document.to_text(node, &Form::Moved { kept }), expected, "{kept:?}");
    }
}

#[test]
fn lines_where_there_is_no_text() {
    let text = "<!--x--><a><b>1</b>  <c><d/><e>2<f/></e></c><g xml:space='preserve'> <h/> </g><i> </i><!--y--></a>";
    check(
        text,
        &Form::Pretty { indent: 2 },
        &expect![[r#"
        <!--x-->
        <a>
          <b>1</b>
          <c>
            <d/>
            <e>2<f/></e>
          </c>
          <g xml:space="preserve"> <h/> </g>
          <i> </i>
          <!--y-->
        </a>
    "#]],
    );
}

#[test]
fn escaping() {
    check(
        "<a b='&#9;&#10;&#13;&quot;&apos;&lt;>&amp;'>&#13;&lt;&gt;&amp;\"</a>",
        &Form::Plain,
        &expect![[r#"<a b="&#x9;&#xA;&#xD;&quot;'&lt;>&amp;">&#xD;&lt;&gt;&amp;"</a>"#]],
    );
    let document = parse("<a b='&lt;'>&lt;</a>");
    assert_eq!(document.to_text(NodeId(2), &Form::Plain), "&lt;");
    assert_eq!(document.to_text(NodeId(3), &Form::Plain), "&lt;");
}

/// A description of a tree for comparing two trees.
fn shape(document: &Document) -> Vec<String> {
    let nodes = (0..document.len()).map(NodeId);
    let shapes = nodes.map(|id| {
        let name = document.name(id);
        let declared: Vec<_> = document.declared(id).collect();
        let kind: Kind = document.kind(id);
        format!(
            "{kind:?} {}:{} {:?} {:?} {declared:?} {}",
            name.prefix,
            name.local,
            name.namespace.uri,
            document.value(id),
            document.end(id).0
        )
    });
    shapes.collect()
}

fn trees() -> impl Strategy<Value = String> {
    let text = prop::sample::select(
        &["x", "&lt;&#13;", " \n", "é&amp;", "]]&gt;", "<!--c-->", "<?p q r?>"][..],
    );
    let leaf = vec(text, 0..3).prop_map(|texts| texts.concat());
    leaf.prop_recursive(4, 30, 4, |inner| {
        let tags = prop::sample::select(
            &[
                "a",
                "b c='&#10;&quot;'",
                "p:d xmlns:p='1'",
                "e xmlns='2'",
                "f xmlns='' g='h'",
                "p:i xmlns:p='3' p:j='k' l='m'",
            ][..],
        );
        (tags, vec(inner, 0..4)).prop_map(|(tag, inside)| {
            let name = tag.split(' ').next().unwrap();
            format!("<{tag}>{}</{name}>", inside.concat())
        })
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_the_same(inside in trees()) {
        let document = parse(&format!("<r xmlns:p='0'>{inside}</r>"));
        let plain = document.to_text(Document::ROOT, &Form::Plain);
        prop_assert_eq!(shape(&parse(&plain)), shape(&document));
        let canonical = document.to_text(Document::ROOT, &COMMENTS);
        prop_assert_eq!(&parse(&canonical).to_text(Document::ROOT, &COMMENTS), &canonical);
        let exclusive = document.to_text(Document::ROOT, &EXCLUSIVE);
        prop_assert_eq!(&parse(&exclusive).to_text(Document::ROOT, &EXCLUSIVE), &exclusive);
        prop_assert!(!whole(exclusive.as_bytes(), &internal()).contains("(offset"));
    }
}
