//! The parser: takes bytes, complete or in chunks, and runs the tokenizer over the decoded text.
//!
//! Owns the unused text and the limit on the size of a document. A partial token stays here until the rest arrives. Each byte is searched
//! only once for the end of the token, so that a token in many chunks does not take quadratic time.

use std::cell::Cell;

use crate::decode::{Decoded, Decoder, Encoding, EncodingGuess, allowed, sniff, valid_utf8};
use crate::machine::{Machine, PrefixState};
use crate::stop::{Halt, Stop};
use crate::window::Window;
use crate::{Error, ErrorKind, Options, Position, Sink};

/// Number of bytes decoded at a time if a complete document is not UTF-8.
const PIECE_BYTES: usize = 16 << 10;

/// Memory beyond this is freed between documents.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// Parses one document after another, and reuses its memory.
#[derive(Debug)]
pub struct Parser {
    machine: Machine,
    decoder: Decoder,
    /// Decoded text that has not been used.
    text: String,
    /// Number of bytes of this document accepted so far.
    taken: u64,
    /// The error located after `text`, or `None`.
    broken: Option<ErrorKind>,
    waiting: TokenSearch,
    /// The error with which the document was refused, or `None`.
    ended: Option<Error>,
    /// Whether the document was read to its end.
    complete: bool,
}

/// State of the search for the end of the first token of the text.
#[derive(Debug, Clone, Copy, Default)]
struct TokenSearch {
    /// Number of bytes of the text that have been searched.
    seen: usize,
    /// The quote that the search is inside, or `None`.
    quote: Option<u8>,
    /// The length at which reading the token is tried again, even if no end was found.
    tried_again_at: usize,
}

/// Parses a whole document. Each thread reuses its parser and the parser's memory.
pub fn parse<S: Sink>(bytes: &[u8], options: &Options, sink: &mut S) -> Result<(), S::Error> {
    parse_known(bytes, None, options, sink)
}

/// Like [`parse`], for bytes that the caller may have validated as UTF-8.
pub(crate) fn parse_known<S: Sink>(
    bytes: &[u8],
    known: Option<&str>,
    options: &Options,
    sink: &mut S,
) -> Result<(), S::Error> {
    thread_local! {
        static SPARE: Cell<Option<Box<Parser>>> = const { Cell::new(None) };
    }
    let mut parser = match SPARE.take() {
        Some(mut spare) => {
            if !spare.has(options) {
                spare.machine.options = options.clone();
            }
            spare
        }
        None => Box::new(Parser::new(options.clone())),
    };
    let parsed = parser.parse_known(bytes, known, sink);
    parser.shrink();
    SPARE.set(Some(parser));
    parsed
}

impl Parser {
    pub fn new(options: Options) -> Parser {
        Parser {
            machine: Machine::new(options),
            decoder: Decoder::new(),
            text: String::new(),
            taken: 0,
            broken: None,
            waiting: TokenSearch::default(),
            ended: None,
            complete: false,
        }
    }

    pub(crate) fn has(&self, options: &Options) -> bool {
        self.machine.options == *options
    }

    /// Discards the current document and prepares for another one.
    pub fn reset(&mut self) {
        self.machine.clear();
        self.decoder.clear();
        self.text.clear();
        self.taken = 0;
        self.broken = None;
        self.waiting = TokenSearch::default();
        self.ended = None;
        self.complete = false;
    }

    /// Parses a whole document, and discards whatever was fed before.
    pub fn parse<S: Sink>(&mut self, bytes: &[u8], sink: &mut S) -> Result<(), S::Error> {
        self.parse_known(bytes, None, sink)
    }

    fn parse_known<S: Sink>(
        &mut self,
        bytes: &[u8],
        known: Option<&str>,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        self.reset();
        match self.at_hand(bytes, known) {
            Some(text) => self.end(text, sink),
            None => {
                for piece in bytes.chunks(PIECE_BYTES) {
                    self.feed(piece, sink)?;
                }
                self.finish(sink)
            }
        }
    }

    /// Parses a document from the offset `from` on, after a known prefix.
    pub(crate) fn parse_rest<S: Sink>(
        &mut self,
        bytes: &[u8],
        from: usize,
        state: &PrefixState,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        self.reset();
        self.machine.restore(state);
        // Only UTF-8 documents have known prefixes, and the prefix contains the declaration.
        let text = self.text_of(bytes, None, from, false);
        self.end(text, sink)
    }

