//! What documents of one kind begin with: a client of a SOAP service puts the same envelope around each message.
//!
//! Owns the beginnings that were met twice, up to the first element inside the root's first child, with what the tokenizer
//! and the sink were there.

use crate::Parser;
use crate::machine::Open;
use crate::place::Tracker;
use crate::precedent::Recall;
use crate::scope::Spaces;

/// How many are kept, and how long one may be.
const KNOWN_MAX: usize = 4;
const BYTES_MAX: usize = 2048;

#[derive(Debug)]
pub(crate) struct Beginnings<M> {
    known: Vec<Beginning<M>>,
    /// The one that gives way to the next.
    oldest: usize,
    /// How the last document began that began with none of them.
    met: Vec<u8>,
}

#[derive(Debug)]
struct Beginning<M> {
    text: Box<str>,
    state: State,
    memory: M,
}

/// What the tokenizer is between two tokens of the content, where the text before is gone.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) open: Vec<Open>,
    /// Their names.
    pub(crate) names: String,
    pub(crate) spaces: Spaces,
    pub(crate) tracker: Tracker,
    pub(crate) tokens: u64,
    pub(crate) standalone: bool,
}

impl<M> Default for Beginnings<M> {
    fn default() -> Beginnings<M> {
        Beginnings { known: Vec::new(), oldest: 0, met: Vec::new() }
    }
}

impl<M> Beginnings<M> {
    /// Reads a document, from the end of its beginning on where that is known.
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

    /// Where the beginning of a document ends that is like the last one's.
    fn meet(&mut self, bytes: &[u8]) -> Option<usize> {
        let beginning = bytes.get(..end(bytes)?)?;
        if beginning == self.met {
            return Some(beginning.len());
        }
        self.met.clear();
        self.met.extend_from_slice(beginning);
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
            learnt = sink.remember().map(|memory| Beginning { text: text.into(), state, memory });
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

/// Where the third start tag of a document seems to stand; whether it does is for the tokenizer to say.
fn end(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..BYTES_MAX).unwrap_or(bytes);
    let mut tags = memchr::memchr_iter(b'<', head).filter(|at| head.get(at + 1) != Some(&b'?'));
    let third = tags.nth(2)?;
    head.get(third + 1).is_some_and(|next| !matches!(next, b'/' | b'!')).then_some(third)
}
