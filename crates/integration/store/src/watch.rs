//! Wake-ups for tasks that wait for changes of a log or table.
//!
//! Owns one channel for each watched name, and removes it after the last watcher.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, mpsc};

/// Wakes up when there are changes. Several changes may cause one wake-up, and a wake-up may have no cause, for instance after
/// the store was not available. So the owner has to check for changes.
#[derive(Debug)]
pub struct Watch {
    channel: Arc<Channel>,
    /// The number of changes when it was made or last woken.
    seen: u64,
}

/// The changes of one log or table. A hub has thousands of these, so it is small.
#[derive(Debug, Default)]
struct Channel {
    /// The number of changes so far.
    count: AtomicU64,
    waiting: Notify,
}

impl Watch {
    /// Waits for a change since the watch was made or last woken. The future may be dropped at any time without
    /// losing a change. A closed store causes no more wake-ups.
    pub async fn changed(&mut self) {
        loop {
            let mut woken = pin!(self.channel.waiting.notified());
            // Registered before the check, so that no later change is missed.
            woken.as_mut().enable();
            let count = self.channel.count.load(Ordering::Acquire);
            if count != self.seen {
                self.seen = count;
                return;
            }
            woken.await;
        }
    }
}

impl Watch {
    /// Returns true if there was a change since the watch was made or last woken. The change then counts as seen.
    pub fn has_changed(&mut self) -> bool {
        let count = self.channel.count.load(Ordering::Acquire);
        std::mem::replace(&mut self.seen, count) != count
    }
}

impl Channel {
    fn wake(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.waiting.notify_waiters();
    }

    /// Returns true if it has a watcher. One reference is that of [`Watches`].
    fn is_watched(self: &Arc<Channel>) -> bool {
        Arc::strong_count(self) > 1
    }
}

/// The number of channels at which unused ones are first removed. After that, they are removed each time the number has doubled.
const CLEANUP_MIN: usize = 1024;

/// The things that can be watched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    Log(String),
    Table(String),
}

/// All watchers of a store.
#[derive(Debug, Default)]
pub struct Watches {
    channels: Mutex<HashMap<Subject, Arc<Channel>>>,
    taps: Mutex<Vec<TapEnd>>,
    /// The number of taps.
    tap_count: AtomicUsize,
}

/// Changes of all logs and tables, for another process.
#[derive(Debug)]
pub(crate) struct Tap {
    news: mpsc::Receiver<Subject>,
    /// Set if there were more changes than the channel can hold.
    has_missed: Arc<AtomicBool>,
}

/// The other end of a tap.
#[derive(Debug)]
struct TapEnd {
    news: mpsc::Sender<Subject>,
    has_missed: Arc<AtomicBool>,
}

/// The maximum number of wake-ups that wait in a tap. If there are more, only that fact is kept.
const TAP_MAX: usize = 1024;

impl Tap {
    /// Returns the next log or table that has changed, or `None` if any may have changed. The future may be dropped at any time without
    /// losing a change.
    pub(crate) async fn next(&mut self) -> Option<Subject> {
        // If a change is missed after this check, the channel is full, so `recv` returns at once and the next call sees the flag.
        if self.has_missed.swap(false, Ordering::AcqRel) {
            return None;
        }
        self.news.recv().await
    }
}

impl TapEnd {
    fn tell(&self, subject: &Subject) {
        if self.news.try_send(subject.clone()).is_err() {
            self.has_missed.store(true, Ordering::Release);
        }
    }
}

impl Watches {
    /// Watches a log or table.
    pub fn watch(&self, subject: Subject) -> Watch {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if channels.len() >= CLEANUP_MIN && channels.len().is_power_of_two() {
            channels.retain(|_, channel| channel.is_watched());
        }
        let channel = channels.entry(subject).or_default().clone();
        Watch { seen: channel.count.load(Ordering::Acquire), channel }
    }

    /// Returns true if somebody watches a log or table.
    pub fn has(&self, subject: &Subject) -> bool {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.get(subject).is_some_and(Channel::is_watched)
    }

    /// Returns a tap that receives all changes from now on.
    pub(crate) fn tap(&self) -> Tap {
        let (sender, news) = mpsc::channel(TAP_MAX);
        let has_missed = Arc::new(AtomicBool::new(false));
        let mut taps = self.taps.lock().unwrap_or_else(PoisonError::into_inner);
        taps.retain(|tap| !tap.news.is_closed());
        taps.push(TapEnd { news: sender, has_missed: has_missed.clone() });
        self.tap_count.store(taps.len(), Ordering::Release);
        Tap { news, has_missed }
    }

    /// Notifies the taps. Usually there are none, so the count is checked before the lock is taken.
    fn tell_taps(&self, tell: impl Fn(&TapEnd)) {
        if self.tap_count.load(Ordering::Acquire) > 0 {
            let mut taps = self.taps.lock().unwrap_or_else(PoisonError::into_inner);
            taps.retain(|tap| !tap.news.is_closed());
            taps.iter().for_each(tell);
            self.tap_count.store(taps.len(), Ordering::Release);
        }
    }

    /// Wakes the watchers of a log or table.
    pub fn wake(&self, subject: &Subject) {
        self.tell_taps(|tap| tap.tell(subject));
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(channel) = channels.get(subject) else { return };
        if channel.is_watched() { channel.wake() } else { drop(channels.remove(subject)) }
    }

    /// Wakes all watchers, for instance after a time in which changes could not be observed.
    pub(crate) fn wake_all(&self) {
        self.tell_taps(|tap| {
            tap.has_missed.store(true, Ordering::Release);
            // Any change wakes the reader of the tap, whose next call checks the flag first.
            tap.tell(&Subject::Log(String::new()));
        });
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.retain(|_, channel| channel.is_watched());
        channels.values().for_each(|channel| channel.wake());
    }
}
