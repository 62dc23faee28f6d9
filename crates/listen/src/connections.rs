//! The open connections of one worker: counted, and woken when they shall end.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use plan::Listener;
use telemetry::ListenerMetrics;

/// One listener as a worker sees it. It outlives plans: a reload changes what it says, not what it is.
pub(crate) struct Door {
    pub(crate) metrics: Arc<ListenerMetrics>,
    listener: RefCell<Arc<Listener>>,
    /// Accepts nothing any more, and its connections end after the exchange they are in.
    closing: Cell<bool>,
    /// Its time to end has run out.
    cutting: Cell<bool>,
    /// Connections open over all workers.
    open: Arc<AtomicUsize>,
    next: Cell<u64>,
    /// The tasks to wake when the door closes, by the number of their connection.
    wakers: RefCell<HashMap<u64, Option<Waker>>>,
}

/// Lets a task know when its door closes.
pub(crate) struct Watch {
    door: Rc<Door>,
    number: u64,
    registered: Cell<bool>,
}

/// A connection's place; leaving it gives the place back.
pub(crate) struct Place {
    pub(crate) door: Rc<Door>,
    worker: usize,
    watch: Watch,
}

impl Door {
    pub(crate) fn new(
        listener: Arc<Listener>,
        metrics: Arc<ListenerMetrics>,
        open: Arc<AtomicUsize>,
    ) -> Rc<Door> {
        Rc::new(Door {
            metrics,
            listener: RefCell::new(listener),
            closing: Cell::new(false),
            cutting: Cell::new(false),
            open,
            next: Cell::new(0),
            wakers: RefCell::default(),
        })
    }

    pub(crate) fn listener(&self) -> Arc<Listener> {
        self.listener.borrow().clone()
    }

    /// Brings `known` up to date, where it is not.
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

    /// What has no end of its own, like a tunnel, must end now.
    pub(crate) fn is_cutting(&self) -> bool {
        self.cutting.get()
    }

    /// Tasks of this worker that have not ended: connections, and the accept loop.
    pub(crate) fn open_here(&self) -> usize {
        self.wakers.borrow().len()
    }

    pub(crate) fn watch(self: &Rc<Door>) -> Watch {
        let number = self.next.replace(self.next.get() + 1);
        self.wakers.borrow_mut().insert(number, None);
        Watch { door: self.clone(), number, registered: Cell::new(false) }
    }

    /// Takes a place for a connection that was accepted; none where all are taken, over all workers.
    pub(crate) fn enter(self: &Rc<Door>, worker: usize) -> Option<Place> {
        let max = self.listener.borrow().limits.connections_max;
        let free = |open: usize| (open < max).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok()?;
        self.metrics.opened(worker);
        Some(Place { door: self.clone(), worker, watch: self.watch() })
    }

    /// Begins the end: connections that wait for a request close, the others after the one they are in.
    pub(crate) fn close(&self) {
        self.closing.set(true);
        self.wake();
    }

    /// Ends what did not end by itself.
    pub(crate) fn cut(&self) {
        self.cutting.set(true);
        self.wake();
    }

    fn wake(&self) {
        let wakers = self.wakers.borrow();
        wakers.values().flatten().for_each(Waker::wake_by_ref);
    }
}

impl Watch {
    /// Whether the door is closing; if not yet, the task is woken when it does. A watch belongs to one task for life, so it
    /// registers once.
    pub(crate) fn is_closing(&self, waker: &Waker) -> bool {
        if !self.registered.replace(true) {
            self.door.wakers.borrow_mut().insert(self.number, Some(waker.clone()));
        }
        self.door.is_closing()
    }
}

impl Place {
    /// See [`Watch::is_closing`].
    pub(crate) fn is_closing(&self, waker: &Waker) -> bool {
        self.watch.is_closing(waker)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.door.wakers.borrow_mut().remove(&self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.door.open.fetch_sub(1, Ordering::Relaxed);
        self.door.metrics.closed(self.worker);
    }
}
