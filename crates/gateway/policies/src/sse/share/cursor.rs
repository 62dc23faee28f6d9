//! The positions of clients in a shared stream.
//!
//! Owns the distribution of events to all clients of a worker. One loop writes to all clients over plain HTTP/1 that keep up, while their
//! own tasks sleep. All other clients are woken, and take the events themselves.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::{self, Arc};
use std::task::{Context, Poll, Waker};

use fault::{Fault, Kind};
use kit::clock::{self, Instant};
use message::{DirectWriter, Fill, Source};
use telemetry::StreamEnd;
use tokio::sync::Notify;

use super::ring::{NewBlocks, Ring, RingBlock, RingEnd, RingRead};
use crate::sse::metered::{EventMeter, TOO_LARGE};

/// A client of a ring. The ring counts it until this value is dropped.
pub(super) struct Client {
    ring: Arc<Ring>,
    /// The number of the next block when the client arrived. The first events may arrive before the client learns that the stream is open.
    came: u64,
}

/// The body of one client's reply.
pub(super) struct Cursor {
    client: Client,
    /// Whether a client that is too slow misses events, instead of being disconnected.
    skip_missed: bool,
    waiters: Rc<Waiters>,
    /// The index of its place.
    at: usize,
}

/// The clients of one ring on one worker. One task serves or wakes all of them.
struct Waiters {
    /// Stored contiguously, since each event visits all of them.
    places: RefCell<Vec<Option<ClientPosition>>>,
    free: RefCell<Vec<usize>>,
    /// The time at which new events arrived, until all clients were served. It serves as the current time for all of them, so that the
    /// clock is read only once.
    now: Cell<Option<Instant>>,
    /// The new events, until all clients were served, so that the ring is read only once.
    news: RefCell<Option<NewBlocks>>,
    wake: Arc<Notify>,
}

/// The position of a client in the stream. It keeps the data that each event accesses together.
struct ClientPosition {
    /// The number of the next block for the client.
    next: u64,
    waits: Waits,
    /// Whether the client has received the last event of its quota.
    is_spent: bool,
    /// The direct writer to the client, once its task has offered one.
    writer: Option<Rc<dyn DirectWriter>>,
    meter: EventMeter,
    /// The waker of its task, once that has waited.
    waker: Option<Waker>,
}

/// How a client waits for the next event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// Not at all.
    No,
    /// Its task must be woken.
    Asleep,
    /// The event is written directly, and its task keeps sleeping.
    Directly,
}

thread_local! {
    /// The waiters of this worker, by the address of their ring.
    static WAITERS: RefCell<HashMap<usize, Weak<Waiters>>> = RefCell::default();
}

impl Client {
    /// Creates a client that the ring has already counted.
    pub(super) fn of(ring: Arc<Ring>) -> Client {
        let came = ring.next();
        Client { ring, came }
    }

    /// Begins after the client's last event id, or with the events that arrived after the client.
    pub(super) fn begin(
        self,
        last_id: Option<&[u8]>,
        skip_missed: bool,
        meter: EventMeter,
    ) -> Cursor {
        let place = ClientPosition::new(self.ring.begin(last_id, self.came), meter);
        let waiters = Waiters::of(&self.ring);
        let at = waiters.enter(place);
        Cursor { client: self, skip_missed, waiters, at }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.ring.leave();
    }
}

