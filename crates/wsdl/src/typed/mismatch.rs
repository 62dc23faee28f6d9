//! Errors of values that do not fit a type, with their place.

use std::fmt;

/// Error of a JSON value that does not fit, or of a message that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Segments of the JSON pointer, the innermost first.
    path: Vec<String>,
    what: String,
    too_large: bool,
    /// Further errors of the same message, in other values.
    more: Vec<Mismatch>,
}

/// The maximum number of errors that are reported for one message.
const TOLD_MAX: usize = 20;

/// The error is boxed: errors are rare, and the path of values that fit stays small.
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

    /// Moves the error one level outwards.
    #[cold]
    pub(super) fn within(mut self: Box<Mismatch>, segment: &str) -> Box<Mismatch> {
        let segment = segment.replace('~', "~0").replace('/', "~1");
        for one in &mut self.more {
            one.path.push(segment.clone());
        }
        self.path.push(segment);
        self
    }

    /// Adds an error of another value. False once there are enough errors: the rest of the message is then not read.
    #[cold]
    fn add(&mut self, other: Mismatch) -> bool {
        let Mismatch { path, what, too_large, more } = other;
        self.too_large |= too_large;
        self.more.push(Mismatch { path, what, too_large, more: Vec::new() });
        self.more.extend(more);
        self.more.len() < TOLD_MAX && !self.too_large
    }

    /// Returns this error and those beside it.
    pub fn all(&self) -> impl Iterator<Item = &Mismatch> {
        // Harmless: the client gets further errors once it has corrected these.
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

    /// True if the message exceeds its size limit.
    pub fn is_too_large(&self) -> bool {
        self.too_large
    }
}

/// The errors in the values of one object or array, which are reported together.
#[derive(Default)]
pub(super) struct Mistakes(Option<Box<Mismatch>>);

impl Mistakes {
    /// Notes the outcome of one value. False once there are enough errors.
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
