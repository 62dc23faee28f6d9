//! What is wrong with a stylesheet or with its run, and where.

use std::fmt;
use std::sync::Arc;

/// A place in a stylesheet. Cheap to copy about: the file's name is shared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct At {
    /// The stylesheet module, as the caller or the resolver named it; empty where it has no name.
    pub file: Arc<str>,
    /// From 1; 0 where there is no place.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

/// A stylesheet that does not compile, or a transformation that did not end well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    pub at: At,
}

/// Why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorKind {
    /// The stylesheet, or a document it asks for, is not well-formed.
    Document(Box<str>),
    /// A rule of XSLT 1.0 about stylesheets is broken: found while compiling.
    Static(Box<str>),
    /// An expression, a pattern or an attribute value template makes no sense.
    Expression(Box<str>),
    /// A rule of XSLT 1.0 was broken in the run, and there is no usual way to go on.
    Dynamic(Box<str>),
    /// The resolver has no such document, or does not give it out.
    Resolve { href: Box<str>, cause: Box<str> },
    /// The stylesheet said `<xsl:message terminate="yes">`; its text.
    Terminated(Box<str>),
    /// A budget of [`crate::Budgets`] or of the compiler is used up: its name and its value.
    Limit { name: &'static str, max: u64 },
}

/// Why there is no result of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// It is no document, or not one that is accepted.
    Source(xml::Error),
    /// The transformation did not end well.
    Run(Error),
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, at: At) -> Error {
        Error { kind, at }
    }

    /// Of the budget `name`.
    pub(crate) fn limit(name: &'static str, max: u64, at: At) -> Error {
        Error { kind: ErrorKind::Limit { name, max }, at }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.file.is_empty() {
            true => write!(f, "{}:{}", self.line, self.column),
            false => write!(f, "{}:{}:{}", self.file, self.line, self.column),
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

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Source(error) => error.fmt(f),
            Failed::Run(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Failed {}
