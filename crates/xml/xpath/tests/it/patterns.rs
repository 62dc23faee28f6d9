//! Patterns: the nodes they match, their priority, and their shape for dispatch.

use crate::support::{PREFIXES, documents, show_node};
use expect_test::expect;
use xpath::{Budget, DocId, Evaluation, Expr, NoHost, Node, Options, Pattern, Plain};

const DOCUMENT: &str = "<r id='r' xmlns:p='urn:p'><a id='1'><b id='2'>x</b><p:c id='3'/><b id='4' p:k='v'>y</b></a><!--note--><?go now?>\
<a id='5'><b id='6'><b id='7'>z</b></b></a>tail</r>";

fn plain() -> Plain<'static> {
    Plain { prefixes: PREFIXES, options: Options::default() }
}

/// All nodes of the document except namespaces.
fn all(document: &xml::Document) -> Vec<Node> {
    (0..document.len()).map(|id| Node::new(DocId(0), xml::NodeId(id))).collect()
}

#[test]
fn patterns_match_from_below() {
    let documents = documents(DOCUMENT);
    for (text, expected) in [
        ("/", "/"),
        ("/r", "r#r"),
        ("/a", ""),
        ("r", "r#r"),
        ("*", "r#r a#1 b#2 p:c#3 b#4 a#5 b#6 b#7"),
        ("p:*", "p:c#3"),
        ("p:c", "p:c#3"),
        ("c", ""),
        ("@p:*", "@p:k=v"),
        ("@p:k", "@p:k=v"),
        ("b/@*", "@id=2 @id=4 @p:k=v @id=6 @id=7"),
        ("@id[. > 5]", "@id=6 @id=7"),
        ("a/b", "b#2 b#4 b#6"),
        ("a//b", "b#2 b#4 b#6 b#7"),
        ("/r/a/b", "b#2 b#4 b#6"),
        ("/a/b", ""),
        ("//b", "b#2 b#4 b#6 b#7"),
        ("r//b/b", "b#7"),
        ("r//a//b//b", "b#7"),
        ("/r//b", "b#2 b#4 b#6 b#7"),
        ("/b//b", ""),
        ("//a/b/b", "b#7"),
        ("b[1]", "b#2 b#6 b#7"),
        ("b[2]", "b#4"),
        ("b[last()]", "b#4 b#6 b#7"),
        ("b[position() > 1]", "b#4"),
        ("*[2]", "p:c#3 a#5"),
        ("*[2][self::a]", "a#5"),
        ("*[self::a][2]", "a#5"),
        ("b[@id > 3][1]", "b#4 b#6 b#7"),
        ("a[b/b]", "a#5"),
        ("a[b/b]/b", "b#6"),
        ("a[2]//b", "b#6 b#7"),
        ("@text()", ""),
        ("@comment() | @processing-instruction()", ""),
        ("text()", "\"x\" \"y\" \"tail\" \"z\""),
        ("a//text()", "\"x\" \"y\" \"z\""),
        ("comment()", "<!--note-->"),
        ("processing-instruction()", "<?go now?>"),
        ("processing-instruction('go')", "<?go now?>"),
        ("processing-instruction('x')", ""),
        ("r/node()", "a#1 <!--note--> <?go now?> a#5 \"tail\""),
        ("node()[1]", "r#r a#1 b#2 \"x\" \"y\" b#6 b#7 \"z\""),
        ("@node()", "@id=r @id=1 @id=2 @id=3 @id=4 @p:k=v @id=5 @id=6 @id=7"),
        ("attribute::id[1]", "@id=r @id=1 @id=2 @id=3 @id=4 @id=5 @id=6 @id=7"),
        ("child::b", "b#2 b#4 b#6 b#7"),
        ("a|comment()|@id[.='7']", "a#1 <!--note--> a#5 @id=7"),
        ("a | / | r", "/ r#r a#1 a#5"),
        ("id('x')", ""),
    ] {
        let pattern = Pattern::compile(text, &plain()).unwrap();
        let mut found = Vec::new();
        for node in all(documents.document(DocId(0))) {
            let (mut host, mut budget) = (NoHost, Budget::default());
            if pattern
                .matches(&mut Evaluation::of(&documents, node, &mut host, &mut budget))
                .unwrap()
            {
                found.push(show_node(&documents, node));
            }
        }
        let mut wanted: Vec<&str> = expected.split(' ').filter(|one| !one.is_empty()).collect();
        // An instruction's value follows a space.
        wanted.retain(|one| *one != "now?>");
        let mut found: Vec<String> = found.iter().map(|one| one.replace(" now?>", "")).collect();
        wanted.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, wanted, "{text}");
    }
}

