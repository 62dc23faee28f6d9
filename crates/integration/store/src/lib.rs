//! The durable store: logs, tables, leases and counters behind one small contract.
//!
//! Owns the contract, [`Store`] with its four parts, and what implements it. It never learns what a record or a row means, and
//! knows nothing of gateways. A call enters through one of the traits; it leaves as an [`Answer`], a future that any thread may
//! wait for.
//!
//! What holds for every implementation, and is tested by one suite (`tests/suite`):
//!
//! - A call begins when it is made. Dropping its answer does not undo it.
//! - `Ok` of a write means durable: it would survive a crash now. Nothing can be read before it is durable.
//! - [`Error::Away`] and [`Error::Unknown`] of a write leave open whether it happened; every other error says that it did not.
//! - A write with a [`Guard`] happens only while nobody else has been given the guard's lease.
//! - No write waits for room: where a queue is full, it fails with [`Error::Busy`]. Callers have deadlines of their own.

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

/// A store. Names of logs, tables, leases and counters are texts of up to [`limits::NAME_BYTES_MAX`] bytes; each of the four kinds
/// has names of its own. Nothing has to be created: a log, table or counter that was never written is empty.
pub trait Store: Logs + Tables + Leases + Counters + fmt::Debug + Send + Sync {}

impl<T: Logs + Tables + Leases + Counters + fmt::Debug + Send + Sync> Store for T {}

/// Lists of records, to which one only appends.
///
/// Positions begin at 1, grow strictly in each log, and are never used twice, whatever is trimmed and however often the store
/// is opened. Records become readable in the order of their positions: a reader that has seen a position never finds a lower
/// one later. Positions may be left out.
pub trait Logs {
    /// Appends records, all or none, at positions that follow one another, and answers when they are durable.
    fn append(
        &self,
        log: &str,
        records: Vec<Bytes>,
        guard: Option<&Guard>,
    ) -> Answer<std::ops::RangeInclusive<u64>>;

    /// Reads records behind a position. `after: 0` begins with the oldest that is kept; otherwise, if a record behind `after` was
    /// trimmed, the answer is [`Error::Trimmed`]. Behind the newest there is nothing yet: see [`Logs::follow`].
    fn read(&self, log: &str, read: ReadQuery) -> Answer<Records>;

    /// The content of a log.
    fn span(&self, log: &str) -> Answer<Span>;

    /// Forgets the oldest records beyond what is to be kept, at once, and answers with what is left. Call it often: it costs
    /// little where there is nothing to forget.
    fn trim(&self, log: &str, keep: Keep) -> Answer<Span>;

    /// Wakes up after records were appended to a log, by whichever node.
    fn follow(&self, log: &str) -> Watch;
}

/// Tables of rows, in the order of the bytes of their keys.
pub trait Tables {
    /// The row with a key.
    fn get(&self, table: &str, key: &[u8]) -> Answer<Option<Row>>;

    /// Rows whose keys begin with a prefix, behind a key, in order.
    fn scan(&self, table: &str, scan: Scan) -> Answer<Rows>;

    /// Makes changes, to any tables, all or none, and answers with the version of each row written (of a deletion the version of
    /// the change). If one of them expects something else than is there, the answer is [`Error::Conflict`].
    fn change(&self, changes: Vec<Change>, guard: Option<&Guard>) -> Answer<Vec<u64>>;

    /// Wakes up after a change to a table, by whichever node.
    fn watch(&self, table: &str) -> Watch;
}

/// Leases: one owner at a time, for a time.
pub trait Leases {
    /// Takes a lease if it is free or has run out. Its token is greater than every earlier one of that name. Who holds it
    /// already is told [`LeaseAnswer::Held`] as well: one renews.
    fn acquire(&self, lease: &str, owner: &str, ttl: Duration) -> Answer<LeaseAnswer>;

    /// Prolongs a lease, also one that has run out, unless somebody else took it: then the answer is [`Error::Fenced`].
    fn renew(&self, lease: &Lease, ttl: Duration) -> Answer<Lease>;

    /// Gives a lease back, so that the next owner need not wait until it runs out. Its guard holds no longer. A lease that was
    /// lost is left alone.
    fn release(&self, lease: &Lease) -> Answer<()>;
}

/// Counts that several nodes share. They outlive a restart; a crash may lose what was counted in its last seconds.
pub trait Counters {
    /// Adds to a counter, unless it would pass the limit. Its window begins with the first addition and lasts `window`; then it
    /// begins again at zero. `by: 0` only looks.
    fn add(&self, counter: &str, by: u64, limit: u64, window: Duration) -> Answer<CounterValue>;
}

/// The records to read of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadQuery {
    /// The position behind which to begin.
    pub after: u64,
    /// At most so many records.
    pub records_max: usize,
    /// At most so many bytes of records. The first record is given whatever its size.
    pub bytes_max: usize,
}

impl ReadQuery {
    /// A batch of ordinary size behind a position.
    pub fn after(after: u64) -> ReadQuery {
        ReadQuery { after, records_max: 1000, bytes_max: 1 << 20 }
    }
}

/// A batch of a log's records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records {
    pub records: Vec<Record>,
    /// The position of the log's newest record, 0 if it never had one. The batch is short of it where its bounds were met.
    pub newest: u64,
}

/// One record of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub position: u64,
    /// When it was appended, as time since the Unix epoch in whole milliseconds. It never falls from one record to the next.
    pub time: Duration,
    pub bytes: Bytes,
}

/// The content of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The position of the oldest record that is kept, or the lowest that the next may get where none is.
    pub oldest: u64,
    /// The position of the newest record there ever was, 0 if none.
    pub newest: u64,
    /// The bytes of all records that are kept.
    pub bytes: u64,
}

/// The bounds for trimming a log. A record stays if all of them allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keep {
    /// Only what is behind this position.
    pub after: Option<u64>,
    /// Only what is younger.
    pub age: Option<Duration>,
    /// Only the newest records that together have at most so many bytes.
    pub bytes: Option<u64>,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub key: Bytes,
    pub value: Bytes,
    /// Grows with each change and is never the same again, not even for a row that was deleted in between.
    pub version: u64,
}

/// The rows to read of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scan {
    /// The prefix of the keys.
    pub prefix: Vec<u8>,
    /// The key behind which to begin; none for the first.
    pub after: Option<Vec<u8>>,
    /// At most so many rows; of large ones fewer come at once.
    pub rows_max: usize,
}

/// Rows of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    pub rows: Vec<Row>,
    /// True if there are more behind the last.
    pub more: bool,
}

/// One change of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub table: Arc<str>,
    pub key: Vec<u8>,
    /// The new value, or none to delete the row. Deleting what is not there is no mistake.
    pub value: Option<Bytes>,
    pub expect: Expect,
}

/// The row that a change expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Anything,
    /// No row.
    Nothing,
    /// The row in this version.
    Version(u64),
}

/// The answer to a wish for a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseAnswer {
    Yours(Lease),
    /// Somebody holds it. `left` is how long at least, unless it is given back.
    Held {
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
    /// Until then nobody else gets it, by this process's clock. The time was taken before the store was asked.
    pub until: Instant,
}

impl Lease {
    /// The guard that makes a write depend on this lease.
    pub fn guard(&self) -> Guard {
        Guard { lease: self.name.clone(), token: self.token }
    }
}

/// The condition that a lease has not been given to anybody else.
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
    /// False if the addition would have passed the limit, and was not made.
    pub granted: bool,
    /// The length of the window.
    pub left: Duration,
}
