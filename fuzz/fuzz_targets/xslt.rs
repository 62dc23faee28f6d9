//! Any bytes as a stylesheet: it compiles or is refused, and a run of it ends within its budgets.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use xslt::{Budgets, Nothing, Run, Stylesheet};

fuzz_target!(|bytes: &[u8]| {
    let Ok(stylesheet) = Stylesheet::compile(bytes, "fuzz", &Nothing) else { return };
    let source = b"<a x='1'><b y='2'>t</b><!--c--><?p d?><b/> </a>";
    let Ok(document) = xml::Document::parse(source, &xml::Options::default()) else { return };
    let budgets = Budgets { steps_max: 200_000, output_bytes_max: 1 << 20, ..Budgets::default() };
    let run = Run { budgets, ..Run::default() };
    if let Ok(output) = stylesheet.transform(&Arc::new(document), &run) {
        assert!(output.bytes.len() < 64 << 20);
    }
});
