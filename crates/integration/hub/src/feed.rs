//! A worker's view of a topic: its newest events, and one wake-up for all its readers on the worker.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use store::{Error, ReadQuery, Store, Watch};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::event::Event;

/// The number of events kept in memory, for readers that are almost up to date.
const EVENTS_MAX: usize = 1024;
/// The maximum size of the bodies of these events. Their encodings for readers are not included.
const BYTES_MAX: usize = 4 << 20;

/// Unused feeds are removed when their number reaches this limit, and again each time it has doubled.
const MANY: usize = 64;

/// The pause after a failed read of the store.
const AWAY: Duration = Duration::from_millis(500);

/// One topic, shared by all its readers on a worker.
pub(crate) struct Feed {
    store: Arc<dyn Store>,
    log: Arc<str>,
    /// The id of the newest event, or 0 until it is known.
    newest: Cell<u64>,
    /// All events after this one are in `recent`. `u64::MAX` until the newest event is known.
    floor: Cell<u64>,
    recent: RefCell<VecDeque<Rc<Event>>>,
    recent_bytes: Cell<usize>,
    news: Arc<Notify>,
    /// The tasks that wait for several feeds, each with its number for this feed.
    listeners: RefCell<Vec<(Weak<ReadyFeeds>, usize)>>,
    following: Cell<Option<JoinHandle<()>>>,
}

/// The feeds with new events, for a task that waits for several feeds.
#[derive(Default)]
pub(crate) struct ReadyFeeds {
    queue: RefCell<VecDeque<usize>>,
    /// A bit for each feed that is in the queue.
    queued: RefCell<Vec<u64>>,
    waker: RefCell<Option<Waker>>,
}

/// The limits of one read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadBounds {
    pub(crate) events: usize,
    /// The limit on the size of the bodies. The first event is read whatever its size.
    pub(crate) bytes: usize,
}

impl ReadBounds {
    pub(crate) const ONE: ReadBounds = ReadBounds { events: 1, bytes: 1 << 20 };
}

/// The result of looking for the next event in memory.
pub(crate) enum NextEvent {
    Event(Rc<Event>),
    /// There is no next event yet.
    Nothing,
    /// The next event, if there is one, has to be read from the log.
    Behind,
}

/// Feeds by the serial number of their hub's state and by their log.
type Feeds = HashMap<(u64, Arc<str>), Weak<Feed>>;

thread_local! {
    static FEEDS: RefCell<Feeds> = RefCell::default();
}

impl Feed {
    /// The feed of a log on this worker. `serial` is that of the hub's state, since logs of the same name may be in different stores.
    pub(crate) fn of(store: &Arc<dyn Store>, serial: u64, log: &Arc<str>) -> Rc<Feed> {
        FEEDS.with_borrow_mut(|feeds| {
            let known = feeds.get(&(serial, log.clone())).and_then(Weak::upgrade);
            known.unwrap_or_else(|| {
                let feed = Feed::follow(store.clone(), log.clone());
                if feeds.len() >= MANY && feeds.len().is_power_of_two() {
                    feeds.retain(|_, feed| feed.strong_count() > 0);
                }
                feeds.insert((serial, log.clone()), Rc::downgrade(&feed));
                feed
            })
        })
    }

    fn follow(store: Arc<dyn Store>, log: Arc<str>) -> Rc<Feed> {
        let watch = store.follow(&log);
        let feed = Rc::new(Feed {
            store,
            log,
            newest: Cell::new(0),
            floor: Cell::new(u64::MAX),
            recent: RefCell::default(),
            recent_bytes: Cell::new(0),
            news: Arc::default(),
            listeners: RefCell::default(),
            following: Cell::new(None),
        });
        feed.following.set(Some(kit::spawn(follow(Rc::downgrade(&feed), watch))));
        feed
    }

    /// The id of the newest event, as far as this worker knows.
    pub(crate) fn newest(&self) -> u64 {
        self.newest.get()
    }

    /// The notification that wakes all waiting readers when there are new events.
    pub(crate) fn news(&self) -> Arc<Notify> {
        self.news.clone()
    }

    /// Registers this feed with `ready` under a number.
    pub(crate) fn listen(&self, ready: &Rc<ReadyFeeds>, number: usize) {
        let mut listeners = self.listeners.borrow_mut();
        // A feed usually has one listener. Ten thousand feeds should not each reserve memory for more.
        listeners.reserve_exact(1);
        listeners.push((Rc::downgrade(ready), number));
    }

    fn tell(&self) {
        self.news.notify_waiters();
        self.listeners
            .borrow_mut()
            .retain(|(ready, number)| ready.upgrade().map(|ready| ready.hear(*number)).is_some());
    }

    /// The first event after `after`, if it is in memory.
    pub(crate) fn peek(&self, after: u64) -> NextEvent {
        if after < self.floor.get() || self.floor.get() == u64::MAX {
            return NextEvent::Behind;
        }
        let recent = self.recent.borrow();
        let at = recent.partition_point(|event| event.id <= after);
        recent.get(at).map_or(NextEvent::Nothing, |event| NextEvent::Event(event.clone()))
    }