    /// Parses a whole document. Passes the state at `to` to `show` if `to` is between two tokens directly inside the root element's child.
    pub(crate) fn parse_by_way_of<S: Sink>(
        &mut self,
        bytes: &[u8],
        to: usize,
        sink: &mut S,
        show: impl FnOnce(&str, PrefixState, &S),
    ) -> Result<(), S::Error> {
        let plain = matches!(sniff(bytes, true), EncodingGuess::Found(Encoding::Utf8, 0));
        if !plain || bytes.len() as u64 > self.machine.options.limits.bytes_max {
            return self.parse(bytes, sink);
        }
        self.reset();
        let text = self.at_hand(bytes, None).unwrap_or("");
        let beginning = text.get(..to).unwrap_or_default();
        let window = Window { text: beginning, last: false, origin: None };
        let used = match self.machine.run(&window, 0, sink) {
            Ok((used, _)) => used,
            Err(halt) => return Err(self.fail(halt, text)),
        };
        if let Some(state) = self.machine.state(text, to).filter(|_| used == to) {
            show(beginning, state, sink);
        }
        self.end_from(text, used, sink)
    }

    /// Returns the text of a document if it can be borrowed. An error after the text is recorded.
    fn at_hand<'b>(&mut self, bytes: &'b [u8], known: Option<&'b str>) -> Option<&'b str> {
        match sniff(self.within(bytes), true) {
            EncodingGuess::Found(encoding @ (Encoding::Utf8 | Encoding::Ascii), mark) => {
                self.machine.tracker.skip_mark(mark as u64);
                Some(self.text_of(bytes, known, mark, encoding == Encoding::Ascii))
            }
            EncodingGuess::Found(..) | EncodingGuess::Unknown(..) | EncodingGuess::More => None,
        }
    }

