//! The schedules of one worker: each a task that sleeps until its time, and runs its flow then.

use std::cell::Cell;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fault::{Fault, Kind};
use kit::{SharedAlarm, clock};
use plan::nodes::{self, NodeStanding, Nodes, Tenure};
use plan::{Beginning, ClockReading, Due, LazyStore, Plan, Schedule, ScheduleControl, Timing};
use policy::{Caller, Exchange, ExchangeTrace, Scheme};
use telemetry::span::SpanKind;
use tokio::task::JoinHandle;

use crate::handover::{self, ScheduleRun};
use crate::worker::Worker;

/// The largest reply that is read to its end, so that its connection can be used again.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// Missed times that are counted. A schedule of every second misses that many in a quarter of an hour.
const SKIPPED_MAX: u64 = 1000;

/// How long a run by the clock may be late, since the gateway whose work it was is gone, or the store is away.
const LATE_MAX: Duration = Duration::from_secs(600);

/// The schedules that a worker runs. Each one is run by one worker of the process.
#[derive(Default)]
pub(crate) struct Schedules {
    running: Vec<RunningSchedule>,
    /// Those that a reload has ended, while their last run is under way.
    ending: Vec<RunningSchedule>,
}

/// The task of a schedule. It goes on over reloads as long as its name and its times are the same.
struct RunningSchedule {
    name: String,
    timing: Timing,
    state: Rc<State>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    /// A run is under way.
    is_busy: Cell<bool>,
    /// The same for all schedules of this name, one after another: also for one that a reload has ended.
    is_name_busy: Rc<Cell<bool>>,
    /// No other run begins.
    is_ending: Cell<bool>,
}

impl Schedules {
    /// Runs those of a plan that are this worker's, of so many workers. Those that it does not have any more end; a run that is under way
    /// goes on to its end.
    pub(crate) fn adopt(&mut self, plan: &Plan, worker: &Rc<Worker>, workers: usize) {
        let mut before = std::mem::take(&mut self.running);
        for schedule in plan.schedules.iter().filter(|s| is_run_by(s, worker.index, workers)) {
            let known = before.iter().position(|running| running.is_of(schedule));
            self.running.push(match known {
                Some(at) => before.swap_remove(at),
                None => {
                    let same = before.iter().chain(&self.ending).find(|s| s.name == schedule.name);
                    let is_name_busy = same.map(|same| same.state.is_name_busy.clone());
                    RunningSchedule::start(schedule, worker.clone(), is_name_busy)
                }
            });
        }
        before.iter().for_each(RunningSchedule::end);
        self.ending.append(&mut before);
        self.ending.retain(RunningSchedule::is_busy);
    }

    /// Begins no more runs. True once none is under way.
    pub(crate) fn drain(&mut self) -> bool {
        self.ending.append(&mut self.running);
        self.ending.iter().for_each(RunningSchedule::end);
        self.ending.retain(RunningSchedule::is_busy);
        self.ending.is_empty()
    }
}

/// True if a worker is the one that runs a schedule.
fn is_run_by(schedule: &Schedule, worker: usize, workers: usize) -> bool {
    let mut hasher = DefaultHasher::new();
    schedule.name.hash(&mut hasher);
    let workers = u64::try_from(workers.max(1)).unwrap_or(1);
    u64::try_from(worker).is_ok_and(|worker| hasher.finish() % workers == worker)
}

impl RunningSchedule {
    fn start(
        schedule: &Schedule,
        worker: Rc<Worker>,
        is_name_busy: Option<Rc<Cell<bool>>>,
    ) -> RunningSchedule {
        let (name, timing) = (schedule.name.clone(), schedule.timing.clone());
        // Harmless: no other one of this name is known, so none runs.
        let is_name_busy = is_name_busy.unwrap_or_default();
        let state = Rc::new(State { is_name_busy, ..State::default() });
        // The process before may have left a time to this one that is past already.
        let due = timing.first_since(handover::schedules_since());
        let task = kit::spawn(run(name.clone(), (timing.clone(), due), worker, state.clone()));
        RunningSchedule { name, timing, state, task }
    }

