//! The reasons why a message cannot be translated.

use std::fmt;

use crate::wire::WireError;

/// The reason why a message cannot be translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TranslationError {
    /// The input is wrong: the place as a JSON pointer, and what is wrong there.
    Wrong(String),
    /// The output would be larger than allowed.
    TooLarge,
    /// The process has no memory left for messages.
    NoRoom,
}

/// An error on its way out of nested values, which collects their names.
#[derive(Debug)]
pub(crate) enum Error {
    Wrong(Box<Wrong>),
    TooLarge,
    NoRoom,
}

#[derive(Debug)]
pub(crate) struct Wrong {
    /// The names of the values around, the innermost first.
    names: Vec<String>,
    what: String,
}

/// The maximum number of names in a place, so that a deep message does not get a long error.
const NAMES_MAX: usize = 16;

/// The maximum number of characters of a name in a place.
const NAME_MAX: usize = 64;

impl Error {
    #[cold]
    pub(crate) fn wrong(what: impl Into<String>) -> Error {
        Error::Wrong(Box::new(Wrong { names: Vec::new(), what: what.into() }))
    }

    /// Adds the name of the value that contains the wrong one.
    #[cold]
    pub(crate) fn within(mut self, name: &str) -> Error {
        if let Error::Wrong(wrong) = &mut self {
            // Harmless: the end of a long name is cut.
            wrong.names.push(name.chars().take(NAME_MAX).collect());
        }
        self
    }

    #[cold]
    pub(crate) fn within_index(self, index: usize) -> Error {
        self.within(&index.to_string())
    }
}

impl From<WireError> for Error {
    #[cold]
    fn from(_: WireError) -> Error {
        Error::wrong("it is not a message of its type")
    }
}

impl From<Error> for TranslationError {
    fn from(error: Error) -> TranslationError {
        match error {
            Error::Wrong(wrong) => TranslationError::Wrong(wrong.to_string()),
            Error::TooLarge => TranslationError::TooLarge,
            Error::NoRoom => TranslationError::NoRoom,
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.names.is_empty() {
            f.write_str("/")?;
        }
        // Harmless: the inner names of a long place are cut.
        for name in self.names.iter().rev().take(NAMES_MAX) {
            write!(f, "/{}", name.replace('~', "~0").replace('/', "~1"))?;
        }
        if self.names.len() > NAMES_MAX {
            f.write_str("/...")?;
        }
        write!(f, ": {}", self.what)
    }
}
