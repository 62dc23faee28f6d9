//! A hub as operators see it and change it. Nothing here is secret: no key, no body.

use serde_json::{Value, json};
use std::time::Duration;
use store::{Change, Error, Expect, Row, Scan};

use crate::event::rfc3339;
use crate::hub::{Hub, ROWS_MAX};
use crate::lasting::Note;
use crate::member::Member;
use crate::subscription::{Dead, Id, Subscription, read};

/// Why something was not done.
#[derive(Debug)]
pub enum NotDone {
    /// There is no such thing.
    Unknown(&'static str),
    Store(Error),
    /// The worker has too much to do.
    Busy,
}

/// A part of a list.
pub struct Page<'a> {
    /// What came last in the part before.
    pub after: Option<&'a str>,
}

/// Entries of one page.
const PAGE: usize = 100;

/// Dead events that are counted. It takes a while for more.
const COUNTED_MAX: usize = 100_000;

impl From<Error> for NotDone {
    fn from(error: Error) -> NotDone {
        NotDone::Store(error)
    }
}

impl Hub {
    /// The hub in numbers.
    pub async fn view(&self) -> Result<Value, NotDone> {
        let topics: Vec<&str> = self.topics.iter().map(|topic| &*topic.name).collect();
        let mut dead = 0;
        let mut after = None;
        while dead < COUNTED_MAX {
            let scan = Scan { prefix: Vec::new(), after, rows_max: ROWS_MAX };
            let found = self.store.scan(&self.tables.dead, scan).await?;
            dead += found.rows.len();
            after = found.rows.last().map(|row| row.key.to_vec());
            if !found.more || after.is_none() {
                break;
            }
        }
        Ok(json!({
            "name": self.name(),
            "topics": topics,
            "subscriptions": self.lasting.count(),
            "dead": dead,
        }))
    }

    /// The subscriptions behind one, in the order of their ids.
    pub async fn subscriptions(&self, page: Page<'_>) -> Result<Value, NotDone> {
        let (rows, next) = self.page(&self.tables.subscriptions, page).await?;
        let mut subscriptions = Vec::new();
        for row in &rows {
            let Some(subscription) = read::<Subscription>(&row.value) else { continue };
            let cursor = self.store.get(&self.tables.cursors, &row.key).await?;
            let cursor = cursor.and_then(|cursor| read(&cursor.value));
            let expires = subscription.until.map(|until| rfc3339(Duration::from_secs(until)));
            subscriptions.push(json!({
                "id": String::from_utf8_lossy(&row.key),
                "subject": subscription.subject,
                "topic": subscription.topic,
                "callback": subscription.callback,
                "expires": expires,
                "status": Member::status(&subscription, cursor.as_ref()),
            }));
        }
        Ok(json!({ "subscriptions": subscriptions, "next": next }))
    }

    /// Removes a subscription, without asking the subscriber.
    pub async fn remove_subscription(&self, id: &str) -> Result<(), NotDone> {
        const UNKNOWN: NotDone = NotDone::Unknown("There is no such subscription.");
        let id = Id::parse(id.as_bytes()).ok_or(UNKNOWN)?;
        let row = self.store.get(&self.tables.subscriptions, &id.key()).await?;
        row.ok_or(UNKNOWN)?;
        let version = self.remove_row(id, Expect::Anything).await?;
        self.tell(id, Note::Removed(id, version))
    }

    /// The dead events behind one, in the order of their ids.
    pub async fn dead(&self, page: Page<'_>) -> Result<Value, NotDone> {
        let (rows, next) = self.page(&self.tables.dead, page).await?;
        let dead = rows.iter().filter_map(|row| {
            let dead = read::<Dead>(&row.value)?;
            Some(json!({
                "id": String::from_utf8_lossy(&row.key),
                "event": dead.event.to_string(),
                "subscription": dead.subscription,
                "callback": dead.callback,
                "attempts": dead.attempts,
                "last": dead.last,
            }))
        });
        Ok(json!({ "dead": dead.collect::<Vec<_>>(), "next": next }))
    }

    /// Sends a dead event again, with all its tries.
    pub async fn retry_dead(&self, key: &str) -> Result<(), NotDone> {
        let dead = self.dead_event(key).await?;
        let id = Id::parse(dead.subscription.as_bytes());
        let id = id.ok_or(NotDone::Unknown("Its subscription is gone."))?;
        let row = self.store.get(&self.tables.subscriptions, &id.key()).await?;
        row.ok_or(NotDone::Unknown("Its subscription is gone."))?;
        self.tell(id, Note::Again { id, event: dead.event, key: key.to_owned() })
    }

    /// Removes a dead event.
    pub async fn remove_dead(&self, key: &str) -> Result<(), NotDone> {
        self.dead_event(key).await?;
        let change = Change { expect: Expect::Anything, ..self.dead_change(key, None) };
        self.store.change(vec![change], None).await?;
        Ok(())
    }

    async fn dead_event(&self, key: &str) -> Result<Dead, NotDone> {
        const UNKNOWN: NotDone = NotDone::Unknown("There is no such dead event.");
        if key.is_empty() || key.len() > 64 {
            return Err(UNKNOWN);
        }
        let row = self.store.get(&self.tables.dead, key.as_bytes()).await?;
        row.and_then(|row| read(&row.value)).ok_or(UNKNOWN)
    }

    fn tell(&self, id: Id, note: Note) -> Result<(), NotDone> {
        self.lasting.tell(id, note).then_some(()).ok_or(NotDone::Busy)
    }

    /// One page of a table, and the key that the next begins behind.
    async fn page(&self, table: &str, page: Page<'_>) -> Result<(Vec<Row>, Option<String>), Error> {
        let after = page.after.filter(|after| !after.is_empty() && after.len() <= 64);
        let after = after.map(|after| after.as_bytes().to_vec());
        let scan = Scan { prefix: Vec::new(), after, rows_max: PAGE };
        let found = self.store.scan(table, scan).await?;
        let last = found.rows.last().filter(|_| found.more);
        let next = last.map(|row| String::from_utf8_lossy(&row.key).into_owned());
        Ok((found.rows, next))
    }
}
