//! One queue: where its messages are stored, what processes them, and the position of the processing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use delivery::{Retries, Switch, rows};
use policy::Answerer;
use serde::{Deserialize, Serialize};
use store::nodes::Nodes;
use store::{Change, Error, Expect};

use crate::entrance::Entrance;

/// One queue. It is created with each plan, because its flow belongs to the plan. Its content is in the store.
pub struct Queue {
    pub(crate) settings: QueueSettings,
    pub(crate) entrance: Arc<Entrance>,
    /// The flow that processes the messages.
    pub(crate) flow: Box<dyn Answerer>,
    /// The queue that dead messages are put into, instead of being kept here.
    pub(crate) dead_entrance: Option<Arc<Entrance>>,
    pub(crate) tables: Tables,
    /// Whether a worker is processing the queue. Shared between plans.
    pub(crate) is_taken: Arc<AtomicBool>,
    /// This process among those that share the store. Only one of them processes the queue.
    pub(crate) nodes: Arc<Nodes>,
}

/// The configuration of a queue, with defaults filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueSettings {
    pub retries: Retries,
    pub exhausted: Exhausted,
    /// The statuses of the flow's reply that are failures, as ranges; 500 and above if `None`.
    pub fault_on: Option<Box<[(u16, u16)]>>,
    /// Whether messages that could not be processed are kept.
    pub dead_letter: bool,
    /// The limits on dead messages.
    pub dead: DeadBounds,
    /// Maximum number of messages processed at the same time.
    pub concurrency: usize,
    pub order: Order,
    /// The least time from the first attempt at a message to that at the next one.
    pub interval: Duration,
    /// Whether the queue is paused until an operator resumes it.
    pub is_paused: bool,
}

/// What follows the last attempt at a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    /// The message is dead.
    Dead,
    /// The queue pauses, and the message keeps its place.
    Pause,
}

/// The limits on the dead messages of a queue. Beyond them, the oldest are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeadBounds {
    pub messages_max: u64,
    pub bytes_max: u64,
    pub age_max: Duration,
}

/// The order of processing, which decides whether messages wait for earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// A message starts only when the previous one has ended, by success or as dead.
    Strict,
    /// A message that waits for a retry does not delay later ones.
    Free,
}

pub(crate) struct Tables {
    /// A table with one row: the position of the processing.
    pub(crate) cursor: Arc<str>,
    /// A table with one row while an operator has paused the queue.
    pub(crate) state: Arc<str>,
    /// A table with a row for each message that failed and will be retried: its failures.
    pub(crate) failures: Arc<str>,
    /// A table with a row for each dead message: its description.
    pub(crate) dead: Arc<str>,
    /// A table with a row for each dead message: its record.
    pub(crate) messages: Arc<str>,
}

/// A message that failed for the last time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Dead {
    pub(crate) message: u64,
    pub(crate) attempts: u32,
    /// The failure of the last attempt.
    pub(crate) last: String,
    /// The failures: the first and the most recent ones. Empty if the message died before failures were recorded.
    #[serde(default)]
    pub(crate) failures: Vec<AttemptFailure>,
    /// When the message was stored, in milliseconds since the Unix epoch; 0 if unknown.
    #[serde(default)]
    pub(crate) stored: u64,
    /// When the message became dead, in milliseconds since the Unix epoch; 0 if unknown.
    #[serde(default)]
    pub(crate) died: u64,
    /// Size of the record in bytes.
    #[serde(default)]
    pub(crate) bytes: u64,
    /// When a request began to put it back into the queue, in milliseconds since the Unix epoch; 0 if none did.
    #[serde(default)]
    pub(crate) returning: u64,
}

/// One failed attempt at a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttemptFailure {
    /// The time, in milliseconds since the Unix epoch.
    pub(crate) at: u64,
    pub(crate) fault: String,
}

/// Maximum number of failures kept for a message.
const FAILURES_MAX: usize = 100;
/// Maximum length of the text of a failure.
const FAULT_BYTES_MAX: usize = 500;

/// The key of the row with the position of the processing.
pub(crate) const CURSOR: &[u8] = b"cursor";

/// Adds a failure. If there are too many, keeps the first failure and the most recent ones.
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
        let flow = Box::new(flow);
        Queue { settings, entrance, flow, dead_entrance: None, tables, is_taken, nodes }
    }

    /// Makes dead messages go to another queue.
    pub fn with_dead_entrance(self, dead_entrance: Option<Arc<Entrance>>) -> Queue {
        Queue { dead_entrance, ..self }
    }

    pub fn name(&self) -> &str {
        &self.entrance.name
    }

    /// Returns the changes that make a message dead.
    pub(crate) fn dead_changes(&self, dead: &Dead, record: Bytes) -> [Change; 2] {
        // Harmless: numbers and texts can always be serialised.
        let value = serde_json::to_vec(dead).ok().map(Bytes::from);
        let rows = [(&self.tables.dead, value), (&self.tables.messages, Some(record))];
        rows.map(|(table, value)| {
            let (table, key) = (table.clone(), key(dead.message));
            Change { table, key, value, expect: Expect::Anything }
        })
    }

    /// Returns the changes that delete a dead message.
    pub(crate) fn dead_removal_changes(&self, message: u64) -> [Change; 2] {
        [&self.tables.dead, &self.tables.messages].map(|table| rows::removal(table, &key(message)))
    }

    /// Returns the change that stores or deletes the failures of a message.
    pub(crate) fn failures_change(
        &self,
        message: u64,
        failures: Option<&[AttemptFailure]>,
    ) -> Change {
        // Harmless: numbers and texts can always be serialised.
        let value = failures.and_then(|failures| serde_json::to_vec(failures).ok());
        let table = self.tables.failures.clone();
        Change { table, key: key(message), value: value.map(Bytes::from), expect: Expect::Anything }
    }

    /// Returns the switch by which operators pause the queue.
    pub(crate) fn switch(&self) -> Switch<'_> {
        Switch { store: &*self.entrance.store, table: &self.tables.state }
    }

    /// Returns true if the queue is paused. The last decision counts, by an operator or by the queue after a last attempt; without one,
    /// `paused` of the configuration does.
    pub(crate) async fn is_paused(&self) -> Result<bool, Error> {
        Ok(self.switch().decision().await?.unwrap_or(self.settings.is_paused))
    }

    /// Claims the queue for a worker. Returns `None` if another one has it.
    pub(crate) fn take(&self) -> Option<ProcessingClaim> {
        let was_taken = self.is_taken.swap(true, Ordering::AcqRel);
        (!was_taken).then(|| ProcessingClaim(self.is_taken.clone()))
    }
}

/// Returns the key of the rows of a message: its number, padded so that keys sort like numbers.
pub(crate) fn key(message: u64) -> Vec<u8> {
    format!("{message:020}").into_bytes()
}

/// Returns the number of a message with this id, or `None` if the text is not an id.
pub(crate) fn number(id: &str) -> Option<u64> {
    kit::digits::whole(id)
}

/// The right to process a queue, released when dropped.
pub(crate) struct ProcessingClaim(Arc<AtomicBool>);

impl Drop for ProcessingClaim {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
