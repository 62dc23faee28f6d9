//! Errors of a text when it is compiled, and failures when it runs.

use std::fmt;

use kit::TextPosition;

/// A text that does not compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The place in the whole text: of a template in the template.
    pub at: TextPosition,
}

/// The reason why a text does not compile. The texts say what was found, or what to write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The grammar of the language is broken.
    Syntax(Box<str>),
    /// A name that nothing has where the text stands.
    UnknownName(Box<str>),
    /// A name that only says which names follow, as `$headers`.
    Group(Box<str>),
    /// A prefix that no declaration explains.
    UndeclaredPrefix(Box<str>),
    /// A function that the language does not have, or has with other arguments.
    Function(Box<str>),
    /// Types that do not go together: JSONPath's well-typedness, and uses of a text or a truth as the other.
    Type(Box<str>),
    /// A regular expression that is none.
    Regex(Box<str>),
    /// A placeholder where nothing can be put in safely.
    Misplaced(Box<str>),
    /// A template whose own text breaks the grammar of its output.
    Malformed(Box<str>),
    /// The text is over a limit of this crate.
    Limit {
        /// The limit's name.
        name: &'static str,
        /// Its value.
        max: u64,
    },
}

/// The failure of an expression or template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The expression: its beginning in its text.
    pub at: TextPosition,
}

/// The reason why a run of an expression or template failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// A budget is used up: its name in [`crate::Limits`] and its value.
    Limit {
        /// The budget's name.
        name: &'static str,
        /// Its value.
        max: u64,
    },
    /// Nothing was found where something is required.
    Missing,
    /// A character that must not stand where the value goes.
    Forbidden {
        /// The character.
        character: char,
        /// The place for which it was meant.
        place: &'static str,
    },
    /// A path would have a segment that is empty or climbs.
    Segment(Box<str>),
    /// Bytes that are not UTF-8 text.
    NotText,
    /// A number that JSON cannot write: NaN or an infinity.
    NotJson,
    /// A value of a type with which the language can do nothing there.
    Type(Box<str>),
    /// A message that breaks the format of its content type.
    Malformed(Box<str>),
    /// The expression's own computation: a division by zero, a member that CEL does not find.
    Computation(Box<str>),
    /// The scope failed to give a value.
    Scope(Box<str>),
}

impl ErrorKind {
    /// The error of this kind at a byte of a text.
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
                write!(f, "`{name}` is several values; name one, as in `{name}.NAME`")
            }
            ErrorKind::UndeclaredPrefix(prefix) => {
                write!(f, "the prefix `{prefix}` is not declared")
            }
            ErrorKind::Limit { name, max } => write!(f, "over the limit {name} of {max}"),
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureKind::Limit { name, max } => write!(f, "over the limit {name} of {max}"),
            FailureKind::Missing => f.write_str("it is required, and nothing was found"),
            FailureKind::Forbidden { character, place } => {
                write!(f, "the character U+{:04X} cannot stand in {place}", u32::from(*character))
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
