//! Dead events and the pause of deliveries: operations for operators.

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use delivery::Switch;
use delivery::rows::{self, Rows};
use serde_json::{Map, Value, json};
use store::{Change, Error, Expect, ReadQuery, Row};
use telemetry::trace::MASK;

use crate::admin::{ActionError, Page, unreadable};
use crate::callback::{self, masked};
use crate::event::{Event, rfc3339, text_of_line};
use crate::hub::Hub;
use crate::subscription::{Dead, Failure, Id, Subscription, dead_key, read};

/// The maximum number of bytes of a body that are shown.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// The number of dead events that are read at once, or removed in one change of the store.
const BATCH: usize = 200;

/// The number of dead events that a hub keeps. Without a limit, a subscription with a callback that never works would
/// fill the store.
pub(crate) const KEPT_MAX: usize = 100_000;

const NO_DEAD: ActionError = ActionError::Unknown("There is no such dead event.");
const UNREADABLE: ActionError = ActionError::Conflict(
    "This dead event cannot be read, since another version of the gateway wrote it. It can be deleted.",
);
const NO_SUBSCRIPTION: ActionError =
    ActionError::Unknown("The subscription of this dead event no longer exists.");

impl Hub {
    /// Returns a page of the dead events, in the order of their ids.
    pub async fn dead(&self, page: Page<'_>) -> Result<Value, ActionError> {
        let (rows, next) = self.page(&self.tables.dead, page).await?;
        let dead = rows.iter().map(|row| {
            let Some(dead) = read::<Dead>(&row.value) else {
                self.warn_unread("dead event", &row.key);
                return unreadable(&row.key);
            };
            json!({
                // Harmless: keys are ids, which are ASCII.
                "id": String::from_utf8_lossy(&row.key),
                "event": dead.event.to_string(),
                "subscription": dead.subscription,
                "callback": masked(&dead.callback),
                "attempts": dead.attempts,
                "last": dead.last,
            })
        });
        Ok(json!({ "dead": dead.collect::<Vec<_>>(), "next": next }))
    }

    /// One dead event, with the content that was sent and the reason for the failure.
    pub async fn dead_view(&self, key: &str) -> Result<Value, ActionError> {
        let (_, dead) = self.dead_event(key).await?;
        let row = match Id::parse(dead.subscription.as_bytes()) {
            Some(id) => self.store.get(&self.tables.subscriptions, &id.key()).await?,
            None => None,
        };
        let subscription = row.and_then(|row| read::<Subscription>(&row.value));
        let topic = match &subscription {
            Some(subscription) if dead.topic.is_empty() => &subscription.topic,
            Some(_) | None => &dead.topic,
        };
        let event = self.event_at(topic, dead.event).await?;
        let target = callback::split(&dead.callback).map(|(_, target)| target);
        let target = target.unwrap_or(Cow::Borrowed(""));
        let mut view = json!({
            "id": key,
            "event": dead.event.to_string(),
            "subscription": dead.subscription,
            "topic": topic,
            "callback": masked(&dead.callback),
            "method": "POST",
            "path": target.split('?').next(),
            "time": event.as_ref().map(|event| rfc3339(event.time)),
            "died": (dead.died > 0).then(|| rfc3339(Duration::from_millis(dead.died))),
            "attempts": attempts(&dead),
        });
        let Some(view) = view.as_object_mut() else { return Ok(Value::Null) };
        match event {
            Some(event) => {
                let is_signed = subscription.is_some_and(|known| known.terms.secret.is_some());
                show(&event, is_signed, view);
            }
            None => {
                // The topic's retention has removed it.
                view.insert("expired".to_owned(), true.into());
            }
        }
        Ok(Value::Object(std::mem::take(view)))
    }

