//! The jobs of subscriptions: reads, requests and writes. Each is a future, and the worker runs many concurrently.

use std::borrow::Cow;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use kit::{LocalBoxFuture, clock};
use policy::{CallTrace, Caller, ExchangeTrace};
use store::{Change, Error, Expect, Guard, Keep};
use telemetry::access::{AccessEntry, AccessLog};
use telemetry::span::Tracing;

use crate::callback;
use crate::compact::CompactSubscription;
use crate::dead::KEPT_MAX;
use crate::event::Event;
use crate::feed::{Feed, NextEvent, ReadBounds};
use crate::hub::{Hub, StoredSubscription};
use crate::hub_state::Reservation;
use crate::partitions::RemoteUpdates;
use crate::places::{RequestCounters, RequestPermit};
use crate::send::{self, IntentAnswer, SendOutcome};
use crate::settings::LimitedBy;
use crate::subscribing::confirm;
use crate::subscription::{Id, Intent, Subscription, stored};

/// A request to a callback, with all that it needs.
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
    /// The event that follows `after`, or none if there is none yet; an error if the store is unavailable.
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
    /// What was written after an intent verification. None: nothing.
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
    /// The row of a subscription that another node had changed, with the version known before.
    Looked {
        id: Id,
        known: u64,
        row: Result<Option<(u64, Box<Subscription>)>, Error>,
    },
}

/// What was written of a subscription after its callback was asked to confirm.
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
            tracing::debug!(topic = &*topic.name, "old events stay: {error}");
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

