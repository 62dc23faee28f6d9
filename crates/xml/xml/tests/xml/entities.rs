//! Entities, attribute types and defaults of an internal subset.

use expect_test::{Expect, expect};

use crate::record::{chunked, internal, refused, whole};

fn check(subset: &str, root: &str, expected: &Expect) {
    let document = format!("<!DOCTYPE a [{subset}]>\n{root}");
    let told = whole(document.as_bytes(), &internal());
    expected.assert_eq(&told);
    for len in 1..9 {
        assert_eq!(chunked(document.as_bytes().chunks(len), &internal()), told);
    }
}

#[test]
fn entities_in_content_and_values() {
    check(
        "<!ENTITY b 'x<c d=\"&e;\"/>y'><!ENTITY e '1&#10;2&#38;lt;'><!ENTITY f '&b;'>",
        "<a g='[&e;]'>&f;&e;</a>",
        &expect![[r#"
            2:1 start a g="[1 2<]"
            text "x"
            2:14 start c d="1 2<" /
            2:14 end c
            text "y1\n2<"
            2:20 end a
        "#]],
    );
}

#[test]
fn the_first_declaration_counts_and_parameters_are_read() {
    check(
        "<!ENTITY % p '<!ENTITY b \"1\"> <![IGNORE[ <!X> ]]> <![INCLUDE[<!ENTITY c \"3\">]]>'> %p; <!ENTITY b '2'>",
        "<a>&b;&c;</a>",
        &expect![[r#"
            2:1 start a
            text "13"
            2:10 end a
        "#]],
    );
}

#[test]
fn types_and_defaults() {
    check(
        "<!ATTLIST a b ID #IMPLIED c NMTOKENS ' x  y ' d (e|f) 'e' g CDATA ' h ' xmlns CDATA #FIXED 'urn:x' p:q CDATA 'r' xmlns:p CDATA 'urn:p'>\
         <!ATTLIST a d CDATA 'later'><!NOTATION n SYSTEM 'o'><!ENTITY u PUBLIC 'v' 'w' NDATA n>",
        "<a b=' i ' g=' j  k '><a c=' l  m '/></a>",
        &expect![[r#"
            unparsed u w Some("v")
            2:1 start a{urn:x} xmlns:="urn:x" xmlns:p="urn:p" #b="i" g=" j  k " +c="x y" +d="e" +p:q{urn:p}="r"
            2:23 start a{urn:x} xmlns:="urn:x" xmlns:p="urn:p" c="l m" +d="e" +g=" h " +p:q{urn:p}="r" /
            2:23 end a{urn:x}
            2:38 end a{urn:x}
        "#]],
    );
}

#[test]
fn what_is_outside_is_skipped() {
    check(
        "<!ENTITY b SYSTEM 'file:///etc/passwd'>",
        "<a>1&b;2</a>",
        &expect![[r#"
        2:1 start a
        text "12"
        2:9 end a
    "#]],
    );
    check(
        "<!ENTITY % b SYSTEM 'c'> %b; <!ENTITY d '3'>",
        "<a e='&d;'>1&d;2</a>",
        &expect![[r#"
        2:1 start a e=""
        text "12"
        2:17 end a
    "#]],
    );
}

#[test]
fn faults_in_entities_are_where_they_are_referred_to() {
    let cases = [
        ("<!ENTITY b '<c>'>", "<a>\n&b;</a>"),
        ("<!ENTITY b '</a>'>", "<a>\n&b;"),
        ("<!ENTITY b '</a><a>'>", "<a>\n&b;</a>"),
        ("<!ENTITY b '&#60;!-- '>", "<a>\n&b;--></a>"),
        ("<!ENTITY b '<![CDATA['>", "<a>\n&b;]]></a>"),
        ("<!ENTITY b '&c;'><!ENTITY c '&b;'>", "<a>\n&b;</a>"),
        ("<!ENTITY b '&c;'><!ENTITY c '&b;'>", "<a\n d='&b;'/>"),
        ("<!ENTITY b '<'>", "<a\n d='&b;'/>"),
        ("<!ENTITY b SYSTEM 'x'>", "<a\n d='&b;'/>"),
        ("<!ENTITY b SYSTEM 'x' NDATA y>", "<a>\n&b;</a>"),
        ("<!ENTITY b '&#38;'>", "<a>\n&b;</a>"),
        ("<!ENTITY b '&c;'>", "<a>\n&b;</a>"),
    ];
    let errors: Vec<String> = cases
        .iter()
        .map(|(subset, root)| {
            let document = format!("<!DOCTYPE a [{subset}]>{root}");
            format!("{subset} {root:?}\n    {}\n", refused(document.as_bytes(), &internal()))
        })
        .collect();
    expect![[r#"
        <!ENTITY b '<c>'> "<a>\n&b;</a>"
            2:1: the entity `b` ends within an element that is not closed
        <!ENTITY b '</a>'> "<a>\n&b;"
            2:1: in the entity `b`: an end tag closes an element of another entity
        <!ENTITY b '</a><a>'> "<a>\n&b;</a>"
            2:1: in the entity `b`: an end tag closes an element of another entity
        <!ENTITY b '&#60;!-- '> "<a>\n&b;--></a>"
            2:1: the entity `b` ends within a comment
        <!ENTITY b '<![CDATA['> "<a>\n&b;]]></a>"
            2:1: the entity `b` ends within a CDATA section
        <!ENTITY b '&c;'><!ENTITY c '&b;'> "<a>\n&b;</a>"
            2:1: in the entity `b`: in the entity `c`: the entity `b` refers to itself
        <!ENTITY b '&c;'><!ENTITY c '&b;'> "<a\n d='&b;'/>"
            2:5: in the entity `b`: in the entity `c`: the entity `b` refers to itself
        <!ENTITY b '<'> "<a\n d='&b;'/>"
            2:5: in the entity `b`: `<` is not allowed in an attribute's value
        <!ENTITY b SYSTEM 'x'> "<a\n d='&b;'/>"
            2:5: `b` is external: it cannot be in an attribute's value
        <!ENTITY b SYSTEM 'x' NDATA y> "<a>\n&b;</a>"
            2:1: `b` is not parsed: it cannot be in content
        <!ENTITY b '&#38;'> "<a>\n&b;</a>"
            2:1: the entity `b` ends within a reference
        <!ENTITY b '&c;'> "<a>\n&b;</a>"
            2:1: in the entity `b`: the entity `c` is not declared
    "#]]
    .assert_eq(&errors.concat());
}