    /// An event of a topic, if it is kept.
    async fn event_at(&self, topic: &str, id: u64) -> Result<Option<Event>, ActionError> {
        let Some(topic) = self.topic(topic.as_bytes()) else { return Ok(None) };
        let query = ReadQuery { after: id.saturating_sub(1), records_max: 1, bytes_max: 1 };
        match self.store.read(&topic.log, query).await {
            Ok(read) => {
                let event = read.records.first().and_then(Event::of);
                Ok(event.filter(|event| event.id == id))
            }
            Err(Error::Trimmed { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a dead event again, with a new series of attempts.
    pub async fn retry_dead(&self, key: &str) -> Result<(), ActionError> {
        let (version, dead) = self.dead_event(key).await?;
        if !self.has_subscription(&dead).await? {
            return Err(NO_SUBSCRIPTION);
        }
        let changes = self.retry_changes(key, version, &dead).ok_or(NO_SUBSCRIPTION)?;
        match self.store.change(changes.into(), None).await {
            Ok(_) => Ok(()),
            Err(Error::Conflict { .. }) => Err(NO_DEAD),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends again all dead events whose subscriptions still exist. Returns their number, and the number of the others. Events that become
    /// dead meanwhile may be included.
    pub async fn retry_all_dead(&self) -> Result<Value, ActionError> {
        let (mut retried, mut left, mut rows) = (0, 0, self.dead_rows());
        while let Some(some) = rows.next().await? {
            for row in &some {
                // Harmless: keys are ids, which are ASCII.
                let key = String::from_utf8_lossy(&row.key);
                let Some(dead) = read::<Dead>(&row.value) else {
                    self.warn_unread("dead event", &row.key);
                    left += 1;
                    continue;
                };
                let changes = self.retry_changes(&key, row.version, &dead);
                let changes = if self.has_subscription(&dead).await? { changes } else { None };
                let Some(changes) = changes else {
                    left += 1;
                    continue;
                };
                match self.store.change(changes.into(), None).await {
                    Ok(_) => retried += 1,
                    // Another request changed it first.
                    Err(Error::Conflict { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(json!({ "retried": retried, "left": left }))
    }

    async fn has_subscription(&self, dead: &Dead) -> Result<bool, ActionError> {
        let Some(id) = Id::parse(dead.subscription.as_bytes()) else { return Ok(false) };
        Ok(self.store.get(&self.tables.subscriptions, &id.key()).await?.is_some())
    }

    /// The changes that send a dead event again. They are made in one write, so that only one of two concurrent requests succeeds. Returns
    /// `None` if the event does not name a valid subscription id.
    fn retry_changes(&self, key: &str, version: u64, dead: &Dead) -> Option<[Change; 2]> {
        let id = Id::parse(dead.subscription.as_bytes())?;
        let forget = Change { expect: Expect::Version(version), ..self.dead_change(key, None) };
        let news = dead_key(id, dead.event).into_bytes();
        Some([forget, self.news_change(news, Some(Bytes::new()), Expect::Anything)])
    }

    /// Removes a dead event.
    pub async fn remove_dead(&self, key: &str) -> Result<(), ActionError> {
        self.dead_row(key).await?;
        self.store.change(vec![self.dead_change(key, None)], None).await?;
        Ok(())
    }

    /// Removes all dead events that exist now, and returns their number.
    pub async fn remove_all_dead(&self) -> Result<Value, ActionError> {
        let removed = rows::remove_all(&*self.store, &self.tables.dead, &[]).await?;
        Ok(json!({ "removed": removed }))
    }

    /// Removes the oldest dead events above `max`. Those that another version wrote go last, since their age is not known.
    pub(crate) async fn sweep_dead(&self, max: usize) -> Result<(), ActionError> {
        if rows::count(&*self.store, &self.tables.dead, max.saturating_add(1)).await? <= max {
            return Ok(());
        }
        let (mut all, mut rows) = (Vec::new(), self.dead_rows());
        while let Some(some) = rows.next().await? {
            let died = |row: &Row| read::<Dead>(&row.value).map_or(u64::MAX, |dead| dead.died);
            all.extend(some.iter().map(|row| (died(row), row.key.clone())));
        }
        all.sort_unstable();
        let excess = all.len().saturating_sub(max);
        // Harmless: the newer events, which are dropped from this list, stay in the store. The log reports the removed ones.
        all.truncate(excess);
        for some in all.chunks(BATCH) {
            let change = |(_, key): &(u64, Bytes)| rows::removal(&self.tables.dead, key);
            self.store.change(some.iter().map(change).collect(), None).await?;
        }
        tracing::warn!(
            hub = self.name(),
            "there were more than {max} dead events: the oldest {excess} are removed"
        );
        Ok(())
    }

    fn dead_rows(&self) -> Rows<'_> {
        Rows::new(&*self.store, &self.tables.dead, BATCH)
    }

    async fn dead_event(&self, key: &str) -> Result<(u64, Dead), ActionError> {
        let row = self.dead_row(key).await?;
        Ok((row.version, read(&row.value).ok_or(UNREADABLE)?))
    }

    async fn dead_row(&self, key: &str) -> Result<Row, ActionError> {
        if key.is_empty() || key.len() > 64 {
            return Err(NO_DEAD);
        }
        self.store.get(&self.tables.dead, key.as_bytes()).await?.ok_or(NO_DEAD)
    }

    /// The switch by which operators pause deliveries.
    pub(crate) fn switch(&self) -> Switch<'_> {
        Switch { store: &*self.store, table: &self.tables.news }
    }

    /// Stops new deliveries on all nodes until they are resumed. Deliveries in progress continue, and callbacks are still
    /// asked to confirm.
    pub async fn pause(&self) -> Result<(), ActionError> {
        Ok(self.switch().set(true).await?)
    }

    pub async fn resume(&self) -> Result<(), ActionError> {
        Ok(self.switch().set(false).await?)
    }
}

/// Adds the content of an event as it was sent.
fn show(event: &Event, is_signed: bool, view: &mut Map<String, Value>) {
    let text = |bytes: &[u8]| Value::from(text_of_line(bytes));
    let mut headers = Map::new();
    if !event.representation.content_type.is_empty() {
        headers.insert("content-type".to_owned(), text(&event.representation.content_type));
        view.insert("content_type".to_owned(), text(&event.representation.content_type));
    }
    for (name, value) in event.representation.lines() {
        headers.insert(text_of_line(name).into_owned(), text(value));
    }
    headers.insert("x-hub-event-id".to_owned(), event.id.to_string().into());
    if is_signed {
        headers.insert("x-hub-signature".to_owned(), MASK.into());
    }
    view.insert("headers".to_owned(), headers.into());
    view.insert("bytes".to_owned(), event.body.len().into());
    let shown = event.body.get(..BODY_BYTES_MAX).unwrap_or(&event.body);
    view.insert("truncated".to_owned(), (shown.len() < event.body.len()).into());
    match text_of(shown, &event.body) {
        Some(text) => view.insert("body".to_owned(), text.into()),
        None => view.insert("base64".to_owned(), STANDARD.encode(shown).into()),
    };
}

/// The beginning of a body as text, if all of the body is text. An incomplete last character is left out.
fn text_of<'b>(shown: &'b [u8], all: &'b [u8]) -> Option<&'b str> {
    std::str::from_utf8(all).ok()?;
    match std::str::from_utf8(shown) {
        Ok(text) => Some(text),
        // Harmless: all of the body was found to be text.
        Err(cut) => std::str::from_utf8(shown.get(..cut.valid_up_to())?).ok(),
    }
}

/// The failed attempts of a dead event. If they were not recorded, only the last one is known.
fn attempts(dead: &Dead) -> Vec<Value> {
    let view = |failure: &Failure| {
        let time = (failure.at > 0).then(|| rfc3339(Duration::from_millis(failure.at)));
        json!({ "time": time, "fault": failure.fault, "cause": failure.cause })
    };
    if dead.failures.is_empty() {
        vec![view(&Failure::new(dead.died, &dead.last))]
    } else {
        dead.failures.iter().map(view).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_is_cut_within_a_character_is_text() {
        let all = "\u{e9}\u{e9}".as_bytes();
        assert_eq!(text_of(&all[..3], all), Some("\u{e9}"));
        assert_eq!(text_of(&[0xff], &[0xff]), None);
    }
}
