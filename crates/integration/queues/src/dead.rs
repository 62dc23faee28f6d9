//! The dead messages of a queue, as the worker that processes it tracks them: their number, and which have to be removed.
//!
//! Operators may retry and remove dead messages at any time and on any node, so they are counted again after a change.

use std::time::Duration;

use delivery::rows::Rows;
use kit::clock::{self, Instant, millis};
use store::{Change, Error, Guard, Row, Watch};

use crate::queue::{Dead, Queue, number};

/// Number of rows read, or of messages removed, at once. Removing a message takes two changes, and the store accepts a thousand per call.
const ROWS_MAX: usize = 400;

/// Minimum time between two counts of few messages. A count reads all rows.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// The time that each thousand messages adds to [`COUNT_EVERY`].
const COUNT_EVERY_THOUSAND: Duration = Duration::from_millis(200);

/// Percentage of a limit above which a warning is logged.
const WARN_PERCENT: u64 = 80;

/// What is known about the dead messages of a queue.
pub(crate) struct DeadCount {
    messages: u64,
    bytes: u64,
    /// When the oldest dead message died, in milliseconds since the Unix epoch.
    oldest: Option<u64>,
    changes: Watch,
    counted: Option<Instant>,
    is_warned: bool,
}

impl DeadCount {
    pub(crate) fn of(queue: &Queue) -> DeadCount {
        let changes = queue.entrance.store.watch(&queue.tables.dead);
        DeadCount { messages: 0, bytes: 0, oldest: None, changes, counted: None, is_warned: false }
    }

    /// Records that a message has died.
    pub(crate) fn add(&mut self, bytes: u64, died: u64) {
        self.messages = self.messages.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.oldest = Some(self.oldest.map_or(died, |oldest| oldest.min(died)));
    }

    /// Counts the messages if they have changed, removes those beyond the limits, and updates the metrics.
    pub(crate) async fn keep(&mut self, queue: &Queue, guard: Option<&Guard>) -> Result<(), Error> {
        if self.is_count_due() {
            self.count(queue).await?;
        }
        while self.is_over(queue) {
            if !self.remove_some(queue, guard).await? {
                break;
            }
        }
        self.warn(queue);
        let age = self.oldest.map_or(0, |oldest| now().saturating_sub(oldest) / 1000);
        queue.entrance.metrics.set_dead(self.messages, self.bytes, age);
        Ok(())
    }

    fn is_count_due(&mut self) -> bool {
        let Some(counted) = self.counted else { return true };
        let thousands = u32::try_from(self.messages / 1000).unwrap_or(u32::MAX);
        let every = COUNT_EVERY.saturating_add(COUNT_EVERY_THOUSAND.saturating_mul(thousands));
        counted.elapsed() >= every && self.changes.has_changed()
    }

    async fn count(&mut self, queue: &Queue) -> Result<(), Error> {
        let (mut messages, mut bytes, mut oldest) = (0, 0_u64, None::<u64>);
        let mut rows = Rows::new(&*queue.entrance.store, &queue.tables.dead, ROWS_MAX);
        while let Some(some) = rows.next().await? {
            for dead in some.iter().map(read) {
                messages += 1;
                bytes = bytes.saturating_add(dead.bytes);
                // For a message that died before times were recorded, the time is unknown.
                if dead.died > 0 {
                    oldest = Some(oldest.map_or(dead.died, |oldest| oldest.min(dead.died)));
                }
            }
        }
        (self.messages, self.bytes, self.oldest) = (messages, bytes, oldest);
        self.counted = Some(clock::now());
        Ok(())
    }

    fn is_over(&self, queue: &Queue) -> bool {
        let bounds = &queue.settings.dead;
        let expired = self.oldest.is_some_and(|oldest| is_expired(queue, oldest));
        // The newest message is kept, however large it is.
        let is_many = self.messages > bounds.messages_max || self.bytes > bounds.bytes_max;
        expired || (is_many && self.messages > 1)
    }

    /// Removes messages beyond the limits, in the order of their ids. Returns false if there were none.
    async fn remove_some(&mut self, queue: &Queue, guard: Option<&Guard>) -> Result<bool, Error> {
        let bounds = &queue.settings.dead;
        let mut rows = Rows::new(&*queue.entrance.store, &queue.tables.dead, ROWS_MAX);
        while let Some(some) = rows.next().await? {
            let (mut messages, mut bytes) = (self.messages, self.bytes);
            let mut changes: Vec<Change> = Vec::new();
            for dead in some.iter().map(read) {
                let is_many = messages > bounds.messages_max || bytes > bounds.bytes_max;
                let why = match (is_many && messages > 1, is_expired(queue, dead.died)) {
                    (true, _) => "the dead messages exceed `dead.messages_max` or `dead.bytes_max`",
                    (false, true) => "it is older than `dead.age_max`",
                    (false, false) => continue,
                };
                (messages, bytes) = (messages.saturating_sub(1), bytes.saturating_sub(dead.bytes));
                tracing::warn!(
                    queue = queue.name(),
                    id = dead.message,
                    last = dead.last,
                    "a dead message was removed: {why}"
                );
                changes.extend(queue.dead_removal_changes(dead.message));
            }
            if !changes.is_empty() {
                let removed = u64::try_from(changes.len() / 2).unwrap_or(u64::MAX);
                queue.entrance.store.change(changes, guard).await?;
                queue.entrance.metrics.dead_removed(removed);
                self.count(queue).await?;
                return Ok(true);
            }
        }
        // Operators have removed the excess messages meanwhile.
        self.count(queue).await?;
        Ok(false)
    }

    /// Warns once when a limit is nearly reached.
    fn warn(&mut self, queue: &Queue) {
        let bounds = &queue.settings.dead;
        let is_near = |count: u64, max: u64| count >= max.saturating_mul(WARN_PERCENT) / 100;
        let age_max = millis(bounds.age_max);
        let near = match self.oldest {
            None => None,
            Some(_) if is_near(self.messages, bounds.messages_max) => Some("messages_max"),
            Some(_) if is_near(self.bytes, bounds.bytes_max) => Some("bytes_max"),
            Some(oldest) if is_near(now().saturating_sub(oldest), age_max) => Some("age_max"),
            Some(_) => None,
        };
        if let Some(near) = near.filter(|_| !self.is_warned) {
            tracing::warn!(
                queue = queue.name(),
                messages = self.messages,
                bytes = self.bytes,
                "the dead messages are close to `dead.{near}`; beyond it the oldest are removed"
            );
        }
        self.is_warned = near.is_some();
    }
}

/// Returns true if a message that died at this time is too old. Messages without a recorded time do not expire.
fn is_expired(queue: &Queue, died: u64) -> bool {
    died > 0 && now().saturating_sub(died) > millis(queue.settings.dead.age_max)
}

/// Parses a dead message. If the row cannot be parsed, returns a message with only the id from its key, so that operators can see it and
/// remove it.
pub(crate) fn read(row: &Row) -> Dead {
    serde_json::from_slice(&row.value).unwrap_or_else(|error| {
        // Harmless: the key of a row is a number.
        let message = std::str::from_utf8(&row.key).ok().and_then(number);
        Dead {
            message: message.unwrap_or(0),
            attempts: 0,
            last: format!("the row of this message cannot be read: {error}"),
            failures: Vec::new(),
            stored: 0,
            died: 0,
            bytes: 0,
            returning: 0,
        }
    })
}

/// Returns milliseconds since the Unix epoch.
pub(crate) fn now() -> u64 {
    millis(clock::wall())
}
