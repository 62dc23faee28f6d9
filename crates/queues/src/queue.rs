//! One queue: where its messages are, what processes them, and where that stands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use hub::Retries;
use kit::clock;
use policy::Answerer;
use serde::{Deserialize, Serialize};
use store::nodes::Nodes;
use store::{Change, Error, Expect};

use crate::entrance::Entrance;

/// One queue. It is made anew with each plan, since its flow is; what it holds is in the store.
pub struct Queue {
    pub(crate) settings: QueueSettings,
    pub(crate) entrance: Arc<Entrance>,
    /// The flow that processes its messages.
    pub(crate) flow: Box<dyn Answerer>,
    pub(crate) tables: Tables,
    /// True while a worker processes it, whichever plan's it is.
    pub(crate) is_taken: Arc<AtomicBool>,
    /// This process among those that share the store. One of them processes the queue.
    pub(crate) nodes: Arc<Nodes>,
}

/// The configuration of a queue, with defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueSettings {
    pub retries: Retries,
    /// True if messages that could not be processed are kept.
    pub dead_letter: bool,
    /// How many of them, and for how long.
    pub dead: DeadBounds,
    /// Messages that are processed at once.
    pub concurrency: usize,
    pub order: Order,
}

/// The bounds of the dead messages of a queue. Beyond them the oldest are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadBounds {
    pub messages_max: u64,
    pub bytes_max: u64,
    pub age_max: Duration,
}

/// The order of messages: one may have to wait for those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// A message begins when the one before has ended, well or dead.
    Strict,
    /// One that is tried again does not hold back the others.
    Free,
}

pub(crate) struct Tables {
    /// One row: where the processing stands.
    pub(crate) cursor: Arc<str>,
    /// One row while an operator has paused the queue.
    pub(crate) state: Arc<str>,
    /// A row for each message that has failed and is not over: its failures.
    pub(crate) failures: Arc<str>,
    /// The table with a row for each dead message.
    pub(crate) dead: Arc<str>,
    /// The dead messages themselves.
    pub(crate) messages: Arc<str>,
}

/// The position of the processing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cursor {
    /// Every message up to this one was begun.
    pub(crate) head: u64,
    /// Of those, the ones that have not ended.
    pub(crate) open: Vec<OpenMessage>,
}

/// A message that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenMessage {
    pub(crate) message: u64,
    /// Tries that have failed.
    pub(crate) attempts: u32,
    /// When it is tried again, in milliseconds since the Unix epoch.
    pub(crate) due: u64,
}

/// A message that was given up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Dead {
    pub(crate) message: u64,
    pub(crate) attempts: u32,
    /// Why the last try failed.
    pub(crate) last: String,
    /// The failures, the first and the newest. None of one that died before they were kept.
    #[serde(default)]
    pub(crate) failures: Vec<AttemptFailure>,
    /// When it was put into the queue and when it died, in milliseconds since the Unix epoch; 0 where that is not known.
    #[serde(default)]
    pub(crate) stored: u64,
    #[serde(default)]
    pub(crate) died: u64,
    /// Bytes of its record.
    #[serde(default)]
    pub(crate) bytes: u64,
    /// Since when it is on its way back into the queue, in milliseconds since the Unix epoch; 0 if it is not.
    #[serde(default)]
    pub(crate) returning: u64,
}

/// One failure of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttemptFailure {
    /// In milliseconds since the Unix epoch.
    pub(crate) at: u64,
    pub(crate) fault: String,
}

/// Failures of a message that are kept, and bytes of the text of one.
const FAILURES_MAX: usize = 100;
const FAULT_BYTES_MAX: usize = 500;

/// The key of the row that says where the processing stands.
pub(crate) const CURSOR: &[u8] = b"cursor";

/// The key of the row that is there while the queue is paused.
pub(crate) const PAUSED: &[u8] = b"paused";

