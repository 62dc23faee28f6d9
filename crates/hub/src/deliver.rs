//! The deliveries of one worker: which subscription gets which event when.
//!
//! One task has all of the worker's subscriptions of a hub. What takes time (reading, sending, writing) are futures in it, of a
//! bounded number. What was begun and not written yet is done again after a crash, and nothing else: the next event of a subscription
//! begins once the end of the one before is written.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use kit::clock::{self, Instant};
use kit::{Alarm, LocalBoxFuture};
use policy::{Residence, Resident};
use store::nodes::{NodeStanding, PARTITIONS};
use store::{Change, Error, Expect, Guard, Watch};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::callbacks::Callbacks;
use crate::compact::{CommonParts, CompactSubscription};
use crate::failures::Failures;
use crate::feed::{Feed, NextEvent, ReadyFeeds};
use crate::hub::Hub;
use crate::hub_state::SubscriptionUpdate;
use crate::jobs::{self, Job, JobOutcome};
use crate::member::{Member, Need};
use crate::partitions::{Part, changed, woken};
use crate::places::{PLACES_MAX, UnderWay};
use crate::positions::{self, Group};
use crate::subscription::{Id, Subscription};
use crate::write_batch::{End, UnwrittenChanges};

/// Requests to callbacks, reads and writes under way on a worker. The latter have places of their own: however many callbacks hang, leases
/// end and events are read.
const UNDER_WAY_MAX: usize = PLACES_MAX + 256;

/// Of those, so many begin at once.
const BEGUN_MAX: usize = 32;
/// And so many end before it is looked at anything else.
const ENDED_MAX: usize = 64;

/// The pause before something is tried again that the store did not do.
pub(crate) const AWAY: Duration = Duration::from_secs(1);

/// How often it is looked whether the hub of the plan before is done.
const HANDOVER: Duration = Duration::from_millis(20);

/// How often lags are measured and old events dropped.
const TICK: Duration = Duration::from_secs(1);
const TICK_MIN: Duration = Duration::from_millis(100);

/// How often dead events are counted.
const SWEEP: Duration = Duration::from_secs(60);

/// Topics whose old events are dropped at one tick. Ten thousand have their turn every three minutes.
const TRIMS_MAX: usize = 64;

/// What a subscriber is told whose subscription an operator has removed.
pub(crate) const REMOVED: &str = "the subscription was removed";

/// A topic with the worker's subscriptions to it.
#[derive(Default)]
pub(crate) struct Members {
    feed: Option<Rc<Feed>>,
    pub(crate) ids: std::collections::BTreeSet<Id>,
}

/// The deliveries of one worker.
pub(crate) struct Deliveries {
    pub(crate) hub: Arc<Hub>,
    /// What the node may do, and what of that was taken over.
    pub(crate) standing: watch::Receiver<NodeStanding>,
    standing_news: LocalBoxFuture<'static, ()>,
    pub(crate) term: u64,
    pub(crate) guard: Option<Guard>,
    pub(crate) parts: [Part; PARTITIONS],
    /// Partitions are read one after the other: what reading needs beside the subscriptions is used again for the next.
    pub(crate) loads: Arc<Semaphore>,
    /// Wakes up when another node or an operator has left something to see.
    left: LocalBoxFuture<'static, Watch>,
    pub(crate) is_checking: bool,
    pub(crate) checks_again: bool,
    /// News of dead events that were taken and are not forgotten yet.
    pub(crate) again: HashSet<String>,
    pub(crate) place: Residence,
    pub(crate) callbacks: Rc<Callbacks>,
    pub(crate) members: HashMap<Id, Member>,
    pub(crate) common_parts: CommonParts,
    pub(crate) topics: Vec<Members>,
    /// Subscriptions that may need something.
    pub(crate) ready: VecDeque<Id>,
    pub(crate) timers: BinaryHeap<Reverse<(Instant, Id)>>,
    pub(crate) under_way: FuturesUnordered<LocalBoxFuture<'static, JobOutcome>>,
    news: Rc<ReadyFeeds>,
    pub(crate) unwritten: UnwrittenChanges,
    pub(crate) gone: HashMap<Id, u64>,
    pub(crate) failures: Failures,
    /// An operator has paused the deliveries; also until it is known that none has.
    pub(crate) is_paused: bool,
    pub(crate) is_ending: bool,
    /// When dead events were counted.
    swept: Instant,
    /// The topic whose old events are dropped next.
    pub(crate) trimmed: usize,
}

/// What happens next.
enum Next {
    SubscriptionUpdate(SubscriptionUpdate),
    /// Some jobs have ended.
    Ended,
    /// More can be begun.
    Room,
    News(usize),
    Written(Vec<End>),
    Standing,
    Left,
    Timer,
    Tick,
    End,
}

