//! The nodes of a store: they divide the work among the processes that share the store.
//!
//! All work is in a fixed number of partitions. Each node has a lease, and the rows that name its partitions. Its writes for a partition
//! are guarded by its lease. A node that takes over another node's work takes that node's lease first, so the former owner can no longer
//! write. A store of one node has no rows and no lease: that node always owns all partitions.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kit::clock::{self, Instant};
use tokio::sync::{Notify, watch};

use crate::Guard;

mod membership;
mod roster;

/// The number of partitions, and so the largest number of nodes that have work.
pub const PARTITIONS: usize = 16;

/// How long a node keeps its work without renewing its lease. A node that has failed is replaced after that time.
pub const LEASE: Duration = Duration::from_secs(10);

/// How long a stopping node waits until its partitions are given back.
const LEAVE_MAX: Duration = Duration::from_secs(3);

/// This process as one of the nodes of its store.
#[derive(Debug)]
pub struct Nodes {
    /// The name and the lease of this node, or `None` if it is the only node.
    shared: Option<SharedState>,
    standing: watch::Sender<NodeStanding>,
    /// The number of guards of each partition.
    holds: Mutex<Holds>,
    /// The current term.
    term: AtomicU64,
    /// The time until which the term certainly lasts, in milliseconds since `began`.
    until: AtomicU64,
    began: Instant,
    /// Wakes the task that renews the lease: work has ended, a lease was lost, or the node is to leave.
    nudge: Notify,
    is_leaving: AtomicBool,
    has_left: watch::Sender<bool>,
    views: Mutex<Vec<NodeView>>,
    /// The number of times that another node took over this node's work.
    losses: AtomicU64,
    /// Whether a previous or next process of an upgrade uses the store as well.
    has_company: AtomicBool,
}

#[derive(Debug)]
struct SharedState {
    name: String,
    lease: Duration,
}

/// The rights of a node at this moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeStanding {
    /// Changes when the node has lost its partitions. Work of an earlier term then belongs to other nodes.
    pub term: u64,
    /// The condition of every write for a partition, or `None` if the node is the only one.
    pub guard: Option<Guard>,
    /// A bit for each partition.
    partitions: u16,
    /// The number of times that the lease was renewed after it had expired.
    revivals: u64,
}

/// A node as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    pub name: String,
    pub partitions: Vec<usize>,
    pub is_this: bool,
}

/// Work for a partition. The node keeps the partition until all such work has ended.
#[derive(Debug)]
pub struct PartitionGuard {
    nodes: Arc<Nodes>,
    partition: usize,
}

#[derive(Debug, Default)]
struct Holds {
    counts: [u32; PARTITIONS],
}

impl NodeStanding {
    /// Returns true if the node has a partition.
    pub fn has(&self, partition: usize) -> bool {
        partition < PARTITIONS && self.partitions & bit(partition) != 0
    }
}

fn bit(partition: usize) -> u16 {
    1_u16.checked_shl(u32::try_from(partition).unwrap_or(u32::MAX)).unwrap_or(0)
}

/// Returns the partition of a name.
pub fn partition(name: &str) -> usize {
    // FNV-1a, since all nodes must compute the same value in all versions.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    usize::try_from((hash ^ (hash >> 32)) % PARTITIONS as u64).unwrap_or(0)
}

impl Nodes {
    /// Returns the only node of its store.
    pub fn single() -> Nodes {
        Nodes::new(None, NodeStanding { partitions: u16::MAX, ..NodeStanding::default() }, u64::MAX)
    }

    /// Returns one of several nodes. It owns nothing before [`Nodes::run`].
    pub fn shared(name: &str, lease: Duration) -> Nodes {
        // Harmless: the name is only displayed.
        let name = name.chars().filter(|c| !c.is_control()).take(NAME_CHARS_MAX).collect();
        Nodes::new(Some(SharedState { name, lease }), NodeStanding::default(), 0)
    }

    fn new(shared: Option<SharedState>, standing: NodeStanding, until: u64) -> Nodes {
        Nodes {
            shared,
            standing: watch::Sender::new(standing),
            holds: Mutex::default(),
            term: AtomicU64::new(0),
            until: AtomicU64::new(until),
            began: clock::now(),
            nudge: Notify::new(),
            is_leaving: AtomicBool::new(false),
            has_left: watch::Sender::new(false),
            views: Mutex::default(),
            losses: AtomicU64::new(0),
            has_company: AtomicBool::new(false),
        }
    }

