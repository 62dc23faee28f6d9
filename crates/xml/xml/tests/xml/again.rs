//! Repeated tags take a fast path. A blank before each `>` disables it, and the document must then give the same events.

use proptest::collection::vec;
use proptest::prelude::*;
use xml::{Document, NodeId, Options};

use crate::record::{chunked, whole};

/// Only a few names, so that tags repeat. Some are too long for the cache, some have prefixes that are bound again.
const NAMES: &[&str] =
    &["a", "p:b", "symbol", "q:buyerID", "fifteen-letters", "p:sixteen-letters", "é"];
const DECLARATIONS: &[&str] = &[
    "",
    "",
    "",
    "",
    " xmlns='urn:d'",
    " xmlns=''",
    " xmlns:p='urn:other'",
    " xmlns:q='urn:p' id='1'",
];
const TEXTS: &[&str] = &[
    "",
    "",
    "t",
    "IBM  ",
    "of more than eight",
    "of more than sixteen bytes",
    "&amp;",
    "]",
    "\r\n",
    "<!--c-->",
    "<![CDATA[x]]>",
    "é",
];

/// Builds a document from steps: an element with its name, declarations and text, and the number of elements that end after it.
fn document(steps: &[(usize, usize, usize, usize)], blank: &str) -> String {
    let mut text = format!("<p:r xmlns:p='urn:p' xmlns:q='urn:q'{blank}>");
    let mut open = Vec::new();
    for (name, declared, inside, ended) in steps {
        let (name, declared) =
            (NAMES[name % NAMES.len()], DECLARATIONS[declared % DECLARATIONS.len()]);
        text.push_str(&format!("<{name}{declared}{blank}>{}", TEXTS[inside % TEXTS.len()]));
        open.push(name);
        for _ in 0..ended % 4 {
            if let Some(name) = open.pop() {
                text.push_str(&format!(
                    "</{name}{blank}>{}",
                    TEXTS[(inside + ended) % TEXTS.len()]
                ));
            }
        }
    }
    while let Some(name) = open.pop() {
        text.push_str(&format!("</{name}{blank}>"));
    }
    text + &format!("</p:r{blank}>                ")
}

/// Returns the events without their positions, which blanks change.
fn events(bytes: &[u8]) -> Vec<String> {
    let lines = whole(bytes, &Options::default());
    assert_eq!(lines, chunked(bytes.chunks(7), &Options::default()));
    let behind = |line: &str| match line.split_once(' ') {
        Some((at, event)) if at.contains(':') => event.to_owned(),
        _ => line.to_owned(),
    };
    lines.lines().map(behind).collect()
}

fn nodes(document: &Document) -> Vec<String> {
    let all = (0..document.len()).map(NodeId);
    let node = |id: NodeId| {
        let beside = (document.parent(id), document.previous_sibling(id), document.end(id));
        let name = document.name(id);
        let name = (name.prefix, name.local, name.namespace.uri);
        format!("{:?} {name:?} {:?} {beside:?}", document.kind(id), document.value(id))
    };
    all.map(node).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_tag_that_comes_again_means_the_same(
        steps in vec((0usize..100, 0usize..100, 0usize..100, 0usize..100), 1..60),
        mark in any::<bool>(),
    ) {
        let mark = if mark { "\u{feff}" } else { "" };
        let tight = mark.to_owned() + &document(&steps, "");
        let loose = mark.to_owned() + &document(&steps, " ");
        let found = events(tight.as_bytes());
        prop_assert!(found.last().is_some_and(|last| last.contains("end p:r{urn:p}")), "{found:?}");
        prop_assert_eq!(&found, &events(loose.as_bytes()), "{}", tight);
        let parse = |text: &str| Document::parse(text.as_bytes(), &Options::default()).unwrap();
        let document = parse(&tight);
        prop_assert_eq!(nodes(&document), nodes(&parse(&loose)), "{}", tight);
        // Positions and markup refer to the source.
        for id in (0..document.len()).map(NodeId) {
            if let Some(markup) = document.markup(id) {
                let at = usize::try_from(document.position(id).offset).unwrap();
                prop_assert_eq!(tight.get(at..at + markup.len()), Some(markup));
                let name = document.name(id);
                let behind = markup.trim_start_matches('<').trim_start_matches(name.prefix);
                prop_assert!(behind.trim_start_matches(':').starts_with(name.local), "{}", markup);
                prop_assert!(markup.ends_with(&format!("{}>", name.local)), "{}", markup);
            }
        }
    }
}

