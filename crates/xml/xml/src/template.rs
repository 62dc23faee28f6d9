//! Cache of whole documents that differ only in some texts: a client of a SOAP service sends the same markup again and again, with
//! different values.
//!
//! Stores the markup of documents, with gaps where texts were, and decides which documents are worth caching. The text in a gap must be
//! plain: without references or anything else that the parser would change.

use crate::chars::{first_forbidden, is_space};
use crate::decode::{Encoding, EncodingGuess, sniff};
use crate::recall::Recall;
use crate::{Here, Options, QName, Sink, Start};

/// Maximum number of documents kept.
const KNOWN_MAX: usize = 4;

/// Maximum length of a document.
const BYTES_MAX: usize = 4096;

/// Maximum number of gaps in a document.
const GAPS_MAX: usize = 64;

/// Number of documents that may be learnt without a hit.
const CREDIT_MAX: u32 = 16;

/// When the credit is used up, one document out of this many is learnt. The number is a prime, so that in a fixed cycle of documents it is
/// not always the same document.
const PAUSE: u32 = 61;

#[derive(Debug)]
pub(crate) struct Templates<W, G> {
    /// Documents, the most recently used first.
    known: Vec<Template<W, G>>,
    credit: u32,
    /// Number of documents skipped since one was learnt.
    passed: u32,
    /// Ranges of the texts in the current document.
    texts: Vec<(usize, usize)>,
}

#[derive(Debug)]
struct Template<W, G> {
    /// All pieces of markup, concatenated.
    markup: Box<[u8]>,
    gaps: Box<[Gap<G>]>,
    whole: W,
}

#[derive(Debug)]
struct Gap<G> {
    /// Offset in the markup at which the piece before the gap ends.
    markup_to: usize,
    of: G,
}

impl<W, G> Default for Templates<W, G> {
    fn default() -> Templates<W, G> {
        Templates { known: Vec::new(), credit: CREDIT_MAX, passed: 0, texts: Vec::new() }
    }
}

impl<W, G> Templates<W, G> {
    /// Restores the sink's result for a document whose markup is known. Returns false if the markup is not known.
    pub(crate) fn fill<S: Recall<DocumentState = W, Gap = G>>(
        &mut self,
        bytes: &[u8],
        options: &Options,
        sink: &mut S,
    ) -> bool {
        if bytes.len() > BYTES_MAX || bytes.len() as u64 > options.limits.bytes_max {
            return false;
        }
        let texts = &mut self.texts;
        let Some(at) = self.known.iter().position(|known| known.fits(bytes, texts)) else {
            return false;
        };
        let Some(known) = self.known.get(at) else { return false };
        let text = |&(from, to): &(usize, usize)| {
            // Harmless: `fits` has checked that these ranges are UTF-8.
            bytes.get(from..to).and_then(|text| str::from_utf8(text).ok()).unwrap_or_default()
        };
        let gaps = known.gaps.iter().map(|gap| &gap.of);
        // Harmless: there is one text for each gap.
        if !sink.fill(&known.whole, gaps.zip(texts.iter().map(text))) {
            return false;
        }
        self.credit = (self.credit + 1).min(CREDIT_MAX);
        if let Some(front) = self.known.get_mut(..=at) {
            front.rotate_right(1);
        }
        true
    }

    /// Returns whether to learn a document that is not known.
    pub(crate) fn wants(&mut self, bytes: &[u8]) -> bool {
        if bytes.len() > BYTES_MAX {
            return false;
        }
        if self.credit == 0 && self.passed + 1 < PAUSE {
            self.passed += 1;
            return false;
        }
        if !matches!(sniff(bytes, true), EncodingGuess::Found(Encoding::Utf8, 0)) {
            return false;
        }
        self.passed = 0;
        self.credit = self.credit.saturating_sub(1);
        true
    }

    /// Stores a learnt document, and drops the least recently used one if there are too many.
    pub(crate) fn learn<S: Recall<DocumentState = W, Gap = G>>(
        &mut self,
        learning: Learning<'_, S>,
    ) {
        let Learning { sink, bytes, gaps: Some(found), .. } = learning else { return };
        if found.len() > GAPS_MAX {
            return;
        }
        let Some(whole) = sink.whole() else { return };
        let mut markup = Vec::with_capacity(bytes.len());
        let mut gaps = Vec::with_capacity(found.len());
        let mut from = 0;
        for (text, to, of) in found {
            markup.extend_from_slice(bytes.get(from..text).unwrap_or_default());
            gaps.push(Gap { markup_to: markup.len(), of });
            from = to;
        }
        markup.extend_from_slice(bytes.get(from..).unwrap_or_default());
        // Harmless: a document that is not known is parsed.
        self.known.truncate(KNOWN_MAX - 1);
        self.known.insert(0, Template { markup: markup.into(), gaps: gaps.into(), whole });
    }
}

impl<W, G> Template<W, G> {
    /// Returns whether a document has this markup, and stores the ranges of its texts in `texts`.
    fn fits(&self, bytes: &[u8], texts: &mut Vec<(usize, usize)>) -> bool {
        texts.clear();
        let (mut at, mut from) = (0, 0);
        for gap in &self.gaps {
            let Some(markup) = self.markup.get(from..gap.markup_to) else { return false };
            let Some(rest) = bytes.get(at..).and_then(|rest| rest.strip_prefix(markup)) else {
                return false;
            };
            let Some(len) = text_len(rest) else { return false };
            let text = at + markup.len();
            at = text + len;
            texts.push((text, at));
            from = gap.markup_to;
        }
        bytes.get(at..) == self.markup.get(from..)
    }
}