    fn is_of(&self, schedule: &Schedule) -> bool {
        self.name == schedule.name && self.timing == schedule.timing
    }

    fn is_busy(&self) -> bool {
        self.state.is_busy.get() && !self.task.is_finished()
    }

    /// Ends it, at once or once its run is over.
    fn end(&self) {
        self.state.is_ending.set(true);
        if !self.state.is_busy.get() {
            self.task.abort();
        }
    }
}

/// Runs a schedule whenever it is due, as the worker's plan has it then.
async fn run(
    name: String,
    (timing, first): (Timing, Option<Due>),
    worker: Rc<Worker>,
    state: Rc<State>,
) {
    let Some(mut due) = first else { return };
    let mut reading = ClockReading::now();
    loop {
        let Some(waiting) = find(&worker, &name, &timing) else { return };
        let is_asked = wait(&timing, &mut due, &mut reading, &waiting.control).await;
        let Some(schedule) = find(&worker, &name, &timing) else { return };
        let store = worker.current().plan.store.clone();
        if is_asked || !schedule.is_paused(store.as_deref()).await {
            let wanted = (!is_asked).then_some(due);
            if let Some(done) = run_for(&schedule, wanted, &worker, &state).await {
                let Some(next) = timing.after(done) else { return };
                due = next;
                continue;
            }
        }
        if state.is_ending.get() {
            return;
        }
        if !is_asked {
            let Some(next) = behind(&timing, due, &schedule) else { return };
            due = next;
        }
    }
}

/// The first time behind one that is still to come. Those before it are skipped.
fn behind(timing: &Timing, due: Due, schedule: &Schedule) -> Option<Due> {
    let mut due = timing.after(due)?;
    let mut skipped = 0;
    while due.wait().is_none() {
        skipped += 1;
        if skipped == SKIPPED_MAX {
            due = timing.first()?;
            break;
        }
        due = timing.after(due)?;
    }
    schedule.metrics.skipped(skipped);
    Some(due)
}

/// Waits until it is due, or somebody asks for a run: true then.
async fn wait(
    timing: &Timing,
    due: &mut Due,
    reading: &mut ClockReading,
    control: &ScheduleControl,
) -> bool {
    // The clock may have been set during the run before.
    if let Some(other) = timing.set_back(*reading) {
        *due = other;
    }
    *reading = ClockReading::now();
    while let Some(wait) = due.wait() {
        if tokio::time::timeout(wait, control.asked()).await.is_ok() {
            return true;
        }
        if let Some(other) = timing.set_back(*reading) {
            (*due, *reading) = (other, ClockReading::now());
        }
    }
    false
}

/// Runs it for a time that is due, or because somebody asked for that. Where another gateway has it, or has run it for this time, it
/// returns the last time that was the other's.
async fn run_for(
    schedule: &Schedule,
    due: Option<Due>,
    worker: &Rc<Worker>,
    state: &State,
) -> Option<Due> {
    let store = worker.current().plan.store.clone();
    let store = store.as_deref().filter(|store| !store.nodes().is_alone());
    if let (Some(store), Some(due)) = (store, due) {
        has_partition(store.nodes(), schedule, due).await;
    }
    // During an upgrade it waits until it is known whose the schedules are.
    // Harmless: it counts to the end.
    let _run = ScheduleRun::begin().await;
    if state.is_name_busy.get() {
        schedule.metrics.skipped(1);
        return None;
    }
    let right = RunRight::of(store, &schedule.name);
    let Some(right) = right else { return due.map(|due| latest(&schedule.timing, due)) };
    state.is_busy.set(true);
    state.is_name_busy.set(true);
    let last = match (store, due, &right.held) {
        (Some(store), Some(due), Some((_, standing))) => {
            schedule.begin(store, due, standing.guard.as_ref()).await
        }
        _ => Ok(Beginning::Begins),
    };
    let mut done = None;
    match last {
        Ok(Beginning::Begins) => {
            schedule.control.set_running(true);
            run_once(schedule, worker).await;
            schedule.control.set_running(false);
        }
        Ok(Beginning::IsDone(last)) => done = Some(last),
        Err(error) => {
            schedule.metrics.ran(true);
            let name = schedule.name.as_str();
            tracing::warn!(schedule = name, "the schedule could not run: {error}");
        }
    }
    state.is_name_busy.set(false);
    state.is_busy.set(false);
    done
}

