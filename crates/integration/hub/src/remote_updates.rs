//! The changes that operators and other nodes have written for the owners of subscriptions.

use delivery::Switch;
use store::{Error, Row};

use crate::hub::Hub;
use crate::subscription::Id;

/// A change that another node or an operator has written for the owner of a subscription.
pub(crate) struct RemoteUpdate {
    pub(crate) id: Id,
    /// The dead event to send again, or `None` if the subscription's row has changed.
    pub(crate) dead_event: Option<u64>,
    pub(crate) key: Vec<u8>,
    pub(crate) version: u64,
}

/// The changes that operators and other nodes have written.
pub(crate) struct RemoteUpdates {
    pub(crate) is_paused: bool,
    pub(crate) of: Vec<RemoteUpdate>,
}

impl RemoteUpdates {
    pub(crate) async fn read(hub: &Hub) -> Result<RemoteUpdates, Error> {
        let rows = hub.rows_of(&hub.tables.news, "").await?;
        Ok(RemoteUpdates {
            is_paused: rows.iter().any(|row| *row.key == *Switch::KEY),
            // Harmless: the other rows do not concern subscriptions.
            of: rows.iter().filter_map(RemoteUpdate::of).collect(),
        })
    }
}

impl RemoteUpdate {
    fn of(row: &Row) -> Option<RemoteUpdate> {
        let (id, event) = row.key.split_at_checked(32)?;
        let dead_event = event.strip_prefix(b"-").map(std::str::from_utf8);
        // Harmless: without a number the change concerns the subscription itself.
        let dead_event = dead_event.and_then(Result::ok).and_then(|event| event.parse().ok());
        let id = Id::parse(id)?;
        Some(RemoteUpdate { id, dead_event, key: row.key.to_vec(), version: row.version })
    }
}
