//! The reasons why the tokenizer stops.

use crate::ErrorKind;

/// Reason why a token could not be read.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The window ends inside this construct.
    More(&'static str),
    /// The document is wrong at this offset in the window.
    Bad(Box<(usize, ErrorKind)>),
}

/// Reason why a run ends.
pub(crate) enum Halt<E> {
    Stop(Stop),
    /// The sink returned an error.
    Sink(E),
}

pub(crate) type Scan<T> = Result<T, Stop>;
pub(crate) type Run<T, E> = Result<T, Halt<E>>;

impl<E> From<Stop> for Halt<E> {
    fn from(stop: Stop) -> Halt<E> {
        Halt::Stop(stop)
    }
}

/// Returns the error of a rule violated at `at`.
#[cold]
pub(crate) fn bad(at: usize, what: impl Into<Box<str>>) -> Stop {
    Stop::Bad(Box::new((at, ErrorKind::Syntax(what.into()))))
}

/// Returns the error of a limit exceeded at `at`.
#[cold]
pub(crate) fn over(at: usize, name: &'static str, max: impl Into<u64>) -> Stop {
    Stop::Bad(Box::new((at, ErrorKind::Limit { name, max: max.into() })))
}
