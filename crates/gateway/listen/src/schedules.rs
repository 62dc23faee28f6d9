//! The schedules of one worker: each is a task that sleeps until its time, and then runs its flow.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fault::{Fault, Kind};
use kit::{SharedAlarm, clock};
use plan::nodes::{self, NodeStanding, Nodes, PartitionGuard};
use plan::{Beginning, ClockReading, Due, LazyStore, Plan, Schedule, ScheduleControl, Timing};
use policy::{Caller, Exchange, ExchangeTrace, Scheme};
use telemetry::span::SpanKind;
use tokio::task::JoinHandle;

use crate::handover::{self, ScheduleRun};
use crate::worker_state::Worker;

/// The largest reply that is read to its end, so that its connection can be reused.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// The maximum number of missed runs that are counted. A schedule that runs every second misses this number in a quarter of an hour.
const SKIPPED_MAX: u64 = 1000;

/// How late a scheduled run may be if its gateway has failed or the store is not available.
const LATE_MAX: Duration = Duration::from_secs(600);

/// The schedules that a worker runs. Each one is run by one worker of the process.
#[derive(Default)]
pub(crate) struct Schedules {
    running: Vec<RunningSchedule>,
    /// Schedules that a reload has ended, while their last run is in progress.
    ending: Vec<RunningSchedule>,
}

/// The task of a schedule. It is kept over reloads while its name and its times stay the same.
struct RunningSchedule {
    name: String,
    timing: Timing,
    state: Rc<State>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    /// True while a run is in progress.
    is_busy: Cell<bool>,
    /// Like `is_busy`, but shared by all schedules of this name, including those that a reload has ended.
    is_name_busy: Rc<Cell<bool>>,
    /// True if no further run may start.
    is_ending: Cell<bool>,
}

impl Schedules {
    /// Starts the schedules of a plan that belong to this worker, and ends those that the plan does not have. A run in progress is
    /// completed.
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

    /// Starts no more runs. True once none is in progress.
    pub(crate) fn drain(&mut self) -> bool {
        self.ending.append(&mut self.running);
        self.ending.iter().for_each(RunningSchedule::end);
        self.ending.retain(RunningSchedule::is_busy);
        self.ending.is_empty()
    }
}

/// True if a worker is the one that runs a schedule.
fn is_run_by(schedule: &Schedule, worker: usize, workers: usize) -> bool {
    let workers = u64::try_from(workers.max(1)).unwrap_or(1);
    let chosen = kit::hash::fixed(&schedule.name) % workers;
    u64::try_from(worker).is_ok_and(|worker| worker == chosen)
}

impl RunningSchedule {
    fn start(
        schedule: &Schedule,
        worker: Rc<Worker>,
        is_name_busy: Option<Rc<Cell<bool>>>,
    ) -> RunningSchedule {
        let (name, timing) = (schedule.name.clone(), schedule.timing.clone());
        // Harmless: without another schedule of this name, none is running.
        let is_name_busy = is_name_busy.unwrap_or_default();
        let state = Rc::new(State { is_name_busy, ..State::default() });
        // The previous process may have left a run whose time has already passed.
        let due = timing.first_since(handover::schedules_since());
        let task = kit::spawn(run(name.clone(), timing.clone(), due, worker, state.clone()));
        RunningSchedule { name, timing, state, task }
    }

    fn is_of(&self, schedule: &Schedule) -> bool {
        self.name == schedule.name && self.timing == schedule.timing
    }

    fn is_busy(&self) -> bool {
        self.state.is_busy.get() && !self.task.is_finished()
    }

    /// Ends the schedule: at once, or after the run in progress.
    fn end(&self) {
        self.state.is_ending.set(true);
        if !self.state.is_busy.get() {
            self.task.abort();
        }
    }
}

/// Runs a schedule whenever it is due, with the settings of the worker's current plan.
async fn run(
    name: String,
    timing: Timing,
    first: Option<Due>,
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
            let Some(next) = next_after(&timing, due, &schedule) else { return };
            due = next;
        }
    }
}

/// Returns the first time after `due` that has not passed yet. The times in between are skipped, and counted as such.
fn next_after(timing: &Timing, due: Due, schedule: &Schedule) -> Option<Due> {
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

/// Waits until the schedule is due. Returns true if an operator requests a run before that.
async fn wait(
    timing: &Timing,
    due: &mut Due,
    reading: &mut ClockReading,
    control: &ScheduleControl,
) -> bool {
    // The clock may have been set during the previous run.
    if let Some(other) = timing.set_back(*reading) {
        *due = other;
    }
    *reading = ClockReading::now();
    while let Some(wait) = due.wait() {
        if tokio::time::timeout(wait, control.run_requested()).await.is_ok() {
            return true;
        }
        if let Some(other) = timing.set_back(*reading) {
            (*due, *reading) = (other, ClockReading::now());
        }
    }
    false
}

/// Runs the schedule, for a due time or by request. If another gateway has the schedule, or has already run it for this time, returns the
/// last time that the other gateway has handled.
async fn run_for(
    schedule: &Schedule,
    due: Option<Due>,
    worker: &Rc<Worker>,
    state: &State,
) -> Option<Due> {
    let store = worker.current().plan.store.clone();
    let store = store.as_deref().filter(|store| !store.nodes().is_single());
    if let (Some(store), Some(due)) = (store, due) {
        wait_for_partition(store.nodes(), schedule, due).await;
    }
    // During an upgrade, this waits until it is known which process has the schedules. Harmless: the value is not used, but it counts the
    // run until it is dropped.
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

/// Waits until this gateway has the schedule's partition, for as long as the run may still start late. It gets the partition if the gateway
/// that has it fails. If the other gateway still has it afterwards, it has run the schedule.
async fn wait_for_partition(nodes: &Nodes, schedule: &Schedule, due: Due) {
    let Due::Wall(at) = due else { return };
    let late = kit::clock::wall().saturating_sub(at);
    let partition = nodes::partition(&schedule.name);
    let mut standing = nodes.follow();
    let has = standing.wait_for(|standing| standing.has(partition));
    // Harmless: without the partition, this gateway does not run the schedule.
    let _ = tokio::time::timeout(LATE_MAX.saturating_sub(late), has).await;
}

/// Returns the latest due time that has passed, or after [`SKIPPED_MAX`] of them an earlier one.
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

/// The right to run a schedule. Only one of the gateways that share a store has it at a time.
struct RunRight {
    held: Option<(PartitionGuard, NodeStanding)>,
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
        trace.end_own(name, SpanKind::Internal, began, None, why);
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
