//! The connection pool: idle connections, per worker. A worker never touches another's, so there are no locks.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use std::sync::{Arc, Weak};

use kit::clock::{self, Instant};
use telemetry::{PoolMetrics, UpstreamMetrics};

use crate::Upstream;
use crate::connect::Connection;
use crate::roster::{Idle, Roster, WorkerTarget};

/// One worker's pool for one upstream.
pub(crate) struct Pool {
    upstream: Weak<Upstream>,
    metrics: Arc<UpstreamMetrics>,
    worker: usize,
    idle_max: usize,
    roster: RefCell<Rc<Roster>>,
}

thread_local! {
    static POOLS: RefCell<HashMap<u64, Rc<Pool>, BuildHasherDefault<SerialHasher>>> = RefCell::default();
}

/// Hashes the serial number of an upstream. Serial numbers are consecutive, so they spread well, and no outsider chooses them.
#[derive(Default)]
struct SerialHasher(u64);

impl Hasher for SerialHasher {
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
    /// This worker's pool. It is created on first use.
    pub(crate) fn pool(self: &Arc<Upstream>, worker: usize) -> Rc<Pool> {
        POOLS.with_borrow_mut(|pools| {
            let pool = pools.entry(self.serial).or_insert_with(|| {
                let roster = Roster::new(self.set.load_full(), &[]);
                Rc::new(Pool {
                    upstream: Arc::downgrade(self),
                    metrics: self.metrics.clone(),
                    worker,
                    idle_max: self.settings.idle_max,
                    roster: RefCell::new(Rc::new(roster)),
                })
            });
            pool.clone()
        })
    }
}

impl Pool {
    /// The current targets.
    pub(crate) fn roster(&self, upstream: &Upstream) -> Rc<Roster> {
        let roster = self.roster.borrow();
        if roster.set.version == upstream.set_version() {
            return roster.clone();
        }
        drop(roster);
        self.renew(upstream)
    }

    /// Adopts another set. Connections to removed targets are closed, now or after their last exchange.
    #[cold]
    fn renew(&self, upstream: &Upstream) -> Rc<Roster> {
        let before = self.roster.borrow().clone();
        let roster = Rc::new(Roster::new(upstream.set.load_full(), &before.places));
        for place in before.places.iter().filter(|place| place.target.has_left()) {
            let closed = std::mem::take(&mut *place.idle.borrow_mut());
            self.count_idle(-i64::try_from(closed.len()).unwrap_or(i64::MAX));
            place.connections.borrow_mut().close();
        }
        self.roster.replace(roster.clone());
        roster
    }

    /// Takes an idle connection that is still open. The most recently used one is first: it is the least likely to be stale,
    /// and the others can time out.
    pub(crate) fn pop(&self, place: &WorkerTarget) -> Option<Connection> {
        let mut idle = place.idle.borrow_mut();
        while let Some(mut entry) = idle.pop() {
            self.count_idle(-1);
            if entry.connection.wire.is_quiet() {
                return Some(entry.connection);
            }
        }
        None
    }

    /// True if there is an idle connection that is still open.
    pub(crate) fn has_idle(&self, place: &WorkerTarget) -> bool {
        let idle = self.pop(place);
        let is_there = idle.is_some();
        idle.into_iter().for_each(|connection| self.give(place, connection, clock::now()));
        is_there
    }

    /// Puts a connection back into the pool for the next request, unless it cannot be used again.
    pub(crate) fn give(&self, place: &WorkerTarget, mut connection: Connection, now: Instant) {
        if self.upstream.strong_count() == 0
            || place.target.has_left()
            || has_lost(place, &mut connection)
        {
            return;
        }
        let mut idle = place.idle.borrow_mut();
        if idle.len() >= self.idle_max {
            return;
        }
        connection.reused = true;
        idle.push(Idle { connection, since: now });
        self.count_idle(1);
    }

    pub(crate) fn worker(&self) -> usize {
        self.worker
    }

    /// Closes an idle connection, if there is one.
    pub(crate) fn close_one(&self) {
        let roster = self.roster.borrow().clone();
        if roster.places.iter().any(|place| place.idle.borrow_mut().pop().is_some()) {
            return self.count_idle(-1);
        }
        // Stops at the first place that has one.
        roster.places.iter().any(|place| place.connections.borrow_mut().close_one());
    }

    /// Closes connections that have been idle for too long, and those that the target has closed.
    fn sweep(&self, upstream: &Upstream, now: Instant) {
        let idle_max = upstream.settings().timeout.idle;
        for place in &self.roster(upstream).places {
            let losses = place.target.known.losses();
            let have_lost = place.losses.replace(losses) != losses;
            let mut idle = place.idle.borrow_mut();
            let before = idle.len();
            idle.retain_mut(|i| {
                now.duration_since(i.since) < idle_max
                    && !(have_lost && has_lost(place, &mut i.connection))
                    && i.connection.wire.is_quiet()
            });
            self.count_idle(-i64::try_from(before - idle.len()).unwrap_or(i64::MAX));
            let mut connections = place.connections.borrow_mut();
            if have_lost {
                connections.leave(|address| place.target.has_lost(address));
            }
            connections.sweep();
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
    /// Corrects the count of idle connections, since the metrics outlive the pool under the upstream's name.
    fn drop(&mut self) {
        let places = &self.roster.get_mut().places;
        let left: usize = places.iter().map(|place| place.idle.borrow().len()).sum();
        self.count_idle(-i64::try_from(left).unwrap_or(i64::MAX));
    }
}

/// True for a connection to an address that the target's name no longer has.
fn has_lost(place: &WorkerTarget, connection: &mut Connection) -> bool {
    let losses = place.losses.get();
    if connection.losses == losses {
        return false;
    }
    connection.losses = losses;
    place.target.has_lost(connection.address.as_deref())
}

/// Closes this worker's connections that have been idle for too long, and drops the pools of removed upstreams.
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

#[cfg(test)]
mod tests;
