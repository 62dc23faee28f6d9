//! SQL statements for flows: PostgreSQL and MySQL through bounded pools of connections, SQLite on separate threads.
//!
//! Owns the pools, the conversion of values in both directions, and the limits on a statement: its time, its rows, their size. Values are
//! only ever passed as arguments; statements are never assembled from them. It does not decide what a failure means for a message. A
//! statement enters through [`Database::run`] or [`Transaction::run`] and leaves as an [`Answer`] in JSON or as a [`Failure`].
//!
//! A connection lives on the worker that opened it, and all workers send it statements. A caller may stop waiting: the statement is then
//! cancelled at the server, and its slot in the pool is released once that is done.

#![forbid(unsafe_code)]

mod address;
mod arguments;
mod binary;
mod connections;
mod mysql;
mod numeric;
mod placeholders;
mod pool;
pub mod postgres;
mod rehearsal;
mod secure;
mod sqlite;
mod times;
mod transaction;
mod values;

use std::fmt;
use std::sync::Arc;

use kit::clock::Instant;

pub use address::{Address, AddressError, MySqlAddress, SqliteMode, TlsMode};
pub use arguments::Argument;
pub use placeholders::{Dialect, Fault, placeholders};
pub use pool::{Database, DatabaseSettings};
pub use sqlite::syntax_of_sqlite;
pub use transaction::Transaction;

/// A statement, with `$1`, `$2` and so on for its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Statement(pub Arc<str>);

/// The limits on one statement.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// When the statement is cancelled and the wait ends. Waiting for a connection counts.
    pub deadline: Instant,
    pub rows_max: usize,
    /// Maximum size of all rows as JSON.
    pub bytes_max: usize,
}

/// The result of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The rows, as a JSON array of objects.
    Rows(String),
    /// The statement returns no rows.
    Affected {
        /// The number of rows changed.
        count: u64,
        /// The first number that MySQL generated for the rows, if it reports one.
        key: Option<u64>,
    },
}

/// The reason why a statement failed. The texts are for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The database cannot be reached, or the connection was lost.
    Unavailable(String),
    /// All connections are in use, and the queue for them is full or the wait was too long.
    Busy(String),
    /// The deadline passed, and the statement was cancelled.
    Late,
    /// The database refused the statement or its arguments, or the result has a type that JSON cannot represent.
    Refused(String),
    /// The result exceeds a limit.
    TooLarge(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unavailable(why) => write!(f, "the database is not available: {why}"),
            Failure::Busy(why) => f.write_str(why),
            Failure::Late => f.write_str("the statement was cancelled: it took too long"),
            Failure::Refused(why) => f.write_str(why),
            Failure::TooLarge(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Failure {}
