//! The tree, parsed and built.

use expect_test::expect;
use xml::{BuildError, Builder, Document, Form, Kind, NodeId, Options};

use crate::record::internal;

const DOCUMENT: &str = "<?p q?><a x='1' p:y='2' xmlns:p='urn:p'>one<b/><!--c-->two<p:d xmlns='urn:d'><e z='3'>three</e></p:d></a>";

fn parse(text: &str) -> Document {
    Document::parse(text.as_bytes(), &internal()).unwrap()
}

fn element(document: &Document, local: &str) -> NodeId {
    let mut all = document.descendants(Document::ROOT);
    all.find(|node| document.kind(*node) == Kind::Element && document.name(*node).local == local)
        .unwrap()
}

/// Every node with its neighbours.
fn dump(document: &Document) -> String {
    let node = |node: Option<NodeId>| node.map_or("-".to_owned(), |node| node.0.to_string());
    let lines = (0..document.len()).map(NodeId).map(|id| {
        format!(
            "{} {:?} {} {:?} parent {} first {} last {} next {} previous {} end {} at {}\n",
            id.0,
            document.kind(id),
            document.name(id).local,
            document.value(id),
            node(document.parent(id)),
            node(document.first_child(id)),
            node(document.last_child(id)),
            node(document.next_sibling(id)),
            node(document.previous_sibling(id)),
            document.end(id).0,
            document.position(id)
        )
    });
    lines.collect()
}

