//! A sink that records its events.

use std::fmt::Write;

use xml::{Doctype, Error, Here, Options, Parser, QName, Sink, Start};

/// The events, one per line; adjacent texts are joined.
#[derive(Default, Clone)]
pub(crate) struct Record {
    pub(crate) lines: String,
    text: String,
    cdata: bool,
    /// Whether the sink was resumed from a known prefix.
    pub(crate) resumed: bool,
}

impl Record {
    fn flush(&mut self) {
        if !self.text.is_empty() {
            let mark = if self.cdata { "cdata" } else { "text" };
            writeln!(self.lines, "{mark} {:?}", self.text).unwrap();
            self.text.clear();
        }
    }
}

fn name(name: QName<'_>) -> String {
    let colon = if name.prefix.is_empty() { "" } else { ":" };
    let space =
        if name.namespace.id == 0 { String::new() } else { format!("{{{}}}", name.namespace.uri) };
    format!("{}{colon}{}{space}", name.prefix, name.local)
}

impl Sink for Record {
    type Error = Error;

    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), Error> {
        self.flush();
        let at = here.position();
        assert_eq!(at.offset, here.offset());
        write!(self.lines, "{at} start {}", name(start.name)).unwrap();
        for (prefix, uri) in start.scope.declared() {
            write!(self.lines, " xmlns:{prefix}={uri:?}").unwrap();
        }
        for a in start.attributes.iter() {
            let mark = if a.defaulted { "+" } else { "" };
            let id = if a.id { "#" } else { "" };
            write!(self.lines, " {mark}{id}{}={:?}", name(a.name), a.value).unwrap();
            let found = start.attributes.get(a.name.namespace.uri, a.name.local).unwrap();
            assert_eq!(found.value, a.value);
        }
        writeln!(self.lines, "{}", if start.empty { " /" } else { "" }).unwrap();
        Ok(())
    }

    fn text(&mut self, text: &str, cdata: bool, _here: Here<'_>) -> Result<(), Error> {
        assert!(!text.is_empty(), "no piece is empty");
        if cdata != self.cdata {
            self.flush();
            self.cdata = cdata;
        }
        self.text.push_str(text);
        Ok(())
    }

    fn end(&mut self, qname: QName<'_>, here: Here<'_>) -> Result<(), Error> {
        self.flush();
        writeln!(self.lines, "{} end {}", here.position(), name(qname)).unwrap();
        Ok(())
    }

    fn comment(&mut self, text: &str, here: Here<'_>) -> Result<(), Error> {
        self.flush();
        writeln!(self.lines, "{} comment {text:?}", here.position()).unwrap();
        Ok(())
    }

    fn instruction(&mut self, target: &str, data: &str, here: Here<'_>) -> Result<(), Error> {
        self.flush();
        writeln!(self.lines, "{} instruction {target} {data:?}", here.position()).unwrap();
        Ok(())
    }

    fn unparsed_entity(
        &mut self,
        name: &str,
        system: &str,
        public: Option<&str>,
    ) -> Result<(), Error> {
        writeln!(self.lines, "unparsed {name} {system} {public:?}").unwrap();
        Ok(())
    }
}

/// Options with the internal subset.
pub(crate) fn internal() -> Options {
    Options { doctype: Doctype::Internal, ..Options::default() }
}

/// Returns the events of a document in memory, followed by the error.
pub(crate) fn whole(bytes: &[u8], options: &Options) -> String {
    let mut record = Record::default();
    let parsed = xml::parse(bytes, options, &mut record);
    finish(record, parsed)
}

/// Like `whole`, for a document in chunks.
pub(crate) fn chunked<'b>(chunks: impl Iterator<Item = &'b [u8]>, options: &Options) -> String {
    let mut record = Record::default();
    let mut parser = Parser::new(options.clone());
    let mut parsed = Ok(());
    for chunk in chunks {
        parsed = parsed.and_then(|()| parser.feed(chunk, &mut record));
    }
    let parsed = parsed.and_then(|()| parser.finish(&mut record));
    finish(record, parsed)
}

pub(crate) fn finish(mut record: Record, parsed: Result<(), Error>) -> String {
    record.flush();
    if let Err(error) = parsed {
        writeln!(record.lines, "{error} (offset {})", error.at.offset).unwrap();
    }
    record.lines
}

/// Returns the error of a document that has to be refused, parsed whole and byte by byte.
pub(crate) fn refused(bytes: &[u8], options: &Options) -> String {
    let whole = whole(bytes, options);
    assert_eq!(whole, chunked(bytes.chunks(1), options));
    let last = whole.lines().last().unwrap_or_default();
    last.rsplit_once(" (offset").map_or("accepted", |(error, _)| error).to_owned()
}
