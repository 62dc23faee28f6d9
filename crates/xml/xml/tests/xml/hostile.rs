//! Documents meant to be expensive: each ends soon, with a typed error.

use std::fmt::Write;
use std::time::{Duration, Instant};

use xml::{Document, ErrorKind, Limits, Options, Parser};

use crate::record::{Record, internal};

fn limit(document: &str) -> &'static str {
    limit_with(document, &internal())
}

fn limit_with(document: &str, options: &Options) -> &'static str {
    let error = Document::parse(document.as_bytes(), options).unwrap_err();
    let mut parser = Parser::new(options.clone());
    let mut record = Record::default();
    let chunks = document.as_bytes().chunks(16 << 10);
    let fed = chunks.map(|chunk| parser.feed(chunk, &mut record)).find(Result::is_err);
    let chunked = fed.unwrap_or_else(|| parser.finish(&mut record)).unwrap_err();
    assert_eq!(chunked, error);
    match error.kind {
        ErrorKind::Limit { name, .. } => name,
        other => panic!("{other:?}"),
    }
}

#[test]
fn billion_laughs() {
    let mut subset = "<!ENTITY l0 'ha'>".to_owned();
    for n in 1..30 {
        write!(subset, "<!ENTITY l{n} '{}'>", format!("&l{};", n - 1).repeat(10)).unwrap();
    }
    assert_eq!(limit(&format!("<!DOCTYPE a [{subset}]><a>&l29;</a>")), "expansion_bytes_max");
    assert_eq!(limit(&format!("<!DOCTYPE a [{subset}]><a b='&l29;'/>")), "expansion_bytes_max");
    assert_eq!(
        limit(&format!("<!DOCTYPE a [{subset}<!ATTLIST a b CDATA '&l29;'>]><a/>")),
        "expansion_bytes_max"
    );
}

#[test]
fn quadratic_blow_up() {
    let big = "x".repeat(100 << 10);
    let document = format!("<!DOCTYPE a [<!ENTITY b '{big}'>]><a>{}</a>", "&b;".repeat(1000));
    assert_eq!(limit(&document), "expansion_bytes_max");
    let parameters =
        format!("<!DOCTYPE a [<!ENTITY % b '<!--{big}-->'>{}]><a/>", "%b;".repeat(1000));
    assert_eq!(limit(&parameters), "expansion_bytes_max");
    let defaults =
        format!("<!DOCTYPE a [<!ATTLIST b c CDATA '{big}'>]><a>{}</a>", "<b/>".repeat(1000));
    assert_eq!(limit(&defaults), "expansion_bytes_max");
}

#[test]
fn entities_within_entities() {
    let mut subset = "<!ENTITY l0 'ha'>".to_owned();
    for n in 1..5000 {
        write!(subset, "<!ENTITY l{n} '&l{};'>", n - 1).unwrap();
    }
    assert_eq!(limit(&format!("<!DOCTYPE a [{subset}]><a>&l4999;</a>")), "entity_depth_max");
    assert_eq!(limit(&format!("<!DOCTYPE a [{subset}]><a b='&l4999;'/>")), "entity_depth_max");
    let sections = "<![INCLUDE[".repeat(5000) + &"]]>".repeat(5000);
    let document = format!("<!DOCTYPE a [<!ENTITY % s '{sections}'> %s;]><a/>");
    assert_eq!(limit(&document), "entity_depth_max");
}

#[test]
fn deep_nesting() {
    assert_eq!(limit(&"<a>".repeat(1 << 20)), "depth_max");
    let mut options = Options::default();
    options.limits.depth_max = u32::MAX;
    let deep = "<a>".repeat(200_000) + &"</a>".repeat(200_000);
    let document = Document::parse(deep.as_bytes(), &options).unwrap();
    assert_eq!(document.to_text(Document::ROOT, &xml::Form::Canonical { comments: true }), deep);
    let model = format!("<!DOCTYPE a [<!ELEMENT a {}", "(".repeat(1 << 20));
    assert_eq!(limit(&model), "depth_max");
}

