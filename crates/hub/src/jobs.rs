//! What takes time for a subscription: one future each, which the worker's deliveries run beside one another.

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
use crate::places::{UnderWay, Way};
use crate::send::{self, IntentAnswer, SendOutcome};
use crate::settings::LimitedBy;
use crate::subscribing::confirm;
use crate::subscription::{Id, Intent, Subscription, stored};

/// A request to a callback, with everything it needs.
pub(crate) struct Job {
    pub(crate) hub: Arc<Hub>,
    pub(crate) caller: Rc<Caller>,
    /// The term of the node in which it was begun, and what its writes depend on.
    pub(crate) term: u64,
    pub(crate) guard: Option<Guard>,
    pub(crate) log: Option<Arc<AccessLog>>,
    pub(crate) tracing: Option<Rc<Tracing>>,
    pub(crate) id: Id,
    pub(crate) subscription: Rc<CompactSubscription>,
    pub(crate) way: UnderWay,
}

/// What has come of a job.
pub(crate) enum JobOutcome {
    Nothing,
    /// The event behind `after` is this one, or there is none yet; an error where the store is away.
    Fetched {
        id: Id,
        after: u64,
        event: Result<Option<u64>, ()>,
    },
    Delivered {
        id: Id,
        event: u64,
        outcome: Outcome,
        way: Way,
    },
    /// What was written about the version that was asked about. None: nothing was.
    Confirmed {
        id: Id,
        asked: u64,
        written: Option<Confirmation>,
        way: Way,
    },
    Denied {
        way: Way,
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
    /// The row of a subscription that was known in a version.
    Looked {
        id: Id,
        known: u64,
        row: Result<Option<(u64, Box<Subscription>)>, Error>,
    },
}

/// What was written of a subscription about which its callback was asked.
pub(crate) enum Confirmation {
    /// It is in a new version now.
    Kept {
        version: u64,
        subscription: Box<Subscription>,
        /// Its place, if it is new.
        reservation: Option<Reservation>,
    },
    Removed {
        version: u64,
        /// The subscription, if its callback confirmed it and there was no place for it.
        denied: Option<Box<Subscription>>,
    },
}

/// What became of an event.
pub(crate) enum Outcome {
    Taken,
    /// The subscriber wants no more.
    Gone,
    Failed {
        why: String,
        /// The time after which the callback wants to be tried again.
        again: Option<Duration>,
    },
    /// It is over the limits.
    Limited,
    /// It is not in the log any more.
    Expired,
    /// The store did not say.
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

/// Forgets news of a subscription that is gone.
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

/// Finds the event behind another.
pub(crate) fn fetch(feed: Rc<Feed>, id: Id, after: u64) -> LocalBoxFuture<'static, JobOutcome> {
    Box::pin(async move {
        let event = match feed.read(after, ReadBounds::ONE).await {
            Ok(events) => Ok(events.first().map(|event| event.id)),
            // The oldest that is kept comes next. Nobody can have the others any more.
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
            let (id, way) = (self.id, self.way.way.clone());
            drop(self);
            JobOutcome::Delivered { id, event, outcome, way }
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
            // The node has lost the event meanwhile, or may have.
            return Outcome::Away;
        }
        let (time, began) = (clock::wall(), clock::now());
        let settings = &self.hub.settings;
        let how = (settings.algorithm, settings.delivery.timeout);
        let cause = event.said.span();
        let trace = self.tracing.as_ref().map(|tracing| ExchangeTrace::of_own(tracing, cause));
        let call = trace.as_ref().map(|trace| CallTrace { trace, parent: None, link: cause });
        let (status, sent) =
            send::event(&self.way, &self.caller, &self.subscription, how, &event, call).await;
        self.way.note(!matches!(sent, SendOutcome::Failed { .. }));
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
        // What one of several refuses must not count in the others. Between the look and the count another delivery may come; then
        // one counts that was dropped.
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

    /// Writes a delivery to the access log. The query of a callback may hold what only the subscriber should know.
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
        let (id, origin) = (event.id.to_string(), self.way.origin());
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

    /// Asks a callback whether it wants what was asked for, once, and writes down what it says.
    pub(crate) fn confirm(self, asked: u64) -> LocalBoxFuture<'static, JobOutcome> {
        Box::pin(async move {
            let written = self.confirmed(asked).await;
            let (id, way) = (self.id, self.way.way.clone());
            drop(self);
            JobOutcome::Confirmed { id, asked, written, way }
        })
    }

    /// Tells a callback that its subscription is over. Whatever it answers, that is so.
    pub(crate) fn deny(self, reason: &'static str) -> LocalBoxFuture<'static, JobOutcome> {
        Box::pin(async move {
            let timeout = self.hub.settings.delivery.timeout;
            let how = (timeout, reason);
            let answers = send::denial(&self.way, &self.caller, &self.subscription, how).await;
            self.way.note(answers);
            let way = self.way.way.clone();
            drop(self);
            JobOutcome::Denied { way }
        })
    }

    async fn confirmed(&self, version: u64) -> Option<Confirmation> {
        let intent = self.subscription.intent.as_ref()?;
        let how = (&*self.subscription.callback, self.hub.settings.delivery.timeout);
        let answer = send::confirmation(&self.way, &self.caller, how, intent).await;
        self.way.note(answer != IntentAnswer::Silence);
        let is_confirmed = answer == IntentAnswer::Confirmed;
        if !is_confirmed {
            let (hub, origin) = (self.hub.name(), self.way.origin());
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
                    // Harmless: if the store is away it is asked again, and if the limit is reached the subscriber gets a reply that says so.
                    reservation = reserved.ok()?.ok();
                }
                if !is_known && reservation.is_none() {
                    denied = Some(Box::new(self.subscription.to_stored()));
                }
                confirm(&mut subscription, terms.clone(), &self.hub.state.lease_clock);
                denied.is_none()
            }
            Intent::Subscribe(_) => is_known,
            // One that was never confirmed has no lease that would end it.
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
