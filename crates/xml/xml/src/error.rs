//! Errors in a document, with their positions.

use std::fmt;

/// A position in a document, with line and column counted from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// Offset in bytes of the original document, from 0.
    pub offset: u64,
}

/// The reason why a document is refused, and the position of the error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    pub at: Position,
}

/// The reason why a document is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are invalid in the encoding, or the encoding is not supported.
    Encoding(Box<str>),
    /// A rule of XML 1.0 or of Namespaces in XML is violated; the text says which one and what was found.
    Syntax(Box<str>),
    /// The name of an end tag is not that of the open element.
    MismatchedEnd { found: Box<str>, expected: Box<str> },
    /// The document ends within this construct.
    Unfinished(&'static str),
    /// A document type declaration is present but not allowed.
    DoctypeRefused,
    /// A limit of [`crate::Limits`] is exceeded: its name and value.
    Limit { name: &'static str, max: u64 },
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.kind)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::Encoding(what) | ErrorKind::Syntax(what) => f.write_str(what),
            ErrorKind::MismatchedEnd { found, expected } => {
                write!(f, "found `</{found}>`, expected `</{expected}>`")
            }
            ErrorKind::Unfinished(what) => write!(f, "the document ends within {what}"),
            ErrorKind::DoctypeRefused => f.write_str("a DOCTYPE is not allowed here"),
            ErrorKind::Limit { name, max } => write!(f, "over the limit {name} of {max}"),
        }
    }
}

impl std::error::Error for Error {}