#[test]
fn large_parts() {
    let attribute = format!("<a b='{}'/>", "x".repeat(11 << 20));
    assert_eq!(limit(&attribute), "attribute_bytes_max");
    assert_eq!(limit(&attribute.replace("'x", "'&lt;x")), "attribute_bytes_max");
    assert_eq!(limit(&format!("<{}/>", "a".repeat(5000))), "name_bytes_max");
    // The parser neither waits for the end of the name nor scans the rest of it.
    for name in ["a".repeat(4097), format!("a:{}", "b".repeat(4096)), "é".repeat(2049)] {
        for around in ["<", "<a><", "<a "] {
            assert_eq!(limit(&format!("{around}{name}")), "name_bytes_max", "{around}");
        }
    }
    assert_eq!(limit(&format!("<a>&{};</a>", "a".repeat(5000))), "name_bytes_max");
    assert_eq!(limit(&format!("<a><!--{}--></a>", "x".repeat(21 << 20))), "token_bytes_max");
    assert_eq!(limit(&format!("<a><?p {}", "x".repeat(21 << 20))), "token_bytes_max");
    let mut many = "<a".to_owned();
    for n in 0..1000 {
        write!(many, " b{n}=''").unwrap();
    }
    assert_eq!(limit(&(many + "/>")), "attributes_max");
    let mut options = Options::default();
    options.limits.bytes_max = 1000;
    assert_eq!(limit_with(&format!("<a>{}</a>", "x".repeat(2000)), &options), "bytes_max");
    options.limits = Limits { tokens_max: 1000, ..Limits::default() };
    assert_eq!(limit_with(&format!("<a>{}</a>", "&lt;".repeat(2000)), &options), "tokens_max");
    let declarations = "<!ELEMENT a ANY>".repeat(20_000);
    assert_eq!(limit(&format!("<!DOCTYPE a [{declarations}]><a/>")), "declarations_max");
}

#[test]
fn many_namespaces() {
    let mut document = "<a>".to_owned();
    for n in 0..20_000 {
        write!(document, "<b xmlns:p{n}='{n}'/>").unwrap();
    }
    assert_eq!(limit(&document), "namespaces_max");
}

/// Quadratic cost would take minutes here.
#[test]
fn nothing_costs_its_square() {
    let mut options = internal();
    options.limits = Limits {
        bytes_max: u64::MAX,
        attributes_max: u32::MAX,
        namespaces_max: u32::MAX,
        tokens_max: u64::MAX,
        ..Limits::default()
    };
    let started = Instant::now();
    let mut attributes = "<a".to_owned();
    let mut namespaces = "<a".to_owned();
    for n in 0..200_000 {
        write!(attributes, " b{n}=''").unwrap();
    }
    for n in 0..3_000 {
        write!(namespaces, " xmlns:b{n}='{n}'").unwrap();
    }
    Document::parse((attributes + "/>").as_bytes(), &options).unwrap();
    let used = "<b2999:c b1:d='' b2:d=''/>".repeat(20_000);
    let document =
        Document::parse(format!("{namespaces}>{used}</a>").as_bytes(), &options).unwrap();
    let root = document.root_element().unwrap();
    for child in document.children(root).take(2_000) {
        assert_eq!(document.namespaces(child).len(), 3_001);
    }
    let brackets = format!("<a>{}</a>", "]".repeat(1 << 20));
    let returns = format!("<a>{}</a>", "\r".repeat(1 << 20));
    let value = format!("<a b='{}'/>", ">".repeat(1 << 20));
    let comment = format!("<a><!--{}--></a>", "->".repeat(1 << 19));
    for document in [brackets, returns, value, comment] {
        let mut parser = Parser::new(options.clone());
        let mut record = Record::default();
        for chunk in document.as_bytes().chunks(7) {
            parser.feed(chunk, &mut record).unwrap();
        }
        parser.finish(&mut record).unwrap();
    }
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}
