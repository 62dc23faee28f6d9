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

/// The limit of exchanges on one connection. It is about the default of services and proxies; more exchanges would wait for one
/// another.
const STREAMS_MAX: u32 = 100;

/// The same as for HTTP/1: servers send larger heads than clients.
const HEAD_BYTES_MAX: usize = 256 * 1024;

/// One connection as its exchanges see it.
pub(crate) struct SharedConnection {
    session: RefCell<Session>,
    /// The address, once the connection is open.
    pub(super) address: OnceCell<SocketAddr>,
    state: RefCell<State>,
    /// The waker of the connection's task, or `None` if the task has been woken and not polled since.
    task: RefCell<Option<Waker>>,
    /// Exchanges that wait for the connection to be opened, or for its target to allow streams.
    waiting: RefCell<Vec<Waker>>,
    /// The number of exchanges with a place on it.
    permits: Cell<usize>,
    /// True if no more places are given, and the connection ends once it has no exchanges.
    is_closing: Cell<bool>,
    /// True if an exchange has timed out, and nothing has arrived since.
    is_suspect: Cell<bool>,
}

/// The state of a connection.
#[derive(Clone)]
pub(super) enum State {
    Opening,
    Open,
    /// The target uses HTTP/1, which `auto` allows.
    Http1,
    /// The connection could not be made, or has ended.
    Over(Kind, Rc<str>),
}

/// A place on a connection, whose number is limited.
pub(crate) struct StreamPermit {
    pub(super) shared: Rc<SharedConnection>,
    upstream: Arc<Upstream>,
    worker: usize,
    /// True if the connection counts for the breaker's limit of connections in use.
    is_limited: bool,
}

/// One stream, owned by its exchange. It is closed when dropped. If that is before its end, the target is told to
/// stop.
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

    /// Borrows the session. The borrow must be short, and must not be held across an await.
    pub(super) fn session(&self) -> RefMut<'_, Session> {
        self.session.borrow_mut()
    }

    /// Sets the task that reads and writes.
    pub(super) fn served_by(&self, task: &Waker) {
        self.task.replace(Some(task.clone()));
    }

    /// Wakes the task. It runs after the tasks that are already ready, so that the requests of many exchanges become one write.
    pub(super) fn wake_task(&self) {
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }

    pub(super) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Changes the state, and wakes those that wait for a change.
    pub(super) fn set_state(&self, state: State) {
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

    /// Ready once the target's settings allow a stream, or the connection cannot be used any more.
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

    /// Wakes waiting exchanges.
    fn wake_waiting(&self) {
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    pub(super) fn permits(&self) -> usize {
        self.permits.get()
    }

    /// True if another exchange may use the connection.
    pub(super) fn has_room(&self) -> bool {
        let alive = matches!(*self.state.borrow(), State::Opening | State::Open);
        alive
            && !self.is_closing.get()
            && !self.is_suspect.get()
            && self.permits.get() < self.session().streams_max()
    }

    /// True if the connection is open but its target's settings allow no streams.
    pub(super) fn is_shut(&self) -> bool {
        let is_open = matches!(*self.state.borrow(), State::Open) && !self.is_closing.get();
        is_open && self.session().is_shut()
    }

    /// True if no new exchange can use it.
    pub(super) fn is_over(&self) -> bool {
        let ended = matches!(*self.state.borrow(), State::Over(..) | State::Http1);
        ended || self.is_closing.get() || self.session().is_leaving()
    }

    /// Ends the connection once it has no exchanges.
    pub(super) fn close(&self) {
        self.is_closing.set(true);
        self.wake_task();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.get()
    }

    /// Records that an exchange has timed out. Until something arrives, other exchanges do not use the connection,
    /// and the target gets a PING at once.
    pub(super) fn suspect(&self) {
        self.is_suspect.set(true);
        self.wake_task();
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.is_suspect.get()
    }

    pub(super) fn note_received(&self) {
        self.is_suspect.set(false);
        self.wake_waiting();
    }
}

impl StreamPermit {
    /// Takes a place on a connection. The first place also counts for the breaker's limit of connections in use.
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

/// Counts an open connection without exchanges.
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
        // The idle time starts.
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

    /// Uses the session, and requests a write of the result.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut Session, u32) -> R) -> R {
        let mut session = self.permit.shared.session();
        let result = work(&mut session, self.number);
        if !session.unsent().is_empty() {
            self.permit.shared.wake_task();
        }
        result
    }

    /// The reason why the connection has ended, if it has.
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