impl Resident for Hub {
    fn live(self: Arc<Self>, place: Residence) -> LocalBoxFuture<'static, ()> {
        Box::pin(async move {
            let worker = place.caller.worker;
            let Some(mut updates) = self.updates(&place).await else { return };
            Deliveries::new(self.clone(), place).run(&mut updates).await;
            self.state.give_updates(worker, updates);
        })
    }
}

impl Hub {
    /// The updates for a worker, once the hub of the plan before has given them back. None if it has to end before.
    async fn updates(&self, place: &Residence) -> Option<mpsc::Receiver<SubscriptionUpdate>> {
        loop {
            if let Some(updates) = self.state.take_updates(place.caller.worker) {
                return Some(updates);
            }
            let asked = poll_fn(|cx| place.ending.poll_asked(cx));
            if tokio::time::timeout(HANDOVER, asked).await.is_ok() {
                return None;
            }
        }
    }
}

impl Deliveries {
    fn new(hub: Arc<Hub>, place: Residence) -> Deliveries {
        Deliveries {
            callbacks: Rc::new(Callbacks::new(hub.ways())),
            topics: hub.topics.iter().map(|_| Members::default()).collect(),
            standing: hub.nodes.follow(),
            standing_news: changed(hub.nodes.follow()),
            term: hub.nodes.standing().term,
            guard: None,
            parts: std::array::from_fn(|_| Part::Elsewhere),
            loads: Arc::new(Semaphore::new(1)),
            left: woken(hub.store.watch(&hub.tables.news)),
            is_checking: false,
            checks_again: false,
            again: HashSet::new(),
            hub,
            place,
            members: HashMap::new(),
            common_parts: CommonParts::default(),
            ready: VecDeque::new(),
            timers: BinaryHeap::new(),
            under_way: FuturesUnordered::new(),
            news: Rc::default(),
            unwritten: UnwrittenChanges::default(),
            gone: HashMap::new(),
            failures: Failures::default(),
            is_paused: true,
            is_ending: false,
            swept: clock::now(),
            trimmed: 0,
        }
    }

    pub(crate) fn worker(&self) -> usize {
        self.place.caller.worker
    }

    async fn run(&mut self, updates: &mut mpsc::Receiver<SubscriptionUpdate>) {
        let tick = (self.hub.settings.retention.age / 4).clamp(TICK_MIN, TICK);
        let (mut timer, mut ticks) = (Alarm::default(), Alarm::default());
        ticks.set(clock::now(), tick);
        self.adopt();
        loop {
            self.start_ready();
            self.write();
            self.give_back();
            if self.is_ending && self.under_way.is_empty() && self.unwritten.is_empty() {
                return;
            }
            self.set_timer(&mut timer);
            match poll_fn(|cx| self.poll_next(cx, updates, &mut timer, &mut ticks)).await {
                Next::SubscriptionUpdate(update) => self.hear(update),
                Next::Ended => {}
                Next::Room => kit::task::yield_to_ready().await,
                Next::News(topic) => self.news_of(topic),
                Next::Written(ends) => self.written(ends),
                Next::Standing => self.adopt(),
                Next::Left => self.check_remote_updates(false),
                Next::Timer => self.ring(),
                Next::Tick => {
                    ticks.set(clock::now(), tick);
                    self.tick();
                }
                Next::End => {
                    self.is_ending = true;
                    if self.unwritten.is_stuck() {
                        // What is not written is done again by whoever comes next.
                        return;
                    }
                }
            }
        }
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        updates: &mut mpsc::Receiver<SubscriptionUpdate>,
        timer: &mut Alarm,
        ticks: &mut Alarm,
    ) -> Poll<Next> {
        if !self.is_ending && self.place.ending.poll_asked(cx).is_ready() {
            return Poll::Ready(Next::End);
        }
        if self.standing_news.as_mut().poll(cx).is_ready() {
            self.standing_news = changed(self.hub.nodes.follow());
            return Poll::Ready(Next::Standing);
        }
        if let Poll::Ready(left) = self.left.as_mut().poll(cx) {
            self.left = woken(left);
            return Poll::Ready(Next::Left);
        }
        if !self.has_notes_enough()
            && let Poll::Ready(Some(update)) = updates.poll_recv(cx)
        {
            return Poll::Ready(Next::SubscriptionUpdate(update));
        }
        if let Poll::Ready(written) = self.unwritten.poll(cx) {
            let ends = written.unwrap_or_else(|error| {
                if error == Error::Fenced {
                    self.hub.nodes.tell_fenced(self.term);
                }
                tracing::warn!(hub = self.hub.name(), "deliveries wait for the store: {error}");
                Vec::new()
            });
            return Poll::Ready(Next::Written(ends));
        }
        if self.poll_ended(cx) {
            return Poll::Ready(Next::Ended);
        }
        if let Poll::Ready(topic) = self.news.poll(cx) {
            return Poll::Ready(Next::News(topic));
        }
        if timer.poll(cx).is_ready() {
            return Poll::Ready(Next::Timer);
        }
        if self.may_begin() && !self.ready.is_empty() {
            Poll::Ready(Next::Room)
        } else {
            ticks.poll(cx).map(|()| Next::Tick)
        }
    }

