//! Any bytes as a stylesheet: it compiles or is refused, a run of it ends within its budgets, and what it makes of a text is what
//! it makes of its tree, the first time and where others have been read before.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use xslt::{Budgets, Error, ErrorKind, TransformError, NoDocuments, Run, Stylesheet};

/// The second two have other texts than the first.
const SOURCES: [&[u8]; 4] = [
    b"<a x='1'><b y='2'>t</b><!--c--><?p d?><b/> </a>",
    b"<a xmlns='urn:a' x='1'> <b><c y='2'>t</c><d xmlns=''>&lt;<![CDATA[u]]></d></b> </a>",
    b"<a x='1'><b y='2'>\xC3\xA9 1</b><!--c--><?p d?><b/> </a>",
    b"<a xmlns='urn:a' x='1'> <b><c y='2'>12</c><d xmlns=''>&lt;<![CDATA[u]]></d></b> </a>",
];

fuzz_target!(|bytes: &[u8]| {
    let Ok(stylesheet) = Stylesheet::compile(bytes, "fuzz", &NoDocuments) else { return };
    let budgets = Budgets { steps_max: 200_000, output_bytes_max: 1 << 20, ..Budgets::default() };
    let run = Run { budgets, ..Run::default() };
    let options = xml::Options::default();
    for source in SOURCES {
        let document = xml::Document::parse(source, &options).expect("it is one");
        let by_tree = stylesheet.transform(&Arc::new(document), &run);
        if let Ok(output) = &by_tree {
            assert!(output.bytes.len() < 64 << 20);
        }
        if !stylesheet.streams() {
            continue;
        }
        for _ in 0..3 {
            match (&by_tree, stylesheet.transform_bytes(source, &options, &run)) {
                (Ok(tree), Ok(streamed)) => assert_eq!(tree.bytes, streamed.bytes),
                // Steps are counted by events where there is no tree.
                (Err(error), _) if is_limit(error) => {}
                (_, Err(TransformError::Run(error))) if is_limit(&error) => {}
                (Err(_), Err(_)) => {}
                (tree, streamed) => panic!("{tree:?} and {streamed:?}"),
            }
        }
    }
});

fn is_limit(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Limit { .. })
}
