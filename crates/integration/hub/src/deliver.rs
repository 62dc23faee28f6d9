//! The deliveries of one worker: which subscription gets which event when.
//!
//! One task has all of the worker's subscriptions to a hub. It runs a bounded number of futures for reads, requests and writes. The
//! next event of a subscription starts once the end of the previous one is stored. So a crash repeats only work that was started and not
//! recorded.
//!
//! Four parts have one responsibility each: [`Ownership`] decides which subscriptions are the worker's, [`Agenda`] decides when each is
//! checked, [`Sending`] runs the jobs in progress, and [`UnwrittenChanges`] collects what has to be stored. What connects them is in this
//! file and in `members`, `starting`, `outcomes` and `partitions`.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use delivery::handover;
use kit::clock::{self, Instant};
use kit::{Alarm, LocalBoxFuture};
use policy::{Resident, ResidentWorker};
use store::{Change, Error, Expect, Watch};
use tokio::sync::{Semaphore, mpsc};

use crate::agenda::Agenda;
use crate::callbacks::Callbacks;
use crate::compact::CommonParts;
use crate::failures::Failures;
use crate::feed::{Feed, ReadyFeeds};
use crate::hub::{Hub, UnreadPositions};
use crate::hub_state::SubscriptionUpdate;
use crate::jobs;
use crate::member::Member;
use crate::ownership::Ownership;
use crate::positions::{self, Group};
use crate::sending::Sending;
use crate::subscription::Id;
use crate::write_batch::{End, UnwrittenChanges};

/// At most this many completed jobs are handled before other events are checked.
const ENDED_MAX: usize = 64;

/// The pause before a failed operation of the store is retried.
pub(crate) const STORE_RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The longest interval at which lags are measured and old events are dropped. The interval is a quarter of `retention.age`, but not
/// longer than this and not shorter than [`TICK_MIN`].
const TICK: Duration = Duration::from_secs(1);
/// The shortest such interval.
const TICK_MIN: Duration = Duration::from_millis(100);

/// The interval at which dead events are counted.
const SWEEP: Duration = Duration::from_secs(60);

/// The number of topics whose old events are dropped at one tick. With ten thousand topics each is visited every three minutes.
const TRIMS_MAX: usize = 64;

/// The reason that is sent to a subscriber whose subscription an operator has removed.
pub(crate) const REMOVED: &str = "the subscription was removed";

/// A topic with the worker's subscriptions to it.
#[derive(Default)]
pub(crate) struct Members {
    pub(crate) feed: Option<Rc<Feed>>,
    pub(crate) ids: std::collections::BTreeSet<Id>,
}

/// The deliveries of one worker: its four parts, and what connects them.
pub(crate) struct Deliveries {
    pub(crate) hub: Arc<Hub>,
    pub(crate) ownership: Ownership,
    pub(crate) agenda: Agenda,
    pub(crate) sending: Sending,
    /// Positions and other changes that are not stored yet.
    pub(crate) unwritten: UnwrittenChanges,
    /// Partitions are read one after the other, so that the memory for reading is reused.
    pub(crate) loads: Arc<Semaphore>,
    /// Wakes up when another node or an operator has written a change.
    remote_updates: LocalBoxFuture<'static, Watch>,
    /// True while a job reads the changes of other nodes and operators.
    pub(crate) is_checking: bool,
    /// True if these changes have to be read again after that job.
    pub(crate) checks_again: bool,
    /// The keys of dead events that are being sent again and whose requests may still be in the store.
    pub(crate) resending: HashSet<String>,
    pub(crate) place: ResidentWorker,
    pub(crate) members: HashMap<Id, Member>,
    pub(crate) common_parts: CommonParts,
    pub(crate) topics: Vec<Members>,
    news: Rc<ReadyFeeds>,
    /// Positions that are written with those of the members, so that they are not lost.
    pub(crate) unread: UnreadPositions,
    /// Removed subscriptions, with the versions of their removals.
    pub(crate) removals: HashMap<Id, u64>,
    pub(crate) failures: Failures,
    /// True if an operator has paused the deliveries, or as long as this is not known.
    pub(crate) is_paused: bool,
    pub(crate) is_ending: bool,
    /// The time of the last count of dead events.
    swept: Instant,
    /// The index of the topic whose old events are dropped next.
    pub(crate) trimmed: usize,
}

/// The next thing to handle.
enum Next {
    SubscriptionUpdate(SubscriptionUpdate),
    /// Some jobs have ended.
    Ended,
    /// More jobs can be started.
    Room,
    News(usize),
    Written(Vec<End>),
    Standing,
    /// Another node or an operator has written a change.
    RemoteUpdates,
    Timer,
    Tick,
    End,
}

impl Resident for Hub {
    fn live(self: Arc<Self>, place: ResidentWorker) -> LocalBoxFuture<'static, ()> {
        Box::pin(async move {
            let worker = place.caller.worker;
            let take = || self.state.take_updates(worker);
            let Some(mut updates) = handover::taken(&place.ending, take).await else { return };
            Deliveries::new(self.clone(), place).run(&mut updates).await;
            self.state.give_updates(worker, updates);
        })
    }
}

