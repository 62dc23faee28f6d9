//! Results read through their transcripts, compared with the same results parsed.

use proptest::prelude::*;
use xml::Options;
use xslt::{Output, Run, Style, Stylesheet};

use super::documents::DOCUMENTS;
use super::sheets::BODIES;
use super::{compiled, options, placeless, sheet, streamed_sheets};

/// The events of a document from a parser or a transcript: each with its position, with adjacent texts joined.
#[derive(Debug, Default, PartialEq)]
struct EventLog {
    events: Vec<String>,
    text: String,
}

impl EventLog {
    fn tell(&mut self, event: String) {
        if !self.text.is_empty() {
            let text = std::mem::take(&mut self.text);
            self.events.push(text);
        }
        self.events.push(event);
    }
}

impl xml::Sink for EventLog {
    type Error = xml::Error;

    fn start(&mut self, start: &xml::Start<'_>, here: xml::Here<'_>) -> Result<(), xml::Error> {
        let attributes: Vec<_> = start.attributes.iter().collect();
        let declared: Vec<_> = start.scope.declared().collect();
        let mut scope: Vec<_> = start.scope.all().map(|(prefix, of)| (prefix, of.uri)).collect();
        scope.sort_unstable();
        let name = (start.name.prefix, start.name.local, start.name.namespace.uri);
        let attributes: Vec<_> = attributes
            .iter()
            .map(|a| (a.name.prefix, a.name.local, a.name.namespace.uri, a.value))
            .collect();
        let known = start.scope.lookup(start.name.prefix).map(|of| of.id);
        let same = known.unwrap_or_default() == start.name.namespace.id;
        let empty = start.empty;
        self.tell(format!(
            "{here:?} {} {name:?} {attributes:?} {declared:?} {scope:?} {empty} {same}",
            here.offset()
        ));
        Ok(())
    }

    fn text(&mut self, text: &str, _: bool, here: xml::Here<'_>) -> Result<(), xml::Error> {
        if self.text.is_empty() {
            self.text = format!("{here:?} ");
        }
        self.text.push_str(text);
        Ok(())
    }

    fn end(&mut self, name: xml::QName<'_>, here: xml::Here<'_>) -> Result<(), xml::Error> {
        self.tell(format!("{here:?} /{name:?}").replace(&format!("{:?}", name.namespace.id), ""));
        Ok(())
    }

    fn comment(&mut self, text: &str, _: xml::Here<'_>) -> Result<(), xml::Error> {
        self.tell(format!("<!--{text}"));
        Ok(())
    }

    fn instruction(&mut self, of: &str, data: &str, _: xml::Here<'_>) -> Result<(), xml::Error> {
        self.tell(format!("<?{of} {data}"));
        Ok(())
    }
}

/// Returns runs that request transcripts, in all styles.
fn transcribed() -> Vec<Run<'static>> {
    let styles = [Style::Plain, Style::Canonical].into_iter();
    let runs = styles.flat_map(|style| {
        [false, true].map(|strip_empty_namespaces| Run {
            style,
            strip_empty_namespaces,
            transcribe: true,
            ..Run::default()
        })
    });
    runs.collect()
}

/// Checks that the transcript of a result has the events of a parser, and that the next stylesheet has the same result for both. Returns
/// whether there is a transcript.
fn check_transcript(
    sheet: &Stylesheet,
    next: &Stylesheet,
    source: &[u8],
    run: &Run<'_>,
) -> Option<usize> {
    let plain = Run { transcribe: false, style: run.style, ..Run::default() };
    let bare = Run { strip_empty_namespaces: run.strip_empty_namespaces, ..plain };
    let made = sheet.transform_transcribed(source, None, &options(), run);
    let expected = placeless(sheet.transform_bytes(source, &options(), &bare));
    let made = match made {
        Ok((output, transcript)) => {
            assert_eq!(Ok(&output), expected.as_ref());
            (output, transcript)
        }
        Err(error) => {
            assert_eq!(placeless(Err(error)), expected);
            return None;
        }
    };
    let (Output { bytes, .. }, Some(mut transcript)) = made else { return None };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let strict = Options::default();
    let (mut parsed, mut replayed) = (EventLog::default(), EventLog::default());
    xml::parse(&bytes, &strict, &mut parsed).unwrap_or_else(|error| panic!("{error}: {text}"));
    transcript.replay(&bytes, &strict, &mut replayed).unwrap().unwrap();
    assert_eq!(replayed, parsed, "{text}");
    let other = [&bytes[..], b" "].concat();
    assert!(transcript.replay(&other, &strict, &mut replayed).is_none(), "it is of other bytes");
    // Runs twice, the second time with a run that requests a transcript itself.
    for run in [&bare, run] {
        let theirs = placeless(next.transform_bytes(&bytes, &strict, &bare));
        let ours = next.transform_transcribed(&bytes, Some(&mut transcript), &strict, run);
        assert_eq!(placeless(ours.map(|(output, _)| output)), theirs, "{text}");
    }
    Some(parsed.events.len())
}

