//! Definitions that name others by URL, or that are to be made anew from time to time: fetched and compiled beside the requests.
//!
//! Of schemas, descriptions, envelopes and stylesheets alike. Owns when that happens and what serves meanwhile. What is read
//! of a definition and how it is compiled is a [`Recipe`]'s business; no request fetches anything, and none waits longer than
//! once for the first time.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use fault::Kind;
use kit::LocalBoxFuture;
use kit::clock;
use message::{Body, Protocol, Request, RequestHead};
use policy::{Background, Call, Caller, Fetch, Totals};
use telemetry::DefinitionMetrics;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::soap::Failed;

/// Documents that one definition may name by URL, directly or by others; large standards come in some hundreds.
const FETCHED_MAX: usize = 500;

/// One document: as large as a file may be.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// All of them: four of the largest, or a standard whole.
const ALL_BYTES_MAX: usize = 64 << 20;

/// How much longer than a fetch a message waits, for the others that follow from it and for the compiling.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long after the time of a fetch one that failed is tried again, as Kong does, and at most.
const AGAIN: Duration = Duration::from_millis(75);
const AGAIN_MAX: Duration = Duration::from_secs(30);

/// How long one round of work looks for something to do. Work that nobody holds any more ends with its round.
const ROUND: Duration = Duration::from_millis(500);

/// What clients are told instead of where the documents are and what the system says about it.
const LATE: &str = "The definition has not been fetched yet";
const UNFETCHED: &str = "A document that the definition names cannot be fetched";

/// libxml2 names the location, which is the definition's own word and all that whoever compares faults to the letter gets to
/// read of it. Nobody but the log gets what the system said: it tells apart ports that are closed from hosts that are not there.
fn unfetched(location: &str, why: &str) -> Failed {
    let text = format!("Failed to locate a schema at location '{location}'");
    Failed::hiding(text, UNFETCHED, format!("the import '{location}' cannot be fetched: {why}"))
}

/// What is to be fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The URL, by which it will be asked for.
    pub location: String,
    /// Scheme, host and port: one of those there is a way to.
    pub origin: String,
    /// The rest of it.
    pub path: String,
}

/// Documents that were fetched, by location.
pub type Fetched = HashMap<String, Vec<u8>>;

/// How a definition `M` is made of what was fetched.
pub trait Recipe<M>: Send + Sync {
    /// What is named and not there. The recipe may add what it has itself.
    fn wanted(&self, fetched: &mut Fetched) -> Result<Vec<Wanted>, String>;

    /// The definition, once nothing is wanted.
    fn compile(&self, fetched: &Fetched) -> Result<M, Failed>;
}

/// How it is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// For one document.
    pub timeout: Duration,
    /// Until all is made anew.
    pub ttl: Duration,
    /// Without being asked.
    pub eager: bool,
}

/// The last good definition. It outlives the supply that made it: the next one for the same serves it until it has a newer.
pub struct Last<M>(ArcSwapOption<M>);

impl<M> Last<M> {
    pub fn put(&self, definition: Arc<M>) {
        self.0.store(Some(definition));
    }
}

impl<M> Default for Last<M> {
    fn default() -> Last<M> {
        Last(ArcSwapOption::empty())
    }
}

/// A definition `M` that changes.
pub struct Supply<M> {
    /// For the log.
    name: String,
    recipe: Arc<dyn Recipe<M>>,
    /// Ways out, by origin.
    outlets: HashMap<String, Arc<dyn Fetch>>,
    pace: Pace,
    metrics: Arc<DefinitionMetrics>,
    serving: Arc<Last<M>>,
    state: watch::Sender<State>,
    /// A message asked for it, which is what one that is not eager waits for.
    asked: AtomicBool,
    wanted: Notify,
}

#[derive(Clone, Default)]
struct State {
    /// There is one that serves.
    ready: bool,
    /// Why the last try came to nothing.
    failed: Option<Failed>,
    failures: u32,
    due: Option<clock::Instant>,
}

