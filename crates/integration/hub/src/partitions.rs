//! The partitions of subscriptions that a worker delivers for: it adopts them, and returns them once nothing is in progress.

use std::sync::Arc;

use kit::LocalBoxFuture;
use store::{Error, Expect};
use tokio::sync::Semaphore;

use crate::deliver::{Deliveries, REMOVED, STORE_RETRY_PAUSE};
use crate::hub::{Hub, StoredSubscriptions};
use crate::hub_state::SubscriptionUpdate;
use crate::jobs::{self, JobOutcome, SubscriptionRow};
use crate::positions::StoredPosition;
use crate::remote_updates::{RemoteUpdate, RemoteUpdates};
use crate::subscription::{Id, Subscription};
use crate::write_batch::UnwrittenChanges;

/// The maximum number of remote updates that are handled after one read of the table.
const NEWS_MAX: usize = 1000;

/// Reads the subscriptions of a partition, at once or after a pause. `turns` lets only one partition be read at a time.
fn load(
    hub: Arc<Hub>,
    partition: usize,
    worker: usize,
    workers: usize,
    turns: Arc<Semaphore>,
    is_late: bool,
) -> LocalBoxFuture<'static, JobOutcome> {
    Box::pin(async move {
        if is_late {
            tokio::time::sleep(STORE_RETRY_PAUSE).await;
        }
        // Harmless: the semaphore is never closed, and the permit is held to the end.
        let _turn = turns.acquire().await;
        let found = hub.subscriptions_of(partition, worker, workers).await;
        JobOutcome::Loaded { partition, found }
    })
}

/// Reads the changes that other nodes and operators have written.
fn remote_updates(hub: Arc<Hub>, is_late: bool) -> LocalBoxFuture<'static, JobOutcome> {
    Box::pin(async move {
        if is_late {
            tokio::time::sleep(STORE_RETRY_PAUSE).await;
        }
        JobOutcome::RemoteUpdatesRead(RemoteUpdates::read(&hub).await)
    })
}

/// Reads the row of a subscription, and deletes the remote update that announced its change. `known` is the version that the worker knows.
fn look(hub: Arc<Hub>, update: RemoteUpdate, known: u64) -> LocalBoxFuture<'static, JobOutcome> {
    Box::pin(async move {
        let id = update.id;
        let row = hub.row(id).await;
        if row.is_ok() {
            let change = hub.news_change(update.key, None, Expect::Version(update.version));
            // Harmless: an update that is not deleted, because it is newer or the write failed, is handled again later.
            let _ = hub.store.change(vec![change], hub.guard().as_ref()).await;
        }
        let row = row.map(|row| row.map(|(version, known)| (version, known.map(Box::new))));
        JobOutcome::RowRead { id, known, row }
    })
}

impl Deliveries {
    /// Adopts the partitions that the node owns now, and starts to return those that it does not.
    pub(crate) fn adopt(&mut self) {
        let adopted = self.ownership.adopt(&self.hub.nodes.standing(), self.is_ending);
        if adopted.is_lost {
            self.lose();
        }
        for partition in adopted.unread {
            self.load(partition, false);
        }
        self.give_back();
    }

    fn load(&mut self, partition: usize, is_late: bool) {
        let (worker, workers) = (self.worker(), self.hub.state.workers());
        let (hub, turns) = (self.hub.clone(), self.loads.clone());
        self.sending.start(load(hub, partition, worker, workers, turns, is_late));
    }

    /// Skips a subscription whose topic is no longer configured. If its lease has ended, removes it. Otherwise it is read again once the
    /// topic is configured again.
    pub(crate) fn leave_out(&mut self, id: Id, version: u64, subscription: &Subscription) {
        if subscription.is_over(self.hub.state.lease_clock.now()) {
            let (hub, guard) = (self.hub.clone(), self.ownership.guard().cloned());
            self.sending.start(jobs::remove(hub, id, version, guard));
        }
    }

    /// Drops all subscriptions and all jobs in progress, since another node may own the partitions now.
    fn lose(&mut self) {
        self.sending.clear();
        self.unwritten = UnwrittenChanges::default();
        self.members.clear();
        self.agenda.clear();
        self.common_parts.clear_waiting();
        self.removals.clear();
        self.failures.clear();
        self.unread.clear();
        self.is_paused = true;
        self.resending.clear();
        self.is_checking = false;
        self.topics.iter_mut().for_each(|topic| topic.ids.clear());
        self.hub.state.let_all_go(self.worker());
    }

    /// Returns the partitions that have no job in progress and no unwritten change.
    pub(crate) fn give_back(&mut self) {
        for partition in self.ownership.leaving() {
            let mut ids = self.members.iter().filter(|(id, _)| id.partition() == partition);
            // If a group's row were written after the partition is returned, it would reset the positions on the new node.
            if self.unwritten.has(partition) || ids.any(|(_, member)| member.is_busy()) {
                continue;
            }
            let all = self.members.keys().filter(|id| id.partition() == partition);
            let ids: Vec<Id> = all.copied().collect();
            for id in ids {
                self.drop_member(id);
            }
            self.unread.retain(|id, _| id.partition() != partition);
            self.ownership.give_back(partition);
        }
    }

