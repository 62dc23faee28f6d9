//! The jobs of subscriptions and their results, and the jobs that only use the store. Each job is a future; the worker runs many
//! concurrently. Requests to callbacks are in `delivery_job` and `intent_job`.

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
use crate::hub::{Hub, StoredSubscription};
use crate::hub_state::Reservation;
use crate::partitions::RemoteUpdates;
use crate::places::{RequestCounters, RequestPermit};
use crate::subscription::{Id, Subscription};

/// The inputs of a request to a callback.
pub(crate) struct Job {
    pub(crate) hub: Arc<Hub>,
    pub(crate) caller: Rc<Caller>,
    /// The node's term when it was started. Its writes depend on it.
    pub(crate) term: u64,
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
    /// The event that follows `after`; none if there is none yet; an error if the store is unavailable.
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
    /// The change that was written after an intent verification, if any.
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
        found: Result<Vec<StoredSubscription>, Error>,
    },
    Noticed(Result<RemoteUpdates, Error>),
    /// The row of a subscription that another node has changed, with the version known before.
    Looked {
        id: Id,
        known: u64,
        row: Result<Option<(u64, Box<Subscription>)>, Error>,
    },
}

/// The change of a subscription that was written after its callback was asked to confirm.
pub(crate) enum Confirmation {
    /// A new version of it.
    Kept {
        version: u64,
        subscription: Box<Subscription>,
        /// Its reserved slot, if it is new.
        reservation: Option<Reservation>,
    },
    Removed {
        version: u64,
        /// The subscription, if its callback confirmed it and the limit was reached.
        denied: Option<Box<Subscription>>,
    },
}

/// The outcome of an event.
pub(crate) enum Outcome {
    Taken,
    /// The subscriber ends the subscription (410).
    Gone,
    Failed {
        why: String,
        /// The pause that the callback asks for.
        again: Option<Duration>,
    },
    /// It exceeds the limits of the subscriber's plan.
    Limited,
    /// The log no longer has it.
    Expired,
    /// The store did not answer.
    Away,
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

/// Removes the oldest dead events where there are too many.
pub(crate) fn sweep_dead(hub: Arc<Hub>) -> LocalBoxFuture<'static, JobOutcome> {
    Box::pin(async move {
        if let Err(not_done) = hub.sweep_dead(KEPT_MAX).await {
            tracing::debug!(hub = hub.name(), "dead events were not counted: {not_done:?}");
        }
        JobOutcome::Nothing
    })
}

/// Removes a subscription.
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

/// Deletes the changes written for a subscription that no longer exists.
pub(crate) fn forget_news(
    hub: Arc<Hub>,
    id: Id,
    news: Change,
    guard: Option<Guard>,
) -> LocalBoxFuture<'static, JobOutcome> {
    Box::pin(async move {
        match hub.store.change(vec![news], guard.as_ref()).await {
            Ok(_) => JobOutcome::Nothing,
            Err(error) => JobOutcome::Looked { id, known: 0, row: Err(error) },
        }
    })
}

/// Finds the event that follows another.
pub(crate) fn fetch(feed: Rc<Feed>, id: Id, after: u64) -> LocalBoxFuture<'static, JobOutcome> {
    Box::pin(async move {
        let event = match feed.read(after, ReadBounds::ONE).await {
            Ok(events) => Ok(events.first().map(|event| event.id)),
            // The oldest event that is kept follows. Those before it are no longer available.
            Err(Error::Trimmed { oldest }) => Ok(Some(oldest)),
            Err(_) => Err(()),
        };
        JobOutcome::Fetched { id, after, event }
    })
}
