//! The connection pool: idle connections, per worker. A worker never touches another's, so there are no locks.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use std::sync::{Arc, Weak};

use kit::clock::{self, Instant};
use telemetry::{PoolMetrics, UpstreamMetrics};

use crate::balance::BalanceState;
use crate::connect::Connection;
use crate::{Protocol, Upstream, h2};

/// One worker's pool for one upstream.
pub(crate) struct Pool {
    upstream: Weak<Upstream>,
    metrics: Arc<UpstreamMetrics>,
    worker: usize,
    idle_max: usize,
    /// By target; the most recently used last.
    idle: RefCell<Vec<Vec<Idle>>>,
    /// By target: shared connections. None if the upstream is asked in HTTP/1.
    lanes: RefCell<Vec<h2::Lane>>,
    pub(crate) turn: RefCell<BalanceState>,
    /// The addresses that targets had lost when that was last looked at, as a number that changes.
    losses: Cell<u32>,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

thread_local! {
    static POOLS: RefCell<HashMap<u64, Rc<Pool>, BuildHasherDefault<Serial>>> = RefCell::default();
}

/// The hash of an upstream's serial number. Serial numbers are counted, so they spread well, and no outsider chooses them.
#[derive(Default)]
struct Serial(u64);

impl Hasher for Serial {
    fn finish(&self) -> u64 {
        // The table uses the top bits as well as the bottom ones.
        self.0 ^ self.0.rotate_left(57)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, serial: u64) {
        self.0 = self.0.rotate_left(8) ^ serial;
    }
}

impl Upstream {
    /// This worker's pool, made on first use.
    pub(crate) fn pool(self: &Arc<Upstream>, worker: usize) -> Rc<Pool> {
        POOLS.with_borrow_mut(|pools| {
            let pool = pools.entry(self.serial).or_insert_with(|| {
                let idle = (0..self.targets.len()).map(|_| Vec::new()).collect();
                let lanes = match self.settings.protocol {
                    Protocol::Http1 => Vec::new(),
                    Protocol::Http2 | Protocol::Auto => {
                        (0..self.targets.len()).map(|_| h2::Lane::default()).collect()
                    }
                };
                let (idle, lanes) = (RefCell::new(idle), RefCell::new(lanes));
                let (turn, losses) = (RefCell::default(), Cell::new(0));
                let metrics = self.metrics.clone();
                let (upstream, idle_max) = (Arc::downgrade(self), self.settings.idle_max);
                Rc::new(Pool { upstream, metrics, worker, idle_max, idle, lanes, turn, losses })
            });
            pool.clone()
        })
    }
}

impl Pool {
    /// Takes an idle connection that is still open. The most recently used comes first: it is the least likely to be stale, and
    /// the others get the chance to time out.
    pub(crate) fn pop(&self, target: usize) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        let list = idle.get_mut(target)?;
        while let Some(mut entry) = list.pop() {
            self.count_idle(-1);
            if entry.connection.wire.is_quiet() {
                return Some(entry.connection);
            }
        }
        None
    }

    /// True if a connection waits that is still open.
    pub(crate) fn has_idle(&self, target: usize) -> bool {
        let idle = self.pop(target);
        let is_there = idle.is_some();
        idle.into_iter().for_each(|connection| self.give(target, connection, clock::now()));
        is_there
    }

    /// Puts a connection back for the next request.
    pub(crate) fn give(&self, target: usize, mut connection: Connection, now: Instant) {
        if self.upstream.strong_count() == 0 || self.has_lost(target, &mut connection) {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        let Some(list) = idle.get_mut(target).filter(|list| list.len() < self.idle_max) else {
            return;
        };
        connection.reused = true;
        list.push(Idle { connection, since: now });
        self.count_idle(1);
    }

    /// True for a connection to an address that its target's name no longer has.
    fn has_lost(&self, target: usize, connection: &mut Connection) -> bool {
        let losses = self.losses.get();
        if connection.losses == losses {
            return false;
        }
        let Some(upstream) = self.upstream.upgrade() else { return true };
        connection.losses = losses;
        upstream.has_lost(target, connection.address.as_deref())
    }

    /// Works on the shared connections to a target.
    pub(crate) fn lane<R>(
        &self,
        target: usize,
        work: impl FnOnce(&mut h2::Lane) -> R,
    ) -> Option<R> {
        self.lanes.borrow_mut().get_mut(target).map(work)
    }

    pub(crate) fn worker(&self) -> usize {
        self.worker
    }

    /// Closes an idle connection, if there is one.
    pub(crate) fn close_one(&self) {
        if self.idle.borrow_mut().iter_mut().any(|list| list.pop().is_some()) {
            return self.count_idle(-1);
        }
        // Only the first that has one is asked.
        self.lanes.borrow_mut().iter_mut().any(h2::Lane::close_one);
    }

    /// Closes connections that have been idle too long, and those that the target has closed.
    fn sweep(&self, upstream: &Upstream, now: Instant) {
        let idle_max = upstream.settings().timeout.idle;
        let losses = upstream.targets.iter().map(|target| target.known.losses());
        let losses = losses.fold(0, u32::wrapping_add);
        let have_lost = self.losses.replace(losses) != losses;
        for (at, list) in self.idle.borrow_mut().iter_mut().enumerate() {
            let before = list.len();
            list.retain_mut(|i| {
                now.duration_since(i.since) < idle_max
                    && !(have_lost && self.has_lost(at, &mut i.connection))
                    && i.connection.wire.is_quiet()
            });
            self.count_idle(-i64::try_from(before - list.len()).unwrap_or(i64::MAX));
        }
        for (at, lane) in self.lanes.borrow_mut().iter_mut().enumerate() {
            if have_lost {
                lane.leave(|address| upstream.has_lost(at, address));
            }
            lane.sweep();
        }
    }

    pub(crate) fn metrics(&self) -> &PoolMetrics {
        self.metrics.pool(self.worker)
    }

    fn count_idle(&self, n: i64) {
        self.metrics().connections_idle.add(n);
    }
}

impl Drop for Pool {
    /// The metrics live on under the upstream's name.
    fn drop(&mut self) {
        let left: usize = self.idle.get_mut().iter().map(Vec::len).sum();
        self.count_idle(-i64::try_from(left).unwrap_or(i64::MAX));
    }
}

/// Closes this worker's connections that have been idle too long, and drops the pools of upstreams that are gone.
pub fn sweep() {
    let now = clock::now();
    POOLS.with_borrow_mut(|pools| {
        pools.retain(|_, pool| match pool.upstream.upgrade() {
            Some(upstream) => {
                pool.sweep(&upstream, now);
                true
            }
            None => false,
        });
    });
}
