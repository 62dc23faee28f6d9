//! The open connections of a worker: counted, woken when they have to end, and closed when others need their place.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use kit::clock::{self, Instant};

use plan::{Listener, OnReload, Plan, Route};
use telemetry::ListenerMetrics;

use crate::clients::{CountedConnection, OpenConnections};

/// A worker's state of a listener. It is kept over reloads, which only change its settings.
pub(crate) struct ListenerState {
    pub(crate) metrics: Arc<ListenerMetrics>,
    listener: RefCell<Arc<Listener>>,
    /// True if it accepts no more connections, and its connections end after their current exchange.
    closing: Cell<bool>,
    /// True if streams stay open although the listener is closing.
    keeps_streams: Cell<bool>,
    /// True if the time for closing is over.
    cutting: Cell<bool>,
    /// The open connections of all workers.
    open: Arc<OpenConnections>,
    next: Cell<u64>,
    /// The tasks to wake when the listener closes, by the number of their watch.
    wakers: RefCell<HashMap<u64, Rc<WatchedTask>>>,
    /// Open streams that a reload may end, by the number of their watch.
    streams: RefCell<HashMap<u64, Stream>>,
    /// The connections that had been idle longest at the last scan. The one that had been idle longest of all is last.
    idlest: RefCell<Vec<(Instant, u64)>>,
    /// The time of the last scan.
    last_scan: Cell<Option<Instant>>,
}

/// A stream that ends when a reload changes its route.
struct Stream {
    route: Arc<Route>,
    changed: Rc<Cell<bool>>,
    watched: Rc<WatchedTask>,
}

/// A task that the listener wakes.
#[derive(Default)]
struct WatchedTask {
    /// The waker of the task that polled last.
    waker: RefCell<Option<Waker>>,
    idle: Cell<Idle>,
}

/// Whether a connection can give its place to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Idle {
    /// It has a request.
    #[default]
    No,
    /// It has waited for a request since then.
    Since(Instant),
    /// It has given up its place, and ends as soon as it waits for a request.
    GivenUp,
}

/// The number of idle connections kept from one scan, so that a flood of new connections does not cause a scan for each.
const IDLEST_MAX: usize = 256;

/// The minimum time between two scans. A scan of 65,536 connections takes half a millisecond, so a flood of new connections can use at most
/// 5 % of the time for scans.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Notifies a task when its listener closes.
pub(crate) struct Watch {
    listener_state: Rc<ListenerState>,
    number: u64,
    watched: Rc<WatchedTask>,
}

/// A connection's place, which is released when dropped.
pub(crate) struct Permit {
    pub(crate) listener_state: Rc<ListenerState>,
    worker: usize,
    watch: Watch,
    /// This connection in the count of its client, if the listener limits connections per client.
    counted: Option<CountedConnection>,
}

impl ListenerState {
    pub(crate) fn new(
        listener: Arc<Listener>,
        metrics: Arc<ListenerMetrics>,
        open: Arc<OpenConnections>,
    ) -> Rc<ListenerState> {
        Rc::new(ListenerState {
            metrics,
            listener: RefCell::new(listener),
            closing: Cell::new(false),
            keeps_streams: Cell::new(false),
            cutting: Cell::new(false),
            open,
            next: Cell::new(0),
            wakers: RefCell::default(),
            streams: RefCell::default(),
            idlest: RefCell::default(),
            last_scan: Cell::default(),
        })
    }

    pub(crate) fn listener(&self) -> Arc<Listener> {
        self.listener.borrow().clone()
    }

    /// Updates `known` to the listener of the current plan if it has changed.
    pub(crate) fn refresh(&self, known: &mut Arc<Listener>) {
        let current = self.listener.borrow();
        if !Arc::ptr_eq(&current, known) {
            known.clone_from(&current);
        }
    }

    pub(crate) fn set_listener(&self, listener: Arc<Listener>) {
        self.listener.replace(listener);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.get()
    }

    /// True if it is closing but its streams stay, since another process has replaced this one.
    pub(crate) fn leaves_streams(&self) -> bool {
        self.closing.get() && self.keeps_streams.get()
    }

    /// True if streams that do not end by themselves, such as tunnels, must end now.
    pub(crate) fn is_cutting(&self) -> bool {
        self.cutting.get()
    }

