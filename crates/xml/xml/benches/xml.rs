//! Benchmarks of parsing. `cargo bench -p xml`
//!
//! 345 bytes as a SOAP client sends them, 10 KB of small elements, 100 KB of the same, and 100 KB of mostly text.

use std::hint::black_box;

use divan::Bencher;
use divan::counter::BytesCount;
use xml::{
    Document, Error, Form, Here, Options, Parser, QName, Recall, Sink, Start, TemplateCache,
};

fn main() {
    divan::main();
}

const SOAP: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
    <soap:Envelope xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
    xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" \
    xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\">\n  <soap:Body>\n    \
    <Add xmlns=\"http://tempuri.org/\">\n      <intA>17</intA>\n      <intB>25</intB>\n    </Add>\n  \
    </soap:Body>\n</soap:Envelope>\n";

const ITEM: &str = "<item id=\"4711\" kind=\"credit\"><intA>17</intA><intB>25</intB><memo>from the shop</memo>\
    <price>19.90</price><free>false</free><when>2026-11-21T15:26:15Z</when></item>\n";

fn list(bytes: usize, item: &str) -> String {
    let items = item.repeat(bytes / item.len());
    format!("<list xmlns=\"http://tempuri.org/\">\n{items}</list>")
}

fn documents() -> [(&'static str, String); 4] {
    let prose = "<p>".to_owned()
        + &"All happy families are alike; each unhappy family is unhappy in its own way. "
            .repeat(12)
        + "</p>\n";
    [
        ("345 B", SOAP.to_owned()),
        ("10 KB", list(10_000, ITEM)),
        ("100 KB", list(100_000, ITEM)),
        ("100 KB text", list(100_000, &prose)),
    ]
}

fn document(name: &str) -> String {
    documents()
        .into_iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| text)
        .unwrap_or_default()
}

const NAMES: [&str; 4] = ["345 B", "10 KB", "100 KB", "100 KB text"];

/// A sink that reads every event, so that nothing is optimised away.
#[derive(Default)]
struct EventSum {
    seen: usize,
}

impl Sink for EventSum {
    type Error = Error;

    fn start(&mut self, start: &Start<'_>, _: Here<'_>) -> Result<(), Error> {
        self.seen +=
            start.name.local.len() + start.name.namespace.id as usize + start.attributes.len();
        Ok(())
    }

    fn text(&mut self, text: &str, _: bool, _: Here<'_>) -> Result<(), Error> {
        self.seen += text.len();
        Ok(())
    }

    fn end(&mut self, name: QName<'_>, _: Here<'_>) -> Result<(), Error> {
        self.seen += name.local.len();
        Ok(())
    }
}

/// A sink with the smallest possible state, so that the cache is measured and not the sink.
impl Recall for EventSum {
    type Memory = usize;
    type DocumentState = usize;
    type Gap = ();

    fn remember(&self) -> Option<usize> {
        Some(self.seen)
    }

    fn resume(&mut self, memory: &usize) {
        self.seen = *memory;
    }

    fn gap(&self, _: &str) -> Option<()> {
        Some(())
    }

    fn whole(&mut self) -> Option<usize> {
        Some(self.seen)
    }

    fn fill<'t, T>(&mut self, whole: &usize, texts: T) -> bool
    where
        T: Iterator<Item = (&'t (), &'t str)> + Clone,
    {
        self.seen = whole + texts.map(|(_, text)| text.len()).sum::<usize>();
        true
    }
}

/// Small messages, each with other values; if `changing`, with other markup as well.
fn messages(changing: bool) -> Vec<String> {
    (100..999)
        .map(|n| {
            let values = SOAP.replace(">17<", &format!(">{n}<"));
            if changing {
                values.replace("soap:", &format!("s{n}:")).replace(":soap=", &format!(":s{n}="))
            } else {
                values
            }
        })
        .collect()
}

/// Small messages, one after the other, without a cache.
#[divan::bench(args = [false, true])]
fn messages_plain(bencher: Bencher<'_, '_>, changing: bool) {
    let messages = messages(changing);
    let mut turn = messages.iter().cycle();
    let mut parser = Parser::new(Options::default());
    bencher.bench_local(|| {
        let mut look = EventSum::default();
        let message = turn.next().map(String::as_bytes).unwrap_or_default();
        parser.parse(black_box(message), &mut look).map(|()| look.seen)
    });
}

/// The same benchmark with the cache of known documents.
#[divan::bench(args = [false, true])]
fn messages_with_template_cache(bencher: Bencher<'_, '_>, changing: bool) {
    let messages = messages(changing);
    let mut turn = messages.iter().cycle();
    let (mut template_cache, options) = (TemplateCache::default(), Options::default());
    bencher.bench_local(|| {
        let mut look = EventSum::default();
        let message = turn.next().map(String::as_bytes).unwrap_or_default();
        template_cache.parse(black_box(message), &options, &mut look).map(|()| look.seen)
    });
}

#[divan::bench(args = NAMES)]
fn tokenize(bencher: Bencher<'_, '_>, name: &str) {
    let text = document(name);
    let mut parser = Parser::new(Options::default());
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| {
        let mut look = EventSum::default();
        parser.parse(black_box(text.as_bytes()), &mut look).map(|()| look.seen)
    });
}

#[divan::bench(args = NAMES)]
fn tokenize_in_chunks_of_16_kib(bencher: Bencher<'_, '_>, name: &str) {
    let text = document(name);
    let mut parser = Parser::new(Options::default());
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| {
        let mut look = EventSum::default();
        parser.reset();
        for chunk in black_box(text.as_bytes()).chunks(16 << 10) {
            parser.feed(chunk, &mut look)?;
        }
        parser.finish(&mut look).map(|()| look.seen)
    });
}

#[divan::bench(args = NAMES)]
fn tree(bencher: Bencher<'_, '_>, name: &str) {
    let text = document(name);
    let options = Options::default();
    bencher
        .counter(BytesCount::of_str(&text))
        .bench_local(|| Document::parse(black_box(text.as_bytes()), &options));
}

#[divan::bench(args = NAMES)]
fn write(bencher: Bencher<'_, '_>, name: &str) {
    let text = document(name);
    let Ok(document) = Document::parse(text.as_bytes(), &Options::default()) else { return };
    bencher
        .counter(BytesCount::of_str(&text))
        .bench_local(|| black_box(&document).to_text(Document::ROOT, &Form::Plain));
}

#[divan::bench(args = NAMES)]
fn write_canonical(bencher: Bencher<'_, '_>, name: &str) {
    let text = document(name);
    let Ok(document) = Document::parse(text.as_bytes(), &Options::default()) else { return };
    let form = Form::Exclusive { comments: false, inclusive: &[] };
    bencher
        .counter(BytesCount::of_str(&text))
        .bench_local(|| black_box(&document).to_text(Document::ROOT, &form));
}
