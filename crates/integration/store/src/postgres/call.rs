//! Commands for the thread: writes, which are batched, and reads.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kit::clock::Instant;

use crate::command::Done;
use crate::{
    Change, CounterValue, Error, Guard, Keep, Lease, LeaseAnswer, ReadQuery, Records, Row, Rows,
    Scan, Span,
};

/// One write. Checks that do not need the database were made before.
#[derive(Debug)]
pub(super) enum Write {
    Append {
        log: String,
        records: Vec<Bytes>,
        guard: Option<Guard>,
        done: Done<RangeInclusive<u64>>,
    },
    /// Removes the records below the position `oldest`. `before` is the number of bytes of the log's records below it.
    Trim {
        log: String,
        oldest: u64,
        before: u64,
        done: Done<()>,
    },
    Change {
        changes: Vec<Change>,
        guard: Option<Guard>,
        done: Done<Vec<u64>>,
    },
    Acquire {
        lease: Arc<str>,
        owner: Arc<str>,
        ttl: Duration,
        until: Instant,
        done: Done<LeaseAnswer>,
    },
    Renew {
        lease: Lease,
        ttl: Duration,
        done: Done<Lease>,
    },
    Release {
        lease: Lease,
        done: Done<()>,
    },
    Add {
        counter: String,
        by: u64,
        limit: u64,
        window: Duration,
        done: Done<CounterValue>,
    },
}

/// The result of a write.
#[derive(Debug)]
pub(super) enum Outcome {
    Nothing,
    Positions(RangeInclusive<u64>),
    Versions(Vec<u64>),
    Acquired(LeaseAnswer),
    Renewed(Lease),
    Counted(CounterValue),
}

impl Write {
    /// Returns the number of bytes of records and rows that the write holds while it waits.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Write::Append { records, .. } => records.iter().map(Bytes::len).sum(),
            Write::Change { changes, .. } => {
                changes.iter().map(|c| c.key.len() + c.value.as_ref().map_or(0, Bytes::len)).sum()
            }
            Write::Trim { .. }
            | Write::Acquire { .. }
            | Write::Renew { .. }
            | Write::Release { .. }
            | Write::Add { .. } => 0,
        }
    }

    /// Answers the caller.
    pub(super) fn answer(self, outcome: Result<Outcome, Error>) {
        // Harmless: a caller that has stopped waiting needs no answer.
        let _ = match (self, outcome) {
            (Write::Append { done, .. }, Ok(Outcome::Positions(told))) => {
                done.send(Ok(told)).is_ok()
            }
            (Write::Change { done, .. }, Ok(Outcome::Versions(told))) => {
                done.send(Ok(told)).is_ok()
            }
            (Write::Acquire { done, .. }, Ok(Outcome::Acquired(told))) => {
                done.send(Ok(told)).is_ok()
            }
            (Write::Renew { done, .. }, Ok(Outcome::Renewed(told))) => done.send(Ok(told)).is_ok(),
            (Write::Add { done, .. }, Ok(Outcome::Counted(told))) => done.send(Ok(told)).is_ok(),
            (Write::Trim { done, .. } | Write::Release { done, .. }, Ok(_)) => {
                done.send(Ok(())).is_ok()
            }
            (write, Err(error)) => write.refuse(error),
            (write, Ok(_)) => {
                debug_assert!(false, "the outcome of another write");
                write.refuse(Error::Corrupt("the outcome of another write".to_owned()))
            }
        };
    }

    fn refuse(self, error: Error) -> bool {
        match self {
            Write::Append { done, .. } => done.send(Err(error)).is_ok(),
            Write::Trim { done, .. } | Write::Release { done, .. } => done.send(Err(error)).is_ok(),
            Write::Change { done, .. } => done.send(Err(error)).is_ok(),
            Write::Acquire { done, .. } => done.send(Err(error)).is_ok(),
            Write::Renew { done, .. } => done.send(Err(error)).is_ok(),
            Write::Add { done, .. } => done.send(Err(error)).is_ok(),
        }
    }
}

