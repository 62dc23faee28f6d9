//! What is wrong with an expression, or went wrong when it ran, and where in its text.

use std::fmt;

/// An expression that cannot be compiled, or that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Bytes of the expression's text before the place.
    pub offset: u32,
}

/// Why an expression cannot be compiled, or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not an expression; says what was found or is missing.
    Syntax(Box<str>),
    /// A prefix that no declaration in scope explains.
    UndeclaredPrefix(Box<str>),
    /// A variable nobody has bound.
    UnknownVariable(Box<str>),
    /// A function neither XPath nor the caller has.
    UnknownFunction(Box<str>),
    /// A function that was given too many or too few arguments.
    Arity {
        /// The function's name.
        function: Box<str>,
        /// How many arguments it was given.
        given: usize,
    },
    /// A value of one type where only another will do; says which.
    Type(Box<str>),
    /// A regular expression that is not one, or needs what cannot be matched in linear time.
    Regex(Box<str>),
    /// A budget is used up: its name in [`crate::Limits`] and its value.
    Limit {
        /// The budget's name.
        name: &'static str,
        /// Its value.
        max: u64,
    },
    /// The caller's own function or variable failed.
    Host(Box<str>),
}

impl ErrorKind {
    /// The error of this kind at a place of the expression's text.
    pub(crate) fn at(self, offset: u32) -> Error {
        Error { kind: self, offset }
    }

    /// Text that is not an expression.
    pub(crate) fn syntax(what: impl Into<Box<str>>) -> ErrorKind {
        ErrorKind::Syntax(what.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {} of the expression)", self.kind, self.offset)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ErrorKind::Syntax(what)
            | ErrorKind::Type(what)
            | ErrorKind::Regex(what)
            | ErrorKind::Host(what) => f.write_str(what),
            ErrorKind::UndeclaredPrefix(prefix) => {
                write!(f, "the prefix `{prefix}` is not declared")
            }
            ErrorKind::UnknownVariable(name) => write!(f, "there is no variable `${name}`"),
            ErrorKind::UnknownFunction(name) => write!(f, "there is no function `{name}()`"),
            ErrorKind::Arity { function, given } => {
                write!(f, "`{function}()` does not take {given} arguments")
            }
            ErrorKind::Limit { name, max } => write!(f, "over the limit {name} of {max}"),
        }
    }
}

impl std::error::Error for Error {}
