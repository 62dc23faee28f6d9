//! State that a connection's task shares with the exchanges on it.

use std::cell::{Cell, OnceCell, RefCell, RefMut};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fault::{Fault, Kind};
use http2::{Config, Session};
use telemetry::PoolMetrics;

use crate::Upstream;

/// Exchanges on one connection. What services and proxies allow by default is about this many; more would wait for one another.
const STREAMS_MAX: u32 = 100;

/// Servers send larger heads than clients, as over HTTP/1.
const HEAD_BYTES_MAX: usize = 256 * 1024;

/// One connection, as the exchanges on it know it.
pub(crate) struct SharedConnection {
    session: RefCell<Session>,
    /// Where it leads to, once it is open.
    pub(super) address: OnceCell<SocketAddr>,
    state: RefCell<State>,
    /// The connection's task, while it does not know that there is something to do.
    task: RefCell<Option<Waker>>,
    /// Exchanges that wait for the connection to be open, or for its target to allow streams.
    waiting: RefCell<Vec<Waker>>,
    /// Exchanges that have a place on it.
    permits: Cell<usize>,
    /// Nobody takes a place any more: the pool is gone, or needs room.
    is_closing: Cell<bool>,
    /// An exchange waited in vain, and nothing has been heard since.
    is_suspect: Cell<bool>,
}

/// The state of a connection.
#[derive(Clone)]
pub(super) enum State {
    Opening,
    Open,
    /// The target speaks HTTP/1, and `auto` lets it.
    Http1,
    /// No connection could be made, or it has ended.
    Over(Kind, Rc<str>),
}

/// A place on a connection, of a bounded number.
pub(crate) struct StreamPermit {
    pub(super) shared: Rc<SharedConnection>,
    upstream: Arc<Upstream>,
    worker: usize,
    /// True if the connection counts as one in use.
    is_limited: bool,
}

/// One stream, held by its exchange. It is closed when this is dropped; before its end the target is told to stop.
pub(crate) struct Stream {
    permit: StreamPermit,
    pub(super) number: u32,
}

impl SharedConnection {
    pub(super) fn new(state: State) -> Rc<SharedConnection> {
        let config = Config { streams_max: STREAMS_MAX, head_bytes_max: HEAD_BYTES_MAX };
        Rc::new(SharedConnection {
            session: RefCell::new(Session::client(config)),
            address: OnceCell::new(),
            state: RefCell::new(state),
            task: RefCell::default(),
            waiting: RefCell::default(),
            permits: Cell::new(0),
            is_closing: Cell::new(false),
            is_suspect: Cell::new(false),
        })
    }

    /// Held for a few lines, never while something is waited for.
    pub(super) fn session(&self) -> RefMut<'_, Session> {
        self.session.borrow_mut()
    }

    /// This task reads and writes.
    pub(super) fn served_by(&self, task: &Waker) {
        self.task.replace(Some(task.clone()));
    }

    /// Something is to be done: now, or when all that is ready now has been done. So the requests of many exchanges are one write.
    pub(super) fn wake_task(&self) {
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }

    pub(super) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// The state changes, and whoever waits for that goes on.
    pub(super) fn become_(&self, state: State) {
        self.state.replace(state);
        self.wake_waiting();
    }

    /// Ready once the connection is no longer being opened.
    pub(super) fn poll_state(&self, cx: &mut Context<'_>) -> Poll<State> {
        let state = self.state();
        if !matches!(state, State::Opening) {
            return Poll::Ready(state);
        }
        self.wait(cx);
        Poll::Pending
    }

    /// Ready once the target's settings let somebody open a stream, or the connection is of no more use.
    pub(super) fn poll_shut(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_shut() || self.is_over() {
            return Poll::Ready(());
        }
        self.wait(cx);
        Poll::Pending
    }

    fn wait(&self, cx: &Context<'_>) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|task| task.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
    }

    /// Those who wait look again.
    fn wake_waiting(&self) {
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    pub(super) fn permits(&self) -> usize {
        self.permits.get()
    }

    /// True if one more exchange may use it.
    pub(super) fn has_room(&self) -> bool {
        let alive = matches!(*self.state.borrow(), State::Opening | State::Open);
        alive
            && !self.is_closing.get()
            && !self.is_suspect.get()
            && self.permits.get() < self.session().streams_max()
    }

    /// True if it is open and takes nobody, even without anybody on it: its target's settings say so.
    pub(super) fn is_shut(&self) -> bool {
        let is_open = matches!(*self.state.borrow(), State::Open) && !self.is_closing.get();
        is_open && self.session().is_shut()
    }

    /// True if it is of no more use to anybody new.
    pub(super) fn is_over(&self) -> bool {
        let ended = matches!(*self.state.borrow(), State::Over(..) | State::Http1);
        ended || self.is_closing.get() || self.session().is_leaving()
    }

    /// Ends it once nobody is on it.
    pub(super) fn close(&self) {
        self.is_closing.set(true);
        self.wake_task();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.get()
    }

    /// An exchange has waited in vain. Until something is heard nobody else has to; the target is asked at once.
    pub(super) fn suspect(&self) {
        self.is_suspect.set(true);
        self.wake_task();
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.is_suspect.get()
    }

    pub(super) fn heard(&self) {
        self.is_suspect.set(false);
        self.wake_waiting();
    }
}

