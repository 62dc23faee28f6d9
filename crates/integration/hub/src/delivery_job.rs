//! The delivery of one event to a callback: its limits, the request, and its line in the access log.

use std::borrow::Cow;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use kit::{LocalBoxFuture, clock};
use policy::{CallTrace, ExchangeTrace};
use store::Error;
use telemetry::access::AccessEntry;

use crate::callback;
use crate::compact::CompactSubscription;
use crate::event::Event;
use crate::feed::{Feed, NextEvent, ReadBounds};
use crate::jobs::{Job, JobOutcome, Outcome};
use crate::send::{self, SendOutcome};
use crate::settings::LimitedBy;

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
                Outcome::Failed { why: "an error of the gateway".to_owned(), retry_after: None }
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
            Err(_) => return Outcome::Postponed,
        };
        let Some(event) = event else { return Outcome::Expired };
        if is_first {
            match self.is_within_limits(&event).await {
                Ok(true) => {}
                Ok(false) => return Outcome::Limited,
                Err(_) => return Outcome::Postponed,
            }
        }
        if !self.hub.nodes.may_begin(self.term) {
            // The node may have lost the partition since the job was started.
            return Outcome::Postponed;
        }
        let (time, began) = (clock::wall(), clock::now());
        let settings = &self.hub.settings;
        let (algorithm, timeout) = (settings.algorithm, settings.delivery.timeout);
        let cause = event.representation.span();
        let trace = self.tracing.as_ref().map(|tracing| ExchangeTrace::of_own(tracing, cause));
        let call = trace.as_ref().map(|trace| CallTrace { trace, parent: None, link: cause });
        let (permit, caller, known) = (&self.permit, &self.caller, &self.subscription);
        let (status, sent) =
            send::event(permit, caller, known, algorithm, timeout, &event, call).await;
        self.permit.origin().note(!matches!(sent, SendOutcome::Failed { .. }));
        self.record(&event, time, clock::now().duration_since(began), status, &sent);
        match sent {
            SendOutcome::Taken => Outcome::Accepted,
            SendOutcome::Gone => Outcome::Gone,
            SendOutcome::Failed { why, retry_after } => Outcome::Failed { why, retry_after },
        }
    }

    /// Counts a delivery in all windows of the subscriber's plan. Returns false if it exceeds one of them.
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
        // A delivery that one window refuses must not count in the others, so all windows are checked first. If another delivery is counted
        // between the check and the count, the refused delivery may count in some windows nevertheless.
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
        time: Duration,
        duration: Duration,
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
}
