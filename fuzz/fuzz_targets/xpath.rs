//! Expressions and patterns of any text, compiled and evaluated within small budgets: no panic, no hang, nodes in order.
#![no_main]

use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use xpath::{Budget, Evaluation, Expr, Limits, NoHost, Options, Pattern, Plain, Unknown, DocumentSet};

static DOCUMENT: LazyLock<Arc<xml::Document>> = LazyLock::new(|| {
    let text = b"<a id='1' xmlns:p='urn:p' xml:lang='en'><b>x</b><p:b id='2'>2</p:b><!--c--><?t d?><b><a/></b>tail</a>";
    Arc::new(xml::Document::parse(text, &xml::Options::default()).expect("it is well-formed"))
});

fuzz_target!(|text: &str| {
    let options = Options { xpath2: true, current: true, unknown: Unknown::FailAtCall };
    let statics = Plain { prefixes: &[("p", "urn:p")], options };
    let documents = DocumentSet::new(Arc::clone(&DOCUMENT));
    let limits = Limits { steps_max: 100_000, ..Limits::default() };
    let (mut host, mut budget) = (NoHost, Budget::new(limits));
    let mut evaluation = Evaluation::of(&documents, documents.root(), &mut host, &mut budget);
    match Expr::compile(text, &statics) {
        Ok(expr) => {
            if let Ok(nodes) = expr.nodes(&mut evaluation) {
                assert!(nodes.is_sorted_by(|a, b| a < b));
            }
        }
        Err(error) => assert!(error.offset as usize <= text.len()),
    }
    if let Ok(pattern) = Pattern::compile(text, &statics) {
        drop(pattern.matches(&mut evaluation));
    }
});
