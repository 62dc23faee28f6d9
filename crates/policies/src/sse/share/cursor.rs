//! The place of one client in a shared stream.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use fault::Fault;
use kit::clock::{self, Instant};
use message::{Fill, Source};
use telemetry::StreamEnd;
use tokio::sync::Notify;

use super::ring::{Ring, RingBlock, RingEnd, RingRead};
use crate::sse::metered::EventMeter;

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
    meter: EventMeter,
}

/// A place among the clients of this worker that wait for the next event.
struct WaiterSlot {
    waiters: Rc<Waiters>,
    at: usize,
}

/// The clients of one ring on one worker. They are woken together, by one task.
struct Waiters {
    places: RefCell<Vec<Option<Waiter>>>,
    free: RefCell<Vec<usize>>,
    /// When they were woken, until all of them have had their turn. What they take meanwhile counts from then: one look at the clock
    /// does for all.
    now: Cell<Option<Instant>>,
    wake: Arc<Notify>,
}

/// A client that has waited for an event.
struct Waiter {
    waker: Waker,
    /// It does so now.
    waits: bool,
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
    pub(super) fn begin(self, last_id: Option<&[u8]>, skips: bool, meter: EventMeter) -> Cursor {
        let next = self.ring.begin(last_id, self.came);
        let place = WaiterSlot::new(&self.ring);
        Cursor { client: self, skips, next, place, meter }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.ring.leave();
    }
}

impl Source for Cursor {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        if self.meter.poll_end(cx).is_ready() {
            return Poll::Ready(Ok(Fill::End));
        }
        let Cursor { client, meter, .. } = self;
        let now = self.place.waiters.now.get();
        let charge = |block: &RingBlock| meter.pass(block.bytes.len(), block.is_event, now);
        let fill = match client.ring.take(&mut self.next, self.skips, out, charge) {
            RingRead::Some => {
                meter.heard();
                Fill::More
            }
            RingRead::Last => {
                meter.heard();
                self.place.wait(cx);
                Fill::Later
            }
            RingRead::None => {
                self.place.wait(cx);
                return Poll::Pending;
            }
            RingRead::Spent => meter.end(StreamEnd::Quota),
            // A client that is too slow is told by the end, and comes back with the id that it had last.
            RingRead::TooSlow => meter.end(StreamEnd::Slow),
            RingRead::Ended(RingEnd::TooLarge) => meter.end(StreamEnd::TooLarge),
            RingRead::Ended(RingEnd::Well) => Fill::End,
            RingRead::Ended(RingEnd::Failed(kind, cause)) => {
                return Poll::Ready(Err(Fault::new(kind, cause)));
            }
        };
        Poll::Ready(Ok(fill))
    }

    fn remaining(&self) -> Option<u64> {
        None
    }

    fn may_trail(&self) -> bool {
        false
    }
}

impl WaiterSlot {
    fn new(ring: &Arc<Ring>) -> WaiterSlot {
        let waiters = Waiters::of(ring);
        let free = waiters.free.borrow_mut().pop();
        let at = free.unwrap_or_else(|| {
            let mut places = waiters.places.borrow_mut();
            places.push(None);
            places.len() - 1
        });
        WaiterSlot { waiters, at }
    }

    fn wait(&self, cx: &Context<'_>) {
        if let Some(place) = self.waiters.places.borrow_mut().get_mut(self.at) {
            match place {
                Some(waiter) => {
                    waiter.waker.clone_from(cx.waker());
                    waiter.waits = true;
                }
                None => *place = Some(Waiter { waker: cx.waker().clone(), waits: true }),
            }
        }
    }
}

impl Drop for WaiterSlot {
    fn drop(&mut self) {
        if let Some(place) = self.waiters.places.borrow_mut().get_mut(self.at) {
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
                places: RefCell::default(),
                free: RefCell::default(),
                now: Cell::default(),
                wake: wake.clone(),
            });
            all.insert(address, Rc::downgrade(&waiters));
            kit::spawn(wake_all(wake, Rc::downgrade(&waiters)));
            waiters
        })
    }

    fn wake(&self) {
        self.now.set(Some(clock::now()));
        // Woken tasks run later, so none of them changes the list meanwhile. One that does not wait for events is not woken again.
        for waiter in self.places.borrow_mut().iter_mut().flatten() {
            if std::mem::take(&mut waiter.waits) {
                waiter.waker.wake_by_ref();
            }
        }
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
        kit::task::yield_to_ready().await;
        waiters.now.set(None);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use bytes::Bytes;
    use tokio::task::LocalSet;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Woken>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn every_client_that_waits_is_woken_once() {
        let ring = Arc::new(Ring::new(9, Arc::default()));
        let event = async || {
            let bytes = Bytes::from_static(b"data: x\n\n");
            ring.push([RingBlock { bytes, id: None, is_event: true }].into_iter());
            for _ in 0..5 {
                kit::task::yield_to_ready().await;
            }
        };
        let wait = |(place, woken): &(WaiterSlot, Arc<Woken>)| {
            place.wait(&Context::from_waker(&woken.clone().into()));
        };
        let test = async {
            let begin = |_| (WaiterSlot::new(&ring), Arc::<Woken>::default());
            let mut clients: Vec<_> = (0..5).map(begin).collect();
            clients.iter().for_each(wait);
            event().await;
            // Nobody waits for this one.
            event().await;
            let counts = |clients: &[(WaiterSlot, Arc<Woken>)]| -> Vec<usize> {
                clients.iter().map(|(_, woken)| woken.0.load(Ordering::Relaxed)).collect()
            };
            assert_eq!(counts(&clients), [1; 5]);
            clients.iter().skip(1).for_each(wait);
            clients.truncate(3);
            event().await;
            assert_eq!(counts(&clients), [1, 2, 2]);
            assert_eq!(clients[0].0.waiters.now.get(), None);
        };
        LocalSet::new().run_until(test).await;
    }
}
