//! Refused documents, with the position of the error.

use expect_test::{Expect, expect};

use crate::record::{internal, refused};

fn check(documents: &[&str], expected: &Expect) {
    let errors: Vec<String> = documents
        .iter()
        .map(|document| {
            format!("{document:?}\n    {}\n", refused(document.as_bytes(), &internal()))
        })
        .collect();
    expected.assert_eq(&errors.concat());
}

#[test]
fn documents_that_end_early() {
    check(
        &[
            "",
            " ",
            "<",
            "<a",
            "<a ",
            "<a b",
            "<a b=",
            "<a b='",
            "<a b='c'",
            "<a/",
            "<a>",
            "<a>x",
            "<a></",
            "<a></a",
            "<a></a ",
            "<a>&",
            "<a>&am",
            "<a>&#",
            "<a>&#x",
            "<a><!",
            "<a><!-",
            "<a><!--",
            "<a><!-- --",
            "<a><![CDATA[ ]",
            "<?xml",
            "<?xml version",
            "<?xml version='1.0'",
            "<?p",
            "<?p ?",
            "<!DOCTYPE a",
            "<!DOCTYPE a [",
            "<!DOCTYPE a [<!ENTITY",
        ],
        &expect![[r#"
            ""
                1:1: the document ends within the prolog: there is no root element
            " "
                1:2: the document ends within the prolog: there is no root element
            "<"
                1:2: the document ends within markup
            "<a"
                1:3: the document ends within a start tag
            "<a "
                1:4: the document ends within a start tag
            "<a b"
                1:5: the document ends within a start tag
            "<a b="
                1:6: the document ends within a start tag
            "<a b='"
                1:7: the document ends within a start tag
            "<a b='c'"
                1:9: the document ends within a start tag
            "<a/"
                1:4: the document ends within a start tag
            "<a>"
                1:4: the document ends within an element that is not closed
            "<a>x"
                1:5: the document ends within an element that is not closed
            "<a></"
                1:6: the document ends within an end tag
            "<a></a"
                1:7: the document ends within an end tag
            "<a></a "
                1:8: the document ends within an end tag
            "<a>&"
                1:5: the document ends within a reference
            "<a>&am"
                1:7: the document ends within a reference
            "<a>&#"
                1:6: the document ends within a reference
            "<a>&#x"
                1:7: the document ends within a reference
            "<a><!"
                1:6: the document ends within markup
            "<a><!-"
                1:7: the document ends within markup
            "<a><!--"
                1:8: the document ends within a comment
            "<a><!-- --"
                1:11: the document ends within a comment
            "<a><![CDATA[ ]"
                1:15: the document ends within a CDATA section
            "<?xml"
                1:6: the document ends within a processing instruction
            "<?xml version"
                1:14: the document ends within the XML declaration
            "<?xml version='1.0'"
                1:20: the document ends within the XML declaration
            "<?p"
                1:4: the document ends within a processing instruction
            "<?p ?"
                1:6: the document ends within a processing instruction
            "<!DOCTYPE a"
                1:12: the document ends within a document type declaration
            "<!DOCTYPE a ["
                1:14: the document ends within the internal subset
            "<!DOCTYPE a [<!ENTITY"
                1:22: the document ends within an entity declaration
        "#]],
    );
}

#[test]
fn tags() {
    check(
        &[
            "a",
            "</a>",
            "<a></b>",
            "<a></a b>",
            "<a/><b/>",
            "<a/>x",
            "<1/>",
            "<a<b/>",
            "<a b/>",
            "<a b=c/>",
            "<a b='<'/>",
            "<a b='1'c='2'/>",
            "<a b='1' b='2'/>",
            "<a / >",
            "<a>\n <b>\n</a>",
            "< a/>",
            "<a ='1'/>",
            "<a><b></a></b>",
            "<a b='&'/>",
        ],
        &expect![[r#"
            "a"
                1:1: `a` is not allowed before the root element
            "</a>"
                1:1: `<` is not allowed before the root element
            "<a></b>"
                1:4: found `</b>`, expected `</a>`
            "<a></a b>"
                1:8: `b` is not allowed in an end tag
            "<a/><b/>"
                1:5: `<` is not allowed after the root element
            "<a/>x"
                1:5: `x` is not allowed after the root element
            "<1/>"
                1:2: a start tag needs a name, which cannot begin with `1`
            "<a<b/>"
                1:3: `<` is not allowed here: white space or the end of the tag is due
            "<a b/>"
                1:5: the attribute `b` needs `=` and a value
            "<a b=c/>"
                1:6: the value of `b` has to stand in quotes
            "<a b='<'/>"
                1:7: `<` is not allowed in an attribute's value: write `&lt;`
            "<a b='1'c='2'/>"
                1:9: `c` is not allowed here: white space or the end of the tag is due
            "<a b='1' b='2'/>"
                1:10: the attribute `b` comes twice in one tag
            "<a / >"
                1:4: `/` has to be followed by `>` at the end of a tag
            "<a>\n <b>\n</a>"
                3:1: found `</a>`, expected `</b>`
            "< a/>"
                1:2: a start tag needs a name, which cannot begin with ` `
            "<a ='1'/>"
                1:4: a start tag needs a name, which cannot begin with `=`
            "<a><b></a></b>"
                1:7: found `</a>`, expected `</b>`
            "<a b='&'/>"
                1:8: a reference needs a name, which cannot begin with `'`
        "#]],
    );
}

#[test]
fn namespaces() {
    check(
        &[
            "<p:a/>",
            "<a p:b=''/>",
            "<:a/>",
            "<a:/>",
            "<a:b:c xmlns:a='1'/>",
            "<a xmlns:p=''/>",
            "<a xmlns:xml='x'/>",
            "<a xmlns:xmlns='x'/>",
            "<a xmlns='http://www.w3.org/XML/1998/namespace'/>",
            "<a xmlns:b='http://www.w3.org/2000/xmlns/'/>",
            "<a xmlns:p='1' xmlns:q='1' p:b='' q:b=''/>",
            "<a xmlns:p='1' xmlns:p='2'/>",
            "<xmlns:a/>",
            "<a:1 xmlns:a='1'/>",
            "<?a:b?><a/>",
        ],
        &expect![[r#"
            "<p:a/>"
                1:2: the prefix `p` is not declared
            "<a p:b=''/>"
                1:4: the prefix `p` is not declared
            "<:a/>"
                1:2: a name has one colon at most, between two names (Namespaces in XML)
            "<a:/>"
                1:4: a start tag needs a name, which cannot begin with `/`
            "<a:b:c xmlns:a='1'/>"
                1:5: a name has one colon at most, between two names (Namespaces in XML)
            "<a xmlns:p=''/>"
                1:4: a prefix cannot be undeclared in Namespaces 1.0
            "<a xmlns:xml='x'/>"
                1:4: the prefix `xml` cannot be bound to another namespace
            "<a xmlns:xmlns='x'/>"
                1:4: the prefix `xmlns` cannot be declared
            "<a xmlns='http://www.w3.org/XML/1998/namespace'/>"
                1:4: only the prefix `xml` can be bound to the namespace of `xml`
            "<a xmlns:b='http://www.w3.org/2000/xmlns/'/>"
                1:4: nothing can be bound to the namespace of `xmlns`
            "<a xmlns:p='1' xmlns:q='1' p:b='' q:b=''/>"
                1:35: the attribute `q:b` comes twice in one tag
            "<a xmlns:p='1' xmlns:p='2'/>"
                1:16: the prefix `p` is declared twice in one tag
            "<xmlns:a/>"
                1:2: the prefix `xmlns` is not declared
            "<a:1 xmlns:a='1'/>"
                1:4: a start tag needs a name, which cannot begin with `1`
            "<?a:b?><a/>"
                1:4: `:` is not allowed in the target of a processing instruction
        "#]],
    );
}

#[test]
fn text_and_the_rest() {
    check(
        &[
            "<a>]]></a>",
            "<a>&b;</a>",
            "<a>&#0;</a>",
            "<a>&#xD800;</a>",
            "<a>&#1x;</a>",
            "<a>&#;</a>",
            "<a>& </a>",
            "<a>&b </a>",
            "<a><!-- -- --></a>",
            "<a><!-- ---></a>",
            "<a><?xml ?></a>",
            "<?XML ?><a/>",
            " <?xml version='1.0'?><a/>",
            "<?xml?><a/>",
            "<?xml encoding='a'?><a/>",
            "<?xml version='2.0'?><a/>",
            "<?xml version='1.0' standalone='maybe'?><a/>",
            "<?xml version='1.0' standalone='no' encoding='UTF-8'?><a/>",
            "<a>\u{1}</a>",
            "<a>\u{FFFF}</a>",
            "<a><![cdata[]]></a>",
            "<a><!DOCTYPE a></a>",
            "<?p+?><a/>",
            "<!DOCTYPE a><!DOCTYPE a><a/>",
            "<a/><!DOCTYPE a>",
            "<!DOCTYPE a p;><a/>",
            "<!DOCTYPE a x",
            "<![CDATA[]]><a/>",
        ],
        &expect![[r#"
            "<a>]]></a>"
                1:4: `]]>` is not allowed in text: write `]]&gt;`
            "<a>&b;</a>"
                1:4: the entity `b` is not declared
            "<a>&#0;</a>"
                1:4: the reference is to U+0000, which XML does not allow
            "<a>&#xD800;</a>"
                1:4: the reference is to U+D800, which XML does not allow
            "<a>&#1x;</a>"
                1:7: `x` is not allowed in a character reference
            "<a>&#;</a>"
                1:6: `;` is not allowed in a character reference
            "<a>& </a>"
                1:5: a reference needs a name, which cannot begin with ` `
            "<a>&b </a>"
                1:4: a reference has to end with `;`; write `&amp;` for the character `&`
            "<a><!-- -- --></a>"
                1:9: `--` is not allowed within a comment
            "<a><!-- ---></a>"
                1:9: `--` is not allowed within a comment
            "<a><?xml ?></a>"
                1:4: `<?xml` is allowed at the very start of a document only
            "<?XML ?><a/>"
                1:1: `<?xml` is allowed at the very start of a document only
            " <?xml version='1.0'?><a/>"
                1:2: `<?xml` is allowed at the very start of a document only
            "<?xml?><a/>"
                1:1: `<?xml` is allowed at the very start of a document only
            "<?xml encoding='a'?><a/>"
                1:1: the encoding `a` is not read: use UTF-8
            "<?xml version='2.0'?><a/>"
                1:15: `2.0` is not a value of `version` in an XML declaration
            "<?xml version='1.0' standalone='maybe'?><a/>"
                1:32: `maybe` is not a value of `standalone` in an XML declaration
            "<?xml version='1.0' standalone='no' encoding='UTF-8'?><a/>"
                1:37: an XML declaration has version, encoding, standalone, in this order
            "<a>\u{1}</a>"
                1:4: the character U+0001 is not allowed in XML
            "<a>\u{ffff}</a>"
                1:4: the character U+FFFF is not allowed in XML
            "<a><![cdata[]]></a>"
                1:4: only a comment or a CDATA section may begin with `<!` here
            "<a><!DOCTYPE a></a>"
                1:4: only a comment or a CDATA section may begin with `<!` here
            "<?p+?><a/>"
                1:4: `+` is not allowed in the target of a processing instruction
            "<!DOCTYPE a><!DOCTYPE a><a/>"
                1:13: a document has one document type declaration
            "<a/><!DOCTYPE a>"
                1:5: `<` is not allowed after the root element
            "<!DOCTYPE a p;><a/>"
                1:13: `[` or `>` is due in a document type declaration, not `p`
            "<!DOCTYPE a x"
                1:13: `[` or `>` is due in a document type declaration, not `x`
            "<![CDATA[]]><a/>"
                1:1: `<` is not allowed before the root element
        "#]],
    );
}

#[test]
fn encodings() {
    let cases: &[&[u8]] = &[
        b"<a>\xFF</a>",
        b"<a>\xC3",
        b"<a>\n \xE2\x82</a>",
        b"<a>\xED\xA0\x80</a>",
        b"<a>\xC0\x80</a>",
        b"<?xml version='1.0' encoding='US-ASCII'?><a>\xC3\xA4</a>",
        b"<?xml version='1.0' encoding='EUC-JP'?><a/>",
        b"<?xml version='1.0' encoding='UTF-16'?><a/>",
        b"\xEF\xBB\xBF<?xml version='1.0' encoding='ISO-8859-1'?><a/>",
        b"\xFF\xFE<\0a\0>\0\x00\xD8<\0",
        b"\xFF\xFE<\0a\0>",
        b"\xFE\xFF\0<\0?\0x\0m\0l\0 \0v\0e\0r\0s\0i\0o\0n\0=\0'\x001\0.\x000\0'\0 \0e\0n\0c\0o\0d\0i\0n\0g\0=\0'\0u\0t\0f\0-\08\0'\0?\0>",
        b"\0\0\0<",
        b"\x4C\x6F\xA7\x94",
    ];
    let errors: Vec<String> = cases
        .iter()
        .map(|bytes| format!("{}\n    {}\n", bytes.escape_ascii(), refused(bytes, &internal())))
        .collect();
    expect![[r#"
        <a>\xff</a>
            1:4: this is not UTF-8
        <a>\xc3
            1:4: the document ends within a character
        <a>\n \xe2\x82</a>
            2:2: this is not UTF-8
        <a>\xed\xa0\x80</a>
            1:4: this is not UTF-8
        <a>\xc0\x80</a>
            1:4: this is not UTF-8
        <?xml version=\'1.0\' encoding=\'US-ASCII\'?><a>\xc3\xa4</a>
            1:45: this is not US-ASCII
        <?xml version=\'1.0\' encoding=\'EUC-JP\'?><a/>
            1:1: the encoding `EUC-JP` is not read: use UTF-8
        <?xml version=\'1.0\' encoding=\'UTF-16\'?><a/>
            1:1: the document says it is in `UTF-16`, which it is not
        \xef\xbb\xbf<?xml version=\'1.0\' encoding=\'ISO-8859-1\'?><a/>
            1:1: the byte order mark is UTF-8's, and the declaration names another encoding
        \xff\xfe<\x00a\x00>\x00\x00\xd8<\x00
            1:4: half a pair of surrogates: this is not UTF-16
        \xff\xfe<\x00a\x00>
            1:3: the document ends within a character
        \xfe\xff\x00<\x00?\x00x\x00m\x00l\x00 \x00v\x00e\x00r\x00s\x00i\x00o\x00n\x00=\x00\'\x001\x00.\x000\x00\'\x00 \x00e\x00n\x00c\x00o\x00d\x00i\x00n\x00g\x00=\x00\'\x00u\x00t\x00f\x00-\x008\x00\'\x00?\x00>
            1:30: `utf-8` is not a value of `encoding` in an XML declaration
        \x00\x00\x00<
            1:1: UTF-32 is not read: use UTF-8
        Lo\xa7\x94
            1:1: EBCDIC is not read: use UTF-8
    "#]].assert_eq(&errors.concat());
}

#[test]
fn a_doctype_is_refused_unless_asked_for() {
    let options = xml::Options::default();
    let error = refused(b"<?xml version='1.0'?>\n<!DOCTYPE a [<!ENTITY b 'c'>]><a/>", &options);
    assert_eq!(error, "2:1: a DOCTYPE is not allowed here");
}

#[test]
fn declarations() {
    let subsets = [
        "<!ELEMENT a>",
        "<!ELEMENT a ()>",
        "<!ELEMENT a (b,c|d)>",
        "<!ELEMENT a (#PCDATA|b)>",
        "<!ELEMENT a (b",
        "<!ELEMENT a ANYX>",
        "<!ELEMENT a (b)>x",
        "<!ATTLIST a b>",
        "<!ATTLIST a b CDATA>",
        "<!ATTLIST a b CDATA '<'>",
        "<!ATTLIST a b CDATA '&c;'>",
        "<!ATTLIST a b (c|) #IMPLIED>",
        "<!ATTLIST a b NOTATION #IMPLIED>",
        "<!ATTLIST a b IDX #IMPLIED>",
        "<!ENTITY b>",
        "<!ENTITY b 'c' NDATA d>",
        "<!ENTITY % b SYSTEM 'c' NDATA d>",
        "<!ENTITY b '%c;'>",
        "<!ENTITY b '%'>",
        "<!ENTITY b '&'>",
        "<!ENTITY b SYSTEM>",
        "<!ENTITY b PUBLIC 'c'>",
        "<!ENTITY b PUBLIC '{' 'c'>",
        "<!ENTITY lt '<'>",
        "<!ENTITY a:b 'c'>",
        "<!NOTATION b>",
        "<!NOTATION b 'c'>",
        "<!X>",
        "<![INCLUDE[]]>",
        "&b;",
        "%b",
        "<!entity b 'c'>",
        "<!ENTITY %b 'c'>",
        "<!ENTITY % b '<!ELEMENT a'> %b;",
        "<!ENTITY % b '<![INCLUDE[<!X>]]>'> %b;",
        "<!ENTITY % b '&#37;b;'> %b;",
    ];
    let errors: Vec<String> = subsets
        .iter()
        .map(|subset| {
            let document = format!("<!DOCTYPE a [\n{subset}\n]><a/>");
            format!("{subset}\n    {}\n", refused(document.as_bytes(), &internal()))
        })
        .collect();
    expect![[r#"
        <!ELEMENT a>
            2:12: white space is due in an element declaration, not `>`
        <!ELEMENT a ()>
            2:14: an element declaration needs a name, which cannot begin with `)`
        <!ELEMENT a (b,c|d)>
            2:17: `)`, or the separator of this group, is due in an element declaration, not `|`
        <!ELEMENT a (#PCDATA|b)>
            2:24: `*` after a choice with #PCDATA is due in an element declaration, not `>`
        <!ELEMENT a (b
            3:1: `)`, or the separator of this group, is due in an element declaration, not `]`
        <!ELEMENT a ANYX>
            2:13: `(` is due in an element declaration, not `A`
        <!ELEMENT a (b)>x
            2:17: `x` is not allowed between declarations
        <!ATTLIST a b>
            2:14: white space is due in an attribute list declaration, not `>`
        <!ATTLIST a b CDATA>
            2:20: white space is due in an attribute list declaration, not `>`
        <!ATTLIST a b CDATA '<'>
            2:22: `<` is not allowed in an attribute's value: write `&lt;`
        <!ATTLIST a b CDATA '&c;'>
            2:22: the entity `c` is not declared
        <!ATTLIST a b (c|) #IMPLIED>
            2:18: a name token is due in an attribute list declaration, not `)`
        <!ATTLIST a b NOTATION #IMPLIED>
            2:24: `(` is due in an attribute list declaration, not `#`
        <!ATTLIST a b IDX #IMPLIED>
            2:15: an attribute's type is due in an attribute list declaration, not `I`
        <!ENTITY b>
            2:11: white space is due in an entity declaration, not `>`
        <!ENTITY b 'c' NDATA d>
            2:16: `>` is due in an entity declaration, not `N`
        <!ENTITY % b SYSTEM 'c' NDATA d>
            2:25: `>` is due in an entity declaration, not `N`
        <!ENTITY b '%c;'>
            2:13: a parameter entity is not allowed within a declaration of the internal subset
        <!ENTITY b '%'>
            2:13: `%` is not allowed in an entity's value: write `&#37;`
        <!ENTITY b '&'>
            2:13: a reference has to end with `;`
        <!ENTITY b SYSTEM>
            2:18: white space is due in an entity declaration, not `>`
        <!ENTITY b PUBLIC 'c'>
            2:22: white space and a system identifier is due in an entity declaration, not `>`
        <!ENTITY b PUBLIC '{' 'c'>
            2:20: `{` is not allowed in a public identifier
        <!ENTITY lt '<'>
            2:9: `lt` can be declared only as what it is
        <!ENTITY a:b 'c'>
            2:11: white space is due in an entity declaration, not `:`
        <!NOTATION b>
            2:13: white space is due in a notation declaration, not `>`
        <!NOTATION b 'c'>
            2:14: SYSTEM or PUBLIC is due in a notation declaration, not `'`
        <!X>
            2:1: ELEMENT, ATTLIST, ENTITY, NOTATION, a comment or a processing instruction is due
        <![INCLUDE[]]>
            2:1: ELEMENT, ATTLIST, ENTITY, NOTATION, a comment or a processing instruction is due
        &b;
            2:1: `&` is not allowed between declarations
        %b
            2:3: a reference has to end with `;`
        <!entity b 'c'>
            2:1: ELEMENT, ATTLIST, ENTITY, NOTATION, a comment or a processing instruction is due
        <!ENTITY %b 'c'>
            2:11: white space is due in an entity declaration, not `b`
        <!ENTITY % b '<!ELEMENT a'> %b;
            2:29: the entity `b` ends within an element declaration
        <!ENTITY % b '<![INCLUDE[<!X>]]>'> %b;
            2:36: in the entity `b`: ELEMENT, ATTLIST, ENTITY, NOTATION, a comment or a processing instruction is due
        <!ENTITY % b '&#37;b;'> %b;
            2:25: in the entity `b`: the parameter entity `b` refers to itself
    "#]].assert_eq(&errors.concat());
}
