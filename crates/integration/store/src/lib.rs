//! The durable store: the contract of logs, tables, leases and counters, and its implementations.
//!
//! Owns the contract, [`Store`] with its four parts, and the implementations. It does not interpret records and rows, and does
//! not depend on other parts of the gateway. Each call is a method of one of the traits and returns an [`Answer`], a future that
//! may be awaited on any thread.
//!
//! Rules for every implementation, tested by one suite (`tests/suite`):
//!
//! - A call starts when it is made, even if its answer is never polled. Dropping the answer does not undo the call.
//! - If a write returns `Ok`, it is durable: it survives a crash. Nothing can be read before it is durable.
//! - If a write fails with [`Error::Unavailable`] or [`Error::OutcomeUnknown`], it may have happened. With any other error, it did not.
//! - A write with a [`Guard`] happens only if no other owner has been given the guard's lease.
//! - No write waits for space in a queue. If the queue is full, the write fails with [`Error::Busy`]. Callers have
//!   deadlines of their own.

#![forbid(unsafe_code)]

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kit::clock::Instant;

mod call_queue;
mod clock_history;
mod command;
mod compaction;
mod counters;
pub mod disk;
mod embedded;
mod engine;
mod error;
mod frame;
mod handover;
mod index;
pub mod inspect;
mod lazy;
pub mod limits;
mod link;
mod measures;
mod memory;
pub mod nodes;
mod overlay;
mod postgres;
mod queue;
mod reader;
mod recovery;
mod reserve;
mod segment;
mod segment_use;
#[cfg(test)]
mod simulation;
mod split;
mod tables;
mod watch;

pub use embedded::Embedded;
pub use engine::Tuning;
pub use error::Error;
pub use lazy::{LazyStore, StoreLocation};
pub use measures::{MeasuredValues, SYNC_BOUNDS};
pub use memory::{Faults, Memory};
pub use postgres::{Database, Postgres};
pub use recovery::RecoveryReport;
pub use split::SplitStore;
pub use watch::{Subject, Watch, Watches};

/// The result of a call: a future that may be awaited on any thread and borrows nothing.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// A store. Names of logs, tables, leases and counters are strings of up to [`limits::NAME_BYTES_MAX`] bytes. Each of the four kinds
/// has its own set of names. Nothing has to be created: a log, table or counter that was never written is empty.
pub trait Store: Logs + Tables + Leases + Counters + fmt::Debug + Send + Sync {}

impl<T: Logs + Tables + Leases + Counters + fmt::Debug + Send + Sync> Store for T {}

/// Append-only lists of records.
///
/// Positions begin at 1, increase strictly in each log, and are never reused, even after trimming and after the store was
/// opened again. Records become readable in the order of their positions: a reader that has seen a position never finds a
/// lower one later. Positions may be skipped.
pub trait Logs {
    /// Appends all records or none, at consecutive positions, and answers when they are durable.
    fn append(
        &self,
        log: &str,
        records: Vec<Bytes>,
        guard: Option<&Guard>,
    ) -> Answer<std::ops::RangeInclusive<u64>>;

    /// Reads records after a position. `after: 0` begins with the oldest record. Otherwise, if a record after `after` was
    /// trimmed, the answer is [`Error::Trimmed`]. The result is empty after the newest record: see [`Logs::follow`].
    fn read(&self, log: &str, read: ReadQuery) -> Answer<Records>;

    /// Returns the positions and the size of a log's records.
    fn span(&self, log: &str) -> Answer<Span>;

    /// Removes the oldest records beyond the bounds, and returns the remaining span. The call is cheap if there is nothing to
    /// remove, so it may be made often.
    fn trim(&self, log: &str, keep: Keep) -> Answer<Span>;

    /// Returns a watch that wakes up after records were appended to a log, on any node.
    fn follow(&self, log: &str) -> Watch;
}

/// Tables of rows, in the order of the bytes of their keys.
pub trait Tables {
    /// Returns the row with a key.
    fn get(&self, table: &str, key: &[u8]) -> Answer<Option<Row>>;

    /// Returns the rows whose keys begin with `scan.prefix` and follow `scan.after`, in the order of their keys.
    fn scan(&self, table: &str, scan: Scan) -> Answer<Rows>;

    /// Makes all changes or none, in any tables. Returns the version of each written row; for a deletion, the version of the
    /// change. If a row differs from the one a change expects, the answer is [`Error::Conflict`].
    fn change(&self, changes: Vec<Change>, guard: Option<&Guard>) -> Answer<Vec<u64>>;

    /// Returns a watch that wakes up after a change of a table, on any node.
    fn watch(&self, table: &str) -> Watch;
}