impl Job {
    /// Delivers an event.
    pub(crate) fn deliver(
        self,
        feed: Rc<Feed>,
        event: u64,
        is_first: bool,
    ) -> LocalBoxFuture<'static, JobOutcome> {
        Box::pin(async move {
            let outcome = {
                let delivering = pin!(self.delivered(&feed, event, is_first));
                kit::task::contain(delivering).await
            };
            let outcome = outcome.unwrap_or_else(|panic| {
                tracing::error!("a delivery has panicked: {panic}");
                Outcome::Failed { why: "an error of the gateway".to_owned(), again: None }
            });
            let (id, counters) = (self.id, self.permit.counters.clone());
            drop(self);
            JobOutcome::Delivered { id, event, outcome, counters }
        })
    }

    async fn delivered(&self, feed: &Feed, event: u64, is_first: bool) -> Outcome {
        let before = event.saturating_sub(1);
        let found = match feed.peek(before) {
            NextEvent::Event(found) => Ok(Some(found)),
            NextEvent::Nothing | NextEvent::Behind => {
                feed.read(before, ReadBounds::ONE).await.map(|events| events.into_iter().next())
            }
        };
        let event = match found {
            Ok(found) => found.filter(|found| found.id == event),
            Err(Error::Trimmed { .. }) => None,
            Err(_) => return Outcome::Away,
        };
        let Some(event) = event else { return Outcome::Expired };
        if is_first {
            match self.is_within_limits(&event).await {
                Ok(true) => {}
                Ok(false) => return Outcome::Limited,
                Err(_) => return Outcome::Away,
            }
        }
        if !self.hub.nodes.may_begin(self.term) {
            // The node may have lost the partition meanwhile.
            return Outcome::Away;
        }
        let (time, began) = (clock::wall(), clock::now());
        let settings = &self.hub.settings;
        let how = (settings.algorithm, settings.delivery.timeout);
        let cause = event.said.span();
        let trace = self.tracing.as_ref().map(|tracing| ExchangeTrace::of_own(tracing, cause));
        let call = trace.as_ref().map(|trace| CallTrace { trace, parent: None, link: cause });
        let (status, sent) =
            send::event(&self.permit, &self.caller, &self.subscription, how, &event, call).await;
        self.permit.note(!matches!(sent, SendOutcome::Failed { .. }));
        self.record(&event, (time, clock::now().duration_since(began)), status, &sent);
        match sent {
            SendOutcome::Taken => Outcome::Taken,
            SendOutcome::Gone => Outcome::Gone,
            SendOutcome::Failed { why, again } => Outcome::Failed { why, again },
        }
    }

    /// Counts a delivery, if it is within all windows of the subscriber's plan.
    async fn is_within_limits(&self, event: &Event) -> Result<bool, Error> {
        let Some(limits) = &self.hub.settings.limits else { return Ok(true) };
        let whose = match limits.by {
            LimitedBy::Subject => self.subscription.common.subject.to_string(),
            LimitedBy::Subscription => self.id.to_string(),
        };
        let mut counters = Vec::new();
        let tier = limits.of(self.subscription.common.plan.as_deref());
        let bytes = u64::try_from(event.body.len()).unwrap_or(u64::MAX);
        for (number, window) in tier.windows.iter().enumerate() {
            for (what, by, limit) in [("events", 1, window.events), ("bytes", bytes, window.bytes)]
            {
                let Some(limit) = limit else { continue };
                let counter = format!("hub/{}/deliveries/{number}/{what}/{whose}", self.hub.name());
                counters.push((counter, by, limit, window.per));
            }
        }
        let store = &self.hub.store;
        // A delivery that one window refuses must not count in the others. Between the check and the count another delivery may
        // arrive; then a dropped one is counted.
        if counters.len() > 1 {
            for (counter, by, limit, per) in &counters {
                let used = store.add(counter, 0, *limit, *per).await?.total;
                if used.saturating_add(*by) > *limit {
                    return Ok(false);
                }
            }
        }
        for (counter, by, limit, per) in &counters {
            if !store.add(counter, *by, *limit, *per).await?.granted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes a delivery to the access log, without the query of the callback, which may hold secrets.
    fn record(
        &self,
        event: &Event,
        (time, duration): (Duration, Duration),
        status: u16,
        sent: &SendOutcome,
    ) {
        let Some(log) = &self.log else { return };
        let target = callback::split(&self.subscription.callback);
        let target = target.map_or(Cow::Borrowed(""), |(_, target)| target);
        let path = target.split('?').next().unwrap_or_default();
        let (id, origin) = (event.id.to_string(), self.permit.origin());
        let CompactSubscription { common, .. } = &*self.subscription;
        let cause = match sent {
            SendOutcome::Taken | SendOutcome::Gone => None,
            SendOutcome::Failed { why, .. } => Some(why.as_str()),
        };
        let entry = AccessEntry {
            time,
            client: self.caller.peer.ip(),
            method: b"POST",
            host: Some(origin.authority.as_bytes()),
            path: path.as_bytes(),
            protocol: "HTTP/1.1",
            status,
            request_bytes: u64::try_from(event.body.len()).unwrap_or(u64::MAX),
            reply_bytes: 0,
            duration,
            upstream_wait: duration,
            client_wait: Duration::ZERO,
            route: None,
            upstream: Some(self.hub.name()),
            upstream_target: Some(&origin.url),
            request_id: Some(id.as_bytes()),
            trace: None,
            user_agent: None,
            tls: None,
            fault: None,
            cause,
            operation: Some(&common.topic),
            soap_fault: None,
            subject: (!common.subject.is_empty()).then_some(&*common.subject),
            retries: 0,
            events: None,
            stream_end: None,
            grpc_status: None,
            extra: &[],
        };
        log.write(self.caller.worker, &entry);
    }

    /// Verifies the intent of a subscriber by one request to its callback, and stores the result.
    pub(crate) fn confirm(self, asked: u64) -> LocalBoxFuture<'static, JobOutcome> {
        Box::pin(async move {
            let written = self.confirmed(asked).await;
            let (id, counters) = (self.id, self.permit.counters.clone());
            drop(self);
            JobOutcome::Confirmed { id, asked, written, counters }
        })
    }

    /// Informs a callback that its subscription has ended. Its answer changes nothing.
    pub(crate) fn deny(self, reason: &'static str) -> LocalBoxFuture<'static, JobOutcome> {
        Box::pin(async move {
            let timeout = self.hub.settings.delivery.timeout;
            let how = (timeout, reason);
            let answers = send::denial(&self.permit, &self.caller, &self.subscription, how).await;
            self.permit.note(answers);
            let counters = self.permit.counters.clone();
            drop(self);
            JobOutcome::Denied { counters }
        })
    }

    async fn confirmed(&self, version: u64) -> Option<Confirmation> {
        let intent = self.subscription.intent.as_ref()?;
        let how = (&*self.subscription.callback, self.hub.settings.delivery.timeout);
        let answer = send::confirmation(&self.permit, &self.caller, how, intent).await;
        self.permit.note(answer != IntentAnswer::Silence);
        let is_confirmed = answer == IntentAnswer::Confirmed;
        if !is_confirmed {
            let (hub, origin) = (self.hub.name(), self.permit.origin());
            tracing::debug!(
                hub,
                callback = &*origin.url,
                "a callback did not confirm what was asked for"
            );
        }
        let mut subscription = self.subscription.to_stored();
        subscription.intent = None;
        let is_known = subscription.until.is_some();
        let (mut reservation, mut denied) = (None, None);
        let remains = match &**intent {
            Intent::Subscribe(terms) if is_confirmed => {
                if !is_known {
                    let plan = subscription.plan.as_deref();
                    let reserved = self.hub.reserved(&subscription.subject, plan, 0).await;
                    // Harmless: if the store is unavailable the callback is asked again, and at the limit the subscriber is informed.
                    reservation = reserved.ok()?.ok();
                }
                if !is_known && reservation.is_none() {
                    denied = Some(Box::new(self.subscription.to_stored()));
                }
                confirm(&mut subscription, terms.clone(), &self.hub.state.lease_clock);
                denied.is_none()
            }
            Intent::Subscribe(_) => is_known,
            // An unconfirmed subscription has no lease that would end it.
            Intent::Unsubscribe(_) => !is_confirmed && is_known,
        };
        if !remains {
            let removed =
                self.hub.remove_row(self.id, Expect::Version(version), self.guard.as_ref());
            return Some(Confirmation::Removed { version: removed.await.ok()?, denied });
        }
        let change = Change {
            table: self.hub.tables.subscriptions.clone(),
            key: self.id.key(),
            value: stored(&subscription),
            expect: Expect::Version(version),
        };
        let versions = self.hub.store.change(vec![change], self.guard.as_ref()).await.ok()?;
        let (version, subscription) = (versions.first().copied()?, Box::new(subscription));
        Some(Confirmation::Kept { version, subscription, reservation })
    }
}
