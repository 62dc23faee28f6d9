//! What comes of the jobs of a worker's deliveries: a place that moves on, another try, a subscription that is gone.

use std::cmp::Reverse;
use std::time::Duration;

use kit::clock;
use telemetry::DeliveryOutcome;

use crate::callback;
use crate::deliver::{AWAY, Deliveries};
use crate::jobs::{self, Confirmation, JobOutcome, Outcome};
use crate::subscription::{Dead, Failure, Id, dead_key, stored};
use crate::write_batch::End;

/// What a subscriber is told whose callback confirmed a subscription when there was no place for it any more.
const NO_ROOM: &str = "there are too many subscriptions";

impl Deliveries {
    /// Takes over what has come of a job.
    pub(crate) fn ended(&mut self, ended: JobOutcome) {
        match ended {
            JobOutcome::Nothing => {}
            JobOutcome::Fetched { id, after, event } => self.fetched(id, after, event),
            JobOutcome::Delivered { id, event, outcome, way } => {
                self.delivered(id, event, outcome);
                way.next(&mut self.ready);
            }
            JobOutcome::Denied { way } => way.next(&mut self.ready),
            JobOutcome::Loaded { partition, found } => self.loaded(partition, found),
            JobOutcome::Noticed(found) => self.remote_updates_found(found),
            JobOutcome::Looked { id, known, row } => self.looked(id, known, row),
            JobOutcome::Confirmed { id, asked, written, way } => {
                self.confirmed(id, asked, written);
                way.next(&mut self.ready);
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
            // What it has reserved is given back once it is held.
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
                // Somebody else has changed it, and news of that comes; or the store is away.
                if let Some(member) = self.members.get_mut(&id).filter(|m| m.version == asked) {
                    member.is_asking = false;
                    self.look_later(id);
                }
            }
        }
    }

    /// Looks at a subscription once the store may work again.
    fn look_later(&mut self, id: Id) {
        let Some(at) = clock::now().checked_add(AWAY) else { return };
        if let Some(member) = self.members.get_mut(&id) {
            member.timer = Some(at);
            self.timers.push(Reverse((at, id)));
        }
    }

    fn fetched(&mut self, id: Id, after: u64, event: Result<Option<u64>, ()>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        member.is_fetching = false;
        match event {
            Ok(Some(event)) if member.cursor.head == after => {
                member.begin(event);
                self.queue(id);
            }
            Ok(Some(_)) => self.queue(id),
            // News of the next is followed.
            Ok(None) => {}
            Err(()) => self.look_later(id),
        }
    }

    fn delivered(&mut self, id: Id, event: u64, outcome: Outcome) {
        let Some(member) = self.members.get_mut(&id) else { return };
        if let Some(open) = member.open(event) {
            open.is_being_sent = false;
        }
        let group = member.group(id);
        let hub = self.hub.clone();
        let topic = hub.topics.get(group.topic as usize);
        let count = |delivered| topic.iter().for_each(|topic| topic.metrics.delivered(delivered));
        match outcome {
            Outcome::Taken => {
                count(DeliveryOutcome::Success);
                member.cursor.failing = false;
                member.end(event);
                drop(self.failures.take(id, event));
                // The next one begins once that is written.
                let end = member.ended(id);
                return self.unwritten.note_end(group, end);
            }
            // Nobody got these, so the next one need not wait.
            Outcome::Limited => {
                count(DeliveryOutcome::Limited);
                member.end(event);
            }
            Outcome::Expired => {
                count(DeliveryOutcome::Expired);
                member.end(event);
                drop(self.failures.take(id, event));
            }
            Outcome::Gone => {
                count(DeliveryOutcome::Success);
                member.end(event);
                member.is_removing = true;
                let (version, guard) = (member.version, self.guard.clone());
                self.under_way.push(jobs::remove(self.hub.clone(), id, version, guard));
            }
            Outcome::Away => {
                if let Some(open) = member.open(event) {
                    open.due = millis(clock::wall() + AWAY);
                }
            }
            Outcome::Failed { why, again } => {
                let delivered = self.failed(id, event, why, again);
                count(delivered);
            }
        }
        self.unwritten.note(group);
        self.queue(id);
    }

    /// The ends of events are written: the next ones may begin.
    pub(crate) fn written(&mut self, ends: Vec<End>) {
        for End { id, from } in ends {
            let member = self.members.get_mut(&id).filter(|m| m.subscription.from == from);
            if let Some(member) = member {
                member.unwritten_ends = member.unwritten_ends.saturating_sub(1);
                self.queue(id);
            }
        }
    }

    /// Sets when an event is tried again, or gives it up. A callback that says when is not asked before, as long as the longest pause.
    fn failed(
        &mut self,
        id: Id,
        event: u64,
        why: String,
        again: Option<Duration>,
    ) -> DeliveryOutcome {
        let Some(member) = self.members.get_mut(&id) else { return DeliveryOutcome::Failure };
        member.cursor.failing = true;
        let delivery = &self.hub.settings.delivery;
        let Some(open) = member.open(event) else { return DeliveryOutcome::Failure };
        open.attempts = open.attempts.saturating_add(1);
        let attempts = open.attempts;
        let now = millis(clock::wall());
        self.failures.note(id, event, Failure::new(now, &why));
        if let Some(pause) = delivery.retries.pause(attempts, fastrand::u64(..1000)) {
            let asked = again.unwrap_or(Duration::ZERO).min(delivery.retries.max);
            open.due = millis(clock::wall() + pause.max(asked));
            return DeliveryOutcome::Failure;
        }
        member.end(event);
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
            "an event is dead, as its delivery failed for the last time: {why}"
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

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
