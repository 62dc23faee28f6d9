//! A JSON value as schemas see it: the text, with the positions of its parts.
//!
//! Decides what JSON leaves open (RFC 8259, sections 4 and 6). A text with duplicate names in an object is refused: some parsers use the
//! first member and some the last, so the schema could accept one value and the service read the other. Numbers must be in the range of
//! a double, and all their digits are significant.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read};

use json::{Kind, Tape, TapeEntry};
use kit::turns;
use serde::de::IgnoredAny;
use serde_json::{Number, Value};

use crate::parsed::JSON_LIMITS;

/// Objects with at most this many members are searched linearly, which is cheaper than sorting. Most objects are this small.
const SCANNED_MAX: usize = 16;

/// One JSON value to be validated.
#[derive(Debug)]
pub struct Document<'a> {
    pub(super) text: Cow<'a, str>,
    tape: Tape,
    /// Objects with more than `SCANNED_MAX` members, in the order of the tape.
    sorted: Vec<SortedObject>,
    /// The remaining look budget of a validation; see [`Document::look`].
    looks_left: Cell<u32>,
    /// The name of the document as the member of [`WHOLE`].
    number: Cell<u32>,
}

/// The id of a virtual object whose only member is the document.
pub(super) const WHOLE: u32 = u32::MAX - 1;

/// The minimum look budget of a validation. The validator tries all combinations of nested alternatives (`oneOf` of lists of the same
/// `oneOf`), and their number doubles with each level of a document.
const LOOKS_MIN: u32 = 500_000;

/// The look budget that each value of the document adds.
const LOOKS_PER_VALUE: u32 = 50;

/// The reason why a text is not a document. Lines and columns count from 1, columns in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable {
    /// The text is not JSON.
    Malformed { line: usize, column: usize },
    /// The object that begins here has duplicate names.
    Twice { line: usize, column: usize },
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Malformed { line, column } => {
                write!(f, "the body is not JSON: line {line}, column {column}")
            }
            Unreadable::Twice { line, column } => {
                write!(f, "an object has a duplicate member: line {line}, column {column}")
            }
        }
    }
}

impl std::error::Error for Unreadable {}

/// The result of the checks beyond the JSON grammar.
enum DocumentCheck {
    Yes,
    /// A number is out of the range of a double.
    Beyond,
    /// The object at this tape entry has duplicate names.
    Twice(u32),
}

/// An object with its member names sorted.
#[derive(Debug)]
struct SortedObject {
    object: u32,
    /// The tape entries of the names.
    names: Vec<u32>,
}

