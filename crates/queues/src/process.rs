//! The processing of a queue: runs its messages through its flow, one after the other or several at once.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use fault::{Fault, Kind};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use kit::{Alarm, LocalBoxFuture, SharedAlarm, clock};
use message::{Reply, ReplyHead, Request, RequestHead};
use policy::{Answer, Caller, Exchange, ExchangeTrace, Residence, Resident};
use store::nodes::{self, NodeStanding, Tenure};
use store::{Change, Error, Expect, Guard, Keep, ReadQuery, Record, Watch};
use telemetry::QueueRun;
use telemetry::span::{SpanKind, Tracing};
use tokio::sync::watch;

use crate::dead::{DeadCount, millis, now};
use crate::queue::{
    AttemptFailure, CURSOR, Cursor, Dead, OpenMessage, Order, Queue, key, note_failure,
};
use crate::stored;

/// Maximum size of a reply that is read to its end, so that its connection can be reused.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// Maximum number of messages that wait for a retry while later ones are processed. Beyond that, later messages wait too.
const OPEN_MAX: usize = 1000;

/// The delay before a failed store call is repeated, and between checks whether another plan has released the queue.
const AWAY: Duration = Duration::from_millis(500);
const HANDOVER: Duration = Duration::from_millis(20);

/// The interval at which the queue is measured and finished messages are removed.
const TICK: Duration = Duration::from_secs(1);

/// The processing of a queue on one worker.
struct Process {
    queue: Arc<Queue>,
    place: Rc<Residence>,
    /// The node's ownership of the queue's partition for this term, and the guard that writes depend on.
    hold: Tenure,
    term: u64,
    guard: Option<Guard>,
    standing: watch::Receiver<NodeStanding>,
    cursor: Cursor,
    /// Numbers of the messages being processed.
    running: Vec<u64>,
    runs: FuturesUnordered<LocalBoxFuture<'static, RunOutcome>>,
    /// Whether the newest message has been seen.
    is_at_end: bool,
    /// Whether an operator has paused the queue, so that no message is started.
    is_paused: bool,
    /// Whether the paused state has to be read again.
    is_state_open: bool,
    /// The failures of messages that are still to be retried.
    failures: HashMap<u64, Vec<AttemptFailure>>,
    dead: DeadCount,
}

/// The outcome of processing a message once.
struct RunOutcome {
    message: u64,
    record: Record,
    failed: Option<RunFailure>,
}