#[test]
fn nodes_know_their_neighbours() {
    expect![[r#"
        0 Document  "" parent - first 1 last 2 next - previous - end 13 at 1:1
        1 Instruction p "q" parent 0 first - last - next 2 previous - end 2 at 1:1
        2 Element a "" parent 0 first 5 last 9 next - previous 1 end 13 at 1:8
        3 Attribute x "1" parent 2 first - last - next - previous - end 4 at 1:8
        4 Attribute y "2" parent 2 first - last - next - previous - end 5 at 1:8
        5 Text  "one" parent 2 first - last - next 6 previous - end 6 at 1:41
        6 Element b "" parent 2 first - last - next 7 previous 5 end 7 at 1:44
        7 Comment  "c" parent 2 first - last - next 8 previous 6 end 8 at 1:48
        8 Text  "two" parent 2 first - last - next 9 previous 7 end 9 at 1:56
        9 Element d "" parent 2 first 10 last 10 next - previous 8 end 13 at 1:59
        10 Element e "" parent 9 first 12 last 12 next - previous - end 13 at 1:78
        11 Attribute z "3" parent 10 first - last - next - previous - end 12 at 1:78
        12 Text  "three" parent 10 first - last - next - previous - end 13 at 1:87
    "#]]
    .assert_eq(&dump(&parse(DOCUMENT)));
}

#[test]
fn values_and_namespaces() {
    let document = parse(DOCUMENT);
    let (a, e) = (element(&document, "a"), element(&document, "e"));
    assert_eq!(document.root_element(), Some(a));
    assert_eq!(document.string_value(a), "onetwothree");
    assert_eq!(document.string_value(e), "three");
    assert_eq!(document.attribute(a, "urn:p", "y"), Some("2"));
    assert_eq!(document.attribute(a, "", "y"), None);
    assert_eq!(document.attributes(a).count(), 2);
    assert_eq!(document.declared(a).collect::<Vec<_>>(), [("p", "urn:p")]);
    assert_eq!(document.declared(e).count(), 0);
    let xml = ("xml", xml::XML_NAMESPACE);
    assert_eq!(document.namespaces(e), [("", "urn:d"), ("p", "urn:p"), xml]);
    assert_eq!(document.lookup_prefix(e, ""), Some("urn:d"));
    assert_eq!(document.lookup_prefix(a, ""), None);
    assert_eq!(document.name(e).namespace.uri, "urn:d");
    assert_eq!(document.children(Document::ROOT).count(), 2);
    assert!(document.names_len() > 6);
}

/// The innermost declaration counts, however many there are.
#[test]
fn many_namespaces_in_scope() {
    let declared =
        |uri: &str| -> String { (0..50).map(|n| format!(" xmlns:p{n}='urn:{uri}:{n}'")).collect() };
    let (outer, inner) = (declared("outer"), declared("inner"));
    let document = parse(&format!(
        "<a xmlns='urn:d' xmlns:only='urn:o'{outer}><b xmlns=''{inner}><c/></b></a>"
    ));
    let found = document.namespaces(element(&document, "c"));
    let inner: Vec<(String, String)> =
        (0..50).map(|n| (format!("p{n}"), format!("urn:inner:{n}"))).collect();
    let rest = [("only", "urn:o"), ("xml", xml::XML_NAMESPACE)];
    let expected = inner.iter().map(|(prefix, uri)| (&**prefix, &**uri)).chain(rest);
    assert_eq!(found, expected.collect::<Vec<_>>());
    assert_eq!(document.declarations_above(element(&document, "c")), 103);
    let ranks = document.namespace_ranks(element(&document, "c"));
    assert!(ranks.is_sorted());
    let by_rank: Vec<_> = ranks.iter().filter_map(|rank| document.namespace_at(*rank)).collect();
    assert_eq!(by_rank, found);
    assert_eq!(document.namespace_at(103), Some(("xml", xml::XML_NAMESPACE)));
    assert_eq!(document.namespace_at(104), None);
}

#[test]
fn positions_count_characters_and_all_line_ends() {
    let document = parse("<a>\r\n ü<b/>\r<c/></a>");
    let at = |local| document.position(element(&document, local));
    assert_eq!((at("b").line, at("b").column, at("b").offset), (2, 3, 8));
    assert_eq!((at("c").line, at("c").column), (3, 1));
    let document = parse("<a>\n <b/>\n</a>");
    assert_eq!(document.position(element(&document, "b")).to_string(), "2:2");
}

#[test]
fn a_mark_is_no_character() {
    let document = parse("\u{feff}<a ü='1'>\n\n  é<b/></a>");
    let at = |local| document.position(element(&document, local));
    assert_eq!((at("a").line, at("a").column, at("a").offset), (1, 1, 3));
    assert_eq!((at("b").line, at("b").column), (3, 4));
}

/// The next document of a thread reuses the name table, unless it is large. This must have no visible effect.
#[test]
fn names_of_other_documents_do_not_show() {
    let many: String = (0..2000).map(|n| format!("<n{n} xmlns:p{n}='urn:{n}'/>")).collect();
    let many = format!("<a>{many}</a>");
    let (mut ids, mut numbers) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let small = parse("<p:a xmlns:p='urn:1' b='2'><p:c xmlns='urn:3'/></p:a>");
        let a = small.root_element().unwrap();
        let c = small.first_child(a).unwrap();
        assert_eq!((small.name(a).prefix, small.name(a).namespace.uri), ("p", "urn:1"));
        assert_eq!(small.attribute(a, "", "b"), Some("2"));
        assert_eq!(small.namespaces(c)[..2], [("", "urn:3"), ("p", "urn:1")]);
        ids.push(small.names_id());
        numbers.push(small.name_id(c));
        drop(small);
        let other = parse("<q:a xmlns:q='urn:1'><c xmlns='urn:1'/><p:c xmlns:p='urn:2'/></q:a>");
        let a = other.root_element().unwrap();
        let uris = other.children(a).map(|child| other.name(child).namespace.uri);
        assert_eq!(uris.collect::<Vec<_>>(), ["urn:1", "urn:2"]);
        assert_eq!(other.name(a).prefix, "q");
        ids.push(other.names_id());
    }
    ids.dedup();
    numbers.dedup();
    assert_eq!((ids.len(), numbers.len()), (1, 1), "of one id, one number");
    let large = parse(&many);
    assert!(large.names_len() > 2000);
    let kept = large.names_id();
    drop(large);
    let after = parse("<a/>");
    assert_ne!(after.names_id(), kept);
    assert!(after.names_len() < 2000);
}

#[test]
fn ids_and_unparsed_entities() {
    let document = parse(
        "<!DOCTYPE a [<!ATTLIST b i ID #IMPLIED><!ENTITY u SYSTEM 'v' NDATA n>]><a><b i='x'/><b i='y'/></a>",
    );
    let second = document.children(document.root_element().unwrap()).nth(1);
    assert_eq!(document.element_by_id("y"), second);
    assert_eq!(document.element_by_id("z"), None);
    assert_eq!(document.unparsed_entity("u"), Some("v"));
}

#[test]
fn a_tree_is_built() {
    let mut builder = Builder::new();
    builder.start("", "a", "").unwrap();
    builder.declare("p", "urn:p").unwrap();
    builder.attribute("", "x", "", "1").unwrap();
    builder.attribute("", "x", "", "2").unwrap();
    builder.text("").unwrap();
    builder.attribute("q", "y", "urn:q", "3").unwrap();
    builder.text("one").unwrap();
    builder.text("two").unwrap();
    assert_eq!(builder.attribute("", "z", "", ""), Err(BuildError::Late));
    assert_eq!(builder.declare("r", "urn:r"), Err(BuildError::Late));
    builder.start("", "b", "urn:b").unwrap();
    builder.attribute("", "y", "urn:c", "4").unwrap();
    builder.end().unwrap();
    builder.comment("c").unwrap();
    builder.end().unwrap();
    assert_eq!(builder.end(), Err(BuildError::NotOpen));
    builder.text("after").unwrap();
    assert_eq!(builder.depth(), 0);
    let document = builder.finish();
    expect![[r#"<a xmlns:p="urn:p" xmlns:q="urn:q" x="2" q:y="3">onetwo<b xmlns="urn:b" xmlns:ns0="urn:c" ns0:y="4"/><!--c--></a>after"#]].assert_eq(&document.to_text(Document::ROOT, &Form::Plain));
    assert_eq!(document.position(NodeId(1)), xml::Position::default());
}

#[test]
fn builders_have_budgets() {
    let mut builder = Builder::with_limits(3, 4);
    builder.start("", "a", "").unwrap();
    assert_eq!(builder.text("12345"), Err(BuildError::TooLarge));
    builder.text("1234").unwrap();
    assert_eq!(builder.text("5"), Err(BuildError::TooLarge));
    assert_eq!(builder.start("", "b", ""), Err(BuildError::TooLarge));
    assert_eq!(builder.attribute("", "b", "", ""), Err(BuildError::Late));
}

#[test]
fn documents_go_between_threads() {
    fn check<T: Send + Sync>(_: &T) {}
    check(&parse("<a/>"));
    fn check_send<T: Send>(_: &T) {}
    check_send(&xml::Parser::new(Options::default()));
}