impl Deliveries {
    pub(crate) fn new(hub: Arc<Hub>, place: ResidentWorker) -> Deliveries {
        Deliveries {
            ownership: Ownership::new(hub.nodes.clone()),
            agenda: Agenda::default(),
            sending: Sending::new(Callbacks::new(hub.callback_settings())),
            unwritten: UnwrittenChanges::default(),
            topics: hub.topics.iter().map(|_| Members::default()).collect(),
            loads: Arc::new(Semaphore::new(1)),
            remote_updates: woken(hub.store.watch(&hub.tables.news)),
            is_checking: false,
            checks_again: false,
            resending: HashSet::new(),
            hub,
            place,
            members: HashMap::new(),
            common_parts: CommonParts::default(),
            news: Rc::default(),
            unread: UnreadPositions::new(),
            removals: HashMap::new(),
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
            if self.is_ending && self.sending.is_idle() && self.unwritten.is_empty() {
                return;
            }
            self.set_timer(&mut timer);
            match poll_fn(|cx| self.poll_next(cx, updates, &mut timer, &mut ticks)).await {
                Next::SubscriptionUpdate(update) => self.receive_update(update),
                Next::Ended => {}
                Next::Room => kit::task::yield_to_ready().await,
                Next::News(topic) => self.news_of(topic),
                Next::Written(ends) => self.written(ends),
                Next::Standing => self.adopt(),
                Next::RemoteUpdates => self.check_remote_updates(false),
                Next::Timer => self.ring(),
                Next::Tick => {
                    ticks.set(clock::now(), tick);
                    self.tick();
                }
                Next::End => {
                    self.is_ending = true;
                    if self.unwritten.is_stuck() {
                        // The next owner repeats what is not stored.
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
        if self.ownership.poll_changed(cx).is_ready() {
            return Poll::Ready(Next::Standing);
        }
        if let Poll::Ready(watch) = self.remote_updates.as_mut().poll(cx) {
            self.remote_updates = woken(watch);
            return Poll::Ready(Next::RemoteUpdates);
        }
        if !self.ownership.is_full()
            && let Poll::Ready(Some(update)) = updates.poll_recv(cx)
        {
            return Poll::Ready(Next::SubscriptionUpdate(update));
        }
        if let Poll::Ready(written) = self.unwritten.poll(cx) {
            let ends = written.unwrap_or_else(|error| {
                if error == Error::Fenced {
                    self.hub.nodes.tell_fenced(self.ownership.term());
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
        if self.may_begin() && self.agenda.has_ready() {
            Poll::Ready(Next::Room)
        } else {
            ticks.poll(cx).map(|()| Next::Tick)
        }
    }

    /// Handles the results of completed jobs, many at once, since the other checks cost more than most results. Returns false if no job has
    /// ended.
    fn poll_ended(&mut self, cx: &mut Context<'_>) -> bool {
        for count in 0..ENDED_MAX {
            let Poll::Ready(ended) = self.sending.poll_ended(cx) else { return count > 0 };
            self.ended(ended);
        }
        true
    }

    fn set_timer(&self, timer: &mut Alarm) {
        match self.agenda.first().into_iter().chain(self.unwritten.wakes()).min() {
            Some(at) => timer.set_by(at, Duration::ZERO, None),
            None => timer.clear(),
        }
    }

    /// Queues all subscriptions whose check is due.
    fn ring(&mut self) {
        let now = clock::now();
        while let Some((id, at)) = self.agenda.due(now) {
            if let Some(member) = self.members.get_mut(&id) {
                self.agenda.queue_due(id, &mut member.entry, at);
            }
        }
    }

    fn tick(&mut self) {
        let worker = self.worker();
        // Harmless: there is a list of members for each topic of the hub.
        for (members, topic) in self.topics.iter().zip(&self.hub.topics) {
            let Some(feed) = &members.feed else { continue };
            let newest = feed.newest();
            let lag_of = |id| Some(newest.saturating_sub(self.members.get(id)?.cursor.done()));
            // Harmless: a removed subscription has no lag.
            let lag = members.ids.iter().filter_map(lag_of).max();
            topic.metrics.set_lag(worker, lag.unwrap_or(0));
        }
        let counts_dead = worker == 0 && self.ownership.has_partition(0);
        if counts_dead && self.swept.elapsed() >= SWEEP {
            self.swept = clock::now();
            self.sending.start(jobs::sweep_dead(self.hub.clone()));
        }
        // One worker drops old events for all workers.
        let trims = if worker == 0 { self.topics.len().min(TRIMS_MAX) } else { 0 };
        for _ in 0..trims {
            self.trimmed = (self.trimmed + 1) % self.topics.len().max(1);
            self.sending.start(jobs::trim(self.hub.clone(), self.trimmed));
        }
    }

    /// Schedules a check of a subscription as soon as possible.
    pub(crate) fn queue(&mut self, id: Id) {
        if let Some(member) = self.members.get_mut(&id) {
            self.agenda.queue(id, &mut member.entry);
        }
    }

    /// Subscribes to the wake-ups of a topic.
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

    fn write(&mut self) {
        let Deliveries { hub, members, topics, unwritten, unread, ownership, .. } = self;
        let row = |group: Group| {
            let index = group.topic as usize;
            let (topic, of_topic) = (hub.topics.get(index)?, topics.get(index)?);
            // Harmless: a removed subscription has no position.
            let places = of_topic.ids.range(group.ids()).filter_map(|id| {
                let member = members.get(id)?;
                Some((*id, member.subscription.from, (&member.cursor, member.is_failing)))
            });
            let of_group = unread.range(group.ids()).filter(|(_, (of, _))| *of == group.topic);
            let unread = of_group
                .map(|(id, (_, place))| (*id, place.from, (&place.cursor, place.is_failing)));
            Some(Change {
                table: hub.tables.cursors.clone(),
                key: group.key(&topic.name),
                value: positions::written(places.chain(unread)),
                expect: Expect::Anything,
            })
        };
        unwritten.begin(&*hub.store, ownership.guard(), row);
    }
}

/// Waits for a change of a table.
fn woken(mut watch: Watch) -> LocalBoxFuture<'static, Watch> {
    Box::pin(async move {
        watch.changed().await;
        watch
    })
}
