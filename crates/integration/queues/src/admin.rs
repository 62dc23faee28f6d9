//! The operators' view of a queue, and the changes that they make. The content of messages is in [`views`](crate::views).

use bytes::Bytes;
use delivery::Cursor;
use delivery::rows::{self, Rows};
use serde_json::{Value, json};
use store::{Change, Error, Expect, Row, Scan, limits, nodes};

use crate::dead::{now, read};
use crate::queue::{Dead, Queue, Tables, key, number};

/// The reason why an action was not carried out.
#[derive(Debug)]
pub enum ActionError {
    /// There is no such message.
    Unknown,
    /// The message cannot be put back. Contains the text for the operator.
    Conflict(&'static str),
    Store(Error),
}

/// The result of putting dead messages back.
#[derive(Debug, Clone, Copy, Default)]
struct PutBack {
    retried: usize,
    /// Number of messages that stay dead because their record is missing.
    left: usize,
}

impl PutBack {
    fn add(&mut self, more: PutBack) {
        self.retried += more.retried;
        self.left += more.left;
    }
}

impl From<Error> for ActionError {
    fn from(error: Error) -> ActionError {
        ActionError::Store(error)
    }
}

const RETURNING: ActionError = ActionError::Conflict(
    "Another request is putting this message back, or has failed to do so less than 10 seconds ago.",
);
const NO_RECORD: ActionError =
    ActionError::Conflict("The record of this dead message is missing. It can only be deleted.");

/// Time after which an unfinished attempt to put a dead message back is considered aborted, so that another may start.
const RETURNING_MAX_MS: u64 = 10_000;

/// Number of entries on one page.
const PAGE: usize = 100;
/// Maximum size of the messages put back at once. A larger message is put back alone.
const BATCH_BYTES: usize = limits::WRITE_BYTES_MAX - limits::RECORD_BYTES_MAX;
/// Maximum number of dead messages that are counted.
const COUNTED_MAX: usize = 100_000;

impl Queue {
    /// Returns the state of the queue in numbers: its depth, its dead messages, and its owner if there are several nodes.
    pub async fn view(&self) -> Result<Value, ActionError> {
        let entrance = &self.entrance;
        let cursor: Cursor = self.cursor().await?;
        let span = entrance.store.span(&entrance.log).await?;
        let open = u64::try_from(cursor.open.len()).unwrap_or(u64::MAX);
        let depth = span.newest.saturating_sub(cursor.head).saturating_add(open);
        let dead = rows::count(&*entrance.store, &self.tables.dead, COUNTED_MAX).await?;
        let mut view = json!({ "name": self.name(), "depth": depth, "dead": dead });
        if let (true, Some(view)) = (self.is_paused().await?, view.as_object_mut()) {
            view.insert("paused".to_owned(), json!(true));
        }
        if let (false, Some(view)) = (self.nodes.is_single(), view.as_object_mut()) {
            let owner = self.nodes.owner(nodes::partition(self.name()));
            view.insert("node".to_owned(), json!(owner));
        }
        Ok(view)
    }

    /// Returns a page of the dead messages, in the order of their ids. It begins after the message with the id `after`.
    pub async fn dead(&self, after: Option<&str>) -> Result<Value, ActionError> {
        let after = after.map(|after| number(after).ok_or(ActionError::Unknown)).transpose()?;
        let after = after.map(key);
        let scan = Scan { prefix: Vec::new(), after, rows_max: PAGE };
        let found = self.entrance.store.scan(&self.tables.dead, scan).await?;
        let dead = found.rows.iter().map(read).map(|dead| {
            json!({ "id": dead.message.to_string(), "attempts": dead.attempts, "last": dead.last })
        });
        let dead: Vec<Value> = dead.collect();
        let last = found.rows.last().map(read).filter(|_| found.more);
        let next = last.map(|dead| dead.message.to_string());
        Ok(json!({ "dead": dead, "next": next }))
    }

    /// Puts a dead message back at the end of the queue, with a full set of attempts.
    pub async fn retry_dead(&self, id: &str) -> Result<(), ActionError> {
        let message = number(id).ok_or(ActionError::Unknown)?;
        let row = self.entrance.store.get(&self.tables.dead, &key(message)).await?;
        let row = row.ok_or(ActionError::Unknown)?;
        match self.put_back(&[row]).await? {
            PutBack { retried: 0, left: 0 } => Err(RETURNING),
            PutBack { retried: 0, .. } => Err(NO_RECORD),
            PutBack { .. } => Ok(()),
        }
    }

