//! Compares with `xsltproc` on the same stylesheets and documents: the bytes have to be equal.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helper may panic"
)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use xslt::{NoDocuments, Run, Stylesheet};

/// Bodies of stylesheets whose results are fully specified.
const BODIES: &[&str] = &[
    "<x:template match='@*|node()'><x:copy><x:apply-templates select='@*|node()'/></x:copy></x:template>",
    "<x:template match='/'><out><x:copy-of select='/*/*[position() mod 2 = 1]'/></out></x:template>",
    "<x:strip-space elements='a b'/><x:template match='/'><out><x:copy-of select='*'/></out></x:template>",
    "<x:template match='/'><out><x:for-each select='//*'><x:sort select='@k' data-type='number'/>\
     <x:sort select='name()' order='descending'/><i n='{name()}' k='{@k}' p='{position()}'/>\
     </x:for-each></out></x:template>",
    "<x:template match='/'><out><x:apply-templates/></out></x:template>\
     <x:template match='a//b' priority='2'>[ab<x:apply-templates/>]</x:template>\
     <x:template match='b'>[b<x:apply-templates/>]</x:template>\
     <x:template match='c/text()'>(c)</x:template><x:template match='*[@k &gt; 5]'>&lt;5</x:template>",
    "<x:key name='k' match='*' use='@k'/><x:template match='/'><out><x:for-each select='//@k'>\
     <x:value-of select=\"count(key('k', .))\"/>,<x:value-of select=\"name(key('k', .)[last()])\"/>;\
     </x:for-each></out></x:template>",
    "<x:template match='/'><out><x:for-each select='//*'><x:number level='multiple' count='*' format='1.a.I '/>\
     <x:number level='any' from='a'/>|<x:number/>;</x:for-each></out></x:template>",
    "<x:template match='/'><out><x:for-each select='//text()'><x:value-of select='normalize-space()'/>|\
     <x:value-of select=\"translate(substring(., 2, 3), 'abc', 'AB')\"/>|<x:value-of select='string-length()'/>\
     </x:for-each><x:value-of select='round(100 * sum(//@k) div count(//*))'/></out></x:template>",
    "<x:template match='/'><p:out xmlns:p='urn:p' xmlns:q='urn:q'><x:for-each select='//*'>\
     <x:element name='q:{name()}' namespace='urn:q'><x:copy-of select='@*'/>\
     <x:attribute name='p:at'><x:value-of select='count(ancestor::*)'/></x:attribute></x:element>\
     </x:for-each></p:out></x:template>",
    "<x:variable name='all'><x:copy-of select='/'/></x:variable><x:template match='/'><out>\
     <x:value-of select='string-length($all)'/><x:call-template name='t'>\
     <x:with-param name='n' select='count(//*)'/></x:call-template></out></x:template>\
     <x:template name='t'><x:param name='n'/><x:if test='$n &gt; 0'><i><x:value-of select='$n'/></i>\
     <x:call-template name='t'><x:with-param name='n' select='$n - 1'/></x:call-template></x:if></x:template>",
    "<x:template match='/'><out><x:for-each select='//b'><x:choose><x:when test='preceding-sibling::b'>\
     <x:comment>p <x:value-of select='@k'/></x:comment></x:when><x:when test='not(*)'>\
     <x:processing-instruction name='leaf'>x</x:processing-instruction></x:when><x:otherwise>\
     <x:value-of select='following::*[1]/@k'/></x:otherwise></x:choose></x:for-each></out></x:template>",
];

const DOCUMENTS: u32 = 8;

/// A document of nested `a`, `b`, `c` with attributes and text, different for each seed.
fn document(seed: u32) -> String {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut next = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    let mut text = String::from("<a>");
    let mut open = vec!["a"];
    for _ in 0..40 {
        match next(5) {
            0 | 1 => {
                let name = ["a", "b", "c"][next(3) as usize];
                text.push_str(&format!("<{name} k=\"{}\">", next(12)));
                open.push(name);
            }
            2 if open.len() > 1 => {
                text.push_str(&format!("</{}>", open.pop().unwrap()));
            }
            3 => text.push_str(["abc", " ", "a &amp; b", "cab ", "x&lt;y"][next(5) as usize]),
            _ => text.push_str(["<b/>", "<c k=\"7\"/>", "<!--n-->", "\n  "][next(4) as usize]),
        }
    }
    for name in open.iter().rev() {
        text.push_str(&format!("</{name}>"));
    }
    text
}

#[test]
fn xsltproc_agrees() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut documents = Vec::new();
    for seed in 0..DOCUMENTS {
        let path = folder.join(format!("differential-{seed}.xml"));
        let text = document(seed);
        fs::write(&path, &text).unwrap();
        documents.push((path, text));
    }
    for (number, body) in BODIES.iter().enumerate() {
        let sheet = format!(
            "<x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform'>\
             <x:output omit-xml-declaration='yes'/>{body}</x:stylesheet>"
        );
        let path = folder.join(format!("differential-{number}.xsl"));
        fs::write(&path, &sheet).unwrap();
        let theirs = Command::new("xsltproc")
            .arg(&path)
            .args(documents.iter().map(|(path, _)| path))
            .output()
            .expect("xsltproc is installed by the project's setup");
        assert!(theirs.status.success(), "{}", String::from_utf8_lossy(&theirs.stderr));
        let compiled = Stylesheet::compile(sheet.as_bytes(), "", &NoDocuments).unwrap();
        let mut ours = String::new();
        for (_, text) in &documents {
            let source = xml::Document::parse(text.as_bytes(), &xml::Options::default()).unwrap();
            let output = compiled.transform(&Arc::new(source), &Run::default()).unwrap();
            ours.push_str(&String::from_utf8(output.bytes).unwrap());
            ours.push('\n');
        }
        assert_eq!(ours, String::from_utf8_lossy(&theirs.stdout), "{body}");
    }
}