impl<'a> Document<'a> {
    /// Parses a text.
    pub fn read(bytes: &'a [u8]) -> Result<Document<'a>, Unreadable> {
        let Ok(text) = std::str::from_utf8(bytes) else { return Err(malformed(bytes)) };
        match Tape::read(text, &JSON_LIMITS) {
            Ok(tape) => Document::on(text, tape),
            Err(_) => Err(malformed(bytes)),
        }
    }

    /// Makes a document of a text that has been parsed already.
    pub(crate) fn on(text: &'a str, tape: Tape) -> Result<Document<'a>, Unreadable> {
        let bytes = text.as_bytes();
        match Document::on_tape(text.into(), tape) {
            Ok(document) => Ok(document),
            Err(DocumentCheck::Twice(at)) => {
                let before = bytes.get(..at as usize).unwrap_or_default();
                let lines = before.iter().filter(|byte| **byte == b'\n').count();
                let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
                Err(Unreadable::Twice { line: lines + 1, column: line.len() + 1 })
            }
            Err(DocumentCheck::Yes | DocumentCheck::Beyond) => Err(malformed(bytes)),
        }
    }

    /// Makes a document of JSON that this crate wrote, without duplicate names.
    pub(crate) fn written(text: String) -> Document<'static> {
        // Harmless: JSON that this crate wrote can be parsed.
        let tape = Tape::read(&text, &JSON_LIMITS).ok();
        // Harmless: JSON that this crate wrote is a valid document.
        let made = tape.and_then(|tape| Document::on_tape(text.into(), tape).ok());
        debug_assert!(made.is_some(), "what was written can be read");
        made.unwrap_or_else(|| Document::string(Cow::Borrowed("")))
    }

    /// Makes a document of a string, given without quotes and escapes.
    pub fn string(text: Cow<'a, str>) -> Document<'a> {
        let tape = Tape::of_string(&text);
        let looks_left = Cell::new(LOOKS_MIN);
        Document { text, tape, sorted: Vec::new(), looks_left, number: Cell::new(0) }
    }

    /// If two names are equal, the error has the position of their object in the text.
    fn on_tape(text: Cow<'a, str>, tape: Tape) -> Result<Document<'a>, DocumentCheck> {
        let (looks_left, number) = (Cell::new(0), Cell::new(0));
        let mut document = Document { text, tape, sorted: Vec::new(), looks_left, number };
        match document.settled() {
            DocumentCheck::Yes => Ok(document),
            DocumentCheck::Beyond => Err(DocumentCheck::Beyond),
            DocumentCheck::Twice(at) => Err(DocumentCheck::Twice(document.entry(at).from)),
        }
    }

    /// Runs the checks beyond the grammar: duplicate names, and numbers out of range.
    fn settled(&mut self) -> DocumentCheck {
        let (mut sorted, mut is_bounded) = (Vec::new(), true);
        for (at, entry) in (0_u32..).zip(self.tape.entries()) {
            turns::count_part();
            let settled = match entry.kind {
                Kind::Object if entry.count < 2 => true,
                Kind::Object if entry.count as usize <= SCANNED_MAX => self.names_differ(at),
                Kind::Object => match self.sort(at) {
                    Some(names) => {
                        sorted.push(SortedObject { object: at, names });
                        true
                    }
                    None => false,
                },
                Kind::Number => {
                    is_bounded &= self.is_bounded(*entry);
                    true
                }
                Kind::Null
                | Kind::False
                | Kind::True
                | Kind::Plain
                | Kind::Escaped
                | Kind::Array => true,
            };
            if !settled {
                return DocumentCheck::Twice(at);
            }
        }
        self.sorted = sorted;
        if is_bounded { DocumentCheck::Yes } else { DocumentCheck::Beyond }
    }

    fn is_bounded(&self, entry: TapeEntry) -> bool {
        let text = self.span(entry);
        // Without an exponent, a number needs more than 308 digits to leave the range of a double.
        let small = text.len() <= 300 && !text.bytes().any(|b| matches!(b, b'e' | b'E'));
        small || number(text).is_some()
    }

    fn names_differ(&self, object: u32) -> bool {
        let mut marks = 0;
        for (count, at) in self.names(object).enumerate() {
            let name = self.entry(at);
            let mark = self.mark(name);
            let is_it = |before| self.same(self.entry(before), name);
            // Harmless: each name is compared with the names before it.
            if marks & mark != 0 && self.names(object).take(count).any(is_it) {
                return false;
            }
            marks |= mark;
        }
        true
    }

    /// Returns one of 64 bits for a name, by its length and its first and last byte. Names with different bits are different. For a name
    /// with escapes, all bits are set.
    fn mark(&self, name: TapeEntry) -> u64 {
        if name.kind == Kind::Escaped {
            return u64::MAX;
        }
        let byte = |at: u32| u32::from(self.text.as_bytes().get(at as usize).copied().unwrap_or(0));
        let ends = byte(name.from) * 5 + byte(name.to.saturating_sub(1));
        1 << ((name.to - name.from + ends) % 64)
    }

    fn same(&self, a: TapeEntry, b: TapeEntry) -> bool {
        match (a.kind, b.kind) {
            (Kind::Plain, Kind::Plain) => {
                a.to - a.from == b.to - b.from && self.span(a) == self.span(b)
            }
            _ => self.text_of(a) == self.text_of(b),
        }
    }

    /// Returns the names of an object in sorted order, or `None` if two are equal.
    fn sort(&self, object: u32) -> Option<Vec<u32>> {
        let mut names: Vec<u32> = self.names(object).collect();
        names.sort_unstable_by(|a, b| {
            turns::count_part();
            self.string_at(*a).cmp(&self.string_at(*b))
        });
        let twice = |pair: &[u32]| match pair {
            [a, b] => self.string_at(*a) == self.string_at(*b),
            _ => false,
        };
        (!names.windows(2).any(twice)).then_some(names)
    }

    /// Returns the tape, for the next step that reads the same text.
    pub(crate) fn into_tape(self) -> Tape {
        self.tape
    }

    /// Returns the value of the member with this name.
    pub(super) fn member(&self, object: u32, name: &str) -> Option<u32> {
        if self.entry(object).count as usize <= SCANNED_MAX {
            let is_it = |at: &u32| {
                let entry = self.entry(*at);
                if entry.kind == Kind::Plain {
                    self.span(entry) == name
                } else {
                    self.text_of(entry) == name
                }
            };
            return self.names(object).find(is_it).map(|at| at + 1);
        }
        let found = self.sorted.binary_search_by_key(&object, |sorted| sorted.object).ok()?;
        let names = &self.sorted.get(found)?.names;
        let at = names.binary_search_by(|at| (*self.string_at(*at)).cmp(name)).ok()?;
        names.get(at).map(|at| at + 1)
    }

    /// Returns the entries of an object's names. The entry after a name is its value.
    pub(super) fn names(&self, object: u32) -> impl Iterator<Item = u32> + '_ {
        let (mut at, end) = (object + 1, self.entry(object).next);
        std::iter::from_fn(move || {
            let name = (at < end).then_some(at)?;
            at = self.entry(name + 1).next;
            Some(name)
        })
    }

    #[inline]
    pub(super) fn entry(&self, at: u32) -> TapeEntry {
        self.tape.entries().get(at as usize).copied().unwrap_or_else(|| outside(at))
    }

    /// Returns the name of the document as the member of [`WHOLE`].
    pub(super) fn number(&self) -> u32 {
        self.number.get()
    }

    pub(super) fn set_number(&self, number: u32) {
        self.number.set(number);
    }

    /// Resets the look budget for a validation.
    pub(super) fn allow_looks(&self) {
        let values = u32::try_from(self.tape.entries().len()).unwrap_or(u32::MAX);
        self.looks_left.set(LOOKS_MIN.saturating_add(values.saturating_mul(LOOKS_PER_VALUE)));
    }

    /// Counts one look at a value. Returns false once the budget is spent. From then on every value appears as null and every list as
    /// empty, so that the validation ends; its result is ignored.
    #[inline]
    pub(super) fn look(&self) -> bool {
        let left = self.looks_left.get();
        self.looks_left.set(left.saturating_sub(1));
        if left.is_multiple_of(turns::PARTS) {
            turns::pause_if_due();
        }
        left > 0
    }

    /// Returns true if the look budget is spent.
    pub(super) fn is_spent(&self) -> bool {
        self.looks_left.get() == 0
    }

    #[inline]
    pub(super) fn span(&self, entry: TapeEntry) -> &str {
        self.text.get(entry.from as usize..entry.to as usize).unwrap_or_default()
    }

    pub(super) fn string_at(&self, at: u32) -> Cow<'_, str> {
        self.text_of(self.entry(at))
    }

    /// Returns the text of a string, unescaped.
    #[inline]
    fn text_of(&self, entry: TapeEntry) -> Cow<'_, str> {
        let text = self.span(entry);
        if entry.kind == Kind::Escaped {
            Cow::Owned(json::unescaped(text))
        } else {
            Cow::Borrowed(text)
        }
    }
}

