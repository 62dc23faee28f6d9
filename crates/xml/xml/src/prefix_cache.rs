//! Cache of prefixes that documents share: a client of a SOAP service puts the same envelope around each message.
//!
//! Stores a prefix that two consecutive documents had in common, up to the first element inside the root element's child. With each prefix
//! it stores the state of the tokenizer and of the sink at its end, so that the next document is parsed from there.

use crate::Parser;
use crate::machine::PrefixState;
use crate::recall::Recall;

/// Maximum number of prefixes kept.
const KNOWN_MAX: usize = 4;

/// Maximum length of a prefix.
const BYTES_MAX: usize = 2048;

/// After this many documents in a row that did not begin like the previous one, only one document in this many is examined.
const STRANGERS_MAX: u32 = 16;

#[derive(Debug)]
pub(crate) struct PrefixCache<M> {
    known: Vec<Prefix<M>>,
    /// Index of the prefix to be replaced next.
    oldest: usize,
    /// Prefix of the last document that was examined and did not begin with a known one.
    met: Vec<u8>,
    /// Number of documents since one last began like the previous one.
    strangers: u32,
}

#[derive(Debug)]
struct Prefix<M> {
    text: Box<str>,
    state: PrefixState,
    memory: M,
}

impl<M> Default for PrefixCache<M> {
    fn default() -> PrefixCache<M> {
        PrefixCache { known: Vec::new(), oldest: 0, met: Vec::new(), strangers: 0 }
    }
}

impl<M> PrefixCache<M> {
    /// Parses a document. If its prefix is known, only parses the rest.
    pub(crate) fn read<S: Recall<Memory = M>>(
        &mut self,
        parser: &mut Parser,
        bytes: &[u8],
        sink: &mut S,
    ) -> Result<(), S::Error> {
        match self.known.iter().find(|known| bytes.starts_with(known.text.as_bytes())) {
            Some(known) => {
                sink.resume(&known.memory);
                parser.parse_rest(bytes, known.text.len(), &known.state, sink)
            }
            None => match self.meet(bytes) {
                Some(to) => self.learn(parser, bytes, to, sink),
                None => parser.parse(bytes, sink),
            },
        }
    }

    /// Returns the length of the prefix if it equals that of the last document examined.
    fn meet(&mut self, bytes: &[u8]) -> Option<usize> {
        if !self.met.is_empty() && bytes.starts_with(&self.met) {
            self.strangers = 0;
            // If a start tag follows, it is the third one in this document too.
            let rest = bytes.get(self.met.len()..);
            let begins = matches!(rest, Some([b'<', next, ..]) if suggests_start_tag(*next));
            return begins.then_some(self.met.len());
        }
        self.met.clear();
        self.strangers = self.strangers.wrapping_add(1);
        if self.strangers < STRANGERS_MAX || self.strangers.is_multiple_of(STRANGERS_MAX) {
            self.met.extend_from_slice(bytes.get(..end(bytes)?)?);
        }
        None
    }

    fn learn<S: Recall<Memory = M>>(
        &mut self,
        parser: &mut Parser,
        bytes: &[u8],
        to: usize,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        let mut learnt = None;
        let parsed = parser.parse_by_way_of(bytes, to, sink, |text, state, sink: &S| {
            learnt = sink.remember().map(|memory| Prefix { text: text.into(), state, memory });
        });
        self.met.clear();
        if let Some(learnt) = learnt {
            match self.known.get_mut(self.oldest) {
                Some(place) => *place = learnt,
                None => self.known.push(learnt),
            }
            self.oldest = (self.oldest + 1) % KNOWN_MAX;
        }
        parsed
    }
}

/// Returns the offset of what looks like the third start tag. The tokenizer verifies that it is one.
fn end(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..BYTES_MAX).unwrap_or(bytes);
    let mut tags = memchr::memchr_iter(b'<', head).filter(|at| head.get(at + 1) != Some(&b'?'));
    let third = tags.nth(2)?;
    head.get(third + 1).is_some_and(|next| suggests_start_tag(*next)).then_some(third)
}

/// Returns whether the byte after `<` suggests a start tag.
fn suggests_start_tag(next: u8) -> bool {
    !matches!(next, b'/' | b'!' | b'?')
}