    /// Puts all dead messages back, in order, and returns how many. A message that becomes dead meanwhile stays dead.
    pub async fn retry_all_dead(&self) -> Result<Value, ActionError> {
        let store = &*self.entrance.store;
        let last = rows::last_key(store, &self.tables.dead).await?;
        let (mut rows, mut all) = (Rows::new(store, &self.tables.dead, PAGE), PutBack::default());
        while let Some(some) = rows.next().await? {
            // Harmless: messages with greater ids became dead after the call began, so they stay dead.
            let now = some.iter().take_while(|row| Some(&row.key) <= last.as_ref());
            let (mut batch, mut bytes) = (Vec::new(), 0);
            for row in now {
                let size = usize::try_from(read(row).bytes).unwrap_or(usize::MAX);
                if size > BATCH_BYTES.saturating_sub(bytes) && !batch.is_empty() {
                    all.add(self.put_back(&std::mem::take(&mut batch)).await?);
                    bytes = 0;
                }
                bytes = bytes.saturating_add(size);
                batch.push(row.clone());
            }
            if batch.is_empty() {
                break;
            }
            all.add(self.put_back(&batch).await?);
        }
        Ok(json!({ "retried": all.retried, "left": all.left }))
    }

    /// Puts dead messages back, except those that another request is putting back.
    async fn put_back(&self, rows: &[Row]) -> Result<PutBack, ActionError> {
        let entrance = &self.entrance;
        let (mut records, mut done, mut left) = (Vec::new(), Vec::new(), 0);
        for row in rows {
            let dead = read(row);
            let message = dead.message;
            let record = entrance.store.get(&self.tables.messages, &key(message)).await?;
            let Some(record) = record else {
                left += 1;
                continue;
            };
            if self.claim(row, dead).await? {
                records.push(record.value);
                done.extend(self.dead_removal_changes(message));
            }
        }
        if records.is_empty() {
            return Ok(PutBack { retried: 0, left });
        }
        let retried = records.len();
        // The order matters: after a crash between the two calls, messages are both dead and in the queue, but not lost.
        entrance.store.append(&entrance.log, records, None).await?;
        entrance.store.change(done, None).await?;
        Ok(PutBack { retried, left })
    }

    /// Marks a dead message as being put back, so that only one of two concurrent requests does it.
    async fn claim(&self, row: &Row, dead: Dead) -> Result<bool, ActionError> {
        let now = now();
        if dead.returning.abs_diff(now) < RETURNING_MAX_MS {
            return Ok(false);
        }
        let key = key(dead.message);
        // Harmless: numbers and texts can always be serialised.
        let value = serde_json::to_vec(&Dead { returning: now, ..dead }).ok().map(Bytes::from);
        let (table, expect) = (self.tables.dead.clone(), Expect::Version(row.version));
        let change = Change { table, key, value, expect };
        match self.entrance.store.change(vec![change], None).await {
            Ok(_) => Ok(true),
            Err(Error::Conflict { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes all dead messages that exist now, and returns how many.
    pub async fn remove_all_dead(&self) -> Result<Value, ActionError> {
        let Tables { dead, messages, .. } = &self.tables;
        let removed = rows::remove_all(&*self.entrance.store, dead, &[messages]).await?;
        Ok(json!({ "removed": removed }))
    }

    /// Pauses the queue on all nodes: no message is started until it is resumed. Messages being processed are finished.
    pub async fn pause(&self) -> Result<(), ActionError> {
        let changes = self.switch().decide(Some(true));
        self.entrance.store.change(changes.into(), None).await?;
        Ok(())
    }

    /// Resumes the queue on all nodes, also if the configuration pauses it.
    pub async fn resume(&self) -> Result<(), ActionError> {
        // Kept only where the configuration pauses the queue: elsewhere it would defeat a `paused: true` that is written later.
        let decision = self.settings.is_paused.then_some(false);
        let changes = self.switch().decide(decision);
        self.entrance.store.change(changes.into(), None).await?;
        Ok(())
    }

    /// Deletes a dead message.
    pub async fn remove_dead(&self, id: &str) -> Result<(), ActionError> {
        let message = number(id).ok_or(ActionError::Unknown)?;
        let row = self.entrance.store.get(&self.tables.dead, &key(message)).await?;
        row.ok_or(ActionError::Unknown)?;
        self.entrance.store.change(self.dead_removal_changes(message).into(), None).await?;
        Ok(())
    }
}
