//! Definitions that are fetched and compiled in the background: schemas, descriptions, envelopes and stylesheets.
//!
//! Owns the definition in use, the wait for the first one, and the time of the next refresh. The caller supplies the task that fetches and
//! compiles (the maker). Nothing is compiled while a message is handled, and a message waits at most once, for the first definition.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use kit::clock;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::Rejection;

/// How much longer than one fetch a message waits, for follow-up fetches and for compiling.
const PATIENCE: Duration = Duration::from_secs(1);

/// The delay before a failed fetch is repeated for the first time, in addition to its timeout. The sum doubles with each further failure.
/// The value is Kong's.
const AGAIN: Duration = Duration::from_millis(75);

/// The maximum delay before a failed fetch is repeated, unless the timeout is longer.
const AGAIN_MAX: Duration = Duration::from_secs(30);

/// The text for clients. It names neither the documents nor the system's error.
const LATE: &str = "The definition has not been fetched yet";

/// The times at which a definition is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefreshTimes {
    /// Timeout of one document.
    pub timeout: Duration,
    /// Time after which everything is fetched and compiled again.
    pub ttl: Duration,
    /// Whether to fetch at once, instead of when the first message needs the definition.
    pub eager: bool,
}

/// The last good definition. It outlives its `RemoteDefinition`: after a reload, the new one serves it until it has a newer definition.
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

/// A definition `M` that is refreshed.
pub struct RemoteDefinition<M> {
    /// The name used in the log.
    name: String,
    pace: RefreshTimes,
    serving: Arc<LastGood<M>>,
    state: watch::Sender<State>,
    /// Whether a message has asked for the definition. A definition that is not eager waits for that.
    asked: AtomicBool,
    wanted: Notify,
    /// The background task that fetches and compiles. It lives as long as a policy may need the definition.
    _maker: Arc<dyn Any + Send + Sync>,
}

#[derive(Clone, Default)]
struct State {
    /// Whether a definition is in use.
    ready: bool,
    /// The reason why the last attempt failed, or `None`.
    failed: Option<Rejection>,
    failures: u32,
    due: Option<clock::Instant>,
}

impl<M: Send + Sync + 'static> RemoteDefinition<M> {
    /// Creates a definition that serves `last` at once. `fetched`: it consists of fetched documents, so its age is unknown and a refresh is
    /// due at once.
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

    /// Returns the definition in use, or the reason why there is none.
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

    /// Returns true if there is a definition to validate against.
    pub fn is_ready(&self) -> bool {
        self.serving.0.load().is_some()
    }

    /// Returns how long a message waits at most for the first definition.
    pub fn patience(&self) -> Duration {
        self.pace.timeout + PATIENCE
    }

    /// Waits until the first definition is there or an attempt has failed. Returns at once if one has failed already.
    pub async fn settled(&self) {
        self.ask();
        let mut seen = self.state.subscribe();
        // Harmless: `self` holds the sender, so the channel cannot close.
        let _ = seen.wait_for(|state| state.ready || state.failed.is_some()).await;
    }

    /// Records that a message needs the definition, and wakes the maker.
    pub fn ask(&self) {
        if !self.asked.swap(true, Ordering::AcqRel) {
            self.wanted.notify_one();
        }
    }

    fn late(&self) -> Rejection {
        let cause = format!("the documents of '{}' have not been fetched yet", self.name);
        Rejection::hiding(LATE, LATE, cause)
    }
}

/// The methods that the maker uses.
impl<M: Send + Sync + 'static> RemoteDefinition<M> {
    /// Returns the timeout of one document.
    pub fn timeout(&self) -> Duration {
        self.pace.timeout
    }

    /// Returns the time until the next refresh, or zero if one is due or nothing has been fetched yet.
    pub fn left(&self) -> Duration {
        let due = self.state.borrow().due;
        let left = due.map(|due| due.saturating_duration_since(clock::now()));
        left.unwrap_or(Duration::ZERO)
    }

    /// Returns true if a refresh that is due should run now. Otherwise waits up to `at_most` for a message to ask, and returns false.
    pub async fn is_wanted(&self, at_most: Duration) -> bool {
        if self.pace.eager || self.asked.load(Ordering::Acquire) {
            return true;
        }
        // Harmless: the caller checks again in either case.
        let _ = timeout(at_most, self.wanted.notified()).await;
        false
    }

    /// Marks the start of a refresh, which answers all requests for it so far.
    pub fn begin(&self) {
        self.asked.store(false, Ordering::Release);
    }

    /// Puts a new definition into use.
    pub fn serve(&self, compiled: M) {
        if self.state.borrow().failures > 0 || !self.is_ready() {
            tracing::info!(definition = self.name, "the definition was fetched and compiled");
        }
        let due = clock::now().checked_add(self.pace.ttl);
        self.serving.put(Arc::new(compiled));
        self.state.send_replace(State { ready: true, due, ..State::default() });
    }

    /// Records that a refresh failed.
    pub fn fail(&self, failed: Rejection) {
        let failures = self.state.borrow().failures;
        // Logs the first failure and then only at powers of two, so that an outage does not fill the log.
        if failures == 0 || failures.is_power_of_two() {
            let meanwhile = if self.is_ready() {
                "the last good one stays in use"
            } else {
                "messages are refused"
            };
            tracing::warn!(
                definition = self.name,
                "the definition cannot be compiled, {meanwhile}: {}",
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
        f.debug_struct("RemoteDefinition").field("name", &self.name).finish_non_exhaustive()
    }
}
