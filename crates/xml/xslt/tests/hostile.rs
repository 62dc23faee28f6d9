//! Stylesheets that would run without end or fill the memory: each ends with its budget's error, on a worker's stack.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helper may panic"
)]

use std::sync::Arc;

use xslt::{Budgets, ErrorKind, NoDocuments, Resolver, Resource, Run, Stylesheet};

/// The stack of a worker thread.
const STACK_BYTES: usize = 2 << 20;

/// A resolver with a new document for each reference, each of which refers to another.
struct Endless;

impl Resolver for Endless {
    fn resolve(&self, href: &str, base: &str) -> Result<Resource, String> {
        let module = "<x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform'>\
                      <x:import href='i'/></x:stylesheet>";
        let bytes = match href {
            "i" => module.as_bytes(),
            _ => b"<d/>",
        };
        Ok(Resource { uri: format!("{base}/{href}"), bytes: bytes.to_vec() })
    }
}

fn ends(body: String) -> ErrorKind {
    let run = move || {
        let sheet = format!(
            "<x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform' \
             xmlns:f='http://exslt.org/functions' xmlns:m='urn:m'>{body}</x:stylesheet>"
        );
        let compiled = match Stylesheet::compile(sheet.as_bytes(), "", &Endless) {
            Ok(compiled) => compiled,
            Err(error) => return error.kind,
        };
        let source = xml::Document::parse(b"<a><b/><b/></a>", &xml::Options::default()).unwrap();
        let budgets = Budgets {
            steps_max: 2_000_000,
            output_bytes_max: 1 << 20,
            nodes_max: 20_000,
            ..Budgets::default()
        };
        let run = Run { resolver: &Endless, budgets, ..Run::default() };
        compiled.transform(&Arc::new(source), &run).unwrap_err().kind
    };
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap().join().unwrap()
}

fn limit(name: &str, kind: &ErrorKind) -> bool {
    matches!(kind, ErrorKind::Limit { name: found, .. } if *found == name)
}

#[test]
fn what_never_ends_is_ended() {
    let root = |body: &str| format!("<x:template match='/'>{body}</x:template>");
    let call = |body: &str| format!("{}{body}", root("<x:call-template name='t'/>"));
    let cases = [
        (call("<x:template name='t'><x:call-template name='t'/></x:template>"), "depth_max"),
        (root("<x:apply-templates select='.'/>"), "depth_max"),
        (
            root("<x:for-each select='//b'><x:apply-templates select='/'/></x:for-each>"),
            "depth_max",
        ),
        (
            call(
                "<x:template name='t'><x:param name='n' select='30'/><x:if test='$n &gt; 0'>\
                 <x:call-template name='t'><x:with-param name='n' select='$n - 1'/></x:call-template>\
                 <x:call-template name='t'><x:with-param name='n' select='$n - 1'/></x:call-template>\
                 </x:if></x:template>",
            ),
            "steps_max",
        ),
        (
            call(
                "<x:template name='t'><x:param name='s' select=\"'ab'\"/><x:call-template name='t'>\
                 <x:with-param name='s' select='concat($s, $s)'/></x:call-template></x:template>",
            ),
            "text_bytes_max",
        ),
        (
            call(
                "<x:template name='t'><x:param name='s'>ab</x:param><x:call-template name='t'>\
                 <x:with-param name='s'><i/><x:copy-of select='$s'/><x:copy-of select='$s'/>\
                 </x:with-param></x:call-template></x:template>",
            ),
            "nodes_max",
        ),
        (
            call(
                "<x:template name='t'>0123456789<x:for-each select='//b'>0123456789</x:for-each>\
                 <x:comment>0123456789</x:comment><x:call-template name='t'/></x:template>",
            )
            .replace("0123456789", &"0123456789".repeat(20)),
            "output_bytes_max",
        ),
        (
            call(
                "<x:template name='t'><i xmlns:p='0123456789'/><x:call-template name='t'/></x:template>",
            )
            .replace("0123456789", &"0123456789".repeat(200)),
            "output_bytes_max",
        ),
        (
            call(
                "<x:template name='t'><x:param name='n' select='1'/>\
                 <x:if test='document(string($n))'/><x:call-template name='t'>\
                 <x:with-param name='n' select='$n + 1'/></x:call-template></x:template>",
            ),
            "documents_max",
        ),
        (
            format!(
                "<f:function name='m:f'><f:result select='m:f()'/></f:function>{}",
                root("<x:value-of select='m:f()'/>")
            ),
            "nested variables and functions",
        ),
        ("<x:import href='i'/>".to_owned(), "nested modules"),
    ];
    for (body, expected) in cases {
        let kind = ends(body.clone());
        assert!(limit(expected, &kind), "{body}: {kind:?}");
    }
}

