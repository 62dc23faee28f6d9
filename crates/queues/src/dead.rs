//! The dead messages of a queue, as its processing keeps them: how many there are, and which have to go.
//!
//! Operators retry and remove them at any time and on any node, so the numbers are counted anew after a change.

use std::time::Duration;

use kit::clock::{self, Instant};
use store::{Change, Error, Guard, Row, Scan, Watch};

use crate::admin::number;
use crate::queue::{Dead, Queue};

/// Rows that are read, or messages that are removed, at once. A removal is two changes of a call, which takes a thousand.
const ROWS_MAX: usize = 400;

/// The shortest time between two counts, and the time that each further thousand adds: a count reads all of them.
const COUNT_EVERY: Duration = Duration::from_secs(1);
const COUNT_EVERY_THOUSAND: Duration = Duration::from_millis(200);

/// The part of a bound, in percent, from which on operators are warned.
const WARN_PERCENT: u64 = 80;

/// What is known of the dead messages of a queue.
pub(crate) struct DeadCount {
    messages: u64,
    bytes: u64,
    /// When the one that is dead for the longest time died, in milliseconds since the Unix epoch.
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

    /// A message has died.
    pub(crate) fn add(&mut self, bytes: u64, died: u64) {
        self.messages = self.messages.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        self.oldest = Some(self.oldest.map_or(died, |oldest| oldest.min(died)));
    }

    /// Counts them if they have changed, removes those beyond the bounds, and tells the metrics.
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
        let mut after = None;
        loop {
            let scan = Scan { prefix: Vec::new(), after, rows_max: ROWS_MAX };
            let found = queue.entrance.store.scan(&queue.tables.dead, scan).await?;
            for dead in found.rows.iter().map(read) {
                messages += 1;
                bytes = bytes.saturating_add(dead.bytes);
                // Of one that died before times were kept nobody knows when.
                if dead.died > 0 {
                    oldest = Some(oldest.map_or(dead.died, |oldest| oldest.min(dead.died)));
                }
            }
            after = found.rows.last().map(|row| row.key.to_vec());
            if !found.more || after.is_none() {
                break;
            }
        }
        (self.messages, self.bytes, self.oldest) = (messages, bytes, oldest);
        self.counted = Some(clock::now());
        Ok(())
    }

    fn is_over(&self, queue: &Queue) -> bool {
        let bounds = &queue.settings.dead;
        let expired = self.oldest.is_some_and(|oldest| is_expired(queue, oldest));
        // The newest stays, however large it is.
        let is_many = self.messages > bounds.messages_max || self.bytes > bounds.bytes_max;
        expired || (is_many && self.messages > 1)
    }

    /// Removes those that are too many or too old, of the oldest first. False if there was none.
    async fn remove_some(&mut self, queue: &Queue, guard: Option<&Guard>) -> Result<bool, Error> {
        let bounds = &queue.settings.dead;
        let mut after = None;
        loop {
            let scan = Scan { prefix: Vec::new(), after, rows_max: ROWS_MAX };
            let found = queue.entrance.store.scan(&queue.tables.dead, scan).await?;
            let (mut messages, mut bytes) = (self.messages, self.bytes);
            let mut changes: Vec<Change> = Vec::new();
            for dead in found.rows.iter().map(read) {
                let is_many = messages > bounds.messages_max || bytes > bounds.bytes_max;
                let why = match (is_many && messages > 1, is_expired(queue, dead.died)) {
                    (true, _) => "there are more than the bounds of `dead` allow",
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
                changes.extend(queue.exhume(dead.message));
            }
            after = found.rows.last().map(|row| row.key.to_vec());
            if !changes.is_empty() {
                let removed = u64::try_from(changes.len() / 2).unwrap_or(u64::MAX);
                queue.entrance.store.change(changes, guard).await?;
                queue.entrance.metrics.dead_removed(removed);
                self.count(queue).await?;
                return Ok(true);
            }
            if !found.more || after.is_none() {
                // Operators were quicker.
                self.count(queue).await?;
                return Ok(false);
            }
        }
    }

    /// Warns once when a bound comes near.
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
                "the dead messages come near to `dead.{near}`; the oldest are removed beyond it"
            );
        }
        self.is_warned = near.is_some();
    }
}

/// True if one that died then is too old. Of one that died before times were kept nobody knows.
fn is_expired(queue: &Queue, died: u64) -> bool {
    died > 0 && now().saturating_sub(died) > millis(queue.settings.dead.age_max)
}

/// A dead message. One whose row cannot be read is known by its key, so that it is counted, shown, put back and removed as well.
pub(crate) fn read(row: &Row) -> Dead {
    serde_json::from_slice(&row.value).unwrap_or_else(|error| {
        // Harmless: the key of a row is a number.
        let message = std::str::from_utf8(&row.key).ok().and_then(number);
        Dead {
            message: message.unwrap_or(0),
            attempts: 0,
            last: format!("what is known of it cannot be read: {error}"),
            failures: Vec::new(),
            stored: 0,
            died: 0,
            bytes: 0,
            returning: 0,
        }
    })
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now() -> u64 {
    millis(clock::wall())
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