/// Adds a failure to those of a message. Of many, the first and the newest stay.
pub(crate) fn note_failure(failures: &mut Vec<AttemptFailure>, at: u64, fault: &str) {
    if failures.len() >= FAILURES_MAX {
        failures.remove(1);
    }
    let end = fault.floor_char_boundary(FAULT_BYTES_MAX);
    let fault = fault.get(..end).unwrap_or_default().to_owned();
    failures.push(AttemptFailure { at, fault });
}

impl Queue {
    pub fn new(
        settings: QueueSettings,
        entrance: Arc<Entrance>,
        flow: impl Answerer + 'static,
        is_taken: Arc<AtomicBool>,
        nodes: Arc<Nodes>,
    ) -> Queue {
        let table = |kind| Arc::from(format!("queue/{}/{kind}", entrance.name));
        let tables = Tables {
            cursor: table("cursor"),
            state: table("state"),
            failures: table("failures"),
            dead: table("dead"),
            messages: table("messages"),
        };
        Queue { settings, entrance, flow: Box::new(flow), tables, is_taken, nodes }
    }

    pub fn name(&self) -> &str {
        &self.entrance.name
    }

    /// The changes that make a message dead.
    pub(crate) fn bury(&self, dead: &Dead, record: Bytes) -> [Change; 2] {
        // Harmless: numbers and texts can always be written.
        let value = serde_json::to_vec(dead).ok().map(Bytes::from);
        let rows = [(&self.tables.dead, value), (&self.tables.messages, Some(record))];
        rows.map(|(table, value)| self.dead_change(table, dead.message, value))
    }

    /// The changes that forget one.
    pub(crate) fn exhume(&self, message: u64) -> [Change; 2] {
        [&self.tables.dead, &self.tables.messages]
            .map(|table| self.dead_change(table, message, None))
    }

    fn dead_change(&self, table: &Arc<str>, message: u64, value: Option<Bytes>) -> Change {
        let (table, key) = (table.clone(), key(message));
        Change { table, key, value, expect: Expect::Anything }
    }

    /// The change that keeps the failures of a message, or forgets them.
    pub(crate) fn failures_change(
        &self,
        message: u64,
        failures: Option<&[AttemptFailure]>,
    ) -> Change {
        // Harmless: the same.
        let value = failures.and_then(|failures| serde_json::to_vec(failures).ok());
        let table = self.tables.failures.clone();
        Change { table, key: key(message), value: value.map(Bytes::from), expect: Expect::Anything }
    }

    /// True if an operator has paused the queue.
    pub(crate) async fn is_paused(&self) -> Result<bool, Error> {
        Ok(self.entrance.store.get(&self.tables.state, PAUSED).await?.is_some())
    }

    /// Takes the queue for a worker, unless another one has it.
    pub(crate) fn take(&self) -> Option<ProcessingClaim> {
        let was_taken = self.is_taken.swap(true, Ordering::AcqRel);
        (!was_taken).then(|| ProcessingClaim(self.is_taken.clone()))
    }
}

/// The key of a dead message: its number, so that keys have the order of the messages.
pub(crate) fn key(message: u64) -> Vec<u8> {
    format!("{message:020}").into_bytes()
}

/// A queue that is processed. It is free again when this is dropped.
pub(crate) struct ProcessingClaim(Arc<AtomicBool>);

impl Drop for ProcessingClaim {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Cursor {
    /// The next message that is due, of those that are not running.
    pub(crate) fn due(&self, retries: &Retries, running: &[u64]) -> Option<u64> {
        let (mut open, now) = (self.open.iter(), clock::wall());
        let due =
            open.find(|open| retries.is_due(open.due, now) && !running.contains(&open.message))?;
        Some(due.message)
    }

    /// When the next is due, of those that are not running.
    pub(crate) fn next_due(&self, running: &[u64]) -> Option<u64> {
        let waiting = self.open.iter().filter(|open| !running.contains(&open.message));
        waiting.map(|open| open.due).min()
    }

    /// The last message that nobody needs any more.
    pub(crate) fn done(&self) -> u64 {
        let oldest = self.open.iter().map(|open| open.message).min();
        oldest.map_or(self.head, |oldest| oldest.saturating_sub(1))
    }
}
