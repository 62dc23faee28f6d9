//! The life of a node: it takes a slot, renews its lease, shares partitions with other nodes, and replaces nodes that have
//! failed.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use kit::clock::{self, Instant};

use crate::nodes::roster::{self, Holder, Roll};
use crate::nodes::{NodeView, Nodes, PARTITIONS, SharedState, bit};
use crate::{Answer, Error, Lease, LeaseAnswer, Store, Watch};

/// The pause before a failed call of the store is retried.
const AWAY: Duration = Duration::from_millis(500);

/// The least pause between two checks of another node's lease.
const LOOK_MIN: Duration = Duration::from_millis(20);

/// A node, from when it gets a lease until it loses it.
struct ActiveNode<'a> {
    nodes: &'a Nodes,
    shared: &'a SharedState,
    store: &'a dyn Store,
    lease: Lease,
    me: Holder,
    renew_at: Instant,
    /// For each other slot, the token and the earliest time at which its lease may have expired.
    looks: BTreeMap<u8, (u64, Instant)>,
    /// No node is replaced before this time. Other nodes may have failed to reach the store too, and then need time to return.
    patient_until: Instant,
    /// Partitions that are given back once no work for them is in progress.
    leaving: BTreeSet<usize>,
}

/// Why a life has ended.
enum LifeEnd {
    Fenced,
    Left,
}

impl Nodes {
    /// Runs the node for as long as the future is polled. Returns once the node has left.
    pub async fn run(&self, store: &dyn Store) {
        let Some(shared) = &self.shared else { return };
        while !self.is_leaving.load(Ordering::Acquire) {
            let mut life = ActiveNode::begin(self, shared, store).await;
            let end = life.keep().await;
            self.lose();
            match end {
                LifeEnd::Fenced => {
                    self.losses.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(
                        "store: another node has taken over the work of this node; this node joins again"
                    );
                }
                LifeEnd::Left => break,
            }
        }
        self.has_left.send_replace(true);
    }

    /// Sets the time until which the node's rights last.
    fn set_until(&self, until: Instant) {
        let had_ended = self.until.load(Ordering::Acquire) <= self.millis(clock::now());
        self.until.store(self.millis(until), Ordering::Release);
        if had_ended {
            // Wakes tasks that wait for a renewal.
            self.standing.send_modify(|standing| standing.revivals += 1);
        }
    }

    /// Sets the partitions that the node owns.
    fn set_partitions(&self, partitions: u16, lease: &Lease) {
        // Harmless: the lock is held to the end.
        let _no_holds_meanwhile = self.holds();
        self.standing.send_if_modified(|standing| {
            let guard = Some(lease.guard());
            let is_other = standing.partitions != partitions || standing.guard != guard;
            (standing.partitions, standing.guard) = (partitions, guard);
            is_other
        });
    }

    /// Ends all rights of the node, and starts a new term.
    pub(crate) fn lose(&self) {
        // Harmless: the lock is held to the end.
        let _no_holds_meanwhile = self.holds();
        self.until.store(0, Ordering::Release);
        let term = self.term.fetch_add(1, Ordering::AcqRel) + 1;
        self.standing.send_modify(|standing| {
            standing.term = term;
            standing.partitions = 0;
            standing.guard = None;
        });
    }

    fn is_held(&self, partition: usize) -> bool {
        self.holds().counts.get(partition).is_some_and(|count| *count > 0)
    }

    fn set_seen(&self, roll: &Roll, me: Holder) {
        let seen = roll.nodes.iter().map(|(slot, entry)| {
            let holder = Holder { slot: *slot, token: entry.token };
            let partitions = roll.of_holder(holder).collect();
            NodeView { name: entry.name.clone(), partitions, is_this: holder == me }
        });
        *self.views.lock().unwrap_or_else(PoisonError::into_inner) = seen.collect();
    }
}

/// Limits the time for an answer of the store.
async fn within<T>(limit: Duration, answer: Answer<T>) -> Result<T, Error> {
    let silent = || Error::Unavailable(format!("no answer in {limit:?}"));
    tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(silent()))
}

