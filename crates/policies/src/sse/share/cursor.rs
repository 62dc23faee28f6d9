//! The place of one client in a shared stream.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fault::Fault;
use message::{Fill, Source};
use policy::StreamNotes;
use telemetry::{RouteMetrics, StreamEnd};
use tokio::sync::Notify;

use super::ring::{Ring, RingEnd, RingRead};

/// A client of a ring, which counts it as long as this lives.
pub(super) struct Client {
    ring: Arc<Ring>,
    /// The number of the next block when it came. The first events may be there before it hears that the stream is open.
    came: u64,
}

/// The place of a client in the stream.
pub(super) struct Cursor {
    client: Client,
    skips: bool,
    next: u64,
    place: WaiterSlot,
    ended: EndWatcher,
}

/// The receiver of the end of a client's stream.
pub(super) struct EndWatcher {
    pub(super) notes: Rc<StreamNotes>,
    pub(super) metrics: Arc<RouteMetrics>,
    pub(super) worker: usize,
}

/// A place among the clients of this worker that wait for the next event.
struct WaiterSlot {
    waiters: Rc<Waiters>,
    at: usize,
}

/// The clients of one ring on one worker. They are woken together, by one task.
struct Waiters {
    wakers: RefCell<Vec<Option<Waker>>>,
    free: RefCell<Vec<usize>>,
    wake: Arc<Notify>,
}

thread_local! {
    /// Of this worker, by the address of their ring.
    static WAITERS: RefCell<HashMap<usize, Weak<Waiters>>> = RefCell::default();
}

impl Client {
    /// For one that the ring counts already.
    pub(super) fn of(ring: Arc<Ring>) -> Client {
        let came = ring.next();
        Client { ring, came }
    }

    /// Begins behind the id that the client had last, or with what is new since it came.
    pub(super) fn begin(self, last_id: Option<&[u8]>, skips: bool, ended: EndWatcher) -> Cursor {
        let next = self.ring.begin(last_id, self.came);
        let place = WaiterSlot::new(&self.ring);
        Cursor { client: self, skips, next, place, ended }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.ring.leave();
    }
}

impl Source for Cursor {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        match self.client.ring.take(&mut self.next, self.skips, out) {
            RingRead::Some => Poll::Ready(Ok(Fill::More)),
            RingRead::Last => {
                self.place.wait(cx);
                Poll::Ready(Ok(Fill::Later))
            }
            RingRead::None => {
                self.place.wait(cx);
                Poll::Pending
            }
            // A client that is too slow is told by the end, and comes back with the id that it had last.
            RingRead::TooSlow => Poll::Ready(Ok(self.ended.by(StreamEnd::Slow))),
            RingRead::Ended(RingEnd::TooLarge) => {
                Poll::Ready(Ok(self.ended.by(StreamEnd::TooLarge)))
            }
            RingRead::Ended(RingEnd::Well) => Poll::Ready(Ok(Fill::End)),
            RingRead::Ended(RingEnd::Failed(kind, cause)) => {
                Poll::Ready(Err(Fault::new(kind, cause)))
            }
        }
    }

    fn remaining(&self) -> Option<u64> {
        None
    }
}

impl EndWatcher {
    fn by(&self, end: StreamEnd) -> Fill {
        self.notes.end.set(Some(end));
        self.metrics.stream_ended(self.worker, end);
        Fill::End
    }
}

impl WaiterSlot {
    fn new(ring: &Arc<Ring>) -> WaiterSlot {
        let waiters = Waiters::of(ring);
        let free = waiters.free.borrow_mut().pop();
        let at = free.unwrap_or_else(|| {
            waiters.wakers.borrow_mut().push(None);
            waiters.wakers.borrow().len() - 1
        });
        WaiterSlot { waiters, at }
    }

    fn wait(&self, cx: &Context<'_>) {
        if let Some(place) = self.waiters.wakers.borrow_mut().get_mut(self.at) {
            match place {
                Some(known) => known.clone_from(cx.waker()),
                None => *place = Some(cx.waker().clone()),
            }
        }
    }
}

impl Drop for WaiterSlot {
    fn drop(&mut self) {
        if let Some(place) = self.waiters.wakers.borrow_mut().get_mut(self.at) {
            *place = None;
        }
        self.waiters.free.borrow_mut().push(self.at);
    }
}

impl Waiters {
    /// Those of a ring on this worker, with the task that wakes them as long as there are some.
    fn of(ring: &Arc<Ring>) -> Rc<Waiters> {
        let address = Arc::as_ptr(ring).addr();
        WAITERS.with_borrow_mut(|all| {
            if let Some(known) = all.get(&address).and_then(Weak::upgrade) {
                return known;
            }
            all.retain(|_, waiters| waiters.strong_count() > 0);
            let wake = ring.wake_up();
            let waiters = Rc::new(Waiters {
                wakers: RefCell::default(),
                free: RefCell::default(),
                wake: wake.clone(),
            });
            all.insert(address, Rc::downgrade(&waiters));
            kit::spawn(wake_all(wake, Rc::downgrade(&waiters)));
            waiters
        })
    }

    fn wake(&self) {
        // Woken tasks run later, so none of them changes the list meanwhile. One that does not wait for events is not woken again.
        self.wakers.borrow_mut().iter_mut().filter_map(Option::take).for_each(Waker::wake);
    }
}

impl Drop for Waiters {
    /// Ends the task too.
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

/// Wakes the clients of a worker whenever something has come.
async fn wake_all(wake: Arc<Notify>, waiters: Weak<Waiters>) {
    loop {
        wake.notified().await;
        let Some(waiters) = waiters.upgrade() else { return };
        waiters.wake();
    }
}
