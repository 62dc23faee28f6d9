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

/// One write. Checks that do not need the engine were made before.
#[derive(Debug)]
pub(crate) enum Command {
    Append {
        log: String,
        records: Vec<Bytes>,
        guard: Option<Guard>,
        done: Done<RangeInclusive<u64>>,
    },
    /// Removes the records below `oldest`, before which the log has this many bytes of records.
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
    /// Rewrites segments of which little is kept. Rewrites one run of them or, if `all`, every segment with removed
    /// records.
    Compact {
        all: bool,
        done: Done<()>,
    },
}

impl Command {
    /// The bytes that it holds while it waits.
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
