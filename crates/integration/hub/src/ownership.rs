//! The partitions of subscriptions that a worker owns, and their states.
//!
//! Holds no subscriptions and starts no jobs: it tells the caller which partitions have to be read, and which have to be returned.

use std::sync::Arc;
use std::task::{Context, Poll};

use kit::LocalBoxFuture;
use store::Guard;
use store::nodes::{NodeStanding, Nodes, PARTITIONS, PartitionGuard};
use tokio::sync::watch;

use crate::hub_state::SubscriptionUpdate;
use crate::subscription::Id;

/// The state of a partition on one worker.
enum Part {
    /// Another node owns it.
    Elsewhere,
    /// The node owns it, and its subscriptions are being read. Their updates wait.
    Loading(PartitionGuard, Vec<SubscriptionUpdate>),
    Ours(PartitionGuard),
    /// It is returned once none of its jobs is in progress.
    Leaving(
        #[allow(dead_code, reason = "the node keeps the partition until this is dropped")]
        PartitionGuard,
    ),
}

/// The partitions that a worker owns under the node's lease.
pub(crate) struct Ownership {
    nodes: Arc<Nodes>,
    changed: LocalBoxFuture<'static, ()>,
    term: u64,
    guard: Option<Guard>,
    parts: [Part; PARTITIONS],
}

/// The outcome of adopting the node's lease.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Adopted {
    /// Another node may own all partitions that this one owned.
    pub(crate) is_lost: bool,
    /// The partitions whose subscriptions have to be read.
    pub(crate) unread: Vec<usize>,
}

/// The limit on updates that wait until their subscriptions are read. At the limit, no more updates are taken from the mailbox.
const WAITING_MAX: usize = 4096;

