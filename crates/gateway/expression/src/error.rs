//! Errors of compiling a text, and failures of evaluating it.

use std::fmt;

use kit::TextPosition;

/// The error of a text that does not compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The position in the whole text. For a template, that is the position in the template.
    pub at: TextPosition,
}

/// The reason why a text does not compile. The message says what was found, or what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text violates the grammar of its language.
    Syntax(Box<str>),
    /// A name that is not defined in this place.
    UnknownName(Box<str>),
    /// A name that needs a further part, such as `$headers`.
    Group(Box<str>),
    /// A prefix without a declaration.
    UndeclaredPrefix(Box<str>),
    /// A function that the language does not have, or not with these arguments.
    Function(Box<str>),
    /// Incompatible types: a violation of JSONPath's well-typedness, or a text used as a boolean or the other way round.
    Type(Box<str>),
    /// An invalid regular expression.
    Regex(Box<str>),
    /// A placeholder where no value can be inserted safely.
    Misplaced(Box<str>),
    /// A template whose own text violates the grammar of its output.
    Malformed(Box<str>),
    /// The text exceeds a limit of this crate.
    Limit {
        /// The name of the limit.
        name: &'static str,
        /// The value of the limit.
        max: u64,
    },
}

/// The failure of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The position at which the expression begins.
    pub at: TextPosition,
}

/// The reason why an evaluation failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// A limit is exceeded: its name in [`crate::Limits`] and its value.
    Limit {
        /// The name of the limit.
        name: &'static str,
        /// The value of the limit.
        max: u64,
    },
    /// The process has reached `limits.memory`.
    MemoryFull,
    /// A required expression found nothing.
    Missing,
    /// The value contains a character that is not allowed where it is inserted.
    Forbidden {
        /// The character.
        character: char,
        /// The kind of place where the value is inserted.
        place: &'static str,
    },
    /// A path would get an empty segment, `.` or `..`.
    Segment(Box<str>),
    /// The bytes are not UTF-8.
    NotText,
    /// A number that JSON cannot represent: NaN or an infinity.
    NotJson,
    /// A value of a type that the language cannot use there.
    Type(Box<str>),
    /// A message that is malformed according to its content type.
    Malformed(Box<str>),
    /// An error in the expression's own computation, such as a division by zero or a member that CEL does not find.
    Computation(Box<str>),
    /// The scope failed to supply a value.
    Scope(Box<str>),
}

impl ErrorKind {
    /// Returns an error of this kind at a byte offset in a text.
    pub(crate) fn at(self, text: &str, offset: usize) -> Error {
        Error { kind: self, at: TextPosition::of(text, offset) }
    }

    pub(crate) fn syntax(what: impl Into<Box<str>>) -> ErrorKind {
        ErrorKind::Syntax(what.into())
    }
}

impl FailureKind {
    pub(crate) fn at(self, at: TextPosition) -> Failure {
        Failure { kind: self, at }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.kind)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.kind)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::Syntax(what)
            | ErrorKind::Function(what)
            | ErrorKind::Type(what)
            | ErrorKind::Regex(what)
            | ErrorKind::Misplaced(what)
            | ErrorKind::Malformed(what) => f.write_str(what),
            ErrorKind::UnknownName(name) => write!(f, "there is no `{name}`"),
            ErrorKind::Group(name) => {
                write!(f, "`{name}` has several values; name one, as in `{name}.NAME`")
            }
            ErrorKind::UndeclaredPrefix(prefix) => {
                write!(f, "the prefix `{prefix}` is not declared")
            }
            ErrorKind::Limit { name, max } => write!(f, "exceeds the limit of {max} ({name})"),
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureKind::Limit { name, max } => write!(f, "exceeds the limit of {max} ({name})"),
            FailureKind::MemoryFull => {
                f.write_str("no memory is left within `limits.memory` of the process")
            }
            FailureKind::Missing => f.write_str("it is required, but nothing was found"),
            FailureKind::Forbidden { character, place } => {
                write!(f, "the character U+{:04X} is not allowed in {place}", u32::from(*character))
            }
            FailureKind::Segment(segment) => {
                write!(f, "a segment of the path would be `{segment}`")
            }
            FailureKind::NotText => f.write_str("the bytes are not UTF-8 text"),
            FailureKind::NotJson => f.write_str("JSON has no such number"),
            FailureKind::Type(what)
            | FailureKind::Malformed(what)
            | FailureKind::Computation(what)
            | FailureKind::Scope(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}
impl std::error::Error for Failure {}
impl std::error::Error for FailureKind {}