/// Waits until this gateway has the schedule, as it does if the one that had it is gone. If another one still has it at the next time,
/// that one has run it.
async fn has_partition(nodes: &Nodes, schedule: &Schedule, due: Due) {
    let Due::Wall(at) = due else { return };
    let late = kit::clock::wall().saturating_sub(at);
    let partition = nodes::partition(&schedule.name);
    let mut standing = nodes.follow();
    let has = standing.wait_for(|standing| standing.has(partition));
    // Harmless: whoever does not have it by then does not run it.
    let _has = tokio::time::timeout(LATE_MAX.saturating_sub(late), has).await;
}

/// The last time up to now at which it was due, or one of the times before it.
fn latest(timing: &Timing, due: Due) -> Due {
    let mut latest = due;
    for _ in 0..SKIPPED_MAX {
        match timing.after(latest).filter(|next| next.wait().is_none()) {
            Some(next) => latest = next,
            None => break,
        }
    }
    latest
}

/// The right to run a schedule: of several gateways that share a store, one at a time has it.
struct RunRight {
    held: Option<(Tenure, NodeStanding)>,
}

impl RunRight {
    fn of(store: Option<&LazyStore>, name: &str) -> Option<RunRight> {
        let Some(store) = store else { return Some(RunRight { held: None }) };
        let (nodes, partition) = (store.nodes(), nodes::partition(name));
        let standing = nodes.standing();
        let hold = nodes.hold(partition, standing.term)?;
        nodes.has(partition).then_some(RunRight { held: Some((hold, standing)) })
    }
}

fn find(worker: &Worker, name: &str, timing: &Timing) -> Option<Arc<Schedule>> {
    let current = worker.current();
    let is_it = |schedule: &&Arc<Schedule>| schedule.name == name && schedule.timing == *timing;
    current.plan.schedules.iter().find(is_it).cloned()
}

async fn run_once(schedule: &Schedule, worker: &Worker) {
    let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let caller = Rc::new(Caller::new(nowhere, nowhere, Scheme::Http, worker.index));
    let mut ex = Exchange::new(caller, SharedAlarm::default());
    let (id, began) = (ex.id, clock::now());
    let tracing = worker.current().recorders.tracing.clone();
    ex.trace = tracing.map(|tracing| ExchangeTrace::of_own(&tracing, None));
    let mut request = schedule.request();
    let answered = {
        let answering = pin!(async {
            let reply = schedule.destination.answer(&mut ex, &mut request).await?;
            reply.body.gather(REPLY_BYTES_MAX, Kind::ReplyTooLarge).await?;
            Ok(())
        });
        kit::task::contain(answering).await
    };
    let ended =
        answered.unwrap_or_else(|panic| Err(Fault::new(Kind::Internal, format!("panic: {panic}"))));
    schedule.metrics.ran(ended.is_err());
    if let Some(trace) = &ex.trace {
        let name = format!("run {}", schedule.name);
        let why = ended.as_ref().err().map(|fault| &*fault.cause);
        trace.end_own((name, SpanKind::Internal), (began, None), why);
    }
    let (name, id) = (schedule.name.as_str(), id.as_str());
    match ended {
        Ok(()) => tracing::debug!(schedule = name, request_id = id, "the schedule has run"),
        Err(fault) => tracing::warn!(
            schedule = name,
            request_id = id,
            fault = fault.kind.label(),
            "the schedule has failed: {}",
            fault.cause
        ),
    }
}