impl StreamPermit {
    /// Takes a place on a connection. The first that does takes one under the breaker's limit of connections in use.
    pub(super) fn take(
        shared: Rc<SharedConnection>,
        upstream: Arc<Upstream>,
        worker: usize,
    ) -> Result<StreamPermit, Fault> {
        if shared.permits.get() == 0
            && let Some(limit) = &upstream.limits.connections
        {
            let refused = &upstream.metrics.pool(worker).breaker_refused;
            limit.enter().inspect_err(|_| refused.add(1))?;
        }
        let mut permit = StreamPermit::apart(shared, upstream, worker);
        permit.is_limited = true;
        Ok(permit)
    }

    /// A place on a connection that the breaker does not count.
    pub(super) fn apart(
        shared: Rc<SharedConnection>,
        upstream: Arc<Upstream>,
        worker: usize,
    ) -> StreamPermit {
        let permits = shared.permits.get();
        if permits == 0 {
            count_idle(upstream.metrics.pool(worker), &shared, -1);
        }
        shared.permits.set(permits + 1);
        StreamPermit { shared, upstream, worker, is_limited: false }
    }
}

/// Counts a connection that is open and has nobody on it.
fn count_idle(metrics: &PoolMetrics, shared: &SharedConnection, n: i64) {
    if matches!(*shared.state.borrow(), State::Open) {
        metrics.connections_idle.add(n);
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let permits = self.shared.permits.get().saturating_sub(1);
        self.shared.permits.set(permits);
        if permits > 0 {
            return;
        }
        if let Some(limit) = self.upstream.limits.connections.as_ref().filter(|_| self.is_limited) {
            limit.leave();
        }
        count_idle(self.upstream.metrics.pool(self.worker), &self.shared, 1);
        // It has a deadline for being idle.
        self.shared.wake_task();
    }
}

impl Stream {
    pub(super) fn new(permit: StreamPermit, number: u32) -> Stream {
        Stream { permit, number }
    }

    pub(super) fn shared(&self) -> &SharedConnection {
        &self.permit.shared
    }

    /// Works on the session, and has written what that put down.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut Session, u32) -> R) -> R {
        let mut session = self.permit.shared.session();
        let result = work(&mut session, self.number);
        if !session.unsent().is_empty() {
            self.permit.shared.wake_task();
        }
        result
    }

    /// Why the connection has ended, if it has.
    pub(super) fn lost(&self) -> Option<(Kind, Rc<str>)> {
        match self.permit.shared.state() {
            State::Over(kind, why) => Some((kind, why)),
            State::Opening | State::Open | State::Http1 => None,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.with(|session, number| session.close(number));
    }
}
