//! Requests to a callback about its subscription: to verify the intent of the subscriber, and to inform it that the
//! subscription has ended.

use kit::LocalBoxFuture;
use store::{Change, Expect};

use crate::jobs::{Confirmation, Job, JobOutcome};
use crate::send::{self, IntentAnswer};
use crate::subscribing::confirm;
use crate::subscription::{Intent, stored};

impl Job {
    /// Verifies the intent of a subscriber by one request to its callback, and stores the result.
    pub(crate) fn confirm(self, asked: u64) -> LocalBoxFuture<'static, JobOutcome> {
        Box::pin(async move {
            let written = self.confirmed(asked).await;
            let (id, counters) = (self.id, self.permit.counters.clone());
            drop(self);
            JobOutcome::Confirmed { id, asked, written, counters }
        })
    }

    /// Informs a callback that its subscription has ended. The answer has no effect on the subscription.
    pub(crate) fn deny(self, reason: &'static str) -> LocalBoxFuture<'static, JobOutcome> {
        Box::pin(async move {
            let timeout = self.hub.settings.delivery.timeout;
            let (permit, caller, known) = (&self.permit, &self.caller, &self.subscription);
            let answers = send::denial(permit, caller, known, timeout, reason).await;
            self.permit.origin().note(answers);
            let counters = self.permit.counters.clone();
            drop(self);
            JobOutcome::Denied { counters }
        })
    }

    async fn confirmed(&self, version: u64) -> Option<Confirmation> {
        let intent = self.subscription.intent.as_ref()?;
        let callback = &*self.subscription.callback;
        let timeout = self.hub.settings.delivery.timeout;
        let answer =
            send::confirmation(&self.permit, &self.caller, callback, timeout, intent).await;
        self.permit.origin().note(answer != IntentAnswer::Silence);
        let is_confirmed = answer == IntentAnswer::Confirmed;
        if !is_confirmed {
            let (hub, origin) = (self.hub.name(), self.permit.origin());
            tracing::debug!(
                hub,
                callback = &*origin.url,
                "a callback did not confirm the request of its subscriber"
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
                    // Harmless: if the store is unavailable, the callback is asked again; at a limit, the subscriber is informed.
                    reservation = reserved.ok()?.ok();
                }
                if !is_known && reservation.is_none() {
                    denied = Some(Box::new(self.subscription.to_stored()));
                }
                confirm(&mut subscription, terms.clone(), &self.hub.state.lease_clock);
                denied.is_none()
            }
            Intent::Subscribe(_) => is_known,
            // A subscription that was never confirmed is removed in any case, since it has no lease that would end it.
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