/// Leases. Each has at most one owner at a time, and expires unless its owner renews it.
pub trait Leases {
    /// Takes a lease if it is free or has expired. Its token is greater than all earlier tokens of the lease. The current
    /// owner also gets [`LeaseAnswer::HeldByOther`], since it should renew instead.
    fn acquire(&self, lease: &str, owner: &str, ttl: Duration) -> Answer<LeaseAnswer>;

    /// Extends a lease, even if it has expired. If another owner has taken it, the answer is [`Error::Fenced`].
    fn renew(&self, lease: &Lease, ttl: Duration) -> Answer<Lease>;

    /// Releases a lease before it expires. Writes with its guard then fail. If another owner has taken the lease, nothing changes.
    fn release(&self, lease: &Lease) -> Answer<()>;
}

/// Counters that several nodes share. They survive a restart; a crash may lose the counts of the last seconds.
pub trait Counters {
    /// Adds to a counter, unless the sum would exceed the limit. The counter's window begins with the first addition and lasts
    /// `window`; then the counter restarts at zero. `by: 0` only reads the counter.
    fn add(&self, counter: &str, by: u64, limit: u64, window: Duration) -> Answer<CounterValue>;
}

/// The records to read of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadQuery {
    /// The position after which to begin.
    pub after: u64,
    /// The maximum number of records.
    pub records_max: usize,
    /// The maximum number of bytes. The first record is returned whatever its size.
    pub bytes_max: usize,
}

impl ReadQuery {
    /// Returns a query for a batch of the usual size after a position.
    pub fn after(after: u64) -> ReadQuery {
        ReadQuery { after, records_max: 1000, bytes_max: 1 << 20 }
    }
}

/// A batch of a log's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records {
    pub records: Vec<Record>,
    /// The position of the log's newest record, or 0 if it never had one. The batch ends before it if a limit was reached.
    pub newest: u64,
}

/// One record of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub position: u64,
    /// The time when the record was appended, since the Unix epoch, in whole milliseconds. It never decreases from one record
    /// to the next.
    pub time: Duration,
    pub bytes: Bytes,
}

/// The positions and the size of a log's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The position of the oldest record that is kept. If there are no records, the lowest position that the next record may
    /// get.
    pub oldest: u64,
    /// The position of the newest record that ever existed, or 0.
    pub newest: u64,
    /// The bytes of all records that are kept.
    pub bytes: u64,
}

/// The bounds for trimming a log. A record stays if all of them allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keep {
    /// Keep only records after this position.
    pub after: Option<u64>,
    /// Keep only younger records.
    pub age: Option<Duration>,
    /// Keep only the newest records, up to this many bytes in total.
    pub bytes: Option<u64>,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub key: Bytes,
    pub value: Bytes,
    /// Increases with each change, and is never reused, even for a row that was deleted in between.
    pub version: u64,
}

/// The rows to read of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scan {
    /// The prefix of the keys.
    pub prefix: Vec<u8>,
    /// The key after which to begin, or none for the first.
    pub after: Option<Vec<u8>>,
    /// The maximum number of rows. If rows are large, fewer are returned.
    pub rows_max: usize,
}

/// Rows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    pub rows: Vec<Row>,
    /// True if there are more rows.
    pub more: bool,
}

/// One change of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub table: Arc<str>,
    pub key: Vec<u8>,
    /// The new value, or none to delete the row. Deleting a row that does not exist is not an error.
    pub value: Option<Bytes>,
    pub expect: Expect,
}

/// The row that a change expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Anything,
    /// No row.
    Nothing,
    /// A row with this version.
    Version(u64),
}

/// The answer to a request for a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseAnswer {
    Acquired(Lease),
    /// Another owner holds the lease, for at least `left` unless that owner releases it.
    HeldByOther {
        owner: Arc<str>,
        left: Duration,
    },
}

/// A lease that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub name: Arc<str>,
    pub owner: Arc<str>,
    /// The fencing token.
    pub token: u64,
    /// No other owner gets the lease before this time of this process's clock. It is computed from the time before the call, so it
    /// is never too late.
    pub until: Instant,
}

impl Lease {
    /// The guard that makes a write depend on this lease.
    pub fn guard(&self) -> Guard {
        Guard { lease: self.name.clone(), token: self.token }
    }
}

/// The condition that no other owner has been given a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    pub lease: Arc<str>,
    pub token: u64,
}

/// A counter after an addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterValue {
    /// The sum in this window.
    pub total: u64,
    /// False if the addition would have exceeded the limit and was not made.
    pub granted: bool,
    /// The remaining time of the window.
    pub remaining: Duration,
}