impl Source for Cursor {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        let Cursor { client, skip_missed, waiters, at } = self;
        let mut places = waiters.places.borrow_mut();
        let Some(place) = places.get_mut(*at).and_then(Option::as_mut) else {
            debug_assert!(false, "a client keeps its place");
            return Poll::Ready(Ok(Fill::End));
        };
        place.waits = Waits::No;
        if place.is_spent {
            return Poll::Ready(Ok(place.meter.end(StreamEnd::Quota)));
        }
        if place.meter.poll_end(cx).is_ready() {
            return Poll::Ready(Ok(Fill::End));
        }
        let now = waiters.now.get();
        let ClientPosition { next, meter, .. } = place;
        let charge = |block: &RingBlock| meter.pass(block.bytes.len(), block.is_event, now);
        let news = waiters.news.borrow();
        let taken = news.as_ref().and_then(|news| news.take(next, out, charge));
        let fill = match taken.unwrap_or_else(|| client.ring.take(next, *skip_missed, out, charge))
        {
            RingRead::Some => {
                meter.restart_idle(now);
                Fill::More
            }
            RingRead::Last => {
                meter.restart_idle(now);
                place.sleep(cx);
                Fill::Later
            }
            RingRead::None => {
                place.sleep(cx);
                return Poll::Pending;
            }
            RingRead::Spent => meter.end(StreamEnd::Quota),
            // The stream of a client that is too slow ends, and the client reconnects with its last event id.
            RingRead::TooSlow => meter.end(StreamEnd::Slow),
            // A reconnect would not help, so the reply must not look complete.
            RingRead::Ended(RingEnd::TooLarge) => {
                meter.end(StreamEnd::TooLarge);
                return Poll::Ready(Err(Fault::new(Kind::ReplyTooLarge, TOO_LARGE)));
            }
            RingRead::Ended(RingEnd::Complete) => Fill::End,
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

    fn write_directly(&mut self, writer: &Rc<dyn DirectWriter>) -> bool {
        let mut places = self.waiters.places.borrow_mut();
        if let Some(place) = places.get_mut(self.at).and_then(Option::as_mut)
            && place.waits == Waits::Asleep
        {
            place.waits = Waits::Directly;
            place.writer.get_or_insert_with(|| writer.clone());
        }
        true
    }
}

impl Drop for Cursor {
    fn drop(&mut self) {
        let mut places = self.waiters.places.borrow_mut();
        let place = places.get_mut(self.at).and_then(Option::take);
        self.waiters.free.borrow_mut().push(self.at);
        drop(places);
        drop(place);
    }
}

impl ClientPosition {
    fn new(next: u64, meter: EventMeter) -> ClientPosition {
        ClientPosition { next, waits: Waits::No, is_spent: false, writer: None, meter, waker: None }
    }

    /// Registers the task to be woken.
    fn sleep(&mut self, cx: &Context<'_>) {
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        self.waits = Waits::Asleep;
    }

    /// Writes new events directly to a waiting client. Returns false if its task must handle them.
    fn pass(&mut self, news: &NewBlocks, now: Instant) -> bool {
        let ClientPosition { next, writer, meter, .. } = self;
        let Some(writer) = writer.as_ref().filter(|_| self.waits == Waits::Directly) else {
            return false;
        };
        if !news.begin_at(*next) || meter.is_expired(now) {
            return false;
        }
        let charge = |block: &RingBlock| meter.pass(block.bytes.len(), block.is_event, Some(now));
        let mut is_taken = true;
        let passed = news.pass(next, charge, |chunk| is_taken = writer.write(chunk));
        meter.restart_idle(Some(now));
        self.is_spent = passed.is_none();
        is_taken && !self.is_spent
    }

    /// Wakes its task. Until the task waits for events again, it is not woken again.
    fn wake(&mut self) {
        self.waits = Waits::No;
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }
}

impl Waiters {
    /// Returns the waiters of a ring on this worker. The first call starts the task that serves them.
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
            kit::spawn(serve_all(wake, Arc::downgrade(ring), Rc::downgrade(&waiters)));
            waiters
        })
    }

    /// Adds a client, and returns the index of its place.
    fn enter(&self, place: ClientPosition) -> usize {
        let mut places = self.places.borrow_mut();
        let free = self.free.borrow_mut().pop();
        match free.and_then(|at| Some((places.get_mut(at)?, at))) {
            Some((empty, at)) => {
                *empty = Some(place);
                at
            }
            None => {
                places.push(Some(place));
                places.len() - 1
            }
        }
    }

    /// Serves or wakes some clients, from index `from` on. Returns the index to continue with, if there are more.
    fn serve_some(&self, from: usize) -> Option<usize> {
        let mut places = self.places.borrow_mut();
        let news = self.news.borrow();
        let news = news.as_ref().and_then(|news| Some((news, self.now.get()?)));
        let rest = places.get_mut(from..)?;
        let is_last = rest.len() <= SERVED_AT_ONCE;
        // Woken tasks run later, so none of them changes the list during the loop. Harmless: the next call continues after these, and a
        // free slot has no client.
        for place in rest.iter_mut().take(SERVED_AT_ONCE).flatten() {
            if place.waits == Waits::No || news.is_some_and(|(news, now)| place.pass(news, now)) {
                continue;
            }
            place.wake();
        }
        (!is_last).then_some(from + SERVED_AT_ONCE)
    }
}

