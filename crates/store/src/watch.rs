//! Wake-ups: who waits for news of a log or table.
//!
//! Owns one channel for each name that somebody watches, and forgets it when the last watcher is gone.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::watch;

/// Wakes up when there is news. Several pieces of news may be one wake-up, and one may come for nothing, as after the store was
/// away: whoever wakes up looks.
#[derive(Debug)]
pub struct Watch {
    news: watch::Receiver<()>,
}

impl Watch {
    /// Waits for news since the watch was made or was last woken. It may be dropped at any time without losing any.
    /// A store that was closed gives no more.
    pub async fn changed(&mut self) {
        if self.news.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// So many channels are worth a look for those that nobody uses any more, each time their number has doubled.
const MANY: usize = 1024;

/// What one may watch.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    Log(String),
    Table(String),
}

/// All watchers of a store.
#[derive(Debug, Default)]
pub struct Watches {
    channels: Mutex<HashMap<Subject, watch::Sender<()>>>,
}

impl Watches {
    /// Watches a log or table.
    pub fn watch(&self, subject: Subject) -> Watch {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if channels.len() >= MANY && channels.len().is_power_of_two() {
            channels.retain(|_, sender| sender.receiver_count() > 0);
        }
        let sender = channels.entry(subject).or_insert_with(|| watch::Sender::new(()));
        Watch { news: sender.subscribe() }
    }

    /// True while somebody watches it.
    pub fn has(&self, subject: &Subject) -> bool {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.get(subject).is_some_and(|sender| sender.receiver_count() > 0)
    }

    /// Wakes those who watch a log or table.
    pub fn wake(&self, subject: &Subject) {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if channels.get(subject).is_some_and(|sender| sender.send(()).is_err()) {
            channels.remove(subject);
        }
    }

    /// Wakes everybody, as after a time in which nobody could tell what changed.
    pub(crate) fn wake_all(&self) {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.retain(|_, sender| sender.send(()).is_ok());
    }
}
