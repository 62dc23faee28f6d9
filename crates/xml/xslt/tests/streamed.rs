//! Stylesheets that stream, compared with the same ones over a tree: equal bytes, equal errors.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helper may panic"
)]

use std::sync::Arc;

use proptest::prelude::*;
use xml::{Doctype, Document, Options};
use xslt::{
    Argument, Budgets, NoDocuments, Output, Parameter, Resource, Run, Style, Stylesheet,
    TransformError,
};

#[path = "streamed/documents.rs"]
mod documents;
#[path = "streamed/sheets.rs"]
mod sheets;
#[path = "streamed/transcripts.rs"]
mod transcripts;

use documents::{DOCUMENTS, encoded};
use sheets::{BODIES, EXAMPLES, IMPORTED, TREES};

/// A resolver of the imported modules.
struct Pool;

impl xslt::Resolver for Pool {
    fn resolve(&self, href: &str, _base: &str) -> Result<Resource, String> {
        match href {
            "imported" => {
                let bytes = sheet(IMPORTED).into_bytes();
                Ok(Resource { uri: "imported".to_owned(), bytes })
            }
            _ => Err("there is no such file".to_owned()),
        }
    }
}

fn sheet(body: &str) -> String {
    format!(
        "<x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform' xmlns:p='urn:p' xmlns:q='urn:q' \
         xmlns:soap='http://schemas.xmlsoap.org/soap/envelope/' exclude-result-prefixes='q'>{body}</x:stylesheet>"
    )
}

