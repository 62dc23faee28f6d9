//! Parse, transform and serialise: an element is renamed, all else copied.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helper may panic"
)]

use std::sync::Arc;

use divan::{Bencher, black_box};
use xslt::{NoDocuments, Run, Stylesheet};

mod sources;

const STYLESHEET: &[u8] = include_bytes!("../../../../bench/xml/transform.xsl");

fn main() {
    divan::main();
}

#[divan::bench(args = [0, 1, 2])]
fn rename(bencher: Bencher<'_, '_>, which: usize) {
    let stylesheet = Stylesheet::compile(STYLESHEET, "", &NoDocuments).unwrap();
    let (_, source) = sources::all()[which].clone();
    bencher.bench_local(|| {
        let options = xml::Options::default();
        let document = xml::Document::parse(black_box(source.as_bytes()), &options).unwrap();
        stylesheet.transform(&Arc::new(document), &Run::default()).unwrap()
    });
}

#[divan::bench]
fn compile() -> Stylesheet {
    Stylesheet::compile(black_box(STYLESHEET), "", &NoDocuments).unwrap()
}
