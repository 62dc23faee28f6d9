//! Mutated stylesheets: any mutation compiles or is refused, and runs or ends with an error.

use std::sync::Arc;

use proptest::prelude::*;
use xslt::{Budgets, NoDocuments, Run, Stylesheet};

const SEED: &str = "<x:stylesheet version='1.0' xmlns:x='http://www.w3.org/1999/XSL/Transform'>\
<x:key name='k' match='b' use='@i'/><x:variable name='v'><i/></x:variable><x:strip-space elements='*'/>\
<x:template match='a|b[@i]' priority='1'><x:param name='p' select='1'/><e at='{$p}{@i}'><x:for-each select='*'>\
<x:sort select='.'/><x:number format='1.a'/><x:value-of select=\"key('k', 1)\"/></x:for-each>\
<x:apply-templates mode='m'/><x:copy-of select='$v'/></e></x:template>\
<x:template match='*' mode='m'><x:choose><x:when test='1'><x:copy/></x:when><x:otherwise/></x:choose>\
<x:call-template name='t'/></x:template><x:template name='t'><x:message>m</x:message></x:template></x:stylesheet>";

const PIECES: &[&str] = &[
    "<",
    ">",
    "'",
    "{",
    "}",
    "x:",
    "$v",
    "select='",
    "[",
    "(",
    "|",
    "//",
    "@",
    "</x:template>",
    "<x:if test='1'>",
    "mode='m'",
    "version='2.0'",
    "&#0;",
    "*",
    "::",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_stylesheets_end(cuts in prop::collection::vec((0usize..SEED.len(), 0usize..6, 0usize..PIECES.len()), 1..4)) {
        let mut text = SEED.to_owned();
        for (at, len, piece) in cuts {
            let at = at.min(text.len());
            let end = (at + len).min(text.len());
            text.replace_range(at..end, PIECES[piece]);
        }
        if let Ok(compiled) = Stylesheet::compile(text.as_bytes(), "", &NoDocuments) {
            let source = xml::Document::parse(b"<a><b i='1'>t</b><c/></a>", &xml::Options::default()).unwrap();
            let budgets = Budgets { steps_max: 100_000, ..Budgets::default() };
            let run = Run { budgets, ..Run::default() };
            if let Ok(output) = compiled.transform(&Arc::new(source), &run) {
                prop_assert!(output.bytes.len() < 1 << 20);
            }
        }
    }
}
