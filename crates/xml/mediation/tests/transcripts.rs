//! Chains of transformations, checks and searches. Each chain runs with transcripts of the results, and again with all results parsed; the
//! outcomes must be equal.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test's helper may panic"
)]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mediation::soap::{
    Api, CompiledDefinition, Definitions, ENVELOPE_11, ENVELOPE_12, Envelope, MessageFacts, Schemas,
};
use mediation::xpath_search::{Case, Cases};
use mediation::xslt::{
    CompiledStylesheet, FeedCaches, StylesheetSource, TransformRejection, Transformation,
};
use mediation::{Rejection, Work};
use message::{GatheredBody, Headers, Trailers};
use proptest::prelude::*;
use xpath::{Expr, Plain};
use xslt::{NoDocuments, Style, Stylesheet};

const RENAME: &str = include_str!("../../../../examples/soap/rename.xsl");
const TEN: &str = include_str!("../../../../examples/soap/ten.xsl");
const THIRTEEN: &str = include_str!("../../../../examples/soap/thirteen.xsl");
const CALCULATOR: &str = include_str!("../../../../examples/soap/calculator/calculator.xsd");

fn transformation(text: &str, style: Style, strip: bool, transcribe: bool) -> Transformation {
    let sheet = Stylesheet::compile(text.as_bytes(), "a.xsl", &NoDocuments).unwrap();
    let sheet = Arc::new(CompiledStylesheet::Native(Box::new(sheet)));
    Transformation {
        sheet: StylesheetSource::Fixed(Ok(sheet)),
        parameters: Vec::new(),
        style,
        strip_empty_namespaces: strip,
        transcribe,
        bytes_max: 1 << 20,
        timeout: Duration::from_secs(60),
        known: FeedCaches::default(),
    }
}

fn schema(text: &str) -> Arc<xsd::Schema> {
    let mut set = xsd::SchemaSet::new(&xsd::NoDocuments, xsd::Limits::default());
    set.add_bytes(text.as_bytes(), "a.xsd");
    Arc::new(set.compile().unwrap())
}

fn definitions() -> Arc<Definitions> {
    let schemas = Schemas::one(schema(CALCULATOR));
    let api = CompiledDefinition { schemas, actions: None };
    Arc::new(Definitions {
        envelopes: [ENVELOPE_11, ENVELOPE_12].map(|text| Envelope::BuiltIn(schema(text))),
        api: Api::Fixed(Ok(Arc::new(api))),
        action: None,
        operations: HashMap::from([("Add".into(), 0), ("Subtract".into(), 1)]),
        lenient: false,
    })
}

/// The outcome of a message.
#[derive(Debug, PartialEq)]
struct Outcome {
    bytes: Vec<u8>,
    checked: Vec<Result<(), Rejection>>,
    found: Vec<MessageFacts>,
    chosen: Option<Result<Option<usize>, Rejection>>,
    refused: Option<Rejection>,
    /// Number of results with a transcript.
    transcripts: usize,
}

/// A chain of stylesheets. Each result is checked as a request and as a reply, and a case is selected by its content.
struct Chain {
    sheets: Vec<Transformation>,
    definitions: Arc<Definitions>,
    cases: Cases,
}

impl Chain {
    fn new(style: Style, strip: bool, transcribe: bool) -> Chain {
        let sheet = |text| transformation(text, style, strip, transcribe);
        let statics = Plain {
            prefixes: &[
                ("t", "http://tempuri.org/"),
                ("soap", "http://schemas.xmlsoap.org/soap/envelope/"),
            ],
            ..Plain::default()
        };
        let cases = ["5", "7"].map(|equals| Case {
            expression: Expr::compile("/soap:Envelope/soap:Body/t:Add/t:intA", &statics).unwrap(),
            equals: equals.to_owned(),
        });
        Chain {
            sheets: [RENAME, TEN, THIRTEEN].map(sheet).into(),
            definitions: definitions(),
            cases: Cases::new(cases.into()),
        }
    }

    fn run(&self, message: &str) -> Outcome {
        let mut body = GatheredBody::new(message.to_owned().into(), Trailers::new());
        let mut headers = Headers::default();
        headers.add_known("Content-Type", b"text/xml; charset=utf-8");
        let mut outcome = Outcome {
            bytes: Vec::new(),
            checked: Vec::new(),
            found: Vec::new(),
            chosen: None,
            refused: None,
            transcripts: 0,
        };
        for sheet in &self.sheets {
            let content_type = headers.get("content-type");
            let made = match sheet.run(content_type, &mut body, kit::alarm::take()) {
                Work::Done(made) => made,
                Work::Waits(_) => panic!("it is our own engine"),
            };
            match made {
                Ok(made) => {
                    body.bytes = made.bytes;
                    if let Some(transcript) = made.transcript {
                        outcome.transcripts += 1;
                        body.keep_transcript(transcript);
                    }
                }
                Err(TransformRejection::Failed(failed)) => {
                    outcome.refused = Some(failed);
                    return outcome;
                }
                Err(_) => panic!("it is our own engine"),
            }
            for reply in [false, true] {
                let mut found = MessageFacts::default();
                let (bytes, notes) = body.transcribed();
                let checked = if reply {
                    self.definitions.check_output(content_type, bytes, notes, &mut found)
                } else {
                    self.definitions.check_input(&headers, bytes, notes, false, &mut found)
                };
                outcome.checked.push(checked);
                outcome.found.push(found);
            }
        }
        outcome.chosen = Some(self.cases.first(headers.get("content-type"), &mut body));
        outcome.bytes = body.bytes.to_vec();
        outcome
    }
}