    /// Returns true if no other node can share the store.
    pub fn is_single(&self) -> bool {
        self.shared.is_none()
    }

    /// Returns true if another process may use the store too: another node, or during an upgrade the previous or the next process.
    pub fn has_company(&self) -> bool {
        !self.is_single() || self.has_company.load(Ordering::Acquire)
    }

    /// Sets whether another process of an upgrade uses the store as well.
    pub(crate) fn set_company(&self, has_company: bool) {
        self.has_company.store(has_company, Ordering::Release);
    }

    /// Starts no more work, since another process will have it. Work in progress continues.
    pub(crate) fn give_up(&self) {
        // Harmless: the lock is held to the end.
        let _no_holds_meanwhile = self.holds();
        self.standing.send_modify(|standing| standing.partitions = 0);
    }

    /// Returns true if no partition has work in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.holds().counts.iter().all(|count| *count == 0)
    }

    /// Owns all partitions again, as the only node.
    pub(crate) fn take_back(&self) {
        // Harmless: the lock is held to the end.
        let _no_holds_meanwhile = self.holds();
        self.until.store(u64::MAX, Ordering::Release);
        self.standing.send_modify(|standing| {
            standing.partitions = u16::MAX;
            standing.revivals += 1;
        });
    }

    /// Returns the rights of the node at this moment.
    pub fn standing(&self) -> NodeStanding {
        self.standing.borrow().clone()
    }

    /// Returns a receiver that follows changes of the node's rights.
    pub fn follow(&self) -> watch::Receiver<NodeStanding> {
        self.standing.subscribe()
    }

    /// Returns true if no other node can own the partitions that this node had in a term. Only then may work for them start.
    pub fn may_begin(&self, term: u64) -> bool {
        let until = self.until.load(Ordering::Acquire);
        let lasts = until == u64::MAX || self.millis(clock::now()) < until;
        lasts && self.term.load(Ordering::Acquire) == term
    }

    /// Returns true if the node certainly owns a partition now.
    pub fn has(&self, partition: usize) -> bool {
        let (term, has) = {
            let standing = self.standing.borrow();
            (standing.term, standing.has(partition))
        };
        has && self.may_begin(term)
    }

    /// Starts work for a partition. Returns `None` if the node does not own the partition in this term.
    pub fn hold(self: &Arc<Self>, partition: usize, term: u64) -> Option<PartitionGuard> {
        let mut holds = self.holds();
        let is_held = {
            let standing = self.standing.borrow();
            standing.term == term && standing.has(partition)
        };
        let count = holds.counts.get_mut(partition).filter(|_| is_held)?;
        *count += 1;
        Some(PartitionGuard { nodes: self.clone(), partition })
    }

    /// Reports that a write was refused because the lease of a term was lost. No more work starts then.
    pub fn tell_fenced(&self, term: u64) {
        if !self.is_single() && self.term.load(Ordering::Acquire) == term {
            self.until.store(0, Ordering::Release);
            self.nudge.notify_one();
        }
    }

    /// Returns all nodes, as of the last time this node read the rows.
    pub fn views(&self) -> Vec<NodeView> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the name of the owner of a partition, as of the last time this node read the rows.
    pub fn owner(&self, partition: usize) -> Option<String> {
        let seen = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        let owner = seen.iter().find(|node| node.partitions.contains(&partition));
        owner.map(|node| node.name.clone())
    }

    /// Returns the number of times that another node took over this node's work.
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// Gives all partitions back, so that other nodes need not wait until the lease expires. All work must have ended before.
    pub async fn leave(&self) {
        if self.is_single() {
            return;
        }
        self.is_leaving.store(true, Ordering::Release);
        self.nudge.notify_one();
        let mut left = self.has_left.subscribe();
        // Harmless: the process stops in either case.
        let _ = tokio::time::timeout(LEAVE_MAX, left.wait_for(|left| *left)).await;
    }

    fn holds(&self) -> MutexGuard<'_, Holds> {
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.began).as_millis()).unwrap_or(u64::MAX - 1)
    }
}

/// The maximum number of characters of a node's name. The rest is cut off.
const NAME_CHARS_MAX: usize = 128;

impl PartitionGuard {
    pub fn partition(&self) -> usize {
        self.partition
    }
}

impl Drop for PartitionGuard {
    fn drop(&mut self) {
        let mut holds = self.nodes.holds();
        if let Some(count) = holds.counts.get_mut(self.partition) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.nodes.nudge.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests;
