//! Statements of flows in databases: PostgreSQL by a bounded pool of connections, SQLite beside the workers.
//!
//! Owns the pools, the mapping of values both ways, and the bounds of a statement: its time, its rows, their bytes. Values are only
//! ever arguments; no text is put together from them. It never decides what a failure means for a message. A statement enters by
//! [`Database::run`] and leaves as an [`Answer`], JSON, or as a [`Failure`].
//!
//! A connection lives on the worker that opened it, and all workers send it statements. Who waits may go: then the statement is
//! cancelled at the server, and its place in the pool is free once that is done.

#![forbid(unsafe_code)]

mod address;
mod arguments;
mod numeric;
mod placeholders;
mod pool;
pub mod postgres;
mod rehearsal;
mod secure;
mod sqlite;
mod times;
mod values;

use std::fmt;
use std::sync::Arc;

use kit::clock::Instant;

pub use address::{Address, AddressError, SqliteMode, TlsMode};
pub use arguments::Argument;
pub use placeholders::{Fault, placeholders};
pub use pool::{Database, DatabaseSettings};
pub use sqlite::syntax_of_sqlite;

/// A statement, with `$1`, `$2` and so on for its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Statement(pub Arc<str>);

/// The bounds of one statement.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// It is cancelled then, and nobody waits longer. The wait for a connection counts.
    pub deadline: Instant,
    pub rows_max: usize,
    /// Bytes of all rows as JSON.
    pub bytes_max: usize,
}

/// The outcome of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// An array of objects, as JSON.
    Rows(String),
    /// The statement has no rows; this many were changed.
    Affected(u64),
}

/// The reason why there is no answer. The texts are for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The database cannot be reached, or the connection was lost.
    Away(String),
    /// All connections are in use, and too many wait for one, or one waited too long.
    Busy(String),
    /// It was cancelled, since its time was over.
    Late,
    /// The database refuses the statement or its arguments, or the answer has a type without a form in JSON.
    Refused(String),
    /// The answer is over a bound.
    TooMuch(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Away(why) => write!(f, "the database is away: {why}"),
            Failure::Busy(why) => f.write_str(why),
            Failure::Late => f.write_str("the statement was cancelled: it took too long"),
            Failure::Refused(why) => f.write_str(why),
            Failure::TooMuch(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Failure {}