/// XSLT 1.0, 5.2: a node matches if the pattern, as an expression from some ancestor-or-self, selects it.
#[test]
fn patterns_agree_with_their_definition() {
    let documents = documents(DOCUMENT);
    let document = documents.document(DocId(0));
    for text in [
        "a",
        "a/b",
        "a//b",
        "r//b/b",
        "//b",
        "/r/a",
        "b[2]",
        "*[last()]",
        "*[2]/b",
        "a[b[2]]//text()",
        "@id",
        "a//@*",
        "node()",
        "b[position() mod 2 = 1]",
        "*//*[1]",
        "/*/*[1]/*[2]",
        "*[@id='5']//b[last()]",
        "p:c|a/b[1]",
    ] {
        let pattern = Pattern::compile(text, &plain()).unwrap();
        let expr = Expr::compile(text, &plain()).unwrap();
        let mut wanted = std::collections::BTreeSet::new();
        for node in all(document) {
            let (mut host, mut budget) = (NoHost, Budget::default());
            wanted.extend(
                expr.nodes(&mut Evaluation::of(&documents, node, &mut host, &mut budget)).unwrap(),
            );
        }
        for node in all(document) {
            let (mut host, mut budget) = (NoHost, Budget::default());
            let matches = pattern
                .matches(&mut Evaluation::of(&documents, node, &mut host, &mut budget))
                .unwrap();
            assert_eq!(
                matches,
                wanted.contains(&node),
                "{text} and {}",
                show_node(&documents, node)
            );
        }
    }
}

#[test]
fn priorities_and_shapes() {
    let mut all = String::new();
    for text in [
        "/",
        "a",
        "p:a",
        "p:*",
        "*",
        "@a",
        "@p:*",
        "@*",
        "text()",
        "comment()",
        "node()",
        "@node()",
        "@text()",
        "processing-instruction()",
        "processing-instruction('t')",
        "a[1]",
        "a/b",
        "//a",
        "/a",
        "a//@b",
        "id('x')",
        "id('x')/a",
        "a|*",
        "child::a",
        "attribute::*",
    ] {
        for one in &Pattern::compile(text, &plain()).unwrap().alternatives {
            all.push_str(&format!(
                "{text}  {} {:?}{}\n",
                one.priority,
                one.shape,
                if one.settled { " settled" } else { "" }
            ));
        }
    }
    expect![[r#"
        /  0.5 Root settled
        a  0 Element(Name(Name { uri: "", local: "a" })) settled
        p:a  0 Element(Name(Name { uri: "urn:p", local: "a" })) settled
        p:*  -0.25 Element(Namespace("urn:p")) settled
        *  -0.5 Element(Any) settled
        @a  0 Attribute(Name(Name { uri: "", local: "a" })) settled
        @p:*  -0.25 Attribute(Namespace("urn:p")) settled
        @*  -0.5 Attribute(Any) settled
        text()  -0.5 Text settled
        comment()  -0.5 Comment settled
        node()  -0.5 Child settled
        @node()  -0.5 Attribute(Any) settled
        @text()  -0.5 Attribute(Any)
        processing-instruction()  -0.5 Instruction(None) settled
        processing-instruction('t')  0 Instruction(Some("t")) settled
        a[1]  0.5 Element(Name(Name { uri: "", local: "a" }))
        a/b  0.5 Element(Name(Name { uri: "", local: "b" }))
        //a  0.5 Element(Name(Name { uri: "", local: "a" }))
        /a  0.5 Element(Name(Name { uri: "", local: "a" }))
        a//@b  0.5 Attribute(Name(Name { uri: "", local: "b" }))
        id('x')  0.5 Any
        id('x')/a  0.5 Element(Name(Name { uri: "", local: "a" }))
        a|*  0 Element(Name(Name { uri: "", local: "a" })) settled
        a|*  -0.5 Element(Any) settled
        child::a  0 Element(Name(Name { uri: "", local: "a" })) settled
        attribute::*  -0.5 Attribute(Any) settled
    "#]]
    .assert_eq(&all);
}
