//! The schedules of one worker: each a task that sleeps until its time, and runs its flow then.

use std::cell::Cell;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use fault::{Fault, Kind};
use kit::SharedAlarm;
use plan::nodes::{self, Tenure};
use plan::{ClockReading, Due, Plan, Schedule, ScheduleControl, Timing};
use policy::{Caller, Exchange, Scheme};
use tokio::task::JoinHandle;

use crate::worker::Worker;

/// The largest reply that is read to its end, so that its connection can be used again.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// Missed times that are counted. A schedule of every second misses that many in a quarter of an hour.
const SKIPPED_MAX: u64 = 1000;

/// The schedules that a worker runs. Each one is run by one worker of the process.
#[derive(Default)]
pub(crate) struct Schedules {
    running: Vec<RunningSchedule>,
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
                None => RunningSchedule::start(schedule, worker.clone()),
            });
        }
        before.iter().for_each(RunningSchedule::end);
    }

    /// Begins no more runs. True once none is under way.
    pub(crate) fn drain(&mut self) -> bool {
        self.running.iter().for_each(RunningSchedule::end);
        self.running.retain(|running| running.state.is_busy.get() && !running.task.is_finished());
        self.running.is_empty()
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
    fn start(schedule: &Schedule, worker: Rc<Worker>) -> RunningSchedule {
        let (name, timing) = (schedule.name.clone(), schedule.timing.clone());
        let state = Rc::<State>::default();
        let task = kit::spawn(run(name.clone(), timing.clone(), worker, state.clone()));
        RunningSchedule { name, timing, state, task }
    }

    fn is_of(&self, schedule: &Schedule) -> bool {
        self.name == schedule.name && self.timing == schedule.timing
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
async fn run(name: String, timing: Timing, worker: Rc<Worker>, state: Rc<State>) {
    let Some(mut due) = timing.first() else { return };
    loop {
        let Some(waiting) = find(&worker, &name, &timing) else { return };
        let is_asked = wait(&timing, &mut due, &waiting.control).await;
        let Some(schedule) = find(&worker, &name, &timing) else { return };
        state.is_busy.set(true);
        let store = worker.current().plan.store.clone();
        if (is_asked || !schedule.is_paused(store.as_deref()).await)
            && let Some(turn) = RunRight::of(&worker, &name)
        {
            schedule.control.set_running(true);
            run_once(&schedule, worker.index).await;
            schedule.control.set_running(false);
            drop(turn);
        }
        state.is_busy.set(false);
        if state.is_ending.get() {
            return;
        }
        if is_asked {
            continue;
        }
        let mut skipped = 0;
        loop {
            let Some(next) = timing.after(due) else { return };
            due = next;
            if due.wait().is_some() {
                break;
            }
            skipped += 1;
            if skipped == SKIPPED_MAX {
                let Some(first) = timing.first() else { return };
                due = first;
                break;
            }
        }
        schedule.metrics.skipped(skipped);
    }
}

/// Waits until it is due, or somebody asks for a run: true then.
async fn wait(timing: &Timing, due: &mut Due, control: &ScheduleControl) -> bool {
    let mut reading = ClockReading::now();
    while let Some(wait) = due.wait() {
        if tokio::time::timeout(wait, control.asked()).await.is_ok() {
            return true;
        }
        if let Some(other) = timing.set_back(reading) {
            (*due, reading) = (other, ClockReading::now());
        }
    }
    false
}

/// The right to run a schedule: of several gateways that share a store, one at a time has it.
struct RunRight {
    _hold: Option<Tenure>,
}

impl RunRight {
    fn of(worker: &Worker, name: &str) -> Option<RunRight> {
        let current = worker.current();
        let Some(store) = &current.plan.store else { return Some(RunRight { _hold: None }) };
        let (nodes, partition) = (store.nodes(), nodes::partition(name));
        let hold = nodes.hold(partition, nodes.standing().term);
        hold.filter(|_| nodes.has(partition)).map(|hold| RunRight { _hold: Some(hold) })
    }
}

fn find(worker: &Worker, name: &str, timing: &Timing) -> Option<Arc<Schedule>> {
    let current = worker.current();
    let is_it = |schedule: &&Arc<Schedule>| schedule.name == name && schedule.timing == *timing;
    current.plan.schedules.iter().find(is_it).cloned()
}

async fn run_once(schedule: &Schedule, worker: usize) {
    let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let caller = Rc::new(Caller::new(nowhere, nowhere, Scheme::Http, worker));
    let mut ex = Exchange::new(caller, SharedAlarm::default());
    let id = ex.id;
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
