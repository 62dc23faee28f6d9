//! Events that a sink receives.

use expect_test::{Expect, expect};
use xml::Options;

use crate::record::{chunked, internal, whole};

fn check(document: &str, expected: &Expect) {
    let told = whole(document.as_bytes(), &internal());
    expected.assert_eq(&told);
    for len in 1..9 {
        assert_eq!(
            chunked(document.as_bytes().chunks(len), &internal()),
            told,
            "{len} bytes a chunk"
        );
    }
}

#[test]
fn a_message_with_namespaces() {
    let message = "<?xml version='1.0'?>\n<s:Envelope xmlns:s=\"urn:s\" xmlns='urn:d'>\n  <s:Body><Add xmlns=\"\" a='1' s:b='2'>5</Add></s:Body>\n</s:Envelope>\n";
    check(
        message,
        &expect![[r#"
        2:1 start s:Envelope{urn:s} xmlns:s="urn:s" xmlns:="urn:d"
        text "\n  "
        3:3 start s:Body{urn:s}
        3:11 start Add xmlns:="" a="1" s:b{urn:s}="2"
        text "5"
        3:40 end Add
        3:46 end s:Body{urn:s}
        text "\n"
        4:1 end s:Envelope{urn:s}
    "#]],
    );
}

#[test]
fn references_line_ends_and_sections() {
    let document = "<a b='&lt;\t&#x9;\r\n\r&#13;x&#65;&quot;'>1\r\n2\r3&amp;&#x1F600;]]<![CDATA[<&>]]]>]]&gt;</a>";
    check(
        document,
        &expect![[r#"
        1:1 start a b="< \t  \rxA\""
        text "1\n2\n3&😀]]"
        cdata "<&>]"
        text "]]>"
        5:40 end a
    "#]],
    );
}

#[test]
fn comments_and_instructions() {
    let document = "<!-- a\r\nb --><?p?><?q  x ?> y?><a><?r \n?><!----></a><!--z-->";
    check(
        document,
        &expect![[r#"
        1:1 comment " a\nb "
        2:6 instruction p ""
        2:11 instruction q "x "
        2:21: `y` is not allowed before the root element (offset 28)
    "#]],
    );
    check(
        "<a><?r \n?><!----></a><!--z-->",
        &expect![[r#"
        1:1 start a
        1:4 instruction r ""
        2:3 comment ""
        2:10 end a
        2:14 comment "z"
    "#]],
    );
}

#[test]
fn names_beyond_ascii_and_columns_in_characters() {
    check(
        "<é à='ü'>ü<ß/></é>",
        &expect![[r#"
        1:1 start é à="ü"
        text "ü"
        1:11 start ß /
        1:11 end ß
        1:15 end é
    "#]],
    );
}

#[test]
fn without_namespaces_a_colon_is_a_letter() {
    let options = Options { namespaces: false, ..Options::default() };
    let told = whole(b"<:a b:c:d='1' xmlns:q=''><x:/></:a>", &options);
    expect![[r#"
        1:1 start :a b:c:d="1" xmlns:q=""
        1:26 start x: /
        1:26 end x:
        1:31 end :a
    "#]]
    .assert_eq(&told);
}

#[test]
fn prefixes_are_hidden_and_come_back() {
    let document = "<p:a xmlns:p='1'><p:b xmlns:p='2'><p:c/></p:b><p:c/></p:a>";
    check(
        document,
        &expect![[r#"
        1:1 start p:a{1} xmlns:p="1"
        1:18 start p:b{2} xmlns:p="2"
        1:35 start p:c{2} /
        1:35 end p:c{2}
        1:41 end p:b{2}
        1:47 start p:c{1} /
        1:47 end p:c{1}
        1:53 end p:a{1}
    "#]],
    );
}