impl<'a> ActiveNode<'a> {
    /// Takes a slot among the nodes. Retries without limit.
    async fn begin(
        nodes: &'a Nodes,
        shared: &'a SharedState,
        store: &'a dyn Store,
    ) -> ActiveNode<'a> {
        let mut patient_until = clock::now();
        loop {
            match ActiveNode::try_begin(nodes, shared, store, patient_until).await {
                Ok(Some(life)) => return life,
                Ok(None) => tracing::warn!(
                    "store: there are already {} nodes, which is the limit",
                    roster::SLOTS
                ),
                Err(error) => {
                    tracing::warn!("store: this node cannot join yet: {error}");
                    patient_until = clock::now() + shared.lease;
                }
            }
            tokio::time::sleep(AWAY).await;
        }
    }

    async fn try_begin(
        nodes: &'a Nodes,
        shared: &'a SharedState,
        store: &'a dyn Store,
        patient_until: Instant,
    ) -> Result<Option<ActiveNode<'a>>, Error> {
        let limit = shared.lease / 3;
        for slot in 0..roster::SLOTS {
            let acquired = store.acquire(&roster::lease(slot), &shared.name, shared.lease);
            let LeaseAnswer::Acquired(lease) = within(limit, acquired).await? else { continue };
            let me = Holder { slot, token: lease.token };
            let roll = Roll::of(&within(limit, roster::scan(store)).await?.rows);
            // The previous owner of the slot may not have given its partitions back.
            let mut changes = roll.freed(slot);
            changes.push(roster::enter(me, &shared.name));
            within(limit, store.change(changes, Some(&lease.guard()))).await?;
            nodes.set_until(lease.until);
            let renew_at = clock::now() + limit;
            return Ok(Some(ActiveNode {
                nodes,
                shared,
                store,
                lease,
                me,
                renew_at,
                looks: BTreeMap::new(),
                patient_until,
                leaving: BTreeSet::new(),
            }));
        }
        Ok(None)
    }

    /// Keeps the lease until it is lost or the node has left.
    async fn keep(&mut self) -> LifeEnd {
        let mut watch = self.store.watch(roster::TABLE);
        loop {
            let next = match self.turn().await {
                Ok(Some(next)) => next,
                Ok(None) => return LifeEnd::Left,
                Err(Error::Fenced) => return LifeEnd::Fenced,
                Err(error) => {
                    tracing::warn!("store: this node is waiting for the store: {error}");
                    self.patient_until = clock::now() + self.shared.lease;
                    self.renew_at = clock::now();
                    tokio::time::sleep(AWAY.min(self.limit())).await;
                    continue;
                }
            };
            self.wait(&mut watch, next.min(self.renew_at)).await;
        }
    }

    /// The time limit for one answer.
    fn limit(&self) -> Duration {
        self.shared.lease / 3
    }

    async fn ask<T>(&self, answer: Answer<T>) -> Result<T, Error> {
        within(self.limit(), answer).await
    }

    /// Waits until the rows change, [`Nodes::nudge`] is notified, or the time `until` comes.
    async fn wait(&self, watch: &mut Watch, until: Instant) {
        let (mut changed, mut nudged) = (pin!(watch.changed()), pin!(self.nodes.nudge.notified()));
        let any = poll_fn(|cx| match changed.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => nudged.as_mut().poll(cx),
        });
        // Harmless: the caller checks again in each case.
        let _ = tokio::time::timeout_at(until, any).await;
    }

    /// Does the work that is due. Returns the time at which to continue, or `None` once the node has left.
    async fn turn(&mut self) -> Result<Option<Instant>, Error> {
        let was_lost = self.nodes.until.load(Ordering::Acquire) == 0;
        if clock::now() >= self.renew_at || was_lost {
            self.lease = self.ask(self.store.renew(&self.lease, self.shared.lease)).await?;
            self.renew_at = clock::now() + self.limit();
            self.nodes.set_until(self.lease.until);
        }
        let roll = Roll::of(&self.ask(roster::scan(self.store)).await?.rows);
        if !roll.has(self.me) {
            return Err(Error::Fenced);
        }
        self.nodes.set_seen(&roll, self.me);
        if self.nodes.is_leaving.load(Ordering::Acquire) {
            return self.leave(&roll).await;
        }
        self.balance(&roll).await?;
        self.look(&roll).await.map(Some)
    }

    /// Gives back partitions above the quota, and takes free ones up to it.
    async fn balance(&mut self, roll: &Roll) -> Result<(), Error> {
        let mine: Vec<usize> = roll.of_holder(self.me).collect();
        self.leaving.retain(|partition| mine.contains(partition));
        let mut kept: Vec<usize> =
            mine.iter().copied().filter(|p| !self.leaving.contains(p)).collect();
        let quota = roll.quota(self.me.slot);
        let too_much = kept.split_off(kept.len().min(quota));
        self.leaving.extend(too_much);
        self.publish(&kept);
        self.give_back(roll).await?;
        // Each node starts at a different partition, so that concurrent nodes do not try to take the same ones.
        let begin = roll.rank(self.me.slot) * PARTITIONS / roll.nodes.len().max(1);
        let all = (0..PARTITIONS).map(|offset| (begin + offset) % PARTITIONS);
        for partition in all {
            let known = roll.partitions.get(&partition);
            let is_free = known.is_none_or(|(of, _)| !roll.has(*of));
            if !is_free || kept.len() >= quota || clock::now() >= self.renew_at {
                continue;
            }
            let claim = roster::claim(partition, self.me, known.map(|(_, version)| *version));
            match self.ask(self.store.change(vec![claim], Some(&self.lease.guard()))).await {
                Ok(_) => kept.push(partition),
                // Another node took it first.
                Err(Error::Conflict { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.publish(&kept);
        Ok(())
    }

    fn publish(&self, kept: &[usize]) {
        let bits = kept.iter().fold(0, |bits, partition| bits | bit(*partition));
        self.nodes.set_partitions(bits, &self.lease);
    }

    /// Gives back those of the leaving partitions that no longer have work in progress.
    async fn give_back(&mut self, roll: &Roll) -> Result<(), Error> {
        let over = self.leaving.iter().filter(|partition| !self.nodes.is_held(**partition));
        // Harmless: a partition without a row is free.
        let rows = over.filter_map(|partition| {
            let (_, version) = roll.partitions.get(partition)?;
            Some(roster::free(*partition, *version))
        });
        let changes: Vec<_> = rows.collect();
        if !changes.is_empty() {
            self.ask(self.store.change(changes, Some(&self.lease.guard()))).await?;
        }
        Ok(())
    }

    /// Checks whether other nodes still hold their leases, and replaces those that do not. Returns the time of the next check.
    async fn look(&mut self, roll: &Roll) -> Result<Instant, Error> {
        self.looks.retain(|slot, (token, _)| roll.has(Holder { slot: *slot, token: *token }));
        let mut next = self.renew_at;
        for (slot, entry) in roll.nodes.iter().filter(|(slot, _)| **slot != self.me.slot) {
            let known = self.looks.get(slot).map(|(_, at)| *at);
            let mut at = known.unwrap_or_else(clock::now).max(self.patient_until);
            if at <= clock::now() && clock::now() < self.renew_at {
                let name = roster::lease(*slot);
                let asked = self.store.acquire(&name, &self.shared.name, self.shared.lease);
                at = match self.ask(asked).await? {
                    LeaseAnswer::HeldByOther { left, .. } => clock::now() + left.max(LOOK_MIN),
                    LeaseAnswer::Acquired(lease) => {
                        self.replace(roll, *slot, &entry.name, &lease).await?;
                        clock::now() + self.shared.lease
                    }
                };
                self.looks.insert(*slot, (entry.token, at));
            }
            next = next.min(at);
        }
        Ok(next)
    }

    /// Removes a node whose lease has expired. Its partitions are then free.
    async fn replace(&self, roll: &Roll, slot: u8, name: &str, lease: &Lease) -> Result<(), Error> {
        let mut changes = roll.freed(slot);
        changes.extend(roll.nodes.get(&slot).map(|entry| roster::remove(slot, entry.version)));
        let done = self.ask(self.store.change(changes, Some(&lease.guard()))).await;
        self.ask(self.store.release(lease)).await?;
        match done {
            Ok(_) => {
                tracing::warn!(
                    node = name,
                    "store: a node has failed; other nodes take over its work"
                )
            }
            // The rows have changed since they were read. They are read again.
            Err(Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Gives all partitions back. Returns the time at which to continue, or `None` once the node has left.
    async fn leave(&mut self, roll: &Roll) -> Result<Option<Instant>, Error> {
        self.publish(&[]);
        self.leaving = roll.of_holder(self.me).collect();
        if self.leaving.iter().any(|partition| self.nodes.is_held(*partition)) {
            self.give_back(roll).await?;
            return Ok(Some(self.renew_at));
        }
        let mut changes = roll.freed(self.me.slot);
        changes
            .extend(roll.nodes.get(&self.me.slot).map(|e| roster::remove(self.me.slot, e.version)));
        self.ask(self.store.change(changes, Some(&self.lease.guard()))).await?;
        self.ask(self.store.release(&self.lease)).await?;
        Ok(None)
    }
}
