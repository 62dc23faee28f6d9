//! A long stream takes no memory. This is a separate test binary, because the memory of the whole process is measured.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    clippy::disallowed_methods,
    reason = "a test ends where it is surprised, and measures"
)]

use xml::{Error, Here, Options, Parser, QName, Sink, Start};

/// A sink that counts events and keeps nothing.
#[derive(Default)]
struct Count {
    events: u64,
    text_bytes: u64,
}

impl Sink for Count {
    type Error = Error;

    fn start(&mut self, _: &Start<'_>, _: Here<'_>) -> Result<(), Error> {
        self.events += 1;
        Ok(())
    }

    fn text(&mut self, text: &str, _: bool, _: Here<'_>) -> Result<(), Error> {
        self.text_bytes += text.len() as u64;
        Ok(())
    }

    fn end(&mut self, _: QName<'_>, _: Here<'_>) -> Result<(), Error> {
        Ok(())
    }
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[test]
fn a_long_stream_takes_no_memory() {
    let item =
        "<item id='4711' xmlns:p='urn:p'><p:name>some &amp; text</p:name><![CDATA[more]]></item>\n"
            .repeat(100);
    let mut options = Options::default();
    options.limits.bytes_max = 1 << 30;
    options.limits.tokens_max = 1 << 30;
    let mut parser = Parser::new(options);
    let mut count = Count::default();
    parser.feed(b"<list>", &mut count).unwrap();
    let mut fed = 0usize;
    let mut before = 0;
    while fed < 100 << 20 {
        parser.feed(item.as_bytes(), &mut count).unwrap();
        fed += item.len();
        if before == 0 {
            before = resident_kib();
        }
    }
    parser.feed(b"</list>", &mut count).unwrap();
    parser.finish(&mut count).unwrap();
    assert!(count.events > 1_000_000 && count.text_bytes > 1 << 20);
    let grown = resident_kib() - before;
    assert!(grown < 1 << 10, "{grown} KiB");
}
