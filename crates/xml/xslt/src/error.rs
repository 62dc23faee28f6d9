//! Errors of a stylesheet or of a run, with their positions.

use std::fmt;
use std::sync::Arc;

/// A position in a stylesheet. Cheap to clone, because the file name is shared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct At {
    /// The stylesheet module as named by the caller or the resolver; empty if it has no name.
    pub file: Arc<str>,
    /// From 1; 0 if there is no position.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

/// The error of a stylesheet that does not compile, or of a failed transformation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    pub at: At,
}

/// Kind of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorKind {
    /// The stylesheet, or a document that it loads, is not well-formed.
    Document(Box<str>),
    /// A static rule of XSLT 1.0 is violated; detected at compile time.
    Static(Box<str>),
    /// An expression, a pattern or an attribute value template is invalid.
    Expression(Box<str>),
    /// A dynamic rule of XSLT 1.0 is violated, and there is no usual recovery.
    Dynamic(Box<str>),
    /// The resolver does not have the document, or refuses it.
    Resolve { href: Box<str>, cause: Box<str> },
    /// The stylesheet executed `<xsl:message terminate="yes">` with this text.
    Terminated(Box<str>),
    /// A limit of [`crate::Budgets`] or of the compiler is exceeded: its name and value.
    Limit { name: &'static str, max: u64 },
}

/// The reason why transforming a text yields no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransformError {
    /// The text is not a well-formed document, or is refused.
    Source(xml::Error),
    /// The transformation failed.
    Run(Error),
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, at: At) -> Error {
        Error { kind, at }
    }

    /// Makes the error of the budget `name`.
    pub(crate) fn limit(name: &'static str, max: u64, at: At) -> Error {
        Error { kind: ErrorKind::Limit { name, max }, at }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.file.is_empty() {
            write!(f, "{}:{}", self.line, self.column)
        } else {
            write!(f, "{}:{}:{}", self.file, self.line, self.column)
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.line {
            0 => write!(f, "{}", self.kind),
            _ => write!(f, "{}: {}", self.at, self.kind),
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::Document(what)
            | ErrorKind::Static(what)
            | ErrorKind::Expression(what)
            | ErrorKind::Dynamic(what) => f.write_str(what),
            ErrorKind::Resolve { href, cause } => write!(f, "cannot load `{href}`: {cause}"),
            ErrorKind::Terminated(text) => write!(f, "ended by xsl:message: {text}"),
            ErrorKind::Limit { name, max } => write!(f, "over the limit {name} of {max}"),
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for TransformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransformError::Source(error) => error.fmt(f),
            TransformError::Run(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TransformError {}