/// Returns the length of the text before a tag, if the text is plain and not only white space.
fn text_len(bytes: &[u8]) -> Option<usize> {
    // Printable ASCII except `&`, `<` and `>`, and tabs and line feeds.
    let plain =
        |byte: &u8| matches!(byte, b' '..=b'%' | b'\''..=b';' | b'=' | b'?'..=0x7F | b'\t' | b'\n');
    let len = bytes.iter().position(|byte| !plain(byte))?;
    let len = match bytes.get(len) {
        Some(b'<') => len,
        Some(0x80..) => len + other_len(bytes.get(len..)?)?,
        _ => return None,
    };
    let blank = bytes.get(..len)?.iter().all(|byte| is_space(*byte));
    (!blank).then_some(len)
}

/// Like `text_len`, for text beyond ASCII.
fn other_len(bytes: &[u8]) -> Option<usize> {
    let len = memchr::memchr(b'<', bytes)?;
    let text = str::from_utf8(bytes.get(..len)?).ok()?;
    let plain = !text.contains(['&', '>', '\r']) && first_forbidden(text).is_none();
    plain.then_some(len)
}

/// Forwards all events to a sink, and records the texts if the document is to be learnt.
pub(crate) struct Learning<'s, S: Recall> {
    sink: &'s mut S,
    bytes: &'s [u8],
    /// Ranges of texts that may vary, or `None` if nothing is recorded.
    gaps: Option<Vec<(usize, usize, S::Gap)>>,
    last: LastEvent<S::Gap>,
}

/// The last event.
enum LastEvent<G> {
    Start,
    /// Text that is so far the only content of its element.
    Text(usize, usize, G),
    Other,
}

impl<'s, S: Recall> Learning<'s, S> {
    pub(crate) fn new(sink: &'s mut S, bytes: &'s [u8], wanted: bool) -> Learning<'s, S> {
        Learning { sink, bytes, gaps: wanted.then(Vec::new), last: LastEvent::Other }
    }

    #[cold]
    fn note(&self, text: &str, here: Here<'_>) -> Option<LastEvent<S::Gap>> {
        let from = usize::try_from(here.offset()).ok()?;
        let (before, behind) = self.bytes.split_at_checked(from)?;
        let whole = before.last() == Some(&b'>')
            && behind.starts_with(text.as_bytes())
            && text_len(behind) == Some(text.len());
        let gap = whole.then(|| self.sink.gap(text))??;
        Some(LastEvent::Text(from, from + text.len(), gap))
    }
}

impl<S: Recall> Sink for Learning<'_, S> {
    type Error = S::Error;

    #[inline]
    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), S::Error> {
        self.last = LastEvent::Start;
        self.sink.start(start, here)
    }

    #[inline]
    fn text(&mut self, text: &str, cdata: bool, here: Here<'_>) -> Result<(), S::Error> {
        self.sink.text(text, cdata, here)?;
        if self.gaps.is_some() {
            let first = matches!(self.last, LastEvent::Start) && !cdata;
            self.last =
                if first { self.note(text, here) } else { None }.unwrap_or(LastEvent::Other);
        }
        Ok(())
    }

    #[inline]
    fn end(&mut self, name: QName<'_>, here: Here<'_>) -> Result<(), S::Error> {
        if let Some(gaps) = &mut self.gaps
            && let LastEvent::Text(from, to, gap) =
                std::mem::replace(&mut self.last, LastEvent::Other)
        {
            gaps.push((from, to, gap));
        }
        self.sink.end(name, here)
    }

    fn comment(&mut self, text: &str, here: Here<'_>) -> Result<(), S::Error> {
        self.last = LastEvent::Other;
        self.sink.comment(text, here)
    }

    fn instruction(&mut self, target: &str, data: &str, here: Here<'_>) -> Result<(), S::Error> {
        self.last = LastEvent::Other;
        self.sink.instruction(target, data, here)
    }

    fn unparsed_entity(
        &mut self,
        name: &str,
        system: &str,
        public: Option<&str>,
    ) -> Result<(), S::Error> {
        self.sink.unparsed_entity(name, system, public)
    }
}

impl<S: Recall> Recall for Learning<'_, S> {
    type Memory = S::Memory;
    type DocumentState = S::DocumentState;
    type Gap = S::Gap;

    fn remember(&self) -> Option<S::Memory> {
        self.sink.remember()
    }

    fn resume(&mut self, memory: &S::Memory) {
        self.sink.resume(memory);
    }

    fn gap(&self, text: &str) -> Option<S::Gap> {
        self.sink.gap(text)
    }

    fn whole(&mut self) -> Option<S::DocumentState> {
        self.sink.whole()
    }

    fn fill<'t, T>(&mut self, whole: &S::DocumentState, texts: T) -> bool
    where
        T: Iterator<Item = (&'t S::Gap, &'t str)> + Clone,
        S::Gap: 't,
    {
        self.sink.fill(whole, texts)
    }
}
