//! A step of a flow, the trait of its action, and the loop that runs steps. [`run_steps`](crate::run_steps) adds spans and traces.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use fault::Fault;
use kit::clock;
use kit::{LocalBoxFuture, memory};
use message::{no_room, room};
use policy::Decision;
use telemetry::FlowMetrics;

use crate::levels::{ActionNeeds, Levels, Needs};
use crate::names::{NameTable, SlotMeaning};
use crate::state::{Run, State};

/// One step of a flow.
pub struct Step {
    action: Box<dyn Action>,
    /// The name that the operator gave it, or its key.
    name: Arc<str>,
    /// The configured name, or the kind and the path in the flow.
    label: Arc<str>,
    /// True if it reads the body, which is then read into memory before the step runs.
    looks: bool,
    /// True if it holds other steps.
    is_outer: bool,
    /// `Some(true)` if it uses the message, `Some(false)` if it ends the flow without using it, and `None` if the next step decides.
    uses_message: Option<bool>,
    /// The needs of this step and of the steps inside it.
    needs: Needs,
    metrics: Arc<FlowMetrics>,
}

/// Steps that run one after another. The list is shared, since several flows may run the same steps.
pub type Steps = Arc<[Step]>;

/// The action of a step. Each kind of step implements it in its file in `steps`.
pub trait Action: Send + Sync {
    /// Its own needs, without those of the steps inside it.
    fn needs(&self, levels: &Levels<'_>) -> ActionNeeds;

    /// The lists of steps inside it.
    fn inner(&self) -> Vec<&Steps> {
        Vec::new()
    }

    /// Runs the step. The body is in memory if the step needs it.
    fn run<'a>(&'a self, step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a>;

    /// The property of the flow that follows from this step.
    fn shape(&self) -> Shape<'_> {
        Shape::Other
    }
}

/// A property of a whole flow that follows from one step.
pub enum Shape<'a> {
    /// It only forwards the message to this upstream.
    PlainCall(&'a str),
    /// It only answers with the message.
    PlainRespond,
    /// The steps inside it are those of another flow.
    Sequence,
    Other,
}

/// The result of a step that has ended, or the future of one that waits.
pub type StepRun<'a> = Decision<'a, Result<StepsEnd, Fault>>;

/// The way in which a list of steps ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepsEnd {
    /// All steps ran.
    Through,
    /// One of the steps answered.
    Answered,
}

/// Returns the end of a step that did not wait. The next step follows unless this one failed.
pub(crate) fn ended(ended: Result<(), Fault>) -> StepRun<'static> {
    Decision::Ready(ended.map(|()| StepsEnd::Through))
}

/// Runs a step that may wait. The next step follows unless this one fails. `step` creates the future: if the future itself were the
/// argument, it would be moved twice.
pub(crate) fn waits<'a, S>(step: impl FnOnce() -> S + 'a) -> StepRun<'a>
where
    S: Future<Output = Result<(), Fault>> + 'a,
{
    Decision::Waits(Box::pin(async move { step().await.map(|()| StepsEnd::Through) }))
}

impl Step {
    /// A step whose expressions were compiled with the names of `table`.
    pub fn new(
        action: Box<dyn Action>,
        name: &str,
        label: &str,
        table: &NameTable,
        metrics: Arc<FlowMetrics>,
    ) -> Step {
        let own = action.needs(&Levels::of(table));
        let any = |is: fn(&SlotMeaning) -> bool| own.slots.iter().any(|slot| table.has(*slot, is));
        let asks =
            |named: &SlotMeaning| matches!(named, SlotMeaning::Request | SlotMeaning::RequestBody);
        let looks = own.content || any(SlotMeaning::looks_inside);
        let inner = action.inner();
        // Harmless: a list in which no step decides does not make this step use the message.
        let use_it = |steps: &&Steps| steps.iter().find_map(Step::uses_message).unwrap_or_default();
        let by_inner = || inner.iter().any(use_it).then_some(true);
        let uses_message = if looks { Some(true) } else { own.uses_message.or_else(by_inner) };
        let needs = Needs {
            bodies: looks || own.keeps_bodies,
            other_methods: own.other_method,
            request: any(asks),
            levels: own.levels,
        };
        let needs = needs.with(inner.iter().flat_map(|steps| steps.iter()).map(Step::needs));
        let is_outer = !inner.is_empty();
        let (name, label) = (name.into(), label.into());
        Step { looks, is_outer, uses_message, needs, action, name, label, metrics }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(crate) fn label(&self) -> &Arc<str> {
        &self.label
    }

    pub(crate) fn metrics(&self) -> &Arc<FlowMetrics> {
        &self.metrics
    }

    /// The needs of this step and of the steps inside it.
    pub(crate) fn needs(&self) -> Needs {
        self.needs
    }

    pub(crate) fn shape(&self) -> Shape<'_> {
        self.action.shape()
    }

