//! The operators' view of a hub, and the changes that they make. Dead events are in [`dead`](crate::dead).
//!
//! The view contains neither the secrets of subscriptions nor the bodies of events. Values in the queries of callbacks are masked.

use std::time::Duration;

use delivery::rows;
use serde_json::{Value, json};
use store::{Error, Expect, Row, Scan};

use crate::callback;
use crate::event::rfc3339;
use crate::hub::Hub;
use crate::hub_state::SubscriptionUpdate;
use crate::member::Member;
use crate::subscription::{Id, Subscription, read};

/// Why an action failed.
#[derive(Debug)]
pub enum ActionError {
    /// The subscription or dead event does not exist. Contains the text for the operator.
    Unknown(&'static str),
    /// The dead event cannot be read. Contains the text for the operator.
    Conflict(&'static str),
    Store(Error),
    /// The change is in the store, but the worker was not informed, since the worker's queue is full.
    Busy,
}

/// A request for one page of a list.
pub struct Page<'a> {
    /// The key of the last entry on the previous page.
    pub after: Option<&'a str>,
}

/// The number of entries on one page.
const PAGE: usize = 100;

/// The limit up to which subscriptions and dead events are counted. Counting more would take too long.
const COUNTED_MAX: usize = 100_000;

impl From<Error> for ActionError {
    fn from(error: Error) -> ActionError {
        ActionError::Store(error)
    }
}

impl Hub {
    /// Returns the state of the hub: its topics, and its numbers of subscriptions and dead events.
    pub async fn view(&self) -> Result<Value, ActionError> {
        let topics: Vec<&str> = self.topics.iter().map(|topic| &*topic.name).collect();
        let subscriptions = self.count(COUNTED_MAX).await?;
        let dead = rows::count(&*self.store, &self.tables.dead, COUNTED_MAX).await?;
        let mut view = json!({
            "name": self.name(),
            "topics": topics,
            "subscriptions": subscriptions,
            "dead": dead,
        });
        if let (true, Some(view)) = (self.switch().is_paused().await?, view.as_object_mut()) {
            view.insert("paused".to_owned(), json!(true));
        }
        Ok(view)
    }

    /// Returns a page of the subscriptions, in the order of their ids.
    pub async fn subscriptions(&self, page: Page<'_>) -> Result<Value, ActionError> {
        let (rows, next) = self.page(&self.tables.subscriptions, page).await?;
        let mut subscriptions = Vec::new();
        for row in &rows {
            let (Some(id), Some(subscription)) =
                (Id::parse(&row.key), read::<Subscription>(&row.value))
            else {
                self.warn_unread("subscription", &row.key);
                subscriptions.push(unreadable(&row.key));
                continue;
            };
            let position = self.position(id, &subscription).await?;
            let status = match self.topic(subscription.topic.as_bytes()) {
                Some(_) => Member::status(&subscription, position.as_ref()),
                None => "no_topic",
            };
            let expires = subscription.until.map(|until| rfc3339(Duration::from_secs(until)));
            let mut view = json!({
                "id": id.to_string(),
                "subject": subscription.subject,
                "topic": subscription.topic,
                "callback": callback::masked(&subscription.callback),
                "expires": expires,
                "status": status,
            });
            if let (false, Some(view)) = (self.nodes.is_single(), view.as_object_mut()) {
                let owner = self.nodes.owner(id.partition());
                view.insert("node".to_owned(), json!(owner));
            }
            subscriptions.push(view);
        }
        Ok(json!({ "subscriptions": subscriptions, "next": next }))
    }

    /// Removes a subscription. The subscriber is informed, but need not confirm.
    pub async fn remove_subscription(&self, id: &str) -> Result<(), ActionError> {
        const UNKNOWN: ActionError = ActionError::Unknown("There is no such subscription.");
        let id = Id::parse(id.as_bytes()).ok_or(UNKNOWN)?;
        let row = self.store.get(&self.tables.subscriptions, &id.key()).await?;
        let row = row.ok_or(UNKNOWN)?;
        let version = self.remove_row(id, Expect::Anything, None).await?;
        let is_told = self.state.tell(id, SubscriptionUpdate::Removed(id, version));
        if let Some(subscription) = read::<Subscription>(&row.value) {
            // Harmless: if the worker's queue is full, the subscriber is not informed, but the subscription is still removed.
            let _ = self.state.tell(id, SubscriptionUpdate::Denied(id, Box::new(subscription)));
        }
        (is_told || self.nodes.has_company()).then_some(()).ok_or(ActionError::Busy)
    }

    /// One page of a table, and the key after which the next page begins.
    pub(crate) async fn page(
        &self,
        table: &str,
        page: Page<'_>,
    ) -> Result<(Vec<Row>, Option<String>), Error> {
        let after = page.after.filter(|after| !after.is_empty() && after.len() <= 64);
        let after = after.map(|after| after.as_bytes().to_vec());
        let scan = Scan { prefix: Vec::new(), after, rows_max: PAGE };
        let found = self.store.scan(table, scan).await?;
        let last = found.rows.last().filter(|_| found.more);
        // Harmless: keys are ids, which are ASCII.
        let next = last.map(|row| String::from_utf8_lossy(&row.key).into_owned());
        Ok((found.rows, next))
    }

    /// Logs that a stored value cannot be read. The value is not changed.
    pub(crate) fn warn_unread(&self, what: &str, key: &[u8]) {
        // Harmless: the text is only logged.
        let key = String::from_utf8_lossy(key);
        tracing::warn!(
            hub = self.name(),
            key = &*key,
            "a {what} in the store cannot be read: another version wrote it; it is not changed"
        );
    }
}

/// The view of a row that cannot be read.
pub(crate) fn unreadable(key: &[u8]) -> Value {
    // Harmless: keys are ids, which are ASCII.
    json!({ "id": String::from_utf8_lossy(key), "status": "unreadable" })
}