/// The reason why a run failed.
struct RunFailure {
    why: String,
    /// Whether a retry may succeed. False if the message itself is at fault.
    may_pass: bool,
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
    fn live(self: Arc<Self>, place: Residence) -> LocalBoxFuture<'static, ()> {
        Box::pin(async move {
            if !self.is_of(place.caller.worker, place.workers) {
                return;
            }
            let taken = loop {
                if let Some(taken) = self.take() {
                    break taken;
                }
                if pause(&place, HANDOVER).await {
                    return;
                }
            };
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

/// Waits for `time`. Returns true if the resident is asked to end.
async fn pause(place: &Residence, time: Duration) -> bool {
    let asked = poll_fn(|cx| place.ending.poll_asked(cx));
    tokio::time::timeout(time, asked).await.is_ok()
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
    /// Waits until this node owns the queue and takes it over. Returns `None` if the worker asks it to end before.
    async fn take_over(queue: &Arc<Queue>, place: &Rc<Residence>) -> Option<Process> {
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
                    running: Vec::new(),
                    runs: FuturesUnordered::new(),
                    is_at_end: false,
                    is_paused: false,
                    is_state_open: false,
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
    fn is_lost(&self) -> bool {
        self.standing.borrow().term != self.term
    }

    async fn run(&mut self) -> ProcessEnd {
        let store = self.queue.entrance.store.clone();
        let mut news = store.follow(&self.queue.entrance.log);
        let mut state = store.watch(&self.queue.tables.state);
        while let Err(error) = self.load().await {
            let queue = self.queue.name();
            tracing::warn!(queue, "the queue is waiting for the store: {error}");
            if pause(&self.place, AWAY).await {
                return ProcessEnd::Asked;
            }
            if self.is_lost() {
                return ProcessEnd::Lost;
            }
        }
        let (mut timer, mut is_ending, mut ticked) = (Alarm::default(), false, clock::now());
        loop {
            if self.is_lost() {
                return ProcessEnd::Lost;
            }
            let is_leaving = !self.standing.borrow().has(self.hold.partition());
            if !is_ending
                && !is_leaving
                && let Err(error) = self.start().await
            {
                tracing::warn!(
                    queue = self.queue.name(),
                    "the queue is waiting for the store: {error}"
                );
                is_ending |= pause(&self.place, AWAY).await;
                continue;
            }
            match (is_ending, is_leaving) {
                (true, _) if self.runs.is_empty() => return ProcessEnd::Asked,
                (_, true) if self.runs.is_empty() => return ProcessEnd::Lost,
                // Harmless: processing continues below.
                _ => {}
            }
            let now = clock::now();
            if now.duration_since(ticked) >= TICK {
                ticked = now;
                self.tick().await;
            }
            self.set_timer(&mut timer);
            match self.next((&mut news, &mut state), &mut timer, is_ending).await {
                Next::RunOutcome(ran) => self.ran(ran).await,
                Next::News => self.is_at_end = false,
                Next::State => self.look_at_state().await,
                Next::Standing => {
                    self.standing.borrow_and_update();
                }
                Next::Time => self.cut(),
                Next::End => is_ending = true,
            }
        }
    }

    async fn next(
        &mut self,
        (news, state): (&mut Watch, &mut Watch),
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
            if let Poll::Ready(Some(ran)) = self.runs.poll_next_unpin(cx) {
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

    /// Aborts the runs of a strictly ordered queue once another node may process it, because that node could otherwise overtake them.
    fn cut(&mut self) {
        let is_strict = self.queue.settings.order == Order::Strict;
        if is_strict && !self.queue.nodes.may_begin(self.term) && !self.runs.is_empty() {
            tracing::warn!(
                queue = self.queue.name(),
                "a run was stopped: the store has been unavailable for too long"
            );
            self.runs.clear();
            self.running.clear();
        }
    }

    /// Sets the timer for the next message due and for the next tick.
    fn set_timer(&self, timer: &mut Alarm) {
        let has_room = !self.is_paused && self.running.len() < self.queue.settings.concurrency;
        let due = self.cursor.next_due(&self.running).filter(|_| has_room);
        let wait = due.map(|due| Duration::from_millis(due).saturating_sub(clock::wall()));
        timer.set(clock::now(), wait.unwrap_or(TICK).min(TICK));
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
        self.is_paused = self.queue.is_paused().await?;
        Ok(())
    }

    /// Starts messages as long as there are free slots.
    async fn start(&mut self) -> Result<(), Error> {
        let settings = self.queue.settings.clone();
        while !self.is_paused
            && self.queue.nodes.may_begin(self.term)
            && self.running.len() < settings.concurrency
        {
            if let Some(message) = self.cursor.due(&settings.retries, &self.running) {
                self.retry(message).await?;
                continue;
            }
            let open_max = match settings.order {
                Order::Strict => settings.concurrency,
                Order::Free => OPEN_MAX,
            };
            if self.is_at_end || self.cursor.open.len() >= open_max {
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
            self.cursor.head = record.position;
            let open = OpenMessage { message: record.position, attempts: 0, due: 0 };
            self.cursor.open.push(open);
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
            self.cursor.open.retain(|open| open.message != message);
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
        self.begin(record);
        Ok(())
    }

    fn begin(&mut self, record: Record) {
        let message = record.position;
        self.running.push(message);
        let (queue, caller) = (self.queue.clone(), self.place.caller.clone());
        let tracing = (self.place.tracing)();
        self.runs.push(Box::pin(async move {
            let failed = {
                let running = pin!(run_once(&queue, (caller, tracing), &record.bytes));
                kit::task::contain(running).await
            };
            let failed = failed.unwrap_or_else(|panic| {
                Some(RunFailure { why: format!("panic: {panic}"), may_pass: true })
            });
            RunOutcome { message, record, failed }
        }));
    }

    /// Records the outcome of a run.
    async fn ran(&mut self, ran: RunOutcome) {
        let RunOutcome { message, record, failed } = ran;
        self.running.retain(|running| *running != message);
        let mut changes = Vec::new();
        let open = self.cursor.open.iter_mut().find(|open| open.message == message);
        let outcome = match (failed, open) {
            (None, _) | (_, None) => QueueRun::Success,
            (Some(failure), Some(open)) => {
                open.attempts = open.attempts.saturating_add(1);
                let (attempts, chance) = (open.attempts, fastrand::u64(..1000));
                let pause = self.queue.settings.retries.pause(attempts, chance);
                match pause.filter(|_| failure.may_pass) {
                    Some(pause) => {
                        open.due = millis(clock::wall() + pause);
                        self.tried(message, &failure.why, pause, &mut changes);
                        QueueRun::Failure
                    }
                    None => {
                        self.died(attempts, record, failure, &mut changes);
                        QueueRun::Dead
                    }
                }
            }
        };
        self.queue.entrance.metrics.ran(outcome);
        if outcome != QueueRun::Failure {
            self.cursor.open.retain(|open| open.message != message);
            if self.failures.remove(&message).is_some() {
                changes.push(self.queue.failures_change(message, None));
            }
        }
        self.write(changes).await;
        if outcome == QueueRun::Dead {
            self.keep_dead().await;
        }
    }

    /// Handles a failed message that will be retried.
    fn tried(&mut self, message: u64, why: &str, pause: Duration, changes: &mut Vec<Change>) {
        let queue = self.queue.name();
        tracing::debug!(queue, id = message, "tried again in {pause:?}: {why}");
        let failures = self.failures.entry(message).or_default();
        note_failure(failures, now(), why);
        changes.push(self.queue.failures_change(message, Some(failures)));
    }

    /// Handles a message that has failed for the last time.
    fn died(
        &mut self,
        attempts: u32,
        record: Record,
        RunFailure { why, may_pass }: RunFailure,
        changes: &mut Vec<Change>,
    ) {
        let (queue, message) = (self.queue.name(), record.position);
        // The field is called `id`, because `message` is reserved for the text of a log line.
        if may_pass {
            tracing::warn!(queue, id = message, "dead after its last attempt: {why}")
        } else {
            tracing::warn!(
                queue,
                id = message,
                "dead at once, because a retry cannot succeed: {why}"
            );
        }
        if !self.queue.settings.dead_letter {
            return;
        }
        // Harmless: a message that has not failed before has no earlier failures.
        let mut failures = self.failures.get(&message).cloned().unwrap_or_default();
        let died = now();
        note_failure(&mut failures, died, &why);
        let bytes = u64::try_from(record.bytes.len()).unwrap_or(u64::MAX);
        let stored = millis(record.time);
        let dead =
            Dead { message, attempts, last: why, failures, stored, died, bytes, returning: 0 };
        changes.extend(self.queue.bury(&dead, record.bytes));
        self.dead.add(bytes, died);
    }

    /// Removes dead messages beyond the limits.
    async fn keep_dead(&mut self) {
        if let Err(error) = self.dead.keep(&self.queue, self.guard.as_ref()).await {
            // The next tick tries again.
            tracing::debug!(
                queue = self.queue.name(),
                "cannot clean up the dead messages: {error}"
            );
        }
    }

    /// Writes the position of the processing together with other changes. Retries without limit, because nothing else may start before.
    async fn write(&mut self, changes: Vec<Change>) {
        loop {
            let mut changes = changes.clone();
            // Harmless: numbers can always be serialised.
            let value = serde_json::to_vec(&self.cursor).ok().map(Bytes::from);
            let table = self.queue.tables.cursor.clone();
            changes.push(Change { table, key: CURSOR.to_vec(), value, expect: Expect::Anything });
            match self.queue.entrance.store.change(changes, self.guard.as_ref()).await {
                Ok(_) => return,
                Err(Error::Fenced) => self.queue.nodes.tell_fenced(self.term),
                Err(error) => {
                    let queue = self.queue.name();
                    tracing::warn!(queue, "the queue is waiting for the store: {error}");
                }
            }
            if pause(&self.place, AWAY).await || self.is_lost() {
                // Whatever is not written is processed again.
                return;
            }
        }
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
                // Harmless: the next tick measures the age.
                let oldest = oldest.ok().and_then(|read| read.records.into_iter().next());
                oldest.map_or(Duration::ZERO, |record| clock::wall().saturating_sub(record.time))
            }
        };
        entrance.metrics.set(depth, age.as_secs());
        self.keep_dead().await;
    }
}

/// Runs the flow once for a message. Returns the reason if it failed, by a fault or by a reply with status 500 or above.
async fn run_once(
    queue: &Queue,
    (caller, tracing): (Rc<Caller>, Option<Rc<Tracing>>),
    record: &Bytes,
) -> Option<RunFailure> {
    let Some(mut request) = stored::request(record) else {
        let why = "the stored message cannot be read".to_owned();
        return Some(RunFailure { why, may_pass: false });
    };
    let (began, mut cause) = (clock::now(), None);
    let mut ex = Exchange::new(caller, SharedAlarm::default());
    if let Some(tracing) = tracing {
        cause = ExchangeTrace::take_note(&mut request.head.headers);
        ex.trace = Some(ExchangeTrace::of_own(&tracing, cause));
    }
    let failed = match answered(queue, &mut ex, &mut request).await.map(|(head, _)| head.status) {
        Ok(status) if status < 500 => None,
        Ok(status) => Some(RunFailure { why: format!("status {status}"), may_pass: true }),
        Err(fault) => Some(RunFailure { why: fault.to_string(), may_pass: may_pass(&fault) }),
    };
    if let Some(trace) = &ex.trace {
        let name = format!("process {}", queue.name());
        let why = failed.as_ref().map(|failed| failed.why.as_str());
        trace.end_own((name, SpanKind::Consumer), (began, cause), why);
    }
    failed
}

/// Runs the flow of a queue and returns its outcome for a message.
async fn answered(
    queue: &Queue,
    ex: &mut Exchange,
    request: &mut Request,
) -> Result<(ReplyHead, Bytes), Fault> {
    let Reply { head, body, .. } = match queue.flow.answer(ex, request) {
        Answer::Ready(answered) => answered?,
        Answer::Wait(answering) => answering.await?,
    };
    let body = body.gather(REPLY_BYTES_MAX, Kind::ReplyTooLarge).await?;
    Ok((head, body))
}

impl Queue {
    /// Runs the flow for a message that is not stored, for tests of configurations.
    pub async fn rehearse(
        &self,
        caller: Rc<Caller>,
        head: &RequestHead,
        body: &[u8],
    ) -> Result<(ReplyHead, Bytes), Fault> {
        let record = stored::record(head, body).as_ref().and_then(stored::request);
        let unstored = || Fault::new(Kind::FlowFailed, "the message cannot be stored");
        let mut ex = Exchange::new(caller, SharedAlarm::default());
        answered(self, &mut ex, &mut record.ok_or_else(unstored)?).await
    }
}

/// Returns true if the same message may succeed later. A client error (4xx) is the message's own fault, except for those caused by
/// timeouts, rate limits, locks and conflicts.
fn may_pass(fault: &Fault) -> bool {
    let own = fault.more.as_ref().and_then(|more| more.status);
    let status = own.unwrap_or_else(|| fault.kind.status());
    !(400..500).contains(&status) || matches!(status, 408 | 409 | 423 | 425 | 429 | 499)
}