    /// Applies an update, or keeps it until the subscriptions of its partition are read.
    pub(crate) fn receive_update(&mut self, update: SubscriptionUpdate) {
        if let SubscriptionUpdate::Denied(id, subscription) = update {
            // The node that removed the subscription informs its subscriber, whichever node owns it.
            return self.deny(id, *subscription, REMOVED);
        }
        if let Some(update) = self.ownership.admit(update) {
            self.apply_update(update);
        }
    }

    /// Adopts the subscriptions of a partition once they have been read.
    pub(crate) fn loaded(&mut self, partition: usize, found: Result<StoredSubscriptions, Error>) {
        let StoredSubscriptions { all, unread } = match found {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(hub = self.hub.name(), "subscriptions cannot be read: {error}");
                if !self.is_ending && self.ownership.is_loading(partition) {
                    self.load(partition, true);
                }
                return;
            }
        };
        let Some(updates) = self.ownership.loaded(partition) else { return };
        self.unread.extend(unread);
        self.make_room(all.len());
        for (id, version, subscription, position) in all {
            self.insert(id, version, subscription, position);
        }
        updates.into_iter().for_each(|update| self.apply_update(update));
        self.check_remote_updates(false);
    }

    /// Reserves memory for the subscriptions of this partition, and for those of the partitions still to be read, which have about as many.
    /// Growing step by step would fragment the heap.
    fn make_room(&mut self, count: usize) {
        let more = count.saturating_mul(self.ownership.loading() + 1);
        self.members.reserve(more);
        self.agenda.reserve(more);
    }

    /// Reads the changes of other nodes and operators.
    pub(crate) fn check_remote_updates(&mut self, is_late: bool) {
        if self.is_checking {
            self.checks_again = true;
        } else if !self.is_ending {
            self.is_checking = true;
            self.sending.start(remote_updates(self.hub.clone(), is_late));
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
        self.resending.retain(seen);
        let is_ours = |id: Id| id.worker(workers) == worker && self.ownership.has(id);
        // Harmless: the handled updates are deleted, which causes another read with the rest.
        let ours = updates.into_iter().filter(|update| is_ours(update.id)).take(NEWS_MAX);
        for update in ours.collect::<Vec<_>>() {
            let RemoteUpdate { id, dead_event, .. } = update;
            match dead_event {
                Some(event) => self.open_again(id, event, &update.key),
                None => {
                    let known = self.known(id);
                    self.sending.start(look(self.hub.clone(), update, known));
                }
            }
        }
        if again {
            self.check_remote_updates(false);
        }
    }

    /// Pauses the deliveries, or lets all subscriptions continue.
    fn set_paused(&mut self, is_paused: bool) {
        let was_paused = std::mem::replace(&mut self.is_paused, is_paused);
        if was_paused && !is_paused {
            let ids: Vec<Id> = self.members.keys().copied().collect();
            ids.into_iter().for_each(|id| self.queue(id));
        }
    }

    /// Sends a dead event again. One write deletes the request and stores the subscription's position, so that the event is sent once.
    fn open_again(&mut self, id: Id, event: u64, key: &[u8]) {
        // Harmless: the key consists of an id and a number, which are ASCII.
        let text = String::from_utf8_lossy(key).into_owned();
        let forget = self.hub.news_change(key.to_vec(), None, Expect::Anything);
        let Some(member) = self.members.get_mut(&id) else {
            let guard = self.ownership.guard().cloned();
            self.sending.start(jobs::forget_news(self.hub.clone(), id, forget, guard));
            return;
        };
        if self.resending.insert(text) {
            member.cursor.reopen(event);
            self.unwritten.note_with(member.group(id), forget);
            self.queue(id);
        }
    }

    /// The known version of a subscription, or the version of its removal. 0 if neither is known.
    fn known(&self, id: Id) -> u64 {
        let member = self.members.get(&id).map(|member| member.version);
        member.max(self.removals.get(&id).copied()).unwrap_or(0)
    }

    /// Applies the row of a subscription, which was read because another node had changed it.
    pub(crate) fn apply_row(
        &mut self,
        id: Id,
        known: u64,
        row: Result<Option<SubscriptionRow>, Error>,
    ) {
        if !self.ownership.has(id) {
            return;
        }
        match row {
            // The remote update is still stored, and is read again.
            Err(_) => self.check_remote_updates(true),
            Ok(Some((version, None))) if version > self.known(id) => self.set_aside(id),
            Ok(Some((version, Some(subscription)))) if version > self.known(id) => {
                let is_other =
                    self.members.get(&id).is_some_and(|m| m.subscription.from != subscription.from);
                if is_other {
                    self.forget(id, 0);
                }
                self.replace(id, version, *subscription);
            }
            // The subscription was removed. If it has been added again since the read, another remote update announces that.
            Ok(None) if self.known(id) == known => self.removed(id, known),
            Ok(Some(_) | None) => {}
        }
    }

    /// Stops the deliveries of a subscription whose row cannot be read any more, and keeps its position.
    fn set_aside(&mut self, id: Id) {
        self.hub.warn_unread("subscription", &id.key());
        let Some(member) = self.members.get(&id) else { return };
        let (mut cursor, is_failing) = (member.cursor.clone(), member.is_failing);
        // The outcome of a delivery in progress is dropped.
        cursor.open.iter_mut().for_each(|open| open.is_running = false);
        let place = StoredPosition { from: member.subscription.from, cursor, is_failing };
        self.unread.insert(id, (member.topic, place));
        self.drop_member(id);
    }
}