    /// Takes over what has come of jobs, of many at once: a look at everything else costs more than most of them. False if none has
    /// ended.
    fn poll_ended(&mut self, cx: &mut Context<'_>) -> bool {
        for count in 0..ENDED_MAX {
            let Poll::Ready(Some(ended)) = self.under_way.poll_next_unpin(cx) else {
                return count > 0;
            };
            self.ended(ended);
        }
        true
    }

    fn set_timer(&self, timer: &mut Alarm) {
        let first = self.timers.peek().map(|Reverse((at, _))| *at);
        match first.into_iter().chain(self.unwritten.wakes()).min() {
            Some(at) => timer.set_by(at, Duration::ZERO, None),
            None => timer.clear(),
        }
    }

    /// Looks at all subscriptions whose time has come.
    fn ring(&mut self) {
        let now = clock::now();
        while let Some(Reverse((at, id))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            if let Some(member) = self.members.get_mut(&id).filter(|m| m.timer == Some(at)) {
                member.timer = None;
                self.queue(id);
            }
        }
    }

    fn tick(&mut self) {
        let worker = self.worker();
        // Harmless: the members are kept for each topic of the hub.
        for (members, topic) in self.topics.iter().zip(&self.hub.topics) {
            let Some(feed) = &members.feed else { continue };
            let newest = feed.newest();
            let behind = |id| {
                let cursor = &self.members.get(id)?.cursor;
                let open = cursor.open.iter().map(|open| open.event.saturating_sub(1));
                Some(newest.saturating_sub(open.chain([cursor.head]).min()?))
            };
            // Harmless: a removed subscription has no lag.
            let lag = members.ids.iter().filter_map(behind).max();
            topic.metrics.set_lag(worker, lag.unwrap_or(0));
        }
        let counts_dead = worker == 0 && matches!(self.parts.first(), Some(Part::Ours(_)));
        if counts_dead && self.swept.elapsed() >= SWEEP {
            self.swept = clock::now();
            self.under_way.push(jobs::sweep_dead(self.hub.clone()));
        }
        // One worker is enough.
        let trims = if worker == 0 { self.topics.len().min(TRIMS_MAX) } else { 0 };
        for _ in 0..trims {
            self.trimmed = (self.trimmed + 1) % self.topics.len().max(1);
            self.under_way.push(jobs::trim(self.hub.clone(), self.trimmed));
        }
    }

    /// Looks at a subscription soon.
    pub(crate) fn queue(&mut self, id: Id) {
        if let Some(member) = self.members.get_mut(&id)
            && !std::mem::replace(&mut member.is_queued, true)
        {
            self.ready.push_back(id);
        }
    }

    /// Hears of news of a topic from now on.
    pub(crate) fn follow(&mut self, topic: usize) {
        let (Some(members), Some(known)) = (self.topics.get_mut(topic), self.hub.topics.get(topic))
        else {
            return;
        };
        if members.feed.is_none() {
            let feed = self.hub.feed(known);
            feed.listen(&self.news, topic);
            members.feed = Some(feed);
        }
    }

    fn news_of(&mut self, topic: usize) {
        let Some(members) = self.topics.get(topic) else { return };
        let ids: Vec<Id> = members.ids.iter().copied().collect();
        ids.into_iter().for_each(|id| self.queue(id));
    }

    /// True if there is room for something new.
    fn may_begin(&self) -> bool {
        !self.is_ending
            && !self.unwritten.is_stuck()
            && self.hub.nodes.may_begin(self.term)
            && self.under_way.len() < UNDER_WAY_MAX
    }

    /// Begins what is ready, as far as there is room, and some of it at once: each is signed and sent before others of the worker have
    /// their turn.
    fn start_ready(&mut self) {
        for _ in 0..BEGUN_MAX {
            if !self.may_begin() {
                return;
            }
            let Some(id) = self.ready.pop_front() else { return };
            if let Some(member) = self.members.get_mut(&id) {
                member.is_queued = false;
                if self.is_ours(id) {
                    self.start(id);
                }
            }
        }
    }

