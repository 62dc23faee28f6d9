//! Errors of values that do not match a type, with their position.

use std::fmt;

/// The error of a JSON value that does not match its type, or of a message that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Segments of the JSON pointer, innermost first.
    path: Vec<String>,
    what: String,
    too_large: bool,
    /// Errors of other values in the same message.
    more: Vec<Mismatch>,
}

/// Maximum number of errors reported for one message.
const TOLD_MAX: usize = 20;

/// The error is boxed, because errors are rare and the result of a valid value should be small.
pub(super) type Done<T = ()> = Result<T, Box<Mismatch>>;

impl Mismatch {
    #[cold]
    pub(super) fn new(what: impl Into<String>) -> Box<Mismatch> {
        Box::new(Mismatch {
            path: Vec::new(),
            what: what.into(),
            too_large: false,
            more: Vec::new(),
        })
    }

    #[cold]
    pub(super) fn large(bytes_max: usize) -> Box<Mismatch> {
        let mut large = Mismatch::new(format!("the message would be over {bytes_max} bytes"));
        large.too_large = true;
        large
    }

    /// Moves the error one level outwards, by adding a segment to its pointer.
    #[cold]
    pub(super) fn within(mut self: Box<Mismatch>, segment: &str) -> Box<Mismatch> {
        let segment = segment.replace('~', "~0").replace('/', "~1");
        for one in &mut self.more {
            one.path.push(segment.clone());
        }
        self.path.push(segment);
        self
    }

    /// Adds the error of another value. Returns false once there are enough errors, so that the rest of the message is not read.
    #[cold]
    fn add(&mut self, other: Mismatch) -> bool {
        let Mismatch { path, what, too_large, more } = other;
        self.too_large |= too_large;
        self.more.push(Mismatch { path, what, too_large, more: Vec::new() });
        self.more.extend(more);
        self.more.len() < TOLD_MAX && !self.too_large
    }

    /// Returns this error and the others of the message.
    pub fn all(&self) -> impl Iterator<Item = &Mismatch> {
        // Harmless: the client sees further errors after correcting these.
        std::iter::once(self).chain(&self.more).take(TOLD_MAX)
    }

    /// Returns the JSON pointer (RFC 6901) of the value; empty for the whole document.
    pub fn pointer(&self) -> String {
        self.path.iter().rev().fold(String::new(), |pointer, segment| pointer + "/" + segment)
    }

    /// Returns what was expected, and what was found.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Returns true if the message exceeds its size limit.
    pub fn is_too_large(&self) -> bool {
        self.too_large
    }
}

/// Collects the errors in the values of one object or array, so that they are reported together.
#[derive(Default)]
pub(super) struct Mistakes(Option<Box<Mismatch>>);

impl Mistakes {
    /// Records the result of one value. Returns false once there are enough errors.
    pub(super) fn note(&mut self, done: Done) -> bool {
        let Err(wrong) = done else { return true };
        match &mut self.0 {
            Some(known) => known.add(*wrong),
            None => {
                let goes_on = !wrong.too_large;
                self.0 = Some(wrong);
                goes_on
            }
        }
    }

    pub(super) fn done(self) -> Done {
        self.0.map_or(Ok(()), Err)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pointer = self.pointer();
        let pointer = if pointer.is_empty() { "/" } else { pointer.as_str() };
        write!(f, "{pointer}: {}", self.what)
    }
}

impl std::error::Error for Mismatch {}