#[test]
fn transcripts_tell_what_a_parser_does() {
    let sheets = streamed_sheets();
    let (mut with, mut events) = (0, 0);
    for (at, (text, sheet)) in sheets.iter().enumerate() {
        let (_, next) = &sheets[(at + 1) % sheets.len()];
        for source in DOCUMENTS {
            for run in transcribed() {
                // The first runs find an empty cache, and the later ones may not.
                let fresh = compiled(text);
                if let Some(told) = check_transcript(&fresh, next, source.as_bytes(), &run) {
                    with += 1;
                    events += told;
                }
                check_transcript(sheet, next, source.as_bytes(), &run);
            }
        }
    }
    assert!(with > 500 && events > 5000, "{with} {events}");
}

#[test]
fn what_is_not_written_as_it_is_meant_has_no_transcript() {
    let copy = compiled(&sheet(BODIES[0]));
    let run = Run { transcribe: true, style: Style::Canonical, ..Run::default() };
    let has = |source: &str| {
        let made = copy.transform_transcribed(source.as_bytes(), None, &options(), &run);
        made.unwrap().1.is_some()
    };
    let deep = |depth: usize| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
    let wide = |many: usize| {
        let attributes = (0..many).map(|at| format!(" a{at}='1'"));
        format!("<a>{}</a>", attributes.map(|a| format!("<b{a}/>")).collect::<String>())
    };
    for (source, expected) in [
        ("<a b='c'>d<e/></a>".to_owned(), true),
        ("<a>\u{e9}</a>".to_owned(), true),
        ("<a>&lt;</a>".to_owned(), false),
        ("<a>]]&gt;</a>".to_owned(), false),
        ("<a>&#13;</a>".to_owned(), false),
        ("<a b='&quot;'/>".to_owned(), false),
        ("<a b='&#10;'/>".to_owned(), false),
        ("<a xmlns:p='u&amp;v'/>".to_owned(), false),
        ("<a><!--b--></a>".to_owned(), false),
        ("<!--b--><a/>".to_owned(), false),
        ("<a/><?b c?>".to_owned(), false),
        ("<a><![CDATA[b]]></a>".to_owned(), true),
        (deep(64), true),
        (deep(65), false),
        (wide(256), true),
        (wide(257), false),
        (format!("<a>{}</a>", "b".repeat((64 << 10) - 60)), true),
        (format!("<a>{}</a>", "b".repeat(64 << 10)), false),
        (format!("<a>{}</a>", "<b/>".repeat(1000)), true),
        (format!("<a>{}</a>", "<b/>".repeat(1100)), false),
        (format!("<{}/>", "a".repeat(256)), true),
        (format!("<{}/>", "a".repeat(257)), false),
    ] {
        assert_eq!(has(&source), expected, "{}", source.get(..source.len().min(99)).unwrap());
    }
}

#[test]
fn a_transcript_is_for_the_budgets_that_it_keeps() {
    let copy = compiled(&sheet(BODIES[0]));
    let run = Run { transcribe: true, style: Style::Canonical, ..Run::default() };
    let (Output { bytes, .. }, transcript) =
        copy.transform_transcribed(b"<a/>", None, &options(), &run).unwrap();
    let mut transcript = transcript.unwrap();
    let mut told = EventLog::default();
    let mut options = Options::default();
    assert!(transcript.replay(&bytes, &options, &mut told).is_some());
    options.limits.depth_max = 63;
    assert!(transcript.replay(&bytes, &options, &mut told).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// For any document with a transcript, the transcript has the same events as a parser.
    #[test]
    fn transcripts_of_any_document(
        names in prop::collection::vec(prop::sample::select(vec!["a", "b", "p:b", "q:c", "p:Envelope"]), 1..12),
        texts in prop::collection::vec("[a-c<>&\" \r\n\u{e9}]{0,6}", 12),
        spaces in prop::collection::vec(prop::sample::select(vec!["", " xmlns='urn:p'", " xmlns=''", " xmlns:p='urn:q'", " xmlns:q='urn:p' c='d'", " p:x='1' y='\n'"]), 12),
    ) {
        let mut source = String::from("<r xmlns:p='urn:p' xmlns:q='urn:q'>");
        let mut open = Vec::new();
        for ((name, text), space) in names.iter().zip(&texts).zip(&spaces) {
            source.push_str(&format!("<{name}{space}>"));
            source.push_str(&text.replace('&', "&amp;").replace('<', "&lt;"));
            open.push(name);
            if text.len() % 2 == 1 {
                source.push_str(&format!("</{}>", open.pop().unwrap()));
            }
        }
        while let Some(name) = open.pop() {
            source.push_str(&format!("</{name}>"));
        }
        source.push_str("</r>");
        let sheets = [BODIES[0], BODIES[1], BODIES[2]].map(|body| compiled(&sheet(body)));
        for run in transcribed() {
            for (at, sheet) in sheets.iter().enumerate() {
                check_transcript(sheet, &sheets[(at + 1) % 3], source.as_bytes(), &run);
            }
        }
    }
}