    /// Begins all that a subscription needs.
    fn start(&mut self, id: Id) {
        let now = (clock::now(), clock::wall());
        loop {
            let Some(member) = self.members.get_mut(&id) else { return };
            let need = member.need(&self.hub.settings, now);
            let job = match need {
                Need::Nothing => break,
                // Questions to callbacks and the ends of leases wait for nobody.
                Need::Next(_) | Need::Retry(_) if self.is_paused => break,
                Need::Removal => {
                    member.is_removing = true;
                    jobs::remove(self.hub.clone(), id, member.version, self.guard.clone())
                }
                Need::Next(after) => {
                    let topic = self.topics.get(member.topic as usize);
                    let Some(feed) = topic.and_then(|topic| topic.feed.as_ref()) else { break };
                    match feed.peek(after) {
                        NextEvent::Event(event) => {
                            // It is not written: after a crash it would be found again behind the one before.
                            member.begin(event.id);
                            continue;
                        }
                        NextEvent::Nothing => break,
                        NextEvent::Behind => {
                            member.is_fetching = true;
                            jobs::fetch(feed.clone(), id, after)
                        }
                    }
                }
                Need::Confirmation | Need::Retry(_) => {
                    let event = need.event();
                    let origin = self.callbacks.origin(&member.subscription.callback);
                    let Some(origin) = origin else { return };
                    let way = self.callbacks.way(origin, member.subscription.common.usage.clone());
                    let Some(way) = way.begin_or_wait(id) else {
                        member.is_queued = true;
                        return;
                    };
                    match event {
                        Some(event) => self.job_of_event(id, event, way),
                        None => self.job_of_intent(id, way),
                    }
                }
            };
            self.under_way.push(job);
        }
        self.arm(id);
    }

    fn job_of_event(
        &mut self,
        id: Id,
        event: u64,
        way: UnderWay,
    ) -> LocalBoxFuture<'static, JobOutcome> {
        let Some(member) = self.members.get_mut(&id) else { return jobs::nothing() };
        let feed = self.topics.get(member.topic as usize).and_then(|topic| topic.feed.clone());
        let Some(feed) = feed else { return jobs::nothing() };
        let Some(open) = member.open(event) else { return jobs::nothing() };
        open.is_being_sent = true;
        let is_first = open.attempts == 0;
        let subscription = member.subscription.clone();
        self.job(id, subscription, way).deliver(feed, event, is_first)
    }

    fn job_of_intent(&mut self, id: Id, way: UnderWay) -> LocalBoxFuture<'static, JobOutcome> {
        let Some(member) = self.members.get_mut(&id) else { return jobs::nothing() };
        member.is_asking = true;
        let (subscription, version) = (member.subscription.clone(), member.version);
        self.job(id, subscription, way).confirm(version)
    }

    /// Tells a subscriber that it gets no more (W3C WebSub, 5.2): once, and not at all where its server has too much to do.
    pub(crate) fn deny(&mut self, id: Id, subscription: Subscription, reason: &'static str) {
        let Some(origin) = self.callbacks.origin(&subscription.callback) else { return };
        let known = self.common_parts.known(subscription, &self.hub.state.lease_clock);
        let way = self.callbacks.way(origin, known.common.usage.clone());
        if let Some(way) = way.begin() {
            let job = self.job(id, known, way);
            self.under_way.push(job.deny(reason));
        }
    }

    fn job(&self, id: Id, subscription: Rc<CompactSubscription>, way: UnderWay) -> Job {
        Job {
            hub: self.hub.clone(),
            caller: self.place.caller.clone(),
            term: self.term,
            guard: self.guard.clone(),
            log: (self.place.access_log)(),
            tracing: (self.place.tracing)(),
            id,
            subscription,
            way,
        }
    }

    /// Sets the time at which a subscription is looked at again.
    fn arm(&mut self, id: Id) {
        let Some(member) = self.members.get_mut(&id).filter(|member| !member.is_removing) else {
            return;
        };
        // A change of the time of day is seen when it rings.
        let wait = member.due().map(|due| due.saturating_sub(clock::wall()));
        let due = wait.filter(|_| !self.is_paused);
        let due = due.and_then(|wait| clock::now().checked_add(wait));
        let Some(at) = due.into_iter().chain(member.subscription.ends).min() else { return };
        if member.timer.is_none_or(|timer| at < timer) {
            member.timer = Some(at);
            self.timers.push(Reverse((at, id)));
        }
    }

    fn write(&mut self) {
        let Deliveries { hub, members, topics, unwritten, guard, .. } = self;
        let row = |group: Group| {
            let index = group.topic as usize;
            let (topic, of_topic) = (hub.topics.get(index)?, topics.get(index)?);
            // Harmless: a subscription that is gone has no place.
            let places = of_topic.ids.range(group.ids()).filter_map(|id| {
                let member = members.get(id)?;
                Some((*id, member.subscription.from, &member.cursor))
            });
            Some(Change {
                table: hub.tables.cursors.clone(),
                key: group.key(&topic.name),
                value: positions::written(places),
                expect: Expect::Anything,
            })
        };
        unwritten.begin(&*hub.store, guard.as_ref(), row);
    }
}
