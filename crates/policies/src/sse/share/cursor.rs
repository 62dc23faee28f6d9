//! The place of one client in a shared stream.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::{self, Arc};
use std::task::{Context, Poll, Waker};

use fault::Fault;
use kit::clock::{self, Instant};
use message::{Fill, Source};
use telemetry::StreamEnd;
use tokio::sync::Notify;

use super::ring::{Ring, RingBlock, RingEnd, RingNews, RingRead};
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
    /// What they were woken for, for as long: one look at the ring does for all.
    news: RefCell<Option<RingNews>>,
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
        let Cursor { client, skips, next, place, meter } = self;
        let now = place.waiters.now.get();
        let charge = |block: &RingBlock| meter.pass(block.bytes.len(), block.is_event, now);
        let news = place.waiters.news.borrow();
        let taken = news.as_ref().and_then(|news| news.take(next, out, charge));
        let fill = match taken.unwrap_or_else(|| client.ring.take(next, *skips, out, charge)) {
            RingRead::Some => {
                meter.heard();
                Fill::More
            }
            RingRead::Last => {
                meter.heard();
                place.wait(cx);
                Fill::Later
            }
            RingRead::None => {
                place.wait(cx);
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
                news: RefCell::default(),
                wake: wake.clone(),
            });
            all.insert(address, Rc::downgrade(&waiters));
            kit::spawn(wake_all(wake, Arc::downgrade(ring), Rc::downgrade(&waiters)));
            waiters
        })
    }

    /// Wakes some of them, from a place on. Gives the place behind those, if there are more.
    fn wake_some(&self, from: usize) -> Option<usize> {
        let mut places = self.places.borrow_mut();
        let rest = places.get_mut(from..)?;
        let is_last = rest.len() <= WOKEN_AT_ONCE;
        // Woken tasks run later, so none of them changes the list meanwhile. One that does not wait for events is not woken again.
        for waiter in rest.iter_mut().take(WOKEN_AT_ONCE).flatten() {
            if std::mem::take(&mut waiter.waits) {
                waiter.waker.wake_by_ref();
            }
        }
        (!is_last).then_some(from + WOKEN_AT_ONCE)
    }
}

impl Drop for Waiters {
    /// Ends the task too.
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

/// Clients that are woken before they have their turn. What a task needs to be woken is then still at hand when it runs.
const WOKEN_AT_ONCE: usize = 128;

/// Wakes the clients of a worker whenever something has come.
async fn wake_all(wake: Arc<Notify>, ring: sync::Weak<Ring>, waiters: Weak<Waiters>) {
    let mut seen = ring.upgrade().map_or(0, |ring| ring.next());
    loop {
        wake.notified().await;
        let Some(waiters) = waiters.upgrade() else { return };
        waiters.now.set(Some(clock::now()));
        *waiters.news.borrow_mut() = ring.upgrade().and_then(|ring| ring.news(&mut seen));
        let mut next = Some(0);
        while let Some(from) = next {
            next = waiters.wake_some(from);
            kit::task::yield_to_ready().await;
        }
        waiters.now.set(None);
        waiters.news.take();
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
            let many: Vec<_> = (0..3 * WOKEN_AT_ONCE).map(begin).collect();
            clients.iter().chain(&many).for_each(wait);
            event().await;
            assert!(many.iter().all(|(_, woken)| woken.0.load(Ordering::Relaxed) == 1));
            drop(many);
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
