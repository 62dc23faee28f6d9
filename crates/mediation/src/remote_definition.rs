//! Definitions that are made beside the messages: schemas, descriptions, envelopes and stylesheets alike.
//!
//! Owns the definition that serves, the wait for it, and the time of its renewal. Its maker is the caller's business; no
//! message makes anything, and none waits longer than once for the first time.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use kit::clock;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::Rejection;

/// The time that a message waits beyond a fetch, for the fetches that follow from it and for the compiling.
const PATIENCE: Duration = Duration::from_secs(1);

/// The pause before a failed fetch is tried again, beyond its timeout, as in Kong; and the longest pause.
const AGAIN: Duration = Duration::from_millis(75);
const AGAIN_MAX: Duration = Duration::from_secs(30);

/// The text for clients: without the places of the documents and the system's error.
const LATE: &str = "The definition has not been fetched yet";

/// The times at which a definition is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefreshTimes {
    /// For one document.
    pub timeout: Duration,
    /// Until all is made anew.
    pub ttl: Duration,
    /// Without being asked.
    pub eager: bool,
}

/// The last good definition. It outlives the supply that made it: the next one for the same serves it until it has a newer.
pub struct LastGood<M>(ArcSwapOption<M>);

impl<M> LastGood<M> {
    pub fn put(&self, definition: Arc<M>) {
        self.0.store(Some(definition));
    }
}

impl<M> Default for LastGood<M> {
    fn default() -> LastGood<M> {
        LastGood(ArcSwapOption::empty())
    }
}

/// A definition `M` that changes.
pub struct RemoteDefinition<M> {
    /// For the log.
    name: String,
    pace: RefreshTimes,
    serving: Arc<LastGood<M>>,
    state: watch::Sender<State>,
    /// A message asked for it. A definition that is not eager waits for that.
    asked: AtomicBool,
    wanted: Notify,
    /// The maker, which has to live as long as there is somebody to wait for it.
    _maker: Arc<dyn Any + Send + Sync>,
}

#[derive(Clone, Default)]
struct State {
    /// There is one that serves.
    ready: bool,
    /// The reason why the last try failed.
    failed: Option<Rejection>,
    failures: u32,
    due: Option<clock::Instant>,
}

impl<M: Send + Sync + 'static> RemoteDefinition<M> {
    /// `last` serves at once. `fetched`: it is made of fetched documents, so that its age is not known, and it is due at once.
    pub fn new(
        name: &str,
        pace: RefreshTimes,
        last: Arc<LastGood<M>>,
        fetched: bool,
        maker: Arc<dyn Any + Send + Sync>,
    ) -> RemoteDefinition<M> {
        let ready = last.0.load().is_some();
        let due = if ready && !fetched { clock::now().checked_add(pace.ttl) } else { None };
        let state = State { ready, due, ..State::default() };
        RemoteDefinition {
            name: name.to_owned(),
            pace,
            serving: last,
            state: watch::Sender::new(state),
            asked: AtomicBool::new(false),
            wanted: Notify::new(),
            _maker: maker,
        }
    }

    /// The definition that serves, or why none does.
    pub fn current(&self) -> Result<Guard<Option<Arc<M>>>, Rejection> {
        if !self.pace.eager {
            self.ask();
        }
        let serving = self.serving.0.load();
        if serving.is_some() {
            Ok(serving)
        } else {
            Err(self.state.borrow().failed.clone().unwrap_or_else(|| self.late()))
        }
    }

    /// There is something to hold messages to.
    pub fn is_ready(&self) -> bool {
        self.serving.0.load().is_some()
    }

    /// The longest wait of a message for the first definition.
    pub fn patience(&self) -> Duration {
        self.pace.timeout + PATIENCE
    }

    /// Waits for the first definition, or for a failure to make one. At once where it has failed already.
    pub async fn settled(&self) {
        self.ask();
        let mut seen = self.state.subscribe();
        // Harmless: its sender is ours.
        let _closed = seen.wait_for(|state| state.ready || state.failed.is_some()).await;
    }

    /// Notes that somebody waits for it.
    pub fn ask(&self) {
        if !self.asked.swap(true, Ordering::AcqRel) {
            self.wanted.notify_one();
        }
    }

    fn late(&self) -> Rejection {
        let cause = format!("what '{}' is made of has not been fetched yet", self.name);
        Rejection::hiding(LATE, LATE, cause)
    }
}

/// The interface for its maker.
impl<M: Send + Sync + 'static> RemoteDefinition<M> {
    /// The timeout of one document.
    pub fn timeout(&self) -> Duration {
        self.pace.timeout
    }

    /// The time until it is made again; zero if it is due.
    pub fn left(&self) -> Duration {
        let due = self.state.borrow().due;
        let left = due.map(|due| due.saturating_duration_since(clock::now()));
        left.unwrap_or(Duration::ZERO)
    }

    /// True if one that is due is to be made now. Otherwise waits for a request for it, at most this long.
    pub async fn is_wanted(&self, at_most: Duration) -> bool {
        if self.pace.eager || self.asked.load(Ordering::Acquire) {
            return true;
        }
        // Harmless: the caller looks again, whether it was asked for or not.
        let _asked = timeout(at_most, self.wanted.notified()).await;
        false
    }

    /// It is about to be made for all who asked until now.
    pub fn begin(&self) {
        self.asked.store(false, Ordering::Release);
    }

    /// It was made, and serves from now on.
    pub fn serve(&self, compiled: M) {
        if self.state.borrow().failures > 0 || !self.is_ready() {
            tracing::info!(definition = self.name, "the definition was fetched and compiled");
        }
        let due = clock::now().checked_add(self.pace.ttl);
        self.serving.put(Arc::new(compiled));
        self.state.send_replace(State { ready: true, due, ..State::default() });
    }

    /// It could not be made.
    pub fn fail(&self, failed: Rejection) {
        let failures = self.state.borrow().failures;
        // The first time and now and then after it: an outage is told, and does not fill the log.
        if failures == 0 || failures.is_power_of_two() {
            let meanwhile =
                if self.is_ready() { "the last good one serves" } else { "messages are refused" };
            tracing::warn!(
                definition = self.name,
                "the definition cannot be made, {meanwhile}: {}",
                failed.cause()
            );
        }
        let pause = (self.pace.timeout + AGAIN).saturating_mul(1 << failures.min(5));
        self.state.send_modify(|state| {
            state.failed = Some(failed);
            state.failures = failures.saturating_add(1);
            state.due = clock::now().checked_add(pause.min(AGAIN_MAX.max(self.pace.timeout)));
        });
    }
}

impl<M> std::fmt::Debug for RemoteDefinition<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supply").field("name", &self.name).finish_non_exhaustive()
    }
}
