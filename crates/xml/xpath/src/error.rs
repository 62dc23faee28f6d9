//! Errors of an expression, when it is compiled or evaluated, with their position in its text.

use std::fmt;

/// The error of an expression that does not compile or cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Kind and details of the error.
    pub kind: ErrorKind,
    /// Byte offset in the expression's text. Often 0 if the error occurs during evaluation.
    pub offset: u32,
}

/// The reason why an expression does not compile or cannot be evaluated.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not an expression; the message names what was found or is missing.
    Syntax(Box<str>),
    /// A prefix that no declaration in scope binds.
    UndeclaredPrefix(Box<str>),
    /// A variable that is not bound.
    UnknownVariable(Box<str>),
    /// A function that neither XPath nor the caller defines.
    UnknownFunction(Box<str>),
    /// A function called with too many or too few arguments.
    Arity {
        /// The function's name.
        function: Box<str>,
        /// The number of arguments given.
        given: usize,
    },
    /// A value of the wrong type; the message names the types.
    Type(Box<str>),
    /// A regular expression that is invalid, or cannot be matched in linear time.
    Regex(Box<str>),
    /// A limit of [`crate::Limits`] or of the compiler is exceeded: its name and value.
    Limit {
        /// The name of the limit.
        name: &'static str,
        /// The value of the limit.
        max: u64,
    },
    /// A function or variable of the caller failed, or the caller refused a call when the expression was compiled.
    Host(Box<str>),
}

impl ErrorKind {
    /// Makes an error of this kind at an offset of the expression's text.
    pub(crate) fn at(self, offset: u32) -> Error {
        Error { kind: self, offset }
    }

    /// Returns the error for a text that violates the grammar.
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
