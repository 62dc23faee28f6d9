//! Which partitions of the subscriptions a worker delivers for: it takes them over, and gives them back once nothing is under way.

use std::sync::Arc;

use kit::LocalBoxFuture;
use store::nodes::{NodeStanding, PARTITIONS, Tenure};
use store::{Error, Expect, Watch};
use tokio::sync::{Semaphore, watch};

use crate::dead::PAUSED;
use crate::deliver::{AWAY, Deliveries, REMOVED};
use crate::hub::{Hub, StoredSubscription};
use crate::hub_state::SubscriptionUpdate;
use crate::jobs::{self, JobOutcome};
use crate::subscription::{Cursor, Id, PendingEvent, Subscription, read};
use crate::write_batch::UnwrittenChanges;

/// A partition, as one worker has it.
pub(crate) enum Part {
    /// Another node's.
    Elsewhere,
    /// The node's, and its subscriptions are being read. Notes about them wait.
    Loading(Tenure, Vec<SubscriptionUpdate>),
    Ours(Tenure),
    /// It goes to another node once nothing of it is under way.
    Leaving(Tenure),
}

/// Notes about subscriptions that are being read. While there are more, none is taken from the mailbox.
const NOTES_MAX: usize = 4096;

/// News of subscriptions that are looked at in one go.
const NEWS_MAX: usize = 1000;

/// News that another node has left for the owner of a subscription.
pub(crate) struct RemoteUpdate {
    id: Id,
    /// The dead event that is to be sent again; without one its row has changed.
    again: Option<u64>,
    key: Vec<u8>,
    version: u64,
}

/// What operators and other nodes have left to see.
pub(crate) struct RemoteUpdates {
    is_paused: bool,
    of: Vec<RemoteUpdate>,
}

impl Part {
    fn of(&self, id: Id) -> bool {
        let hold = match self {
            Part::Elsewhere => return false,
            Part::Loading(hold, _) | Part::Ours(hold) | Part::Leaving(hold) => hold,
        };
        hold.partition() == id.partition()
    }
}

/// Reads the subscriptions of a partition, at once or after a pause, when it is its turn.
fn load(
    hub: Arc<Hub>,
    partition: usize,
    (worker, workers): (usize, usize),
    turns: Arc<Semaphore>,
    is_late: bool,
) -> LocalBoxFuture<'static, JobOutcome> {
    Box::pin(async move {
        if is_late {
            tokio::time::sleep(AWAY).await;
        }
        // Harmless: nobody closes the semaphore, and the permit is held to the end.
        let _turn = turns.acquire().await;
        let found = hub.subscriptions_of(partition, worker, workers).await;
        JobOutcome::Loaded { partition, found }
    })
}

/// Reads what other nodes have left to see.
fn remote_updates(hub: Arc<Hub>, is_late: bool) -> LocalBoxFuture<'static, JobOutcome> {
    Box::pin(async move {
        if is_late {
            tokio::time::sleep(AWAY).await;
        }
        let rows = hub.rows_of(&hub.tables.news, "").await;
        let update = |row: store::Row| {
            let (id, event) = row.key.split_at_checked(32)?;
            let again = event.strip_prefix(b"-").map(std::str::from_utf8);
            // Harmless: without a number the change concerns the subscription itself.
            let again = again.and_then(Result::ok).and_then(|event| event.parse().ok());
            let id = Id::parse(id)?;
            Some(RemoteUpdate { id, again, key: row.key.to_vec(), version: row.version })
        };
        JobOutcome::Noticed(rows.map(|rows| RemoteUpdates {
            is_paused: rows.iter().any(|row| *row.key == *PAUSED),
            // Harmless: the other rows do not concern subscriptions.
            of: rows.into_iter().filter_map(update).collect(),
        }))
    })
}

/// Reads the row of a subscription, which was known in a version, and forgets the news of it.
fn look(hub: Arc<Hub>, update: RemoteUpdate, known: u64) -> LocalBoxFuture<'static, JobOutcome> {
    Box::pin(async move {
        let id = update.id;
        let row = hub.store.get(&hub.tables.subscriptions, &id.key()).await;
        if row.is_ok() {
            let change = hub.news_change(update.key, None, Expect::Version(update.version));
            // Harmless: newer changes stay, and are seen again.
            let _whether_gone = hub.store.change(vec![change], hub.guard().as_ref()).await;
        }
        let row =
            row.map(|row| row.and_then(|row| Some((row.version, Box::new(read(&row.value)?)))));
        JobOutcome::Looked { id, known, row }
    })
}