    /// Returns the events after `after`, from memory or from the log, or an empty list if there are none yet. The first event is returned
    /// whatever its size.
    pub(crate) async fn read(&self, after: u64, most: ReadBounds) -> Result<Vec<Rc<Event>>, Error> {
        if after >= self.floor.get() {
            let recent = self.recent.borrow();
            let from = recent.partition_point(|event| event.id <= after);
            let mut bytes = 0;
            let fits = |event: &&Rc<Event>| {
                let is_first = bytes == 0;
                bytes += event.body.len().max(1);
                is_first || bytes <= most.bytes
            };
            // Harmless: events beyond the limits are returned by the reader's next read, which begins after the last event it got.
            return Ok(recent.range(from..).take(most.events).take_while(fits).cloned().collect());
        }
        self.read_log(after, most).await
    }

    /// Reads from the log, which may have events that this worker does not know yet.
    pub(crate) async fn read_log(
        &self,
        mut after: u64,
        most: ReadBounds,
    ) -> Result<Vec<Rc<Event>>, Error> {
        loop {
            let read = ReadQuery { after, records_max: most.events, bytes_max: most.bytes };
            let records = self.store.read(&self.log, read).await?.records;
            let Some(last) = records.last() else { return Ok(Vec::new()) };
            // Harmless: a record that another version wrote in another form cannot be delivered. `catch_up` logs such records when they
            // arrive.
            let events: Vec<_> = records.iter().filter_map(Event::of).map(Rc::new).collect();
            if !events.is_empty() {
                return Ok(events);
            }
            // An empty list would mean that there is no event yet, and the reader would wait here without end.
            after = last.position;
        }
    }

    /// Reads new events into memory, and wakes those that wait for them.
    async fn catch_up(&self) -> Result<(), Error> {
        if self.floor.get() == u64::MAX {
            let newest = self.store.span(&self.log).await?.newest;
            self.newest.set(newest);
            self.floor.set(newest);
            self.tell();
        }
        loop {
            let read = self.store.read(&self.log, ReadQuery::after(self.newest.get())).await;
            let read = match read {
                Err(Error::Trimmed { oldest }) => {
                    // Events that were trimmed before they were read are lost to all readers.
                    self.skip_to(oldest.saturating_sub(1));
                    continue;
                }
                read => read?,
            };
            let Some(last) = read.records.last().map(|record| record.position) else {
                return Ok(());
            };
            for record in &read.records {
                match Event::of(record) {
                    Some(event) => self.keep(event),
                    None => tracing::warn!(
                        log = &*self.log,
                        event = record.position,
                        "an event in the store cannot be read: another version wrote it; no reader gets it"
                    ),
                }
            }
            self.newest.set(last);
            self.tell();
        }
    }

    fn skip_to(&self, position: u64) {
        self.recent.borrow_mut().clear();
        self.recent_bytes.set(0);
        self.newest.set(position.max(self.newest.get()));
        self.floor.set(self.newest.get());
    }

    fn keep(&self, event: Event) {
        let mut recent = self.recent.borrow_mut();
        let mut bytes = self.recent_bytes.get() + event.body.len();
        recent.push_back(Rc::new(event));
        while recent.len() > EVENTS_MAX || bytes > BYTES_MAX {
            let Some(oldest) = recent.pop_front() else { break };
            bytes -= oldest.body.len();
            self.floor.set(oldest.id);
        }
        self.recent_bytes.set(bytes);
    }
}

impl ReadyFeeds {
    fn hear(&self, number: usize) {
        let (word, bit) = (number / 64, 1 << (number % 64));
        let mut queued = self.queued.borrow_mut();
        if queued.len() <= word {
            queued.resize(word + 1, 0);
        }
        let Some(word) = queued.get_mut(word).filter(|word| **word & bit == 0) else { return };
        *word |= bit;
        self.queue.borrow_mut().push_back(number);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Ready with the number of a feed that has new events.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<usize> {
        if let Some(number) = self.queue.borrow_mut().pop_front() {
            if let Some(word) = self.queued.borrow_mut().get_mut(number / 64) {
                *word &= !(1 << (number % 64));
            }
            return Poll::Ready(number);
        }
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if let Some(following) = self.following.take() {
            following.abort();
        }
    }
}

/// Follows the log while the feed is in use.
async fn follow(feed: Weak<Feed>, mut watch: Watch) {
    let mut is_away = false;
    loop {
        let Some(held) = feed.upgrade() else { return };
        // Boxed, so that the task is small while it waits.
        let caught_up = Box::pin(held.catch_up()).await;
        let log = held.log.clone();
        drop(held);
        match caught_up {
            Ok(()) => {
                is_away = false;
                watch.changed().await;
            }
            Err(error) => {
                if !std::mem::replace(&mut is_away, true) {
                    tracing::warn!(log = &*log, "events cannot be read: {error}");
                }
                tokio::time::sleep(AWAY).await;
            }
        }
    }
}
