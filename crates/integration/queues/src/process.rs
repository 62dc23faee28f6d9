//! The processing of a queue: runs its messages through its flow, one after the other or several at once.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use delivery::{Cursor, handover};
use kit::clock::{self, Instant};
use kit::{Alarm, LocalBoxFuture};
use policy::{Resident, ResidentWorker};
use store::nodes::{self, NodeStanding, PartitionGuard};
use store::{Error, Guard, Keep, ReadQuery, Record, Watch};
use tokio::sync::watch;

use crate::dead::DeadCount;
use crate::queue::{AttemptFailure, Order, Queue, key};
use crate::run::{RunFailure, run_once};
use crate::runs::{RunOutcome, Runs};

/// Maximum number of messages that wait for a retry while later ones are processed. Beyond that, later messages wait too.
const OPEN_MAX: usize = 1000;

/// The delay before a failed store call is repeated.
pub(crate) const STORE_RETRY_PAUSE: Duration = Duration::from_millis(500);

/// The interval at which the queue is measured and finished messages are removed.
const TICK: Duration = Duration::from_secs(1);

/// The processing of a queue on one worker.
pub(crate) struct Process {
    pub(crate) queue: Arc<Queue>,
    pub(crate) place: Rc<ResidentWorker>,
    /// The node's ownership of the queue's partition.
    hold: PartitionGuard,
    /// The node's term when it took the queue over.
    pub(crate) term: u64,
    /// The guard that writes depend on.
    pub(crate) guard: Option<Guard>,
    standing: watch::Receiver<NodeStanding>,
    pub(crate) cursor: Cursor,
    runs: Rc<Runs>,
    /// Whether the newest message has been seen.
    is_at_end: bool,
    /// Whether the queue is paused, so that no message is started.
    pub(crate) is_paused: bool,
    /// Whether the paused state has to be read again.
    is_state_open: bool,
    /// The time before which no message may get its first attempt.
    next_first: Option<Instant>,
    /// The failures of messages that are still to be retried.
    pub(crate) failures: HashMap<u64, Vec<AttemptFailure>>,
    pub(crate) dead: DeadCount,
}

/// The reason why the processing ended.
#[derive(Debug, PartialEq, Eq)]
enum ProcessEnd {
    /// The worker asked it to end.
    Asked,
    /// Another node owns the queue, or will own it.
    Lost,
}

/// The next event to handle.
enum Next {
    RunOutcome(RunOutcome),
    News,
    State,
    Standing,
    Time,
    End,
}

impl Resident for Queue {
    fn live(self: Arc<Self>, place: ResidentWorker) -> LocalBoxFuture<'static, ()> {
        Box::pin(async move {
            if !self.is_of(place.caller.worker, place.workers) {
                return;
            }
            let Some(taken) = handover::taken(&place.ending, || self.take()).await else { return };
            let place = Rc::new(place);
            while let Some(mut process) = Process::take_over(&self, &place).await {
                if process.run().await == ProcessEnd::Asked {
                    break;
                }
            }
            drop(taken);
        })
    }
}

impl Queue {
    /// Returns true if this worker is the one that processes the queue.
    fn is_of(&self, worker: usize, workers: usize) -> bool {
        let sum = self
            .name()
            .bytes()
            .fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
        sum % workers.max(1) == worker
    }
}

impl Process {
    /// Waits until this node owns the queue and takes it over. Returns `None` if the worker asks it to end before that.
    async fn take_over(queue: &Arc<Queue>, place: &Rc<ResidentWorker>) -> Option<Process> {
        let partition = nodes::partition(queue.name());
        let mut standing = queue.nodes.follow();
        loop {
            let now = standing.borrow_and_update().clone();
            if let Some(hold) = queue.nodes.hold(partition, now.term) {
                return Some(Process {
                    queue: queue.clone(),
                    place: place.clone(),
                    hold,
                    term: now.term,
                    guard: now.guard,
                    standing,
                    cursor: Cursor::default(),
                    runs: Rc::new(Runs::new(queue.clone(), now.term)),
                    is_at_end: false,
                    is_paused: false,
                    is_state_open: false,
                    next_first: None,
                    failures: HashMap::new(),
                    dead: DeadCount::of(queue),
                });
            }
            let is_asked = {
                let mut changed = pin!(standing.changed());
                poll_fn(|cx| match place.ending.poll_asked(cx) {
                    Poll::Ready(()) => Poll::Ready(true),
                    Poll::Pending => changed.as_mut().poll(cx).map(|_| false),
                })
                .await
            };
            if is_asked {
                return None;
            }
        }
    }

    /// Returns true if another node may be processing the queue.
    pub(crate) fn is_lost(&self) -> bool {
        self.standing.borrow().term != self.term
    }

