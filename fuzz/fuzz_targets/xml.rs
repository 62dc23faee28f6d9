//! XML: no panic, the same events and the same fault whole, in chunks and where others have been read before, and what a tree is written as
//! reads as the same tree. The first byte picks the options and the length of the chunks.

#![no_main]

use libfuzzer_sys::fuzz_target;
use xml::{
    Doctype, Document, Error, Form, Here, Options, Parser, TemplateCache, QName, Recall, Sink, Start,
};

fuzz_target!(|bytes: &[u8]| {
    let Some((pick, document)) = bytes.split_first() else { return };
    let doctype = if pick & 1 == 0 { Doctype::Internal } else { Doctype::Refuse };
    let mut options = Options { namespaces: pick & 2 == 0, doctype, ..Options::default() };
    // Small, so that a fuzzer reaches them.
    options.limits.expansion_bytes_max = 4 << 10;
    options.limits.token_bytes_max = 1 << 10;
    options.limits.depth_max = 30;
    let mut whole = EventLog::default();
    let ended = xml::parse(document, &options, &mut whole);
    let (mut chunked, mut parser) = (EventLog::default(), Parser::new(options.clone()));
    let chunks = document.chunks(usize::from(pick >> 2) + 1);
    let fed = chunks.map(|chunk| parser.feed(chunk, &mut chunked)).find(Result::is_err);
    let other = fed.unwrap_or_else(|| parser.finish(&mut chunked));
    assert_eq!(other, ended);
    let whole = whole.finish();
    assert_eq!(chunked.finish(), whole);
    // Met, learnt, gone on with, filled.
    let other: Vec<u8> = document.iter().map(|b| if *b == b'1' { b'2' } else { *b }).collect();
    for placeless in [false, true] {
        let mut template_cache = TemplateCache::default();
        for document in [document, document, document, &other, document] {
            let mut plain = EventLog { placeless, ..EventLog::default() };
            let ended = xml::parse(document, &options, &mut plain);
            let mut told = EventLog { placeless, ..EventLog::default() };
            assert_eq!(template_cache.parse(document, &options, &mut told), ended);
            assert_eq!(told.finish(), plain.finish());
        }
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
struct EventLog {
    events: Vec<String>,
    text: String,
    /// Places are left out: they depend on the texts before them.
    placeless: bool,
}

impl EventLog {
    fn add_at(&mut self, here: Here<'_>, event: String) {
        if self.placeless {
self.add(event)
} else {
self.add(format!("{here:?} {event}"))
}
    }

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

impl Sink for EventLog {
    type Error = Error;

    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), Error> {
        assert_eq!(here.position().offset, here.offset());
        self.add_at(here, format!("{start:?}"));
        Ok(())
    }

    fn text(&mut self, text: &str, _: bool, _: Here<'_>) -> Result<(), Error> {
        assert!(!text.is_empty());
        self.text.push_str(text);
        Ok(())
    }

    fn end(&mut self, name: QName<'_>, here: Here<'_>) -> Result<(), Error> {
        self.add_at(here, format!("/{name:?}"));
        Ok(())
    }

    fn comment(&mut self, text: &str, here: Here<'_>) -> Result<(), Error> {
        self.add_at(here, format!("!{text}"));
        Ok(())
    }

    fn instruction(&mut self, target: &str, data: &str, here: Here<'_>) -> Result<(), Error> {
        self.add_at(here, format!("?{target} {data}"));
        Ok(())
    }
}

impl Recall for EventLog {
    type Memory = EventLog;
    type DocumentState = EventLog;
    /// The number of the event that the text will be.
    type Gap = usize;

    fn remember(&self) -> Option<EventLog> {
        Some(self.clone())
    }

    fn resume(&mut self, memory: &EventLog) {
        self.clone_from(memory);
    }

    fn gap(&self, text: &str) -> Option<usize> {
        assert_eq!(self.text, text);
        Some(self.events.len())
    }

    fn whole(&mut self) -> Option<EventLog> {
        self.placeless.then(|| self.clone())
    }

    fn fill<'t, T>(&mut self, whole: &EventLog, texts: T) -> bool
    where
        T: Iterator<Item = (&'t usize, &'t str)> + Clone,
    {
        self.clone_from(whole);
        for (at, text) in texts {
            text.clone_into(&mut self.events[*at]);
        }
        true
    }
}