impl<M: Send + Sync + 'static> Supply<M> {
    /// `last` is what serves at once.
    pub fn new(
        name: &str,
        recipe: Arc<dyn Recipe<M>>,
        outlets: HashMap<String, Arc<dyn Fetch>>,
        pace: Pace,
        metrics: Arc<DefinitionMetrics>,
        last: Arc<Last<M>>,
    ) -> Supply<M> {
        let ready = last.0.load().is_some();
        // What has to be fetched is fetched at once: nobody knows how old what serves is.
        let due = match ready && outlets.is_empty() {
            true => clock::now().checked_add(pace.ttl),
            false => None,
        };
        let state = State { ready, due, ..State::default() };
        Supply {
            name: name.to_owned(),
            recipe,
            outlets,
            pace,
            metrics,
            serving: last,
            state: watch::Sender::new(state),
            asked: AtomicBool::new(false),
            wanted: Notify::new(),
        }
    }

    /// What serves now, or why nothing does.
    pub(crate) fn current(&self) -> Result<Guard<Option<Arc<M>>>, Failed> {
        if !self.pace.eager {
            self.ask();
        }
        let serving = self.serving.0.load();
        match serving.is_some() {
            true => Ok(serving),
            false => Err(self.state.borrow().failed.clone().unwrap_or_else(|| self.late())),
        }
    }

    /// There is something to hold messages to.
    pub(crate) fn is_ready(&self) -> bool {
        self.serving.0.load().is_some()
    }

    /// How long a message waits for the first definition.
    pub(crate) fn patience(&self) -> Duration {
        self.pace.timeout + PATIENCE
    }

    /// Waits for the first definition, or for a failure to make one. At once where it has failed already.
    pub(crate) async fn settled(&self) {
        self.ask();
        let mut seen = self.state.subscribe();
        // Its sender is ours.
        let _closed = seen.wait_for(|state| state.ready || state.failed.is_some()).await;
    }

    fn late(&self) -> Failed {
        let cause = format!("what '{}' is made of has not been fetched yet", self.name);
        Failed::hiding(LATE, LATE, cause)
    }

    pub(crate) fn ask(&self) {
        if !self.asked.swap(true, Ordering::AcqRel) {
            self.wanted.notify_one();
        }
    }

    async fn renew(&self, caller: &Rc<Caller>) {
        self.asked.store(false, Ordering::Release);
        let made = match self.fetch(caller).await {
            Ok(fetched) => {
                let recipe = self.recipe.clone();
                // Beside this thread, which keeps up all upstreams; one at a time for each definition.
                let compiled = kit::task::beside(move || recipe.compile(&fetched)).await;
                let compiled =
                    compiled.unwrap_or_else(|| Err(Failed::server("it cannot be compiled")));
                self.metrics.compiled(compiled.is_ok());
                compiled
            }
            Err(failed) => Err(failed),
        };
        match made {
            Ok(compiled) => self.serve(compiled),
            Err(failed) => self.fail(failed),
        }
    }

    async fn fetch(&self, caller: &Rc<Caller>) -> Result<Fetched, Failed> {
        let mut fetched = Fetched::new();
        let mut bytes = 0_usize;
        loop {
            let wanted = self.recipe.wanted(&mut fetched);
            // It quotes the location, and nobody has been asked.
            let wanted = wanted.map_err(|why| Failed::hiding(why.as_str(), UNFETCHED, &*why))?;
            if wanted.is_empty() {
                return Ok(fetched);
            }
            for wanted in wanted {
                if fetched.len() >= FETCHED_MAX {
                    let text = format!("over {FETCHED_MAX} documents are named by URL");
                    return Err(Failed::server(text));
                }
                let document = self.get(caller, &wanted).await;
                self.metrics.fetched(document.is_ok());
                let document = document.map_err(|why| unfetched(&wanted.location, &why))?;
                bytes = bytes.saturating_add(document.len());
                if bytes > ALL_BYTES_MAX {
                    let text = format!("what is named by URL has over {ALL_BYTES_MAX} bytes");
                    return Err(Failed::server(text));
                }
                fetched.insert(wanted.location, document);
            }
        }
    }

    async fn get(&self, caller: &Rc<Caller>, wanted: &Wanted) -> Result<Vec<u8>, Box<str>> {
        let outlet = self.outlets.get(&wanted.origin).ok_or(
            "it is on a host that only a fetched document names; give a file for it in `imports`",
        )?;
        let mut head = RequestHead::new(Protocol::Http11, b"GET", wanted.path.as_bytes());
        head.headers.add_known("Accept", b"application/xml, text/xml, */*;q=0.1");
        let request = Request { head, body: Body::Empty };
        let totals = Totals::default();
        let deadline = clock::now().checked_add(self.pace.timeout);
        let call = Call::apart(caller, deadline, &totals);
        let reply = outlet.fetch(call, request).await.map_err(|fault| fault.cause)?;
        if reply.head.status != 200 {
            return Err(format!("it answered {}", reply.head.status).into());
        }
        let body = reply.body.gather(DOCUMENT_BYTES_MAX, Kind::ReplyTooLarge).await;
        Ok(body.map_err(|fault| fault.cause)?.to_vec())
    }

    fn serve(&self, compiled: M) {
        if self.state.borrow().failures > 0 || !self.is_ready() {
            tracing::info!(definition = self.name, "the definition was fetched and compiled");
        }
        let due = clock::now().checked_add(self.pace.ttl);
        self.serving.put(Arc::new(compiled));
        self.state.send_replace(State { ready: true, due, ..State::default() });
    }

    fn fail(&self, failed: Failed) {
        let failures = self.state.borrow().failures;
        // The first time and now and then after it: an outage is told, and does not fill the log.
        if failures == 0 || failures.is_power_of_two() {
            let meanwhile = match self.is_ready() {
                true => "the last good one serves",
                false => "messages are refused",
            };
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

impl<M: Send + Sync + 'static> Background for Supply<M> {
    fn round<'a>(&'a self, caller: &'a Rc<Caller>) -> LocalBoxFuture<'a, Duration> {
        Box::pin(async move {
            let due = self.state.borrow().due;
            let left = due.map(|due| due.saturating_duration_since(clock::now()));
            let left = left.unwrap_or_default();
            if !left.is_zero() {
                return left.min(ROUND);
            }
            if !self.pace.eager && !self.asked.load(Ordering::Acquire) {
                // Whoever asks is told within a round; the pause is for work that nobody holds any more to end.
                let _asked = timeout(ROUND, self.wanted.notified()).await;
                return Duration::ZERO;
            }
            self.renew(caller).await;
            Duration::ZERO
        })
    }
}

impl<M> std::fmt::Debug for Supply<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supply").field("name", &self.name).finish_non_exhaustive()
    }
}
