//! XML: no panic, the same events and the same fault whole, in chunks and behind a known beginning, and what a tree is written as
//! reads as the same tree. The first byte picks the options and the length of the chunks.

#![no_main]

use libfuzzer_sys::fuzz_target;
use xml::{
    Beginnings, Doctype, Document, Error, Form, Here, Options, Parser, QName, Resume, Sink, Start,
};

fuzz_target!(|bytes: &[u8]| {
    let Some((pick, document)) = bytes.split_first() else { return };
    let doctype = if pick & 1 == 0 { Doctype::Internal } else { Doctype::Refuse };
    let mut options = Options { namespaces: pick & 2 == 0, doctype, ..Options::default() };
    // Small, so that a fuzzer reaches them.
    options.limits.expansion_bytes_max = 4 << 10;
    options.limits.token_bytes_max = 1 << 10;
    options.limits.depth_max = 30;
    let mut whole = Told::default();
    let ended = xml::parse(document, &options, &mut whole);
    let (mut chunked, mut parser) = (Told::default(), Parser::new(options.clone()));
    let chunks = document.chunks(usize::from(pick >> 2) + 1);
    let fed = chunks.map(|chunk| parser.feed(chunk, &mut chunked)).find(Result::is_err);
    let other = fed.unwrap_or_else(|| parser.finish(&mut chunked));
    assert_eq!(other, ended);
    let whole = whole.finish();
    assert_eq!(chunked.finish(), whole);
    // Met, learnt, gone on with.
    let mut beginnings = Beginnings::default();
    for _ in 0..3 {
        let mut told = Told::default();
        assert_eq!(beginnings.parse(document, &options, &mut told), ended);
        assert_eq!(told.finish(), whole);
    }
    if ended.is_ok() && options.namespaces {
        round_trip(document, &options);
    }
});

fn round_trip(document: &[u8], options: &Options) {
    let tree = Document::parse(document, options).expect("it was read");
    let form = Form::Canonical { comments: true };
    let canonical = tree.to_text(Document::ROOT, &form);
    // Comments and instructions of entities may hold carriage returns, which no document can say otherwise.
    if canonical.contains('\r') {
        return;
    }
    let again = Document::parse(canonical.as_bytes(), &Options::default()).expect("it was written");
    assert_eq!(again.to_text(Document::ROOT, &form), canonical);
}

/// What was told, with neighbouring texts as one.
#[derive(Clone, Default)]
struct Told {
    events: Vec<String>,
    text: String,
}

impl Told {
    fn add(&mut self, event: String) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.events.push(text);
        }
        self.events.push(event);
    }

    fn finish(mut self) -> Vec<String> {
        self.add(String::new());
        self.events
    }
}

impl Sink for Told {
    type Error = Error;

    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), Error> {
        assert_eq!(here.position().offset, here.offset());
        self.add(format!("{here:?} {start:?}"));
        Ok(())
    }

    fn text(&mut self, text: &str, _: bool, _: Here<'_>) -> Result<(), Error> {
        assert!(!text.is_empty());
        self.text.push_str(text);
        Ok(())
    }

    fn end(&mut self, name: QName<'_>, here: Here<'_>) -> Result<(), Error> {
        self.add(format!("{here:?} {name:?}"));
        Ok(())
    }

    fn comment(&mut self, text: &str, here: Here<'_>) -> Result<(), Error> {
        self.add(format!("{here:?} {text}"));
        Ok(())
    }

    fn instruction(&mut self, target: &str, data: &str, here: Here<'_>) -> Result<(), Error> {
        self.add(format!("{here:?} {target} {data}"));
        Ok(())
    }
}

impl Resume for Told {
    type Memory = Told;

    fn remember(&self) -> Option<Told> {
        Some(self.clone())
    }

    fn resume(&mut self, memory: &Told) {
        self.clone_from(memory);
    }
}
