//! The start of a subscription's jobs: what it needs now, within the limits of the worker.

use std::rc::Rc;

use kit::{LocalBoxFuture, clock};

use crate::compact::CompactSubscription;
use crate::deliver::Deliveries;
use crate::feed::NextEvent;
use crate::jobs::{self, Job, JobOutcome};
use crate::member::Need;
use crate::places::RequestPermit;
use crate::sending::Permit;
use crate::subscription::{Id, Subscription};

/// The maximum number of subscriptions whose jobs are started per wake-up.
const BEGUN_MAX: usize = 32;

impl Deliveries {
    /// True if another job may be started.
    pub(crate) fn may_begin(&self) -> bool {
        !self.is_ending
            && !self.unwritten.is_stuck()
            && self.ownership.may_begin()
            && self.sending.has_room()
    }

    /// Starts the jobs of ready subscriptions up to the limits, and of at most `BEGUN_MAX` subscriptions per call: their requests are
    /// signed and sent before other tasks of the worker run.
    pub(crate) fn start_ready(&mut self) {
        for _ in 0..BEGUN_MAX {
            if !self.may_begin() {
                return;
            }
            let Some(id) = self.agenda.next() else { return };
            if let Some(member) = self.members.get_mut(&id) {
                member.entry.taken();
                if self.ownership.has(id) {
                    self.start(id);
                }
            }
        }
    }

    /// Starts all jobs that a subscription needs.
    fn start(&mut self, id: Id) {
        let (now, wall) = (clock::now(), clock::wall());
        loop {
            let Some(member) = self.members.get_mut(&id) else { return };
            let need = member.need(&self.hub.settings, now, wall);
            let job = match need {
                Need::Nothing => break,
                // A pause stops only deliveries. Intent verifications and ends of leases continue.
                Need::Next(_) | Need::Attempt(_) if self.is_paused => break,
                Need::Removal => {
                    member.is_removing = true;
                    jobs::remove(
                        self.hub.clone(),
                        id,
                        member.version,
                        self.ownership.guard().cloned(),
                    )
                }
                Need::Next(after) => {
                    let topic = self.topics.get(member.topic as usize);
                    let Some(feed) = topic.and_then(|topic| topic.feed.as_ref()) else { break };
                    match feed.peek(after) {
                        NextEvent::Event(event) => {
                            // The start is not stored: after a crash the event is found again, since it follows the stored position.
                            member.cursor.begin(event.id);
                            continue;
                        }
                        NextEvent::Nothing => break,
                        NextEvent::Behind => {
                            member.is_fetching = true;
                            jobs::fetch(feed.clone(), id, after)
                        }
                    }
                }
                Need::Confirmation | Need::Attempt(_) => {
                    let event = need.event();
                    let permit = match self.sending.permit_or_wait(id, &member.subscription) {
                        Permit::Granted(permit) => permit,
                        Permit::Waits => return member.entry.wait(),
                        Permit::Unusable => return,
                    };
                    match event {
                        Some(event) => self.job_of_event(id, event, permit),
                        None => self.job_of_intent(id, permit),
                    }
                }
            };
            self.sending.start(job);
        }
        self.arm(id);
    }

    fn job_of_event(
        &mut self,
        id: Id,
        event: u64,
        permit: RequestPermit,
    ) -> LocalBoxFuture<'static, JobOutcome> {
        let Some(member) = self.members.get_mut(&id) else { return jobs::nothing() };
        let feed = self.topics.get(member.topic as usize).and_then(|topic| topic.feed.clone());
        let Some(feed) = feed else { return jobs::nothing() };
        let Some(open) = member.cursor.get(event) else { return jobs::nothing() };
        open.is_running = true;
        let is_first = open.attempts == 0;
        let subscription = member.subscription.clone();
        self.job(id, subscription, permit).deliver(feed, event, is_first)
    }

    fn job_of_intent(
        &mut self,
        id: Id,
        permit: RequestPermit,
    ) -> LocalBoxFuture<'static, JobOutcome> {
        let Some(member) = self.members.get_mut(&id) else { return jobs::nothing() };
        member.is_asking = true;
        let (subscription, version) = (member.subscription.clone(), member.version);
        self.job(id, subscription, permit).confirm(version)
    }

    /// Informs a subscriber that its subscription has ended (W3C WebSub, 5.2). This is attempted once, and not at all if no permit is free.
    pub(crate) fn deny(&mut self, id: Id, subscription: Subscription, reason: &'static str) {
        let known = self.common_parts.known(subscription, &self.hub.state.lease_clock);
        if let Some(permit) = self.sending.permit(&known) {
            let job = self.job(id, known, permit);
            self.sending.start(job.deny(reason));
        }
    }

    fn job(&self, id: Id, subscription: Rc<CompactSubscription>, permit: RequestPermit) -> Job {
        Job {
            hub: self.hub.clone(),
            caller: self.place.caller.clone(),
            term: self.ownership.term(),
            guard: self.ownership.guard().cloned(),
            log: (self.place.access_log)(),
            tracing: (self.place.tracing)(),
            id,
            subscription,
            permit,
        }
    }

    /// Sets the time of a subscription's next check.
    fn arm(&mut self, id: Id) {
        let Some(member) = self.members.get_mut(&id).filter(|member| !member.is_removing) else {
            return;
        };
        // A change of the wall clock is noticed when the timer fires.
        let wait = member.cursor.next_due().map(|due| due.saturating_sub(clock::wall()));
        let due = wait.filter(|_| !self.is_paused);
        let due = due.and_then(|wait| clock::now().checked_add(wait));
        let Some(at) = due.into_iter().chain(member.subscription.ends).min() else { return };
        self.agenda.bring_forward(id, &mut member.entry, at);
    }
}