    pub(crate) fn holds_steps(&self) -> bool {
        self.is_outer
    }

    pub(crate) fn uses_message(&self) -> Option<bool> {
        self.uses_message
    }

    /// Adds its label and those of the steps inside it, except for steps of another flow.
    pub(crate) fn labels<'s>(&'s self, all: &mut Vec<&'s str>) {
        all.push(&self.label);
        if !matches!(self.shape(), Shape::Sequence) {
            for steps in self.action.inner() {
                steps.iter().for_each(|step| step.labels(all));
            }
        }
    }

    /// Counts a run. No time is recorded for a step that holds other steps, since the inner steps record theirs.
    fn record(&self, ended: &Result<StepsEnd, Fault>, took: Duration, run: &Run<'_>) {
        let in_calls = run.waited.replace(Duration::ZERO);
        let (own, in_calls) = if self.is_outer {
            (Duration::ZERO, Duration::ZERO)
        } else {
            (took.saturating_sub(in_calls), in_calls)
        };
        let fault = ended.as_ref().err().map(|fault| fault.kind.label());
        if fault.is_some() {
            run.note_failed(self);
        }
        self.metrics.record(run.ex.caller.worker, own, in_calls, fault);
    }
}

impl Run<'_> {
    /// Records a failed step. If it holds other steps, the inner step that failed is already recorded and is kept.
    fn note_failed(&self, step: &Step) {
        let mut failed = self.failed.borrow_mut();
        if failed.is_none() || !step.holds_steps() {
            *failed = Some(step.label().clone());
        }
    }
}

/// Runs steps until one answers or fails, without spans or traces.
pub(crate) fn run_all<'a>(
    steps: &'a [Step],
    run: &'a Run<'a>,
    state: &'a mut State,
) -> LocalBoxFuture<'a, Result<StepsEnd, Fault>> {
    Box::pin(async move {
        let mut began = clock::now();
        for step in steps {
            run.began.set(Some(began));
            let ended = match memory::watch(pin!(one(step, run, state))).await {
                (ended, false) => ended,
                // Missing memory is the cause, whatever the step returned.
                (_, true) => Err(no_room()),
            };
            let now = run.ended.take().unwrap_or_else(clock::now);
            step.record(&ended, now.duration_since(began), run);
            began = now;
            if ended? == StepsEnd::Answered {
                return Ok(StepsEnd::Answered);
            }
        }
        Ok(StepsEnd::Through)
    })
}

/// Runs one step.
async fn one(step: &Step, run: &Run<'_>, state: &mut State) -> Result<StepsEnd, Fault> {
    run.waited.set(Duration::ZERO);
    if step.looks && state.message.content().is_none() {
        if state.message.arrives() {
            let began = run.began.take().unwrap_or_else(clock::now);
            state.hold(run).await?;
            run.waited.set(clock::now().duration_since(began));
        } else {
            state.hold(run).await?
        }
    }
    if step.looks
        && let Some(content) = state.message.content()
    {
        // The product of a step is usually about as large as the message.
        room(content.bytes.len())?;
    }
    match step.action.run(step, run, state) {
        Decision::Ready(ended) => ended,
        Decision::Waits(step) => step.await,
    }
}