fn compiled(text: &str) -> Stylesheet {
    Stylesheet::compile(text.as_bytes(), "main", &Pool)
        .unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn streamed_sheets() -> Vec<(String, Stylesheet)> {
    let bodies = BODIES.iter().map(|body| sheet(body));
    let all = bodies.chain(EXAMPLES.iter().map(|example| (*example).to_owned()));
    all.map(|text| (text.clone(), compiled(&text))).collect()
}

fn options() -> Options {
    Options { doctype: Doctype::Internal, ..Options::default() }
}

/// Transforms with a tree, whatever the stylesheet.
fn by_tree(sheet: &Stylesheet, source: &[u8], run: &Run<'_>) -> Result<Output, TransformError> {
    let document = Document::parse(source, &options()).map_err(TransformError::Source)?;
    sheet.transform(&Arc::new(document), run).map_err(TransformError::Run)
}

/// Drops the positions of run-time errors, which the fast paths do not look up.
fn placeless(result: Result<Output, TransformError>) -> Result<Output, String> {
    result.map_err(|failed| match failed {
        TransformError::Source(error) => format!("source: {error:?}"),
        TransformError::Run(error) => format!("run: {:?}", error.kind),
    })
}

fn check_with(text: &str, sheet: &Stylesheet, source: &[u8], run: &Run<'_>) {
    let theirs = placeless(by_tree(sheet, source, run));
    let ours = || placeless(sheet.transform_bytes(source, &options(), run));
    // By the last run, the prefix of the document (if it can be cached) and its markup are in the cache.
    let mut different = (0..2).find_map(|_| Some(ours()).filter(|ours| *ours != theirs));
    if let (None, Some(other)) = (&different, with_other_texts(source)) {
        let theirs = placeless(by_tree(sheet, &other, run));
        let ours = placeless(sheet.transform_bytes(&other, &options(), run));
        assert_eq!(ours, theirs, "{text}\n---- of\n{}", String::from_utf8_lossy(&other));
    }
    different = different.or_else(|| Some(ours()).filter(|ours| *ours != theirs));
    let Some(ours) = different else { return };
    let show = |result: &Result<Output, String>| match result {
        Ok(output) => String::from_utf8_lossy(&output.bytes).into_owned(),
        Err(error) => error.clone(),
    };
    let source = String::from_utf8_lossy(source);
    panic!(
        "{text}\n---- of\n{source}\n---- streamed\n{}\n---- by a tree\n{}",
        show(&ours),
        show(&theirs)
    );
}

/// A document with other values in the same markup.
fn with_other_texts(source: &[u8]) -> Option<Vec<u8>> {
    let source = std::str::from_utf8(source).ok()?;
    let mut other = String::new();
    for (at, piece) in source.split('<').enumerate() {
        let tag = if at > 0 { "<" } else { "" };
        let ends =
            source.get(other_end(source, piece)..).is_some_and(|rest| rest.starts_with("</"));
        match piece.split_once('>') {
            Some((before, text)) if ends && !text.trim().is_empty() => {
                other.push_str(&format!("{tag}{before}>{} \u{e9}", at % 7));
            }
            _ => other.push_str(&format!("{tag}{piece}")),
        }
    }
    (other != source).then(|| other.into_bytes())
}

/// Returns the offset in a text at which one of its pieces ends.
fn other_end(text: &str, piece: &str) -> usize {
    piece.as_ptr() as usize - text.as_ptr() as usize + piece.len()
}

fn check(text: &str, sheet: &Stylesheet, source: &[u8]) {
    check_with(text, sheet, source, &Run::default());
}

#[test]
fn all_of_the_table_stream() {
    for (text, sheet) in streamed_sheets() {
        assert!(sheet.streams(), "{text}");
    }
}

#[test]
fn what_needs_a_tree_gets_one() {
    for body in TREES {
        let text = sheet(body);
        let sheet = compiled(&text);
        assert!(!sheet.streams(), "{text}");
        for source in DOCUMENTS {
            check(&text, &sheet, source.as_bytes());
        }
    }
}

#[test]
fn written_documents() {
    for (text, sheet) in streamed_sheets() {
        for source in DOCUMENTS {
            check(&text, &sheet, source.as_bytes());
        }
    }
}

#[test]
fn written_documents_in_canonical_form() {
    let canonical = Run { style: Style::Canonical, ..Run::default() };
    for (text, sheet) in streamed_sheets() {
        for source in DOCUMENTS {
            check_with(&text, &sheet, source.as_bytes(), &canonical);
        }
    }
}

#[test]
fn encodings() {
    for (text, sheet) in streamed_sheets() {
        for source in encoded() {
            check(&text, &sheet, &source);
        }
    }
}

#[test]
fn output_settings() {
    let settings = [
        "method='text'",
        "method='html' indent='no'",
        "method='html' media-type='text/x'",
        "method='xml' indent='yes' encoding='us-ascii'",
        "cdata-section-elements='a p:b c' encoding='iso-8859-1'",
        "doctype-system='d' doctype-public='p' standalone='yes' omit-xml-declaration='no'",
        "encoding='utf-16' omit-xml-declaration='yes'",
    ];
    for setting in settings {
        for body in BODIES.iter().take(12) {
            let text = sheet(&format!("{body}<x:output {setting}/>"));
            let sheet = compiled(&text);
            for source in DOCUMENTS {
                check(&text, &sheet, source.as_bytes());
                check_with(
                    &text,
                    &sheet,
                    source.as_bytes(),
                    &Run { as_xml: true, ..Run::default() },
                );
                let canonical = Run { style: Style::Canonical, ..Run::default() };
                check_with(&text, &sheet, source.as_bytes(), &canonical);
            }
        }
    }
}

#[test]
fn depth_up_to_the_parsers_bound() {
    for depth in [255, 256, 257] {
        let mut source = "<a xmlns='urn:p'>t".repeat(depth);
        source.push_str(&"</a>".repeat(depth));
        for (text, sheet) in streamed_sheets() {
            check(&text, &sheet, source.as_bytes());
        }
    }
}

/// There are more tags than the cache holds: in processed and skipped content, and in two modes. A tag that replaced another in the cache
/// must not be mistaken for it.
#[test]
fn tags_that_take_the_places_of_others() {
    let rules = (0..200).step_by(2).map(|n| {
        format!(
            "<x:template match='t{n}'><r{n}><x:apply-templates/></r{n}></x:template>\
             <x:template match='t{n}' mode='m'><m{n}><x:apply-templates mode='m'/></m{n}></x:template>"
        )
    });
    let text = sheet(&format!(
        "<x:template match='@*|node()'><x:copy><x:apply-templates select='@*|node()'/></x:copy></x:template>\
         <x:template match='@*|node()' mode='m'><x:copy><x:apply-templates select='@*|node()' mode='m'/></x:copy></x:template>\
         <x:template match='skip'/>\
         <x:template match='other'><o><x:apply-templates mode='m'/></o></x:template>{}",
        rules.collect::<String>()
    ));
    let sheet = compiled(&text);
    assert!(sheet.streams());
    let mut seed = 21_u64;
    let mut roll = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..20 {
        let mut source = "<a>".to_owned();
        for _ in 0..300 {
            let tag = format!("<t{0}>{1}</t{0}>", roll(200), roll(9));
            match roll(6) {
                0 => source.push_str(&format!("<skip>{tag}</skip>")),
                1 => source.push_str(&format!("<other>{tag}</other>")),
                2 => source.push_str(&format!("<b xmlns='urn:p'>{tag}</b>")),
                _ => source.push_str(&tag),
            }
        }
        source.push_str("</a>");
        check(&text, &sheet, source.as_bytes());
    }
}

#[test]
fn every_prefix_of_a_document() {
    let source = DOCUMENTS[0];
    for (text, sheet) in streamed_sheets().iter().take(12) {
        for at in (0..source.len()).step_by(3) {
            check(text, sheet, source.as_bytes().get(..at).unwrap());
        }
    }
}

#[test]
fn budgets_of_what_is_written() {
    // With a tree, collected text counts as nodes of its own.
    let kept = ["<x:comment>", "<x:processing-instruction", "(<x:value-of"];
    let sheets = streamed_sheets().into_iter();
    for (text, sheet) in sheets.filter(|(text, _)| !kept.iter().any(|kept| text.contains(kept))) {
        for max in 0..60 {
            let nodes = Budgets { nodes_max: max, ..Budgets::default() };
            let bytes = Budgets { output_bytes_max: max * 5, ..Budgets::default() };
            for budgets in [nodes, bytes] {
                let run = Run { budgets, ..Run::default() };
                check_with(&text, &sheet, DOCUMENTS[0].as_bytes(), &run);
            }
        }
    }
}

#[test]
fn what_a_document_begins_with_may_be_known() {
    let beginnings = [
        "<a><b>",
        "<?xml version='1.0'?><!-- c -->\n<a x='1'> <b y='2'> ",
        "<p:a xmlns:p='u' xmlns='v'><b p:c='d'>text",
        "<s:Envelope xmlns:s='http://schemas.xmlsoap.org/soap/envelope/'>\n<s:Body>\n",
    ];
    let rests =
        ["<c/>", "<c>1</c>2<d e='f'><b/></d>", "<c xmlns='w'><a>1</a></c>", "<c>", "<q:c/>"];
    for (text, sheet) in streamed_sheets() {
        for beginning in beginnings {
            let ends: String = beginning.rsplit('<').take(2).fold(String::new(), |ends, tag| {
                let name = tag.split([' ', '>']).next().unwrap_or_default();
                format!("{ends}</{name}>")
            });
            for rest in rests.iter().chain(&rests) {
                check(&text, &sheet, format!("{beginning}{rest}{ends}").as_bytes());
            }
        }
    }
}

#[test]
fn steps_and_depth_are_bounded() {
    let source = format!("{}{}", "<a>".repeat(100), "</a>".repeat(100));
    for (text, sheet) in streamed_sheets() {
        let limited = |budgets: Budgets| {
            let run = Run { budgets, ..Run::default() };
            let result = sheet.transform_bytes(source.as_bytes(), &options(), &run);
            result.map(drop).map_err(|error| error.to_string())
        };
        let steps = limited(Budgets { steps_max: 0, ..Budgets::default() });
        assert!(steps.unwrap_err().contains("steps_max"), "{text}");
        let depth = limited(Budgets { depth_max: 0, ..Budgets::default() });
        if let Err(error) = depth {
            assert!(error.contains("depth_max"), "{text}: {error}");
        }
    }
    let copy = compiled(&sheet(BODIES[0]));
    let budgets = Budgets { depth_max: 50, ..Budgets::default() };
    let run = Run { budgets, ..Run::default() };
    let error = copy.transform_bytes(source.as_bytes(), &options(), &run).unwrap_err();
    assert!(error.to_string().contains("depth_max"), "{error}");
}

#[test]
fn a_malformed_document_is_that_whatever_else_is_wrong() {
    let sheet = compiled(&sheet(BODIES[0]));
    let budgets = Budgets { output_bytes_max: 3, ..Budgets::default() };
    let run = Run { budgets, ..Run::default() };
    let failed = sheet.transform_bytes(b"<a>long enough</b>", &options(), &run).unwrap_err();
    assert_eq!(failed.to_string(), "1:15: found `</b>`, expected `</a>`");
    let failed = sheet.transform_bytes(b"<a>long enough</a>", &options(), &run).unwrap_err();
    assert!(failed.to_string().contains("output_bytes_max"), "{failed}");
}

#[test]
fn parameters_are_as_with_a_tree() {
    let text = sheet(&format!("<x:param name='g' select='1'/>{}", BODIES[0]));
    let sheet = compiled(&text);
    assert!(sheet.streams());
    let values = [
        Argument::Text("t".into()),
        Argument::Number(1.0),
        Argument::Expression("/*".into()),
        Argument::Expression("((".into()),
    ];
    for value in values {
        let parameters = [Parameter { uri: "".into(), local: "g".into(), value }];
        let run = Run { parameters: &parameters, resolver: &NoDocuments, ..Run::default() };
        check_with(&text, &sheet, b"<a/>", &run);
    }
}

/// Results cached by one run are not used by a run with other parameters.
#[test]
fn values_of_parameters_are_each_runs_own() {
    for content in [
        "<b><x:value-of select='$g'/><x:value-of select='.'/></b>",
        "<b c='{$g}'><x:apply-templates/></b>",
    ] {
        let text =
            sheet(&format!("<x:param name='g'/><x:template match='a'>{content}</x:template>"));
        let sheet = compiled(&text);
        for value in ["1", "2", "1", "2", "3"] {
            let value = Argument::Text(value.into());
            let parameters = [Parameter { uri: "".into(), local: "g".into(), value }];
            let run = Run { parameters: &parameters, resolver: &NoDocuments, ..Run::default() };
            check_with(&text, &sheet, b"<a><c>t</c></a>", &run);
        }
    }
}

/// Pieces of a generated document.
fn pieces() -> impl Strategy<Value = Vec<String>> {
    let tags = prop::sample::select(documents::TAGS);
    let attributes = prop::collection::vec(prop::sample::select(documents::ATTRIBUTES), 0..4);
    let open = (tags, attributes).prop_map(|(tag, attributes)| {
        let mut seen: Vec<&str> = Vec::new();
        let mut text = format!("<{tag}");
        for attribute in attributes {
            let name = attribute.split('=').next().unwrap();
            if !seen.contains(&name) {
                seen.push(name);
                text.push(' ');
                text.push_str(attribute);
            }
        }
        text
    });
    let piece = prop_oneof![
        3 => open,
        2 => Just("</".to_owned()),
        3 => prop::sample::select(documents::CONTENT).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..40)
}

/// Opens and closes elements as the pieces say, with all prefixes declared at the top.
fn assembled(pieces: &[String]) -> String {
    let mut text = documents::SUBSET.to_owned();
    text.push_str("<a xmlns:p='urn:p' xmlns:q='urn:q' xmlns:r='urn:p'>");
    let mut open = vec!["a"];
    for (at, piece) in pieces.iter().enumerate() {
        if piece == "</" {
            if open.len() > 1 {
                text.push_str(&format!("</{}>", open.pop().unwrap()));
            }
        } else if let Some(name) = piece.strip_prefix('<').filter(|_| documents::is_tag(piece)) {
            text.push_str(piece);
            if at % 5 == 0 {
                text.push_str("/>");
            } else {
                text.push('>');
                open.push(name.split(' ').next().unwrap());
            }
        } else {
            text.push_str(piece);
        }
    }
    for name in open.iter().rev() {
        text.push_str(&format!("</{name}>"));
    }
    text
}

thread_local! {
    static SHEETS: Vec<(String, Stylesheet)> = streamed_sheets();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn generated_documents(pieces in pieces()) {
        let source = assembled(&pieces);
        SHEETS.with(|sheets| {
            for (text, sheet) in sheets {
                check(text, sheet, source.as_bytes());
            }
        });
    }
}
