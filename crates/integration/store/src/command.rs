//! Commands for the engine's thread.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kit::clock::Instant;
use tokio::sync::oneshot;

use crate::{Change, Error, Guard, Lease, LeaseAnswer};

/// The receiver of an answer.
pub(crate) type Done<T> = oneshot::Sender<Result<T, Error>>;

/// One command. Checks that do not need the engine were made before.
#[derive(Debug)]
pub(crate) enum Command {
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
    /// Writes counters that have changed.
    KeepCounters,
    /// Rewrites one run of segments of which little is kept. If `all`, rewrites every segment that is neither open nor damaged.
    Compact {
        all: bool,
        done: Done<()>,
    },
}

impl Command {
    /// Returns the number of bytes of records and rows that the command holds while it waits.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Command::Append { records, .. } => records.iter().map(Bytes::len).sum(),
            Command::Change { changes, .. } => {
                changes.iter().map(|c| c.key.len() + c.value.as_ref().map_or(0, Bytes::len)).sum()
            }
            Command::Trim { .. }
            | Command::Acquire { .. }
            | Command::Renew { .. }
            | Command::Release { .. }
            | Command::KeepCounters
            | Command::Compact { .. } => 0,
        }
    }
}
