//! Counts of messages that were parsed into a tape or a tree.
//!
//! The code that parses does not know the exchange. Since a worker is a thread, the thread keeps the count until the worker
//! records its next exchange.

use std::cell::Cell;

/// The format of a parsed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Xml,
}

thread_local! {
    static COUNTS: Cell<Parses> = const { Cell::new([0; Format::ALL.len()]) };
}

/// Counts in the order of [`Format::ALL`].
pub(crate) type Parses = [u64; Format::ALL.len()];

impl Format {
    /// All formats, in the order of their numbers.
    pub const ALL: [Format; 2] = [Format::Json, Format::Xml];

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Xml => "xml",
        }
    }
}

/// Counts one message that this thread parses.
pub fn count(format: Format) {
    let mut counts = COUNTS.get();
    if let Some(count) = counts.get_mut(format as usize) {
        *count += 1;
    }
    COUNTS.set(counts);
}

/// The count of this thread since the last call.
pub(crate) fn take() -> Parses {
    COUNTS.take()
}