/// Waits for a change of the node's lease.
fn changed(mut standing: watch::Receiver<NodeStanding>) -> LocalBoxFuture<'static, ()> {
    Box::pin(async move {
        if standing.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

impl Ownership {
    pub(crate) fn new(nodes: Arc<Nodes>) -> Ownership {
        Ownership {
            changed: changed(nodes.follow()),
            term: nodes.standing().term,
            nodes,
            guard: None,
            parts: std::array::from_fn(|_| Part::Elsewhere),
        }
    }

    /// The term in which jobs are started.
    pub(crate) fn term(&self) -> u64 {
        self.term
    }

    /// The guard of all writes.
    pub(crate) fn guard(&self) -> Option<&Guard> {
        self.guard.as_ref()
    }

    /// True if the node still has its lease.
    pub(crate) fn may_begin(&self) -> bool {
        self.nodes.may_begin(self.term)
    }

    /// Ready once the node's lease has changed.
    pub(crate) fn poll_changed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.changed.as_mut().poll(cx);
        if polled.is_ready() {
            self.changed = changed(self.nodes.follow());
        }
        polled
    }

    /// Adopts the partitions that the node owns now, and starts to return the others.
    pub(crate) fn adopt(&mut self, standing: &NodeStanding, is_ending: bool) -> Adopted {
        let mut adopted = Adopted { is_lost: standing.term != self.term, ..Adopted::default() };
        if adopted.is_lost {
            self.term = standing.term;
            self.parts = std::array::from_fn(|_| Part::Elsewhere);
        }
        self.guard.clone_from(&standing.guard);
        for (partition, part) in self.parts.iter_mut().enumerate() {
            match (standing.has(partition), &part) {
                (true, Part::Elsewhere) if !is_ending => {
                    let Some(hold) = self.nodes.hold(partition, self.term) else { continue };
                    *part = Part::Loading(hold, Vec::new());
                    adopted.unread.push(partition);
                }
                (false, Part::Loading(..) | Part::Ours(_)) => {
                    let was = std::mem::replace(part, Part::Elsewhere);
                    if let Part::Loading(hold, _) | Part::Ours(hold) = was {
                        *part = Part::Leaving(hold);
                    }
                }
                // Harmless: the other partitions are already in the right state.
                _ => {}
            }
        }
        adopted
    }

    /// True if the worker owns the subscription's partition and has read it.
    pub(crate) fn has(&self, id: Id) -> bool {
        self.has_partition(id.partition())
    }

    pub(crate) fn has_partition(&self, partition: usize) -> bool {
        matches!(self.parts.get(partition), Some(Part::Ours(_)))
    }

    /// True while the subscriptions of a partition are being read.
    pub(crate) fn is_loading(&self, partition: usize) -> bool {
        matches!(self.parts.get(partition), Some(Part::Loading(..)))
    }

    /// The number of partitions whose subscriptions are being read.
    pub(crate) fn loading(&self) -> usize {
        self.parts.iter().filter(|part| matches!(part, Part::Loading(..))).count()
    }

    /// True if too many updates wait, so that no more are taken.
    pub(crate) fn is_full(&self) -> bool {
        let waiting = self.parts.iter().map(|part| match part {
            Part::Loading(_, updates) => updates.len(),
            Part::Elsewhere | Part::Ours(_) | Part::Leaving(_) => 0,
        });
        waiting.sum::<usize>() >= WAITING_MAX
    }

    /// Returns an update that applies now. An update for a partition that is being read is kept. Updates for other nodes are dropped, since
    /// the owner reads the change from the store.
    pub(crate) fn admit(&mut self, update: SubscriptionUpdate) -> Option<SubscriptionUpdate> {
        match self.parts.get_mut(update.id().partition())? {
            Part::Loading(_, updates) => {
                updates.push(update);
                None
            }
            Part::Ours(_) => Some(update),
            Part::Elsewhere | Part::Leaving(_) => None,
        }
    }

    /// Ends the reading of a partition's subscriptions, and returns the updates that waited. Returns `None` if the partition was not being
    /// read any more.
    pub(crate) fn loaded(&mut self, partition: usize) -> Option<Vec<SubscriptionUpdate>> {
        let part = self.parts.get_mut(partition)?;
        match std::mem::replace(part, Part::Elsewhere) {
            Part::Loading(hold, updates) => {
                *part = Part::Ours(hold);
                Some(updates)
            }
            other @ (Part::Elsewhere | Part::Ours(_) | Part::Leaving(_)) => {
                *part = other;
                None
            }
        }
    }

    /// The partitions that wait to be returned.
    pub(crate) fn leaving(&self) -> Vec<usize> {
        let parts = self.parts.iter().enumerate();
        let leaving = parts.filter(|(_, part)| matches!(part, Part::Leaving(_)));
        leaving.map(|(partition, _)| partition).collect()
    }

    /// Returns a partition that has no job in progress to the node.
    pub(crate) fn give_back(&mut self, partition: usize) {
        if let Some(part) = self.parts.get_mut(partition).filter(|p| matches!(p, Part::Leaving(_)))
        {
            *part = Part::Elsewhere;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "30000000000000000000000000000000";

    fn removed() -> (usize, SubscriptionUpdate) {
        let id = Id::parse(ID.as_bytes()).unwrap();
        (id.partition(), SubscriptionUpdate::Removed(id, 1))
    }

    fn adopted() -> (Arc<Nodes>, Ownership) {
        let nodes = Arc::new(Nodes::single());
        let mut ownership = Ownership::new(nodes.clone());
        let adopted = ownership.adopt(&nodes.standing(), false);
        assert_eq!(adopted, Adopted { is_lost: false, unread: (0..PARTITIONS).collect() });
        (nodes, ownership)
    }

    #[test]
    fn updates_wait_until_their_partition_is_read() {
        let (_nodes, mut ownership) = adopted();
        let (partition, update) = removed();
        assert!(ownership.is_loading(partition) && !ownership.has_partition(partition));
        assert!(ownership.admit(update).is_none());
        assert_eq!(ownership.loaded(partition).map(|updates| updates.len()), Some(1));
        assert!(ownership.has_partition(partition) && ownership.loaded(partition).is_none());
        assert!(ownership.admit(removed().1).is_some());
        assert_eq!(ownership.loading(), PARTITIONS - 1);
    }

    #[test]
    fn no_more_updates_are_taken_than_may_wait() {
        let (_nodes, mut ownership) = adopted();
        for count in 0..WAITING_MAX {
            assert!(!ownership.is_full(), "{count}");
            assert!(ownership.admit(removed().1).is_none());
        }
        assert!(ownership.is_full());
    }

    #[test]
    fn a_partition_that_the_node_lost_is_returned_once_that_is_allowed() {
        let (nodes, mut ownership) = adopted();
        let (partition, update) = removed();
        assert!(ownership.loaded(partition).is_some());
        // The others are still being read. They are not adopted when that ends.
        let gone = ownership.adopt(&NodeStanding::default(), false);
        assert_eq!(gone, Adopted::default());
        assert_eq!(ownership.leaving(), (0..PARTITIONS).collect::<Vec<_>>());
        assert!(ownership.admit(update).is_none() && !ownership.has_partition(partition));
        assert!(ownership.loaded((partition + 1) % PARTITIONS).is_none());
        ownership.give_back(partition);
        assert!(!ownership.leaving().contains(&partition));
        // It has to be read again. Partitions that are leaving are not adopted before they are returned.
        assert_eq!(ownership.adopt(&nodes.standing(), false).unread, [partition]);
    }

    #[test]
    fn a_new_term_ends_all_that_an_earlier_one_had() {
        let (nodes, mut ownership) = adopted();
        let (partition, _) = removed();
        assert!(ownership.loaded(partition).is_some());
        let mut standing = nodes.standing();
        standing.term = 1;
        // The node is in another term, so nothing can be held in this one.
        let adopted = ownership.adopt(&standing, false);
        assert_eq!(adopted, Adopted { is_lost: true, unread: Vec::new() });
        assert!(!ownership.has_partition(partition) && ownership.leaving().is_empty());
        assert!(!ownership.may_begin() && ownership.term() == 1);
    }

    #[test]
    fn a_worker_that_stops_adopts_nothing() {
        let nodes = Arc::new(Nodes::single());
        let mut ownership = Ownership::new(nodes.clone());
        assert_eq!(ownership.adopt(&nodes.standing(), true), Adopted::default());
        assert_eq!(ownership.loading(), 0);
    }
}