    /// Cuts a document at the limit on its size.
    fn within<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let max = self.machine.options.limits.bytes_max;
        bytes.get(..usize::try_from(max).unwrap_or(usize::MAX)).unwrap_or(bytes)
    }

    /// Returns the text of a document from an offset to the first error, which is recorded.
    fn text_of<'b>(
        &mut self,
        bytes: &'b [u8],
        known: Option<&'b str>,
        from: usize,
        ascii: bool,
    ) -> &'b str {
        let within = self.within(bytes);
        let known = known.filter(|known| known.len() == within.len());
        let decoded = match known.and_then(|known| known.get(from..)) {
            Some(text) => Decoded { text, error: None, partial: 0 },
            None => valid_utf8(within.get(from..).unwrap_or_default()),
        };
        let decoded = allowed(decoded, ascii);
        let is_over = bytes.len() > within.len();
        self.broken = decoded.error.or_else(|| self.at_the_end(decoded.partial > 0, is_over));
        decoded.text
    }

    fn at_the_end(&self, half: bool, over: bool) -> Option<ErrorKind> {
        let max = self.machine.options.limits.bytes_max;
        match (over, half) {
            (true, _) => Some(ErrorKind::Limit { name: "bytes_max", max }),
            (false, true) => Some(ErrorKind::Unfinished("a character")),
            (false, false) => None,
        }
    }

    /// Feeds the next bytes of a document and sends the events that they complete. After an error, returns only that error.
    pub fn feed<S: Sink>(&mut self, chunk: &[u8], sink: &mut S) -> Result<(), S::Error> {
        self.check_open()?;
        if self.broken.is_none() {
            self.take(chunk, false);
        }
        if self.broken.is_some() {
            let text = std::mem::take(&mut self.text);
            return self.end(&text, sink);
        }
        if self.is_worth_a_try() { self.run(sink) } else { Ok(()) }
    }

    /// Ends the document, which must be complete.
    pub fn finish<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        self.check_open()?;
        self.take(&[], true);
        if self.broken.is_none() {
            self.broken = self.decoder.end();
        }
        let text = std::mem::take(&mut self.text);
        self.end(&text, sink)
    }

    /// Refuses input after the end of a document.
    fn check_open(&self) -> Result<(), Error> {
        match (&self.ended, self.complete) {
            (Some(error), _) => Err(error.clone()),
            (None, true) => {
                let what = "the document was read to its end: reset the parser for another one";
                Err(Error { kind: ErrorKind::Syntax(what.into()), at: Position::default() })
            }
            (None, false) => Ok(()),
        }
    }

    /// Decodes a chunk and appends it to the text.
    fn take(&mut self, chunk: &[u8], last: bool) {
        let max = self.machine.options.limits.bytes_max;
        let room = usize::try_from(max - self.taken.min(max)).unwrap_or(usize::MAX);
        let within = chunk.get(..room).unwrap_or(chunk);
        self.taken += within.len() as u64;
        let fault = match self.decoder.encoding {
            Some(_) => self.decoder.decode(within, &mut self.text),
            None => match self.decoder.begin(within, last || within.len() < chunk.len()) {
                EncodingGuess::More => None,
                EncodingGuess::Unknown(kind, _) => Some(kind),
                EncodingGuess::Found(encoding, mark) => {
                    self.machine.tracker.width = encoding.width();
                    self.machine.tracker.skip_mark(mark as u64);
                    self.decoder.decode(&[], &mut self.text)
                }
            },
        };
        let over =
            (within.len() < chunk.len()).then_some(ErrorKind::Limit { name: "bytes_max", max });
        self.broken = fault.or(over);
    }

    /// Runs the tokenizer over the text and keeps the unused part.
    fn run<S: Sink>(&mut self, sink: &mut S) -> Result<(), S::Error> {
        let mut text = std::mem::take(&mut self.text);
        let window = Window { text: &text, last: false, origin: None };
        let used = match self.machine.run(&window, 0, sink) {
            Ok((used, _)) => used,
            Err(halt) => return Err(self.fail(halt, &text)),
        };
        self.machine.forget(&text);
        self.machine.tracker.advance(&text, used);
        text.drain(..used);
        let len = text.len();
        self.text = text;
        self.waiting = TokenSearch { tried_again_at: len * 2 + 64, ..TokenSearch::default() };
        Ok(())
    }

    /// Runs the tokenizer over the last part of the text.
    fn end<S: Sink>(&mut self, text: &str, sink: &mut S) -> Result<(), S::Error> {
        self.end_from(text, 0, sink)
    }

    /// Runs the tokenizer over the last part of the text, from an offset between two tokens.
    fn end_from<S: Sink>(&mut self, text: &str, from: usize, sink: &mut S) -> Result<(), S::Error> {
        let window = Window { text, last: true, origin: None };
        let unfinished = match self.machine.run(&window, from, sink) {
            Ok((_, unfinished)) => unfinished,
            Err(halt) => return Err(self.fail(halt, text)),
        };
        let kind = match (self.broken.take(), unfinished) {
            (Some(kind), _) => kind,
            (None, Some(what)) => ErrorKind::Unfinished(what),
            (None, None) => {
                self.complete = true;
                return Ok(());
            }
        };
        Err(self.refuse(kind, text, text.len()))
    }

    #[cold]
    fn fail<E: From<Error>>(&mut self, halt: Halt<E>, text: &str) -> E {
        match halt {
            Halt::Stop(Stop::Bad(bad)) => {
                let (at, kind) = *bad;
                self.refuse(kind, text, at)
            }
            Halt::Stop(Stop::More(what)) => {
                self.refuse(ErrorKind::Unfinished(what), text, text.len())
            }
            Halt::Sink(error) => {
                drop(self.refuse::<Error>(
                    ErrorKind::Syntax("the parse was ended".into()),
                    text,
                    0,
                ));
                error
            }
        }
    }

    /// Ends the document with an error.
    #[cold]
    fn refuse<E: From<Error>>(&mut self, kind: ErrorKind, text: &str, at: usize) -> E {
        let error = Error { kind, at: self.machine.tracker.position(text, at) };
        self.ended = Some(error.clone());
        error.into()
    }

    /// Returns whether the text may now contain a whole token: its end was found, or the text has doubled since the last attempt.
    fn is_worth_a_try(&mut self) -> bool {
        let bytes = self.text.as_bytes();
        let max = self.machine.options.limits.token_bytes_max as usize;
        let short = bytes.len() < 16;
        if short || bytes.len() > max || bytes.len() >= self.waiting.tried_again_at {
            return true;
        }
        match bytes {
            [b'<', b'!', b'-', ..] => self.waiting.find(bytes, b"--"),
            [b'<', b'?', ..] => self.waiting.find(bytes, b"?>"),
            [b'<', ..] => self.waiting.find_unquoted(bytes),
            [b'&' | b'%', ..] => self.waiting.find(bytes, b";"),
            _ => true,
        }
    }

    /// Frees memory that an ordinary document does not need.
    pub(crate) fn shrink(&mut self) {
        self.machine.shrink(KEPT_BYTES_MAX);
        if self.text.capacity() > KEPT_BYTES_MAX {
            self.text = String::new();
        }
    }
}

impl TokenSearch {
    fn find(&mut self, bytes: &[u8], end: &[u8]) -> bool {
        // The first four bytes of the token are not its end. After `--`, one more byte is needed.
        let from = self.seen.saturating_sub(end.len()).max(4);
        self.seen = bytes.len();
        memchr::memmem::find(bytes.get(from..).unwrap_or_default(), end).is_some()
    }

    /// Searches for `>` and `[` outside quotes.
    fn find_unquoted(&mut self, bytes: &[u8]) -> bool {
        let mut at = self.seen;
        self.seen = bytes.len();
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let found = match self.quote {
                Some(quote) => memchr::memchr(quote, rest),
                None => rest.iter().position(|byte| matches!(byte, b'"' | b'\'' | b'>' | b'[')),
            };
            let Some(found) = found else { return false };
            self.quote = match (self.quote, rest.get(found)) {
                (None, Some(b'>' | b'[')) => return true,
                (None, quote) => quote.copied(),
                (Some(_), _) => None,
            };
            at += found + 1;
        }
        false
    }
}
