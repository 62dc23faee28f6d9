//! A queue as operators see it and change it. It shows no message.

use bytes::Bytes;
use kit::clock;
use serde_json::{Value, json};
use store::{Change, Error, Expect, Row, Scan, nodes};

use crate::queue::{CURSOR, Cursor, Dead, Queue, key};

/// Why something was not done.
#[derive(Debug)]
pub enum ActionError {
    /// There is no such message.
    Unknown,
    Store(Error),
}

impl From<Error> for ActionError {
    fn from(error: Error) -> ActionError {
        ActionError::Store(error)
    }
}

/// After so long whoever was putting a dead message back has stopped half-way, and it may be tried again.
const RETURNING_MAX_MS: u64 = 10_000;

/// Entries of one page.
const PAGE: usize = 100;
/// Rows that are read at once, and dead messages that are counted.
const ROWS_MAX: usize = 1000;
const COUNTED_MAX: usize = 100_000;

impl Queue {
    /// The queue in numbers.
    pub async fn view(&self) -> Result<Value, ActionError> {
        let entrance = &self.entrance;
        let row = entrance.store.get(&self.tables.cursor, CURSOR).await?;
        let cursor: Cursor =
            row.and_then(|row| serde_json::from_slice(&row.value).ok()).unwrap_or_default();
        let span = entrance.store.span(&entrance.log).await?;
        let open = u64::try_from(cursor.open.len()).unwrap_or(u64::MAX);
        let depth = span.newest.saturating_sub(cursor.head).saturating_add(open);
        let mut dead = 0;
        let mut after = None;
        while dead < COUNTED_MAX {
            let scan = Scan { prefix: Vec::new(), after, rows_max: ROWS_MAX };
            let found = entrance.store.scan(&self.tables.dead, scan).await?;
            dead += found.rows.len();
            after = found.rows.last().map(|row| row.key.to_vec());
            if !found.more || after.is_none() {
                break;
            }
        }
        let mut view = json!({ "name": self.name(), "depth": depth, "dead": dead });
        if let (false, Some(view)) = (self.nodes.is_alone(), view.as_object_mut()) {
            let owner = self.nodes.owner(nodes::partition(self.name()));
            view.insert("node".to_owned(), json!(owner));
        }
        Ok(view)
    }

    /// The dead messages behind one, in their order.
    pub async fn dead(&self, after: Option<&str>) -> Result<Value, ActionError> {
        let after = after.and_then(number).map(key);
        let scan = Scan { prefix: Vec::new(), after, rows_max: PAGE };
        let found = self.entrance.store.scan(&self.tables.dead, scan).await?;
        let dead = found.rows.iter().filter_map(read).map(|dead| {
            json!({ "id": dead.message.to_string(), "attempts": dead.attempts, "last": dead.last })
        });
        let dead: Vec<Value> = dead.collect();
        let last = found.rows.last().and_then(read).filter(|_| found.more);
        let next = last.map(|dead| dead.message.to_string());
        Ok(json!({ "dead": dead, "next": next }))
    }

    /// Puts a dead message back into the queue, behind all others, with all its tries.
    pub async fn retry_dead(&self, id: &str) -> Result<(), ActionError> {
        let message = number(id).ok_or(ActionError::Unknown)?;
        let entrance = &self.entrance;
        let row = entrance.store.get(&self.tables.messages, &key(message)).await?;
        let record = row.ok_or(ActionError::Unknown)?.value;
        self.claim(message).await?;
        // In this order: a crash between the two leaves it dead and in the queue, and not lost.
        entrance.store.append(&entrance.log, vec![record], None).await?;
        entrance.store.change(self.exhume(message).into(), None).await?;
        Ok(())
    }

    /// Marks a dead message as on its way back, so that of two who ask at once only one puts it back.
    async fn claim(&self, message: u64) -> Result<(), ActionError> {
        let store = &self.entrance.store;
        let row = store.get(&self.tables.dead, &key(message)).await?;
        let row = row.ok_or(ActionError::Unknown)?;
        let dead = read(&row).ok_or(ActionError::Unknown)?;
        let now = u64::try_from(clock::wall().as_millis()).unwrap_or(u64::MAX);
        if dead.returning.abs_diff(now) < RETURNING_MAX_MS {
            return Err(ActionError::Unknown);
        }
        let value = serde_json::to_vec(&Dead { returning: now, ..dead }).ok().map(Bytes::from);
        let (table, key) = (self.tables.dead.clone(), key(message));
        let change = Change { table, key, value, expect: Expect::Version(row.version) };
        match store.change(vec![change], None).await {
            Ok(_) => Ok(()),
            Err(Error::Conflict { .. }) => Err(ActionError::Unknown),
            Err(error) => Err(error.into()),
        }
    }

    /// Forgets a dead message.
    pub async fn remove_dead(&self, id: &str) -> Result<(), ActionError> {
        let message = number(id).ok_or(ActionError::Unknown)?;
        let row = self.entrance.store.get(&self.tables.dead, &key(message)).await?;
        row.ok_or(ActionError::Unknown)?;
        self.entrance.store.change(self.exhume(message).into(), None).await?;
        Ok(())
    }
}

fn number(id: &str) -> Option<u64> {
    let is_number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    id.parse().ok().filter(|_| is_number)
}

fn read(row: &Row) -> Option<Dead> {
    serde_json::from_slice(&row.value).ok()
}