    /// The number of watches: one for each accept loop, connection and open stream of this worker that has not ended.
    pub(crate) fn open_here(&self) -> usize {
        self.wakers.borrow().len()
    }

    pub(crate) fn watch(self: &Rc<ListenerState>) -> Watch {
        let number = self.next.replace(self.next.get() + 1);
        let watched = Rc::<WatchedTask>::default();
        self.wakers.borrow_mut().insert(number, watched.clone());
        Watch { listener_state: self.clone(), number, watched }
    }

    /// Takes a place for an accepted connection. If all places of all workers are taken, takes over the place of the connection of this
    /// worker that has been idle longest. Returns `None` if no idle connection is found.
    pub(crate) fn enter(self: &Rc<ListenerState>, worker: usize) -> Option<Permit> {
        let max = self.listener.borrow().limits.connections_max;
        if !self.open.enter(max) {
            // The place is passed on, so the former connection does not release it.
            self.give_up_idlest()?;
            self.metrics.displaced(worker);
        }
        self.metrics.opened(worker);
        Some(Permit { listener_state: self.clone(), worker, watch: self.watch(), counted: None })
    }

    /// Takes the place of the connection that has been idle longest, and wakes that connection to end.
    fn give_up_idlest(&self) -> Option<()> {
        let wakers = self.wakers.borrow();
        let mut idlest = self.idlest.borrow_mut();
        let watched = match Self::still_idle(&wakers, &mut idlest) {
            Some(watched) => watched,
            None => {
                self.look(&wakers, &mut idlest)?;
                Self::still_idle(&wakers, &mut idlest)?
            }
        };
        watched.idle.set(Idle::GivenUp);
        watched.wake();
        Some(())
    }

    /// Scans all connections for those that have been idle longest. Returns `None` if none is idle, or if the last scan was less than
    /// [`LOOK_EVERY`] ago.
    fn look(
        &self,
        wakers: &HashMap<u64, Rc<WatchedTask>>,
        idlest: &mut Vec<(Instant, u64)>,
    ) -> Option<()> {
        let now = clock::now();
        let since_scan = self.last_scan.get().map(|at| now.saturating_duration_since(at));
        if since_scan.is_some_and(|ago| ago < LOOK_EVERY) {
            return None;
        }
        self.last_scan.set(Some(now));
        idlest.extend(wakers.iter().filter_map(|(number, one)| match one.idle.get() {
            Idle::Since(since) => Some((since, *number)),
            Idle::No | Idle::GivenUp => None,
        }));
        // The earliest times are sorted to the end, since connections are taken from there.
        let last = idlest.len().checked_sub(1)?.min(IDLEST_MAX - 1);
        idlest.select_nth_unstable(last);
        // Harmless: the removed connections have been idle for a shorter time, and the next scan finds them.
        idlest.truncate(IDLEST_MAX);
        idlest.shrink_to(IDLEST_MAX);
        idlest.sort_unstable_by(|a, b| b.cmp(a));
        Some(())
    }

    /// Removes and returns the next connection of the scan that has stayed idle since then.
    fn still_idle<'w>(
        wakers: &'w HashMap<u64, Rc<WatchedTask>>,
        idlest: &mut Vec<(Instant, u64)>,
    ) -> Option<&'w WatchedTask> {
        while let Some((since, number)) = idlest.pop() {
            let known = wakers.get(&number);
            if let Some(known) = known.filter(|known| known.idle.get() == Idle::Since(since)) {
                return Some(known);
            }
        }
        None
    }

    /// Starts closing: connections that wait for a request close now, and the others after their current exchange.
    pub(crate) fn close(&self) {
        self.close_but(false);
    }

    /// Starts closing. With `keeps_streams`, open streams are not notified.
    pub(crate) fn close_but(&self, keeps_streams: bool) {
        self.keeps_streams.set(keeps_streams);
        self.closing.set(true);
        self.wake();
    }

    /// Ends the connections that have not ended by themselves.
    pub(crate) fn cut(&self) {
        self.cutting.set(true);
        self.wake();
    }

    /// Notifies the streams of routes that this plan has changed or removed.
    pub(crate) fn tell_changes(&self, plan: &Plan) {
        let streams = self.streams.borrow();
        let changed = streams.values().filter(|stream| !plan.keeps_streams_of(&stream.route));
        for stream in changed {
            stream.changed.set(true);
            stream.watched.wake();
        }
    }

    fn wake(&self) {
        self.wakers.borrow().values().for_each(|one| one.wake());
    }
}

