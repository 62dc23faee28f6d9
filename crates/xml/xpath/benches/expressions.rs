//! Benchmarks of compiling and evaluating expressions. `cargo bench -p xpath`
#![allow(clippy::panic, reason = "a bench ends where it is surprised")]

use std::sync::Arc;

use divan::{Bencher, black_box};
use xpath::{Budget, DocumentSet, Evaluation, Expr, NoHost, Options, Pattern, Plain};

fn main() {
    divan::main();
}

const PREFIXES: &[(&str, &str)] =
    &[("s", "http://schemas.xmlsoap.org/soap/envelope/"), ("c", "urn:calculator")];

/// Expressions of a route over a SOAP request.
const ROUTES: &[&str] = &[
    "/s:Envelope/s:Body/c:Add",
    "/s:Envelope/s:Body/c:Add/c:a > 3",
    "//c:a = '5'",
    "local-name(/s:Envelope/s:Body/*[1]) = 'Add'",
    "concat('add-', normalize-space(/*/*/*/c:b))",
    "count(//*[@id]) = 0",
];

/// Expressions over a list.
const LISTS: &[&str] = &[
    "count(/list/item)",
    "/list/item[500]/name",
    "/list/item[last()]/@id",
    "/list/item[@id = '500']/name",
    "sum(//price)",
    "//item[price > 990]/name",
    "//name[. = 'item 999']",
    "count(//item[following-sibling::item[1]/price > price])",
];

fn soap() -> Arc<xml::Document> {
    let text = "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Header/><s:Body>\
        <c:Add xmlns:c=\"urn:calculator\"><c:a>5</c:a><c:b> 7 </c:b></c:Add></s:Body></s:Envelope>";
    parse(text)
}

fn list() -> Arc<xml::Document> {
    let items: String = (1..=1000)
        .map(|n| {
            format!("<item id=\"{n}\"><name>item {n}</name><price>{}</price></item>", n * 7 % 1000)
        })
        .collect();
    parse(&format!("<list>{items}</list>"))
}

fn parse(text: &str) -> Arc<xml::Document> {
    Arc::new(
        xml::Document::parse(text.as_bytes(), &xml::Options::default())
            .unwrap_or_else(|error| panic!("{error}")),
    )
}

fn compile(text: &str) -> Expr {
    let statics = Plain { prefixes: PREFIXES, options: Options::default() };
    Expr::compile(text, &statics).unwrap_or_else(|error| panic!("{error}"))
}

#[divan::bench(args = ROUTES)]
fn compiled(bencher: Bencher<'_, '_>, text: &str) {
    bencher.bench(|| compile(black_box(text)));
}

#[divan::bench(args = ROUTES)]
fn route(bencher: Bencher<'_, '_>, text: &str) {
    evaluated(bencher, text, &soap());
}

#[divan::bench(args = LISTS)]
fn items(bencher: Bencher<'_, '_>, text: &str) {
    evaluated(bencher, text, &list());
}

fn evaluated(bencher: Bencher<'_, '_>, text: &str, document: &Arc<xml::Document>) {
    let expr = compile(text);
    let documents = DocumentSet::new(Arc::clone(document));
    bencher.bench_local(|| {
        let (mut host, mut budget) = (NoHost, Budget::default());
        expr.value(&mut Evaluation::of(&documents, documents.root(), &mut host, &mut budget))
    });
}

/// Patterns over all nodes of the list.
#[divan::bench(args = ["item", "item/name", "list//name", "item[@id = '5']", "item[5]"])]
fn pattern(bencher: Bencher<'_, '_>, text: &str) {
    let pattern =
        Pattern::compile(text, &Plain::default()).unwrap_or_else(|error| panic!("{error}"));
    let documents = DocumentSet::new(list());
    let document = documents.document(xpath::DocId(0));
    bencher.bench_local(|| {
        let (mut host, mut budget) = (NoHost, Budget::default());
        let mut matched = 0;
        for id in document.descendants(xml::Document::ROOT) {
            let node = documents.root().with(id);
            let matches =
                pattern.matches(&mut Evaluation::of(&documents, node, &mut host, &mut budget));
            matched += u32::from(matches == Ok(true));
        }
        matched
    });
}