/// Returns pairs of chains: one that requests transcripts, and one that does not.
fn chains() -> Vec<[Chain; 2]> {
    let styles = [Style::Plain, Style::Canonical].into_iter();
    let all = styles.flat_map(|style| [false, true].map(|strip| (style, strip)));
    all.map(|(style, strip)| [true, false].map(|notes| Chain::new(style, strip, notes))).collect()
}

/// Runs a message through a chain of each kind. Returns how many results had a transcript.
fn check(chains: &[[Chain; 2]], message: &str) -> usize {
    let mut transcripts = 0;
    for [noting, parsing] in chains {
        let ours = noting.run(message);
        let theirs = parsing.run(message);
        assert_eq!(theirs.transcripts, 0);
        transcripts += ours.transcripts;
        assert_eq!(Outcome { transcripts: 0, ..ours }, theirs, "{message}");
    }
    transcripts
}

fn envelope(prefix: &str, head: &str, content: &str) -> String {
    format!(
        "{head}<{prefix}:Envelope xmlns:{prefix}='http://schemas.xmlsoap.org/soap/envelope/'>\n\
         <{prefix}:Body>{content}</{prefix}:Body></{prefix}:Envelope>"
    )
}

#[test]
fn a_chain_ends_alike_by_transcripts_and_by_parsing() {
    let chains = chains();
    let call = |a: &str, b: &str| {
        format!("<Add xmlns='http://tempuri.org/'><intA>{a}</intA><intB>{b}</intB></Add>")
    };
    let deep = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
    let fault =
        "<s:Fault><faultcode>s:Client</faultcode><faultstring>a &amp; b</faultstring></s:Fault>";
    let with = [
        call("5", "7"),
        call("5", " 7\n"),
        call("x", "7"),
        call("5", "\u{e9}"),
        call("5", "<![CDATA[7]]>"),
        call("<b/>", "7"),
        "<m:Subtract xmlns:m='http://tempuri.org/'>\n<m:intA>7</m:intA>\n<m:intB>5</m:intB></m:Subtract>".to_owned(),
        "<m:Subtract xmlns:m='http://tempuri.org/' xmlns:n='urn:n'><m:intA>7</m:intA><m:intB n:a='1'>5</m:intB></m:Subtract>".to_owned(),
        "<m:Add xmlns:m='http://tempuri.org/'><m:intA>7</m:intA></m:Add>".to_owned(),
        "<Add xmlns='urn:other'/>".to_owned(),
        "<Add xmlns='http://tempuri.org/'/><Add xmlns='http://tempuri.org/'/>".to_owned(),
        deep(40),
        fault.replace(" &amp; ", " "),
        String::new(),
    ];
    let mut transcripts = 0;
    for (at, content) in with.iter().enumerate() {
        // The second message is not in the cache, the third one is.
        for prefix in ["s".to_owned(), format!("s{at}"), "s".to_owned()] {
            transcripts += check(&chains, &envelope(&prefix, "", content));
        }
    }
    assert!(transcripts > 200, "{transcripts}");
    let without = [
        envelope("s", "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'>]>", &call("&b;", "7")),
        envelope("s", "<!DOCTYPE a>", &call("5", "7")),
        envelope("s", "<!-- a -->", &call("5", "7")),
        envelope("s", "", &call("&lt;", "&amp;")),
        envelope("s", "", &call("5", "<!-- 6 -->7")),
        envelope("s", "", &call("5", "<?six?>7")),
        envelope("s", "", fault),
        envelope("s", "", &deep(300)),
        envelope("s", "", &deep(100)),
        envelope("s", "", &call("5", &"7".repeat(100_000))),
        envelope("s", "", &format!("<Add a='{}'/>", "&quot;".repeat(100))),
        envelope("s", "", "<Add xmlns='http://tempuri.org/'><intA>5</intA>"),
        envelope("s", "", "<p:Add/>"),
        envelope("s", "", "<Add> xmlns=\"\"</Add>"),
        "<a/><b/>".to_owned(),
        "no XML".to_owned(),
        String::new(),
    ];
    for message in without {
        check(&chains, &message);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_message_ends_alike(
        prefix in "[a-z]{1,3}",
        own in prop::sample::select(vec!["", "m:", "n:"]),
        call in prop::sample::select(vec!["Add", "Subtract", "Fault", "Multiply"]),
        values in prop::collection::vec("[0-9a\u{e9}&<>\"' \r\n]{0,4}", 2),
        spaces in prop::collection::vec("[ \n]{0,3}", 4),
        more in prop::sample::select(vec!["", "", "", "<!-- a -->", "<?a b?>", "<a xmlns=''/>", "<b", "</c>", "&d;"]),
    ) {
        thread_local! {
            static CHAINS: Vec<[Chain; 2]> = chains();
        }
        let [a, b] = [&values[0], &values[1]].map(|text| text.replace('&', "&amp;").replace('<', "&lt;"));
        let space = match own {
            "" => " xmlns='http://tempuri.org/'".to_owned(),
            own => format!(" xmlns:{}='http://tempuri.org/' xmlns:x='urn:x'", own.trim_end_matches(':')),
        };
        let [s0, s1, s2, s3] = [&spaces[0], &spaces[1], &spaces[2], &spaces[3]];
        let content = format!(
            "{s0}<{own}{call}{space}>{s1}<{own}intA>{a}</{own}intA>{s2}<{own}intB x='1'>{b}</{own}intB>{more}</{own}{call}>{s3}"
        );
        CHAINS.with(|chains| check(chains, &envelope(&prefix, "<?xml version='1.0'?>\n", &content)));
    }
}