impl Drop for Waiters {
    /// Also ends the serving task.
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

/// The number of clients that are served or woken before other tasks get a turn, including the tasks just woken. Writing to them takes half
/// a millisecond, and the data of a woken task is still in the cache when it runs.
const SERVED_AT_ONCE: usize = 128;

/// Serves the clients of a worker whenever events have arrived.
async fn serve_all(wake: Arc<Notify>, ring: sync::Weak<Ring>, waiters: Weak<Waiters>) {
    let mut seen = ring.upgrade().map_or(0, |ring| ring.next());
    loop {
        wake.notified().await;
        let Some(waiters) = waiters.upgrade() else { return };
        waiters.now.set(Some(clock::now()));
        *waiters.news.borrow_mut() = ring.upgrade().and_then(|ring| ring.new_blocks(&mut seen));
        let mut next = Some(0);
        while let Some(from) = next {
            next = waiters.serve_some(from);
            kit::task::yield_to_events().await;
        }
        waiters.now.set(None);
        waiters.news.take();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::time::Duration;

    use bytes::Bytes;
    use message::Chunk;
    use policy::{Slots, StreamNotes};
    use telemetry::Telemetry;
    use tokio::task::LocalSet;

    use super::*;
    use crate::key::KeySource;
    use crate::quota::{ClientTier, Quota, Quotas, Tier};
    use crate::sse::{EventCounter, Sse, SseSettings, Stream};
    use crate::tiers::Tiers;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Woken>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A peer that accepts a limited number of bytes in total.
    struct Peer {
        room: Cell<usize>,
        taken: RefCell<Vec<u8>>,
    }

    impl DirectWriter for Peer {
        fn write(&self, chunk: &Chunk) -> bool {
            let bytes = chunk.payload();
            let taken = bytes.len().min(self.room.get());
            self.room.set(self.room.get() - taken);
            self.taken.borrow_mut().extend_from_slice(&bytes[..taken]);
            taken == bytes.len()
        }
    }

    const EVENT: &[u8] = b"data: x\n\n";

    fn sse(messages: u64) -> Arc<Sse> {
        let quota = Quota { messages: Some(messages), bytes: None, per: Duration::from_secs(9) };
        let settings = SseSettings {
            by: KeySource::Everybody,
            tiers: Tiers::new(Tier::new(vec![quota]), Vec::new()),
            event_bytes_max: 99,
            idle: None,
            connections: None,
        };
        let metrics = Telemetry::new(1).route("r");
        let (quotas, permits) = (Arc::<Quotas>::default(), Arc::default());
        Arc::new(Sse { settings, quotas, permits, metrics, slot: Slots::default().assign() })
    }

    /// A client of a ring whose stream is open.
    struct TestClient {
        cursor: Cursor,
        notes: Rc<StreamNotes>,
        woken: Arc<Woken>,
    }

    impl TestClient {
        fn of(ring: &Arc<Ring>, sse: &Arc<Sse>, key: u64) -> TestClient {
            let notes = Rc::<StreamNotes>::default();
            let counted = EventCounter { key, tier: ClientTier::Numbered(0) };
            let stream =
                Stream { sse: sse.clone(), counted, notes: notes.clone(), worker: 0, permit: None };
            let cursor = Client::of(ring.clone()).begin(None, false, EventMeter::new(stream, None));
            TestClient { cursor, notes, woken: Arc::default() }
        }

        fn poll(&mut self) -> (Poll<Option<Fill>>, usize) {
            let mut out = Vec::new();
            let waker = self.woken.clone().into();
            let polled = self.cursor.poll_fill(&mut Context::from_waker(&waker), &mut out);
            (polled.map(Result::ok), out.len() / EVENT.len())
        }

        fn woken(&self) -> usize {
            self.woken.0.load(Ordering::Relaxed)
        }
    }

    async fn push(ring: &Ring, events: usize) {
        let bytes = Bytes::from_static(EVENT);
        let event = RingBlock { bytes, id: None, is_event: true, is_whole: true };
        ring.push((0..events).map(|_| event.clone()));
        others_run().await;
    }

    async fn others_run() {
        for _ in 0..9 {
            kit::task::yield_to_events().await;
        }
    }

    #[tokio::test]
    async fn every_client_that_waits_is_woken_once() {
        let (ring, sse) = (Arc::new(Ring::new(0, None, None, 9, Arc::default())), sse(1000));
        let test = async {
            let begin = |key| TestClient::of(&ring, &sse, key);
            let mut clients: Vec<_> = (0..5).map(begin).collect();
            let mut many: Vec<_> = (0..3 * SERVED_AT_ONCE as u64).map(begin).collect();
            for client in clients.iter_mut().chain(&mut many) {
                assert_eq!(client.poll(), (Poll::Pending, 0));
            }
            push(&ring, 1).await;
            assert!(many.iter().all(|client| client.woken() == 1));
            drop(many);
            // No client waits for this event.
            push(&ring, 1).await;
            let counts = |clients: &[TestClient]| -> Vec<usize> {
                clients.iter().map(TestClient::woken).collect()
            };
            assert_eq!(counts(&clients), [1; 5]);
            for client in clients.iter_mut().skip(1) {
                assert_eq!(client.poll(), (Poll::Ready(Some(Fill::Later)), 2));
            }
            clients.truncate(3);
            push(&ring, 1).await;
            assert_eq!(counts(&clients), [1, 2, 2]);
            assert_eq!(clients[0].cursor.waiters.now.get(), None);
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn a_client_that_waits_for_nothing_else_gets_events_while_its_task_sleeps() {
        let (ring, sse) = (Arc::new(Ring::new(0, None, None, 9, Arc::default())), sse(1000));
        let test = async {
            let mut client = TestClient::of(&ring, &sse, 1);
            let peer = Rc::new(Peer { room: Cell::new(99), taken: RefCell::default() });
            let writer: Rc<dyn DirectWriter> = peer.clone();
            let taken = || peer.taken.borrow().len() / EVENT.len();
            // A client that does not wait gets nothing directly.
            assert!(client.cursor.write_directly(&writer));
            push(&ring, 1).await;
            assert_eq!((taken(), client.woken()), (0, 0));
            assert_eq!(client.poll(), (Poll::Ready(Some(Fill::Later)), 1));
            client.cursor.write_directly(&writer);
            push(&ring, 1).await;
            push(&ring, 2).await;
            assert_eq!((taken(), client.woken()), (3, 0));
            assert_eq!((client.poll(), client.notes.events.get()), ((Poll::Pending, 0), 4));
            // It has not offered its writer again.
            push(&ring, 1).await;
            assert_eq!((taken(), client.woken()), (3, 1));
            assert_eq!(client.poll(), (Poll::Ready(Some(Fill::Later)), 1));
            // A slow client is woken for the rest, and is then not written to directly.
            client.cursor.write_directly(&writer);
            peer.room.set(EVENT.len() + 1);
            push(&ring, 2).await;
            assert_eq!((taken(), client.woken()), (4, 2));
            peer.room.set(99);
            push(&ring, 1).await;
            assert_eq!((taken(), client.woken()), (4, 2));
            // It learns of the end like any other client.
            assert_eq!(client.poll(), (Poll::Ready(Some(Fill::Later)), 1));
            client.cursor.write_directly(&writer);
            ring.end(RingEnd::Complete);
            push(&ring, 0).await;
            assert_eq!(client.woken(), 3);
            assert_eq!(client.poll(), (Poll::Ready(Some(Fill::End)), 0));
            assert_eq!(client.notes.events.get(), 8);
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn a_client_whose_task_sleeps_gets_its_quota_and_no_more() {
        for (may, first, second) in [(3, 1, 2), (3, 1, 3), (3, 1, 9), (1, 0, 1), (1, 0, 3)] {
            let (ring, sse) = (Arc::new(Ring::new(0, None, None, 9, Arc::default())), sse(may));
            let test = async {
                let mut client = TestClient::of(&ring, &sse, 1);
                let peer = Rc::new(Peer { room: Cell::new(99), taken: RefCell::default() });
                let writer: Rc<dyn DirectWriter> = peer.clone();
                others_run().await;
                assert_eq!(client.poll(), (Poll::Pending, 0));
                client.cursor.write_directly(&writer);
                if first > 0 {
                    push(&ring, first).await;
                }
                push(&ring, second).await;
                let taken = peer.taken.borrow().len() / EVENT.len();
                assert_eq!((taken as u64, client.woken()), (may, 1), "{may} {first} {second}");
                assert_eq!(client.poll(), (Poll::Ready(Some(Fill::End)), 0));
                assert_eq!(client.notes.events.get(), may);
                assert_eq!(client.notes.end.get(), Some(StreamEnd::Quota));
            };
            LocalSet::new().run_until(test).await;
        }
    }
}