#[test]
fn what_depends_on_itself_is_refused() {
    let cases = [
        "<x:variable name='a' select='$b'/><x:variable name='b' select='$a'/>\
         <x:template match='/'><x:value-of select='$a'/></x:template>",
        "<x:key name='k' match='b' use=\"key('k', 1)\"/>\
         <x:template match='/'><x:value-of select=\"key('k', 1)\"/></x:template>",
    ];
    for body in cases {
        let kind = ends(body.to_owned());
        assert!(matches!(&kind, ErrorKind::Dynamic(what) if what.contains("itself")), "{kind:?}");
    }
    let kind = ends(
        "<x:attribute-set name='a' use-attribute-sets='b'/>\
         <x:attribute-set name='b' use-attribute-sets='a'/>"
            .to_owned(),
    );
    assert!(matches!(&kind, ErrorKind::Static(what) if what.contains("itself")), "{kind:?}");
}

/// Thousands of nested templates, a chain of a thousand variables and a stylesheet nested to its limit need no more stack than
/// a worker has.
#[test]
fn depth_needs_no_stack() {
    let run = || {
        let mut globals = String::from("<x:variable name='v0' select='1'/>");
        for n in 1..1000 {
            globals.push_str(&format!("<x:variable name='v{n}' select='$v{} + 1'/>", n - 1));
        }
        let deep = format!("{}{}", "<i>".repeat(110), "</i>".repeat(110));
        let sheet = format!(
            "<x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform'>\
             <x:output method='text'/>{globals}<x:template match='/'><x:call-template name='t'>\
             <x:with-param name='n' select='20000'/></x:call-template>{deep}\
             <x:value-of select='$v999'/></x:template><x:template name='t'><x:param name='n'/>\
             <x:if test='$n = 0'>done </x:if><x:if test='$n &gt; 0'><x:call-template name='t'>\
             <x:with-param name='n' select='$n - 1'/></x:call-template></x:if></x:template>\
             </x:stylesheet>"
        );
        let compiled = Stylesheet::compile(sheet.as_bytes(), "", &NoDocuments).unwrap();
        let source = xml::Document::parse(b"<a/>", &xml::Options::default()).unwrap();
        let output = compiled.transform(&Arc::new(source), &Run::default()).unwrap();
        String::from_utf8(output.bytes).unwrap()
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap();
    assert_eq!(thread.join().unwrap(), "done 1000");
}

/// Runs a stylesheet with a budget of steps, and returns the result with the number of steps used.
fn with_steps(body: &str, source: &str, steps_max: u64) -> Result<String, ErrorKind> {
    let sheet = format!(
        "<x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform'>\
         <x:output omit-xml-declaration='yes'/>{body}</x:stylesheet>"
    );
    let compiled = Stylesheet::compile(sheet.as_bytes(), "", &NoDocuments).unwrap();
    let source = xml::Document::parse(source.as_bytes(), &xml::Options::default()).unwrap();
    let run = Run { budgets: Budgets { steps_max, ..Budgets::default() }, ..Run::default() };
    let made = compiled.transform(&Arc::new(source), &run).map_err(|error| error.kind)?;
    Ok(String::from_utf8_lossy(&made.bytes).into_owned())
}

/// Many nodes with the same value ask a key for as many nodes with that value: quadratic time and memory, but few steps.
#[test]
fn a_key_asked_by_many_nodes_of_one_value_is_asked_once() {
    let items = "<item id='x'/><ref id='x'/>".repeat(5000);
    let body = "<x:key name='k' match='item' use='@id'/>\
                <x:template match='/'><n><x:value-of select=\"count(key('k', //ref/@id))\"/></n></x:template>";
    let made = with_steps(body, &format!("<a>{items}</a>"), 200_000);
    assert_eq!(made.unwrap(), "<n>5000</n>");
}

/// An index with an entry for each node below each node.
#[test]
fn the_entries_of_a_key_are_paid_for() {
    let deep = format!("{}{}", "<a i='1'>".repeat(200), "</a>".repeat(200));
    let body = "<x:key name='k' match='a' use='descendant-or-self::*/@i'/>\
                <x:template match='/'><n><x:value-of select=\"count(key('k', '1'))\"/></n></x:template>";
    assert_eq!(with_steps(body, &deep, 1_000_000).unwrap(), "<n>200</n>");
    let small = with_steps(body, &deep, 60_000);
    assert!(limit("steps_max", &small.unwrap_err()));
}
