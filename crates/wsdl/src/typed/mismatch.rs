//! Errors of values that do not fit a type, with their place.

use std::fmt;

/// Error of a JSON value that does not fit, or of a message that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Segments of the JSON pointer, the innermost first.
    path: Vec<String>,
    what: String,
    too_large: bool,
}

/// The error is boxed: errors are rare, and the path of values that fit stays small.
pub(super) type Done<T = ()> = Result<T, Box<Mismatch>>;

impl Mismatch {
    #[cold]
    pub(super) fn new(what: impl Into<String>) -> Box<Mismatch> {
        Box::new(Mismatch { path: Vec::new(), what: what.into(), too_large: false })
    }

    #[cold]
    pub(super) fn large(bytes_max: usize) -> Box<Mismatch> {
        let what = format!("the message would be over {bytes_max} bytes");
        Box::new(Mismatch { path: Vec::new(), what, too_large: true })
    }

    /// Moves the error one level outwards.
    #[cold]
    pub(super) fn within(mut self: Box<Mismatch>, segment: &str) -> Box<Mismatch> {
        self.path.push(segment.replace('~', "~0").replace('/', "~1"));
        self
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

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pointer = self.pointer();
        let pointer = if pointer.is_empty() { "/" } else { pointer.as_str() };
        write!(f, "{pointer}: {}", self.what)
    }
}

impl std::error::Error for Mismatch {}