    async fn run(&mut self) -> ProcessEnd {
        let store = self.queue.entrance.store.clone();
        let mut news = store.follow(&self.queue.entrance.log);
        let mut state = store.watch(&self.queue.tables.state);
        while let Err(error) = self.load().await {
            let queue = self.queue.name();
            tracing::warn!(queue, "the queue is waiting for the store: {error}");
            if handover::pause(&self.place.ending, STORE_RETRY_PAUSE).await {
                return ProcessEnd::Asked;
            }
            if self.is_lost() {
                return ProcessEnd::Lost;
            }
        }
        let runs = self.runs.clone();
        let (mut timer, mut is_ending, mut ticked) = (Alarm::default(), false, clock::now());
        // The time at which messages are read again after the store has failed.
        let mut asks_again = None::<Instant>;
        loop {
            if self.is_lost() {
                return ProcessEnd::Lost;
            }
            let is_leaving = !self.standing.borrow().has(self.hold.partition());
            let may_start = !is_ending && !is_leaving;
            if may_start && asks_again.is_none_or(|at| clock::now() >= at) {
                let started = runs.beside(&mut timer, self.start()).await;
                asks_again = started.err().and_then(|error| {
                    let queue = self.queue.name();
                    tracing::warn!(queue, "the queue is waiting for the store: {error}");
                    clock::now().checked_add(STORE_RETRY_PAUSE)
                });
            }
            match (is_ending, is_leaving) {
                (true, _) if self.runs.is_empty() => return ProcessEnd::Asked,
                (_, true) if self.runs.is_empty() => return ProcessEnd::Lost,
                // Harmless: runs are in progress, or the processing is not ending, so it continues below.
                _ => {}
            }
            let now = clock::now();
            if now.duration_since(ticked) >= TICK {
                ticked = now;
                runs.beside(&mut timer, self.tick()).await;
            }
            self.set_timer(&mut timer, may_start, asks_again);
            match self.next(&mut news, &mut state, &mut timer, is_ending).await {
                Next::RunOutcome(ran) => runs.beside(&mut timer, self.ran(ran)).await,
                Next::News => self.is_at_end = false,
                Next::State => runs.beside(&mut timer, self.look_at_state()).await,
                Next::Standing => {
                    self.standing.borrow_and_update();
                }
                Next::Time => runs.cut(),
                Next::End => is_ending = true,
            }
            if runs.take_cut() {
                let open = self.cursor.open.iter_mut();
                open.for_each(|open| open.is_running = runs.has_ended(open.position));
            }
        }
    }