/// Returns a substitute for an entry that is not on the tape.
#[cold]
fn outside(at: u32) -> TapeEntry {
    let (kind, count) = if at == WHOLE { (Kind::Object, 1) } else { (Kind::Null, 0) };
    // The next entry is past the end of any container, so a walk that left the tape stops.
    TapeEntry { kind, from: 0, to: 0, next: u32::MAX, count }
}

/// Finds the position at which `serde_json` stops.
#[cold]
pub(crate) fn malformed(bytes: &[u8]) -> Unreadable {
    let read = if bytes.len() <= SMALL_BYTES {
        serde_json::from_slice::<Value>(bytes).map(drop)
    } else {
        // The values are skipped, so that no tree is built.
        serde_json::from_reader::<_, IgnoredAny>(BufReader::new(Pieces(bytes))).map(drop)
    };
    match read {
        Err(error) => Unreadable::Malformed { line: error.line(), column: error.column() },
        // Either `serde_json` did not detect the error, because in a large text it checks neither the range of numbers nor UTF-8 nor
        // surrogates, or there was no memory for the tape. The text is refused without the real position.
        Ok(()) => Unreadable::Malformed { line: 1, column: 1 },
    }
}

/// Texts up to this size are parsed a second time in much less than a millisecond.
const SMALL_BYTES: usize = 64 << 10;

/// A text that is read in pieces, with pauses between them.
struct Pieces<'a>(&'a [u8]);

impl Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        turns::pause_if_due();
        self.0.read(out)
    }
}

/// Parses a number as `serde_json` does.
pub(super) fn number(text: &str) -> Option<Number> {
    // Fast path for most numbers: 18 digits always fit 64 bits.
    if text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit()) {
        let digits = text.bytes().fold(0, |sum, b| sum * 10 + u64::from(b - b'0'));
        return Some(Number::from(digits));
    }
    // Harmless: a document with a number out of range is refused.
    serde_json::from_str(text).ok()
}
