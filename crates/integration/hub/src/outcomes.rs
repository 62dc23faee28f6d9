//! The results of a worker's jobs: a position that advances, another attempt, or the end of a subscription.

use std::time::Duration;

use kit::clock::{self, millis};
use telemetry::DeliveryOutcome;

use crate::callback;
use crate::deliver::{Deliveries, STORE_RETRY_PAUSE};
use crate::jobs::{self, Confirmation, JobOutcome, Outcome};
use crate::subscription::{Dead, Failure, Id, dead_key, stored};
use crate::write_batch::End;

/// The reason that is sent to a subscriber whose callback confirmed after the limit was reached.
const NO_ROOM: &str = "there are too many subscriptions";

impl Deliveries {
    /// Applies the result of a job.
    pub(crate) fn ended(&mut self, ended: JobOutcome) {
        match ended {
            JobOutcome::Nothing => {}
            JobOutcome::Fetched { id, after, event } => self.fetched(id, after, event),
            JobOutcome::Delivered { id, event, outcome, counters } => {
                self.delivered(id, event, outcome);
                counters.next(self.agenda.ready());
            }
            JobOutcome::Denied { counters } => counters.next(self.agenda.ready()),
            JobOutcome::Loaded { partition, found } => self.loaded(partition, found),
            JobOutcome::RemoteUpdatesRead(found) => self.remote_updates_found(found),
            JobOutcome::RowRead { id, known, row } => self.apply_row(id, known, row),
            JobOutcome::Confirmed { id, asked, written, counters } => {
                self.confirmed(id, asked, written);
                counters.next(self.agenda.ready());
            }
            JobOutcome::Removed { id, version, is_done } => {
                if is_done {
                    self.removed(id, version)
                } else {
                    if let Some(member) = self.members.get_mut(&id) {
                        member.is_removing = false;
                        self.look_later(id);
                    }
                }
            }
        }
    }

    fn confirmed(&mut self, id: Id, asked: u64, written: Option<Confirmation>) {
        match written {
            // Its reservation ends once the subscription itself is counted.
            Some(Confirmation::Kept { version, subscription, reservation: _reserved }) => {
                self.hub.state.answered(id);
                let is_known = self.members.get(&id).is_some_and(|member| member.version == asked);
                if is_known {
                    self.replace(id, version, *subscription);
                }
            }
            Some(Confirmation::Removed { version, denied }) => {
                self.removed(id, version);
                if let Some(subscription) = denied {
                    self.deny(id, *subscription, NO_ROOM);
                }
            }
            None => {
                // The subscription was changed meanwhile and an update follows, or the store is unavailable.
                if let Some(member) = self.members.get_mut(&id).filter(|m| m.version == asked) {
                    member.is_asking = false;
                    self.look_later(id);
                }
            }
        }
    }

    /// Schedules another check of a subscription after a failure of the store.
    fn look_later(&mut self, id: Id) {
        let Some(at) = clock::now().checked_add(STORE_RETRY_PAUSE) else { return };
        if let Some(member) = self.members.get_mut(&id) {
            self.agenda.set(id, &mut member.entry, at);
        }
    }

    fn fetched(&mut self, id: Id, after: u64, event: Result<Option<u64>, ()>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        member.is_fetching = false;
        match event {
            Ok(Some(event)) if member.cursor.head == after => {
                member.cursor.begin(event);
                self.queue(id);
            }
            Ok(Some(_)) => self.queue(id),
            // The feed of the topic announces the next event.
            Ok(None) => {}
            Err(()) => self.look_later(id),
        }
    }

    pub(crate) fn delivered(&mut self, id: Id, event: u64, outcome: Outcome) {
        let Some(member) = self.members.get_mut(&id) else { return };
        if let Some(open) = member.cursor.get(event) {
            open.is_running = false;
        }
        let group = member.group(id);
        let hub = self.hub.clone();
        let topic = hub.topics.get(group.topic as usize);
        let count = |delivered| topic.iter().for_each(|topic| topic.metrics.delivered(delivered));
        match outcome {
            Outcome::Accepted => {
                count(DeliveryOutcome::Success);
                member.is_failing = false;
                member.cursor.end(event);
                drop(self.failures.take(id, event));
                // The next event starts once this end is stored.
                let end = member.ended(id);
                return self.unwritten.note_end(group, end);
            }
            // Limited and expired events were not sent, so the next event need not wait until their end is stored.
            Outcome::Limited => {
                count(DeliveryOutcome::Limited);
                member.cursor.end(event);
            }
            Outcome::Expired => {
                count(DeliveryOutcome::Expired);
                member.cursor.end(event);
                drop(self.failures.take(id, event));
            }
            Outcome::Gone => {
                count(DeliveryOutcome::Success);
                member.cursor.end(event);
                drop(self.failures.take(id, event));
                member.is_removing = true;
                let (version, guard) = (member.version, self.ownership.guard().cloned());
                self.sending.start(jobs::remove(self.hub.clone(), id, version, guard));
            }
            Outcome::Postponed => {
                if let Some(open) = member.cursor.get(event) {
                    open.put_off(STORE_RETRY_PAUSE);
                }
            }
            Outcome::Failed { why, retry_after } => {
                let delivered = self.failed(id, event, why, retry_after);
                count(delivered);
            }
        }
        self.unwritten.note(group);
        self.queue(id);
    }

    /// Queues the subscriptions whose ends of events are now stored: their next events may start.
    pub(crate) fn written(&mut self, ends: Vec<End>) {
        for End { id, from } in ends {
            let member = self.members.get_mut(&id).filter(|m| m.subscription.from == from);
            if let Some(member) = member {
                member.unwritten_ends = member.unwritten_ends.saturating_sub(1);
                self.queue(id);
            }
        }
    }

    /// Schedules the next attempt for an event, or makes the event dead. A callback's `Retry-After` is respected up to the longest pause.
    fn failed(
        &mut self,
        id: Id,
        event: u64,
        why: String,
        retry_after: Option<Duration>,
    ) -> DeliveryOutcome {
        let Some(member) = self.members.get_mut(&id) else { return DeliveryOutcome::Failure };
        member.is_failing = true;
        let delivery = &self.hub.settings.delivery;
        let Some(open) = member.cursor.get(event) else { return DeliveryOutcome::Failure };
        let now = millis(clock::wall());
        self.failures.note(id, event, Failure::new(now, &why));
        if open.fail(&delivery.retries, retry_after.unwrap_or(Duration::ZERO)).is_some() {
            return DeliveryOutcome::Failure;
        }
        let attempts = open.attempts;
        member.cursor.end(event);
        let (group, end) = (member.group(id), member.ended(id));
        let failures = self.failures.take(id, event);
        let topic = self.hub.topics.get(group.topic as usize);
        let topic = topic.map_or("", |topic| &*topic.name);
        let callback = callback::split(&member.subscription.callback);
        tracing::warn!(
            hub = self.hub.name(),
            topic,
            event,
            subscription = %id,
            callback = callback.map_or("", |(server, _)| server),
            attempts,
            "the last delivery attempt of an event has failed: {why}"
        );
        if delivery.dead_letter {
            let dead = Dead {
                topic: topic.to_owned(),
                died: now,
                failures,
                event,
                subscription: id.to_string(),
                callback: member.subscription.callback.to_string(),
                attempts,
                last: why,
            };
            let change = self.hub.dead_change(&dead_key(id, event), stored(&dead));
            self.unwritten.note_with(group, change);
        }
        self.unwritten.note_end(group, end);
        DeliveryOutcome::Dead
    }
}