    async fn next(
        &mut self,
        news: &mut Watch,
        state: &mut Watch,
        timer: &mut Alarm,
        is_ending: bool,
    ) -> Next {
        let (mut news, mut state) = (pin!(news.changed()), pin!(state.changed()));
        let mut standing = self.standing.clone();
        let mut standing = pin!(standing.changed());
        poll_fn(|cx| {
            if standing.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Next::Standing);
            }
            if !is_ending && self.place.ending.poll_asked(cx).is_ready() {
                return Poll::Ready(Next::End);
            }
            if let Poll::Ready(ran) = self.runs.poll_ended(cx) {
                return Poll::Ready(Next::RunOutcome(ran));
            }
            if !is_ending && news.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Next::News);
            }
            if !is_ending && state.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Next::State);
            }
            timer.poll(cx).map(|()| Next::Time)
        })
        .await
    }

    /// Sets the timer to the next tick, or to the next retry if that is earlier. A retry that may not start yet does not count: the timer
    /// would ring at once and again, and nothing else would run on the worker.
    fn set_timer(&self, timer: &mut Alarm, may_start: bool, asks_again: Option<Instant>) {
        let may_retry = may_start && asks_again.is_none() && self.may_start_one();
        let due = self.cursor.next_due().filter(|_| may_retry);
        let wait = due.map(|due| due.saturating_sub(clock::wall()));
        // Once this time has passed, nothing waits for it.
        let next_first = self.next_first.filter(|at| may_retry && *at > clock::now());
        let latest = asks_again.filter(|_| may_start).into_iter().chain(next_first).min();
        timer.set_by(clock::now(), wait.unwrap_or(TICK).min(TICK), latest);
    }

    /// Reads whether the queue is paused. If the store does not answer, the state stays unchanged and the next tick tries again.
    async fn look_at_state(&mut self) {
        match self.queue.is_paused().await {
            Ok(is_paused) => (self.is_paused, self.is_state_open) = (is_paused, false),
            Err(_) => self.is_state_open = true,
        }
    }

    async fn load(&mut self) -> Result<(), Error> {
        self.cursor = self.queue.cursor().await?;
        self.is_paused = self.load_state().await?;
        Ok(())
    }

    /// Returns true if the queue is paused. What an operator has decided outlives reloads and restarts. Resuming what the configuration
    /// paused counts until the configuration no longer pauses it, so that it can pause the queue again.
    async fn load_state(&self) -> Result<bool, Error> {
        let (queue, is_configured) = (&self.queue, self.queue.settings.is_paused);
        let decision = queue.switch().decision().await?;
        match (decision, is_configured) {
            (Some(false), true) => {
                let queue = queue.name();
                tracing::info!(
                    queue,
                    "an operator has resumed this queue, so `paused: true` has no effect"
                );
            }
            (Some(false), false) => {
                let changes = vec![queue.switch().forget_resumption()];
                queue.entrance.store.change(changes, self.guard.as_ref()).await?;
            }
            (None, true) => {
                tracing::info!(queue = queue.name(), "paused until an operator resumes it");
            }
            (Some(true), _) | (None, false) => {}
        }
        Ok(decision.unwrap_or(is_configured))
    }

    /// Returns true if the queue is not paused, the node may begin something, and another message may be processed at the same time.
    fn may_start_one(&self) -> bool {
        !self.is_paused
            && self.queue.nodes.may_begin(self.term)
            && self.cursor.running() < self.queue.settings.concurrency
    }

    /// Starts messages as long as there are free slots.
    async fn start(&mut self) -> Result<(), Error> {
        let queue = self.queue.clone();
        let settings = &queue.settings;
        while self.may_start_one() {
            if let Some(message) = self.cursor.due(&settings.retries, clock::wall()) {
                self.retry(message).await?;
                continue;
            }
            let open_max = match settings.order {
                Order::Strict => settings.concurrency,
                Order::Free => OPEN_MAX,
            };
            let is_early = self.next_first.is_some_and(|at| clock::now() < at);
            if self.is_at_end || is_early || self.cursor.open.len() >= open_max {
                return Ok(());
            }
            let read = ReadQuery { records_max: 1, ..ReadQuery::after(self.cursor.head) };
            let entrance = &self.queue.entrance;
            let found = match entrance.store.read(&entrance.log, read).await {
                Err(Error::Trimmed { oldest }) => {
                    self.cursor.head = oldest.saturating_sub(1);
                    continue;
                }
                found => found?.records.into_iter().next(),
            };
            let Some(record) = found else {
                self.is_at_end = true;
                return Ok(());
            };
            if !self.may_start_one() {
                // The lease may have run out during the read.
                return Ok(());
            }
            self.cursor.begin(record.position);
            if !settings.interval.is_zero() {
                self.next_first = clock::now().checked_add(settings.interval);
            }
            self.begin(record);
        }
        Ok(())
    }

    /// Starts another attempt at a message.
    async fn retry(&mut self, message: u64) -> Result<(), Error> {
        let read = ReadQuery { records_max: 1, ..ReadQuery::after(message.saturating_sub(1)) };
        let entrance = &self.queue.entrance;
        let found = match entrance.store.read(&entrance.log, read).await {
            Err(Error::Trimmed { .. }) => None,
            found => found?.records.into_iter().next(),
        };
        let Some(record) = found.filter(|record| record.position == message) else {
            self.cursor.end(message);
            return Ok(());
        };
        if !self.failures.contains_key(&message) {
            let row = entrance.store.get(&self.queue.tables.failures, &key(message)).await?;
            let kept = row.map_or(Ok(Vec::new()), |row| serde_json::from_slice(&row.value));
            let kept = kept.unwrap_or_else(|error| {
                let queue = self.queue.name();
                tracing::error!(queue, id = message, %error, "the earlier failures of a message cannot be read; only new ones are recorded");
                Vec::new()
            });
            self.failures.insert(message, kept);
        }
        if self.may_start_one() {
            self.begin(record);
        }
        Ok(())
    }

    fn begin(&mut self, record: Record) {
        let message = record.position;
        if let Some(open) = self.cursor.get(message) {
            open.is_running = true;
        }
        let (queue, caller) = (self.queue.clone(), self.place.caller.clone());
        let tracing = (self.place.tracing)();
        self.runs.start(Box::pin(async move {
            let failed = {
                let running = pin!(run_once(&queue, caller, tracing, &record.bytes));
                kit::task::contain(running).await
            };
            let failed = failed.unwrap_or_else(|panic| {
                Some(RunFailure { why: format!("panic: {panic}"), is_retryable: true })
            });
            RunOutcome { message, record, failed }
        }));
    }

    /// Measures the queue, and removes finished messages from the log.
    async fn tick(&mut self) {
        if self.is_state_open {
            self.look_at_state().await;
        }
        let entrance = &self.queue.entrance;
        let keep = Keep { after: Some(self.cursor.done()), ..Keep::default() };
        let Ok(span) = entrance.store.trim(&entrance.log, keep).await else { return };
        let waiting = span.newest.saturating_sub(self.cursor.head);
        let open = u64::try_from(self.cursor.open.len()).unwrap_or(u64::MAX);
        let depth = waiting.saturating_add(open);
        let age = match depth {
            0 => Duration::ZERO,
            _ => {
                let read = ReadQuery { records_max: 1, ..ReadQuery::after(0) };
                let oldest = entrance.store.read(&entrance.log, read).await;
                // Harmless: if the oldest message cannot be read, the age is 0 until the next tick measures it.
                let oldest = oldest.ok().and_then(|read| read.records.into_iter().next());
                oldest.map_or(Duration::ZERO, |record| clock::wall().saturating_sub(record.time))
            }
        };
        entrance.metrics.set(depth, age.as_secs());
        self.keep_dead().await;
    }
}