/// Errors after cached tags, which the fast path could overlook.
#[test]
fn what_is_wrong_is_refused_behind_tags_that_were_met() {
    let before = "<r xmlns:p='urn:p'><a>1</a><p:b>2</p:b><a>3</a><p:b>4</p:b><long-long-long-long>5</long-long-long-long>";
    let behind = "                                ";
    for (wrong, why) in [
        ("<a></p:b></a></r>", "found `</p:b>`, expected `</a>`"),
        ("<a></a/></r>", "not allowed in an end tag"),
        ("<a></ab></a></r>", "found `</ab>`, expected `</a>`"),
        ("<p:b></b></r>", "found `</b>`, expected `</p:b>`"),
        ("<q:b></q:b></r>", "the prefix `q` is not declared"),
        ("<c xmlns:q='urn:q'><q:b></q:b></c><q:b></q:b></r>", "the prefix `q` is not declared"),
        ("<a>]]></a></r>", "`]]>` is not allowed in text"),
        ("<a>&</a></r>", "reference"),
        ("<></></r>", "needs a name"),
        ("<a></a></r><a></a>", "not allowed after the root element"),
        ("<a><a></a></r>", "found `</r>`, expected `</a>`"),
        ("<a>\u{1}</a></r>", "U+0001 is not allowed"),
    ] {
        let text = format!("{before}{wrong}{behind}");
        let events = whole(text.as_bytes(), &Options::default());
        let last = events.lines().last().unwrap_or_default();
        assert!(last.contains(why), "{wrong}: {last}");
        assert_eq!(events, chunked(text.as_bytes().chunks(1), &Options::default()), "{wrong}");
        let error = Document::parse(text.as_bytes(), &Options::default()).unwrap_err();
        assert!(error.to_string().contains(why), "{wrong}: {error}");
    }
}

/// A cached tag of one document says nothing about the next one, which binds the same prefix to another namespace.
#[test]
fn nothing_is_known_of_another_document() {
    for uri in ["urn:1", "urn:2", "urn:1"] {
        let text = format!("<p:r xmlns:p='{uri}'><p:a></p:a><p:a></p:a></p:r>                 ");
        let document = Document::parse(text.as_bytes(), &Options::default()).unwrap();
        for id in document.descendants(Document::ROOT) {
            assert_eq!(document.name(id).namespace.uri, uri);
        }
        let events = whole(text.as_bytes(), &Options::default());
        assert_eq!(events.matches(&format!("p:a{{{uri}}}")).count(), 4, "{events}");
    }
}

/// Limits count cached tags too.
#[test]
fn budgets_hold_for_tags_that_were_met() {
    let nested = format!("<r>{}{}</r>{}", "<a>".repeat(50), "</a>".repeat(50), " ".repeat(20));
    for (tokens_max, depth_max, why) in
        [(103, 51, "accepted"), (101, 51, "tokens_max"), (103, 50, "depth_max")]
    {
        let mut options = Options::default();
        (options.limits.tokens_max, options.limits.depth_max) = (tokens_max, depth_max);
        let found = match Document::parse(nested.as_bytes(), &options) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(why), "{tokens_max} {depth_max}: {found}");
    }
}

/// A thread reuses its parser. Declarations of an unfinished document must not affect the next one.
#[test]
fn the_prefix_xml_keeps_its_namespace_after_a_document_that_ends_early() {
    const UNFINISHED: &[&str] = &[
        "<a xmlns:xml='http://www.w3.org/XML/1998/namespace'>",
        "<a xmlns='urn:d' xmlns:p='urn:p' xmlns:xml='http://www.w3.org/XML/1998/namespace'><p:b",
    ];
    for unfinished in UNFINISHED {
        assert!(Document::parse(unfinished.as_bytes(), &Options::default()).is_err());
        for declared in
            ["", " xmlns:p='urn:p'", " xmlns:xml='http://www.w3.org/XML/1998/namespace'"]
        {
            let text = format!("<a{declared} xml:lang='en'/>");
            let parsed = Document::parse(text.as_bytes(), &Options::default());
            let document = parsed.unwrap_or_else(|error| panic!("{unfinished}, {text}: {error}"));
            let root = document.root_element().unwrap();
            let namespace = "http://www.w3.org/XML/1998/namespace";
            assert_eq!(document.attribute(root, namespace, "lang"), Some("en"), "{text}");
        }
    }
}