impl WatchedTask {
    fn register(&self, waker: &Waker) {
        self.waker.borrow_mut().get_or_insert_with(|| waker.clone()).clone_from(waker);
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

impl Watch {
    /// True if the listener is closing. Otherwise the task is woken when the listener starts to close. A watch may pass from one task
    /// to another: a gRPC call over HTTP/1 begins in the task of its connection, and a separate task writes its reply. The task that polled
    /// last is woken.
    pub(crate) fn is_closing(&self, waker: &Waker) -> bool {
        self.watched.register(waker);
        self.listener_state.is_closing()
    }

    /// Like [`Watch::is_closing`], for the task of a stream: false as long as streams stay open although the listener is closing.
    pub(crate) fn ends_streams(&self, waker: &Waker) -> bool {
        self.is_closing(waker) && !self.listener_state.keeps_streams.get()
    }

    /// See [`ListenerState::leaves_streams`].
    pub(crate) fn leaves_streams(&self) -> bool {
        self.listener_state.leaves_streams()
    }

    pub(crate) fn is_cutting(&self) -> bool {
        self.listener_state.is_cutting()
    }

    /// Returns a flag that becomes true when a plan changes the route, which also wakes the task. The flag is already true if `plan` has
    /// changed the route. Returns `None` if reloads do not end the route's streams.
    pub(crate) fn of_route(&self, route: &Arc<Route>, plan: &Plan) -> Option<Rc<Cell<bool>>> {
        if route.streams.reload == OnReload::Keep {
            return None;
        }
        let changed = Rc::new(Cell::new(!plan.keeps_streams_of(route)));
        let watched = self.watched.clone();
        let stream = Stream { route: route.clone(), changed: changed.clone(), watched };
        self.listener_state.streams.borrow_mut().insert(self.number, stream);
        Some(changed)
    }
}

impl Permit {
    /// See [`Watch::is_closing`].
    pub(crate) fn is_closing(&self, waker: &Waker) -> bool {
        self.watch.is_closing(waker) || self.is_given_up()
    }

    /// True if the connection ends after its current exchange.
    pub(crate) fn is_ending(&self) -> bool {
        self.listener_state.is_closing() || self.is_given_up()
    }

    /// True if its place was given to another connection. It then ends after its current exchange.
    pub(crate) fn is_given_up(&self) -> bool {
        self.watch.watched.idle.get() == Idle::GivenUp
    }

    /// Records the time since which the connection has waited for a request, or with `None` that it has a request.
    pub(crate) fn set_idle(&self, since: Option<Instant>) {
        if !self.is_given_up() {
            self.watch.watched.idle.set(since.map_or(Idle::No, Idle::Since));
        }
    }

    /// Counts the connection for this client. Returns false if the client's limit is reached.
    pub(crate) fn count(&mut self, client: IpAddr) -> bool {
        let Some(max) = self.listener_state.listener.borrow().limits.connections_per_client else {
            return true;
        };
        self.counted = self.listener_state.open.count(client, max);
        self.counted.is_some()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.listener_state.wakers.borrow_mut().remove(&self.number);
        self.listener_state.streams.borrow_mut().remove(&self.number);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.is_given_up() {
            self.listener_state.open.leave();
        }
        self.listener_state.metrics.closed(self.worker);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct WakeCounter(AtomicU32);

    impl Wake for WakeCounter {
        fn wake(self: Arc<WakeCounter>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A call over HTTP/1 begins in the task of its connection, and a separate task writes its reply.
    #[test]
    fn the_task_that_polled_last_is_woken() {
        let (first, second) = (Arc::<WakeCounter>::default(), Arc::<WakeCounter>::default());
        let watched = WatchedTask::default();
        watched.wake();
        for _ in 0..2 {
            watched.register(&Waker::from(first.clone()));
        }
        watched.wake();
        watched.register(&Waker::from(second.clone()));
        watched.wake();
        let woken = [first, second].map(|task| task.0.load(Ordering::Relaxed));
        assert_eq!(woken, [1, 1]);
    }
}