/// The names of the rows that a batch needs.
#[derive(Debug, Default)]
pub(super) struct BatchNames<'a> {
    pub(super) logs: BTreeSet<&'a str>,
    pub(super) rows: BTreeSet<(&'a str, &'a [u8])>,
    pub(super) leases: BTreeSet<&'a str>,
    pub(super) counters: BTreeSet<&'a str>,
}

impl<'a> BatchNames<'a> {
    pub(super) fn of(batch: &'a [Write]) -> BatchNames<'a> {
        let mut wanted = BatchNames::default();
        for write in batch {
            wanted.add(write);
        }
        wanted
    }

    fn add(&mut self, write: &'a Write) {
        match write {
            Write::Append { log, guard, .. } => {
                self.logs.insert(log);
                self.leases.extend(guard.as_ref().map(|guard| guard.lease.as_ref()));
            }
            Write::Trim { log, .. } => {
                self.logs.insert(log);
            }
            Write::Change { changes, guard, .. } => {
                self.rows.extend(changes.iter().map(|c| (c.table.as_ref(), c.key.as_slice())));
                self.leases.extend(guard.as_ref().map(|guard| guard.lease.as_ref()));
            }
            Write::Acquire { lease, .. } => {
                self.leases.insert(lease);
            }
            Write::Renew { lease, .. } | Write::Release { lease, .. } => {
                self.leases.insert(&lease.name);
            }
            Write::Add { counter, .. } => {
                self.counters.insert(counter);
            }
        }
    }

    /// Returns true if the batch changes only counters, which need not be durable before the answer.
    pub(super) fn only_counts(&self) -> bool {
        self.logs.is_empty() && self.rows.is_empty() && self.leases.is_empty()
    }
}

/// One read. It has no effect that a caller could see.
#[derive(Debug)]
pub(super) enum ReadCommand {
    Read {
        log: String,
        read: ReadQuery,
        done: Done<Records>,
    },
    Span {
        log: String,
        done: Done<Span>,
    },
    /// Finds the part of a log that exceeds the bounds. The answer is the oldest position to keep, and the bytes before it.
    Beyond {
        log: String,
        keep: Keep,
        done: Done<Option<(u64, u64)>>,
    },
    Get {
        table: String,
        key: Vec<u8>,
        done: Done<Option<Row>>,
    },
    Scan {
        table: String,
        scan: Scan,
        done: Done<Rows>,
    },
    /// Removes the rows of trimmed records.
    Sweep {
        log: String,
    },
}

impl ReadCommand {
    /// Returns true if the caller has stopped waiting.
    pub(super) fn is_over(&self) -> bool {
        match self {
            ReadCommand::Read { done, .. } => done.is_closed(),
            ReadCommand::Span { done, .. } => done.is_closed(),
            ReadCommand::Beyond { done, .. } => done.is_closed(),
            ReadCommand::Get { done, .. } => done.is_closed(),
            ReadCommand::Scan { done, .. } => done.is_closed(),
            ReadCommand::Sweep { .. } => false,
        }
    }

    /// Answers the caller with an error.
    pub(super) fn refuse(self, error: Error) {
        // Harmless: a caller that has stopped waiting needs no answer, and a sweep has no caller.
        let _ = match self {
            ReadCommand::Read { done, .. } => done.send(Err(error)).is_ok(),
            ReadCommand::Span { done, .. } => done.send(Err(error)).is_ok(),
            ReadCommand::Beyond { done, .. } => done.send(Err(error)).is_ok(),
            ReadCommand::Get { done, .. } => done.send(Err(error)).is_ok(),
            ReadCommand::Scan { done, .. } => done.send(Err(error)).is_ok(),
            ReadCommand::Sweep { .. } => true,
        };
    }
}
