//! `wire_tap`: steps that run concurrently with the flow, on a copy of the message, without an answer.
//!
//! A copy is a task of its worker. Copies are limited in number and time, continue when the client has left, and end with the worker.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fault::{Fault, Kind};
use kit::clock;
use kit::task::SideWork;
use message::RequestHead;
use policy::Exchange;
use telemetry::FlowMetrics;

use crate::content::Content;
use crate::levels::{ActionNeeds, Levels};
use crate::names::Slots;
use crate::run_steps::run_steps;
use crate::state::{Run, State};
use crate::step::{Action, Step, StepRun, Steps, ended};
use crate::timeout::{flow_timeout, within};

/// Steps that run concurrently with a flow.
pub struct WireTap {
    pub steps: Steps,
    /// The limit of concurrent copies on all workers.
    pub max: usize,
    /// The timeout of a copy.
    pub timeout: Duration,
    /// The name of the flow, for the log.
    pub flow: Box<str>,
    pub permits: Arc<TapPermits>,
}

/// The counts of a step's copies in progress, and of dropped messages. They are kept across reloads.
#[derive(Debug, Default)]
pub struct TapPermits {
    taken: AtomicUsize,
    /// The number of messages dropped since the last log line.
    unreported: AtomicU64,
    /// The time of the last log line, in seconds since the Unix epoch.
    reported: AtomicU64,
}

/// A permit for a copy.
struct TapPlace(Arc<TapPermits>);

/// A copy of the message with the environment that its steps need.
struct Copy {
    steps: Steps,
    timeout: Duration,
    ex: Exchange,
    head: RequestHead,
    slots: Arc<Slots>,
    parameters: Arc<[Box<str>]>,
    route: Box<str>,
    body_bytes_max: usize,
    levels: Option<usize>,
    refuses_duplicate_members: bool,
    reads_replies: bool,
    request: Option<Rc<Content>>,
    state: State,
}

impl Action for WireTap {
    fn needs(&self, _levels: &Levels<'_>) -> ActionNeeds {
        let (levels, uses_message) = (Some(0), Some(true));
        ActionNeeds { content: true, levels, uses_message, ..ActionNeeds::default() }
    }

    fn inner(&self) -> Vec<&Steps> {
        vec![&self.steps]
    }

    fn run<'a>(&'a self, step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        tap(self, step, run, state);
        ended(Ok(()))
    }
}

impl TapPermits {
    fn take(self: &Arc<Self>, max: usize) -> Option<TapPlace> {
        let more = |taken: usize| (taken < max).then_some(taken + 1);
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| TapPlace(self.clone()))
    }

    /// Counts a dropped message. Returns the number of unreported messages at most once a second, for a log line.
    fn dropped(&self) -> Option<u64> {
        self.unreported.fetch_add(1, Ordering::Relaxed);
        let now = clock::wall().as_secs();
        let is_due = self.reported.swap(now, Ordering::Relaxed) != now;
        is_due.then(|| self.unreported.swap(0, Ordering::Relaxed))
    }
}

impl Drop for TapPlace {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts the steps with a copy of the message, if there is a permit.
fn tap(made: &WireTap, step: &Step, run: &Run<'_>, state: &State) {
    let worker = run.ex.caller.worker;
    let (flow, label) = (&*made.flow, &**step.label());
    // Harmless: the message is counted as dropped below.
    let Some(place) = made.permits.take(made.max) else {
        step.metrics().dropped(worker);
        if let Some(count) = made.permits.dropped() {
            let max = made.max;
            tracing::warn!(
                flow,
                step = label,
                "{count} messages were not copied: {max} copies are in progress"
            );
        }
        return;
    };
    let copy = Copy {
        steps: made.steps.clone(),
        timeout: made.timeout,
        ex: beside(run.ex),
        head: run.head.clone(),
        slots: run.slots.clone(),
        parameters: run.parameters.clone(),
        route: run.route.into(),
        body_bytes_max: run.body_bytes_max,
        levels: run.levels,
        refuses_duplicate_members: run.refuses_duplicate_members,
        reads_replies: run.reads_replies,
        request: run.request.borrow().clone(),
        state: state.copy(0),
    };
    let (metrics, work) = (step.metrics().clone(), SideWork::begin());
    let (flow, label): (Box<str>, Arc<str>) = (flow.into(), step.label().clone());
    drop(kit::spawn(async move {
        // Harmless: both are moved into the task only to be held until it ends.
        let _held = (place, work);
        let id = copy.ex.id;
        let ran = {
            let running = pin!(kit::turns::in_turns(copy.run()));
            kit::task::contain(running).await
        };
        let ran =
            ran.unwrap_or_else(|panic| Err(Fault::new(Kind::Internal, format!("panic: {panic}"))));
        if let Err(fault) = ran {
            failed(&fault, &metrics, worker);
            tracing::warn!(
                request_id = id.as_str(),
                flow = &*flow,
                step = &*label,
                "a copy failed: {fault}"
            );
        }
    }));
}

fn failed(fault: &Fault, metrics: &FlowMetrics, worker: usize) {
    metrics.fault(worker, fault.kind.label());
}

/// An exchange for a copy: with the identity of the original, and without its connection to the client.
fn beside(ex: &Exchange) -> Exchange {
    let mut own = Exchange::new(ex.caller.clone(), kit::SharedAlarm::default());
    own.id = ex.id;
    own.client = ex.client;
    own.peer_trusted = ex.peer_trusted;
    own.parameters = ex.parameters.clone();
    own.rest = ex.rest;
    own.prefix = ex.prefix;
    own.identity = ex.identity.clone();
    own.trace = ex.trace.clone();
    own
}

impl Copy {
    async fn run(self) -> Result<(), Fault> {
        let Copy { steps, timeout, ex, head, mut state, .. } = self;
        let mut run = Run::new(&ex, &head, &self.slots, &self.parameters, self.body_bytes_max);
        run.route = &self.route;
        run.levels = self.levels;
        run.refuses_duplicate_members = self.refuses_duplicate_members;
        run.reads_replies = self.reads_replies;
        run.request = RefCell::new(self.request);
        state.deadline = clock::now().checked_add(timeout).unwrap_or_else(clock::now);
        state.part = None;
        // The replies to a copy do not affect a `cache` around the step.
        state.noted = None;
        // A copy may continue after the transaction has ended.
        state.transactions.clear();
        let ran = {
            let running = run_steps(&steps, &run, &mut state);
            within(timeout, pin!(running)).await
        };
        ran.unwrap_or_else(|| Err(flow_timeout())).map(|_| ())
    }
}