/// Waits for news of what the node may do.
pub(crate) fn changed(mut standing: watch::Receiver<NodeStanding>) -> LocalBoxFuture<'static, ()> {
    Box::pin(async move {
        if standing.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

/// Waits for news of a table.
pub(crate) fn woken(mut watch: Watch) -> LocalBoxFuture<'static, Watch> {
    Box::pin(async move {
        watch.changed().await;
        watch
    })
}

impl Deliveries {
    /// Takes over what the node has now, and begins to give back what it has not.
    pub(crate) fn adopt(&mut self) {
        let standing = self.standing.borrow_and_update().clone();
        if standing.term != self.term {
            self.lose();
            self.term = standing.term;
        }
        self.guard.clone_from(&standing.guard);
        for partition in 0..PARTITIONS {
            let Some(part) = self.parts.get_mut(partition) else { continue };
            match (standing.has(partition), &part) {
                (true, Part::Elsewhere) if !self.is_ending => {
                    let Some(hold) = self.hub.nodes.hold(partition, self.term) else { continue };
                    *part = Part::Loading(hold, Vec::new());
                    self.load(partition, false);
                }
                (false, Part::Loading(..) | Part::Ours(_)) => {
                    let was = std::mem::replace(part, Part::Elsewhere);
                    if let Part::Loading(hold, _) | Part::Ours(hold) = was {
                        *part = Part::Leaving(hold);
                    }
                }
                // Harmless: the others are as they should be.
                _ => {}
            }
        }
        self.give_back();
    }

    fn load(&mut self, partition: usize, is_late: bool) {
        let of = (self.worker(), self.hub.state.workers());
        let turns = self.loads.clone();
        self.under_way.push(load(self.hub.clone(), partition, of, turns, is_late));
    }

    /// Leaves a subscription where it is, since the hub has its topic no longer. It comes back with the topic, unless its lease is over
    /// before.
    pub(crate) fn leave_out(&mut self, id: Id, version: u64, subscription: &Subscription) {
        if subscription.is_over(self.hub.state.lease_clock.now()) {
            let (hub, guard) = (self.hub.clone(), self.guard.clone());
            self.under_way.push(jobs::remove(hub, id, version, guard));
        }
    }

    /// What it had is another node's. Whatever is under way ends here and now.
    fn lose(&mut self) {
        self.under_way.clear();
        self.unwritten = UnwrittenChanges::default();
        self.members.clear();
        self.ready.clear();
        self.timers.clear();
        self.callbacks.clear_waiting();
        self.common_parts.clear_waiting();
        self.gone.clear();
        self.failures.clear();
        self.is_paused = true;
        self.again.clear();
        self.is_checking = false;
        self.topics.iter_mut().for_each(|topic| topic.ids.clear());
        for part in &mut self.parts {
            *part = Part::Elsewhere;
        }
        self.hub.state.let_all_go(self.worker());
    }

    /// Gives partitions back of which nothing is under way or unwritten.
    pub(crate) fn give_back(&mut self) {
        for partition in 0..PARTITIONS {
            let Some(Part::Leaving(_)) = self.parts.get(partition) else { continue };
            let mut ids = self.members.iter().filter(|(id, _)| id.partition() == partition);
            // A row of a group that is written late would take its new node back.
            if self.unwritten.has(partition) || ids.any(|(_, member)| member.is_busy()) {
                continue;
            }
            let all = self.members.keys().filter(|id| id.partition() == partition);
            let ids: Vec<Id> = all.copied().collect();
            for id in ids {
                self.drop_member(id);
            }
            if let Some(part) = self.parts.get_mut(partition) {
                *part = Part::Elsewhere;
            }
        }
    }

    /// True if what is known of a subscription may be acted upon.
    pub(crate) fn is_ours(&self, id: Id) -> bool {
        matches!(self.parts.get(id.partition()), Some(part @ Part::Ours(_)) if part.of(id))
    }

    /// True if no more updates are taken, because too many wait.
    pub(crate) fn has_notes_enough(&self) -> bool {
        let waiting = self.parts.iter().map(|part| match part {
            Part::Loading(_, updates) => updates.len(),
            Part::Elsewhere | Part::Ours(_) | Part::Leaving(_) => 0,
        });
        waiting.sum::<usize>() >= NOTES_MAX
    }

    /// Takes an update, or keeps it until the subscriptions of its partition are read.
    pub(crate) fn hear(&mut self, update: SubscriptionUpdate) {
        if let SubscriptionUpdate::Denied(id, subscription) = update {
            // Whichever node has it, this one has removed it.
            return self.deny(id, *subscription, REMOVED);
        }
        match self.parts.get_mut(update.id().partition()) {
            Some(Part::Loading(_, updates)) => updates.push(update),
            Some(Part::Ours(_)) => self.noted(update),
            // The node that has it reads of it in the store.
            Some(Part::Elsewhere | Part::Leaving(_)) | None => {}
        }
    }

    /// The subscriptions of a partition were read.
    pub(crate) fn loaded(
        &mut self,
        partition: usize,
        found: Result<Vec<StoredSubscription>, Error>,
    ) {
        let all = match found {
            Ok(all) => all,
            Err(error) => {
                tracing::warn!(hub = self.hub.name(), "subscriptions cannot be read: {error}");
                if !self.is_ending && matches!(self.parts.get(partition), Some(Part::Loading(..))) {
                    self.load(partition, true);
                }
                return;
            }
        };
        let Some(part) = self.parts.get_mut(partition) else { return };
        match std::mem::replace(part, Part::Elsewhere) {
            Part::Loading(hold, updates) => {
                *part = Part::Ours(hold);
                self.make_room(all.len());
                for (id, version, subscription, cursor) in all {
                    self.insert(id, version, subscription, cursor);
                }
                updates.into_iter().for_each(|update| self.noted(update));
                self.check_remote_updates(false);
            }
            other @ (Part::Elsewhere | Part::Ours(_) | Part::Leaving(_)) => *part = other,
        }
    }

    /// Makes room for the subscriptions of a partition, and for those of the ones that are still read: all have about as many. What
    /// grows step by step leaves memory behind.
    fn make_room(&mut self, count: usize) {
        let loading = self.parts.iter().filter(|part| matches!(part, Part::Loading(..))).count();
        let more = count.saturating_mul(loading + 1);
        self.members.reserve(more);
        self.timers.reserve_exact(more);
    }

    /// Looks for what other nodes and operators have left to see.
    pub(crate) fn check_remote_updates(&mut self, is_late: bool) {
        match self.is_checking {
            true => self.checks_again = true,
            false if self.is_ending => {}
            false => {
                self.is_checking = true;
                self.under_way.push(remote_updates(self.hub.clone(), is_late));
            }
        }
    }

    pub(crate) fn remote_updates_found(&mut self, found: Result<RemoteUpdates, Error>) {
        self.is_checking = false;
        let again = std::mem::take(&mut self.checks_again);
        let Ok(RemoteUpdates { is_paused, of: updates }) = found else {
            return self.check_remote_updates(true);
        };
        self.set_paused(is_paused);
        let (worker, workers) = (self.worker(), self.hub.state.workers());
        let seen = |key: &String| updates.iter().any(|update| update.key == key.as_bytes());
        self.again.retain(seen);
        let is_ours = |id: Id| id.worker(workers) == worker && self.is_ours(id);
        // Harmless: what is seen is removed, and then the rest is looked at.
        let ours = updates.into_iter().filter(|update| is_ours(update.id)).take(NEWS_MAX);
        for update in ours.collect::<Vec<_>>() {
            let RemoteUpdate { id, again, .. } = update;
            match again {
                Some(event) => self.open_again(id, event, &update.key),
                None => {
                    let known = self.known(id);
                    self.under_way.push(look(self.hub.clone(), update, known));
                }
            }
        }
        if again {
            self.check_remote_updates(false);
        }
    }

    /// Stops deliveries, or lets all subscriptions go on.
    fn set_paused(&mut self, is_paused: bool) {
        let was_paused = std::mem::replace(&mut self.is_paused, is_paused);
        if was_paused && !is_paused {
            let ids: Vec<Id> = self.members.keys().copied().collect();
            ids.into_iter().for_each(|id| self.queue(id));
        }
    }

    /// Sends a dead event again. The news of it goes together with the place of its subscription, so that it happens once.
    fn open_again(&mut self, id: Id, event: u64, key: &[u8]) {
        // Harmless: the key is an id and a number.
        let text = String::from_utf8_lossy(key).into_owned();
        let forget = self.hub.news_change(key.to_vec(), None, Expect::Anything);
        let Some(member) = self.members.get_mut(&id) else {
            let guard = self.guard.clone();
            self.under_way.push(jobs::forget_news(self.hub.clone(), id, forget, guard));
            return;
        };
        if self.again.insert(text) {
            if member.open(event).is_none() {
                member.cursor.open.push(PendingEvent::new(event));
            }
            self.unwritten.note_with(member.group(id), forget);
            self.queue(id);
        }
    }

    /// The version in which a subscription is known, or was when it went.
    fn known(&self, id: Id) -> u64 {
        let member = self.members.get(&id).map(|member| member.version);
        member.max(self.gone.get(&id).copied()).unwrap_or(0)
    }

    /// The row of a subscription was read, which was known in a version.
    pub(crate) fn looked(
        &mut self,
        id: Id,
        known: u64,
        row: Result<Option<(u64, Box<Subscription>)>, Error>,
    ) {
        if !self.is_ours(id) {
            return;
        }
        match row {
            // The news are there still.
            Err(_) => self.check_remote_updates(true),
            Ok(Some((version, subscription))) if version > self.known(id) => {
                let is_other =
                    self.members.get(&id).is_some_and(|m| m.subscription.from != subscription.from);
                if is_other {
                    self.forget(id, 0);
                }
                self.replace(id, version, *subscription);
            }
            // It went; unless it has come again since it was read, of which there are news as well.
            Ok(None) if self.known(id) == known => self.removed(id, known),
            Ok(Some(_) | None) => {}
        }
    }
}

impl Cursor {
    /// A place behind an event, where nothing is open.
    pub(crate) fn behind(head: u64) -> Cursor {
        Cursor { head, ..Cursor::default() }
    }
}
