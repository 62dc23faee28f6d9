//! The jobs of a worker and their results. Each job is a future, and a worker runs many concurrently. The jobs in this file only use the
//! store. Those with requests to callbacks are in `delivery_job` and `intent_job`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kit::LocalBoxFuture;
use policy::Caller;
use store::{Change, Error, Expect, Guard, Keep};
use telemetry::access::AccessLog;
use telemetry::span::Tracing;

use crate::compact::CompactSubscription;
use crate::dead::KEPT_MAX;
use crate::feed::{Feed, ReadBounds};
use crate::hub::{Hub, StoredSubscriptions};
use crate::hub_state::Reservation;
use crate::places::{RequestCounters, RequestPermit};
use crate::remote_updates::RemoteUpdates;
use crate::subscription::{Id, Subscription};

/// The inputs of a request to a callback.
pub(crate) struct Job {
    pub(crate) hub: Arc<Hub>,
    pub(crate) caller: Rc<Caller>,
    /// The node's term when the job was started. No delivery begins after this term.
    pub(crate) term: u64,
    /// The guard of the job's writes.
    pub(crate) guard: Option<Guard>,
    pub(crate) log: Option<Arc<AccessLog>>,
    pub(crate) tracing: Option<Rc<Tracing>>,
    pub(crate) id: Id,
    pub(crate) subscription: Rc<CompactSubscription>,
    pub(crate) permit: RequestPermit,
}

/// The result of a job.
pub(crate) enum JobOutcome {
    Nothing,
    /// The event that follows `after`, or `None` if there is none yet. An error means that the store is unavailable.
    Fetched {
        id: Id,
        after: u64,
        event: Result<Option<u64>, ()>,
    },
    Delivered {
        id: Id,
        event: u64,
        outcome: Outcome,
        counters: RequestCounters,
    },
    /// The change that was written after the verification of an intent, if any. `asked` is the version of the subscription before it.
    Confirmed {
        id: Id,
        asked: u64,
        written: Option<Confirmation>,
        counters: RequestCounters,
    },
    Denied {
        counters: RequestCounters,
    },
    Removed {
        id: Id,
        version: u64,
        is_done: bool,
    },
    Loaded {
        partition: usize,
        found: Result<StoredSubscriptions, Error>,
    },
    /// The changes that operators and other nodes have written.
    RemoteUpdatesRead(Result<RemoteUpdates, Error>),
    /// The row of a subscription that another node has changed. `known` is the version that the worker had.
    RowRead {
        id: Id,
        known: u64,
        row: Result<Option<SubscriptionRow>, Error>,
    },
}

/// The version of a subscription's row, and the subscription, or `None` if it cannot be read.
pub(crate) type SubscriptionRow = (u64, Option<Box<Subscription>>);

/// The change of a subscription that was written after the verification of an intent.
pub(crate) enum Confirmation {
    /// The subscription remains, in a new version.
    Kept {
        version: u64,
        subscription: Box<Subscription>,
        /// Its reservation within the limit of subscriptions, if it is new.
        reservation: Option<Reservation>,
    },
    Removed {
        version: u64,
        /// The subscription, if its callback confirmed it but the limit of subscriptions was reached.
        denied: Option<Box<Subscription>>,
    },
}

/// The outcome of the delivery of an event.
pub(crate) enum Outcome {
    Accepted,
    /// The callback answered 410, which ends the subscription.
    Gone,
    Failed {
        why: String,
        /// The delay before the next attempt, if the callback asked for one.
        retry_after: Option<Duration>,
    },
    /// The event exceeds the limits of the subscriber's plan.
    Limited,
    /// The log no longer has the event.
    Expired,
    /// The store is unavailable, or the node may have lost its lease.
    Postponed,
}

pub(crate) fn nothing() -> LocalBoxFuture<'static, JobOutcome> {
    Box::pin(std::future::ready(JobOutcome::Nothing))
}

/// Drops the old events of a topic.
pub(crate) fn trim(hub: Arc<Hub>, topic: usize) -> LocalBoxFuture<'static, JobOutcome> {
    Box::pin(async move {
        let retention = hub.settings.retention;
        let keep = Keep { after: None, age: Some(retention.age), bytes: Some(retention.bytes) };
        if let Some(topic) = hub.topics.get(topic)
            && let Err(error) = hub.store.trim(&topic.log, keep).await
        {
            tracing::debug!(topic = &*topic.name, "old events were not removed: {error}");
        }
        JobOutcome::Nothing
    })
}

/// Removes the oldest dead events beyond the limit.
pub(crate) fn sweep_dead(hub: Arc<Hub>) -> LocalBoxFuture<'static, JobOutcome> {
    Box::pin(async move {
        if let Err(not_done) = hub.sweep_dead(KEPT_MAX).await {
            tracing::debug!(hub = hub.name(), "excess dead events were not removed: {not_done:?}");
        }
        JobOutcome::Nothing
    })
}

/// Removes a subscription if it still has this version.
pub(crate) fn remove(
    hub: Arc<Hub>,
    id: Id,
    version: u64,
    guard: Option<Guard>,
) -> LocalBoxFuture<'static, JobOutcome> {
    Box::pin(async move {
        let removed = hub.remove_row(id, Expect::Version(version), guard.as_ref()).await;
        match removed {
            Ok(version) => JobOutcome::Removed { id, version, is_done: true },
            Err(_) => JobOutcome::Removed { id, version, is_done: false },
        }
    })
}

/// Deletes a remote update about a subscription that no longer exists. If this fails, remote updates are read again.
pub(crate) fn forget_news(
    hub: Arc<Hub>,
    id: Id,
    news: Change,
    guard: Option<Guard>,
) -> LocalBoxFuture<'static, JobOutcome> {
    Box::pin(async move {
        match hub.store.change(vec![news], guard.as_ref()).await {
            Ok(_) => JobOutcome::Nothing,
            Err(error) => JobOutcome::RowRead { id, known: 0, row: Err(error) },
        }
    })
}

/// Finds the event that follows another.
pub(crate) fn fetch(feed: Rc<Feed>, id: Id, after: u64) -> LocalBoxFuture<'static, JobOutcome> {
    Box::pin(async move {
        let event = match feed.read(after, ReadBounds::ONE).await {
            Ok(events) => Ok(events.first().map(|event| event.id)),
            // The events before `oldest` were trimmed, so `oldest` is the next one.
            Err(Error::Trimmed { oldest }) => Ok(Some(oldest)),
            Err(_) => Err(()),
        };
        JobOutcome::Fetched { id, after, event }
    })
}
